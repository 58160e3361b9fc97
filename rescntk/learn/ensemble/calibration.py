"""Probabilities of classes from decisions, calibrated on decisions left out."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from ..reading.cases import unit_sum

_LEAST_SCALE = 1e-5
"""Least factor of decisions, in units of the largest one: decisions that are mostly wrong count for
next to nothing, and offsets are divided by it."""


def margins(decisions: np.ndarray) -> np.ndarray:
    """Return decisions with one column for each class, even for two classes."""
    return decisions if decisions.shape[1] > 1 else np.hstack([-decisions, decisions])


def probabilities(decisions: np.ndarray, inverse_temperatures: np.ndarray) -> np.ndarray:
    """Return probabilities, (n_cases, n_classes), of decisions with offsets.

    Inverse temperatures are (n_cases, 1).
    """
    return np.exp(log_probabilities(decisions, inverse_temperatures))


def log_probabilities(decisions: np.ndarray, inverse_temperatures: np.ndarray) -> np.ndarray:
    """Return the logarithms of `probabilities`."""
    logs: np.ndarray = log_softmax(inverse_temperatures * margins(decisions), axis=1)
    return logs


def calibrate(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, shift: bool
) -> tuple[float, np.ndarray]:
    """Return the inverse temperature s and the offsets, (n_outputs,), of decisions left out.

    Log-probabilities are s · (decision + offset), up to a constant. They minimize the weighted mean
    cross-entropy, which is convex (Guo et al. 2017); without `shift` offsets are 0. As by Platt
    (1999), the class of a case gets the probability (n + 1)/(n + 2): s is finite where all
    decisions are right. If all weights are 0, s divides decisions by the largest one.
    """
    columns = margins(decisions)
    n, n_classes = columns.shape
    smoothed = np.full(columns.shape, 1.0 / ((n + 2) * (n_classes - 1)))
    smoothed[np.arange(n), labels] = (n + 1) / (n + 2)
    unit_weights, scale = unit_sum(weights)[:, None], np.abs(columns).max() or 1.0
    columns = columns / scale

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the cross-entropy and its gradient in s and the biases b."""
        log_proba = log_softmax(parameters[0] * columns + parameters[1:], axis=1)
        slopes = unit_weights * (np.exp(log_proba) - smoothed)
        gradient = np.append(np.sum(slopes * columns), shift * slopes.sum(axis=0))
        return -np.sum(unit_weights * smoothed * log_proba), gradient

    s, *biases = minimize(
        loss,
        np.eye(1, n_classes + 1)[0],
        jac=True,
        method="L-BFGS-B",
        bounds=[(_LEAST_SCALE, None)] + [(None, None)] * n_classes,
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000},
    ).x
    offsets = (biases - np.mean(biases)) * scale / s
    return float(s / scale), offsets[1:] if n_classes == 2 else offsets


def probabilities_of_folds(
    fold_decisions: np.ndarray,
    certainty: np.ndarray,
    folds: np.ndarray,
    decisions: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    shift: bool,
) -> np.ndarray:
    """Return probabilities of cases, (n_cases, n_classes), which the other folds calibrate.

    `fold_decisions` become probabilities, with factors `certainty`, (n_cases, 1), and the numbers
    of folds `folds`, (n_cases,). `decisions` calibrate them, with other arguments of `calibrate`.
    """
    proba = np.empty(margins(decisions).shape)
    for fold in np.unique(folds):
        at = folds == fold
        inverse_temperature, offsets = calibrate(decisions[~at], labels[~at], weights[~at], shift)
        proba[at] = probabilities(fold_decisions[at] + offsets, inverse_temperature * certainty[at])
    return proba
