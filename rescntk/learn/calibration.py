"""Decisions of a classifier: targets ±1, margins of classes, and calibrated probabilities.

Decisions and targets have one column for two classes, else one for each class against the rest.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

_LOG_BOUNDS = (-10.0, 10.0)
"""Range of the logarithm of the inverse temperature, for decisions of order 1. Widening it lets
probabilities come closer to 0, 1 and 1/n_classes. Chosen far beyond, not measured."""


def one_against_rest(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets ±1 (n_cases, n_outputs): one column for two classes, else one a class."""
    signs = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1.0
    return signs[:, 1:] if n_classes == 2 else signs


def margins(decisions: np.ndarray) -> np.ndarray:
    """Return decisions with one column for each class, also for two classes."""
    if decisions.shape[1] > 1:
        return decisions
    return np.hstack([-decisions, decisions])


def calibrate(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, *, shift: bool = False
) -> tuple[float, np.ndarray]:
    """Return the inverse temperature s and the offsets, (n_outputs,), of held-out decisions.

    Log-probabilities are s · (decision + offset), up to a constant. s and offsets minimize the
    weighted mean cross-entropy, which is convex. Without offsets this is temperature scaling (Guo
    et al. 2017): one factor for all classes keeps probabilities and decisions in the same order.
    The offsets move the borders between classes towards classes of little weight.

    Labels are smoothed, which keeps the factor finite where all decisions are right. With n cases
    the class of a case gets the probability (n + 1)/(n + 2), and the other classes share
    1/(n + 2). This is the estimate after one more right case and one more wrong case. For two
    classes it is Platt's (1999) rule.

    Decisions (n_cases, n_outputs) are of fits without the case. Offsets are found with `shift`,
    otherwise they are 0. Where no case has a weight, s is 1 and the offsets are 0.
    """
    columns = margins(decisions)
    n, n_classes = columns.shape
    if not weights.any():
        return 1.0, np.zeros(decisions.shape[1])
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
    return found[0] / scale, offsets[1:] if n_classes == 2 else offsets
