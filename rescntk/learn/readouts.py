"""What reads predictions off a kernel matrix: ridge regression, support vector machines.

Both take targets as columns: for a classifier ±1, one column for two classes, else one for each
class against the rest. Decisions are ``K @ coefficients + intercepts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.svm import SVC


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
    the mean of K's diagonal, so that λ has no unit. With :math:`G = (K + \lambda m I)^{-1}` and
    :math:`B = G - G 1 1^T G / (1^T G 1)` it is :math:`A = B Y`, and the residual at a case that
    is left out is :math:`(B Y)_i / B_{ii}` (the block inverse of the bordered system; Cawley and
    Talbot 2004). One eigendecomposition serves all λ, and leaving out costs nothing.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
    Y : ndarray, (n_cases, n_outputs)
    """

    def __init__(self, K: np.ndarray, Y: np.ndarray) -> None:
        self.scale = float(np.mean(np.diagonal(K))) or 1.0
        values, self.vectors = np.linalg.eigh(K / self.scale)
        self.values = np.maximum(values, 0.0)
        self.Y = Y
        ones = np.ones((len(Y), 1))
        self.projected = self.vectors.T @ np.hstack([Y, ones])

    def _solve(self, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return B Y, b and the diagonal of B, times m."""
        inverse = 1.0 / (self.values + penalty)
        solved = self.vectors @ (inverse[:, None] * self.projected)
        GY, G1 = solved[:, :-1], solved[:, -1]
        intercepts = G1 @ self.Y / G1.sum()
        diagonal = (self.vectors**2) @ inverse - G1**2 / G1.sum()
        return GY - np.outer(G1, intercepts), intercepts, diagonal

    def fit(self, penalty: float) -> Readout:
        """Return the readout for one penalty."""
        coefficients, intercepts, _ = self._solve(penalty)
        return Readout(coefficients / self.scale, intercepts)

    def left_out(self, penalty: float) -> np.ndarray:
        """Return the decision at each case of the readout fitted without it."""
        coefficients, _, diagonal = self._solve(penalty)
        return self.Y - coefficients / diagonal[:, None]

    def error(self, penalty: float, counted: np.ndarray | slice = slice(None)) -> float:
        """Return the mean squared error of leaving one out, over the cases that are counted."""
        return float(np.mean((self.left_out(penalty) - self.Y)[counted] ** 2))


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
    scale = float(np.mean(np.diagonal(K))) or 1.0
    coefficients, intercepts = np.zeros(Y.shape), np.zeros(Y.shape[1])
    for column, signs in enumerate(Y.T):
        if (signs == signs[0]).all():
            intercepts[column] = signs[0]
            continue
        machine = SVC(kernel="precomputed", C=C).fit(K / scale, signs)
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
    that probabilities and decisions rank classes alike. Labels are smoothed as Platt (1999)
    does, by one case of every class on top of the n, which keeps it finite where all held-out
    decisions are right.

    Parameters
    ----------
    decisions : ndarray, (n_cases, n_outputs)
        Of readouts that did not see the case.
    labels : ndarray of int, (n_cases,)

    Returns
    -------
    sharpness : float
    losses : ndarray, (n_cases,)
        The cross-entropy of each case, in nats.
    """
    columns = margins(decisions)
    n, n_classes = columns.shape
    targets = np.full(columns.shape, 1.0 / (n + n_classes))
    targets[np.arange(n), labels] += n / (n + n_classes)

    def losses(log_sharpness: float) -> np.ndarray:
        return -(targets * log_softmax(np.exp(log_sharpness) * columns, axis=1)).sum(axis=1)

    best = minimize_scalar(lambda s: losses(s).mean(), bounds=(-10.0, 10.0), method="bounded")
    return float(np.exp(best.x)), losses(best.x)


def one_against_rest(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets ±1: one column for two classes, else one for each."""
    signs = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1.0
    return signs[:, 1:] if n_classes == 2 else signs
