"""Regressor that chooses its kernel, its view of the signals and its penalty by itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length

from ..arrays import Array
from .base import ResidualKernelEstimator, check_given
from .inputs import read_signals
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
        targets = y.reshape(len(y), -1)
        self.target_mean_ = targets.mean(axis=0)
        deviation = targets.std(axis=0)
        self.target_scale_ = np.where(deviation > 0, deviation, 1.0)
        self._flat = y.ndim == 1
        Y = (targets - self.target_mean_) / self.target_scale_
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
        """
        predictions = self._decide(X) * self.target_scale_ + self.target_mean_
        return predictions[:, 0] if self._flat else predictions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
