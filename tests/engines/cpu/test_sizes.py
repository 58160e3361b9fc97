"""The sizes of tasks and of groups of rows."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import Request

pytest.importorskip("numba")

from rescntk.engines.cpu import engine, sizes
from rescntk.engines.cpu.run import NumbaRun


def run_of(d, dtype="float32", head="gap", depths=(5,), threads=2):
    request = Request(rk.Network(depths[-1]), head, ("ntk",), depths, dtype, threads=threads)
    return NumbaRun(request, 4, d, closed=True)


@pytest.mark.parametrize("n", [40, 400, 30_000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_grams_repeat_few_rows(n, dtype):
    """One right case of 100 rows in groups of 64 would repeat 28 rows in a hundred."""
    repeated = []
    for d in range(24, 256, 4):
        run = run_of(d, dtype)
        rows = computed = 0
        for start, stop in engine._tasks(run, 2, min(n, run.left_cases), 0, 1000, False):
            here = (stop - start) * d
            group = sizes.rows_per_group(np.dtype(dtype), 10, here, d)
            rows, computed = rows + here, computed + -(-here // group) * group
        assert rows == 1000 * d
        repeated.append(computed / rows - 1)
    assert np.mean(repeated) < 0.04
    assert np.max(repeated) < 0.1


@pytest.mark.parametrize("head", ["gap", "trace"])
@pytest.mark.parametrize("depths", [(1,), (5,), (300,), tuple(range(1, 51))], ids=len)
@pytest.mark.parametrize("d", [1, 10, 100, 3000])
def test_tasks_are_short_and_hold_few_results(d, depths, head):
    run = run_of(d, head=head, depths=depths)
    n = min(100_000, run.left_cases)
    least = 1 if head == "trace" else sizes._FEWEST_LEFT_CASES * run.right_cases
    longest = max(sizes._LONGEST_TASK, least * run.layer_entries)
    for symmetric in (False, True):
        tasks = engine._tasks(run, 2, n, 0, n, symmetric)
        assert sum(stop - start for start, stop in tasks) == n
        pairs = n * max(stop - start for start, stop in tasks)
        assert pairs * run.layer_entries <= max(longest, sizes.TASK_PAIRS * depths[-1])
        assert pairs * len(depths) <= max(sizes.TASK_RESULTS, n * len(depths))


@pytest.mark.parametrize("head", ["gap", "trace"])
@pytest.mark.parametrize("depths", [(1,), (5,), tuple(range(1, 51))], ids=len)
def test_short_signals_have_few_tasks(depths, head):
    for d in range(1, 25):
        run = run_of(d, head=head, depths=depths)
        assert run.left_cases >= 400
        tasks = -(-1000 // run.left_cases) * len(engine._tasks(run, 1, 1000, 0, 1000, True))
        results = 1000**2 * len(depths)
        pairs = 1000**2 * run.longest * run.scaling(d).offsets
        assert tasks <= 4 + 4 * max(results / sizes.TASK_RESULTS, pairs / sizes.TASK_PAIRS)


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_threads_have_equally_many_tasks(threads):
    run = run_of(100, threads=threads)
    for m in (100, 512, 1000, 5000):
        tasks = engine._tasks(run, threads, 512, 0, m, False)
        widths = [stop - start for start, stop in tasks]
        rounds = -(-len(tasks) // threads)
        assert rounds * max(widths) <= 1.2 * m / threads + 2
