"""The engine "numba": the reference engine's recursion, compiled for the CPU.

All engines share the tables of signals (signal_tables.py); the compiled loops are in rows.py.
This module cuts the work into tasks: a block of right cases with all left cases. Threads take
tasks from a queue, so that no thread waits for another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import NamedTuple

import numba
import numpy as np

from ...arrays import Array
from ...vocabulary import KINDS
from .. import exact_sum
from ..geometry import on_ring
from ..protocol import Request, ScaledKernel, Tick, pairs_above
from ..scaling import DOUBTFUL, NEARLY_OPPOSITE, Scaling
from ..signal_tables import SignalTables, read_input, signal_tables, wrap
from .deficits import compute_in_deficits
from .heads import CODES
from .layers import CHANNELS, coefficients
from .masses import mass_tables
from .records import (
    Block,
    MassTables,
    NetworkConstants,
    NetworkNumbers,
    PackedTables,
    Results,
    Wanted,
    layer_constants,
)
from .rows import compute
from .vectors import LINE_BYTES, VECTOR_BYTES

_GROUP_BYTES = 25600
"""Bytes of one quantity in a group of rows; about nine quantities are in use at a time.

With fewer bytes loops spend their time starting; with more they wait for the second-level cache.
Measured with depth 5, d = 100 on an AMD EPYC (Zen 5; 48 KiB and 1 MiB of cache): GAP in float64
is flat within 3 % from 12.8 to 25.6 kB and loses 14 % at 38 kB; GAP in float32 is best at 25.6
kB; trace gains up to 38 kB, and float32 with q = 9 loses 7 % at 12.8 kB.
"""

_LEAST_SHARE = 8
"""Groups fill whole vectors where this many times the repeated rows are at most all rows.

A larger number repeats fewer rows, but copies the left tables to all rows more often. Copies cost
a tenth of the time of Gaussian signals of 4 channels (d = 100, depth 5, AMD EPYC Zen 4).
"""

_DEFICIT_GROUP_BYTES = 51200
"""Bytes of one quantity in a group of the recursion of deficits; about twenty are in use.

Measured with depth 5, d = 100, q = 3 on the same machine: half as many bytes take 8 % more time
for GAP and 6 to 9 % for trace; a quarter takes 18 % more for GAP.
"""

_GROUP_TABLE_BYTES = 16 * 2**20
"""Most bytes of a group's own tables of all layers; it makes groups of deep networks shorter.

More bytes make longer groups, at the cost of memory for each thread. On the same machine, at
depth 1000 (GAP), 4 MiB cost 29 % more time and 64 MiB 14 % more; at depth 300 (trace), 4 MiB
cost 12 % more, and 64 MiB are level.
"""

_TASK_PAIRS = 4_000_000
"""Most pixel pairs in a task.

More pairs make starting a task cheaper. Fewer pairs let threads finish together, and show
progress sooner. On the same machine 1, 4 and 16 million are level within 3 %; 400 000 cost 5 to
38 % more.
"""

_TASK_RESULTS = 100_000
"""Most pairs of cases in a task, whose sums are held in parts, in four numbers a kernel.

More pairs take more memory: 6 MB for each thread with both kernels at one depth. Fewer pairs
make more tasks of short signals. Chosen by reasoning: signals of 40 pixels and more have fewer
pairs in a task anyway.
"""

_TABLE_BYTES = 64 * 2**20
"""Most bytes of the tables of all left signals of a block.

More bytes take more memory. With fewer, tables of right signals are made again for more blocks.
On the same machine, for 256 signals, 4 and 64 MiB are level, 1 MiB costs up to 17 % more.
"""


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = NumbaRun(request, X)
    n, m = len(X), len(X if Z is None else Z)
    values = run.values(n, m)
    left_scale: Array = np.empty(n)
    right_scale: Array = np.empty(m)
    with ThreadPoolExecutor(run.threads) as pool:
        for first in range(0, n, run.cases_per_block):
            left = LeftBlock(run, X, first, min(first + run.cases_per_block, n))
            left_scale[first : left.stop] = left.tables.scale
            task = partial(run.task, values, left, X if Z is None else Z, Z is None)
            for rights, scale in pool.map(task, run.tasks(n, m, first if Z is None else 0)):
                right_scale[slice(*rights)] = scale
                tick(run.pairs((first, left.stop), rights, Z is None))
    return run.finish(values, left_scale, right_scale, Z is None)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = NumbaRun(request, X)
    values = run.values(1, len(X))
    scale: Array = np.empty(len(X))

    def task(k: int) -> None:
        left = LeftBlock(run, X[k : k + 1], 0, 1)
        scale[k] = left.tables.scale[0]
        run.fill(values, left, Right(X[k : k + 1], left.tables, k), False)

    with ThreadPoolExecutor(run.threads) as pool:
        for _ in pool.map(task, range(len(X))):
            tick(1)
    scaled = run.finish(values, scale, scale, False)
    own = {kind: value[:, 0] for kind, value in scaled.values.items()}
    return ScaledKernel(own, scale, scale, scaled.exponents)


class LeftBlock:
    """The left cases `start` to `stop` of a batch: signals and tables, for all its tasks."""

    def __init__(self, run: NumbaRun, X: Array, start: int, stop: int) -> None:
        self.start, self.stop, self.signals = start, stop, X[start:stop]
        self.tables = run.signal_tables(self.signals)
        self.packed = run.pack_left(self.tables, self.signals)
        self._run, self._lock = run, Lock()
        self._masses: MassTables | None = None

    @property
    def masses(self) -> MassTables:
        """The tables for the recursion of deficits, made when a task first asks for them."""
        with self._lock:
            if self._masses is None:
                self._masses = self._run.mass_tables(self.tables, self.signals, 1)
            return self._masses

    def part(self, start: int, stop: int) -> SignalTables | None:
        """Return the tables of the cases `start` to `stop` of the batch, if all are here."""
        if start < self.start or stop > self.stop:
            return None
        return self.tables.cases(slice(start - self.start, stop - self.start))


class Right(NamedTuple):
    """The right cases of a task, from the case `start` of a batch on."""

    signals: Array
    tables: SignalTables
    start: int

    @property
    def stop(self) -> int:
        """The case of the batch behind the last one."""
        return self.start + len(self.signals)


class NumbaRun:
    """A request on signals of one shape, cut into tasks for the compiled loops."""

    def __init__(self, request: Request, X: Array) -> None:
        _, n_channels, self.d = X.shape
        net = request.network
        self.request, self.network, self.n_channels = request, net, n_channels
        self.scaling = scaling = Scaling(request, n_channels, self.d)
        self.threads = request.threads or numba.config.NUMBA_NUM_THREADS
        window = net.input_filter_size
        sums = window > 1 and n_channels * window > CHANNELS and request.head in ("trace", "gap")
        self.window = window if sums else 0
        self.cases_per_block = max(1, _TABLE_BYTES // scaling.bytes_per_case(n_channels))
        numbers = range(request.depths[-1] + 1)
        slot = {depth: t for t, depth in enumerate(request.depths)}
        p, r = coefficients(request.dtype)
        self.constants = NetworkConstants(
            layers=self.layers(),
            slots=np.array([slot.get(number, -1) for number in numbers]),
            steps=self.steps(),
            p=p,
            r=r,
            numbers=NetworkNumbers(
                initial=net.parts.initial,
                nearly_opposite=NEARLY_OPPOSITE,
                inner_size=net.filter_size,
                outer_size=net.outer_filter_size,
                window=self.window,
                skip=net.skip,
                linear_apart=scaling.linear_apart,
            ),
        )
        self.wanted = Wanted(
            CODES[request.head], "gpk" in request.kinds, "ntk" in request.kinds, request.summed
        )
        common = scaling.common_bounds or {}  # ReLU has them
        bounds = np.array([[common[kind, depth] for depth in request.depths] for kind in KINDS])
        grids = exact_sum.grids(np, bounds * bounds, self.d * scaling.offsets)
        self.grids = np.stack([np.asarray(grid) for grid in grids])
        self.weights = scaling.doubt_weights()

    def steps(self) -> np.ndarray:
        """Return the steps of each layer's inner and outer filter on the ring of d pixels."""
        net = self.network
        steps = np.ones((self.request.depths[-1] + 1, 2), np.int64)
        for number in range(1, len(steps)):
            filters = net.inner_filter(number), net.outer_filter(number)
            steps[number] = [on_ring(taps, self.d).step for taps in filters]
        return steps

    def layers(self) -> np.ndarray:
        """Return the constants of layers 0 … L."""
        net, scaling, dtype = self.network, self.scaling, self.request.dtype
        layers = np.zeros(self.request.depths[-1] + 1, layer_constants(dtype))
        for number, layer in enumerate(layers[1:], start=1):
            factor = scaling.factor(number) * scaling.unit(number)
            skip_scale = scaling.step(number) * net.skip
            layer["factor"], layer["half_factor"] = factor, 0.5 * factor
            layer["skip_scale"] = skip_scale
            layer["sum_scale"] = skip_scale * self.request.summed
            if scaling.linear_apart:
                layer["linear_scale"] = 2.0 ** -scaling.exponents[number - 1]
            layer["mean"] = scaling.mean_variances[number]
            layer["doubtful"] = DOUBTFUL * scaling.mean_variances[number]
        layers["twice_inner_minus_readout"] = 2.0 * net.parts.inner_minus_readout
        layers["outer_plus_readout"] = net.parts.outer_plus_readout
        layers["tiny"] = np.finfo(dtype).tiny
        layers["one"] = 1
        return layers

    def values(self, n: int, m: int) -> np.ndarray:
        """Return an array for the kernels of n left with m right cases, (kind, depth, n, m, …)."""
        shape = (len(self.request.kinds), len(self.request.depths), n, m)
        return np.empty((*shape, self.d, self.d) if self.has_pixels else shape)

    @property
    def has_pixels(self) -> bool:
        """True if kernels of all pixel pairs are asked for."""
        return self.request.head == "pixels"

    def results(self, values: np.ndarray, n: int, m: int) -> Results:
        """Return arrays for a block of n left with m right cases of `values`."""
        shape = (*values.shape[:2], n, m)
        sums = np.zeros((len(self.grids), *((0,) * 4 if self.has_pixels else shape)))
        pixels = values if self.has_pixels else np.zeros((0,) * 6)
        doubt, most = np.zeros((n, m)), self.scaling.most_doubt
        return Results(sums, pixels, doubt, self.grids, self.weights, most)

    def tasks(self, n: int, m: int, first: int) -> list[tuple[int, int]]:
        """Return blocks of right cases; for a symmetric Gram the longest first."""
        per_case = n * self.d * self.scaling.offsets
        even = -(-m // (4 * self.threads))
        most = min(_TASK_PAIRS // per_case, _TASK_RESULTS // n, self.cases_per_block // 2)
        size = max(1, min(most, even))
        vector = VECTOR_BYTES // np.dtype(self.request.dtype).itemsize
        if self.scaling.offsets == 1 and vector <= min(most, m // (2 * self.threads)):
            size = max(vector, size // vector * vector)  # rows are cases, and fill whole vectors
        blocks = [(k, min(k + size, m)) for k in range(0, m, size)]
        return [block for block in reversed(blocks) if block[1] > first]

    def signal_tables(self, signals: Array) -> SignalTables:
        """Return the tables of signals, with the unit vectors of windows where they are read."""
        return signal_tables(self.scaling, signals, windows=self.window == 0)

    def mass_tables(self, tables: SignalTables, signals: Array, offsets: int) -> MassTables:
        """Return the tables of signals for the recursion of deficits, in which all windows are."""
        given = read_input(self.scaling, signals)
        tables = replace(tables, unit_vectors=given.unit_vectors)
        return mass_tables(self.scaling, tables, given.variance, offsets)

    def pack_left(self, tables: SignalTables, signals: Array) -> PackedTables:
        """Return left tables in the layout that the loops read, (case, table, d)."""

        def arrange(table: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(table.transpose(2, 0, 1))

        return self._pack(tables, self.pixel_vectors(tables, signals), arrange)

    def pack_flat(self, tables: SignalTables, signals: Array, offsets: int) -> PackedTables:
        """Return flat tables, (table, case, pixel), of pixels that meet `offsets` offsets."""

        def arrange(table: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(wrap(table, offsets).swapaxes(1, 2)).ravel()

        return self._pack(tables, self.pixel_vectors(tables, signals), arrange)

    def pixel_vectors(self, tables: SignalTables, signals: Array) -> Array:
        """Return the vectors of the input's pixels that `PackedTables.units` holds.

        Unit vectors, or the pixels' vectors for sums of half their squared distances over a window.
        """
        if self.window == 0:
            return tables.unit_vectors
        factor = math.sqrt(0.5 * self.scaling.input_scale / self.window)
        scale = np.asarray(tables.scale)
        divisors = np.where((scale > 0) & np.isfinite(scale), scale, np.inf)
        vectors = np.asarray(signals, np.float64).transpose(1, 2, 0) / divisors
        return np.asarray(vectors * factor)

    def _pack(
        self, tables: SignalTables, units: Array, arrange: Callable[[np.ndarray], np.ndarray]
    ) -> PackedTables:
        """Stack tables to arrays (table, pixel, case), and arrange each array."""
        dtype, layers = self.request.dtype, tables.layers
        return PackedTables(
            units=arrange(np.asarray(units, dtype)),
            half_root=arrange(np.array([layer.half_root for layer in layers], dtype)),
            inverse=arrange(np.array([layer.inverse for layer in layers], dtype)),
        )

    def rows_per_group(self, total: int) -> int:
        """Return the number of rows in a group, of `total` rows that a task has."""
        itemsize = np.dtype(self.request.dtype).itemsize
        tables = self.request.depths[-1] + 1 + self.n_channels
        numbers = min(_GROUP_BYTES, _GROUP_TABLE_BYTES // (2 * tables)) // itemsize
        line, vector = LINE_BYTES // itemsize, VECTOR_BYTES // itemsize
        wanted = max(1, numbers // self.d)
        several = max(1, round(wanted / vector)) * vector
        repeated = -total % several  # rows of the last group
        if 2 * wanted >= vector and _LEAST_SHARE * repeated <= total:  # left tables are not copied
            return several
        groups = max(1, round(total / wanted))
        rows = -(-total // groups)
        whole = -(-rows // line) * line  # pixels begin on cache lines
        few = total < 4 * line or whole * self.d > 2 * numbers
        return rows if few else whole  # of many rows, the last group repeats few

    def rows_of_deficits(self, total: int) -> int:
        """Return the number of rows in a group of the recursion of deficits."""
        itemsize = np.dtype(self.request.dtype).itemsize
        line = LINE_BYTES // itemsize
        rows = max(1, _DEFICIT_GROUP_BYTES // (self.d * itemsize))
        if rows > line:
            rows = rows // line * line
        return min(rows, total)

    def task(
        self,
        values: np.ndarray,
        left: LeftBlock,
        others: Array,
        symmetric: bool,
        rights: tuple[int, int],
    ) -> tuple[tuple[int, int], Array]:
        """Compute kernels of all left with some right cases; return `rights` and their scale.

        `others` are the right signals of the Gram.
        """
        start, stop = rights
        tables = left.part(start, stop) if symmetric else None
        if tables is None:
            tables = self.signal_tables(others[start:stop])
        self.fill(values, left, Right(others[start:stop], tables, start), symmetric)
        return rights, tables.scale

    @staticmethod
    def pairs(lefts: tuple[int, int], rights: tuple[int, int], symmetric: bool) -> int:
        """Return the number of pairs of cases of a task, for progress."""
        if symmetric:
            return pairs_above(lefts, rights)
        return (lefts[1] - lefts[0]) * (rights[1] - rights[0])

    def fill(self, values: np.ndarray, left: LeftBlock, right: Right, symmetric: bool) -> None:
        """Compute one block of `values`: the left cases with the right cases."""
        scaling, lefts, rights = self.scaling, len(left.signals), len(right.signals)
        shift = right.start - left.start if symmetric else lefts
        block = Block(
            first_left=left.start,
            first_right=right.start,
            diagonal_shift=shift,
            offsets=scaling.offsets,
            rows=self.rows_per_group(rights * scaling.offsets),
            halo=max(scaling.halo, self.window // 2),
        )
        results = self.results(values, lefts, rights)
        flat = self.pack_flat(right.tables, right.signals, scaling.offsets)
        compute(left.packed, flat, self.constants, self.wanted, block, results)
        here = slice(left.start, left.stop), slice(right.start, right.stop)
        if not self.has_pixels:
            values[:, :, *here] = self.sums(results)
        if scaling.linear_apart:
            means = left.tables.means[:, :, None], right.tables.means[:, None, :]
            self.add_linear_part(values[:, :, *here], *means)
        doubtful = results.doubt > scaling.most_doubt
        doubtful &= np.arange(lefts)[:, None] <= np.arange(rights) + shift
        # numba compiles anew for columns of a matrix, which is what several indices are.
        pairs = tuple(np.ascontiguousarray(cases) for cases in np.nonzero(doubtful))
        if len(pairs[0]):
            self.repeat(values, left, right, pairs)

    def repeat(
        self,
        values: np.ndarray,
        left: LeftBlock,
        right: Right,
        pairs: tuple[np.ndarray, ...],
    ) -> None:
        """Compute some pairs of left with right cases of `values` again, in deficits.

        `pairs` are the numbers of cases in both blocks.
        """
        scaling, offsets = self.scaling, self.scaling.offsets
        others = self.mass_tables(right.tables, right.signals, offsets)
        some = max(1, _TASK_PAIRS // (self.d * offsets))
        for first in range(0, len(pairs[0]), some):
            rows, columns = (cases[first : first + some] for cases in pairs)
            number = len(rows)
            block = Block(0, 0, 1, offsets, self.rows_of_deficits(number * offsets), scaling.halo)
            shape = (1, number, self.d, self.d) if self.has_pixels else (0,) * 4
            own = np.empty((*values.shape[:2], *shape))
            results = self.results(own, 1, number)
            compute_in_deficits(
                left.masses, others, rows, columns, self.constants, self.wanted, block, results
            )
            own = own[:, :, 0] if self.has_pixels else self.sums(results)[:, :, 0]
            if scaling.linear_apart:
                self.add_linear_part(
                    own, left.tables.means[:, rows], right.tables.means[:, columns]
                )
            values[:, :, left.start + rows, right.start + columns] = own

    def sums(self, results: Results) -> np.ndarray:
        """Return the kernels of a block, (kind, depth, left case, right case), from its sums."""
        if self.request.head == "equivariant":
            return results.sums[0]
        total = np.asarray(exact_sum.total(list(results.sums)))
        return total / (self.d * self.scaling.offsets)

    def add_linear_part(self, values: np.ndarray, left: Array, right: Array) -> None:
        """Add the mean of F⁰ over pixel pairs, x̄ · z̄, to kernels (kind, depth, …).

        `left` and `right` are the means of the signals, channel by channel.
        """
        products = (one * other for one, other in zip(left, right, strict=True))
        linear = exact_sum.pairwise(products)
        for kind, value in zip(self.kinds, values, strict=True):
            share = 1.0 if kind == "gpk" else self.network.parts.initial
            for t, depth in enumerate(self.request.depths):
                value[t] += (share * 2.0 ** -self.scaling.exponents[depth]) * linear

    @property
    def kinds(self) -> list[str]:
        """The kinds asked for, in the order of the results' first axis."""
        return [kind for kind in KINDS if kind in self.request.kinds]

    def finish(self, values: Array, left: Array, right: Array, symmetric: bool) -> ScaledKernel:
        """Return the results with both triangles, and with constants corrected."""
        ordered = dict(zip(self.kinds, values, strict=True))
        for value in values:
            self.scaling.finish(value, symmetric)
        by_kind = {kind: ordered[kind] for kind in self.request.kinds}
        return self.scaling.scaled(by_kind, left, right)
