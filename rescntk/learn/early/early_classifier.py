"""Labels before a signal's end: a classifier for each of several prefix lengths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ...checks.messages import LeftOutWarning, SignalsWarning, shown, warn
from ...checks.values import check_nonnegative, check_positive, check_positive_integer
from ..base import SignalEstimator, fitting
from ..classifier import ResidualKernelClassifier
from ..ensemble.nonconformity import COVERAGE
from ..reading.cases import Cases
from ..reading.inputs import check_first_columns_of_fit, read_cases, read_labels, read_signals
from .stopping import (
    SIGNIFICANCE,
    Progress,
    StoppingRule,
    best_rule,
    harmonic_mean,
    negative_cost,
    rule_with_error_bound,
)

_LEAST_POINTS = 4
"""Least number of time points of a prefix, if signals have as many."""


class ProbabilityClassifier(Protocol):
    """A classifier of scikit-learn's kind, with probabilities."""

    def fit(self, X: np.ndarray, y: np.ndarray, **options: Any) -> Self:
        """Fit it to signals and labels."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of each class, (n_cases, n_classes)."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return its parameters by name."""


def prefix_lengths(n_timepoints: int, n_prefixes: int) -> np.ndarray:
    """Return evenly spaced lengths up to `n_timepoints`, of at least four time points."""
    lengths = np.rint(n_timepoints * np.arange(1, n_prefixes + 1) / n_prefixes).astype(int)
    return np.unique(np.clip(lengths, min(_LEAST_POINTS, n_timepoints), n_timepoints))


@dataclass(eq=False, repr=False)
class EarlyClassifier(ClassifierMixin, SignalEstimator):
    """Classify signals before their end, as soon as a label is sure enough.

    A classifier is fitted to each of several prefixes, which are the first time points of all
    signals. A label is final at the first prefix where its probability reaches a threshold and, if
    `agreement_` is 2, the prefix before has the same label. At the full length all labels are
    final. Left-out results at all prefixes choose threshold and agreement.

    Parameters
    ----------
    estimator : classifier, optional
        The classifier whose clones are fitted to the prefixes. Its `fit` must set
        `left_out_proba_`, the probabilities of the training signals, each left out. The default is
        ``ResidualKernelClassifier("fast")``.
    n_prefixes : int, default 10
        Number of prefixes, evenly spaced, of at least four time points. Equal prefixes count once,
        and those in which all training signals are equal are not used.
    error : float, optional
        Bound of the chance of error among early labels, between 0 and 1 (see Notes). Give it if
        decisions depend on early labels. By default accuracy is traded for earliness, the mean
        share of the time points that a label takes: threshold and agreement have the largest
        harmonic mean of accuracy and 1 − earliness.
    delay_cost : float, optional
        Cost of waiting for all time points, at least 0, where a wrong label costs 1. Threshold and
        agreement then have the least mean error + `delay_cost` · earliness of left-out labels, in
        place of the largest harmonic mean. It cannot be given together with `error`.
    random_state : int, RandomState or None, default None
        Seed of all classifiers, in place of the seed of `estimator`. If None, the integer seed of
        `estimator` is kept.

    Attributes
    ----------
    classes_ : ndarray, (n_classes,)
    prefixes_ : ndarray of int
        Numbers of time points of the prefixes that are used, up to the full length.
    estimators_ : list
        The classifier of each prefix.
    threshold_ : float
        Probability from which an early label is final; infinite if none is.
    agreement_ : int
        Number of prefixes in a row, 1 or 2, that an early label needs. With `error` it is 1.
    left_out_prediction_ : ndarray, (n_cases,)
        Final labels of the signals given to `fit`, each left out.
    left_out_times_ : ndarray of int, (n_cases,)
        Numbers of time points that these labels take. The same results have chosen threshold and
        agreement, so that new signals may be somewhat worse.
    n_channels_, n_timepoints_ : int
        Number of channels and of time points of the signals.

    Notes
    -----
    **What a bound promises.** With `error`, thresholds go down from the strictest one as long as an
    exact test at level .1 shows that errors among early labels are less frequent
    (Angelopoulos et al. 2021, "Learn then test"). If left-out results were those of independent new
    signals, the chance of error among early labels of new signals would exceed `error` for one in
    ten training sets at most. Left-out results come near to this, but are not independent of each
    other. The bound is about all early labels together. It is not about each prefix or class, nor
    about signals of new persons, machines or days: for these, give `groups`. If none is wrong,
    log(.1)/log(1 − error) early labels are needed, 45 for .05 and 22 for .1: with fewer signals, or
    groups, no label is early, and a warning says so.

    A label depends only on the time points up to its prefix. Signals that were standardized over
    all time points break this before they come here: standardize each by what is known at its time.

    References
    ----------
    .. [1] Schäfer, Leser 2020, "TEASER: early and accurate time series classification".
    .. [2] Angelopoulos, Bates, Candès, Jordan, Lei 2021, "Learn then test: calibrating predictive
       algorithms to achieve risk control".

    Examples
    --------
    >>> from rescntk.datasets import load_labelled
    >>> from rescntk.learn import EarlyClassifier
    >>> X, y = load_labelled("ItalyPowerDemand")  # 24 time points
    >>> model = EarlyClassifier(n_prefixes=3, random_state=0).fit(X[::2], y[::2])
    >>> model.prefixes_
    array([ 8, 16, 24])
    >>> model.score(X[1::2], y[1::2]) > 0.8
    True
    >>> bool(model.predict_times(X[1::2]).mean() < 16)
    True
    """

    # With metadata routing, searches of scikit-learn pass groups on to `fit`.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    n_prefixes: int = 10
    error: float | None = None
    delay_cost: float | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit a classifier to each prefix, and choose when labels are final.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a table of numbers. Lists of signals of different lengths are refused.
        y : array, (n_cases,)
            Labels of one kind: whole numbers, booleans or texts.
        sample_weight : array, (n_cases,), optional
            Weights of the signals, at least 0, in the fits, and in accuracy and earliness. For
            `error` each signal of positive weight counts once.
        groups : array, (n_cases,), optional
            Labels of what signals have in common, such as a person, machine or day. Whole groups
            are left out, and count as one signal for `error`.

        Returns
        -------
        EarlyClassifier
            The classifier itself.

        Raises
        ------
        ValueError
            For missing values, a single class, signals of different lengths, an estimator without
            left-out probabilities, and invalid parameters.

        Warns
        -----
        UserWarning
            If `error` leaves no early label.
        """
        with fitting(self) as fresh:
            fresh._fit(X, y, sample_weight, groups)
        return self

    def _fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> None:
        """Set the attributes of a fitted classifier."""
        options = {"sample_weight": sample_weight, "groups": groups}
        fit_options = {name: value for name, value in options.items() if value is not None}
        classifier = self._prefix_classifier(fit_options)
        n_prefixes = check_positive_integer(self.n_prefixes, "n_prefixes")
        self._check_rule()
        labels, label_indices = read_labels(y)
        given, cases = read_cases(X, y, label_indices[:, None], sample_weight, groups)
        signals, signal_labels = given.signals, labels[label_indices]
        if isinstance(signals, list):
            raise ValueError(
                "X has signals of different lengths, expected one length, an array (n_cases, "
                "n_channels, n_timepoints): prefixes are shares of a common time"
            )
        counted = cases.case_indices >= 0  # signals of positive weight
        if len(np.unique(label_indices[counted])) < len(labels):
            raise ValueError(
                f"sample_weight is zero for all signals of a class of {shown(labels.tolist())}, "
                f"expected a positive weight in each"
            )
        lengths = prefix_lengths(signals.shape[2], n_prefixes)
        n_equal = _n_equal_points(np.asarray(cases.signals))
        prefixes = lengths[(lengths > n_equal) | (lengths == signals.shape[2])]
        estimators, proba = _fit_prefixes(
            classifier, prefixes, signals, signal_labels, counted, fit_options
        )
        classes = estimators[-1].classes_
        class_indices = np.searchsorted(classes, signal_labels)
        rule = self._chosen_rule(proba, class_indices, prefixes, cases, sample_weight)
        left_out_end = rule.simulate(proba)
        self._remember(X, given)
        self.classes_, self.prefixes_, self.estimators_ = classes, prefixes, estimators
        self._rule, self.threshold_, self.agreement_ = rule, rule.threshold, rule.agreement
        self.left_out_prediction_ = classes[left_out_end.class_indices]
        self.left_out_times_ = prefixes[left_out_end.last]

    def _check_rule(self) -> None:
        """Raise a ValueError if `error` or `delay_cost` is wrong, or both are given."""
        if self.error is not None and check_positive(self.error, "error") >= 1:
            raise ValueError(f"error is {shown(self.error)}, expected None or a number below 1")
        if self.delay_cost is not None:
            check_nonnegative(self.delay_cost, "delay_cost")
            if self.error is not None:
                raise ValueError(f"delay_cost is {self.delay_cost}, expected None with an error")

    def _prefix_classifier(self, fit_options: Iterable[str]) -> ProbabilityClassifier:
        """Return the classifier whose clones are fitted with some options, with its seed."""
        classifier = ResidualKernelClassifier("fast") if self.estimator is None else self.estimator
        methods = "fit", "predict_proba", "get_params"
        if isinstance(classifier, type) or not all(hasattr(classifier, name) for name in methods):
            raise ValueError(
                f"estimator is {shown(classifier)}, expected a classifier with predict_proba and, "
                f"after fit, left_out_proba_, such as rescntk.learn.ResidualKernelClassifier"
            )
        for name in fit_options:
            if not has_fit_parameter(classifier, name):
                raise ValueError(
                    f"{name} is given, and the fit of estimator {shown(classifier)} takes none"
                )
        parameters, random_state = classifier.get_params(), self.random_state
        is_unseeded = parameters.get("random_state", 0) is None
        if is_unseeded or (random_state is not None and "random_state" in parameters):
            seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
            classifier = clone(classifier).set_params(random_state=seed)
        return classifier

    def _chosen_rule(
        self,
        left_out: np.ndarray,
        class_indices: np.ndarray,
        prefixes: np.ndarray,
        cases: Cases,
        sample_weight: ArrayLike | None,
    ) -> StoppingRule:
        """Return the rule that left-out probabilities, (n_prefixes, n_signals, n_classes), choose.

        The right classes are `class_indices`, (n_signals,), and `prefixes` are lengths. Signals of
        weight 0 do not count.
        """
        counted = np.flatnonzero(cases.case_indices >= 0)
        results = left_out[:, counted], class_indices[counted]
        if self.error is None:
            weights = None
            if sample_weight is not None:
                given = np.asarray(sample_weight, dtype=np.float64)[counted]
                weights = given / given.max()
            objective: Callable[[float, float], float] = harmonic_mean
            if self.delay_cost is not None:
                objective = partial(negative_cost, delay_cost=self.delay_cost)
            return best_rule(*results, prefixes, objective, weights)
        groups = cases.groups[cases.case_indices[counted]]
        rule = rule_with_error_bound(*results, groups, self.error)
        if not np.isfinite(rule.threshold) and len(left_out) > 1:
            n, needed = cases.n_groups, np.ceil(np.log(SIGNIFICANCE) / np.log1p(-self.error))
            reason = "left-out labels are wrong more often, or too few of them are early"
            if n < needed:
                reason = (
                    f"{n} training signals or groups cannot show so few errors, which takes "
                    f"{needed:.0f} right ones at least"
                )
            warn(f"error is {self.error}, and no label is early: {reason}")
        return rule

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return final labels.

        Parameters
        ----------
        X : array or table
            Whole signals as for `fit`. A label does not depend on what follows its prefix.

        Returns
        -------
        ndarray, (n_cases,)
            Labels, of the kind of those fitted.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        class_indices = self._follow(self._read(X)).class_indices
        return self.classes_[class_indices]

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of each class at the prefix where the label is final.

        Parameters
        ----------
        X : array or table
            Whole signals as for `fit`.

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
        return self._follow(self._read(X)).proba

    def predict_set(self, X: ArrayLike, coverage: float = COVERAGE) -> np.ndarray:
        """Return the classes that may be right, at the prefix where the label is final.

        Parameters
        ----------
        X : array or table
            Whole signals as for `fit`.
        coverage : float, default 0.9
            Share of sets that have the right class, among all signals at one prefix, as for
            `ResidualKernelClassifier.predict_set`. A label is final where it is sure, so
            that sets of final labels have the right class more often.

        Returns
        -------
        ndarray of bool, (n_cases, n_classes)
            In the order of `classes_`.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, missing values, a coverage that is not
            between 0 and 1, and an `estimator` without `predict_set`.
        NotFittedError
            Before `fit`.
        """
        return self._at_last_prefix(X, "predict_set", coverage)

    def novelty(self, X: ArrayLike) -> np.ndarray:
        """Return how unlike the training signals others are, at the prefix of each final label.

        Parameters
        ----------
        X : array or table
            Whole signals as for `fit`.

        Returns
        -------
        ndarray, (n_cases,)
            About 1 for signals like the training signals, and larger for others, as
            `ResidualKernelClassifier.novelty` says.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, missing values, and an `estimator` without
            `novelty`.
        NotFittedError
            Before `fit`.
        """
        return self._at_last_prefix(X, "novelty")

    def _at_last_prefix(self, X: ArrayLike, method: str, *arguments: object) -> np.ndarray:
        """Return what a method of the classifiers returns at the prefix of each final label."""
        signals = self._read(X)
        if not hasattr(self.estimators_[-1], method):
            raise ValueError(
                f"estimator is {shown(self.estimators_[-1])}, which has no {method}, expected a "
                f"classifier that has it, such as ResidualKernelClassifier"
            )
        last, parts = self._follow(signals).last, []
        for k in range(len(self.prefixes_)):
            ending = np.flatnonzero(last == k)
            if len(ending):
                beginnings = signals[ending, :, : self.prefixes_[k]]
                values = getattr(self.estimators_[k], method)(beginnings, *arguments)
                parts.append((ending, values))
        indices, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.asarray(values[np.argsort(indices)])

    def predict_times(self, X: ArrayLike) -> np.ndarray:
        """Return how many time points each label takes.

        Parameters
        ----------
        X : array or table
            Whole signals as for `fit`.

        Returns
        -------
        ndarray of int, (n_cases,)
            For each signal one of `prefixes_`.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        last = self._follow(self._read(X)).last
        return self.prefixes_[last]

    def decide(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels of signals that are still arriving, and which are final.

        Parameters
        ----------
        X : array or table
            Signals from their beginning on, (n_cases, n_channels, n) or (n_cases, n), with n from
            ``prefixes_[0]`` up to the full length.

        Returns
        -------
        labels : ndarray, (n_cases,)
            Where the label is final, it is that of `predict`; else it is the most probable one so
            far.
        final : ndarray of bool, (n_cases,)
            Whether the label is final.

        Raises
        ------
        ValueError
            For other numbers of channels than in `fit`, too few or too many time points, and
            missing values.
        NotFittedError
            Before `fit`.
        """
        progress = self._follow(self._read_prefix(X))
        return self.classes_[progress.class_indices], progress.final

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[np.ndarray]:
        """Yield the probability of each class at each prefix, also at those after a final label.

        Parameters
        ----------
        X : array or table
            Signals as for `decide`.

        Yields
        ------
        ndarray, (n_cases, n_classes)
            For each of `prefixes_` that the signals have.

        Raises
        ------
        ValueError
            As for `decide`.
        NotFittedError
            Before `fit`.
        """
        signals = self._read_prefix(X)
        stages = zip(self.estimators_, self.prefixes_, strict=True)
        return (
            fitted.predict_proba(signals[:, :, :length])
            for fitted, length in stages
            if length <= signals.shape[2]
        )

    def _read(self, X: object) -> np.ndarray:
        """Return checked signals of all time points."""
        return np.asarray(super()._read(X))  # a list has another shape, and is refused

    def _read_prefix(self, X: ArrayLike) -> np.ndarray:
        """Return checked signals of some or all time points."""
        check_is_fitted(self, "n_channels_")
        given = read_signals(X)
        check_first_columns_of_fit(given, self._columns)
        signals = given.signals
        if isinstance(signals, list):
            raise ValueError("X has signals of different lengths, expected as many time points")
        (n_channels, n), first = signals.shape[1:], self.prefixes_[0]
        if n_channels != self.n_channels_ or not first <= n <= self.n_timepoints_:
            raise ValueError(
                f"X has signals of {n_channels} channels × {n} time points, expected "
                f"{self.n_channels_} channels × {first} to {self.n_timepoints_} time points"
            )
        return signals

    def _follow(self, signals: np.ndarray, progress: Progress | None = None) -> Progress:
        """Return the progress of checked signals. A progress so far is changed, and goes on.

        The form of aeon, in aeon.py, calls this with the progress that it has stored.
        """

        def proba_at(k: int, at: np.ndarray) -> np.ndarray:
            return self.estimators_[k].predict_proba(signals[at, :, : self.prefixes_[k]])

        if progress is None:
            progress = Progress.begin(len(signals), len(self.classes_))
        n_seen = int(np.searchsorted(self.prefixes_, signals.shape[2], side="right"))
        self._rule.advance(progress, proba_at, len(self.prefixes_), n_seen)
        return progress


def _n_equal_points(signals: np.ndarray) -> int:
    """Return the number of time points at the beginning in which all signals are equal."""
    is_equal = (signals == signals[0]).all(axis=(0, 1))
    return int(np.logical_and.accumulate(is_equal).sum())


def _fit_prefixes(
    classifier: ProbabilityClassifier,
    prefixes: np.ndarray,
    signals: np.ndarray,
    labels: np.ndarray,
    counted: np.ndarray,
    fit_options: Mapping[str, Any],
) -> tuple[list[Any], np.ndarray]:
    """Return a clone of the classifier fitted to each prefix, and left-out probabilities.

    `prefixes` are lengths. Signals that are not `counted`, a mask (n_signals,), have weight 0. The
    probabilities are (n_prefixes, n_signals, n_classes).
    """
    estimators, left_out = [], []
    for length in prefixes:
        beginnings = signals[:, :, :length]
        with warnings.catch_warnings():
            # `read_cases` has warned of whole signals, and the labels may not show in a beginning.
            warnings.simplefilter("ignore", SignalsWarning)
            if length < signals.shape[2]:
                warnings.simplefilter("ignore", LeftOutWarning)
            fitted = clone(classifier).fit(beginnings, labels, **fit_options)
        estimators.append(fitted)
        left_out.append(_left_out_proba(fitted, beginnings, counted))
    return estimators, np.array(left_out)


def _left_out_proba(fitted: Any, signals: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return left-out probabilities of all training signals of a classifier, or raise a ValueError.

    Signals that are not `counted`, a mask (n_cases,), are new to the classifier, which predicts
    their probabilities.
    """
    proba = getattr(fitted, "left_out_proba_", None)
    if proba is None or len(proba) != len(signals):
        raise ValueError(
            f"estimator is {shown(fitted)}, which has no left_out_proba_ of all signals after fit, "
            f"expected a classifier that has them, such as rescntk.learn.ResidualKernelClassifier"
        )
    if not np.isfinite(proba[counted]).all():
        raise ValueError(
            f"estimator is {shown(fitted)}, whose left_out_proba_ lacks signals, expected those of "
            f"all: leave out classes of weight 0 first"
        )
    proba = np.array(proba)
    if not counted.all():
        proba[~counted] = fitted.predict_proba(signals[~counted])
    return proba
