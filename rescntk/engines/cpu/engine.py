"""The engine "numba": the reference engine's recursion, compiled for the CPU.

All engines share the tables of signals (signal_tables.py); the compiled loops are in rows.py.
This module cuts the work into tasks: a block of right cases with all left cases. Threads take
tasks from a queue, so that no thread waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numba
import numpy as np

from ...arrays import Array
from ...vocabulary import KINDS
from .. import exact_sum
from ..protocol import Request, ScaledKernel, Tick, pairs_above
from ..scaling import NEARLY_OPPOSITE, TIE_UNITS, Scaling
from ..signal_tables import SignalTables, signal_tables
from .heads import CODES
from .layers import coefficients
from .records import Block, NetworkConstants, PackedTables, Results, Wanted, layer_constants
from .rows import compute
from .vectors import LINE_BYTES

_GROUP_BYTES = 25600
"""Bytes of one quantity in a group of rows; about nine quantities are in use at a time.

With fewer bytes loops spend their time starting; with more they wait for the second-level cache.
Measured with depth 5, d = 100 on an AMD EPYC (Zen 5; 48 KiB and 1 MiB of cache): GAP in float64
is flat within 3 % from 12.8 to 25.6 kB and loses 14 % at 38 kB; GAP in float32 is best at 25.6
kB; trace gains up to 38 kB, and float32 with q = 9 loses 7 % at 12.8 kB.
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

_TABLE_BYTES = 64 * 2**20
"""Most bytes of the tables of all left signals of a block.

More bytes take more memory. With fewer, tables of right signals are made again for more blocks.
On the same machine, for 256 signals, 4 and 64 MiB are level, 1 MiB costs up to 17 % more.
"""


def gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    run = NumbaRun(request, X)
    n, m = len(X), len(X if Z is None else Z)
    results = run.results(n, m)
    left_scale: Array = np.empty(n)
    right_scale: Array = np.empty(m)
    with ThreadPoolExecutor(run.threads) as pool:
        for first in range(0, n, run.cases_per_block):
            tables = signal_tables(run.scaling, X[first : first + run.cases_per_block])
            lefts = (first, first + len(tables.scale))
            left_scale[slice(*lefts)] = tables.scale
            known, others = (tables, X) if Z is None else (None, Z)
            task = partial(run.task, run.pack_left(tables), lefts, others, known, results)
            for rights, scale in pool.map(task, run.tasks(n, m, first if Z is None else 0)):
                right_scale[slice(*rights)] = scale
                tick(run.pairs(lefts, rights, Z is None))
    return run.finish(results, left_scale, right_scale, Z is None)


def diagonal(request: Request, X: Array, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = NumbaRun(request, X)
    results = run.results(1, len(X))
    scale: Array = np.empty(len(X))

    def task(tables: SignalTables, first: int, k: int) -> None:
        own = tables.cases(slice(k, k + 1))
        rights = (first + k, first + k + 1)
        run.compute(run.pack_left(own), run.pack_right(own), (0, 1), rights, False, results)

    with ThreadPoolExecutor(run.threads) as pool:
        for first in range(0, len(X), run.cases_per_block):
            tables = signal_tables(run.scaling, X[first : first + run.cases_per_block])
            cases = len(tables.scale)
            scale[first : first + cases] = tables.scale
            for _ in pool.map(partial(task, tables, first), range(cases)):
                tick(1)
    scaled = run.finish(results, scale, scale, False)
    values = {kind: value[:, 0] for kind, value in scaled.values.items()}
    return ScaledKernel(values, scale, scale, scaled.exponents)


class NumbaRun:
    """A request on signals of one shape, cut into tasks for the compiled loops."""

    def __init__(self, request: Request, X: Array) -> None:
        _, n_channels, self.d = X.shape
        net = request.network
        self.request, self.network = request, net
        self.scaling = scaling = Scaling(request, n_channels, self.d)
        self.threads = request.threads or numba.config.NUMBA_NUM_THREADS
        self.cases_per_block = max(1, _TABLE_BYTES // scaling.bytes_per_case(n_channels))
        numbers = range(request.depths[-1] + 1)
        slot = {depth: t for t, depth in enumerate(request.depths)}
        p, r = coefficients(request.dtype)
        self.constants = NetworkConstants(
            layers=self.layers(),
            slots=np.array([slot.get(number, -1) for number in numbers]),
            p=p,
            r=r,
            initial=net.parts.initial,
            nearly_opposite=NEARLY_OPPOSITE,
            inner_size=net.filter_size,
            outer_size=net.outer_filter_size,
            skip=net.skip,
        )
        self.wanted = Wanted(
            CODES[request.head], "gpk" in request.kinds, "ntk" in request.kinds, request.summed
        )

    def layers(self) -> np.ndarray:
        """Return the constants of layers 0 … L; `tie_bound` depends on signals (`tied`)."""
        net, scaling, dtype = self.network, self.scaling, self.request.dtype
        layers = np.zeros(self.request.depths[-1] + 1, layer_constants(dtype))
        for number, layer in enumerate(layers[1:], start=1):
            factor = scaling.factor(number) * scaling.unit(number)
            skip_scale = scaling.step(number) * net.skip
            layer["factor"], layer["half_factor"] = factor, 0.5 * factor
            layer["skip_scale"] = skip_scale
            layer["sum_scale"] = skip_scale * self.request.summed
        layers["twice_inner_minus_readout"] = 2.0 * net.parts.inner_minus_readout
        layers["outer_plus_readout"] = net.parts.outer_plus_readout
        layers["tie_scale"] = self.tie_scale
        layers["one"] = 1
        return layers

    @property
    def tie_scale(self) -> float:
        """The multiple of |q1 − q2| / 2 up to which D − z counts as 0."""
        return 2.0 * TIE_UNITS * float(np.finfo(self.request.dtype).eps)

    def tied(self, left: PackedTables, right: PackedTables) -> NetworkConstants:
        """Return the constants with the largest D − z that may count as 0 for some signals."""
        layers = self.constants.layers.copy()
        layers["tie_bound"] = self.tie_scale * np.maximum(left.peaks, right.peaks)
        return self.constants._replace(layers=layers)

    def results(self, n: int, m: int) -> Results:
        """Return arrays for the kernels of n left with m right cases, filled with zeros."""
        request, scaling = self.request, self.scaling
        shape = (len(request.kinds), len(request.depths), n, m)
        pixels = request.head == "pixels"
        common = scaling.common_bounds or {}  # ReLU has them
        bounds = np.array([[common[kind, depth] for depth in request.depths] for kind in KINDS])
        coarse, fine, *_ = exact_sum.grids(np, bounds * bounds, self.d * scaling.offsets)
        high, low = (np.zeros((0, 0, 0, 0) if pixels else shape) for _ in range(2))
        everywhere = np.zeros((*shape, *(2 * (self.d if pixels else 0,))))
        return Results(high, low, everywhere, np.asarray(coarse), np.asarray(fine))

    def tasks(self, n: int, m: int, first: int) -> list[tuple[int, int]]:
        """Return blocks of right cases; for a symmetric Gram the longest first."""
        per_case = n * self.d * self.scaling.offsets
        size = max(
            1, min(_TASK_PAIRS // per_case, -(-m // (4 * self.threads)), self.cases_per_block // 2)
        )
        blocks = [(k, min(k + size, m)) for k in range(0, m, size)]
        return [block for block in reversed(blocks) if block[1] > first]

    def pack_left(self, tables: SignalTables) -> PackedTables:
        """Return left tables in the layout that the loops read, (case, table, d)."""
        return self._pack(tables, lambda t: np.ascontiguousarray(t.transpose(2, 0, 1)))

    def pack_right(self, tables: SignalTables) -> PackedTables:
        """Return right tables in the layout that the loops read: flat, (table, case, pixel)."""
        wrapped = tables.wrapped(self.scaling.offsets)
        return self._pack(wrapped, lambda t: np.ascontiguousarray(t.swapaxes(1, 2)).ravel())

    def _pack(
        self, tables: SignalTables, arrange: Callable[[np.ndarray], np.ndarray]
    ) -> PackedTables:
        """Stack tables to arrays (table, pixel, case), and arrange each array."""

        def stack(tables: Iterable[Array]) -> np.ndarray:
            return arrange(np.stack([np.asarray(t, self.request.dtype) for t in tables]))

        return PackedTables(
            units=stack(tables.unit_vectors),
            half_root=stack(layer.half_root for layer in tables.layers),
            inverse=stack(layer.inverse for layer in tables.layers),
            peaks=np.array(tables.peaks, dtype=np.float64),
        )

    def rows_per_group(self, total: int) -> int:
        """Return the number of rows in a group, of `total` rows that a task has."""
        itemsize = np.dtype(self.request.dtype).itemsize
        layers = self.request.depths[-1] + 1
        numbers = min(_GROUP_BYTES, _GROUP_TABLE_BYTES // (2 * layers)) // itemsize
        groups = max(1, round(total * self.d / max(1, numbers)))
        rows = -(-total // groups)
        line = LINE_BYTES // itemsize
        whole = -(-rows // line) * line  # pixels begin on cache lines
        few = total < 4 * line or whole * self.d > 2 * numbers
        return rows if few else whole  # of many rows, the last group repeats few

    def task(
        self,
        left: PackedTables,
        lefts: tuple[int, int],
        Z: Array,
        known: SignalTables | None,
        results: Results,
        rights: tuple[int, int],
    ) -> tuple[tuple[int, int], Array]:
        """Compute kernels of all left with some right cases; return `rights` and their scale.

        For a symmetric Gram `known` are the left signals' tables, which may contain the right
        cases' tables too.
        """
        if known is not None and rights[1] <= lefts[1] and rights[0] >= lefts[0]:
            tables = known.cases(slice(rights[0] - lefts[0], rights[1] - lefts[0]))
        else:
            tables = signal_tables(self.scaling, Z[slice(*rights)])
        self.compute(left, self.pack_right(tables), lefts, rights, known is not None, results)
        return rights, tables.scale

    @staticmethod
    def pairs(lefts: tuple[int, int], rights: tuple[int, int], symmetric: bool) -> int:
        """Return the number of pairs of cases of a task, for progress."""
        if symmetric:
            return pairs_above(lefts, rights)
        return (lefts[1] - lefts[0]) * (rights[1] - rights[0])

    def compute(
        self,
        left: PackedTables,
        right: PackedTables,
        lefts: tuple[int, int],
        rights: tuple[int, int],
        symmetric: bool,
        results: Results,
    ) -> None:
        """Compute one block of `results`: left cases `lefts` with right cases `rights`."""
        scaling = self.scaling
        block = Block(
            first_left=lefts[0],
            first_right=rights[0],
            diagonal_shift=rights[0] - lefts[0] if symmetric else lefts[1] - lefts[0],
            offsets=scaling.offsets,
            rows=self.rows_per_group((rights[1] - rights[0]) * scaling.offsets),
            halo=scaling.halo,
        )
        compute(left, right, self.tied(left, right), self.wanted, block, results)

    def finish(self, results: Results, left: Array, right: Array, symmetric: bool) -> ScaledKernel:
        """Return the results: sums as means, both triangles, constants corrected."""
        request, scaling = self.request, self.scaling
        if request.head == "pixels":
            stored = results.pixels
        else:
            stored = results.high
            stored += results.low
            if request.head != "equivariant":
                stored /= self.d * scaling.offsets
        ordered = [kind for kind in KINDS if kind in request.kinds]
        values: dict[str, Array] = {kind: stored[ordered.index(kind)] for kind in request.kinds}
        for value in values.values():
            scaling.finish(value, symmetric)
        return scaling.scaled(values, left, right)
