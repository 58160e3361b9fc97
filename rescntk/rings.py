"""Circular moving sums along axis 0, the pixels of a row.

A *ring* is an array of d + 2h entries along axis 0: a halo of h entries, the d pixels, and
another halo of h entries. A row that closes in itself repeats its own pixels in its halo, next
to the other end. A row that goes on in another row has the other row's pixels there
(engines/geometry.py). A halo longer than d wraps around several times.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from .arrays import Array, ArrayT


class Seam(NamedTuple):
    """The rows in which rows go on; rows lie along one axis of an array."""

    following: Array
    """(rows,), the row that goes on after a row's last pixel."""

    preceding: Array
    """(rows,), the row that ends before a row's first pixel."""

    axis: int
    """The axis of the rows in an array whose axis 0 are pixels."""

    def after(self, pixels: Array) -> Array:
        """Return the same pixels of the rows that follow."""
        return pixels.take(self.following, axis=self.axis)

    def before(self, pixels: Array) -> Array:
        """Return the same pixels of the rows that precede."""
        return pixels.take(self.preceding, axis=self.axis)


def fill_halo(ring: Array, halo: int, seam: Seam | None = None) -> None:
    """Copy the pixels ``ring[halo:-halo]`` into the halo at both ends.

    Without a `seam`, rows close in themselves.
    """
    d = len(ring) - 2 * halo
    for done in range(0, halo, d):
        size = min(d, halo - done)
        low, high = halo - done, halo + d + done  # ring[low:high] is filled
        last, first = ring[low + d - size : low + d], ring[high - d : high - d + size]
        ring[low - size : low] = last if seam is None else seam.before(last)
        ring[high : high + size] = first if seam is None else seam.after(first)


def moving_sum(
    xp: ModuleType,
    ring: ArrayT,
    size: int,
    halo: int,
    out: ArrayT,
    spare: tuple[ArrayT, ArrayT],
    step: int = 1,
) -> ArrayT:
    """Return sums over windows of `size` (odd) taps centred at each pixel of a filled ring.

    Sums over windows of 2, 4, 8, … taps come from one another by one addition each. The
    window of `size` is cut into windows of these lengths. Together this takes about
    2 log2(size) additions, in the same order for every pixel.

    Parameters
    ----------
    ring : array, (d + 2 * halo, ...)
        With its halo filled. It is not written to.
    size : int
        Odd; ``step * (size // 2)`` is at most ``halo``.
    out : array, (d, ...)
        Memory for the sums.
    spare : two arrays like `ring`
        Further memory.
    step : int, default 1
        Pixels from one tap to the next.

    Returns
    -------
    array, (d, ...)
        `out`; or, for `size` 1, a view of `ring`.
    """
    d = len(ring) - 2 * halo
    start = halo - step * (size // 2)
    doubled = ring[start : start + d + step * (size - 1)]  # sums over `width` taps from here on
    total: ArrayT = doubled[:d]
    offset, width = step, 1
    while 2 * width <= size:
        shift = width * step
        target = spare[width.bit_length() % 2][: len(doubled) - shift]
        doubled = xp.add(doubled[:-shift], doubled[shift:], out=target)
        width *= 2
        if size & width:
            total = xp.add(total, doubled[offset : offset + d], out=out)
            offset += width * step
    return total


def circular_sum(xp: ModuleType, pixels: ArrayT, size: int, step: int = 1) -> ArrayT:
    """Return the sum over the window of `size` taps around each pixel of axis 0.

    Taps are `step` pixels apart.
    """
    if size == 1:
        return pixels
    step = step_on_ring(step, len(pixels))
    d, halo = len(pixels), step * (size // 2)
    ring = pixels.take(xp.arange(-halo, d + halo) % d, axis=0)
    spare = (xp.empty_like(ring), xp.empty_like(ring))
    return moving_sum(xp, ring, size, halo, xp.empty_like(pixels), spare, step)


def circular_mean(pixels: np.ndarray, size: int, step: int = 1) -> np.ndarray:
    """Return the mean over the window of `size` taps around each pixel of axis 0.

    Taps are `step` pixels apart. For `size` 1 the result is `pixels` itself.
    """
    return circular_sum(np, pixels, size, step) / size if size > 1 else pixels


def step_on_ring(step: int, length: int) -> int:
    """Return the step from 1 to `length` that leads to the same pixels of a closed ring."""
    return (step - 1) % length + 1


def shifted(xp: ModuleType, pixels: Array, shift: int, seam: Seam | None = None) -> Array:
    """Return the pixel `shift` places on (back, where negative) at each pixel of axis 0."""
    if seam is None:
        rolled: Array = xp.roll(pixels, -shift, axis=0)
        return rolled
    rounds, shift = divmod(shift, len(pixels))
    for _ in range(abs(rounds)):
        pixels = seam.after(pixels) if rounds > 0 else seam.before(pixels)
    joined: Array = xp.concatenate([pixels[shift:], seam.after(pixels[:shift])])
    return joined
