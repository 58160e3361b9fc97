"""Levels and sizes of training signals, and how far others are from them."""

from __future__ import annotations

import numpy as np

from ..reading.cases import unit_sum
from ..reading.signals import Signals, arrays

_LEAST_LEVEL_UNIT = 0.1
"""Least unit of levels, in mean deviations inside of signals: equal levels have no unit."""

_ADDED_TO_SIZES = 0.1
"""What is added to the deviation of sizes, which are binary logarithms, to make their unit."""


class TrainingLevels:
    """Levels and sizes of training signals X with weights, (n_cases,).

    Each channel of a signal has a level, its mean, and a size, log2 of its mean magnitude. Their
    units are (2, n_channels). The unit of levels is a deviation, or more: at most one of twenty
    training signals, left out, is farther than 1 from the mean. The unit of sizes is two
    deviations.
    """

    def __init__(self, X: Signals, weights: np.ndarray) -> None:
        values = _levels_and_sizes(X)
        self.mean = np.average(values, axis=0, weights=weights)
        level, size = np.sqrt(np.average((values - self.mean) ** 2, axis=0, weights=weights))
        deviations = np.reshape([x.std(axis=-1) for x in arrays(X)], (len(X), -1))
        inside = np.average(deviations, axis=0, weights=weights)
        level = np.maximum(level, _LEAST_LEVEL_UNIT * inside)
        self.unit = np.stack([np.where(level > 0, level, np.inf), 2 * (size + _ADDED_TO_SIZES)])
        left_out = self.distances(X)[0] / (1.0 - unit_sum(weights))
        most = np.quantile(left_out, 0.95, weights=weights, method="inverted_cdf")
        self.unit[0] *= max(1.0, most)

    def distances(self, X: Signals) -> np.ndarray:
        """Return the distances of levels and of sizes from the training signals', (2, n_cases)."""
        deviations = (_levels_and_sizes(X) - self.mean) / self.unit
        with np.errstate(over="ignore"):  # infinitely far
            return np.sqrt(np.mean(deviations**2, axis=2)).T


def _levels_and_sizes(X: Signals) -> np.ndarray:
    """Return the level and the size of each channel of signals, (n_cases, 2, n_channels)."""
    pairs = [np.stack([x.mean(axis=-1), np.abs(x).mean(axis=-1)], axis=-2) for x in arrays(X)]
    values = np.reshape(pairs, (len(X), 2, -1))
    values[:, 1] = np.log2(np.maximum(values[:, 1], np.finfo(np.float64).tiny))
    return values
