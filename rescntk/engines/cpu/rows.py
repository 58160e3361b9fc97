"""The compiled loop of the engine "numba": all layers of some rows, their state in the cache.

The loop carries distances for each left case with a group of rows of right cases. Pairs that lose
digits so are computed again from deficits (engines/deficits.py): each row then has its own pair,
and the state has root masses besides (`sums.Masses`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arguments import Constants, FlatTables, LeftPixels, Results, RowGroup, RowPlaces, Taps
from .compilation import compiled, compiled_on_disk, source_stamp
from .heads import find_grids, take_doubts, write_results
from .layers import first_layer, hidden_layer, keeps_root_errors, write_own_squares, write_squares
from .sums import (
    Masses,
    add_branch,
    add_branch_deficit,
    fill_halo,
    gather_rows,
    moving_sum,
    repeat_over_rows,
    resized,
    shortened,
    write_box,
)
from .vectors import Numbers, addresses, reference


class MassSide(NamedTuple):
    """One side's tables in the recursion of deficits."""

    tables: FlatTables
    rows: RowPlaces
    per_table: int  # numbers of a table
    behind: int  # numbers from a deficit to its root mass in `memory` (`Masses`)
    low: int  # as in `Masses`


@compiled
def skipped(group: RowGroup) -> int:
    """Return the pixels by which a row has become shorter at either end (`sums.shortened`)."""
    return group.start // group.rows - group.halo


@compiled
def left_pixels(
    group: RowGroup, left: FlatTables, lefts: np.ndarray, case: int, layers: int, number: int
) -> LeftPixels:
    """Return the left case's tables for a layer, copied to all rows where vectors need it."""
    memory, places, length, first = group.memory, group.places, group.length, skipped(group)
    d, tables = lefts[case].pixels, places.tables
    unit = lefts[case].first * places.channels + first
    table = lefts[case].first * layers + first
    at = table + number * d
    pixels = max(1, memory.per_vector // group.rows)
    if 2 * group.rows % memory.per_line == 0 and group.rows * pixels % memory.per_vector == 0:
        return LeftPixels(
            left.units, left.half_root, left.inverse, left.lost, unit, d, table, at, 0, pixels
        )
    if number == 1:
        for channel in range(places.channels):
            ring = places.left_units + channel * length
            repeat_over_rows(group, ring, left.units, unit + channel * d)
    for place, first_pixel in ((tables + 3 * length, table), (tables, at)):
        if place == tables or number == 1:
            repeat_over_rows(group, place, left.half_root, first_pixel)
            repeat_over_rows(group, place + length, left.inverse, first_pixel)
            if keeps_root_errors(memory):
                repeat_over_rows(group, place + 2 * length, left.lost, first_pixel)
    return LeftPixels(
        memory, memory, memory, memory, places.left_units, length, tables + 3 * length, tables,
        length, 0,
    )  # fmt: skip


@compiled
def gather_masses(
    group: RowGroup, ring: int, values: Numbers, first: int, number: int, side: MassSide
) -> None:  # fmt: skip
    """Copy `number` root masses, from `first` on, to the masses of rings from `ring` on."""
    numbers = 2 if side.low > 0 else 1  # of a root mass
    for k in range(numbers * number):
        out = ring + side.behind + k // numbers * group.length + k % numbers * side.low
        table = (numbers * first + k) * side.per_table
        gather_rows(group, out + group.start, values, table, side.rows)
        fill_halo(group, out, group.halo)


@compiled
def pass_layers(
    whole: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    sides: tuple[MassSide, MassSide] | None, constants: Constants, results: Results,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers, and write the results.

    Open rows become shorter with each filter. With `sides`, each row has its own left case, and
    the state is deficits.
    """
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    memory, places, length, depth = whole.memory, whole.places, whole.length, len(layers) - 1
    ntk, with_features = constants.ntk, constants.gpk and not constants.summed
    with_linear, boxed, doubtful = constants.skip and ntk, 0, False
    state, other_state, squares = places.distance, places.spare, places.squares
    if places.several > 1:
        squares += case % places.several * length
    elif constants.window.size > 1:
        write_own_squares(whole, addresses(left_pixels(whole, left, lefts, case, depth + 1, 1)))
    if sides is not None:
        for side in sides:
            gather_masses(whole, state, side.tables.features, 0, 1, side)
    group = addresses(shortened(whole, constants.window.size // 2))
    central = addresses(shortened(whole, constants.margin))
    for number in range(1, depth + 1):
        if constants.stop[0]:
            return
        layer = layers[number]
        slot, step = layer.slot, layer.inner_step
        if number > 1:
            group = addresses(shortened(group, step * (inner.size // 2)))
        if sides is None:
            masses = outer_masses = None
            pixels = addresses(left_pixels(group, left, lefts, case, depth + 1, number))
            right_input = places.tables + 6 * length + skipped(group) * group.rows
            right_root = right_input + 3 * number * length
        else:
            branch, pieces = places.branch_distance, inner.pieces
            for side in sides:
                tables, first = side.tables, (number - 2) * pieces
                gather_masses(whole, branch, tables.half_root, number, 1, side)
                inverse = places.K + side.behind + whole.start
                gather_rows(whole, inverse, tables.inverse, number * side.per_table, side.rows)
                if number > 1:
                    gather_masses(whole, places.room1, tables.inner_pieces, first, pieces, side)
            one, two = sides[0].behind, sides[1].behind
            opposite, low = places.tables + 2 * places.tangent, sides[0].low
            masses = Masses(one, two, opposite, low, layer.one + layer.one, layer.tiny)
            outer_masses = Masses(one, two, opposite, low, layer.factor, layer.tiny)
            right_input, right_root = state + group.start + two, branch + group.start + two
            left_root = branch + group.start + one
            pixels = addresses(LeftPixels(
                memory, memory, memory, memory, places.left_units, length,
                state + group.start + one, left_root, length, 0,
            ))  # fmt: skip
        if number == 1:
            taps = moving_sum(group, squares, constants.window, 1, places.room1, None)
            doubtful |= first_layer(
                group, pixels, right_input, right_root, taps, constants, masses
            )  # fmt: skip
        else:
            if with_linear and step != boxed:
                taps = moving_sum(group, places.linear, inner, step, places.room2, None)
                write_box(memory, taps, places.linear_box + group.start, group.size, None)
                boxed = step
            taps = moving_sum(group, state, inner, step, places.room1, masses)
            if masses is not None:
                merged = places.branch_distance + group.start
                write_box(memory, taps, merged, group.size, masses)
                taps = Taps(merged, merged, merged, True)
            tangents = taps
            if ntk:
                tangents = moving_sum(group, places.tangent, inner, step, places.room2, None)
            doubtful |= hidden_layer(
                group, pixels, right_root, taps, tangents, constants, layer, masses
            )  # fmt: skip
        group = addresses(shortened(group, layer.outer_step * (outer.size // 2)))
        if with_features and (constants.skip or slot >= 0):
            add_branch(group, places.features, places.K, outer, layer)
        if sides is None:
            if number < depth:
                add_branch(group, state, places.branch_distance, outer, layer)
        else:
            for side in sides:
                tables, first = side.tables, (number - 1) * outer.pieces
                gather_masses(whole, places.room1, tables.outer_pieces, first, outer.pieces, side)
                gather_masses(whole, other_state, tables.features, number, 1, side)
            add_branch_deficit(group, state, other_state, outer, layer, outer_masses)
            state, other_state = other_state, state
        if ntk:
            add_branch(group, places.tangent, places.tangent_branch, outer, layer)
        if slot >= 0:
            write_results(central, rows, case, slot, constants, results, layer)
    if doubtful:
        take_doubts(central, rows, case, results)
        for at in range(whole.size):
            memory[places.doubt + whole.start + at] = 0.0


@compiled
def rows_of_group(rows: RowPlaces, first: int, number: int) -> RowPlaces:
    """Return `number` rows from the row `first` on."""
    last = first + number
    number = min(number, rows.number - first)
    return RowPlaces(number, rows.each[first:last], rows.line, rows.stride)


@compiled
def gather_tables(
    group: RowGroup, out: int, step: int, values: Numbers, number: int, rows: RowPlaces,
    per_table: int,
) -> None:  # fmt: skip
    """Copy `number` tables to the rows of a group, to places `step` quantities apart."""
    for table in range(number):
        place = out + table * step * group.length
        gather_rows(group, place, values, table * per_table, rows)


@compiled
def all_doubtful(rows: RowPlaces, case: int, results: Results) -> bool:
    """Return whether all pairs of a left case with a group have more doubt than allowed."""
    for row in range(rows.number):
        right = rows.each[row].case
        if not results.doubt[case, right] > results.most_doubt[case, right]:
            return False
    return True


@compiled_on_disk
def compute(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces,
    pairs: RowPlaces | None, diagonal_shift: int, only_diagonal: bool, whole: RowGroup,
    constants: Constants, results: Results, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, in all layers, one group of rows at a time.

    Left case i with right case k is needed where i ≤ k + `diagonal_shift`; with `only_diagonal`,
    where i = k. Left cases come with the longest first, which has the rows of `whole`. Pairs
    whose `results.doubt` exceeds `most_doubt` may be incomplete. All may be if `constants.stop` is
    set while the loops run: they then end within a layer of a group.

    With `pairs`, kernels come from deficits, and each row has its own pair; `pairs` are the left
    cases' rows. Both sides' tables are laid out as right ones. The arrays of `results` have one
    left case, and the pairs in the place of right cases.
    `stamp` is not to be given: it makes the key on disk change with any of the source files.
    """
    layers, split = len(constants.layers), len(left.half_root) > len(left.inverse)
    left_table, right_table = len(left.inverse) // layers, len(right.inverse) // layers
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    places, length, group_rows = whole.places, whole.length, whole.rows
    channels, several, right_tables = places.channels, places.several, places.tables + 6 * length
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        units = 2 * channels if split else channels
        gather_tables(whole, places.right_units, 1, right.units, units, rows, right_table)
        if pairs is not None:
            own = addresses(rows_of_group(pairs, first, group_rows))
            gather_tables(whole, places.left_units, 1, left.units, units, own, left_table)
            low = 3 * places.tangent if split else 0
            sides = (
                MassSide(left, own, left_table, places.tables, low),
                MassSide(right, rows, right_table, places.tables + places.tangent, low),
            )
            find_grids(rows, 0, results)
            pass_layers(whole, rows, left, lefts, 0, sides, constants, results)
            continue
        gather_tables(whole, right_tables, 3, right.half_root, layers, rows, right_table)
        gather_tables(whole, right_tables + length, 3, right.inverse, layers, rows, right_table)
        if keeps_root_errors(whole.memory):
            lost = right_tables + 2 * length
            gather_tables(whole, lost, 3, right.lost, layers, rows, right_table)
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        least = rows.each[0].case if only_diagonal else 0
        left_length = -1
        for case in range(least - least % max(1, several), last):
            if constants.stop[0]:
                return
            group = addresses(resized(whole, lefts[case].pixels, whole.start))
            if lefts[case].length != left_length:
                left_length = lefts[case].length
                find_grids(rows, left_length, results)
            if several > 1 and case % several == 0:
                write_squares(group, left.units, lefts, case, last - 1)
            if case >= least and not all_doubtful(rows, case, results):
                pass_layers(group, rows, left, lefts, case, None, constants, results)
