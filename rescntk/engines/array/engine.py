"""The engine "array": signals in blocks of one length, and batches of their pairs.

pairs.py computes the recursion of one batch of signal pairs through all layers, with NumPy or CuPy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import NamedTuple

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
from ...network.parameters import KERNEL_FIELDS
from ..engine import Engine, Plan, room_for_tables
from ..layer.operations import Operations
from ..request import Request, ScaledKernel
from ..signals.tables import Tables, signal_tables
from ..work import Tick, blocks, pool_of
from .pairs import SignalPairs

_BATCH_PAIRS = 1 << 16
"""The number of pixel pairs in a batch. A few dozen arrays of this size fit in the cache. On a GPU
batches are 64 times as large, so that launches take little of the time."""

_STATE_ARRAYS = 12
"""A lower bound on the number of arrays of all pixel pairs of a signal pair that are in memory at
the same time."""

_TABLE_BYTES = 64 << 20
"""The bytes that the tables of one block of signals may occupy. A larger number needs more memory;
with a smaller one, the tables of right signals are made more often."""


class ArrayEngine(Engine[Batch]):
    """The engine for NumPy and CuPy arrays and all activations, made of array operations."""

    name = "array"
    known_fields = KERNEL_FIELDS
    activations = None
    arrays = frozenset(("numpy", "cupy"))
    auto_arrays = arrays
    lists = True

    def plan(
        self,
        request: Request,
        X: Batch,
        Z: Batch | None = None,
        paired: bool = False,
    ) -> ArrayPlan:
        return ArrayPlan(request, X, Z, paired)


class Block(NamedTuple):
    """Signals of one length with their tables."""

    cases: np.ndarray
    """The indices of the signals in their batch."""
    tables: Tables
    keys: np.ndarray
    """(n,), a hash of each signal's numbers, as bytes."""


class PairsOfBlocks(NamedTuple):
    """Some pairs of the signals of a left block and a right block."""

    i: np.ndarray
    """The index of each pair's left signal in the left batch."""
    k: np.ndarray
    """The index of each pair's right signal in the right batch."""
    left: Block
    right: Block


class ArrayPlan(Plan):
    """The plan of the engine "array": blocks of signals of one length, and batches of pairs."""

    def __init__(
        self,
        request: Request,
        X: Batch,
        Z: Batch | None = None,
        paired: bool = False,
    ) -> None:
        self.X, self.Z = X, X if Z is None else Z
        channels, length = channels_and_length(X)
        super().__init__(request, X, Z, paired, (length, channels_and_length(self.Z)[1]))
        self.xp, self.pixel_shape = array_module(X), request.pixel_shape(length)
        self.itemsize = np.dtype(request.dtype).itemsize
        self.operations = Operations(
            request.network, request.depths[-1], channels, len(self.pixel_shape)
        )

    @once
    def _most_bytes(self) -> float:
        """The bytes that the tables of a block of several signals may occupy."""
        return room_for_tables(_TABLE_BYTES, max(map(self._table_bytes, (self.X, self.Z))))

    @property
    def peak_bytes(self) -> float:
        if self.xp is not np:  # CuPy reports if the memory of the GPU is full
            return 0.0
        sides = [(self.X, self.lengths[0])] + [(self.Z, self.lengths[1])] * (self.Z is not self.X)
        tables = [
            min(self._table_bytes(batch), max(self._most_bytes, self._bytes_per_pixel * length))
            for batch, length in sides
        ]
        pairs = self.lengths[0] * self.request.n_offsets(self.lengths[1])
        states = _STATE_ARRAYS * pairs * self.itemsize
        return sum(tables) + states + self.operations.object_bytes

    @property
    def _bytes_per_pixel(self) -> float:
        """Bytes of a table per pixel, as a float because they may exceed 64-bit integers."""
        return self.itemsize * float(self.operations.n_rows)

    def room_for_results(self) -> float:
        return super().room_for_results() if self.xp is np else math.inf

    def _compute(self, tick: Tick) -> ScaledKernel:
        shape = (len(self.request.depths), *self.result_shape)
        values = {kind: self.xp.zeros(shape) for kind in self.request.kinds}
        scales = self.xp.zeros(len(self.X)), self.xp.zeros(len(self.Z))
        for pairs in self._paired_blocks() if self.paired else self._crossed_blocks():
            for scale, side in zip(scales, (pairs.left, pairs.right), strict=True):
                scale[self.xp.asarray(side.cases)] = side.tables.input.scale
            self._compute_pairs(values, pairs, tick)
        return self.operations.scaled_kernel(self.request.depths, values, *scales)

    def _crossed_blocks(self) -> Iterator[PairsOfBlocks]:
        """Yield the signal pairs of each left block with each right block."""
        fit = self._table_bytes(self.Z) <= self._most_bytes
        right_blocks = list(self._blocks(self.Z)) if fit else None
        left_blocks = right_blocks if right_blocks and self.symmetric else self._blocks(self.X)
        for left in left_blocks:
            for right in right_blocks or self._blocks(self.Z):
                sides = left.cases, right.cases
                i, k = (cases.ravel() for cases in np.meshgrid(*sides, indexing="ij"))
                if self.symmetric:
                    i, k = i[i <= k], k[i <= k]
                yield PairsOfBlocks(i, k, left, right)

    def _blocks(self, batch: Batch) -> Iterator[Block]:
        """Yield blocks of signals of one length, whose tables fit into memory."""
        lengths = lengths_of(batch)
        for length in np.unique(lengths):
            for cases in self._cut(np.flatnonzero(lengths == length), int(length)):
                yield self._block(batch, cases)

    def _paired_blocks(self) -> Iterator[PairsOfBlocks]:
        """Yield signals with the same index in both batches, in blocks of one length per side."""
        lengths = np.stack([lengths_of(self.X), lengths_of(self.Z)], axis=1)
        for pair in np.unique(lengths, axis=0):
            for cases in self._cut(np.flatnonzero((lengths == pair).all(axis=1)), int(pair.sum())):
                left = self._block(self.X, cases)
                right = left if self.Z is self.X else self._block(self.Z, cases)
                yield PairsOfBlocks(cases, cases, left, right)

    def _cut(self, cases: np.ndarray, pixels: int) -> Iterator[np.ndarray]:
        """Yield blocks of `cases` so small that the tables of a block fit into memory.

        The tables of one case have `pixels` pixels.
        """
        most = max(1, int(self._most_bytes // (self._bytes_per_pixel * pixels)))
        for block in blocks(0, len(cases), most):
            yield cases[block]

    def _table_bytes(self, batch: Batch) -> float:
        """Return the bytes of the tables of all signals of a batch."""
        return self._bytes_per_pixel * int(lengths_of(batch).sum())

    def _block(self, batch: Batch, cases: np.ndarray) -> Block:
        """Return a block of the signals of one length with the indices `cases`."""
        if isinstance(batch, SignalList):
            signals = self.xp.stack([batch[k] for k in cases])
        else:
            signals = batch[self.xp.asarray(cases)]
            signals = signals.reshape(*signals.shape[:2], *self.pixel_shape)
        tables = signal_tables(self.operations, self.request, signals)
        scaled = moved(tables.input.scaled, np)
        keys = [hashlib.blake2b(one.tobytes(), digest_size=16).digest() for one in scaled]
        return Block(cases, tables, np.array(keys, "S16"))

    def _compute_pairs(self, values: dict[str, Array], pairs: PairsOfBlocks, tick: Tick) -> None:
        """Compute the kernels of signal pairs, and write them to `values`.

        The two signals of a pair may be swapped in the computation. This depends only on their
        numbers, so that K(x, z) and K(z, x) are bitwise equal. It is not done for shares, which
        belong to the pixels of the left signal.
        """
        i, k, left, right = pairs
        a, b = np.searchsorted(left.cases, i), np.searchsorted(right.cases, k)
        swapped = np.zeros(len(i), bool)
        if not self.request.shares:
            swapped = left.keys[a] > right.keys[b]
        for is_swapped in (False, True):
            indices = np.flatnonzero(swapped == is_swapped)
            sides = [(left.tables, a[indices]), (right.tables, b[indices])]
            self._compute_batches(values, i[indices], k[indices], sides, is_swapped, tick)

    def _compute_batches(
        self,
        values: dict[str, Array],
        i: np.ndarray,
        k: np.ndarray,
        sides: list[tuple[Tables, np.ndarray]],
        is_swapped: bool,
        tick: Tick,
    ) -> None:
        """Compute the kernels of signal pairs in batches, and write them to `values`.

        `sides` has, for the left and for the right signals, their tables and the index in them of
        each pair's signal. If `is_swapped`, the right signals are computed as left signals.
        """
        (first, a), (second, b) = reversed(sides) if is_swapped else sides
        lengths = [math.prod(tables.rows.shape[2:]) for tables in (first, second)]
        entries = _BATCH_PAIRS * (1 if self.xp is np else 64)
        size = max(1, entries // (lengths[0] * self.request.n_offsets(lengths[1])))

        def compute(batch: slice) -> int:
            lefts = first.selected(self.xp.asarray(a[batch]))
            rights = second.selected(self.xp.asarray(b[batch]))
            all_pairs = self.request.all_pairs
            batch_pairs = SignalPairs(self.request, self.operations, lefts, rights, all_pairs)
            with np.errstate(over="ignore", invalid="ignore"):  # results are checked later
                for t, kernels in enumerate(batch_pairs.at_depths()):
                    for kind, value in kernels.items():
                        if is_swapped and self.request.head == "pixels":
                            value = value.swapaxes(1, 2)
                        self._write(values[kind][t], i[batch], k[batch], value)
            return len(a[batch])

        threads = (self.request.threads or 1) if self.xp is np else 1
        with pool_of(threads if threads > 1 else 0) as pool:
            for done in pool.map(compute, blocks(0, len(i), size)):
                tick(done)

    def _write(self, out: Array, i: np.ndarray, k: np.ndarray, value: Array) -> None:
        """Write the kernels of signal pairs, (pairs, …), to their indices in `out`."""
        rows, columns = self.xp.asarray(i), self.xp.asarray(k)
        inside = tuple(slice(n) for n in value.shape[1:])
        out[(rows, *inside) if self.paired else (rows, columns, *inside)] = value
