"""Search for the kernel that suits training signals: each Gram matrix is computed once.

One pass of the recursion gives the GPK and the NTK at all depths. Each Gram matrix is judged by
the closed-form leave-one-out error of ridge regression; one eigendecomposition gives the error at
every penalty. Errors are squared: with few signals, counts of mistakes tie.

The least of many errors is optimistic. Scores therefore rest on decisions at cases that had no
part in the choice (`OutOfFoldDecisions`), from the same residuals.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..engines import Request, choose
from ..kernels import Kernel, gram
from ..matrices import correlation
from ..network import Network
from ..vocabulary import KINDS
from .moderate import moderate
from .readouts import RidgePath
from .views import FittedView, View, block_size, is_standard, shorten

ONE_PASS = ("kind", "depth", "normalized")
"""Dimensions of the search whose values all come from one pass of the recursion."""

_CONTINUE_BELOW = 0.95
"""Ratio of least errors, a length to the length before it, above which no greater length is tried.
Raising it tries greater lengths more often, each at four times the time of the last. On the
eight sets of benchmarks/results/classification_search.csv the ratios are .914 to .939 on two sets
and 1.04 to 1.37 on three; on the other three one length is all: values from .94 to 1.04 choose
alike."""


@dataclass(frozen=True)
class Space:
    """The kernels and penalties of a search.

    Attributes
    ----------
    values : mapping of str to tuple
        The values of each dimension, by its name. A dimension is a field of `View`, `Network` or
        `Kernel`. The kernels are the product of all values; the last dimension varies fastest.
    penalties : tuple of float
    alpha : float
    """

    values: Mapping[str, tuple[Any, ...]]
    penalties: tuple[float, ...]
    alpha: float = 1.0

    def middle(self, n_timepoints: int) -> Space:
        """Return the space of one kernel and penalty: the middle value of each dimension.

        Of two values the second counts as the middle. The maximum length is the least one.
        Filters that do not fit signals of `n_timepoints` are left out first.
        """
        values = {**self.values, "max_length": self.values["max_length"][:1]}
        values |= self._fitting_filters(n_timepoints)
        middle = {name: _middle(given) for name, given in values.items()}
        return Space(middle, _middle(self.penalties), self.alpha)

    def lengths(self, n_timepoints: int) -> list[int | None]:
        """Return the maximum lengths that shorten signals differently, least first."""
        distinct: dict[int, int | None] = {}
        for length in self.values["max_length"]:
            distinct.setdefault(block_size(n_timepoints, length), length)
        return list(distinct.values())

    def passes(self, X: np.ndarray) -> list[Pass]:
        """Return the passes at the least maximum length, for signals X, without repetitions."""
        values = {name: v for name, v in self.values.items() if name not in ONE_PASS}
        values |= self._effective_values(X)
        depth = max(self.values["depth"])
        return [
            Pass.of(dict(zip(values, combination, strict=True)), depth, self.alpha)
            for combination in product(*values.values())
        ]

    def _effective_values(self, X: np.ndarray) -> dict[str, tuple[Any, ...]]:
        """Return the values that differ in their effect on signals X, where some do not.

        * block_statistics: False where there are no blocks.
        * standardize: of several values False, where the signals are (nearly) standardized.
        * first_differences: of several values False, where signals have one time point.
        * filter sizes: see `_fitting_filters`.
        """
        length = self.values["max_length"][0]
        short = shorten(moderate(X)[0], length)
        effective: dict[str, tuple[Any, ...]] = {"max_length": (length,)}
        if short.shape == X.shape:
            effective["block_statistics"] = (False,)
        if len(self.values["standardize"]) > 1 and is_standard(short):
            effective["standardize"] = (False,)
        if len(self.values["first_differences"]) > 1 and short.shape[2] == 1:
            effective["first_differences"] = (False,)
        return effective | self._fitting_filters(X.shape[2])

    def _fitting_filters(self, n_timepoints: int) -> dict[str, tuple[int, ...]]:
        """Return the filter sizes up to the length of shortened signals, or the least size."""
        length = -(-n_timepoints // block_size(n_timepoints, self.values["max_length"][0]))
        fitting = {}
        for name in ("filter_size", "input_filter_size"):
            sizes = self.values[name]
            fitting[name] = tuple(q for q in sizes if q <= length) or (min(sizes),)
        return fitting


def _middle(values: tuple[Any, ...]) -> tuple[Any]:
    return (values[len(values) // 2],)


class Pass(NamedTuple):
    """A run of the recursion: a view of the signals, the deepest network, a head."""

    view: View
    network: Network
    head: str

    @classmethod
    def of(cls, settings: Mapping[str, Any], depth: int, alpha: float) -> Pass:
        """Return the pass with these settings, the fields of `View` and `Network` by name."""

        def own(kind: type[View] | type[Network]) -> dict[str, Any]:
            return {f.name: settings[f.name] for f in fields(kind) if f.name in settings}

        return cls(View(**own(View)), Network(depth, alpha=alpha, **own(Network)), settings["head"])

    def describe(self) -> str:
        """Return the pass in words."""
        view = self.view
        parts = ["standardized" if view.standardize else "signals"]
        parts += ["block statistics"] * view.block_statistics
        parts += ["first differences"] * view.first_differences + ["constant"] * view.constant
        length = "any length" if view.max_length is None else f"length <= {view.max_length}"
        return (
            f"{' + '.join(parts)}, {length}, filters {self.network.input_filter_size} and "
            f"{self.network.filter_size}, {self.head}"
        )


class Candidate(NamedTuple):
    """A kernel with the penalty of the least error."""

    values: dict[str, Any]
    """The value of each dimension."""
    penalty: float
    error: float
    """Mean squared leave-one-out error, over cases and outputs."""

    def row(self) -> dict[str, Any]:
        """Return the values, the penalty and the error by name."""
        return {**self.values, "penalty": self.penalty, "error": self.error}


class Finalist(NamedTuple):
    """A candidate with everything needed to fit readouts and to predict."""

    candidate: Candidate
    origin: Pass
    view: FittedView
    kernel: Kernel
    signals: np.ndarray
    """The training signals in the view."""
    K: np.ndarray
    """The Gram matrix of the training signals, (n_cases, n_cases)."""
    path: RidgePath


class Found(NamedTuple):
    """The result of a search."""

    candidates: list[Candidate]
    """All candidates, in the order in which they were judged."""
    finalists: list[Finalist]
    """The best few candidates, best first."""
    decisions: np.ndarray
    """Out-of-fold decisions, (n_cases, n_outputs); see `OutOfFoldDecisions`."""


class OutOfFoldDecisions:
    """Decisions at each fold by readouts that the other folds have chosen and fitted.

    At a case of fold k, the decision is the leave-one-out decision of one kernel and penalty: the
    pair with the least error on all folds but k. So the errors of the decisions include the cost
    of choosing. One choice is left out: all cases together decide which passes are made at
    greater lengths.

    Parameters
    ----------
    Y : ndarray, (n_cases, n_outputs)
        Targets.
    folds : ndarray of int, (n_cases,)
        The fold of each case.
    counted : ndarray of bool, (n_cases,)
        Cases whose errors count.
    """

    def __init__(self, Y: np.ndarray, folds: np.ndarray, counted: np.ndarray) -> None:
        names = np.unique(folds)
        self.Y, self.decisions = Y, np.zeros(Y.shape)
        self.inside = folds == names[:, None]
        self.others = (~self.inside & counted).astype(float)
        self.least = np.full(len(names), np.inf)

    def consider(self, residuals: np.ndarray) -> None:
        """Consider readouts, by leave-one-out residuals (n_readouts, n_cases, n_outputs)."""
        errors = (residuals**2).sum(axis=2) @ self.others.T
        best = errors.argmin(axis=0)
        for fold, choice in enumerate(best):
            if errors[choice, fold] < self.least[fold]:
                self.least[fold] = errors[choice, fold]
                inside = self.inside[fold]
                self.decisions[inside] = (self.Y - residuals[choice])[inside]


def search(
    space: Space,
    X: np.ndarray,
    Y: np.ndarray,
    *,
    counted: np.ndarray,
    folds: np.ndarray,
    finalists: int = 1,
    verbose: int = 0,
    options: dict[str, Any],
) -> Found:
    """Judge every kernel of `space` on signals X with targets Y (n_cases, n_outputs).

    All passes are made at the least maximum length. The passes of the finalists are then repeated
    at the next length, and so on as long as the least error falls by 5 %.

    Parameters
    ----------
    counted, folds
        As for `OutOfFoldDecisions`.
    finalists : int
        Number of candidates that are kept with their matrices.
    verbose : int
        Not 0: print a line for each pass, and first that engines are compiled, if so.
    options : dict
        Engine, dtype and threads, as for `rescntk.gram`.
    """
    if verbose:
        _choose_engine(space, X, options)
    out_of_fold = OutOfFoldDecisions(Y, folds, counted)
    found = Found([], [], out_of_fold.decisions)
    begin, count = time.perf_counter(), 0
    errors: list[float] = []
    passes: list[Pass] = []
    for length in space.lengths(X.shape[2]):
        passes = _finer(found.finalists, passes, length, X) if errors else space.passes(X)
        for number, source in enumerate(passes, 1):
            start, least = time.perf_counter(), np.inf
            for entry in _judge(space, source, X, Y, counted, out_of_fold, options):
                least = min(least, entry.candidate.error)
                _keep(found, entry, finalists)
            count += 1
            if verbose:
                print(
                    f"[{number}/{len(passes)}] {source.describe()}: "
                    f"{time.perf_counter() - start:.1f} s, squared error {least:.4g}, "
                    f"best so far {found.finalists[0].candidate.error:.4g}",
                    flush=True,
                )
        errors.append(found.finalists[0].candidate.error)
        if len(errors) > 1 and errors[-1] >= _CONTINUE_BELOW * errors[-2]:
            break
    if verbose:
        print(
            f"{len(found.candidates)} kernels from {count} passes over {len(X)} signals: "
            f"{time.perf_counter() - begin:.1f} s",
            flush=True,
        )
    return found


def _choose_engine(space: Space, X: np.ndarray, options: dict[str, Any]) -> None:
    """Choose the engine before the first pass, which says so where code is being compiled."""
    dtype = np.dtype(options.get("dtype", "float64")).name
    request = Request(Network(1), space.values["head"][0], KINDS, (1,), dtype)
    say = partial(print, flush=True)
    choose(options.get("engine", "auto"), request, X, say)


def _keep(found: Found, entry: Finalist, finalists: int) -> None:
    """Add a candidate, and keep its matrix if it is among the best."""
    found.candidates.append(entry.candidate)
    found.finalists.append(entry)
    found.finalists.sort(key=lambda entry: entry.candidate.error)  # stable
    del found.finalists[finalists:]


def _finer(
    finalists: list[Finalist], last: list[Pass], length: int | None, X: np.ndarray
) -> list[Pass]:
    """Return the finalists' passes at another length, if the passes are among the last ones."""
    blocks = block_size(X.shape[2], length) > 1

    def at_length(view: View) -> View:
        statistics = view.block_statistics and blocks
        return replace(view, max_length=length, block_statistics=statistics)

    origins = [entry.origin for entry in finalists if entry.origin in last]
    return list(dict.fromkeys(p._replace(view=at_length(p.view)) for p in origins))


def _judge(
    space: Space,
    source: Pass,
    X: np.ndarray,
    Y: np.ndarray,
    counted: np.ndarray,
    out_of_fold: OutOfFoldDecisions,
    options: dict[str, Any],
) -> Iterator[Finalist]:
    """Make a pass and yield its kernels, each with the penalty of the least error."""
    network, fitted = source.network, source.view.fit(X)
    signals = fitted(X)
    for kernel, K in _kernels(space, network, source.head, signals, options):
        path = RidgePath(K, Y)
        residuals = path.residuals(space.penalties)
        out_of_fold.consider(residuals)
        errors = (residuals[:, counted] ** 2).mean(axis=(1, 2))
        best = int(errors.argmin())
        # Each dimension is a field of the view, of the network or of the kernel.
        values = vars(source.view) | vars(kernel.network) | vars(kernel)
        candidate = Candidate(
            {name: values[name] for name in space.values},
            space.penalties[best],
            float(errors[best]),
        )
        yield Finalist(candidate, source, fitted, kernel, signals, K, path)


def _kernels(
    space: Space, network: Network, head: str, signals: np.ndarray, options: dict[str, Any]
) -> Iterator[tuple[Kernel, np.ndarray]]:
    """Yield the kernels of one pass with their Gram matrices (n_cases, n_cases)."""
    kinds, depths, flags = (space.values[name] for name in ONE_PASS)
    # Normalization within the recursion keeps great depths from overflowing.
    normalized = flags == (True,)
    matrices = gram(
        network,
        signals,
        head=head,
        kinds=kinds,
        depths=depths,
        normalized=normalized,
        **options,
    )
    for kind, (t, depth), flag in product(kinds, enumerate(depths), flags):
        K = getattr(matrices, kind)[t]
        if flag and not normalized:
            own = K.diagonal().astype(np.float64)
            K = correlation(K.astype(np.float64), own, own).astype(K.dtype)
        yield Kernel(network.replace(depth=depth), kind, head, flag), K


def as_table(candidates: Sequence[Candidate]) -> dict[str, np.ndarray]:
    """Return candidates as columns, ready for a data frame."""
    rows = [candidate.row() for candidate in candidates]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
