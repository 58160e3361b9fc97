"""The engine "numba": the reference engine's recursion, compiled for the CPU.

plan.py cuts the work into tasks, and tables.py has the numbers of one side's signals. Threads take
tasks from a queue, so that no thread waits for another. Doubtful pairs are computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...arrays import Array, Batch, SignalList
from ..protocol import Request, ScaledKernel, Tick, pool_of, silent
from . import parts_of
from .plan import Plan
from .run import NumbaRun
from .tables import NumbaSignals
from .vectors import VECTOR_BYTES


def prepared(request: Request, X: Batch) -> NumbaSignals:
    """Return signals with their tables, which `gram` and `paired` take in the place of signals."""
    signals = NumbaSignals(X)
    request, *deeper = parts_of(request, signals.n_channels)
    if not deeper:  # requests that are computed apart have tables of their own
        signals.keep_tables(request)
    return signals


def gram(
    request: Request, X: Batch | NumbaSignals, Z: Batch | NumbaSignals | None, tick: Tick
) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    rows = _ordered(X)
    request, *deeper = parts_of(request, rows.n_channels)
    if deeper:
        right = None if Z is None else _ordered(Z).batch
        return _joined(gram, [request, *deeper], rows.batch, right, tick)
    columns = rows if Z is None else _ordered(Z)
    plan = _plan(request, rows, columns)
    if swapped := _is_faster_swapped(plan, len(rows.order), len(columns.order)):
        rows, columns = columns, rows
        plan = _plan(request, rows, columns)
    run = NumbaRun(plan, len(rows.order), len(columns.order))
    run_tasks(plan, rows, columns, run.fill, tick)
    if swapped:
        rows, columns, run.values = columns, rows, run.values.swapaxes(2, 3)
    return run.finish(rows, columns, plan.symmetric and plan.closed)


def run_tasks(
    plan: Plan,
    rows: NumbaSignals,
    columns: NumbaSignals,
    compute: Callable[..., Any],
    take: Callable[[Any], None],
) -> None:
    """Call `compute` with both sides' blocks and each task, and `take` with its results in order.

    Threads compute; `take` is called by the caller's thread.
    """
    with pool_of(plan.workers) as pool:
        for left_cases in plan.blocks():
            left = rows.block(plan, left_cases).made()
            for right_cases in plan.right_blocks(left_cases):
                right = columns.block(plan, right_cases)
                if plan.symmetric and right_cases == left_cases:
                    right = left
                elif plan.is_shared(right_cases):
                    right.made()
                work = partial(compute, left, right)
                for result in pool.map(work, plan.tasks(left_cases, right_cases)):
                    take(result)
            del left, right, work  # with their tables, before the next block makes its own


def _is_faster_swapped(plan: Plan, n: int, m: int) -> bool:
    """Return whether kernels K(z, x) of m with n signals take less time than K(x, z).

    Loops without the sweep copy the tables of each right case to all shifts of its rows, in the
    time of two pairs. A swapped call has fewer tasks, and so is for one thread; its rows must fill
    vectors.
    """
    request = plan.request
    if plan.swept or plan.symmetric or not plan.closed_rows:
        return False
    if request.head != "gap" or request.shares or plan.threads > 1 or 2 * n > m:
        return False
    rows = plan.group_rows(n * plan.scaling(plan.longest).offsets, plan.longest)
    return rows % (VECTOR_BYTES // plan.dtype.itemsize) == 0


def paired(request: Request, X: Batch | NumbaSignals, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with the same case of `Z` (None: with itself)."""
    if isinstance(X, SignalList) and Z is not None:
        X, Z = _longer_first(X, SignalList.of(Z))
    rows = _ordered(X)
    request, *deeper = parts_of(request, rows.n_channels)
    if deeper:
        return _joined(paired, [request, *deeper], rows.batch, Z, tick)
    columns = rows if Z is None else NumbaSignals(Z, rows.order)
    plan = _plan(request, rows, columns, paired=True)
    run = NumbaRun(plan, 1, len(rows.order))
    with pool_of(plan.workers) as pool:
        for cases in plan.blocks():
            left = right = rows.block(plan, cases)
            if Z is not None:
                right = columns.block(plan, cases)
            for done in pool.map(partial(run.fill_pairs, left, right), plan.paired_tasks(cases)):
                tick(done)
    run.values = run.values[:, :, 0]
    return run.finish(rows, columns, symmetric=False)


def _joined(
    compute: Callable[..., ScaledKernel], parts: list[Request], X: Batch, Z: Batch | None,
    tick: Tick,
) -> ScaledKernel:  # fmt: skip
    """Return the kernels of requests that follow one another in depth."""
    ticks = [*(silent for _ in parts[1:]), tick]  # each pair counts once
    results = [compute(part, X, Z, tick) for part, tick in zip(parts, ticks, strict=True)]
    kinds, exponents = results[-1].values, [each.exponents for each in results]
    values: dict[str, Array] = {
        kind: np.concatenate([each.values[kind] for each in results]) for kind in kinds
    }
    return ScaledKernel(values, results[-1].left, results[-1].right, sum(exponents, ()))


def _longer_first(X: SignalList, Z: SignalList) -> tuple[SignalList, SignalList]:
    """Return the longer and the shorter signals of pairs, whose kernels are the same."""
    pairs = [(x, z) if x.shape[1] >= z.shape[1] else (z, x) for x, z in zip(X, Z, strict=True)]
    return SignalList([long for long, _ in pairs]), SignalList([short for _, short in pairs])


def _ordered(X: Batch | NumbaSignals) -> NumbaSignals:
    return X if isinstance(X, NumbaSignals) else NumbaSignals(X)


def _plan(
    request: Request, rows: NumbaSignals, columns: NumbaSignals, paired: bool = False
) -> Plan:
    closed = rows.closed and columns.closed and rows.lengths[0] == columns.lengths[0]
    return Plan(request, rows.n_channels, closed, rows.lengths, columns.lengths, paired)
