"""Signals of different lengths in the reference engine: rows of several right signals side by side.

Signals are sorted by length, the longest first. A tile has some left signals of one length, and
the rows of right signals of any lengths (`geometry.Rows`). Rows go on in one another at their
seams, so that a right signal's rows are in one tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..signals import Run, SignalList
from .deficits import RootMasses
from .geometry import Rows
from .joined_tables import JoinedMasses, JoinedTables, join
from .pool import pool_of
from .protocol import Request, ScaledKernel, Tick, blocks, cut
from .scaling import Scaling
from .signal_tables import SignalTables, read_input, signal_tables
from .tile import Axes, RowBlock, Tile, TilePlan

_MOST_LEFT = 8
"""Most left cases of a tile.

The tables of right signals are gathered for each tile and layer, which all left cases share.
More left cases leave room for fewer right signals. Chosen by reasoning: with 8 cases, each
number gathered serves 8 pixel pairs.
"""


def gram(
    request: Request, X: SignalList, Z: SignalList | None, tick: Tick, work: Work
) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = UnequalGram(request, X, X if Z is None else Z, work)
    with pool_of(work.threads) as pool:
        for tiles in run.tiles(symmetric=Z is None):
            for done in pool.map(run.fill_tile, tiles):
                tick(done)
        for _ in pool.map(run.repeat, run.batches(symmetric=Z is None)):
            pass
    for value in run.values.values():
        run.scaling(X.longest).finish(value, symmetric=False)
    scales, exponents = zip(run.left.scales(), run.right.scales(), strict=True)
    return run.scaling(X.longest).scaled(run.values, *scales, exponents)


def diagonal(
    request: Request,
    X: SignalList,
    tick: Tick,
    of_one_length: Callable[[Request, Array, Tick], ScaledKernel],
) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself; `of_one_length` is for arrays."""
    order, runs = X.order, X.runs()
    parts = [of_one_length(request, run.signals, tick) for run in runs]
    place = np.argsort(order)
    xp, index = X.xp, X.xp.asarray(place)

    def joined(tables: list[Array]) -> Array:
        whole: Array = xp.concatenate(tables, axis=-1)
        return whole[..., index]

    values = {kind: joined([part.values[kind] for part in parts]) for kind in request.kinds}
    scale = joined([part.left for part in parts])
    exponents = [part.tangent_exponents for part in parts]
    own = joined([both[0] for both in exponents if both is not None])
    return ScaledKernel(values, scale, scale, parts[0].exponents, (own, own))


class Work(NamedTuple):
    """Sizes by which the reference engine cuts its work."""

    entries: int
    """Entries of a tile."""

    table_bytes: int
    """Bytes that the tables of a block of signals may take."""

    threads: int


class SortedSignals:
    """Signals of one side of a Gram, from the longest to the shortest, and their tables."""

    def __init__(self, signals: SignalList, run: UnequalGram) -> None:
        self.runs, self.order = signals.runs(), signals.order
        self.lengths = signals.lengths[self.order]
        self._run = run
        xp, depths = run.xp, len(run.request.depths)
        self._scale = xp.empty(len(signals))
        self._exponents = xp.zeros((depths, len(signals)), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.order)

    def tables(self, cases: slice) -> JoinedTables:
        """Return the tables of consecutive signals."""
        parts = []
        for run, some in self._parts(cases):
            tables = signal_tables(self._run.scaling(run.length), run.signals[some])
            here = self._run.xp.asarray(self.order[run.start + some.start : run.start + some.stop])
            self._scale[here] = tables.scale
            if tables.tangent_exponents:
                for t, depth in enumerate(self._run.request.depths):
                    self._exponents[t, here] = tables.tangent_exponents[depth]
            parts.append(tables)
        return join(parts)

    def select(self, cases: np.ndarray) -> list[Array]:
        """Return signals by their places, which rise: an array for each length."""
        selected = []
        for run in self.runs:
            inside = cases[(cases >= run.start) & (cases < run.stop)] - run.start
            if len(inside):
                selected.append(run.signals[self._run.xp.asarray(inside)])
        return selected

    def scales(self) -> tuple[Array, Array]:
        """Return the scale and the tangents' exponents of each signal, as it came."""
        return self._scale, self._exponents

    def _parts(self, cases: slice) -> Iterator[tuple[Run, slice]]:
        """Yield the runs that have some of the cases, and where in the run these are."""
        for run in self.runs:
            start, stop = max(cases.start, run.start), min(cases.stop, run.stop)
            if start < stop:
                yield run, slice(start - run.start, stop - run.start)


class TileCases(NamedTuple):
    """The cases of a tile: places among the sorted signals, and the tables of a block of each."""

    left: slice
    right: slice
    left_block: tuple[int, JoinedTables]
    right_block: tuple[int, JoinedTables]


class UnequalGram:
    """The Gram matrix of one request on signals of different lengths, cut into tiles."""

    def __init__(self, request: Request, X: SignalList, Z: SignalList, work: Work) -> None:
        self.request, self.xp, self._work = request, X.xp, work
        self._n_channels = X.n_channels
        self._scalings = {X.longest: Scaling(request, X.n_channels, X.longest)}
        self.left = SortedSignals(X, self)
        self.right = self.left if Z is X else SortedSignals(Z, self)
        shape = len(X), len(Z)
        self.values = {kind: self.xp.empty((len(request.depths), *shape)) for kind in request.kinds}
        self._doubtful = np.zeros(shape, dtype=bool)  # by places among the sorted signals

    def scaling(self, length: int) -> Scaling:
        """Return the constants of the layers for signals of a length."""
        if length not in self._scalings:
            any_length = next(iter(self._scalings.values()))
            self._scalings[length] = any_length.of_length(length)
        return self._scalings[length]

    # -- how the work is cut into tiles

    def tiles(self, symmetric: bool) -> Iterator[list[TileCases]]:
        """Yield the tiles of each block of left with each block of right signals."""
        for rows in self._blocks(self.left):
            left = rows.start, self.left.tables(rows)
            for columns in self._blocks(self.right):
                if symmetric and columns.stop <= rows.start:
                    continue  # below the diagonal
                same = symmetric and columns == rows
                right = left if same else (columns.start, self.right.tables(columns))
                yield list(self._tiles(rows, columns, left, right, symmetric))

    def _blocks(self, side: SortedSignals) -> Iterator[slice]:
        """Yield blocks of signals whose tables take at most `Work.table_bytes`."""
        sizes = [self.scaling(int(d)).bytes_per_case(self._n_channels) for d in side.lengths]
        return cut(np.array(sizes), self._work.table_bytes)

    def _tiles(
        self,
        rows: slice,
        columns: slice,
        left: tuple[int, JoinedTables],
        right: tuple[int, JoinedTables],
        symmetric: bool,
    ) -> Iterator[TileCases]:
        for run, some in self.left._parts(rows):
            longest = int(self.right.lengths[columns.start])
            most = max(1, min(_MOST_LEFT, self._work.entries // (run.length * longest)))
            for part in blocks(run.start + some.start, run.start + some.stop, most):
                first = max(part.start, columns.start) if symmetric else columns.start
                lengths = self.right.lengths[first : columns.stop]
                entries = run.length * lengths * (part.stop - part.start)
                for cases in cut(entries, self._work.entries):
                    there = slice(first + cases.start, first + cases.stop)
                    yield TileCases(part, there, left, right)

    def batches(self, symmetric: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the doubtful pairs in batches: places of left signals of one length, and right."""
        for run in self.left.runs:
            pairs = np.argwhere(self._doubtful[run.start : run.stop].T)[:, ::-1]
            lefts, rights = pairs[:, 0] + run.start, pairs[:, 1]
            if symmetric:
                lefts, rights = (side[pairs[:, 1] >= lefts] for side in (lefts, rights))
            for some in cut(run.length * self.right.lengths[rights], self._work.entries):
                yield lefts[some], rights[some]

    # -- a tile

    def fill_tile(self, tile: TileCases) -> int:
        """Compute one tile of `values`, and return its number of pairs of cases."""
        (left_start, left), (right_start, right) = tile.left_block, tile.right_block
        own = left.cases(_shifted(tile.left, left_start)).of_one_length()
        other = right.cases(_shifted(tile.right, right_start))
        length = int(self.left.lengths[tile.left.start])
        rows = Rows.of(length, other.lengths)
        plan = self._plan(rows, lambda table: table[..., None, None])
        shape = len(self.request.depths), len(own.scale), len(other.lengths)
        out = {kind: self.xp.empty(shape) for kind in self.request.kinds}
        doubtful = self._tile(length, own, other.tables, plan).compute(out)
        self._write(out, tile.left, tile.right)
        self._doubtful[tile.left, tile.right] = (
            doubtful if self.xp is np else self.xp.asnumpy(doubtful)
        )
        return len(own.scale) * len(other.lengths)

    def repeat(self, pairs: tuple[np.ndarray, np.ndarray]) -> None:
        """Compute some pairs of `values` again, in deficits."""
        lefts, rights = pairs
        length = int(self.left.lengths[lefts[0]])
        scaling = self.scaling(length)
        (run,) = (run for run in self.left.runs if run.length == length)
        signals = run.signals[self.xp.asarray(lefts - run.start)]
        others = self.right.select(rights)
        rows = Rows.of(length, self.right.lengths[rights])
        case = self.xp.asarray(rows.case)
        plan = self._plan(rows, lambda table: table[..., case][..., None, :, None], paired=True)
        shape = len(self.request.depths), 1, len(lefts)
        out = {kind: self.xp.empty(shape) for kind in self.request.kinds}
        scalings = [self.scaling(other.shape[2]) for other in others]
        tables = [signal_tables(*both) for both in zip(scalings, others, strict=True)]
        tile = self._tile(length, signal_tables(scaling, signals), join(tables).tables, plan)
        variance = read_input(scaling, signals).variance

        def masses(axes: Axes) -> RootMasses:
            return RootMasses(scaling, self.xp, variance, axes)

        def other_masses(axes: Axes) -> JoinedMasses:
            parts = [
                RootMasses(own, self.xp, read_input(own, other).variance, lambda table: table)
                for own, other in zip(scalings, others, strict=True)
            ]
            return JoinedMasses(self.xp, parts, axes)

        tile.compute(out, (masses, other_masses))
        for kind, value in out.items():
            here = (
                self.xp.asarray(self.left.order[lefts]),
                self.xp.asarray(self.right.order[rights]),
            )
            self.values[kind][:, here[0], here[1]] = value[:, 0]
            if self.left is self.right:
                self.values[kind][:, here[1], here[0]] = value[:, 0]

    def _plan(self, rows: Rows, left: Axes, paired: bool = False) -> TilePlan:
        """Return the plan of a tile of rows side by side."""
        xp = self.xp
        pixels = xp.asarray(rows.pixels())

        def right(table: Array) -> Array:
            gathered: Array = table[..., pixels][..., None, :, None]
            return gathered

        return TilePlan(
            [RowBlock(left, right)], xp.asarray(rows.pixel_pairs), rows.axis(xp), paired
        )

    def _tile(self, length: int, left: SignalTables, right: SignalTables, plan: TilePlan) -> Tile:
        return Tile(self.request, self.scaling(length), left, right, plan)

    def _write(self, out: dict[str, Array], rows: slice, columns: slice) -> None:
        """Write a tile to the places of its signals in the batch; twice, if symmetric."""
        here = self.xp.asarray(self.left.order[rows])
        there = self.xp.asarray(self.right.order[columns])
        for kind, value in out.items():
            self.values[kind][:, here[:, None], there] = value
            if self.left is self.right:
                self.values[kind][:, there[:, None], here] = value.swapaxes(1, 2)


def _shifted(cases: slice, start: int) -> slice:
    """Return the places of cases in a block that begins with the case `start`."""
    return slice(cases.start - start, cases.stop - start)
