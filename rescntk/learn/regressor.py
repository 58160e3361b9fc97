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
    σ² times the penalty. The scale maximizes the marginal likelihood. The standard deviation of
    `predict` is the one of the mixture of these processes.

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
        out of them in turn.
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
    def fit(self, X: Array, y: Array) -> ResidualKernelRegressor:
        """Fit the readouts of all passes, and weigh them.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a list of signals of different lengths, (n_channels, n_timepoints) each.
        y : array, (n_cases,) or (n_cases, n_targets)

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
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(signals, y)
        if len(signals) < 2:
            raise ValueError("n_samples=1: expected at least two signals, to leave one out")
        self._flat = y.ndim == 1
        targets, self._exponents = _moderate_columns(y.reshape(len(y), -1))
        mean, deviation = targets.mean(axis=0), targets.std(axis=0)
        varies = deviation > 0
        Y = (targets - mean) / np.where(varies, deviation, 1.0)
        self.target_mean_ = np.ldexp(mean, self._exponents)
        self.target_scale_ = np.where(varies, np.ldexp(deviation, self._exponents), 1.0)
        self._moderate_mean, self._moderate_scale = mean, np.where(varies, deviation, 1.0)
        decisions, _ = self._average(checked, signals, Y, np.ones(len(signals)))
        squares = ((decisions - Y) ** 2).mean(axis=1)
        self.best_score_ = 1.0 - float(squares.mean())
        self.best_score_error_ = float(squares.std() / np.sqrt(len(squares)))
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(
                f"R² {self.best_score_:.3f} ± {self.best_score_error_:.3f}, "
                f"{self.fit_seconds_:.1f} s",
                flush=True,
            )
        return self

    def _penalties(self, n: int) -> tuple[float, ...]:
        """Return the default penalties for n signals."""
        return (*super()._penalties(n), *_PENALTIES)

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
