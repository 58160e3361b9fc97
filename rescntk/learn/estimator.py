r"""The ensemble of views: their weights, novelty and contributions.

Leave-one-out errors weigh the views (fitted_view.py). Classifier and regressor have one base,
`ResidualKernelEstimator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..messages import shown, warn
from ..validation import (
    check_dtype,
    check_integer,
    check_nonnegative_vector,
    is_sequence,
)
from .blas import one_blas_thread
from .fitted_view import fit_view
from .inputs import (
    Cases,
    Options,
    Settings,
    SignalEstimator,
    Signals,
    longest,
    read_signals,
    scaled,
    take,
    unit_exponent,
)
from .left_out import LeftOut, folds_of
from .levels import TrainingLevels
from .resolved_view import ResolvedView
from .view_kernels import ViewKernel
from .view_weights import average, weigh, weights_at
from .views import DEFAULT, FAST, MANY, View

_BATCH = 2**22  # numbers of signals, or of their kernels, that a view computes at once


_MANY, _LANDMARKS = 1000, 400
"""Maximum number of signals that are all landmarks by default, and the landmarks of more. Half as
many cost 0 to .014 of accuracy on sets of 300 to 900 signals, a quarter .003 to .018."""

_LONG = 1e12
"""A fit of more pixel pairs times layers warns of its size: some ten minutes on two cores."""

_EXAMPLES = 40  # maximum number of training signals whose contributions give the usual ones


REMEDY = (
    "Look at views_, cut the signals to the part that matters, or try views such as "
    "View(length=256) and View(head='trace')"
)
"""What to do where views find nothing, for warnings."""


class ResidualKernelEstimator(Settings, SignalEstimator):
    """Average the decisions of several views of the signals."""

    _default_views: Sequence[View] = DEFAULT
    _unit = np.ones(1)  # of each target; a regressor has its own
    _per_output = False  # whether each output has penalties and weights of its own

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
        for batch in self._batches(X):
            with one_blas_thread():
                pairs = [fitted.decide(batch, options) for fitted in self._fitted]
            decisions, novelties = map(np.array, zip(*pairs, strict=True))
            distances = self._levels.distances(batch)[0]
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
        return np.maximum(of_views, self._levels.distances(X)[1] ** 2)

    def _shares(self, X: Signals) -> list[np.ndarray]:
        """Return the contributions of time points, (n_outputs, d_i) each."""
        totals = [np.zeros((len(self._centre), x.shape[1])) for x in X]
        left = iter(totals)
        for batch in self._batches(X):
            of_batch = list(islice(left, len(batch)))
            for fitted, weights in zip(self._fitted, self._decide(batch)[2], strict=True):
                with one_blas_thread():
                    parts = fitted.contributions(batch, self._options())
                for total, part, weight in zip(of_batch, parts, weights, strict=True):
                    constants = (fitted.intercepts - self._centre)[:, None] / part.shape[1]
                    total += (weight * self._unit)[:, None] * (part + constants)
        return totals

    def _fit_views(
        self, cases: Cases, error_weights: np.ndarray, penalties: Sequence[float] = ()
    ) -> LeftOut:
        """Fit the views to cases, weigh them, and return results of cases left out.

        `penalties` are tried besides the least one. Errors of cases count with `error_weights`.
        """
        self._centre = np.average(cases.targets, axis=0, weights=cases.weights)
        n_penalties = cases.targets.shape[1] if self._per_output else 1
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
                f"this fit computes {work:.0e} pixel pairs times layers: fewer landmarks, shorter "
                f"views or views='fast' take less time",
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
            self._levels = TrainingLevels(X, cases.weights)
            distances, mean = self._levels.distances(X)[0], np.zeros(cases.targets.shape)
            seeing = np.array([view.sees_levels for view in resolved])
            for fold in np.unique(folds):
                at = folds == fold
                outside = np.where(at, 0.0, error_weights)
                fold_weights = np.stack([weigh(part, outside) for part in parts], axis=1)
                fold_weights = weights_at(fold_weights, novelties[:, at], distances[at], seeing)
                mean[at] = average(fold_weights, residuals[:, at])
        rows, used = [*resolved.values()], np.flatnonzero(weights.any(axis=1))
        of_views = np.tile([[np.nan], [0.0]], len(views))
        of_views[:, rows] = [view.error.mean() for view in fitted], weights.mean(axis=1)
        table = np.array(views, dtype=object), *of_views, notes
        self.views_ = dict(zip(("view", "error", "weight", "note"), table, strict=True))
        self._fitted, self._weights = [fitted[k] for k in used], weights[used]
        self._examples = take(X, np.sort(rng.permutation(n)[:_EXAMPLES]))
        novelties = novelties[used]
        at_cases = weights_at(self._weights, novelties, distances, seeing[used])
        return LeftOut(residuals[used], novelties, at_cases, mean, folds)

    def _penalties(
        self, kernel: ViewKernel, weights: np.ndarray, more: Sequence[float]
    ) -> Sequence[float]:
        """Return the penalties given, or those that a view tries for cases of some weights.

        These are the least one, and greater ones of the kernel's own or of `more`.
        """
        if self.penalty is None:
            least = kernel.least_penalty(weights, check_dtype(self.dtype))
            return least, *(p for p in kernel.penalties or more if p > least)
        penalties = check_nonnegative_vector(self.penalty, "penalty")
        if not penalties.all():
            raise ValueError(f"penalty is {shown(self.penalty)}, expected positive numbers")
        return penalties.tolist()

    def _views(self, n: int) -> Sequence[View]:
        views = self.views
        if isinstance(views, str) and views in ("fast", "default"):
            return MANY if n > _MANY else FAST if views == "fast" else self._default_views
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
