"""The engine "numba": the reference engine's recursion, compiled for the CPU.

A run has three acts:

- plan.py: how the work is cut, from shapes alone.
- tables.py: the numbers of the signals of one side.
- run.py: a task, which the loops of rows.py compute. Doubtful pairs go through merged.py again.

Threads take tasks from a queue, so that no thread waits for another.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...arrays import Batch, SignalList, channels_and_length
from ..protocol import Request, ScaledKernel, Tick, pool_of
from .plan import Plan, TaskCases
from .run import NumbaRun
from .tables import OrderedSignals, SignalBlock


def gram(request: Request, X: Batch, Z: Batch | None, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric)."""
    rows = OrderedSignals(X)
    columns = rows if Z is None else OrderedSignals(Z)
    plan = plan_of(request, X, rows, columns)
    run = NumbaRun(plan)
    values = run.values(len(rows), len(columns))
    with pool_of(plan.threads) as pool:
        for left_cases in plan.blocks():
            left = SignalBlock(plan, rows, left_cases).made()
            for right_cases in plan.right_blocks(left_cases):
                right = SignalBlock(plan, columns, right_cases)
                if plan.symmetric and right_cases == left_cases:
                    right = left
                elif plan.is_shared(right_cases):
                    right.made()
                fill = partial(fill_task, run, values, left, right)
                for done in pool.map(fill, plan.tasks(left_cases, right_cases)):
                    tick(done)
    return run.finish(values, rows.scale, columns.scale, plan.symmetric and plan.closed)


def diagonal(request: Request, X: Batch, tick: Tick) -> ScaledKernel:
    """Return the kernel of each case of `X` with itself."""
    rows = OrderedSignals(X)
    plan = plan_of(request, X, rows, None)
    run = NumbaRun(plan)
    values = run.values(1, len(rows))
    with pool_of(plan.threads) as pool:
        for cases in plan.blocks():
            fill = partial(fill_diagonal, run, values, SignalBlock(plan, rows, cases))
            for done in pool.map(fill, plan.diagonal_tasks(cases)):
                tick(done)
    scaled = run.finish(values, rows.scale, rows.scale, symmetric=False)
    own = {kind: value[:, 0] for kind, value in scaled.values.items()}
    return ScaledKernel(own, rows.scale, rows.scale, scaled.exponents)


def plan_of(
    request: Request, X: Batch, rows: OrderedSignals, columns: OrderedSignals | None
) -> Plan:
    """Return the plan of a request; without `columns`, of a diagonal."""
    lengths = None if columns is None else columns.lengths
    n_channels, closed = channels_and_length(X)[0], not isinstance(X, SignalList)
    return Plan(request, n_channels, closed, rows.lengths, lengths)


def fill_task(
    run: NumbaRun, values: np.ndarray, rows: SignalBlock, columns: SignalBlock, task: TaskCases
) -> int:
    """Compute a task of `values`, and return its number of pairs of cases."""
    plan = run.plan
    if plan.symmetric and rows.contains(task.columns):
        columns = rows  # whose tables are there
    left, right = rows.part(task.rows), columns.part(task.columns)
    if task.swapped:
        left, right = right, left
    shift = right.cases.start - left.cases.start if plan.symmetric else None
    kernels, needed = run.fill(values, left, right, shift)
    if not plan.closed:
        i, k = np.nonzero(needed)
        kernels = kernels[:, :, i, k]
        i, k = left.places[i], right.places[k]
        if task.swapped:
            i, k = k, i
        values[:, :, i, k] = kernels
        if plan.symmetric:
            values[:, :, k, i] = kernels
    elif not run.has_pixels:
        values[:, :, left.cases, right.cases] = kernels
    return int(np.count_nonzero(needed))


def fill_diagonal(run: NumbaRun, values: np.ndarray, block: SignalBlock, cases: slice) -> int:
    """Compute kernels of some cases with themselves, and return the number of cases."""
    part = block.part(cases)
    kernels, _ = run.fill(np.empty(0), part, part, 0, only_diagonal=True)
    values[:, :, 0, part.places] = kernels.diagonal(axis1=2, axis2=3)
    return len(part)
