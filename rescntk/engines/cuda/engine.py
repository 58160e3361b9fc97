"""The engine "cuda": the reference engine's recursion as one kernel for the GPU, through CuPy.

A kernel takes rows of pixel pairs through all layers at once (short_rows.cu, long_rows.cu). The
activation is ReLU. A run has three acts: ::

    plan     the kernel, the cut of a row, tiles that fit into the free memory (launch_plan.py)
    tables   of a tile's signals, made and packed on the device (signal_tables.py, structs.py)
    launch   one kernel for each tile, whatever the depth

A pair of signals whose distances may have lost digits (doubt.DOUBTFUL) is computed again by the
reference engine's array code, on the device: a Gram waits for it once a tile, to read which.

The current device computes. Signals of another device were copied to it when they were checked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from ...arrays import Array, array_module
from ...validation import KINDS
from .. import reference
from ..protocol import Request, ScaledKernel, Tick, blocks, silent
from . import compiler, selfcheck
from .doubt import DOUBTFUL, pixel_weights
from .exact_sum import pairwise, total
from .launch_plan import WHOLE_SHARE, LaunchPlan, PairTile, layers_seen
from .scaling import Scaling
from .signal_tables import signal_tables
from .structs import DeviceTables, address, layouts, pack

NEARLY_OPPOSITE = 1.99
"""The w beyond which v is computed from sums of unit vectors: 2 − w has lost digits there."""


def takes(request: Request, d: int) -> bool:
    """Return whether signals of length `d` fit on the current device."""
    with suppress(ValueError):
        LaunchPlan(request, 1, d, compiler.device_limits())
        return True
    return False


def prepared(request: Request, X: Array) -> Array:
    """Return the signals themselves: this engine makes their tables tile by tile."""
    return X


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    with _lost_devices_named():
        return CudaRun(request, X).gram(X, Z, tick)


def paired(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with the same case of `Z` (None: with itself)."""
    with _lost_devices_named():
        return CudaRun(request, X).paired(X, X if Z is None else Z, tick)


@contextmanager
def _lost_devices_named() -> Iterator[None]:
    """Say what to do after an error that no call survives."""
    try:
        yield
    except Exception as error:
        if selfcheck.loses_device(error):
            error.add_note(selfcheck.RESTART)
        raise


def why_not(cupy: Any) -> str | None:
    """Return the reason why the engine cannot serve with this CuPy, or None."""
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"no CUDA device: {' '.join(str(error).split())}"
    if not count:
        return "no CUDA device"
    try:
        cupy.cuda.nvrtc.getVersion()
    except (RuntimeError, ImportError) as error:
        return (
            "no NVRTC to compile kernels with: pip install 'rescntk[cuda12]' or 'rescntk[cuda13]', "
            f"or a CUDA toolkit ({' '.join(str(error).split())})"
        )
    return selfcheck.failure(cupy, sys.modules[__name__])


class CudaRun:
    """A request on signals of one shape, tile by tile."""

    def __init__(self, request: Request, X: Array) -> None:
        self.xp = xp = import_module("cupy")
        self.home = np if array_module(X) is np else xp  # where results belong
        self.request, self.network = request, request.network
        _, channels, self.d = X.shape
        self.plan = LaunchPlan(request, channels, self.d, compiler.device_limits())
        self.scaling = scaling = Scaling(request, channels, self.d)
        self.kinds = [kind for kind in KINDS if kind in request.kinds]  # in the kernels' order
        # Only for the equivariant head pixels have weights.
        self.doubt_weights = xp.asarray(pixel_weights(scaling)) if scaling.equivariant else None
        self.layers = xp.asarray(self._layers().view(np.uint8))  # CuPy has no arrays of records

    def _layers(self) -> np.ndarray:
        """Return the records `Layer` of activations.h."""
        scaling, depths, shared = self.scaling, self.request.depths, self.scaling.constants
        layers = np.zeros(len(shared), layouts(self.request.dtype)["Layer"])
        for name in set(layers.dtype.names or ()) & set(shared.dtype.names or ()):
            layers[name] = shared[name]
        layers["step"], layers["slot"] = self.plan.steps, -1
        layers["slot"][list(depths)] = range(len(depths))
        layers["branch_scale"] = shared["half_factor"]
        initial, F_scale = self.network.parts.initial, shared["linear_scale"] * shared["skip_scale"]
        layers["linear_scale"] *= initial
        layers["linear_scale"][1] = initial
        if not scaling.adds_mean:
            # F that was not filtered is multiplied by the outer filter's size (`_fill`).
            size = self.network.outer_filter_size if self.request.summed else 1
            layers["linear_in_gpk"], layers["linear_in_ntk"] = F_scale / size, F_scale * initial
        for layer, count in layers_seen(depths[-1]).items():
            mean = scaling.mean_variances[layer]
            layers[layer]["doubt_scale"] = 1.0 / (DOUBTFUL * mean) if mean > 0 else 0.0
            layers[layer]["doubt_weight"] = DOUBTFUL * count
            layers[layer]["tied"] = scaling.tied**2
        return layers

    # -- a Gram and pairs, tile by tile

    def gram(self, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
        """Compute all tiles; of a symmetric Gram the tiles on and above the diagonal."""
        symmetric, others = Z is None, X if Z is None else Z
        n, m = len(X), len(others)
        values = self._results((n, m))
        left_scale, right_scale = self.home.empty(n), self.home.empty(m)
        free = compiler.free_bytes(self.xp)
        height, width = self.plan.tile_shape(n, m, free)
        if symmetric:  # one grid of tiles for both sides
            height = width = min(height, width)
        kept = lru_cache(self.plan.kept_tables(width, free))(partial(self._tables, others))
        for rows in blocks(0, n, height):
            left, _ = (kept if symmetric else partial(self._tables, X))(rows.start, rows.stop)
            left_scale[rows] = self._bring_home(left.scale)
            for columns in blocks(rows.start if symmetric else 0, m, width):
                _, right = kept(columns.start, columns.stop)
                right_scale[columns] = self._bring_home(right.scale)
                tile = PairTile(rows, columns, symmetric)
                self._fill(values, tile, (X, others), left, right, tick)
        return self.scaling.scaled(values, left_scale, right_scale)

    def paired(self, X: Array, Z: Array, tick: Tick) -> ScaledKernel:
        """Compute tiles of one row, which has the pairs; X may be Z."""
        values = self._results((1, len(X)))
        left_scale, right_scale = self.home.empty(len(X)), self.home.empty(len(X))
        _, size = self.plan.tile_shape(1, len(X), compiler.free_bytes(self.xp))
        for cases in blocks(0, len(X), size):
            left, right = self._tables(X, cases.start, cases.stop)
            if Z is not X:
                _, right = self._tables(Z, cases.start, cases.stop)
            left_scale[cases] = self._bring_home(left.scale)
            right_scale[cases] = self._bring_home(right.scale)
            tile = PairTile(slice(0, 1), cases, paired=True)
            self._fill(values, tile, (X, Z), left, right, tick)
        flat = {kind: value[:, 0] for kind, value in values.items()}
        return self.scaling.scaled(flat, left_scale, right_scale)

    def _tables(self, X: Array, start: int, stop: int) -> tuple[DeviceTables, DeviceTables]:
        """Return the tables of some signals, packed for the left and for the right side."""
        tables = signal_tables(self.scaling, self.xp.asarray(X[start:stop], dtype=np.float64))
        return pack(self.xp, tables, self.plan), pack(self.xp, tables, self.plan, right=True)

    def _bring_home(self, array: Array) -> Array:
        return self.xp.asnumpy(array) if self.home is np else array

    def _results(self, cases: tuple[int, int]) -> dict[str, Array]:
        """Return empty arrays of all results, in the caller's library."""
        request = self.request
        tail = (self.d, self.d) if request.head == "pixels" else ()
        shape = (len(request.depths), *cases, *tail)
        if self.home is not np:
            needed = request.result_bytes(math.prod(shape[1:]))
            needed += 2 * self.plan.pair_bytes  # the smallest tile
            most = int(WHOLE_SHARE * compiler.free_bytes(self.xp))
            if needed > most:
                raise ValueError(
                    f"X and Z have results that need {needed} bytes, expected at most {most}, "
                    "three quarters of what is free on the device; for NumPy arrays they are "
                    "kept in the host's memory"
                )
        return {kind: self.home.empty(shape) for kind in request.kinds}

    # -- one tile

    def _fill(
        self,
        values: dict[str, Array],
        tile: PairTile,
        signals: tuple[Array, Array],
        left: DeviceTables,
        right: DeviceTables,
        tick: Tick,
    ) -> None:
        """Compute one tile and put it to its place in `values`, also mirrored if symmetric."""
        sums, doubt = self._launch(tile, left, right)
        made = {kind: total(list(sums[:, k])) for k, kind in enumerate(self.kinds)}
        del sums
        if self.request.head in ("trace", "gap"):
            for kind, kernel in made.items():
                # F that was not filtered is divided by the outer filter's size (layers.h).
                whole = self.request.summed and kind == "gpk"
                kernel *= self.network.outer_filter_size if whole else 1
                kernel /= self.d * self.plan.offsets
        if self.scaling.adds_mean:
            rows = (slice(None), None, slice(None)) if tile.paired else (..., None)
            means = zip(left.means[rows], right.means[:, None], strict=True)
            self.scaling.add_mean(made, pairwise(x * z for x, z in means))
        if self.request.depths[-1] > 1:  # layer 1 is exact
            self._repeat_doubtful(made, tile, signals, doubt, (left.scale, right.scale))
        for kind in self.request.kinds:
            kernel = made.pop(kind)
            for t, depth in enumerate(self.request.depths):
                kernel[t] *= self.scaling.correction(depth)
            if tile.symmetric:
                kernel = self._mirror(values[kind], tile, kernel)
            values[kind][:, tile.rows, tile.columns] = self._bring_home(kernel)
        if tick is not silent:  # of pairs that are computed, not only queued
            self.xp.cuda.get_current_stream().synchronize()
        tick(tile.pairs)

    def _launch(
        self, tile: PairTile, left: DeviceTables, right: DeviceTables
    ) -> tuple[Array, Array]:
        """Launch the kernel of one tile, and return its results and sums of E.

        The results are sums on each grid (exact_sum.py), (grids, kinds, depths, rows, columns),
        or pixel pairs, (1, kinds, depths, rows, columns, d, d). The sums of E are (rows, columns).
        """
        request, parts, d = self.request, self.network.parts, self.d
        stored, columns = tile.shape
        grids, tail = (1, (d, d)) if request.head == "pixels" else (self.plan.grids, ())
        sizes = (grids, len(self.kinds), len(request.depths), stored, columns, *tail)
        results, doubt = self.xp.zeros(sizes), self.xp.zeros((stored, columns))
        high, wide = self.plan.pairs_high, self.plan.pairs_wide
        if tile.paired:
            high, wide = 1, high * wide
        blocks_wide = -(-columns // wide)
        rectangles = blocks_wide * -(-stored // high)
        blocks_per_pair = self.plan.blocks_per_pair(rectangles)
        fields = vars(self.plan) | {
            "left": left.record,
            "right": right.record,
            "layers": address(self.layers),
            "results": address(results),
            "doubt": address(doubt),
            "doubt_weights": 0 if self.doubt_weights is None else address(self.doubt_weights),
            "rows": columns if tile.paired else stored,
            "columns": columns,
            "above": tile.above,
            "trained": (parts.inner_minus_readout, parts.outer_plus_readout),
            "opposite": NEARLY_OPPOSITE,
            "blocks_per_pair": blocks_per_pair,
            "pairs_high": high,
            "pairs_wide": wide,
            "blocks_wide": blocks_wide,
            "paired": tile.paired,
        }
        layout = layouts(request.dtype)["Job"]
        job = np.array([tuple(fields.get(name, 0) for name in layout.names or ())], layout)
        constants = tuple(self.scaling.activation.constants)
        kernel = compiler.compiled(self.xp.cuda.runtime.getDevice(), self.plan.name, constants)
        grid, threads = (rectangles * blocks_per_pair,), (self.plan.threads,)
        for offsets in blocks(0, self.plan.offsets, self.plan.offsets_at_once):
            job["first_offset"], job["offsets"] = offsets.start, offsets.stop - offsets.start
            kernel(grid, threads, (job,), shared_mem=self.plan.shared_bytes)
        return results, doubt

    def _repeat_doubtful(
        self, made: dict[str, Array], tile: PairTile, signals: tuple[Array, Array], doubt: Array,
        scales: tuple[Array, Array],
    ) -> None:  # fmt: skip
        """Compute the tile's doubtful pairs again, by array code; waits for the device."""
        rows, columns = self.xp.nonzero(
            doubt > self.scaling.allowed_doubt(self.d * self.plan.offsets) / self.scaling.allowed_E
        )

        def take(X: Array, cases: slice, numbers: Array) -> Array:
            return self.xp.asarray(X[cases][self._bring_home(numbers)], dtype=np.float64)

        at_a_time = self.plan.pairs_in_deficits(compiler.free_bytes(self.xp))
        for some in blocks(0, len(rows), at_a_time):
            row, column = rows[some], columns[some]
            left = (tile.columns, column) if tile.paired else (tile.rows, row)
            X, Z = take(signals[0], *left), take(signals[1], tile.columns, column)
            kernels = reference.paired(replace(self.request, dtype="float64"), X, Z, silent)
            sizes = kernels.left * kernels.right / (scales[0][left[1]] * scales[1][column])
            for kind, values in kernels.values.items():
                for t, depth in enumerate(self.request.depths):
                    power = kernels.exponents[t] - self.scaling.exponent(depth)
                    scale = sizes * 2.0**power / self.scaling.correction(depth)
                    pixels = [1] * (values[t].ndim - 1)
                    made[kind][t, row, column] = values[t] * scale.reshape(-1, *pixels)

    def _mirror(self, values: Array, tile: PairTile, kernel: Array) -> Array:
        """Put a tile's transpose to its place, and return the tile; on the diagonal both in one.

        The transpose is made on the device, where it takes less time than on the host.
        """
        xp, pixels = self.xp, self.request.head == "pixels"
        mirrored = kernel.swapaxes(1, 2)
        if pixels:  # (z, x) at (j', j) is (x, z) at (j, j')
            mirrored = mirrored.swapaxes(3, 4)
        if tile.rows != tile.columns:
            values[:, tile.columns, tile.rows] = self._bring_home(xp.ascontiguousarray(mirrored))
            return kernel
        # Below the diagonal the kernel has not computed.
        case = xp.arange(tile.shape[0])
        computed = (case[:, None] <= case[None]).reshape(1, *tile.shape, *[1] * (2 * pixels))
        return xp.where(computed, kernel, mirrored)
