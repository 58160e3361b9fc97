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
from .compilation import compiled, compiled_on_disk, source_stamp, standing_in
from .groups import first_place, gather_tables, rows_of_group
from .heads import find_grids, take_doubts
from .layer_sums import add_kernels, box_linear, box_tangent
from .layers import (
    correlate_distance,
    half_square,
    keeps_root_errors,
    left_vector,
    load_roots,
    pixel_loops,
    write_branch,
    write_own_squares,
    write_squares,
)
from .rows import all_doubtful, left_pixels
from .sums import box, moving_sum
from .vectors import (
    addresses,
    align_stack,
    any_negative,
    fabs,
    load,
    load_like,
    load_line,
    reference,
    repeat_like,
    sqrt,
    store,
    sum_numbers,
    where_less,
)

KEPT = 6
"""Quantities that are kept of each layer: w, the lost slope, κ̄/β, K̄'s factor, D_K and the branch
of A (of F, for the Gaussian process kernel)."""

W, LOST, KAPPA, BEND, DISTANCE, BRANCH = range(KEPT)

_ROOT2 = math.sqrt(2.0)

for _function in (
    lost_slope,
    times_slope_adjoint,
    times_slope_of,
    tangent_branch_adjoint,
    tangent_g_adjoint,
    correlate_adjoint,
):
    standing_in(_function)(lambda *args, _function=_function: _function)


class Way(NamedTuple):
    """Places of the way back in `memory`, and its constants."""

    features: int
    tangent: int  # rings of F̄ and Ā
    Sigma: int
    turned: int  # rings of Σ̄ and Ā_g of a layer
    left: int
    right: int  # 2 q̄ of both sides at each pixel pair
    numbers: int  # derivatives by log α² at fixed variances, at each pixel pair
    kept: int  # the `KEPT` quantities of layer 1, 2, …
    room: int  # scratch of moving sums over the input filter
    single: FilterSum  # of one tap
    input: FilterSum  # of the input filter
    start: float  # the derivative of a kernel by the kernel at a pixel pair
    ntk: bool
    share: float  # of the linear network, λ
    noise: float  # rounding units that the w of proportional windows may be


class Gradients(NamedTuple):
    """Weights of pairs, and arrays that derivatives are added to, in float64; C-ordered."""

    left_weights: np.ndarray
    right_weights: np.ndarray  # (left case, right case)
    left: np.ndarray  # (left case, L + 1 + channels, pixel)
    right: np.ndarray  # (L + 1 + channels, right table), and a line more
    by_alpha: np.ndarray  # (left case, right case)
    left_pixels: np.ndarray  # (left case, channel, pixel): the signals as `gradients.Signals`
    right_pixels: np.ndarray  # (channel, right table), and a line more
    runs: np.ndarray  # (rows, 3): first row, rows, place of their weights; scratch
    row_weights: np.ndarray  # (2, …): scratch


# -- forth


@compiled
def keep_input(
    group: RowGroup, left: LeftPixels, right_input: int, squares: Taps, constants: Constants,
    way: Way,
) -> bool:  # fmt: skip
    """Compute D and F⁰ of the input; w and v = 1 + ρ of its pixels are kept (`layers.first_layer`).

    Returns whether some pixel pairs are doubtful.
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
            store(memory, places.features + out, 0.0 * w)
            if constants.skip:
                store(memory, places.tangent + out, 0.0 * w)
            else:
                store(memory, places.tangent + out, constants.initial * linear)
            store(memory, way.kept + W * group.length + at, w)
            store(memory, way.kept + KAPPA * group.length + at, v)
    return doubtful


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
    curvature = layer.half_factor * (1.0 - way.share) / math.pi
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
                w, v = load(memory, here + W * length), load(memory, here + KAPPA * length)
            else:
                w, v, some = correlate_distance(
                    group, out, distance, h, root1, root2, inverse, layer
                )  # fmt: skip
                doubtful |= some
            half_g = root1 * root2
            # Windows without variance have ρ = 0, the mean over all ρ.
            w, v = where_less(0.0, half_g, w, 1.0), where_less(0.0, half_g, v, 1.0)
            features = load(memory, places.features + out)
            K, k0 = write_branch(
                group, out, places.features + out, features, h, half_g, w, v, constants, layer, None
            )
            sine = sqrt(w * v)
            store(memory, here + W * length, w)
            store(memory, here + LOST * length, lost_slope(k0, w, v, layer, way.share))
            store(memory, here + BEND * length, curvature * sine)
            store(memory, here + DISTANCE * length, load(memory, places.branch_distance + out))
            if way.ntk:
                A_g = box(memory, tangents, at)
                if constants.skip:
                    A_g = linear_scale * load(memory, linear + at) + A_g
                A_g = tangent_g(A_g, half_g, 1.0 - w, layer)
                total = distance
                if not keeps_root_errors(memory):
                    total = fabs(h) * (root1 + root2) + distance
                size = 2.0 * half_g * where_less(w, v, w, v)
                least = way.noise * total
                if known:  # w of the input's pixels is exact
                    least = 0.0 * total
                kappa = times_slope_adjoint(A_g, inverse, sine, size, least, curvature)
                store(memory, here + KAPPA * length, kappa)
                branch = tangent_branch(times_slope(k0, w, v, layer, A_g), K, layer)
                store(memory, places.tangent_branch + out, branch)
                store(memory, here + BRANCH * length, branch)
            else:
                store(memory, here + BRANCH * length, K)
    return doubtful


@compiled
def pass_forth(
    group: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    constants: Constants, results: Results, way: Way,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers (`rows.pass_layers`)."""
    layers, inner = constants.layers, constants.inner
    memory, places, length, depth = group.memory, group.places, group.length, len(layers) - 1
    boxed, doubtful, squares = 0, False, places.squares
    if places.left_cases > 1:
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


@compiled
def back_layer(
    group: RowGroup, left: LeftPixels, right_root: int, features: Taps, tangents: Taps,
    identity: float, kept: int, layer: Any, way: Way,
) -> None:  # fmt: skip
    """Compute the adjoints of a layer's steps, before its inner filter.

    `features` and `tangents` are the taps of φ = box(F̄) and of box(Ā). `identity` is the box of the
    part of Ā (of F̄, for the Gaussian process kernel) that has come unchanged.
    """
    align_stack()
    memory, length = group.memory, group.length
    stretches, stretch_length = pixel_loops(left, group)
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        first = stretch * stretch_length
        for at in range(first, first + stretch_length, memory.per_vector):
            out, here = group.start + at, kept + at
            root1, root2, h, _ = load_roots(group, left, left.root, right_root, pixel, at, None)
            inverse2 = load(memory, right_root + length + at)
            inverse1 = left_vector(
                left.inverses, left.root + left.step, pixel, at, left.pixels, root2
            )
            w, lost = load(memory, here + W * length), load(memory, here + LOST * length)
            bend, branch = load(memory, here + BEND * length), load(memory, here + BRANCH * length)
            phi = box(memory, features, at)
            if way.ntk:
                beta = identity + box(memory, tangents, at)
                kappa = load(memory, here + KAPPA * length) * beta
                turned = times_slope_of(lost, beta, layer)
                store(memory, way.turned + out, turned)
                through = tangent_g_adjoint(turned, layer)
                K = tangent_branch_adjoint(beta, phi, layer)
            else:
                beta, kappa = identity + 0.0 * w, 0.0 * w
                through, K = times_slope_of(lost, beta, layer), beta + phi
            Sigma = through + kappa + times_slope_of(lost, phi, layer)
            store(memory, way.Sigma + out, Sigma)
            slope, curved, difference = through - lost * phi, bend * K, _ROOT2 * h
            of_left = correlate_adjoint(
                slope, curved, kappa, w, difference, _ROOT2 * root2, inverse1
            )
            of_right = correlate_adjoint(
                slope, curved, kappa, w, 0.0 - difference, _ROOT2 * root1, inverse2
            )
            store(memory, way.left + at, of_left)
            store(memory, way.right + at, of_right)
            numbers = load(memory, way.numbers + at) + beta * branch
            distance = load(memory, here + DISTANCE * length)
            store(memory, way.numbers + at, numbers - phi * distance)


@compiled
def find_runs(rows: RowPlaces, gradients: Gradients, like: int) -> int:
    """Write the runs of rows whose right pixels lie side by side; return their number.

    The weights of a run fill whole vectors of `like` numbers.
    """
    runs, row, number, place = gradients.runs, 0, 0, 0
    while row < rows.number:
        start, end = first_place(rows, row), row + 1
        while (
            end < rows.number
            and rows.each[end].period == rows.each[row].period
            and first_place(rows, end) == start + (end - row)
        ):
            end += 1
        runs[number, 0], runs[number, 1] = row, end - row
        runs[number, 2] = place
        place += (end - row + like - 1) // like * like
        number, row = number + 1, end
    return number


@compiled
def write_weights(rows: RowPlaces, case: int, runs: int, gradients: Gradients, like: int) -> bool:
    """Write the weights of the rows of each run, and 0 behind; return whether any is not 0."""
    some = False
    for run in range(runs):
        row, number, place = gradients.runs[run, 0], gradients.runs[run, 1], gradients.runs[run, 2]
        for k in range((number + like - 1) // like * like):
            left = right = 0.0
            if k < number:
                right_case = rows.each[row + k].case
                left = gradients.left_weights[case, right_case]
                right = gradients.right_weights[case, right_case]
            gradients.row_weights[0, place + k] = left
            gradients.row_weights[1, place + k] = right
            some |= left != 0.0 or right != 0.0
    return some


@compiled
def add_sides(
    group: RowGroup, rows: RowPlaces, runs: int, case: int, table: int, factor: float,
    per_table: int, way: Way, gradients: Gradients, out: Any,
) -> None:  # fmt: skip
    """Add `factor` times the quantities at `way.left` and `way.right`, weighted, to a table."""
    memory, weights = group.memory, out.row_weights
    sums_left, sums_right = out.left, out.right
    zero = 0.0 * load_line(weights, 0)
    line, padded = weights.per_line, gradients.row_weights.shape[1]
    n_tables, d = gradients.left.shape[1], gradients.left.shape[2]
    target = (case * n_tables + table) * d
    for run in range(runs):
        row, number, first = gradients.runs[run, 0], gradients.runs[run, 1], gradients.runs[run, 2]
        place = rows.each[row]
        line_number, pixel = place.offset, 0
        for j in range(group.d):
            source = (line_number * rows.line + place.across + pixel) * rows.stride
            source += place.begin + table * per_table
            total, here = zero, j * group.rows + row
            for k in range(0, number, line):
                of_left = load_like(memory, way.left + here + k, zero)
                total = total + of_left * load_line(weights, first + k)
                of_right = load_like(memory, way.right + here + k, zero)
                more = of_right * (factor * load_line(weights, padded + first + k))
                store(sums_right, source + k, load_line(sums_right, source + k) + more)
            sums_left[target + j] += factor * sum_numbers(total)
            pixel += 1
            if pixel == group.width:
                line_number, pixel = line_number + 1, 0
                if line_number == place.period:
                    line_number = 0


@compiled
def add_pixels(
    group: RowGroup, rows: RowPlaces, runs: int, case: int, adjoint: int, channels: int,
    per_table: int, gradients: Gradients, out: Any,
) -> None:  # fmt: skip
    """Add the derivatives by pixels at fixed variances, F̄⁰ (z − x) and F̄⁰ (x − z), weighted.

    `adjoint` is the place of F̄⁰.
    """
    memory, weights = group.memory, out.row_weights
    sums_left, sums_right = out.left, out.right
    zero = 0.0 * load_line(weights, 0)
    line, padded = weights.per_line, gradients.row_weights.shape[1]
    n_tables, d = gradients.left.shape[1], gradients.left.shape[2]
    tables = n_tables - channels
    for run in range(runs):
        row, number, first = gradients.runs[run, 0], gradients.runs[run, 1], gradients.runs[run, 2]
        place = rows.each[row]
        line_number, pixel = place.offset, 0
        for j in range(group.d):
            source = (line_number * rows.line + place.across + pixel) * rows.stride + place.begin
            here = adjoint + j * group.rows + row
            for channel in range(channels):
                x = repeat_like(out.left_pixels[(case * channels + channel) * d + j], zero)
                total = zero
                pixels, sums = source + channel * per_table, source + (tables + channel) * per_table
                for k in range(0, number, line):
                    f = load_like(memory, here + k, zero)
                    term = f * (x - load_line(out.right_pixels, pixels + k))
                    total = total + term * load_line(weights, first + k)
                    more = term * load_line(weights, padded + first + k)
                    store(sums_right, sums + k, load_line(sums_right, sums + k) + more)
                sums_left[(case * n_tables + tables + channel) * d + j] -= sum_numbers(total)
            pixel += 1
            if pixel == group.width:
                line_number, pixel = line_number + 1, 0
                if line_number == place.period:
                    line_number = 0


@compiled
def pass_back(
    group: RowGroup, rows: RowPlaces, runs: int, left: FlatTables, lefts: np.ndarray, case: int,
    constants: Constants, per_table: int, way: Way, gradients: Gradients, out: Any,
) -> None:  # fmt: skip
    """Take the rows of a group back through all layers, and add up the derivatives."""
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    memory, places, length, depth = group.memory, group.places, group.length, len(layers) - 1
    vector, start = memory.per_vector, way.start
    zero = 0.0 * load(memory, way.numbers)
    for at in range(0, group.size, vector):
        store(memory, way.numbers + at, zero)
        store(memory, way.features + group.start + at, zero)
        store(memory, way.tangent + group.start + at, zero)
    for number in range(depth, 0, -1):
        if constants.stop[0]:
            return
        layer = layers[number]
        kept = way.kept + (number - 1) * KEPT * length
        pixels = addresses(left_pixels(group, left, lefts, case, depth + 1, number))
        right_root = places.right_layers + 3 * number * length
        step, room = layer.outer_step, places.distance_scratch
        features = moving_sum(group, way.features, outer, step, room, None)
        tangents = features
        if way.ntk:
            room = places.tangent_scratch
            tangents = moving_sum(group, way.tangent, outer, step, room, None)
        identity = outer.n_taps * start
        back_layer(group, pixels, right_root, features, tangents, identity, kept, layer, way)
        add_sides(group, rows, runs, case, number, 0.5, per_table, way, gradients, out)
        window, step = inner, layer.inner_step
        if number == 1:
            window, step = way.single, 1
        scale, room = layer.skip_scale, places.distance_scratch
        add_window(group, way.features, way.Sigma, window, step, scale, room)
        if way.ntk:
            add_window(group, way.tangent, way.turned, window, step, scale, room)
        start *= scale
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
    for at in range(0, group.size, vector):
        more = box(memory, taps, at)
        store(memory, way.left + at, more)
        store(memory, way.right + at, more)
    add_sides(group, rows, runs, case, 0, 0.5, per_table, way, gradients, out)
    taps = moving_sum(group, way.features, way.input, 1, way.room, None)
    for at in range(0, group.size, vector):
        store(memory, way.left + at, box(memory, taps, at))
    channels = gradients.left_pixels.shape[1]
    add_pixels(group, rows, runs, case, way.left, channels, per_table, gradients, out)
    add_numbers(group, rows, case, way, gradients)


@compiled
def add_numbers(
    group: RowGroup, rows: RowPlaces, case: int, way: Way, gradients: Gradients
) -> None:  # fmt: skip
    """Add the derivatives by log α² over the pixels of each row."""
    for row in range(rows.number):
        total = 0.0
        for j in range(group.d):
            total += group.memory[way.numbers + j * group.rows + row]
        gradients.by_alpha[case, rows.each[row].case] += total


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
    line = out.row_weights.per_line
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
        runs = find_runs(rows, gradients, line)
        find_grids(rows, 0, results)
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        for case in range(last):
            if constants.stop[0]:
                return
            if together > 1 and case % together == 0:
                write_squares(whole, left.units, lefts, case, last - 1)
            if all_doubtful(rows, case, results):
                continue
            some = write_weights(rows, case, runs, gradients, line)
            pass_forth(whole, rows, left, lefts, case, constants, results, way)
            if some:
                pass_back(
                    whole, rows, runs, left, lefts, case, constants, per_table, way, gradients, out
                )
