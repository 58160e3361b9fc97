"""The engine "cpu": tables of signals by NumPy, and the loops of loops.cpp over pairs of signals.

Signals are taken in blocks whose tables fit into memory. The pairs of two blocks are cut into
tasks, which threads compute side by side.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from ctypes import addressof, sizeof
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...arrays import Batch, SignalList, channels_and_length
from ..merges import Merge, Step, Steps, rounded_weights
from ..once import once
from ..protocol import Request, ScaledKernel, Tick, blocks, cut, pool_of, stop_flag
from ..tables import Tables, signal_tables
from . import library
from .library import LANES, Job, Layer, Side, pointer

_TABLE_BYTES = 96 << 20
"""Bytes of the tables of one block of signals. More take more memory; with fewer, tables of right
signals are made more often."""

_TASK = 3e6
"""Pixel pairs times layers of a task: some 10 ms. Larger tasks leave threads idle at the end;
smaller ones cost more calls."""

_JOINED_LENGTH = 8
"""Least pixels of signals whose layers are joined (`Steps.joined`)."""


def prepared(request: Request, X: Batch) -> Signals:
    """Return signals with their tables, for many calls."""
    return Signals(request, X)


def gram(request: Request, X: Any, Z: Any, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    return _compute(request, X, Z, False, tick)


def paired(request: Request, X: Any, Z: Any, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with the same case of `Z` (None: with itself)."""
    return _compute(request, X, Z, True, tick)


def _compute(request: Request, X: Any, Z: Any, paired: bool, tick: Tick) -> ScaledKernel:
    left = X if isinstance(X, Signals) else Signals(request, X)
    right = left if Z is None else Z if isinstance(Z, Signals) else Signals(request, Z)
    columns = 1 if paired else len(right)
    extent = {"pixels": 2}.get(request.head, int(request.shares))
    longest = max(left.longest, right.longest)
    shape = (len(request.depths), len(left), columns, *[longest] * extent)
    values = {kind: np.zeros(shape) for kind in request.kinds}
    job = left.program.job(request, values, longest, paired, Z is None and not paired)
    for rows in left.blocks:
        for others in [rows] if paired else right.blocks:
            if paired or Z is not None or others.stop > rows.start:
                _compute_blocks(request, job, (left, rows), (right, others), tick)
    powers = [left.steps.power(depth) for depth in request.depths]
    for value in values.values():
        for t, (mantissa, _) in enumerate(powers):
            value[t] *= mantissa
    if paired:
        values = {kind: value[:, :, 0] for kind, value in values.items()}
    return ScaledKernel(values, left.scale, right.scale, tuple(power for _, power in powers))


def _compute_blocks(
    request: Request,
    whole: Job,
    left: tuple[Signals, slice],
    right: tuple[Signals, slice],
    tick: Tick,
) -> None:
    """Compute the pairs of two blocks of signals, in tasks."""
    (signals, rows), (others, columns) = left, right
    of_left = signals.tables(rows)
    of_right = of_left if signals is others and rows == columns else others.tables(columns)
    d = signals.longest
    per_pair = request.depths[-1] * d * (others.longest if signals.all_pairs else 1)

    def tasks() -> Iterator[tuple[slice, slice]]:
        most = _TASK / per_pair
        few = len(range(*columns.indices(len(others)))) if not whole.paired else 1
        least = 1 if signals.all_pairs or whole.paired else LANES
        for some in blocks(rows.start, rows.stop, max(least, int(most / few))):
            if whole.paired:
                yield some, some
                continue
            begin = (
                max(columns.start, some.start // LANES * LANES)
                if whole.symmetric
                else columns.start
            )
            for cases in blocks(begin, columns.stop, max(LANES, int(most) // LANES * LANES)):
                yield some, cases

    def compute(task: tuple[slice, slice]) -> int:
        some, cases = task
        job = Job.from_buffer_copy(whole)
        job.left, job.right = of_left.side(rows.start, False), of_right.side(columns.start, True)
        job.first_left, job.last_left = some.start, some.stop
        job.first_right, job.last_right = cases.start, cases.stop
        job.stop = pointer(stop_flag())
        library.run(job, request.dtype)
        return (some.stop - some.start) * (1 if whole.paired else cases.stop - cases.start)

    work = list(tasks())
    threads = min(len(work), request.threads or _threads())
    pairs = sum((i.stop - i.start) * (1 if whole.paired else k.stop - k.start) for i, k in work)
    small = threads == 1 and per_pair * pairs < 4 * _TASK  # no need to listen to Ctrl-C
    with pool_of(0 if small else threads) as pool:
        for done in pool.map(compute, work):
            tick(done)


def _threads() -> int:
    """Return the number of threads: OMP_NUM_THREADS, which joblib's workers have, or all cores."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else _cores() or 1


_cores = cache(os.cpu_count)  # asking takes as long as some pairs


class Signals:
    """The signals of one side. The tables of the block that was used last are kept."""

    def __init__(self, request: Request, batch: Batch) -> None:
        self.request, self.batch = request, batch
        self.all_pairs = request.head in ("gap", "pixels")
        channels, self.longest = channels_and_length(batch)
        self.axes: tuple[int, ...] = (self.longest,)
        if request.width > 1:
            self.axes = (self.longest // request.width, request.width)
        joined = self.longest >= _JOINED_LENGTH and not isinstance(batch, SignalList)
        self.program = _program(request, channels, len(self.axes), joined)
        self.steps = self.program.steps
        self.scale = np.ones(len(batch))
        self._kept: tuple[slice, BlockTables] | None = None

    def __len__(self) -> int:
        return len(self.batch)

    @once
    def lengths(self) -> np.ndarray:
        if isinstance(self.batch, SignalList):
            return self.batch.lengths
        return np.full(len(self.batch), self.longest)

    @once
    def bytes_of_each(self) -> np.ndarray:
        """Bytes of the table of each signal."""
        lines = self.lengths // self.axes[-1] if len(self.axes) == 2 else 1
        doubled = 2 * self.lengths + lines * LANES
        return doubled * self.steps.n_rows * np.dtype(self.request.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the tables that are held at a time."""
        return int(min(self.bytes_of_each.sum(), _TABLE_BYTES))

    @once
    def blocks(self) -> list[slice]:
        """Blocks of signals whose tables take at most `_TABLE_BYTES`."""
        if self.all_pairs:
            return list(cut(self.bytes_of_each, _TABLE_BYTES))
        most = int(_TABLE_BYTES / self.bytes_of_each.max()) // LANES * LANES
        return list(blocks(0, len(self), max(LANES, most)))

    def tables(self, block: slice) -> BlockTables:
        """Return the tables of a block."""
        if self._kept is None or self._kept[0] != block:
            self._kept = block, BlockTables(self, block)
        return self._kept[1]

    def of_each_length(self, block: slice) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the places of the signals of one length in a block, and the signals."""
        places = np.arange(block.start, block.stop)
        for length in np.unique(self.lengths[places]):
            some = places[self.lengths[places] == length]
            if isinstance(self.batch, SignalList):
                signals = np.stack([self.batch[int(k)] for k in some])
            else:
                signals = self.batch[block]
                signals = signals.reshape(*signals.shape[:2], *self.axes)
            yield some, signals


class BlockTables:
    """The tables of a block of signals as loops.cpp reads them.

    Rows of all pixel pairs are doubled, and `LANES` numbers longer: lanes read them from any pixel
    on. Else right signals lie side by side, in blocks of `LANES`.
    """

    def __init__(self, signals: Signals, block: slice) -> None:
        request, n, C = signals.request, block.stop - block.start, signals.steps.n_channels
        self.length = signals.lengths[block].astype(np.int64)
        self.begin, self.key, self.bias = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
        self.means = np.zeros((n, C))
        self.parts = np.zeros((n, C, signals.longest if request.shares else 0))
        tables, size = [], 0
        for places, X in signals.of_each_length(block):
            made, at = self._made(signals, X), places - block.start
            tables.append(made.rows.reshape(-1))
            self.begin[at] = size + np.arange(len(at)) * math.prod(made.rows.shape[1:])
            size += made.rows.size
            given = made.input
            signals.scale[places] = given.scale
            if request.network.bias:  # else it may be infinite, for tiny signals
                self.bias[at] = given.bias
            self.key[at] = [zlib.crc32(x) for x in given.parts]
            parts = given.parts.reshape(len(at), C, -1)
            self.means[at] = parts.mean(axis=2)
            if request.shares:
                self.parts[at, :, : parts.shape[2]] = _windowed(signals.steps, given.parts)
        self.rows = tables[0] if len(tables) == 1 else np.concatenate(tables)
        self.lanes, self.begin_of_lanes = self.rows, self.begin
        if not signals.all_pairs:
            shape = n, signals.steps.n_rows, signals.longest
            wide = np.zeros((-(-n // LANES) * LANES, *shape[1:]), self.rows.dtype)
            wide[:n] = self.rows.reshape(shape)
            wide = wide.reshape(-1, LANES, *shape[1:])
            self.lanes = np.ascontiguousarray(np.moveaxis(wide, 1, -1))
            self.begin_of_lanes = np.arange(len(wide)) * (LANES * math.prod(shape[1:]))

    def _made(self, signals: Signals, X: np.ndarray) -> Tables:
        request, width = signals.request, X.shape[-1]
        pad = width + LANES if signals.all_pairs else 0
        equivariant = request.head == "equivariant"
        made = signal_tables(signals.steps, X, request.dtype, equivariant=equivariant, pad=pad)
        for start in range(width, width + pad, width):
            stop = min(start + width, width + pad)
            made.rows[..., start:stop] = made.rows[..., : stop - start]
        return made

    def side(self, first: int, is_right: bool) -> Side:
        """Return the record of the block, whose first signal has the place `first`."""
        rows, begin, step = self.rows, self.begin, 1
        if is_right:
            rows, begin = self.lanes, self.begin_of_lanes
            step = 1 if rows is self.rows else LANES
        arrays = begin, self.length, self.key, self.bias, self.means, self.parts
        steps = step, 1, 1, 1, 1, 1
        pairs = zip(arrays, steps, strict=True)
        addresses = (pointer(a) - first // s * a.strides[0] for a, s in pairs)
        return Side(pointer(rows), *addresses, self.parts.shape[2])


def _windowed(steps: Steps, parts: np.ndarray) -> np.ndarray:
    """Return the input's pixels after the input filter, (n, channels, all pixels)."""
    for step in steps.input:
        merge = step.merge
        rolled = [np.roll(parts, -k, 2 + merge.axis) for k in merge.shifts]
        parts = np.add.reduce(rolled) / merge.taps
    return parts.reshape(*parts.shape[:2], -1)


@lru_cache(maxsize=64)
def _program(request: Request, channels: int, n_axes: int, may_join: bool) -> Program:
    """Return the records of the steps of a request."""
    return Program(request, channels, n_axes, may_join)


class Program:
    """The steps of a request as records of loops.cpp."""

    def __init__(self, request: Request, channels: int, n_axes: int, may_join: bool) -> None:
        sums = request.head in ("gap", "trace") and not request.shares
        network, depth = request.network, request.depths[-1]
        steps = Steps(network, depth, channels, n_axes, ends_early=sums)
        joined = sums and may_join and steps.may_join
        self.steps = steps = Steps(network, depth, channels, n_axes, sums, joined)
        self.weights = rounded_weights(steps, request.dtype)
        self._windows: dict[Merge, int] = {}
        self._merges: list[tuple[int, int]] = []
        for step in steps.input:
            self._add(step)
        self.layers = (Layer * depth)()
        for number, record in enumerate(self.layers, start=1):
            self._fill(record, number, request)
        flipped = [(m.taps, m.step, m.axis if n_axes == 2 else 1) for m in self._windows]
        self.windows = np.array(flipped or [(1, 1, 1)], np.int64)
        self.merges = np.array(self._merges or [(0, 0)], np.int64)

    def _add(self, step: Step) -> None:
        merge = step.merge
        self._merges.append((step.row, self._windows.setdefault(merge, len(self._windows))))

    def _fill(self, record: Layer, number: int, request: Request) -> None:
        """Fill the record of a layer."""
        for name in ("inner_bias", "outer_bias", "skip", "joined", "report"):
            setattr(record, name, -1)
        record.inner = len(self._merges)
        for step in self.steps.layers[number - 1]:
            side = "outer" if step.is_branch else "inner"
            if step.kind == "window":
                if getattr(record, f"n_{side}") == 0:
                    setattr(record, side, len(self._merges))
                setattr(record, f"n_{side}", getattr(record, f"n_{side}") + 1)
                self._add(step)
            elif step.kind == "activation":
                record.root, record.inverse = step.root, step.row
            elif step.kind == "bias":
                setattr(record, f"{side}_bias", step.row)
            else:
                setattr(record, step.kind, step.row)
                record.keep, record.share = self.weights[step.row]
        last = self.steps.layers[number - 1][-1]
        record.features = last.root if last.kind == "activation" else last.row
        bias = request.network.bias and self.steps.bias(number) * request.network.bias
        record.inner_product = bias**2
        record.outer_product = (bias * self.steps.branch_bias) ** 2
        record.kept = self.steps.keep**number
        if number in request.depths:
            record.report = request.depths.index(number)

    def job(
        self, request: Request, values: dict[str, np.ndarray], extent: int, paired: bool,
        symmetric: bool,
    ) -> Job:  # fmt: skip
        """Return a job that writes to `values`, (depths, cases, columns, …)."""
        steps, parts = self.steps, request.network.parts
        _, cases, columns = next(iter(values.values())).shape[:3]
        sums = request.head in ("gap", "trace")
        head = int(request.shares) if sums else 2 + (request.head == "pixels")
        width = request.width if request.width > 1 else extent
        return Job(
            bytes=sizeof(Job), cases=cases, columns=columns, extent=extent, head=head,
            all_pairs=request.head in ("gap", "pixels"), symmetric=symmetric, paired=paired,
            channels=steps.n_channels, height=extent // width if request.width > 1 else 0,
            width=width, depth=steps.depth, n_input=len(steps.input), n_merges=len(self._merges),
            n_windows=len(self._windows), has_opposite=steps.has_opposite,
            with_ntk="ntk" in request.kinds, windows=pointer(self.windows),
            merges=pointer(self.merges), layers=addressof(self.layers), keep=steps.keep,
            share=steps.share, linear_share=steps.linear_share, initial=parts.initial,
            inner_minus_readout=parts.inner_minus_readout,
            outer_plus_readout=parts.outer_plus_readout, readout=parts.readout,
            **{kind: pointer(value) for kind, value in values.items()},
        )  # fmt: skip
