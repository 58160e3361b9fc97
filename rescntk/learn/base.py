"""Base class of classifier and regressor: the plan, the average, decisions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..arrays import Array
from ..engines import Request, choose
from ..network import Network
from ..validation import KINDS, check_integer, check_unmasked
from .average import FittedPass, fit_average
from .estimator_parameters import SETTINGS, EstimatorParameters, check_effort, check_several
from .inputs import DistinctCases, SignalEstimator, read_signals
from .passes import EFFORTS, Pass, affordable, in_time, plan
from .views import Signals

_ALL_LANDMARKS = 2000
"""Most signals for which all signals are landmarks by default. Raising it takes more time and
memory, in proportion to the square. Chosen: the eigendecomposition of 2000 takes seconds."""

_LANDMARKS = 500
"""Default number of landmarks of more signals. Raising it is more accurate and takes more time.
Chosen so that 20000 signals of 100 time points take minutes on two cores."""

_SCORE_FOLDS = 10
"""Folds of the score (`average.out_of_fold`). Raising it leaves more cases to each weighting.
Chosen by custom, not measured."""

_ONE_THREAD_CASES = 500
"""Most signals whose matrices are decomposed by one BLAS thread.
Raising it keeps one thread for larger matrices. Measured with OpenBLAS on two idle cores of an
AMD EPYC: two threads are no faster up to 270 signals, and a third faster at 500. On busy cores
the two threads wait for each other, up to a hundred times as long."""


class ResidualKernelEstimator(EstimatorParameters, SignalEstimator):
    """Average the decisions of several passes over the signals."""

    _fitted: list[FittedPass]
    best_score_: float
    best_score_error_: float

    def _average(
        self,
        cases: DistinctCases,
        error_weights: np.ndarray,
        penalties: Sequence[float] = (),
        variances: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit the average to cases; return decisions out of fold, and the fold of each case.

        `penalties` are the default penalties beside the least one.
        """
        X, checked, options = cases.signals, check_several(self), self._options()
        generator, n = check_random_state(self.random_state), len(X)
        folds = generator.permutation(n) % _SCORE_FOLDS
        m = count_landmarks(self.landmarks, n)
        passes, limit = self._plan(checked, X, m)
        landmarks = None if m == n else np.sort(generator.permutation(n)[:m])
        report = partial(print, flush=True) if self.verbose else None
        if report:
            report(f"rescntk: {len(passes)} passes over {n} signals")
            request = Request(Network(1), "gap", KINDS, (1,), np.dtype(self.dtype).name)
            choose(self.engine, request, cast(Any, X), report)  # says so where it compiles
        with threadpool_limits(1 if n <= _ONE_THREAD_CASES else None, "blas"):
            self._fitted, decisions = fit_average(
                in_time(passes, X, m, limit, report, options),
                cases,
                checked["penalty"] or (least_penalty(cases.weights, self.dtype), *penalties),
                error_weights=error_weights,
                folds=folds,
                landmarks=landmarks,
                variances=variances,
                options=options,
            )
        rows = [found.source.settings() | vars(found) for found in self._fitted]
        names = [*SETTINGS, "penalty", "error", "weight", "seconds"]
        self.passes_ = {name: np.array([row[name] for row in rows]) for name in names}
        self._places = cases.places if landmarks is None else slice(None)
        return decisions, folds

    def _plan(
        self, checked: dict[str, Any], X: Signals, n_landmarks: int
    ) -> tuple[list[Pass], float]:
        """Return the passes of the effort, and the limit of their time in seconds."""
        effort = check_effort(self.effort, tuple(EFFORTS))
        count = EFFORTS[effort if isinstance(effort, str) else "thorough"]
        settings = {name: checked[name] for name in SETTINGS if checked[name] is not None}

        def passes(shorter: int) -> list[Pass]:
            return plan(
                count,
                settings,
                X,
                kinds=checked["kind"],
                depths=checked["depth"],
                alpha=self.alpha,
                shorter=shorter,
            )

        if effort in ("fast", "default"):
            return affordable(passes, X, n_landmarks), np.inf
        return passes(1), np.inf if isinstance(effort, str) else effort

    def _finish(self, score: str, start: float) -> None:
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            spread = f"{self.best_score_:.3f} ± {self.best_score_error_:.3f}"
            print(f"{score} {spread}, {self.fit_seconds_:.1f} s", flush=True)

    def _options(self) -> dict[str, Any]:
        threads = count_threads(self.n_jobs)
        return {"engine": self.engine, "dtype": self.dtype, "threads": threads}

    def _weights(self) -> np.ndarray:
        return np.array([fitted.weight for fitted in self._fitted])

    def _matrices(self, X: Array) -> Iterator[np.ndarray]:
        """Yield the kernel matrix of X with the signals of each pass."""
        check_is_fitted(self)
        signals, options = read_signals(self, X, reset=False), self._options()
        return (fitted.matrix(signals, options) for fitted in self._fitted)

    def _decide(self, X: Array) -> np.ndarray:
        """Return decisions (n_cases, n_outputs)."""
        matrices = self._matrices(X)
        decisions = [fitted.decide(K) for fitted, K in zip(self._fitted, matrices, strict=True)]
        return np.tensordot(self._weights(), decisions, 1)

    def kernel_matrix(self, X: Array) -> np.ndarray:
        """Return the mean kernel of signals with the fitted signals, weighted as the decisions.

        X and errors are as for `predict`. The matrix (m_cases, n_cases) has the order of the
        signals of `fit`, but for signals of weight 0, which have no column. With landmarks it is
        (m_cases, n_landmarks).
        """
        pairs = zip(self._weights(), self._matrices(X), strict=True)
        return sum(weight * K for weight, K in pairs)[:, self._places]


def least_penalty(weights: np.ndarray, dtype: str) -> float:
    r"""Return the least penalty that rounding errors allow for cases of weights w, of mean 1.

    :math:`10^{-6} + 4 \sqrt{\max w \sum w}\, \mathrm{eps}`, which is
    :math:`10^{-6} + 4 \sqrt n\, \mathrm{eps}` for equal weights. A symmetric matrix of
    independent errors of standard deviation eps has norm 2 √n eps; weights multiply row and
    column i by :math:`\sqrt{w_i}`.
    """
    return 1e-6 + 4.0 * np.sqrt(weights.max() * weights.sum()) * float(np.finfo(dtype).eps)


def count_landmarks(landmarks: Any, n: int) -> int:
    """Return the number of landmarks among n signals; n if all signals are landmarks."""
    if landmarks is None:
        landmarks = "all" if n <= _ALL_LANDMARKS else _LANDMARKS
    if isinstance(landmarks, str):
        if landmarks == "all":
            return n
        raise ValueError(
            f"landmarks is {landmarks!r}, expected None, 'all' or an integer of at least 2"
        )
    return min(check_integer(landmarks, "landmarks", at_least=2), n)


def count_threads(n_jobs: Any) -> int | None:
    """Return a number of threads: n_jobs, or the number of cores + 1 + n_jobs if negative."""
    if n_jobs is None:
        return None
    jobs = check_integer(n_jobs, "n_jobs")
    if jobs == 0:
        raise ValueError("n_jobs is 0, expected None, a positive number, or -1 for all cores")
    return jobs if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + jobs)


def check_given(model: Any, y: Any) -> None:
    """Refuse masked targets, and y = None in the words of scikit-learn."""
    check_unmasked(y, "y", "or labels, one a case,")
    if y is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None"
        )
