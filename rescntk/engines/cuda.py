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
the filters, the kinds, and how a row is cut up (`Launch.name`); CuPy keeps them on disk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..signals import array_module
from . import _LONGEST_CUDA as LONGEST
from . import polynomials
from .request import KINDS, Request, Scaled, Tick
from .tables import NEARLY_OPPOSITE, TIE_UNITS, Tables, trained

Array = Any

_HERE = Path(__file__).parent
_HEADS = {"equivariant": 0, "trace": 1, "gap": 1, "pixels": 2}
# In a kernel's name their numbers, which is how a demangler spells them.
_ACTIVATIONS = ("RELU_SUMMED", "RELU", "ERF")

WARP = 32
WARPS = 4
"""Warps of a block of `short_rows`: small blocks leave fewer registers unused."""

# Pixels of a lane: their state has to fit in its 255 registers without spilling (checked in the
# compiled kernels by tests/test_cubins.py).
MOST_PIXELS = {"float32": 12, "float64": 6}

# Of a lane of `long_rows`. Odd, so that lanes read from different banks of the shared memory.
LONG_PIXELS = 5
LONG_THREADS = 256

LONGEST_FILTER = 15
"""Longer ones are summed by a loop, in `long_rows`; they have size 0 in a kernel's name."""

SHARED_BYTES = 227 * 1024
"""Shared memory of a block on sm_90 and sm_100; a device may have less, which is asked then."""

# Of the free memory, what tables and results of a tile may take. CuPy's pool, and the temporaries
# of the tables, need the rest.
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


# ---------------------------------------------------------------- launches


@dataclass(frozen=True)
class Launch:
    """How rows of one length are cut up: a pure function of what is computed (`plan`).

    Attributes
    ----------
    name : str
        The instance of the kernel's template.
    lanes, pixels : int
        A row's lanes, and the most pixels that one has; the others have one less.
    threads : int
        Of a block.
    share, tall, pairs : int
        The teams of lanes of a pair of cases, each of which takes every share-th offset; and a
        block's pairs: a rectangle, so many rows high.
    shared_bytes : int
        Dynamic shared memory of a block.
    """

    name: str
    lanes: int
    pixels: int
    threads: int
    share: int
    tall: int
    pairs: int
    shared_bytes: int

    @property
    def short(self) -> bool:
        """Whether the state is in registers."""
        return self.name.startswith("short_rows")

    def index(self, d: int, registers: int) -> np.ndarray:
        """Return the pixel at each (register, lane), in the order of the tables."""
        begin = np.arange(self.lanes) * d // self.lanes
        return (begin + np.arange(registers)[:, None]) % d

    def blocks(self, rows: int, columns: int, diagonal: bool) -> int:
        """Return how many blocks a tile takes."""
        tall = 1 if diagonal else self.tall
        wide = self.pairs // self.tall
        return -(-columns // wide) * (1 if diagonal else -(-rows // tall))


def plan(
    d: int,
    sizes: tuple[int, int],
    dtype: str,
    kinds: tuple[str, ...],
    head: str,
    activation: str = "relu",
    cross: bool = False,
) -> Launch:
    """Choose the shape of a launch.

    Parameters
    ----------
    d : int
        The signals' length.
    sizes : (int, int)
        Of the inner and the outer filters.
    dtype, kinds, head
        As in `Request`.
    activation : {"relu", "erf"}
        The network's.
    cross : bool
        Whether of inner and readout weights one is trained and the other is not.

    Raises
    ------
    ValueError
        If no launch can fit.
    """
    if d > LONGEST:
        raise ValueError(
            f"X has {d} timepoints, expected at most {LONGEST} for engine 'cuda'; "
            "engine='reference' has no such limit"
        )
    summed = activation == "relu" and head in ("trace", "gap")
    kind = "RELU_SUMMED" if summed else activation.upper()
    gpk, ntk = ("gpk" in kinds), ("ntk" in kinds)
    filters = tuple(size if size <= LONGEST_FILTER else 0 for size in sizes)
    real = {"float32": "float", "float64": "double"}[dtype]
    offsets = d if head in ("gap", "pixels") else 1

    def name(kernel: str, pixels: int, *rest: object) -> str:
        activation = _ACTIVATIONS.index(kind)
        parts = (real, pixels, *filters, gpk, ntk, activation, cross and ntk, *rest)
        words = [str(part).lower() if isinstance(part, bool) else str(part) for part in parts]
        return f"{kernel}<{', '.join(words)}>"

    best = _cut(d, max(sizes) // 2, dtype) if min(filters) > 0 else None
    if best is not None:
        lanes, pixels = best
        teams = WARPS * (WARP // lanes)
        share = _share(teams, offsets)
        pairs = teams // share
        tall = max(k for k in range(1, math.isqrt(pairs) + 1) if pairs % k == 0)
        threads = WARPS * WARP
        full = name("short_rows", pixels, lanes, d % lanes == 0, threads)
        return Launch(full, lanes, pixels, threads, share, tall, pairs, 0)

    lanes = -(-d // LONG_PIXELS)
    pixels = -(-d // lanes)
    threads = min(LONG_THREADS, -(-lanes // WARP) * WARP)
    features = gpk or kind == "ERF"
    rings = 2 + 2 * ntk + features * (1 if summed else 2)
    shared_bytes = rings * d * np.dtype(dtype).itemsize
    if shared_bytes > SHARED_BYTES:
        raise ValueError(
            f"X has {d} timepoints: {rings} numbers of {dtype} for each need {shared_bytes} bytes "
            f"of shared memory, expected at most {SHARED_BYTES}; ask for fewer "
            "kinds, dtype='float32' or engine='reference'"
        )
    full = name("long_rows", pixels, threads)
    return Launch(full, lanes, pixels, threads, 1, 1, 1, shared_bytes)


def _cut(d: int, half: int, dtype: str) -> tuple[int, int] | None:
    """Return the lanes of a row and their pixels for `short_rows`, or None if it cannot serve.

    The cheapest a pixel pair, as counted in the compiled kernels: issue slots of a lane and layer
    are about `entry` a pixel, `halo` for each pixel that comes from another lane, and `rest`.
    """
    entry, halo, rest = (49, 8, 25) if dtype == "float32" else (128, 8, 8)
    best = None
    for lanes in range(1, min(WARP, d) + 1):
        pixels = -(-d // lanes)
        brief = d % lanes > 0
        if pixels > MOST_PIXELS[dtype] or half > pixels - brief:
            continue
        useful = d * (WARP // lanes)
        cost = WARP * (entry * pixels + halo * half * (1 + 0.5 * brief) + rest) / useful
        if best is None or cost < best[0]:
            best = (cost, lanes, pixels)
    return None if best is None else best[1:]


def _share(teams: int, offsets: int) -> int:
    """Return how many teams of a block share a pair: many, as long as few teams idle."""

    def busy(share: int) -> float:
        return (teams // share) * offsets / (teams * -(-offsets // share))

    choices = sorted({min(teams // pairs, offsets) for pairs in range(1, teams + 1)}, reverse=True)
    most = max(map(busy, choices))
    return next(share for share in choices if busy(share) >= most - 0.04)


def source() -> str:
    """Return all kernels' text, whole: with rows.h and the coefficients of polynomials.py."""
    lines = []
    for name in ("ANGLE64", "GAP64", "ANGLE32", "GAP32"):
        real, end = ("double", "") if name.endswith("64") else ("float", "f")
        numbers = getattr(polynomials, name)
        values = ", ".join(float(number).hex() + end for number in numbers)
        lines.append(f"__constant__ {real} {name}[{len(numbers)}] = {{{values}}};")
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
def _kernel(device: int, name: str, shared_bytes: int) -> Any:
    """Return a compiled kernel, for one device."""
    cupy = import_module("cupy")
    module = cupy.RawModule(code=source(), options=OPTIONS, name_expressions=[name])
    kernel = module.get_function(name)
    if shared_bytes > 48 * 1024:
        most = cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]
        if shared_bytes > most:
            raise ValueError(
                f"X is too long for this device: rows need {shared_bytes} bytes of shared memory, "
                f"expected at most {most}; ask for fewer kinds, dtype='float32' or "
                "engine='reference'"
            )
        kernel.max_dynamic_shared_size_bytes = shared_bytes
    return kernel


# ---------------------------------------------------------------- the engine


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> Scaled:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = _Run(request, X)
    return run.gram(X, Z, tick)


def diagonal(request: Request, X: Array, tick: Tick) -> Scaled:
    """Return the kernel of each case of `X` with itself."""
    run = _Run(request, X)
    return run.diagonal(X, tick)


@dataclass(frozen=True)
class _Laid:
    """Tables of some signals (tables.Side) as kernels want them: see `Side` in rows.cu.

    Attributes
    ----------
    pixels, extra : array, (cases, layers, registers * lanes, 2)
        √(2q) for a left side, √(q/2) for a right one, and 1/√q; and for erf its two more.
    units : array, (cases, features, registers * lanes)
        Unit vectors.
    bounds : array, (kinds, depths, cases), float64
        As in `Side`, of the depths that are asked for.
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
        net = request.network
        _, self.n_channels, self.d = X.shape
        self.tables = Tables(request, self.n_channels, self.d, self.xp)
        self.dtype = np.dtype(request.dtype)
        _, inner, _, readout = trained(net)
        self.launch = plan(
            self.d,
            (net.filter_size, net.outer_filter_size),
            request.dtype,
            request.kinds,
            request.head,
            net.activation,
            inner != readout,
        )
        self.kinds = [kind for kind in KINDS if kind in request.kinds]
        self.head = _HEADS[request.head]
        depth = request.depths[-1]
        slot = {depth: t for t, depth in enumerate(request.depths)}
        slots = [slot.get(layer, -1) for layer in range(depth + 1)]
        self.slots = self.xp.asarray(slots, dtype=np.int32)
        self.layers, self.growth = self.constants()
        pixels = self.d * self.d if request.head == "pixels" else 2
        self.result_bytes = 8 * len(self.kinds) * len(request.depths) * pixels
        self.summed = net.activation == "relu" and request.head in ("trace", "gap")

    # -- how the work is cut up

    def free_bytes(self) -> int:
        """Return how much memory is free, on the device and in CuPy's pool."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free) + int(self.xp.get_default_memory_pool().free_bytes())

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

    def gram(self, X: Array, Z: Array | None, tick: Tick) -> Scaled:
        """Compute tile by tile; of a symmetric Gram those on and above the diagonal."""
        n, m = len(X), len(X if Z is None else Z)
        home = np if self.numpys else self.xp
        values = self.results((n, m))
        left_scale, right_scale = home.empty(n), home.empty(m)
        free = self.free_bytes()
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

        for rows in _blocks(0, n, height):
            left = self.lay(X, rows, self.launch.pixels)
            left_scale[rows] = self.home(left.scale)
            for columns in _blocks(rows.start if Z is None else 0, m, width):
                above = columns.start - rows.start if Z is None else n
                shape = (rows.stop - rows.start, columns.stop - columns.start)
                tables = (left, right(columns))
                self.fill(values, (rows, columns), *tables, shape, above, Z is None)
                tick(_wanted(rows, columns) if Z is None else shape[0] * shape[1])
        for value in values.values():
            self.tables.finish(value, symmetric=False)  # `fill` has written both triangles
        return self.tables.scaled(values, left_scale, right_scale)

    def diagonal(self, X: Array, tick: Tick) -> Scaled:
        """Compute pairs of a case with itself, block by block."""
        home = np if self.numpys else self.xp
        values, scale = self.results((1, len(X))), home.empty(len(X))
        free = self.free_bytes()
        cases = max(1, int(min(free * _TABLE_SHARE / self.table_bytes(), _MOST_BLOCKS)))
        for some in _blocks(0, len(X), cases):
            left, right = (self.lay(X, some, k * self.launch.pixels) for k in (1, 2))
            scale[some] = self.home(left.scale)
            count = some.stop - some.start
            self.fill(values, (slice(0, 1), some), left, right, (count, count), 0, False)
            tick(count)
        for value in values.values():
            self.tables.finish(value, symmetric=False)
        flat = {kind: value[:, 0] for kind, value in values.items()}
        return self.tables.scaled(flat, scale, scale)

    # -- from and to the caller's library

    def home(self, array: Array) -> Array:
        return self.xp.asnumpy(array) if self.numpys else array

    def results(self, cases: tuple[int, int]) -> dict[str, Array]:
        """Return zeros for all results, where the caller's arrays are, if they fit there."""
        tail = (self.d, self.d) if self.request.head == "pixels" else ()
        shape = (len(self.request.depths), *cases, *tail)
        needed, free = 8 * len(self.kinds) * math.prod(shape), self.free_bytes()
        if not self.numpys and needed > free:
            raise ValueError(
                f"X and Z have results of {needed} bytes, expected at most {free}, which are free "
                "on the device; for NumPy's arrays they are kept in the host's memory"
            )
        home = np if self.numpys else self.xp
        return {kind: home.zeros(shape) for kind in self.request.kinds}

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
        start, inner, outer, readout = trained(net)
        i32, f64 = np.int32, np.float64
        arguments = (
            signals, self.growth, self.slots, i32(n_slots), i32(depth),
            i32(self.n_channels), i32(d), i32(net.input_filter_size), i32(net.filter_size),
            i32(net.outer_filter_size), i32(launch.lanes), i32(registers),
            i32((d - 1).bit_length() + 1), i32(self.tables.equivariant),
            f64(self.tables.input_scale / net.input_filter_size), f64(self.tables.nothing),
            f64(2.0 if registers == launch.pixels else 1.0),
            f64(start + readout), f64(inner - readout), f64(outer + readout), np.int64(cases),
            empty(cases, _SPARE[net.activation], d),
            pixels, extra, units, bounds, peaks, scale,
        )  # fmt: skip
        real = {"float32": "float", "float64": "double"}[self.dtype.name]
        name = f"side_tables<{real}, {str(erf).lower()}>"
        threads = min(TABLE_THREADS, max(WARP, 1 << (d - 1).bit_length()))
        kernel = _kernel(xp.cuda.runtime.getDevice(), name, 0)
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
        symmetric: bool,
    ) -> None:
        """Compute one tile and put it where it belongs in `values`, also mirrored if symmetric.

        A diagonal has one row of results, whatever its `shape`.
        """
        diagonal = where[0].stop - where[0].start < shape[0]
        xp, request, launch, net = self.xp, self.request, self.launch, self.network
        rows, columns = shape
        stored = 1 if diagonal else rows
        pixels = request.head == "pixels"
        tail = (self.d, self.d) if pixels else ()
        parts = 1 if pixels else 2
        results = xp.zeros(
            (parts, len(self.kinds), len(request.depths), stored, columns, *tail), dtype=np.float64
        )
        start, inner, outer, readout = trained(net)
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
            i32(launch.pairs // launch.tall if diagonal else launch.pairs),
            i64(rows), i64(columns), i64(above), i32(diagonal),
            number(start + readout), number(inner - readout), number(outer + readout),
            number(tie), number(NEARLY_OPPOSITE),
            i32((count - 1).bit_length() + 1), i32(self.head), results,
        )  # fmt: skip
        blocks = launch.blocks(rows, columns, diagonal)
        kernel = _kernel(xp.cuda.runtime.getDevice(), launch.name, launch.shared_bytes)
        kernel((blocks,), (launch.threads,), arguments, shared_mem=launch.shared_bytes)
        # F without filters is divided by their size (rows.cu), and heads are means.
        for kind in request.kinds:
            both = results[:, self.kinds.index(kind)]
            total = both[0] if pixels else both[0] + both[1]
            if request.head in ("trace", "gap"):
                share = net.outer_filter_size if self.summed and kind == "gpk" else 1
                total = total * share / count
            total = self.home(total)
            if not symmetric:
                values[kind][:, where[0], where[1]] = total
                continue
            # What is not wanted is 0, and a pair is computed once: sums are as good as copies.
            values[kind][:, where[0], where[1]] += total
            home = np if self.numpys else xp
            row, column = home.arange(rows)[:, None], home.arange(columns)[None]
            other = (row != column + above).reshape(1, rows, columns, *[1] * len(tail))
            mirrored = home.where(other, total, 0.0).swapaxes(1, 2)
            if pixels:  # (z, x) at (j', j) is (x, z) at (j, j')
                mirrored = mirrored.swapaxes(3, 4)
            values[kind][:, where[1], where[0]] += mirrored


def _blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` that cover start … stop."""
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def _wanted(rows: slice, columns: slice) -> int:
    """Return the number of pairs of a tile on and above the diagonal of a Gram."""
    height = rows.stop - rows.start
    return sum(min(height, max(0, k + 1 - rows.start)) for k in range(columns.start, columns.stop))


def why_not(cupy: Any) -> str | None:
    """Return why the engine cannot serve with this CuPy, or None."""
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"no CUDA device: {' '.join(str(error).split())}"
    return None if count else "no CUDA device"
