"""The compiled loop of the engine "numba": all layers of some rows, their state in the cache.

The loop carries distances for each left case with a group of rows of right cases. Pairs that lose
digits so are computed again: the loop then carries deficits, with root masses (deficit_rows.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import (
    PADDING,
    Constants,
    FlatTables,
    LeftPixels,
    Results,
    RowGroup,
    RowPlaces,
    Taps,
)
from .compilation import compiled, compiled_on_disk, source_stamp
from .deficit_rows import (
    MassSide,
    gather_branch,
    gather_masses,
    gather_window,
    mass_pixels,
    side_of,
)
from .groups import (
    gather_tables,
    keeps_root_errors,
    repeat_over_rows,
    resized,
    rows_of_group,
    shortened,
    skipped,
    write_biases,
)
from .heads import MEAN, add_sums, find_grids, take_doubts, write_results
from .layers import first_layer, hidden_layer, write_own_squares, write_squares
from .references import addresses, reference
from .substitutes import has_biases
from .sums import add_branch, add_branch_deficit, moving_sum, write_box, write_window


@compiled
def left_pixels(
    group: RowGroup, left: FlatTables, lefts: np.ndarray, case: int, layers: int, number: int
) -> LeftPixels:
    """Return the left case's tables for a layer, copied to all rows where vectors need it."""
    memory, places, length, first = group.memory, group.places, group.length, skipped(group)
    d = lefts[case].pixels
    unit = lefts[case].first * places.channels + first
    table = lefts[case].first * layers + first
    at = table + number * d
    pixels = max(1, memory.per_vector // group.rows)
    if 2 * group.rows % memory.per_line == 0 and group.rows * pixels % memory.per_vector == 0:
        return LeftPixels(
            units=left.units, roots=left.half_root, inverses=left.inverse, lost=left.lost,
            unit=unit, unit_step=d, input=table, root=at, step=0, pixels=pixels,
        )  # fmt: skip
    if number == 1:
        for channel in range(places.channels):
            ring = places.left_units + channel * length
            repeat_over_rows(group, ring, left.units, unit + channel * d)
    for place, first_pixel in ((places.left_input, table), (places.left_layer, at)):
        if place == places.left_layer or number == 1:
            repeat_over_rows(group, place, left.half_root, first_pixel)
            repeat_over_rows(group, place + length, left.inverse, first_pixel)
            if keeps_root_errors(memory):
                repeat_over_rows(group, place + 2 * length, left.lost, first_pixel)
    return LeftPixels(
        units=memory, roots=memory, inverses=memory, lost=memory, unit=places.left_units,
        unit_step=length, input=places.left_input, root=places.left_layer, step=length, pixels=0,
    )  # fmt: skip


@compiled
def pass_layers(
    whole: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    constants: Constants, results: Results, sides: Any,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers, and write the results.

    Open rows become shorter with each filter. With `sides`, a pair of `MassSide`, each row has its
    own pair, and u takes the place of D.
    """
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    memory, places, length, depth = whole.memory, whole.places, whole.length, len(layers) - 1
    boxed, doubtful, squares = 0, False, places.squares
    state, after, branch = places.distance, places.other_distance, places.branch_distance
    scratch = places.distance_scratch
    if sides is not None:
        for side in sides:
            gather_masses(whole, state, side.tables.features, 0, 1, side)
    elif places.left_cases > 1:
        squares += case % places.left_cases * length
    elif constants.window.size > 1:
        write_own_squares(whole, addresses(left_pixels(whole, left, lefts, case, depth + 1, 1)))
    group = addresses(shortened(whole, constants.window.size // 2))
    central = addresses(shortened(whole, constants.margin))
    for number in range(1, depth + 1):
        if constants.stop[0]:
            return
        layer = layers[number]
        step = layer.inner_step
        if number > 1:
            group = addresses(shortened(group, step * (inner.size // 2)))
        skip = skipped(group) * group.rows
        if sides is None:
            masses = None
            pixels = addresses(left_pixels(group, left, lefts, case, depth + 1, number))
            right_input = places.right_layers + skip
            right_root = right_input + 3 * number * length
        else:
            masses = gather_window(whole, group, number, sides, constants)
            pixels = addresses(mass_pixels(group, state, masses))
            right_input = state + group.start + masses.right
            right_root = branch + group.start + masses.right
        if number == 1:
            taps = moving_sum(group, squares, constants.window, 1, scratch, None)
            doubtful |= first_layer(
                group, pixels, right_input, right_root, taps, constants, masses=masses,
            )  # fmt: skip
        else:
            boxed = box_linear(group, constants, step, boxed)
            taps = moving_sum(group, state, inner, step, scratch, masses)
            if sides is not None:
                merged = branch + group.start
                write_window(memory, taps, merged, 0, group.size, masses=masses, layer=layer)
                taps = Taps(merged, merged, merged, True)
            tangents = taps
            if constants.ntk:
                room = places.tangent_scratch
                tangents = moving_sum(group, places.tangent, inner, step, room, None)
            doubtful |= hidden_layer(
                group, pixels, right_root, taps, tangents, constants, layer=layer, masses=masses,
            )  # fmt: skip
        group = addresses(shortened(group, layer.outer_step * (outer.size // 2)))
        if number < depth:
            if sides is None:
                add_branch(group, state, branch, outer, layer)
            else:
                masses = gather_branch(whole, group, after, number, sides, constants)
                add_branch_deficit(group, state, after, outer, layer, masses)
                state, after = after, state
        add_kernels(group, central, rows, case, constants, results, layer=layer)
    if doubtful:
        take_doubts(central, rows, case, 0, results)
        for at in range(whole.size):
            memory[places.doubt + whole.start + at] = 0.0
    if constants.head == MEAN:
        add_sums(rows, case, 0, constants.gpk, results)


@compiled
def box_linear(group: RowGroup, constants: Constants, step: int, boxed: int) -> int:
    """Sum F⁰ over the inner filter's windows, where A needs it and its sums have other steps.

    `boxed` is the step of the sums so far; the new one is returned.
    """
    if not (constants.skip and constants.ntk) or step == boxed:
        return boxed
    memory, places = group.memory, group.places
    taps = moving_sum(group, places.linear, constants.inner, step, places.tangent_scratch, None)
    write_box(memory, taps, places.linear_box + group.start, group.size, None)
    return step


@compiled
def add_kernels(
    group: RowGroup, central: RowGroup, rows: RowPlaces, case: int, constants: Constants,
    results: Results, layer: Any,
) -> None:  # fmt: skip
    """Add a layer's branch to F and to A, and write the results of a depth asked for."""
    places, outer = group.places, constants.outer
    if constants.gpk and not constants.summed and (constants.skip or layer.slot >= 0):
        add_branch(group, places.features, places.K, outer, layer)
    if constants.ntk:
        add_branch(group, places.tangent, places.tangent_branch, outer, layer)
    if layer.slot >= 0:
        write_results(central, rows, case, layer.slot, constants, results, layer=layer)


@compiled
def all_doubtful(rows: RowPlaces, case: int, results: Results) -> bool:
    """Return whether all pairs of a left case with a group have more doubt than `leaving_doubt`."""
    for row in range(rows.number):
        right, total = rows.each[row].case, 0.0
        for level in range(len(results.doubt)):
            total += results.doubt[level, case, right]
        if not total > results.leaving_doubt[case, right]:
            return False
    return True


@compiled
def gather_right(
    whole: RowGroup, right: FlatTables, rows: RowPlaces, layers: int, per_table: int
) -> None:
    """Copy the right cases' tables, of `per_table` numbers each, to the rows of a group."""
    places, length, tables = whole.places, whole.length, whole.places.right_layers
    gather_tables(
        whole, places.right_units, 1, right.units, places.channels, rows, per_table=per_table
    )
    gather_tables(whole, tables, 3, right.half_root, layers, rows, per_table=per_table)
    gather_tables(whole, tables + length, 3, right.inverse, layers, rows, per_table=per_table)
    if keeps_root_errors(whole.memory):
        gather_tables(whole, tables + 2 * length, 3, right.lost, layers, rows, per_table=per_table)


@compiled
def gather_pairs(
    whole: RowGroup, left: FlatTables, right: FlatTables, left_rows: RowPlaces, rows: RowPlaces,
    per_table: tuple[int, int], split: bool, constants: Constants, results: Results,
) -> tuple[MassSide, MassSide]:  # fmt: skip
    """Copy what deficits of pairs read before their layers, and return both sides.

    `left_rows` are the rows of left cases, and `per_table` the numbers of a table of either side.
    """
    places, (of_left, of_right) = whole.places, per_table
    units = 2 * places.channels if split else places.channels
    gather_tables(whole, places.left_units, 1, left.units, units, left_rows, per_table=of_left)
    gather_tables(whole, places.right_units, 1, right.units, units, rows, per_table=of_right)
    if has_biases(constants.layers[0]):
        write_biases(whole, rows, -1, results, whole.d)
    return (
        side_of(whole, left, left_rows, of_left, 0, split),
        side_of(whole, right, rows, of_right, 1, split),
    )


@compiled_on_disk
def compute(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces,
    diagonal_shift: int, only_diagonal: bool, whole: RowGroup, constants: Constants,
    results: Results, pairs: RowPlaces | None = None, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, in all layers, one group of rows at a time.

    Left case i with right case k is needed where i ≤ k + `diagonal_shift`; with `only_diagonal`,
    where i = k. Left cases come with the longest first, which has the rows of `whole`. Pairs
    whose `results.doubt` exceeds `leaving_doubt` may be incomplete. All may be if
    `constants.stop` is set while the loops run: they then end within a layer of a group.

    With `pairs`, kernels come from deficits, and each row has its own pair; `pairs` are the left
    cases' rows. Both sides' tables are laid out as right ones. The arrays of `results` have one
    left case, and the pairs in the place of right cases.
    `stamp` is not to be given: it makes the key on disk change with any of the source files.
    """
    layers, group_rows = len(constants.layers), whole.rows
    per_table = (len(left.inverse) - PADDING) // layers, (len(right.inverse) - PADDING) // layers
    split = len(left.half_root) > len(left.inverse)
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    together = whole.places.left_cases
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        if pairs is not None:
            left_rows = addresses(rows_of_group(pairs, first, group_rows))
            sides = gather_pairs(
                whole, left, right, left_rows, rows, per_table, split=split, constants=constants,
                results=results,
            )  # fmt: skip
            find_grids(rows, 0, results)
            pass_layers(
                whole, rows, left, lefts, 0, constants, results=results, sides=sides,
            )  # fmt: skip
            continue
        gather_right(whole, right, rows, layers, per_table[1])
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        least = rows.each[0].case if only_diagonal else 0
        left_length = -1
        for case in range(least - least % max(1, together), last):
            if constants.stop[0]:
                return
            group = addresses(resized(whole, lefts[case].pixels, whole.start))
            if lefts[case].length != left_length:
                left_length = lefts[case].length
                find_grids(rows, left_length, results)
            if together > 1 and case % together == 0:
                write_squares(group, left.units, lefts, case, last - 1)
            if case >= least and not all_doubtful(rows, case, results):
                if has_biases(constants.layers[0]):
                    write_biases(group, rows, case, results, group.d)
                pass_layers(
                    group, rows, left, lefts, case, constants, results=results,
                    sides=None,
                )  # fmt: skip
