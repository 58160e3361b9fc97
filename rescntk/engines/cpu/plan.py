"""The plan of a request: how work is cut into blocks, tasks and groups of rows, from shapes alone.

- A *block* of left signals, whose tables are held at once, meets blocks of right signals.
- A *task*, computed by one thread, has some left and some right signals of two blocks.
- A *group* of rows of pixel pairs fills the second-level cache.

Signals come from the longest to the shortest. Rows of signals of one length, an array, are closed.
Rows of signals of different lengths are open, and lie along the longer signals. Long rows are cut
into *segments*, which are open too. An open row has a margin at both ends, the reach of all layers.
Rows of shares lie along the signals of X.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np

from ..geometry import longest_reach, receptive_reach
from ..protocol import Request, blocks, cut
from ..scaling import Scaling, scaling_of
from . import is_swept
from .arguments import Places, RowGroup
from .layers import CHANNELS
from .sums import filter_sum
from .vectors import LINE_BYTES, VECTOR_BYTES

_GROUP_BYTES = 25600
"""Bytes of one quantity in a group of rows; about nine quantities are in use at a time.

With fewer bytes loops spend their time starting; with more they wait for the second-level cache.
With depth 5, d = 100 and caches of 48 KiB and 1 MiB, GAP in float64 is flat within 3 % from 12.8
to 25.6 kB and loses 14 % at 38 kB; in float32 it is best at 25.6 kB. The recursion of deficits,
with some twenty quantities and few loops, takes twice the bytes: with as many it takes 6 to 9 %
more time.
"""

_LEAST_SHARE = 8
"""Groups fill whole vectors where this many times the repeated rows are at most all rows.

A larger number repeats fewer rows, but copies the left tables to all rows more often. Copies cost
a tenth of the time of Gaussian signals of 4 channels (d = 100, depth 5).
"""

_SEGMENT = 150
"""Pixels of a segment of a long row.

More pixels repeat the margin less often, but fewer rows lie side by side. With depth 5 and q = 3 a
pixel pair of d = 2000 takes 1.07 to 1.1 times the time of d = 100 with segments of 120 to 180
pixels, and 1.2 with 270 and 400 (GAP, both precisions, 2 MiB of cache).
"""

_SEGMENT_OF_MARGIN = 8
"""Least pixels of a segment, in margins.

More need more memory a row; fewer repeat the layers of margins more often. Chosen by reasoning.
"""

_GROUP_TABLE_BYTES = 16 * 2**20
"""Most bytes of a group's own tables of all layers; it makes groups of deep networks shorter.

More bytes make longer groups, and take memory for each thread. At depth 1000
(GAP), 4 MiB cost 29 % more time and 64 MiB 14 % more; at depth 300 (trace), 4 MiB cost 12 % more.
"""

TASK_PAIRS = 4_000_000
"""Pixel pairs in a task of few left cases; with many, `_TASK_GROUPS` makes the task larger.

More pairs make starting a task cheaper; fewer let threads finish together, and show progress. Times
are level within 3 % from 1 to 16 million; 400 000 cost 5 to 38 % more.
"""

_TASK_GROUPS = 20
"""Groups of rows that a task needs, so that few rows are repeated to fill the last group.

Fewer make shorter tasks. A pair of d = 100 (depth 5, GAP) takes 27 and 32 % more
time with two and four groups. From 13 groups on, times are level within 3 %.
"""

_LONGEST_TASK = 2_000_000_000
"""Most pixel pairs times layers of a task of more than `_FEWEST_LEFT_CASES` left cases.

They take about 3 s (float32) or 7 s. More make tables of right cases less often; fewer show
progress sooner. Chosen by reasoning.
"""

_FEWEST_LEFT_CASES = 500
"""Left cases of a block, whatever the length of their tasks.

More make longer tasks; fewer make tables of right cases more often. Chosen by reasoning: these take
0.4 ms a case, and 500 pairs of d = 100 and depth 5 take 30 ms.
"""

TASK_RESULTS = 400_000
"""Most pairs of cases times depths in a task, whose sums are held in four numbers a kernel.

A pixel's share counts half: it has two numbers. More take more memory: 26 MB for each thread with
both kernels. Fewer make tables of right cases more often. Chosen by reasoning.
"""

TABLE_BYTES = 64 * 2**20
"""Most bytes of the tables of all left signals of a block.

More take more memory; fewer make tables of right signals more often. For 256 signals, 4 and
64 MiB are level, 1 MiB costs up to 17 % more.
"""

_ENTRIES_OF_ONE_THREAD = 200_000
"""Pixel pairs times layers, or channels, up to which the calling thread computes them all.

They take 0.6 ms, and starting threads 0.3 ms (2 cores). More leave threads idle, and let
a call that is interrupted wait for the compiled loops.
"""

_ENTRIES_OF_THE_CALLER = 2_000_000
"""The same where one thread is asked for: 6 ms. More let a call that is interrupted wait longer."""

_TASK_ENTRIES = 6_000_000
"""Pixel pairs times layers of a task, where this leaves each thread between one task and four.

They take 20 ms. A task spends 0.7 ms in Python, where other threads wait; but fewer tasks let
threads wait for the last one. On 2 cores (d = 100, depth 5, GAP) 20 × 20 signals
take 35.6 ms, 41.3 with four tasks a thread, and 43.4 with 3 million here.
"""

_TASKS_OF_A_THREAD = 4
"""Most tasks of a thread that are made for threads to finish together. Chosen by reasoning."""

FEW_CASES = 256
"""Most right cases whose tables are made at once, before the tasks, if X and Z differ.

Each task of more right cases makes its own tables, in all threads. Fewer cost 0.5 to 1 ms of Python
for each task of a small Gram. More let threads wait longer: 256 of d = 100 take 5 ms, and their
kernels with as many signals 20 ms (trace, float32, depth 5).
"""

_PAIRED_RESULTS = 64**2
"""Most left times right cases times depths in a task of pairs, which computes cases of one place.

More start fewer tasks, at 0.5 ms of Python each, which hold more sums. Chosen by reasoning.
"""

_LEFT_CASES_TOGETHER = 4
"""Left cases of `layers.write_squares`: four vectors of four registers take 16 of 32."""

_MANY_CHANNELS = 8
"""Channels from which on squared distances are computed for several left cases at a time.

With fewer channels, storing and loading sums costs more than shared loads save. By a count of loads
and stores, the costs are level at about 5 channels.
"""

_SIMILAR = 1.5
"""Most pixels of the longest left signal of a task, in pixels of the last. Chosen by reasoning:
with more, more signals share right tables, but the longest one decides about rows."""


class TaskCases(NamedTuple):
    """Signals of X and of Z, by their places in order. `swapped`: Z has the left signals."""

    rows: slice
    columns: slice
    swapped: bool = False


class Plan:
    """The plan of a Gram matrix, or of pairs.

    `closed` says that all signals have one length; otherwise the head is "gap". Rows of `segment`
    pixels at most are computed at once; `closed_rows` says that none of them is cut. `rows` and
    `columns`, (cases,), are the lengths of X and of Z, from the longest to the shortest. They are
    the same array for a symmetric Gram. If `paired`, columns are the partners of the rows, and
    not longer than these.

    `margin`, `inner`, `outer` and `window_sum` are as in `arguments.Constants` (its `window`).
    """

    def __init__(
        self, request: Request, n_channels: int, closed: bool, rows: np.ndarray,
        columns: np.ndarray, paired: bool = False,
    ) -> None:  # fmt: skip
        net, head = request.network, request.head
        self.request, self.n_channels, self.closed = request, n_channels, closed
        self.rows, self.columns, self.symmetric = rows, columns, columns is rows and not paired
        self.longest = int(max(self.rows[0], self.columns[0]))
        self.depth, self.n_depths = request.depths[-1], len(request.depths)
        self.dtype, self.swept = np.dtype(request.dtype), is_swept(request, n_channels)
        self.all_offsets = head in ("gap", "pixels")  # else the offset 0 alone
        sums = request.shares and self.all_offsets  # at each pixel
        self.results_of_pair = self.n_depths * (-(-self.longest // 2) if sums else 1)
        self.width, n_axes = request.width, 1 if request.width == 1 else 2
        self.taps = net.input_filter_size**n_axes
        sums = self.taps > 1 and n_channels * self.taps > CHANNELS and head in ("trace", "gap")
        self.window = net.input_filter_size if sums else 0  # over which distances are summed
        reach = self.window // 2
        # The pixel pairs of two lengths lie on rings whose length divides this one.
        self.ring = math.lcm(*{*self.rows.tolist(), *self.columns.tolist()})
        margin = receptive_reach(net, self.depth, self.ring) + reach
        wanted = max(_SEGMENT, margin * _SEGMENT_OF_MARGIN)
        in_segments = head in ("trace", "gap") and self.width == 1  # images have wide margins
        number = round(self.longest / wanted) if in_segments else 1
        self.segment = -(-self.longest // max(1, number))
        self.closed_rows = closed and self.longest <= self.segment
        self.margin = 0 if self.closed_rows else margin
        self.halo = 0  # the longest reach of a filter in pixels
        if self.closed_rows:
            longest = longest_reach(net, self.depth, self.ring // self.width)
            self.halo = max(reach, net.filter_size // 2, longest) * self.width
        self.inner = filter_sum(net.filter_size, n_axes)
        self.outer = filter_sum(net.outer_filter_size, n_axes)
        self.window_sum = filter_sum(self.window or 1, n_axes)
        self._scalings = {self.longest: scaling_of(request, n_channels, self.longest)}
        offsets = self.offsets(self.columns)
        pairs = (rows if paired else rows.sum()) * offsets
        self.pixel_pairs = int(pairs.sum())
        threads = request.threads or numba.config.NUMBA_NUM_THREADS
        most = _ENTRIES_OF_ONE_THREAD if threads > 1 else _ENTRIES_OF_THE_CALLER
        few = self.pixel_pairs * max(self.depth, n_channels) <= most
        self.threads = 1 if few else threads
        self.workers = 0 if few else threads  # threads besides the caller's

    def scaling(self, length: int) -> Scaling:
        """Return the constants of the layers for signals of a length."""
        if length not in self._scalings:
            self._scalings[length] = self._scalings[self.longest].of_length(length)
        return self._scalings[length]

    def segments(self, length: int) -> list[slice]:
        """Return the segments of a row of a length; segments of other lengths begin alike."""
        return list(blocks(0, length, self.segment))

    def offsets(self, lengths: np.ndarray) -> np.ndarray:
        """Return the number of rows of pairs with right cases of these lengths."""
        return lengths if self.all_offsets else np.ones_like(lengths)

    # -- blocks

    def blocks(self, lengths: np.ndarray | None = None) -> Iterator[slice]:
        """Yield blocks of the left signals, or of signals of other lengths."""
        lengths = self.rows if lengths is None else lengths
        if self.closed:
            return blocks(0, len(lengths), self.left_cases)
        taken = [self.scaling(int(d)).bytes_per_case(self.n_channels) for d in lengths]
        return cut(np.array(taken), TABLE_BYTES)

    def right_blocks(self, left: slice) -> Iterator[slice]:
        """Yield the blocks of right signals that a block of left signals meets.

        Right signals of one length are one block: each task makes its own tables.
        """
        if self.closed:
            yield slice(left.start if self.symmetric else 0, len(self.columns))
            return
        for right in self.blocks(self.columns):
            if not (self.symmetric and right.start < left.start):
                yield right

    def is_shared(self, right: slice) -> bool:
        """Return whether the tables of a block of right signals are made before its tasks."""
        few = right.stop - right.start <= min(FEW_CASES, self.left_cases)
        return not self.closed or (few and not self.symmetric)

    def paired_tasks(self, block: slice) -> Iterator[slice]:
        """Yield the pairs of each task, by the places of their signals."""
        most = math.isqrt(_PAIRED_RESULTS // self.n_depths)
        n, threads = len(self.rows), self.threads
        even = -(-n // (2 * threads)) if threads > 1 else n
        return blocks(block.start, block.stop, max(1, min(most, even)))

    @property
    def layer_entries(self) -> int:
        """Pixel pairs times layers of a pair of the longest signals."""
        return self.longest * self.scaling(self.longest).offsets * self.depth

    @cached_property
    def right_cases(self) -> int:
        """Right cases, of the longest signals, that fill a task.

        Of short signals fewer suffice, so that a block can have many left cases.
        """
        filled = -(-self._rows_of_task(self.longest) // self.scaling(self.longest).offsets)
        return max(1, min(filled, TASK_RESULTS // (_FEWEST_LEFT_CASES * self.results_of_pair)))

    @cached_property
    def left_cases(self) -> int:
        """Left cases, of the longest signals, whose tables are held at once."""
        few_tables = TABLE_BYTES // self.scaling(self.longest).bytes_per_case(self.n_channels)
        few_results = TASK_RESULTS // (self.right_cases * self.results_of_pair)
        short = _LONGEST_TASK // (self.right_cases * self.layer_entries)
        return max(1, min(few_tables, few_results, max(_FEWEST_LEFT_CASES, short)))

    # -- tasks

    def tasks(self, left: slice, right: slice) -> Iterator[TaskCases]:
        """Yield the tasks of two blocks of signals, by their places among all signals."""
        for rows in self._similar(self.rows, left):
            first = max(rows.start, right.start) if self.symmetric else right.start
            rest = slice(first, right.stop)
            whole = self.symmetric or self.closed  # no right case is longer
            for columns in [rest] if whole else self._similar(self.columns, rest):
                longer = self.rows[rows.start] >= self.columns[columns.start]
                if longer or self.request.shares:  # shares are of the pixels of X
                    for some in self._cut(self.rows[rows], self.columns, columns):
                        yield TaskCases(rows, some)
                else:
                    for some in self._cut(self.columns[columns], self.rows, rows):
                        yield TaskCases(some, columns, swapped=True)

    def _similar(self, lengths: np.ndarray, cases: slice) -> Iterator[slice]:
        """Yield left cases of tasks, held together by `_SIMILAR`."""
        start = cases.start
        while start < cases.stop:
            some = lengths[start : min(start + self.left_cases, cases.stop)]
            stop = start + int(np.count_nonzero(some * _SIMILAR >= some[0]))
            yield slice(start, stop)
            start = stop

    def _cut(self, lefts: np.ndarray, lengths: np.ndarray, cases: slice) -> Iterator[slice]:
        """Yield the right cases of each task with left cases of the lengths `lefts`.

        `lengths` are the lengths of all right signals; `cases` are the right signals to cut.
        """
        if self.closed:
            yield from self._cut_evenly(len(lefts), cases)
            return
        entries = int(lefts.sum()) * lengths[cases]
        filled = lengths[cases] / self._rows_of_task(int(lefts[0]))
        shares = np.minimum(entries / TASK_PAIRS, filled)
        shares = np.maximum(shares, entries * (8 * self.threads / self.pixel_pairs))
        shares = np.maximum(shares, len(lefts) * self.results_of_pair / TASK_RESULTS)
        for some in cut(shares, 1.0):
            yield slice(cases.start + some.start, cases.start + some.stop)

    def _cut_evenly(self, n: int, cases: slice) -> Iterator[slice]:
        """Yield right cases of one length for `n` left cases; if symmetric, the longest first.

        Columns of a symmetric Gram differ in work: two tasks for each thread, the longest first,
        give all threads the same.
        """
        m, threads = cases.stop - cases.start, self.threads
        offsets, least = self.scaling(self.longest).offsets, 1
        few_pairs = TASK_PAIRS // (n * self.longest * offsets)
        few_results = TASK_RESULTS // (n * self.results_of_pair)
        most = max(1, min(max(few_pairs, self.right_cases), few_results, self.left_cases // 2))
        if threads > 1:
            enough = n * m * self.layer_entries // (threads * _TASK_ENTRIES)
            enough = min(_TASKS_OF_A_THREAD, enough, m // (threads * self.right_cases))
            least = threads * max(2 if self.symmetric else 1, enough)
        size = -(-m // max(least, threads * -(-m // (threads * most))))
        vector = VECTOR_BYTES // self.dtype.itemsize
        if size < m and offsets == 1 and vector <= min(most, m // (2 * threads)):
            size = max(vector, size // vector * vector)  # rows are cases, and fill whole vectors
        return reversed(list(blocks(cases.start, cases.stop, size)))

    def _rows_of_task(self, length: int) -> int:
        """Return the rows that fill the groups of a task whose left cases have this length.

        Cases of one row fill a group wholly.
        """
        groups = _TASK_GROUPS if self.scaling(length).offsets > 1 else 1
        return groups * self._wanted_rows(min(length, self.segment) + 2 * self.margin)

    def repeats(self, lefts: np.ndarray, rights: np.ndarray) -> Iterator[slice]:
        """Yield pairs that are computed again together, whose left cases have one length.

        `lefts` and `rights` are the lengths of the signals of each pair.
        """
        edges = [0, *(np.flatnonzero(np.diff(lefts)) + 1).tolist(), len(lefts)]
        for start, stop in pairwise(edges):
            for some in cut(lefts[start:stop] * self.offsets(rights[start:stop]), TASK_PAIRS):
                yield slice(start + some.start, start + some.stop)

    # -- groups

    def _wanted_rows(self, pixels: int) -> int:
        """Return the rows of `pixels` that fill a group: whole vectors, if half of one fills it."""
        wanted = max(1, self._numbers_in_group // pixels)
        vector = VECTOR_BYTES // self.dtype.itemsize
        return max(1, round(wanted / vector)) * vector if 2 * wanted >= vector else wanted

    def group_rows(self, total: int, pixels: int) -> int:
        """Return the number of rows of `pixels` in a group, of `total` rows that a task has."""
        itemsize = self.dtype.itemsize
        line, vector = LINE_BYTES // itemsize, VECTOR_BYTES // itemsize
        wanted = min(self._wanted_rows(pixels), -(-total // vector) * vector)
        repeated = -total % wanted  # rows of the last group
        if wanted % vector == 0 and _LEAST_SHARE * repeated <= total:  # left tables are not copied
            return wanted
        rows = -(-total // max(1, round(total * pixels / self._numbers_in_group)))
        # Pixels begin on cache lines: twice as fast at d = 1000. Of large images they fill half of
        # a line: 32 × 32 pixels in float32 then stay in 2 MiB of cache, and take .65 of the time.
        line //= 1 if self.width == 1 or 2 * rows > line else 2
        whole = -(-rows // line) * line
        few = total < 4 * line or whole * pixels > 2 * self._numbers_of_tables
        return rows if few else whole  # of many rows, the last group repeats few

    def group_rows_of_deficits(self, total: int, pixels: int) -> int:
        """Return the same for the recursion of deficits."""
        line = LINE_BYTES // self.dtype.itemsize
        rows = 2 * _GROUP_BYTES // (pixels * self.dtype.itemsize)
        rows = max(1, rows // line) * line  # pixels begin on cache lines
        return min(rows, total)

    @property
    def _numbers_in_group(self) -> int:
        """The numbers of one quantity in a group."""
        return max(1, min(_GROUP_BYTES // self.dtype.itemsize, self._numbers_of_tables))

    @property
    def _numbers_of_tables(self) -> int:
        """The most numbers of a table in a group, which copies 3 (L + 1) + 2 C tables."""
        tables = 3 * (self.depth + 1) + 2 * self.n_channels
        return _GROUP_TABLE_BYTES // tables // self.dtype.itemsize

    def row_group(self, pixels: int, rows: int, in_deficits: bool = False) -> RowGroup:
        """Return a group of rows with its memory, 0 at first, and the places of all quantities.

        The memory begins on a cache line: a vector of 64 bytes that straddles two lines takes two
        loads. No vector does where all rows of a pixel fill whole lines.
        """
        itemsize = self.dtype.itemsize
        vector, line = VECTOR_BYTES // itemsize, LINE_BYTES // itemsize
        channels = self.n_channels * (1 if self.window and not in_deficits else self.taps)
        units = (2 if in_deficits else 1) * channels  # of split masses, vectors have two numbers
        left_cases = 0
        if not in_deficits:
            many = self.window > 0 or channels >= _MANY_CHANNELS
            left_cases = (
                _LEFT_CASES_TOGETHER if many and rows % vector == 0 else min(self.window, 1)
            )
        # Loops pass whole vectors: pixels are rounded up, and two vectors follow the halos.
        size, start = -(-pixels * rows // vector) * vector, self.halo * rows
        length = size + -(-2 * start // vector) * vector + 2 * vector
        scratch = max(1, self.inner.pieces, self.outer.pieces, self.window_sum.pieces)
        biases = 2 * (self.request.network.bias > 0.0)
        numbers = [1, 1, 1, 1, scratch, 1, 1, 1, 1, 1, 1, scratch, left_cases, biases, units, units]
        numbers += [3, 3]
        ends = np.cumsum([0, *numbers]) * length
        places = Places._make([*ends.tolist(), channels, left_cases])
        total = places.right_layers + 3 * (self.depth + 1) * length
        if in_deficits:  # two root masses of two numbers, and u⁺
            total = places.left_layer + 5 * (places.tangent - places.distance)
        memory = np.zeros(total + line, self.dtype)
        memory = memory[-memory.ctypes.data % LINE_BYTES // itemsize :][:total]
        shape = length, pixels, rows, self.halo, start, size, self.closed_rows, self.width
        return RowGroup(memory, places, *shape)
