"""Classifier and regressor that choose their kernel by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import assert_all_finite, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted
from threadpoolctl import threadpool_limits

from ..arrays import Array
from ..validation import (
    check_choice,
    check_constant,
    check_depth,
    check_filter_size,
    check_flag,
    check_positive,
)
from ..vocabulary import HEADS, KINDS
from .inputs import read_signals
from .readouts import (
    Readout,
    calibrate,
    held_out,
    margins,
    one_against_rest,
    probabilities,
    ridge,
    support_vectors,
)
from .search import Finalist, Found, Space, as_table, search

READOUTS = ("ridge", "svm")

# Matrices of so many signals are decomposed by one thread: two are no faster up to 270, and by a
# third at 500, but where other processes are busy they wait for each other a hundred times as
# long (OpenBLAS on two cores of an AMD EPYC).
_ALONE = 500

# In which the choice of a kernel is judged, see `search.Blind`.
_FOLDS = 10

_PENALTIES = tuple(10.0**k for k in range(-6, 2))


class _Choice(NamedTuple):
    """A kernel, a readout fitted, its parameters, decisions that it did not see."""

    finalist: Finalist
    readout: Readout
    parameters: dict[str, Any]
    decisions: np.ndarray


class _ResidualKernel(BaseEstimator):
    """What classifier and regressor share: the search, the kernel found, reading it out."""

    view_: Any
    kernel_: Any
    signals_: np.ndarray
    readout_: Readout

    def _space(self) -> Space:
        """Return the parameters checked, as what is to be searched."""
        return Space(
            max_length=tuple(
                sorted(
                    _several(self.max_length, "max_length", _check_length),
                    key=lambda length: np.inf if length is None else length,
                )
            ),
            spread=_several(self.spread, "spread", check_flag),
            standardize=_several(self.standardize, "standardize", check_flag),
            slopes=_several(self.slopes, "slopes", check_flag),
            constant=_several(self.constant, "constant", check_flag),
            filter_size=_several(self.filter_size, "filter_size", check_filter_size),
            input_filter_size=_several(
                self.input_filter_size, "input_filter_size", check_filter_size
            ),
            head=_several(self.head, "head", lambda v, n: check_choice(v, n, HEADS)),
            kind=_several(self.kind, "kind", lambda v, n: check_choice(v, n, KINDS)),
            depth=_several(self.depth, "depth", check_depth),
            normalized=_several(self.normalized, "normalized", check_flag),
            penalty=_several(self.penalty, "penalty", check_positive),
            alpha=check_constant(self.alpha, "alpha"),
        )

    def _search(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        counted: np.ndarray,
        finalists: int,
        generator: np.random.RandomState,
    ) -> Found:
        """Search, counting the errors of some cases; if they are few there is no search."""
        space = self._space()
        if 2 * counted.sum() < len(X):
            space, counted = space.middle(), np.ones(len(X), dtype=bool)
        with threadpool_limits(1 if len(X) <= _ALONE else None, "blas"):
            found = search(
                space,
                X,
                Y,
                counted=counted,
                folds=generator.permutation(len(X)) % _FOLDS,
                finalists=finalists,
                verbose=self.verbose,
                options={"engine": self.engine, "dtype": self.dtype, "threads": self.threads},
            )
        self.search_results_ = as_table(found.candidates)
        return found

    def _keep(self, finalist: Finalist, readout: Readout, chosen: dict[str, Any]) -> None:
        self.view_, self.kernel_ = finalist.view, finalist.kernel
        self.signals_, self.readout_ = finalist.signals, readout
        self.best_params_ = {
            k: v for k, v in asdict(finalist.candidate).items() if k not in ("penalty", "error")
        } | chosen
        self.best_error_ = finalist.candidate.error

    def _decide(self, X: Array) -> np.ndarray:
        """Return decisions (n_cases, n_outputs)."""
        check_is_fitted(self)
        signals = self.view_(read_signals(self, X, reset=False))
        K = self.kernel_(
            signals, self.signals_, engine=self.engine, dtype=self.dtype, threads=self.threads
        )
        return self.readout_(K.astype(np.float64, copy=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class ResidualKernelClassifier(ClassifierMixin, _ResidualKernel):
    """Classify signals by the kernel of an infinitely wide convolutional ResNet.

    Which kernel, how signals enter it and how predictions are read off it is chosen on the
    training signals alone. Every kernel of the search is judged by ridge regression's
    closed-form leave-one-out error, in which scales and the penalty's unit are those of all
    training signals. Support vector machines on the best few kernels are compared with ridge
    regression on the best one, by the cross-entropy of calibrated decisions in the same folds,
    and have to be better by a standard error. Wherever a parameter below takes several values,
    these are what is searched; one value settles it.

    The time grows with the square of the number of training signals, and of their length up to
    the last of `max_length`; beyond a thousand signals the eigendecompositions, one for each
    kernel judged, take over. It is proportional to the number of passes, which is the product of
    the numbers of values of `standardize`, `slopes`, `constant`, `spread`, `filter_size`,
    `input_filter_size` and `head`. With the defaults on two cores: seconds for 67 signals of 24
    time points, half a minute for 50 of 150, four minutes for 500 of 3 channels × 50; and for
    2000 of 3 × 25 some 12 s a pass and 1.2 GB.

    Errors count at cases whose class has others. Where these are less than half of the cases,
    nothing is searched: the middle of each sequence is taken, of two values the second.

    Parameters
    ----------
    depth : int or sequence of int, default (1, 2, 4)
        Residual layers. All depths come from one pass, at the cost of the deepest.
    filter_size, input_filter_size : int or sequence of int, default (3, 9, 31) and (1, 9)
        As for `rescntk.Network`. Filters longer than the signals are left out.
    kind : {"gpk", "ntk"} or sequence, default both
        As for `rescntk.Kernel`. Both come from one pass.
    head : {"equivariant", "trace", "gap"} or sequence, default ("trace", "gap")
        "gap" does not mind when something happens, "trace" does. "gap" costs the square of
        the signals' length for each pair of signals, "trace" the length.
    alpha : float, default 1.0
        Weight of the residual branches.
    normalized : bool or sequence of bool, default (False, True)
        Whether kernels are normalized; if not, the strength of a signal counts.
    standardize, slopes : bool or sequence of bool, default (False, True)
        How signals enter: whether each channel is standardized; whether its change from point
        to point is appended as a channel (`rescntk.learn.views.View`). Of several values of
        `standardize` False is taken, without a search, where the channels' means are within 5 %
        of their standard deviations, and these within 5 % of each other.
    constant : bool or sequence of bool, default True
        Whether a constant channel is appended, which gives the first layer a bias.
    max_length : int, None or sequence of them, default (128, 256, 512)
        Longer signals are averaged over blocks of time points, so that at most so many remain;
        None never does that. All is searched at the least length, in whichever order they come;
        the best ways to look at the signals are tried at the next one, and so on as long as that
        lowers the error by a twentieth. Time grows with the square of the length.
    spread : bool or sequence of bool, default (False, True)
        Whether standard deviation, minimum and maximum within these blocks are appended as
        channels; False where there are no blocks.
    readout : {"ridge", "svm"} or sequence, default both
        How predictions are read off.
    penalty : float or sequence of float
        Of ridge regression, in units of the mean of the kernel's diagonal; the default is
        powers of ten from 1e-6 to 10.
    C : float or sequence of float, default (1, 10, 100, 1000)
        Of support vector machines, in the same unit.
    cv : int, default 5
        Folds in which the readouts are compared, 2 or more; no more than the smallest class has
        cases. Where that has one, ridge regression is taken.
    finalists : int, default 3
        On how many of the best kernels support vector machines are tried, and how many are tried
        at a greater length.
    engine, dtype, threads
        As for calling a `rescntk.Kernel`.
    random_state : int, RandomState or None, default 0
        For the folds: those in which readouts are compared, and the ten of `best_score_`.
    verbose : int, default 0
        Otherwise a line is printed for each pass, each readout compared and what is chosen.

    Attributes
    ----------
    best_params_ : dict
        What was chosen.
    best_score_ : float
        Accuracy on training signals that had no say. In each of ten folds it is that of leaving
        one out by the kernel and the penalty with the least error on the other nine folds; where
        support vector machines are chosen, that of the machines with the least cross-entropy on
        the other folds of `cv` (of the finalists, which all signals have chosen). Where nothing
        can be learned it is at chance or below: a case left out makes its class the rarer one.
        Cases alone in their class do not count; nan where there are no others.
    best_error_ : float
        Mean squared error of leaving one out (targets ±1) of the kernel chosen: the least of
        many, and so optimistic.
    search_results_ : dict of ndarray
        One row for each kernel judged: what it is, its best penalty, its error.
    kernel_ : rescntk.Kernel
        The kernel chosen, and the view of the signals that it takes:
    view_ : FittedView
        ``kernel_(view_(X))`` is the kernel matrix.
    signals_ : ndarray
        The training signals in that view.
    readout_ : Readout
        Coefficients and intercepts.
    sharpness_ : float
        What decisions are multiplied by to become log-probabilities: calibrated on the decisions
        of `best_score_`; 1 where there are none.
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

    def __init__(
        self,
        *,
        depth: int | Iterable[int] = (1, 2, 4),
        filter_size: int | Iterable[int] = (3, 9, 31),
        input_filter_size: int | Iterable[int] = (1, 9),
        kind: str | Iterable[str] = KINDS,
        head: str | Iterable[str] = ("trace", "gap"),
        alpha: float = 1.0,
        normalized: bool | Iterable[bool] = (False, True),
        standardize: bool | Iterable[bool] = (False, True),
        slopes: bool | Iterable[bool] = (False, True),
        constant: bool | Iterable[bool] = True,
        max_length: int | Iterable[int | None] | None = (128, 256, 512),
        spread: bool | Iterable[bool] = (False, True),
        readout: str | Iterable[str] = READOUTS,
        penalty: float | Iterable[float] = _PENALTIES,
        C: float | Iterable[float] = (1.0, 10.0, 100.0, 1000.0),
        cv: int = 5,
        finalists: int = 3,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.filter_size = filter_size
        self.input_filter_size = input_filter_size
        self.kind = kind
        self.head = head
        self.alpha = alpha
        self.normalized = normalized
        self.standardize = standardize
        self.slopes = slopes
        self.constant = constant
        self.max_length = max_length
        self.spread = spread
        self.readout = readout
        self.penalty = penalty
        self.C = C
        self.cv = cv
        self.finalists = finalists
        self.engine = engine
        self.dtype = dtype
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Array, y: Array) -> ResidualKernelClassifier:
        """Choose kernel and readout, and fit it.

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
            For signals of unequal lengths or with missing values, for one class alone, and for
            parameters that cannot be; it says which, and what to do. For readout="svm" where a
            class has one case.
        OverflowError
            If a kernel that is not normalized exceeds floating-point numbers at a great depth.
        """
        start = time.perf_counter()
        readouts = _several(self.readout, "readout", lambda v, n: check_choice(v, n, READOUTS))
        costs = _several(self.C, "C", check_positive)
        n_folds, finalists = check_depth(self.cv, "cv"), check_depth(self.finalists, "finalists")
        if n_folds == 1:
            raise ValueError("cv is 1, expected at least 2 folds")
        generator = check_random_state(self.random_state)
        X, y = self._read(X, y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0]}, expected signals of at least two classes"
            )
        Y = one_against_rest(labels, len(self.classes_))
        counts = np.bincount(labels)
        # Without its only case a class is unknown: such cases tell nothing of a kernel.
        counted = counts[labels] > 1
        alone = not counted.all()
        if alone and "ridge" not in readouts:
            raise ValueError(
                f"readout is {self.readout!r} and a class has one case, expected two of every "
                f"class to choose C: give readout='ridge'"
            )
        found = self._search(X, Y, counted, finalists, generator)
        best = found.finalists[0]
        penalty = best.candidate.penalty
        choice: _Choice | None = None
        if "svm" in readouts and not alone:
            splitter = StratifiedKFold(
                min(n_folds, int(counts.min())), shuffle=True, random_state=generator
            )
            folds = list(splitter.split(Y, labels))
            choice = self._machines(found, Y, labels, costs, folds, "ridge" in readouts)
        choice = choice or _Choice(
            best, best.path.fit(penalty), {"readout": "ridge", "penalty": penalty}, found.decisions
        )
        self._keep(choice.finalist, choice.readout, choice.parameters)
        decisions, known = choice.decisions[counted], labels[counted]
        self.sharpness_, _ = calibrate(decisions, known)
        right = margins(decisions).argmax(axis=1) == known
        self.best_score_ = float(right.mean()) if counted.any() else np.nan
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(f"chosen: {self.best_params_}, accuracy {self.best_score_:.3f}", flush=True)
        return self

    def _machines(
        self,
        found: Found,
        Y: np.ndarray,
        labels: np.ndarray,
        costs: tuple[float, ...],
        folds: list[tuple[np.ndarray, np.ndarray]],
        or_ridge: bool,
    ) -> _Choice | None:
        """Return the best support vector machines, or None if ridge regression will do.

        The machines are those of all finalists with all C; ridge regression is that of the best
        finalist. Both are compared by the cross-entropy of calibrated decisions in the same
        folds, and machines have to be better by more than a standard error of the difference.
        As they are the best of many, their decisions in a fold are those of the choice made on
        the other folds.
        """
        pairs = list(product(found.finalists, costs))
        held = [held_out(e.K, Y, folds, partial(support_vectors, C=C)) for e, C in pairs]
        losses = np.stack([calibrate(decisions, labels)[1] for decisions in held])
        blind = np.empty(Y.shape)
        for rest, fold in folds:
            blind[fold] = held[losses[:, rest].mean(axis=1).argmin()][fold]
        blind_losses = calibrate(blind, labels)[1]
        entry, C = pairs[losses.mean(axis=1).argmin()]
        if self.verbose:
            print(f"svm: cross-entropy {blind_losses.mean():.4g}", flush=True)
        if or_ridge:
            best = found.finalists[0]
            fit = partial(ridge, penalty=best.candidate.penalty)
            bar = calibrate(held_out(best.K, Y, folds, fit), labels)[1]
            if self.verbose:
                print(f"ridge: cross-entropy {bar.mean():.4g}", flush=True)
            gain = bar - blind_losses
            if gain.mean() <= gain.std() / np.sqrt(len(gain)):
                return None
        return _Choice(entry, support_vectors(entry.K, Y, C), {"readout": "svm", "C": C}, blind)

    def decision_function(self, X: Array) -> np.ndarray:
        """Return how much each class is favoured.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)

        Returns
        -------
        ndarray, (n_cases, n_classes), or (n_cases,) for two classes: positive for the second

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
        """Return class probabilities, calibrated on held-out decisions (`sharpness_`).

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
        return probabilities(self._decide(X), self.sharpness_)

    def predict(self, X: Array) -> np.ndarray:
        """Return the class favoured most.

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
        _check_given(self, y)
        X = read_signals(self, X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return X, y


class ResidualKernelRegressor(RegressorMixin, _ResidualKernel):
    """Predict numbers from signals by the kernel of an infinitely wide convolutional ResNet.

    Kernel ridge regression. Which kernel, how signals enter it and the penalty are chosen by
    the closed-form leave-one-out error on the training signals alone. Several targets share
    one kernel and one penalty.

    Parameters
    ----------
    depth, filter_size, input_filter_size, kind, head, alpha, normalized, standardize, slopes, \
constant, max_length, spread, penalty, engine, dtype, threads, verbose
        As for `ResidualKernelClassifier`.

    Attributes
    ----------
    best_params_, search_results_, kernel_, view_, signals_, readout_, n_channels_, \
n_timepoints_, fit_seconds_
        As for `ResidualKernelClassifier`.
    best_error_ : float
        Mean squared error of leaving one out, in units of the targets' variances: the least of
        many, and so optimistic.
    best_score_ : float
        R² over all targets of predictions that had no say: in each of ten random folds (the same
        ones every time) those of leaving one out by the kernel and the penalty with the least
        error on the other nine.
    target_mean_, target_scale_ : ndarray, (n_targets,)
        Means and standard deviations by which targets are standardized; 1 for a constant one.

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

    def __init__(
        self,
        *,
        depth: int | Iterable[int] = (1, 2, 4),
        filter_size: int | Iterable[int] = (3, 9, 31),
        input_filter_size: int | Iterable[int] = (1, 9),
        kind: str | Iterable[str] = KINDS,
        head: str | Iterable[str] = ("trace", "gap"),
        alpha: float = 1.0,
        normalized: bool | Iterable[bool] = (False, True),
        standardize: bool | Iterable[bool] = (False, True),
        slopes: bool | Iterable[bool] = (False, True),
        constant: bool | Iterable[bool] = True,
        max_length: int | Iterable[int | None] | None = (128, 256, 512),
        spread: bool | Iterable[bool] = (False, True),
        penalty: float | Iterable[float] = _PENALTIES,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.filter_size = filter_size
        self.input_filter_size = input_filter_size
        self.kind = kind
        self.head = head
        self.alpha = alpha
        self.normalized = normalized
        self.standardize = standardize
        self.slopes = slopes
        self.constant = constant
        self.max_length = max_length
        self.spread = spread
        self.penalty = penalty
        self.engine = engine
        self.dtype = dtype
        self.threads = threads
        self.verbose = verbose

    def fit(self, X: Array, y: Array) -> ResidualKernelRegressor:
        """Choose a kernel and a penalty, and fit.

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
            For signals of unequal lengths or with missing values, for one signal alone, and for
            parameters that cannot be; it says which, and what to do.
        OverflowError
            If a kernel that is not normalized exceeds floating-point numbers at a great depth.
        """
        start = time.perf_counter()
        _check_given(self, y)
        X = read_signals(self, X, reset=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        if len(X) < 2:
            raise ValueError("n_samples=1: expected at least two signals, to leave one out")
        targets = y.reshape(len(y), -1)
        self.target_mean_ = targets.mean(axis=0)
        spread = targets.std(axis=0)
        self.target_scale_ = np.where(spread > 0, spread, 1.0)
        self._flat = y.ndim == 1
        Y = (targets - self.target_mean_) / self.target_scale_
        found = self._search(X, Y, np.ones(len(X), dtype=bool), 1, check_random_state(0))
        best = found.finalists[0]
        penalty = best.candidate.penalty
        self._keep(best, best.path.fit(penalty), {"penalty": penalty})
        self.best_score_ = 1.0 - float(np.mean((found.decisions - Y) ** 2))
        self.fit_seconds_ = time.perf_counter() - start
        if self.verbose:
            print(f"chosen: {self.best_params_}, R² {self.best_score_:.3f}", flush=True)
        return self

    def predict(self, X: Array) -> np.ndarray:
        """Return what targets are expected to be.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)

        Returns
        -------
        ndarray, (n_cases,) or (n_cases, n_targets)
            As the targets came.

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


def _several(values: Any, name: str, check: Any) -> tuple[Any, ...]:
    """Return one value or a sequence of them, each checked, as a tuple without repetitions."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = (values,)
    checked = tuple(dict.fromkeys(check(value, name) for value in values))
    if not checked:
        raise ValueError(f"{name} is empty, expected at least one value")
    return checked


def _check_length(value: Any, name: str) -> int | None:
    return None if value is None else check_depth(value, name)


def _check_given(estimator: Any, y: Any) -> None:
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
