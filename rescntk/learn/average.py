"""Averages of decisions: each pass gets ridge regression of its own, and a weight by its evidence.

A pass with mean squared leave-one-out error e gets a weight proportional to e^-4: with few signals
the errors are alike, and so are the weights; with many signals the better passes prevail. A pass
has less weight at a signal that is novel to it. Noise is novel to passes that see fast changes, and
a drift of levels to passes that see levels. Passes that see levels also have less weight where a
signal's levels are far from the training signals'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .drift import UsualSignals, usual_line, usual_signals
from .fitted_pass import POWER, FittedPass, Training, fit_pass, weigh
from .inputs import DistinctCases
from .passes import Pass
from .views import Signals, channel_deviations, take

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


class Decided(NamedTuple):
    """The decisions of an average's passes at some signals, and their weights there."""

    decisions: np.ndarray
    """(n_passes, n_cases, n_outputs)"""
    novelties: np.ndarray
    """`FittedPass.novelty`, (n_passes, n_cases)."""
    weights: np.ndarray
    """(n_passes, n_cases); sums over passes are 1."""
    novelty: np.ndarray
    """Mean novelty of the passes, (n_cases,)."""

    def mean(self) -> np.ndarray:
        """Return the average's decisions, (n_cases, n_outputs)."""
        return mean_at(self.weights, self.decisions)


class LeftOut(NamedTuple):
    """The decisions of an average at its own cases, left out."""

    decisions: np.ndarray
    """Out of fold, (n_cases, n_outputs)."""
    folds: np.ndarray
    """Number of each case's fold, (n_cases,)."""
    spread: np.ndarray
    """Variance of the passes' leave-one-out decisions about their mean, (n_cases, n_outputs)."""
    novelties: np.ndarray
    """(n_passes, n_cases)"""
    weights: np.ndarray
    """(n_passes, n_cases)"""
    errors: np.ndarray
    """Mean squared leave-one-out error of each pass, (n_passes,)."""


@dataclass(eq=False, kw_only=True)
class Average:
    """Fitted passes and their weights; made by `fit_average`."""

    passes: list[FittedPass]
    weights: np.ndarray
    """(n_passes,): proportional to e^-4; their sum is 1."""
    usual: UsualSignals
    channel_scale: np.ndarray
    """Standard deviation of each channel of the training signals, (n_channels,)."""
    mean_target: np.ndarray
    """(n_outputs,)"""
    places: np.ndarray | slice
    """Column, in matrices of the passes, of each training signal; all columns for landmarks."""
    counts: tuple[int, int]
    """Number of signals of positive weight, and of the different ones among them."""
    options: dict[str, Any]
    """Options with which kernels are called."""

    def at(
        self, X: Signals, visit: Callable[[FittedPass, np.ndarray], None] | None = None
    ) -> Decided:
        """Return decisions, novelties and weights at signals X, by one matrix of each pass.

        `visit` is called with each pass and its matrix.
        """
        decisions, novelties = [], []
        for fitted in self.passes:
            K = fitted.matrix(X, self.options)
            decisions.append(fitted.decide(K))
            novelties.append(fitted.novelty(K))
            if visit is not None:
                visit(fitted, K)
        novel = np.array(novelties)
        weights = _weights_at(self.weights, novel, self.usual.distances(X), self.passes)
        return Decided(np.array(decisions), novel, weights, self.mean_novelty(novel))

    def slopes(
        self, X: np.ndarray, answer: Callable[..., tuple[np.ndarray, ...]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a number f of each signal, (n_cases,), and its derivatives by X, of its shape.

        `answer` is a function of decisions (n_cases, n_outputs) and mean novelties (n_cases,). It
        returns f and its derivatives by both.
        """
        matrices: list[np.ndarray] = []
        decided = self.at(X, lambda _, K: matrices.append(K))
        f, by_decision, by_novelty = answer(decided.mean(), decided.novelty)
        distances = self.usual.distances(X)
        by_weights = np.einsum("pno,no->pn", decided.decisions, by_decision)
        by_novelties, by_distance = _weights_at_slopes(decided, by_weights, distances, self.passes)
        inverse = self._inverse_errors[:, None]
        by_novelties += inverse * by_novelty * decided.novelty / decided.novelties
        slopes = np.zeros(X.shape) + self.usual.distance_slopes(X, by_distance)
        steps = zip(self.passes, matrices, decided.weights, by_novelties, strict=True)
        for fitted, K, weights, of_novelty in steps:
            by_matrix = (weights[:, None] * by_decision) @ fitted.coefficients.T
            by_matrix += of_novelty[:, None] * fitted.novelty_slopes(K)
            slopes += fitted.matrix_slopes(X, by_matrix, self.options)
        return f, slopes

    def shares(self, X: Signals) -> Any:
        """Return the shares of time points in decisions less `mean_target`.

        They are (n_cases, n_outputs, n_timepoints), of images with an axis more, of a list a list.
        """
        parts: list[list[np.ndarray]] = []

        def add(fitted: FittedPass, K: np.ndarray) -> None:
            parts.append(fitted.contributions(X, K, self.mean_target, self.options))

        decided = self.at(X, add)
        pairs = zip(decided.weights.T, zip(*parts, strict=True), strict=True)
        means = [np.tensordot(weights, np.array(of_passes), 1) for weights, of_passes in pairs]
        return np.array(means) if isinstance(X, np.ndarray) else means

    def kernel_matrix(self, X: Signals) -> np.ndarray:
        """Return the mean kernel of X with the training signals, (n_cases, n_training)."""
        pairs = zip(self.weights, self.passes, strict=True)
        mean = sum(weight * fitted.matrix(X, self.options) for weight, fitted in pairs)
        return mean[:, self.places]

    def mean_novelty(self, novelties: np.ndarray) -> np.ndarray:
        """Return the geometric mean over passes of novelties, by the inverses of their errors."""
        return np.exp(np.tensordot(self._inverse_errors, np.log(novelties), 1))

    def variance(self, novelties: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the mean of the passes' variances of new observations, (n_cases, n_outputs)."""
        pairs = zip(self.passes, novelties, strict=True)
        return mean_at(weights, np.array([fitted.variance(novel) for fitted, novel in pairs]))

    @property
    def _inverse_errors(self) -> np.ndarray:
        """Inverse errors of the passes, whose powers are their weights; their sum is 1."""
        inverse = self.weights ** (1.0 / POWER)
        return inverse / inverse.sum()


def fit_average(
    sources: Iterable[Pass],
    cases: DistinctCases,
    penalties: Sequence[float],
    error_weights: np.ndarray,
    folds: np.ndarray,
    landmarks: np.ndarray | None,
    options: dict[str, Any],
) -> tuple[Average, LeftOut]:
    """Return the average of passes fitted to cases, and its decisions at the cases left out.

    Squared errors count with `error_weights`, (n_cases,). `folds` are numbers of the cases' folds.
    `landmarks` are indices of the cases to which solutions are restricted, or None.
    """
    X, passes, residuals = cases.signals, list[FittedPass](), list[np.ndarray]()
    training = Training(X if landmarks is None else take(X, landmarks))
    for source in sources:
        fitted, left_out = fit_pass(
            source, cases, penalties, error_weights, options, training, landmarks=landmarks
        )
        passes.append(fitted)
        residuals.append(left_out)
    choices, errors, weights = weigh(residuals, error_weights)
    novelties = np.array([fitted.novelties for fitted in passes])
    chosen = np.array([of_pass[k] for of_pass, k in zip(residuals, choices, strict=True)])
    usual, distances = usual_signals(X, cases.weights, cases.groups)
    at_cases = _weights_at(weights, novelties, distances, passes)
    average = Average(
        passes=passes,
        weights=weights,
        usual=usual,
        channel_scale=channel_deviations(X, cases.weights),
        mean_target=np.average(cases.targets, axis=0, weights=cases.weights),
        places=cases.places if landmarks is None else slice(None),
        counts=(len(cases.places), len(cases.weights)),
        options=options,
    )
    judged = np.setdiff1d(np.arange(len(X)), [] if landmarks is None else landmarks)
    line = usual_line(average.mean_novelty(novelties)[judged], cases.weights[judged])
    average.usual = replace(usual, line=line)
    return average, LeftOut(
        _out_of_fold(residuals, cases.targets, error_weights, folds, passes, distances),
        folds,
        mean_at(at_cases, (chosen - mean_at(at_cases, chosen)) ** 2),
        novelties,
        at_cases,
        errors,
    )


def _out_of_fold(
    residuals: Sequence[np.ndarray],
    Y: np.ndarray,
    error_weights: np.ndarray,
    folds: np.ndarray,
    passes: Sequence[FittedPass],
    distances: np.ndarray,
) -> np.ndarray:
    """Return decisions (n_cases, n_outputs) at each fold by an average without the fold's part.

    A decision is the mean of leave-one-out decisions of passes. The other folds give penalties and
    weights (`weigh`), which novelties to the passes and distances of levels change.
    """
    decisions, novelties = Y.copy(), np.array([fitted.novelties for fitted in passes])
    for fold in np.unique(folds):
        inside = folds == fold
        choices, _, weights = weigh(residuals, np.where(inside, 0.0, error_weights))
        shares = _weights_at(weights, novelties[:, inside], distances[inside], passes)
        for left_out, choice, share in zip(residuals, choices, shares, strict=True):
            decisions[inside] -= share[:, None] * left_out[choice, inside]
    return decisions


def mean_at(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the mean over passes of values (n_passes, n_cases, n_outputs), by weights there."""
    return np.einsum("pn,pno->no", weights, values)


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


def _weights_at(
    weights: np.ndarray,
    novelties: np.ndarray,
    distances: np.ndarray,
    passes: Sequence[FittedPass],
) -> np.ndarray:
    """Return the passes' weights at signals, (n_passes, n_cases); sums over passes are 1."""
    products = weights[:, None]
    for ratio, power in _discounts(novelties, distances, passes):
        products = products * np.maximum(1.0, ratio) ** -power
    return products / products.sum(axis=0)


def _weights_at_slopes(
    decided: Decided, slopes: np.ndarray, distances: np.ndarray, passes: Sequence[FittedPass]
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives by novelties, (n_passes, n_cases), and by distances of levels, (n_cases,).

    They come from derivatives by `_weights_at`, (n_passes, n_cases).
    """
    by_logarithm = decided.weights * (slopes - (decided.weights * slopes).sum(axis=0))
    by_novelty, by_line, by_level = (
        -power * (ratio > 1.0) * by_logarithm
        for ratio, power in _discounts(decided.novelties, distances, passes)
    )
    by_distance = by_level.sum(axis=0) / np.maximum(1.0, distances)
    return (by_novelty + by_line) / decided.novelties, by_distance
