"""The engine "numba": the reference engine's recursion, compiled for the CPU.

Tables of signals are those of every engine (tables.py); the loops are in layers.py. Here
the work is cut into tasks, blocks of right cases with all left ones, that threads take from a
queue: none waits for another, whatever their speed, and a symmetric Gram is split evenly.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np

from ...arrays import Array
from ...vocabulary import KINDS
from ..protocol import Request, ScaledKernel, Tick, pairs_above
from ..scaling import NEARLY_OPPOSITE, TIE_UNITS, Scaling
from ..signal_tables import SignalTables, signal_tables
from . import layers as compiled
from .vectors import LINE

# Bytes of one quantity in a group of lanes; some nine arrays of it are in use. Shorter loops
# spend their time starting, longer ones on fetching from the second-level cache: flat within
# 5 % from 13 to 26 kB (AMD EPYC Zen 5, 48 KiB and 1 MiB).
_GROUP = 25600

# A group's own tables, of all layers, may take this many bytes.
_GROUP_TABLES = 16 * 2**20

# Pixel pairs in a task: long enough that starting it costs nothing, short enough that threads
# finish together and progress is seen.
_TASK = 4_000_000

# Tables of all left signals of a block may take this many bytes.
_TABLE_BYTES = 64 * 2**20

_HEADS = {"equivariant": 0, "trace": 1, "gap": 1, "pixels": 2}


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = _Run(request, X)
    n, m = len(X), len(X if Z is None else Z)
    results = run.results(n, m)
    left_scale, right_scale = np.empty(n), np.empty(m)
    with ThreadPoolExecutor(run.threads) as pool:
        for first in range(0, n, run.cases_per_block):
            side = signal_tables(run.tables, X[first : first + run.cases_per_block])
            rows = (first, first + len(side.scale))
            left_scale[slice(*rows)] = side.scale
            known, others = (side, X) if Z is None else (None, Z)
            task = partial(run.columns, run.lay(side, True), rows, others, known, results)
            for cols, scale in pool.map(task, run.tasks(n, m, first if Z is None else 0)):
                right_scale[slice(*cols)] = scale
                tick(run.pairs(rows, cols, Z is None))
    return run.finish(results, left_scale, right_scale, Z is None)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = _Run(request, X)
    results = run.results(1, len(X))
    scale = np.empty(len(X))

    def task(side: SignalTables, first: int, k: int) -> None:
        own = side.cases(slice(k, k + 1))
        left, right = run.lay(own, True), run.lay(own.wrapped(run.offsets), False)
        run.fill(left, right, (0, 1), (first + k, first + k + 1), False, results)

    with ThreadPoolExecutor(run.threads) as pool:
        for first in range(0, len(X), run.cases_per_block):
            side = signal_tables(run.tables, X[first : first + run.cases_per_block])
            cases = len(side.scale)
            scale[first : first + cases] = side.scale
            for _ in pool.map(partial(task, side, first), range(cases)):
                tick(1)
    scaled = run.finish(results, scale, scale, False)
    values = {kind: value[:, 0] for kind, value in scaled.values.items()}
    return ScaledKernel(values, scale, scale, scaled.exponents)


@dataclass(frozen=True)
class _Results:
    """What the loops write to: (kind, depth, left case, right case), and pixel pairs."""

    high: Array
    low: Array
    pixels: Array


@dataclass(frozen=True)
class _Laid:
    """One side's tables as the loops want them."""

    units: Array
    root: Array
    inverse: Array
    extra: Array
    bounds: Array
    peaks: list[float]


class _Run:
    """One request on signals of one shape."""

    def __init__(self, request: Request, X: Array) -> None:
        _, n_channels, self.d = X.shape
        net = request.network
        self.request, self.network = request, net
        self.tables = tables = Scaling(request, n_channels, self.d)
        self.threads = request.threads or numba.config.NUMBA_NUM_THREADS
        self.offsets, self.halo = tables.offsets, tables.halo
        self.cases_per_block = max(1, _TABLE_BYTES // tables.bytes_per_case(n_channels))
        layers = range(request.depths[-1] + 1)
        self.unit = np.array([tables.unit(layer) for layer in layers])
        self.factor = np.array([0.0] + [tables.factor(layer) for layer in layers[1:]])
        self.polynomial = compiled.coefficients(request.dtype)
        slot = {depth: t for t, depth in enumerate(request.depths)}
        self.slots = np.array([slot.get(layer, -1) for layer in layers])

    def constants(self, left: _Laid, right: _Laid) -> Array:
        """Return each layer's row of constants (layers.FACTOR and the next names)."""
        net, tables, dtype = self.network, self.tables, np.dtype(self.request.dtype)
        _, inner, outer, readout = net.parts
        tie = 2.0 * TIE_UNITS * float(np.finfo(dtype).eps)
        rows = []
        for layer, (unit, factor) in enumerate(zip(self.unit, self.factor, strict=True)):
            keep = tables.step(layer) * net.skip if layer else 0.0
            rows.append((
                factor * unit, 0.5 * factor * unit, keep, keep * self.request.summed,
                2.0 * (inner - readout), outer + readout,
                tie, tie * max(left.peaks[layer], right.peaks[layer]), 0.0, 0.5, 1.0, 2.0,
            ))  # fmt: skip
        return np.array(rows, dtype=dtype)

    def results(self, n: int, m: int) -> _Results:
        shape = (len(self.request.kinds), len(self.request.depths), n, m)
        tail = (self.d, self.d) if self.request.head == "pixels" else (0, 0)
        sums = shape if self.request.head != "pixels" else (0, 0, 0, 0)
        return _Results(np.zeros(sums), np.zeros(sums), np.zeros((*shape, *tail)))

    def tasks(self, n: int, m: int, first: int) -> list[tuple[int, int]]:
        """Return blocks of right cases; for a symmetric Gram the longest first."""
        per_case = n * self.d * self.offsets
        size = max(
            1, min(_TASK // per_case, -(-m // (4 * self.threads)), self.cases_per_block // 2)
        )
        blocks = [(k, min(k + size, m)) for k in range(0, m, size)]
        return [block for block in reversed(blocks) if block[1] > first]

    def lay(self, side: SignalTables, left: bool) -> _Laid:
        """Stack tables: left ones (case, table, d), right ones (table, case, d or 2d − 1), flat."""

        def stack(tables: list[Array]) -> Array:
            count, (pixels, cases) = len(tables), side.layers[0].half_root.shape
            stacked = np.array(tables, dtype=self.request.dtype).reshape(count, pixels, cases)
            if left:
                return np.ascontiguousarray(stacked.transpose(2, 0, 1))
            return np.ascontiguousarray(stacked.swapaxes(1, 2)).ravel()

        extra = [table for pixels in side.layers for table in pixels.extra]
        cases = len(side.scale)
        bounds = [
            [np.broadcast_to(side.bounds[kind, depth], cases) for depth in self.request.depths]
            for kind in KINDS
        ]
        return _Laid(
            stack(list(side.unit_vectors)),
            stack([p.half_root for p in side.layers]),
            stack([p.inverse for p in side.layers]),
            stack(extra),
            np.array(bounds, dtype=np.float64),
            side.peaks,
        )

    def lanes(self, total: int) -> int:
        """Return the number of lanes of a group, of `total` that a task has."""
        itemsize = np.dtype(self.request.dtype).itemsize
        layers = self.request.depths[-1] + 1
        numbers = min(_GROUP, _GROUP_TABLES // (2 * layers)) // itemsize
        groups = max(1, round(total * self.d / max(1, numbers)))
        lanes = -(-total // groups)
        line = LINE // itemsize  # where there are many lanes, pixels begin on cache lines
        whole = -(-lanes // line) * line
        few = total < 4 * line or whole * self.d > 2 * numbers
        return lanes if few else whole  # with many, the last group wastes little

    def columns(
        self,
        left: _Laid,
        rows: tuple[int, int],
        Z: Array,
        known: SignalTables | None,
        results: _Results,
        cols: tuple[int, int],
    ) -> tuple[tuple[int, int], Array]:
        """Compute the kernels of all left cases with some right ones; return these' scale.

        Of a symmetric Gram the left side is `known`, and may have the right cases too.
        """
        if known is not None and cols[1] <= rows[1] and cols[0] >= rows[0]:
            side = known.cases(slice(cols[0] - rows[0], cols[1] - rows[0]))
        else:
            side = signal_tables(self.tables, Z[slice(*cols)])
        right = self.lay(side.wrapped(self.offsets), False)
        self.fill(left, right, rows, cols, known is not None, results)
        return cols, side.scale

    @staticmethod
    def pairs(rows: tuple[int, int], cols: tuple[int, int], symmetric: bool) -> int:
        """Return the number of pairs of cases of a task, for progress."""
        height, width = rows[1] - rows[0], cols[1] - cols[0]
        return pairs_above(rows, cols) if symmetric else height * width

    def fill(
        self,
        left: _Laid,
        right: _Laid,
        rows: tuple[int, int],
        cols: tuple[int, int],
        symmetric: bool,
        results: _Results,
    ) -> None:
        """Compute one block of `results`."""
        request, net = self.request, self.network
        width, height = cols[1] - cols[0], rows[1] - rows[0]
        total = width * self.offsets
        lanes = self.lanes(total)
        train_input, _, _, readout = net.parts
        compiled.fill(
            left.units, left.root, left.inverse, left.extra, left.bounds,
            right.units, right.root, right.inverse, right.extra, right.bounds,
            cols[0] - rows[0] if symmetric else height,
            self.offsets, lanes, self.halo, (net.filter_size, net.outer_filter_size),
            self.unit, self.factor, self.constants(left, right), self.polynomial, self.slots,
            train_input + readout, NEARLY_OPPOSITE,
            net.activation == "relu", net.skip, "gpk" in request.kinds, "ntk" in request.kinds,
            request.summed, _HEADS[request.head], (rows[0], cols[0]),
            results.high, results.low, results.pixels,
        )  # fmt: skip

    def finish(self, results: _Results, left: Array, right: Array, symmetric: bool) -> ScaledKernel:
        """Return the results, mirrored and corrected as every engine does it."""
        request, tables = self.request, self.tables
        if request.head == "pixels":
            both = results.pixels
        else:
            both = results.high
            both += results.low
            if request.head != "equivariant":
                both /= self.d * self.offsets
        ordered = [kind for kind in KINDS if kind in request.kinds]
        values = {kind: both[ordered.index(kind)] for kind in request.kinds}
        for value in values.values():
            tables.finish(value, symmetric)
        return tables.scaled(values, left, right)
