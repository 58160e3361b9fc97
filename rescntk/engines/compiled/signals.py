"""Tables of signals, as the loops of the compiled engines read them.

Signals are taken in blocks whose tables fit into memory.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from types import ModuleType

import numpy as np

from ...arrays import Array, Batch, SignalList, array_module, channels_and_length, lengths_of
from ..once import once
from ..request import Request
from ..tables import Tables, linear_terms, signal_tables, zeros
from ..work import blocks, cut
from .program import program
from .records import SIDE, filled, pointer


class Signals:
    """The signals of one side. The tables of the block that was used last are kept.

    The module `maker` makes tables, and they are moved to the module `xp`. `lanes` is the number
    of right signals that lie side by side. Lines are doubled where lanes read right pixels from any
    pixel on; `behind` is the number of numbers behind them, or 0.
    """

    def __init__(
        self, request: Request, batch: Batch, *, lanes: int, behind: int, most_bytes: int,
        xp: ModuleType = np, maker: ModuleType = np,
    ) -> None:  # fmt: skip
        self.request, self.batch = request, batch
        self.lanes, self.behind, self.most_bytes = lanes, behind, most_bytes
        self.xp, self.maker = xp, maker
        channels, self.longest = channels_and_length(batch)
        self.axes = request.axes(self.longest)
        self.program = program(request, channels, len(self.axes), xp)
        self.operations = self.program.operations
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
        doubled = 2 * self.lengths + lines * max(self.lanes, self.behind)
        return doubled * self.operations.n_rows * np.dtype(self.request.dtype).itemsize

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
        """Return the tables of a block; the sizes of its signals are known from then on."""
        if self._kept is None or self._kept[0] != block:
            self._kept = None  # before the next tables take memory
            made = BlockTables(self, block)
            self.scale[block] = made.scale
            self._kept = block, made
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
    """Return an array as one of the module `xp`."""
    own = array_module(array)
    if own is xp:
        return array
    return own.asnumpy(array) if xp is np else xp.asarray(array)


class BlockTables:
    """The tables of a block of signals as the loops read them.

    Lines are doubled, and `behind` numbers longer, where lanes read them from any pixel on. Right
    signals lie side by side, in blocks of `lanes`.
    """

    def __init__(self, signals: Signals, block: slice) -> None:
        request, n, terms = signals.request, block.stop - block.start, signals.program.n_terms
        xp, longest = signals.maker, signals.longest
        length = signals.lengths[block].astype(np.int64)
        begin, key = np.zeros(n, np.int64), np.zeros(n, np.int64)
        scale, bias = xp.ones(n), xp.zeros(n)
        means = xp.zeros((n, terms, longest if request.pool else 1))
        parts = xp.zeros((n, terms, longest if request.shares else 0))
        tables, size = [], 0
        for places, X in signals.of_each_length(block):
            made, at = self._made(signals, X), places - block.start
            tables.append(made.rows.reshape(-1))
            begin[at] = size + np.arange(len(at)) * math.prod(made.rows.shape[1:])
            size += made.rows.size
            given, inside = made.input, slice(None) if len(at) == n else at
            scale[inside] = given.scale
            bias[inside] = given.bias
            if signals.behind and xp is np:
                key[at] = [zlib.crc32(x) for x in given.parts]
            of_left, means[inside] = linear_terms(signals.operations, request, given)
            if request.shares:
                parts[inside, :, : of_left.shape[2]] = of_left
        self.rows = tables[0] if len(tables) == 1 else xp.concatenate(tables)
        self.begin, self.scale, self.xp = begin, scale, signals.xp
        self.shape = n, signals.operations.n_rows
        self.lanes, self.longest = signals.lanes, parts.shape[2]
        self.own = [moved(each, signals.xp) for each in (length, key, bias, means, parts)]
        self._sides: dict[tuple[bool, int], tuple[np.ndarray, list[Array]]] = {}

    def _made(self, signals: Signals, X: Array) -> Tables:
        request, width = signals.request, X.shape[-1]
        pad = width + signals.behind if signals.behind else 0
        made = signal_tables(signals.operations, request, X, pad)
        for start in range(width, width + pad, width):
            stop = min(start + width, width + pad)
            made.rows[..., start:stop] = made.rows[..., : stop - start]
        return made

    def _wide(self) -> tuple[Array, Array]:
        """Return rows of right signals side by side, and where each block of them begins."""
        xp, n, lanes = array_module(self.rows), self.shape[0], self.lanes
        rows = self.rows.reshape(*self.shape, -1)
        whole, shape = n // lanes, rows.shape[1:]
        wide = zeros((-(-n // lanes), *shape, lanes), rows.dtype.name, xp)
        by_signal = xp.moveaxis(wide, -1, 1)
        by_signal[:whole] = rows[: whole * lanes].reshape(whole, lanes, *shape)
        by_signal[whole:, : n % lanes] = rows[whole * lanes :]
        return wide, np.arange(len(wide)) * (lanes * math.prod(shape))

    def side(self, is_wide: bool, first: int = 0) -> np.ndarray:
        """Return the record of the block, whose first signal has the number `first`.

        With `is_wide`, signals lie side by side.
        """
        if (is_wide, first) not in self._sides:
            made = self._wide() if is_wide else (self.rows, self.begin)
            rows, begin = arrays = [moved(each, self.xp) for each in made]
            places = [pointer(begin) - first // (self.lanes if is_wide else 1) * 8]
            places += [pointer(array) - first * array.strides[0] for array in self.own]
            names = "begin", "length", "key", "bias", "means", "parts"
            found = dict(zip(names, places, strict=True))
            record = filled(SIDE, rows=pointer(rows), **found, longest=self.longest)
            self._sides.setdefault((is_wide, first), (record, arrays))  # the first thread's
        return self._sides[is_wide, first][0]
