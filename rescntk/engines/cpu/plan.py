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
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np

from ..doubt import LARGE_DOUBTS
from ..geometry import longest_reach, receptive_reach
from ..kept import once
from ..protocol import Request, blocks, cut
from ..scaling import Scaling, scaling_of
from . import gains_by_sweeping, is_swept, sums_in_registers
from .arguments import Places, RowGroup
from .layers import CHANNELS, LEFT_CASES
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

_LOST_PART = 8
"""One part in this many of the work may be lost: rows repeated to fill vectors, pixels of a margin,
and the time in which threads wait for the last task of a list.

A larger number repeats fewer rows, but copies the left tables to all rows more often; it makes
segments longer, and tasks of lists shorter. Copies cost a tenth of the time of Gaussian signals of
4 channels (d = 100, depth 5).
"""

_SEGMENT = 150
"""Pixels of a segment of a long row, at least; deep networks have longer ones, by their margins.

More pixels repeat the margin less often, but fewer rows lie side by side. With depth 5 and q = 3 a
pixel pair of d = 2000 takes 1.07 to 1.1 times the time of d = 100 with segments of 120 to 180
pixels, and 1.2 with 270 and 400 (GAP, both precisions, 2 MiB of cache).
"""

TABLE_BYTES = 64 * 2**20
"""Most bytes of the tables of all left signals of a block; a group's own tables have a quarter.

More take more memory; fewer make tables of right signals more often. For 256 signals, 4 and
64 MiB are level, 1 MiB costs up to 17 % more. More also make groups of deep networks longer: at
depth 1000 (GAP), 4 MiB for a group cost 29 % more time than 16 MiB, and 64 MiB 14 % more.
"""

TASK_PAIRS = 4_000_000
"""Pixel pairs in a task of few left cases; with many, groups of rows need more.

More pairs make starting a task cheaper, at 0.7 ms of Python each; fewer let threads finish
together, and show progress. Times are level within 3 % from 1 to 16 million; 400 000 cost 5 to
38 % more.
"""

_FEW_PAIRS = {"float64": 2_000_000, "float32": 4_000_000}
"""Pixel pairs times layers (or channels, if more) that the calling thread computes by itself.

More leave other threads idle, and a call that is interrupted waits for them: 5 ms. Fewer pay for
threads and their tasks, 1 to 2 ms. Two threads take 1.7 times as long as one for a third of these
pairs, as long for these, and .8 times for twice as many (AMD EPYC, both precisions, GAP and trace).
"""

TASK_RESULTS = 400_000
"""Most pairs of cases times depths in a task, whose sums are held in four numbers a kernel.

A pixel's share counts half: it has two numbers. More take more memory: 26 MB for each thread with
both kernels, and three times as much where rows of GAP have levels of doubt. Fewer make tables of
right cases more often. Chosen by reasoning.
"""


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
        self.biased = net.bias > 0.0
        self.rows, self.columns, self.symmetric = rows, columns, columns is rows and not paired
        self.longest = int(max(self.rows[0], self.columns[0]))
        self.depth, self.n_depths = request.depths[-1], len(request.depths)
        self.dtype = np.dtype(request.dtype)
        self.swept = is_swept(request, n_channels)
        # Without names that change nothing loops take .95 of the time; each choice is compiled.
        self.few_names = self.swept or not gains_by_sweeping()
        self.all_offsets = head in ("gap", "pixels")  # else the offset 0 alone
        self.levels = 1 + len(LARGE_DOUBTS) if self.swept and self.all_offsets else 1
        sums = request.shares and self.all_offsets  # at each pixel
        self.results_of_pair = self.n_depths * (-(-self.longest // 2) if sums else 1)
        self.width, n_axes = request.width, 1 if request.width == 1 else 2
        self.taps = net.input_filter_size**n_axes
        sums = self.taps > 1 and n_channels * self.taps > CHANNELS
        sums = sums and head in ("trace", "gap")
        self.window = net.input_filter_size if sums else 0  # over which distances are summed
        reach = self.window // 2
        # The pixel pairs of two lengths lie on rings whose length divides this one.
        self.ring = math.lcm(*{*self.rows.tolist(), *self.columns.tolist()})
        margin = receptive_reach(net, self.depth, self.ring) + reach
        wanted = max(_SEGMENT, margin * _LOST_PART)
        in_segments = head in ("trace", "gap") and self.width == 1  # images have wide margins
        number = round(self.longest / wanted) if in_segments else 1
        self.segment = -(-self.longest // max(1, number))
        self.closed_rows = closed and self.longest <= self.segment
        self.margin = 0 if self.closed_rows else margin
        longest = longest_reach(net, self.depth, self.ring // self.width)
        self.reach = max(reach, net.filter_size // 2, longest) * self.width  # of a filter in pixels
        self.halo = self.reach if self.closed_rows else 0
        self.inner = filter_sum(net.filter_size, n_axes)
        self.outer = filter_sum(net.outer_filter_size, n_axes)
        self.in_registers = sums_in_registers(net)
        self.window_sum = filter_sum(self.window or 1, n_axes)
        self._scalings = {self.longest: scaling_of(request, n_channels, self.longest)}
        offsets = self.offsets(self.columns)
        pairs = (rows if paired else rows.sum()) * offsets
        self.pixel_pairs = int(pairs.sum())
        threads = request.threads or numba.config.NUMBA_NUM_THREADS
        computed = self.pixel_pairs // (2 if self.symmetric else 1)
        few = computed * max(self.depth, n_channels) <= _FEW_PAIRS[self.dtype.name]
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
        """Return whether the tables of a block of right signals are made before its tasks.

        They are for lists, and for a block whose results have room for all its right cases.
        """
        few = right.stop - right.start <= min(self._most_right_cases, self.left_cases)
        return not self.closed or (few and not self.symmetric)

    def paired_tasks(self, block: slice) -> Iterator[slice]:
        """Yield the pairs of each task, by the places of their signals."""
        most = -(-self.left_cases // 20)  # few: results are a square, whose diagonal is needed
        n, threads = len(self.rows), self.threads
        even = -(-n // (2 * threads)) if threads > 1 else n
        return blocks(block.start, block.stop, max(1, min(most, even)))

    @property
    def pairs_of_longest(self) -> int:
        """Pixel pairs of two of the longest signals."""
        return self.longest * self.scaling(self.longest).offsets

    @once
    def right_cases(self) -> int:
        """Right cases, of the longest signals, whose rows fill the groups of a task."""
        filled = -(-self._rows_of_task(self.longest) // self.scaling(self.longest).offsets)
        return max(1, min(filled, self._most_right_cases))

    @once
    def left_cases(self) -> int:
        """Left cases, of the longest signals, whose tables are held at once."""
        few_tables = TABLE_BYTES // self.scaling(self.longest).bytes_per_case(self.n_channels)
        return max(1, min(few_tables, self._most_left_cases))

    @property
    def _most_left_cases(self) -> int:
        """Most left cases of a task: with `_most_right_cases` they fill its results."""
        return math.isqrt(4 * TASK_RESULTS // self.results_of_pair)

    @property
    def _most_right_cases(self) -> int:
        """Most right cases of a task with `_most_left_cases`: a quarter of them."""
        return self._most_left_cases // 4

    # -- tasks

    def tasks(self, left: slice, right: slice) -> Iterator[TaskCases]:
        """Yield the tasks of two blocks of signals, by their places among all signals."""
        for rows in self._similar(self.rows, left):
            first = max(rows.start, right.start) if self.symmetric else right.start
            right_cases = slice(first, right.stop)
            whole = self.symmetric or self.closed  # no right case is longer
            for columns in [right_cases] if whole else self._similar(self.columns, right_cases):
                longer = self.rows[rows.start] >= self.columns[columns.start]
                if longer or self.request.shares:  # shares are of the pixels of X
                    for some in self._cut(self.rows[rows], self.columns, columns):
                        yield TaskCases(rows, some)
                else:
                    for some in self._cut(self.columns[columns], self.rows, rows):
                        yield TaskCases(some, columns, swapped=True)

    def _similar(self, lengths: np.ndarray, cases: slice) -> Iterator[slice]:
        """Yield left cases of tasks: the last signal has at least half the pixels of the first."""
        start = cases.start
        while start < cases.stop:
            some = lengths[start : min(start + self.left_cases, cases.stop)]
            stop = start + int(np.count_nonzero(2 * some >= some[0]))
            yield slice(start, stop)
            start = stop

    def _cut(self, lefts: np.ndarray, lengths: np.ndarray, cases: slice) -> Iterator[slice]:
        """Yield the right cases of each task with left cases of the lengths `lefts`.

        `lengths` are the lengths of all right signals; `cases` are the right signals to cut.
        """
        if self.closed:
            yield from self._cut_evenly(len(lefts), cases)
            return
        pairs = int(lefts.sum()) * lengths[cases]
        filled = lengths[cases] / self._rows_of_task(int(lefts[0]))
        shares = np.minimum(pairs / TASK_PAIRS, filled)
        if self.threads > 1:
            shares = np.maximum(shares, pairs * (_LOST_PART * self.threads / self.pixel_pairs))
        shares = np.maximum(shares, len(lefts) * self.results_of_pair / TASK_RESULTS)
        for some in cut(shares, 1.0):
            yield slice(cases.start + some.start, cases.start + some.stop)

    def _cut_evenly(self, n: int, cases: slice) -> Iterator[slice]:
        """Yield right cases of one length for `n` left cases; if symmetric, the longest first.

        Columns of a symmetric Gram differ in work: two tasks for each thread, the longest first,
        give all threads the same.
        """
        m, threads = cases.stop - cases.start, self.threads
        few_pairs = TASK_PAIRS // (n * self.pairs_of_longest)
        few_results = TASK_RESULTS // (n * self.results_of_pair)
        most = max(1, min(max(few_pairs, self.right_cases), few_results, self.left_cases // 2))
        least = threads * (2 if self.symmetric and threads > 1 else 1)
        size = -(-m // max(least, threads * -(-m // (threads * most))))
        vector = VECTOR_BYTES // self.dtype.itemsize
        if size < m and not self.all_offsets and vector <= min(most, m // (2 * threads)):
            size = max(vector, size // vector * vector)  # rows are cases, and fill whole vectors
        return reversed(list(blocks(cases.start, cases.stop, size)))

    def _rows_of_task(self, length: int) -> int:
        """Return the rows that fill the groups of a task whose left cases have this length.

        Cases of one row fill a group wholly.
        """
        groups = 3 * _LOST_PART if self.scaling(length).offsets > 1 else 1
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
        if wanted % vector == 0:  # left tables are not copied: time is up to a third
            some, most = total // _LOST_PART, range(wanted, 0, -vector)
            wanted = min(most, key=lambda rows: max(some, -total % rows))
            if 2 * (-total % wanted) <= total:  # rows of the last group that are repeated
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
        return TABLE_BYTES // 4 // tables // self.dtype.itemsize

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
            many = self.window > 0 or channels >= 2 * LEFT_CASES
            left_cases = LEFT_CASES if many and rows % vector == 0 else min(self.window, 1)
        # Loops pass whole vectors: pixels are rounded up, and two vectors follow the halos.
        size, start = -(-pixels * rows // vector) * vector, self.halo * rows
        length = size + -(-2 * start // vector) * vector + 2 * vector
        scratch = max(1, self.inner.pieces, self.outer.pieces, self.window_sum.pieces)
        biases = 4 * self.biased
        distance_scratch = scratch + (in_deficits and biases > 0)
        quantities = dict.fromkeys(Places._fields[: Places._fields.index("right_layers")], 1) | {
            "distance_scratch": distance_scratch,
            "tangent_scratch": scratch,
            "squares": left_cases,
            "biases": biases,
            "left_units": units,
            "right_units": units,
            "left_layer": 3,
            "left_input": 3,
        }
        *begins, end = (np.cumsum([0, *quantities.values()]) * length).tolist()
        places = Places(
            **dict(zip(quantities, begins, strict=True)),
            right_layers=end,
            channels=channels,
            left_cases=left_cases,
        )
        total = places.right_layers + 3 * (self.depth + 1) * length
        if in_deficits:  # two root masses of two numbers, and u⁺
            total = places.left_layer + 5 * (places.tangent - places.distance)
        memory = np.zeros(total + line, self.dtype)
        memory = memory[-memory.ctypes.data % LINE_BYTES // itemsize :][:total]
        return RowGroup(
            memory=memory, places=places, length=length, d=pixels, rows=rows, halo=self.halo,
            start=start, size=size, closed=self.closed_rows, width=self.width,
        )  # fmt: skip
