r"""The ensemble of views: their weights, novelty and contributions.

Leave-one-out errors weigh the views (regression.py). Classifier and regressor have one base,
`ResidualKernelEstimator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...checks.messages import shown, warn
from ...checks.values import (
    check_dtype,
    check_integer,
    check_nonnegative_vector,
    is_sequence,
)
from ..base import Options, SignalEstimator
from ..reading.cases import Cases
from ..reading.inputs import read_signals
from ..reading.signals import Signals, longest, scaled, take, unit_exponent
from ..views.defaults import (
    CLASSIFIER_VIEWS,
    FAST_VIEWS,
    MANY_SIGNALS,
    VIEWS_OF_MANY_SIGNALS,
)
from ..views.kernels import ViewKernel
from ..views.pipeline import ViewPipeline
from ..views.view import UnsuitableSignals, View
from .blas import one_blas_thread
from .left_out import LeftOut, folds_of
from .levels import TrainingLevels
from .regression import ViewRegression, fit_view
from .weights import average_of_folds, weigh_outputs, weights_at

_NUMBERS_AT_ONCE = 2**22
"""Numbers of signals, or of their kernels, that a view computes at once. More take more memory."""

_LANDMARKS_OF_MANY = 400
"""Landmarks of more than `MANY_SIGNALS`: kernels take time in proportion. Few classes need no more.
Measured with 1,200 signals of plants (`benchmarks/constants.py`): accuracy .985 with 100, .990 with
200, .987 with 400; log loss .044, .038 and .048. Many classes do: accuracy on Crop, of 24, is .734
with 400 and .757 with 1,000, in 2.5 times the seconds (`benchmarks/many_signals.py`)."""

_MUCH_WORK = 1e12
"""Pixel pairs times layers above which a fit warns: some ten minutes on two cores."""

_EXAMPLES = 40
"""Maximum number of training signals of `median_contributions`."""

REMEDY = (
    "Look at views_, cut the signals to the part that matters, or try views such as "
    "View(length=256) and View(head='trace')"
)
"""What to do where views find nothing, for warnings."""


@dataclass(eq=False, repr=False)
class Settings:
    """Parameters of the estimators of several views, here and as aeon's."""

    views: str | Sequence[View] = "default"
    _: KW_ONLY
    penalty: float | Sequence[float] | None = None
    n_landmarks: int | None = None
    engine: str = "auto"
    dtype: str = "float32"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None


class ResidualKernelEstimator(Settings, SignalEstimator):
    """Average the decisions of several views of the signals."""

    # With metadata routing, searches of scikit-learn pass groups on to `fit`.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    intercept_: np.ndarray
    _default_views: Sequence[View] = CLASSIFIER_VIEWS
    _unit = np.ones(1)
    """Units of targets, (1,) or (n_outputs,)."""
    _is_per_output = False
    """Whether a penalty and weights of views are chosen for each output, or one for all."""

    def novelty(self, X: ArrayLike) -> np.ndarray:
        r"""Return how unlike the training signals some signals are.

        It is :math:`\max(\prod_v \nu_v^{p_v}, s)`. View v has the variance :math:`\nu_v` of an
        observation in its Gaussian process, in units of its mean at training signals left out. The
        powers :math:`p_v` are proportional to inverse errors of views, and their sum is 1. Of
        several targets the product is the geometric mean of theirs. The size s is the mean of
        :math:`((z - m)/(2d + 0.2))^2` over channels, where z is log2 of the mean magnitude, with
        mean m and deviation d over training signals.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, of as many channels and, but for lists, time points.

        Returns
        -------
        ndarray, (n_cases,)
            About 1 for new signals like the training signals, and larger for signals far from them
            or of other sizes. The training signals themselves have less: `left_out_novelty_` has
            theirs, each left out, for limits.

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
        of_signals = self._contributions(signals)
        return np.array(of_signals) if isinstance(signals, np.ndarray) else of_signals

    def median_contributions(self) -> np.ndarray | None:
        """Return the median contributions of time points, over up to 40 training signals.

        Of a classifier they are means over classes of medians. Pictures subtract them.

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
        contributions = np.array(self._contributions(self._examples))
        classes = self._labels(contributions.sum(axis=2) + self.intercept_)
        medians = [np.median(contributions[classes == k], axis=0) for k in np.unique(classes)]
        return np.asarray(np.mean(medians, axis=0))

    @staticmethod
    def _labels(decisions: np.ndarray) -> np.ndarray:
        """Return the predicted class of each row of decisions: here all signals have one class."""
        return np.zeros(len(decisions))

    def _read(self, X: ArrayLike) -> Signals:
        """Return checked signals in the unit of the fit, a power of two."""
        return scaled(read_signals(self, X), self._exponent)

    def _batches(self, X: Signals) -> Iterator[Signals]:
        """Yield the signals in batches, whose kernels and views take little memory.

        A batch begins at a multiple of 64 rows and has at least 64. So products by one BLAS thread
        have the same last bits as the product of all signals.
        """
        n_landmarks = max(len(fitted.landmarks) for fitted in self._fitted_views)
        numbers = max(n_landmarks, longest(X) * len(X[0]))
        size = 64 * max(1, _NUMBERS_AT_ONCE // (64 * numbers))
        *starts, last = range(0, max(len(X) - 63, 1), size)
        for start in starts:
            yield X[start : start + size]
        yield X[last:]

    def _decide(self, X: Signals) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return decisions (n_views, n_cases, n_outputs), novelties and weights of views.

        Novelties and weights are (n_views, n_cases, n_regressions), as for `ViewRegression`. Sums
        of weights over views are 1.
        """
        options, parts = self._options(), []
        depends_on_levels = [fitted.view.depends_on_levels for fitted in self._fitted_views]
        for batch in self._batches(X):
            with one_blas_thread():
                pairs = [fitted.decide(batch, options) for fitted in self._fitted_views]
            decisions, novelties = map(np.array, zip(*pairs, strict=True))
            distances = self._levels.distances(batch)[0]
            weights = weights_at(self._weights, novelties, distances, depends_on_levels)
            parts.append((decisions, novelties, weights))
        decisions, novelties, weights = (
            np.concatenate(p, axis=1) for p in zip(*parts, strict=True)
        )
        return decisions, novelties, weights

    def _novelty(self, novelties: np.ndarray, X: Signals) -> np.ndarray:
        """Return the novelty of signals. `novelties` are (n_views, n_cases, n_regressions)."""
        logs = []
        for of_output, errors in zip(
            np.moveaxis(novelties, 2, 0),
            np.transpose([fitted.mean_squared_error for fitted in self._fitted_views]),
            strict=True,
        ):
            inverse = 1.0 / np.maximum(errors, np.finfo(np.float64).eps * (errors.max() or 1.0))
            logs.append((inverse / inverse.sum()) @ np.log(of_output))
        of_views = np.exp(np.mean(logs, axis=0))
        return np.maximum(of_views, self._levels.distances(X)[1] ** 2)

    def _contributions(self, X: Signals) -> list[np.ndarray]:
        """Return the contributions of time points, (n_outputs, d_i) each."""
        totals = [np.zeros((len(self._centre), x.shape[1])) for x in X]
        next_totals = iter(totals)
        for batch in self._batches(X):
            of_batch = list(islice(next_totals, len(batch)))
            for fitted, weights in zip(self._fitted_views, self._decide(batch)[2], strict=True):
                with one_blas_thread():
                    parts = fitted.contributions(batch, self._options())
                for total, part, weight in zip(of_batch, parts, weights, strict=True):
                    constants = (fitted.intercepts - self._centre)[:, None] / part.shape[1]
                    total += (weight * self._unit)[:, None] * (part + constants)
        return totals

    def _fit_views(
        self,
        cases: Cases,
        targets: np.ndarray,
        error_weights: np.ndarray,
        penalties: Sequence[float] = (),
    ) -> LeftOut:
        """Fit the views to targets of cases, weigh them, and return results of cases left out.

        `targets` are what is regressed, (n_cases, n_outputs). `penalties` are tried besides the
        least one. Errors of cases count with `error_weights`.
        """
        self._centre = np.average(targets, axis=0, weights=cases.weights)
        self._exponent = unit_exponent(cases.signals)
        cases = cases._replace(signals=scaled(cases.signals, self._exponent))
        n, rng = len(cases.weights), check_random_state(self.random_state)
        folds = folds_of(cases.groups, rng)  # first: the same for all fits of one seed
        views, landmark_indices = self._views(n), self._landmark_indices(n, rng)
        resolved, notes = resolve_views(views, cases.signals)
        _warn_of_work(resolved, n, n if landmark_indices is None else len(landmark_indices))
        n_regressions = targets.shape[1] if self._is_per_output else 1
        fits, options = [], self._options()
        with one_blas_thread():
            for view in resolved:
                tried = self._penalties(view.kernel, cases.weights, penalties)
                settings = landmark_indices, tried, error_weights, n_regressions, options
                fits.append(fit_view(view, cases, targets, *settings))
            fitted, *left_out = zip(*fits, strict=True)
            residuals, novelties = map(np.array, left_out)
            weights = weigh_outputs(residuals, error_weights, n_regressions)
            self._levels = TrainingLevels(cases.signals, cases.weights)
            distances = self._levels.distances(cases.signals)[0]
            depends_on_levels = np.array([view.depends_on_levels for view in resolved])
            at_signals = novelties, distances, depends_on_levels
            averaged = average_of_folds(residuals, error_weights, folds, *at_signals)
        self.views_ = _table(views, [*resolved.values()], fitted, weights, notes)
        used = np.flatnonzero(weights.any(axis=1))
        self._fitted_views, self._weights = [fitted[k] for k in used], weights[used]
        self._examples = take(cases.signals, np.sort(rng.permutation(n)[:_EXAMPLES]))
        novelties = novelties[used]
        novelty = self._novelty(novelties, cases.signals)
        self.left_out_novelty_ = cases.at_signals(novelty)
        return LeftOut(
            view_residuals=residuals[used],
            view_novelties=novelties,
            novelty=novelty,
            view_weights=weights_at(self._weights, novelties, distances, depends_on_levels[used]),
            residuals=averaged,
            folds=folds,
        )

    def _penalties(
        self, kernel: ViewKernel, weights: np.ndarray, more: Sequence[float]
    ) -> Sequence[float]:
        """Return the penalties that a view tries for cases of these weights.

        By default they are the least one, and greater ones of the kernel, or else of `more`.
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
            fast_or_all = FAST_VIEWS if views == "fast" else self._default_views
            return VIEWS_OF_MANY_SIGNALS if n > MANY_SIGNALS else fast_or_all
        if not is_sequence(views) or not len(views) or not all(isinstance(v, View) for v in views):
            raise ValueError(
                f"views is {shown(views)}, expected 'fast', 'default' or a list of View"
            )
        return list(views)

    def _landmark_indices(self, n: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Return the indices of the landmarks among n cases, or None for all."""
        by_default = _LANDMARKS_OF_MANY if n > MANY_SIGNALS else n
        m = by_default if self.n_landmarks is None else self.n_landmarks
        m = check_integer(m, "n_landmarks", at_least=2)
        return None if m >= n else np.sort(rng.permutation(n)[:m])

    def _options(self) -> Options:
        """Return the options of kernels."""
        n_jobs = self.n_jobs
        threads = None if n_jobs is None else effective_n_jobs(check_integer(n_jobs, "n_jobs"))
        return {"engine": self.engine, "dtype": check_dtype(self.dtype), "threads": threads}


def resolve_views(views: Sequence[View], X: Signals) -> tuple[dict[ViewPipeline, int], np.ndarray]:
    """Return different views of signals with their indices; and notes, why others have no part."""
    notes, resolved = np.full(len(views), "", dtype=object), dict[ViewPipeline, int]()
    for k, view in enumerate(views):
        try:
            of_signals = view._resolve(X)
        except UnsuitableSignals as refusal:
            notes[k] = refusal.reason
            continue
        if of_signals in resolved:
            notes[k] = f"sees the same as view {resolved[of_signals]}"
        else:
            resolved[of_signals] = k
    if not resolved:
        raise ValueError(f"views has none for these signals: {notes[0]}")
    return resolved, notes


def _warn_of_work(views: Iterable[ViewPipeline], n: int, n_landmarks: int) -> None:
    """Warn of a fit that takes long."""
    work = sum(view.work for view in views) * n * n_landmarks
    if work > _MUCH_WORK:
        warn(
            f"this fit computes {work:.0e} pixel pairs times layers: fewer landmarks or shorter "
            f"views take less time",
        )


def _table(
    views: Sequence[View],
    view_indices: Sequence[int],
    fitted: Sequence[ViewRegression],
    weights: np.ndarray,
    notes: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the attribute `views_`: views at `view_indices` are fitted, with these weights."""
    errors, means = np.full(len(views), np.nan), np.zeros(len(views))
    errors[view_indices] = [view.mean_squared_error.mean() for view in fitted]
    means[view_indices] = weights.mean(axis=1)
    # Clones, so that nobody changes the default views through this attribute.
    columns = np.array([clone(view) for view in views], dtype=object), errors, means, notes
    return dict(zip(("view", "error", "weight", "note"), columns, strict=True))
