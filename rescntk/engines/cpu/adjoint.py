"""The compiled way back: derivatives of kernels, one group of rows at a time (engines/adjoint.py).

A group of rows goes through all layers in distances. What the way back needs of each layer is kept,
in the cache. Then the layers come in reverse order. After each layer, derivatives by variances are
multiplied by the weights of their pairs and added up, in float64: over the rows at each pixel of
the left case, and over the left cases at each pixel of the right cases.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..layer import (
    add,
    correlate_adjoint,
    dual,
    input_adjoint,
    lost_slope,
    tangent_branch,
    tangent_branch_adjoint,
    tangent_g,
    tangent_g_adjoint,
    times_slope,
    times_slope_adjoint,
    times_slope_of,
)
from .arguments import (
    Constants,
    FilterSum,
    FlatTables,
    LeftPixels,
    Results,
    RowGroup,
    RowPlaces,
    Taps,
)
from .compilation import compiled, compiled_on_disk, inlined_by_llvm, source_stamp, standing_in
from .groups import gather_tables, rows_of_group
from .heads import find_grids, take_doubts
from .layer_sums import add_kernels, box_linear, box_tangent
from .layers import (
    correlate_distance,
    half_square,
    keeps_root_errors,
    load_roots,
    pixel_loops,
    write_own_squares,
    write_squares,
)
from .rows import all_doubtful, left_pixels
from .sums import box, moving_sum
from .vectors import (
    Numbers,
    Vector,
    addresses,
    align_stack,
    any_negative,
    fabs,
    inverse_root,
    load,
    load_line,
    reference,
    repeat_like,
    store,
    sum_numbers,
    where_less,
)

KEPT = 4
"""Quantities that are kept of each layer: w = 1 − ρ, or where it is smaller −v = −1 − ρ; the lost
slope, 1/sin θ (0 where it is unknown) and A_g. Of the input w and v = 1 + ρ are kept, in the places
of w and A_g of layer 1.
"""

W, LOST, COSECANT, TANGENT = range(KEPT)

_ROOT2 = math.sqrt(2.0)

for _function in (
    lost_slope,
    times_slope_adjoint,
    times_slope_of,
    tangent_branch_adjoint,
    tangent_g_adjoint,
    correlate_adjoint,
    input_adjoint,
):
    standing_in(_function)(lambda *args, _function=_function: _function)


class Way(NamedTuple):
    """Places of the way back in `memory`, and its constants."""

    features: int
    tangent: int  # rings of F̄ and Ā
    Sigma: int
    turned: int  # rings of Σ̄ and Ā_g of a layer
    left: int  # the derivative by a left pixel at each pixel pair, weighted
    left_weights: int
    right_weights: int  # the weights of each row
    right: int  # sums over left cases for the L + 1 + channels right tables, at each pixel pair
    right_pixels: int  # two numbers for each channel: the right cases' vectors
    kappa: int  # κ̄ of layer 1
    sign: int  # −1 where δ is a sum (`input_adjoint`)
    numbers: int  # derivatives by log α² at fixed variances, summed over the pixels of each row
    kept: int  # the `KEPT` quantities of layer 1, 2, …
    room: int  # scratch of moving sums over the input filter
    single: FilterSum  # of one tap
    input: FilterSum  # of the input filter
    start: float  # the derivative of a kernel by the kernel at a pixel pair
    ntk: bool
    turns: bool  # whether the input's vectors are unit vectors of pixels (`input_adjoint`)
    share: float  # of the linear network, λ
    noise: float  # rounding units that the w of proportional windows may be
    near: float  # pairs with windows of smaller min(w, v), that is not 0, are doubtful
    most_doubt: float  # the E of these


class Gradients(NamedTuple):
    """Weights of pairs, and arrays that derivatives are added to, in float64; C-ordered."""

    left_weights: np.ndarray
    right_weights: np.ndarray  # (left case, right case)
    left: np.ndarray  # (left case, L + 1 + channels, pixel)
    right: np.ndarray  # (L + 1 + channels, right table)
    by_alpha: np.ndarray  # (left case, right case)

    left_pixels: np.ndarray
    """(left case, channel, pixel, 2), in the working precision: vectors as sums of two numbers, of
    unit length if `Way.turns`. `right_pixels` are (channel, 2, right table)."""

    right_pixels: np.ndarray


# -- forth


@compiled
def keep_input(
    group: RowGroup, left: LeftPixels, right_input: int, squares: Taps, constants: Constants,
    way: Way,
) -> bool:  # fmt: skip
    """Compute D and F⁰ of the input; w and v = 1 + ρ of its pixels are kept (`layers.first_layer`).

    If `Way.turns`, they are there already (`keep_correlations`). Returns whether some pixel pairs
    are doubtful.
    """
    align_stack()
    memory, places, layer = group.memory, group.places, constants.layers[1]
    opposite, windowed, doubtful = constants.nearly_opposite, constants.window.size > 1, False
    stretches, length = pixel_loops(left, group)
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        for at in range(stretch * length, (stretch + 1) * length, memory.per_vector):
            out = group.start + at
            root1, root2, h, inverse = load_roots(
                group, left, left.input, right_input, pixel, at, None
            )
            if windowed:
                distance = box(memory, squares, at)
                w, v, some = correlate_distance(
                    group, out, distance, h, root1, root2, inverse, layer
                )  # fmt: skip
                doubtful |= some
            elif way.turns:
                w = load(memory, way.kept + W * group.length + at)
                v = load(memory, way.kept + TANGENT * group.length + at)
            else:
                if places.left_cases > 1:
                    w = 0.5 * load(memory, squares.first + at)
                else:
                    w = half_square(group, left, -1.0, pixel, at, False)
                v = 2.0 - w
                if any_negative(opposite - w):
                    other = half_square(group, left, 1.0, pixel, at, False)
                    v = where_less(opposite, w, other, v)
            g = 2.0 * (root1 * root2)
            gw = g * w
            linear = g - gw
            store(memory, places.distance + out, h * h + gw)
            store(memory, places.linear + out, linear)
            if not way.ntk:
                store(memory, places.features + out, 0.0 * w)
            if constants.skip:
                store(memory, places.tangent + out, 0.0 * w)
            else:
                store(memory, places.tangent + out, constants.initial * linear)
            if not way.turns:
                store(memory, way.kept + W * group.length + at, w)
                store(memory, way.kept + TANGENT * group.length + at, v)
    return doubtful


@compiled
def keep_correlations(
    group: RowGroup, case: int, channels: int, opposite: float, way: Way, out: Any
) -> None:
    """Keep w and v = 1 + ρ of the input's pixels, from unit vectors with twice the digits."""
    align_stack()
    memory, length, d = group.memory, group.length, group.d
    first, line = 2 * case * channels * d, memory.per_line
    for j in range(d):
        for at in range(j * group.rows, (j + 1) * group.rows, line):
            w = 0.0 * load_line(memory, at)
            for channel in range(channels):
                x, z = first + 2 * (channel * d + j), way.right_pixels + 2 * channel * length + at
                term = repeat_like(out.left_pixels[x], w) - load_line(memory, z)
                rest = repeat_like(out.left_pixels[x + 1], w) - load_line(memory, z + length)
                w = w + (term + rest) * (term + rest)
            w = 0.5 * w
            v = 2.0 - w
            if any_negative(opposite - w):
                other = 0.0 * w
                for channel in range(channels):
                    x = first + 2 * (channel * d + j)
                    z = way.right_pixels + 2 * channel * length + at
                    term = repeat_like(out.left_pixels[x], w) + load_line(memory, z)
                    rest = repeat_like(out.left_pixels[x + 1], w) + load_line(memory, z + length)
                    other = other + (term + rest) * (term + rest)
                v = where_less(opposite, w, 0.5 * other, v)
            store(memory, way.kept + W * length + at, w)
            store(memory, way.kept + TANGENT * length + at, v)


@compiled
def keep_layer(
    group: RowGroup, left: LeftPixels, right_root: int, distances: Taps, tangents: Taps,
    linear: int, kept: int, constants: Constants, layer: Any, way: Way,
) -> bool:  # fmt: skip
    """Compute a layer's branch (`layers.hidden_layer`), and keep what the way back needs.

    `linear` is the place of F⁰, as A_g takes it, and `kept` of the layer's quantities. Layer 1
    takes w and v from there.
    """
    align_stack()
    memory, places, length, doubtful = group.memory, group.places, group.length, False
    linear_scale = constants.initial * layer.linear_scale
    known = kept == way.kept
    stretches, stretch_length = pixel_loops(left, group)
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        first = stretch * stretch_length
        for at in range(first, first + stretch_length, memory.per_vector):
            out, here = group.start + at, kept + at
            root1, root2, h, inverse = load_roots(
                group, left, left.root, right_root, pixel, at, None
            )
            distance = box(memory, distances, at)
            if known:
                w, v = load(memory, here + W * length), load(memory, here + TANGENT * length)
            else:
                w, v, some = correlate_distance(
                    group, out, distance, h, root1, root2, inverse, layer
                )  # fmt: skip
                doubtful |= some
                if not keeps_root_errors(memory):
                    near = where_less(w, v, w, v)
                    if any_negative(near - way.near):
                        # κ̄ is large, and √q1 − √q2 has rounding errors.
                        place = places.doubt + out
                        more = where_less(near, way.near, way.most_doubt, 0.0)
                        more = where_less(0.0, near, more, 0.0)
                        doubtful |= any_negative(0.0 - more)
                        store(memory, place, load(memory, place) + more)
            half_g = root1 * root2
            relu = dual(half_g, w, v, layer, (constants.p, constants.r))
            store(
                memory,
                places.branch_distance + out,
                layer.half_factor * (h * h) + relu.deficit,
            )
            store(memory, here + W * length, where_less(w, v, w, 0.0 - (v + layer.tiny)))
            lost = lost_slope(relu.k0, w, v, layer, way.share)
            # Windows without variance have ρ = 0, the mean over all ρ.
            lost = where_less(0.0, half_g, lost, 0.5 * layer.half_factor * (1.0 - way.share))
            store(memory, here + LOST * length, lost)
            total = distance
            if not keeps_root_errors(memory):
                total = fabs(h) * (root1 + root2) + distance
            size, least = 2.0 * half_g * where_less(w, v, w, v), way.noise * total
            if known:  # w of the input's pixels is exact
                size, least = w * v, 0.0 * w
            cosecant = where_less(least, size, inverse_root(w * v), 0.0)
            store(memory, here + COSECANT * length, cosecant)
            if way.ntk:
                A_g = box(memory, tangents, at)
                if constants.skip:
                    A_g = linear_scale * load(memory, linear + at) + A_g
                A_g = tangent_g(A_g, half_g, 1.0 - w, layer)
                store(memory, here + TANGENT * length, A_g)
                branch = tangent_branch(times_slope(relu.k0, w, v, layer, A_g), relu.K, layer)
                store(memory, places.tangent_branch + out, branch)
            else:
                features = places.features + out
                store(memory, features, layer.sum_scale * load(memory, features) + relu.K)
    return doubtful


@compiled
def pass_forth(
    group: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    channels: int, constants: Constants, results: Results, way: Way, out: Any,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers (`rows.pass_layers`)."""
    layers, inner = constants.layers, constants.inner
    memory, places, length, depth = group.memory, group.places, group.length, len(layers) - 1
    boxed, doubtful, squares = 0, False, places.squares
    if way.turns:
        keep_correlations(group, case, channels, constants.nearly_opposite, way, out)
    elif places.left_cases > 1:
        squares += case % places.left_cases * length
    elif constants.window.size > 1:
        write_own_squares(group, addresses(left_pixels(group, left, lefts, case, depth + 1, 1)))
    for number in range(1, depth + 1):
        if constants.stop[0]:
            return
        layer = layers[number]
        step, kept = layer.inner_step, way.kept + (number - 1) * KEPT * length
        pixels = addresses(left_pixels(group, left, lefts, case, depth + 1, number))
        right_root = places.right_layers + 3 * number * length
        linear = places.linear + group.start
        at = places.distance + group.start
        taps = Taps(at, at, at, True)
        if number == 1:
            window = moving_sum(group, squares, constants.window, 1, places.distance_scratch, None)
            doubtful |= keep_input(group, pixels, places.right_layers, window, constants, way)
            at = places.tangent + group.start
            tangents = Taps(at, at, at, True)
        else:
            boxed = box_linear(group, constants, step, boxed)
            linear = places.linear_box + group.start
            taps = moving_sum(group, places.distance, inner, step, places.distance_scratch, None)
            tangents = box_tangent(group, constants, step, taps)
        doubtful |= keep_layer(
            group, pixels, right_root, taps, tangents, linear, kept, constants, layer, way
        )  # fmt: skip
        if number < depth:
            add_window(
                group, places.distance, places.branch_distance, constants.outer,
                layer.outer_step, layer.skip_scale, places.distance_scratch,
            )  # fmt: skip
        add_kernels(group, group, rows, case, constants, results, layer)
    if doubtful:
        take_doubts(group, rows, case, results)
        for at in range(group.size):
            memory[places.doubt + group.start + at] = 0.0


@compiled
def add_window(
    group: RowGroup, state: int, branch: int, window: FilterSum, step: int, scale: float, room: int
) -> None:
    """state ← scale · state + box(branch), of two rings."""
    memory, state = group.memory, state + group.start
    taps = moving_sum(group, branch, window, step, room, None)
    for at in range(0, group.size, memory.per_vector):
        store(memory, state + at, add(load(memory, state + at), box(memory, taps, at), scale))


# -- back


@inlined_by_llvm
def kept_correlation(kept: Vector) -> tuple[Vector, Vector]:
    """Return w and v from the smaller one (`KEPT`)."""
    return where_less(kept, 0.0, 2.0 + kept, kept), where_less(kept, 0.0, 0.0 - kept, 2.0 - kept)


@inlined_by_llvm
def box_line(memory: Numbers, taps: Taps, at: int) -> Vector:
    """Return a moving sum at one short vector of pixels (`sums.box`)."""
    first = load_line(memory, taps.first + at)
    if taps.single:
        return first
    return first + (load_line(memory, taps.second + at) + load_line(memory, taps.third + at))


@inlined_by_llvm
def line_roots(
    memory: Numbers, left: FlatTables, table: int, right: int, length: int
) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return √q1, √q2, their difference, 1/√q1 and 1/√q2 (`layers.load_roots`).

    `table` is the pixel's place in the left tables, `right` the place in the right ones.
    """
    root2, inverse2 = load_line(memory, right), load_line(memory, right + length)
    root1 = repeat_like(left.half_root[table], root2)
    inverse1 = repeat_like(left.inverse[table], root2)
    difference = root1 - root2
    if keeps_root_errors(memory):
        lost = repeat_like(left.lost[table], root2) - load_line(memory, right + 2 * length)
        difference = difference + lost
    return _ROOT2 * root1, _ROOT2 * root2, _ROOT2 * difference, inverse1, inverse2


@compiled
def back_layer(
    group: RowGroup, left: FlatTables, table: int, right_root: int, features: Taps, tangents: Taps,
    identity: float, kept: int, right: int, layer: Any, way: Way, last: bool,
) -> None:  # fmt: skip
    """Compute the adjoints of a layer's steps, before its inner filter.

    `features` and `tangents` are the taps of φ = box(F̄) and of box(Ā). `identity` is the box of the
    part of Ā (of F̄, for the Gaussian process kernel) that has come unchanged. `table` is the place
    of the left case's table of the layer, and `right` of the layer's sums over left cases. In the
    `last` layer F̄ and Ā are 0. Vectors are short: many numbers are in use at a time.
    """
    align_stack()
    memory, length, rows = group.memory, group.length, group.rows
    curvature = layer.half_factor * (1.0 - way.share) / math.pi
    for j in range(group.d):
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
            phi, g = 0.0 * w, root1 * root2
            if not last:
                phi = box_line(memory, features, at)
            K = g * (bend + times_slope_of(lost, 1.0 - w, layer))
            distance = layer.half_factor * (0.5 * difference * difference + g) - K
            numbers = load_line(memory, way.numbers + row) - phi * distance
            if way.ntk:
                beta = identity + 0.0 * w
                if not last:
                    beta = identity + box_line(memory, tangents, at)
                A_g = load_line(memory, here + TANGENT * length)
                kappa = beta * times_slope_adjoint(A_g, inverse1 * inverse2, cosecant, curvature)
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
            store(memory, way.left + at, load_line(memory, way.left_weights + row) * of_left)
            of_right = load_line(memory, way.right_weights + row) * of_right
            store(memory, right + at, load_line(memory, right + at) + of_right)


@compiled
def write_weights(
    group: RowGroup, rows: RowPlaces, case: int, way: Way, gradients: Gradients
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
                a, b, other_a, other_b = input_adjoint(F, kappa, w, v, root1, root2, difference)
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
    channels: int, constants: Constants, way: Way, gradients: Gradients, out: Any,
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
            tangents, identity, kept, right, layer, way, number == depth,
        )  # fmt: skip
        sum_rows(group, way.left, out.left, first + number * group.d, 0.5)
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
    group: RowGroup, rows: RowPlaces, case: int, way: Way, gradients: Gradients
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


@compiled_on_disk
def derive(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces, diagonal_shift: int,
    whole: RowGroup, constants: Constants, results: Results, way: Way, gradients: Gradients,
    stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, and derivatives of their weighted sum.

    Rows are closed. The other arguments are as for `rows.compute`.
    """
    layers, group_rows = len(constants.layers), whole.rows
    per_table = len(right.inverse) // layers
    out = addresses(gradients)
    gradients = reference(gradients)
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    way = addresses(way)
    places, length = whole.places, whole.length
    channels, right_tables, together = places.channels, places.right_layers, places.left_cases
    n_channels, pairs = gradients.left_pixels.shape[1], 2 * gradients.left_pixels.shape[1]
    n_tables = layers + n_channels
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        gather_tables(whole, places.right_units, 1, right.units, channels, rows, per_table)
        gather_tables(whole, right_tables, 3, right.half_root, layers, rows, per_table)
        gather_tables(whole, right_tables + length, 3, right.inverse, layers, rows, per_table)
        if keeps_root_errors(whole.memory):
            lost = right_tables + 2 * length
            gather_tables(whole, lost, 3, right.lost, layers, rows, per_table)
        gather_tables(whole, way.right_pixels, 1, out.right_pixels, pairs, rows, per_table)
        find_grids(rows, 0, results)
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        for case in range(last):
            if constants.stop[0]:
                return
            if not way.turns and together > 1 and case % together == 0:
                write_squares(whole, left.units, lefts, case, last - 1)
            if all_doubtful(rows, case, results):
                continue
            some = write_weights(whole, rows, case, way, gradients)
            pass_forth(whole, rows, left, lefts, case, n_channels, constants, results, way, out)
            if some:
                pass_back(
                    whole, rows, left, lefts, case, n_channels, constants, way, gradients, out
                )
        add_right(whole, rows, layers - 1, n_tables, per_table, way, out)
