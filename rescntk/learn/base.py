"""The common base of classifier and regressor, and of their forms for aeon and sktime."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from ..arrays import Array
from ..progress import say, warn
from ..regression.checks import group_numbers
from ..validation import check_depth, check_dtype, check_integer, check_positive, check_unmasked
from .average import Average, Decided, LeftOut, fit_average
from .channel_choice import choose_channels
from .condense import condensed, export
from .forecast import Forecast, forecast
from .inputs import DistinctCases, SignalEstimator, positive_weights, read_signals
from .missing import IMPUTE, INTERPOLATE, OPTION
from .parameters import EstimatorParameters, check_several, checked_passes
from .passes import (
    EFFORTS,
    IMAGE_PLAN,
    PLAN,
    Pass,
    affordable,
    count_landmarks,
    in_time,
    plan,
    unseen_share,
)
from .views import Signals, take

_SCORE_FOLDS = 10
"""Folds of the score (`average.LeftOut`). Raising it leaves more cases to each weighting.
Chosen by custom, not measured."""

_UNSEEN = 0.05
"""Share of the energy in changes that no pass sees, above which a warning is given. Raising it
warns less often. Chosen: white noise of a tenth of the energy has half of it there."""

_FALL, _FALL_ERRORS = 0.05, 3.0
"""Least fall of the score, and least in standard errors, from single signals to tenths of the file
left out, that gives a warning. Raising them warns less often. Measured: signals
of different wearers fall from .90 to .80 (docs/guide/drift.md). Of the 14 sets of
`benchmarks/ucr.py` for choosing, Computers falls by .06, and no other set by the least."""

_ONE_THREAD_CASES = 500
"""Most signals whose matrices are decomposed by one BLAS thread.
Raising it keeps one thread for larger matrices. Measured with OpenBLAS on two idle
cores: two threads are no faster up to 270 signals, and a third faster at 500. On busy cores
the two threads wait for each other, up to a hundred times as long."""


class ResidualKernelEstimator(EstimatorParameters, SignalEstimator):
    """Average the decisions of several views of the signals."""

    _fitted: Average
    best_score_: float
    blocked_score_: float
    channel_metric_: np.ndarray
    channel_relevance_: np.ndarray
    channel_names_: list[str] | None

    def _read(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, **of_targets: Any
    ) -> tuple[Signals, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return signals, targets, weights and groups of the cases of positive weight."""
        check_depth(self.n_channels, "n_channels")
        if not isinstance(self.verbose, bool):
            check_integer(self.verbose, "verbose", at_least=0)
        check_unmasked(y, "y", "or labels, one a case,")
        y = validate_data(self, y=y, **of_targets)
        signals = read_signals(
            self,
            X,
            reset=True,
            n_channels=self.n_channels,
            images=True,
            sample_weight=sample_weight,
        )
        if len(y) != len(signals):
            raise ValueError(f"y has {len(y)} values, expected {len(signals)}: one for each signal")
        kept, weights = positive_weights(sample_weight, len(y))
        if groups is not None:
            groups = group_numbers(groups, len(y))[kept]
            if groups.min() == groups.max():
                raise ValueError(
                    "groups has one label among signals of positive weight, expected at least two: "
                    "each group is left out in turn"
                )
        if len(kept) < len(y):
            signals = take(signals, kept)
        return signals, y[kept], weights, groups

    def _fit_average(self, cases: DistinctCases, penalties: Sequence[float] = ()) -> LeftOut:
        """Fit the average to cases, and return its decisions at the cases left out.

        `penalties` are the default penalties beside the least one.
        """
        X, checked, options = cases.signals, check_several(self), self._options()
        generator, n = check_random_state(self.random_state), len(X)
        members = np.arange(n) if cases.groups is None else cases.groups
        folds = (generator.permutation(members.max() + 1) % _SCORE_FOLDS)[members]
        threads = 1 if n <= _ONE_THREAD_CASES else None
        with threadpool_limits(threads, "blas"):
            learning = {"dtype": "float32", "threads": options["threads"]}
            channels = choose_channels(cases, folds, self.channel_metric, generator, learning)
        of_folds = [] if channels is None else channels.of_folds
        m = count_landmarks(self.landmarks, n)
        passes, limit = self._plan(checked, X, m)
        unseen = unseen_share(passes, X)
        if unseen > _UNSEEN:
            remedy = "max_length=32" if X[0].ndim == 3 else "spectra=(False, True)"
            warn(
                f"{unseen:.0%} of the signals' energy is at frequencies that the means of blocks "
                f"remove; try {remedy}",
            )
        landmarks = None if m == n else np.sort(generator.permutation(n)[:m])
        report = partial(say, stream="stdout") if self.verbose else None
        if report:
            report(f"rescntk: {len(passes)} views of {n} signals")
        least = least_penalty(cases.weights, options["dtype"])
        with threadpool_limits(threads, "blas"):
            self._fitted, left_out = fit_average(
                in_time(passes, X, m, limit, report, options, n_fits=1 + len(of_folds)),
                cases,
                checked.get("penalty") or (least, *penalties),
                folds=folds,
                landmarks=landmarks,
                options=options | {"progress": bool(self.verbose)},
                channels=channels,
            )
        unit = np.eye(len(X[0]))
        self.channel_metric_ = unit if channels is None else channels.transform
        self.channel_relevance_ = (self.channel_metric_**2).sum(axis=0)
        self.fold_relevance_ = np.array([(S**2).sum(axis=0) for S in of_folds or [unit]])
        columns = left_out.table[0]
        self.passes_ = {k: np.array([row[k] for row in left_out.table]) for k in columns}
        return left_out

    def _plan(
        self, checked: dict[str, Any], X: Signals, n_landmarks: int
    ) -> tuple[list[Pass], float]:
        """Return the passes of the effort, and the limit of their time in seconds."""
        effort, limit = self.effort, np.inf
        if not isinstance(effort, str) or effort not in EFFORTS:
            try:
                effort, limit = "thorough", check_positive(effort, "effort")
            except ValueError:
                names = ", ".join(map(repr, EFFORTS))
                raise ValueError(
                    f"effort is {effort!r}, expected one of {names} or a positive number of seconds"
                ) from None
        images = X[0].ndim == 3
        rows = checked_passes(self.passes)
        planned = rows or (IMAGE_PLAN if images else PLAN[: EFFORTS[effort]])
        passes = partial(plan, planned, checked, X, self.alpha)
        if rows or effort == "thorough":
            return passes(), limit
        return affordable(passes, X, n_landmarks, effort), limit

    def _finish(self, score: str, error: float, trivial: float, start: float) -> None:
        """Set the error of the best score, and print both.

        `trivial` is the score of one answer for all signals: a best score that is no better gives a
        warning. So does a score far lower where tenths of the file are left out.
        """
        self.best_score_error_ = error
        self.fit_seconds_ = time.perf_counter() - start
        best, blocked = self.best_score_, self.blocked_score_
        if self.verbose:
            with_error = f"{best:.3f} ± {self.best_score_error_:.3f}"
            say(f"{score} {with_error}, {self.fit_seconds_:.1f} s", stream="stdout")
        if best <= trivial:
            warn(
                f"best_score_, the {score} on signals left out, is {best:.3g}, and the same answer "
                f"for all signals has {trivial:.3g}: the signals do not tell the answers",
            )
        elif blocked < best - max(_FALL, _FALL_ERRORS * self.best_score_error_):
            warn(
                f"{score} is {best:.3g} where single signals are left out, and {blocked:.3g} where "
                f"tenths of the file are (blocked_score_): signals near each other in the file are "
                f"alike, as of one recording, wearer or day. New ones will score less than "
                f"best_score_; fit(X, y, groups=...) measures how much",
            )

    def _options(self) -> dict[str, Any]:
        """Return the options of kernels; n_jobs below 0 counts from the number of cores + 1."""
        threads = None if self.n_jobs is None else check_integer(self.n_jobs, "n_jobs")
        if threads == 0:
            raise ValueError("n_jobs is 0, expected None, a positive number, or -1 for all cores")
        if threads is not None and threads < 0:
            threads = max(1, (os.cpu_count() or 1) + 1 + threads)
        return {"engine": self.engine, "dtype": check_dtype(self.dtype), "threads": threads}

    @property
    def _average(self) -> Average:
        """The fitted average, whose kernels are called as the parameters say now."""
        return replace(self._fitted, options=self._options())

    def _read_again(self, X: Array) -> Signals:
        """Return X as signals, of the same shape as in `fit`."""
        check_is_fitted(self)
        return read_signals(self, X, reset=False, n_channels=self.n_channels, images=True)

    def _at(self, X: Array, watch: bool = False) -> Decided:
        """Return decisions, novelties and weights of the passes at signals X.

        With `watch`, a warning is given of signals that are unlike the signals of fit.
        """
        signals = self._read_again(X)
        decided = self._average.at(signals)
        if watch:
            self._fitted.usual.warn(signals, decided.novelty, self.channel_names_)
        return decided

    def forecast(self, sizes: Iterable[int], coverage: float = 0.8) -> Forecast:
        """Return the errors to expect after a fit to more signals, with intervals.

        A table has a row for each of the `sizes`: numbers of signals from today's number to its
        fourfold. Errors are shares of wrong answers, or 1 − R² of a regressor. The intervals cover
        expected errors with the chance `coverage`, above 0 and below 1
        (docs/guide/number_of_signals.md has how often they did). They know of no floor: where
        labels are wrong, errors stay above them. `plots.forecast` draws them. A NotFittedError or
        ValueError is raised before `fit` and for other sizes.
        """
        return forecast(self, sizes, coverage)

    def novelty(self, X: Array) -> np.ndarray:
        """Return how unlike the training signals some signals are, (n_cases,).

        About 1 for signals like them, larger far from them. It is the variance of a view's Gaussian
        process, divided by its mean at training signals (leave-one-out). The mean over views is
        geometric, with the inverses of their leave-one-out errors as weights. X and errors are as
        for `predict`.
        """
        return self._at(X).novelty

    def contributions(self, X: Array) -> Any:
        """Return the contribution of each time point to each decision.

        A decision is ``intercept_`` plus the sum of its contributions, up to rounding errors. They
        have the unit of the decision: positive ones speak for the class, or raise the prediction.
        A contribution includes the neighbourhood of the time point, which the network sees too
        (docs/guide/explanation.md). Channels have none: layers after the first are not
        linear in them. X and errors are as for `predict`; ``head="equivariant"`` is refused, too.

        Contributions are (n_cases, n_outputs, n_timepoints), of images (n_cases, n_outputs, height,
        width), of lists a list of arrays (n_outputs, n_timepoints_i). n_outputs is the number of
        targets, or of classes: 1 for two classes, of which it is the second.
        """
        signals = self._read_again(X)
        return self._in_units(self._average.shares(signals))

    def usual_contributions(self) -> np.ndarray | None:
        """Return a usual signal's contributions, (n_outputs, n_timepoints); None for lists.

        Medians over up to 40 training signals, or landmarks, drawn at random; of a classifier the
        mean over classes of medians. They are computed at the first call.
        """
        check_is_fitted(self)
        fitted = self._fitted
        if fitted.usual_shares is None:
            signals = fitted.passes[0].training.signals
            fitted.usual_shares = self._average.typical_shares(signals, self._labels)
        usual = fitted.usual_shares
        return None if usual is None else self._in_units(usual[None])[0]

    def _in_units(self, shares: Any) -> Any:
        """Return `Average.shares` in units of the decisions."""
        return shares

    @property
    def _intercept(self) -> np.ndarray:
        """The mean target of fit, (n_outputs,), to which contributions are added."""
        check_is_fitted(self)
        return self._fitted.mean_target

    def condense(
        self, n_signals: int, *, max_iterations: int = 30, progress: bool = False
    ) -> ResidualKernelEstimator:
        """Return an estimator whose views keep a few learned signals in place of all signals.

        It is fitted, of the same class and parameters, and predicts like this one: in less time,
        from a smaller file (docs/guide/condensed_models.md). Views that carry 90 % of the
        weight are kept. Each learns signals of its view (`rescntk.regression.learn_signals`).
        Probabilities, novelty, contributions and intervals come from the learned signals. Ratios
        of weights, scores and calibration are the full model's.

        Parameters
        ----------
        n_signals : int
            Learned signals of each view, fewer than the model keeps. Two for each class, or a tenth
            of the signals, are a good start.
        max_iterations : int, default 30
            Iterations of the optimizer for each view. Raising it comes closer to the full model.
        progress : bool, default False
            Whether to report views to stderr.
        """
        check_is_fitted(self)
        small = copy.copy(self)
        small._fitted, kept = condensed(
            self._average, n_signals, self._labels, max_iterations=max_iterations, progress=progress
        )
        used = np.flatnonzero(self.passes_["weight"])[kept]
        small.passes_ = {name: column[used] for name, column in self.passes_.items()}
        small.passes_["weight"] = small._fitted.weights
        with suppress(ValueError):  # "equivariant" and "cuda" have no contributions
            known = self._fitted.passes[0].training.signals  # none of a condensed model
            usual = small._average.typical_shares(known, self._labels)
            if usual is not None:
                small._fitted.usual_shares = usual
        return small

    def export(self, path: str | Path) -> None:
        """Write a condensed model for machines with NumPy alone, and `predict.py` beside it.

        The path ends in .npz; files there are replaced. ``predict.Model(path)`` has the methods
        `predict`, `decision_function` and `predict_proba` (docs/guide/condensed_models.md). It
        takes signals (n_cases, n_channels, n_timepoints), or a list, without missing values. A
        ValueError is raised for a model that is not condensed, or of images.
        """
        check_is_fitted(self)
        export(self, path)

    _labels: Callable[[np.ndarray], np.ndarray] | None = None
    """Function that returns the class of each row of decisions; None for numbers."""

    def kernel_matrix(self, X: Array) -> np.ndarray:
        """Return the mean kernel of signals with the fitted signals, by the weights of the views.

        X and errors are as for `predict`. The columns of the matrix (m_cases, n_cases) are in the
        order of the signals of `fit`; signals of weight 0 have no column. With landmarks it is
        (m_cases, n_landmarks).
        """
        signals = self._read_again(X)
        return self._average.kernel_matrix(signals)


def squared_sum(deviations: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> float:
    """Return the sum of squares of weighted deviations of cases.

    Cases of a group err together: their deviations are added up first.
    """
    spread = weights * deviations
    if groups is not None:
        spread = np.bincount(groups, spread)
    return float(spread @ spread)


def least_penalty(weights: np.ndarray, dtype: str) -> float:
    r"""Return the least penalty that rounding errors allow for cases of weights w, of mean 1.

    :math:`10^{-6} + 4 \sqrt{\max w \sum w}\, \mathrm{eps}`, which is
    :math:`10^{-6} + 4 \sqrt n\, \mathrm{eps}` for equal weights. A symmetric matrix of
    independent errors of standard deviation eps has norm 2 √n eps; weights multiply row and
    column i by :math:`\sqrt{w_i}`.
    """
    return 1e-6 + 4.0 * np.sqrt(weights.max() * weights.sum()) * float(np.finfo(dtype).eps)


QUICK: dict[str, Any] = {
    "passes": [{"filter_size": 3}, {"filter_size": 3, "head": "trace"}],
    "depth": 1,
}
"""Parameters of an average of two passes, for the checks of aeon and sktime themselves."""


class Wrapper:
    """An estimator of aeon or sktime: `model_`, of `rescntk.learn`, does the work."""

    model_: Any
    _model: Any

    def __post_init__(self) -> None:
        if not hasattr(self, "fit_time_"):  # sktime's own __init__ calls this method once more
            super().__post_init__()  # type: ignore[misc]
        filled = self.missing == INTERPOLATE  # type: ignore[attr-defined]
        self.set_tags(**{"capability:missing_values": filled})  # type: ignore[attr-defined]

    def fit(self, X: Any, y: Any, groups: None = None) -> Any:
        """Fit the estimator to signals X and targets y, and return it; groups are refused."""
        if groups is not None:
            raise ValueError(
                f"groups is given, expected None: the fit of aeon and sktime has no groups, the "
                f"fit of rescntk.learn.{self._model.__name__} has"
            )
        return super().fit(X, y)  # type: ignore[misc]

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        self.model_ = self._model(**parameters).fit(self._signals(X), y)
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(self._signals(X))

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(self._signals(X))

    def _signals(self, X: Any) -> Any:
        return X

    def _refuse_missing_values(self, missing: bool) -> None:
        if missing and self.missing != INTERPOLATE:  # type: ignore[attr-defined]
            raise ValueError(
                f"X has missing values, expected finite numbers: {OPTION}; or fill them in first "
                f"({IMPUTE})"
            )
