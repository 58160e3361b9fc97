"""Classifier that averages the decisions of several kernels and views of the signals."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from ..arrays import Array
from .arguments import check_class_weight
from .atomic import atomic
from .base import ResidualKernelEstimator, check_given
from .batches import Signals
from .cases import find_cases, of_positive_weight
from .inputs import read_signals
from .parameters import check_parameters, estimator, parameter
from .readouts import calibrate, margins, one_against_rest, probabilities

_FORGOTTEN = 0.1
"""Share of a class' signals found when left out, below which a warning says so. Raising it warns
more often. Chosen, not measured."""

_ENOUGH = 5
"""Signals of a class from which on the warning is given. Raising it warns less often. Chosen: of
fewer signals, none is often found by chance."""


@estimator
class ResidualKernelClassifier(ClassifierMixin, ResidualKernelEstimator):
    """Classify signals by the kernels of infinitely wide convolutional ResNets.

    Several passes are made over the signals. Each pass has a view of the signals and a network,
    and takes the mean of the network's kernels over kinds and depths. Ridge regression on each
    mean kernel gives decisions. The decisions are averaged, with weights by the closed-form
    leave-one-out errors of the passes. Nothing is chosen, and one setting serves all data.

    The time grows with the square of the number of training signals, beyond 2000 signals in
    proportion to their number. The time also grows with the square of the signals' length, up to
    `max_length`. On two cores a fit with the defaults takes about 10 µs for each pair of signals,
    pass and 100² pixel pairs.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    passes_ : dict of ndarray
        One row for each pass: its settings, penalty, leave-one-out error (targets ±1), weight and
        seconds. `rescntk.plots.pass_weights` draws the weights.
    best_score_ : float
        Accuracy of leave-one-out decisions on the training signals. Weights, penalties and
        offsets have no part in the score of the signals that decide them: ten folds are left out
        of them in turn. A signal that comes several times with its label is left out as a
        whole, and weights of signals count. Where nothing can be learned the score is at chance
        or below, because a case that is left out makes its class the rarer one. Cases alone in
        their class do not count; nan where no cases count.
    best_score_error_ : float
        Standard error of `best_score_`, by the number of cases and their weights.
    class_scores_ : ndarray, (n_classes,)
        The same for the cases of each class; nan where no cases count.
    balanced_score_ : float
        The mean of `class_scores_` over classes whose cases count.
    inverse_temperature_ : float
        Factor from decisions to log-probabilities, calibrated on the decisions of `best_score_`;
        1 where there are no such decisions.
    offsets_ : ndarray, (n_outputs,)
        Added to decisions; 0 unless there are class weights.
    classes_ : ndarray
    n_channels_ : int
    n_timepoints_ : int or None
        None for signals of different lengths.
    fit_seconds_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import ResidualKernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["slow", "fast"], 10)
    >>> phase = rng.uniform(0, 6, (20, 1, 1))
    >>> X = np.sin(np.arange(40) * np.where(y == "slow", 0.4, 0.9)[:, None, None] + phase)
    >>> model = ResidualKernelClassifier(effort="fast").fit(X[::2], y[::2])
    >>> bool((model.predict(X[1::2]) == y[1::2]).all()), len(model.passes_["weight"])
    (True, 4)
    """

    class_weight: Mapping[Any, float] | str | None = parameter(
        default=None,
        type='dict, "balanced" or None',
        check=check_class_weight,
        doc="""Weights of the classes, by label; "balanced" weighs classes inversely to their
        numbers of signals. They weigh the errors of the passes, and move the borders between the
        classes (`offsets_`). Probabilities are of signals drawn with these weights.""",
    )

    @atomic
    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None
    ) -> ResidualKernelClassifier:
        """Fit the readouts of all passes, and weigh them.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a list of signals of different lengths, (n_channels, n_timepoints) each.
        y : array, (n_cases,)
            Labels of any kind.
        sample_weight : array, (n_cases,), optional
            Weights of the signals, at least 0; only their ratios count. The fit is the same as
            with signals that are repeated as often. Signals of weight 0 are left out. Borders
            between classes move with `class_weight` alone.

        Returns
        -------
        ResidualKernelClassifier
            Itself.

        Raises
        ------
        ValueError
            For signals with missing values, for a single class and for invalid parameters. The
            message says what to do.
        """
        start = time.perf_counter()
        checked = check_parameters(self)
        signals, y = self._read(X, y)
        signals, y, weights = of_positive_weight(signals, y, sample_weight)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0]}, expected signals of at least two classes"
            )
        cases = find_cases(signals, labels[:, None], weights)
        labels = cases.targets[:, 0]
        cases = cases._replace(targets=one_against_rest(labels, len(self.classes_)))
        counts = np.bincount(labels)
        # Without its only case a class is unknown: its errors say nothing about a kernel.
        counted = np.where(counts[labels] > 1, cases.weights, 0.0)
        error_weights = self._class_weights(checked, labels, cases.weights)[labels] * counted
        decisions, folds = self._average(checked, cases, error_weights)
        self._calibrate(decisions, labels, counted, error_weights, folds)
        self._warn_of_forgotten(counts)
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(
                f"accuracy {self.best_score_:.3f} ± {self.best_score_error_:.3f}, "
                f"{self.fit_seconds_:.1f} s",
                flush=True,
            )
        return self

    def _class_weights(
        self, checked: dict[str, Any], labels: np.ndarray, case_weights: np.ndarray
    ) -> np.ndarray:
        """Return the weight of each class."""
        if checked["class_weight"] == "balanced":
            return len(labels) / np.bincount(labels, case_weights) / len(self.classes_)
        given, y = checked["class_weight"], self.classes_[labels]
        return compute_class_weight(given, classes=self.classes_, y=y)

    def _calibrate(
        self,
        decisions: np.ndarray,
        labels: np.ndarray,
        counted: np.ndarray,
        weights: np.ndarray,
        folds: np.ndarray,
    ) -> None:
        """Set inverse temperature, offsets and scores from decisions out of fold.

        Parameters
        ----------
        counted : ndarray, (n_cases,)
            Weights of the cases in scores; 0 for cases that do not count.
        weights : ndarray, (n_cases,)
            The same, times the weights of classes.
        """
        shift = self.class_weight is not None
        self.inverse_temperature_, self.offsets_ = calibrate(
            decisions, labels, weights, shift=shift
        )
        shifted = decisions.copy()
        for fold in np.unique(folds) if shift else ():
            others = np.where(folds == fold, 0.0, weights)
            shifted[folds == fold] += calibrate(decisions, labels, others, shift=True).offsets
        right = margins(shifted).argmax(axis=1) == labels
        totals = np.bincount(labels, counted)
        with np.errstate(invalid="ignore"):
            self.class_scores_ = np.bincount(labels, counted * right) / totals
            self.best_score_ = float(counted @ right / counted.sum())
            spread = counted * (right - self.best_score_)
            self.best_score_error_ = float(np.sqrt(spread @ spread) / counted.sum())
        known = self.class_scores_[totals > 0]
        self.balanced_score_ = float(known.mean()) if len(known) else np.nan

    def _warn_of_forgotten(self, counts: np.ndarray) -> None:
        """Warn of classes whose signals are hardly ever found, unless classes are weighted."""
        forgotten = (counts >= _ENOUGH) & (self.class_scores_ < _FORGOTTEN)
        rare = counts < counts.max() / 2
        if self.class_weight is None and (forgotten & rare).any():
            names = ", ".join(map(str, self.classes_[forgotten & rare]))
            warnings.warn(
                f"next to no signal of these rare classes is found when it is left out: {names}; "
                f"class_weight='balanced' lets all classes count alike",
                stacklevel=4,  # the caller of fit, which is decorated
            )

    def decision_function(self, X: Array) -> np.ndarray:
        """Return decisions: the class with the greatest decision is predicted.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)

        Returns
        -------
        ndarray, (n_cases, n_classes), or (n_cases,) for two classes: positive for the second class

        Raises
        ------
        ValueError
            For signals of another number of channels than those fitted, or of another length than
            fitted signals of one length.
        NotFittedError
            Before `fit`.
        """
        decisions = self._decide(X) + self.offsets_
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict_proba(self, X: Array) -> np.ndarray:
        """Return class probabilities, calibrated on held-out decisions.

        Decisions are multiplied by `inverse_temperature_`, then follows a softmax.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)

        Returns
        -------
        ndarray, (n_cases, n_classes)
            In the order of `classes_`. The most probable class is the one predicted.

        Raises
        ------
        ValueError, NotFittedError
            As for `decision_function`.
        """
        return probabilities(self._decide(X) + self.offsets_, self.inverse_temperature_)

    def predict(self, X: Array) -> np.ndarray:
        """Return the class with the greatest decision.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)

        Returns
        -------
        ndarray, (n_cases,)
            Labels of the kind fitted.

        Raises
        ------
        ValueError, NotFittedError
            As for `decision_function`.
        """
        decisions = self._decide(X) + self.offsets_
        return self.classes_[margins(decisions).argmax(axis=1)]

    def _read(self, X: Array, y: Array) -> tuple[Signals, np.ndarray]:
        """Return signals and labels (n_cases,), checked."""
        check_given(self, y)
        signals = read_signals(self, X, reset=True, lists=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(signals, labels)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return signals, labels
