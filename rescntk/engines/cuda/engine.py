"""The engine "cuda": the reference engine's recursion as one kernel for the GPU, through CuPy.

A kernel takes rows through all layers at once (rows.cu): nothing of the size of all pixel pairs
touches the device's memory. Another one (tables.cu) makes the tables of signals that every engine
has (tables.py), through all layers at once as well, where the lanes of a row read them: of n
signals they are work for n d pixels, beside n² d of a trace and n² d² of GAP. Here the work is cut
into tiles of pairs that fit in the memory that is free, and the shape of the launch is chosen.

What is launched does not depend on the depth, and a homogeneous network's Gram waits for the device
nowhere; one of another network reads back, once a side, whether the signals are too large for it.
NumPy's results are waited for as they are copied.

Kernels are compiled when they are first asked for, by what they are specialized to: the precision,
the filters, the kinds, and how a row is cut up (`Launch.name`). That takes NVRTC, of a CUDA toolkit
or of the wheels that the extras cuda12 and cuda13 bring, about a second a kernel; CuPy from 14.2 on
keeps them on disk, older ones compile anew in every process.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Array, array_module
from ...vocabulary import KINDS
from .. import polynomials
from ..protocol import Request, ScaledKernel, Tick, blocks, pairs_above, silent
from ..scaling import NEARLY_OPPOSITE, TIE_UNITS, Scaling
from .launch import ENUMS, HEADS, REALS, WARP, Launch, plan

_HERE = Path(__file__).parent

# Of the free memory, what results may take that have to be whole on the device: CuPy's.
_WHOLE_SHARE = 0.75

# Of the memory that is free then, what tables and results of a tile may take. CuPy's pool, and
# temporaries, need the rest.
_TABLE_SHARE = 0.1
_RESULT_SHARE = 0.25

# If the right tables of all signals fit in this share, they are made once, otherwise for each row
# of tiles anew.
_KEPT_SHARE = 0.2

# Entries (pixel pairs times layers) of a tile: a second or less, so that progress is seen.
_TILE_ENTRIES = 2.0e11

TABLE_THREADS = 256
"""The most threads of a block of `side_tables`."""

# Arrays of a signal's length that `side_tables` works in.
_SPARE = {"relu": 7, "erf": 9}

# Blocks of a launch: what a grid's first dimension takes.
_MOST_BLOCKS = 2**31 - 1


# ---------------------------------------------------------------- kernels


def source() -> str:
    """Return all kernels' text, whole: with rows.h and the coefficients of polynomials.py."""
    lines = []
    for name in ("P64", "R64", "P32", "R32"):
        real, end = ("double", "") if name.endswith("64") else ("float", "f")
        numbers = getattr(polynomials, name)
        values = ", ".join(float(number).hex() + end for number in numbers)
        lines.append(f"__constant__ {real} {name}[{len(numbers)}] = {{{values}}};")
    lines += [f"enum {name} {{ {', '.join(members)} }};" for name, members in ENUMS.items()]
    lines.append(f"constexpr int TABLE_THREADS = {TABLE_THREADS};\n")
    # Included here: CuPy tells compiled kernels apart by their text alone. It writes that to a file
    # in the locale's encoding, so comments lose their Greek.
    for name in ("rows.h", "rows.cu", "tables.cu"):
        text = (_HERE / name).read_text(encoding="utf-8")
        lines.append(text.replace('#include "rows.h"\n', ""))
    whole = "\n".join(lines)
    return whole.encode("ascii", "replace").decode("ascii")


OPTIONS = ("--std=c++17", "--fmad=false")


@functools.cache
def _kernel(device: int, name: str) -> Any:
    """Return a compiled kernel, for one device."""
    cupy = import_module("cupy")
    module = cupy.RawModule(code=source(), options=OPTIONS, name_expressions=[name])
    kernel = module.get_function(name)
    if name.startswith("long_rows"):
        # Once for signals of all lengths: CuPy's modules of one text share their functions, and
        # with them this limit.
        kernel.max_dynamic_shared_size_bytes = _shared_bytes(cupy)
    return kernel


def _shared_bytes(cupy: Any) -> int:
    """Return how much shared memory a block may have on the current device."""
    runtime = cupy.cuda.runtime
    what = runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
    return int(runtime.deviceGetAttribute(what, runtime.getDevice()))


# ---------------------------------------------------------------- the engine


def free_bytes(cupy: Any) -> int:
    """Return how much memory is free: on the device and in CuPy's pool, within its limit."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    free, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
    return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free


def launch_of(request: Request, d: int) -> Launch:
    """Return the launch for signals of length `d` on the current device, or say why there is none.

    Raises
    ------
    ValueError
        If no launch can fit.
    """
    net = request.network
    _, inner, _, readout = net.parts
    return plan(
        d,
        (net.filter_size, net.outer_filter_size),
        request.dtype,
        request.kinds,
        request.head,
        net.activation,
        inner != readout,
        _shared_bytes(import_module("cupy")),
    )


def takes(request: Request, d: int) -> bool:
    """Return whether signals of length `d` fit on the current device."""
    try:
        launch_of(request, d)
    except ValueError:
        return False
    return True


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = _Run(request, X)
    return run.gram(X, Z, tick)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = _Run(request, X)
    return run.diagonal(X, tick)


@dataclass(frozen=True)
class _Laid:
    """`SignalTables` of some signals as the kernels want them: `Side` in rows.cu.

    Attributes
    ----------
    pixels, extra : array, (cases, layers, registers * lanes, 2)
        √(2q) for a left side, √(q/2) for a right one, and 1/√q; and for erf its two more.
    units : array, (cases, features, registers * lanes)
        Unit vectors.
    bounds : array, (kinds, depths, cases), float64
        As in `SignalTables`, of the depths that are asked for.
    peaks : array, (layers,), float64
        The largest variance in each layer.
    scale : array, (cases,), float64
        What the signals were divided by.
    """

    pixels: Array
    extra: Array
    units: Array
    bounds: Array
    peaks: Array
    scale: Array

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.pixels, self.extra, self.units, self.bounds, np.int64(len(self.scale))


class _Run:
    """One request on signals of one shape."""

    def __init__(self, request: Request, X: Array) -> None:
        self.xp = import_module("cupy")
        self.numpys = array_module(X) is np
        self.request, self.network = request, request.network
        _, self.n_channels, self.d = X.shape
        self.tables = Scaling(request, self.n_channels, self.d)
        self.dtype = np.dtype(request.dtype)
        self.launch = launch_of(request, self.d)
        self.kinds = [kind for kind in KINDS if kind in request.kinds]
        self.head = ENUMS["Head"].index(HEADS[request.head])
        depth = request.depths[-1]
        slot = {depth: t for t, depth in enumerate(request.depths)}
        slots = [slot.get(layer, -1) for layer in range(depth + 1)]
        self.slots = self.xp.asarray(slots, dtype=np.int32)
        self.layers, self.growth = self.constants()
        corrections = [self.tables.correction(depth) for depth in request.depths]
        self.corrections = self.xp.asarray(np.array(corrections))
        pixels = self.d * self.d if request.head == "pixels" else 2
        self.result_bytes = 8 * len(self.kinds) * len(request.depths) * pixels

    # -- how the work is cut up

    def side_bytes(self, registers: int) -> int:
        """Return what one signal's tables take, as left or right ones by the registers."""
        per_layer = 4 if self.network.activation == "erf" else 2
        numbers = per_layer * (self.request.depths[-1] + 1)
        numbers += self.n_channels * self.network.input_filter_size
        return registers * self.launch.lanes * self.dtype.itemsize * numbers

    def table_bytes(self) -> int:
        """Return what one signal takes as a left and as a right one, while tables are made."""
        laid = 3 * self.side_bytes(self.launch.pixels)
        return laid + 8 * self.d * (self.n_channels + _SPARE[self.network.activation])

    def sizes(self, n: int, m: int, free: int) -> tuple[int, int]:
        """Return the rows and columns of a tile."""
        entries = self.d * self.tables.offsets * self.request.depths[-1]
        pairs = min(
            free * _RESULT_SHARE / self.result_bytes,
            max(_TILE_ENTRIES / entries, 1024.0),
            _MOST_BLOCKS,
        )
        cases = max(1, int(free * _TABLE_SHARE / self.table_bytes()))
        side = max(1, min(cases, math.isqrt(int(max(pairs, 1.0)))))
        rows = min(n, side)
        columns = max(1, min(m, cases, int(pairs / rows)))
        return min(n, cases, max(1, int(pairs / columns))), columns

    def gram(self, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
        """Compute tile by tile; of a symmetric Gram those on and above the diagonal."""
        n, m = len(X), len(X if Z is None else Z)
        home = np if self.numpys else self.xp
        values = self.results((n, m))
        left_scale, right_scale = home.empty(n), home.empty(m)
        free = free_bytes(self.xp)
        height, width = self.sizes(n, m, free)
        if Z is None:  # one grid for both sides
            height = width = min(height, width)
        keep = m * self.side_bytes(2 * self.launch.pixels) <= _KEPT_SHARE * free
        kept: dict[int, _Laid] = {}

        def right(columns: slice) -> _Laid:
            if columns.start not in kept:
                if not keep:
                    kept.clear()
                made = self.lay(X if Z is None else Z, columns, 2 * self.launch.pixels)
                right_scale[columns] = self.home(made.scale)
                kept[columns.start] = made
            return kept[columns.start]

        for rows in blocks(0, n, height):
            left = self.lay(X, rows, self.launch.pixels)
            left_scale[rows] = self.home(left.scale)
            for columns in blocks(rows.start if Z is None else 0, m, width):
                above = columns.start - rows.start if Z is None else n
                shape = (rows.stop - rows.start, columns.stop - columns.start)
                tables = (left, right(columns))
                self.fill(values, (rows, columns), *tables, shape, above, symmetric=Z is None)
                edges = (rows.start, rows.stop), (columns.start, columns.stop)
                self.tell(tick, pairs_above(*edges) if Z is None else shape[0] * shape[1])
        return self.tables.scaled(values, left_scale, right_scale)

    def diagonal(self, X: Array, tick: Tick) -> ScaledKernel:
        """Compute pairs of a case with itself, block by block."""
        home = np if self.numpys else self.xp
        values, scale = self.results((1, len(X))), home.empty(len(X))
        free = free_bytes(self.xp)
        cases = max(1, int(min(free * _TABLE_SHARE / self.table_bytes(), _MOST_BLOCKS)))
        for some in blocks(0, len(X), cases):
            left, right = (self.lay(X, some, k * self.launch.pixels) for k in (1, 2))
            scale[some] = self.home(left.scale)
            count = some.stop - some.start
            where = (slice(0, 1), some)
            self.fill(values, where, left, right, (count, count), 0, diagonal=True)
            self.tell(tick, count)
        flat = {kind: value[:, 0] for kind, value in values.items()}
        return self.tables.scaled(flat, scale, scale)

    # -- from and to the caller's library

    def tell(self, tick: Tick, done: int) -> None:
        """Tell a progress bar of pairs that are computed, not only queued."""
        if tick is not silent:
            self.xp.cuda.get_current_stream().synchronize()
        tick(done)

    def home(self, array: Array) -> Array:
        return self.xp.asnumpy(array) if self.numpys else array

    def results(self, cases: tuple[int, int]) -> dict[str, Array]:
        """Return room for all results, where the caller's arrays are, if they fit there."""
        tail = (self.d, self.d) if self.request.head == "pixels" else ()
        shape = (len(self.request.depths), *cases, *tail)
        if not self.numpys:
            one, count = 8 * math.prod(shape), len(self.kinds)
            # The caller makes copies of one kind after the other, and gives the original up.
            copy = self.request.copied_bytes * math.prod(shape[1:])
            needed = max(count * one + copy, one + count * copy)
            needed += 2 * self.result_bytes  # a pair's, in `fill`
            most = int(_WHOLE_SHARE * free_bytes(self.xp))
            if needed > most:
                raise ValueError(
                    f"X and Z have results that need {needed} bytes, expected at most {most}, "
                    "three quarters of what is free on the device; for NumPy's arrays they are "
                    "kept in the host's memory"
                )
        home = np if self.numpys else self.xp
        return {kind: home.empty(shape) for kind in self.request.kinds}

    # -- tables and constants

    def constants(self) -> tuple[Array, Array]:
        """Return what the kernels call `Layer` and `Growth`, for layers 0 … L.

        In `Layer` the place of the largest distance at which there may be a tie is empty: it
        depends on the signals.
        """
        tables, relu = self.tables, self.network.activation == "relu"
        known = tables.common_bounds or {}
        layers, growth = (np.zeros((self.request.depths[-1] + 1, k)) for k in (4, 5))
        growth[0, 0] = tables.unit(0)
        for layer in range(1, len(layers)):
            unit, factor = tables.unit(layer), tables.factor(layer)
            keep = tables.step(layer) * self.network.skip
            layers[layer] = 0.5 * factor * unit if relu else factor, keep, 0.0, unit
            growth[layer, :3] = unit, factor, keep
            growth[layer, 3:] = [known.get((kind, layer), 0.0) for kind in KINDS]
        return self.xp.asarray(layers.astype(self.dtype)), self.xp.asarray(growth)

    def lay(self, X: Array, some: slice, registers: int) -> _Laid:
        """Make the tables of some signals, left or right ones by the registers."""
        xp, launch, net, d = self.xp, self.launch, self.network, self.d
        signals = xp.ascontiguousarray(xp.asarray(X[some], dtype=np.float64))
        depth, n_slots = self.request.depths[-1], len(self.request.depths)
        cases, row, erf = len(signals), registers * launch.lanes, net.activation == "erf"

        def empty(*shape: int, dtype: Any = np.float64) -> Array:
            return xp.empty(shape, dtype=dtype)

        pixels = empty(cases, depth + 1, row, 2, dtype=self.dtype)
        extra = empty(cases, depth + 1 if erf else 0, row, 2, dtype=self.dtype)
        units = empty(cases, self.n_channels * net.input_filter_size, row, dtype=self.dtype)
        bounds, scale = empty(len(KINDS), n_slots, cases), empty(cases)
        peaks = empty(depth + 2, cases)  # of layers, and of the energy
        start, inner, outer, readout = net.parts
        i32, f64 = np.int32, np.float64
        arguments = (
            signals, self.growth, self.slots, i32(n_slots), i32(depth),
            i32(self.n_channels), i32(d), i32(net.input_filter_size), i32(net.filter_size),
            i32(net.outer_filter_size), i32(launch.lanes), i32(registers),
            i32((d - 1).bit_length() + 1), i32(self.tables.equivariant),
            f64(self.tables.input_scale / net.input_filter_size),
            f64(self.tables.smallest_variance),
            f64(2.0 if registers == launch.pixels else 1.0),
            f64(start + readout), f64(inner - readout), f64(outer + readout), np.int64(cases),
            empty(cases, _SPARE[net.activation], d),
            pixels, extra, units, bounds, peaks, scale,
        )  # fmt: skip
        name = f"side_tables<{REALS[self.dtype.name]}, {str(erf).lower()}>"
        threads = min(TABLE_THREADS, max(WARP, 1 << (d - 1).bit_length()))
        kernel = _kernel(xp.cuda.runtime.getDevice(), name)
        kernel((cases,), (threads,), arguments, shared_mem=0)
        peaks = peaks.max(axis=1)
        if erf:
            *largest, energy = xp.asnumpy(peaks).tolist()
            self.tables.check_energy(math.isfinite(energy))
            for layer, peak in enumerate(largest):
                self.tables.check_peak(layer, peak)
        return _Laid(pixels, extra, units, bounds, peaks[:-1], scale)

    # -- launches

    def fill(
        self,
        values: dict[str, Array],
        where: tuple[slice, slice],
        left: _Laid,
        right: _Laid,
        shape: tuple[int, int],
        above: int,
        symmetric: bool = False,
        diagonal: bool = False,
    ) -> None:
        """Compute one tile and put it where it belongs in `values`, also mirrored if symmetric.

        Of a symmetric Gram a tile is on the diagonal, or above it with all of its pairs. Of pairs
        of a case with itself (`diagonal`) there is one row of results, whatever the `shape`.
        """
        xp, request, launch, net = self.xp, self.request, self.launch, self.network
        rows, columns = shape
        stored = 1 if diagonal else rows
        pixels = request.head == "pixels"
        tail = (self.d, self.d) if pixels else ()
        parts = 1 if pixels else 2
        results = xp.zeros(
            (parts, len(self.kinds), len(request.depths), stored, columns, *tail), dtype=np.float64
        )
        start, inner, outer, readout = net.parts
        number, i32, i64 = self.dtype.type, np.int32, np.int64
        count = self.d * self.tables.offsets
        tie = 2.0 * TIE_UNITS * float(np.finfo(self.dtype).eps)
        layers = self.layers.copy()
        layers[:, 2] = tie * xp.maximum(left.peaks, right.peaks)
        arguments = (
            *left.arguments, *right.arguments, layers, self.slots,
            i32(len(request.depths)), i32(request.depths[-1]), i32(left.units.shape[1]),
            i32(self.d), i32(launch.lanes), i32(net.filter_size), i32(net.outer_filter_size),
            i32(self.tables.offsets), i32(launch.share), i32(1 if diagonal else launch.tall),
            i32(launch.pairs),
            i64(rows), i64(columns), i64(above), i32(diagonal),
            number(start + readout), number(inner - readout), number(outer + readout),
            number(tie), number(NEARLY_OPPOSITE),
            i32((count - 1).bit_length() + 1), i32(self.head), results,
        )  # fmt: skip
        blocks = launch.blocks(rows, columns, diagonal)
        kernel = _kernel(xp.cuda.runtime.getDevice(), launch.name)
        kernel((blocks,), (launch.threads,), arguments, shared_mem=launch.shared_bytes)
        # F without filters is divided by their size (rows.cu), and heads are means.
        across, down = where
        for kind in request.kinds:
            both = results[:, self.kinds.index(kind)]
            total = both[0] if pixels else both[0] + both[1]
            if request.head in ("trace", "gap"):
                share = net.outer_filter_size if request.summed and kind == "gpk" else 1
                total = total * share / count
            total *= self.corrections.reshape(-1, *[1] * (total.ndim - 1))
            if symmetric:  # transposed on the device, which takes less time than on the host
                mirrored = total.swapaxes(1, 2)
                if pixels:  # (z, x) at (j', j) is (x, z) at (j, j')
                    mirrored = mirrored.swapaxes(3, 4)
                if across == down:
                    # What is below the diagonal has not been computed, and is 0.
                    case = xp.arange(rows)
                    other = (case[:, None] != case[None]).reshape(1, rows, rows, *[1] * len(tail))
                    total += xp.where(other, mirrored, 0.0)
                else:
                    values[kind][:, down, across] = self.home(xp.ascontiguousarray(mirrored))
            values[kind][:, across, down] = self.home(total)


def why_not(cupy: Any) -> str | None:
    """Return why the engine cannot serve with this CuPy, or None."""
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
    return None
