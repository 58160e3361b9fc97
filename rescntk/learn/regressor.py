"""The regressor: predictions of views, averaged, with deviations and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..checks.messages import LeftOutWarning, shown, warn
from .base import fitting
from .ensemble.estimator import REMEDY, ResidualKernelEstimator
from .ensemble.nonconformity import COVERAGE, Nonconformity
from .ensemble.targets import Targets
from .reading.cases import Cases, variance_of_sum
from .reading.inputs import read_cases, read_targets
from .reading.signals import exponents_of
from .views.defaults import REGRESSOR_DEFAULTS

_PENALTIES = tuple(10.0**k for k in range(-4, 2))
"""Penalties that are tried besides the least one."""

_DEPENDENCE = 1.5
"""Factor of the score's standard error. Errors of cases left out depend on each other, since they
come from almost the same training signals."""


class ResidualKernelRegressor(MultiOutputMixin, RegressorMixin, ResidualKernelEstimator):
    """Predict numbers from signals by the kernels of infinitely wide convolutional ResNets.

    The views and their average are as in `ResidualKernelClassifier`. If there are several targets,
    each has penalties, weights of views and deviations of its own.

    Parameters
    ----------
    views : {"default", "fast"} or list of View, default "default"
        "default" has all views that come with the estimator, "fast" those that take less time, and
        a list has your own (``docs/guide/classification.md``). For thousands of signals, views of
        "default" and "fast" are left out or shortened until the fit is within a budget of work
        (``docs/guide/large_data.md``).
    penalty : float or sequence of float, optional
        Penalty of ridge regression, in units of the kernel's diagonal. If you give several, each
        view uses for each target the one with the smallest leave-one-out error. By default these
        are powers of ten up to 10, for targets with noise, and the least penalty that rounding
        errors allow, for exact ones.
    n_landmarks : int, optional
        Maximum number of landmarks: signals, drawn at random, on whose kernels decisions depend. By
        default all signals are landmarks if there are up to 1,000; if there are more, the budget of
        work says how many are drawn, from 1,000 to 3,000.
    engine : str, default "auto"
        The engine that computes kernels, as for calling a `rescntk.Kernel`. "auto" is the fastest
        one that can.
    dtype : {"float32", "float64"}, default "float32"
        Precision of kernels; regressions are solved in float64. Kernels in "float64" take about
        twice the time. They allow penalties below 1e-5, for targets nearly without noise.
    n_jobs : int, optional
        Number of threads that compute kernels, which does not change results. None and -1 stand for
        one thread a core: give 1 if several processes fit models. Matrices are always decomposed by
        one thread.
    random_state : int, RandomState or None, default None
        Seed of the landmarks, and of the ten folds: the errors of nine of them weigh the views for
        the tenth.

    Attributes
    ----------
    left_out_prediction_ : ndarray, (n_cases,) or (n_cases, n_targets)
        Predictions of the signals given to `fit`, in their order, each left out (see Notes). They
        are NaN for signals of weight 0.
    left_out_novelty_ : ndarray, (n_cases,)
        The `novelty` of the same signals, each left out (see Notes). A quantile of it is a limit
        for the novelty of new signals.
    left_out_score_, left_out_score_error_ : float
        R² on training signals left out, a mean over targets, and its standard error. R² is NaN if
        each target has one value.
    views_ : dict of ndarray
        A table with a row for each view: "view"; "error", the mean squared leave-one-out error in
        units of the targets' variances; "weight" in the average; and "note", which says why a view
        is not fitted. If there are several targets, errors and weights are means over them.
    n_channels_, n_timepoints_ : int
        Number of channels and of time points of the signals; if they are a list, `n_timepoints_`
        is None.
    intercept_ : ndarray, (n_targets,)
        The mean of each target. Predictions are the sum of this and of all contributions.

    Notes
    -----
    A signal is left out of each view's ridge regression, in closed form: together with its copies,
    or with its group where `groups` are given. The errors of the other nine folds weigh the views.
    The signal takes part in all else: the scales of views, the levels and sizes with which
    `novelty` compares, the landmarks, the choice of penalties, and the errors of other folds. So
    left-out results may be a little better than those of new signals.

    Folds come from the signals' contents and `random_state`. Other models of the same signals,
    groups and integer `random_state` have the same folds.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import ResidualKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> frequency, phase = rng.uniform(0.2, 1.0, 60), rng.uniform(0, 6, (60, 1, 1))
    >>> X = np.sin(np.arange(40) * frequency[:, None, None] + phase)
    >>> model = ResidualKernelRegressor(views="fast").fit(X[:40], frequency[:40])
    >>> mean, deviation = model.predict(X[40:], return_std=True)
    >>> bool(np.abs(mean - frequency[40:]).max() < 0.2)
    True
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit all views, and weigh them.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a table of numbers, or a list of signals (n_channels, n_timepoints_i).
        y : array, (n_cases,) or (n_cases, n_targets)
            Finite numbers.
        sample_weight : array, (n_cases,), optional
            Weights of the signals, at least 0: inverse to the variance of their noise.
        groups : array, (n_cases,), optional
            Labels of what signals have in common, such as a person, machine or day. Whole groups
            are left out, so that errors, weights and deviations are about new groups.

        Returns
        -------
        ResidualKernelRegressor
            The regressor itself.

        Raises
        ------
        ValueError
            For missing values, a single signal, one group, signals that no view can take, and
            invalid parameters.
        """
        with fitting(self) as fresh:
            fresh._fit(X, y, sample_weight, groups)
        return self

    def _fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> None:
        """Set the attributes of a fitted regressor."""
        y_numbers = read_targets(y)
        columns = y_numbers.reshape(len(y_numbers), -1)
        given, cases = read_cases(X, y, columns, sample_weight, groups)
        standardized = _standardize_targets(cases.y, cases.weights)
        self._remember(X, given)
        self._target_shape = y_numbers.shape[1:]
        self.intercept_, self._target_scale = standardized.mean, standardized.scale
        left_out = self._fit_ensemble(
            cases,
            Targets(standardized.values, cases.weights, n_regressions=columns.shape[1]),
            default_views=REGRESSOR_DEFAULTS,
            more_penalties=_PENALTIES,
        )
        residuals = left_out.fold_residuals
        variances = self._ensemble.variances(
            left_out.view_residuals, left_out.view_novelties, left_out.view_weights
        )
        deviations = np.sqrt(variances)
        ratios = np.abs(residuals) / np.where(deviations > 0, deviations, 1.0)
        score, error = _score_and_error(residuals, cases)
        self.left_out_prediction_ = cases.at_signals(
            self._in_units(standardized.values - residuals)
        )
        self.left_out_score_ = score if standardized.vary else np.nan
        self.left_out_score_error_ = error
        self._nonconformity = Nonconformity(ratios, cases.weights, cases.n_groups)
        if not standardized.vary:
            warn("y has one value, which predictions then have")
        _warn_of_score(self.left_out_score_, residuals, cases)

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        r"""Return predicted targets, and with `return_std` their standard deviations.

        With the weights w of views at a signal x, the mean is :math:`\sum w f` and the variance of
        a new observation :math:`\sum w (v + (f - \sum w f)^2)`, where a view has the mean f and the
        variance :math:`v = \sigma^2 (K(x, x) - k^\top (K + \lambda I)^{-1} k + \lambda)`. Here K
        and k are the kernels of the training signals, among each other and with x; λ is the view's
        penalty; and the σ² of the view makes the training targets most likely. K(x, x) is 1 except
        in linear views. With landmarks S, :math:`K(\cdot, S) K(S, S)^{-1} K(S, \cdot)` takes the
        place of the kernel in K and k, but not in K(x, x). In λI the weight of a signal divides its
        λ.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.
        return_std : bool, default False
            Whether standard deviations of new observations are returned too.

        Returns
        -------
        mean : ndarray, (n_cases,) or (n_cases, n_targets)
            In the units of the targets.
        deviation : ndarray, as the mean
            Returned only with `return_std`, in the same units.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        results = self._results(self._read(X))
        mean = self._in_units(results.averaged_decisions)
        if not return_std:
            return mean
        variances = self._ensemble.variances(
            results.view_decisions, results.view_novelties, results.view_weights
        )
        return mean, (np.sqrt(variances) * self._target_scale).reshape(mean.shape)

    def predict_interval(
        self, X: ArrayLike, coverage: float = COVERAGE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals that are to cover new observations.

        All intervals of a target reach the same number of standard deviations to both sides of the
        mean: the number with which the share `coverage` of the training targets, each left out, is
        inside.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.
        coverage : float, default 0.9
            Share of intervals that cover the target, between 0 and 1.

        Returns
        -------
        lower, upper : ndarray, (n_cases,) or (n_cases, n_targets)
            In the units of the targets.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, missing values, and a coverage that is not
            between 0 and 1.
        NotFittedError
            Before `fit`.

        Warns
        -----
        UserWarning
            If `coverage` is above n/(n + 1) for n training signals, or groups.

        Notes
        -----
        These are jackknife intervals: the share of new targets is near `coverage` for signals drawn
        like the training signals, if leaving out a signal changes predictions little. No share is
        guaranteed without such a condition (Barber et al. 2021).
        """
        check_is_fitted(self)
        factors = self._nonconformity.quantile(coverage)
        mean, deviation = self.predict(X, return_std=True)
        half_width = deviation * factors.reshape(self._target_shape)
        return mean - half_width, mean + half_width

    def median_contributions(self, *, of: str = "time") -> np.ndarray | None:
        """Return the median contributions over up to 40 training signals.

        Pictures subtract these medians from the contributions of a signal.

        Parameters
        ----------
        of : {"time", "channels"}, default "time"
            Whether contributions are those of time points or of channels, as for `contributions`.

        Returns
        -------
        ndarray, (n_outputs, n_timepoints) or (n_outputs, n_channels), or None
            None for time points if `fit` was given a list.

        Raises
        ------
        ValueError
            For another `of`.
        NotFittedError
            Before `fit`.
        """
        return self._median_contributions(of, lambda decisions: np.zeros(len(decisions)))

    def _in_units(self, mean: np.ndarray) -> np.ndarray:
        """Return means of standardized targets in the units and the shape of the targets."""
        return (mean * self._target_scale + self.intercept_).reshape(-1, *self._target_shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class _StandardizedTargets:
    """Targets of mean 0 and deviation 1. The targets themselves are mean + scale · values."""

    values: np.ndarray
    """The standardized targets, (n_cases, n_targets)."""
    mean: np.ndarray
    """Weighted means of the targets, (n_targets,)."""
    scale: np.ndarray
    """Deviations of the targets, (n_targets,), or some unit if all values are equal."""
    vary: bool
    """Whether any target has several values."""


def _standardize_targets(y: np.ndarray, weights: np.ndarray) -> _StandardizedTargets:
    """Return standardized targets from targets, (n_cases, n_targets), of weighted cases."""
    exponents = exponents_of(y)
    scaled = np.ldexp(y, -exponents)  # sums of squares stay in float64
    mean = np.average(scaled, axis=0, weights=weights)
    deviation = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
    divisor = np.where(deviation > 0, deviation, 1.0)
    return _StandardizedTargets(
        values=(scaled - mean) / divisor,
        mean=np.ldexp(mean, exponents),
        scale=np.ldexp(divisor, exponents),
        vary=bool(deviation.any()),
    )


def _score_and_error(residuals: np.ndarray, cases: Cases) -> tuple[float, float]:
    """Return R², a mean over targets, and its standard error.

    The residuals are of standardized targets, (n_cases, n_targets).
    """
    weights, squares = cases.weights, (residuals**2).mean(axis=1)
    mean = float(np.average(squares, weights=weights))
    error = np.sqrt(variance_of_sum(squares - mean, cases, weights)) / weights.sum()
    return 1.0 - mean, _DEPENDENCE * float(error)


def _warn_of_score(score: float, residuals: np.ndarray, cases: Cases) -> None:
    """Warn if the left-out score, or that of one of several targets, is no better than 0.

    The residuals are of standardized targets, (n_cases, n_targets).
    """
    target_scores = 1.0 - np.average(residuals**2, axis=0, weights=cases.weights)
    if score <= 0.0:
        warn(
            f"left_out_score_, R² on signals left out, is {score:.3g}: these views do not find "
            f"what the targets depend on. {REMEDY}",
            LeftOutWarning,
        )
    elif lost := np.flatnonzero(target_scores <= 0.0).tolist():
        warn(
            f"R² on signals left out is at most 0 of the columns {shown(lost)} of y: these "
            f"views do not find what they depend on. left_out_score_ is a mean over columns",
            LeftOutWarning,
        )
