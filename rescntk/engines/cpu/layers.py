"""The way of a group of rows through one layer: from pixel pairs to what the branch brings.

The symbols of a pixel pair, with variances q1 and q2 of the pre-activations:

- g = √(q1 q2), z = (√q1 − √q2)²/2, w = 1 − ρ = (D − z)/g, v = 1 + ρ.
- `root1` = √(q1/2), `root2` = √(q2/2): g/2 = root1 · root2, z = (root1 − root2)².

Sums over a filter's window stand for box averages; `layer.factor` contains both filters' sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from ... import arrays
from ...activations import arc
from .. import polynomials
from ..layer import Dual, add, correlate, dual, tangent_branch, tangent_g
from ..scaling import MOST_E
from . import vectors
from .arguments import LeftCases, LeftPixels, Places, RowGroup, RunNumbers, Taps
from .compilation import compiled
from .sums import add_compensated, box
from .vectors import (
    VECTOR_BYTES,
    Numbers,
    Vector,
    align_stack,
    any_less,
    any_negative,
    fabs,
    floor,
    load,
    repeat_like,
    sqrt,
    store,
    where_less,
)

CHANNELS = 16
"""Channels whose squares are added up without compensation.

More channels lose more digits; fewer cost more additions. Chosen by reasoning: 16 sums of
positive terms lose at most 16 rounding units, and mostly two.
"""


_p32, _p64 = map(register_jitable, (polynomials.p32, polynomials.p64))
_r32, _r64 = map(register_jitable, (polynomials.r32, polynomials.r64))
for _function in (dual, correlate, tangent_g, tangent_branch, add):
    register_jitable(_function)


@overload(arrays.sqrt, strict=False)
def _choose_sqrt(x: Any) -> Any:
    return lambda x: vectors.sqrt(x)


@overload(arrays.smaller, strict=False)
def _choose_smaller(a: Any, b: Any) -> Any:
    return lambda a, b: vectors.where_less(a, b, a, b)


@overload(arrays.within, strict=False)
def _choose_within(x: Any, least: Any, most: Any) -> Any:
    def within(x: Any, least: Any, most: Any) -> Any:
        x = vectors.where_less(least, x, x, least)
        return vectors.where_less(x, most, x, most)

    return within


@overload(arrays.where_less, strict=False)
def _choose_where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
    return lambda a, b, x, y: vectors.where_less(a, b, x, y)


@overload(arrays.rounded_product, strict=False)
def _choose_rounded_product(a: Any, b: Any) -> Any:
    return lambda a, b: vectors.rounded_product(a, b)


@overload(arc, strict=False)
def _choose_arc(a: Any, root: Any, coefficients: Any) -> Any:
    """Return √a p(a) and √a a r(a), in the precision of `a` (polynomials.py)."""
    if a.scalar == types.float32:
        return lambda a, root, coefficients: (
            root * _p32(a, coefficients[0]),
            root * a * _r32(a, coefficients[1]),
        )
    return lambda a, root, coefficients: (
        root * _p64(a, coefficients[0]),
        root * a * _r64(a, coefficients[1]),
    )


def coefficients(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of the polynomials p(a) and r(a) in one precision."""
    bits = np.dtype(dtype).itemsize * 8
    names = f"P{bits}", f"R{bits}"
    p, r = (np.array(getattr(polynomials, name), dtype) for name in names)
    return p, r


@compiled
def add_doubt(
    memory: Numbers, doubt: int, total: Vector, root: Vector, half_g: Vector, layer: Any
) -> bool:
    """Add E of doubtful pixel pairs to the place `doubt`, in whole numbers.

    `total` is D + |q1 − q2|/2, and `root` is √a.

    Returns
    -------
    bool
        Whether there were any.
    """
    E = floor(total / (layer.mean * root))
    E = where_less(E, MOST_E, E, MOST_E)
    E = where_less(layer.doubtful * root, total, E, 0.0)
    E = where_less(0.0, half_g, E, 0.0)
    store(memory, doubt, load(memory, doubt) + E)
    return any_less(0.0, E)


@compiled
def left_vector(
    numbers: Numbers, place: int, pixel: int, at: int, single: bool, like: Vector
) -> Vector:
    """Return a vector of a left table (`LeftPixels`); `like` is any vector."""
    if single:
        return repeat_like(numbers[place + pixel], like)
    return load(numbers, place + at)


@compiled
def half_square(
    memory: Numbers, places: Places, left: LeftPixels, sign: float, pixel: int, at: int
) -> Vector:
    """Return |û + sign · v̂|²/2 of the unit vectors û, v̂ of the input's pixels.

    Sums of `CHANNELS` squares are added with compensation: many channels lose no digits.
    """
    right, length, step, single = (
        places.right_units + at,
        places.length,
        left.unit_step,
        left.single,
    )
    total = lost = 0.0 * load(memory, right)
    for first in range(0, places.channels, CHANNELS):
        other = load(memory, right + first * length)
        one = left_vector(left.units, left.unit + first * step, pixel, at, single, other)
        term = one + sign * other
        part = term * term
        for channel in range(first + 1, min(first + CHANNELS, places.channels)):
            other = load(memory, right + channel * length)
            one = left_vector(left.units, left.unit + channel * step, pixel, at, single, other)
            term = one + sign * other
            part = part + term * term
        if first == 0:
            total = part
        else:
            total, lost = add_compensated(total, lost, part)
    return 0.5 * total


@compiled
def pixel_of(lefts: LeftCases, case: int, last_case: int, channels: int, pixel: int) -> int:
    """Return the place of a case's pixel in the left table of vectors; its last one, if beyond.

    Cases behind `last_case` repeat it.
    """
    case = min(case, last_case)
    return lefts.first[case] * channels + min(pixel, lefts.pixels[case] - 1)


@compiled
def write_squares(
    memory: Numbers, places: Places, units: Numbers, lefts: LeftCases, first_case: int,
    last_case: int, group: RowGroup,
) -> None:  # fmt: skip
    """Write |u − v|² of the input's pixel vectors to the rings `squares` of several left cases.

    `units` are the left table of vectors, with one number for a pixel. The first of the cases has
    the pixels of `group`, and no other has more. Cases behind `last_case` repeat it. Channels are
    added in the order of `half_square`.
    """
    align_stack()
    channels, length, vector = places.channels, places.length, VECTOR_BYTES // memory.itemsize
    out = places.squares + group.start
    step1 = lefts.pixels[first_case]
    step2 = lefts.pixels[min(first_case + 1, last_case)]
    step3 = lefts.pixels[min(first_case + 2, last_case)]
    step4 = lefts.pixels[min(first_case + 3, last_case)]
    for pixel in range(group.d):
        one = pixel_of(lefts, first_case, last_case, channels, pixel)
        two = pixel_of(lefts, first_case + 1, last_case, channels, pixel)
        three = pixel_of(lefts, first_case + 2, last_case, channels, pixel)
        four = pixel_of(lefts, first_case + 3, last_case, channels, pixel)
        for at in range(pixel * group.rows, (pixel + 1) * group.rows, vector):
            for first in range(0, channels, CHANNELS):
                sum1 = sum2 = sum3 = sum4 = 0.0 * load(memory, places.right_units + at)
                for channel in range(first, min(first + CHANNELS, channels)):
                    other = load(memory, places.right_units + at + channel * length)
                    term = repeat_like(units[one + channel * step1], other) - other
                    sum1 = sum1 + term * term
                    term = repeat_like(units[two + channel * step2], other) - other
                    sum2 = sum2 + term * term
                    term = repeat_like(units[three + channel * step3], other) - other
                    sum3 = sum3 + term * term
                    term = repeat_like(units[four + channel * step4], other) - other
                    sum4 = sum4 + term * term
                add_block(memory, out + at, places.room1, sum1, first == 0)
                add_block(memory, out + length + at, places.room1 + vector, sum2, first == 0)
                add_block(
                    memory, out + 2 * length + at, places.room1 + 2 * vector, sum3, first == 0
                )
                add_block(
                    memory, out + 3 * length + at, places.room1 + 3 * vector, sum4, first == 0
                )


@compiled
def add_block(memory: Numbers, out: int, lost: int, part: Vector, first: bool) -> None:
    """Add a sum of channels to a vector at `out`, whose rounding error is kept at `lost`."""
    if first:
        store(memory, out, part)
        store(memory, lost, 0.0 * part)
    else:
        total, error = add_compensated(load(memory, out), load(memory, lost), part)
        store(memory, out, total)
        store(memory, lost, error)


@compiled
def write_own_squares(
    memory: Numbers, places: Places, left: LeftPixels, group: RowGroup, out: int
) -> None:
    """Write |u − v|² of the input's pixel vectors of one left case to the ring `out`."""
    align_stack()
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        half = half_square(memory, places, left, -1.0, 0, at)
        store(memory, out + group.start + at, half + half)


@compiled
def pixel_loops(left: LeftPixels, group: RowGroup) -> tuple[int, int]:
    """Return the number of stretches of a quantity to pass, and their length.

    A stretch is a pixel where the left tables have one number for a pixel, else all pixels.
    """
    return (group.d, group.rows) if left.single else (1, group.size)


@compiled
def first_layer(
    memory: Numbers, places: Places, left: LeftPixels, right_input: int, right_root: int,
    group: RowGroup, K: int, network: RunNumbers, layer: Any, p: Numbers, r: Numbers,
    features_scale: float, deficits: bool, squares: Taps, given: bool,
) -> bool:  # fmt: skip
    """Compute D (or u), A and F of the features that enter, and the branch of layer 1.

    w of the input's pixels is half the squared distance of their unit vectors, whose square is at
    `squares` if it is `given`. v is 2 − w; where w exceeds NEARLY_OPPOSITE, v is computed from
    the unit vectors too. With a `network.window`, D is the sum of `squares` over the window, and
    w = (D − z)/g as in other layers. F is stored times `features_scale`. `right_input` and
    `right_root` are the places of √(q/2) of the right cases, of the input and of layer 1; 1/√q
    follows.

    Returns
    -------
    bool
        Whether some pixel pairs are doubtful; their E is added to `places.doubt`.
    """
    align_stack()
    initial, opposite, apart = network.initial, network.nearly_opposite, network.linear_apart
    start, single, doubtful = group.start, left.single, False
    windowed = network.window > 0 and not deficits
    stretches, length = pixel_loops(left, group)
    for pixel in range(stretches):
        for at in range(pixel * length, (pixel + 1) * length, VECTOR_BYTES // memory.itemsize):
            root2 = load(memory, right_input + at)
            root1 = left_vector(left.roots, left.input, pixel, at, single, root2)
            h = root1 - root2
            if windowed:
                inverse = left_vector(left.inverses, left.input_inverse, pixel, at, single, root2)
                inverse = inverse * load(memory, right_input + places.length + at)
                distance = box(memory, squares, at)
                w = correlate(distance - h * h, inverse)
                v = 2.0 - w
                root = sqrt(where_less(w, v, w, v))
                total = fabs(h) * (root1 + root2) + distance
                if any_negative(layer.doubtful * root - total):
                    doubt = places.doubt + start + at
                    doubtful |= add_doubt(memory, doubt, total, root, root1 * root2, layer)
            else:
                if given:
                    w = 0.5 * load(memory, squares.first + at)
                else:
                    w = half_square(memory, places, left, -1.0, pixel, at)
                v = 2.0 - w
                if any_less(opposite, w):
                    other = half_square(memory, places, left, 1.0, pixel, at)
                    v = where_less(opposite, w, other, v)
            g = 2.0 * (root1 * root2)
            gw = g * w
            features = g - gw
            tangent = initial * features
            if apart:
                features = 0.0 * w
                store(memory, places.linear + start + at, tangent)
                store(memory, places.tangent + start + at, features)
            else:
                features = features_scale * features
                store(memory, places.tangent + start + at, tangent)
            store(memory, places.features + start + at, features)
            root2 = load(memory, right_root + at)
            root1 = left_vector(left.roots, left.root, pixel, at, single, root2)
            half_g = root1 * root2
            branch = dual(half_g, w, v, layer, (p, r))
            branch_distance = branch.deficit
            if deficits:
                store(memory, places.distance + start + at, gw)
            else:
                store(memory, places.distance + start + at, h * h + gw)
                h = root1 - root2
                branch_distance = layer.half_factor * (h * h) + branch_distance
            store(memory, places.branch_distance + start + at, branch_distance)
            store(memory, K + at, layer.sum_scale * features + branch.K)
            tangent = tangent_g(tangent, half_g, layer.one - w, layer)
            tangent = tangent_branch(branch.K_dot, branch.K, tangent, layer)
            store(memory, places.tangent_branch + start + at, tangent)
    return doubtful


@compiled
def inner_layer(
    memory: Numbers, places: Places, left: LeftPixels, right_root: int, group: RowGroup, K: int,
    distances: Taps, tangents: Taps, with_ntk: bool, with_linear: bool, layer: Any,
    p: Numbers, r: Numbers,
) -> bool:  # fmt: skip
    """Compute the branch of layer 2, 3, …, before its outer filter.

    `distances` and `tangents` are the taps of box D and box A. `right_root` is the place of
    √(q/2) of the right cases, and 1/√q follows. The branch has three parts: its distance; K, to
    which the place `K` is set after it was multiplied by `sum_scale`; and
    K̇ ⊙ ((i − r) Σ + box A) + (o + r) K.

    Returns
    -------
    bool
        Whether some pixel pairs are doubtful; their E is added to `places.doubt`.
    """
    align_stack()
    start, single, right_inverse = group.start, left.single, right_root + places.length
    doubtful = False
    stretches, length = pixel_loops(left, group)
    for pixel in range(stretches):
        for at in range(pixel * length, (pixel + 1) * length, VECTOR_BYTES // memory.itemsize):
            root2 = load(memory, right_root + at)
            root1 = left_vector(left.roots, left.root, pixel, at, single, root2)
            h = root1 - root2
            distance = box(memory, distances, at)
            inverse = left_vector(left.inverses, left.inverse, pixel, at, single, root2)
            inverse = inverse * load(memory, right_inverse + at)
            w = correlate(distance - h * h, inverse)
            v = 2.0 - w
            root = sqrt(where_less(w, v, w, v))
            total = fabs(h) * (root1 + root2) + distance
            if any_negative(layer.doubtful * root - total):
                doubt = places.doubt + start + at
                doubtful |= add_doubt(memory, doubt, total, root, root1 * root2, layer)
            half_g = root1 * root2
            branch = dual(half_g, w, v, layer, (p, r))
            store(
                memory,
                places.branch_distance + start + at,
                layer.half_factor * (h * h) + branch.deficit,
            )
            store(memory, K + at, layer.sum_scale * load(memory, K + at) + branch.K)
            if with_ntk:
                write_tangent_branch(
                    memory, places, start + at, branch, w, half_g, box(memory, tangents, at),
                    with_linear, layer,
                )  # fmt: skip
    return doubtful


@compiled
def write_tangent_branch(
    memory: Numbers, places: Places, at: int, branch: Dual, w: Vector, half_g: Vector,
    tangent: Vector, with_linear: bool, layer: Any,
) -> None:  # fmt: skip
    """Write K̇ ⊙ A_g + (o + r) K of layers 2, 3, … at pixel `at`; `tangent` is box A."""
    if with_linear:
        tangent = layer.linear_scale * load(memory, places.linear_box + at) + tangent
    tangent = tangent_g(tangent, half_g, 1.0 - w, layer)
    tangent = tangent_branch(branch.K_dot, branch.K, tangent, layer)
    store(memory, places.tangent_branch + at, tangent)
