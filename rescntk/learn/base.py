"""Base class of classifier and regressor: parameters, the average, decisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..arrays import Array
from ..engines import Request, choose
from ..network import Network
from ..validation import (
    check_choice,
    check_constant,
    check_depth,
    check_filter_size,
    check_flag,
    check_positive,
    check_unmasked,
)
from ..vocabulary import HEADS, KINDS
from .arguments import check_effort, check_first_differences, check_jobs, check_landmarks
from .average import fit_average
from .batches import Signals
from .cases import Cases, fingerprint
from .inputs import read_signals
from .parameters import constraints, estimator, parameter, setting
from .passes import EFFORTS, Pass, plan
from .schedule import affordable, in_time

_ALL_LANDMARKS = 2000
"""Most signals for which all signals are landmarks by default. Raising it takes more time and
memory, in proportion to the square. Chosen: the eigendecomposition of 2000 takes seconds."""

_LANDMARKS = 500
"""Default number of landmarks of more signals. Raising it is more accurate and takes more time.
Chosen so that 20000 signals of 100 time points take minutes on two cores."""

_SCORE_FOLDS = 10
"""Folds of the score (`average.out_of_fold`). Raising it leaves more cases to each weighting.
Chosen by custom, not measured."""

_ONE_THREAD_CASES = 500
"""Most signals whose matrices are decomposed by one BLAS thread.
Raising it keeps one thread for larger matrices. Measured with OpenBLAS on two idle cores of an
AMD EPYC: two threads are no faster up to 270 signals, and a third faster at 500. On busy cores
the two threads wait for each other, up to a hundred times as long."""

_FILTER_DOC = """As for `rescntk.Network`. Filters that are longer than the (shortened) signals are
cut to the largest odd size that fits."""
"""Documentation of the filter sizes."""


@estimator
class ResidualKernelEstimator(BaseEstimator):
    """Average the decisions of several passes over the signals.

    The settings of the passes are declared here and nowhere else. A setting is a field of `View`,
    `Network` or `MeanKernel`, by its name.
    """

    effort: str | float = parameter(
        default="default",
        type='{"fast", "default", "thorough"} or float',
        check=partial(check_effort, choices=tuple(EFFORTS)),
        doc="""Number of passes that are averaged, or a limit for the time of `fit` in seconds.
        Passes of the greatest value for their time come first. Where signals are many, "fast" and
        "default" leave out passes, and shorten signals more. With a limit, a pass is made if it
        is expected to end in time; the first pass is always made, and the result depends on the
        speed of the machine.""",
    )
    max_length: int | Iterable[int] | None = setting(
        type="int or sequence",
        check=check_depth,
        doc="""Longest signals that stay unchanged. Longer signals are averaged over blocks of
        time points. Time grows with the square of the length.""",
    )
    block_statistics: bool | Iterable[bool] | None = setting(
        type="bool or sequence",
        check=check_flag,
        doc="""Whether standard deviation, minimum and maximum of each block of time points are
        appended as channels. Where there are no blocks, False is taken.""",
    )
    standardize: bool | Iterable[bool] | None = setting(
        type="bool or sequence",
        check=check_flag,
        doc="Whether each channel is standardized, except with block statistics.",
    )
    first_differences: bool | str | Iterable[bool | str] | None = setting(
        type='bool, "only" or sequence',
        check=check_first_differences,
        doc="""Whether the first differences of each channel, from time point to time point, are
        appended as a channel, or take the channel's place ("only").""",
    )
    constant: bool | Iterable[bool] | None = setting(
        type="bool or sequence",
        check=check_flag,
        doc="Whether a constant channel is appended, which gives the first layer a bias.",
    )
    time_scale: float | Iterable[float] | None = setting(
        type="float or sequence",
        check=check_constant,
        doc="""Scale of two channels that tell the relative time by its cosine and sine. At 0 the
        head "gap" ignores when something happens. The larger the scale, the more counts the
        place of a pattern; at 1 the time has as much energy as the signals.""",
    )
    filter_size: int | Iterable[int] | None = setting(
        type="int or sequence", check=check_filter_size, doc=_FILTER_DOC
    )
    input_filter_size: int | Iterable[int] | None = setting(
        type="int or sequence", check=check_filter_size, doc=_FILTER_DOC
    )
    dilation: int | Iterable[int] | None = setting(
        type="int or sequence",
        check=check_depth,
        doc="""Time points from one tap of a filter to the next, as for `rescntk.Network`: the
        same in all layers.""",
    )
    head: str | Iterable[str] | None = setting(
        type='{"equivariant", "trace", "gap"} or sequence',
        check=partial(check_choice, choices=HEADS),
        doc="""As for `rescntk.Kernel`. "gap" ignores when something happens, "trace" does not.
        For each pair of signals, the cost of "gap" grows with the square of the length, the cost
        of "trace" with the length. Signals of different lengths have "gap" alone.""",
    )
    kind: str | Iterable[str] = parameter(
        default=KINDS,
        type='{"gpk", "ntk"} or sequence',
        check=partial(check_choice, choices=KINDS),
        several=True,
        doc="As for `rescntk.Kernel`. A pass takes the mean of several kinds.",
    )
    depth: int | Iterable[int] = parameter(
        default=2,
        type="int or sequence",
        check=check_depth,
        several=True,
        doc="""Number of residual layers. A pass takes the mean of the kernels of several depths,
        at the cost of the deepest. The mean of 1, 2 and 4 is hardly more accurate than 2, and
        takes twice the time.""",
    )
    alpha: float = parameter(
        default=1.0,
        type="float",
        check=check_constant,
        doc="Weight α of the residual branches.",
    )
    penalty: float | Iterable[float] | None = parameter(
        default=None,
        type="float or sequence",
        check=check_positive,
        several=True,
        doc="""Penalty of ridge regression, in units of the kernel's diagonal. Of several
        penalties each pass takes the one with the least leave-one-out error. The default is the
        least penalty that rounding errors allow; a regressor also has 1e-4, 1e-3 … 10.""",
    )
    landmarks: int | str | None = parameter(
        default=None,
        type='int or "all"',
        check=check_landmarks,
        doc="""Number of signals, drawn at random, to which the solution is restricted. The time of
        `fit` is proportional to this number times the number of signals. The default is "all" for
        up to 2000 signals, and 500 for more.""",
    )
    random_state: int | np.random.RandomState | None = parameter(
        default=0,
        type="int, RandomState or None",
        doc="Seed of the landmarks, and of the ten folds of `best_score_`.",
    )
    engine: str = parameter(default="auto", type="str", doc="As for calling a `rescntk.Kernel`.")
    dtype: str = parameter(
        default="float32",
        type="str",
        doc="Precision of the kernels, as for calling a `rescntk.Kernel`.",
    )
    n_jobs: int | None = parameter(
        default=None,
        type="int",
        check=check_jobs,
        doc="""Number of threads; -1 is one for each core, -2 one less. The default is the choice
        of the engine, usually a thread for each core. The number does not change results.""",
    )
    verbose: int = parameter(
        default=0,
        type="int",
        doc="Not 0: print how long the passes will take, then a line for each pass.",
    )

    _variances = False
    """Whether the members keep what the variances of predictions need."""

    def _average(
        self, checked: dict[str, Any], cases: Cases, error_weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit the average to cases.

        Returns decisions out of fold, (n_cases, n_outputs), and the fold of each case.
        """
        X = cases.signals
        generator, n = check_random_state(self.random_state), len(X)
        folds = generator.permutation(n) % _SCORE_FOLDS
        m = count_landmarks(checked["landmarks"], n)
        passes, limit = self._plan(checked, X, m)
        landmarks = None if m == n else np.sort(generator.permutation(n)[:m])
        say = partial(print, flush=True) if self.verbose else None
        if say:
            say(f"rescntk: {len(passes)} passes over {n} signals")
            announce_compilation(self._options(), X, say)
        with threadpool_limits(1 if n <= _ONE_THREAD_CASES else None, "blas"):
            self._fitted, decisions = fit_average(
                in_time(passes, X, m, limit, say, self._options()),
                cases,
                checked["penalty"] or self._penalties(cases.weights),
                error_weights=error_weights,
                folds=folds,
                landmarks=landmarks,
                variances=self._variances,
                options=self._options(),
            )
        self.passes_ = self._fitted.table()
        self._places = cases.places if landmarks is None else slice(None)
        self._last = LastDecisions()
        return decisions, folds

    def _plan(
        self, checked: dict[str, Any], X: Signals, n_landmarks: int
    ) -> tuple[list[Pass], float]:
        """Return the passes of the effort, and the limit of their time in seconds."""
        effort = checked["effort"]
        words = isinstance(effort, str)
        names = [name for name, rule in constraints(self).items() if rule.is_setting]

        def planned(shorter: int) -> list[Pass]:
            return plan(
                EFFORTS[effort if words else "thorough"],
                {name: checked[name] for name in names if checked[name] is not None},
                X,
                kinds=checked["kind"],
                depths=checked["depth"],
                alpha=checked["alpha"],
                shorter=shorter,
            )

        if effort in ("fast", "default"):
            return affordable(planned, X, n_landmarks), np.inf
        return planned(1), np.inf if words else effort

    def _penalties(self, weights: np.ndarray) -> tuple[float, ...]:
        """Return the default penalties for cases of these weights: the least one."""
        return (least_penalty(weights, self.dtype),)

    def _options(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "dtype": self.dtype,
            "threads": count_threads(self.n_jobs),
        }

    def _decide(self, X: Array) -> np.ndarray:
        """Return decisions (n_cases, n_outputs)."""
        check_is_fitted(self)
        signals = read_signals(self, X, reset=False, lists=True)
        return self._last.get(signals, lambda: self._fitted.decide(signals, self._options()))

    def kernel_matrix(self, X: Array) -> np.ndarray:
        """Return the mean kernel of signals with the fitted signals, weighted as the decisions.

        Parameters
        ----------
        X : array, (m_cases, n_channels, n_timepoints) or (m_cases, n_timepoints)

        Returns
        -------
        ndarray, (m_cases, n_cases)
            In the order of the signals of `fit`, but for signals of weight 0, which have no
            column. With landmarks, (m_cases, n_landmarks).

        Raises
        ------
        ValueError, NotFittedError
            As for `predict`.
        """
        check_is_fitted(self)
        signals = read_signals(self, X, reset=False, lists=True)
        return self._fitted.matrix(signals, self._options())[:, self._places]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class LastDecisions:
    """The decisions at the signals seen last: labels and probabilities need one matrix only."""

    def __init__(self) -> None:
        self._key: bytes | None = None
        self._decisions: np.ndarray | None = None

    def get(self, X: Signals, decide: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the decisions at signals X, computed only if X is not the last batch."""
        key = fingerprint(X)
        if key != self._key or self._decisions is None:
            self._decisions, self._key = decide(), key
        return self._decisions

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without decisions: they are computed again."""
        return {"_key": None, "_decisions": None}


def least_penalty(weights: np.ndarray, dtype: str) -> float:
    r"""Return the least penalty that rounding errors allow for cases of weights w, of mean 1.

    :math:`10^{-6} + 4 \sqrt{\max w \sum w}\, \mathrm{eps}`, which is
    :math:`10^{-6} + 4 \sqrt n\, \mathrm{eps}` for equal weights. A symmetric matrix of
    independent errors of standard deviation eps has norm 2 √n eps; weights multiply row and
    column i by :math:`\sqrt{w_i}`.
    """
    return 1e-6 + 4.0 * np.sqrt(weights.max() * weights.sum()) * float(np.finfo(dtype).eps)


def count_landmarks(landmarks: int | str | None, n: int) -> int:
    """Return the number of landmarks among n signals; n if all signals are landmarks."""
    if landmarks is None:
        landmarks = "all" if n <= _ALL_LANDMARKS else _LANDMARKS
    return n if isinstance(landmarks, str) else min(landmarks, n)


def count_threads(n_jobs: int | None) -> int | None:
    """Return a number of threads: n_jobs, or the number of cores + 1 + n_jobs if negative."""
    if n_jobs is None or n_jobs > 0:
        return n_jobs
    return max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def announce_compilation(options: dict[str, Any], X: Signals, say: Callable[[str], None]) -> None:
    """Choose the engine before the first pass, which says so where code is being compiled."""
    request = Request(Network(1), "gap", KINDS, (1,), np.dtype(options["dtype"]).name)
    choose(options["engine"], request, cast(Any, X), say)


def check_given(model: Any, y: Any) -> None:
    """Refuse masked targets, and y = None in the words of scikit-learn."""
    check_unmasked(y, "y", "or labels, one a case,")
    if y is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None"
        )
