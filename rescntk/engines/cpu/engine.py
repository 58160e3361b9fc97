"""The engine "cpu": tables of signals by NumPy, and the loops of loops.cpp over pairs of signals.

Signals are taken in blocks whose tables fit into memory. The pairs of two blocks are cut into
tasks, which threads compute side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from ...arrays import Batch
from ...network import ALL_FIELDS
from ...validation import free_bytes
from ..compiled.program import operations_of
from ..compiled.records import copied, pointer
from ..compiled.signals import Signals, row_bytes
from ..engine import Engine
from ..pooling import runs
from ..request import Request, ScaledKernel
from ..work import Tick, blocks, pool_of, processors, stop_flag
from . import library
from .library import LANES

_TABLE_BYTES = 96 << 20
"""Bytes of the tables of one block of signals. More take more memory; with fewer, tables of right
signals are made more often."""

_KEPT_BYTES, _KEPT_SHARE = 512 << 20, 1 / 8
"""Most bytes of the tables of prepared signals that are kept between calls, and their most share of
the free memory; one block of signals is kept in any case. More take more memory; with fewer, each
call makes tables again."""

_FREE_SHARE = 1 / 16
"""Share of the free memory for the tables of 16 long signals of the head "trace". A table takes the
time of some 14 pairs: with fewer signals of a block, tables are most of the work."""

_FEW = 4
"""Right signals that are read one by one where tables side by side would take much memory."""

_STRIP = 12 * 64
"""Bytes of a pixel of a strip: vectors of 64 bytes (`Strips` in strip.h)."""

_TASK = 3e6
"""Pixel pairs times layers of a task: some 10 ms. Larger tasks leave threads idle at the end;
smaller ones cost more calls."""


class CpuEngine(Engine):
    """The compiled loops, on threads, for NumPy arrays and ReLU networks."""

    name = "cpu"
    fields = ALL_FIELDS
    activations = frozenset(("relu",))
    arrays = frozenset(("numpy",))
    lists = True

    def why_not(self) -> str | None:
        return library.why_not()

    def prepared(self, request: Request, X: Batch) -> Signals:
        """Return signals with the tables of as many blocks as `_KEPT_BYTES` has room for."""
        signals = _signals(request, X)
        if len(signals.blocks) > 1:
            signals.kept_bytes = int(min(_KEPT_BYTES, free_bytes() * _KEPT_SHARE))
        return signals

    def bytes_of_pair(self, request: Request, channels: int, *lengths: int) -> int:
        operations = operations_of(request, channels, len(request.axes(lengths[0])))
        rows = sum(row_bytes(request, length, _behind(request)) for length in lengths)
        return operations.n_rows * rows + _STRIP * lengths[0]

    def _compute(
        self, request: Request, X: Batch, Z: Batch | None, tick: Tick, paired: bool
    ) -> ScaledKernel:
        left = X if isinstance(X, Signals) else _signals(request, X)
        right = left if Z is None else Z if isinstance(Z, Signals) else _signals(request, Z)
        longest = left.longest if request.shares else max(left.longest, right.longest)
        shape = len(left), 1 if paired else len(right)
        sizes = (len(request.depths), *shape, *request.pixel_axes(longest))
        values = {kind: np.zeros(sizes) for kind in request.kinds}
        job = left.program.job(values, *shape, longest, paired, Z is None and not paired)
        lanes = 1 if paired and request.pool else right.lanes
        job["lanes"], job["behind"] = lanes, right.behind
        per_pair = request.depths[-1] * left.longest * request.n_offsets(right.longest)
        for rows in left.blocks_with(right) if paired else left.blocks:
            tables = left.tables(rows)
            for others in [rows] if paired else right.blocks:
                if paired or Z is not None or others.stop > rows.start:
                    same = left is right and rows == others
                    of_right = tables if same else right.tables(others)
                    job["left"] = tables.side(False, rows.start)
                    job["right"] = of_right.side(lanes > 1, others.start)
                    _compute_blocks(request, job, rows, others, per_pair, tick)
        if paired:
            values = {kind: value[:, :, 0] for kind, value in values.items()}
        return left.operations.scaled(request.depths, values, left.scale, right.scale)


def _signals(request: Request, X: Batch) -> Signals:
    """Return signals with the tables of one block at a time."""
    signals = Signals(request, X, lanes=1, behind=_behind(request), most_bytes=_TABLE_BYTES)
    lanes, most = 1 if request.all_pairs else library.lanes(request.dtype), _TABLE_BYTES
    if lanes > 1:  # no more right signals side by side than there are, and than fit
        each = int(signals.bytes_of_rows.max())
        if lanes * each > most:
            most = int(max(most, min(lanes * each, free_bytes() * _FREE_SHARE)))
        while lanes > 1 and (lanes // 2 >= len(X) or lanes * each > most):
            lanes //= 2
        if len(X) <= _FEW and len(X) * each > _TABLE_BYTES // 3:
            lanes = 1  # with their own tables, which take no more memory
    if request.pool and _meet_offsets(request, len(X), signals.longest, lanes):
        lanes = 1
    signals.lanes, signals.most_bytes = lanes, most
    return signals


def _behind(request: Request) -> int:
    """Return the pixels behind a line of a table, where lanes read right pixels from any on."""
    return LANES if request.meets_others else 0


def _meet_offsets(request: Request, n: int, d: int, lanes: int) -> bool:
    """Return whether the lanes of pooled heads are offsets of one right signal, not right signals.

    Results are the same; the way of fewer strips is taken, with `n` right signals of `d` pixels.
    """
    axes, of_signals = request.axes(d), -(-n // lanes) * request.n_offsets(d)
    ways, width = 1 if request.shares else 2, library.lanes(request.dtype)
    counts = [len(run.shared) for run in runs(request.pool, axes, half=ways == 2)]
    return ways * n * sum(-(-count // width) for count in counts) <= of_signals


def _compute_blocks(
    request: Request, whole: np.ndarray, rows: slice, columns: slice, per_pair: int, tick: Tick
) -> None:
    """Compute the pairs of two blocks of signals, in tasks. A pair takes `per_pair` pixel pairs."""
    paired, symmetric = bool(whole["paired"][0]), bool(whole["symmetric"][0])

    def tasks() -> Iterator[tuple[slice, slice, int]]:
        """Yield some left signals, right signals, and their number of pairs."""
        most = _TASK / per_pair
        few = 1 if paired else columns.stop - columns.start
        least = 1 if request.all_pairs or paired else LANES
        for some in blocks(rows.start, rows.stop, max(least, int(most / few))):
            if paired:
                yield some, some, some.stop - some.start
                continue
            begin = columns.start
            if symmetric:
                begin = max(begin, some.start // LANES * LANES)
            for cases in blocks(begin, columns.stop, max(LANES, int(most) // LANES * LANES)):
                yield some, cases, (some.stop - some.start) * (cases.stop - cases.start)

    def compute(task: tuple[slice, slice, int]) -> int:
        some, cases, pairs = task
        job = copied(whole)
        job["first_left"], job["last_left"] = some.start, some.stop
        job["first_right"], job["last_right"] = cases.start, cases.stop
        job["stop"] = pointer(stop_flag())
        library.run(job, request.dtype)
        return pairs

    work = list(tasks())
    threads = min(len(work), request.threads or _threads())
    entries = per_pair * sum(pairs for _, _, pairs in work)
    small = threads == 1 and entries < 4 * _TASK  # no need to listen to Ctrl-C
    with pool_of(0 if small else threads) as pool:
        for done in pool.map(compute, work):
            tick(done)


def _threads() -> int:
    """Return OMP_NUM_THREADS, which joblib's workers have, or the number of usable processors."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else processors()
