"""Signals of different lengths in the engine "numba".

Signals are sorted by length, the longest first, and cut into blocks whose tables are held at
once. A task has some left and some right cases of two blocks, each of similar lengths. Rows go
along the longer signals, which are the left ones: an open row has a margin at both ends, and
long rows have the least of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ...arrays import Array
from ...signals import SignalList
from ..pool import pool_of
from ..protocol import Request, ScaledKernel, Tick, cut
from . import sizes
from .cases import Cases, Part
from .run import NumbaRun

_SIMILAR = 1.5
"""The longest of the left signals of a task has at most this many times the pixels of the last.

The longest one decides how many rows a group has. A larger number lets more left signals share
the right tables of a group; a smaller one keeps the groups of short signals large. Chosen by
reasoning: groups are flat in time over a factor 2 (`sizes._GROUP_BYTES`).
"""


class Sorted:
    """Signals of one side of a Gram, from the longest to the shortest."""

    def __init__(self, run: NumbaRun, signals: SignalList) -> None:
        self._run, self._signals = run, signals
        self.order = signals.order
        self.scale: Array = np.empty(len(signals))
        lengths = signals.lengths[self.order]
        taken = [run.scaling(int(d)).bytes_per_case(run.n_channels) for d in lengths]
        self.blocks = list(cut(np.array(taken), sizes.TABLE_BYTES))

    def cases(self, block: slice) -> Cases:
        """Return the cases of a block, with their tables."""
        runs = self._signals[self.order[block]].runs()
        cases = Cases(self._run, block.start, [run.signals for run in runs])
        self.scale[self.order[block]] = cases.scale
        return cases


class Task(NamedTuple):
    """Left with right cases; `transposed` if the left cases come from Z."""

    left: Part
    right: Part
    shift: int | None
    """As for `NumbaRun.fill`."""

    transposed: bool = False


def gram(request: Request, X: SignalList, Z: SignalList | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    others = X if Z is None else Z
    run = NumbaRun(request, X.n_channels, max(X.longest, others.longest), closed=False)
    rows = Sorted(run, X)
    columns = rows if Z is None else Sorted(run, others)
    entries = int(X.lengths.sum()) * int(others.lengths.sum())
    threads = sizes.threads_of(run.threads, entries * run.depth)
    most = max(1, entries // (8 * threads))
    values = run.values(len(X), len(others))
    fill = partial(_fill, run, values, rows.order, columns.order, Z is None)
    with pool_of(threads) as pool:
        for block in rows.blocks:
            own = rows.cases(block)
            for other_block in columns.blocks:
                if Z is None and other_block.start < block.start:
                    continue  # below the diagonal
                same = Z is None and other_block == block
                other = own if same else columns.cases(other_block)
                tasks = _tasks(run, own, other, Z is None, most)
                for done in pool.map(fill, tasks):
                    tick(done)
    return run.finish(values, rows.scale, columns.scale, False)


def diagonal(request: Request, X: SignalList, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    run = NumbaRun(request, X.n_channels, X.longest, closed=False)
    rows, values = Sorted(run, X), run.values(1, len(X))
    threads = sizes.threads_of(run.threads, int((X.lengths**2).sum()) * run.depth)
    size = sizes.cases_of_diagonal(threads, len(X), len(request.depths))

    def task(own: Part) -> int:
        values[:, :, 0, rows.order[own.batch]] = run.fill_diagonal(own)
        return len(own)

    with pool_of(threads) as pool:
        for block in rows.blocks:
            cases = rows.cases(block)
            starts = range(0, len(cases), size)
            parts = [Part(cases, k, min(k + size, len(cases))) for k in starts]
            for done in pool.map(task, parts):
                tick(done)
    return run.of_diagonal(values, rows.scale)


def _similar(lengths: np.ndarray, most: int) -> Iterator[slice]:
    """Yield slices of falling lengths, of at most `most`, each held together by `_SIMILAR`."""
    start = 0
    while start < len(lengths):
        some = lengths[start : start + most]
        stop = start + int(np.count_nonzero(some * _SIMILAR >= some[0]))
        yield slice(start, stop)
        start = stop


def _tasks(run: NumbaRun, own: Cases, other: Cases, symmetric: bool, most: int) -> Iterator[Task]:
    """Yield the tasks of two blocks, of at most `most` pixel pairs each.

    Blocks on the diagonal of a symmetric Gram are the same.
    """
    same, depths = own is other, len(run.request.depths)
    for rows in _similar(own.lengths, run.left_cases):
        first = rows.start if same else 0
        whole = slice(first, len(other))  # if symmetric, no right case is longer
        for columns in [whole] if symmetric else _similar(other.lengths, run.left_cases):
            sides = (own, rows), (other, columns)
            longer = own.lengths[rows.start] >= other.lengths[columns.start]
            (left, lefts), (right, rights) = sides if symmetric or longer else sides[::-1]
            number, lengths = lefts.stop - lefts.start, right.lengths[rights]
            entries = int(left.lengths[lefts].sum()) * lengths
            filled = lengths / run.rows_of_task(int(left.lengths[lefts.start]))
            shares = np.minimum(entries / sizes.TASK_PAIRS, filled)
            shares = np.maximum(shares, entries / most)
            shares = np.maximum(shares, number * depths / sizes.TASK_RESULTS)
            for some in cut(shares, 1.0):
                start, stop = rights.start + some.start, rights.start + some.stop
                yield Task(
                    Part(left, lefts.start, lefts.stop),
                    Part(right, start, stop),
                    start - lefts.start if same else None,
                    not (symmetric or longer),
                )


def _fill(
    run: NumbaRun,
    values: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    symmetric: bool,
    task: Task,
) -> int:
    """Compute a task of `values`, and return its number of pairs of cases.

    `rows` and `columns` are the places in X and Z of the sorted signals.
    """
    left, right = task.left, task.right
    kernels = run.fill(values, left, right, task.shift)
    shift = len(left) if task.shift is None else task.shift
    i, k = np.nonzero(np.arange(len(left))[:, None] <= np.arange(len(right)) + shift)
    kernels = kernels[:, :, i, k]
    i, k = left.batch.start + i, right.batch.start + k
    if task.transposed:
        i, k = k, i
    values[:, :, rows[i], columns[k]] = kernels
    if symmetric:
        values[:, :, rows[k], columns[i]] = kernels
    return len(i)
