"""Weights of views, overall and at each signal, and how their novelties are averaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from ..reading.cases import unit_sum
from .results import averaged
from .targets import Targets

_N_FOLDS = 10
"""Number of folds. The weights of views at a fold come from the errors of the other folds."""

_NEGLIGIBLE = 0.02
"""The least weights become 0, up to this sum, so that their views need not be computed."""

_ERROR_POWER = 4.0
"""Power of errors in w₀, the weights near which those of views stay. It was chosen by signals with
noise of a twentieth of their deviation (`benchmarks/constants.py`): the log loss is .118 with 0,
.114 with 4 and .133 with 12. On signals that drift, the power 0 is best: .184
with 0, .191 with 4 and .210 with 12."""

_NOVELTY_POWER = 3.0
"""Power of novelties above 1 in weights at a signal. The accuracy on the same signals is .966 with
2, .968 with 3 and .968 with 4; with twice the noise it is .968, .967 and .965."""

_LEVEL_POWER = 8.0
"""Power of distances of levels above 1, in weights of views that depend on levels. The accuracy on
signals whose levels drift by half a deviation (`benchmarks/constants.py`) is .931 with 0, and .943
with 8."""


def folds_of(groups: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return the number of each case's fold, (n_cases,): a group is in one fold.

    `groups` are numbers of groups, (n_cases,).
    """
    return (rng.permutation(groups.max() + 1) % _N_FOLDS)[groups]


def weights_of_one_regression(residuals: np.ndarray, error_weights: np.ndarray) -> np.ndarray:
    r"""Return the overall weights of views, (n_views,), for a regression of one or more outputs.

    Its residuals are (n_views, n_cases, n_outputs). The matrix G has the sums of products of the
    residuals of two views, in which cases count with `error_weights`; e is its diagonal. The
    weights w, at least 0 and of sum 1, minimize the squared error of the average, and stay near
    :math:`w_0 \propto e^{-4}`: the minimum is that of :math:`w^\top G w + \min e\, \|w - w_0\|^2`.
    The least weights become 0, up to a sum of .02.
    """
    weighted_residuals = (residuals * np.sqrt(unit_sum(error_weights))[:, None]).reshape(
        len(residuals), -1
    )
    errors = (weighted_residuals**2).sum(axis=1)
    least = max(errors.min(), np.finfo(np.float64).eps * errors.max()) or 1.0
    w0 = (np.maximum(errors, least) / least) ** -_ERROR_POWER
    w0 /= w0.sum()
    # wᵀGw is ‖Rᵀw‖² of the rows R of weighted residuals, and w − w₀ is (I − w₀1ᵀ)w where 1ᵀw = 1.
    # The last of these least squares, 1ᵀw = 1, changes the scale of w and not its direction.
    ones = np.ones(len(errors))
    difference_from_w0 = np.eye(len(errors)) - np.outer(w0, ones)
    system = np.vstack([weighted_residuals.T / np.sqrt(least), difference_from_w0, ones])
    weights = nnls(system, np.append(np.zeros(len(system) - 1), 1.0))[0]
    weights /= weights.sum()
    rising = np.argsort(weights, kind="stable")
    weights[rising[np.cumsum(weights[rising]) < _NEGLIGIBLE]] = 0.0
    return weights / weights.sum()


def overall_weights(residuals: np.ndarray, targets: Targets) -> np.ndarray:
    """Return the weights of views, (n_views, n_regressions), at signals that are novel to no view.

    The residuals of cases left out are (n_views, n_cases, n_outputs).
    """
    return np.stack(
        [
            weights_of_one_regression(part, targets.error_weights)
            for part in targets.split(residuals)
        ],
        axis=1,
    )


def weights_at_signals(
    overall: np.ndarray,
    view_novelties: np.ndarray,
    level_distances: np.ndarray,
    depends_on_levels: Sequence[bool] | np.ndarray,
) -> np.ndarray:
    """Return the views' weights at signals, (n_views, n_cases, n_regressions), of sum 1 over views.

    The `overall` weights are (n_views, n_regressions). A view has less weight at a signal that is
    novel to it, by `view_novelties` (n_views, n_cases, n_regressions), and a view that depends on
    levels has less where these are far away, by `level_distances` (n_cases,).
    """
    bounded_novelty = np.maximum(1.0, view_novelties)
    relative_novelty = bounded_novelty / bounded_novelty.min(axis=0)
    products = overall[:, None] * relative_novelty**-_NOVELTY_POWER
    level_factors = np.clip(level_distances, 1.0, 1e9) ** -_LEVEL_POWER
    products *= np.where(np.reshape(depends_on_levels, (-1, 1)), level_factors, 1.0)[:, :, None]
    return products / products.sum(axis=0)


def mean_novelty(view_novelties: np.ndarray, view_errors: np.ndarray) -> np.ndarray:
    """Return the novelty of signals to all views, (n_cases,): a geometric mean.

    The novelties to each view are (n_views, n_cases, n_regressions). Powers of views are
    proportional to their inverse errors, (n_views, n_regressions), and regressions count alike.
    """
    logs = []
    for novelties, errors in zip(np.moveaxis(view_novelties, 2, 0), view_errors.T, strict=True):
        least = np.finfo(np.float64).eps * (errors.max() or 1.0)
        logs.append(unit_sum(1.0 / np.maximum(errors, least)) @ np.log(novelties))
    return np.asarray(np.exp(np.mean(logs, axis=0)))


def residuals_of_folds(
    residuals: np.ndarray,
    targets: Targets,
    folds: np.ndarray,
    view_novelties: np.ndarray,
    level_distances: np.ndarray,
    depends_on_levels: Sequence[bool] | np.ndarray,
) -> np.ndarray:
    """Return the residuals of the averaged decisions, (n_cases, n_outputs).

    The overall weights of views at a fold come from the errors of the other folds; `folds` are
    numbers of folds, (n_cases,). Other arguments are as for `overall_weights` and
    `weights_at_signals`.
    """
    fold_residuals = np.zeros(residuals.shape[1:])
    for fold in np.unique(folds):
        inside = folds == fold
        other_targets = targets._replace(error_weights=np.where(inside, 0.0, targets.error_weights))
        weights = weights_at_signals(
            overall_weights(residuals, other_targets),
            view_novelties[:, inside],
            level_distances[inside],
            depends_on_levels,
        )
        fold_residuals[inside] = averaged(residuals[:, inside], weights)
    return fold_residuals
