"""The heads of networks: which pixel pairs they read.

Pooled heads take means over circular pools of w pixels, which messages and the guide call windows,
then a linear layer over these. The kernel is a sum over the offsets δ = j' − j of pixel pairs, ::

    K = (1/d) Σ_δ c(δ) Σ_j K_{j, j+δ};    c(δ) = n(δ) / w².

n(δ) of the d pools have both pixels of an offset: w − |δ|, if this is positive. On the ring the
pixels are also d − |δ| apart: w − (d − |δ|) is added, if that is positive. A pool of images has w
pixels along each axis, or all of a shorter one. There n is a product over axes, and c is n divided
by the square of a pool's number of pixels.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ..checks.messages import shown
from ..checks.values import HEADS, check_positive_integer


class OffsetRange(NamedTuple):
    """Offsets that follow one another along a line."""

    lines: int
    """The lines from a left pixel to the right ones."""
    first: int
    """The pixels along the line to the first right one, at least 0."""
    pool_counts: np.ndarray
    """(offsets,), n of each offset."""


def pool_counts(w: int, d: int) -> np.ndarray:
    """Return n, (d,), the pools of `w` pixels with both pixels of the offsets 0 … d − 1."""
    offset = np.arange(d)
    return np.maximum(w - offset, 0) + np.maximum(w - (d - offset), 0)


def offsets(w: int, d: int) -> np.ndarray:
    """Return the offsets of pixels that share pools, from the least on."""
    number = min(2 * w - 1, d)
    return np.arange(number) - (number - 1) // 2


def pool_pixels(head: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the pixels of a pool along each axis."""
    return tuple(min(head, d) for d in axes)


def check_head(head: object, heads: tuple[str, ...] = HEADS) -> str | int:
    """Return a head: one of `heads`, or the pixels of a window, a positive integer."""
    if isinstance(head, str) and head in heads:
        return head
    with suppress(ValueError):
        return check_positive_integer(head, "head")
    raise ValueError(
        f"head is {shown(head)}, expected one of {', '.join(map(repr, heads))}, or a positive "
        f"integer, the pixels of windows that are averaged"
    )


def in_words(head: str | int) -> str:
    """Return a head as titles have it."""
    return f"{head} head" if isinstance(head, str) else f"windows of {head} pixels"


def pixels_averaged(head: str | int, axes: tuple[int, ...]) -> int:
    """Return the pixels that a head averages for each number that its linear layer reads."""
    if isinstance(head, str):
        return math.prod(axes) if head == "gap" else 1
    return math.prod(pool_pixels(head, axes))


def pooled_head(head: str | int, axes: tuple[int, ...]) -> str | int:
    """Return a head; pools of one pixel, or of all, have the heads "trace" and "gap"."""
    if isinstance(head, str):
        return head
    return "trace" if head == 1 else "gap" if head >= max(axes) else head


def n_offsets(head: str | int, axes: tuple[int, ...]) -> int:
    """Return how many right pixels each left pixel meets, at a head or "pixels"."""
    if isinstance(head, str):
        return math.prod(axes) if head in ("gap", "pixels") else 1
    return math.prod(
        len(offsets(*axis)) for axis in zip(pool_pixels(head, axes), axes, strict=True)
    )


def places_of(head: int, axes: tuple[int, ...]) -> np.ndarray:
    """Return the right pixel's number at each offset of `offset_ranges` from each left pixel."""
    number = np.arange(math.prod(axes)).reshape(axes)
    along = map(offsets, pool_pixels(head, axes), axes)
    every = range(len(axes))
    return np.stack([np.roll(number, [-int(o) for o in shift], every) for shift in product(*along)])


def pool_weights(head: int, axes: tuple[int, ...]) -> np.ndarray:
    """Return c, (offsets,), range by range of `offset_ranges`; they add up to 1."""
    counts = np.concatenate([along.pool_counts for along in offset_ranges(head, axes)])
    return counts / pool_count_sum(head, axes)


def pool_count_sum(head: int, axes: tuple[int, ...]) -> int:
    """Return the sum of n over all offsets: w² of signals."""
    return math.prod(pool_pixels(head, axes)) ** 2


@lru_cache(maxsize=64)
def offset_ranges(head: int, axes: tuple[int, ...], half: bool = False) -> tuple[OffsetRange, ...]:
    """Return the offsets of pixels that share pools, line by line.

    With `half`, one of the offsets δ and −δ, from 0 on; n is halved where both are one offset.
    """
    *across_lines, (w, d) = zip(pool_pixels(head, axes), axes, strict=True)
    height, n_lines = across_lines[0] if across_lines else (1, 1)
    across, along = pool_counts(height, n_lines), pool_counts(w, d)
    ranges = []
    for lines in map(int, offsets(height, n_lines)):
        columns, times = offsets(w, d), np.ones(1)
        if half and 2 * lines % n_lines == 0:  # −δ is on the same line
            columns = np.arange(min(w - 1, d // 2) + 1)
            times = np.where(2 * columns % d, 1.0, 0.5)
        elif half and lines < 0:
            continue
        counts = across[lines] * times * along[columns]
        ranges.append(OffsetRange(lines % n_lines, int(columns[0] % d), counts))
    return tuple(ranges)
