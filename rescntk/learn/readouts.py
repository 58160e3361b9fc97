"""What reads predictions off a kernel matrix: ridge regression, support vector machines.

Both take targets as columns: for a classifier ±1, one column for two classes, else one for each
class against the rest. Decisions are ``K @ coefficients + intercepts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.svm import SVC

from ..regression import Decomposition, decompose


class Readout(NamedTuple):
    """Coefficients (n_cases, n_outputs) and intercepts (n_outputs,) of a fitted readout."""

    coefficients: np.ndarray
    intercepts: np.ndarray

    def __call__(self, K: np.ndarray) -> np.ndarray:
        """Return decisions (m_cases, n_outputs) from K (m_cases, n_cases)."""
        return K @ self.coefficients + self.intercepts


class RidgePath:
    r"""Kernel ridge regression with an intercept, for any number of penalties at once.

    The minimizer of :math:`\|Y - K A - 1 b^T\|^2 + \lambda m \operatorname{tr} A^T K A`, with m
    the mean of K's diagonal, so that λ has no unit; by one eigendecomposition
    (`rescntk.regression.Decomposition`), which gives leaving one out for nothing. The unit m is
    that of all signals, also where one is left out.

    Eigenvalues that rounding errors took below 0 are taken as 0 (more than rounding errors of
    K's dtype are refused): what is left of an eigenvalue is at least the penalty.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
        In the dtype in which it was computed, which says how exact it is.
    Y : ndarray, (n_cases, n_outputs)
    """

    def __init__(self, K: np.ndarray, Y: np.ndarray) -> None:
        self.unit, self.Y = unit(K), Y
        found = decompose(K / self.unit)
        values = np.maximum(found.eigenvalues, 0.0)
        self.spectrum = Decomposition(values, found.eigenvectors, float(np.finfo(float).eps))

    def fit(self, penalty: float) -> Readout:
        """Return the readout for one penalty."""
        coefficients, intercepts = self.spectrum.with_intercept(self.Y, penalty)
        return Readout(coefficients / self.unit, intercepts)

    def residuals(self, penalties: Any) -> np.ndarray:
        """Return targets minus decisions of the readout fitted without each case.

        (n_cases, n_outputs), with an axis (n_penalties,) in front where there are several.
        """
        return self.spectrum.leave_one_out(self.Y, penalties, intercept=True)

    def left_out(self, penalty: float) -> np.ndarray:
        """Return the decision at each case of the readout fitted without it."""
        return self.Y - self.residuals(penalty)


def unit(K: np.ndarray) -> float:
    """Return the mean of a kernel matrix' diagonal, in which penalties and C are given."""
    return float(np.mean(np.diagonal(K), dtype=np.float64)) or 1.0


def ridge(K: np.ndarray, Y: np.ndarray, penalty: float) -> Readout:
    """Return ridge regression for one penalty; the arguments are those of `RidgePath`."""
    return RidgePath(K, Y).fit(penalty)


def support_vectors(K: np.ndarray, Y: np.ndarray, C: float) -> Readout:
    """Return support vector machines, one for each column of ±1.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
        It is divided by the mean of its diagonal first, so that C has no unit.
    Y : ndarray, (n_cases, n_outputs)
        A column with one sign alone gives that sign as its decision.
    C : float
    """
    scale = unit(K)
    K = K.astype(np.float64) / scale
    coefficients, intercepts = np.zeros(Y.shape), np.zeros(Y.shape[1])
    for column, signs in enumerate(Y.T):
        if (signs == signs[0]).all():
            intercepts[column] = signs[0]
            continue
        machine = SVC(kernel="precomputed", C=C).fit(K, signs)
        coefficients[machine.support_, column] = machine.dual_coef_[0] / scale
        intercepts[column] = machine.intercept_[0]
    return Readout(coefficients, intercepts)


def held_out(
    K: np.ndarray,
    Y: np.ndarray,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    fit: Callable[[np.ndarray, np.ndarray], Readout],
) -> np.ndarray:
    """Return the decision at each case of the readout ``fit(K, Y)`` without its fold."""
    decisions = np.zeros(Y.shape)
    for rest, fold in folds:
        readout = fit(K[np.ix_(rest, rest)], Y[rest])
        decisions[fold] = readout(K[np.ix_(fold, rest)])
    return decisions


def margins(decisions: np.ndarray) -> np.ndarray:
    """Return one column for each class, also for two classes that share one."""
    if decisions.shape[1] > 1:
        return decisions
    return np.hstack([-decisions, decisions])


def probabilities(decisions: np.ndarray, sharpness: float) -> np.ndarray:
    """Return class probabilities: softmax of the decisions times `sharpness`."""
    return softmax(sharpness * margins(decisions), axis=1)


def calibrate(decisions: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the sharpness of `probabilities` that suits held-out decisions, and its losses.

    The one number minimizes the mean cross-entropy (temperature scaling; Guo et al. 2017), so
    that probabilities and decisions rank classes alike. Labels are smoothed, which keeps it
    finite where all held-out decisions are right: as if one case more were right and one wrong,
    a class has the probability (n + 1)/(n + 2), the others share 1/(n + 2). For two classes that
    is Platt's (1999) rule.

    Parameters
    ----------
    decisions : ndarray, (n_cases, n_outputs)
        Of readouts that did not see the case.
    labels : ndarray of int, (n_cases,)

    Returns
    -------
    sharpness : float
        1 where there are no cases.
    losses : ndarray, (n_cases,)
        The cross-entropy of each case, in nats.
    """
    columns = margins(decisions)
    n, n_classes = columns.shape
    if n == 0:
        return 1.0, np.zeros(0)
    targets = np.full(columns.shape, 1.0 / ((n + 2) * (n_classes - 1)))
    targets[np.arange(n), labels] = (n + 1) / (n + 2)

    def losses(log_sharpness: float) -> np.ndarray:
        return -(targets * log_softmax(np.exp(log_sharpness) * columns, axis=1)).sum(axis=1)

    best = minimize_scalar(lambda s: losses(s).mean(), bounds=(-10.0, 10.0), method="bounded")
    return float(np.exp(best.x)), losses(best.x)


def one_against_rest(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets ±1: one column for two classes, else one for each."""
    signs = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1.0
    return signs[:, 1:] if n_classes == 2 else signs
