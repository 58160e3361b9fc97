"""The shape of a request's launches: the instance of the GPU kernel, its threads, and tiles.

A strip of pixel pairs is computed by a team of threads (strips.cu). Everything but the size of the
tiles follows from the request, the number of pixels of a signal and the limits of the device. So
the order in which numbers are summed never depends on the number of signals.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..compiled.records import RECORDS, constant, structs_of
from ..compiled.tabled_signals import row_bytes
from ..heads import offset_ranges
from ..layer.operations import Operations
from ..request import Request
from .compiler import DeviceLimits

_TEXT = Path(__file__).with_name("launch.h").read_text("utf-8")
LAUNCH = structs_of(_TEXT, RECORDS)["Launch"]
"""The data type of the argument of the GPU kernel."""

HALO = constant(_TEXT, "HALO")
"""The number of pixels that are copied to each end of a strip in shared memory from the other end
of the ring."""

LONGEST = 8 * constant(_TEXT, "MOST_THREADS")
"""The largest number of pixels of a signal. Longer signals were never tried on a device."""

CUTS = {
    "float32": ((512, 4, 1), (1024, 2, 2), (2048, 1, 4), (LONGEST, 1, 8)),
    "float64": ((512, 2, 1), (1024, 1, 2), (2048, 1, 4), (LONGEST, 1, 8)),
}
"""For strips of at most so many pixels (the first number): the number of lanes, and that of the
pixels of a thread. With more lanes, what is read of the left signal is used more often; but pixels
times lanes times the numbers of a state have to fit into registers."""

THREADS = 256
"""The number of threads of a block if strips are short. More threads would wait longer for each
other at barriers."""

STRIPS_OF_TEAM = 8
"""The number of strips that a team computes one after the other. The remaining offsets of a pair of
signals are computed by other blocks. With fewer strips per team, a few signals occupy a whole
device, but each block makes its own partial sums."""

MOST_BLOCKS_PER_PAIR = 64
"""The largest number of blocks for one pair of signals."""

LAYER_INSTRUCTIONS, LAUNCH_INSTRUCTIONS = 100, 1.0e11
"""The instructions of a pixel pair in one layer, rounded up, and the instructions of a launch for
each multiprocessor. A launch takes half a second on 128 float32 units at 1.5 GHz; devices that also
drive a screen stop kernels after about two seconds."""

MOST_NUMBERS = 2**31
"""A signal's table must have fewer numbers than this, because the GPU kernel counts them with 32
bits."""

MOST_BLOCKS = 2**30
"""The largest number of blocks of a launch. CUDA's own limit is twice as high."""

TABLE_SHARE, RESULT_SHARE = 0.1, 0.25
"""The fractions of the free memory that the tables of a block of signals and the results of a tile
may occupy."""

TABLE_BYTES = 2**30
"""The largest size of the tables of a block of signals. They are also in the host's memory."""


class LaunchPlan:
    """The shape of the launches of a request for signals of `d` pixels.

    `operations` are those of the request's `Program`.

    Attributes
    ----------
    lanes_are_offsets : bool
        Whether the lanes of a strip are offsets of one pair of signals. If not, they are right
        signals.
    lanes, thread_pixels, threads : int
        The number of lanes of a strip, of pixels of a thread, and of threads of a team, which
        computes one strip at a time.
    teams, blocks_per_pair : int
        The number of teams of a block, and of blocks for one pair of signals.
    team_bytes : int
        The shared memory of a team, in bytes.
    name : str
        The name of the GPU kernel's instance.
    most_pairs, n_partial_sums, pair_bytes : int
        The largest number of signal pairs of a launch, the number of partial sums for a pair and
        depth, and the bytes of a pair's results.

    Raises
    ------
    ValueError
        If no launch fits on the device.
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
        self.lanes_are_offsets = request.has_offsets
        self.lanes, self.thread_pixels = next(cut[1:] for cut in CUTS[request.dtype] if d <= cut[0])
        self.threads = -(-d // self.thread_pixels)
        self.teams = max(1, THREADS // self.threads)
        self.blocks_per_pair = 1
        *_, line_pixels = request.pixel_shape(d)
        line_offsets = [line_pixels] * (d // line_pixels)
        if pooled:
            ranges = offset_ranges(request.pool, request.pixel_shape(d))
            line_offsets = [len(offset_range.pool_counts) for offset_range in ranges]
        groups = sum(-(-offsets // self.lanes) for offsets in line_offsets)  # strips of a pair
        if self.lanes_are_offsets:
            self.teams = 1 if request.shares else min(self.teams, groups)
            if not request.shares:
                most = max(1, groups // (self.teams * STRIPS_OF_TEAM))
                self.blocks_per_pair = min(MOST_BLOCKS_PER_PAIR, most)
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
        n_states = 2 + ntk  # U, U⁺, which the input filter always needs, and A
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
        has_U_plus, keeps_pixels = operations.constants.has_U_plus, not request.has_sums
        switches = self.lanes_are_offsets, pooled, has_U_plus, ntk, keeps_pixels
        words = real, self.lanes, self.thread_pixels, *switches
        self.name = f"strips<{', '.join(str(word).lower() for word in words)}>"
        entries = d * request.n_offsets(d)
        cost = device.double_cost if request.dtype == "float64" else 1
        pair_instructions = entries * request.depths[-1] * LAYER_INSTRUCTIONS * cost
        most_pairs = int(device.multiprocessors * LAUNCH_INSTRUCTIONS / pair_instructions)
        self.most_pairs = max(1, min(most_pairs, MOST_BLOCKS // self.blocks_per_pair))
        self.n_partial_sums = self.blocks_per_pair if request.has_sums else 1
        self.pair_bytes = 8 * len(request.kinds) * len(request.depths) * self.n_partial_sums
        self.pair_bytes *= math.prod(request.result_pixel_shape(d))

    def tile(self, n: int, m: int, free: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of a tile of a kernel matrix (n, m).

        The results of the tile fit into memory, and one launch can compute it.
        """
        most = max(1, min(int(RESULT_SHARE * free / self.pair_bytes), self.most_pairs))
        rows = min(n, max(1, math.isqrt(most)))
        columns = max(1, min(m, most // rows))
        if not self.lanes_are_offsets and columns < m:  # no vector of right signals is divided
            columns = max(self.lanes, columns // self.lanes * self.lanes)
        return max(1, min(n, most // columns)), columns

    def blocks(self, rows: slice, columns: slice, paired: bool) -> int:
        """Return the number of blocks of the launch that computes a tile."""
        n_rows, n_columns = rows.stop - rows.start, columns.stop - columns.start
        if self.lanes_are_offsets:
            return n_rows * (1 if paired else n_columns) * self.blocks_per_pair
        n_column_groups = -(-columns.stop // self.lanes) - columns.start // self.lanes
        return -(-n_rows * (1 if paired else n_column_groups) // self.teams)


cached_launch_plan = lru_cache(maxsize=64)(LaunchPlan)
"""The `LaunchPlan` of a request, which is made only once."""
