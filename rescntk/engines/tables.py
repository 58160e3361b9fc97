"""Tables of single signals: unit vectors, root masses and the coordinates of each merge.

Masses are variances: the recursion at x = z, j = j', which is linear. They are computed in float64;
their roots and coordinates are rounded once to the working precision. Proportional signals have
equal coordinates but for rare last bits, and so differences are exact where they matter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays import Array, array_module
from .merges import Merge, Step, Steps

_OUT_OF_REACH = 1e-30
"""Least squared size of a signal for the head "equivariant", as a share of its mean energy.

Pixels that do not reach the head may be larger by any factor. The least size keeps their masses
below 1e30 d, within float32.
"""

_TINY = 1e-300
"""Divides the parts of merges without mass, which are 0."""


@dataclass(frozen=True)
class Input:
    """The input of some signals of one length, divided by their sizes."""

    unit: Array
    """(n, channels, *pixels), each pixel's vector divided by its norm; 0 where the norm is 0."""
    energy: Array
    """(n, *pixels), F⁰ of single pixels at x = z, before the input filter."""
    parts: Array
    """(n, channels, *pixels), pixels times the root of the input's scale: F⁰ is their product."""
    scale: Array
    """(n,), the number by which each signal was divided."""
    bias: Array
    """(n,), 1 / scale, by which the standard deviation β of biases is multiplied."""


@dataclass(frozen=True)
class Tables:
    """Tables of some signals of one length."""

    rows: Array
    """(n, rows, *pixels), in the working precision; `Steps` numbers the rows."""
    input: Input

    def selected(self, cases: Any) -> Tables:
        """Return the tables of some of the signals."""
        given = self.input
        parts = given.unit[cases], given.energy[cases], given.parts[cases]
        return Tables(self.rows[cases], Input(*parts, given.scale[cases], given.bias[cases]))


def signal_tables(
    steps: Steps, X: Array, dtype: Any, *, equivariant: bool = False, pad: int = 0
) -> Tables:
    """Return the tables of signals X, (n, channels, *pixels).

    For the head "equivariant", sizes are of the energy that reaches pixel 1. Rows have `pad` pixels
    more, which are 0.
    """
    xp, pixels = array_module(X), X.shape[2:]
    given = read_input(steps, X, equivariant)
    shape = len(X), steps.n_rows, *pixels[:-1], pixels[-1] + pad
    rows = xp.zeros(shape, dtype)
    inside = rows[..., : pixels[-1]]
    inside[:, : steps.n_channels] = given.unit
    for number, row in enumerate(mass_rows(steps, xp, given, np.dtype(dtype)), steps.n_channels):
        inside[:, number] = row
    return Tables(rows, given)


def read_input(steps: Steps, X: Array, equivariant: bool) -> Input:
    """Return the input of signals, of size 1 in the mean over pixels, or at pixel 1."""
    xp, net = array_module(X), steps.network
    X = xp.ascontiguousarray(X, np.float64)
    weights, of_bias = reach(steps, X.shape[2:]) if equivariant else (None, 0.0)
    if weights is not None:
        weights = xp.asarray(weights)
        X = xp.where(weights > 0, X, 0.0)
    # Divided by a power of two, at most 2^1023, squares stay within float64.
    flat = X.reshape(len(X), -1)
    peak = xp.frexp(xp.abs(flat).max(axis=1))[1]
    if net.bias:
        bits = math.frexp(net.bias)[1]
        peak = xp.where(flat.any(axis=1), xp.maximum(peak, bits), bits)
    scale = xp.ldexp(xp.ones(len(X)), peak - 1)
    X = X / column(scale, X)
    squares = (X * X).sum(axis=1)
    input_scale = 1.0 / X.shape[1] if net.input_scale is None else net.input_scale
    energy = input_scale * squares
    mean = energy.reshape(len(X), -1).mean(axis=1)
    if net.bias:  # without skips, biases bring H β² in the first layer: H = (1 + 2/gain) / c_w
        mean = mean + (1.0 + steps.branch_bias**2) / net.c_w * (net.bias / scale) ** 2
    if weights is not None:
        at_pixel_1 = (energy * weights).reshape(len(X), -1).sum(axis=1)
        at_pixel_1 = at_pixel_1 + of_bias * (net.bias / scale) ** 2
        mean = xp.where(at_pixel_1 > 0, xp.maximum(at_pixel_1, _OUT_OF_REACH * mean), 0.0)
    size = xp.sqrt(mean)
    inverse = 1.0 / xp.where(size > 0, size, math.inf)
    norm = xp.sqrt(squares)[:, None]
    unit = X / xp.where(norm > 0, norm, math.inf)
    parts = X * column(inverse * math.sqrt(input_scale), X)
    with np.errstate(over="ignore"):  # an infinite scale is reported with the results
        bias, scale = inverse / scale, scale * size
    return Input(unit, energy * column(inverse**2, energy), parts, scale, bias)


@lru_cache(maxsize=64)
def reach(steps: Steps, pixels: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Return the weight of each pixel's energy, and of a bias β = 1, in F at pixel 1.

    Windows are symmetric: the energy of pixel 1 reaches pixel j as that of pixel j reaches pixel 1.
    """
    energy = np.zeros((2, *pixels))
    energy[(0, *[0] * len(pixels))] = 1.0
    *_, last = _merged(steps, np, energy, np.array([0.0, 1.0]))
    return last[-1][0], float(last[-1][1].flat[0])


def mass_rows(steps: Steps, xp: ModuleType, given: Input, dtype: np.dtype) -> Iterator[Array]:
    """Yield the rows of a table behind the unit vectors, (n, *pixels) in float64."""
    least = float(np.finfo(dtype).tiny) ** 0.45  # keeps the product of both sides' 1/a finite
    a = xp.sqrt(given.energy)
    yield a
    variance = (steps.network.bias * given.bias) ** 2
    for step, parts, whole, mass in _merged(steps, xp, given.energy, variance):
        if step.kind == "activation":
            yield 1.0 / xp.maximum(a, least)
            continue
        a, twice = xp.sqrt(mass), xp.maximum(2.0 * whole, _TINY)
        first, *others = (xp.sqrt(part / twice) for part in parts)  # a_p / (√2 a)
        both = math.sqrt(0.5) + first
        yield a
        yield a * both
        for other in others:
            yield other / both


def _merged(
    steps: Steps, xp: ModuleType, energy: Array, bias: Array
) -> Iterator[tuple[Step, list[Array], Array, Array]]:
    """Yield each step with its parts, their sum, and the mass of the whole, (n, *pixels).

    Parts are masses times a factor. The first has the most weight, so that coordinates of the
    others are small. `energy` is of single pixels; `bias`, (n,), is the variance of biases.
    """
    features = mass = energy
    lost: Any = 0.0  # by rounding sums with biases: all layers add the same, and round alike
    for steps_of_layer in (steps.input, *steps.layers):
        for step in steps_of_layer:
            if step.kind == "activation":
                features = mass if steps.joined else features
                yield step, [mass], mass, mass
                continue
            if step.kind == "bias":
                variance = column(steps.bias(step.layer, step.is_branch) ** 2 * bias, mass)
                parts = [mass, variance + xp.zeros_like(mass)]
                more = parts[1] + lost
                whole = mass + more
                lost, mass = more - (whole - mass), whole
            elif step.kind == "skip":
                parts = [steps.keep * features, steps.share * mass]
                parts = parts if steps.keep >= steps.share else parts[::-1]
                mass = whole = summed(parts)
            else:
                if step.merge is None:
                    merge, weights, total = Merge(5, 1, mass.ndim - 2), steps.taps(step.layer), 1
                else:
                    merge, weights, total = step.merge, step.merge.weights, step.merge.total
                parts = taps_of(mass, merge, weights, 1)
                parts.insert(0, parts.pop(len(parts) // 2))
                whole = summed(parts)
                mass = whole / total if total > 1 else whole
            yield step, parts, whole, mass
        features = mass


def taps_of(values: Array, merge: Merge, weights: Sequence[float], *first: int) -> list[Array]:
    """Return the values at each tap, times its weight; axes of pixels begin with each `first`."""
    reach, places = merge.shifts[-1], [[slice(None)] * values.ndim for _ in merge.shifts]
    for axis in (axis + merge.axis for axis in first):
        size, before = values.shape[axis], (slice(None),) * axis
        rest, begins = reach % size, [(shift + reach) % size for shift in merge.shifts]
        more = slice(max(max(begins) - rest, 0))
        around = values[(*before, slice(size - rest, None))], values, values[(*before, more)]
        values = array_module(values).concatenate(around, axis=axis)
        for place, begin in zip(places, begins, strict=True):
            place[axis] = slice(begin, begin + size)
    taps = zip((values[tuple(place)] for place in places), weights, strict=True)
    return [tap * weight if weight != 1 else tap for tap, weight in taps]


def window_mean(values: Array, merge: Merge, *first: int) -> Array:
    """Return means over a merge's taps. A rounded weight would err alike in each layer."""
    return summed(taps_of(values, merge, merge.weights, *first)) / merge.total


def summed(parts: list[Array]) -> Array:
    """Return the sum of parts; of many in halves, so that errors grow with their logarithm."""
    half = len(parts) // 2
    if half < 8:
        return reduce(operator.add, parts)
    return summed(parts[:half]) + summed(parts[half:])


def column(numbers: Array, like: Array) -> Array:
    """Return numbers of signals, (n,), that broadcast to `like`, (n, …)."""
    return numbers.reshape(-1, *[1] * (like.ndim - 1))
