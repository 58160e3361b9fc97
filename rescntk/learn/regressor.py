"""Regressor that chooses its kernel, its view of the signals and its penalty by itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length

from ..arrays import Array
from .atomic import atomic
from .base import ResidualKernelEstimator, check_given
from .inputs import read_signals
from .moderate import moderate
from .parameters import check_parameters, estimator


@estimator
class ResidualKernelRegressor(RegressorMixin, ResidualKernelEstimator):
    """Predict numbers from signals by the kernel of an infinitely wide convolutional ResNet.

    Kernel ridge regression. The kernel, the view of the signals and the penalty are chosen by the
    closed-form leave-one-out error on the training signals alone. Several targets share one
    kernel and one penalty. Parameters that take several values are searched over.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    best_params_, search_results_, kernel_, view_, signals_, readout_, n_channels_, \
n_timepoints_, fit_seconds_
        As for `ResidualKernelClassifier`.
    best_error_ : float
        Mean squared leave-one-out error, in units of the targets' variances: the least of many
        errors, and so optimistic.
    best_score_ : float
        R² over all targets, on training signals that had no part in the choice. In each of ten
        folds the decisions are leave-one-out decisions, by the kernel and the penalty with the
        least error on the other nine folds. The folds are random, and the same in every fit.
    target_mean_, target_scale_ : ndarray, (n_targets,)
        Means and standard deviations by which targets are standardized; 1 for a constant target.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import ResidualKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> frequency, phase = rng.uniform(0.2, 1.0, 60), rng.uniform(0, 6, (60, 1, 1))
    >>> X = np.sin(np.arange(40) * frequency[:, None, None] + phase)
    >>> model = ResidualKernelRegressor(depth=(1, 2), head="gap").fit(X[:40], frequency[:40])
    >>> model.score(X[40:], frequency[40:]) > 0.95
    True
    """

    @atomic
    def fit(self, X: Array, y: Array) -> ResidualKernelRegressor:
        """Choose a kernel and a penalty, and fit ridge regression.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
        y : array, (n_cases,) or (n_cases, n_targets)

        Returns
        -------
        ResidualKernelRegressor
            Itself.

        Raises
        ------
        ValueError
            For signals of unequal lengths or with missing values, for a single signal, and for
            invalid parameters. The message says what to do.
        OverflowError
            If a kernel that is not normalized exceeds floating-point numbers at a great depth.
        """
        start = time.perf_counter()
        checked = check_parameters(self)
        check_given(self, y)
        signals = read_signals(self, X, reset=True)
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
        counted = np.ones(len(signals), dtype=bool)
        found = self._search(checked, signals, Y, counted, 1, check_random_state(0))
        best = found.finalists[0]
        penalty = best.candidate.penalty
        self._keep(best, best.path.fit(penalty), {"penalty": penalty})
        self.best_score_ = 1.0 - float(np.mean((found.decisions - Y) ** 2))
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(f"chosen: {self.best_params_}, R² {self.best_score_:.3f}", flush=True)
        return self

    def predict(self, X: Array) -> np.ndarray:
        """Return predicted targets.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)

        Returns
        -------
        ndarray, (n_cases,) or (n_cases, n_targets)
            Of the shape of the targets in `fit`, but for the number of cases.

        Raises
        ------
        ValueError
            For signals of another length or number of channels than those fitted.
        NotFittedError
            Before `fit`.
        OverflowError
            If a prediction exceeds float64.
        """
        moderate = self._decide(X) * self._moderate_scale + self._moderate_mean
        with np.errstate(over="ignore", under="ignore"):
            predictions = np.ldexp(moderate, self._exponents)
        if not np.isfinite(predictions).all():
            raise OverflowError("predictions exceed float64: fit smaller targets")
        return predictions[:, 0] if self._flat else predictions

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
