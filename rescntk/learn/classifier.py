"""Classifier that averages the decisions of several kernels and views of the signals.

Decisions and targets have one column for two classes, else one for each class against the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ..arrays import Array
from ..progress import warn
from ..regression.checks import distinct
from ..validation import check_constant, check_positive
from .base import ResidualKernelEstimator, squared_sum
from .calibration import calibrate, margins, one_against_rest, trust
from .counterfactual import Counterfactuals, Goal, changed_signals, each_case, log_odds
from .inputs import atomic, find_cases, positive_weights
from .parameters import ClassifierParameters
from .views import moderate_exponent, take

_RARE = 0.05
"""Share of all signals that a class holds, below which a warning is given where another class has
more than twice as many signals. Raising it warns more often. Chosen, not measured."""

_FORGOTTEN = 0.1
"""Share of a class' signals found when left out, below which a warning is given. Raising it warns
more often. Chosen, not measured."""

_ENOUGH = 5
"""Least signals of a class for which this warning is given. Raising it warns less often. Chosen: of
fewer signals, none is often found by chance."""


class ResidualKernelClassifier(ClassifierMixin, ClassifierParameters, ResidualKernelEstimator):
    """Classify signals by the kernels of infinitely wide convolutional ResNets.

    The signals are seen in several views. Each view has a network of its own, and uses the mean of
    the network's kernels over kinds and depths. Ridge regression on each mean kernel gives
    decisions. The decisions are averaged, with weights that make the closed-form leave-one-out
    error of the average small; a view counts less for signals that look unfamiliar to it. Views of
    hardly any weight are dropped. The defaults need no tuning on most data sets.

    The other parameters are settings of the views. A setting that is None is chosen by the plan;
    several values make a view each. Times and sizes are in docs/guide/classification.md.

    Parameters
    ----------
    effort : {"fast", "default", "thorough"} or float, default "default"
        Number of views that are averaged, or a limit for the time of `fit` in seconds, within
        which at least one view is made. Where signals are many, "fast" and "default" drop views,
        and shorten signals more.
    passes : sequence of dict, optional
        Views by hand, in place of the plan and of `effort`: a dict of settings for each, as
        ``{"head": "trace", "max_length": 512}``. `rescntk.learn.PLAN` lists the plan's.
    landmarks : int or "all", optional
        Number of signals, drawn at random, to which the solution is restricted. The default is
        "all" for up to 1000 signals, and 500 for more.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks, and of the ten folds of `best_score_`.
    engine : str, default "auto"
        As for calling a `rescntk.Kernel`.
    dtype : str, default "float32"
        As for calling a `rescntk.Kernel`.
    n_jobs : int, optional
        Number of threads, which does not change results; -1 is one for each core, -2 one less. The
        default is the choice of the engine.
    n_channels : int, default 1
        Number of channels of flat arrays (n_cases, n_channels · n_timepoints), one channel after
        the other, as permutation importance and bagging give them.
    missing : {"refuse", "interpolate"}, default "refuse"
        Whether signals with missing values (NaN) are refused, or filled in along time: linearly
        between the channel's nearest values, and at its ends with the nearest value. A channel
        of a signal without any value gets its mean level in `fit`.
    channel_metric : {"auto", True, False}, default "auto"
        Whether a metric of the channels is learned: weights of channels, and combinations of
        channels that decide together (docs/guide/channels.md). "auto" takes it where it lowers
        errors at folds, which it has not seen, by more than two standard errors.
    channel_names : sequence of str, optional
        Names of the channels, for messages and pictures. Tables of pandas have names, which
        `predict` compares with the names of `fit`.
    verbose : int, default 0
        Not 0: print how long the views will take, show each view's progress, and a line after it.
    class_weight : dict, "balanced" or None, default None
        Weights of the classes by label, by default 1; "balanced" is inverse to their numbers of
        signals. They weigh the views' errors, and shift the decision thresholds (`offsets_`).
        A weight of 0 leaves the signals of a class out.

    Attributes
    ----------
    passes_ : dict of ndarray
        One row for each view: its settings, penalty, leave-one-out error (targets ±1), weight at
        signals like the training signals, and seconds.
        `rescntk.plots.pass_weights` draws the weights.
    best_score_, best_score_error_ : float
        Accuracy of leave-one-out decisions on the training signals, and its standard error, with
        two right and two wrong answers more. Ten folds are left out in turn where weights,
        penalties and offsets are decided, and copies of a signal together; with groups, whole
        groups. The only case of a class does not count; nan where none counts.
    blocked_score_ : float
        The same where tenths of each class, in the order of `X`, are left out in turn; whole groups
        where given. It is far lower where signals near each other in `X` are alike, as of one
        recording: a warning then says so.
    class_scores_ : ndarray, (n_classes,)
        The same for the cases of each class; nan where no cases count.
    balanced_score_ : float
        The mean of `class_scores_` over classes whose cases count.
    inverse_temperature_ : float
        Factor from decisions to log-probabilities, by the decisions of `best_score_`; else 1.
    offsets_ : ndarray, (n_outputs,)
        Added to decisions; 0 unless there are class weights.
    intercept_ : ndarray, (n_outputs,)
        The mean target ±1 of the signals of `fit`, to which `contributions` add, with the offsets.
    classes_ : ndarray
    channel_metric_ : ndarray, (n_channels, n_channels)
        The matrix S that takes the place of standardized channels x by S x.
    channel_relevance_ : ndarray, (n_channels,)
        The diagonal of SᵀS; 1 without a metric. `rescntk.plots.channels` draws it.
    fold_relevance_ : ndarray, (n_folds, n_channels)
        The same of metrics learned without a fold.
    channel_names_ : list of str or None
    n_channels_ : int
    n_timepoints_ : int, (int, int) or None
        (height, width) of images; None for signals of different lengths.
    fit_seconds_ : float

    Other Parameters
    ----------------
    max_length : int or sequence, optional
        Longest signals that stay unchanged; longer ones are averaged over blocks of time points.
    block_statistics : bool or sequence, optional
        Whether standard deviation, minimum and maximum of each block are appended as channels.
    spectra : bool, "whole" or sequence, optional
        Whether short-time spectra take the place of the blocks' means: roots of the magnitudes of
        all frequencies, as channels, in Hann windows of two blocks. "whole" puts the spectrum of
        the whole signal in its place: blocks are then of frequencies.
    standardize : bool, "each", "point" or sequence, optional
        Whether each channel is standardized over all signals, except with block statistics and
        short-time spectra; "each" first standardizes each signal by itself, so that offset and gain
        are lost; "point" also standardizes each time point, differences too, over all signals.
    first_differences : bool, "only" or sequence, optional
        Whether first differences of each channel are appended, or take its place ("only").
    constant : bool or sequence, optional
        Whether a constant channel is appended, which gives the first layer a bias.
    time_scale : float or sequence, optional
        Scale of two channels with cosine and sine of the relative time. At 0 the head "gap"
        ignores when something happens; at 1 the time has as much energy as the signals.
    filter_size, input_filter_size : int or sequence, optional
        As for `rescntk.Network`; cut to the largest odd size that fits the (shortened) signals.
    dilation : int or sequence, optional
        As for `rescntk.Network`: the same in all layers.
    head : {"equivariant", "trace", "gap"} or sequence, optional
        As for `rescntk.Kernel`. Signals of different lengths have "gap" only.
    kind : {"gpk", "ntk"} or sequence, default ("gpk", "ntk")
        As for `rescntk.Kernel`. A view takes the mean of several kinds.
    depth : int or sequence, default 2
        Number of residual layers. A view takes the mean of several, at the cost of the deepest.
    alpha : float, default 1.0
        Weight α of the residual branches.
    penalty : float or sequence, optional
        Penalty of ridge regression, in units of the kernel's diagonal. Of several, each view uses
        the penalty of least leave-one-out error. The default is the least penalty that rounding
        errors allow.

    See Also
    --------
    ResidualKernelRegressor : Numbers with error bars.
    KernelMatrix : One kernel for any method of scikit-learn.
    rescntk.plots.contributions : Pictures of the time points that decided.

    Examples
    --------
    >>> from rescntk.datasets import load_labelled
    >>> from rescntk.learn import ResidualKernelClassifier
    >>> X, y = load_labelled("GunPoint")
    >>> ResidualKernelClassifier(effort="fast").fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.8
    True
    """

    @atomic
    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None, groups: Array | None = None
    ) -> ResidualKernelClassifier:
        """Fit all views, weigh them, and return the classifier itself.

        A ValueError is raised for missing values, a single class and invalid parameters.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a list of signals of different lengths, (n_channels, n_timepoints) each; or images,
            (n_cases, n_channels, height, width), which have views of their own; or a table of
            pandas with rows of two indices, case and time, and a column for each channel.
        y : array, (n_cases,)
            Labels of any kind.
        sample_weight : array, (n_cases,), optional
            Weights of the signals, at least 0. The fit is the same as with signals that are
            repeated as often. Only `class_weight` shifts the decision thresholds.
        groups : array, (n_cases,), optional
            Labels of what signals have in common, such as the person, machine or day. Wherever
            signals are left out, whole groups are: `best_score_`, weights, penalties,
            probabilities and novelty then are about signals of new groups.
        """
        start = time.perf_counter()
        given: Any = y
        signals, y, weights, groups = self._read(X, y, sample_weight, groups)
        classes = distinct(np.asarray(given), "y")[0].tolist()
        check_classification_targets(y)
        by_label = self._checked_class_weight(classes)
        kept = np.array([by_label.get(label, 1.0) > 0 for label in y.tolist()])
        if not kept.any():
            raise ValueError(f"class_weight is {self.class_weight!r}, expected weights above 0")
        if not kept.all():
            signals, y, weights = take(signals, np.flatnonzero(kept)), y[kept], weights[kept]
            groups = None if groups is None else groups[kept]
        self.classes_, labels = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0]}, expected signals of at least two classes"
            )
        cases = find_cases(signals, labels[:, None], weights, groups, classes=True)
        labels = cases.targets[:, 0]
        cases = cases._replace(targets=one_against_rest(labels, len(self.classes_)))
        counts = np.bincount(labels)
        # Without its only case, or group, a class is unknown: its errors do not measure a kernel.
        parts = counts
        if cases.groups is not None:
            pairs = np.unique(np.column_stack([labels, cases.groups]), axis=0)
            parts = np.bincount(pairs[:, 0])
        counted = np.where(parts[labels] > 1, cases.weights, 0.0)
        of_classes = np.array([by_label.get(label, 1.0) for label in self.classes_.tolist()])
        if self.class_weight == "balanced":
            of_classes = len(labels) / np.bincount(labels, cases.weights) / len(self.classes_)
        error_weights = of_classes[labels] * counted
        left_out = self._fit_average(cases._replace(error_weights=error_weights))
        decisions, folds = left_out.decisions, left_out.folds
        shift = self.class_weight is not None
        weights = of_classes[labels] * cases.weights
        self._shares = np.bincount(labels, weights) / weights.sum()
        trusted = decisions * trust(left_out.residuals.novelty)
        self.inverse_temperature_, self.offsets_ = calibrate(
            trusted, labels, error_weights, shift=shift
        )
        shifted = decisions.copy()
        for fold in np.unique(folds) if shift else ():
            outside = np.where(folds == fold, 0.0, error_weights)
            shifted[folds == fold] += calibrate(decisions, labels, outside, shift=True)[1]
        right, totals = margins(shifted).argmax(axis=1) == labels, np.bincount(labels, counted)
        blocked = margins(left_out.blocked + self.offsets_).argmax(axis=1) == labels
        with np.errstate(invalid="ignore"):
            self.class_scores_ = np.bincount(labels, counted * right) / totals
            self.best_score_, self.blocked_score_ = (
                float(counted @ which / counted.sum()) for which in (right, blocked)
            )
            majority = float(totals.max() / totals.sum())
        scores = self.class_scores_[totals > 0]
        self.balanced_score_ = float(scores.mean()) if len(scores) else np.nan
        if not counted.any():
            lacking, needed = "signals that differ", "signals"
            if groups is not None:
                lacking = needed = "groups"
            warn(
                f"none of the {len(counts)} classes has two {lacking}, so accuracy and "
                f"probabilities cannot be estimated: give several {needed} of a class; "
                f"for numeric targets use ResidualKernelRegressor (rescntk fit --regression)",
            )
        rare = (counts >= _ENOUGH) & (self.class_scores_ < _FORGOTTEN)
        rare = (rare | (counts < _RARE * counts.sum())) & (counts < counts.max() / 2)
        self._rare = [] if shift else self.classes_[rare].astype(str).tolist()
        if self._rare:
            names = ", ".join(self._rare)
            warn(
                f"these rare classes hold less than {_RARE:.0%} of the signals, or are almost "
                f"never recognized in leave-one-out predictions: {names}; class_weight='balanced' "
                f"gives all classes equal weight",
            )
        # With two right and two wrong answers more (Agresti and Coull 1998), it is never 0.
        total = counted.sum()
        middle = (counted @ right + 2.0) / (total + 4.0)
        squares = squared_sum(right - middle, counted, cases.groups)
        error = np.sqrt(squares + 2 * middle**2 + 2 * (1 - middle) ** 2) / (total + 4.0)
        self._finish(
            "accuracy", float(error) if total else np.nan, -np.inf if shift else majority, start
        )
        return self

    def _checked_class_weight(self, classes: list[Any]) -> dict[Any, float]:
        """Return the weight of each class, if some are given one by one."""
        given = self.class_weight
        if isinstance(given, Mapping):
            unknown = [key for key in given if key not in classes]  # a fold may lack a class
            if unknown and any(label not in given for label in classes):
                raise ValueError(f"class_weight has keys {unknown}, expected some of {classes}")
            name = "class_weight of {!r}".format
            checked = {key: check_constant(value, name(key)) for key, value in given.items()}
            weights = np.array([checked.get(label, 1.0) for label in classes])
            if weights.any():
                positive_weights(weights, len(classes), "class_weight")
                weights = np.ldexp(weights, -moderate_exponent(weights))  # sums are finite
            return dict(zip(classes, weights.tolist(), strict=True))
        if given is None or (isinstance(given, str) and given == "balanced"):
            return {}
        raise ValueError(f"class_weight is {given!r}, expected None, 'balanced' or a dict")

    def decision_function(self, X: Array) -> np.ndarray:
        """Return decisions: the class with the greatest decision is predicted.

        They are (n_cases, n_classes), or (n_cases,) for two classes: positive for the second class.
        Signals of another shape than the shape of `fit` are refused with a ValueError.
        """
        decisions, _ = self._decide(X)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    @property
    def intercept_(self) -> np.ndarray:
        """The mean target with the offsets, to which contributions add, (n_outputs,)."""
        return self._intercept + self.offsets_

    def predict_proba(self, X: Array) -> np.ndarray:
        """Return class probabilities, (n_cases, n_classes) in the order of `classes_`.

        They are the softmax of decisions times `inverse_temperature_`. Where the `novelty` exceeds
        3 they tend to the classes' weighted shares. X and errors are as for `decision_function`.
        """
        return self._probabilities(*self._decide(X, watch=True))

    def predict(self, X: Array) -> np.ndarray:
        """Return the class with the greatest decision, (n_cases,), of the kind of labels fitted.

        X and errors are as for `decision_function`. Like `predict_proba`, this method gives a
        `DriftWarning` for signals unlike the signals of `fit`. It judges 20 signals and more, of
        which half are novel, and channels that have become constant. The guide has a page on drift.
        """
        return self._answers(X)[0]

    def counterfactual(
        self,
        X: Array,
        target: Any = None,
        probability: float = 0.8,
        *,
        max_iterations: int = 25,
        progress: bool = False,
    ) -> Counterfactuals:
        """Return the nearest signals found to which the classifier gives another class.

        What changed between a signal and its changed signal is what the decision rests on
        (docs/guide/explanation.md). Nearest is meant for channels divided by their standard
        deviations. A signal that has the target already is unchanged.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Signals, images, or a list, as for `predict`.
        target : label or array-like, (n_cases,), optional
            The class that each signal is to get. The default is the second most probable class.
        probability : float, default 0.8
            The least probability of the target, from 0.5 to below 1.
        max_iterations : int, default 25
            Steps of the search. Raising it finds nearer signals.
        progress : bool, default False
            Whether to report steps to stderr.

        Returns
        -------
        Counterfactuals
            A named tuple: signals, targets, answers (probabilities), distances and found. Where no
            signal was found, a warning says for which cases, and the signals are NaN.

        Raises
        ------
        ValueError
            If `target` has other classes than `classes_`, or as for `predict`.
        """
        least = check_positive(probability, "probability")
        if not 0.5 <= least < 1:
            raise ValueError(f"probability is {probability!r}, expected from 0.5 to below 1")
        signals: Any = self._read_again(X)
        places = self._probabilities(*self._decide(signals)).argsort(axis=1, kind="stable")[:, -2]
        if target is not None:
            column_of = {label: k for k, label in enumerate(self.classes_.tolist())}
            labels = each_case(target, "target", len(signals)).tolist()
            try:
                places = np.array([column_of.get(label, -1) for label in labels])
            except TypeError:  # a label that is no key, such as a dict
                places = np.array([-1])
            if places.min() < 0:
                raise ValueError(f"target is {target!r}, expected some of {[*column_of]}")

        def answer(
            decisions: np.ndarray, novelties: np.ndarray, cases: np.ndarray
        ) -> tuple[np.ndarray, ...]:
            columns = margins(decisions + self.offsets_)
            near, priors = trust(novelties), np.log(self._shares)
            logits = near * self.inverse_temperature_ * columns + (1 - near) * priors
            odds, slopes = log_odds(logits, places[cases])
            by_near = (slopes * (self.inverse_temperature_ * columns - priors)).sum(axis=1)
            slopes = slopes * near * self.inverse_temperature_
            if decisions.shape[1] == 1:
                slopes = slopes[:, 1:] - slopes[:, :1]
            by_novelty = np.where(near[:, 0] < 1, -near[:, 0] / novelties, 0.0) * by_near
            return odds, slopes, by_novelty

        def check(Z: Any, cases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            chances = self.predict_proba(Z)[np.arange(len(cases)), places[cases]]
            return chances, chances >= least

        level = np.full(len(signals), np.log(least) - np.log1p(-least))
        goal = Goal(answer, level, self.classes_[places], check)
        return changed_signals(
            self._average, signals, goal, max_iterations=max_iterations, progress=progress
        )

    def _answers(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return predicted classes, their probabilities and the `novelty`, by the same kernels."""
        decisions, novelties = self._decide(X, watch=True)
        places, chances = self._labels(decisions), self._probabilities(decisions, novelties)
        return self.classes_[places], chances[np.arange(len(places)), places], novelties

    @staticmethod
    def _labels(decisions: np.ndarray) -> np.ndarray:
        return margins(decisions).argmax(axis=1)

    def _decide(self, X: Array, watch: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions, (n_cases, n_outputs), and the `novelty`; `watch` is as for `_at`."""
        decided = self._at(X, watch)
        return decided.mean() + self.offsets_, decided.novelty

    def _probabilities(self, decisions: np.ndarray, novelties: np.ndarray) -> np.ndarray:
        near = trust(novelties)
        logits = near * self.inverse_temperature_ * margins(decisions)
        return softmax(logits + (1 - near) * np.log(self._shares), axis=1)
