"""Levels and sizes of training signals, and how far others are from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..reading.cases import unit_sum
from ..reading.signals import Signals, arrays
from ..views.steps import ROUNDING

_LEAST_LEVEL_UNIT = 0.1
"""Least unit of levels, in mean deviations inside of signals: equal levels have no unit."""

_ADDED_TO_SIZES = 0.1
"""What is added to the deviation of sizes, which are binary logarithms, to make their unit."""


@dataclass(frozen=True, eq=False)
class TrainingLevels:
    """Levels and sizes of training signals, with the units of distances from them.

    Each channel of a signal has a level, its mean, and two sizes: log2 of its mean magnitude, and
    log2 of its deviation from its mean. The unit of a level is its deviation over signals, that of
    a size twice its deviation and .2. The distance of levels is their root mean square over
    channels, and that of sizes the largest one of all channels. Units of levels, and of sizes, are
    magnified together so that at most one of twenty training signals, left out, is farther than 1.

    The level of a channel that has one value c in all training signals has no unit, and its
    distance is 0. The magnitude of such a channel is the mean of |c| + |x − c|, so that the sizes
    of −c are as far as those of 3c.
    """

    means: np.ndarray
    """Means of the level and both sizes, (3, n_channels), over the training signals."""
    units: np.ndarray
    """(3, n_channels)"""
    constants: np.ndarray
    """(n_channels,): the value c of a channel that is constant, 0 of others."""

    @classmethod
    def of(cls, X: Signals, weights: np.ndarray) -> Self:
        """Return the levels and sizes of training signals X with weights, (n_cases,)."""
        no_constants = np.zeros(len(X[0]))  # which channels are constant is not known yet
        levels_and_sizes = _levels_and_sizes(X, no_constants)
        means = np.average(levels_and_sizes, axis=0, weights=weights)
        squares = (levels_and_sizes - means) ** 2
        level, *sizes = np.sqrt(np.average(squares, axis=0, weights=weights))
        deviations = np.reshape([x.std(axis=-1) for x in arrays(X)], (len(X), -1))
        inside = np.average(deviations, axis=0, weights=weights)
        level = np.maximum(level, _LEAST_LEVEL_UNIT * inside)
        magnitudes = np.reshape([np.abs(x).max(axis=-1) for x in arrays(X)], (len(X), -1))
        is_constant = level <= ROUNDING * magnitudes.max(axis=0)
        size_units = [2 * (size + _ADDED_TO_SIZES) for size in sizes]
        units = np.stack([np.where(is_constant, np.inf, level), *size_units])
        left_out = _distances((levels_and_sizes - means) / units) / (1.0 - unit_sum(weights))
        level_limit, size_limit = (
            max(1.0, np.quantile(distances, 0.95, weights=weights, method="inverted_cdf"))
            for distances in left_out
        )
        units *= np.reshape([level_limit, size_limit, size_limit], (3, 1))
        return cls(means, units, np.where(is_constant, means[0], 0.0))

    def distances(self, X: Signals) -> np.ndarray:
        """Return the distances of levels and of sizes from the training signals', (2, n_cases)."""
        return _distances((_levels_and_sizes(X, self.constants) - self.means) / self.units)


def _distances(deviations: np.ndarray) -> np.ndarray:
    """Return the distances of levels and of sizes, (2, n_cases).

    Their deviations from means, (n_cases, 3, n_channels), are in units.
    """
    with np.errstate(over="ignore"):  # infinitely far
        levels = np.sqrt(np.mean(deviations[:, 0] ** 2, axis=1))
    return np.stack([levels, np.abs(deviations[:, 1:]).max(axis=(1, 2))])


def _levels_and_sizes(X: Signals, constants: np.ndarray) -> np.ndarray:
    """Return the level and both sizes of each channel of signals, (n_cases, 3, n_channels).

    A deviation that may be a rounding error counts as the largest rounding error.
    """
    constants = constants[:, None]
    levels_and_sizes = []
    for x in arrays(X):
        largest = np.abs(x).max(axis=-1, keepdims=True)
        unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)  # squares of x / unit stay in float64
        deviation = (x / unit).std(axis=-1) * unit[..., 0]
        magnitudes = np.abs(constants) + np.abs(x - constants)
        least = np.maximum(ROUNDING * largest[..., 0], np.finfo(np.float64).tiny)
        sizes = magnitudes.mean(axis=-1), deviation
        logs = (np.log2(np.maximum(size, least)) for size in sizes)
        levels_and_sizes.append(np.stack([x.mean(axis=-1), *logs], axis=-2))
    return np.reshape(levels_and_sizes, (len(X), 3, -1))
