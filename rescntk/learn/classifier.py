"""Classifier that chooses its kernel, its view of the signals and its readout by itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import assert_all_finite, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from ..arrays import Array
from ..validation import check_choice, check_depth, check_folds, check_positive
from .atomic import atomic
from .base import ResidualKernelEstimator, check_given
from .inputs import read_signals
from .parameters import check_parameters, estimator, parameter
from .readouts import calibrate, margins, one_against_rest, probabilities
from .selection import READOUTS, Choice, Folds, choose_machines, choose_ridge


@estimator
class ResidualKernelClassifier(ClassifierMixin, ResidualKernelEstimator):
    """Classify signals by the kernel of an infinitely wide convolutional ResNet.

    The kernel, the view of the signals and the readout are chosen on the training signals alone.
    Each kernel is judged by the closed-form leave-one-out error of ridge regression. Scales and
    the unit of the penalty are taken over all training signals. Ridge regression on the best
    kernel is then compared with support vector machines on the best few kernels, by the
    cross-entropy of calibrated decisions in the same folds. Machines must be better by a standard
    error. Parameters that take several values are searched over; one value settles a parameter.

    The time grows with the square of the number of training signals, and with the square of their
    length up to the last `max_length`. Beyond a thousand signals the eigendecompositions, one for
    each kernel judged, take over. The time is proportional to the number of passes: the product
    of the numbers of values of `block_statistics`, `standardize`, `first_differences`,
    `constant`, `filter_size`, `input_filter_size` and `head`. A fit with the defaults takes, on
    two cores,

    * seconds for 67 signals of 24 time points;
    * half a minute for 50 signals of 150 time points;
    * four minutes for 500 signals of 3 channels × 50 time points;
    * 12 s a pass, and 1.2 GB, for 2000 signals of 3 channels × 25 time points.

    Errors count at cases whose class has other cases. Where fewer than half of the cases count,
    nothing is searched: the middle value of each parameter is taken, of two values the second.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    best_params_ : dict
        The chosen values.
    best_score_ : float
        Accuracy on training signals that had no part in the choice. In each of ten folds the
        decisions are leave-one-out decisions, by the kernel and the penalty with the least error
        on the other nine folds. Where support vector machines are chosen, the decisions in a fold
        of `cv` are by the machines with the least cross-entropy on the other folds; the finalists
        are chosen on all signals. Where nothing can be learned the score is at chance or below,
        because a case that is left out makes its class the rarer one. Cases alone in their class
        do not count; nan where no cases count.
    best_error_ : float
        Mean squared leave-one-out error (targets ±1) of the chosen kernel: the least of many
        errors, and so optimistic.
    search_results_ : dict of ndarray
        One row for each kernel judged: its values, its best penalty, its error.
    kernel_ : rescntk.Kernel
        The chosen kernel. ``kernel_(view_(X))`` is the kernel matrix of signals X.
    view_ : FittedView
        The chosen view of the signals.
    signals_ : ndarray
        The training signals in the view.
    readout_ : Readout
        Coefficients and intercepts.
    inverse_temperature_ : float
        Factor from decisions to log-probabilities, calibrated on the decisions of `best_score_`;
        1 where there are no such decisions.
    classes_ : ndarray
    n_channels_, n_timepoints_ : int
    fit_seconds_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import ResidualKernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["slow", "fast"], 10)
    >>> phase = rng.uniform(0, 6, (20, 1, 1))
    >>> X = np.sin(np.arange(40) * np.where(y == "slow", 0.4, 0.9)[:, None, None] + phase)
    >>> model = ResidualKernelClassifier(depth=(1, 2), input_filter_size=(1, 5)).fit(X[::2], y[::2])
    >>> bool((model.predict(X[1::2]) == y[1::2]).all()), model.best_params_["head"]
    (True, 'gap')
    """

    readout: str | Iterable[str] = parameter(
        default=READOUTS,
        type='{"ridge", "svm"} or sequence',
        check=partial(check_choice, choices=READOUTS),
        several=True,
        doc="Readout of decisions: ridge regression, support vector machines.",
    )
    C: float | Iterable[float] = parameter(
        default=(1.0, 10.0, 100.0, 1000.0),
        type="float or sequence",
        check=check_positive,
        several=True,
        doc="""Cost of errors of support vector machines, in units of the inverse mean of the
        kernel's diagonal.""",
    )
    cv: int = parameter(
        default=5,
        type="int",
        check=check_folds,
        doc="""Folds in which the readouts are compared, at least 2. The smallest class has at
        least as many cases as there are folds: otherwise fewer folds are used, and with one case
        ridge regression is taken.""",
    )
    finalists: int = parameter(
        default=3,
        type="int",
        check=check_depth,
        doc="""Number of the best kernels on which support vector machines are tried, and which
        are tried at a greater length.""",
    )
    random_state: int | np.random.RandomState | None = parameter(
        default=0,
        type="int, RandomState or None",
        doc="""Seed of the folds: the folds in which readouts are compared, and the ten folds of
        `best_score_`.""",
    )

    @atomic
    def fit(self, X: Array, y: Array) -> ResidualKernelClassifier:
        """Choose a kernel and a readout, and fit the readout.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
        y : array, (n_cases,)
            Labels of any kind.

        Returns
        -------
        ResidualKernelClassifier
            Itself.

        Raises
        ------
        ValueError
            For signals of unequal lengths or with missing values, for a single class, for invalid
            parameters, and for readout="svm" where a class has one case. The message says what
            to do.
        OverflowError
            If a kernel that is not normalized exceeds floating-point numbers at a great depth.
        """
        start = time.perf_counter()
        checked = check_parameters(self)
        readouts, generator = checked["readout"], check_random_state(self.random_state)
        signals, y = self._read(X, y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0]}, expected signals of at least two classes"
            )
        Y = one_against_rest(labels, len(self.classes_))
        counts = np.bincount(labels)
        # Without its only case a class is unknown: its errors say nothing about a kernel.
        counted = counts[labels] > 1
        alone = not counted.all()
        if alone and "ridge" not in readouts:
            raise ValueError(
                f"readout is {self.readout!r} and a class has one case, expected two of every "
                f"class to choose C: give readout='ridge'"
            )
        found = self._search(checked, signals, Y, counted, checked["finalists"], generator)
        choice: Choice | None = None
        if "svm" in readouts and not alone:
            n_folds = min(checked["cv"], int(counts.min()))
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=generator)
            folds: Folds = list(splitter.split(Y, labels))
            choice = choose_machines(
                found,
                Y,
                labels,
                checked["C"],
                folds,
                or_ridge="ridge" in readouts,
                verbose=self.verbose,
            )
        choice = choice or choose_ridge(found)
        self._keep(choice.finalist, choice.readout, choice.parameters)
        decisions, known = choice.decisions[counted], labels[counted]
        self.inverse_temperature_, _ = calibrate(decisions, known)
        right = margins(decisions).argmax(axis=1) == known
        self.best_score_ = float(right.mean()) if counted.any() else np.nan
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(f"chosen: {self.best_params_}, accuracy {self.best_score_:.3f}", flush=True)
        return self

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
            For signals of another length or number of channels than those fitted.
        NotFittedError
            Before `fit`.
        """
        decisions = self._decide(X)
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
        return probabilities(self._decide(X), self.inverse_temperature_)

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
        decisions = self._decide(X)
        return self.classes_[margins(decisions).argmax(axis=1)]

    def _read(self, X: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return signals (n_cases, n_channels, n_timepoints) and labels (n_cases,), checked."""
        check_given(self, y)
        signals = read_signals(self, X, reset=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(signals, labels)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return signals, labels
