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

from typing import Any, NamedTuple

import numpy as np

from ...activations import _kappas, _scaled_dual
from ..layer import branch_distance, correlate, tangent_branch, tangent_g, times_slope
from .arguments import PADDING, Constants, FlatTables, Results, RowGroup, RowPlaces, Side
from .compilation import compiled, compiled_on_disk, inlined_by_llvm, source_stamp
from .groups import first_place, resized, rows_of_group
from .heads import find_grids, take_doubts, write_sums
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

class Window(NamedTuple):
    """The last two numbers before a pixel, and the last two sums of three numbers."""

    first: Vector
    second: Vector
    sums: Vector
    more: Vector


class Ahead(NamedTuple):
    """The numbers of a pixel as far as its √a."""

    w: Vector
    v: Vector
    root: Vector
    z: Vector
    half_g: Vector
    total: Vector
    tangent: Vector


class Before(NamedTuple):
    """The numbers of a pixel as far as its polynomials."""

    one_minus_kappa1: Vector
    turned: Vector
    z: Vector
    half_g: Vector


class State(NamedTuple):
    """What a pass of the loop leaves for the next one."""

    ahead: Ahead
    before: Before
    D: Vector
    T: Vector
    D_window: Window
    T_window: Window
    entry: Window
    linears: Window
    doubtful: bool


class Layer(NamedTuple):
    """Addresses, places and constants of a layer."""

    memory: Numbers
    roots1: Numbers
    inverses1: Numbers
    lost1: Numbers
    roots2: Numbers
    inverses2: Numbers
    lost2: Numbers
    table1: int
    input1: int
    root2: int
    inverse2: int
    lost_place: int
    input2: int
    lost_input: int
    step: int
    rows: int
    d: int
    D: int
    A: int
    K: int
    T: int
    linear: int
    box: int
    doubt: int
    kept_D: int
    kept_T: int
    kept_input: int
    skip_scale: Any
    sum_scale: Any
    linear_scale: Any
    initial: Any
    p: Numbers
    r: Numbers


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
    for at in range(out, out + (strip.d + AHEAD) * strip.rows, strip.rows):
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
    memory, rows, out = strip.memory, strip.rows, strip.places.features + strip.start
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
    w_place, v_place = places.features + strip.start, places.tangent_branch + strip.start
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


@inlined_by_llvm
def sum_windows(last: Window, number: Vector) -> tuple[Vector, Window]:
    """Return the sum of three sums of three numbers, the last of them `number`."""
    total = last.second + (last.first + number)
    box = last.more + (last.sums + total)
    return box, Window(number, last.first, total, last.sums)


@inlined_by_llvm
def look_ahead(at: Layer, pixel: int, layer: Any, enters: bool) -> tuple[Ahead, Vector, Vector]:
    """Return the numbers of a pixel as far as its √a; and D and F⁰ of the input."""
    memory, table2 = at.memory, pixel * at.step
    right_root = load_register(at.roots2, at.root2 + table2)
    left_root = repeat_like(at.roots1[at.table1 + pixel], right_root)
    h = left_root - right_root
    if keeps_root_errors(memory):
        lost = repeat_like(at.lost1[at.table1 + pixel], right_root)
        h = h + (lost - load_register(at.lost2, at.lost_place + table2))
    z, half_g = h * h, left_root * right_root
    ring = pixel * at.rows
    if enters:
        w, v = load_register(memory, at.K + ring), load_register(memory, at.T + ring)
        right_root = load_register(at.roots2, at.input2 + table2)
        left_root = repeat_like(at.roots1[at.input1 + pixel], right_root)
        h = left_root - right_root
        if keeps_root_errors(memory):
            lost = repeat_like(at.lost1[at.input1 + pixel], right_root)
            h = h + (lost - load_register(at.lost2, at.lost_input + table2))
        g = 2.0 * (left_root * right_root)
        gw = g * w
        distance, linear = h * h + gw, g - gw
        total, tangent = distance, at.initial * linear
    else:
        distance = load_register(memory, at.D + ring)
        inverse = load_register(at.inverses2, at.inverse2 + table2)
        inverse = inverse * at.inverses1[at.table1 + pixel]
        w = correlate(distance - z, inverse)
        v = 2.0 - w
        linear = tangent = total = distance
        if not keeps_root_errors(memory):
            total = fabs(h) * (left_root + right_root) + distance
    return Ahead(w, v, sqrt(where_less(w, v, w, v)), z, half_g, total, tangent), distance, linear


@inlined_by_llvm
def pass_pixel(
    at: Layer, j: int, state: State, layer: Any, with_tangent: Any, enters: bool, begins: bool
) -> State:
    """Take the pixels j + 2, j + 1, j and j − 1 one step further. See the head of this file.

    `begins` at the first pixels, whose windows have no left half yet.
    """
    memory, rows, doubtful = at.memory, at.rows, state.doubtful
    # Pixel j + 2.
    ahead, distance, linear = look_ahead(at, j + AHEAD, layer, enters)
    entry, linears = state.entry, state.linears
    if enters:
        place = (j + AHEAD) * rows
        store(memory, at.linear + place, linear)
        store(memory, at.D + place - rows, entry.second + (entry.first + distance))
        store(memory, at.box + place - rows, linears.second + (linears.first + linear))
        if begins:
            if j < 0:
                store(memory, at.kept_input + place, distance)
        entry = Window(distance, entry.first, entry.second, entry.sums)
        linears = Window(linear, linears.first, linears.second, linears.sums)
    # Pixel j + 1.
    now, place = state.ahead, (j + 1) * rows
    if not enters:
        if may_be_doubtful(now.total, now.root, layer):
            if j + 1 < at.d and add_doubt(
                memory, at.doubt + place, now.total, now.root, now.half_g, layer
            ):
                doubtful = True
    k0, one_minus_kappa1, _ = _kappas(now.w, now.v, now.root, layer, (at.p, at.r))
    turned = now.total
    if with_tangent is not None:
        A = now.tangent
        if not enters:
            A = load_register(memory, at.A + place)
            A = at.linear_scale * load_register(memory, at.box + place) + A
        A = tangent_g(A, now.half_g, 1.0 - now.w, layer)
        turned = times_slope(k0, now.w, now.v, layer, A)
    # The windows up to pixel j − 1.
    D_box, D_window = sum_windows(state.D_window, state.D)
    T_box, T_window = state.T, state.T_window
    if with_tangent is not None:
        T_box, T_window = sum_windows(state.T_window, state.T)
    if not begins:
        write_windows(at, j - 3, D_box, T_box, with_tangent, enters)
    # Pixel j.
    before, place = state.before, j * rows
    parts = before.turned, before.one_minus_kappa1, before.turned  # only the second counts
    branch = _scaled_dual(before.half_g, parts, layer)
    D, T = branch_distance(before.z, branch.deficit, layer), state.T
    total = branch.K
    if not enters:
        total = at.sum_scale * load_register(memory, at.K + place) + total
    store(memory, at.K + place, total)
    if with_tangent is not None:
        T = tangent_branch(before.turned, branch.K, layer)
        total = T
        if not enters:
            total = at.sum_scale * load_register(memory, at.T + place) + total
        store(memory, at.T + place, total)
    if begins:
        if 0 <= j < KEPT:
            store(memory, at.kept_D + place, D)
            store(memory, at.kept_T + place, T)
    before = Before(one_minus_kappa1, turned, now.z, now.half_g)
    return State(ahead, before, D, T, D_window, T_window, entry, linears, doubtful)


@inlined_by_llvm
def write_windows(
    at: Layer, pixel: int, D_box: Vector, T_box: Vector, with_tangent: Any, enters: bool
) -> None:
    """Add the sums over both filters' windows of a branch to box(D) and box(A) at a pixel."""
    memory, place = at.memory, pixel * at.rows
    state = load_register(memory, at.D + place)
    store(memory, at.D + place, at.skip_scale * state + D_box)
    if with_tangent is not None:
        if not enters:
            T_box = at.skip_scale * load_register(memory, at.A + place) + T_box
        store(memory, at.A + place, T_box)


@compiled
def first_layer(
    strip: RowGroup, left: Side, right: Side, constants: Constants, with_tangent: Any
) -> bool:
    align_stack()
    return sweep_layer(strip, left, right, 1, constants, with_tangent, True)


@compiled
def hidden_layer(
    strip: RowGroup, left: Side, right: Side, number: int, constants: Constants, with_tangent: Any
) -> bool:
    align_stack()
    return sweep_layer(strip, left, right, number, constants, with_tangent, False)


@inlined_by_llvm
def sweep_layer(
    strip: RowGroup, left: Side, right: Side, number: int, constants: Constants,
    with_tangent: Any, enters: bool,
) -> bool:  # fmt: skip
    """Take a strip through a layer. Return whether some pixel pairs are doubtful.

    `enters` in the first layer. `with_tangent` is None if only the GPK is asked for.
    """
    layer = constants.layers[number]
    memory, places, rows, d = strip.memory, strip.places, strip.rows, strip.d
    table2, start = number * right.step, strip.start
    at = Layer(
        memory, left.roots, left.inverses, left.lost, right.roots, right.inverses, right.lost,
        left.root + number * left.step, left.root, right.root + table2, right.inverse + table2,
        right.lost_root + table2, right.root, right.lost_root, right.pixel, rows, d,
        places.distance + start, places.tangent + start, places.features + start,
        places.tangent_branch + start, places.linear + start, places.linear_box + start,
        places.doubt + start, places.branch_distance, places.K, places.other_distance,
        layer.skip_scale, layer.sum_scale, constants.initial * layer.linear_scale,
        constants.initial, constants.p, constants.r,
    )  # fmt: skip
    zero = repeat_like(0.0, load_register(memory, at.D))
    if not enters:  # pixels that are read beyond the last one
        for pixel in range(d, d + AHEAD):
            store(memory, at.D + pixel * rows, load_register(memory, at.D + (d - 1) * rows))
    none = Window(zero, zero, zero, zero)
    ahead, before = Ahead(zero, zero, zero, zero, zero, zero, zero), Before(zero, zero, zero, zero)
    state = State(ahead, before, zero, zero, none, none, none, none, False)
    for j in range(-AHEAD, min(KEPT + 1, d)):
        state = pass_pixel(at, j, state, layer, with_tangent, enters, True)
    for j in range(KEPT + 1, d):
        state = pass_pixel(at, j, state, layer, with_tangent, enters, False)
    if number < len(constants.layers) - 1:
        close_rows(at, d, state, with_tangent, enters)
    return state.doubtful


@inlined_by_llvm
def close_rows(at: Layer, d: int, state: State, with_tangent: Any, enters: bool) -> None:
    """Write the sums over windows across the seam."""
    memory, rows = at.memory, at.rows
    if enters:  # pixels beyond the last one were read at other places
        first = load_register(memory, at.kept_input)
        second = load_register(memory, at.kept_input + 1 % d * rows)
        last, other = state.entry.sums, state.entry.more
        if d == 1:
            other = first
        store(memory, at.D + (d - 1) * rows, other + (last + first))
        store(memory, at.D, last + (first + second))
        for pixel in range(d - 1, d + 1):
            before, middle, after = (pixel + d - 1) % d, pixel % d, (pixel + 1) % d
            pair = load_register(memory, at.linear + middle * rows)
            pair = pair + load_register(memory, at.linear + after * rows)
            box = load_register(memory, at.linear + before * rows) + pair
            store(memory, at.box + middle * rows, box)
    D, T, D_window, T_window = state.D, state.T, state.D_window, state.T_window
    for j in range(d, d + KEPT + 1):
        D_box, D_window = sum_windows(D_window, D)
        T_box, T_window = sum_windows(T_window, T)
        if j > KEPT:
            write_windows(at, (j - 3) % d, D_box, T_box, with_tangent, enters)
        kept = (j - d) % d * rows
        D, T = load_register(memory, at.kept_D + kept), load_register(memory, at.kept_T + kept)


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
            doubtful = first_layer(strip, left, right, constants, with_tangent)
        elif hidden_layer(strip, left, right, number, constants, with_tangent):
            doubtful = True
        if layer.slot >= 0:
            write_sums(central, rows, case, layer.slot, constants, results, layer)
    if doubtful:
        take_doubts(central, rows, case, results)
        for at in range(strip.d * strip.rows):
            memory[places.doubt + strip.start + at] = 0.0


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
