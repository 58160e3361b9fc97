"""The reference engine: array code over rows, in the distance form. NumPy, or CuPy as it comes.

A convolution moves both pixels of a pair together, so it never mixes two offsets
``δ = j' − j``: the d x d pixel pairs of two signals fall apart into d independent *rows*
``(j, j + δ)``, circular sequences of length d. The equivariant and trace heads need row 0
alone, GAP needs all rows, and nothing of the size of all pixel pairs of all cases is stored.

Arrays are laid out as ``(pixel j, left case, offset δ, right case)``, pixel first, so that a
shift by one pixel is a slice (rings.py). A tile of cases small enough for the cache goes
through all layers before the next one starts; its arrays are allocated once.

For each pixel pair the recursion carries (L = layers, ⊙ = entrywise)

    D = (q1 + q2)/2 − F     half the squared distance of the features (activations.py says why)
    F ← F + α² box(K)       their covariance, which is the Gaussian process kernel
    A = T + r F             the tangent kernel with the readout trained (r = 1) or frozen (0):
    A ← A + α² box((o + r) K + K̇ ⊙ ((i − r) Σ + c_w box A))

where i, o, r say whether inner, outer and readout weights are trained, A starts as (t + r) F
with t for the input layer, and the leading terms are absent without skip connections.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from ..activations import BY_NAME, Pixels, Scratch
from ..arrays import Array, array_module
from ..rings import fill_halo, moving_sum
from . import exact_sum
from .protocol import Request, ScaledKernel, Tick
from .signal_tables import NEARLY_OPPOSITE, TIE_UNITS, SignalTables, TableMaker, map_pixels

# Entries of a tile. A layer makes about fifty passes over a dozen arrays of this size: with
# few entries the calls, and the threads' waiting for Python's lock, cost more than the
# arithmetic; with many the arrays leave the cache. Best between 64 000 and 130 000 in both
# precisions for GAP and trace, d = 32 ... 200, on two cores with 1 MiB L2 each and 32 MiB L3.
_TILE_ENTRIES = 96_000

# NumPy leaves Python's lock to other threads while it runs through an array, so that tiles of
# this size run side by side. More than a few threads would wait for one another.
_THREADS = min(4, os.cpu_count() or 1)

# A shorter innermost axis would spend its time starting loops, not running them.
_SHORTEST_RUN = 32

# Tables of one block of signals may take this many bytes.
_TABLE_BYTES = 64 * 2**20


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = _Run(request, X)
    n, m = len(X), len(X if Z is None else Z)
    tail = (run.d, run.d) if request.head == "pixels" else ()
    values = run.results((n, m, *tail))
    left_scale, right_scale = run.xp.empty(n), run.xp.empty(m)
    with ThreadPoolExecutor(request.threads or _THREADS) as pool:
        each = pool.map if run.xp is np else map
        for rows in _blocks(0, n, run.cases_per_block):
            left = run.tables.make(X[rows])
            left_scale[rows] = left.scale
            for cols in _blocks(0, m, run.columns_per_tile(m)):
                if Z is None and cols.stop <= rows.start:
                    continue  # below the diagonal
                right = run.tables.make((X if Z is None else Z)[cols])
                right_scale[cols] = right.scale
                views = list(run.right_views(right))

                compute = partial(run.cases, left, rows.start, right, cols.start, views, values)
                for done in each(compute, run.parts(rows, cols, Z is None)):
                    tick(done)
    for value in values.values():
        run.tables.finish(value, symmetric=Z is None)
    return run.tables.scaled(values, left_scale, right_scale)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = _Run(request, X)
    values = run.results((1, len(X)))
    scale = run.xp.empty(len(X))
    for cols in _blocks(0, len(X), run.columns_per_tile(len(X))):
        side = run.tables.make(X[cols])
        scale[cols] = side.scale
        out = {kind: value[:, :, cols] for kind, value in values.items()}
        views = list(run.right_views(side))
        run.tile(side, side, lambda t: t[..., None, None, :], views, slice(None), out)
        tick(cols.stop - cols.start)
    for value in values.values():
        run.tables.finish(value, symmetric=False)
    values = {kind: value[:, 0] for kind, value in values.items()}
    return run.tables.scaled(values, scale, scale)


def _blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` that cover start … stop."""
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


class _Run:
    """One request on signals of one shape: how it is cut up, and the way through a tile."""

    def __init__(self, request: Request, X: Array) -> None:
        _, n_channels, self.d = X.shape
        self.xp = xp = array_module(X)
        self.request, self.network = request, request.network
        self.activation = BY_NAME[self.network.activation]
        self.tables = TableMaker(request, n_channels, self.d, xp)
        self.dtype = np.dtype(request.dtype)
        self.offsets, self.halo = self.tables.offsets, self.tables.halo
        self.cases_per_block = max(1, _TABLE_BYTES // self.tables.bytes_per_case(n_channels))
        self._memory = threading.local()
        self._ones = xp.ones(self.d)

    def results(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return the arrays that the tiles fill, (depths, ...) for each kind."""
        shape = (len(self.request.depths), *shape)
        return {kind: self.xp.empty(shape, dtype=np.float64) for kind in self.request.kinds}

    # -- how the work is cut up

    def columns_per_tile(self, m: int) -> int:
        """Return the number of right cases that go through the layers together."""
        if self.offsets > 1:  # the innermost axis runs over offsets as well
            return max(1, min(m, _TILE_ENTRIES // (self.d * self.d), self.cases_per_block // 2))
        most = _TILE_ENTRIES // self.d
        return max(1, min(m, most if most >= _SHORTEST_RUN else 1, self.cases_per_block))

    def parts(self, rows: slice, cols: slice, symmetric: bool) -> Iterator[tuple[slice, slice]]:
        """Yield the left and right cases of each tile; on and above the diagonal if symmetric."""
        start, stop = rows.start, min(rows.stop, cols.stop) if symmetric else rows.stop
        while start < stop:
            first = max(start, cols.start) if symmetric else cols.start
            size = max(1, _TILE_ENTRIES // (self.d * self.offsets * (cols.stop - first)))
            yield slice(start, min(start + size, stop)), slice(first, cols.stop)
            start += size

    def right_views(self, side: SignalTables) -> Iterator[tuple[slice, Array, list[Pixels]]]:
        """Yield blocks of offsets, and right tables as seen at pixels j + δ: (…, d, 1, δ, k).

        A window that slides over a table is a view of it, with the stride of the pixel axis
        for both j and δ.
        """
        xp, d = self.xp, self.d
        cases = len(side.scale)
        table = self.tables.wrapped(side)
        size = max(_SHORTEST_RUN, _TILE_ENTRIES // (d * cases))
        for some in _blocks(0, self.offsets, size):

            def seen(t: Array, some: slice = some) -> Array:
                pixel, case = t.strides[-2:]
                return xp.lib.stride_tricks.as_strided(
                    t[..., some, :],
                    shape=(*t.shape[:-2], d, 1, some.stop - some.start, cases),
                    strides=(*t.strides[:-2], pixel, pixel, pixel, case),
                )

            yield some, seen(table.units), [map_pixels(p, seen) for p in table.layers]

    # -- memory

    def _scratch(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Return uninitialized memory, a thread's same for the same name whatever the tile."""
        memory, size = self._memory.__dict__.get(name), math.prod(shape)
        if memory is None or memory.size < size:
            dtype = self.dtype if dtype is None else dtype
            memory = self._memory.__dict__[name] = self.xp.empty(size, dtype=dtype)
        return memory[:size].reshape(shape)

    def _ring(self, name: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Return such memory with a halo, and its pixels alone."""
        ring = self._scratch(name, (shape[0] + 2 * self.halo, *shape[1:]))
        return ring, ring[self.halo : self.halo + shape[0]]

    def _box(self, ring: Array, size: int) -> Array:
        """Return the sums over windows of `size` of a ring."""
        shape = (len(ring) - 2 * self.halo, *ring.shape[1:])
        if size == 1:
            return ring[self.halo : self.halo + shape[0]]
        fill_halo(ring, self.halo)
        spare = (self._scratch("box 1", ring.shape), self._scratch("box 2", ring.shape))
        return moving_sum(self.xp, ring, size, self.halo, self._scratch("box", shape), spare)

    # -- a tile

    def cases(
        self,
        left: SignalTables,
        row: int,
        right: SignalTables,
        column: int,
        views: list[tuple[slice, Array, list[Pixels]]],
        values: dict[str, Array],
        part: tuple[slice, slice],
    ) -> int:
        """Fill one part of `values`, and return the number of its pairs of cases.

        The cases of `left` and `right` start at `row` and `column`.
        """
        rows, cols = part
        near = slice(rows.start - row, rows.stop - row)
        far = slice(cols.start - column, cols.stop - column)
        out = {kind: value[:, rows, cols] for kind, value in values.items()}
        self.tile(left, right, lambda t: t[..., near, None, None], views, far, out)
        return (rows.stop - rows.start) * (cols.stop - cols.start)

    def tile(
        self,
        left: SignalTables,
        right: SignalTables,
        near: Callable[[Array], Array],
        views: list[tuple[slice, Array, list[Pixels]]],
        far: slice,
        out: dict[str, Array],
    ) -> None:
        """Compute kernels of some left with some right cases, and write them to `out`.

        `near` shows left tables as (…, d, left case, 1, 1), or with the right case last;
        `views` are the right ones from `right_views`, of which `far` are the cases wanted;
        `out` has (depths, left case, right case).
        """
        units, layers = near(left.units), [map_pixels(p, near) for p in left.layers]
        depths, kinds, head = self.request.depths, self.request.kinds, self.request.head
        if head in ("trace", "gap"):
            count = self.d * self.offsets
            grids = {}
            for key in ((kind, depth) for kind in kinds for depth in depths):
                first, second = left.bounds[key], right.bounds[key]
                if not isinstance(first, float):
                    first, second = near(first[None])[0], second[far]
                grids[key] = exact_sum.grids(self.xp, first * second, count)
            high = {kind: self.xp.zeros_like(value) for kind, value in out.items()}
            low = {kind: self.xp.zeros_like(value) for kind, value in out.items()}
        peaks = [max(pair) for pair in zip(left.peaks, right.peaks, strict=True)]
        for offsets, others_units, others in views:
            others = [map_pixels(p, lambda t: t[..., far]) for p in others]
            for depth, kernels in self._layers(
                units, layers, others_units[..., far], others, peaks
            ):
                t = depths.index(depth)
                for kind, kernel in kernels.items():
                    if head == "equivariant":
                        out[kind][t] = kernel[0, :, 0, :]
                    elif head == "pixels":
                        self._scatter(kernel, offsets, out[kind][t])
                    else:
                        self._add_up(kernel, grids[kind, depth], high[kind][t], low[kind][t])
        if head in ("trace", "gap"):
            for kind in kinds:
                out[kind][...] = (high[kind] + low[kind]) / count

    def _add_up(self, terms: Array, grids: tuple[Array, Array], high: Array, low: Array) -> None:
        """Add the sums of `terms` over pixels and offsets to `high` and `low`, exactly."""
        if terms.dtype != np.float64:
            wide = self._scratch("wide", terms.shape, np.float64)
            wide[...] = terms
            terms = wide
        parts = [self._scratch(name, terms.shape, np.float64) for name in ("high", "low")]
        exact_sum.split(self.xp, terms, *grids, *parts)
        for part, total in zip(parts, (high, low), strict=True):
            over_pixels = self._ones @ part.reshape(self.d, -1)
            total += over_pixels.reshape(terms.shape[1:]).sum(axis=1)

    def _scatter(self, kernel: Array, offsets: slice, out: Array) -> None:
        """Write rows (j, left, δ, right) to pixel pairs (left, right, j, j + δ)."""
        pixel = self.xp.arange(self.d)[:, None]
        other = (pixel + self.xp.arange(offsets.start, offsets.stop)) % self.d
        out[:, :, pixel, other] = kernel.transpose(1, 3, 0, 2)

    def _layers(
        self,
        left_units: Array,
        left: list[Pixels],
        right_units: Array,
        right: list[Pixels],
        peaks: list[float],
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """Pass the layers, and yield the kernels at every pixel pair at each depth asked for.

        The arrays yielded are overwritten by the next layer.
        """
        xp, net, request = self.xp, self.network, self.request
        train_input, inner, outer, readout = net.parts
        want_ntk, want_gpk = "ntk" in request.kinds, "gpk" in request.kinds
        homogeneous = self.activation.homogeneous
        l0, r0 = left[0].half_root, right[0].half_root
        shape = (self.d, l0.shape[1], r0.shape[-2], r0.shape[-1])
        distance_ring, distance = self._ring("distance", shape)  # D
        tangent_ring, tangent = self._ring("tangent", shape)  # A
        both_ring, both = self._ring("both", shape)  # K, after the activation
        gap_ring, gap = self._ring("gap", shape)  # its distance
        source_ring, source = self._ring("source", shape)
        features_ring, features = self._ring("features", shape)  # F
        spare, slope, w, v = (self._scratch(name, shape) for name in ("spare", "slope", "w", "v"))
        free = [self._scratch(name, distance_ring.shape)[: self.d] for name in ("box 1", "box 2")]

        # Layer 0: F, D and A of the features that enter, from w = 1 − ρ of the pixels.
        self._unit_gaps(left_units, right_units, w, v, spare)
        xp.multiply(l0, r0, out=both)
        xp.multiply(both, 2.0, out=both)
        xp.multiply(both, w, out=spare)
        xp.subtract(both, spare, out=features)
        if net.skip:
            xp.subtract(l0, r0, out=distance)
            xp.multiply(distance, distance, out=distance)
            xp.add(distance, spare, out=distance)
        if want_ntk:
            xp.multiply(features, train_input + readout, out=tangent)

        for layer in range(1, request.depths[-1] + 1):
            size = 1 if layer == 1 else net.filter_size
            p, o = left[layer], right[layer]

            # The correlation of the pre-activations, as w = 1 − ρ and v = 1 + ρ.
            xp.subtract(p.half_root, o.half_root, out=gap)
            xp.multiply(gap, gap, out=gap)
            xp.multiply(p.half_root, o.half_root, out=both)
            if layer > 1:
                xp.subtract(self._box(distance_ring, size), gap, out=w)
                self._untie(w, p, o, peaks[layer], gap, spare)
                xp.multiply(p.inverse, o.inverse, out=spare)
                xp.multiply(w, spare, out=w)
                xp.clip(w, 0.0, 2.0, out=w)
                xp.subtract(2.0, w, out=v)

            if not homogeneous:
                v[...] = self._box(features_ring, size)  # Σ takes the place of 1 + ρ

            # The tangent kernel of the pre-activations, (i − r) Σ + c_w box A, in units of c_w/q.
            if want_ntk:
                tangent_g = self._box(tangent_ring, size)
                if inner != readout:
                    if homogeneous:
                        xp.multiply(both, w, out=spare)
                        xp.subtract(both, spare, out=spare)
                        xp.multiply(spare, 2.0 * (inner - readout), out=spare)
                    else:
                        xp.multiply(v, inner - readout, out=spare)
                    tangent_g = xp.add(tangent_g, spare, out=source)

            # Through the activation: `both` becomes α² K/q, `gap` its distance.
            scratch = Scratch(w, v, both, gap, slope, spare, *free)
            unit, factor = self.tables.unit(layer), self.tables.factor(layer)
            self.activation.dual(xp, p, o, scratch, unit, factor, want_ntk)
            if want_ntk:
                xp.multiply(slope, tangent_g, out=source)
                if outer + readout > 0:
                    xp.multiply(both, outer + readout, out=spare)
                    xp.add(source, spare, out=source)

            # The residual branch is added to all that is carried.
            asked = layer in request.depths
            if layer < request.depths[-1]:
                self._branch(gap_ring, layer, distance)
            if want_ntk:
                self._branch(source_ring, layer, tangent)
            if (want_gpk and (net.skip or asked)) or not homogeneous:
                self._branch(both_ring, layer, features)
            if asked:
                kernels = {"gpk": features, "ntk": tangent}
                yield layer, {kind: kernels[kind] for kind in request.kinds}

    def _branch(self, ring: Array, layer: int, state: Array) -> None:
        """Carry `state` past a layer whose residual branch brings `ring`, before its filter."""
        branch, step = self._box(ring, self.network.outer_filter_size), self.tables.step(layer)
        if not self.network.skip:
            state[...] = branch
            return
        if step != 1.0:
            self.xp.multiply(state, step, out=state)
        self.xp.add(state, branch, out=state)

    def _unit_gaps(self, left: Array, right: Array, w: Array, v: Array, spare: Array) -> None:
        """Compute w = 1 − ρ and v = 1 + ρ of the input's pixels, each without cancellation."""
        xp = self.xp

        def half_square(combine: Any, out: Array) -> None:
            out[...] = 0.0
            for one, other in zip(left, right, strict=True):
                combine(one, other, out=spare)
                xp.multiply(spare, spare, out=spare)
                xp.add(out, spare, out=out)
            xp.multiply(out, 0.5, out=out)

        half_square(xp.subtract, w)
        if float(w.max()) <= NEARLY_OPPOSITE:
            xp.subtract(2.0, w, out=v)
            return
        half_square(xp.add, v)
        xp.subtract(2.0, w, out=spare)
        xp.copyto(v, spare, where=w <= NEARLY_OPPOSITE)

    def _untie(self, w: Array, p: Pixels, o: Pixels, peak: float, gap: Array, spare: Array) -> None:
        """Set D − z to 0 where it is no larger than its own rounding error."""
        xp, unit = self.xp, TIE_UNITS * float(np.finfo(self.dtype).eps)
        if float(w.min()) > unit * peak:  # the usual case: |q1 − q2| ≤ peak everywhere
            return
        xp.sqrt(gap, out=spare)
        tolerance = spare * (p.half_root + o.half_root)  # |q1 − q2| / 2
        xp.copyto(w, 0.0, where=w <= 2.0 * unit * tolerance)
