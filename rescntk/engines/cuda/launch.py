"""The shape of a launch: a pure function of the rows that a kernel computes.

A row of pixel pairs is cut into segments, one thread each. Where the state of a segment fits into
the registers of its thread, rows stay there (`short_rows`), several rows in a warp. Longer rows,
filters that reach beyond a neighbouring segment, and dilated filters, whose steps change from layer
to layer, go through shared memory (`long_rows`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..geometry import on_ring
from ..protocol import Request, sums_features

LONGEST = 4096
"""Longest signals, in time points. Larger numbers are untested; shared memory ends near 4800 (six
rings of float64 in 227 KiB)."""

ENUMS = {"Head": ("FIRST_PAIR", "SUM", "EVERY_PAIR")}
"""Enumerations of the kernels' text."""

HEADS = {"equivariant": "FIRST_PAIR", "trace": "SUM", "gap": "SUM", "pixels": "EVERY_PAIR"}

REALS = {"float32": "float", "float64": "double"}

WARP = 32
"""Threads of a warp, by NVIDIA's hardware."""

WARPS = 4
"""Warps of a block of `short_rows`. Larger blocks leave more of a multiprocessor's registers
unused: a block starts only when all of its registers are free. Chosen by the registers of compiled
kernels, from which tests/engines/cuda/test_cubins.py counts resident warps; never timed."""

MOST_PIXELS = {"float32": 12, "float64": 8}
"""Most pixels of a segment of `short_rows`. One more lengthens the rows that stay in
registers by 32 pixels, but a state beyond 255 registers would spill to local memory, which
test_cubins.py forbids in the compiled kernels of sm_80, sm_90 and sm_100."""

FEW_PIXELS = {"float32": 12, "float64": 6}
"""Most pixels of a segment that is not crowded (CROWDED). Larger numbers choose longer segments
more often. Resident warps of a multiprocessor of sm_90, counted as in test_cubins.py with NVRTC 13:
12 or more up to 12 pixels of float32 and 5 of float64, 8 for 6 to 8 pixels of float64. So float64's
6 is one pixel generous; no device has been timed to tell."""

CROWDED = 1.15
"""Factor on the estimated cost of a segment of more than FEW_PIXELS pixels, for its fewer resident
warps. Raising it leaves long segments to rows that fit no other way. Chosen by judgement, never
timed on a device."""

LONG_PIXELS = 5
"""Pixels of a segment of `long_rows`. Odd, so that 32 threads read from 32 different banks of the
shared memory (CUDA C++ Programming Guide, "Shared Memory"). More pixels share more of a window's
sum but take registers. Chosen among odd
numbers by judgement, never timed on a device."""

LONG_THREADS = 256
"""Most threads of a block of `long_rows`. More threads halve the rounds of a long row but wait for
each other longer at barriers, and have fewer than 255 registers each (65536 a multiprocessor).
Chosen for the registers, never timed on a device."""

LONGEST_FILTER = 15
"""Longest filter, in pixels, whose window sums are unrolled; a kernel's name has 0 for longer
filters. Raising it needs more cases in `sums` (windows.h), compiled for each filter size."""

LONGEST_DILATED_FILTER = 9
"""The same for dilated filters, whose pixels have no taps in common. Longer filters take registers:
13 and 15 taps spilled on sm_100, counted in compiled kernels of float64."""

IDLE_TOLERANCE = 0.04
"""Share of idle threads, above the least possible, that a simpler choice may cost. Raising it
prefers blocks with fewer pairs and pairs with more teams. Chosen by judgement, never timed."""

SHARED_BYTES = 227 * 1024
"""Shared memory of a block on sm_90 and sm_100, in bytes (CUDA C++ Programming Guide, "Compute
Capabilities"); other devices have less, and the engine asks the device."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of pixel pairs as a kernel is compiled for them.

    Attributes
    ----------
    d : int
        The signals' length in time points.
    filter_size, outer_filter_size : int
        Pixels of the inner and of the outer filter.
    dtype, kinds, head
        As in `Request`.
    inner_differs : bool
        True if exactly one of inner and readout weights is trained.
    linear_apart : bool
        True if the state of A is without the part of F⁰, which A_g needs as well.
    dilated : bool
        True if a layer's filters have steps of more than one pixel.
    """

    d: int
    filter_size: int
    outer_filter_size: int
    dtype: str
    kinds: tuple[str, ...]
    head: str
    inner_differs: bool = False
    linear_apart: bool = False
    dilated: bool = False

    @classmethod
    def of(cls, request: Request, d: int) -> Rows:
        """Return the rows of a request on signals of length `d`."""
        net = request.network
        return cls(
            d=d,
            filter_size=net.filter_size,
            outer_filter_size=net.outer_filter_size,
            dtype=request.dtype,
            kinds=request.kinds,
            head=request.head,
            inner_differs=net.parts.inner_minus_readout != 0.0,
            linear_apart=(
                request.head == "gap"
                and net.skip
                and "ntk" in request.kinds
                and net.parts.initial != 0.0
            ),
            dilated=any(step != 1 for step in steps(request, d)),
        )

    @property
    def offsets(self) -> int:
        """The offsets δ of a pair of cases: d for heads that need every pixel pair, else 1."""
        return self.d if self.head in ("gap", "pixels") else 1

    @property
    def summed(self) -> bool:
        """True if F is wanted as a sum over pixels alone."""
        return sums_features("relu", self.head)

    @property
    def unrolled_filters(self) -> tuple[int, int]:
        """Sizes of inner and outer filter as the kernel's name has them: 0 for long filters."""
        longest = LONGEST_DILATED_FILTER if self.dilated else LONGEST_FILTER
        inner, outer = (
            size if size <= longest else 0 for size in (self.filter_size, self.outer_filter_size)
        )
        return inner, outer

    @property
    def rings(self) -> int:
        """Numbers of each pixel pair that `long_rows` keeps: D, A, F and their branches; and F⁰."""
        gpk, ntk = "gpk" in self.kinds, "ntk" in self.kinds
        return 2 + 2 * ntk + gpk * (1 if self.summed else 2) + self.linear_apart

    def kernel_name(self, kernel: str, pixels: int, *rest: object) -> str:
        """Return the instance of a kernel's template for segments of `pixels` pixels."""
        gpk, ntk = "gpk" in self.kinds, "ntk" in self.kinds
        parts = (
            REALS[self.dtype], pixels, *self.unrolled_filters, gpk, ntk, self.summed,
            self.inner_differs and ntk, *rest,
        )  # fmt: skip
        words = [str(part).lower() if isinstance(part, bool) else str(part) for part in parts]
        return f"{kernel}<{', '.join(words)}>"


def steps(request: Request, d: int) -> list[int]:
    """Return the pixels from one tap to the next in layers 0 … L, on rings of `d` pixels.

    A layer's inner and outer filters have the same step. Filters of one pixel have step 1.
    """
    net = request.network

    def step(layer: int) -> int:
        filters = net.inner_filter(layer), net.outer_filter(layer)
        return max(on_ring(one, d).step if one.size > 1 else 1 for one in filters)

    return [1, *map(step, range(1, request.depths[-1] + 1))]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The shape of a launch (`plan`).

    Attributes
    ----------
    name : str
        The instance of the kernel's template.
    segments, pixels : int
        The segments of a row, and the most pixels of a segment; short segments have one less.
    threads : int
        Threads of a block.
    teams_per_pair : int
        Teams of threads of a pair of cases. Each team takes every teams_per_pair-th offset.
    pairs_per_block, pairs_high : int
        Pairs of cases of a block, and the rows of their rectangle (on a diagonal: one row).
    shared_bytes : int
        Dynamic shared memory of a block.
    """

    name: str
    segments: int
    pixels: int
    threads: int
    teams_per_pair: int
    pairs_high: int
    pairs_per_block: int
    shared_bytes: int

    def blocks(self, rows: int, columns: int, diagonal: bool) -> int:
        """Return the number of blocks of a tile."""
        if diagonal:
            return -(-columns // self.pairs_per_block)
        wide = self.pairs_per_block // self.pairs_high
        return -(-columns // wide) * -(-rows // self.pairs_high)


def plan(rows: Rows, shared_memory: int = SHARED_BYTES) -> Launch:
    """Choose the shape of a launch.

    Parameters
    ----------
    rows : Rows
        What is computed.
    shared_memory : int
        Shared memory that a block may have on the device, in bytes.

    Raises
    ------
    ValueError
        If no launch can fit.
    """
    if rows.d > LONGEST:
        raise ValueError(
            f"X has {rows.d} timepoints, expected at most {LONGEST} for engine 'cuda'; "
            "engine='reference' has no such limit"
        )
    in_memory = rows.dilated or min(rows.unrolled_filters) == 0
    cut = None if in_memory else cut_for_registers(rows)
    return _long_rows(rows, shared_memory) if cut is None else _short_rows(rows, cut)


class Cut(NamedTuple):
    """The segments of a row, and the most pixels of a segment."""

    segments: int
    pixels: int


def _short_rows(rows: Rows, cut: Cut) -> Launch:
    """Return the launch of `short_rows`, which keeps rows in registers."""
    teams, threads = WARPS * (WARP // cut.segments), WARPS * WARP
    teams_per_pair = _teams_per_pair(teams, rows.offsets)
    pairs = teams // teams_per_pair
    even = rows.d % cut.segments == 0
    return Launch(
        name=rows.kernel_name("short_rows", cut.pixels, cut.segments, even, threads),
        segments=cut.segments,
        pixels=cut.pixels,
        threads=threads,
        teams_per_pair=teams_per_pair,
        pairs_high=_pairs_high(pairs),
        pairs_per_block=pairs,
        shared_bytes=0,
    )


def _long_rows(rows: Rows, shared_memory: int) -> Launch:
    """Return the launch of `long_rows`, which keeps rows in shared memory."""
    segments = -(-rows.d // LONG_PIXELS)
    pixels = -(-rows.d // segments)
    needed = rows.rings * rows.d * np.dtype(rows.dtype).itemsize
    if needed > shared_memory:
        raise ValueError(
            f"X has {rows.d} timepoints: {rows.rings} numbers of {rows.dtype} for each need "
            f"{needed} bytes of shared memory, expected at most {shared_memory} on this device; "
            "ask for fewer kinds, dtype='float32' or engine='reference'"
        )
    pairs, threads = _pairs_and_threads(segments, shared_memory // needed)
    return Launch(
        name=rows.kernel_name("long_rows", pixels, threads, pairs > 1, rows.dilated),
        segments=segments,
        pixels=pixels,
        threads=threads,
        teams_per_pair=1,
        pairs_high=_pairs_high(pairs),
        pairs_per_block=pairs,
        shared_bytes=pairs * needed,
    )


def _pairs_high(pairs: int) -> int:
    """Return the rows of a block's rectangle of pairs, which is as square as possible."""
    return max(k for k in range(1, math.isqrt(pairs) + 1) if pairs % k == 0)


def _pairs_and_threads(segments: int, most_pairs: int) -> tuple[int, int]:
    """Return the pairs (at most `most_pairs`) and threads of a block of `long_rows`.

    Threads of a block wait for each other, so the block is as small as its idle threads allow.
    """
    if segments > LONG_THREADS:
        rounds = -(-segments // LONG_THREADS)
        return 1, WARP * -(-segments // (WARP * rounds))
    threads = {
        pairs: WARP * -(-pairs * segments // WARP)
        for pairs in range(1, min(most_pairs, LONG_THREADS // segments) + 1)
    }
    busy = {pairs: pairs * segments / threads[pairs] for pairs in threads}
    least = max(busy.values()) - IDLE_TOLERANCE
    pairs = next(pairs for pairs in threads if busy[pairs] >= least)
    return pairs, threads[pairs]


class IssueSlots(NamedTuple):
    """Issue slots of one thread and layer: for each pixel, each pixel of a halo, and the rest."""

    pixel: int
    halo: int
    rest: int


ISSUE_SLOTS = {"float32": IssueSlots(49, 8, 25), "float64": IssueSlots(128, 8, 8)}
"""Counted by disassembling compiled kernels (test_cubins.py bounds the sum). Larger numbers of
`halo` and `rest` choose fewer, longer segments."""


def cut_for_registers(rows: Rows) -> Cut | None:
    """Return the cheapest cut of a row for `short_rows`, or None if no cut fits into registers.

    The cost of a pixel pair is estimated as ISSUE_SLOTS of all threads of a warp, divided by the
    pixels that the warp has.
    """
    half = max(rows.filter_size, rows.outer_filter_size) // 2
    slots = ISSUE_SLOTS[rows.dtype]
    few, most = FEW_PIXELS[rows.dtype], MOST_PIXELS[rows.dtype]
    best: tuple[float, Cut] | None = None
    for segments in range(1, min(WARP, rows.d) + 1):
        pixels = -(-rows.d // segments)
        has_short_segments = rows.d % segments > 0
        if pixels > most or half > pixels - has_short_segments:
            continue
        halo = slots.halo * half * (1 + 0.5 * has_short_segments)
        useful = rows.d * (WARP // segments)
        cost = WARP * (slots.pixel * pixels + halo + slots.rest) / useful
        if pixels > few:
            cost *= CROWDED
        if best is None or cost < best[0]:
            best = cost, Cut(segments, pixels)
    return None if best is None else best[1]


def _teams_per_pair(teams: int, offsets: int) -> int:
    """Return the teams of a block that share a pair: many, while few teams are idle."""

    def busy(shared: int) -> float:
        return (teams // shared) * offsets / (teams * -(-offsets // shared))

    choices = sorted({min(teams // pairs, offsets) for pairs in range(1, teams + 1)}, reverse=True)
    least = max(map(busy, choices)) - IDLE_TOLERANCE
    return next(shared for shared in choices if busy(shared) >= least)
