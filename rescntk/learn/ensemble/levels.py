"""Levels and sizes of training signals, and how far others are from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from ..reading.cases import unit_sum
from ..reading.signals import Signals, as_arrays
from ..views.steps import ROUNDING

_LEAST_LEVEL_UNIT = 0.1
"""Least unit of levels, in units of the mean deviation inside signals: levels may be all equal."""

_ADDED_TO_SIZES = 0.1
"""What is added to the deviation of sizes, which are binary logarithms, before it is doubled."""


class Distances(NamedTuple):
    """How far signals are from the training signals: a distance above 1 is far."""

    levels: np.ndarray
    """The root mean square of the distances of levels over channels, (n_cases,)."""
    sizes: np.ndarray
    """The largest distance of sizes of all channels, (n_cases,)."""


@dataclass(frozen=True, eq=False)
class LevelsAndSizes:
    """Means of the levels and sizes of training signals, and units of distances from them.

    Each channel of a signal has a level, its mean, and two sizes: log2 of its mean magnitude, and
    log2 of its deviation from its mean. The unit of a level is its deviation over signals, and the
    unit of a size is .2 plus twice its deviation. The units of all levels are magnified by one
    factor, and those of all sizes by another, so that at most one of twenty training signals, left
    out, is farther than 1.

    All signals are in the units in which views see them: their squares are in float64.

    The level of a channel that has one value c in all training signals has no unit, and its
    distance is 0. The magnitude of such a channel is the mean of |c| + |x − c|, so that the sizes
    of −c are as far as those of 3c.
    """

    means: np.ndarray
    """Means of the level and both sizes, (3, n_channels), over the training signals."""
    units: np.ndarray
    """Units of distances from these means, (3, n_channels)."""
    constants: np.ndarray
    """The value c of a channel that is constant in all training signals, 0 for others,
    (n_channels,)."""

    @classmethod
    def of(cls, X: Signals, weights: np.ndarray) -> Self:
        """Return the levels and sizes of training signals X with weights, (n_cases,)."""
        no_constants = np.zeros(len(X[0]))  # which channels are constant is not known yet
        levels_and_sizes = _levels_and_sizes(X, no_constants)
        means = np.average(levels_and_sizes, axis=0, weights=weights)
        squares = (levels_and_sizes - means) ** 2
        deviation_of_levels, *deviations_of_sizes = np.sqrt(
            np.average(squares, axis=0, weights=weights)
        )
        deviations_inside = np.reshape([x.std(axis=-1) for x in as_arrays(X)], (len(X), -1))
        mean_inside = np.average(deviations_inside, axis=0, weights=weights)
        level_unit = np.maximum(deviation_of_levels, _LEAST_LEVEL_UNIT * mean_inside)
        largest = np.reshape([np.abs(x).max(axis=-1) for x in as_arrays(X)], (len(X), -1)).max(
            axis=0
        )
        is_constant = level_unit <= ROUNDING * largest
        size_units = [2 * (deviation + _ADDED_TO_SIZES) for deviation in deviations_of_sizes]
        units = np.stack([np.where(is_constant, np.inf, level_unit), *size_units])
        # The mean of all signals but one is farther from that one than the mean of all.
        left_out = (
            distances / (1.0 - unit_sum(weights))
            for distances in _distances((levels_and_sizes - means) / units)
        )
        level_limit, size_limit = (
            max(1.0, np.quantile(distances, 0.95, weights=weights, method="inverted_cdf"))
            for distances in left_out
        )
        units *= np.reshape([level_limit, size_limit, size_limit], (3, 1))
        return cls(means, units, np.where(is_constant, means[0], 0.0))

    def distances(self, X: Signals) -> Distances:
        """Return the distances of the levels and of the sizes of signals from these means."""
        return _distances((_levels_and_sizes(X, self.constants) - self.means) / self.units)


def _distances(standardized: np.ndarray) -> Distances:
    """Return the distances of signals.

    `standardized` has their levels and sizes less the means, in units, (n_cases, 3, n_channels).
    """
    with np.errstate(over="ignore"):  # a distance may be infinite
        levels = np.sqrt(np.mean(standardized[:, 0] ** 2, axis=1))
    return Distances(levels, np.abs(standardized[:, 1:]).max(axis=(1, 2)))


def _levels_and_sizes(X: Signals, constants: np.ndarray) -> np.ndarray:
    """Return the level and both sizes of each channel of signals, (n_cases, 3, n_channels).

    A deviation that may be a rounding error counts as the largest rounding error.
    """
    constants = constants[:, None]
    levels_and_sizes = []
    for x in as_arrays(X):
        largest = np.abs(x).max(axis=-1, keepdims=True)
        unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)  # squares of x / unit stay in float64
        deviation = (x / unit).std(axis=-1) * unit[..., 0]
        magnitudes = np.abs(constants) + np.abs(x - constants)
        least = np.maximum(ROUNDING * largest[..., 0], np.finfo(np.float64).tiny)
        sizes = magnitudes.mean(axis=-1), deviation
        logs = (np.log2(np.maximum(size, least)) for size in sizes)
        levels_and_sizes.append(np.stack([x.mean(axis=-1), *logs], axis=-2))
    return np.reshape(levels_and_sizes, (len(X), 3, -1))
