"""The reference engine: the recursion of theory.md as array code, for NumPy and CuPy arrays.

A convolution moves both pixels of a pair together, so it never mixes two offsets
``δ = j' − j``. The d x d pixel pairs of two signals fall apart into d independent *rows*
``(j, j + δ)``, circular sequences of length d. The equivariant and trace heads need row 0
alone, GAP needs all rows. Nothing of the size of all pixel pairs of all cases is stored.

Arrays have the axes ``(pixel j, left case, offset δ, right case)``, so that a shift by one
pixel is a slice (rings.py). A *tile* is a set of cases and offsets small enough for the cache.
It goes through all layers (recursion.py) before the next one starts; its arrays are allocated
once per thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arrays import Array, array_module
from . import exact_sum
from .deficits import DeficitRecursion, RootMasses
from .errors import ErrorRecursion, ErrorSums, may_be_unresolved
from .protocol import Request, ScaledKernel, Tick, blocks
from .recursion import Buffers, Recursion, Side, tangent_scale
from .scaling import Scaling
from .signal_tables import SignalTables, map_pixels, read_input, signal_tables, wrap

_TILE_ENTRIES = 96_000
"""Entries (pixel pairs) of a tile.

A layer makes about fifty passes over a dozen arrays of this size. With more entries the arrays
leave the cache; with fewer the calls, and the threads' waiting for Python's lock, cost more
than the arithmetic. Measured on two cores with 1 MiB of second-level cache each and 32 MiB of
third-level cache, for GAP and trace, both precisions, d = 32 … 200: the best values lie between
64 000 and 130 000.
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


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    work = ReferenceGram(request, X)
    symmetric, others = Z is None, X if Z is None else Z
    doubtful = work.xp.zeros((len(X), len(others)), dtype=bool)
    n, m = len(X), len(others)
    tail = (work.d, work.d) if request.head == "pixels" else ()
    values = work.results((n, m, *tail))
    left_scale, right_scale = work.xp.empty(n), work.xp.empty(m)
    left_exponents, right_exponents = work.exponents(n), work.exponents(m)
    with ThreadPoolExecutor(request.threads or _THREADS) as pool:
        run_all = pool.map if work.xp is np else map
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
                for done in run_all(fill, work.tiles(rows, columns, symmetric)):
                    tick(done)
        pairs = work.xp.nonzero(doubtful)
        batches = blocks(0, len(pairs[0]), work.pairs_per_tile)
        for _ in run_all(partial(work.repeat, values, X, others, pairs), batches):
            pass
    for value in values.values():
        work.scaling.finish(value, symmetric)
    exponents = left_exponents, right_exponents
    return work.scaling.scaled(values, left_scale, right_scale, exponents)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
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
        self._buffers = Buffers(self.xp, request.dtype)

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
        self,
        left: SignalTables,
        right: SignalTables,
        out: dict[str, Array],
        *,
        paired: bool = False,
        masses: tuple[Array, Array] | None = None,
    ) -> Array:
        """Compute the kernels of all left with all right cases, or of equal ones (`paired`).

        The tables of `right` are wrapped. `out` has the axes (depth, left case, right case);
        there is one left case if `paired`. With the variances F⁰ of both sides at x = z, j = j',
        `masses`, the kernels are computed in deficits.

        Returns
        -------
        array of bool, (left case, right case)
            True where the distance form has lost digits.
        """

        def left_axes(table: Array) -> Array:
            return table[..., None, None, :] if paired else table[..., None, None]

        depths, head = self.request.depths, self.request.head
        layers = [map_pixels(pixels, left_axes) for pixels in left.layers]
        exponents = [left_axes(table[None])[0] for table in left.tangent_exponents] or None
        given = None if left.vectors is None else left_axes(left.vectors)
        left_side = Side(left_axes(left.unit_vectors), layers, exponents, given)
        means = None
        if head in ("trace", "gap"):
            means = PixelMeans(self._buffers, self.d, self.offsets)
            for kind in self.request.kinds:
                for t, depth in enumerate(depths):
                    bound, other = left.bounds[kind, depth], right.bounds[kind, depth]
                    if not isinstance(bound, float):
                        bound = left_axes(bound[None])[0]
                    means.start(kind, t, bound * other, out[kind][t])
        doubt: Array = self.xp.zeros((1, 1))
        errors = None
        if may_be_unresolved(self.scaling, left, right):
            errors = ErrorSums(self.scaling, self.d * self.offsets)
        for offsets, right_axes in self._offsets(len(right.scale)):
            layers = [map_pixels(pixels, right_axes) for pixels in right.layers]
            given = None if right.vectors is None else right_axes(right.vectors)
            exponents = right.tangent_exponents or None
            sides = left_side, Side(right_axes(right.unit_vectors), layers, exponents, given)
            recursion: Recursion
            if errors is not None:
                recursion = ErrorRecursion(
                    self.request, self.scaling, self._buffers, *sides, errors
                )
            elif masses is None:
                recursion = Recursion(self.request, self.scaling, self._buffers, *sides)
            else:
                one = RootMasses(self.scaling, self.xp, masses[0], left_axes)
                other_masses = RootMasses(
                    self.scaling, self.xp, masses[1], partial(self._wrap, right_axes)
                )
                recursion = DeficitRecursion(
                    self.request, self.scaling, self._buffers, sides, (one, other_masses)
                )
            for depth, kernels in recursion.kernels():
                t = depths.index(depth)
                for kind, kernel in kernels.items():
                    if means is not None:
                        means.add(kind, t, kernel)
                    elif head == "pixels":
                        self._scatter(kernel, offsets, out[kind][t])
                    else:
                        out[kind][t] = kernel[0, :, 0, :]
            doubt = doubt + recursion.doubt
        if errors is not None:
            errors.check(left, right, paired)
        if means is not None:
            means.write()
        if self.scaling.linear_apart:
            self._add_linear_part(left_axes(left.means), right.means, (left_side, sides[1]), out)
        return doubt > self.scaling.most_doubt

    def _add_linear_part(
        self, left: Array, right: Array, sides: tuple[Side, Side], out: dict[str, Array]
    ) -> None:
        """Add the means of F⁰, x̄ · z̄, to kernels whose branches alone were averaged.

        `left` has the axes (channel, left case, 1, 1), or the right case last.
        """
        products = (one[..., 0, :] * other for one, other in zip(left, right, strict=True))
        linear = exact_sum.pairwise(products)
        for t, depth in enumerate(self.request.depths):
            scale = 2.0 ** -self.scaling.exponents[depth]
            initial = self.request.network.parts.initial
            tangent = (scale * initial) * tangent_scale(self.xp, *sides, depth)
            for kind, value in out.items():
                value[t] += (scale if kind == "gpk" else tangent[..., 0, :]) * linear

    def _wrap(self, axes: Callable[[Array], Array], table: Array) -> Array:
        """Return a right table (d, cases) with the axes of the tile."""
        return axes(wrap(table, self.offsets))

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
        right = tables[1].wrapped(self.offsets)
        self.compute(tables[0], right, out, paired=True, masses=(one, other))
        return {kind: value[:, 0] for kind, value in out.items()}

    def _scatter(self, kernel: Array, offsets: slice, out: Array) -> None:
        """Write rows (j, left, δ, right) to pixel pairs (left, right, j, j + δ)."""
        pixel = self.xp.arange(self.d)[:, None]
        other = (pixel + self.xp.arange(offsets.start, offsets.stop)) % self.d
        out[:, :, pixel, other] = kernel.transpose(1, 3, 0, 2)


class PixelMeans:
    """Means of a tile's kernels over all pixels and offsets, whatever the order of the terms."""

    def __init__(self, buffers: Buffers, d: int, offsets: int) -> None:
        self._buffers, self._xp, self._count = buffers, buffers.xp, d * offsets
        self._ones = buffers.xp.ones(d)
        self._sums: dict[tuple[str, int], _Sum] = {}

    def start(self, kind: str, t: int, bound: Array | float, out: Array) -> None:
        """Start a mean of numbers of at most `bound`, to be written to `out`."""
        grids = exact_sum.grids(self._xp, bound, self._count)
        self._sums[kind, t] = _Sum(grids, [self._xp.zeros_like(out) for _ in grids], out)

    def add(self, kind: str, t: int, terms: Array) -> None:
        """Add the sum of `terms`, (j, left case, δ, right case), over j and δ, exactly."""
        array, shape = self._buffers.array, terms.shape
        if terms.dtype != np.float64:
            wide = array("wide", shape, np.float64)
            wide[...] = terms
            terms = wide
        sums = self._sums[kind, t]
        part, rest = (array(name, shape, np.float64) for name in ("part", "rest"))
        parts = exact_sum.split(self._xp, terms, sums.grids, part, rest)
        for total, part in zip(sums.totals, parts, strict=True):
            over_pixels = self._ones @ part.reshape(shape[0], -1)
            total += over_pixels.reshape(shape[1:]).sum(axis=1)

    def write(self) -> None:
        """Write all means."""
        for sums in self._sums.values():
            sums.out[...] = exact_sum.total(sums.totals) / self._count


class _Sum(NamedTuple):
    """A sum in parts, rounded to the `grids` of exact_sum.py."""

    grids: list[Array]
    totals: list[Array]
    out: Array
