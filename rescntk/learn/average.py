"""Averages of decisions: each pass gets a readout of its own, and a weight by its evidence.

Nothing is chosen among passes. A pass with mean squared leave-one-out error e gets a weight
proportional to e^-4: with few signals the errors are alike, and so are the weights; with many
signals the better passes prevail. Leave-one-out errors have a closed form.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ..regression import Decomposition, decompose, restricted_ridge
from .batches import Signals, take
from .cases import Cases
from .passes import MeanKernel, Pass
from .readouts import Readout, RidgePath
from .views import FittedView

_POWER = 4.0
"""Exponent of leave-one-out errors in weights; a pure number. Raising it comes closer to choosing
one pass. Measured by benchmarks/classification.py --design (classification_design.md), mean
accuracy: .863 with 0, .877 with 2, .880 with 4, .879 with 6, .876 with 8, .872 with 12."""


@dataclass(frozen=True)
class Process:
    """A Gaussian process for each penalty: its variances."""

    spectrum: Decomposition
    """The eigenvectors and eigenvalues of the signals' kernel matrix K."""
    scales: np.ndarray
    """σ², (n_penalties, n_outputs)."""

    def variance(self, K: np.ndarray, penalty: float) -> np.ndarray:
        r"""Return the variance of new observations for σ = 1, from their matrix with the signals.

        :math:`1 - k^\top (K + \lambda I)^{-1} k + \lambda`, where 1 is the prior variance.
        """
        values, vectors = self.spectrum.eigenvalues, self.spectrum.eigenvectors
        explained = (K @ vectors) ** 2 @ (1.0 / (values + penalty))
        return np.maximum(1.0 - explained, 0.0) + penalty


@dataclass(frozen=True)
class Member:
    """A pass with its readout: one part of an average."""

    source: Pass
    view: FittedView
    signals: Signals
    """The training signals, or the landmarks among them, in the view."""
    readouts: list[Readout]
    """A readout for each penalty."""
    process: Process | None
    """None unless variances are wanted."""
    seconds: float
    """Time of the pass and its readout."""

    def matrix(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the kernel matrix of X with the member's signals, in float64."""
        K = self.source.kernel(self.view(X), self.signals, **options)
        return K.astype(np.float64, copy=False)


class Weighting(NamedTuple):
    """The penalty and the weight of each member."""

    penalties: np.ndarray
    """Place of the member's penalty in the list of penalties, (n_members,)."""
    errors: np.ndarray
    """Mean squared leave-one-out error with this penalty, (n_members,)."""
    weights: np.ndarray
    """Positive, with the sum 1, (n_members,)."""


@dataclass(frozen=True)
class Average:
    """Members with their penalties and weights."""

    members: list[Member]
    penalties: Sequence[float]
    weighting: Weighting

    def readout(self, place: int) -> Readout:
        """Return the readout of a member, with its penalty."""
        return self.members[place].readouts[self.weighting.penalties[place]]

    def decide(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the weighted mean of the members' decisions, (m_cases, n_outputs)."""
        decisions = [
            self.readout(place)(member.matrix(X, options))
            for place, member in enumerate(self.members)
        ]
        return np.tensordot(self.weighting.weights, decisions, 1)

    def matrix(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the weighted mean of the members' kernel matrices, (m_cases, n_signals)."""
        pairs = zip(self.weighting.weights, self.members, strict=True)
        return sum(weight * member.matrix(X, options) for weight, member in pairs)

    def mixture(self, X: Signals, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        r"""Return mean and variance of the mixture of processes, (m_cases, n_outputs) each.

        A member's process has the mean f(x) of its decisions and the variance
        :math:`\sigma^2 (1 - k(x)^\top (K + \lambda I)^{-1} k(x) + \lambda)` of a new
        observation, where 1 is K(x, x). With weights w, the mixture has the mean
        :math:`\sum w f` and the variance :math:`\sum w (v + f^2) - (\sum w f)^2`.
        """
        means, variances = [], []
        for place, member in enumerate(self.members):
            process, choice = cast(Process, member.process), self.weighting.penalties[place]
            K = member.matrix(X, options)
            variance = process.variance(K, self.penalties[choice])
            means.append(self.readout(place)(K))
            variances.append(variance[:, None] * process.scales[choice])
        weights = self.weighting.weights
        mean = np.tensordot(weights, means, 1)
        spread = np.tensordot(weights, (np.array(means) - mean) ** 2, 1)
        return mean, np.tensordot(weights, variances, 1) + spread

    def table(self) -> dict[str, np.ndarray]:
        """Return the settings, penalty, error, weight and seconds of each member as columns."""
        rows = [member.source.settings() for member in self.members]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        return columns | {
            "penalty": np.array(self.penalties)[self.weighting.penalties],
            "error": self.weighting.errors,
            "weight": self.weighting.weights,
            "seconds": np.array([member.seconds for member in self.members]),
        }


def fit_average(
    passes: Iterable[Pass],
    cases: Cases,
    penalties: Sequence[float],
    *,
    error_weights: np.ndarray,
    folds: np.ndarray,
    landmarks: np.ndarray | None = None,
    variances: bool = False,
    options: dict[str, Any],
) -> tuple[Average, np.ndarray]:
    """Fit a readout for each pass, and weigh the passes by their leave-one-out errors.

    Parameters
    ----------
    passes : iterable of Pass
        Each is made when the former one is done.
    cases : Cases
        Their weights count in the scales of views and in the readouts.
    penalties : sequence of float
        In units of the kernels' diagonal, which is 1.
    error_weights, folds
        As for `out_of_fold`.
    landmarks : ndarray of int, optional
        Indices of the signals to which the solution is restricted; default: all signals.
    variances : bool
        Whether members keep the eigenvectors of their matrices: n² numbers each.
    options : dict
        Engine, dtype and threads, as for `rescntk.gram`.

    Returns
    -------
    average : Average
    decisions : ndarray, (n_cases, n_outputs)
        Decisions at each case by an average in which the case's fold had no part.
    """
    members, residuals = [], []
    for source in passes:
        start = time.perf_counter()
        view = source.view.fit(cases.signals, cases.weights)
        seen = cases._replace(signals=view(cases.signals))
        if landmarks is None:
            fit = _fit_all(source.kernel, seen, penalties, variances, options)
        else:
            fit = _fit_landmarks(source.kernel, seen, penalties, landmarks, variances, options)
        seconds = time.perf_counter() - start
        members.append(Member(source, view, fit.signals, fit.readouts, fit.process, seconds))
        residuals.append(fit.residuals)
    average = Average(members, penalties, weigh(residuals, error_weights))
    return average, out_of_fold(residuals, cases.targets, error_weights, folds)


class _Fit(NamedTuple):
    """Ridge regression with several penalties."""

    signals: Signals
    readouts: list[Readout]
    residuals: np.ndarray
    process: Process | None = None


def _fit_all(
    kernel: MeanKernel,
    cases: Cases,
    penalties: Sequence[float],
    variances: bool,
    options: dict[str, Any],
) -> _Fit:
    r"""Return ridge regression on all signals.

    The scale :math:`\sigma^2 = y^\top (K + \lambda I)^{-1} (y - b) / n` of the Gaussian process
    maximizes the marginal likelihood of the targets; I/w takes the place of I for cases of
    weights w.
    """
    signals, Y, weights, _ = cases
    path = RidgePath(kernel(signals, **options), Y, weights)
    readouts, residuals = [path.fit(penalty) for penalty in penalties], path.residuals(penalties)
    if not variances:
        return _Fit(signals, readouts, residuals)
    scales = [np.mean(fit.coefficients * (Y - fit.intercepts), axis=0) for fit in readouts]
    return _Fit(signals, readouts, residuals, Process(path.spectrum, np.array(scales)))


def _fit_landmarks(
    kernel: MeanKernel,
    cases: Cases,
    penalties: Sequence[float],
    landmarks: np.ndarray,
    variances: bool,
    options: dict[str, Any],
) -> _Fit:
    """Return ridge regression restricted to landmarks.

    The Gaussian process knows the landmarks alone. Its scale makes the mean variance at some other
    signals their mean squared leave-one-out residual.
    """
    signals, Y, weights, _ = cases
    options_of_fit = {"intercept": True, "leave_one_out": True} | options
    given: Any = signals
    found = restricted_ridge(
        kernel, given, Y, landmarks, penalties, case_weights=weights, **options_of_fit
    )
    readouts = [Readout(*pair) for pair in zip(found.coefficients, found.intercepts, strict=True)]
    known, residuals = found.features.signals, cast(np.ndarray, found.errors)
    if not variances:
        return _Fit(known, readouts, residuals)
    K = found.features.factor @ found.features.factor.T
    spectrum = decompose(K, weights[found.features.landmarks])
    process = Process(spectrum, np.zeros(0))
    others = np.setdiff1d(np.arange(len(Y)), landmarks)[: len(landmarks)]
    K = kernel(take(signals, others), known, **options).astype(np.float64)
    squares = np.average(residuals[:, others] ** 2, axis=1, weights=weights[others])
    means = np.array([process.variance(K, penalty).mean() for penalty in penalties])
    return _Fit(known, readouts, residuals, Process(spectrum, squares / means[:, None]))


def weigh(residuals: Sequence[np.ndarray], error_weights: np.ndarray) -> Weighting:
    """Return the penalty and the weight of each member, by its leave-one-out residuals.

    The penalty has the least mean squared error e. The weight is proportional to e^-4.

    Parameters
    ----------
    residuals : sequence of ndarray, (n_penalties, n_cases, n_outputs)
        One for each member.
    error_weights : ndarray, (n_cases,)
        Weight of each case in the errors; 0 for cases that do not count.
    """
    shares = error_weights / (error_weights.sum() or 1.0)
    means = np.array([(each**2).mean(axis=2) @ shares for each in residuals])
    penalties, errors = means.argmin(axis=1), means.min(axis=1)
    floor = np.maximum(errors, np.finfo(np.float64).tiny)
    weights = (floor / floor.min()) ** -_POWER
    return Weighting(penalties, errors, weights / weights.sum())


def out_of_fold(
    residuals: Sequence[np.ndarray], Y: np.ndarray, error_weights: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    """Return decisions at each fold by an average in which the fold had no part.

    At a case of a fold, the decision is the mean of the members' leave-one-out decisions, with
    the penalties and the weights that the other folds give.

    Parameters
    ----------
    residuals, error_weights
        As for `weigh`.
    Y : ndarray, (n_cases, n_outputs)
    folds : ndarray of int, (n_cases,)
        The fold of each case.

    Returns
    -------
    ndarray, (n_cases, n_outputs)
    """
    decisions = Y.copy()
    for fold in np.unique(folds):
        inside = folds == fold
        found = weigh(residuals, np.where(inside, 0.0, error_weights))
        for each, penalty, weight in zip(residuals, found.penalties, found.weights, strict=True):
            decisions[inside] -= weight * each[penalty, inside]
    return decisions
