"""Weights of passes: by their errors at signals left out, and by how usual a new signal is.

A pass has less weight at a signal that is novel to it. Noise is novel to passes that see fast
changes, and a drift of levels to passes that see levels. Passes that see levels also have less
weight where a signal's levels are far from the training signals'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import nnls

from .fitted_pass import FittedPass

_POWER = 4.0
"""Exponent of leave-one-out errors in the weights that `weigh` starts from; a pure number. Raising
it comes closer to choosing one pass. Measured on random parts of training sets
(classification_tried.md), mean accuracy: .863 with 0, .877 with 2, .880 with 4, .879 with 6, .876
with 8, .872 with 12."""

_TOWARDS = 1.0
"""Factor of the squared distance from these weights, in units of the least squared error. Raising
it keeps weights nearer to them. Measured where `PLAN` was chosen, mean accuracy and with noise
of .1: .889 and .879 with .3, .893 and .884 with 1, .891 and .885 with 3, .889 and .885 with w₀."""

_LEFT_OUT = 0.02
"""Largest sum of weights of passes that are left out. Raising it predicts in less time, from fewer
passes. Chosen: decisions change by less than a fiftieth of the passes' differences. Measured,
mean accuracy: .8580 with 0, .8576 with .02, .8567 with .05."""

_NOVELTY_POWER = 2.0
"""Exponent of novelties above 1 in weights at a signal; a pure number. Raising it discounts
passes sooner. Measured by ten-fold cross-validation on eight training sets, passes of "fast", mean
accuracies without noise and with noise of .1: .927 and .766 with 0, .925 and .842 with 1, .927 and
.855 with 2, .924 and .855 with 4."""

_DRIFT_POWER = 8.0
"""Exponent of novelties, and of distances of levels, in weights: above what one of twenty training
signals exceeds; a pure number. Raising it lets passes that find a signal unusual by their own
experience step back sooner. Measured on training sets and on processes that drift
(classification_tried.md)."""


def weigh(residuals: np.ndarray, error_weights: np.ndarray) -> np.ndarray:
    r"""Return the weights of passes by their residuals (n_passes, n_cases, n_outputs), (n_passes,).

    Residuals are targets minus decisions at signals left out. G are their mean products, where
    cases count with `error_weights`, and e = diag G are the passes' errors. The weights w minimize
    :math:`w^\top G w + \min e\, \|w - w_0\|^2`. They are at least 0, and their sum is 1. The
    first term is the squared error of the passes' mean; w₀ is proportional to e^-4. The least
    weights become 0, as long as their sum is below .02.
    """
    shares = error_weights / (error_weights.sum() or 1.0)
    rows = (residuals * np.sqrt(shares / residuals.shape[2])[:, None]).reshape(len(residuals), -1)
    errors = (rows**2).sum(axis=1)
    unit = max(errors.min(), np.finfo(np.float64).eps * errors.max())
    if unit == 0.0:
        return np.full(len(errors), 1.0 / len(errors))
    near = (np.maximum(errors, unit) / unit) ** -_POWER
    near /= near.sum()
    # Least squares with the last row 1ᵀw = 1: any scale of w has the minimum's direction.
    values, vectors = np.linalg.eigh(rows @ rows.T / unit)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    ones = np.ones(len(errors))
    distance = np.sqrt(_TOWARDS) * (np.eye(len(errors)) - np.outer(near, ones))
    weights = nnls(np.vstack([root, distance, ones]), np.append(np.zeros(2 * len(errors)), 1.0))[0]
    weights /= weights.sum()
    rising = np.argsort(weights, kind="stable")
    weights[rising[np.cumsum(weights[rising]) < _LEFT_OUT]] = 0.0
    return weights / weights.sum()


def _discounts(
    novelties: np.ndarray, distances: np.ndarray, passes: Sequence[FittedPass]
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield ratios, (n_passes, n_cases), and powers: above 1, weights fall with each ratio's power.

    Ratios are novelties; novelties by the passes' lines; and where passes see levels, distances of
    levels (`UsualSignals.distances`).
    """
    yield novelties, _NOVELTY_POWER
    yield novelties / np.array([fitted.line for fitted in passes])[:, None], _DRIFT_POWER
    see_levels = np.array([fitted.source.view.sees_levels for fitted in passes])
    yield np.where(see_levels[:, None], distances, 1.0), _DRIFT_POWER


def weights_at(
    weights: np.ndarray, novelties: np.ndarray, distances: np.ndarray, passes: Sequence[FittedPass]
) -> np.ndarray:
    """Return the passes' weights at signals, (n_passes, n_cases); sums over passes are 1."""
    products = weights[:, None]
    for ratio, power in _discounts(novelties, distances, passes):
        products = products * np.maximum(1.0, ratio) ** -power
    return products / products.sum(axis=0)


def weights_at_slopes(
    at_signals: np.ndarray,
    novelties: np.ndarray,
    slopes: np.ndarray,
    distances: np.ndarray,
    passes: Sequence[FittedPass],
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives by novelties, (n_passes, n_cases), and by distances of levels, (n_cases,).

    They come from derivatives by `weights_at`, (n_passes, n_cases), which returned `at_signals`.
    """
    by_logarithm = at_signals * (slopes - (at_signals * slopes).sum(axis=0))
    by_novelty, by_line, by_level = (
        -power * (ratio > 1.0) * by_logarithm
        for ratio, power in _discounts(novelties, distances, passes)
    )
    by_distance = by_level.sum(axis=0) / np.maximum(1.0, distances)
    return (by_novelty + by_line) / novelties, by_distance
