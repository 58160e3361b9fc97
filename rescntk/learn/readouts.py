"""Readouts of a kernel matrix: ridge regression, support vector machines, and their calibration.

Decisions are ``K @ coefficients + intercepts``. Both readouts take targets as columns. A
classifier's targets are ±1: one column for two classes, else one column for each class against
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.svm import SVC

from ..regression import Decomposition, decompose

_LOG_BOUNDS = (-10.0, 10.0)
"""Range of the logarithm of the inverse temperature. Widening it lets probabilities come closer
to 0, 1 and 1/n_classes. Chosen far beyond decisions of order 1, not measured."""


class Readout(NamedTuple):
    """Coefficients (n_cases, n_outputs) and intercepts (n_outputs,) of a fitted readout."""

    coefficients: np.ndarray
    intercepts: np.ndarray

    def __call__(self, K: np.ndarray) -> np.ndarray:
        """Return decisions (m_cases, n_outputs) from K (m_cases, n_cases)."""
        return K @ self.coefficients + self.intercepts


class RidgePath:
    r"""Kernel ridge regression with an intercept, for any number of penalties at once.

    The minimizer of :math:`\|Y - K A - 1 b^T\|^2 + \lambda m \operatorname{tr} A^T K A`. The
    unit m is the mean of K's diagonal, so that λ has no unit. One eigendecomposition
    (`rescntk.regression.Decomposition`) serves all penalties, and gives leave-one-out residuals
    too. Where a case is left out, m stays the mean over all cases.

    Eigenvalues that rounding errors took below 0 are taken as 0. Eigenvalues below the rounding
    errors of K's dtype are refused.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
        Kernel matrix, in the dtype in which it was computed: the dtype sets the rounding errors.
    Y : ndarray, (n_cases, n_outputs)
        Targets.
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

    def residuals(self, penalties: float | Sequence[float]) -> np.ndarray:
        """Return leave-one-out residuals: targets minus decisions of the fit without each case.

        (n_cases, n_outputs) for one penalty, (n_penalties, n_cases, n_outputs) for a sequence.
        """
        return self.spectrum.leave_one_out(self.Y, penalties, intercept=True)

    def left_out(self, penalty: float) -> np.ndarray:
        """Return leave-one-out decisions (n_cases, n_outputs): by the fit without each case."""
        return self.Y - self.residuals(penalty)


def unit(K: np.ndarray) -> float:
    """Return the mean of a kernel matrix' diagonal, the unit of penalties and of C."""
    return float(np.mean(np.diagonal(K), dtype=np.float64)) or 1.0


def ridge(K: np.ndarray, Y: np.ndarray, penalty: float) -> Readout:
    """Return ridge regression (`RidgePath`) of targets Y on K, for one penalty."""
    return RidgePath(K, Y).fit(penalty)


def support_vectors(K: np.ndarray, Y: np.ndarray, C: float) -> Readout:
    """Fit support vector machines, one for each column of targets ±1.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
        Kernel matrix. It is divided by the mean of its diagonal first, so that C has no unit.
    Y : ndarray, (n_cases, n_outputs)
        Where all targets of a column have one sign, the sign is the decision.
    C : float
        Cost of errors.
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
    """Return the decision at each case, by the readout ``fit(K, Y)`` of the other folds."""
    decisions = np.zeros(Y.shape)
    for rest, fold in folds:
        readout = fit(K[np.ix_(rest, rest)], Y[rest])
        decisions[fold] = readout(K[np.ix_(fold, rest)])
    return decisions


def margins(decisions: np.ndarray) -> np.ndarray:
    """Return decisions with one column for each class, also for two classes."""
    if decisions.shape[1] > 1:
        return decisions
    return np.hstack([-decisions, decisions])


def probabilities(decisions: np.ndarray, inverse_temperature: float) -> np.ndarray:
    """Return class probabilities: softmax of `inverse_temperature` times the decisions."""
    return softmax(inverse_temperature * margins(decisions), axis=1)


def calibrate(decisions: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the inverse temperature that suits held-out decisions, and the losses with it.

    It minimizes the mean cross-entropy (temperature scaling; Guo et al. 2017). One factor for all
    classes keeps probabilities and decisions in the same order.

    Labels are smoothed, which keeps the factor finite where all decisions are right. With n cases
    the class of a case gets the probability (n + 1)/(n + 2), and the other classes share
    1/(n + 2). This is the estimate after one more right case and one more wrong case. For two
    classes it is Platt's (1999) rule.

    Parameters
    ----------
    decisions : ndarray, (n_cases, n_outputs)
        By readouts that were fitted without the case.
    labels : ndarray of int, (n_cases,)

    Returns
    -------
    inverse_temperature : float
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

    def losses(log_factor: float) -> np.ndarray:
        return -(targets * log_softmax(np.exp(log_factor) * columns, axis=1)).sum(axis=1)

    best = minimize_scalar(
        lambda log_factor: losses(log_factor).mean(), bounds=_LOG_BOUNDS, method="bounded"
    )
    return float(np.exp(best.x)), losses(best.x)


def one_against_rest(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets ±1 (n_cases, n_outputs): one column for two classes, else one a class."""
    signs = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1.0
    return signs[:, 1:] if n_classes == 2 else signs
