"""The way of a group of rows through one layer: from pixel pairs to what the branch brings.

A pixel pair has `root1` = √(q1/2) and `root2` = √(q2/2), of the variances of its pre-activations:
g/2 = root1 · root2, z = (root1 − root2)², w = 1 − ρ = (D − z)/g, v = 1 + ρ (engines/layer.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...activations import dual, times_slope
from ..layer import branch_distance, correlate, tangent_branch, tangent_g
from .arguments import Constants, LeftPixels, RowGroup, Taps
from .compilation import compiled, inlined_by_llvm
from .groups import keeps_root_errors
from .substitutes import add_bias_distance, add_bias_tangent, correlate_with_biases, has_biases
from .sums import Masses, add_compensated, box, write_window
from .vectors import (
    Numbers,
    Vector,
    align_stack,
    any_negative,
    fabs,
    floor,
    load,
    load_like,
    repeat_each,
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

LEFT_CASES = 4
"""Left cases of `write_squares`: four vectors of four registers take 16 of 32.

With less than twice as many channels, storing and loading sums costs more than shared loads save.
By a count of loads and stores, the costs are level at about 5 channels.
"""


@compiled
def add_doubt(
    memory: Numbers, doubt: int, total: Vector, root: Vector, half_g: Vector, layer: Any
) -> bool:
    """Add the E of doubtful pixel pairs to the place `doubt`, in whole numbers.

    E is `total` / √a in mean variances, and `root` is √a. Returns whether there were any.
    """
    E = total / (layer.mean * root)
    E = where_less(layer.doubtful * root, layer.tied, layer.most_E, E)
    E = where_less(2.0 * half_g * (root * root), layer.parallel * total, layer.most_E, E)
    E = floor(where_less(E, layer.most_E, E, layer.most_E))
    E = where_less(layer.doubtful * root - layer.tied, total, E, 0.0)
    E = where_less(0.0, total * half_g, E, 0.0)
    store(memory, doubt, load_like(memory, doubt, total) + E)
    return any_negative(0.0 - E)


@inlined_by_llvm
def may_be_doubtful(total: Vector, root: Vector, layer: Any) -> bool:
    """Return whether `add_doubt` may find doubtful pixel pairs."""
    least = layer.doubtful * root - layer.tied
    return any_negative(where_less(0.0, least, least, 0.0) - total)  # equal pixels have 0 − 0


# -- the input's pixels


@compiled
def left_vector(
    numbers: Numbers, place: int, pixel: int, at: int, pixels: int, like: Vector
) -> Vector:
    """Return a vector of a left table (`LeftPixels`); `like` is any vector."""
    if pixels == 1:
        return repeat_like(numbers[place + pixel], like)
    if pixels > 1:
        return repeat_each(numbers, place + pixel, pixels, like)
    return load(numbers, place + at)


@compiled
def half_square(
    group: RowGroup, left: LeftPixels, sign: float, pixel: int, at: int, split: bool
) -> Vector:  # fmt: skip
    """Return |û + sign · v̂|²/2 of the unit vectors û, v̂ of the input's pixels.

    Sums of `CHANNELS` squares are added with compensation: many channels lose no digits. If
    `split`, what rounding took from the vectors stands behind all channels.
    """
    memory, right, channels = group.memory, group.places.right_units + at, group.places.channels
    total = lost = 0.0 * load(memory, right)
    for first in range(0, channels, CHANNELS):
        part = 0.0 * total
        for channel in range(first, min(first + CHANNELS, channels)):
            right_vector = load(memory, right + channel * group.length)
            unit = left.unit + channel * left.unit_step
            term = left_vector(left.units, unit, pixel, at, left.pixels, right_vector)
            term = term + sign * right_vector
            if split:
                right_lost = load(memory, right + (channels + channel) * group.length)
                unit += channels * left.unit_step
                term = term + (load(left.units, unit + at) + sign * right_lost)
            part = part + term * term
        if first == 0:
            total = part
        else:
            total, lost = add_compensated(total, lost, part)
    return 0.5 * total


@compiled
def unit_of(
    lefts: np.ndarray, case: int, last_case: int, channels: int, pixel: int
) -> tuple[int, int]:  # fmt: skip
    """Return a pixel's place in the left table of vectors, and its pixels; the last ones repeat."""
    left = lefts[min(case, last_case)]
    return left.first * channels + min(pixel, left.pixels - 1), left.pixels


@compiled
def add_block(memory: Numbers, out: int, lost: int, part: Vector, first: bool) -> None:
    """Add a sum of channels to a vector at `out`, whose rounding error is kept at `lost`."""
    error = 0.0 * part
    if not first:
        part, error = add_compensated(load(memory, out), load(memory, lost), part)
    store(memory, out, part)
    store(memory, lost, error)


@compiled
def write_squares(
    group: RowGroup, units: Numbers, lefts: np.ndarray, case: int, last_case: int
) -> None:  # fmt: skip
    """Write |u − v|² of the input's pixel vectors to the rings `squares` of four left cases.

    `units` are the left table of vectors, with one number for a pixel. The first of the cases has
    the pixels of `group`, and no other has more. Channels are added in the order of
    `half_square`.
    """
    align_stack()
    memory, places, length = group.memory, group.places, group.length
    channels, vector = places.channels, memory.per_vector
    for pixel in range(group.d):
        unit1, step1 = unit_of(lefts, case, last_case, channels, pixel)
        unit2, step2 = unit_of(lefts, case + 1, last_case, channels, pixel)
        unit3, step3 = unit_of(lefts, case + 2, last_case, channels, pixel)
        unit4, step4 = unit_of(lefts, case + 3, last_case, channels, pixel)
        for at in range(pixel * group.rows, (pixel + 1) * group.rows, vector):
            right, out = places.right_units + at, places.squares + group.start + at
            lost = places.distance_scratch
            for first in range(0, channels, CHANNELS):
                sum1 = sum2 = sum3 = sum4 = 0.0 * load(memory, right)
                for channel in range(first, min(first + CHANNELS, channels)):
                    right_vector = load(memory, right + channel * length)
                    sum1 = add_square(sum1, units[unit1 + channel * step1], right_vector)
                    sum2 = add_square(sum2, units[unit2 + channel * step2], right_vector)
                    sum3 = add_square(sum3, units[unit3 + channel * step3], right_vector)
                    sum4 = add_square(sum4, units[unit4 + channel * step4], right_vector)
                add_block(memory, out, lost, sum1, first == 0)
                add_block(memory, out + length, lost + vector, sum2, first == 0)
                add_block(memory, out + 2 * length, lost + 2 * vector, sum3, first == 0)
                add_block(memory, out + 3 * length, lost + 3 * vector, sum4, first == 0)


@compiled
def add_square(total: Vector, unit: float, right: Vector) -> Vector:
    term = repeat_like(unit, right) - right
    return total + term * term


@compiled
def write_own_squares(group: RowGroup, left: LeftPixels) -> None:
    """Write |u − v|² of the input's pixel vectors of one left case."""
    align_stack()
    stretches, length = pixel_loops(left, group)
    for stretch in range(stretches):
        for at in range(stretch * length, (stretch + 1) * length, group.memory.per_vector):
            half = half_square(group, left, -1.0, stretch * left.pixels, at, False)
            store(group.memory, group.places.squares + group.start + at, half + half)


# -- the layers


@compiled
def pixel_loops(left: LeftPixels, group: RowGroup) -> tuple[int, int]:
    """Return the number of stretches of a quantity to pass, and their length.

    A stretch has the pixels of a vector, and all of them where tables have a number for each row.
    """
    if left.pixels == 0:
        return 1, group.size
    return -(-group.d // left.pixels), left.pixels * group.rows


@inlined_by_llvm
def load_roots(
    group: RowGroup, left: LeftPixels, root: int, right: int, pixel: int, at: int,
    masses: Masses | None,
) -> tuple[Vector, Vector, Vector, Vector]:  # fmt: skip
    """Return √(q1/2), √(q2/2), their difference and 1/g; tables begin at `root` and `right`."""
    memory, step, length, pixels = group.memory, left.step, group.length, left.pixels
    root2, inverse2 = load(memory, right + at), load(memory, right + length + at)
    root1 = left_vector(left.roots, root, pixel, at, pixels, root2)
    h = root1 - root2
    if masses is not None and masses.low > 0:
        low1, low2 = load(memory, root + masses.low + at), load(memory, right + masses.low + at)
        root1, root2, h = root1 + low1, root2 + low2, h + (low1 - low2)
    inverse = inverse2 * left_vector(left.inverses, root + step, pixel, at, pixels, root2)
    if keeps_root_errors(memory):
        lost = left_vector(left.lost, root + 2 * step, pixel, at, pixels, root2)
        h = h + (lost - load(memory, right + 2 * length + at))
    return root1, root2, h, inverse


@inlined_by_llvm
def correlate_distance(
    group: RowGroup, at: int, distance: Vector, h: Vector, root1: Vector, root2: Vector,
    inverse: Vector, layer: Any,
) -> tuple[Vector, Vector, bool]:  # fmt: skip
    """Return w and v of distances, and whether some pixel pairs are doubtful (`add_doubt`)."""
    w = correlate(distance - h * h, inverse)
    v = 2.0 - w
    root, doubtful = sqrt(where_less(w, v, w, v)), False
    total = size_of_terms(group.memory, distance, h, root1, root2)
    if may_be_doubtful(total, root, layer):
        doubt = group.places.doubt + at
        doubtful = add_doubt(group.memory, doubt, total, root, root1 * root2, layer)
    return w, v, doubtful


@inlined_by_llvm
def size_of_terms(
    memory: Numbers, distance: Vector, h: Vector, root1: Vector, root2: Vector
) -> Vector:
    """Return the size of the terms of which D − z is the difference (`doubt.DOUBTFUL`)."""
    if keeps_root_errors(memory):
        return distance
    return fabs(h) * (root1 + root2) + distance


@inlined_by_llvm
def write_branch(
    group: RowGroup, at: int, K: int, features: Vector, h: Vector, half_g: Vector, w: Vector,
    v: Vector, constants: Constants, layer: Any, masses: Masses | None,
) -> tuple[Vector, Vector]:  # fmt: skip
    """Write D_K (or u_K and u⁺_K), and K to the place `K` of `features`; return K and k0."""
    branch = dual(half_g, w, v, layer, (constants.p, constants.r))
    place = group.places.branch_distance + at
    if masses is None:
        store(group.memory, place, branch_distance(h * h, branch.deficit, layer))
    else:
        store(group.memory, place + masses.opposite, branch.g * branch.one_plus_kappa1)
        store(group.memory, place, branch.deficit)
    store(group.memory, K, layer.sum_scale * features + branch.K)
    return branch.K, branch.k0


@inlined_by_llvm
def correlate_input(
    group: RowGroup, left: LeftPixels, right_input: int, squares: Taps, pixel: int, at: int,
    constants: Constants, masses: Masses | None,
) -> tuple[Vector, Vector, tuple[Vector, Vector], Vector, bool]:  # fmt: skip
    """Return w, v, both √(q/2), their difference, and whether some pixel pairs are doubtful.

    w is half the squared distance of unit vectors, which is at `squares` for several cases. v is
    2 − w; where w exceeds NEARLY_OPPOSITE, v is computed from the unit vectors too. With a
    `Constants.window`, D is the sum of `squares` over the window, and w = (D − z)/g as in other
    layers.
    """
    memory, opposite, doubtful = group.memory, constants.nearly_opposite, False
    root1, root2, h, inverse = load_roots(
        group, left, left.input, right_input, pixel, at, masses=masses
    )
    if constants.window.size > 1:
        distance = box(memory, squares, at)
        w, v, doubtful = correlate_distance(
            group, group.start + at, distance, h, root1, root2, inverse=inverse,
            layer=constants.layers[1],
        )  # fmt: skip
    else:
        split = masses is not None and masses.low > 0
        if group.places.left_cases > 1:
            w = 0.5 * load(memory, squares.first + at)
        else:
            w = half_square(group, left, -1.0, pixel, at, split)
        v = 2.0 - w
        if any_negative(opposite - w):
            v = where_less(opposite, w, half_square(group, left, 1.0, pixel, at, split), v)
    return w, v, (root1, root2), h, doubtful


@inlined_by_llvm
def first_layer(
    group: RowGroup, left: LeftPixels, right_input: int, right_root: int, squares: Taps,
    constants: Constants, masses: Masses | None,
) -> bool:  # fmt: skip
    """Compute D (u and u⁺ with `masses`), A and F of the features that enter, and layer 1's branch.

    `squares` are as in `correlate_input`. `right_input` and `right_root` are the places of √(q/2)
    of the right cases, of the input and of layer 1; 1/√q and the roots' lost parts follow. Returns
    whether some pixel pairs are doubtful.
    """
    align_stack()
    memory, places, layer = group.memory, group.places, constants.layers[1]
    K = places.features if constants.summed else places.K
    stretches, length = pixel_loops(left, group)
    doubtful = False
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        for at in range(stretch * length, (stretch + 1) * length, memory.per_vector):
            out = group.start + at
            w, v, roots, h, some = correlate_input(
                group, left, right_input, squares, pixel, at, constants=constants, masses=masses,
            )  # fmt: skip
            doubtful |= some
            g = 2.0 * (roots[0] * roots[1])
            gw = g * w
            linear = g - gw
            tangent = constants.initial * linear
            features = 0.0 * w
            if masses is None:
                store(memory, places.distance + out, h * h + gw)
            else:
                store(memory, places.distance + out, gw)
                store(memory, places.distance + masses.opposite + out, g * v)
            store(memory, places.linear + out, linear)
            store(memory, places.features + out, features)
            store(memory, places.tangent + out, features if constants.skip else tangent)
            root1, root2, h, inverse = load_roots(
                group, left, left.root, right_root, pixel, at, masses=masses
            )
            if masses is None:
                both = roots, (root1, root2)
                w, v = correlate_with_biases((w, v), group, at, both, inverse, layer)
            elif has_biases(layer):
                state, merged = places.distance + group.start, places.branch_distance + group.start
                pixels, stop = Taps(state, state, state, True), at + memory.per_vector
                write_window(memory, pixels, merged, at, stop, masses=masses, layer=layer)
                w = correlate(load(memory, merged + at), inverse)
                v = correlate(load(memory, merged + masses.opposite + at), inverse)
            half_g, rho = root1 * root2, layer.one - w
            K_value, k0 = write_branch(
                group, out, K + out, features, h, half_g, w=w, v=v, constants=constants,
                layer=layer, masses=masses,
            )  # fmt: skip
            tangent = add_bias_tangent(tangent, group, at, layer)
            tangent = tangent_g(tangent, half_g, rho, layer)
            tangent = tangent_branch(times_slope(k0, w, v, layer, tangent), K_value, layer)
            store(memory, places.tangent_branch + out, tangent)
    return doubtful


@inlined_by_llvm
def hidden_layer(
    group: RowGroup, left: LeftPixels, right_root: int, distances: Taps, tangents: Taps,
    constants: Constants, layer: Any, masses: Masses | None,
) -> bool:  # fmt: skip
    """Compute the branch of layer 2, 3, …, before its outer filter.

    `distances` and `tangents` are the taps of box D (the place of the merged u, with `masses`) and
    of box A. `right_root` is the place of √(q/2) of the right cases; 1/√q and the roots' lost parts
    follow. The branch has three parts: its distance; K, added to `sum_scale` times what stood
    there; and K̇ ⊙ ((i − r) Σ + box A) + (o + r) K. Returns whether some pixel pairs are doubtful.
    """
    align_stack()
    memory, places, doubtful = group.memory, group.places, False
    ntk, with_linear = constants.ntk, constants.skip
    linear_scale = constants.initial * layer.linear_scale
    K = places.features if constants.summed else places.K
    stretches, length = pixel_loops(left, group)
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        for at in range(stretch * length, (stretch + 1) * length, memory.per_vector):
            out = group.start + at
            root1, root2, h, inverse = load_roots(
                group, left, left.root, right_root, pixel, at, masses=masses
            )
            if masses is None:
                distance = add_bias_distance(box(memory, distances, at), group, at, layer)
                w, v, some = correlate_distance(
                    group, out, distance, h, root1, root2, inverse=inverse, layer=layer,
                )  # fmt: skip
                doubtful |= some
            else:
                w = correlate(load(memory, distances.first + at), inverse)
                v = correlate(load(memory, distances.first + masses.opposite + at), inverse)
            half_g, rho = root1 * root2, 1.0 - w
            features = load(memory, K + out)
            K_value, k0 = write_branch(
                group, out, K + out, features, h, half_g, w=w, v=v, constants=constants,
                layer=layer, masses=masses,
            )  # fmt: skip
            if ntk:
                tangent = box(memory, tangents, at)
                if with_linear:
                    linear = load(memory, places.linear_box + out)
                    tangent = linear_scale * linear + tangent
                tangent = add_bias_tangent(tangent, group, at, layer)
                A_g = tangent_g(tangent, half_g, rho, layer)
                tangent = tangent_branch(times_slope(k0, w, v, layer, A_g), K_value, layer)
                store(memory, places.tangent_branch + out, tangent)
    return doubtful
