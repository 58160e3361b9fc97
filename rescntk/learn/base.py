"""Base class of classifier and regressor: parameters, search, decisions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..arrays import Array
from ..validation import (
    check_choice,
    check_constant,
    check_depth,
    check_filter_size,
    check_flag,
    check_max_length,
    check_positive,
    check_unmasked,
)
from ..vocabulary import HEADS, KINDS
from .inputs import read_signals
from .parameters import constraints, dimension, estimator, parameter
from .readouts import Readout
from .search import Finalist, Found, Space, as_table, search

PENALTIES = tuple(10.0**k for k in range(-6, 2))
"""Default penalties of ridge regression, in units of the mean of the kernel's diagonal."""

_ONE_THREAD_CASES = 500
"""Most signals whose matrices are decomposed by one BLAS thread.
Raising it keeps one thread for larger matrices. Measured with OpenBLAS on two idle cores of an
AMD EPYC: two threads are no faster up to 270 signals, and a third faster at 500. On busy cores
the two threads wait for each other, up to a hundred times as long."""

_SCORE_FOLDS = 10
"""Folds of the score (`search.OutOfFoldDecisions`). Raising it leaves more cases to each choice.
Chosen by custom, not measured."""


_FILTER_DOC = """As for `rescntk.Network`. Of several filters, filters longer than the signals are
left out, but for the shortest."""


@estimator
class ResidualKernelEstimator(BaseEstimator):
    """Search for a kernel, keep it, and read decisions off it.

    The dimensions of the search are declared here and nowhere else. A dimension is a field of
    `View`, `Network` or `Kernel`, by its name; the last declared dimension varies fastest.
    """

    max_length: int | Iterable[int | None] | None = dimension(
        default=(128, 256, 512),
        type="int, None or sequence",
        check=check_max_length,
        doc="""Longest signals that stay unchanged. Longer signals are averaged over blocks of
        time points; None never averages. All kernels are searched at the least length. The best
        kernels are tried at the next length, and so on as long as the least error falls by 5 %.
        Time grows with the square of the length.""",
    )
    block_statistics: bool | Iterable[bool] = dimension(
        default=(False, True),
        type="bool or sequence",
        check=check_flag,
        doc="""Whether standard deviation, minimum and maximum of each block of time points are
        appended as channels. Where there are no blocks, False is taken.""",
    )
    standardize: bool | Iterable[bool] = dimension(
        default=(False, True),
        type="bool or sequence",
        check=check_flag,
        doc="""Whether each channel is standardized. Of several values False is taken, without a
        search, for nearly standardized signals: the channels' means are within 5 % of their
        standard deviations, and the standard deviations within 5 % of each other.""",
    )
    first_differences: bool | Iterable[bool] = dimension(
        default=(False, True),
        type="bool or sequence",
        check=check_flag,
        doc="""Whether the first differences of each channel, from time point to time point, are
        appended as a channel.""",
    )
    constant: bool | Iterable[bool] = dimension(
        default=True,
        type="bool or sequence",
        check=check_flag,
        doc="Whether a constant channel is appended, which gives the first layer a bias.",
    )
    filter_size: int | Iterable[int] = dimension(
        default=(3, 9, 31),
        type="int or sequence",
        check=check_filter_size,
        doc=_FILTER_DOC,
    )
    input_filter_size: int | Iterable[int] = dimension(
        default=(1, 9),
        type="int or sequence",
        check=check_filter_size,
        doc=_FILTER_DOC,
    )
    head: str | Iterable[str] = dimension(
        default=("trace", "gap"),
        type='{"equivariant", "trace", "gap"} or sequence',
        check=partial(check_choice, choices=HEADS),
        doc="""As for `rescntk.Kernel`. "gap" ignores when something happens, "trace" does not.
        For each pair of signals, the cost of "gap" grows with the square of the length, the cost
        of "trace" with the length.""",
    )
    kind: str | Iterable[str] = dimension(
        default=KINDS,
        type='{"gpk", "ntk"} or sequence',
        check=partial(check_choice, choices=KINDS),
        doc="As for `rescntk.Kernel`. Both kinds come from one pass.",
    )
    depth: int | Iterable[int] = dimension(
        default=(1, 2, 4),
        type="int or sequence",
        check=check_depth,
        doc="""Number of residual layers. All depths come from one pass, at the cost of the
        deepest.""",
    )
    normalized: bool | Iterable[bool] = dimension(
        default=(False, True),
        type="bool or sequence",
        check=check_flag,
        doc="Whether kernels are normalized. Without normalization the strength of signals counts.",
    )
    penalty: float | Iterable[float] = parameter(
        default=PENALTIES,
        type="float or sequence",
        check=check_positive,
        several=True,
        doc="Penalty of ridge regression, in units of the mean of the kernel's diagonal.",
    )
    alpha: float = parameter(
        default=1.0,
        type="float",
        check=check_constant,
        doc="Weight α of the residual branches.",
    )
    engine: str = parameter(default="auto", type="str", doc="As for calling a `rescntk.Kernel`.")
    dtype: str = parameter(default="float64", type="str", doc="As for calling a `rescntk.Kernel`.")
    threads: int | None = parameter(
        default=None, type="int or None", doc="As for calling a `rescntk.Kernel`."
    )
    verbose: int = parameter(
        default=0,
        type="int",
        doc="""Not 0: print a line for each pass, for each readout compared and for the
        choice.""",
    )

    def _search(
        self,
        checked: dict[str, Any],
        X: np.ndarray,
        Y: np.ndarray,
        counted: np.ndarray,
        finalists: int,
        generator: np.random.RandomState,
    ) -> Found:
        """Search for a kernel by the errors of the `counted` cases, with the checked parameters.

        Where fewer than half of the cases count, nothing is searched: the middle of the space is
        taken, and all cases count.
        """
        space = self._space(checked)
        if 2 * counted.sum() < len(X):
            space, counted = space.middle(X.shape[2]), np.ones(len(X), dtype=bool)
        with threadpool_limits(1 if len(X) <= _ONE_THREAD_CASES else None, "blas"):
            found = search(
                space,
                X,
                Y,
                counted=counted,
                folds=generator.permutation(len(X)) % _SCORE_FOLDS,
                finalists=finalists,
                verbose=self.verbose,
                options=self._options(),
            )
        self.search_results_ = as_table(found.candidates)
        return found

    def _space(self, checked: dict[str, Any]) -> Space:
        """Return the space of the search from the checked parameters."""
        values = {n: checked[n] for n, rule in constraints(self).items() if rule.searched}
        values["max_length"] = tuple(
            sorted(values["max_length"], key=lambda n: np.inf if n is None else n)
        )
        return Space(values, checked["penalty"], checked["alpha"])

    def _options(self) -> dict[str, Any]:
        return {"engine": self.engine, "dtype": self.dtype, "threads": self.threads}

    def _keep(self, finalist: Finalist, readout: Readout, chosen: dict[str, Any]) -> None:
        """Set the attributes with which `_decide` predicts."""
        self.view_, self.kernel_ = finalist.view, finalist.kernel
        self.signals_, self.readout_ = finalist.signals, readout
        self.best_params_ = finalist.candidate.values | chosen
        self.best_error_ = finalist.candidate.error

    def _decide(self, X: Array) -> np.ndarray:
        """Return decisions (n_cases, n_outputs)."""
        check_is_fitted(self)
        signals = self.view_(read_signals(self, X, reset=False))
        K = self.kernel_(signals, self.signals_, **self._options())
        return self.readout_(K.astype(np.float64, copy=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def check_given(model: Any, y: Any) -> None:
    """Refuse masked targets, and y = None in the words of scikit-learn."""
    check_unmasked(y, "y", "or labels, one a case,")
    if y is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None"
        )
