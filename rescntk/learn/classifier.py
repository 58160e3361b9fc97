"""Classifier that averages the decisions of several kernels and views of the signals."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from ..arrays import Array
from .base import ResidualKernelEstimator, check_given
from .calibration import calibrate, margins, one_against_rest
from .estimator_parameters import ClassifierParameters
from .inputs import atomic, find_cases, of_positive_weight, read_signals
from .views import Signals

_FORGOTTEN = 0.1
"""Share of a class' signals found when left out, below which a warning says so. Raising it warns
more often. Chosen, not measured."""

_ENOUGH = 5
"""Signals of a class from which on the warning is given. Raising it warns less often. Chosen: of
fewer signals, none is often found by chance."""


class ResidualKernelClassifier(ClassifierMixin, ClassifierParameters, ResidualKernelEstimator):
    """Classify signals by the kernels of infinitely wide convolutional ResNets.

    Several passes are made over the signals. Each pass has a view of the signals and a network,
    and takes the mean of the network's kernels over kinds and depths. Ridge regression on each
    mean kernel gives decisions. The decisions are averaged, with weights by the closed-form
    leave-one-out errors of the passes. Nothing is chosen, and one setting serves all data.

    The time grows with the square of the number of training signals, beyond 2000 signals in
    proportion to their number. The time also grows with the square of the signals' length, up to
    `max_length`. On two cores a fit with the defaults takes about 10 µs for each pair of signals,
    pass and 100² pixel pairs.

    A setting of the passes that is None is left to the plan; several values make a pass each.

    Parameters
    ----------
    effort : {"fast", "default", "thorough"} or float, default "default"
        Number of passes that are averaged, or a limit for the time of `fit` in seconds. Passes of
        the greatest value for their time come first. Where signals are many, "fast" and "default"
        leave out passes, and shorten signals more. With a limit, a pass is made if it is expected
        to end in time; the first pass is always made, and the result depends on the speed of the
        machine.
    max_length : int or sequence, optional
        Longest signals that stay unchanged. Longer signals are averaged over blocks of time
        points. Time grows with the square of the length.
    block_statistics : bool or sequence, optional
        Whether standard deviation, minimum and maximum of each block of time points are appended
        as channels. Where there are no blocks, False is taken.
    standardize : bool or sequence, optional
        Whether each channel is standardized, except with block statistics.
    first_differences : bool, "only" or sequence, optional
        Whether the first differences of each channel, from time point to time point, are appended
        as a channel, or take the channel's place ("only").
    constant : bool or sequence, optional
        Whether a constant channel is appended, which gives the first layer a bias.
    time_scale : float or sequence, optional
        Scale of two channels that tell the relative time by its cosine and sine. At 0 the head
        "gap" ignores when something happens. The larger the scale, the more counts the place of a
        pattern; at 1 the time has as much energy as the signals.
    filter_size, input_filter_size : int or sequence, optional
        As for `rescntk.Network`. Filters that are longer than the (shortened) signals are cut to
        the largest odd size that fits.
    dilation : int or sequence, optional
        Time points from one tap of a filter to the next, as for `rescntk.Network`: the same in all
        layers.
    head : {"equivariant", "trace", "gap"} or sequence, optional
        As for `rescntk.Kernel`. "gap" ignores when something happens, "trace" does not. For each
        pair of signals, the cost of "gap" grows with the square of the length, the cost of "trace"
        with the length. Signals of different lengths have "gap" alone.
    kind : {"gpk", "ntk"} or sequence, default ("gpk", "ntk")
        As for `rescntk.Kernel`. A pass takes the mean of several kinds.
    depth : int or sequence, default 2
        Number of residual layers. A pass takes the mean of the kernels of several depths, at the
        cost of the deepest. The mean of 1, 2 and 4 is hardly more accurate than 2, and takes twice
        the time.
    alpha : float, default 1.0
        Weight α of the residual branches.
    penalty : float or sequence, optional
        Penalty of ridge regression, in units of the kernel's diagonal. Of several penalties each
        pass takes the one with the least leave-one-out error. The default is the least penalty
        that rounding errors allow.
    landmarks : int or "all", optional
        Number of signals, drawn at random, to which the solution is restricted. The time of `fit`
        is proportional to this number times the number of signals. The default is "all" for up to
        2000 signals, and 500 for more.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks, and of the ten folds of `best_score_`.
    engine : str, default "auto"
        As for calling a `rescntk.Kernel`.
    dtype : str, default "float32"
        Precision of the kernels, as for calling a `rescntk.Kernel`.
    n_jobs : int, optional
        Number of threads; -1 is one for each core, -2 one less. The default is the choice of the
        engine, usually a thread for each core. The number does not change results.
    verbose : int, default 0
        Not 0: print how long the passes will take, then a line for each pass.
    class_weight : dict, "balanced" or None, default None
        Weights of the classes, by label; "balanced" weighs classes inversely to their numbers of
        signals. They weigh the errors of the passes, and move the borders between the classes
        (`offsets_`). Probabilities are of signals drawn with these weights.

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

    @atomic
    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None
    ) -> ResidualKernelClassifier:
        """Fit all passes, weigh them, and return the classifier itself.

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

        Raises
        ------
        ValueError
            For signals with missing values, for a single class and for invalid parameters. The
            message says what to do.
        """
        start = time.perf_counter()
        check_given(self, y)
        signals: Signals = read_signals(self, X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(signals, y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
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
        error_weights = self._class_weights(labels, cases.weights)[labels] * counted
        decisions, folds = self._average(cases, error_weights)
        self._calibrate(decisions, labels, counted, error_weights, folds)
        self._warn_of_forgotten(counts)
        self._finish("accuracy", start)
        return self

    def _class_weights(self, labels: np.ndarray, case_weights: np.ndarray) -> np.ndarray:
        """Return the weight of each class."""
        given = self.class_weight
        if isinstance(given, str) and given == "balanced":
            return len(labels) / np.bincount(labels, case_weights) / len(self.classes_)
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"class_weight is {given!r}, expected None, 'balanced' or a dict")
        return compute_class_weight(given, classes=self.classes_, y=self.classes_[labels])

    def _calibrate(
        self,
        decisions: np.ndarray,
        labels: np.ndarray,
        counted: np.ndarray,
        weights: np.ndarray,
        folds: np.ndarray,
    ) -> None:
        """Set inverse temperature, offsets and scores from decisions out of fold.

        `counted` are the weights of cases in scores; `weights` have those of classes as factors.
        """
        shift = self.class_weight is not None
        self.inverse_temperature_, self.offsets_ = calibrate(
            decisions, labels, weights, shift=shift
        )
        shifted = decisions.copy()
        for fold in np.unique(folds) if shift else ():
            others = np.where(folds == fold, 0.0, weights)
            shifted[folds == fold] += calibrate(decisions, labels, others, shift=True)[1]
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
        """Return class probabilities, (n_cases, n_classes) in the order of `classes_`.

        They are the softmax of decisions times `inverse_temperature_`. The most probable class is
        the one predicted. X and errors are as for `decision_function`.
        """
        decisions = self._decide(X) + self.offsets_
        return softmax(self.inverse_temperature_ * margins(decisions), axis=1)

    def predict(self, X: Array) -> np.ndarray:
        """Return the class with the greatest decision, (n_cases,), of the kind of labels fitted.

        X and errors are as for `decision_function`.
        """
        decisions = self._decide(X) + self.offsets_
        return self.classes_[margins(decisions).argmax(axis=1)]
