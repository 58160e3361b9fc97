"""The engine "cpu": NumPy makes the tables of signals, and loops.cpp computes the signal pairs.

Signals are divided into blocks whose tables fit into memory. The pairs of two blocks are divided
into tasks, which threads compute in parallel.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np

from ...arrays import Batch, channels_and_length
from ...memory import free_bytes
from ...network.parameters import KERNEL_FIELDS
from ..compiled.records import copied, pointer
from ..compiled.tabled_signals import (
    BlockTables,
    TabledSignals,
    bytes_of_all_rows,
    bytes_to_hold,
    over_blocks,
)
from ..engine import Engine, Plan, room_for_tables
from ..heads import offset_ranges
from ..request import Request, ScaledKernel
from ..work import Tick, blocks, pool_of, processors, stop_flag
from . import library
from .library import MOST_LANES, MOST_STRIPS, MOST_VECTORS

_TABLE_BYTES = 96 << 20
"""The bytes that the tables of one block of signals may occupy. A larger number needs more memory;
with a smaller one, the tables of right signals are made more often."""

_HELD_BYTES, _HELD_SHARE = 512 << 20, 1 / 8
"""Limits on the tables of prepared signals that are kept between calls: their bytes, and their
fraction of the free memory. The tables of one block are kept in any case. Larger limits need more
memory; with smaller ones, each call makes more tables again."""

_FREE_SHARE = 1 / 16
"""The fraction of the free memory that the tables of the right signals of one vector may occupy
where they exceed `_TABLE_BYTES`. Making a table takes as long as computing some 14 signal pairs, so
that blocks of fewer signals would spend most of the time on tables."""

_FEW_SIGNALS = 4
"""The largest number of right signals whose tables, if they are large, are not interleaved. The
interleaved tables would be a second copy."""

_TASK_PAIRS = 3e6
"""The number of pixel pairs times layers in a task, which takes some 10 ms. Larger tasks leave
threads idle at the end, and smaller ones need more calls."""


class CpuEngine(Engine[TabledSignals]):
    """The engine of compiled loops in threads, for NumPy arrays and ReLU networks."""

    name = "cpu"
    known_fields = KERNEL_FIELDS
    activations = frozenset(("relu",))
    arrays = frozenset(("numpy",))
    auto_arrays = arrays
    lists = True
    missing_warning = "kernels are computed by NumPy, several times slower than by compiled loops"

    def why_not(self) -> str | None:
        return library.why_not()

    def with_tables(self, request: Request, X: Batch) -> TabledSignals:
        """Return signals that keep the tables of their first blocks between calls."""
        return _signals(request, X, int(min(_HELD_BYTES, free_bytes() * _HELD_SHARE)))

    def plan(
        self,
        request: Request,
        X: Batch | TabledSignals,
        Z: Batch | TabledSignals | None = None,
        paired: bool = False,
    ) -> CpuPlan:
        return CpuPlan(request, X, Z, paired)


class CpuPlan(Plan):
    """The plan of the engine "cpu": blocks of signals, and tasks of their pairs for threads."""

    def __init__(
        self,
        request: Request,
        X: Batch | TabledSignals,
        Z: Batch | TabledSignals | None = None,
        paired: bool = False,
    ) -> None:
        self.left = left = _signals(request, X)
        self.right = left if Z is None else _signals(request, Z)
        super().__init__(request, X, Z, paired, (left.longest, self.right.longest))
        self.n_interleaved = 1 if paired and request.pool else self.right.n_interleaved
        self.threads = request.threads or _threads()

    @property
    def peak_bytes(self) -> float:
        strip_bytes = min(self.threads, math.prod(self.shape)) * self._strip_bytes()
        tables = bytes_to_hold(self.left, self.right)
        return tables + strip_bytes + self.left.operations.object_bytes

    def _strip_bytes(self) -> float:
        """Return the bytes that a thread needs for strips and their sums (`Strips` in strip.h).

        For two signals of different lengths, a strip is longer by the reach of the filters. This is
        not included.
        """
        request, pixels = self.request, self.lengths[0]
        count, lanes = MOST_STRIPS, library.lanes(request.dtype)
        vector_bytes = lanes * np.dtype(request.dtype).itemsize
        if request.all_pairs:
            count = lanes = 1
        elif not request.pool:
            count = min(count, self.shape[0])
        count = max(1, min(count, MOST_VECTORS // pixels))
        # For each left pixel, a strip has six vectors of numbers, and all strips share six more.
        states = vector_bytes * (2 + 2 * count) * 3 * pixels
        # Each of both kinds has sums and their rounding errors; pooled heads have sums over offsets
        # and over opposite offsets too.
        n_sums = 8 if request.pool else 4
        numbers = n_sums * (request.depths[-1] + 1) * (pixels if request.shares else 1) * lanes
        return states + 8.0 * count * numbers

    def _compute(self, tick: Tick) -> ScaledKernel:
        left, right = self.left, self.right
        shape = (len(self.request.depths), *self.result_shape)
        values = {kind: np.zeros(shape) for kind in self.request.kinds}
        job = left.program.job(
            values, self.shape, self.extent, paired=self.paired, symmetric=self.symmetric
        )
        job["n_interleaved"], job["padding"] = self.n_interleaved, right.padding

        def compute(
            left_tables: BlockTables, rows: slice, right_tables: BlockTables, columns: slice
        ) -> None:
            job["left"] = left_tables.side(False, rows.start)
            job["right"] = right_tables.side(self.n_interleaved > 1, columns.start)
            self._compute_blocks(job, rows, columns, tick)

        scales = over_blocks(left, right, self.paired, self.symmetric, compute)
        return left.operations.scaled_kernel(self.request.depths, values, *scales)

    def _compute_blocks(
        self, job_of_all: np.ndarray, rows: slice, columns: slice, tick: Tick
    ) -> None:
        """Compute the pairs of a left and a right block of signals, in tasks."""

        def compute(task: tuple[slice, slice, int]) -> int:
            lefts, rights, pairs = task
            job = copied(job_of_all)
            job["first_left"], job["end_left"] = lefts.start, lefts.stop
            job["first_right"], job["end_right"] = rights.start, rights.stop
            job["stop"] = pointer(stop_flag())
            library.run(job, self.request.dtype)
            return pairs

        offsets = self.request.n_offsets(self.right.longest)
        per_pair = self.request.depths[-1] * self.left.longest * offsets
        tasks = list(self._tasks(rows, columns, _TASK_PAIRS / per_pair))
        threads = min(len(tasks), self.threads)
        entries = per_pair * sum(pairs for _, _, pairs in tasks)
        is_short = threads == 1 and entries < 4 * _TASK_PAIRS  # ends before anyone presses Ctrl-C
        with pool_of(0 if is_short else threads) as pool:
            for done in pool.map(compute, tasks):
                tick(done)

    def _tasks(
        self, rows: slice, columns: slice, most: float
    ) -> Iterator[tuple[slice, slice, int]]:
        """Yield the tasks: left signals, right signals, and their number of pairs, about `most`."""
        n_columns = 1 if self.paired else columns.stop - columns.start
        least = 1 if self.request.all_pairs or self.paired else MOST_LANES
        for lefts in blocks(rows.start, rows.stop, max(least, int(most / n_columns))):
            n_lefts, begin = lefts.stop - lefts.start, columns.start
            if self.paired:
                yield lefts, lefts, n_lefts
                continue
            if self.symmetric:
                begin = max(begin, lefts.start // MOST_LANES * MOST_LANES)
            size = max(MOST_LANES, int(most) // MOST_LANES * MOST_LANES)
            for rights in blocks(begin, columns.stop, size):
                yield lefts, rights, n_lefts * (rights.stop - rights.start)


def _signals(request: Request, X: Batch | TabledSignals, held_bytes: int = 0) -> TabledSignals:
    """Return signals with tables for the loops. Prepared signals are returned unchanged.

    Tables of at most `held_bytes` are kept between calls.
    """
    if isinstance(X, TabledSignals):
        return X
    padding, longest = _padding(request), channels_and_length(X)[1]
    signal_bytes = bytes_of_all_rows(request, X, padding)
    most_bytes, n_interleaved = room_for_tables(_TABLE_BYTES, float(signal_bytes.sum())), 1
    if not request.all_pairs:
        largest = float(signal_bytes.max())
        n_interleaved, most_bytes = _interleaving(request.dtype, len(X), largest, most_bytes)
    if request.pool and _lanes_are_offsets(request, len(X), longest, n_interleaved):
        n_interleaved = 1
    return TabledSignals(
        request,
        X,
        n_interleaved=n_interleaved,
        padding=padding,
        most_bytes=most_bytes,
        held_bytes=held_bytes,
    )


def _interleaving(dtype: str, n: int, signal_bytes: float, most_bytes: float) -> tuple[int, float]:
    """Return how many right signals are interleaved, and the most bytes of a block's tables.

    They are as many as a vector has lanes, but no more than there are, `n`, and than fit into
    memory. The table of a signal has at most `signal_bytes`. If those of one vector exceed
    `most_bytes`, they may have `_FREE_SHARE` of the free memory instead.
    """
    lanes = library.lanes(dtype)
    if lanes == 1:
        return lanes, most_bytes
    if lanes * signal_bytes > most_bytes:
        most_bytes = max(most_bytes, min(lanes * signal_bytes, free_bytes() * _FREE_SHARE))
    while lanes > 1 and (lanes // 2 >= n or lanes * signal_bytes > most_bytes):
        lanes //= 2
    if n <= _FEW_SIGNALS and n * signal_bytes > _TABLE_BYTES // 3:
        lanes = 1  # without a second, interleaved copy of the tables
    return lanes, most_bytes


def _padding(request: Request) -> int:
    """Return the number of entries that follow each line of a table (`TabledSignals.padding`)."""
    return MOST_LANES if request.has_offsets else 0


def _lanes_are_offsets(request: Request, n: int, d: int, n_interleaved: int) -> bool:
    """Return whether the lanes of a vector are offsets of one right signal, for a pooled head.

    If not, they are several right signals. The results are the same. For `n` right signals of `d`
    pixels, the choice with fewer strips is faster and is taken.
    """
    shape, n_signal_strips = request.pixel_shape(d), -(-n // n_interleaved) * request.n_offsets(d)
    half, lanes = not request.shares, library.lanes(request.dtype)
    ranges = offset_ranges(request.pool, shape, half)
    counts = [len(offset_range.pool_counts) for offset_range in ranges]
    return (1 + half) * n * sum(-(-count // lanes) for count in counts) <= n_signal_strips


def _threads() -> int:
    """Return the default number of threads.

    It is OMP_NUM_THREADS, which joblib sets in its workers, or the number of usable processors.
    """
    number = os.environ.get("OMP_NUM_THREADS", "")
    return int(number) if number.isdecimal() and int(number) else processors()
