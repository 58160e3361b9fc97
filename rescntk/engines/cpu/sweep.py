"""The sweep: one register of rows at a time through all layers, for filters of three pixels.

A *strip* is a group of as many rows as a register has numbers. Its state stays in the first-level
cache. At each pixel pair it carries box(D) and box(A), the sums over the next layer's window, and
Σ K and Σ T, the sums over layers of the branches K and K̇ ⊙ A_g + (o + r) K before their filter. A
layer adds both filters' sums of its branch at once: sums of three sums of three pixels, which
stay in registers.

Layers are pipelined. One pass of the loop reads pixel j + 2 and takes its square root, computes the
polynomials of pixel j + 1 and the branch of pixel j, and sums the branches up to pixel j − 1: four
chains of instructions that do not wait for one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...activations import _kappas, _scaled_dual
from ..layer import branch_distance, correlate, tangent_branch, tangent_g, times_slope
from .arguments import PADDING, Constants, FlatTables, Results, RowGroup, RowPlaces, Side
from .compilation import compiled, compiled_on_disk, inlined_by_llvm, source_stamp
from .groups import first_place, resized, rows_of_group
from .heads import find_grids, take_doubts, write_results
from .layers import CHANNELS, add_doubt, keeps_root_errors, may_be_doubtful
from .rows import all_doubtful
from .sums import add_compensated
from .vectors import (
    Numbers,
    Vector,
    addresses,
    align_stack,
    any_negative,
    fabs,
    load_register,
    places_like,
    reference,
    repeat_like,
    sqrt,
    store,
    where_less,
)

AHEAD = 2
"""Pixels by which loads are ahead of the branch."""

KEPT = 4
"""Pixels at the beginning of a row whose branches are kept, for the windows across its seam."""


# -- the rows of a strip


@inlined_by_llvm
def copy_table(
    strip: RowGroup, out: int, values: Numbers, table: int, rows: RowPlaces, row: int
) -> None:
    """Copy a table of the right case of `row`, to this row and all rows after it.

    Rows of one case follow one another. Rows of later cases are copied later.
    """
    memory, place = strip.memory, rows.each[row]
    source, turn = place.offset, place.period
    begin, places = table + place.begin - row, places_like(load_register(memory, out))
    for at in range(out, out + strip.d * strip.rows, strip.rows):
        other = load_register(values, begin + source * rows.stride)
        store(memory, at, where_less(places, row, load_register(memory, at), other))
        source += 1
        if source == turn:
            source = 0


@compiled
def copied_side(
    strip: RowGroup, right: FlatTables, rows: RowPlaces, tables: int, number: int
) -> Side:
    """Copy the right cases' tables to the rows of a strip, whose vectors they then fill."""
    memory, places, length = strip.memory, strip.places, strip.length
    row = 0
    while row < rows.number:
        for channel in range(places.channels):
            out = places.right_units + channel * length
            copy_table(strip, out, right.units, channel * number, rows, row)
        for layer in range(tables):
            out = places.right_layers + 3 * layer * length
            copy_table(strip, out, right.half_root, layer * number, rows, row)
            copy_table(strip, out + length, right.inverse, layer * number, rows, row)
            if keeps_root_errors(memory):
                copy_table(strip, out + 2 * length, right.lost, layer * number, rows, row)
        case = rows.each[row].case
        row += 1
        while row < rows.number and (rows.each[row].case == case or rows.stride > 1):
            row += 1
    return Side(
        memory, memory, memory, memory, places.right_units, length, places.right_layers,
        places.right_layers + length, places.right_layers + 2 * length, 3 * length, strip.rows,
    )  # fmt: skip


@compiled
def right_side(
    strip: RowGroup, right: FlatTables, rows: RowPlaces, tables: int, number: int
) -> Side:
    """Return the tables of a strip's rows; a table has `number` numbers.

    Rows of one case lie side by side in its tables, as in a register.
    """
    first, last = rows.each[0], rows.each[strip.rows - 1]
    if strip.closed and rows.stride == 1 and last.offset - first.offset == strip.rows - 1:
        at = first_place(rows, 0)
        return Side(
            right.units, right.half_root, right.inverse, right.lost, at, number, at, at, at, number, 1
        )  # fmt: skip
    return copied_side(strip, right, rows, tables, number)


# -- layers


@inlined_by_llvm
def add_square(
    total: Vector, left: Side, right: Side, unit: int, place: int, sign: float
) -> Vector:  # fmt: skip
    """Add (û + sign · v̂)² of a channel of the input's pixels."""
    other = load_register(right.units, place)
    term = repeat_like(left.units[unit], other) + sign * other
    return total + term * term


@compiled
def half_square(left: Side, right: Side, pixel: int, channels: int, sign: float) -> Vector:
    """Return |û + sign · v̂|²/2 of unit vectors û, v̂ of the input's pixels (layers.py)."""
    unit, place = left.unit + pixel, right.unit + pixel * right.pixel
    total = lost = repeat_like(0.0, load_register(right.units, place))
    for first in range(0, channels, CHANNELS):
        part = repeat_like(0.0, total)
        for _ in range(first, min(first + CHANNELS, channels)):
            part = add_square(part, left, right, unit, place, sign)
            unit, place = unit + left.unit_step, place + right.unit_step
        if first == 0:
            total = part
        else:
            total, lost = add_compensated(total, lost, part)
    return 0.5 * total


@inlined_by_llvm
def add_channels(
    strip: RowGroup, left: Side, right: Side, channel: int, number: int, first: bool
) -> None:  # fmt: skip
    """Add (û − v̂)² of some channels to the sums that the first layer reads as w."""
    memory, rows, out = strip.memory, strip.rows, strip.places.features
    units1, step1, unit = left.units, left.unit_step, left.unit + channel * left.unit_step
    units2, step2, pixel = right.units, right.unit_step, right.pixel
    place = right.unit + channel * right.unit_step
    for at in range(out, out + strip.d * rows, rows):
        total = repeat_like(0.0, load_register(units2, place))
        if not first:
            total = load_register(memory, at)
        for k in range(number):
            other = load_register(units2, place + k * step2)
            term = repeat_like(units1[unit + k * step1], other) - other
            total = total + term * term
        store(memory, at, total)
        unit, place = unit + 1, place + pixel


@compiled
def write_angles(strip: RowGroup, left: Side, right: Side, opposite: float) -> None:
    """Write w = 1 − ρ and v = 1 + ρ of the input's pixels, where the first layer reads them."""
    align_stack()
    memory, places, rows, channels = strip.memory, strip.places, strip.rows, strip.places.channels
    channel = 0
    if channels <= CHANNELS:
        if channels >= 4:
            add_channels(strip, left, right, 0, 4, True)
            channel = 4
        else:
            add_channels(strip, left, right, 0, 1, True)
            channel = 1
        while channel + 4 <= channels:
            add_channels(strip, left, right, channel, 4, False)
            channel += 4
        while channel < channels:
            add_channels(strip, left, right, channel, 1, False)
            channel += 1
    w_place, v_place = places.features, places.tangent_branch
    for pixel in range(strip.d):
        if channels <= CHANNELS:
            w = 0.5 * load_register(memory, w_place + pixel * rows)
        else:
            w = half_square(left, right, pixel, channels, -1.0)
        v = 2.0 - w
        if any_negative(opposite - w):
            v = where_less(opposite, w, half_square(left, right, pixel, channels, 1.0), v)
        store(memory, w_place + pixel * rows, w)
        store(memory, v_place + pixel * rows, v)


@inlined_by_llvm
def load_pixel(left: Side, right: Side, table: int, pixel: int) -> tuple[Vector, Vector, Vector]:
    """Return √(q1/2), √(q2/2) and their difference at a pixel of each row."""
    at, place = left.root + table * left.step + pixel, table * right.step + pixel * right.pixel
    root2 = load_register(right.roots, right.root + place)
    root1 = repeat_like(left.roots[at], root2)
    h = root1 - root2
    if keeps_root_errors(right.roots):
        lost = repeat_like(left.lost[at], root2)
        h = h + (lost - load_register(right.lost, right.lost_root + place))
    return root1, root2, h


@compiled
def sweep_layer(
    strip: RowGroup, left: Side, right: Side, number: int, constants: Constants, layer: Any,
    with_tangent: Any, enters: Any,
) -> bool:  # fmt: skip
    """Take a strip through a layer. Return whether some pixel pairs are doubtful.

    `enters` in the first layer, `with_tangent` if the tangent kernel is asked for; else None.
    """
    align_stack()
    memory, places, rows, d = strip.memory, strip.places, strip.rows, strip.d
    last, doubtful = number == len(constants.layers) - 1, False
    skip_scale, sum_scale, tangent_scale = layer.skip_scale, layer.sum_scale, layer.skip_scale
    linear_scale, initial = constants.initial * layer.linear_scale, constants.initial
    coefficients = constants.p, constants.r
    roots1, inverses1, lost1 = left.roots, left.inverses, left.lost
    roots2, inverses2, lost2 = right.roots, right.inverses, right.lost
    table1, step = left.root + number * left.step, right.pixel
    root_place = right.root + number * right.step
    inverse_place = right.inverse + number * right.step
    lost_place = right.lost_root + number * right.step
    D_place, A_place = places.distance, places.tangent
    K_place, T_place = places.features, places.tangent_branch
    linear_place, box_place, doubt_place = places.linear, places.linear_box, places.doubt
    kept_D, kept_T, kept_input = places.branch_distance, places.K, places.other_distance
    zero = repeat_like(0.0, load_register(memory, D_place))
    # Of pixel j + 1: w, v, √a, z, g/2 and `total`; of pixel j: 1 − κ1, K̇ ⊙ A_g, z and g/2.
    w1 = v1 = root1 = z1 = half_g1 = total1 = state1 = zero
    k0 = kappa0 = plus0 = turned0 = z0 = half_g0 = zero
    distance = tangent = zero  # of pixel j − 1
    distance1 = distance2 = distances1 = distances2 = zero  # earlier ones, and their sums
    tangent1 = tangent2 = tangents1 = tangents2 = zero
    input1 = input2 = linear1 = linear2 = zero
    for j in range(-AHEAD, d):
        # The pixel j + 2.
        pixel = min(j + AHEAD, d - 1)
        right_root = load_register(roots2, root_place + pixel * step)
        left_root = repeat_like(roots1[table1 + pixel], right_root)
        h = left_root - right_root
        if keeps_root_errors(memory):
            lost = repeat_like(lost1[table1 + pixel], right_root)
            h = h + (lost - load_register(lost2, lost_place + pixel * step))
        z2, half_g2 = h * h, left_root * right_root
        if enters is not None:
            w2 = load_register(memory, K_place + pixel * rows)
            v2 = load_register(memory, T_place + pixel * rows)
            left_root, right_root, h = load_pixel(left, right, 0, pixel)
            g = 2.0 * (left_root * right_root)
            gw = g * w2
            input3, linear = h * h + gw, g - gw
            total2, state2 = zero, initial * linear
            store(memory, linear_place + pixel * rows, linear)
            if pixel < 2:
                store(memory, kept_input + pixel * rows, input3)
            out = pixel - 1 if 1 < pixel == j + AHEAD else d
            store(memory, D_place + out * rows, input2 + (input1 + input3))
            store(memory, box_place + out * rows, linear2 + (linear1 + linear))
            if j + AHEAD < d:
                input2, input1, linear2, linear1 = input1, input3, linear1, linear
        else:
            box = load_register(memory, D_place + pixel * rows)
            inverse = load_register(inverses2, inverse_place + pixel * step)
            inverse = inverse * inverses1[table1 + pixel]
            w2 = correlate(box - z2, inverse)
            v2 = 2.0 - w2
            total2 = box
            if not keeps_root_errors(memory):
                total2 = fabs(h) * (left_root + right_root) + box
            state2 = zero
        root2 = sqrt(where_less(w2, v2, w2, v2))
        # The pixel j + 1.
        if enters is None:
            if may_be_doubtful(total1, root1, layer):
                place = doubt_place + (j + 1) * rows
                doubtful |= add_doubt(memory, place, total1, root1, half_g1, layer)
        parts1 = _kappas(w1, v1, root1, layer, coefficients)
        turned1 = zero
        if with_tangent is not None:
            state = state1
            if enters is None:
                place = (j + 1) * rows
                linear = load_register(memory, box_place + place)
                state = linear_scale * linear + load_register(memory, A_place + place)
            state = tangent_g(state, half_g1, 1.0 - w1, layer)
            turned1 = times_slope(parts1[0], w1, v1, layer, state)
        # The windows up to the pixel j − 1.
        distances = distance2 + (distance1 + distance)
        if with_tangent is not None:
            tangents = tangent2 + (tangent1 + tangent)
        if j > KEPT and not last:
            out = (j - 3) * rows
            state = load_register(memory, D_place + out)
            box = distances2 + (distances1 + distances)
            store(memory, D_place + out, skip_scale * state + box)
            if with_tangent is not None:
                box = tangents2 + (tangents1 + tangents)
                if enters is None:
                    state = load_register(memory, A_place + out)
                    box = tangent_scale * state + box
                store(memory, A_place + out, box)
        distance2, distance1, distances2, distances1 = distance1, distance, distances1, distances
        if with_tangent is not None:
            tangent2, tangent1, tangents2, tangents1 = tangent1, tangent, tangents1, tangents
        # The pixel j.
        branch = _scaled_dual(half_g0, (k0, kappa0, plus0), layer)
        distance = branch_distance(z0, branch.deficit, layer)
        place = K_place + j * rows
        total = branch.K
        if enters is None:
            total = sum_scale * load_register(memory, place) + total
        store(memory, place, total)
        if with_tangent is not None:
            tangent = tangent_branch(turned0, branch.K, layer)
            place = T_place + j * rows
            total = tangent
            if enters is None:
                total = sum_scale * load_register(memory, place) + total
            store(memory, place, total)
        if j < KEPT:
            store(memory, kept_D + j % KEPT * rows, distance)
            store(memory, kept_T + j % KEPT * rows, tangent)
        w1, v1, root1, z0, half_g0, z1, half_g1, total1, state1 = (
            w2, v2, root2, z1, half_g1, z2, half_g2, total2, state2,
        )  # fmt: skip
        k0, kappa0, plus0 = parts1
        turned0 = turned1
    if last:
        return doubtful
    if enters is not None:
        for j in range(d, d + 2):
            input3 = load_register(memory, kept_input + j % d * rows)
            linear = load_register(memory, linear_place + j % d * rows)
            if j > 1:
                out = (j - 1) % d * rows
                box = input2 + (input1 + input3)
                # The branch is added
                store(memory, D_place + out, box)
                store(memory, box_place + out, linear2 + (linear1 + linear))
            input2, input1, linear2, linear1 = input1, input3, linear1, linear
    for j in range(d, d + KEPT + 1):
        distances = distance2 + (distance1 + distance)
        tangents = tangent2 + (tangent1 + tangent)
        if j > KEPT:
            out = (j - 3) % d * rows
            state = load_register(memory, D_place + out)
            box = distances2 + (distances1 + distances)
            store(memory, D_place + out, skip_scale * state + box)
            box = tangents2 + (tangents1 + tangents)
            if enters is None:
                state = load_register(memory, A_place + out)
                box = tangent_scale * state + box
            store(memory, A_place + out, box)
        distance2, distance1, distances2, distances1 = distance1, distance, distances1, distances
        tangent2, tangent1, tangents2, tangents1 = tangent1, tangent, tangents1, tangents
        place = (j - d) % d * rows
        distance = load_register(memory, kept_D + place)
        tangent = load_register(memory, kept_T + place)
    return doubtful


@compiled
def sweep_strip(
    strip: RowGroup, rows: RowPlaces, left: Side, right: Side, case: int, constants: Constants,
    results: Results, with_tangent: Any,
) -> None:  # fmt: skip
    """Take one left case with a strip through all layers, and write the results."""
    memory, places, layers, doubtful = strip.memory, strip.places, constants.layers, False
    central = addresses(
        resized(strip, strip.d - 2 * constants.margin, strip.start + constants.margin * strip.rows)
    )
    for number in range(1, len(layers)):
        if constants.stop[0]:
            return
        layer = layers[number]
        if number == 1:
            write_angles(strip, left, right, constants.nearly_opposite)
            sweep_layer(strip, left, right, number, constants, layer, with_tangent, True)
        else:
            doubtful |= sweep_layer(
                strip, left, right, number, constants, layer, with_tangent, None
            )
        if layer.slot >= 0:
            write_results(central, rows, case, layer.slot, constants, results, layer)
    if doubtful:
        take_doubts(central, rows, case, results)
        for at in range(strip.d * strip.rows):
            memory[places.doubt + at] = 0.0


@compiled_on_disk
def sweep(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces,
    diagonal_shift: int, only_diagonal: bool, whole: RowGroup, constants: Constants,
    results: Results, with_tangent: Any, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, as `rows.compute`, one strip at a time."""
    tables, strip_rows = len(constants.layers), whole.rows
    number = (len(right.inverse) - PADDING) // tables
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    channels = whole.places.channels
    for first in range(0, rights.number, strip_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, strip_rows))
        others = addresses(right_side(whole, right, rows, tables, number))
        last = min(len(lefts), rows.each[strip_rows - 1].case + diagonal_shift + 1)
        left_length = -1
        for case in range(rows.each[0].case if only_diagonal else 0, last):
            if lefts[case].length != left_length:
                left_length = lefts[case].length
                find_grids(rows, left_length, results)
            if not all_doubtful(rows, case, results):
                d, pixel = lefts[case].pixels, lefts[case].first
                root = pixel * tables
                side = Side(
                    left.units, left.half_root, left.inverse, left.lost, pixel * channels, d, root,
                    root, root, d, 1,
                )  # fmt: skip
                strip = addresses(resized(whole, d, whole.start))
                sweep_strip(strip, rows, addresses(side), others, case, constants, results, with_tangent)
