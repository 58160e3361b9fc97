"""Ridge regression on a kernel matrix, and the calibration of decisions.

Decisions are ``K @ coefficients + intercepts``. Targets are columns. A classifier's targets are
±1: one column for two classes, else one column for each class against the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ..regression import Decomposition, decompose

_LOG_BOUNDS = (-10.0, 10.0)
"""Range of the logarithm of the inverse temperature, for decisions of order 1. Widening it lets
probabilities come closer to 0, 1 and 1/n_classes. Chosen far beyond, not measured."""


class Readout(NamedTuple):
    """Coefficients (n_cases, n_outputs) and intercepts (n_outputs,) of a fitted readout."""

    coefficients: np.ndarray
    intercepts: np.ndarray

    def __call__(self, K: np.ndarray) -> np.ndarray:
        """Return decisions (m_cases, n_outputs) from K (m_cases, n_cases)."""
        return K @ self.coefficients + self.intercepts


class RidgePath:
    r"""Kernel ridge regression with an intercept, for any number of penalties at once.

    The minimizer of :math:`\|Y - K A - 1 b^T\|^2 + \lambda m \operatorname{tr} A^T K A`, where
    each case's squares have the weight of the case. The unit m is the mean of K's diagonal, so
    that λ has no unit. One eigendecomposition (`rescntk.regression.Decomposition`) serves all
    penalties, and gives leave-one-out residuals too. Where a case is left out, m stays the mean
    over all cases.

    Eigenvalues that rounding errors took below 0 are taken as 0. Eigenvalues below the rounding
    errors of K's dtype are refused.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
        Kernel matrix, in the dtype in which it was computed: the dtype sets the rounding errors.
    Y : ndarray, (n_cases, n_outputs)
        Targets.
    case_weights : ndarray, (n_cases,), optional
        Positive, with mean 1.
    """

    def __init__(
        self, K: np.ndarray, Y: np.ndarray, case_weights: np.ndarray | None = None
    ) -> None:
        self.unit, self.Y = unit(K), Y
        found = decompose(K / self.unit, case_weights)
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


def margins(decisions: np.ndarray) -> np.ndarray:
    """Return decisions with one column for each class, also for two classes."""
    if decisions.shape[1] > 1:
        return decisions
    return np.hstack([-decisions, decisions])


def probabilities(decisions: np.ndarray, inverse_temperature: float) -> np.ndarray:
    """Return class probabilities: softmax of `inverse_temperature` times the decisions."""
    return softmax(inverse_temperature * margins(decisions), axis=1)


class Calibration(NamedTuple):
    """Map from decisions to log-probabilities: s · (decision + offset), up to a constant."""

    inverse_temperature: float
    """s, positive."""
    offsets: np.ndarray
    """(n_outputs,): added to decisions; 0 unless they are wanted."""


def calibrate(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, *, shift: bool = False
) -> Calibration:
    """Return the inverse temperature, and the offsets if wanted, that suit held-out decisions.

    They minimize the weighted mean cross-entropy. Without offsets this is temperature scaling
    (Guo et al. 2017): one factor for all classes keeps probabilities and decisions in the same
    order. The offsets move the borders between classes towards classes of little
    weight. The cross-entropy is convex.

    Labels are smoothed, which keeps the factor finite where all decisions are right. With n cases
    the class of a case gets the probability (n + 1)/(n + 2), and the other classes share
    1/(n + 2). This is the estimate after one more right case and one more wrong case. For two
    classes it is Platt's (1999) rule.

    Parameters
    ----------
    decisions : ndarray, (n_cases, n_outputs)
        By readouts that were fitted without the case.
    labels : ndarray of int, (n_cases,)
    weights : ndarray, (n_cases,)
        At least 0.
    shift : bool, default False
        Whether offsets are found; otherwise they are 0.

    Returns
    -------
    Calibration
        With the inverse temperature 1 where there are no cases.
    """
    columns = margins(decisions)
    n, n_classes = columns.shape
    nothing = np.zeros(decisions.shape[1])
    if not weights.any():
        return Calibration(1.0, nothing)
    targets = np.full(columns.shape, 1.0 / ((n + 2) * (n_classes - 1)))
    targets[np.arange(n), labels] = (n + 1) / (n + 2)
    shares = (weights / weights.sum())[:, None]
    scale = np.abs(columns).max() or 1.0

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the cross-entropy and its gradient in s and the biases b."""
        logits = parameters[0] * columns / scale + parameters[1:]
        chances = log_softmax(logits, axis=1)
        slopes = shares * (np.exp(chances) - targets)
        biases = slopes.sum(axis=0) if shift else np.zeros(n_classes)
        gradient = np.concatenate([[np.sum(slopes * columns) / scale], biases])
        return -float(np.sum(shares * targets * chances)), gradient

    least, most = np.exp(_LOG_BOUNDS) * scale
    bounds = [(least, most)] + [(None, None)] * n_classes
    start = np.concatenate([[1.0], np.zeros(n_classes)])
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    offsets = (found[1:] - found[1:].mean()) * scale / found[0]
    return Calibration(found[0] / scale, offsets[1:] if len(nothing) == 1 else offsets)


def one_against_rest(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets ±1 (n_cases, n_outputs): one column for two classes, else one a class."""
    signs = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1.0
    return signs[:, 1:] if n_classes == 2 else signs
