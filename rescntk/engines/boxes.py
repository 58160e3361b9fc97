"""Circular sums over windows along axis 0, the pixels of a row.

Rows of images have their pixels line by line: pixel (y, x) is y·width + x. A step from line to line
is a step of `width` pixels. Signals have the width 1.

A row that closes in itself repeats its own pixels beyond its ends. A row that goes on in another
row has the other row's pixels there (geometry.py): a `Seam` names the rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from ..arrays import Array, array_module
from ..network import Filter

T = TypeVar("T")


class Seam(NamedTuple):
    """The rows in which rows go on; rows lie along one axis of an array."""

    following: Array  # (rows,), the row that goes on after a row's last pixel.
    preceding: Array  # (rows,), the row that ends before a row's first pixel.
    axis: int  # of the rows in an array whose axis 0 are pixels.

    def after(self, turns: int) -> Array:
        """Return the row in which each row goes on after `turns` signals, or before -`turns`."""
        step = self.following if turns > 0 else self.preceding
        rows: Array = array_module(step).arange(len(step))
        for bit in bin(abs(turns))[:1:-1]:  # 2^k turns are twice 2^(k − 1)
            rows, step = step[rows] if bit == "1" else rows, step[step]
        return rows


def with_halo(pixels: Array, halo: int, seam: Seam | None = None) -> Array:
    """Return rows with the `halo` pixels, at most d, before their first and after their last pixel.

    Without a `seam`, rows close in themselves.
    """
    before: Array = pixels
    after: Array = pixels
    if seam is not None:
        before = before.take(seam.preceding, axis=seam.axis)
        after = after.take(seam.following, axis=seam.axis)
    parts = [before[len(pixels) - halo :], pixels, after[:halo]]
    joined: Array = array_module(pixels).concatenate(parts)
    return joined


def circular_sum(
    pixels: Array, size: int, step: int = 1, width: int = 1, seam: Seam | None = None
) -> Array:
    """Return the sum over the window of `size` (odd) taps, `step` pixels apart, at each pixel.

    Images are summed along their lines, then across them: windows have `size` taps on both axes.
    Sums over windows of 2, 4, 8, … taps come from one another by one addition each. The window of
    `size` is cut into windows of these lengths. Together this takes about 2 log2(size) additions,
    in the same order for every pixel. For `size` 1 the result is `pixels` itself.
    """
    if size == 1:
        return pixels
    if width > 1:
        pixels = across(pixels, width, partial(circular_sum, size=size, step=step))
    d, step = len(pixels), step * width
    step = step if seam is not None else step_on_ring(step, d)
    if step * (size // 2) > d:  # a halo would be longer still
        return merged(pixels, Filter(size, step), operator.add, partial(shifted, seam=seam))
    piece: Array = with_halo(pixels, step * (size // 2), seam)
    total, reached, width = piece[:d], 1, 1
    while 2 * width <= size:
        shift = width * step
        piece = piece[:-shift] + piece[shift:]
        width *= 2
        if size & width:
            total = total + piece[reached * step : reached * step + d]
            reached += width
    return total


def across(pixels: Array, width: int, change: Callable[[Array], Array]) -> Array:
    """Return pixels after a `change` along the lines of images, whose pixels it gets on axis 0."""
    lines = pixels.reshape(-1, width, *pixels.shape[1:]).swapaxes(0, 1)
    changed: Array = change(lines).swapaxes(0, 1).reshape(pixels.shape)
    return changed


def merged(parts: T, taps: Filter, merge: Callable[[T, T], T], shift: Callable[..., T]) -> T:
    """Return the windows of `circular_sum` at each pixel, for parts that `merge` instead of adding.

    `shift` returns the parts a number of pixels on; along the lines of images, if it gets their
    `width` too. On each axis, parts merge in the order of `circular_sum`.
    """
    size, step, width = taps
    if width > 1:
        parts = merged(parts, Filter(size, step * width), merge, shift)
        shift = partial(shift, width=width)
    window, piece, reached, width = parts, parts, 1, 1
    while 2 * width <= size:
        piece = merge(piece, shift(piece, width * step))
        width *= 2
        if size & width:
            window = merge(window, shift(piece, reached * step))
            reached += width
    return window if size == 1 else shift(window, -step * (size // 2))


def circular_mean(pixels: np.ndarray, size: int, step: int = 1, width: int = 1) -> np.ndarray:
    """Return `circular_sum` divided by the number of taps."""
    window = Filter(size, step, width)
    return circular_sum(pixels, *window) / window.n_taps if size > 1 else pixels


def step_on_ring(step: int, length: int) -> int:
    """Return the step from 1 to `length` that leads to the same pixels of a closed ring."""
    return (step - 1) % length + 1


def shifted(pixels: Array, shift: int, seam: Seam | None = None, width: int | None = None) -> Array:
    """Return the pixel `shift` places on (back, where negative) at each pixel of axis 0.

    Places are along the lines of images, which are rings, if the `width` of these is given.
    """
    if width is not None:
        return across(pixels, width, partial(shifted, shift=shift))
    turns, within = divmod(shift, len(pixels))
    if seam is None and within == 0:
        return pixels
    before: Array = pixels
    after: Array = pixels
    if seam is not None:
        before, after = (pixels.take(seam.after(turns + k), axis=seam.axis) for k in (0, 1))
    moved: Array = array_module(pixels).concatenate([before[within:], after[:within]])
    return moved
