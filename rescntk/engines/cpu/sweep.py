"""The sweep: one register of rows at a time through all layers.

A *strip* is a group of rows: one row for each number of a register. Its state stays in the
first-level cache, whatever the length of the signals is. The rows of an array's signals are read
from the right tables where they are; strips of several right cases have copies.

swept_layers.py has the way through a layer. Filters of three pixels have their sums over windows
in registers. Other filters, and dilations, have them through memory (sums.py), after each layer:
kept in rings inside the loop, they took 1.7 times as long. The other loops (layers.py) have the
same steps of a layer; `loops_of` says which loops compute a request.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import (
    PADDING,
    Constants,
    FilterSum,
    FlatTables,
    Results,
    RowGroup,
    RowPlaces,
    SideTables,
)
from .compilation import compiled, compiled_on_disk, inlined_by_llvm, source_stamp
from .groups import (
    first_place,
    keeps_root_errors,
    resized,
    rows_of_group,
    shortened,
    write_biases,
)
from .heads import add_sums, find_grids, take_doubts, write_sums
from .references import addresses, reference
from .rows import all_doubtful
from .substitutes import has_biases
from .sums import add_branch, moving_sum, write_box
from .swept_layers import AHEAD, sweep_layer, write_angles
from .vectors import Numbers, load_register, places_like, store, where_less

LEFT_LINES = 8192
"""Cache lines of the tables of left cases that meet all strips before the next cases do.

More lines leave the second-level cache, of 1 MiB, to the strip's own numbers; fewer copy the right
tables of strips more often.
"""


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
        copied = load_register(values, begin + source * rows.stride)
        store(memory, at, where_less(places, row, load_register(memory, at), copied))
        source += 1
        if source == turn:
            source = 0


@compiled
def copied_side(
    strip: RowGroup, right: FlatTables, rows: RowPlaces, tables: int, number: int
) -> SideTables:
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
    tables_at = places.right_layers
    return SideTables(
        units=memory, roots=memory, inverses=memory, lost=memory, unit=places.right_units,
        unit_step=length, root=tables_at, inverse=tables_at + length,
        lost_root=tables_at + 2 * length, step=3 * length, pixel=strip.rows,
    )  # fmt: skip


@compiled
def left_side(strip: RowGroup, left: FlatTables, pixel: int, tables: int) -> SideTables:
    """Return the tables of a left case, which begin at a pixel."""
    unit, root, d = pixel * strip.places.channels, pixel * tables, strip.d
    return SideTables(
        units=left.units, roots=left.half_root, inverses=left.inverse, lost=left.lost, unit=unit,
        unit_step=d, root=root, inverse=root, lost_root=root, step=d, pixel=1,
    )  # fmt: skip


@compiled
def right_side(
    strip: RowGroup, right: FlatTables, rows: RowPlaces, tables: int, number: int
) -> SideTables:
    """Return the tables of a strip's rows; a table has `number` numbers.

    Rows of one case lie side by side in its tables, as in a register.
    """
    first, last = rows.each[0], rows.each[strip.rows - 1]
    if strip.closed and rows.stride == 1 and last.offset - first.offset == strip.rows - 1:
        at = first_place(rows, 0)
        return SideTables(
            units=right.units, roots=right.half_root, inverses=right.inverse, lost=right.lost,
            unit=at, unit_step=number, root=at, inverse=at, lost_root=at, step=number, pixel=1,
        )  # fmt: skip
    return copied_side(strip, right, rows, tables, number)


@compiled
def write_boxes(strip: RowGroup, inner: FilterSum, step: int, with_tangent: Any) -> None:
    """Write the sums of D and A over the inner filter's windows to places of their own."""
    memory, places, scratch = strip.memory, strip.places, strip.places.distance_scratch
    taps = moving_sum(strip, places.distance, inner, step, scratch, None)
    write_box(memory, taps, places.other_distance + strip.start, strip.size, None)
    if with_tangent is not None:
        taps = moving_sum(strip, places.tangent, inner, step, scratch, None)
        write_box(memory, taps, places.tangent_scratch + strip.start, strip.size, None)


@compiled
def sweep_strip(
    strip: RowGroup, rows: RowPlaces, left: SideTables, right: SideTables, case: int, first: int,
    constants: Constants, results: Results, with_tangent: Any, through_memory: Any,
) -> None:  # fmt: skip
    """Take one left case with a strip through all layers, and add the results.

    `first` is the number of the strip's first row among all rows.
    """
    memory, places, layers, doubtful = strip.memory, strip.places, constants.layers, False
    inner, outer, group = constants.inner, constants.outer, strip
    central = addresses(shortened(strip, constants.margin))
    for number in range(1, len(layers)):
        if constants.stop[0]:
            return
        layer = layers[number]
        if number == 1:
            write_angles(strip, left, right, constants.nearly_opposite)
            doubtful = sweep_layer(
                group, left, right, 1, constants, with_tangent, through_memory=through_memory,
                enters=True,
            )  # fmt: skip
        else:
            group = addresses(shortened(group, layer.inner_step * (inner.size // 2)))
            if through_memory is not None:
                write_boxes(group, inner, layer.inner_step, with_tangent)
            doubtful |= sweep_layer(
                group, left, right, number, constants, with_tangent, through_memory=through_memory,
                enters=None,
            )  # fmt: skip
        group = addresses(shortened(group, layer.outer_step * (outer.size // 2)))
        if through_memory is not None and number < len(layers) - 1:
            add_branch(group, places.distance, places.branch_distance, outer, layer)
            if with_tangent is not None:
                add_branch(group, places.tangent, places.K, outer, layer)
        if layer.slot >= 0:
            write_sums(central, layer.slot, constants, results, layer=layer)
    if doubtful:
        take_doubts(central, rows, case, first, results)
        for at in range(strip.d * strip.rows):
            memory[places.doubt + strip.start + at] = 0.0
    add_sums(rows, case, first, constants.gpk, results)


@compiled_on_disk
def sweep(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces,
    diagonal_shift: int, only_diagonal: bool, whole: RowGroup, constants: Constants,
    results: Results, with_tangent: Any, through_memory: Any, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, as `rows.compute`, one strip at a time."""
    tables, strip_rows = len(constants.layers), whole.rows
    number = (len(right.inverse) - PADDING) // tables
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    numbers = whole.d * (whole.places.channels + 3 * tables)
    some = max(16, LEFT_LINES * whole.memory.per_line // numbers)
    for begin in range(0, len(lefts), some):
        for first in range(0, rights.number, strip_rows):
            if constants.stop[0]:
                return
            rows = addresses(rows_of_group(rights, first, strip_rows))
            least = max(begin, rows.each[0].case if only_diagonal else 0)
            last = rows.each[strip_rows - 1].case + diagonal_shift + 1
            last = min(begin + some, len(lefts), last)
            left_length = -1
            if least < last:
                others = addresses(right_side(whole, right, rows, tables, number))
            for case in range(least, last):
                if lefts[case].length != left_length:
                    left_length = lefts[case].length
                    find_grids(rows, left_length, results)
                if not all_doubtful(rows, case, results):
                    strip = addresses(resized(whole, lefts[case].pixels, whole.start))
                    side = addresses(left_side(strip, left, lefts[case].first, tables))
                    if has_biases(constants.layers[0]):
                        write_biases(strip, rows, case, results, 1)
                    sweep_strip(
                        strip, rows, side, others, case, first, constants=constants,
                        results=results, with_tangent=with_tangent, through_memory=through_memory,
                    )  # fmt: skip
