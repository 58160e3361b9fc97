"""What classifier and regressor share: parameters, reading, fitting, novelty, contributions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..validation import check_dtype, check_integer, check_positive, is_sequence
from .ensemble import Decided, Ensemble, Fitted, fit_ensemble, least_penalty
from .inputs import Cases, Signals, check_order, distinct, positive_weights, read_signals, take
from .views import DEFAULT, FAST, View

_MANY, _LANDMARKS = 1000, 500
"""Most signals that are all landmarks by default, and the landmarks of more. Half as many cost 0 to
.014 of accuracy on sets of 300 to 900 signals, a quarter .003 to .018."""

_LONG = 1e12
"""Pixel pairs times layers of a fit above which its size is told: some ten minutes on two cores."""


class SignalEstimator(BaseEstimator):
    """An estimator that takes signals of two or three axes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class ResidualKernelEstimator(SignalEstimator):
    """Average the decisions of several views of the signals."""

    _fitted: Ensemble
    _centre: np.ndarray
    """Mean target, to which contributions are added, (n_outputs,)."""
    n_channels_: int
    views_: dict[str, np.ndarray]
    best_score_: float

    def __init__(
        self, views: Any = "default", *, penalty: Any = None, landmarks: Any = None,
        engine: str = "auto", dtype: str = "float32", n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.views = views
        self.penalty = penalty
        self.landmarks = landmarks
        self.engine = engine
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    def novelty(self, X: Any) -> np.ndarray:
        """Return how unlike the training signals some signals are, (n_cases,).

        About 1 for signals like them, larger far from them: the variance of the views' Gaussian
        processes, divided by its mean at training signals left out. Signals that are larger or
        smaller than the training signals are novel too. X and errors are as for `predict`.
        """
        signals = self._read(X)
        return self._fitted.novelty(signals, self._fitted.at(signals, self._options()))

    def contributions(self, X: Any) -> Any:
        """Return the contribution of each time point to each decision.

        They are (n_cases, n_outputs, n_timepoints), for lists a list of (n_outputs,
        n_timepoints_i). Their sum over time and ``intercept_`` are the decisions, up to rounding
        errors. Positive ones speak for the class, or raise the prediction. n_outputs is the number
        of targets, or of classes; two classes have one output, for the second. A contribution
        includes what the network sees around the time point. X and errors are as for `predict`.
        """
        signals = self._read(X)
        shares = self._fitted.contributions(signals, self._centre, self._options())
        return self._in_units(np.array(shares) if isinstance(signals, np.ndarray) else shares)

    def usual_contributions(self) -> np.ndarray | None:
        """Return a usual signal's contributions, (n_outputs, n_timepoints); None for lists.

        They are medians over up to 40 training signals; of a classifier, means over classes of
        medians. Pictures subtract them. They are computed at the first call.
        """
        check_is_fitted(self)
        usual = self._fitted.usual_contributions(self._centre, self._labels, self._options())
        return None if usual is None else self._in_units(usual)

    @staticmethod
    def _labels(decisions: np.ndarray) -> np.ndarray:
        """Return the predicted class of each row of decisions."""
        return np.zeros(len(decisions))

    def _in_units(self, shares: Any) -> Any:
        """Return contributions, (…, n_outputs, n_timepoints), in units of the decisions."""
        return shares

    def _read(self, X: Any) -> Signals:
        check_is_fitted(self)
        return read_signals(self, X, reset=False)

    def _decide(self, X: Any) -> Decided:
        signals = self._read(X)
        return self._fitted.at(signals, self._options())

    def _read_cases(
        self, X: Any, y: Any, n: int, sample_weight: Any, groups: Any
    ) -> tuple[Signals, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return signals, places of those of positive weight, and their weights and groups.

        `n` is the number of values of y.
        """
        check_order(X=X, y=y, sample_weight=sample_weight, groups=groups)
        signals = read_signals(self, X, reset=True)
        if len(signals) != n:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {len(signals)} "
                f"signals in X, {n} values in y"
            )
        kept, weights = positive_weights(sample_weight, len(signals))
        if groups is None:
            return signals, kept, weights, None
        labels = np.asarray(groups)
        if labels.shape != (len(signals),) or (labels != labels).any():
            raise ValueError(
                f"groups has shape {labels.shape}, expected ({len(signals)},): a label for each "
                f"signal, none NaN"
            )
        numbers = distinct(labels, "groups")[1][kept]
        if numbers.min() == numbers.max():
            raise ValueError("groups has one label, expected two: each group is left out in turn")
        return signals, kept, weights, np.unique(numbers, return_inverse=True)[1].reshape(-1)

    def _fit_ensemble(
        self, cases: Cases, error_weights: np.ndarray, penalties: Sequence[float] = ()
    ) -> Fitted:
        """Fit the ensemble to cases; `penalties` are tried besides the least one."""
        n, options, rng = len(cases.weights), self._options(), check_random_state(self.random_state)
        views = self._views(n)
        least = least_penalty(cases.weights, options["dtype"])
        if self.penalty is None:
            penalties = (least, *(p for p in penalties if p > least))
        else:
            given = self.penalty if is_sequence(self.penalty) else [self.penalty]
            penalties = [check_positive(value, "penalty") for value in given]
            if not penalties:
                raise ValueError("penalty is empty, expected one positive number or several")
        m = self._count_landmarks(n)
        landmarks = None if m == n else np.sort(rng.permutation(n)[:m])
        work = sum(n * m * _pixel_pairs(view, cases.signals) for view in views)
        if work > _LONG:
            warnings.warn(
                f"this fit computes {work:.0e} pixel pairs: fewer landmarks, shorter views or "
                f"views='fast' take less time",
                stacklevel=3,
            )
        fitted = fit_ensemble(
            views, cases, landmarks=landmarks, penalties=penalties, error_weights=error_weights,
            rng=rng, options=options,
        )  # fmt: skip
        self._fitted, self.views_ = fitted.ensemble, fitted.table
        return fitted

    def _views(self, n: int) -> Sequence[View]:
        if isinstance(self.views, str) and self.views in ("fast", "default"):
            return DEFAULT if self.views == "default" and n <= _MANY else FAST
        views = [self.views] if isinstance(self.views, View) else self.views
        if not is_sequence(views) or not len(views) or not all(isinstance(v, View) for v in views):
            raise ValueError(
                f"views is {self.views!r}, expected 'fast', 'default' or a list of View"
            )
        for view in views:
            view.check()
        return list(views)

    def _count_landmarks(self, n: int) -> int:
        if self.landmarks is None:
            return n if n <= _MANY else _LANDMARKS
        if isinstance(self.landmarks, str) and self.landmarks == "all":
            return n
        if isinstance(self.landmarks, str):
            raise ValueError(
                f"landmarks is {self.landmarks!r}, expected None, 'all' or an integer of at least 2"
            )
        return min(check_integer(self.landmarks, "landmarks", at_least=2), n)

    def _options(self) -> dict[str, Any]:
        """Return the options of kernels; n_jobs below 0 counts from the number of cores + 1."""
        threads = None if self.n_jobs is None else check_integer(self.n_jobs, "n_jobs")
        if threads == 0:
            raise ValueError("n_jobs is 0, expected None, a positive number, or -1 for all cores")
        if threads is not None and threads < 0:
            threads = max(1, (os.cpu_count() or 1) + 1 + threads)
        return {"engine": self.engine, "dtype": check_dtype(self.dtype), "threads": threads}


def _pixel_pairs(view: View, X: Signals) -> float:
    """Return the pixel pairs, times layers, that a view takes for a pair of signals."""
    points = min(view.length, float(np.mean([x.shape[1] for x in X])))
    return points * (points if view.head == "gap" else 1.0) * view.depth


def selected(signals: Signals, y: np.ndarray, kept: np.ndarray) -> tuple[Signals, np.ndarray]:
    """Return the signals and targets of positive weight."""
    return (signals, y) if len(kept) == len(y) else (take(signals, kept), y[kept])


def squared_sum(deviations: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> float:
    """Return the sum of squares of weighted deviations; cases of a group err together."""
    spread = weights * deviations
    if groups is not None:
        spread = np.bincount(groups, spread)
    return float(spread @ spread)
