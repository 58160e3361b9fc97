"""How the CUDA engine cuts rows up: the shape of a launch, a pure function of what is computed.

A row of pixel pairs is cut into segments, a lane each. Where all state of a lane fits in its
registers, rows live there (`short_rows` in rows.cu), several in a warp; longer rows, and filters
that reach further than a neighbour, go through the shared memory (`long_rows`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..protocol import sums_features

LONGEST = 4096
"""Time points of the longest signals."""

# What rows.cu calls Head and Activation. In a kernel's name stand their numbers, which is how a
# demangler spells them.
ENUMS = {"Head": ("FIRST_PAIR", "SUM", "EVERY_PAIR"), "Activation": ("RELU_SUMMED", "RELU", "ERF")}
HEADS = {"equivariant": "FIRST_PAIR", "trace": "SUM", "gap": "SUM", "pixels": "EVERY_PAIR"}

REALS = {"float32": "float", "float64": "double"}

WARP = 32
WARPS = 4
"""Warps of a block of `short_rows`: small blocks leave fewer registers unused."""

# Pixels of a lane: their state has to fit in its 255 registers without spilling (checked in the
# compiled kernels by tests/test_cubins.py). With more than a few of them a multiprocessor has 8
# warps, not 12 or more, so they are taken for what others could not do, or would do far worse.
# Arctangents take registers for themselves.
MOST_PIXELS = {"float32": 12, "float64": 8}
FEW_PIXELS = {"float32": 12, "float64": 6}

# Of a lane of `long_rows`. Odd, so that lanes read from different banks of the shared memory.
LONG_PIXELS = {"relu": 5, "erf": 3}
LONG_THREADS = 256
"""The most threads of a block of `long_rows`."""

LONGEST_FILTER = 15
"""Longer ones are summed by a loop, in `long_rows`; they have size 0 in a kernel's name."""

SHARED_BYTES = 227 * 1024
"""Shared memory that a block may have on sm_90 and sm_100; other devices have less."""


@dataclass(frozen=True)
class Launch:
    """How rows of one length are cut up: a pure function of what is computed (`plan`).

    Attributes
    ----------
    name : str
        The instance of the kernel's template.
    lanes, pixels : int
        A row's lanes, and the most pixels that one has; the others have one less.
    threads : int
        Of a block.
    share, tall, pairs : int
        The teams of lanes of a pair of cases, each of which takes every share-th offset; and a
        block's pairs: a rectangle, so many rows high (on a diagonal, all in one row).
    shared_bytes : int
        Dynamic shared memory of a block.
    """

    name: str
    lanes: int
    pixels: int
    threads: int
    share: int
    tall: int
    pairs: int
    shared_bytes: int

    def blocks(self, rows: int, columns: int, diagonal: bool) -> int:
        """Return how many blocks a tile takes."""
        if diagonal:
            return -(-columns // self.pairs)
        return -(-columns // (self.pairs // self.tall)) * -(-rows // self.tall)


def plan(
    d: int,
    sizes: tuple[int, int],
    dtype: str,
    kinds: tuple[str, ...],
    head: str,
    activation: str = "relu",
    cross: bool = False,
    memory: int = SHARED_BYTES,
) -> Launch:
    """Choose the shape of a launch.

    Parameters
    ----------
    d : int
        The signals' length.
    sizes : (int, int)
        Of the inner and the outer filters.
    dtype, kinds, head
        As in `Request`.
    activation : {"relu", "erf"}
        The network's.
    cross : bool
        Whether of inner and readout weights one is trained and the other is not.
    memory : int
        The bytes of shared memory that a block may have on the device.

    Raises
    ------
    ValueError
        If no launch can fit.
    """
    if d > LONGEST:
        raise ValueError(
            f"X has {d} timepoints, expected at most {LONGEST} for engine 'cuda'; "
            "engine='reference' has no such limit"
        )
    summed = sums_features(activation, head)
    kind = "RELU_SUMMED" if summed else activation.upper()
    gpk, ntk = ("gpk" in kinds), ("ntk" in kinds)
    filters = tuple(size if size <= LONGEST_FILTER else 0 for size in sizes)
    offsets = d if head in ("gap", "pixels") else 1

    def name(kernel: str, pixels: int, *rest: object) -> str:
        activation = ENUMS["Activation"].index(kind)
        parts = (REALS[dtype], pixels, *filters, gpk, ntk, activation, cross and ntk, *rest)
        words = [str(part).lower() if isinstance(part, bool) else str(part) for part in parts]
        return f"{kernel}<{', '.join(words)}>"

    best = _cut(d, max(sizes) // 2, dtype, activation) if min(filters) > 0 else None
    if best is not None:
        lanes, pixels = best
        teams = WARPS * (WARP // lanes)
        share = _share(teams, offsets)
        pairs = teams // share
        threads = WARPS * WARP
        full = name("short_rows", pixels, lanes, d % lanes == 0, threads)
        return Launch(full, lanes, pixels, threads, share, _tall(pairs), pairs, 0)

    lanes = -(-d // LONG_PIXELS[activation])
    pixels = -(-d // lanes)
    features = gpk or kind == "ERF"
    rings = 2 + 2 * ntk + features * (1 if summed else 2)
    needed = rings * d * np.dtype(dtype).itemsize
    if needed > memory:
        raise ValueError(
            f"X has {d} timepoints: {rings} numbers of {dtype} for each need {needed} bytes "
            f"of shared memory, expected at most {memory} on this device; ask for fewer "
            "kinds, dtype='float32' or engine='reference'"
        )
    pairs, threads = _block(lanes, memory // needed)
    full = name("long_rows", pixels, threads, pairs > 1)
    return Launch(full, lanes, pixels, threads, 1, _tall(pairs), pairs, pairs * needed)


def _tall(pairs: int) -> int:
    """Return the rows of a block's rectangle of pairs: as square as can be."""
    return max(k for k in range(1, math.isqrt(pairs) + 1) if pairs % k == 0)


def _block(lanes: int, most: int) -> tuple[int, int]:
    """Return the pairs (at most so many) and threads of a block of `long_rows`.

    Few threads, which wait for one another, as long as few of them idle.
    """
    if lanes > LONG_THREADS:
        return 1, WARP * -(-lanes // (WARP * -(-lanes // LONG_THREADS)))
    threads = {
        pairs: WARP * -(-pairs * lanes // WARP)
        for pairs in range(1, min(most, LONG_THREADS // lanes) + 1)
    }
    busy = {pairs: pairs * lanes / threads[pairs] for pairs in threads}
    pairs = next(pairs for pairs in threads if busy[pairs] >= max(busy.values()) - 0.04)
    return pairs, threads[pairs]


def _cut(d: int, half: int, dtype: str, activation: str = "relu") -> tuple[int, int] | None:
    """Return the lanes of a row and their pixels for `short_rows`, or None if it cannot serve.

    The cheapest a pixel pair, as counted in the compiled kernels: issue slots of a lane and layer
    are about `entry` a pixel, `halo` for each pixel that comes from another lane, and `rest`.
    """
    entry, halo, rest = (49, 8, 25) if dtype == "float32" else (128, 8, 8)
    most = (MOST_PIXELS if activation == "relu" else FEW_PIXELS)[dtype]
    best = None
    for lanes in range(1, min(WARP, d) + 1):
        pixels = -(-d // lanes)
        brief = d % lanes > 0
        if pixels > most or half > pixels - brief:
            continue
        useful = d * (WARP // lanes)
        cost = WARP * (entry * pixels + halo * half * (1 + 0.5 * brief) + rest) / useful
        if pixels > FEW_PIXELS[dtype]:
            cost *= 1.15
        if best is None or cost < best[0]:
            best = (cost, lanes, pixels)
    return None if best is None else best[1:]


def _share(teams: int, offsets: int) -> int:
    """Return how many teams of a block share a pair: many, as long as few teams idle."""

    def busy(share: int) -> float:
        return (teams // share) * offsets / (teams * -(-offsets // share))

    choices = sorted({min(teams // pairs, offsets) for pairs in range(1, teams + 1)}, reverse=True)
    most = max(map(busy, choices))
    return next(share for share in choices if busy(share) >= most - 0.04)
