"""Regressor that averages the predictions of several kernels and views of the signals."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from ..arrays import Array
from ..validation import check_flag
from .atomic import atomic
from .base import ResidualKernelEstimator, check_given
from .cases import find_cases, of_positive_weight
from .inputs import read_signals
from .moderate import moderate
from .parameters import check_parameters, estimator

_PENALTIES = tuple(10.0**k for k in range(-4, 2))
"""Default penalties beside the least one, in units of the kernels' diagonal. Chosen to reach from
nearly interpolation to nearly the mean of the targets."""


@estimator
class ResidualKernelRegressor(RegressorMixin, ResidualKernelEstimator):
    """Predict numbers from signals by the kernels of infinitely wide convolutional ResNets.

    As `ResidualKernelClassifier`, with kernel ridge regression of numbers. Several targets share
    passes, weights and penalties.

    Each pass is also a Gaussian process: its mean kernel times a scale σ², with noise of variance
    σ² times the penalty. The scale maximizes the marginal likelihood. `predict` returns mean and
    standard deviation of the mixture of these processes. For the deviations, each pass keeps the
    square of the number of signals (or landmarks) in numbers.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    passes_, n_channels_, n_timepoints_, fit_seconds_
        As for `ResidualKernelClassifier`. Errors are in units of the targets' variances.
    best_score_ : float
        R² over all targets of leave-one-out predictions on the training signals. Weights and
        penalties have no part in the score of the signals that decide them: ten folds are left
        out of them in turn. A signal that comes several times with its target is left out as a
        whole, and weights of signals count.
    best_score_error_ : float
        Standard error of `best_score_`, by the spread of the squared errors.
    target_mean_, target_scale_ : ndarray, (n_targets,)
        Means and standard deviations by which targets are standardized; 1 for a constant target.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import ResidualKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> frequency, phase = rng.uniform(0.2, 1.0, 60), rng.uniform(0, 6, (60, 1, 1))
    >>> X = np.sin(np.arange(40) * frequency[:, None, None] + phase)
    >>> model = ResidualKernelRegressor(effort="fast").fit(X[:40], frequency[:40])
    >>> model.score(X[40:], frequency[40:]) > 0.95
    True
    >>> mean, deviation = model.predict(X[40:], return_std=True)
    """

    _variances = True

    @atomic
    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None
    ) -> ResidualKernelRegressor:
        """Fit the readouts of all passes, and weigh them.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a list of signals of different lengths, (n_channels, n_timepoints) each.
        y : array, (n_cases,) or (n_cases, n_targets)
        sample_weight : array, (n_cases,), optional
            Weights of the signals, at least 0, inverse to the variance of their noise; only
            their ratios count. The fit is the same as with signals that are repeated as often.
            Signals of weight 0 are left out.

        Returns
        -------
        ResidualKernelRegressor
            Itself.

        Raises
        ------
        ValueError
            For signals with missing values, for a single signal, and for invalid parameters. The
            message says what to do.
        """
        start = time.perf_counter()
        checked = check_parameters(self)
        check_given(self, y)
        signals = read_signals(self, X, reset=True, lists=True)
        values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(signals, values)
        signals, values, weights = of_positive_weight(signals, values, sample_weight)
        self._flat = values.ndim == 1
        targets, self._exponents = _moderate_columns(values.reshape(len(values), -1))
        cases = find_cases(signals, targets, weights)
        if len(cases.weights) < 2:
            raise ValueError("n_samples=1: expected two signals that differ, to leave one out")
        targets, weights = cases.targets, cases.weights
        mean = np.average(targets, axis=0, weights=weights)
        deviation = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weights))
        varies = deviation > 0
        Y = (targets - mean) / np.where(varies, deviation, 1.0)
        self.target_mean_ = np.ldexp(mean, self._exponents)
        self.target_scale_ = np.where(varies, np.ldexp(deviation, self._exponents), 1.0)
        self._moderate_mean, self._moderate_scale = mean, np.where(varies, deviation, 1.0)
        decisions, _ = self._average(checked, cases._replace(targets=Y), weights)
        squares = ((decisions - Y) ** 2).mean(axis=1)
        error = float(np.average(squares, weights=weights))
        self.best_score_ = 1.0 - error
        spread = weights * (squares - error)
        self.best_score_error_ = float(np.sqrt(spread @ spread) / weights.sum())
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(
                f"R² {self.best_score_:.3f} ± {self.best_score_error_:.3f}, "
                f"{self.fit_seconds_:.1f} s",
                flush=True,
            )
        return self

    def _penalties(self, weights: np.ndarray) -> tuple[float, ...]:
        """Return the default penalties for cases of these weights."""
        return (*super()._penalties(weights), *_PENALTIES)

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Return predicted targets, and their standard deviations if asked for.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
        return_std : bool, default False
            Whether to return standard deviations too: of new observations, noise included.

        Returns
        -------
        mean : ndarray, (n_cases,) or (n_cases, n_targets)
            Of the shape of the targets in `fit`, but for the number of cases.
        deviation : ndarray of the same shape
            With `return_std` alone.

        Raises
        ------
        ValueError
            For signals of another number of channels than those fitted, or of another length
            than fitted signals of one length.
        NotFittedError
            Before `fit`.
        OverflowError
            If a prediction exceeds float64.
        """
        if not check_flag(return_std, "return_std"):
            return self._unscaled(self._decide(X) * self._moderate_scale + self._moderate_mean)
        check_is_fitted(self)
        signals = read_signals(self, X, reset=False, lists=True)
        mean, variance = self._fitted.mixture(signals, self._options())
        deviation = np.sqrt(variance) * self._moderate_scale
        mean = mean * self._moderate_scale + self._moderate_mean
        return self._unscaled(mean), self._unscaled(deviation)

    def _unscaled(self, values: np.ndarray) -> np.ndarray:
        """Return values, (n_cases, n_targets), in units of the targets and of their shape."""
        with np.errstate(over="ignore", under="ignore"):
            values = np.ldexp(values, self._exponents)
        if not np.isfinite(values).all():
            raise OverflowError("predictions exceed float64: fit smaller targets")
        return values[:, 0] if self._flat else values

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return R² of predictions, the mean over targets.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
        y : array, (n_cases,) or (n_cases, n_targets)
            Each target is divided by a power of two first if its squares would leave float64.
        sample_weight : array, (n_cases,), optional

        Returns
        -------
        float

        Raises
        ------
        ValueError, NotFittedError, OverflowError
            As for `predict`.
        """
        check_given(self, y)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        predictions = self.predict(X)
        targets, exponents = _moderate_columns(y.reshape(len(y), -1))
        predicted = np.ldexp(predictions.reshape(len(predictions), -1), -exponents)
        return float(r2_score(targets, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _moderate_columns(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each column of targets divided by a power of two (`moderate`), and the powers."""
    columns = [moderate(column) for column in targets.T]
    return np.stack([c for c, _ in columns], axis=1), np.array([e for _, e in columns])
