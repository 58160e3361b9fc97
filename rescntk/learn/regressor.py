"""Regressor that averages the predictions of several kernels and views of the signals."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array

from ..arrays import Array
from ..progress import warn
from ..validation import (
    check_flag,
    check_integer,
    check_positive,
    check_shape,
    check_targets,
    check_unmasked,
)
from .base import ResidualKernelEstimator, squared_sum
from .counterfactual import Counterfactuals, Goal, changed_signals, each_case
from .inputs import atomic, find_cases
from .views import by_channel, each, moderate_exponent

_PENALTIES = tuple(10.0**k for k in range(-4, 2))
"""Default penalties beside the least one, in units of the kernels' diagonal. Chosen to reach from
nearly interpolation to nearly the mean of the targets."""


_DEPENDENCE = 1.5
"""Factor of the standard error of `best_score_`: left-out errors depend on each other, as their
training signals are the same. Raising it widens it, and the intervals of `forecast`. Measured: it
gives forecasts the least score for squared errors of targets ±1."""

_EQUAL = 1e-3
"""Difference from the target of `counterfactual`, in units of `target_scale_`, that counts as none.
Raising it accepts signals farther from the target. Chosen, not measured."""


class ResidualKernelRegressor(RegressorMixin, ResidualKernelEstimator):
    """Predict numbers from signals by the kernels of infinitely wide convolutional ResNets.

    As `ResidualKernelClassifier`, with kernel ridge regression of numbers. Several targets have
    the same views, weights and penalties.

    Each view is also a Gaussian process: its mean kernel times a scale σ², with noise of variance
    σ² times the penalty. The scale maximizes the marginal likelihood. `predict` returns mean and
    standard deviation of their mixture, for which each view keeps its matrix.

    Parameters
    ----------
    effort : {"fast", "default", "thorough"} or float, default "default"
        Number of views, or a limit for the time of `fit` in seconds.
    passes : sequence of dict, optional
        Views by hand, as ``{"head": "trace", "max_length": 512}``.
    landmarks : int or "all", optional
        Number of signals to which the solution is restricted; by default 500 of more than 1000.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks, and of the ten folds of `best_score_`.
    engine : str, default "auto"
        As for calling a `rescntk.Kernel`.
    dtype : str, default "float32"
        As for calling a `rescntk.Kernel`.
    n_jobs : int, optional
        Number of threads, which does not change results; -1 is one for each core.
    n_channels : int, default 1
        Number of channels of flat arrays (n_cases, n_channels · n_timepoints).
    missing : {"refuse", "interpolate"}, default "refuse"
        Whether signals with missing values (NaN) are refused, or filled in along time.
    channel_metric : {"auto", True, False}, default "auto"
        Whether weights and combinations of channels are learned (docs/guide/channels.md).
    channel_names : sequence of str, optional
        Names of the channels, for messages and pictures.
    verbose : int, default 0
        Not 0: print how long the views will take, and a line after each.

    Attributes
    ----------
    intercept_ : ndarray, (n_targets,)
        The mean target of `fit`, to which `contributions` add.
    passes_, channel_metric_, channel_relevance_, fold_relevance_, channel_names_
    n_channels_, n_timepoints_, fit_seconds_
        As for `ResidualKernelClassifier`. Errors are in units of the targets' variances.
    best_score_ : float
        R² over all targets of leave-one-out predictions, as for `ResidualKernelClassifier`.
    best_score_error_ : float
        Standard error of `best_score_`: 1.5 times what independent squared errors would have.
    blocked_score_ : float
        The same where tenths of the signals, in the order of `X`, are left out in turn.
    target_mean_, target_scale_ : ndarray, (n_targets,)
        Means and standard deviations by which targets are standardized; 1 for a constant target.

    Other Parameters
    ----------------
    max_length : int or sequence, optional
        Longest signals that stay unchanged; longer ones are averaged over blocks.
    block_statistics : bool or sequence, optional
        Whether statistics of each block are appended as channels.
    spectra : bool, "whole" or sequence, optional
        Whether short-time spectra, or the whole signal's, take the place of the signals.
    standardize : bool, "each", "point" or sequence, optional
        Whether channels are standardized: over all signals, by each signal, by each time point.
    first_differences : bool, "only" or sequence, optional
        Whether first differences of each channel are appended, or take its place.
    constant : bool or sequence, optional
        Whether a constant channel is appended.
    time_scale : float or sequence, optional
        Scale of two channels with the time: 0 ignores when something happens.
    filter_size, input_filter_size, dilation : int or sequence, optional
        As for `rescntk.Network`.
    head : {"equivariant", "trace", "gap"} or sequence, optional
        As for `rescntk.Kernel`. Signals of different lengths have "gap" only.
    kind : {"gpk", "ntk"} or sequence, default ("gpk", "ntk")
        As for `rescntk.Kernel`. A view takes the mean of several kinds.
    depth : int or sequence, default 2
        Number of residual layers. A view takes the mean of several.
    alpha : float, default 1.0
        Weight α of the residual branches.
    penalty : float or sequence, optional
        Penalty of ridge regression, of several the one of least leave-one-out error. Defaults to
        a grid from the smallest stable value to 10.

    See Also
    --------
    ResidualKernelClassifier : Classes and probabilities.
    SignalKernel : A kernel for the Gaussian processes of scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import ResidualKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> frequency, phase = rng.uniform(0.2, 1.0, 60), rng.uniform(0, 6, (60, 1, 1))
    >>> X = np.sin(np.arange(40) * frequency[:, None, None] + phase)
    >>> model = ResidualKernelRegressor(effort="fast").fit(X[:40], frequency[:40])
    >>> mean, deviation = model.predict(X[40:], return_std=True)
    """

    @atomic
    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None, groups: Array | None = None
    ) -> ResidualKernelRegressor:
        """Fit all views, weigh them, and return the regressor itself.

        X is as for `ResidualKernelClassifier.fit`, y is (n_cases,) or (n_cases, n_targets). The
        weights of the signals, at least 0, are inverse to the variance of their noise. Whole
        `groups`, (n_cases,), are left out together, as by the classifier. A ValueError is raised
        for missing values, for a single signal, and for invalid parameters.
        """
        start = time.perf_counter()
        signals, values, weights, groups = self._read(
            X, y, sample_weight, groups, multi_output=True
        )
        self._flat = values.ndim == 1
        targets, self._exponents = _moderate_columns(values)
        cases = find_cases(signals, targets, weights, groups)
        if len(cases.weights) < 2:
            raise ValueError(
                "X has n_samples=1 up to copies, expected two signals that differ, to leave one out"
            )
        targets, weights = cases.targets, cases.weights
        mean = np.average(targets, axis=0, weights=weights)
        deviation = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weights))
        varies = deviation > 0
        self._moderate_mean, self._moderate_scale = mean, np.where(varies, deviation, 1.0)
        self.target_mean_ = np.ldexp(mean, self._exponents)
        self.target_scale_ = np.where(varies, np.ldexp(deviation, self._exponents), 1.0)
        Y = (targets - mean) / self._moderate_scale
        cases = cases._replace(targets=Y)
        left_out = self._fit_average(cases, _PENALTIES)
        decisions = left_out.decisions
        deviations = np.sqrt(self._fitted.variance(left_out.residuals))
        self._ratios = np.abs(decisions - Y) / np.where(deviations > 0, deviations, 1.0)
        self._case_weights = weights
        squares = ((decisions - Y) ** 2).mean(axis=1)
        error = float(np.average(squares, weights=weights))
        of_blocks = ((left_out.blocked - Y) ** 2).mean(axis=1)
        self.best_score_ = 1.0 - error
        self.blocked_score_ = 1.0 - float(np.average(of_blocks, weights=weights))
        spread = np.sqrt(squared_sum(squares - error, weights, cases.groups)) / weights.sum()
        self._finish("R²", _DEPENDENCE * float(spread), 0.0, start)
        return self

    def predict(self, X: Array, return_std: bool = False) -> Any:
        r"""Return predicted targets, and their standard deviations if asked for.

        A view has the mean f of its decisions and the variance :math:`v = \sigma^2 (1 -
        k^\top (K + \lambda I)^{-1} k + \lambda)` of a new observation, where 1 is K(x, x). With
        weights w, the mixture has the mean :math:`\sum w f` and the variance
        :math:`\sum w (v + f^2) - (\sum w f)^2`.

        X is (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints). With `return_std`,
        standard deviations are returned too: of new observations, noise included. A NotFittedError,
        ValueError or OverflowError is raised before `fit`, for signals of another shape, or if a
        prediction exceeds float64. A `DriftWarning` is given as by the classifier.
        """
        check_flag(return_std, "return_std")
        mean, deviation, _ = self._answers(X)
        return (mean, deviation) if return_std else mean

    def _answers(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return predictions and deviations, as `predict`, and `novelty`, by the same kernels."""
        decided = self._at(X, watch=True)
        predicted = self._unscaled(decided.mean() * self._moderate_scale + self._moderate_mean)
        deviation = np.sqrt(self._fitted.variance(decided)) * self._moderate_scale
        return predicted, self._unscaled(deviation), decided.novelty

    def counterfactual(
        self,
        X: Array,
        target: Any,
        *,
        output: int = 0,
        max_iterations: int = 25,
        progress: bool = False,
    ) -> Counterfactuals:
        """Return the nearest signals found for which the regressor predicts another value.

        Parameters
        ----------
        X, max_iterations, progress
            As for `ResidualKernelClassifier.counterfactual`.
        target : float or array-like, (n_cases,)
            The value that is to be predicted for each signal, to a thousandth of `target_scale_`.
        output : int, default 0
            The column of the target among several.

        Returns
        -------
        Counterfactuals
            As for `ResidualKernelClassifier.counterfactual`; the answers are predictions.

        Raises
        ------
        ValueError
            If `target` is not a finite number for each signal, or as for `predict`.
        """
        column = check_integer(output, "output", at_least=0)
        signals: Any = self._read_again(X)
        if column >= len(self.target_scale_):
            raise ValueError(f"output is {output}, expected below {len(self.target_scale_)}")
        targets = check_shape(each_case(target, "target", len(signals)), "target", (len(signals),))
        mean, scale = self._moderate_mean[column], self._moderate_scale[column]
        values = (np.ldexp(targets, -self._exponents[column]) - mean) / scale
        signs = np.where(values >= self._at(signals).mean()[:, column], 1.0, -1.0)

        def answer(
            decisions: np.ndarray, novelties: np.ndarray, cases: np.ndarray
        ) -> tuple[np.ndarray, ...]:
            slopes = np.zeros(decisions.shape)
            slopes[:, column] = signs[cases]
            return signs[cases] * decisions[:, column], slopes, np.zeros(len(decisions))

        def check(Z: Any, cases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            predicted = np.asarray(self.predict(Z)).reshape(len(cases), -1)[:, column]
            errors = np.abs(predicted - targets[cases])
            return predicted, errors <= _EQUAL * self.target_scale_[column]

        goal = Goal(answer, signs * values, targets, check)
        return changed_signals(
            self._average, signals, goal, max_iterations=max_iterations, progress=progress
        )

    def predict_interval(self, X: Array, coverage: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper ends of intervals that cover new observations.

        An interval reaches a number of standard deviations from the mean. With this number, the
        share `coverage`, above 0 and below 1, of the left-out training targets is inside. Errors
        need not be normal. With n targets the coverage is at most n/(n + 1): above it, a warning
        is given. X and errors are as for `predict`.
        """
        if not 0 < check_positive(coverage, "coverage") < 1:
            raise ValueError(f"coverage is {coverage!r}, expected a number between 0 and 1")
        return self._interval(*self._answers(X)[:2], coverage)

    def _interval(
        self, mean: np.ndarray, deviation: np.ndarray, coverage: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals around predictions, as `predict_interval`."""
        n = len(self._ratios)
        if coverage * (n + 1) > n:
            warn(
                f"coverage is {coverage}, but the intervals have a coverage of {n / (n + 1):.3g}, "
                f"the most that can be estimated from {n} training targets, left out",
            )
        order = self._ratios.argsort(axis=0)
        below = self._case_weights[order].cumsum(axis=0) < coverage * (n + 1)  # one of n + 1
        rows = np.minimum(below.sum(axis=0), n - 1)
        factors = np.take_along_axis(self._ratios, order, axis=0)[rows, np.arange(len(rows))]
        half = deviation * (factors[0] if self._flat else factors)
        return mean - half, mean + half

    @property
    def intercept_(self) -> np.ndarray:
        """The mean target, to which contributions add, (n_targets,)."""
        mean = self._intercept * self._moderate_scale + self._moderate_mean
        return self._unscaled(mean[None]).reshape(-1)

    def _in_units(self, shares: Any) -> Any:
        unit = np.ldexp(self._moderate_scale, self._exponents)
        return each(lambda of_case: of_case * by_channel(unit, of_case), shares)

    def _unscaled(self, values: np.ndarray) -> np.ndarray:
        """Return values, (n_cases, n_targets), in units and shape of the targets."""
        with np.errstate(over="ignore", under="ignore"):
            values = np.ldexp(values, self._exponents)
        if not np.isfinite(values).all():
            raise OverflowError("predictions exceed float64: fit smaller targets")
        return values[:, 0] if self._flat else values

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return R² of predictions, the mean over targets y, (n_cases,) or (n_cases, n_targets).

        X and errors are as for `predict`; `sample_weight` is (n_cases,).
        """
        signals: Any = self._read_again(X)
        check_unmasked(y, "y", "or labels, one a case,")
        values = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        targets, exponents = _moderate_columns(values)
        expected = len(signals), len(self.target_mean_)
        if targets.shape != expected:
            raise ValueError(f"y has shape {values.shape}, expected {expected}, as in fit")
        predicted = np.ldexp(self.predict(signals).reshape(expected), -exponents)
        return float(r2_score(targets, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _moderate_columns(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return targets (n_cases, n_targets), each divided by a power of two, and the exponents."""
    with suppress(TypeError, ValueError):  # check_targets explains why objects are not numbers
        y = y.astype(np.float64) if y.dtype == object else y
    targets = check_targets(y, len(y)).reshape(len(y), -1)
    exponents = np.array([moderate_exponent(column) for column in targets.T])
    return np.ldexp(targets, -exponents), exponents
