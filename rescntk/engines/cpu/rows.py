"""The compiled loop of the engine "numba": all layers of some rows, their state in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import (
    SEVERAL,
    FilterSum,
    FlatTables,
    GroupRows,
    LeftCases,
    LeftPixels,
    Places,
    Results,
    RowGroup,
    RowPlaces,
    RunConstants,
    Taps,
    addresses,
)
from .compilation import compiled, compiled_on_disk, inlined, source_stamp
from .heads import find_grids, take_doubts, write_results
from .layers import first_layer, inner_layer, write_own_squares, write_squares
from .sums import (
    add_branch,
    address_of_sum,
    aligned_zeros,
    gather_rows,
    moving_sum,
    padded_size,
    repeat_over_rows,
    shortened,
    write_box,
)
from .vectors import LINE_BYTES, VECTOR_BYTES, Numbers, numbers_of

MANY_CHANNELS = 8
"""Channels from which on squared distances are computed for several left cases at a time.

The sums are the same. With fewer channels, storing and loading the sums costs more than shared
loads save. A larger number reads the right cases' channels once for each left case. Chosen by
counting loads and stores: the costs are level at about 5 channels.
"""


@compiled
def group_of(like: np.ndarray, d: int, rows: int, halo: int, closed: bool) -> RowGroup:
    """Return the shape of a group of rows of `d` pixels, of the dtype of `like`."""
    return RowGroup(d, rows, halo, halo * rows, padded_size(d * rows, like.itemsize), closed)


@compiled
def length_of(like: np.ndarray, group: RowGroup) -> int:
    """Return the numbers that one quantity takes: pixels, halo at both ends, and padding.

    The padding of two vectors or more leaves room for loops that pass whole vectors.
    """
    width = VECTOR_BYTES // like.itemsize
    return (group.size + 2 * group.start + 3 * width - 1) // width * width


@compiled
def places_of(length: int, channels: int, rooms: int, several: int) -> Places:
    """Return places of all quantities in one memory, `length` apart.

    There are `rooms` quantities for a filter, and `several` rings of squared distances.
    """
    k = length
    room2 = (9 + rooms) * k
    squares = room2 + rooms * k
    units = squares + several * k
    return Places(
        0, k, 2 * k, 3 * k, 4 * k, 5 * k, 6 * k, 7 * k, 8 * k, 9 * k, room2,
        squares, units, units + channels * k, units + 2 * channels * k, k, channels,
    )  # fmt: skip


@compiled
def scratch_of_sums(results: Results, rows: int) -> tuple[np.ndarray, np.ndarray]:
    grids, _, depths = results.grids.shape[:3]
    padded = rows + LINE_BYTES
    return np.zeros((grids, 2, depths, padded)), np.zeros((grids, padded))


@compiled
def rooms_of(constants: RunConstants) -> int:
    """Return the quantities that the moving sums of a filter need (`sums.moving_sum`)."""
    return max(constants.inner.levels, constants.outer.levels, constants.window.levels) + 1


@compiled
def places_of_group(rows: RowPlaces, first: int, number: int) -> RowPlaces:
    """Return `number` rows from the row `first` on, as addresses."""
    last = first + number
    return RowPlaces(
        min(number, rows.number - first), numbers_of(rows.case[first:last]),
        numbers_of(rows.begin[first:last]), numbers_of(rows.offset[first:last]),
        numbers_of(rows.period[first:last]), rows.stride,
    )  # fmt: skip


@compiled
def gather_tables(
    memory: Numbers, places: Places, group: RowGroup, right: FlatTables, rows: RowPlaces,
    per_table: int, layers: int, right_layers: int,
) -> None:  # fmt: skip
    """Copy the right cases' tables to the rows of a group: √(q/2) and 1/√q, layer by layer."""
    length = places.length
    for layer in range(layers):
        at = right_layers + 2 * layer * length
        gather_rows(memory, at, right.half_root, layer * per_table, rows, group)
        gather_rows(memory, at + length, right.inverse, layer * per_table, rows, group)
    gather_units(memory, places, places.right_units, right, rows, per_table, group)


@compiled
def gather_units(
    memory: Numbers, places: Places, units: int, tables: FlatTables, rows: RowPlaces,
    per_table: int, group: RowGroup,
) -> None:  # fmt: skip
    """Copy û of all channels to the place `units`."""
    for channel in range(places.channels):
        at = units + channel * places.length
        gather_rows(memory, at, tables.units, channel * per_table, rows, group)


@compiled
def box_linear_part(
    memory: Numbers, places: Places, group: RowGroup, inner: FilterSum, step: int
) -> None:
    """Set `linear_box` to the sums of (t + r) F⁰ over the inner filter's windows."""
    room, length = places.room2, places.length
    taps = moving_sum(memory, places.linear, inner, step, group, room, length)
    write_box(memory, taps, places.linear_box + group.start, group.size)


@compiled
def add_tangent_branch(
    memory: Numbers, places: Places, group: RowGroup, outer: FilterSum, step: int, layer: Any
) -> None:
    """Add the residual branch of a layer to A, behind its outer filter."""
    room, length = places.room1, places.length
    taps = moving_sum(memory, places.tangent_branch, outer, step, group, room, length)
    add_branch(memory, places.tangent + group.start, layer.skip_scale, taps, group.size)


@compiled
def add_to_states(
    memory: Numbers, places: Places, group: RowGroup, outer: FilterSum, step: int, layer: Any,
    with_distance: bool, with_tangent: bool, with_features: bool,
) -> None:  # fmt: skip
    """Add the residual branch of a layer to some of D, A and F, behind its outer filter.

    The filter's taps are `step` pixels apart.
    """
    start, size = group.start, group.size
    room, length, scale = places.room1, places.length, layer.skip_scale
    if with_distance:
        taps = moving_sum(memory, places.branch_distance, outer, step, group, room, length)
        add_branch(memory, places.distance + start, scale, taps, size)
    if with_tangent:
        add_tangent_branch(memory, places, group, outer, step, layer)
    if with_features:
        taps = moving_sum(memory, places.K, outer, step, group, room, length)
        add_branch(memory, places.features + start, scale, taps, size)


@compiled
def skipped(group: RowGroup) -> int:
    """Return the pixels by which a row has become shorter at either end (`sums.shortened`)."""
    return group.start // group.rows - group.halo


@compiled
def left_pixels(
    memory: Numbers, places: Places, group: RowGroup, left: FlatTables, lefts: LeftCases,
    case: int, layers: int, number: int,
) -> LeftPixels:  # fmt: skip
    """Return the left case's tables for a layer, copied to all rows where vectors need it."""
    d, first, length, tables = lefts.pixels[case], skipped(group), places.length, places.tables
    unit = lefts.first[case] * places.channels + first
    table = lefts.first[case] * layers + first
    at = table + number * d
    if group.rows % (VECTOR_BYTES // memory.itemsize) == 0:
        return LeftPixels(
            left.units, left.half_root, left.inverse, unit, d, table, table, at, at, True
        )
    if number == 1:
        for channel in range(places.channels):
            ring = places.left_units + channel * length
            repeat_over_rows(memory, ring, left.units, unit + channel * d, group)
        repeat_over_rows(memory, tables + 2 * length, left.half_root, table, group)
        repeat_over_rows(memory, tables + 3 * length, left.inverse, table, group)
    repeat_over_rows(memory, tables, left.half_root, at, group)
    repeat_over_rows(memory, tables + length, left.inverse, at, group)
    return LeftPixels(
        memory, memory, memory, places.left_units, length, tables + 2 * length,
        tables + 3 * length, tables, tables + length, False,
    )  # fmt: skip


@inlined
def pass_layers(
    memory: Numbers, places: Places, whole: RowGroup, rows: GroupRows, left: FlatTables,
    lefts: LeftCases, case: int, constants: RunConstants, results: Results,
    squares_together: bool,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers, and write the results.

    With `squares_together`, the rings `squares` hold the squared distances of the input's pixels.
    Open rows become shorter with each filter.
    """
    layers, network = constants.layers, constants.numbers
    p, r = numbers_of(constants.p), numbers_of(constants.r)
    inner, outer = address_of_sum(constants.inner), address_of_sum(constants.outer)
    itemsize = memory.itemsize
    length, depth = places.length, len(layers) - 1
    right_layers = places.tables + 4 * length
    sum_factor = outer.size if network.summed else 1
    with_linear = network.linear_apart and network.ntk
    ring, group = places.squares, whole
    if squares_together:
        ring += case % SEVERAL * length
    elif network.window > 0:
        pixels = left_pixels(memory, places, whole, left, lefts, case, depth + 1, 1)
        write_own_squares(memory, places, pixels, whole, ring)
    squares = Taps(ring + whole.start, 0, 0, True)
    if network.window > 0:
        group = shortened(whole, network.window // 2, itemsize)
        squares = moving_sum(
            memory, ring, address_of_sum(constants.window), 1, group, places.room1, length
        )
    pixels = left_pixels(memory, places, group, left, lefts, case, depth + 1, 1)
    K = group.start + (places.features if network.summed else places.K)
    right_input = right_layers + skipped(group) * group.rows
    doubtful = first_layer(
        memory, places, pixels, right_input, right_input + 2 * length, group, K, network,
        layers[1], p, r, 1.0 / sum_factor, False, squares, squares_together,
    )  # fmt: skip
    central = shortened(whole, network.margin, itemsize)
    boxed = 0
    for number in range(1, depth + 1):
        layer = layers[number]
        slot, step, outer_step = layer.slot, layer.inner_step, layer.outer_step
        if number > 1:
            group = shortened(group, step * (inner.size // 2), itemsize)
            if with_linear and step != boxed:
                box_linear_part(memory, places, group, inner, step)
                boxed = step
            pixels = left_pixels(memory, places, group, left, lefts, case, depth + 1, number)
            room1, room2 = places.room1, places.room2
            distances = moving_sum(memory, places.distance, inner, step, group, room1, length)
            tangents = distances
            if network.ntk:
                tangents = moving_sum(memory, places.tangent, inner, step, group, room2, length)
            K = group.start + (places.features if network.summed else places.K)
            right_root = right_layers + 2 * number * length + skipped(group) * group.rows
            doubtful |= inner_layer(
                memory, places, pixels, right_root, group, K, distances, tangents, network.ntk,
                with_linear, layer, p, r,
            )  # fmt: skip
        group = shortened(group, outer_step * (outer.size // 2), itemsize)
        with_features = not network.summed and network.gpk and (network.skip or slot >= 0)
        add_to_states(
            memory, places, group, outer, outer_step, layer, number < depth, network.ntk,
            with_features,
        )  # fmt: skip
        if slot >= 0:
            write_results(
                memory, places, central, rows, case, slot, network, results, sum_factor,
                layer.one,
            )  # fmt: skip
    if doubtful:
        take_doubts(memory, places, central, rows, case, results)
        for at in range(whole.size):
            memory[places.doubt + whole.start + at] = 0.0


@compiled
def all_doubtful(rows: GroupRows, case: int, length: int, results: Results) -> bool:
    """Return whether all pairs of a left case with a group have more doubt than allowed.

    `length` is its `LeftCases.length`.
    """
    for row in range(rows.used):
        right = rows.case[row]
        if not results.doubt[case, right] > results.most_doubt[length, right]:
            return False
    return True


@compiled_on_disk
def compute(
    left: FlatTables, right: FlatTables, lefts: LeftCases, rights: RowPlaces, group_rows: int,
    diagonal_shift: int, only_diagonal: bool, constants: RunConstants, results: Results,
    stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, in all layers, `group_rows` rows at a time.

    Left case i with right case k is needed where i ≤ k + `diagonal_shift`; with `only_diagonal`,
    where i = k. Left cases come with the longest first. Pairs whose `results.doubt` exceeds
    `most_doubt` may be incomplete. `stamp` is not to be given: it makes the key on disk change
    with any of the source files.
    """
    like, layers, network = left.half_root, len(constants.layers), constants.numbers
    per_table = len(right.half_root) // layers
    channels = len(left.units) * layers // len(like)
    halo = network.halo if network.closed else 0
    whole = group_of(like, lefts.pixels[0], group_rows, halo, network.closed)
    length = length_of(like, whole)
    few = channels < MANY_CHANNELS and network.window == 0
    together = group_rows % (VECTOR_BYTES // like.itemsize) == 0 and not few
    several = SEVERAL if together else (1 if network.window > 0 else 0)
    places = places_of(length, channels, rooms_of(constants), several)
    right_layers = places.tables + 4 * length
    held = aligned_zeros(right_layers + 2 * layers * length, like)
    memory, left_tables, right_tables = numbers_of(held), addresses(left), addresses(right)
    grids, sums = scratch_of_sums(results, group_rows)
    for first in range(0, rights.number, group_rows):
        here = places_of_group(rights, first, group_rows)
        rows = GroupRows(here.number, here.case, here.offset, grids, sums)
        gather_tables(
            memory, places, whole, right_tables, here, per_table, layers, right_layers
        )  # fmt: skip
        last = min(len(lefts.first), here.case[group_rows - 1] + diagonal_shift + 1)
        least = here.case[0] if only_diagonal else 0
        left_length = -1
        for case in range(least // SEVERAL * SEVERAL, last):
            group = group_of(like, lefts.pixels[case], group_rows, halo, network.closed)
            if lefts.length[case] != left_length:
                left_length = lefts.length[case]
                find_grids(rows, left_length, results)
            if together and case % SEVERAL == 0:
                write_squares(memory, places, left_tables.units, lefts, case, last - 1, group)
            if case < least or all_doubtful(rows, case, left_length, results):
                continue
            pass_layers(
                memory, places, group, rows, left_tables, lefts, case, constants, results, together
            )
    held[0] = 0.0  # numba frees an array after its last use
