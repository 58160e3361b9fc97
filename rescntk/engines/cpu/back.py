"""The compiled way back: derivatives of kernels, one group of rows at a time (engines/adjoint.py).

A group of rows goes through all layers in distances. What the way back needs of each layer is kept,
in the cache. Then the layers come in reverse order, with the adjoints of engines/layer.py. After
each layer, derivatives by variances are multiplied by the weights of their pairs and added up, in
float64. The sums go over the rows at each pixel of the left case, and over the left cases at each
pixel of the right cases. Vectors are short: many numbers are in use at a time, and there is no
polynomial to wait for.
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
from .arguments import PADDING, Constants, FlatTables, Results, RowGroup, RowPlaces, Taps
from .compilation import compiled, compiled_on_disk, inlined_by_llvm, source_stamp
from .groups import gather_rows, resized, rows_of_group, shortened, skipped, write_biases
from .layers import keeps_root_errors, write_squares
from .references import addresses, reference
from .rows import all_doubtful, gather_right, pass_layers
from .substitutes import has_biases, only_with
from .sums import add_taps, add_window, around, moving_sum
from .tape import (
    COSECANT,
    KEPT,
    LOST,
    TANGENT,
    RowGradients,
    Tape,
    W,
    add_line,
    back_vectors,
    keep_correlations,
)
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


def back_biases(
    numbers: Vector, group: RowGroup, row: int, at: int, start: float, Sigma: Vector,
    turned: Vector, layer: Any, tape: Tape, ntk: bool,
) -> Vector:  # fmt: skip
    """Add a layer's part of the derivative by log α² through biases; keep the part by log β.

    A branch's biases add β_x β_z to F, in parts to A, and (β_x − β_z)²/2 to D.
    """
    memory, length = group.memory, group.length
    product = load_line(memory, group.places.biases + row)
    distance = load_line(memory, group.places.biases + length + row)
    features = load_line(memory, tape.features + group.start + at)
    tangent = start + 0.0 * product
    if not tape.everywhere:
        tangent = start * load_line(memory, tape.pixels + group.start + at)
    if ntk:
        tangent = tangent + load_line(memory, tape.tangent + group.start + at)
        tangent = layer.outer_plus_readout * tangent
    branch = layer.bias_branch * (product * tangent - distance * features)
    window = layer.bias_window * (tape.readout * (product * turned) - distance * Sigma)
    biases = load_line(memory, tape.biases + row) + 2.0 * (branch + window)
    store(memory, tape.biases + row, biases)
    return numbers + branch


only_with(
    "bias_window", back_biases,
    lambda numbers, group, row, at, start, Sigma, turned, layer, tape, ntk: numbers,
)  # fmt: skip


@compiled
def back_layer(
    group: RowGroup, left: FlatTables, table: int, right_root: int, features: Taps, tangents: Taps,
    ones: Taps, start: float, n_taps: int, kept: int, right: int, layer: Any, tape: Tape,
    ntk: bool, last: bool, is_first: bool, out: Any, target: int, pixel: int, period: int,
) -> None:  # fmt: skip
    """Compute the adjoints of a layer's steps, before its inner filter.

    `features` and `tangents` are the taps of φ = box(F̄) and of box(Ā). In the `last` layer F̄ and Ā
    are 0, without the part that has come unchanged: it is `start` at the `Tape.pixels`, whose taps
    are `ones`. Where these are all pixels, the outer filter adds up `n_taps`. `table` is the place
    of the left case's table of the layer, `right` of the layer's sums over left cases, and `target`
    of sums over rows in `out.left`. Rows begin at the `pixel` of the left signal, which has
    `period` pixels.
    """
    align_stack()
    memory, length, rows = group.memory, group.length, group.rows
    curvature = layer.half_factor * (1.0 - tape.share) / math.pi
    half = 0.5 * curvature  # inverse1 · inverse2 is 2/g
    for j in range(group.d):
        total = repeat_like(0.0, load_line(memory, tape.numbers))
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
            phi, g, beta = 0.0 * w, 2.0 * (root1 * root2), n_taps * start + 0.0 * w
            if not tape.everywhere:
                beta = start * box_line(memory, ones, at)
            if not last:
                phi = box_line(memory, features, at)
                if ntk:
                    beta = beta + box_line(memory, tangents, at)
            K = g * (bend + times_slope_of(lost, 1.0 - w, layer))
            distance = layer.half_factor * (difference * difference + g) - K
            numbers = load_line(memory, tape.numbers + row) - phi * distance
            if ntk:
                A_g = load_line(memory, here + TANGENT * length)
                kappa = beta * times_slope_adjoint(A_g, inverse1 * inverse2, cosecant, half)
                if tape.turns and is_first:
                    store(memory, tape.kappa + at, kappa)
                    kappa = 0.0 * kappa
                turned = times_slope_of(lost, beta, layer)
                store(memory, tape.turned + group.start + at, turned)
                through = tangent_g_adjoint(turned, layer)
                curved = bend * tangent_branch_adjoint(beta, phi, layer)
                numbers = numbers + beta * tangent_branch(
                    times_slope_of(lost, A_g, layer), K, layer
                )
            else:
                kappa = turned = 0.0 * w
                through, curved = times_slope_of(lost, beta, layer), bend * (beta + phi)
                numbers = numbers + beta * K
            Sigma = through + kappa + times_slope_of(lost, phi, layer)
            numbers = back_biases(
                numbers, group, row, at, start, Sigma, turned=turned, layer=layer, tape=tape,
                ntk=ntk,
            )  # fmt: skip
            store(memory, tape.numbers + row, numbers)
            store(memory, tape.Sigma + group.start + at, Sigma)
            slope, along = through - lost * phi, curved + w * kappa
            of_left = correlate_adjoint(slope, along, kappa, difference, root2, inverse1)
            of_right = correlate_adjoint(slope, along, kappa, 0.0 - difference, root1, inverse2)
            total = total + load_line(memory, tape.left_weights + row) * of_left
            of_right = load_line(memory, tape.right_weights + row) * of_right
            store(memory, right + at, load_line(memory, right + at) + of_right)
        out.left[target + around(pixel + j, period)] += 0.5 * sum_numbers(total)


@compiled
def write_weights(
    group: RowGroup, rows: RowPlaces, case: int, kind: int, tape: Tape, gradients: RowGradients
) -> bool:
    """Write the weights of each row, 0 for repeated rows; return whether any is not 0."""
    some, memory = False, group.memory
    for row in range(group.rows):
        left = right = 0.0
        if row < rows.number:
            right_case = rows.each[row].case
            left = gradients.left_weights[kind, case, right_case]
            right = gradients.right_weights[kind, case, right_case]
        some |= left != 0.0 or right != 0.0
        memory[tape.left_weights + row], memory[tape.right_weights + row] = left, right
    return some


@compiled
def back_input(
    group: RowGroup, left: FlatTables, table: int, right_input: int, squares: Taps, features: Taps,
    first: int, margin: int, tape: Tape, ntk: bool, out: Any,
) -> None:  # fmt: skip
    """Add the derivatives by squares of pixels, and the `BY_INPUT` factors.

    The taps `squares` sum to twice the derivatives by squares, `features` to F̄⁰. The left case's
    first pixel is at `first` in `out`.
    """
    align_stack()
    memory, rows, length = group.memory, group.rows, group.length
    for j in range(group.d):
        pixel = first + around(j - margin, group.d - 2 * margin)
        for row in range(0, rows, memory.per_line):
            at = j * rows + row
            F, more = box_line(memory, features, at), 0.5 * box_line(memory, squares, at)
            own_weights = load_line(memory, tape.left_weights + row)
            weights = load_line(memory, tape.right_weights + row)
            out.left[pixel] += sum_numbers(own_weights * more)
            right, place = tape.right + at, tape.by_input + at
            store(memory, right, load_line(memory, right) + weights * more)
            a, other_a = F, F
            if tape.turns:
                root1, root2, difference, _, _ = line_roots(
                    memory, left, table + j, right_input + at, length
                )
                kappa = 0.0 * F
                w, v = kept_correlation(load_line(memory, tape.kept + W * length + at))
                if ntk:
                    kappa = load_line(memory, tape.kappa + at)
                roots = _ROOT2 * root1, _ROOT2 * root2, _ROOT2 * difference
                a, b, other_a, other_b = input_adjoint(F, kappa, w, v, roots)
                add_line(memory, place + length, own_weights * b)
                add_line(memory, place + 3 * length, weights * other_b)
            add_line(memory, place, own_weights * a)
            add_line(memory, place + 2 * length, weights * other_a)


@compiled
def begin_back(whole: RowGroup, central: RowGroup, tape: Tape) -> None:
    """Write the derivatives by F and by A after all layers, and `Tape.pixels`.

    Rings are 0 beyond the pixels from which the way back has come so far.
    """
    memory, zero = whole.memory, repeat_like(0.0, load(whole.memory, tape.numbers))
    for ring in (tape.features, tape.tangent):
        for at in range(0, whole.length, memory.per_vector):
            store(memory, ring + at, zero)
    if tape.everywhere:
        return
    for ring in (tape.Sigma, tape.turned, tape.pixels):
        for at in range(0, whole.length, memory.per_vector):
            store(memory, ring + at, zero)
    pixels = 1 if tape.one_pixel else central.d
    for at in range(central.start, central.start + pixels * whole.rows):
        memory[tape.pixels + at] = 1.0


@compiled
def pass_back(
    whole: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    constants: Constants, tape: Tape, kind: int, gradients: RowGradients, out: Any,
) -> None:  # fmt: skip
    """Take the rows of a group back through all layers, and add up the derivatives of a kind.

    Open rows become longer with each filter, as they have become shorter on the way forth.
    """
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    ntk = gradients.ntk[kind]
    memory, places, length, depth = whole.memory, whole.places, whole.length, len(layers) - 1
    vector, start, ones = memory.per_vector, 1.0, Taps(0, 0, 0, True)
    table, period = lefts[case].first * (depth + 1), whole.d - 2 * constants.margin
    for row in range(whole.rows):
        memory[tape.numbers + row] = memory[tape.biases + row] = 0.0
    group = addresses(shortened(whole, constants.margin))
    begin_back(whole, group, tape)
    for number in range(depth, 0, -1):
        if constants.stop[0]:
            return
        layer = layers[number]
        step, room = layer.outer_step, places.distance_scratch
        group = addresses(shortened(group, -step * (outer.size // 2)))
        skip = skipped(group) * group.rows
        features = moving_sum(group, tape.features, outer, step, room, None)
        tangents, room = features, places.tangent_scratch
        if ntk:
            tangents = moving_sum(group, tape.tangent, outer, step, room, None)
        if not tape.everywhere:
            ones = moving_sum(group, tape.pixels, outer, step, tape.room, None)
        back_layer(
            group, left, table + number * lefts[case].pixels + skipped(group),
            places.right_layers + 3 * number * length + skip, features, tangents, ones=ones,
            start=start, n_taps=outer.n_taps, kept=tape.kept + (number - 1) * KEPT * length + skip,
            right=tape.right + number * length + skip, layer=layer, tape=tape, ntk=ntk,
            last=number == depth, is_first=number == 1, out=out,
            target=number * out.n_left + out.begins[case], pixel=skipped(group) - constants.margin,
            period=period,
        )  # fmt: skip
        window, step = inner, layer.inner_step
        if number == 1:
            window, step = tape.single, 1
        group = addresses(shortened(group, -step * (window.size // 2)))
        scale, room = layer.skip_scale, places.distance_scratch
        add_window(group, tape.features, tape.Sigma, window, step, scale, room=room)
        if ntk:
            add_window(group, tape.tangent, tape.turned, window, step, scale, room=room)
        start *= scale
    for row in range(rows.number):
        right = rows.each[row].case
        gradients.by_numbers[kind, 0, case, right] += memory[tape.numbers + row]
        gradients.by_numbers[kind, 1, case, right] += memory[tape.biases + row]
    # Of the input: Ā⁰ and, unless the mean of F⁰ is apart, what has come unchanged.
    initial = constants.initial if ntk else 1.0
    if constants.adds_mean:
        start = 0.0
    for at in range(group.start, group.start + group.size, vector):
        unchanged = repeat_like(start, load(memory, tape.tangent + at))
        if not tape.everywhere:
            unchanged = start * load(memory, tape.pixels + at)
        more = initial * (unchanged + load(memory, tape.tangent + at))
        store(memory, tape.tangent + at, more)
        features = load(memory, tape.features + at)
        store(memory, tape.features + at, features + more)
    squares = moving_sum(whole, tape.tangent, tape.input, 1, tape.room, None)
    room = tape.room + tape.input.pieces * length
    taps = moving_sum(whole, tape.features, tape.input, 1, room, None)
    back_input(
        whole, left, table, places.right_layers, squares, taps, first=out.begins[case],
        margin=constants.margin, tape=tape, ntk=ntk, out=out,
    )  # fmt: skip


@compiled
def add_right(
    group: RowGroup, rows: RowPlaces, depth: int, tables: int, tape: Tape, out: Any
) -> None:
    """Add the sums of a group to the right tables, and make them 0."""
    memory = group.memory
    for row in range(rows.number):
        place = rows.each[row]
        line, pixel, begin = place.offset, 0, place.begin - out.first_right
        for j in range(group.d):
            source = (line * rows.line + place.across + pixel) * rows.stride + begin
            at = tape.right + j * group.rows + row
            for table in range(tables):
                factor = 0.5 if 0 < table <= depth else 1.0
                out.right[table * out.n_right + source] += factor * memory[at]
                at += group.length
            pixel += 1
            if pixel == group.width:
                line, pixel = line + 1, 0
                if line == place.period:
                    line = 0
    for at in range(tables * group.length):
        memory[tape.right + at] = 0.0


@compiled_on_disk
def derive(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces, diagonal_shift: int,
    whole: RowGroup, constants: Constants, results: Results, tape: Tape, gradients: RowGradients,
    stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute derivatives of a weighted sum of kernels of left cases with right cases.

    The other arguments are as for `rows.compute`.
    """
    layers, group_rows = len(constants.layers), whole.rows
    per_table = (len(right.inverse) - PADDING) // layers
    out = addresses(gradients)
    gradients = reference(gradients)
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    tape = addresses(tape)
    together, n_tables = whole.places.left_cases, layers + gradients.n_channels
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        gather_right(whole, right, rows, layers, per_table)
        for table in range(2 * gradients.n_channels):
            place, first_number = tape.right_pixels + table * whole.length, table * out.n_right
            gather_rows(whole, place, out.right_pixels, first_number - out.first_right, rows)
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        for case in range(last):
            if constants.stop[0]:
                return
            group = addresses(resized(whole, lefts[case].pixels, whole.start))
            if not tape.turns and together > 1 and case % together == 0:
                write_squares(group, left.units, lefts, case, last - 1)
            if all_doubtful(rows, case, results):
                continue
            if has_biases(constants.layers[0]):
                write_biases(group, rows, case, results, group.d)
            passed = False
            for kind in range(len(gradients.ntk)):
                if not write_weights(whole, rows, case, kind, tape, gradients):
                    continue
                if not passed and tape.turns:
                    keep_correlations(group, case, constants, tape, out)
                if not passed:
                    pass_layers(
                        group, rows, left, lefts, case, constants, results=results, tape=tape,
                        sides=None,
                    )  # fmt: skip
                pass_back(
                    group, rows, left, lefts, case, constants, tape=tape, kind=kind,
                    gradients=gradients, out=out,
                )  # fmt: skip
                passed = True
            if passed:
                back_vectors(group, layers, out.begins[case], constants.margin, tape, out)
        add_right(whole, rows, layers - 1, n_tables, tape, out)
