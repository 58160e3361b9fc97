"""Circular sums over windows along axis 0, the pixels of a ring.

Images have their pixels line by line: pixel (y, x) is y·width + x. Signals have the width 1.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from ..arrays import Array, array_module
from ..network import Filter


def circular_sum(pixels: Array, size: int, step: int = 1, width: int = 1) -> Array:
    """Return the sum over the window of `size` (odd) taps, `step` pixels apart, at each pixel.

    Images are summed along their lines, then across them: windows have `size` taps on both axes.
    Sums over a divisor of `size` come first: 9 taps are 3 sums of 3 taps.
    """
    if width > 1:
        lines = pixels.reshape(-1, width, *pixels.shape[1:])
        along = circular_sum(lines.swapaxes(0, 1), size, step).swapaxes(0, 1)
        return circular_sum(along, size, step).reshape(pixels.shape)
    xp = array_module(pixels)
    while size > 1:
        taps = next(p for p in range(3, size + 1, 2) if size % p == 0)
        reach = step * (taps // 2)
        pixels = reduce(add, (xp.roll(pixels, -k, 0) for k in range(-reach, reach + 1, step)))
        step, size = step * taps, size // taps
    return pixels


def circular_mean(pixels: np.ndarray, size: int, step: int = 1, width: int = 1) -> np.ndarray:
    """Return `circular_sum` divided by the number of taps."""
    window = Filter(size, step, width)
    return circular_sum(pixels, *window) / window.n_taps if size > 1 else pixels
