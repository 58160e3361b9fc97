"""The engine "cuda": the reference engine's recursion as one kernel for the GPU, through CuPy.

A kernel takes rows of pixel pairs through all layers at once (short_rows.cu, long_rows.cu), so
nothing of the size of all pixel pairs touches the device's memory. This module cuts a Gram into
tiles of pairs that fit into the free memory. It makes the tables of a tile's signals on the device
(signal_tables.py) and launches one kernel for each tile. The activation is ReLU.

Tables take a number of array operations that grows with the depth, for each block of signals;
kernels take one launch for each tile, whatever the depth. A Gram waits for the device once a tile,
to read which pairs are to be computed again (doubt.py). Copies to NumPy wait as well.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ...arrays import Array, array_module
from ...vocabulary import KINDS
from ..exact_sum import pairwise, total
from ..protocol import Request, ScaledKernel, Tick, blocks, silent
from ..scaling import DOUBTFUL, NEARLY_OPPOSITE, Scaling
from ..signal_tables import SignalTables, signal_tables
from . import kernels, records, selfcheck
from .doubt import Deficits, layers_seen
from .launch import ENUMS, HEADS, Launch, Rows, plan, steps
from .packing import LEFT, RIGHT, PackedTables, Side, pack
from .tiles import Memory, Tile, free_bytes


def launch_of(request: Request, d: int) -> Launch:
    """Return the launch for signals of length `d` on the current device.

    Raises
    ------
    ValueError
        If no launch can fit.
    """
    return plan(Rows.of(request, d), kernels.shared_bytes(import_module("cupy")))


def takes(request: Request, d: int) -> bool:
    """Return whether signals of length `d` fit on the current device."""
    try:
        launch_of(request, d)
    except ValueError:
        return False
    return True


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    return CudaRun(request, X).gram(X, Z, tick)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    return CudaRun(request, X).diagonal(X, tick)


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
    return selfcheck.failure(cupy, gram)


class CudaRun:
    """A request on signals of one shape: cuts a Gram into tiles and runs them on the device."""

    def __init__(self, request: Request, X: Array) -> None:
        self.xp = import_module("cupy")
        self.home = np if array_module(X) is np else self.xp  # where results are wanted
        self.request, self.network = request, request.network
        _, channels, self.d = X.shape
        self.scaling = Scaling(request, channels, self.d)
        self.dtype = np.dtype(request.dtype)
        self.launch = launch_of(request, self.d)
        self.memory = Memory(request, self.launch, self.d, channels)
        self.kinds = [kind for kind in KINDS if kind in request.kinds]  # in the kernels' order
        slots = [-1] * (request.depths[-1] + 1)
        for slot, depth in enumerate(request.depths):
            slots[depth] = slot
        self.slots = self.xp.asarray(slots, dtype=np.int32)
        self.steps = self.xp.asarray(steps(request, self.d), dtype=np.int32)
        self.linear_apart = self.scaling.linear_apart
        # A has a part of F⁰ only where input or readout weights are trained.
        self.tangent_apart = self.linear_apart and self.network.parts.initial != 0.0
        self.layers = self._layers()
        # Pixels have weights for the equivariant head alone.
        weighted = self.scaling.equivariant
        self.doubt_weights = self.xp.asarray(self.scaling.doubt_weights()) if weighted else None
        doubted = request.depths[-1] > 1  # layer 1 is exact
        self.deficits = Deficits(request, self.xp, X) if doubted else None
        corrections = [self.scaling.correction(depth) for depth in request.depths]
        self.corrections = self.xp.asarray(np.array(corrections))

    # -- a Gram and a diagonal, tile by tile

    def gram(self, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
        """Compute tile by tile; of a symmetric Gram the tiles on and above the diagonal."""
        symmetric = Z is None
        others = X if Z is None else Z
        n, m = len(X), len(others)
        values = self.results((n, m))
        left_scale, right_scale = self.home.empty(n), self.home.empty(m)
        free = free_bytes(self.xp)
        height, width = self.memory.tile_shape(n, m, free)
        if symmetric:  # one grid of tiles for both sides
            height = width = min(height, width)
        keeps, kept = self.memory.keeps_right_tables(m, free), dict[int, PackedTables]()

        def keep(columns: slice, made: SignalTables) -> None:
            if not keeps:
                kept.clear()
            kept[columns.start] = self.pack(made, RIGHT)
            right_scale[columns] = self.bring_home(made.scale)

        for rows in blocks(0, n, height):
            made = self.make_tables(X, rows)
            left = self.pack(made, LEFT)
            left_scale[rows] = self.bring_home(left.scale)
            if symmetric and rows.start not in kept:
                keep(rows, made)
            del made
            for columns in blocks(rows.start if symmetric else 0, m, width):
                if columns.start not in kept:
                    keep(columns, self.make_tables(others, columns))
                tile = Tile(rows, columns, symmetric)
                self.fill(values, tile, (X, others), left, kept[columns.start])
                self.tell(tick, tile.pairs)
        return self.scaling.scaled(values, left_scale, right_scale)

    def diagonal(self, X: Array, tick: Tick) -> ScaledKernel:
        """Compute the pairs of a case with itself, block by block."""
        values, scale = self.results((1, len(X))), self.home.empty(len(X))
        for some in blocks(0, len(X), self.memory.cases_of_diagonal(free_bytes(self.xp))):
            made = self.make_tables(X, some)
            left, right = self.pack(made, LEFT), self.pack(made, RIGHT)
            scale[some] = self.bring_home(made.scale)
            tile = Tile(slice(0, 1), some, diagonal=True)
            self.fill(values, tile, (X, X), left, right)
            self.tell(tick, tile.pairs)
        flat = {kind: value[:, 0] for kind, value in values.items()}
        return self.scaling.scaled(flat, scale, scale)

    # -- from and to the caller's library

    def tell(self, tick: Tick, done: int) -> None:
        """Tell a progress bar of pairs that are computed, not only queued."""
        if tick is not silent:
            self.xp.cuda.get_current_stream().synchronize()
        tick(done)

    def bring_home(self, array: Array) -> Array:
        """Return a device's array as an array of the caller's library."""
        return self.xp.asnumpy(array) if self.home is np else array

    def results(self, cases: tuple[int, int]) -> dict[str, Array]:
        """Return empty arrays of all results in the caller's library, if they fit there."""
        tail = (self.d, self.d) if self.request.head == "pixels" else ()
        shape = (len(self.request.depths), *cases, *tail)
        if self.home is not np:
            self.memory.check_whole_results(shape, free_bytes(self.xp))
        return {kind: self.home.empty(shape) for kind in self.request.kinds}

    # -- tables and constants

    def _layers(self) -> Array:
        """Return the records `Layer` of activations.h, (layers, fields)."""
        scaling, depth = self.scaling, self.request.depths[-1]
        layers = np.zeros(depth + 1, records.layer(np.dtype(np.float64)))
        for layer, count in layers_seen(depth).items():
            mean = scaling.mean_variances[layer]
            layers[layer]["doubt_scale"] = 1.0 / (DOUBTFUL * mean) if mean > 0 else 0.0
            layers[layer]["doubt_weight"] = DOUBTFUL * count
        for layer in range(1, depth + 1):
            layers[layer]["branch_scale"] = 0.5 * scaling.factor(layer) * scaling.unit(layer)
            layers[layer]["skip_scale"] = scaling.step(layer) * self.network.skip
            if self.tangent_apart:
                layers[layer]["linear_scale"] = 2.0 ** -scaling.exponents[layer - 1]
        fields = len(layers.dtype)
        return self.xp.asarray(layers.view(np.float64).reshape(-1, fields).astype(self.dtype))

    def make_tables(self, X: Array, some: slice) -> SignalTables:
        """Make the tables of some signals on the device."""
        return signal_tables(self.scaling, self.xp.asarray(X[some], dtype=np.float64))

    def pack(self, made: SignalTables, side: Side) -> PackedTables:
        """Pack tables for signals of one side."""
        return pack(self.xp, made, self.launch, side, self.request.depths)

    # -- one tile

    def fill(
        self,
        values: dict[str, Array],
        tile: Tile,
        signals: tuple[Array, Array],
        left: PackedTables,
        right: PackedTables,
    ) -> None:
        """Compute one tile and put it to its place in `values`, also mirrored if symmetric."""
        results, doubt = self.run_kernel(tile, left, right)
        made = {
            kind: self.kernel_of(results[:, self.kinds.index(kind)], kind)
            for kind in self.request.kinds
        }
        del results
        if self.linear_apart:
            self.add_linear_part(made, tile, left.means, right.means)
        if self.deficits is not None:
            self.repeat_doubtful(self.deficits, made, tile, signals, doubt)
        for kind in self.request.kinds:
            kernel = made.pop(kind)
            kernel *= self.corrections.reshape(-1, *[1] * (kernel.ndim - 1))
            if tile.symmetric:
                kernel = self.mirror(values[kind], tile, kernel)
            values[kind][:, tile.rows, tile.columns] = self.bring_home(kernel)

    def add_linear_part(
        self, made: dict[str, Array], tile: Tile, left: Array, right: Array
    ) -> None:
        """Add the means of F⁰, x̄ · z̄, to kernels whose branches alone were averaged."""
        rows = (slice(None), None, slice(None)) if tile.diagonal else (..., None)
        pairs = zip(left[rows], right[:, None], strict=True)
        linear = pairwise(one * other for one, other in pairs)
        for t, depth in enumerate(self.request.depths):
            scale = 2.0 ** -self.scaling.exponents[depth]
            for kind, kernel in made.items():
                share = scale if kind == "gpk" else scale * self.network.parts.initial
                if share != 0.0:
                    kernel[t] += share * linear

    def repeat_doubtful(
        self,
        deficits: Deficits,
        made: dict[str, Array],
        tile: Tile,
        signals: tuple[Array, Array],
        doubt: Array,
    ) -> None:
        """Compute the tile's doubtful pairs again, from deficits; waits for the device."""
        pairs = deficits.doubtful(doubt)
        if not len(pairs[0]):
            return

        def take(X: Array, cases: slice, numbers: Array) -> Array:
            return self.xp.asarray(X[cases][self.bring_home(numbers)], dtype=np.float64)

        def both(rows: Array, columns: Array) -> tuple[Array, Array]:
            first = (tile.columns, columns) if tile.diagonal else (tile.rows, rows)
            return take(signals[0], *first), take(signals[1], tile.columns, columns)

        free = free_bytes(self.xp)
        for (rows, columns), exact in deficits.kernels(pairs, both, free):
            for kind, kernel in exact.items():
                made[kind][:, rows, columns] = kernel

    def run_kernel(
        self, tile: Tile, left: PackedTables, right: PackedTables
    ) -> tuple[Array, Array]:
        """Launch the kernel of one tile.

        Returns
        -------
        array, (grids, kinds, depths, rows, columns), float64
            Sums on each grid (exact_sum.py). For pixel pairs the shape is (1, kinds, depths,
            rows, columns, d, d).
        array, (rows, columns), float64
            Sums of E (doubt.py).
        """
        request, launch = self.request, self.launch
        stored = 1 if tile.diagonal else tile.shape[0]
        pixels = request.head == "pixels"
        parts, tail = (1, (self.d, self.d)) if pixels else (self.memory.grids, ())
        shape = (parts, len(self.kinds), len(request.depths), stored, tile.shape[1], *tail)
        results = self.xp.zeros(shape, dtype=np.float64)
        doubt = self.xp.zeros((stored, tile.shape[1]))
        job = self.job(tile, left, right, results, doubt)
        rows, columns = (tile.shape[1], tile.shape[1]) if tile.diagonal else tile.shape
        kernel = kernels.compiled(self.xp.cuda.runtime.getDevice(), launch.name)
        grid = (launch.blocks(rows, columns, tile.diagonal),)
        kernel(grid, (launch.threads,), (job,), shared_mem=launch.shared_bytes)
        return results, doubt

    def job(
        self, tile: Tile, left: PackedTables, right: PackedTables, results: Array, doubt: Array
    ) -> np.ndarray:
        """Return the record `Job` of rows.h."""
        request, launch, net = self.request, self.launch, self.network
        parts, weights = net.parts, self.doubt_weights
        return records.record(
            records.job(self.dtype),
            left=left.record,
            right=right.record,
            layers=records.address(self.layers),
            slots=records.address(self.slots),
            steps=records.address(self.steps),
            results=records.address(results),
            doubt=records.address(doubt),
            doubt_weights=0 if weights is None else records.address(weights),
            rows=tile.shape[1] if tile.diagonal else tile.shape[0],
            columns=tile.shape[1],
            above=tile.above,
            trained=(parts.initial, parts.inner_minus_readout, parts.outer_plus_readout),
            opposite=NEARLY_OPPOSITE,
            features_scale=0.0 if self.linear_apart else 1.0 / net.outer_filter_size,
            n_slots=len(request.depths),
            depth=request.depths[-1],
            features=self.memory.features,
            d=self.d,
            segments=launch.segments,
            inner=net.filter_size,
            outer=net.outer_filter_size,
            offsets=self.scaling.offsets,
            teams_per_pair=launch.teams_per_pair,
            pairs_high=1 if tile.diagonal else launch.pairs_high,
            pairs_per_block=launch.pairs_per_block,
            diagonal=tile.diagonal,
            headroom=(self.d * self.scaling.offsets - 1).bit_length() + 1,
            grids=self.memory.grids,
            linear_apart=self.tangent_apart,
            head=ENUMS["Head"].index(HEADS[request.head]),
        )

    def kernel_of(self, sums: Array, kind: str) -> Array:
        """Return the kernel (depths, rows, columns, …) of sums on each grid (grids, depths, …)."""
        request = self.request
        kernel = total(list(sums))
        if request.head in ("trace", "gap"):
            # F that was not filtered is divided by the outer filter's size (layers.h).
            size = self.network.outer_filter_size if request.summed and kind == "gpk" else 1
            kernel = kernel * size / (self.d * self.scaling.offsets)
        return kernel

    def mirror(self, values: Array, tile: Tile, kernel: Array) -> Array:
        """Put a tile's transpose to its place, and return the tile; on the diagonal both in one.

        The transpose is made on the device, where it takes less time than on the host.
        """
        xp, pixels = self.xp, self.request.head == "pixels"
        mirrored = kernel.swapaxes(1, 2)
        if pixels:  # (z, x) at (j', j) is (x, z) at (j, j')
            mirrored = mirrored.swapaxes(3, 4)
        if tile.rows != tile.columns:
            values[:, tile.columns, tile.rows] = self.bring_home(xp.ascontiguousarray(mirrored))
            return kernel
        # Below the diagonal the kernel has not computed.
        case = xp.arange(tile.shape[0])
        computed = (case[:, None] <= case[None]).reshape(1, *tile.shape, *[1] * (2 * pixels))
        return xp.where(computed, kernel, mirrored)
