"""Search for the kernel that suits training signals: each Gram matrix computed once.

One pass of the recursion gives the GPK and the NTK at all depths. Each of these matrices is
judged by ridge regression's closed-form leave-one-out error, at every penalty from one
eigendecomposition; squared errors, because among few signals they discriminate where
counts of mistakes tie. The least of many errors is optimistic: how well the choice does is told
by decisions of choices in which a fold had no say (`Blind`), from the same residuals.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Kernel, gram
from ..matrices import correlation
from ..network import Network
from .readouts import RidgePath
from .views import FittedView, View, block_size, is_standard, shorten

# A finer resolution costs four times as much. It is tried if the last one lowered the error to
# this fraction.
_WORTH = 0.95


@dataclass(frozen=True)
class Space:
    """What is searched, a tuple of values for each name; the rest is fixed."""

    max_length: tuple[int | None, ...]
    spread: tuple[bool, ...]
    standardize: tuple[bool, ...]
    slopes: tuple[bool, ...]
    constant: tuple[bool, ...]
    filter_size: tuple[int, ...]
    input_filter_size: tuple[int, ...]
    head: tuple[str, ...]
    kind: tuple[str, ...]
    depth: tuple[int, ...]
    normalized: tuple[bool, ...]
    penalty: tuple[float, ...]
    alpha: float = 1.0

    def middle(self) -> Space:
        """Return the space of one kernel: the middle of each list, of two the second."""
        values: dict[str, Any] = asdict(self) | {"max_length": self.max_length[:1]}
        middle = {k: (v[len(v) // 2],) for k, v in values.items() if isinstance(v, tuple)}
        return Space(**(values | middle))

    def lengths(self, n_timepoints: int) -> list[int | None]:
        """Return the lengths to which signals are shortened, leaving out what changes nothing."""
        distinct: dict[int, int | None] = {}
        for length in self.max_length:
            distinct.setdefault(block_size(n_timepoints, length), length)
        return list(distinct.values())

    def passes(self, X: np.ndarray) -> list[Pass]:
        """Return what has to be computed for such signals, leaving out what changes nothing.

        Those are the spread within blocks where there are no blocks, standardizing signals
        that are (nearly) standardized, slopes of one time point, and filters longer than the
        signals (unless there is no other).
        """
        length = self.max_length[0]
        short = shorten(X, length)
        spread, standardize, slopes = self.spread, self.standardize, self.slopes
        if short.shape == X.shape:
            spread = (False,)
        if len(standardize) > 1 and is_standard(short):
            standardize = (False,)
        if len(slopes) > 1 and short.shape[2] == 1:
            slopes = (False,)

        def fitting(sizes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(q for q in sizes if q <= short.shape[2]) or (min(sizes),)

        sizes, windows = fitting(self.filter_size), fitting(self.input_filter_size)
        depth = max(self.depth)
        return [
            Pass(
                View(length, *view),
                Network(depth, size, input_filter_size=window, alpha=self.alpha),
                head,
            )
            for *view, size, window, head in product(
                spread, standardize, slopes, self.constant, sizes, windows, self.head
            )
        ]


class Pass(NamedTuple):
    """One run of the recursion: a view of the signals, the deepest network, a head."""

    view: View
    network: Network
    head: str


@dataclass(frozen=True)
class Candidate:
    """One kernel matrix, with the penalty that suits it best.

    ``error`` is the mean squared error of leaving one out, over cases and outputs.
    """

    max_length: int | None
    spread: bool
    standardize: bool
    slopes: bool
    constant: bool
    filter_size: int
    input_filter_size: int
    head: str
    kind: str
    depth: int
    normalized: bool
    penalty: float
    error: float


class Finalist(NamedTuple):
    """A candidate with all it takes to go on: view, kernel, signals as seen, matrix, path."""

    candidate: Candidate
    source: Pass
    view: FittedView
    kernel: Kernel
    signals: np.ndarray
    K: np.ndarray
    path: RidgePath


class Found(NamedTuple):
    """What a search found."""

    candidates: list[Candidate]
    """All, in the order in which they were judged."""
    finalists: list[Finalist]
    """The best few, best first."""
    decisions: np.ndarray
    """(n_cases, n_outputs), see `Blind`."""


class Blind:
    """Decisions in which no fold has a say: neither in the readout nor in the choice of it.

    In each fold they are those of leaving one out, by the kernel and the penalty with the least
    error on the other folds. Their errors are those of searching and fitting, not only of
    fitting: the least of many errors is optimistic. (Which passes are made at greater lengths all
    cases decide.)

    Parameters
    ----------
    Y : ndarray, (n_cases, n_outputs)
    folds : ndarray of int, (n_cases,)
        The fold of each case.
    counted : ndarray of bool, (n_cases,)
        Whose errors count.
    """

    def __init__(self, Y: np.ndarray, folds: np.ndarray, counted: np.ndarray) -> None:
        names = np.unique(folds)
        self.Y, self.decisions = Y, np.zeros(Y.shape)
        self.inside = folds == names[:, None]
        self.others = (~self.inside & counted).astype(float)
        self.least = np.full(len(names), np.inf)

    def consider(self, residuals: np.ndarray) -> None:
        """Take readouts by their residuals (n_readouts, n_cases, n_outputs) of leaving one out."""
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
    """Judge every kernel of `space` on signals `X` with targets `Y` (n_cases, n_outputs).

    All passes are made at the first of the lengths to which signals are shortened. The passes
    that the finalists come from are then made at the next length, and so on as long as that
    lowers the error by a twentieth.

    Errors are those of the cases that are `counted`; `folds` are those of `Blind`. `options` are
    passed to `rescntk.gram`. If `verbose`, each pass prints a line.
    """
    blind = Blind(Y, folds, counted)
    found = Found([], [], blind.decisions)
    begin, count = time.perf_counter(), 0
    errors: list[float] = []
    passes: list[Pass] = []
    for length in space.lengths(X.shape[2]):
        passes = _finer(found.finalists, passes, length, X) if errors else space.passes(X)
        for number, source in enumerate(passes, 1):
            start = time.perf_counter()
            least = np.inf
            for entry in _judge(space, source, X, Y, counted, blind, options):
                least = min(least, entry.candidate.error)
                found.candidates.append(entry.candidate)
                found.finalists.append(entry)
                found.finalists.sort(key=lambda entry: entry.candidate.error)  # stable
                del found.finalists[finalists:]
            count += 1
            if verbose:
                print(
                    f"[{number}/{len(passes)}] {describe(source)}: "
                    f"{time.perf_counter() - start:.1f} s, squared error {least:.4g}, "
                    f"best so far {found.finalists[0].candidate.error:.4g}",
                    flush=True,
                )
        errors.append(found.finalists[0].candidate.error)
        if len(errors) > 1 and errors[-1] >= _WORTH * errors[-2]:
            break
    if verbose:
        print(
            f"{len(found.candidates)} kernels from {count} passes over {len(X)} signals: "
            f"{time.perf_counter() - begin:.1f} s",
            flush=True,
        )
    return found


def _finer(finalists: list[Finalist], last: list[Pass], length: int | None, X: Any) -> list[Pass]:
    """Return the finalists' passes that are among the last ones, at another length."""
    blocks = block_size(X.shape[2], length) > 1
    finer = [
        source._replace(
            view=replace(source.view, max_length=length, spread=source.view.spread and blocks)
        )
        for source in (entry.source for entry in finalists)
        if source in last
    ]
    return list(dict.fromkeys(finer))


def _judge(
    space: Space,
    source: Pass,
    X: np.ndarray,
    Y: np.ndarray,
    counted: np.ndarray,
    blind: Blind,
    options: dict[str, Any],
) -> Iterator[Finalist]:
    """Make a pass and yield its kernels, each with the penalty that suits it best."""
    view, network, head = source
    fitted = view.fit(X)
    signals = fitted(X)
    # Where only normalized kernels are wanted, no depth overflows.
    ready = space.normalized == (True,)
    matrices = gram(
        network,
        signals,
        head=head,
        kinds=space.kind,
        depths=space.depth,
        normalized=ready,
        **options,
    )
    for kind, (t, depth), normalized in product(
        space.kind, enumerate(space.depth), space.normalized
    ):
        K = getattr(matrices, kind)[t]
        if normalized and not ready:
            own = K.diagonal().astype(np.float64)
            K = correlation(K.astype(np.float64), own, own).astype(K.dtype)
        path = RidgePath(K, Y)
        residuals = path.residuals(space.penalty)
        blind.consider(residuals)
        judged = (residuals[:, counted] ** 2).mean(axis=(1, 2))
        best = int(judged.argmin())
        candidate = Candidate(
            **asdict(view),
            filter_size=network.filter_size,
            input_filter_size=network.input_filter_size,
            head=head,
            kind=kind,
            depth=depth,
            normalized=normalized,
            penalty=space.penalty[best],
            error=float(judged[best]),
        )
        kernel = Kernel(network.replace(depth=depth), kind, head, normalized)
        yield Finalist(candidate, source, fitted, kernel, signals, K, path)


def describe(source: Pass) -> str:
    """Return a pass in words."""
    view, network, head = source
    parts = ["standardized" if view.standardize else "signals"]
    parts += ["spread"] * view.spread + ["slopes"] * view.slopes + ["constant"] * view.constant
    length = "any length" if view.max_length is None else f"length <= {view.max_length}"
    return (
        f"{' + '.join(parts)}, {length}, filters {network.input_filter_size} and "
        f"{network.filter_size}, {head}"
    )


def as_table(candidates: Sequence[Candidate]) -> dict[str, np.ndarray]:
    """Return candidates as columns, ready for a data frame."""
    return {
        field.name: np.array([getattr(candidate, field.name) for candidate in candidates])
        for field in fields(Candidate)
    }
