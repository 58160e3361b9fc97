"""The plan of a request's launches, from shapes alone: the kernel, the cut of a row, the tiles.

A row of pixel pairs is cut into segments, one thread each. Where the state of a segment fits into
the registers of its thread, rows stay there (`short_rows`), several rows in a warp. Longer rows,
filters that reach beyond a neighbouring segment, and dilated filters, whose steps change from layer
to layer, go through shared memory (`long_rows`).

All constants of size stand here. They come from counts of registers and instructions in kernels
compiled for sm_90, and where it is said from times on an H200: picoseconds (ps) of a pixel pair and
layer of GAP's GPK and NTK, filters of 3, depth 9.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..protocol import Request
from . import exact_sum

HEADS = {"equivariant": 0, "trace": 1, "gap": 1, "pixels": 2}
"""The kernels' `Head` of each head (rows.h)."""

LONGEST = 4096
"""Longest signals. Longer ones are untested; an H200 has room for 4151 (seven float64 rings)."""

WARP, WARPS = 32, 4
"""Threads of a warp, by NVIDIA's hardware, and warps of a block of `short_rows`. Larger blocks
leave more registers unused: a block starts only when all of its registers are free."""

MOST_PIXELS = {"float32": (12, 32), "float64": (8, 16)}
"""Most pixels of a segment of `short_rows`, and of a segment whose row fits no other way. One more
lengthens the rows that stay in registers by 32 pixels, and more of a state beyond 255 registers
spills to local memory, of the longest some 120 bytes a thread. On an H200, float32 takes 3.1 ps
with 12 pixels, 3.8 with 32, and 6.9 to 8.5 in `long_rows`; float64 takes 7.3 ps with 8 pixels, 8.6
with 16, 11.5 with 20, and 12 to 15 in `long_rows`."""

FEW_PIXELS, CROWDED = {"float32": 12, "float64": 5}, 1.15
"""Most pixels of a segment that is not crowded, and the factor on the cost of a segment that is: it
has fewer resident warps, on sm_90 8 instead of 12. Raising the factor leaves such segments to rows
that fit no other way."""

ISSUE_SLOTS = {"float32": (49, 8, 25), "float64": (128, 8, 8)}
"""Issue slots of one thread and layer: for each pixel, each pixel of a halo, and the rest. Larger
numbers of the last two choose fewer, longer segments."""

LONG_PIXELS = 5
"""Pixels of a segment of `long_rows`. Odd, so that 32 threads read from 32 different banks of the
shared memory (CUDA C++ Programming Guide). More share more of a window's sum but take registers."""

LONG_THREADS = 256
"""Most threads of a block of `long_rows` that has several pairs. More threads wait for each other
longer at barriers, and have fewer than 255 registers each."""

LONG_WARPS = {"float32": (1, 2, 4), "float64": (1, 2, 4, 8)}
"""Warps of a block of `long_rows` that has one pair. Numbers between leave schedulers, which have
every fourth warp, with unequal work. On an H200, d = 4096, float32: 8.2 ps with 4 warps, 10.0 with
7, 10.2 with 8; d = 2048, float64: 13.4 ps with 4 warps, 18.9 with 5."""

LONG_REGISTERS, REGISTERS = {"float32": 120, "float64": 192}, 65536
"""Registers of a thread of `long_rows` (more if dilated), and of a multiprocessor. Larger numbers
choose smaller blocks."""

LONGEST_FILTER, LONGEST_DILATED_FILTER = 15, 9
"""Longest filters, in pixels, whose window sums are unrolled; a kernel's name has 0 for longer
filters. Raising the first needs more cases in `sums` (windows.h). Dilated filters, whose pixels
have no taps in common, take more registers: 13 taps spilled on sm_100 in float64."""

IDLE_TOLERANCE = 0.04
"""Share of idle threads, above the least possible, that a simpler choice may cost. Raising it
prefers smaller blocks and pairs with more teams."""

LAYER_SLOTS, LAYER_DOUBLES, RESULT_DOUBLES = 100, 70, 12
"""Issue slots of a pixel pair and layer in float32, its FP64 instructions in float64, and FP64
instructions of a pixel pair's result in either; rounded up. Larger numbers make shorter
launches."""

LAUNCH_SLOTS = 1.0e11
"""Issue slots of a launch for each multiprocessor: half a second of 128 float32 units at 1.5 GHz, a
second of 64. Raising it makes progress bars move in larger steps; a device that also has a screen
ends kernels of about two seconds."""

FEWEST_WARPS = 256
"""Warps of a launch for each multiprocessor, which has 8 to 17 of them at a time, where pairs are
few and have offsets to share. More even out a launch's end; each block adds to the results."""

# Shares of the free memory when a call begins. Raising a share makes larger tiles, and more calls
# fail for lack of memory. Their sum stays well below 1, because CuPy's pool keeps blocks of other
# sizes, and temporaries come on top.
WHOLE_SHARE = 0.75  # results that have to be whole on the device, as CuPy's have.
TABLE_SHARE = 0.1  # one tile's tables.
RESULT_SHARE = 0.25  # one tile's results.
KEPT_SHARE = 0.2  # tables of blocks of signals, which are made once if all of them fit.
DEFICIT_SHARE = 0.2  # arrays of the pairs that are computed from deficits.

DEFICIT_ARRAYS = 36
"""Arrays of a pixel pair that the array code of deficits has at a time: 14 named, up to 22 of a
merge, whose root masses are two numbers each. A smaller number may run out of memory."""

FIRST_SEEN, NEXT_SEEN = 2, 4
"""The layers whose E the kernels look at: 2, 2 · 4, 2 · 4², …

E (doubt.DOUBTFUL) changes slowly from layer to layer: angles contract like 1/l, and windows grow
by a few pixels. A layer stands for layers between half and twice its number. A smaller NEXT_SEEN
follows E more closely; looking at E takes a third of a layer's issue slots in float32. A branch
around pixel pairs without doubt saves nothing: 88 to 100 % of rows have a doubtful one."""


class DeviceLimits(NamedTuple):
    shared_bytes: int  # shared memory that a block may have
    multiprocessors: int
    double_cost: int  # float32 operations in the time of a float64 operation: 2, or 32 to 64


H200 = DeviceLimits(227 * 1024, 132, 2)


class LaunchPlan:
    """The shape of the launches of a request on signals of some channels and length `d`.

    Raises
    ------
    ValueError
        If no launch can fit.
    """

    def __init__(
        self, request: Request, channels: int, d: int, device: DeviceLimits = H200
    ) -> None:
        if d > LONGEST:
            raise ValueError(
                f"X has {d} timepoints, expected at most {LONGEST} for engine 'cuda'; "
                "engine='reference' has no such limit"
            )
        net, depth, dtype, head = request.network, request.depths[-1], request.dtype, request.head
        self.d, self.depth, self.n_slots, self.head = d, depth, len(request.depths), HEADS[head]
        self.inner, self.outer = net.filter_size, net.outer_filter_size
        gpk, ntk = "gpk" in request.kinds, "ntk" in request.kinds
        itemsize = np.dtype(dtype).itemsize
        # Rows of a pair: all of them for heads that need every pixel pair.
        self.offsets = d if head in ("gap", "pixels") else 1
        # True if layers beyond the first add (t + r) box(F⁰) to A_g.
        self.linear_box = net.skip and ntk and net.parts.initial != 0.0
        # Pixels from one tap to the next in layers 0 … L, the same for both filters of a layer.
        windows = [
            window._replace(step=(window.step - 1) % d + 1)
            for window in net.replace(depth=depth).filters()
        ]
        strides = [window.step if window.size > 1 else 1 for window in windows]
        self.steps = 1, *map(max, strides[::2], strides[1::2])
        dilated = max(self.steps) > 1
        filters = self.inner, self.outer
        longest = LONGEST_DILATED_FILTER if dilated else LONGEST_FILTER
        unrolled = [size if size <= longest else 0 for size in filters]

        # Segments of a row, and their most pixels: short segments have one less. Teams of threads
        # of a pair of cases, each with every teams_per_pair-th offset. Dynamic shared memory.
        cut = None if dilated or 0 in unrolled else cut_for_registers(d, max(filters) // 2, dtype)
        if cut is not None:
            kernel, self.threads, self.shared_bytes = "short_rows", WARPS * WARP, 0
            self.segments, self.pixels = cut
            teams = WARPS * (WARP // self.segments)
            self.teams_per_pair = _teams_per_pair(teams, self.offsets)
            pairs = teams // self.teams_per_pair
            cuts: tuple[object, ...] = self.segments, d % self.segments == 0, self.threads
        else:
            kernel, self.teams_per_pair = "long_rows", 1
            self.segments = -(-d // LONG_PIXELS)
            self.pixels = -(-d // self.segments)
            rings = 2 + 2 * ntk + gpk * (1 if request.summed else 2) + self.linear_box
            row_bytes = rings * d * itemsize
            if row_bytes > device.shared_bytes:
                raise ValueError(
                    f"X has {d} timepoints: {rings} numbers of {dtype} for each need {row_bytes} "
                    f"bytes of shared memory, expected at most {device.shared_bytes} on this "
                    "device; ask for fewer kinds, dtype='float32' or engine='reference'"
                )
            pairs, self.threads = _long_block(self.segments, row_bytes, device.shared_bytes, dtype)
            self.shared_bytes = pairs * row_bytes
            cuts = self.threads, pairs > 1, dilated
        # A block's rectangle of pairs of cases, as square as possible.
        self.pairs_high = max(k for k in range(1, math.isqrt(pairs) + 1) if pairs % k == 0)
        self.pairs_wide = pairs // self.pairs_high
        real = {"float32": "float", "float64": "double"}[dtype]
        inner_differs = ntk and net.parts.inner_minus_readout != 0.0
        template = real, self.pixels, *unrolled, gpk, ntk, request.summed, inner_differs, *cuts
        self.name = f"{kernel}<{', '.join(str(word).lower() for word in template)}>"

        entries = d * self.offsets
        layer = LAYER_SLOTS if dtype == "float32" else LAYER_DOUBLES * device.double_cost
        results = len(request.kinds) * self.n_slots * RESULT_DOUBLES * device.double_cost
        most_rows = device.multiprocessors * LAUNCH_SLOTS / (d * (depth * layer + results))
        # One pair may take several launches, of `offsets_at_once` offsets each.
        self.most_pairs = most_rows / self.offsets
        self.offsets_at_once = min(self.offsets, max(1, int(most_rows)))
        self.fewest_blocks = FEWEST_WARPS * WARP * device.multiprocessors // self.threads
        self.grids = len(exact_sum.grids(np, 1.0, entries))
        self.headroom = (entries - 1).bit_length() + 1
        # Bytes of a pair's results, and of a pair that is computed from deficits.
        numbers = d * d if head == "pixels" else self.grids
        self.pair_bytes = 8 * len(request.kinds) * self.n_slots * numbers
        self.deficit_bytes = DEFICIT_ARRAYS * itemsize * entries
        # Bytes of a signal's tables, packed as a right signal: half the bytes of a left signal.
        self.features = channels * net.input_filter_size
        per_pixel = 2 * (depth + 1) + self.features
        self.table_bytes = 2 * self.segments * self.pixels * itemsize * per_pixel
        # Bytes while they are made and packed for both sides. The array code (signal_tables.py) has
        # about four copies of the features and twelve arrays of pixels in float64, of which three
        # have a halo; packing copies the tables once more.
        halos = 3 * 2 * max(window.reach for window in windows)
        made = 8 * (d * (4 * self.features + 12) + halos)
        self.making_bytes = 5 * self.table_bytes // 2 + made

    def tile_shape(self, n: int, m: int, free: int) -> tuple[int, int]:
        """Return the rows and columns of a tile of an (n, m) Gram, which fits in `free` bytes."""
        cases = max(1, int(free * TABLE_SHARE / self.making_bytes))
        pairs = max(1, int(min(free * RESULT_SHARE / self.pair_bytes, self.most_pairs)))
        rows = min(n, cases, math.isqrt(pairs))
        columns = max(1, min(m, cases, pairs // rows))
        return min(n, cases, max(1, pairs // columns)), columns

    def kept_tables(self, cases: int, free: int) -> int:
        """Return the number of blocks of signals whose tables, of both sides, are kept."""
        return max(1, int(KEPT_SHARE * free / (1.5 * cases * self.table_bytes)))

    def pairs_in_deficits(self, free: int) -> int:
        return max(1, int(DEFICIT_SHARE * free / self.deficit_bytes))

    def blocks_per_pair(self, rectangles: int) -> int:
        """Return the blocks that share the offsets of pairs, for a launch of some rectangles."""
        turns = -(-self.offsets_at_once // self.teams_per_pair)
        return max(1, min(turns, self.fewest_blocks // rectangles))


def layers_seen(depth: int) -> dict[int, int]:
    """Return the layers whose E is looked at, with the number of layers that each stands for.

    Every layer from 2 to `depth` belongs to the layer looked at whose ratio to it is nearest to 1.
    """
    powers = (FIRST_SEEN * NEXT_SEEN**k for k in range(depth.bit_length()))
    counts = {layer: 0 for layer in powers if layer <= depth}
    for layer in range(2, depth + 1):
        counts[min(counts, key=lambda near: max(near, layer) / min(near, layer))] += 1
    return counts


def cut_for_registers(d: int, half: int, dtype: str) -> tuple[int, int] | None:
    """Return the cheapest cut of a row into (segments, pixels), or None if none fits registers.

    `half` is the halo, half of the longest filter. The cost of a pixel pair is estimated as
    ISSUE_SLOTS of all threads of a warp, divided by the pixels that the warp has. Of segments that
    are longer than usual, the shortest come first.
    """
    per_pixel, per_halo, per_row = ISSUE_SLOTS[dtype]
    usual, most = MOST_PIXELS[dtype]
    costs: dict[tuple[int, int], tuple[int, float]] = {}
    for segments in range(1, min(WARP, d) + 1):
        pixels = -(-d // segments)
        has_short_segments = d % segments > 0
        if pixels > most or half > pixels - has_short_segments:
            continue
        halo = per_halo * half * (1 + 0.5 * has_short_segments)
        useful = d * (WARP // segments)
        cost = WARP * (per_pixel * pixels + halo + per_row) / useful
        crowded = CROWDED if pixels > FEW_PIXELS[dtype] else 1.0
        costs[segments, pixels] = max(usual, pixels), cost * crowded
    return min(costs, key=costs.__getitem__, default=None)


def _teams_per_pair(teams: int, offsets: int) -> int:
    """Return the teams of a block that share a pair: many, while few teams are idle."""

    def busy(shared: int) -> float:
        return (teams // shared) * offsets / (teams * -(-offsets // shared))

    choices = sorted({min(teams // pairs, offsets) for pairs in range(1, teams + 1)}, reverse=True)
    least = max(map(busy, choices)) - IDLE_TOLERANCE
    return next(shared for shared in choices if busy(shared) >= least)


def _long_block(segments: int, row_bytes: int, shared: int, dtype: str) -> tuple[int, int]:
    """Return the pairs and threads of a block of `long_rows` that keep most threads busy.

    Registers and shared memory limit the blocks of a multiprocessor. Several pairs
    have a thread for each segment; the threads of one pair may have several segments. Where
    choices are level, the block has the size of `short_rows`' blocks.
    """
    choices = [(1, WARP * warps) for warps in LONG_WARPS[dtype]]
    for pairs in range(2, min(shared // row_bytes, LONG_THREADS // segments) + 1):
        choices.append((pairs, WARP * -(-pairs * segments // WARP)))

    def busy(choice: tuple[int, int]) -> float:
        pairs, threads = choice
        blocks = min(REGISTERS // (LONG_REGISTERS[dtype] * threads), shared // (pairs * row_bytes))
        return blocks * pairs * segments / -(-pairs * segments // threads)

    least = (1 - IDLE_TOLERANCE) * max(map(busy, choices))
    level = (choice for choice in choices if busy(choice) >= least)
    return min(level, key=lambda choice: abs(choice[1] - WARPS * WARP))


class PairTile(NamedTuple):
    """Left and right cases whose pairs are computed together.

    Of a `symmetric` Gram a tile is on the diagonal, or above it with all of its pairs. A
    `paired` tile has the pairs of cases of the same number: one row of results.
    """

    rows: slice
    columns: slice
    symmetric: bool = False
    paired: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def above(self) -> int:
        """The number `above` of rows.h: a pair is computed if column + above >= row."""
        return self.columns.start - self.rows.start if self.symmetric else self.shape[0]

    @property
    def pairs(self) -> int:
        """The pairs that a progress bar is told of."""
        height, width = self.shape
        on_diagonal = self.symmetric and self.rows == self.columns
        return height * (height + 1) // 2 if on_diagonal else height * width
