"""The reference engine: the recursion over layers as array code, for NumPy and CuPy arrays.

A convolution moves both pixels of a pair together, so it never mixes two offsets
``δ = j' − j``. The d x d pixel pairs of two signals fall apart into d independent *rows*
``(j, j + δ)``, circular sequences of length d. The equivariant and trace heads need row 0
alone, GAP needs all rows. Nothing of the size of all pixel pairs of all cases is stored.

Arrays have the axes ``(pixel j, left case, offset δ, right case)``, so that a shift by one
pixel is a slice (boxes.py). A *tile* is a set of cases and offsets small enough for the cache.
It goes through all layers (recursion.py) before the next one starts; its arrays are allocated
once per thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from ..arrays import Array, array_module
from ..signals import Batch, SignalList, library
from . import unequal
from .deficits import RootMasses
from .errors import check_pooled, may_cancel
from .geometry import OFFSETS
from .pool import pool_of
from .protocol import Request, ScaledKernel, Tick, blocks, silent
from .scaling import Scaling
from .signal_tables import SignalTables, read_input, signal_tables, wrap
from .tile import Axes, RowBlock, Tile, TilePlan

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


# glibc keeps freed memory of up to twice the largest block that was freed, if that block had at
# most 32 MiB. Without this block it gives the memory of a tile's arrays back to the system at each
# step, which costs half of the time again (depth 5, d = 100, GAP and trace; AMD EPYC).
np.empty(31 * 2**20, np.uint8)


def gram(request: Request, X: Batch, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    if may_cancel(request):
        for signals in [X] if Z is None else [X, Z]:
            diagonal(request, signals, silent)  # raises an error where kernels are not resolved
    if isinstance(X, SignalList):
        work = unequal.Work(_TILE_ENTRIES, _TABLE_BYTES, _threads(request, X))
        return unequal.gram(request, X, cast(SignalList | None, Z), tick, work)
    return _gram(request, X, cast(Array | None, Z), tick)


def diagonal(request: Request, X: Batch, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    if isinstance(X, SignalList):
        return unequal.diagonal(request, X, tick, _diagonal)
    return _diagonal(request, X, tick)


def _threads(request: Request, X: Batch) -> int:
    """Return the number of threads. A device computes what one thread asks for."""
    return (request.threads or _THREADS) if library(X) is np else 1


def _gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernels of signals of one length."""
    work = ReferenceGram(request, X)
    symmetric, others = Z is None, X if Z is None else Z
    doubtful = work.xp.zeros((len(X), len(others)), dtype=bool)
    n, m = len(X), len(others)
    tail = (work.d, work.d) if request.head == "pixels" else ()
    values = work.results((n, m, *tail))
    left_scale, right_scale = work.xp.empty(n), work.xp.empty(m)
    left_exponents, right_exponents = work.exponents(n), work.exponents(m)
    with pool_of(_threads(request, X)) as pool:
        for rows in blocks(0, n, work.cases_per_block):
            left = Block(rows.start, signal_tables(work.scaling, X[rows]))
            left_scale[rows] = left.tables.scale
            left.tables.write_exponents(request.depths, left_exponents[:, rows])
            for columns in blocks(0, m, work.columns_per_tile(m)):
                if symmetric and columns.stop <= rows.start:
                    continue  # below the diagonal
                tables = signal_tables(work.scaling, others[columns])
                right_scale[columns] = tables.scale
                tables.write_exponents(request.depths, right_exponents[:, columns])
                right = Block(columns.start, tables.wrapped(work.scaling.offsets))
                fill = partial(work.fill_tile, values, doubtful, left, right)
                for done in pool.map(fill, work.tiles(rows, columns, symmetric)):
                    tick(done)
        pairs = work.xp.nonzero(doubtful)
        batches = blocks(0, len(pairs[0]), work.pairs_per_tile)
        for _ in pool.map(partial(work.repeat, values, X, others, pairs), batches):
            pass
    for value in values.values():
        work.scaling.finish(value, symmetric)
    exponents = left_exponents, right_exponents
    return work.scaling.scaled(values, left_scale, right_scale, exponents)


def _diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each signal of one length with itself."""
    work = ReferenceGram(request, X)
    values = work.results((1, len(X)))
    scale, exponents = work.xp.empty(len(X)), work.exponents(len(X))
    for cases in blocks(0, len(X), work.columns_per_tile(len(X))):
        tables = signal_tables(work.scaling, X[cases])
        scale[cases] = tables.scale
        tables.write_exponents(request.depths, exponents[:, cases])
        out = {kind: value[:, :, cases] for kind, value in values.items()}
        doubtful = work.compute(tables, tables.wrapped(work.scaling.offsets), out, paired=True)
        again = cases.start + work.xp.flatnonzero(doubtful)
        for some in blocks(0, len(again), work.pairs_per_tile):
            signals = X[again[some]]
            for kind, value in work.in_deficits(signals, signals).items():
                values[kind][:, 0, again[some]] = value
        if may_cancel(request):
            check_pooled(out, tables.bounds, request.depths)
        tick(cases.stop - cases.start)
    for value in values.values():
        work.scaling.finish(value, symmetric=False)
    values = {kind: value[:, 0] for kind, value in values.items()}
    return work.scaling.scaled(values, scale, scale, (exponents, exponents))


class Block(NamedTuple):
    """Tables of consecutive cases of a batch, from the case `start` on."""

    start: int
    tables: SignalTables

    def cases(self, cases: slice) -> SignalTables:
        """Return the tables of some cases, numbered as in the batch."""
        return self.tables.cases(slice(cases.start - self.start, cases.stop - self.start))


class ReferenceGram:
    """The Gram matrix of one request on signals of one shape, cut into tiles."""

    def __init__(self, request: Request, X: Array) -> None:
        _, n_channels, self.d = X.shape
        self.xp, self.request = array_module(X), request
        self.scaling = Scaling(request, n_channels, self.d)
        self.offsets = self.scaling.offsets
        self.cases_per_block = max(1, _TABLE_BYTES // self.scaling.bytes_per_case(n_channels))

    def results(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return arrays for the results, (depths, *shape) for each kind."""
        shape = (len(self.request.depths), *shape)
        return {kind: self.xp.empty(shape, dtype=np.float64) for kind in self.request.kinds}

    def exponents(self, cases: int) -> Array:
        """Return zeros for the exponents of the tangent kernels of some cases."""
        return self.xp.zeros((len(self.request.depths), cases), dtype=np.int64)

    # -- how the work is cut into tiles

    def columns_per_tile(self, m: int) -> int:
        """Return the number of right cases that go through the layers together."""
        if self.offsets > 1:  # the innermost axes run over offsets as well
            return max(1, min(m, _TILE_ENTRIES // (self.d * self.d), self.cases_per_block // 2))
        most = _TILE_ENTRIES // self.d
        return max(1, min(m, most if most >= _SHORTEST_RUN else 1, self.cases_per_block))

    def tiles(self, rows: slice, columns: slice, symmetric: bool) -> Iterator[tuple[slice, slice]]:
        """Yield the left and right cases of each tile; on and above the diagonal if symmetric."""
        start, stop = rows.start, min(rows.stop, columns.stop) if symmetric else rows.stop
        while start < stop:
            first = max(start, columns.start) if symmetric else columns.start
            size = max(1, _TILE_ENTRIES // (self.d * self.offsets * (columns.stop - first)))
            yield slice(start, min(start + size, stop)), slice(first, columns.stop)
            start += size

    @property
    def pairs_per_tile(self) -> int:
        """The number of pairs of cases that go through the layers together in deficits."""
        return max(1, _TILE_ENTRIES // (self.d * self.offsets))

    def _offsets(self, cases: int) -> Iterator[tuple[slice, Callable[[Array], Array]]]:
        """Yield blocks of offsets δ, and the map of right tables to pixels j + δ.

        The map takes wrapped tables (…, pixel, case) to the axes (…, j, 1, δ, case). A table
        seen through a sliding window is a view, with the stride of the pixel axis for both j
        and δ.
        """
        size = max(_SHORTEST_RUN, _TILE_ENTRIES // (self.d * cases))
        for offsets in blocks(0, self.offsets, size):

            def view(table: Array, offsets: slice = offsets) -> Array:
                pixel, case = table.strides[-2:]
                return self.xp.lib.stride_tricks.as_strided(
                    table[..., offsets, :],
                    shape=(*table.shape[:-2], self.d, 1, offsets.stop - offsets.start, cases),
                    strides=(*table.strides[:-2], pixel, pixel, pixel, case),
                )

            yield offsets, view

    # -- a tile

    def fill_tile(
        self,
        values: dict[str, Array],
        doubtful: Array,
        left: Block,
        right: Block,
        tile: tuple[slice, slice],
    ) -> int:
        """Compute one tile of `values` and `doubtful`, and return its number of pairs of cases."""
        rows, columns = tile
        out = {kind: value[:, rows, columns] for kind, value in values.items()}
        doubtful[rows, columns] = self.compute(left.cases(rows), right.cases(columns), out)
        return (rows.stop - rows.start) * (columns.stop - columns.start)

    def compute(
        self, left: SignalTables, right: SignalTables, out: dict[str, Array], paired: bool = False
    ) -> Array:
        """Compute the kernels of all left with all right cases, or of equal ones (`paired`).

        As `Tile.compute`. The tables of `right` are wrapped.
        """
        tile = self._tile(left, right, paired)
        return tile.compute(out)

    def _tile(self, left: SignalTables, right: SignalTables, paired: bool) -> Tile:
        """Return the tile of all left with all right cases, whose tables are wrapped."""
        axes = _pairs_axes if paired else _cases_axes
        views = self._offsets(len(right.scale))
        blocks = (RowBlock(axes, view, offsets) for offsets, view in views)
        plan = TilePlan(blocks, self.d * self.offsets, OFFSETS, paired)
        return Tile(self.request, self.scaling, left, right, plan)

    def repeat(
        self, values: dict[str, Array], X: Array, Z: Array, pairs: tuple[Array, Array], some: slice
    ) -> None:
        """Compute some of the `pairs` of `values` again, in deficits."""
        rows, columns = pairs[0][some], pairs[1][some]
        for kind, value in self.in_deficits(X[rows], Z[columns]).items():
            values[kind][:, rows, columns] = value

    def in_deficits(self, X: Array, Z: Array) -> dict[str, Array]:
        """Return the kernels, (depth, case), of each case of `X` with the same case of `Z`."""
        tail = (self.d, self.d) if self.request.head == "pixels" else ()
        out = self.results((1, len(X), *tail))
        tables = [signal_tables(self.scaling, signals) for signals in (X, Z)]
        one, other = (read_input(self.scaling, signals).variance for signals in (X, Z))
        tile = self._tile(tables[0], tables[1].wrapped(self.offsets), paired=True)

        def masses(axes: Axes) -> RootMasses:
            return RootMasses(self.scaling, self.xp, one, axes)

        def other_masses(axes: Axes) -> RootMasses:
            def show(table: Array) -> Array:
                return axes(wrap(table, self.offsets))

            return RootMasses(self.scaling, self.xp, other, show)

        tile.compute(out, (masses, other_masses))
        return {kind: value[:, 0] for kind, value in out.items()}


def _cases_axes(table: Array) -> Array:
    """Return a left table (…, pixel, case) with the axes of a tile."""
    return table[..., None, None]


def _pairs_axes(table: Array) -> Array:
    """Return a left table (…, pixel, case), whose cases meet the right cases one by one."""
    return table[..., None, None, :]
