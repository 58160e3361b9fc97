"""Sums and means of arrays of any module, whose rounding errors do not add up over layers."""

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

OfTap = TypeVar("OfTap")
"""What belongs to one tap: its values, or their mean."""


def at_taps(xp: ModuleType, values: Array, taps: Taps, *first: int) -> list[Array]:
    """Return the values at each tap, the middle one first, arrays of the shape of `values`.

    Each of `first` is the first axis of the pixels of a side; taps move both sides.
    """
    reach, places = taps.offsets[-1], [[slice(None)] * values.ndim for _ in taps.offsets]
    for axis in (axis + taps.axis for axis in first):
        size, before = values.shape[axis], (slice(None),) * axis
        shortfall, begins = reach % size, [(shift + reach) % size for shift in taps.offsets]
        more = slice(max(max(begins) - shortfall, 0))
        around = values[(*before, slice(size - shortfall, None))], values, values[(*before, more)]
        values = xp.concatenate(around, axis=axis)
        for place, begin in zip(places, begins, strict=True):
            place[axis] = slice(begin, begin + size)
    return from_the_middle([values[tuple(place)] for place in places])


def from_the_middle(taps: Sequence[OfTap]) -> list[OfTap]:
    """Return what belongs to some taps, the middle one first."""
    middle = len(taps) // 2
    return [taps[middle], *taps[:middle], *taps[middle + 1 :]]


def weighted_mean(parts: list[Array], weights: Sequence[float]) -> Array:
    """Return the mean of arrays of one shape; the weights add up to 1.

    The mean of equal parts is exact. Sums of the taps of a constant signal would round alike in all
    layers.
    """
    first, real = parts[0], parts[0].dtype.type
    by_weight: dict[float, list[Array]] = {}
    for weight, part in zip(weights[1:], until_stopped(parts[1:]), strict=True):
        by_weight.setdefault(weight, []).append(part - first)
    weighted = (real(weight) * summed(terms) for weight, terms in by_weight.items())
    return reduce(operator.add, weighted, first)


def mean_over_taps(xp: ModuleType, values: Array, taps: Taps, *first: int) -> Array:
    """Return the means over some taps."""
    return weighted_mean(at_taps(xp, values, taps, *first), taps.weights)


def summed(parts: list[Array]) -> Array:
    """Return the sum of parts; of many in halves, so that errors grow with their logarithm."""
    half = len(parts) // 2
    if half < 8:
        return reduce(operator.add, until_stopped(parts))
    return summed(parts[:half]) + summed(parts[half:])


def sum_over_terms(xp: ModuleType, values: Array) -> Array:
    """Return the sum over axis 1 of arrays (n, terms, …); of many terms in halves."""
    if values.shape[1] < 8:
        total: Array = values.sum(axis=1)  # one term after another, in one call
        return total
    return summed([*xp.moveaxis(values, 1, 0)])


def column(numbers: Array, like: Array) -> Array:
    """Return numbers of signals, (n,), that broadcast to `like`, (n, …)."""
    return numbers.reshape(-1, *[1] * (like.ndim - 1))


def exact_means(xp: ModuleType, X: Array) -> Array:
    """Return the mean of each channel of signals (n, channels, *pixels), rounded once.

    Devices add up in twice their precision (`compensated_sum`).
    """
    n, channels = X.shape[:2]
    flat = X.reshape(n * channels, -1)
    if xp is np:
        sums = np.array([math.fsum(row.tolist()) for row in flat])
    else:
        sums = compensated_sum(xp, flat)
    return sums.reshape(n, channels) / flat.shape[1]


def compensated_sum(xp: ModuleType, values: AnyArray) -> AnyArray:
    """Return the sums over the last axis of arrays of any module, in twice their precision.

    Halves are added; what each sum a + b loses by rounding is known (Knuth 1969), and is added up.
    """
    lost = 0.0 * values[..., 0]
    while (n := values.shape[-1]) > 1:
        half = n // 2
        a, b, odd = values[..., :half], values[..., half : 2 * half], values[..., 2 * half :]
        sums, lost_here = sum_and_rest(a, b)
        lost = lost + lost_here.sum(axis=-1)
        values = xp.concatenate([sums, odd], axis=-1)
    return values[..., 0] + lost


def pooled(xp: ModuleType, values: AnyArray, pool_pixels: Sequence[int], step: int = 1) -> AnyArray:
    """Return the means over circular pools of some pixels, in twice their precision.

    `pool_pixels` are the pixels of a pool along each of the last axes. A pool begins with its
    own pixel, and ends with it if `step` is −1.
    """
    total, lost = values, 0.0 * values
    for axis, n in zip(range(-len(pool_pixels), 0), pool_pixels, strict=True):

        def shifted(parts: Sequence[AnyArray], pixels: int, axis: int = axis) -> list[AnyArray]:
            return [xp.roll(part, -step * pixels, axis) for part in parts]

        sums, size, n_summed = (total, lost), 1, 0  # sums of `size` neighbours; a power of two
        while True:
            if n & size:
                total, lost = _added((total, lost), shifted(sums, n_summed)) if n_summed else sums
                n_summed += size
            if n_summed == n:
                break
            sums, size = _added(sums, shifted(sums, size)), 2 * size
    return (total + lost) / math.prod(pool_pixels)


def _added(one: Sequence[AnyArray], other: Sequence[AnyArray]) -> tuple[AnyArray, AnyArray]:
    """Return a sum and its rounding error, of two summands that are given in the same form."""
    total, lost = sum_and_rest(one[0], other[0])
    return total, one[1] + other[1] + lost


def sum_and_rest(a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return a + b, rounded, and what rounding has lost, exactly."""
    total = a + b
    rounded_b = total - a
    return total, (a - (total - rounded_b)) + (b - rounded_b)
