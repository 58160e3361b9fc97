"""The way of a group of rows back through all layers: the adjoints of engines/layer.py.

Vectors are short: many numbers are in use at a time, and there is no polynomial to wait for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..layer import (
    correlate_adjoint,
    input_adjoint,
    tangent_branch,
    tangent_branch_adjoint,
    tangent_g_adjoint,
    times_slope_adjoint,
    times_slope_of,
)
from .arguments import (
    Constants,
    FlatTables,
    RowGroup,
    RowPlaces,
    Taps,
)
from .compilation import compiled, inlined_by_llvm
from .forth import add_window
from .layers import (
    keeps_root_errors,
)
from .sums import add_taps, moving_sum
from .vectors import (
    Numbers,
    Vector,
    align_stack,
    load,
    load_line,
    repeat_like,
    store,
    sum_numbers,
    where_less,
)
from .way import COSECANT, KEPT, LOST, TANGENT, RowGradients, W, Way

_ROOT2 = math.sqrt(2.0)


@inlined_by_llvm
def kept_correlation(kept: Vector) -> tuple[Vector, Vector]:
    """Return w and v from the smaller one (`KEPT`)."""
    return where_less(kept, 0.0, 2.0 + kept, kept), where_less(kept, 0.0, 0.0 - kept, 2.0 - kept)


@inlined_by_llvm
def box_line(memory: Numbers, taps: Taps, at: int) -> Vector:
    """Return a moving sum at one short vector of pixels."""
    return add_taps(load_line(memory, taps.first + at), memory, taps, at)


@inlined_by_llvm
def line_roots(
    memory: Numbers, left: FlatTables, table: int, right: int, length: int
) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return √(q1/2), √(q2/2), their difference, √(2/q1) and √(2/q2) (`layers.load_roots`).

    `table` is the pixel's place in the left tables, `right` the place in the right ones.
    """
    root2, inverse2 = load_line(memory, right), load_line(memory, right + length)
    root1 = repeat_like(left.half_root[table], root2)
    inverse1 = repeat_like(_ROOT2 * left.inverse[table], root2)
    difference = root1 - root2
    if keeps_root_errors(memory):
        lost = repeat_like(left.lost[table], root2) - load_line(memory, right + 2 * length)
        difference = difference + lost
    return root1, root2, difference, inverse1, _ROOT2 * inverse2


@compiled
def back_layer(
    group: RowGroup, left: FlatTables, table: int, right_root: int, features: Taps, tangents: Taps,
    identity: float, kept: int, right: int, layer: Any, way: Way, last: bool, sums: Numbers,
    target: int,
) -> None:  # fmt: skip
    """Compute the adjoints of a layer's steps, before its inner filter.

    `features` and `tangents` are the taps of φ = box(F̄) and of box(Ā). `identity` is the box of the
    part of Ā (of F̄, for the Gaussian process kernel) that has come unchanged. `table` is the place
    of the left case's table of the layer, `right` of the layer's sums over left cases, and `target`
    of those over rows in `sums`. In the `last` layer F̄ and Ā are 0. Vectors are short: many numbers
    are in use at a time.
    """
    align_stack()
    memory, length, rows = group.memory, group.length, group.rows
    curvature = layer.half_factor * (1.0 - way.share) / math.pi
    half = 0.5 * curvature  # inverse1 · inverse2 is 2/g
    for j in range(group.d):
        total = repeat_like(0.0, load_line(memory, way.numbers))
        for row in range(0, rows, memory.per_line):
            at = j * rows + row
            here = kept + at
            root1, root2, difference, inverse1, inverse2 = line_roots(
                memory, left, table + j, right_root + at, length
            )
            w, v = kept_correlation(load_line(memory, here + W * length))
            lost = load_line(memory, here + LOST * length)
            cosecant = load_line(memory, here + COSECANT * length)
            bend = curvature * (w * v * cosecant)  # c (1 − λ) sin θ/(2π)
            phi, g = 0.0 * w, 2.0 * (root1 * root2)
            if not last:
                phi = box_line(memory, features, at)
            K = g * (bend + times_slope_of(lost, 1.0 - w, layer))
            distance = layer.half_factor * (difference * difference + g) - K
            numbers = load_line(memory, way.numbers + row) - phi * distance
            if way.ntk:
                beta = identity + 0.0 * w
                if not last:
                    beta = identity + box_line(memory, tangents, at)
                A_g = load_line(memory, here + TANGENT * length)
                kappa = beta * times_slope_adjoint(A_g, inverse1 * inverse2, cosecant, half)
                if way.turns and kept == way.kept:
                    store(memory, way.kappa + at, kappa)
                    kappa = 0.0 * kappa
                turned = times_slope_of(lost, beta, layer)
                store(memory, way.turned + group.start + at, turned)
                through = tangent_g_adjoint(turned, layer)
                curved = bend * tangent_branch_adjoint(beta, phi, layer)
                numbers = numbers + beta * tangent_branch(
                    times_slope_of(lost, A_g, layer), K, layer
                )
            else:
                beta, kappa = identity + 0.0 * w, 0.0 * w
                through, curved = times_slope_of(lost, beta, layer), bend * (beta + phi)
                numbers = numbers + beta * K
            store(memory, way.numbers + row, numbers)
            Sigma = through + kappa + times_slope_of(lost, phi, layer)
            store(memory, way.Sigma + group.start + at, Sigma)
            slope = through - lost * phi
            of_left = correlate_adjoint(slope, curved, kappa, w, difference, root2, inverse1)
            of_right = correlate_adjoint(slope, curved, kappa, w, 0.0 - difference, root1, inverse2)
            total = total + load_line(memory, way.left_weights + row) * of_left
            of_right = load_line(memory, way.right_weights + row) * of_right
            store(memory, right + at, load_line(memory, right + at) + of_right)
        sums[target + j] += 0.5 * sum_numbers(total)


@compiled
def write_weights(
    group: RowGroup, rows: RowPlaces, case: int, way: Way, gradients: RowGradients
) -> bool:
    """Write the weights of each row, 0 for repeated rows; return whether any is not 0."""
    some, memory = False, group.memory
    for row in range(group.rows):
        left = right = 0.0
        if row < rows.number:
            right_case = rows.each[row].case
            left = gradients.left_weights[case, right_case]
            right = gradients.right_weights[case, right_case]
        some |= left != 0.0 or right != 0.0
        memory[way.left_weights + row], memory[way.right_weights + row] = left, right
    return some


@compiled
def sum_rows(group: RowGroup, place: int, sums: Numbers, target: int, factor: float) -> None:
    """Add `factor` times the sums over all rows of a quantity to the numbers of pixels."""
    memory = group.memory
    for j in range(group.d):
        total = load_line(memory, place)
        for at in range(memory.per_line, group.rows, memory.per_line):
            total = total + load_line(memory, place + at)
        sums[target + j] += factor * sum_numbers(total)
        place += group.rows


@compiled
def back_input(
    group: RowGroup, left: FlatTables, table: int, right_input: int, features: Taps, way: Way
) -> None:
    """Compute the weighted a, b, a' and b' of `input_adjoint`, without halos.

    They come to the places of Σ̄, `left`, Ā_g and Ā, and −1 to `sign` where δ is a
    sum. `features` are the taps of F̄⁰.
    """
    align_stack()
    memory, rows, length = group.memory, group.rows, group.length
    for j in range(group.d):
        for row in range(0, rows, memory.per_line):
            at = j * rows + row
            F = box_line(memory, features, at)
            own_weights = load_line(memory, way.left_weights + row)
            weights = load_line(memory, way.right_weights + row)
            if way.turns:
                root1, root2, difference, _, _ = line_roots(
                    memory, left, table + j, right_input + at, length
                )
                kappa = 0.0 * F
                kept = load_line(memory, way.kept + W * length + at)
                w, v = kept_correlation(kept)
                sign = where_less(kept, 0.0, -1.0, 1.0 + kappa)
                if way.ntk:
                    kappa = load_line(memory, way.kappa + at)
                a, b, other_a, other_b = input_adjoint(
                    F, kappa, w, v, _ROOT2 * root1, _ROOT2 * root2, _ROOT2 * difference
                )
            else:
                a, b, other_a, other_b, sign = F, 0.0 * F, F, 0.0 * F, 1.0 + 0.0 * F
            store(memory, way.sign + at, sign)
            store(memory, way.Sigma + at, own_weights * a)
            store(memory, way.left + at, own_weights * b)
            store(memory, way.turned + at, weights * other_a)
            store(memory, way.tangent + at, weights * other_b)


@compiled
def add_pixels(group: RowGroup, case: int, channels: int, tables: int, way: Way, out: Any) -> None:
    """Add the derivatives by pixels at fixed variances, −(a δ + b û) and a' δ + b' û."""
    align_stack()
    memory, length, d = group.memory, group.length, group.d
    if way.turns:  # κ̄ is not needed any more
        for j in range(d):
            memory[way.kappa + j] = 0.0
        sum_rows(group, way.left, memory, way.kappa, 1.0)
    for channel in range(channels):
        x, z = 2 * (case * channels + channel) * d, way.right_pixels + 2 * channel * length
        right = way.right + (tables + channel) * length
        sums, here = (case * (tables + channels) + tables + channel) * d, 0
        for j in range(d):
            total = 0.0 * load_line(memory, here)
            unit = out.left_pixels[x + 2 * j]
            high, low = repeat_like(unit, total), repeat_like(out.left_pixels[x + 2 * j + 1], total)
            for at in range(here, here + group.rows, memory.per_line):
                sign = load_line(memory, way.sign + at)
                delta = high - sign * load_line(memory, z + at)
                delta = delta + (low - sign * load_line(memory, z + length + at))
                total = total + load_line(memory, way.Sigma + at) * delta
                more = load_line(memory, way.turned + at) * delta
                more = more + load_line(memory, way.tangent + at) * high
                store(memory, right + at, load_line(memory, right + at) + more)
            out.left[sums + j] -= sum_numbers(total) + unit * memory[way.kappa + j]
            here += group.rows


@compiled
def pass_back(
    group: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    channels: int, constants: Constants, way: Way, gradients: RowGradients, out: Any,
) -> None:  # fmt: skip
    """Take the rows of a group back through all layers, and add up the derivatives."""
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    memory, places, length, depth = group.memory, group.places, group.length, len(layers) - 1
    vector, start = memory.per_vector, way.start
    zero, table = 0.0 * load(memory, way.numbers), lefts[case].first * (depth + 1)
    for row in range(group.rows):
        memory[way.numbers + row] = 0.0
    for at in range(0, group.size, vector):
        store(memory, way.features + group.start + at, zero)
        store(memory, way.tangent + group.start + at, zero)
    first = case * (depth + 1 + channels) * group.d
    for number in range(depth, 0, -1):
        if constants.stop[0]:
            return
        layer = layers[number]
        kept = way.kept + (number - 1) * KEPT * length
        right_root = places.right_layers + 3 * number * length
        step, room = layer.outer_step, places.distance_scratch
        features = moving_sum(group, way.features, outer, step, room, None)
        tangents = features
        if way.ntk:
            room = places.tangent_scratch
            tangents = moving_sum(group, way.tangent, outer, step, room, None)
        identity, right = outer.n_taps * start, way.right + number * length
        back_layer(
            group, left, table + number * group.d, right_root, features,
            tangents, identity, kept, right, layer, way, number == depth, out.left,
            first + number * group.d,
        )  # fmt: skip
        window, step = inner, layer.inner_step
        if number == 1:
            window, step = way.single, 1
        scale, room = layer.skip_scale, places.distance_scratch
        add_window(group, way.features, way.Sigma, window, step, scale, room)
        if way.ntk:
            add_window(group, way.tangent, way.turned, window, step, scale, room)
        start *= scale
    add_numbers(group, rows, case, way, gradients)
    # Of the input: Ā⁰ and, unless the mean of F⁰ is apart, what has come unchanged.
    initial = constants.initial if way.ntk else 1.0
    if constants.adds_mean:
        start = 0.0
    for at in range(0, group.size, vector):
        more = initial * (start + load(memory, way.tangent + group.start + at))
        store(memory, way.tangent + group.start + at, more)
        features = load(memory, way.features + group.start + at)
        store(memory, way.features + group.start + at, features + more)
    taps = moving_sum(group, way.tangent, way.input, 1, way.room, None)
    for j in range(group.d):
        for row in range(0, group.rows, memory.per_line):
            at = j * group.rows + row
            more = box_line(memory, taps, at)
            store(memory, way.left + at, load_line(memory, way.left_weights + row) * more)
            more = load_line(memory, way.right_weights + row) * more
            store(memory, way.right + at, load_line(memory, way.right + at) + more)
    sum_rows(group, way.left, out.left, first, 0.5)
    taps = moving_sum(group, way.features, way.input, 1, way.room, None)
    back_input(group, left, table, places.right_layers, taps, way)
    add_pixels(group, case, channels, depth + 1, way, out)


@compiled
def add_numbers(
    group: RowGroup, rows: RowPlaces, case: int, way: Way, gradients: RowGradients
) -> None:  # fmt: skip
    """Add the derivatives by log α² over the pixels of each row."""
    for row in range(rows.number):
        gradients.by_alpha[case, rows.each[row].case] += group.memory[way.numbers + row]


@compiled
def add_right(
    group: RowGroup, rows: RowPlaces, depth: int, tables: int, per_table: int, way: Way, out: Any
) -> None:
    """Add the sums of a group to the right tables, and make them 0."""
    memory = group.memory
    for row in range(rows.number):
        place = rows.each[row]
        line, pixel = place.offset, 0
        for j in range(group.d):
            source = (line * rows.line + place.across + pixel) * rows.stride + place.begin
            at = way.right + j * group.rows + row
            for table in range(tables):
                factor = 0.5 if table <= depth else 1.0
                here = at + table * group.length
                out.right[table * per_table + source] += factor * memory[here]
            pixel += 1
            if pixel == group.width:
                line, pixel = line + 1, 0
                if line == place.period:
                    line = 0
    for at in range(tables * group.length):
        memory[way.right + at] = 0.0
