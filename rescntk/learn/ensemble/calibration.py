"""Probabilities of classes from averaged decisions of views, calibrated on those left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from ..reading.cases import unit_sum

_LEAST_INVERSE_TEMPERATURE = 1e-5
"""Least inverse temperature, for decisions divided by the largest one. Decisions that are mostly
wrong would have one of 0, by which offsets cannot be divided."""


def columns_of_classes(decisions: np.ndarray) -> np.ndarray:
    """Return decisions with one column for each class, also if there are two classes."""
    return decisions if decisions.shape[1] > 1 else np.hstack([-decisions, decisions])


class Calibration(NamedTuple):
    """How averaged decisions, (n_cases, n_outputs), become decisions and probabilities.

    A decision of a classifier is an averaged one plus an offset. Log-probabilities are s · c times
    the decision, up to a constant for each case, with the certainty c of the case, (n_cases, 1),
    which is 1 unless its signal is novel.
    """

    inverse_temperature: float
    """The scale s of decisions."""
    offsets: np.ndarray
    """What is added to averaged decisions, (n_outputs,)."""

    def log_probabilities(
        self, averaged_decisions: np.ndarray, certainty: np.ndarray
    ) -> np.ndarray:
        """Return the logarithms of the probabilities of classes, (n_cases, n_classes)."""
        factors = self.inverse_temperature * certainty
        logs: np.ndarray = log_softmax(
            factors * columns_of_classes(averaged_decisions + self.offsets), axis=1
        )
        return logs

    def probabilities(self, averaged_decisions: np.ndarray, certainty: np.ndarray) -> np.ndarray:
        """Return the probabilities of classes, (n_cases, n_classes)."""
        return np.exp(self.log_probabilities(averaged_decisions, certainty))


def calibrate(
    averaged_decisions: np.ndarray,
    *,
    class_indices: np.ndarray,
    error_weights: np.ndarray,
    with_offsets: bool,
) -> Calibration:
    """Return the calibration of averaged decisions, (n_cases, n_outputs), with certainty 1.

    The decisions are those of cases left out. Log-probabilities minimize the mean cross-entropy, in
    which cases count with `error_weights`, and which is convex (Guo et al. 2017). All offsets are 0
    unless `with_offsets`. As in Platt (1999), the class of a case has the target probability
    (n + 1)/(n + 2), so that s is finite if all decisions are right. If all weights are 0, s is 1
    over the largest decision.
    """
    columns = columns_of_classes(averaged_decisions)
    n, n_classes = columns.shape
    smoothed = np.full(columns.shape, 1.0 / ((n + 2) * (n_classes - 1)))
    smoothed[np.arange(n), class_indices] = (n + 1) / (n + 2)
    unit_weights = unit_sum(error_weights)[:, None]
    largest_decision = np.abs(columns).max() or 1.0
    columns = columns / largest_decision

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the cross-entropy and its gradient in s and the biases, s times offsets."""
        log_proba = log_softmax(parameters[0] * columns + parameters[1:], axis=1)
        slopes = unit_weights * (np.exp(log_proba) - smoothed)
        gradient = np.append(np.sum(slopes * columns), with_offsets * slopes.sum(axis=0))
        return -np.sum(unit_weights * smoothed * log_proba), gradient

    s, *biases = minimize(
        loss,
        np.eye(1, n_classes + 1)[0],  # s = 1 of decisions over the largest one, no biases
        jac=True,
        method="L-BFGS-B",
        bounds=[(_LEAST_INVERSE_TEMPERATURE, None)] + [(None, None)] * n_classes,
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000},
    ).x
    offsets = (biases - np.mean(biases)) * largest_decision / s
    return Calibration(float(s / largest_decision), offsets[1:] if n_classes == 2 else offsets)


def probabilities_of_folds(
    averaged_decisions: np.ndarray,
    certainty: np.ndarray,
    folds: np.ndarray,
    calibration_by: Callable[[np.ndarray], Calibration],
) -> np.ndarray:
    """Return probabilities of cases, (n_cases, n_classes), which the other folds calibrate.

    `folds` are the numbers of the cases' folds, (n_cases,). `calibration_by` returns the
    calibration by the cases of a mask.
    """
    proba = np.empty(columns_of_classes(averaged_decisions).shape)
    for fold in np.unique(folds):
        inside = folds == fold
        calibration = calibration_by(~inside)
        proba[inside] = calibration.probabilities(averaged_decisions[inside], certainty[inside])
    return proba
