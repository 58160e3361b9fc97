"""A request's steps as records, and tables of signals, for both compiled engines.

Signals are taken in blocks whose tables fit into memory.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays import Array, Batch, SignalList, array_module, channels_and_length, lengths_of
from .merges import Merge, Step, Steps, rounded_weights
from .once import once
from .protocol import Request, blocks, cut
from .records import HEADS, JOB, LAYER, SIDE, WINDOW, filled, pointer
from .tables import Tables, signal_tables, window_mean, zeros

_JOINED_DEPTH = 1000
"""Deepest networks whose layers are joined (`Steps.joined`). Sums of five taps round alike in
layers of nearly equal signals: 5000 layers have erred by 2e-12, and by 2e-13 window by window."""


class Program:
    """The steps of a request as records of records.h, in arrays of the library `xp`."""

    def __init__(self, request: Request, channels: int, n_axes: int, xp: ModuleType) -> None:
        sums = request.head in ("gap", "trace") and not request.shares
        self.request, depth = request, request.depths[-1]
        steps = Steps(request.network, depth, channels, n_axes, ends_early=sums)
        joined = sums and steps.may_join and depth <= _JOINED_DEPTH
        self.steps = replace(steps, joined=joined, fused=joined and steps.may_fuse)
        of_pixels = {"equivariant": "pixel 1", "pixels": "pixels"}
        head = "sums" if sums else of_pixels.get(request.head, "shares")
        self._windows: dict[Merge, int] = {}
        self._merges: list[tuple[int, int]] = []
        for step in self.steps.input:
            self._add(step)
        layers = np.zeros(depth, LAYER)
        for number, record in enumerate(layers, start=1):
            self._fill(record, number)
        windows = np.zeros(max(len(self._windows), 1), WINDOW)
        for k, m in enumerate(self._windows):
            weight = Fraction(1, m.total)
            rest = float(weight - Fraction(float(weight)))
            axis = m.axis if n_axes == 2 else 1
            windows[k] = m.taps, m.step, axis, m.is_triangle, float(weight), rest
        self.arrays = {
            "windows": xp.asarray(windows.view(np.int64)),
            "merges": xp.asarray(np.array(self._merges or [(0, 0)], np.int64)),
            "layers": xp.asarray(layers.view(np.int64)),
        }
        steps, parts = self.steps, request.network.parts
        self._job = filled(
            JOB, bytes=JOB.itemsize, head=HEADS.index(head), all_pairs=request.all_pairs,
            channels=steps.n_channels, n_rows=steps.n_rows, depth=steps.depth,
            n_input=len(steps.input),
            n_merges=len(self._merges), n_windows=len(self._windows),
            has_opposite=steps.has_opposite, with_ntk="ntk" in request.kinds, keep=steps.keep,
            share=steps.share, linear_share=steps.linear_share, initial=parts.initial,
            inner_minus_readout=parts.inner_minus_readout,
            outer_plus_readout=parts.outer_plus_readout, readout=parts.readout,
            **{name: pointer(array) for name, array in self.arrays.items()},
        )  # fmt: skip

    def _add(self, step: Step) -> None:
        self._merges.append((step.row, self._windows.setdefault(step.merge, len(self._windows))))

    def _fill(self, record: Any, number: int) -> None:
        """Fill the record of a layer."""
        steps, request = self.steps, self.request
        for name in ("inner_bias", "outer_bias", "skip", "joined", "report"):
            record[name] = -1
        record["inner"] = len(self._merges)
        record["enters"] = steps.joined and not steps.fused
        for step in steps.layers[number - 1]:
            side = "outer" if step.is_branch else "inner"
            if step.kind == "window":
                if record[f"n_{side}"] == 0:
                    record[side] = len(self._merges)
                record[f"n_{side}"] += 1
                self._add(step)
            elif step.kind == "activation":
                record["root"], record["inverse"] = step.root, step.row
            elif step.kind == "bias":
                record[f"{side}_bias"] = step.row
            else:
                record[step.kind] = step.row
                record["keep"], record["share"] = rounded_weights(steps, request.dtype)[step.row]
        last = steps.layers[number - 1][-1]
        record["features"] = last.root if last.kind == "activation" else last.row
        record["kept"] = steps.keep**number
        for side in ("inner", "outer"):
            root = steps.bias(number, side == "outer") if request.network.bias else 0.0
            record[f"{side}_product"] = root**2
        if number in request.depths:
            record["report"] = request.depths.index(number)

    def job(
        self, values: dict[str, Array], cases: int, columns: int, extent: int, paired: bool,
        symmetric: bool,
    ) -> np.ndarray:  # fmt: skip
        """Return a job that writes to `values`, (depths, cases, columns, …)."""
        *height, width = self.request.axes(extent)  # signals have no height
        job = self._job.copy()
        fields: dict[str, Any] = {"cases": cases, "columns": columns, "extent": extent}
        fields |= {"symmetric": symmetric, "paired": paired, "height": sum(height), "width": width}
        for name, value in (fields | {kind: pointer(K) for kind, K in values.items()}).items():
            job[name] = value
        return job


_program = lru_cache(maxsize=64)(Program)


class Signals:
    """The signals of one side. The tables of the block that was used last are kept.

    The library `maker` makes tables, and they are moved to the library `xp`. `lanes` is the number
    of right signals that lie side by side, and of numbers behind a doubled line.
    """

    def __init__(
        self, request: Request, batch: Batch, *, lanes: int, most_bytes: int,
        xp: ModuleType = np, maker: ModuleType = np,
    ) -> None:  # fmt: skip
        self.request, self.batch = request, batch
        self.lanes, self.most_bytes, self.xp, self.maker = lanes, most_bytes, xp, maker
        channels, self.longest = channels_and_length(batch)
        self.axes = request.axes(self.longest)
        self.program = _program(request, channels, len(self.axes), xp)
        self.steps = self.program.steps
        self.scale = maker.ones(len(batch))
        self._kept: tuple[slice, BlockTables] | None = None

    def __len__(self) -> int:
        return len(self.batch)

    @once
    def lengths(self) -> np.ndarray:
        return lengths_of(self.batch)

    @once
    def bytes_of_each(self) -> np.ndarray:
        """Bytes of the table of each signal."""
        lines = self.lengths // self.axes[-1] if len(self.axes) == 2 else 1
        doubled = 2 * self.lengths + lines * self.lanes
        return doubled * self.steps.n_rows * np.dtype(self.request.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the signals, and of the tables that are held at a time."""
        return int(self.batch.nbytes + min(self.bytes_of_each.sum(), self.most_bytes))

    @once
    def blocks(self) -> list[slice]:
        """Blocks of signals whose tables take at most `most_bytes`."""
        if self.request.all_pairs:
            return list(cut(self.bytes_of_each, self.most_bytes))
        most = int(self.most_bytes / self.bytes_of_each.max()) // self.lanes * self.lanes
        return list(blocks(0, len(self), max(self.lanes, most)))

    def blocks_with(self, right: Signals) -> list[slice]:
        """Blocks of pairs of signals, whose tables on both sides take at most `most_bytes`."""
        if right is self or not self.request.all_pairs:
            return self.blocks
        return list(cut(self.bytes_of_each + right.bytes_of_each, self.most_bytes))

    def tables(self, block: slice) -> BlockTables:
        """Return the tables of a block."""
        if self._kept is None or self._kept[0] != block:
            self._kept = None  # before the next tables take memory
            self._kept = block, BlockTables(self, block)
        return self._kept[1]

    def of_each_length(self, block: slice) -> Iterator[tuple[np.ndarray, Array]]:
        """Yield the places of the signals of one length in a block, and the signals."""
        places = np.arange(block.start, block.stop)
        if not isinstance(self.batch, SignalList):
            signals = moved(self.batch[block], self.maker)
            yield places, signals.reshape(*signals.shape[:2], *self.axes)
            return
        for length in np.unique(self.lengths[places]):
            some = places[self.lengths[places] == length]
            yield some, np.stack([self.batch[int(k)] for k in some])


def moved(array: Array, xp: ModuleType) -> Array:
    """Return an array as one of the library `xp`."""
    own = array_module(array)
    if own is xp:
        return array
    return own.asnumpy(array) if xp is np else xp.asarray(array)


class BlockTables:
    """The tables of a block of signals as the loops read them.

    Rows of all pixel pairs are doubled, and `lanes` numbers longer: lanes read them from any pixel
    on. Else right signals lie side by side, in blocks of `lanes`.
    """

    def __init__(self, signals: Signals, block: slice) -> None:
        request, n, C = signals.request, block.stop - block.start, signals.steps.n_channels
        xp, lanes = signals.maker, signals.lanes
        length = signals.lengths[block].astype(np.int64)
        begin, key = np.zeros(n, np.int64), np.zeros(n, np.int64)
        bias, means = xp.zeros(n), xp.zeros((n, C))
        parts = xp.zeros((n, C, signals.longest if request.shares else 0))
        tables, size = [], 0
        for places, X in signals.of_each_length(block):
            made, at = self._made(signals, X), places - block.start
            tables.append(made.rows.reshape(-1))
            begin[at] = size + np.arange(len(at)) * math.prod(made.rows.shape[1:])
            size += made.rows.size
            given, inside = made.input, slice(None) if len(at) == n else at
            signals.scale[block if len(at) == n else places] = given.scale
            bias[inside] = given.bias
            if request.all_pairs and xp is np:
                key[at] = [zlib.crc32(x) for x in given.parts]
            means[inside] = given.means
            if request.shares:
                filtered = given.parts
                for step in signals.steps.input:
                    filtered = window_mean(filtered, step.merge, 2)
                filtered = filtered.reshape(len(at), C, -1)
                parts[inside, :, : filtered.shape[2]] = filtered
        self.rows = tables[0] if len(tables) == 1 else xp.concatenate(tables)
        self.begin, self.xp = begin, signals.xp
        self.shape = n, signals.steps.n_rows, signals.longest
        self.step, self.longest = (1 if request.all_pairs else lanes), parts.shape[2]
        self.own = [moved(each, signals.xp) for each in (length, key, bias, means, parts)]
        self._sides: dict[tuple[bool, int], tuple[np.ndarray, list[Array]]] = {}

    def _made(self, signals: Signals, X: Array) -> Tables:
        request, width = signals.request, X.shape[-1]
        pad = width + signals.lanes if request.all_pairs else 0
        made = signal_tables(signals.steps, request, X, pad)
        for start in range(width, width + pad, width):
            stop = min(start + width, width + pad)
            made.rows[..., start:stop] = made.rows[..., : stop - start]
        return made

    def _wide(self) -> tuple[Array, Array]:
        """Return rows of right signals side by side, and where each block of them begins."""
        xp, (n, *shape), step = array_module(self.rows), self.shape, self.step
        whole, rows = n // step, self.rows.reshape(self.shape)
        wide = zeros((-(-n // step), *shape, step), rows.dtype.name, xp)
        by_signal = xp.moveaxis(wide, -1, 1)
        by_signal[:whole] = rows[: whole * step].reshape(whole, step, *shape)
        by_signal[whole:, : n % step] = rows[whole * step :]
        return wide, np.arange(len(wide)) * (step * math.prod(shape))

    def side(self, is_right: bool, first: int = 0) -> np.ndarray:
        """Return the record of the block, whose first signal has the number `first`."""
        is_wide = is_right and self.step > 1
        if (is_wide, first) not in self._sides:
            made = self._wide() if is_wide else (self.rows, self.begin)
            rows, begin = arrays = [moved(each, self.xp) for each in made]
            places = [pointer(begin) - first // (self.step if is_wide else 1) * 8]
            places += [pointer(array) - first * array.strides[0] for array in self.own]
            names = "begin", "length", "key", "bias", "means", "parts"
            found = dict(zip(names, places, strict=True))
            record = filled(SIDE, rows=pointer(rows), **found, longest=self.longest)
            self._sides.setdefault((is_wide, first), (record, arrays))  # the first thread's
        return self._sides[is_wide, first][0]
