"""Tiles of pairs of cases: their size, from the free memory and about a second of work.

The shares below are of the memory that is free when a call begins. Their sum stays well below 1,
because CuPy's pool keeps blocks of other sizes, and temporaries come on top. All shares were
chosen by that argument and tested on a stand-in that counts memory
(tests/engines/cuda/test_memory.py); none was timed on a device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import exact_sum
from ..geometry import longest_reach
from ..protocol import Request, pairs_above
from .launch import Launch, Rows
from .packing import LEFT, RIGHT, bytes_of_side

WHOLE_SHARE = 0.75
"""Share of the free memory for results that have to be whole on the device, as CuPy's have.
Raising it serves larger Grams, and fails later in others for want of memory for tables."""

TABLE_SHARE = 0.1
"""Share of the free memory for one tile's tables. Raising it makes tiles with more cases."""

RESULT_SHARE = 0.25
"""Share of the free memory for one tile's results. Raising it makes tiles with more pairs."""

KEPT_SHARE = 0.2
"""Share of the free memory for the right tables of all signals. If they fit, they are made once;
otherwise once for each row of tiles. Raising it keeps tables of more signals."""

TILE_ENTRIES = 2.0e11
"""Entries of a tile: pixel pairs times layers. Raising it makes progress bars move in larger
steps. At 3 to 8 picoseconds an entry, the aim of benchmarks/gpu_report.py, a tile takes 0.6 to
1.6 seconds; never timed on a device."""

FEWEST_PAIRS = 1024.0
"""Pairs of a tile whatever its entries, so that every multiprocessor has blocks to run."""

MOST_BLOCKS = 2**31 - 1
"""Blocks of a launch: the limit of a grid's first dimension (CUDA C++ Programming Guide, "Compute
Capabilities")."""


@dataclass(frozen=True)
class Tile:
    """Left and right cases whose pairs are computed together.

    Of a `symmetric` Gram a tile is on the diagonal, or above it with all of its pairs. A
    `diagonal` tile has the pairs of each case with itself: one row of results.
    """

    rows: slice
    columns: slice
    symmetric: bool = False
    diagonal: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of left and right cases."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def above(self) -> int:
        """The number `above` of rows.h: a pair is wanted if column + above >= row."""
        if self.symmetric:
            return self.columns.start - self.rows.start
        return 0 if self.diagonal else self.shape[0]

    @property
    def pairs(self) -> int:
        """The pairs that a progress bar is told of."""
        if self.diagonal:
            return self.shape[1]
        if self.symmetric:
            edges = (self.rows.start, self.rows.stop), (self.columns.start, self.columns.stop)
            return pairs_above(*edges)
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class Memory:
    """The bytes that signals and pairs of one request take on the device.

    Attributes
    ----------
    request : Request
        What is computed.
    launch : Launch
        The shape of its launches.
    d, channels : int
        The signals' shape.
    """

    request: Request
    launch: Launch
    d: int
    channels: int

    @property
    def features(self) -> int:
        """Features of a pixel of the input: channels times taps of the input filter."""
        return self.channels * self.request.network.input_filter_size

    @property
    def tables_per_pixel(self) -> int:
        """Numbers of a pixel's tables: two for each layer, and its unit vector."""
        return 2 * (self.request.depths[-1] + 1) + self.features

    @property
    def result_of_pair(self) -> int:
        """Bytes of a pair's results: a sum for each grid, or d² pixel pairs, in float64."""
        numbers = self.d * self.d if self.request.head == "pixels" else self.grids
        return 8 * len(self.request.kinds) * len(self.request.depths) * numbers

    @property
    def grids(self) -> int:
        """The number of grids of a sum (exact_sum.py)."""
        count = self.d * Rows.of(self.request, self.d).offsets
        return len(exact_sum.grids(np, 1.0, count))

    @property
    def right_tables(self) -> int:
        """Bytes of one signal's packed tables as a right signal."""
        return bytes_of_side(self.tables_per_pixel, self.launch, RIGHT, self._itemsize)

    @property
    def making_tables(self) -> int:
        """Bytes of one signal while its tables are made and packed as a left and a right signal.

        The array code (signal_tables.py, rings.py) has about four copies of the features and
        twelve arrays of pixels in float64, of which three have a halo; packing copies the tables
        once more.
        """
        left = bytes_of_side(self.tables_per_pixel, self.launch, LEFT, self._itemsize)
        made = 2 * self.d * self._itemsize * self.tables_per_pixel
        halo = longest_reach(self.request.network, self.request.depths[-1], self.d)
        spare = 8 * (self.d * (4 * self.features + 12) + 3 * 2 * halo)
        return left + self.right_tables + made + spare

    @property
    def _itemsize(self) -> int:
        return np.dtype(self.request.dtype).itemsize

    def tile_shape(self, n: int, m: int, free: int) -> tuple[int, int]:
        """Return the rows and columns of a tile of an (n, m) Gram, with `free` bytes free."""
        entries = self.d * Rows.of(self.request, self.d).offsets * self.request.depths[-1]
        pairs = min(
            free * RESULT_SHARE / self.result_of_pair,
            max(TILE_ENTRIES / entries, FEWEST_PAIRS),
            MOST_BLOCKS,
        )
        cases = max(1, int(free * TABLE_SHARE / self.making_tables))
        side = max(1, min(cases, math.isqrt(int(max(pairs, 1.0)))))
        rows = min(n, side)
        columns = max(1, min(m, cases, int(pairs / rows)))
        return min(n, cases, max(1, int(pairs / columns))), columns

    def cases_of_diagonal(self, free: int) -> int:
        """Return the cases of a tile of pairs of a case with itself."""
        return max(1, int(min(free * TABLE_SHARE / self.making_tables, MOST_BLOCKS)))

    def keeps_right_tables(self, m: int, free: int) -> bool:
        """Return whether the right tables of all m signals are kept."""
        return m * self.right_tables <= KEPT_SHARE * free

    def check_whole_results(self, shape: tuple[int, ...], free: int) -> None:
        """Raise ValueError if results of this shape, for each kind, do not fit on the device."""
        each, count = 8 * math.prod(shape), len(self.request.kinds)
        # The caller makes copies of one kind after the other, and gives the original up.
        copy = self.request.copied_bytes * math.prod(shape[1:])
        needed = max(count * each + copy, each + count * copy)
        needed += 2 * self.result_of_pair  # the smallest tile
        most = int(WHOLE_SHARE * free)
        if needed > most:
            raise ValueError(
                f"X and Z have results that need {needed} bytes, expected at most {most}, "
                "three quarters of what is free on the device; for NumPy's arrays they are "
                "kept in the host's memory"
            )


def free_bytes(cupy: Any) -> int:
    """Return the free memory in bytes: on the device and in CuPy's pool, within its limit."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    free, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
    return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free
