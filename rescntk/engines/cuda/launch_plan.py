"""The shape of a request's launches: the kernel, its threads, its units, and tiles of signals.

A row of pixel pairs has a team of threads (rows.cu). The request, the shape of a signal and the
device's limits decide all but the tiles. So the order of a sum never depends on the number of
signals.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..compiled.records import RECORDS, constant, records
from ..compiled.signals import row_bytes
from ..heads import offset_ranges
from ..layer.operations import Operations
from ..request import Request
from .compiler import DeviceLimits

_TEXT = Path(__file__).with_name("launch.h").read_text("utf-8")
LAUNCH = records(_TEXT, RECORDS)["Launch"]
"""What a launch of the kernel is told."""

HALO = constant(_TEXT, "HALO")
"""Pixels that are copied to each end of a row in shared memory, from the other end of the ring."""

LONGEST = 8 * constant(_TEXT, "MOST_THREADS")
"""Longest signals, in pixels. Longer ones were never tried on a device."""

CUTS = {
    "float32": ((512, 4, 1), (1024, 2, 2), (2048, 1, 4), (LONGEST, 1, 8)),
    "float64": ((512, 2, 1), (1024, 1, 2), (2048, 1, 4), (LONGEST, 1, 8)),
}
"""Most pixels of a row, its lanes, and the pixels of a thread. More lanes share what is read of the
left signal; pixels times lanes times the numbers of a state have to fit into registers."""

THREADS = 256
"""Threads of a block of short rows. More threads wait longer for each other at barriers."""

ROWS_OF_TEAM = 8
"""Rows that a team takes one after the other; the other offsets of a pair go to other blocks. With
fewer rows, a few signals use a whole device; but each block adds partial sums."""

MOST_UNITS = 64
"""Most blocks of a pair of signals."""

LAYER_INSTRUCTIONS, LAUNCH_INSTRUCTIONS = 100, 1.0e11
"""Instructions of a pixel pair and layer, rounded up; and of a launch, for each multiprocessor. A
launch takes half a second of 128 float32 units at 1.5 GHz: a device that also has a screen ends
kernels that take about two seconds."""

MOST_NUMBERS = 2**31
"""Numbers that a signal's table must stay below: the kernel counts them with 32 bits."""

MOST_BLOCKS = 2**30
"""Most blocks of a launch; CUDA's own limit is twice as high."""

TABLE_SHARE, RESULT_SHARE = 0.1, 0.25
"""Shares of the free memory for tables of a block of signals, and for a tile's results."""

TABLE_BYTES = 2**30
"""Most bytes of the tables of a block of signals, which are also in the host's memory."""


class LaunchPlan:
    """The shape of the launches of a request on signals of `d` pixels.

    `operations` are those of the request's program.

    Attributes
    ----------
    lanes_are_offsets : bool
        Whether a row's lanes are offsets of one pair of signals; else they are right signals.
    lanes, pixels, threads : int
        Lanes of a row, pixels of a thread, threads of a team, which takes a row.
    teams, units : int
        Teams of a block, and blocks of a pair of signals.
    team_bytes : int
        Shared memory of a team.
    name : str
        The kernel.
    most_pairs, n_partial_sums, pair_bytes : int
        Most pairs of signals of a launch; sums of a pair and depth; bytes of a pair's results.

    Raises
    ------
    ValueError
        If no launch can fit.
    """

    def __init__(
        self, request: Request, d: int, operations: Operations, device: DeviceLimits
    ) -> None:
        if d > LONGEST:
            raise ValueError(
                f"X has {d} timepoints, expected at most {LONGEST} for engine 'cuda'; "
                "engine='array' has no such limit"
            )
        real = {"float32": "float", "float64": "double"}[request.dtype]
        itemsize = np.dtype(request.dtype).itemsize
        ntk, pooled = "ntk" in request.kinds, request.pool > 0
        self.lanes_are_offsets = request.meets_others
        self.lanes, self.pixels = next(cut[1:] for cut in CUTS[request.dtype] if d <= cut[0])
        self.threads = -(-d // self.pixels)
        self.teams = max(1, THREADS // self.threads)
        self.units = 1
        *_, line_pixels = request.axes(d)
        line_offsets = [line_pixels] * (d // line_pixels)
        if pooled:
            ranges = offset_ranges(request.pool, request.axes(d))
            line_offsets = [len(along.pool_counts) for along in ranges]
        groups = sum(-(-offsets // self.lanes) for offsets in line_offsets)  # rows of a pair
        if self.lanes_are_offsets:
            self.teams = 1 if request.shares else min(self.teams, groups)
            if not request.shares:
                self.units = min(MOST_UNITS, max(1, groups // (self.teams * ROWS_OF_TEAM)))
        # The kernel numbers a table's entries with 32 bits.
        row_numbers = row_bytes(request, d, self.lanes if self.lanes_are_offsets else 0) // itemsize
        numbers = operations.n_rows * row_numbers * (1 if self.lanes_are_offsets else self.lanes)
        if numbers >= MOST_NUMBERS:
            raise ValueError(
                f"X has {d} timepoints, and network depth {request.depths[-1]} and filters of "
                f"{request.network.filter_size}: tables have {numbers:,} numbers a signal, "
                f"expected less than {MOST_NUMBERS:,} for engine 'cuda'; engine='array' has "
                "no such limit"
            )
        n_states = 2 + ntk  # U and U⁺, which the input has in any case, and A
        sum_bytes = 2 * 8 * self.threads * (1 if self.lanes_are_offsets else self.lanes)
        state_bytes = n_states * (d + 2 * HALO) * self.lanes * itemsize
        least_bytes = max(state_bytes, sum_bytes if request.has_sums else 0)
        self.team_bytes = -(-least_bytes // 16) * 16
        if self.team_bytes > device.shared_bytes:
            raise ValueError(
                f"X has {d} timepoints, which need {self.team_bytes} bytes of shared memory in "
                f"{request.dtype}, expected at most {device.shared_bytes} on this device; ask for "
                "fewer kinds, dtype='float32' or engine='array'"
            )
        self.teams = min(self.teams, device.shared_bytes // self.team_bytes)
        has_opposite, points = operations.constants.has_opposite, not request.has_sums
        switches = self.lanes_are_offsets, pooled, has_opposite, ntk, points
        words = real, self.lanes, self.pixels, *switches
        self.name = f"rows<{', '.join(str(word).lower() for word in words)}>"
        entries = d * request.n_offsets(d)
        cost = device.double_cost if request.dtype == "float64" else 1
        pair_instructions = entries * request.depths[-1] * LAYER_INSTRUCTIONS * cost
        most_pairs = int(device.multiprocessors * LAUNCH_INSTRUCTIONS / pair_instructions)
        self.most_pairs = max(1, min(most_pairs, MOST_BLOCKS // self.units))
        self.n_partial_sums = self.units if request.has_sums else 1
        self.pair_bytes = 8 * len(request.kinds) * len(request.depths) * self.n_partial_sums
        self.pair_bytes *= math.prod(request.pixel_axes(d))

    def tile(self, n: int, m: int, free: int) -> tuple[int, int]:
        """Return the rows and columns of a tile of (n, m) cases whose results fit into memory."""
        most = max(1, min(int(RESULT_SHARE * free / self.pair_bytes), self.most_pairs))
        rows = min(n, max(1, math.isqrt(most)))
        columns = max(1, min(m, most // rows))
        if not self.lanes_are_offsets and columns < m:  # blocks of right signals are taken whole
            columns = max(self.lanes, columns // self.lanes * self.lanes)
        return max(1, min(n, most // columns)), columns

    def blocks(self, rows: slice, columns: slice, paired: bool) -> int:
        """Return the blocks of a launch of a tile."""
        height = rows.stop - rows.start
        if self.lanes_are_offsets:
            return height * (1 if paired else columns.stop - columns.start) * self.units
        wide = -(-columns.stop // self.lanes) - columns.start // self.lanes
        return -(-height * (1 if paired else wide) // self.teams)


launch_plan = lru_cache(maxsize=64)(LaunchPlan)
