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
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import Array, Batch, array_module, channels_and_length, library
from .errors import check_pooled
from .geometry import Rows
from .masses import ExactInput, read_exactly
from .ordered import OrderedSignals
from .protocol import Request, ScaledKernel, Tick, blocks, cut, pool_of
from .scaling import Scaling, scaling_of
from .signal_tables import SignalTables, joined, signal_tables
from .tile import Tile

_TILE_ENTRIES = 48_000
"""Entries (pixel pairs) of a tile.

A layer makes about sixty passes over two dozen arrays of this size. With more entries the arrays
leave the cache; with fewer the calls, and the threads' waiting for Python's lock, cost more than
the arithmetic. Measured (one thread, GAP and trace, both precisions, d = 100):
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

More entries make tiles of few left cases; with fewer, NumPy spends its time starting loops. Chosen
by reasoning: 32 float32 numbers are a few vector instructions.
"""

_TABLE_BYTES = 32 * 2**20
"""Bytes that the tables of one block of signals may take.

More bytes take more memory, in all some five times as many; with fewer, tables of right signals
are made more often. Chosen by reasoning.
"""

_MOST_LEFT = 8
"""Most left cases of a tile that not all right cases fit in.

All left cases share the tables of right signals, which are gathered for each tile and layer. More
leave room for fewer right signals. Chosen by reasoning: each number gathered serves 8 pixel pairs.
"""


@cache
def keep_freed_memory() -> None:
    """Let glibc keep the memory of freed arrays for the next ones, in this process.

    glibc keeps freed blocks up to the size of the largest block that was freed, of 32 MiB at most.
    Without this block a tile's arrays go back to the system at each step. A call then takes 1.7
    times as long (12 signals, d = 100, depth 5, GAP). The block's pages are never touched.
    """
    np.empty(31 * 2**20, np.uint8)


def prepared(request: Request, X: Batch) -> Batch:
    """Return the signals themselves: their tables cost little beside this engine's tiles."""
    return X


def gram(request: Request, X: Batch, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    keep_freed_memory()
    run = ReferenceGram(request, X, Z)
    values = run.results(len(X), len(X if Z is None else Z))
    doubtful = np.zeros((len(run.left.order), len(run.right.order)), dtype=bool)
    with run.pool() as pool:
        for tiles in run.tiles():
            for done in pool.map(partial(run.fill_tile, values, doubtful), tiles):
                tick(done)
        pairs = np.nonzero(np.triu(doubtful) if run.symmetric else doubtful)
        list(pool.map(partial(run.repeat, values), run.batches(*pairs)))
    return run.scaled(values)


def paired(request: Request, X: Batch, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with the same case of `Z` (None: with itself)."""
    run = ReferenceGram(request, X, Z)
    values = run.results(len(X))
    for lefts, rights in run.batches(np.argsort(run.left.order), np.argsort(run.right.order)):
        tile, out = run.paired_tile(lefts, rights), run.results(1, len(lefts))
        doubtful = tile.compute(out)[0]
        again = run._on_host(doubtful)
        if again.any():
            for kind, value in run.in_deficits(lefts[again], rights[again]).items():
                out[kind][:, 0, doubtful] = value
        if Z is None and request.may_cancel:
            check_pooled(out, tile.left.bounds, request.depths)
        for kind, value in out.items():
            values[kind][:, run.xp.asarray(run.left.order[lefts])] = value[:, 0]
        tick(len(lefts))
    return run.scaled(values)


def in_deficits(request: Request, X: Array, Z: Array) -> dict[str, Array]:
    """Return the kernels, (depth, case), of each case of `X` with the same case of `Z`.

    They are unscaled, as the results of a `Tile`.
    """
    cases = np.arange(len(X))
    return ReferenceGram(request, X, Z).in_deficits(cases, cases)


class ReferenceSignals(OrderedSignals):
    """The signals of X or of Z with their tables.

    With `windows`, pixels have the vectors of their windows of the input filter, or their own.
    """

    windows = True

    def __init__(self, batch: Batch, scaling: Callable[[int], Scaling]) -> None:
        super().__init__(batch)
        self._scaling = scaling

    def tables(self, cases: Any) -> SignalTables:
        """Return the joined tables of signals by their places: a slice or an array."""
        parts = self.of_each_length(cases, self._scaling)
        tables = joined([signal_tables(*part, self.windows) for part in parts])
        self.scale[array_module(self.scale).asarray(self.order[cases])] = tables.scale
        return tables

    def part(self, tables: SignalTables, block: slice, cases: slice) -> SignalTables:
        """Return the tables of some of the cases of a block."""
        start, stop = self.begins[[cases.start, cases.stop]] - self.begins[block.start]
        places = slice(cases.start - block.start, cases.stop - block.start)
        return tables.selected(slice(int(start), int(stop)), places)

    def exact_inputs(self, cases: Any) -> list[ExactInput]:
        """Return the input's pixels of the signals of each length."""
        parts = self.of_each_length(cases, self._scaling)
        return [read_exactly(*part, self.windows) for part in parts]


class ReferenceGram:
    """The kernels of one request, cut into tiles.

    Cases are numbered by their places among the sorted signals. A tile has some `tile_entries`
    pixel pairs.
    """

    def __init__(self, request: Request, X: Batch, Z: Batch | None) -> None:
        self.tile_entries = _TILE_ENTRIES
        self.request, self.xp, self.symmetric = request, library(X), Z is None
        self._n_channels, self._longest = channels_and_length(X)
        self._scalings = {self._longest: scaling_of(request, self._n_channels, self._longest)}
        self.left = self.right = ReferenceSignals(X, self.scaling)
        if Z is not None:
            self.right = ReferenceSignals(Z, self.scaling)

    def scaling(self, length: int) -> Scaling:
        """Return the constants of the layers for signals of a length."""
        if length not in self._scalings:
            self._scalings[length] = self._scalings[self._longest].of_length(length)
        return self._scalings[length]

    def results(self, *cases: int) -> dict[str, Array]:
        """Return arrays for results, (depths, *cases, …) for each kind."""
        axes = 2 if self.request.head == "pixels" else int(self.request.shares)
        shape = (len(self.request.depths), *cases, *[self._longest] * axes)
        return {kind: self.xp.zeros(shape) for kind in self.request.kinds}

    def scaled(self, values: dict[str, Array]) -> ScaledKernel:
        """Return finished values with the scales of both sides."""
        scaling, (left, right) = self.scaling(self._longest), (self.left, self.right)
        for value in values.values():
            scaling.finish(value, symmetric=False)
        lengths = left.lengths[np.argsort(left.order)]
        return scaling.scaled(values, left.scale, right.scale, lengths)

    def pool(self) -> Any:
        """Return a pool of threads; a device computes what one thread asks for."""
        threads = (self.request.threads or _THREADS) if self.xp is np else 1
        return pool_of(threads if threads > 1 else 0)

    # -- how the work is cut into tiles

    def tiles(self) -> Iterator[list[tuple[slice, slice, SignalTables, SignalTables]]]:
        """Yield the tiles of each block of left with each block of right signals.

        A tile has the places and the tables of its left and right cases.
        """
        for rows in self._table_blocks(self.left):
            left = self.left.tables(rows)
            for columns in self._table_blocks(self.right):
                if self.symmetric and columns.stop <= rows.start:
                    continue  # below the diagonal
                right = left
                if not (self.symmetric and columns == rows):
                    right = self.right.tables(columns)
                left_part = partial(self.left.part, left, rows)
                right_part = partial(self.right.part, right, columns)
                cases = self._cut(rows, columns)
                yield [(i, k, left_part(i), right_part(k)) for i, k in cases]

    def _table_blocks(self, side: ReferenceSignals) -> Iterator[slice]:
        """Yield blocks of signals whose tables take at most `_TABLE_BYTES`."""
        sizes = [self.scaling(int(d)).bytes_per_case(self._n_channels) for d in side.lengths]
        return cut(np.array(sizes), _TABLE_BYTES)

    def _cut(self, rows: slice, columns: slice) -> Iterator[tuple[slice, slice]]:
        """Yield the left and right cases of each tile; on and above the diagonal if symmetric."""
        changes = np.flatnonzero(np.diff(self.left.lengths[rows])) + 1
        ends = [rows.start, *(rows.start + changes).tolist(), rows.stop]
        for start, stop in pairwise(ends):
            pixel_pairs = self._pixel_pairs(start, self.right.lengths[columns])
            few = min(_MOST_LEFT, self.tile_entries // int(pixel_pairs.max()))
            most = max(1, few, self.tile_entries // int(pixel_pairs.sum()))
            for part in blocks(start, stop, most):
                first = max(part.start, columns.start) if self.symmetric else columns.start
                entries = pixel_pairs[first - columns.start :] * (part.stop - part.start)
                for cases in cut(entries, self.tile_entries):
                    yield part, slice(first + cases.start, first + cases.stop)

    def _pixel_pairs(self, left: int, lengths: np.ndarray) -> np.ndarray:
        """Return the number of pixel pairs of a left case with right cases of these lengths."""
        d = int(self.left.lengths[left])
        return d * (lengths if self._all_offsets else np.ones_like(lengths))

    @property
    def _all_offsets(self) -> bool:
        return self.request.head in ("gap", "pixels")

    def batches(
        self, lefts: np.ndarray, rights: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs of cases in batches: left cases of one length, and rising right cases."""
        for length in np.unique(self.left.lengths[lefts]):
            of_length = np.flatnonzero(self.left.lengths[lefts] == length)
            of_length = of_length[np.argsort(rights[of_length], kind="stable")]
            left_cases, right_cases = lefts[of_length], rights[of_length]
            entries = self._pixel_pairs(int(left_cases[0]), self.right.lengths[right_cases])
            for some in cut(entries, self.tile_entries):
                yield left_cases[some], right_cases[some]

    # -- a tile

    def fill_tile(
        self,
        values: dict[str, Array],
        doubtful: np.ndarray,
        cases: tuple[slice, slice, SignalTables, SignalTables],
    ) -> int:
        """Compute one tile of `values` and `doubtful`, and return its number of pairs of cases."""
        i, k, left, right = cases
        rows, columns = self.left.order[i], self.right.order[k]
        tile = self._tile(i.start, left, right, self.right.lengths[k], paired=False)
        out = self.results(len(rows), len(columns))
        doubtful[i, k] = self._on_host(tile.compute(out))
        self._write(values, out, rows[:, None], columns)
        return len(rows) * len(columns)

    def paired_tile(self, lefts: np.ndarray, rights: np.ndarray) -> Tile:
        """Return the tile of left cases of one length with the right cases of the same number."""
        left, right = self.left.tables(lefts), self.right.tables(rights)
        return self._tile(int(lefts[0]), left, right, self.right.lengths[rights], paired=True)

    def repeat(self, values: dict[str, Array], pairs: tuple[np.ndarray, np.ndarray]) -> None:
        """Compute pairs of `values` again, in deficits."""
        lefts, rights = pairs
        rows, columns = self.left.order[lefts], self.right.order[rights]
        self._write(values, self.in_deficits(lefts, rights), rows, columns)

    def in_deficits(self, lefts: np.ndarray, rights: np.ndarray) -> dict[str, Array]:
        """Return the kernels, (depth, pair), of a batch of pairs."""
        tile, out = self.paired_tile(lefts, rights), self.results(1, len(lefts))
        tile.compute(out, (self.left.exact_inputs(lefts), self.right.exact_inputs(rights)))
        return {kind: value[:, 0] for kind, value in out.items()}

    def _tile(
        self, first: int, left: SignalTables, right: SignalTables, lengths: np.ndarray, paired: bool
    ) -> Tile:
        """Return the tile of left cases, the first of which is `first`, with right cases."""
        d, left_cases = int(self.left.lengths[first]), 1 if paired else len(left.scale)
        rows = Rows.of(d, lengths, self._all_offsets, self.request.width)
        block = max(_SHORTEST_RUN, self.tile_entries // (d * left_cases))
        return Tile(self.request, self.scaling(d), left, right, rows, block, paired=paired)

    def _on_host(self, values: Array) -> np.ndarray:
        return np.asarray(values if self.xp is np else self.xp.asnumpy(values))

    def _write(
        self,
        values: dict[str, Array],
        out: dict[str, Array],
        lefts: np.ndarray,
        rights: np.ndarray,
    ) -> None:
        """Write kernels to the places of their signals in the batch; twice, if symmetric."""
        rows, columns = self.xp.asarray(lefts), self.xp.asarray(rights)
        for kind, value in out.items():
            values[kind][:, rows, columns] = value
            if self.symmetric:  # for pixel pairs, (z, x) at (j', j) is (x, z) at (j, j')
                pixels = value.swapaxes(-1, -2) if self.request.head == "pixels" else value
                values[kind][:, columns, rows] = pixels
