"""Sums and means of arrays of NumPy, CuPy and JAX.

They are computed so that their rounding errors do not accumulate over layers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from types import ModuleType
from typing import TypeVar

import numpy as np

from ...arrays import AnyArray, Array
from ..work import until_stopped
from .taps import Taps

TapItem = TypeVar("TapItem")
"""An object that belongs to one tap: the array of its values, or its weight."""


def at_taps(xp: ModuleType, values: Array, taps: Taps, *first: int) -> list[Array]:
    """Return one array for each tap, the middle tap first: the values at this tap of each pixel.

    The tap with the offset k of pixel j is pixel j + k, and pixels lie on a ring. `first` are the
    indices of the first pixel axis of each signal whose pixels the taps move. It is one index for
    single signals, and two for pixel pairs, because taps move both pixels of a pair.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.engines.layer.means import at_taps
    >>> from rescntk.engines.layer.taps import Taps
    >>> signals = np.array([[10, 20, 30, 40]])
    >>> middle, left, right = at_taps(np, signals, Taps(n_taps=3, dilation=1, axis=0), 1)
    >>> left, right
    (array([[40, 10, 20, 30]]), array([[20, 30, 40, 10]]))
    """
    reach, indices = taps.offsets[-1], [[slice(None)] * values.ndim for _ in taps.offsets]
    for axis in (axis + taps.axis for axis in first):
        # The axis is extended periodically, so that the values at each tap are a slice of it.
        size, before = values.shape[axis], (slice(None),) * axis
        n_added, starts = reach % size, [(offset + reach) % size for offset in taps.offsets]
        left = values[(*before, slice(size - n_added, None))]
        right = values[(*before, slice(max(max(starts) - n_added, 0)))]
        values = xp.concatenate([left, values, right], axis=axis)
        for index, start in zip(indices, starts, strict=True):
            index[axis] = slice(start, start + size)
    return from_the_middle([values[tuple(index)] for index in indices])


def from_the_middle(taps: Sequence[TapItem]) -> list[TapItem]:
    """Return a list with one object for each tap, reordered so that the middle tap is first."""
    middle = len(taps) // 2
    return [taps[middle], *taps[:middle], *taps[middle + 1 :]]


def weighted_mean(parts: list[Array], weights: Sequence[float]) -> Array:
    """Return the weighted mean of arrays of one shape; the weights add up to 1.

    It is the first array plus weighted differences from it, so that the mean of equal arrays is
    exact. A plain sum over the taps of a constant signal would make the same rounding error in each
    layer, and these errors would accumulate.
    """
    first, real = parts[0], parts[0].dtype.type
    by_weight: dict[float, list[Array]] = {}
    for weight, part in zip(weights[1:], until_stopped(parts[1:]), strict=True):
        by_weight.setdefault(weight, []).append(part - first)
    weighted = (real(weight) * summed(terms) for weight, terms in by_weight.items())
    return reduce(operator.add, weighted, first)


def mean_over_taps(xp: ModuleType, values: Array, taps: Taps, *first: int) -> Array:
    """Return the weighted means over the taps; `first` is as in `at_taps`."""
    return weighted_mean(at_taps(xp, values, taps, *first), taps.weights)


def summed(parts: list[Array]) -> Array:
    """Return the sum of arrays by pairwise summation.

    The rounding errors of n arrays grow like log n.
    """
    half = len(parts) // 2
    if half < 8:
        return reduce(operator.add, until_stopped(parts))
    return summed(parts[:half]) + summed(parts[half:])


def sum_over_terms(xp: ModuleType, values: Array) -> Array:
    """Return the sum over axis 1 of an array (n, terms, …), pairwise if there are many terms."""
    if values.shape[1] < 8:
        total: Array = values.sum(axis=1)  # one term after another, in one call
        return total
    return summed([*xp.moveaxis(values, 1, 0)])


def column(numbers: Array, like: Array) -> Array:
    """Return one number per signal, (n,), reshaped so that it broadcasts with `like`, (n, …)."""
    return numbers.reshape(-1, *[1] * (like.ndim - 1))


def exact_means(xp: ModuleType, X: Array) -> Array:
    """Return the mean of each channel over the pixels of signals (n, channels, *pixels).

    The sum is exact before it is rounded. On a GPU it is computed in twice the working precision
    (`compensated_sum`).
    """
    n, channels = X.shape[:2]
    flat = X.reshape(n * channels, -1)
    if xp is np:
        sums = np.array([math.fsum(row.tolist()) for row in flat])
    else:
        sums = compensated_sum(xp, flat)
    return sums.reshape(n, channels) / flat.shape[1]


def compensated_sum(xp: ModuleType, values: AnyArray) -> AnyArray:
    """Return the sums over the last axis of an array, computed in twice its precision.

    The two halves of the axis are added until one number is left. The rounding error of each sum
    a + b is computed exactly (Knuth 1969), and the sum of these errors is added at the end.
    """
    error = 0.0 * values[..., 0]
    while (n := values.shape[-1]) > 1:
        half = n // 2
        a, b, odd = values[..., :half], values[..., half : 2 * half], values[..., 2 * half :]
        sums, new_errors = sum_and_rest(a, b)
        error = error + new_errors.sum(axis=-1)
        values = xp.concatenate([sums, odd], axis=-1)
    return values[..., 0] + error


def pooled(xp: ModuleType, values: AnyArray, pool_pixels: Sequence[int], step: int = 1) -> AnyArray:
    """Return the mean over a circular pool at each pixel, computed in twice the precision.

    `pool_pixels` has the number of pixels of a pool along each of the last axes. The pool of a
    pixel begins with this pixel if `step` is 1, and ends with it if `step` is −1.
    """
    total, error = values, 0.0 * values
    for axis, n in zip(range(-len(pool_pixels), 0), pool_pixels, strict=True):

        def shifted(parts: Sequence[AnyArray], pixels: int, axis: int = axis) -> list[AnyArray]:
            return [xp.roll(part, -step * pixels, axis) for part in parts]

        # `sums` are sums of `size` neighbours, a power of two; `total` has `n_summed` neighbours.
        sums, size, n_summed = (total, error), 1, 0
        while True:
            if n & size:
                total, error = _added((total, error), shifted(sums, n_summed)) if n_summed else sums
                n_summed += size
            if n_summed == n:
                break
            sums, size = _added(sums, shifted(sums, size)), 2 * size
    return (total + error) / math.prod(pool_pixels)


def _added(one: Sequence[AnyArray], other: Sequence[AnyArray]) -> tuple[AnyArray, AnyArray]:
    """Return the sum of two numbers, each given as a rounded value and its rounding error."""
    total, error = sum_and_rest(one[0], other[0])
    return total, one[1] + other[1] + error


def sum_and_rest(a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the rounded sum of a and b, and its exact rounding error."""
    total = a + b
    rounded_b = total - a
    return total, (a - (total - rounded_b)) + (b - rounded_b)
