"""The ensemble of views that classifier and regressor share: fitting, novelty, contributions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from ..decomposition import nonnegative
from ..validation import check_dtype, check_integer, is_sequence
from .ensemble import Usual, average, fit_view, least_penalty, weigh, weights_at
from .inputs import Cases, Signals, read_signals, take
from .views import DEFAULT, FAST, MANY, View

_MANY, _LANDMARKS = 1000, 400
"""Most signals that are all landmarks by default, and the landmarks of more. Half as many cost 0 to
.014 of accuracy on sets of 300 to 900 signals, a quarter .003 to .018."""

_LONG = 1e12
"""Pixel pairs times layers of a fit above which its size is told: some ten minutes on two cores."""

_ONE_THREAD = 500
"""Most signals whose matrices are decomposed by one BLAS thread: two are no faster up to 270, and
on busy cores they wait for each other some milliseconds."""

_controller = cache(ThreadpoolController)  # takes 20 ms to find the libraries with threads

_FOLDS = 10  # of the score: weights of views at a fold come from the other folds
_EXAMPLES = 40  # most training signals whose contributions give the usual ones

REMEDY = (
    "Look at views_, cut the signals to the part that matters, or try views such as "
    "View(length=256) and View(head='trace')"
)
"""What to do where views find nothing, for warnings."""


class SignalEstimator(BaseEstimator):
    """An estimator that takes signals of two or three axes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


@dataclass(eq=False, repr=False)
class Parameters:
    """Parameters of estimators, here and in the forms of aeon."""

    views: Any = "default"
    _: KW_ONLY
    penalty: Any = None
    landmarks: Any = None
    engine: str = "auto"
    dtype: str = "float32"
    n_jobs: int | None = None
    random_state: Any = None


@dataclass(eq=False, repr=False)
class ResidualKernelEstimator(Parameters, SignalEstimator):
    """Average the decisions of several views of the signals."""

    _unit = np.ones(1)  # of each target; a regressor has its own

    def novelty(self, X: Any) -> np.ndarray:
        """Return how unlike the training signals some signals are, (n_cases,).

        It is about 1 for signals like them, and larger for signals far from them or of other sizes.
        A view's novelty is its Gaussian process's variance, divided by the mean variance at
        training signals left out. Inverse errors weigh the views' geometric mean. X and errors are
        as for `predict`.
        """
        signals = self._read(X)
        errors = np.array([fitted.error for fitted in self._fitted])
        inverse = 1.0 / np.maximum(errors, np.finfo(np.float64).eps * (errors.max() or 1.0))
        _, novelties, _ = self._decide(signals)
        of_views = np.exp((inverse / inverse.sum()) @ np.log(novelties))
        return np.maximum(of_views, self._usual.distances(signals)[1] ** 2)

    def contributions(self, X: Any) -> Any:
        """Return the contribution of each time point to each decision.

        They are (n_cases, n_outputs, n_timepoints), for lists a list of (n_outputs,
        n_timepoints_i), with an output for each target or class; of two classes for the second.
        Their sum over time and ``intercept_`` are the decisions, up to rounding errors. A
        contribution includes what the network sees around the time point. X and errors are as for
        `predict`.
        """
        signals = self._read(X)
        shares = self._shares(signals)
        return np.array(shares) if isinstance(signals, np.ndarray) else shares

    def usual_contributions(self) -> np.ndarray | None:
        """Return a usual signal's contributions, (n_outputs, n_timepoints); None for lists.

        They are medians over up to 40 training signals; of a classifier, means over classes of
        medians. Pictures subtract them.
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

    def _read(self, X: Any) -> Signals:
        check_is_fitted(self)
        return read_signals(self, X, reset=False)

    def _decide(self, X: Signals) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return decisions (n_views, n_cases, n_outputs), novelties and weights (n_views, n_cases).

        Sums of weights over views are 1.
        """
        options = self._options()
        pairs = [fitted.decide(fitted.matrix(X, options)) for fitted in self._fitted]
        decisions, novelties = map(np.array, zip(*pairs, strict=True))
        views, distances = [fitted.view for fitted in self._fitted], self._usual.distances(X)[0]
        return decisions, novelties, weights_at(self._weights, novelties, distances, views)

    def _shares(self, X: Signals) -> list[np.ndarray]:
        """Return the contributions of time points, (n_outputs, d_i) each."""
        totals = [np.zeros((len(self._centre), x.shape[1])) for x in X]
        for fitted, weights in zip(self._fitted, self._decide(X)[2], strict=True):
            parts = fitted.contributions(X, self._options())
            for total, part, weight in zip(totals, parts, weights, strict=True):
                rest = (fitted.intercepts - self._centre)[:, None] / part.shape[1]
                total += weight * self._unit[:, None] * (part + rest)
        return totals

    def _fit_views(
        self, cases: Cases, error_weights: np.ndarray, penalties: Sequence[float] = ()
    ) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
        """Fit the views to cases, and weigh them.

        `penalties` are tried besides the least one. Errors of cases count with `error_weights`.
        Returned are the answers of `_decide` at cases left out, with residuals as decisions; and
        residuals of the average, (n_cases, n_outputs), whose weights of views at a fold come from
        the other folds.
        """
        self._centre = np.average(cases.targets, axis=0, weights=cases.weights)
        X, n, rng = cases.signals, len(cases.weights), check_random_state(self.random_state)
        views, options, places = self._views(n), self._options(), self._landmarks(n, rng)
        penalties = self._penalties(least_penalty(cases.weights, options["dtype"]), penalties)
        notes, resolved = np.full(len(views), "", dtype=object), dict[View, int]()
        for k, view in enumerate(views):
            of_signals = view.resolve(X)
            if isinstance(of_signals, str):
                notes[k] = of_signals
            elif of_signals in resolved:
                notes[k] = f"sees the same as view {resolved[of_signals]}"
            else:
                resolved[of_signals] = k
        if not resolved:
            raise ValueError(f"views has none for these signals: {notes[0]}")
        sizes = [v.length ** (2 if v.head == "gap" else 1) * v.depth for v in resolved]
        work = sum(sizes) * n * (n if places is None else len(places))
        if work > _LONG:
            warnings.warn(
                f"this fit computes {work:.0e} pixel pairs: fewer landmarks, shorter views or "
                f"views='fast' take less time",
                stacklevel=3,
            )
        with _controller().limit(limits=1 if n <= _ONE_THREAD else None, user_api="blas"):
            fits = [fit_view(v, cases, places, penalties, error_weights, options) for v in resolved]
            fitted, *arrays = zip(*fits, strict=True)
            residuals, novelties = map(np.array, arrays)
            weights, self._usual = weigh(residuals, error_weights), Usual(X, cases.weights)
            distances, mean = self._usual.distances(X)[0], np.zeros(cases.targets.shape)
            folds = (rng.permutation(cases.members.max() + 1) % _FOLDS)[cases.members]
            for fold in np.unique(folds):
                at = folds == fold
                of_others = weigh(residuals, np.where(at, 0.0, error_weights))
                of_others = weights_at(of_others, novelties[:, at], distances[at], [*resolved])
                mean[at] = average(of_others, residuals[:, at])
        rows, kept = [*resolved.values()], np.flatnonzero(weights)
        of_views = np.tile([[np.nan], [0.0]], len(views))
        of_views[:, rows] = [each.error for each in fitted], weights
        table = np.array(views, dtype=object), *of_views, notes
        self.views_ = dict(zip(("view", "error", "weight", "note"), table, strict=True))
        self._fitted, self._weights = [fitted[k] for k in kept], weights[kept]
        self._examples = take(X, np.sort(rng.permutation(n)[:_EXAMPLES]))
        novelties, seen = novelties[kept], [fitted[k].view for k in kept]
        at_cases = weights_at(self._weights, novelties, distances, seen)
        return (residuals[kept], novelties, at_cases), mean

    def _penalties(self, least: float, more: Sequence[float]) -> Sequence[float]:
        """Return the penalties given, or the least one and greater ones of `more`."""
        if self.penalty is None:
            return least, *(p for p in more if p > least)
        penalties = nonnegative(self.penalty, "penalty")
        if not penalties.all():
            raise ValueError(f"penalty is {self.penalty!r}, expected positive numbers")
        return penalties.tolist()

    def _views(self, n: int) -> Sequence[View]:
        views: Any = self.views
        if isinstance(views, str) and views in ("fast", "default"):
            return FAST if views == "fast" else DEFAULT if n <= _MANY else MANY
        if not is_sequence(views) or not len(views) or not all(isinstance(v, View) for v in views):
            raise ValueError(
                f"views is {self.views!r}, expected 'fast', 'default' or a list of View"
            )
        return list(views)

    def _landmarks(self, n: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Return the places of the landmarks among n cases, or None for all."""
        m: Any = self.landmarks
        if m is None:
            m = _LANDMARKS if n > _MANY else n
        m = check_integer(m, "landmarks", at_least=2)
        return None if m >= n else np.sort(rng.permutation(n)[:m])

    def _options(self) -> dict[str, Any]:
        """Return the options of kernels."""
        threads = None
        if self.n_jobs is not None:
            threads = effective_n_jobs(check_integer(self.n_jobs, "n_jobs"))
        return {"engine": self.engine, "dtype": check_dtype(self.dtype), "threads": threads}


def squared_sum(deviations: np.ndarray, cases: Cases, weights: np.ndarray) -> float:
    """Return the sum of squares of weighted deviations; cases of a group err together."""
    spread = np.bincount(cases.members, weights * deviations)
    return float(spread @ spread)
