"""The engine "numba": the reference engine's recursion, compiled for the CPU.

All engines share the tables of signals (signal_tables.py); the compiled loops are in rows.py.
This module cuts the work on arrays into tasks: a block of right cases with all left cases.
Threads take tasks from a queue, so that no thread waits for another. Lists are in unequal.py.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np

from ...arrays import Array
from ...signals import Batch, SignalList
from ..pool import pool_of
from ..protocol import Request, ScaledKernel, Tick, pairs_above
from . import sizes, unequal
from .cases import Cases, Part
from .run import NumbaRun
from .vectors import VECTOR_BYTES


def gram(request: Request, X: Batch, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    if isinstance(X, SignalList):
        return unequal.gram(request, X, cast(SignalList | None, Z), tick)
    return _gram(request, X, cast(Array | None, Z), tick)


def _gram(request: Request, X: Array, Z: Array | None, tick: Tick) -> ScaledKernel:
    """Return the kernels of signals of one length."""
    run = NumbaRun(request, X.shape[1], X.shape[2], closed=True)
    others = X if Z is None else Z
    n, m = len(X), len(others)
    values = run.values(n, m)
    left_scale: Array = np.empty(n)
    right_scale: Array = np.empty(m)
    per_block = run.left_cases
    is_small = Z is not None and m <= min(sizes.FEW_CASES, per_block)
    few = Cases(run, 0, [others]) if is_small else None
    threads = _threads(run, n * m)
    with pool_of(threads) as pool:
        for first in range(0, n, per_block):
            left = Cases(run, first, [X[first : first + per_block]])
            left_scale[first : left.stop] = left.scale
            known = left if Z is None else few
            task = partial(_task, run, values, left, others, known, Z is None)
            for rights, scale in pool.map(
                task, _tasks(run, threads, len(left), first if Z is None else 0, m, Z is None)
            ):
                right_scale[slice(*rights)] = scale
                tick(_pairs((first, left.stop), rights, Z is None))
    return run.finish(values, left_scale, right_scale, Z is None)


def diagonal(request: Request, X: Batch, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    if isinstance(X, SignalList):
        return unequal.diagonal(request, X, tick)
    run = NumbaRun(request, X.shape[1], X.shape[2], closed=True)
    values = run.values(1, len(X))
    scale: Array = np.empty(len(X))
    threads = _threads(run, len(X))
    most = sizes.cases_of_diagonal(threads, len(X), len(request.depths))
    size = min(most, run.left_cases)

    def task(first: int) -> int:
        cases = Cases(run, first, [X[first : first + size]])
        scale[first : cases.stop] = cases.scale
        values[:, :, 0, first : cases.stop] = run.fill_diagonal(Part.whole(cases))
        return len(cases)

    with pool_of(threads) as pool:
        for done in pool.map(task, range(0, len(X), size)):
            tick(done)
    return run.of_diagonal(values, scale)


def _threads(run: NumbaRun, pairs: int) -> int:
    """Return the threads that compute pairs of cases: few pairs do not pay for starting threads."""
    return sizes.threads_of(run.threads, pairs * run.layer_entries)


def _tasks(
    run: NumbaRun, threads: int, n: int, first: int, stop: int, symmetric: bool
) -> list[tuple[int, int]]:
    """Return blocks of the right cases from `first` to `stop`, for `n` left cases.

    For a symmetric Gram the longest come first.
    """
    m, offsets = stop - first, run.scaling(run.longest).offsets
    few_pairs = sizes.TASK_PAIRS // (n * run.longest * offsets)
    few_results = sizes.TASK_RESULTS // (n * len(run.request.depths))
    most = max(1, min(max(few_pairs, run.right_cases), few_results, run.left_cases // 2))
    least = sizes.tasks(threads, m, n * m * run.layer_entries, run.right_cases, symmetric)
    size = -(-m // max(least, threads * -(-m // (threads * most))))
    vector = VECTOR_BYTES // np.dtype(run.request.dtype).itemsize
    if offsets == 1 and vector <= min(most, m // (2 * threads)):
        size = max(vector, size // vector * vector)  # rows are cases, and fill whole vectors
    starts = range(first, stop, size)
    return [(start, min(start + size, stop)) for start in reversed(starts)]


def _task(
    run: NumbaRun,
    values: np.ndarray,
    left: Cases,
    others: Array,
    known: Cases | None,
    symmetric: bool,
    rights: tuple[int, int],
) -> tuple[tuple[int, int], Array]:
    """Compute kernels of all left with some right cases; return `rights` and their scale.

    `others` are the right signals of the Gram, and `known` are cases of the right signals whose
    tables exist, if there are such cases.
    """
    start, stop = rights
    tables = None
    if known is not None and known.start <= start and stop <= known.stop:
        tables = [known.parts[0].tables.cases(slice(start - known.start, stop - known.start))]
    right = Cases(run, start, [others[start:stop]], tables)
    shift = start - left.start if symmetric else None
    kernels = run.fill(values, Part.whole(left), Part.whole(right), shift)
    if not run.has_pixels:
        values[:, :, left.start : left.stop, start:stop] = kernels
    return rights, right.scale


def _pairs(lefts: tuple[int, int], rights: tuple[int, int], symmetric: bool) -> int:
    """Return the number of pairs of cases of a task, for progress."""
    if symmetric:
        return pairs_above(lefts, rights)
    return (lefts[1] - lefts[0]) * (rights[1] - rights[0])
