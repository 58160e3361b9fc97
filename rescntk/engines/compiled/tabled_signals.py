"""Tables of signals in the form that the compiled loops read.

Tables are made for one block of signals at a time, so that they fit into memory.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypeVar

import numpy as np

from ...arrays import (
    Array,
    Batch,
    SignalList,
    array_module,
    channels_and_length,
    lengths_of,
    moved,
)
from ...lazy import once
from ..request import Request
from ..signals.input import input_terms
from ..signals.tables import Tables, signal_tables, zeros
from ..work import blocks, cut
from .program import Program, cached_program, count_terms, operations_of
from .records import SIDE, filled, pointer

_NUMBERS_PER_SIGNAL = 5
"""How many numbers a `BlockTables` has per signal, besides table rows and terms."""

Lengths = TypeVar("Lengths", int, np.ndarray)
"""The length of a signal, or those of several signals."""


def row_bytes(request: Request, lengths: Lengths, padding: int) -> Lengths:
    """Return the bytes of one table row, for signals of some lengths.

    If `padding` is not 0, each line of pixels is stored twice, and followed by `padding` numbers.
    """
    numbers = lengths
    if padding:
        lines = lengths // request.line_pixels if request.line_pixels > 1 else 1
        numbers = 2 * lengths + lines * padding
    return numbers * np.dtype(request.dtype).itemsize


def bytes_of_all_rows(request: Request, batch: Batch, padding: int) -> np.ndarray:
    """Return the bytes of all table rows of each signal.

    They are floats, because they may exceed 64-bit integers.
    """
    channels, longest = channels_and_length(batch)
    n_rows = operations_of(request, channels, len(request.pixel_shape(longest))).n_rows
    return row_bytes(request, lengths_of(batch), padding) * float(n_rows)


class TabledSignals:
    """The left or the right signals of a plan, which keep the tables of some blocks in memory.

    They always keep the tables of the block that was used last. Besides, they keep the tables of
    the first blocks, as many as fit into `held_bytes` together.

    Tables are computed with the array module `maker` and then moved to the module `xp`. If
    `n_interleaved` is above 1, the tables of so many right signals are interleaved, so that the
    loops can read one number of each as a vector. If `padding` is not 0, each line of pixels is
    stored twice and followed by `padding` numbers, so that a vector of neighbouring right pixels
    can be read from any pixel on.
    """

    def __init__(
        self,
        request: Request,
        batch: Batch,
        *,
        n_interleaved: int,
        padding: int,
        most_bytes: float,
        held_bytes: int = 0,
        xp: ModuleType = np,
        maker: ModuleType = np,
    ) -> None:
        self.request, self.batch = request, batch
        self.n_interleaved, self.padding, self.most_bytes = n_interleaved, padding, most_bytes
        self.held_bytes, self.xp, self.maker = held_bytes, xp, maker
        channels, self.longest = channels_and_length(batch)
        self.pixel_shape = request.pixel_shape(self.longest)
        self.operations = operations_of(request, channels, len(self.pixel_shape))
        self._held: dict[tuple[int, int], BlockTables] = {}
        self._last: tuple[tuple[int, int], BlockTables] | None = None

    def __len__(self) -> int:
        return len(self.batch)

    @once
    def program(self) -> Program:
        """The records of the request."""
        return cached_program(
            self.request, self.operations.n_channels, len(self.pixel_shape), self.xp
        )

    @once
    def n_terms(self) -> int:
        """The number of terms in the arrays of `input_terms`."""
        return count_terms(self.request, self.operations)

    @once
    def lengths(self) -> np.ndarray:
        return lengths_of(self.batch)

    @once
    def bytes_of_all_rows(self) -> np.ndarray:
        """Bytes of all table rows of each signal, as floats."""
        return bytes_of_all_rows(self.request, self.batch, self.padding)

    @once
    def bytes_of_tables(self) -> np.ndarray:
        """Bytes of the table of each signal, including the interleaved copy of its rows."""
        pixels = self.longest * ((self.request.pool > 0) + self.request.shares)
        terms = self.n_terms * (pixels + (not self.request.pool))
        n_copies = 2 if self.n_interleaved > 1 else 1
        return n_copies * self.bytes_of_all_rows + 8 * (terms + _NUMBERS_PER_SIGNAL)

    def bytes_of(self, block: slice) -> int:
        """Return the bytes of the tables of a block."""
        unused = -(block.stop - block.start) % self.n_interleaved  # lanes of the last vectors
        return int(self.bytes_of_tables[block].sum() + unused * self.bytes_of_all_rows.max())

    @property
    def nbytes(self) -> int:
        """Bytes of the signals, and of the tables that are kept between calls."""
        sizes = [self.bytes_of(block) for block in self.blocks]
        held = sum(sizes[: self._n_held]) + max(sizes[self._n_held :], default=0)
        return int(self.batch.nbytes + held)

    @property
    def bytes_to_hold(self) -> int:
        """Bytes of the largest tables of a block among those that are not in memory yet, or 0."""
        last = self._last  # threads may share the signals
        in_memory = {*self._held, last and last[0]}
        missing = (block for block in self.blocks if (block.start, block.stop) not in in_memory)
        return max(map(self.bytes_of, missing), default=0)

    @once
    def _n_held(self) -> int:
        """The number of first blocks whose tables are kept between calls."""
        if not self.held_bytes:
            return 0
        sizes = [self.bytes_of(block) for block in self.blocks]
        room = self.held_bytes - (max(sizes) if sum(sizes) > self.held_bytes else 0)
        return int(np.searchsorted(np.cumsum(sizes), room, side="right"))

    @once
    def blocks(self) -> list[slice]:
        """Blocks of signals whose tables take at most `most_bytes`."""
        if self.request.all_pairs:
            return list(cut(self.bytes_of_tables, self.most_bytes))
        n_groups = int(self.most_bytes / self.bytes_of_tables.max()) // self.n_interleaved
        return list(blocks(0, len(self), max(1, n_groups) * self.n_interleaved))

    def blocks_with(self, right: TabledSignals) -> list[slice]:
        """Blocks for paired signals; the tables of both sides take at most `most_bytes`."""
        if right is self or not self.request.all_pairs:
            return self.blocks
        return list(cut(self.bytes_of_tables + right.bytes_of_tables, self.most_bytes))

    def tables(self, block: slice) -> BlockTables:
        """Return the tables of a block, from memory if they are kept there."""
        bounds, last = (block.start, block.stop), self._last  # threads may share the signals
        if bounds in self._held:
            return self._held[bounds]
        if last is not None and last[0] == bounds:
            return last[1]
        last = self._last = None  # frees the last tables before the next ones need memory
        tables = BlockTables(self, block)
        if block in self.blocks[: self._n_held]:
            return self._held.setdefault(bounds, tables)
        self._last = bounds, tables
        return tables

    def by_length(self, block: slice) -> Iterator[tuple[np.ndarray, Array]]:
        """Yield the indices of the signals of a block with one length, and these signals."""
        cases = np.arange(block.start, block.stop)
        if not isinstance(self.batch, SignalList):
            signals = moved(self.batch[block], self.maker)
            yield cases, signals.reshape(*signals.shape[:2], *self.pixel_shape)
            return
        for length in np.unique(self.lengths[cases]):
            selected = cases[self.lengths[cases] == length]
            yield selected, np.stack([self.batch[int(k)] for k in selected])


def over_blocks(
    left: TabledSignals,
    right: TabledSignals,
    paired: bool,
    symmetric: bool,
    compute: Callable[[BlockTables, slice, BlockTables, slice], None],
) -> tuple[Array, Array]:
    """Call `compute` for each left block and each right block whose pairs are needed.

    These are all pairs of blocks. But if `paired`, a left block needs only the right signals of the
    same indices, and if `symmetric`, only right blocks that do not end before it begins. Tables are
    freed before the next ones need memory. The scales of all left and right signals are returned.
    """
    scales = left.maker.zeros(len(left)), right.maker.zeros(len(right))
    for rows in left.blocks_with(right) if paired else left.blocks:
        left_tables = left.tables(rows)
        for columns in [rows] if paired else right.blocks:
            if symmetric and columns.stop <= rows.start:
                continue
            same = left is right and rows == columns
            right_tables = left_tables if same else right.tables(columns)
            compute(left_tables, rows, right_tables, columns)
            scales[0][rows], scales[1][columns] = left_tables.scale, right_tables.scale
            del right_tables
        del left_tables
    return scales


def bytes_to_hold(left: TabledSignals, right: TabledSignals) -> int:
    """Return the bytes of the tables that a call must make, for one block per side at a time."""
    has_two_blocks = right is not left or len(left.blocks) > 1
    return left.bytes_to_hold + has_two_blocks * right.bytes_to_hold


class BlockTables:
    """The tables of a block of signals in the form that the compiled loops read.

    `TabledSignals` explains which lines are stored twice and which signals are interleaved.
    """

    def __init__(self, signals: TabledSignals, block: slice) -> None:
        request, n, terms = signals.request, block.stop - block.start, signals.n_terms
        xp, longest = signals.maker, signals.longest
        length = signals.lengths[block].astype(np.int64)
        begin, key = np.zeros(n, np.int64), np.zeros(n, np.int64)
        scale, bias = xp.ones(n), xp.zeros(n)
        means = xp.zeros((n, terms, longest if request.pool else 1))
        left_terms = xp.zeros((n, terms, longest if request.shares else 0))
        tables, size = [], 0
        for cases, X in signals.by_length(block):
            part, at = self._padded_tables(signals, X), cases - block.start
            tables.append(part.rows.reshape(-1))
            begin[at] = size + np.arange(len(at)) * math.prod(part.rows.shape[1:])
            size += part.rows.size
            inputs, inside = part.input, slice(None) if len(at) == n else at
            scale[inside] = inputs.scale
            bias[inside] = inputs.bias
            if signals.padding and xp is np:
                key[at] = [zlib.crc32(x) for x in inputs.scaled]
            left, means[inside] = input_terms(signals.operations, request, inputs)
            if request.shares:
                left_terms[inside, :, : left.shape[2]] = left
        self.rows = tables[0] if len(tables) == 1 else xp.concatenate(tables)
        self.begin, self.scale, self.xp = begin, scale, signals.xp
        self.shape = n, signals.operations.n_rows
        self.n_interleaved, self.share_pixels = signals.n_interleaved, left_terms.shape[2]
        arrays = length, key, bias, means, left_terms
        self.numbers_of_signals = [moved(array, signals.xp) for array in arrays]
        self._sides: dict[tuple[bool, int], tuple[np.ndarray, list[Array]]] = {}

    def _padded_tables(self, signals: TabledSignals, X: Array) -> Tables:
        """Return the tables of signals of one length; if padded, with each line stored twice."""
        request, line_pixels = signals.request, X.shape[-1]
        pad = line_pixels + signals.padding if signals.padding else 0
        table = signal_tables(signals.operations, request, X, pad)
        for start in range(line_pixels, line_pixels + pad, line_pixels):
            stop = min(start + line_pixels, line_pixels + pad)
            table.rows[..., start:stop] = table.rows[..., : stop - start]
        return table

    def _interleaved_rows(self) -> tuple[Array, Array]:
        """Return the interleaved rows of right signals, and where each group of signals begins."""
        xp, n, lanes = array_module(self.rows), self.shape[0], self.n_interleaved
        rows = self.rows.reshape(*self.shape, -1)
        full, shape = n // lanes, rows.shape[1:]
        interleaved = zeros((-(-n // lanes), *shape, lanes), rows.dtype.name, xp)
        by_signal = xp.moveaxis(interleaved, -1, 1)
        by_signal[:full] = rows[: full * lanes].reshape(full, lanes, *shape)
        by_signal[full:, : n % lanes] = rows[full * lanes :]
        return interleaved, np.arange(len(interleaved)) * (lanes * math.prod(shape))

    def side(self, is_interleaved: bool, first: int = 0) -> np.ndarray:
        """Return the record `Side` of the block.

        The first signal of the block has the index `first` among all signals. The loops count all
        signals, so that each address is that of signal 0, before the block's own. If
        `is_interleaved`, the record has the interleaved rows.
        """
        if (is_interleaved, first) not in self._sides:
            source = self._interleaved_rows() if is_interleaved else (self.rows, self.begin)
            rows, begin = arrays = [moved(array, self.xp) for array in source]
            length, key, bias, means, left_terms = (
                pointer(array) - first * array.strides[0] for array in self.numbers_of_signals
            )
            record = filled(
                SIDE,
                rows=pointer(rows),
                begin=pointer(begin) - first // (self.n_interleaved if is_interleaved else 1) * 8,
                length=length,
                key=key,
                bias=bias,
                means=means,
                left_terms=left_terms,
                share_pixels=self.share_pixels,
            )
            # If several threads made a record, the first one is kept.
            self._sides.setdefault((is_interleaved, first), (record, arrays))
        return self._sides[is_interleaved, first][0]
