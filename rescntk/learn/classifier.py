"""The classifier: decisions of views, averaged, and calibrated to probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..checks.messages import LeftOutWarning, shown, warn
from .base import fitting
from .ensemble.calibration import (
    Calibration,
    calibrate,
    columns_of_classes,
    probabilities_of_folds,
)
from .ensemble.estimator import REMEDY, ResidualKernelEstimator
from .ensemble.nonconformity import COVERAGE, Nonconformity
from .ensemble.results import LeftOut
from .ensemble.targets import Targets
from .reading.cases import Cases, variance_of_sum
from .reading.class_targets import (
    ClassTargets,
    ClassWeight,
    targets_of_classes,
    weights_of_labels,
)
from .reading.inputs import read_cases, read_labels
from .reading.signals import Signals
from .views.defaults import CLASSIFIER_DEFAULTS

_NOVELTY_THRESHOLD = 4.0
"""Novelty above which probabilities are less certain. On six sets (`benchmarks/robustness.py`) the
mean largest probability of white noise is .50 with it and .83 without. The log loss of clean
signals is the same to .001; with noise of .1 it is .457 with it and .421 without, due to one set.
"""


@dataclass(eq=False, repr=False)
class ResidualKernelClassifier(ClassifierMixin, ResidualKernelEstimator):
    """Classify signals by the kernels of infinitely wide convolutional ResNets.

    The signals are seen in several views, each by a network of its own. Ridge regressions on the
    views' kernels are averaged, with weights that make the closed-form leave-one-out error of the
    average small. A view counts less for a signal that is novel to it.

    Parameters
    ----------
    views : {"default", "fast"} or list of View, default "default"
        "default" has all views that come with the estimator, "fast" those that take less time, and
        a list has your own (``docs/guide/classification.md``). For thousands of signals, views of
        "default" and "fast" are left out or shortened until the fit is within a budget of work
        (``docs/guide/large_data.md``).
    penalty : float or sequence of float, optional
        Penalty of ridge regression, in units of the kernel's diagonal. If you give several, each
        view uses the one with the smallest leave-one-out error. By default a view of a network uses
        the least penalty that rounding errors allow, since the average of views has less noise than
        each of them. With more than 1,000 signals, or if not all signals are landmarks, it also
        tries penalties from 3e-4 to 0.1. Linear views try powers of ten. If some training signals
        have wrong labels, try ``(1e-4, 1e-2, 1)``.
    n_landmarks : int, optional
        Maximum number of landmarks: signals, drawn at random, on whose kernels decisions depend. By
        default all signals are landmarks if there are up to 1,000; if there are more, the budget of
        work says how many are drawn, from 1,000 to 3,000.
    class_weight : dict, "balanced" or None, default None
        Weights of the classes by label; a class that is not named has the weight 1. "balanced"
        weighs each class by the inverse of its number of signals, or of the sum of their
        `sample_weight`. The weights count in the errors of views, and shift decisions; if all are
        equal, nothing changes. A class of weight 0 is left out of the fit. A warning names the
        class weights that match no signal.
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
    classes_ : ndarray, (n_classes,)
    left_out_proba_ : ndarray, (n_cases, n_classes)
        Probabilities of the signals given to `fit`, in their order, each left out (see Notes). They
        are NaN for signals of weight 0, and for those of classes of weight 0.
    left_out_novelty_ : ndarray, (n_cases,)
        The `novelty` of the same signals, each left out (see Notes). A quantile of it is a limit
        for the novelty of new signals.
    left_out_score_, left_out_score_error_ : float
        Accuracy on training signals left out, one by one or by groups, and its standard error.
        `sample_weight` weighs it, and `class_weight` does not. The only signal, or group, of a
        class does not count.
    views_ : dict of ndarray
        A table with a row for each view: "view"; "error", the mean squared leave-one-out error of
        targets ±1; "weight" in the average; and "note", which says why a view is not fitted.
    intercept_ : ndarray, (n_outputs,)
        Decisions are the sum of this and of all contributions.
    inverse_temperature_ : float
        Probabilities are the softmax of decisions times this number, but less certain for a very
        novel signal, as `predict_proba` says.
    offsets_ : ndarray, (n_outputs,)
        The shift of decisions by `class_weight`; 0 without it.
    n_channels_, n_timepoints_ : int
        Number of channels and of time points of the signals; if they are a list, `n_timepoints_`
        is None.

    Notes
    -----
    A signal is left out of each view's ridge regression, in closed form: together with its copies,
    or with its group where `groups` are given. The other nine folds weigh the views, and calibrate
    the probabilities. The signal takes part in all else: the scales of views, the levels and sizes
    with which `novelty` compares, the landmarks, the choice among several penalties, and the errors
    of other folds. So left-out results may be a little better than those of new signals.

    Folds come from the signals' contents and `random_state`. Other models of the same signals,
    groups and integer `random_state` have the same folds.

    Examples
    --------
    >>> from rescntk.datasets import load_labelled
    >>> from rescntk.learn import ResidualKernelClassifier
    >>> X, y = load_labelled("GunPoint")
    >>> ResidualKernelClassifier(views="fast").fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.8
    True
    """

    _: KW_ONLY
    class_weight: ClassWeight = None

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
        y : array, (n_cases,)
            Labels of one kind: whole numbers, booleans or texts.
        sample_weight : array, (n_cases,), optional
            Weights of the signals, at least 0: the fit is that of signals repeated as often. A
            weight of less than 1e-12 of the largest counts as 0.
        groups : array, (n_cases,), optional
            Labels of what signals have in common, such as a person, machine or day. Whole groups
            are left out, so that errors, weights and probabilities are about new groups.

        Returns
        -------
        ResidualKernelClassifier
            The classifier itself.

        Raises
        ------
        ValueError
            For missing values, a single class, one group, signals that no view can take, and
            invalid parameters.
        """
        with fitting(self) as fresh:
            fresh._fit(X, y, sample_weight, groups)
        return self

    def _fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> None:
        """Set the attributes of a fitted classifier."""
        labels, label_indices = read_labels(y)
        has_weight = weights_of_labels(self.class_weight, labels) > 0
        given, cases = read_cases(
            X, y, label_indices[:, None], sample_weight, groups, is_used=has_weight[label_indices]
        )
        # Labels without weight have no case: the classes of cases may be fewer than the labels.
        class_targets = targets_of_classes(cases, labels, self.class_weight)
        self._remember(X, given)
        self._target_scale = np.ones(1)
        left_out = self._fit_ensemble(
            cases,
            Targets(class_targets.signs, class_targets.error_weights),
            default_views=CLASSIFIER_DEFAULTS,
        )
        calibration, proba, nonconformity = _calibrate_left_out(left_out, class_targets, cases)
        is_right = proba.argmax(axis=1) == class_targets.class_indices
        score, error = _score_and_error(is_right, class_targets.score_weights, cases)
        self.classes_ = class_targets.classes
        self.inverse_temperature_, self.offsets_ = calibration
        self.intercept_ = self._ensemble.mean_targets + calibration.offsets
        self.left_out_proba_ = cases.at_signals(proba)
        self.left_out_score_, self.left_out_score_error_ = score, error
        self._nonconformity = nonconformity
        _warn_of_score(score, class_targets)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the decision for each class; `predict` returns the class with the greatest one.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (n_cases, n_classes)
            If there are two classes (n_cases,), positive for the second class.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        decisions = self._decisions(self._read(X))
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of each class.

        If the `novelty` ν of a signal is above 4, its decisions are divided by ν/4, so that signals
        unlike all training signals have less certain classes.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (n_cases, n_classes)
            In the order of `classes_`; sums of rows are 1.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the logarithm of the probability of each class.

        Its digits are right even if a probability is below the least number of float64.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (n_cases, n_classes)
            In the order of `classes_`.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        results = self._results(self._read(X))
        calibration = Calibration(self.inverse_temperature_, self.offsets_)
        return calibration.log_probabilities(
            results.averaged_decisions, _certainty(results.novelty)
        )

    def predict_set(self, X: ArrayLike, coverage: float = COVERAGE) -> np.ndarray:
        """Return the classes that may be right.

        A set has the most probable class, and each class whose probability is at least a threshold:
        of the training signals, each left out, the share `coverage` give their own class at least
        this probability. With `class_weight` the share is that of signals drawn with these weights,
        and with `groups` it is about new groups.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.
        coverage : float, default 0.9
            Share of sets that have the right class, between 0 and 1.

        Returns
        -------
        ndarray of bool, (n_cases, n_classes)
            In the order of `classes_`.

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
        The threshold comes from decisions about training signals left out, which all training
        signals calibrate, as they do for `predict_proba`. So these probabilities differ a little
        from `left_out_proba_`, for which nine folds calibrate the tenth.

        The share of new signals is near `coverage` for signals drawn like the training signals, if
        leaving out a signal changes probabilities little, and greater where the most probable class
        is right more often. No share is guaranteed without such a condition (Barber et al. 2021).
        """
        check_is_fitted(self)
        threshold = -self._nonconformity.quantile(coverage)
        proba = self.predict_proba(X)
        return proba >= np.minimum(threshold, proba.max(axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the class with the greatest decision.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (n_cases,)
            Labels, of the kind of those fitted: numbers, booleans or texts, as NumPy has them.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        class_indices = columns_of_classes(self._decisions(self._read(X))).argmax(axis=1)
        return self.classes_[class_indices]

    def median_contributions(self, *, of: str = "time") -> np.ndarray | None:
        """Return the mean over predicted classes of median contributions of training signals.

        Up to 40 training signals are drawn for this. Pictures subtract these medians from the
        contributions of a signal.

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
        return self._median_contributions(
            of, lambda decisions: columns_of_classes(decisions).argmax(axis=1)
        )

    def _decisions(self, X: Signals) -> np.ndarray:
        """Return decisions about signals, (n_cases, n_outputs), which `class_weight` shifts."""
        return self._results(X).averaged_decisions + self.offsets_


def _certainty(novelty: np.ndarray) -> np.ndarray:
    """Return the factors of decisions, (n_cases, 1), of signals with a novelty (n_cases,)."""
    return 1.0 / np.maximum(1.0, novelty / _NOVELTY_THRESHOLD)[:, None]


class _CalibrationResults(NamedTuple):
    """How decisions become probabilities and sets, and the probabilities of cases left out."""

    calibration: Calibration
    """The calibration by all cases."""
    proba: np.ndarray
    """Probabilities of cases left out, (n_cases, n_classes), which the other folds calibrate."""
    nonconformity: Nonconformity
    """The scores of the right classes. They come from probabilities with the calibration by all
    cases, as those of `predict_proba`, with which thresholds of sets are compared."""


def _calibrate_left_out(
    left_out: LeftOut, class_targets: ClassTargets, cases: Cases
) -> _CalibrationResults:
    """Return the calibration of decisions, with probabilities and scores of cases left out."""
    averaged_decisions = class_targets.signs - left_out.residuals
    fold_decisions = class_targets.signs - left_out.fold_residuals
    certainty = _certainty(left_out.novelty)

    def calibration_by(mask: np.ndarray) -> Calibration:
        return calibrate(
            averaged_decisions[mask],
            class_indices=class_targets.class_indices[mask],
            error_weights=class_targets.error_weights[mask],
            with_offsets=class_targets.has_class_weights,
        )

    proba = probabilities_of_folds(fold_decisions, certainty, left_out.folds, calibration_by)
    calibration = calibration_by(np.ones(len(averaged_decisions), dtype=bool))
    right = np.arange(len(averaged_decisions)), class_targets.class_indices
    right_proba = calibration.probabilities(fold_decisions, certainty)[right]
    nonconformity = Nonconformity(-right_proba, class_targets.coverage_weights, cases.n_groups)
    return _CalibrationResults(calibration, proba, nonconformity)


def _score_and_error(
    is_right: np.ndarray, weights: np.ndarray, cases: Cases
) -> tuple[float, float]:
    """Return the share of cases that are right, by weights (n_cases,), and its standard error.

    Both are NaN if all weights are 0. Two right and two wrong answers are added (Agresti and Coull
    1998), so that the error is never 0.
    """
    total, hits = weights.sum(), np.where(is_right, weights, 0.0).sum()
    if not total:
        return np.nan, np.nan
    middle = (hits + 2.0) / (total + 4.0)
    variance = variance_of_sum(is_right - middle, cases, weights)
    variance += 2 * (middle**2 + (1 - middle) ** 2)
    return hits / total, np.sqrt(variance) / (total + 4.0)


def _warn_of_score(score: float, class_targets: ClassTargets) -> None:
    """Warn if the score counts fewer than two classes, or is no better than one answer for all."""
    weights = class_targets.score_weights
    classes = class_targets.classes[np.unique(class_targets.class_indices[weights > 0])].tolist()
    if len(classes) < 2:
        subject = f"only class {shown(classes[0])} has" if classes else "no class has"
        extent = "about it alone" if classes else "not estimated"
        warn(f"{subject} two signals, or groups: accuracy and probabilities are {extent}")
        return
    majority = np.bincount(class_targets.class_indices, weights).max() / weights.sum()
    if score <= majority and not class_targets.has_class_weights:
        warn(
            f"left_out_score_ is {score:.3g}, and the most common class has {majority:.3g}: these "
            f"views do not find what tells the classes apart. {REMEDY}",
            LeftOutWarning,
        )
