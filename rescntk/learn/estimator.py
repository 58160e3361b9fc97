r"""The ensemble of views: their weights, novelty and contributions.

Leave-one-out errors weigh the views (fitted_view.py). Classifier and regressor have one base,
`ResidualKernelEstimator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..decomposition import nonnegative
from ..messages import shown, warn
from ..validation import check_dtype, check_integer, check_positive, is_sequence
from .blas import one_blas_thread
from .fitted_view import fit_view, shares_of
from .inputs import (
    Cases,
    Options,
    Settings,
    SignalEstimator,
    Signals,
    arrays,
    longest,
    read_signals,
    scaled,
    take,
    unit_exponent,
)
from .view_kernels import ViewKernel
from .views import DEFAULT, FAST, MANY, ResolvedView, View

_LEFT_OUT = 0.02  # largest sum of weights of views that are left out
_LEAST_SPREAD = 0.1  # least deviation of levels, in deviations inside of signals; of log2 of sizes
_BATCH = 2**22  # numbers of signals, or of their kernels, that a view computes at once

_POWER = 4.0
"""Power of errors in the weights that the average starts from. Measured mean accuracy: .863 with 0,
.880 with 4, .872 with 12."""

_NOVELTY_POWER = 3.0
"""Power of novelties above 1 in weights at a signal. Measured mean accuracy of seven sets with
noise of a twentieth of the deviation: .944 with 2, .953 with 3, .955 with 4; of twelve sets without
noise .858, .856 and .855."""

_LEVEL_POWER = 8.0
"""Weights of views that see levels fall as distance^-8 once a signal's level is unusual, at a
distance above 1. Measured on simulated plants whose levels drift by half a deviation, mean
accuracy: .784 with 0, .840 with 8."""

_MANY, _LANDMARKS = 1000, 400
"""Maximum number of signals that are all landmarks by default, and the landmarks of more. Half as
many cost 0 to .014 of accuracy on sets of 300 to 900 signals, a quarter .003 to .018."""

_LONG = 1e12
"""Pixel pairs times layers of a fit above which its size is told: some ten minutes on two cores."""

_FOLDS = 10  # of the score: weights of views at a fold come from the other folds
_EXAMPLES = 40  # maximum number of training signals whose contributions give the usual ones

COVERAGE = 0.9
"""Default share of sets and intervals that have the truth. Nine signals can tell it."""

REMEDY = (
    "Look at views_, cut the signals to the part that matters, or try views such as "
    "View(length=256) and View(head='trace')"
)
"""What to do where views find nothing, for warnings."""


class Usual:
    """Levels and sizes of training signals X with weights, (n_cases,).

    A signal's level is its mean, and its size log2 of its mean magnitude, of each channel. The unit
    of sizes is two deviations. One of twenty training signals has a distance of levels above 1, if
    that is more than a deviation.
    """

    def __init__(self, X: Signals, weights: np.ndarray) -> None:
        values = _levels_and_sizes(X)
        self.mean = np.average(values, axis=0, weights=weights)
        level, size = np.sqrt(np.average((values - self.mean) ** 2, axis=0, weights=weights))
        deviations = np.reshape([x.std(axis=-1) for x in arrays(X)], (len(X), -1))
        inside = np.average(deviations, axis=0, weights=weights)
        level = np.maximum(level, _LEAST_SPREAD * inside)
        self.unit = np.stack([np.where(level > 0, level, np.inf), 2 * (size + _LEAST_SPREAD)])
        left_out = self.distances(X)[0] / (1.0 - shares_of(weights))
        most = np.quantile(left_out, 0.95, weights=weights, method="inverted_cdf")
        self.unit[0] *= max(1.0, most)

    def distances(self, X: Signals) -> np.ndarray:
        """Return the distances of levels and of sizes from the usual ones, (2, n_cases)."""
        deviations = (_levels_and_sizes(X) - self.mean) / self.unit
        with np.errstate(over="ignore"):  # infinitely far
            return np.sqrt(np.mean(deviations**2, axis=2)).T


def _levels_and_sizes(X: Signals) -> np.ndarray:
    """Return the level and the size of each channel of signals, (n_cases, 2, n_channels)."""
    pairs = [np.stack([x.mean(axis=-1), np.abs(x).mean(axis=-1)], axis=-2) for x in arrays(X)]
    values = np.reshape(pairs, (len(X), 2, -1))
    values[:, 1] = np.log2(np.maximum(values[:, 1], np.finfo(np.float64).tiny))
    return values


def weigh(residuals: np.ndarray, error_weights: np.ndarray) -> np.ndarray:
    r"""Return the weights of views, (n_views,), from residuals (n_views, n_cases, n_outputs).

    G are mean products of residuals, where cases count with `error_weights`, and e = diag G. The
    weights, at least 0 and of sum 1, minimize the squared error of the average near w₀ ∝ e⁻⁴,
    :math:`w^\top G w + \min e\, \|w - w_0\|^2`. The least become 0, up to a sum of .02.
    """
    shares = shares_of(error_weights) / residuals.shape[2]
    rows = (residuals * np.sqrt(shares)[:, None]).reshape(len(residuals), -1)
    errors = (rows**2).sum(axis=1)
    unit = max(errors.min(), np.finfo(np.float64).eps * errors.max()) or 1.0
    near = (np.maximum(errors, unit) / unit) ** -_POWER
    near /= near.sum()
    # Least squares with a last row 1ᵀw = 1: any scale of w has the minimum's direction.
    ones = np.ones(len(errors))
    distance = np.eye(len(errors)) - np.outer(near, ones)
    system = np.vstack([rows.T / np.sqrt(unit), distance, ones])
    weights = nnls(system, np.append(np.zeros(len(system) - 1), 1.0))[0]
    weights /= weights.sum()
    rising = np.argsort(weights, kind="stable")
    weights[rising[np.cumsum(weights[rising]) < _LEFT_OUT]] = 0.0
    return weights / weights.sum()


def weights_at(
    weights: np.ndarray,
    novelties: np.ndarray,
    distances: np.ndarray,
    sees_levels: Sequence[bool] | np.ndarray,
) -> np.ndarray:
    """Return the views' weights at signals, (n_views, n_cases, k); sums over views are 1.

    `weights` are (n_views, k), and novelties (n_views, n_cases, k), with k as for `FittedView`. A
    view has less weight where a signal is novel to it, or levels are far away, if it sees levels.
    """
    products = weights[:, None] * np.maximum(1.0, novelties) ** -_NOVELTY_POWER
    farther = np.clip(distances, 1.0, 1e9) ** -_LEVEL_POWER
    products *= np.where(np.reshape(sees_levels, (-1, 1)), farther, 1.0)[:, :, None]
    return products / products.sum(axis=0)


def average(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the views' average of values (n_views, n_cases, n_outputs), (n_cases, n_outputs).

    Weights are (n_views, n_cases, n_outputs), or one for all outputs, (n_views, n_cases, 1).
    """
    return np.asarray((weights * values).sum(axis=0))


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What a fit predicts of cases, each left out with its group.

    With k as for `FittedView`, `of_views`, `novelties` and `weights` are the answers of `_decide`,
    with residuals in the place of decisions.
    """

    of_views: np.ndarray
    """Residuals of views, (n_views, n_cases, n_outputs)."""
    novelties: np.ndarray
    """Of views, (n_views, n_cases, k)."""
    weights: np.ndarray
    """Of views, (n_views, n_cases, k), from the errors of all cases."""
    residuals: np.ndarray
    """Residuals of the average, (n_cases, n_outputs). The weights of views at a fold come from the
    errors of the other folds."""
    folds: np.ndarray
    """The number of each case's fold, (n_cases,)."""


@dataclass(frozen=True, eq=False)
class Nonconformity:
    """How far off cases left out are, for sets and intervals."""

    scores: np.ndarray
    """(n_cases, …)"""
    weights: np.ndarray
    """(n_cases,)"""
    n_groups: int
    """A case may be a group."""

    def within(self, coverage: float) -> np.ndarray:
        """Return the score that the share `coverage` of new cases is not to exceed.

        A new case, or group, is one of n + 1 with those left out.
        """
        if not 0 < check_positive(coverage, "coverage") < 1:
            raise ValueError(f"coverage is {shown(coverage)}, expected a number between 0 and 1")
        n = self.n_groups
        if coverage * (n + 1) > n:
            warn(
                f"coverage is {coverage}, and {n} training signals or groups tell "
                f"{n / (n + 1):.3g} at most",
            )
        share = min(1.0, max(0.0, coverage * (n + 1) / n - 1e-12))
        return np.quantile(self.scores, share, axis=0, weights=self.weights, method="inverted_cdf")


def folds_of(members: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return the number of each case's fold, (n_cases,), from numbers of groups, (n_cases,)."""
    return (rng.permutation(members.max() + 1) % _FOLDS)[members]


def squared_sum(deviations: np.ndarray, cases: Cases, weights: np.ndarray) -> float:
    """Return the sum of squares of weighted deviations; cases of a group err together."""
    spread = np.bincount(cases.members, weights * deviations)
    return float(spread @ spread)


class ResidualKernelEstimator(Settings, SignalEstimator):
    """Average the decisions of several views of the signals."""

    _unit = np.ones(1)  # of each target; a regressor has its own
    _each = False  # whether each output has penalties and weights of its own

    def novelty(self, X: ArrayLike) -> np.ndarray:
        """Return how unlike the training signals some signals are.

        A view's novelty is its Gaussian process's variance, divided by the mean variance at
        training signals left out. Inverse errors weigh the views' geometric mean; of several
        targets it is the geometric mean.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, of as many channels and, but for lists, time points.

        Returns
        -------
        ndarray, (n_cases,)
            About 1 for signals like the training signals, and larger for signals far from them or
            of other sizes.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        signals = self._read(X)
        return self._novelty(self._decide(signals)[1], signals)

    def contributions(self, X: ArrayLike) -> Signals:
        """Return the contribution of each time point to each decision.

        Their sum over time and ``intercept_`` are the decisions, up to rounding errors. A
        contribution includes what the network sees around the time point.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, of as many channels and, but for lists, time points.

        Returns
        -------
        ndarray, (n_cases, n_outputs, n_timepoints)
            For lists a list of (n_outputs, n_timepoints_i). A target or class has an output; of
            two classes the second one.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        signals = self._read(X)
        shares = self._shares(signals)
        return np.array(shares) if isinstance(signals, np.ndarray) else shares

    def usual_contributions(self) -> np.ndarray | None:
        """Return the contributions of time points of a usual signal.

        They are medians over up to 40 training signals; of a classifier, means over classes of
        medians. Pictures subtract them.

        Returns
        -------
        ndarray, (n_outputs, n_timepoints), or None
            None of models for lists.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        if isinstance(self._examples, list):
            return None
        shares = np.array(self._shares(self._examples))
        classes = self._labels(shares.sum(axis=2) + self._centre)  # a regressor has one
        medians = [np.median(shares[classes == k], axis=0) for k in np.unique(classes)]
        return np.asarray(np.mean(medians, axis=0))

    @staticmethod
    def _labels(decisions: np.ndarray) -> np.ndarray:
        """Return the predicted class of each row of decisions."""
        return np.zeros(len(decisions))

    def _read(self, X: ArrayLike) -> Signals:
        """Return checked signals in the unit of the fit, a power of two."""
        return scaled(read_signals(self, X), self._exponent)

    def _batches(self, X: Signals) -> Iterator[Signals]:
        """Yield the signals in parts, whose kernels and views take little memory.

        Products by one BLAS thread have the last bits of all signals' product, since a part begins
        at a multiple of 64 rows and has at least 64.
        """
        landmarks = max(len(fitted.signals) for fitted in self._fitted)
        numbers = max(landmarks, longest(X) * len(X[0]))
        size = 64 * max(1, _BATCH // (64 * numbers))
        *starts, last = range(0, max(len(X) - 63, 1), size)
        for start in starts:
            yield X[start : start + size]
        yield X[last:]

    def _decide(self, X: Signals) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return decisions (n_views, n_cases, n_outputs), novelties and weights of views.

        Novelties and weights are (n_views, n_cases, k), with k as for `FittedView`. Sums of weights
        over views are 1.
        """
        options, seeing = self._options(), [fitted.view.sees_levels for fitted in self._fitted]
        parts = []
        for some in self._batches(X):
            with one_blas_thread():
                pairs = [fitted.decide(some, options) for fitted in self._fitted]
            decisions, novelties = map(np.array, zip(*pairs, strict=True))
            distances = self._usual.distances(some)[0]
            weights = weights_at(self._weights, novelties, distances, seeing)
            parts.append((decisions, novelties, weights))
        decisions, novelties, weights = (
            np.concatenate(p, axis=1) for p in zip(*parts, strict=True)
        )
        return decisions, novelties, weights

    def _novelty(self, novelties: np.ndarray, X: Signals) -> np.ndarray:
        """Return the novelty of signals, from the novelties of views (n_views, n_cases, k)."""
        logs = []
        for of_output, errors in zip(
            np.moveaxis(novelties, 2, 0),
            np.transpose([fitted.error for fitted in self._fitted]),
            strict=True,
        ):
            inverse = 1.0 / np.maximum(errors, np.finfo(np.float64).eps * (errors.max() or 1.0))
            logs.append((inverse / inverse.sum()) @ np.log(of_output))
        of_views = np.exp(np.mean(logs, axis=0))
        return np.maximum(of_views, self._usual.distances(X)[1] ** 2)

    def _shares(self, X: Signals) -> list[np.ndarray]:
        """Return the contributions of time points, (n_outputs, d_i) each."""
        totals = [np.zeros((len(self._centre), x.shape[1])) for x in X]
        left = iter(totals)
        for some in self._batches(X):
            of_some = list(islice(left, len(some)))
            for fitted, weights in zip(self._fitted, self._decide(some)[2], strict=True):
                with one_blas_thread():
                    parts = fitted.contributions(some, self._options())
                for total, part, weight in zip(of_some, parts, weights, strict=True):
                    rest = (fitted.intercepts - self._centre)[:, None] / part.shape[1]
                    total += (weight * self._unit)[:, None] * (part + rest)
        return totals

    def _fit_views(
        self, cases: Cases, error_weights: np.ndarray, penalties: Sequence[float] = ()
    ) -> LeftOut:
        """Fit the views to cases, weigh them, and return results of cases left out.

        `penalties` are tried besides the least one. Errors of cases count with `error_weights`.
        """
        self._centre = np.average(cases.targets, axis=0, weights=cases.weights)
        n_penalties = cases.targets.shape[1] if self._each else 1
        self._exponent = unit_exponent(cases.signals)
        cases = cases._replace(signals=scaled(cases.signals, self._exponent))
        X, n, rng = cases.signals, len(cases.weights), check_random_state(self.random_state)
        folds = folds_of(cases.members, rng)  # first: the same for all fits of one seed
        views, options, places = self._views(n), self._options(), self._landmarks(n, rng)
        notes, resolved = np.full(len(views), "", dtype=object), dict[ResolvedView, int]()
        for k, view in enumerate(views):
            if reason := view.refusal(X):
                notes[k] = reason
            elif (of_signals := view.resolve(X)) in resolved:
                notes[k] = f"sees the same as view {resolved[of_signals]}"
            else:
                resolved[of_signals] = k
        if not resolved:
            raise ValueError(f"views has none for these signals: {notes[0]}")
        work = sum(v.work for v in resolved) * n * (n if places is None else len(places))
        if work > _LONG:
            warn(
                f"this fit computes {work:.0e} pixel pairs: fewer landmarks, shorter views or "
                f"views='fast' take less time",
            )
        with one_blas_thread():
            fits = []
            for v in resolved:
                tried = self._penalties(v.kernel, cases.weights, penalties)
                fits.append(fit_view(v, cases, places, tried, error_weights, options, n_penalties))
            fitted, *of_fits = zip(*fits, strict=True)
            residuals, novelties = map(np.array, of_fits)
            parts = np.split(residuals, n_penalties, axis=2)
            weights = np.stack([weigh(part, error_weights) for part in parts], axis=1)
            self._usual = Usual(X, cases.weights)
            distances, mean = self._usual.distances(X)[0], np.zeros(cases.targets.shape)
            seeing = np.array([view.sees_levels for view in resolved])
            for fold in np.unique(folds):
                at = folds == fold
                others = np.where(at, 0.0, error_weights)
                of_others = np.stack([weigh(part, others) for part in parts], axis=1)
                of_others = weights_at(of_others, novelties[:, at], distances[at], seeing)
                mean[at] = average(of_others, residuals[:, at])
        rows, kept = [*resolved.values()], np.flatnonzero(weights.any(axis=1))
        of_views = np.tile([[np.nan], [0.0]], len(views))
        of_views[:, rows] = [each.error.mean() for each in fitted], weights.mean(axis=1)
        table = np.array(views, dtype=object), *of_views, notes
        self.views_ = dict(zip(("view", "error", "weight", "note"), table, strict=True))
        self._fitted, self._weights = [fitted[k] for k in kept], weights[kept]
        self._examples = take(X, np.sort(rng.permutation(n)[:_EXAMPLES]))
        novelties = novelties[kept]
        at_cases = weights_at(self._weights, novelties, distances, seeing[kept])
        return LeftOut(residuals[kept], novelties, at_cases, mean, folds)

    def _penalties(
        self, kernel: ViewKernel, weights: np.ndarray, more: Sequence[float]
    ) -> Sequence[float]:
        """Return the penalties given, or those that a view tries for cases of some weights.

        These are the least one, and greater ones of the kernel's own or of `more`.
        """
        if self.penalty is None:
            least = kernel.least_penalty(weights, check_dtype(self.dtype))
            return least, *(p for p in kernel.penalties or more if p > least)
        penalties = nonnegative(self.penalty, "penalty")
        if not penalties.all():
            raise ValueError(f"penalty is {shown(self.penalty)}, expected positive numbers")
        return penalties.tolist()

    def _views(self, n: int) -> Sequence[View]:
        views = self.views
        if isinstance(views, str) and views in ("fast", "default"):
            return MANY if n > _MANY else FAST if views == "fast" else DEFAULT
        if not is_sequence(views) or not len(views) or not all(isinstance(v, View) for v in views):
            raise ValueError(
                f"views is {shown(views)}, expected 'fast', 'default' or a list of View"
            )
        return list(views)

    def _landmarks(self, n: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Return the places of the landmarks among n cases, or None for all."""
        m = (_LANDMARKS if n > _MANY else n) if self.landmarks is None else self.landmarks
        m = check_integer(m, "landmarks", at_least=2)
        return None if m >= n else np.sort(rng.permutation(n)[:m])

    def _options(self) -> Options:
        """Return the options of kernels."""
        n_jobs = self.n_jobs
        threads = None if n_jobs is None else effective_n_jobs(check_integer(n_jobs, "n_jobs"))
        return {"engine": self.engine, "dtype": check_dtype(self.dtype), "threads": threads}
