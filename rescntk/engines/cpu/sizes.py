"""Sizes of groups of rows, of tasks, and of the blocks of signals whose tables are held at once."""

from __future__ import annotations

import math

import numpy as np

from .vectors import LINE_BYTES, VECTOR_BYTES

_GROUP_BYTES = 25600
"""Bytes of one quantity in a group of rows; about nine quantities are in use at a time.

With fewer bytes loops spend their time starting; with more they wait for the second-level cache.
Measured with depth 5, d = 100 on an AMD EPYC (Zen 5; 48 KiB and 1 MiB of cache): GAP in float64
is flat within 3 % from 12.8 to 25.6 kB and loses 14 % at 38 kB; GAP in float32 is best at 25.6
kB; trace gains up to 38 kB, and float32 with q = 9 loses 7 % at 12.8 kB.
"""

_LEAST_SHARE = 8
"""Groups fill whole vectors where this many times the repeated rows are at most all rows.

A larger number repeats fewer rows, but copies the left tables to all rows more often. Copies cost
a tenth of the time of Gaussian signals of 4 channels (d = 100, depth 5, AMD EPYC Zen 4).
"""

_DEFICIT_GROUP_BYTES = 51200
"""Bytes of one quantity in a group of the recursion of deficits; about twenty are in use.

Measured with depth 5, d = 100, q = 3 on the same machine: half as many bytes take 8 % more time
for GAP and 6 to 9 % for trace; a quarter takes 18 % more for GAP.
"""

_GROUP_TABLE_BYTES = 16 * 2**20
"""Most bytes of a group's own tables of all layers; it makes groups of deep networks shorter.

More bytes make longer groups, at the cost of memory for each thread. On the same machine, at
depth 1000 (GAP), 4 MiB cost 29 % more time and 64 MiB 14 % more; at depth 300 (trace), 4 MiB
cost 12 % more, and 64 MiB are level.
"""

TASK_PAIRS = 4_000_000
"""Pixel pairs in a task of few left cases; with many, `_TASK_GROUPS` makes the task larger.

More pairs make starting a task cheaper. Fewer pairs let threads finish together, and show
progress sooner. On the same machine 1, 4 and 16 million are level within 3 %; 400 000 cost 5 to
38 % more.
"""

_TASK_GROUPS = 20
"""Groups of rows that a task needs, so that few rows are repeated to fill the last group.

More groups repeat a smaller share of the rows, and copy left tables less often. Fewer groups make
shorter tasks. With one right case of d = 100 (two groups in float32, four in float64) a pair
takes 27 and 32 % more time than with 12 (depth 5, GAP; AMD EPYC, Zen 4). From 8 cases on, 13 and
25 groups, times are level within 3 %.
"""

_LONGEST_TASK = 2_000_000_000
"""Most pixel pairs times layers of a task of more than `_FEWEST_LEFT_CASES` left cases.

They take about 3 s in float32 and 7 s in float64. Raising it makes tables of right cases less
often. Lowering it shows progress sooner, and ends an interrupted call sooner. Chosen by reasoning.
"""

_FEWEST_LEFT_CASES = 500
"""Left cases of a block, whatever the length of their tasks.

More left cases make longer tasks. With fewer, tables of right cases are made again more often,
and threads wait more often for the last task of a block. Chosen by reasoning: tables of a right
case take 0.4 ms, and 500 pairs of d = 100 and depth 5 take 30 ms.
"""

TASK_RESULTS = 400_000
"""Most pairs of cases times depths in a task, whose sums are held in four numbers a kernel.

More take more memory: 26 MB for each thread with both kernels. Fewer make more blocks of left
cases, for each of which tables of right cases are made again. Chosen by reasoning.
"""

TABLE_BYTES = 64 * 2**20
"""Most bytes of the tables of all left signals of a block.

More bytes take more memory. With fewer, tables of right signals are made again for more blocks.
On the same machine, for 256 signals, 4 and 64 MiB are level, 1 MiB costs up to 17 % more.
"""

_ENTRIES_OF_ONE_THREAD = 200_000
"""Pixel pairs times layers up to which one thread computes them all.

They take 0.6 ms, and starting threads 0.3 ms (AMD EPYC, 2 cores). Raising it leaves threads
without work.
"""

_TASK_ENTRIES = 6_000_000
"""Pixel pairs times layers of a task, where this leaves each thread between one task and four.

They take 20 ms. A task spends 0.7 ms in Python, where other threads wait. Raising it makes fewer
tasks, so that threads wait for the last one. On an AMD EPYC (Zen 4, 2 cores; d = 100, depth 5,
GAP) 12 × 12 signals take 14.7 ms instead of 17.1 with four tasks a thread, and 20 × 20 signals
35.6 instead of 41.3. With 3 million here, the latter take 43.4.
"""

_TASKS_OF_A_THREAD = 4
"""Most tasks of a thread that are made for threads to finish together; large Grams have more.

Raising it makes more and smaller tasks. Chosen by reasoning: the last task is an eighth of all
with two threads.
"""

FEW_CASES = 32
"""Most right cases whose tables are made at once, before the tasks, if X and Z differ.

Each task of more right cases makes its own tables, so that all threads make tables. Raising it
leaves threads without work while one thread makes tables. Lowering it costs 0.5 ms of Python for
each task of a small Gram.
"""

_DIAGONAL_RESULTS = 64**2
"""Most pairs of cases times depths in a task that computes cases with themselves.

With more cases fewer tasks are started, at 0.5 ms of Python each; but each holds sums for all
pairs of its cases. Chosen by reasoning.
"""


def cases_of_diagonal(threads: int, n: int, depths: int) -> int:
    """Return the number of cases of a task, of the `n` whose diagonal is wanted."""
    most = math.isqrt(_DIAGONAL_RESULTS // depths)
    even = -(-n // (2 * threads)) if threads > 1 else n
    return max(1, min(most, even))


def threads_of(threads: int, entries: int) -> int:
    """Return the threads, of `threads`, that compute a number of pixel pairs times layers."""
    return threads if entries > _ENTRIES_OF_ONE_THREAD else 1


def rows_of_task(dtype: np.dtype, tables: int, pixels: int, offsets: int) -> int:
    """Return the number of rows of `pixels` that fill the groups of a task.

    Right cases have `offsets` rows. Cases of one row fill a group wholly. A group copies twice the
    number of `tables`.
    """
    groups = _TASK_GROUPS if offsets > 1 else 1
    return groups * max(1, _numbers_in_group(dtype, tables) // pixels)


def right_cases(rows: int, offsets: int, depths: int) -> int:
    """Return the number of right cases that fill a task of `rows`, with results at `depths`.

    Of short signals fewer suffice, so that a block can have many left cases.
    """
    return max(1, min(-(-rows // offsets), TASK_RESULTS // (_FEWEST_LEFT_CASES * depths)))


def left_cases(cases: int, layer_entries: int, depths: int, bytes_per_case: int) -> int:
    """Return the number of left cases of a block, whose tables are held at once.

    Tasks have `cases` right cases or more. A pair of cases has `layer_entries` pixel pairs times
    layers and results at `depths` depths.
    """
    few_results = TASK_RESULTS // (cases * depths)
    short = max(_FEWEST_LEFT_CASES, _LONGEST_TASK // (cases * layer_entries))
    return max(1, min(TABLE_BYTES // bytes_per_case, few_results, short))


def tasks(threads: int, m: int, entries: int, cases: int, symmetric: bool) -> int:
    """Return the least number of tasks for `m` right cases.

    All pairs have `entries` pixel pairs times layers, and `cases` right cases fill a task.
    Columns of a symmetric Gram differ in work. Two tasks for each thread, the longest first, give
    all threads the same.
    """
    if threads == 1:
        return 1
    least = 2 if symmetric else 1
    enough = min(_TASKS_OF_A_THREAD, entries // (threads * _TASK_ENTRIES), m // (threads * cases))
    return threads * max(least, enough)


def rows_per_group(dtype: np.dtype, tables: int, total: int, pixels: int) -> int:
    """Return the number of rows of `pixels` in a group, of `total` rows that a task has.

    A group copies twice the number of `tables`.
    """
    itemsize = dtype.itemsize
    numbers = _numbers_in_group(dtype, tables)
    line, vector = LINE_BYTES // itemsize, VECTOR_BYTES // itemsize
    wanted = max(1, numbers // pixels)
    several = max(1, round(wanted / vector)) * vector
    repeated = -total % several  # rows of the last group
    if 2 * wanted >= vector and _LEAST_SHARE * repeated <= total:  # left tables are not copied
        return several
    groups = max(1, round(total / wanted))
    rows = -(-total // groups)
    whole = -(-rows // line) * line  # pixels begin on cache lines
    few = total < 4 * line or whole * pixels > 2 * numbers
    return rows if few else whole  # of many rows, the last group repeats few


def _numbers_in_group(dtype: np.dtype, tables: int) -> int:
    """Return the most numbers of one quantity in a group that copies twice `tables`."""
    return min(_GROUP_BYTES, _GROUP_TABLE_BYTES // (2 * tables)) // dtype.itemsize


def rows_of_deficits(dtype: np.dtype, total: int, pixels: int) -> int:
    """Return the number of rows of `pixels` in a group of the recursion of deficits."""
    itemsize = dtype.itemsize
    line = LINE_BYTES // itemsize
    rows = max(1, _DEFICIT_GROUP_BYTES // (pixels * itemsize))
    if rows > line:
        rows = rows // line * line
    return min(rows, total)
