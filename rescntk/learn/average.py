"""Averages of decisions: each pass gets ridge regression of its own, and a weight by its evidence.

Weights make the squared error of the mean decision at signals left out small (`weights.weigh`).
Passes of hardly any weight are left out of the average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from .channel_choice import ChannelChoice
from .drift import UsualSignals, usual_line, usual_signals
from .fitted_pass import FittedPass, Training, fit_pass, least_error
from .inputs import DistinctCases
from .passes import Pass
from .views import Signals, standard_scale, take
from .weights import weigh, weights_at, weights_at_slopes

_EXAMPLES = 40
"""Most training signals whose shares give the usual ones. Raising it takes more time. Measured on
GunPoint and ItalyPowerDemand: means of 40 and of all signals differ by 4 to 6 % of a share."""


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
        return self.mean_of(self.decisions)

    def mean_of(self, values: np.ndarray) -> np.ndarray:
        """Return the mean over passes of values (n_passes, n_cases, n_outputs)."""
        return np.einsum("pn,pno->no", self.weights, values)


class LeftOut(NamedTuple):
    """The decisions of an average at its own cases, left out."""

    decisions: np.ndarray
    """Out of fold, (n_cases, n_outputs)."""
    blocked: np.ndarray
    """The same where each block of cases is left out as a whole (`DistinctCases.blocks`)."""
    folds: np.ndarray
    """Number of each case's fold, (n_cases,)."""
    residuals: Decided
    """Of the passes of weight above 0: leave-one-out residuals in place of decisions."""
    table: list[dict[str, Any]]
    """Settings, penalty, error, weight and seconds of each pass, also of passes of weight 0."""


@dataclass(eq=False, kw_only=True)
class Average:
    """Fitted passes and their weights; made by `fit_average`."""

    passes: list[FittedPass]
    weights: np.ndarray
    """(n_passes,): positive; their sum is 1."""
    usual: UsualSignals
    channel_scale: np.ndarray
    """Standard deviation of each channel of the training signals, or 1 for 0, (n_channels,)."""
    mean_target: np.ndarray
    """(n_outputs,)"""
    places: np.ndarray | slice
    """Column, in matrices of the passes, of each training signal; all columns for landmarks."""
    counts: tuple[int, int]
    """Number of signals of positive weight, and of the different ones among them."""
    options: dict[str, Any]
    """Options with which kernels are called."""
    usual_shares: np.ndarray | None = None
    """`typical_shares` of the training signals, once they are known."""

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
        return self.weighed(np.array(decisions), np.array(novelties), self.usual.distances(X))

    def weighed(
        self, decisions: np.ndarray, novelties: np.ndarray, distances: np.ndarray
    ) -> Decided:
        """Return decisions, or residuals, with the passes' weights at signals of these novelties.

        The mean novelty is geometric, with the inverses of the passes' errors as weights.
        `distances` are of levels.
        """
        weights = weights_at(self.weights, novelties, distances, self.passes)
        novelty = np.exp(np.tensordot(self._inverse_errors, np.log(novelties), 1))
        return Decided(decisions, novelties, weights, novelty)

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
        by_novelties, by_distance = weights_at_slopes(
            decided.weights, decided.novelties, by_weights, distances, self.passes
        )
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

    def typical_shares(
        self, X: Signals, labels_of: Callable[[np.ndarray], np.ndarray] | None
    ) -> np.ndarray | None:
        """Return median `shares` of signals, (n_outputs, n_timepoints); None for lists.

        With `labels_of`, which returns the class of each row of decisions, the mean over classes of
        medians. Means would follow single signals. Measured in one draw of bursts (periods 4 and 8,
        100 points, benchmarks/estimators.py): less the median, the largest contribution was on the
        burst in .95 of the signals; less the mean, in .23.
        """
        if not isinstance(X, np.ndarray):
            return None
        drawn = np.random.default_rng(0).permutation(len(X))[:_EXAMPLES]
        shares = self.shares(X[drawn])
        decisions = shares.sum(axis=tuple(range(2, shares.ndim))) + self.mean_target
        labels = np.zeros(len(shares)) if labels_of is None else labels_of(decisions)
        medians = [np.median(shares[labels == k], axis=0) for k in np.unique(labels)]
        return cast(np.ndarray, np.mean(medians, axis=0))

    def kernel_matrix(self, X: Signals) -> np.ndarray:
        """Return the mean kernel of X with the training signals, (n_cases, n_training)."""
        pairs = zip(self.weights, self.passes, strict=True)
        mean = sum(weight * fitted.matrix(X, self.options) for weight, fitted in pairs)
        return mean[:, self.places]

    def variance(self, decided: Decided) -> np.ndarray:
        """Return the variance of new observations, (n_cases, n_outputs), of the passes' mixture."""
        pairs = zip(self.passes, decided.novelties, strict=True)
        variances = np.array([fitted.variance(novel) for fitted, novel in pairs])
        spread = decided.mean_of((decided.decisions - decided.mean()) ** 2)
        return decided.mean_of(variances) + spread

    @property
    def _inverse_errors(self) -> np.ndarray:
        """Inverse errors of the passes, divided by their sum."""
        errors = np.array([fitted.error for fitted in self.passes])
        inverse = 1.0 / np.maximum(errors / (errors.max() or 1.0), np.finfo(np.float64).eps)
        return inverse / inverse.sum()


def fit_average(
    sources: Iterable[Pass],
    cases: DistinctCases,
    penalties: Sequence[float],
    folds: np.ndarray,
    landmarks: np.ndarray | None,
    options: dict[str, Any],
    channels: ChannelChoice | None = None,
) -> tuple[Average, LeftOut]:
    """Return the average of passes fitted to cases, and its decisions at the cases left out.

    `folds` are numbers of the cases' folds. `landmarks` are indices of the cases to which solutions
    are restricted, or None. With a metric of the `channels`, decisions at a fold are of a metric
    that has not seen the fold.
    """
    X = cases.signals
    training = Training(X if landmarks is None else take(X, landmarks))
    judged = np.setdiff1d(np.arange(len(X)), [] if landmarks is None else landmarks)
    fit = partial(
        fit_pass, penalties=penalties, options=options, training=training, landmarks=landmarks
    )
    if channels is None:
        fits = [fit(source, cases) for source in sources]
    else:
        fits = [_fit_mixed(source, fit, cases, channels, judged) for source in sources]
    passes, at_penalties, of_blocks = (list(column) for column in zip(*fits, strict=True))
    usual, distances = usual_signals(X, cases.weights, cases.groups)
    pairs = zip(passes, at_penalties, strict=True)
    residuals = np.array([each[penalties.index(fitted.penalty)] for fitted, each in pairs])
    weights = weigh(residuals, cases.error_weights)
    parts = passes, at_penalties, cases.error_weights, distances
    decisions = cases.targets - _left_out(*parts, folds)
    blocked = cases.targets - _left_out(*parts, cases.blocks, of_blocks)
    kept = np.flatnonzero(weights)
    used = [passes[k] for k in kept]
    deviation = standard_scale(X, cases.weights)[1]
    average = Average(
        passes=used,
        weights=weights[kept],
        usual=usual,
        channel_scale=np.where(deviation > 0, deviation, 1.0),
        mean_target=np.average(cases.targets, axis=0, weights=cases.weights),
        places=cases.places if landmarks is None else slice(None),
        counts=(len(cases.places), len(cases.weights)),
        options=options,
    )
    novelties = np.array([fitted.novelties for fitted in used])
    at_cases = average.weighed(residuals[kept], novelties, distances)
    average.usual = replace(usual, line=usual_line(at_cases.novelty[judged], cases.weights[judged]))
    table = [
        fitted.source.settings()
        | {"penalty": fitted.penalty, "seconds": fitted.seconds, "error": fitted.error, "weight": w}
        for fitted, w in zip(passes, weights, strict=True)
    ]
    return average, LeftOut(decisions, blocked, folds, at_cases, table)


def _fit_mixed(
    source: Pass,
    fit: partial[Any],
    cases: DistinctCases,
    channels: ChannelChoice,
    judged: np.ndarray,
) -> tuple[FittedPass, np.ndarray, np.ndarray]:
    """Return a pass with a metric of the channels, and its residuals left out, as `fit_pass`.

    Residuals, and novelties of the cases that are `judged`, are of metrics that have not seen the
    case's fold. `fit` is `fit_pass` with its other arguments.
    """

    def mixed(transform: np.ndarray) -> Pass:
        return replace(source, view=replace(source.view, transform=transform))

    parts, weights = list[np.ndarray](), cases.weights
    variances, novelties = np.ones((2, len(weights)))
    for fold, transform in enumerate(channels.of_folds):
        inside = channels.folds == fold
        seen = cases._replace(error_weights=cases.error_weights * inside)
        of_pass, *residuals = fit(mixed(transform), seen)
        variances[inside] = of_pass.novelties[inside] * of_pass.usual_variance
        parts = parts or [np.zeros_like(part) for part in residuals]
        for part, of_fold in zip(parts, residuals, strict=True):
            part[..., inside, :] = of_fold[..., inside, :]
    at_penalties, of_blocks = parts
    fitted = fit(mixed(channels.transform), cases, judged_by=at_penalties)[0]
    usual = float(np.average(variances[judged], weights=weights[judged]))
    novelties[judged] = variances[judged] / usual
    line = usual_line(novelties[judged], weights[judged])
    fitted = replace(fitted, usual_variance=usual, novelties=novelties, line=line)
    return fitted, at_penalties, of_blocks


def _left_out(
    passes: Sequence[FittedPass],
    at_penalties: Sequence[np.ndarray],
    error_weights: np.ndarray,
    distances: np.ndarray,
    folds: np.ndarray,
    of_folds: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """Return residuals (n_cases, n_outputs) at each fold of an average without the fold's part.

    The other folds give penalties and weights (`weigh`), which novelties to the passes and
    distances of levels change. The passes have leave-one-out residuals; with `of_folds`,
    (n_cases, n_outputs) each, residuals of whole folds left out.
    """
    novelties = np.array([fitted.novelties for fitted in passes])
    mean = np.zeros(at_penalties[0].shape[1:])
    for fold in np.unique(folds):
        inside = folds == fold
        outside = np.where(inside, 0.0, error_weights)
        chosen = [each[least_error(each, outside)[0]] for each in at_penalties]
        weights = weigh(np.array(chosen), outside)
        at_cases = weights_at(weights, novelties[:, inside], distances[inside], passes)
        for residuals, share in zip(of_folds or chosen, at_cases, strict=True):
            mean[inside] += share[:, None] * residuals[inside]
    return mean
