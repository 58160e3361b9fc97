"""The sizes of tasks and of groups of rows."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import Request
from rescntk.engines.cpu import plan as sizes


def plan_of(n, m, d, dtype="float32", head="gap", depths=(5,), threads=2):
    """Return the plan of `n` with `m` signals of length `d`; without `m`, of a symmetric Gram."""
    request = Request(rk.Network(depths[-1]), head, ("ntk",), depths, dtype, threads=threads)
    rows = np.full(n, d)
    return sizes.Plan(request, 4, True, rows, rows if m is None else np.full(m, d))


def tasks_of(plan):
    """Return the tasks of all blocks, as (left cases, right cases)."""
    return [
        (task.rows.stop - task.rows.start, task.columns.stop - task.columns.start)
        for left in plan.blocks()
        for right in plan.right_blocks(left)
        for task in plan.tasks(left, right)
    ]


@pytest.mark.parametrize("n", [40, 400, 30_000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_grams_repeat_few_rows(n, dtype):
    """A right case of 100 rows in groups of 64 would repeat 28 rows in a hundred."""
    repeated = []
    for d in range(24, 256, 4):
        n = min(n, plan_of(1, 1, d, dtype).left_cases)
        plan, computed = plan_of(n, 1000, d, dtype), 0
        for _, cases in tasks_of(plan):
            group = plan.group_rows(cases * d, d)
            computed += -(-cases * d // group) * group
        repeated.append(computed / (1000 * d) - 1)
    assert np.mean(repeated) < 0.04
    assert np.max(repeated) < 0.1


@pytest.mark.parametrize("head", ["gap", "trace"])
@pytest.mark.parametrize("depths", [(1,), (5,), (300,), tuple(range(1, 51))], ids=len)
@pytest.mark.parametrize("d", [1, 10, 100, 3000])
def test_tasks_are_short_and_hold_few_results(d, depths, head):
    n = plan_of(1, 1, d, head=head, depths=depths).left_cases
    for m in (n, None):
        plan = plan_of(n, m, d, head=head, depths=depths)
        tasks = tasks_of(plan)
        assert sum(cases for _, cases in tasks) == n
        pairs = n * max(cases for _, cases in tasks)
        least = n * plan.right_cases * plan.pairs_of_longest  # fills groups of rows
        assert pairs * plan.pairs_of_longest <= max(sizes.TASK_PAIRS, least)
        assert pairs * len(depths) <= max(sizes.TASK_RESULTS, n * len(depths))


@pytest.mark.parametrize("head", ["gap", "trace"])
@pytest.mark.parametrize("depths", [(1,), (5,), tuple(range(1, 51))], ids=len)
def test_short_signals_have_few_tasks(depths, head):
    for d in range(1, 25):
        plan = plan_of(1000, None, d, head=head, depths=depths, threads=1)
        assert (plan.left_cases + 1) ** 2 * len(depths) > sizes.TASK_RESULTS
        results = 1000**2 * len(depths)
        pairs = 1000**2 * d * plan.scaling(d).offsets
        most = 4 + 4 * max(results / sizes.TASK_RESULTS, pairs / sizes.TASK_PAIRS)
        assert len(tasks_of(plan)) <= most


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_threads_have_equally_many_tasks(threads):
    for m in (100, 512, 1000, 5000):
        widths = [cases for _, cases in tasks_of(plan_of(512, m, 100, threads=threads))]
        rounds = -(-len(widths) // threads)
        assert rounds * max(widths) <= 1.2 * m / threads + 2


@pytest.mark.parametrize("symmetric", [True, False])
def test_tasks_of_lists_cover_every_pair_once(symmetric, monkeypatch):
    """Also where signals take several blocks; the longer signals are the left ones."""
    monkeypatch.setattr(sizes, "TABLE_BYTES", 100_000)
    request = Request(rk.Network(3), "gap", ("ntk",), (3,), threads=2)
    rows, other = np.arange(90, 10, -1), np.arange(200, 4, -3)
    plan = sizes.Plan(request, 2, False, rows, rows if symmetric else other)
    done = np.zeros((len(rows), len(plan.columns)), int)
    for left in plan.blocks():
        for right in plan.right_blocks(left):
            for task in plan.tasks(left, right):
                longest = rows[task.rows][0], plan.columns[task.columns][0]
                assert task.swapped == (longest[0] < longest[1])
                done[task.rows, task.columns] += 1
    assert done.max() == 1
    assert (done[np.triu_indices(len(rows))] == 1).all() if symmetric else done.min() == 1
