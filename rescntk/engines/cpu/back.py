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
from .arguments import Constants, FlatTables, RowGroup, RowPlaces, Taps
from .compilation import compiled, inlined_by_llvm
from .groups import keeps_root_errors, shortened, skipped
from .references import addresses
from .substitutes import only_with
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
    memory: Numbers, left: FlatTables | None, table: int, right: int, length: int
) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return √(q1/2), √(q2/2), their difference, √(2/q1) and √(2/q2) (`layers.load_roots`).

    `table` is the pixel's place in the left tables, `right` the place in the right ones. Without
    left tables, `right` is the place of the `ROOTS` that deficits keep.
    """
    if left is None:
        root1, root2 = load_line(memory, right), load_line(memory, right + length)
        inverse1 = where_less(0.0, root1, 1.0 / root1, 0.0)
        inverse2 = where_less(0.0, root2, 1.0 / root2, 0.0)
        return root1, root2, load_line(memory, right + 2 * length), inverse1, inverse2
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
    group: RowGroup, left: FlatTables | None, table: int, roots: int, features: Taps,
    tangents: Taps, ones: Taps, start: float, n_taps: int, kept: int, right: int, layer: Any,
    tape: Tape, ntk: bool, last: bool, is_first: bool, out: Any, target: int, pixel: int,
    period: int,
) -> None:  # fmt: skip
    """Compute the adjoints of a layer's steps, before its inner filter.

    `features` and `tangents` are the taps of φ = box(F̄) and of box(Ā). In the `last` layer F̄ and Ā
    are 0, without the part that has come unchanged: it is `start` at the `Tape.pixels`, whose taps
    are `ones`. Where these are all pixels, the outer filter adds up `n_taps`. `table` and `roots`
    are the places of the layer's roots (`line_roots`), `right` of its sums over left cases, and
    `target` of sums over rows in `out.left`. Rows begin at the `pixel` of the left signal, which
    has `period` pixels. Without left tables, left signals have sums as right ones have.
    """
    align_stack()
    memory, length, rows = group.memory, group.length, group.rows
    curvature = layer.half_factor * (1.0 - tape.share) / math.pi
    half = 0.5 * curvature  # inverse1 · inverse2 is 2/g
    for j in range(group.d):
        total = repeat_like(0.0, load_line(memory, tape.numbers))
        for row in range(0, rows, memory.per_line):
            at = j * rows + row
            kept_at = kept + at
            root1, root2, difference, inverse1, inverse2 = line_roots(
                memory, left, table + j, roots + at, length
            )
            w, v = kept_correlation(load_line(memory, kept_at + W * length))
            lost = load_line(memory, kept_at + LOST * length)
            cosecant = load_line(memory, kept_at + COSECANT * length)
            bend = curvature * (w * v * cosecant)  # c (1 − λ) sin θ/(2π)
            phi, g, beta = 0.0 * w, 2.0 * (root1 * root2), n_taps * start + 0.0 * w
            if not tape.everywhere:
                beta = start * box_line(memory, ones, at)
            if not last:
                phi = box_line(memory, features, at)
                if ntk:
                    beta = beta + box_line(memory, tangents, at)
            K = g * (bend + times_slope_of(lost, 1.0 - w, layer))
            # c (z + g (1 − κ1))/2; φ grows like 1/θ, and a difference of g and K loses θ².
            deficit = g * (times_slope_of(lost, w, layer) + (lost - bend))
            distance = layer.half_factor * (difference * difference) + deficit
            numbers = load_line(memory, tape.numbers + row) - phi * distance
            if ntk:
                A_g = load_line(memory, kept_at + TANGENT * length)
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
            of_left = load_line(memory, tape.left_weights + row) * of_left
            if left is None:
                add_line(memory, right + (tape.left - tape.right) + at, of_left)
            else:
                total = total + of_left
            add_line(memory, right + at, load_line(memory, tape.right_weights + row) * of_right)
        if left is not None:
            out.left[target + around(pixel + j, period)] += 0.5 * sum_numbers(total)


@compiled
def back_input(
    group: RowGroup, left: FlatTables | None, table: int, roots: int, squares: Taps, features: Taps,
    first: int, margin: int, tape: Tape, ntk: bool, out: Any,
) -> None:  # fmt: skip
    """Add the derivatives by squares of pixels, and the `BY_INPUT` factors.

    The taps `squares` sum to twice the derivatives by squares, `features` to F̄⁰. `table` and
    `roots` are the places of the input's roots (`line_roots`). The left case's first pixel is at
    `first` in `out`.
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
            if left is None:
                add_line(memory, tape.left + at, own_weights * more)
            else:
                out.left[pixel] += sum_numbers(own_weights * more)
            add_line(memory, tape.right + at, weights * more)
            place, a, other_a = tape.by_input + at, F, F
            if tape.turns:
                root1, root2, difference, _, _ = line_roots(
                    memory, left, table + j, roots + at, length
                )
                kappa = 0.0 * F
                w, v = kept_correlation(load_line(memory, tape.kept + W * length + at))
                if ntk:
                    kappa = load_line(memory, tape.kappa + at)
                both = _ROOT2 * root1, _ROOT2 * root2, _ROOT2 * difference
                a, b, other_a, other_b = input_adjoint(F, kappa, w, v, both)
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
    whole: RowGroup, rows: RowPlaces, left: FlatTables | None, lefts: np.ndarray, case: int,
    constants: Constants, tape: Tape, kind: int, gradients: RowGradients, out: Any,
) -> None:  # fmt: skip
    """Take the rows of a group back through all layers, and add up the derivatives of a kind.

    Open rows become longer with each filter, as they have become shorter on the way forth. Without
    left tables, each row has its own pair, and the tape keeps its roots.
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
        kept = tape.kept + (number - 1) * tape.per_layer * length + skip
        roots = kept + KEPT * length
        if left is not None:
            roots = places.right_layers + 3 * number * length + skip
        back_layer(
            group, left, table + number * lefts[case].pixels + skipped(group), roots, features,
            tangents, ones=ones, start=start, n_taps=outer.n_taps, kept=kept,
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
    roots = tape.input_roots
    if left is not None:
        roots = places.right_layers
    back_input(
        whole, left, table, roots, squares, taps, first=out.begins[case],
        margin=constants.margin, tape=tape, ntk=ntk, out=out,
    )  # fmt: skip
