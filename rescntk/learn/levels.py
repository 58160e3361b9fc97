"""Levels and sizes of training signals, and how far others are from them."""

from __future__ import annotations

import numpy as np

from .fitted_view import shares_of
from .inputs import Signals, arrays

_LEAST_SPREAD = 0.1  # least deviation of levels, in deviations inside of signals; of log2 of sizes


class TrainingLevels:
    """Levels and sizes of training signals X with weights, (n_cases,).

    A signal's level is its mean, and its size log2 of its mean magnitude, of each channel. The unit
    of sizes is two deviations. One of twenty training signals has a distance of levels above 1, if
    that is more than a deviation.
    """

    def __init__(self, X: Signals, weights: np.ndarray) -> None:
        values = _levels_and_sizes(X)
        self.mean = np.average(values, axis=0, weights=weights)
        level, size = np.sqrt(np.average((values - self.mean) ** 2, axis=0, weights=weights))
        deviations = np.reshape([x.std(axis=-1) for x in arrays(X)], (len(X), -1))
        inside = np.average(deviations, axis=0, weights=weights)
        level = np.maximum(level, _LEAST_SPREAD * inside)
        self.unit = np.stack([np.where(level > 0, level, np.inf), 2 * (size + _LEAST_SPREAD)])
        left_out = self.distances(X)[0] / (1.0 - shares_of(weights))
        most = np.quantile(left_out, 0.95, weights=weights, method="inverted_cdf")
        self.unit[0] *= max(1.0, most)

    def distances(self, X: Signals) -> np.ndarray:
        """Return the distances of levels and of sizes from the usual ones, (2, n_cases)."""
        deviations = (_levels_and_sizes(X) - self.mean) / self.unit
        with np.errstate(over="ignore"):  # infinitely far
            return np.sqrt(np.mean(deviations**2, axis=2)).T


def _levels_and_sizes(X: Signals) -> np.ndarray:
    """Return the level and the size of each channel of signals, (n_cases, 2, n_channels)."""
    pairs = [np.stack([x.mean(axis=-1), np.abs(x).mean(axis=-1)], axis=-2) for x in arrays(X)]
    values = np.reshape(pairs, (len(X), 2, -1))
    values[:, 1] = np.log2(np.maximum(values[:, 1], np.finfo(np.float64).tiny))
    return values
