"""The heads of networks, and which pixel pairs each of them reads.

A pooled head takes the mean over each of the d circular pools of w pixels (error messages and the
guide call them windows), and then applies a linear layer to these means. Its kernel is a sum over
the offsets δ = j' − j of pixel pairs, ::

    K = (1/d) Σ_δ c(δ) Σ_j K_{j, j+δ};    c(δ) = n(δ) / w².

n(δ) is the number of pools that contain both pixels of a pair with the offset δ. It is w − |δ| if
this is positive. Since pixels lie on a ring, they are also d − |δ| apart in the other direction, so
that w − (d − |δ|) is added if it is positive. A pool of an image has w pixels along each axis, or
all pixels of an axis that is shorter. Then n is a product over both axes, and c is n divided by the
square of the number of pixels of a pool.
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
    """Consecutive offsets along a line. For signals, all pixels are one line."""

    line_shift: int
    """The number of lines from the left pixel to the right pixels, modulo the number of lines."""
    first: int
    """The first offset along the line, modulo the number of pixels of a line."""
    pool_counts: np.ndarray
    """(offsets,), n of each offset."""


def pool_counts(w: int, d: int) -> np.ndarray:
    """Return n(δ) of the offsets δ = 0 … d − 1, (d,), for pools of `w` of `d` pixels."""
    offset = np.arange(d)
    return np.maximum(w - offset, 0) + np.maximum(w - (d - offset), 0)


def offsets(w: int, d: int) -> np.ndarray:
    """Return, in ascending order, the offsets of pixels that lie in a common pool."""
    number = min(2 * w - 1, d)
    return np.arange(number) - (number - 1) // 2


def pool_pixels(head: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of pixels of a pool along each axis."""
    return tuple(min(head, d) for d in shape)


def check_head(head: object, heads: tuple[str, ...] = HEADS) -> str | int:
    """Return a valid head: one of the names `heads`, or the positive number of pixels of a pool.

    Other values raise a ValueError.
    """
    if isinstance(head, str) and head in heads:
        return head
    with suppress(ValueError):
        return check_positive_integer(head, "head")
    raise ValueError(
        f"head is {shown(head)}, expected one of {', '.join(map(repr, heads))}, or a positive "
        f"integer, the pixels of windows that are averaged"
    )


def head_in_words(head: str | int) -> str:
    """Return a description of a head for titles of plots and tables."""
    return f"{head} head" if isinstance(head, str) else f"windows of {head} pixels"


def pixels_averaged(head: str | int, shape: tuple[int, ...]) -> int:
    """Return over how many pixels a head averages for each input of its linear layer."""
    if isinstance(head, str):
        return math.prod(shape) if head == "gap" else 1
    return math.prod(pool_pixels(head, shape))


def pooled_head(head: str | int, shape: tuple[int, ...]) -> str | int:
    """Return the head, but "trace" for pools of one pixel and "gap" for pools of all pixels."""
    if isinstance(head, str):
        return head
    return "trace" if head == 1 else "gap" if head >= max(shape) else head


def n_offsets(head: str | int, shape: tuple[int, ...]) -> int:
    """Return for how many right pixels a head, or "pixels", needs the pair with each left pixel."""
    if isinstance(head, str):
        return math.prod(shape) if head in ("gap", "pixels") else 1
    return math.prod(
        len(offsets(*axis)) for axis in zip(pool_pixels(head, shape), shape, strict=True)
    )


def right_pixels(head: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the index of the right pixel at each offset from each left pixel, (offsets, *shape).

    The offsets have the order of `offset_ranges`.
    """
    number = np.arange(math.prod(shape)).reshape(shape)
    axis_offsets = map(offsets, pool_pixels(head, shape), shape)
    every_axis = range(len(shape))
    return np.stack(
        [np.roll(number, [-int(o) for o in shift], every_axis) for shift in product(*axis_offsets)]
    )


def pool_weights(head: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return c(δ) of all offsets, (offsets,), in the order of `offset_ranges`. Their sum is 1."""
    ranges = offset_ranges(head, shape)
    counts = np.concatenate([offset_range.pool_counts for offset_range in ranges])
    return counts / pool_count_sum(head, shape)


def pool_count_sum(head: int, shape: tuple[int, ...]) -> int:
    """Return the sum of n(δ) over all offsets, which for signals is w²."""
    return math.prod(pool_pixels(head, shape)) ** 2


@lru_cache(maxsize=64)
def offset_ranges(head: int, shape: tuple[int, ...], half: bool = False) -> tuple[OffsetRange, ...]:
    """Return the offsets of pixels that lie in a common pool, line by line.

    If `half`, only one of the offsets δ and −δ is returned; where both are the same offset, its n
    is halved.
    """
    *across_lines, (w, d) = zip(pool_pixels(head, shape), shape, strict=True)
    height, n_lines = across_lines[0] if across_lines else (1, 1)
    line_counts, column_counts = pool_counts(height, n_lines), pool_counts(w, d)
    ranges = []
    for line_shift in map(int, offsets(height, n_lines)):
        columns, times = offsets(w, d), np.ones(1)
        if half and 2 * line_shift % n_lines == 0:  # −δ is on the same line
            columns = np.arange(min(w - 1, d // 2) + 1)
            times = np.where(2 * columns % d, 1.0, 0.5)
        elif half and line_shift < 0:
            continue
        counts = line_counts[line_shift] * times * column_counts[columns]
        ranges.append(OffsetRange(line_shift % n_lines, int(columns[0] % d), counts))
    return tuple(ranges)
