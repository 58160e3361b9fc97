"""The reference engine: the recursion over layers as array code, for NumPy and CuPy arrays.

A convolution moves both pixels of a pair together, so it never mixes two offsets
``δ = j' − j``. The d x d' pixel pairs of two signals fall apart into d' *rows* ``(j, j + δ)``.
With signals of one length rows are circular sequences; else they go on in one another
(geometry.py). The equivariant and trace heads need row 0 alone, GAP needs all rows. Nothing of
the size of all pixel pairs of all cases is stored.

Signals are sorted by length. A *tile* is a set of left signals of one length and of right signals,
small enough for the cache. Its arrays have the axes (pixel j, left case, row, 1), so that a shift
by one pixel is a slice (boxes.py). A tile goes through all layers (recursion.py) before the next
one starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..arrays import Array, Batch, channels_and_length, library
from .deficits import RootMasses
from .errors import check_pooled, may_cancel
from .geometry import Rows
from .joined_tables import JoinedTables, SortedSignals
from .pool import pool_of
from .protocol import Request, ScaledKernel, Tick, blocks, cut, silent
from .scaling import Scaling
from .signal_tables import SignalTables
from .tile import Tile

_TILE_ENTRIES = 48_000
"""Entries (pixel pairs) of a tile.

A layer makes about sixty passes over two dozen arrays of this size. With more entries the arrays
leave the cache; with fewer the calls, and the threads' waiting for Python's lock, cost more than
the arithmetic. Measured on an AMD EPYC (one thread, GAP and trace, both precisions, d = 100):
32 000 to 96 000 are level within 15 %, 16 000 costs 20 to 70 % more.
"""

_THREADS = min(4, os.cpu_count() or 1)
"""Threads, if the caller names no number.

NumPy releases Python's lock while it runs through an array, so tiles run side by side. More
threads wait for the lock between arrays. Chosen by reasoning: at most 4, measured on two cores
only.
"""

_SHORTEST_RUN = 32
"""Entries that the innermost axes of a tile have at least, where there are so many cases.

More entries make tiles of few left cases; fewer entries let NumPy spend its time starting
loops. Chosen by reasoning: 32 float32 numbers are a few vector instructions.
"""

_TABLE_BYTES = 64 * 2**20
"""Bytes that the tables of one block of signals may take.

More bytes take more memory; fewer make the tables of right signals more often, once for each
block of left signals. Chosen by reasoning.
"""

_MOST_LEFT = 8
"""Most left cases of a tile that not all right cases fit in.

The tables of right signals are gathered for each tile and layer, which all left cases share.
More left cases leave room for fewer right signals. Chosen by reasoning: with 8 cases, each
number gathered serves 8 pixel pairs.
"""

# glibc keeps freed memory of up to twice the largest block that was freed, if that block had at
# most 32 MiB. Without this block it gives the memory of a tile's arrays back to the system at each
# step, which costs half of the time again (depth 5, d = 100, GAP and trace; AMD EPYC).
np.empty(31 * 2**20, np.uint8)


def gram(request: Request, X: Batch, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    if may_cancel(request):
        for signals in [X] if Z is None else [X, Z]:
            diagonal(request, signals, silent)  # raises an error where kernels are not resolved
    run = ReferenceGram(request, X, Z)
    values = run.results(len(run.left.order), len(run.right.order))
    doubtful = np.zeros((len(run.left.order), len(run.right.order)), dtype=bool)
    # A device computes what one thread asks for.
    threads = (request.threads or _THREADS) if run.xp is np else 1
    with pool_of(threads) as pool:
        for tiles in run.tiles():
            for done in pool.map(partial(run.fill_tile, values, doubtful), tiles):
                tick(done)
        lefts, rights = np.nonzero(doubtful)
        above = rights >= lefts if run.symmetric else slice(None)
        batches = run.batches(lefts[above], rights[above])
        for _ in pool.map(partial(run.repeat, values), batches):
            pass
    return run.scaled(values, run.left, run.right)


def diagonal(request: Request, X: Batch, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = ReferenceGram(request, X, None)
    signals, places = run.left, np.arange(len(run.left.order))
    values = run.results(len(places))
    for cases, _ in run.batches(places, places):
        tile = run.paired_tile(cases, cases)
        out = run.results(1, len(cases))
        doubtful = tile.compute(out)[0]
        some = cases[doubtful if run.xp is np else run.xp.asnumpy(doubtful)]
        if len(some):
            for kind, value in run.in_deficits(some, some).items():
                out[kind][:, 0, doubtful] = value
        if may_cancel(request):
            check_pooled(out, tile.left.bounds, request.depths)
        for kind, value in out.items():
            values[kind][:, run.xp.asarray(signals.order[cases])] = value[:, 0]
        tick(len(cases))
    return run.scaled(values, signals, signals)


def in_deficits(request: Request, X: Array, Z: Array) -> dict[str, Array]:
    """Return the kernels, (depth, case), of each case of `X` with the same case of `Z`.

    They are unscaled, as the results of a `Tile`.
    """
    cases = np.arange(len(X))
    return ReferenceGram(request, X, Z).in_deficits(cases, cases)


class TileCases(NamedTuple):
    """The cases of a tile: places among the sorted signals, and the tables of a block of each."""

    left: slice
    right: slice
    left_block: tuple[int, JoinedTables]
    right_block: tuple[int, JoinedTables]


class ReferenceGram:
    """The kernels of one request, cut into tiles.

    Cases are numbered by their places among the sorted signals.
    """

    def __init__(self, request: Request, X: Batch, Z: Batch | None) -> None:
        self.request, self.xp, self.symmetric = request, library(X), Z is None
        self._n_channels, self._longest = channels_and_length(X)
        longest = Scaling(request, self._n_channels, self._longest)
        self._scalings, self._all_offsets = (
            {self._longest: longest},
            request.head in ("gap", "pixels"),
        )
        self.left = SortedSignals(X, self.scaling, request.depths)
        self.right = self.left
        if Z is not None:
            self.right = SortedSignals(Z, self.scaling, request.depths)

    def scaling(self, length: int) -> Scaling:
        """Return the constants of the layers for signals of a length."""
        if length not in self._scalings:
            self._scalings[length] = self._scalings[self._longest].of_length(length)
        return self._scalings[length]

    def results(self, *cases: int) -> dict[str, Array]:
        """Return arrays for results, (depths, *cases, …) for each kind."""
        tail = (self._longest, self._longest) if self.request.head == "pixels" else ()
        shape = (len(self.request.depths), *cases, *tail)
        return {kind: self.xp.empty(shape) for kind in self.request.kinds}

    def scaled(
        self, values: dict[str, Array], left: SortedSignals, right: SortedSignals
    ) -> ScaledKernel:
        """Return finished values with the scales of both sides."""
        scaling = self.scaling(self._longest)
        for value in values.values():
            scaling.finish(value, symmetric=False)
        exponents = left.exponents, right.exponents
        return scaling.scaled(values, left.scale, right.scale, exponents)

    # -- how the work is cut into tiles

    def tiles(self) -> Iterator[list[TileCases]]:
        """Yield the tiles of each block of left with each block of right signals."""
        for rows in self._table_blocks(self.left):
            left = rows.start, self.left.tables(np.arange(rows.start, rows.stop))
            for columns in self._table_blocks(self.right):
                if self.symmetric and columns.stop <= rows.start:
                    continue  # below the diagonal
                right = left
                if not (self.symmetric and columns == rows):
                    right = columns.start, self.right.tables(np.arange(columns.start, columns.stop))
                yield [
                    TileCases(part, cases, left, right) for part, cases in self._cut(rows, columns)
                ]

    def _table_blocks(self, side: SortedSignals) -> Iterator[slice]:
        """Yield blocks of signals whose tables take at most `_TABLE_BYTES`."""
        sizes = [self.scaling(int(d)).bytes_per_case(self._n_channels) for d in side.lengths]
        return cut(np.array(sizes), _TABLE_BYTES)

    def _cut(self, rows: slice, columns: slice) -> Iterator[tuple[slice, slice]]:
        """Yield the left and right cases of each tile; on and above the diagonal if symmetric."""
        changes = np.flatnonzero(np.diff(self.left.lengths[rows])) + 1
        ends = [rows.start, *(rows.start + changes).tolist(), rows.stop]
        for start, stop in pairwise(ends):
            pixel_pairs = self._pixel_pairs(start, self.right.lengths[columns])
            few = min(_MOST_LEFT, _TILE_ENTRIES // int(pixel_pairs.max()))
            most = max(1, few, _TILE_ENTRIES // int(pixel_pairs.sum()))
            for part in blocks(start, stop, most):
                first = max(part.start, columns.start) if self.symmetric else columns.start
                entries = pixel_pairs[first - columns.start :] * (part.stop - part.start)
                for cases in cut(entries, _TILE_ENTRIES):
                    yield part, slice(first + cases.start, first + cases.stop)

    def _pixel_pairs(self, left: int, lengths: np.ndarray) -> np.ndarray:
        """Return the number of pixel pairs of a left case with right cases of these lengths."""
        d = int(self.left.lengths[left])
        return d * lengths if self._all_offsets else np.full_like(lengths, d)

    def batches(
        self, lefts: np.ndarray, rights: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs of cases in batches: left cases of one length, and rising right cases."""
        for length in np.unique(self.left.lengths[lefts]):
            of_length = np.flatnonzero(self.left.lengths[lefts] == length)
            of_length = of_length[np.argsort(rights[of_length], kind="stable")]
            own, other = lefts[of_length], rights[of_length]
            entries = self._pixel_pairs(int(own[0]), self.right.lengths[other])
            for some in cut(entries, _TILE_ENTRIES):
                yield own[some], other[some]

    # -- a tile

    def fill_tile(self, values: dict[str, Array], doubtful: np.ndarray, cases: TileCases) -> int:
        """Compute one tile of `values` and `doubtful`, and return its number of pairs of cases."""
        (left_start, left), (right_start, right) = cases.left_block, cases.right_block
        own = left.cases(_shifted(cases.left, left_start)).of_one_length()
        other = right.cases(_shifted(cases.right, right_start))
        tile = self._tile(cases.left.start, own, other, paired=False)
        n, m = len(own.scale), len(other.lengths)
        out = self.results(n, m)
        found = tile.compute(out)
        doubtful[cases.left, cases.right] = found if self.xp is np else self.xp.asnumpy(found)
        here, there = self.left.order[cases.left][:, None], self.right.order[cases.right]
        self._write(values, out, here, there)
        return n * m

    def paired_tile(self, lefts: np.ndarray, rights: np.ndarray) -> Tile:
        """Return the tile of left cases of one length with the right cases of the same number."""
        own = self.left.tables(lefts).tables
        return self._tile(int(lefts[0]), own, self.right.tables(rights), paired=True)

    def repeat(self, values: dict[str, Array], pairs: tuple[np.ndarray, np.ndarray]) -> None:
        """Compute pairs of `values` again, in deficits."""
        lefts, rights = pairs
        here, there = self.left.order[lefts], self.right.order[rights]
        self._write(values, self.in_deficits(lefts, rights), here, there)

    def in_deficits(self, lefts: np.ndarray, rights: np.ndarray) -> dict[str, Array]:
        """Return the kernels, (depth, pair), of a batch of pairs."""
        tile, out = self.paired_tile(lefts, rights), self.results(1, len(lefts))
        own, other = (
            partial(RootMasses, [(scaling, part.variance) for scaling, part in side.inputs(cases)])
            for side, cases in ((self.left, lefts), (self.right, rights))
        )
        tile.compute(out, (own, other))
        return {kind: value[:, 0] for kind, value in out.items()}

    def _tile(self, first: int, left: SignalTables, right: JoinedTables, paired: bool) -> Tile:
        """Return the tile of left cases, the first of which is `first`, with right cases."""
        length = int(self.left.lengths[first])
        rows = Rows.of(length, right.lengths, self._all_offsets)
        left_cases = 1 if paired else len(left.scale)
        block = max(_SHORTEST_RUN, _TILE_ENTRIES // (length * left_cases))
        scaling = self.scaling(length)
        return Tile(self.request, scaling, left, right.tables, rows, block, paired)

    def _write(
        self, values: dict[str, Array], out: dict[str, Array], here: np.ndarray, there: np.ndarray
    ) -> None:
        """Write kernels to the places of their signals in the batch; twice, if symmetric."""
        rows, columns = self.xp.asarray(here), self.xp.asarray(there)
        for kind, value in out.items():
            values[kind][:, rows, columns] = value
            if self.symmetric:  # for pixel pairs, (z, x) at (j', j) is (x, z) at (j, j')
                pixels = value.swapaxes(-1, -2) if self.request.head == "pixels" else value
                values[kind][:, columns, rows] = pixels


def _shifted(cases: slice, start: int) -> slice:
    """Return the places of cases in a block that begins with the case `start`."""
    return slice(cases.start - start, cases.stop - start)
