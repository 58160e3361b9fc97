"""The reference engine: the recursion as array code (recursion.py), for NumPy and CuPy arrays.

Signals of one length, or images, are taken together. Batches of pairs of signals go through all
layers, one batch after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...arrays import Array, Batch, SignalList, array_module, channels_and_length, lengths_of
from ...network import ALL_FIELDS
from ..engine import Engine
from ..request import Request, ScaledKernel
from ..tables import Tables, signal_tables
from ..windows import Operations
from ..work import Tick, blocks, pool_of
from .recursion import Pairs

_ENTRIES = 1 << 16
"""Pixel pairs of a batch: a few dozen arrays of this size fit in the cache. On a device batches are
64 times as large, so that launches cost little."""

_STATE = 12
"""Arrays of all pixel pairs of a pair of signals that are held at a time, at least."""

_TABLE_BYTES = 64 << 20
"""Bytes of the tables of one block of signals. More take more memory; with fewer, tables of right
signals are made more often."""


class ReferenceEngine(Engine):
    """The recursion as array code, for NumPy and CuPy arrays and all activations."""

    name = "reference"
    fields = ALL_FIELDS
    activations = None
    arrays = frozenset(("numpy", "cupy"))
    lists = True

    def bytes_of_pair(self, request: Request, channels: int, *lengths: int) -> int:
        pixels = lengths[0] * request.n_offsets(lengths[-1])
        itemsize = np.dtype(request.dtype).itemsize
        operations = operations_of(request, channels, len(request.axes(lengths[0])))
        return (operations.n_rows * sum(lengths) + _STATE * pixels) * itemsize

    def _compute(
        self, request: Request, X: Batch, Z: Batch | None, tick: Tick, paired: bool
    ) -> ScaledKernel:
        run = _Run(request, X, X if Z is None else Z, paired)
        if paired:
            for cases, lefts, rights in run.paired_blocks():
                run.fill(cases, cases, cases, cases, lefts, rights, tick)
            return run.scaled()
        kept = list(run.blocks(run.Z)) if run.bytes_of(run.Z) <= _TABLE_BYTES else None
        for left, lefts in kept if kept and Z is None else run.blocks(run.X):
            for right, rights in kept or run.blocks(run.Z):
                i, k = (each.ravel() for each in np.meshgrid(left, right, indexing="ij"))
                if Z is None:
                    i, k = i[i <= k], k[i <= k]
                run.fill(i, k, left, right, lefts, rights, tick)
        return run.scaled()


def operations_of(request: Request, channels: int, n_axes: int) -> Operations:
    """Return the operations that arrays go through."""
    return Operations(request.network, request.depths[-1], channels, n_axes)


class _Run:
    """The kernels of one request. Signals are grouped by their lengths."""

    def __init__(self, request: Request, X: Batch, Z: Batch, paired: bool) -> None:
        self.request, self.X, self.Z, self.paired = request, X, Z, paired
        self.xp, self.all_pairs = array_module(X), request.all_pairs
        channels, longest = channels_and_length(X)
        self.axes = request.axes(longest)
        self.operations = operations_of(request, channels, len(self.axes))
        cases = (len(X),) if paired else (len(X), len(Z))
        shape = (len(request.depths), *cases, *request.pixel_axes(longest))
        self.values = {kind: self.xp.zeros(shape) for kind in request.kinds}
        self.scales = {id(side): self.xp.zeros(len(side)) for side in (X, Z)}

    def blocks(self, batch: Batch) -> Iterator[tuple[np.ndarray, Tables]]:
        """Yield places of signals of one length, with their tables."""
        lengths = lengths_of(batch)
        for length in np.unique(lengths):
            for cases in self.cut(np.flatnonzero(lengths == length), int(length)):
                yield cases, self.tables_of(batch, cases)

    def paired_blocks(self) -> Iterator[tuple[np.ndarray, Tables, Tables]]:
        """Yield places of pairs of one left and one right length, with the tables of both sides."""
        lengths = np.stack([lengths_of(self.X), lengths_of(self.Z)], axis=1)
        for pair in np.unique(lengths, axis=0):
            for cases in self.cut(np.flatnonzero((lengths == pair).all(axis=1)), int(pair.sum())):
                lefts = self.tables_of(self.X, cases)
                yield cases, lefts, lefts if self.Z is self.X else self.tables_of(self.Z, cases)

    def cut(self, places: np.ndarray, pixels: int) -> Iterator[np.ndarray]:
        """Yield some places at a time, whose tables fit into memory; each has some pixels."""
        most = max(1, _TABLE_BYTES // (8 * self.operations.n_rows * pixels))
        for some in blocks(0, len(places), most):
            yield places[some]

    def bytes_of(self, batch: Batch) -> int:
        """Return the bytes of the tables of all signals of a batch."""
        return 8 * self.operations.n_rows * int(lengths_of(batch).sum())

    def tables_of(self, batch: Batch, cases: np.ndarray) -> Tables:
        """Return the tables of some signals of one length."""
        if isinstance(batch, SignalList):
            signals = self.xp.stack([batch[k] for k in cases])
        else:
            signals = batch[self.xp.asarray(cases)]
            signals = signals.reshape(*signals.shape[:2], *self.axes)
        tables = signal_tables(self.operations, self.request, signals)
        self.scales[id(batch)][self.xp.asarray(cases)] = tables.input.scale
        return tables

    def fill(
        self, i: np.ndarray, k: np.ndarray, left: np.ndarray, right: np.ndarray, lefts: Tables,
        rights: Tables, tick: Tick,
    ) -> None:  # fmt: skip
        """Compute the pairs (i, k) of the blocks of cases `left` and `right`."""
        a, b = np.searchsorted(left, i), np.searchsorted(right, k)
        lengths = [math.prod(side.rows.shape[2:]) for side in (lefts, rights)]
        entries = _ENTRIES * (1 if self.xp is np else 64)
        size = max(1, entries // (lengths[0] * self.request.n_offsets(lengths[1])))

        def compute(some: slice) -> int:
            of_left = lefts.selected(self.xp.asarray(a[some]))
            of_right = rights.selected(self.xp.asarray(b[some]))
            pairs = Pairs(self.request, self.operations, of_left, of_right, self.all_pairs)
            for t, kernels in enumerate(pairs.at_depths()):
                for kind, value in kernels.items():
                    self.write(self.values[kind][t], i[some], k[some], value)
            return len(a[some])

        threads = (self.request.threads or 1) if self.xp is np else 1
        with pool_of(threads if threads > 1 else 0) as pool:
            for done in pool.map(compute, blocks(0, len(i), size)):
                tick(done)

    def write(self, out: Array, i: np.ndarray, k: np.ndarray, value: Array) -> None:
        """Write kernels of pairs, (pairs, …), to their places."""
        rows, columns = self.xp.asarray(i), self.xp.asarray(k)
        inside = tuple(slice(n) for n in value.shape[1:])
        out[(rows, *inside) if self.paired else (rows, columns, *inside)] = value

    def scaled(self) -> ScaledKernel:
        left, right = (self.scales[id(side)] for side in (self.X, self.Z))
        return self.operations.scaled(self.request.depths, self.values, left, right)
