"""The compiled loop of the engine "numba": all layers of some rows, their state in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compilation import compiled, compiled_on_disk, inlined, source_stamp
from .heads import take_doubts, write_results
from .layers import first_layer, inner_layer, write_own_squares, write_squares
from .records import (
    SEVERAL,
    Block,
    Group,
    GroupRows,
    LeftPixels,
    NetworkConstants,
    NetworkNumbers,
    PackedTables,
    Places,
    Results,
    Taps,
    Wanted,
)
from .sums import (
    add_branch,
    aligned_zeros,
    gather_rows,
    moving_sum,
    piece_levels,
    repeat_over_rows,
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
def group_of(like: np.ndarray, d: int, block: Block) -> Group:
    """Return the shape of a group of rows of `d` pixels, of the dtype of `like`."""
    width = VECTOR_BYTES // like.itemsize
    size = (d * block.rows + width - 1) // width * width
    return Group(d, block.rows, block.halo, block.halo * block.rows, size)


@compiled
def length_of(like: np.ndarray, group: Group) -> int:
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
def rooms_of(network: NetworkNumbers) -> int:
    """Return the quantities that the moving sums of a filter need (`sums.moving_sum`)."""
    return piece_levels(max(network.inner_size, network.outer_size, network.window)) + 1


@compiled
def find_rows(rows: GroupRows, first: int, block: Block, per_case: int) -> None:
    """Find the right case and the offset of each row of the group that begins at row `first`."""
    for row in range(len(rows.begin)):
        place = first + min(row, rows.used - 1)  # the last group repeats its last row
        rows.right_case[row], rows.offset[row] = place // block.offsets, place % block.offsets
        rows.begin[row] = rows.right_case[row] * per_case + rows.offset[row]


@compiled
def gather_tables(
    memory: Numbers, places: Places, group: Group, right: PackedTables, begin: Numbers,
    per_table: int, layers: int, right_layers: int,
) -> None:  # fmt: skip
    """Copy the right cases' tables to the rows of a group: √(q/2) and 1/√q, layer by layer."""
    length = places.length
    for layer in range(layers):
        at = right_layers + 2 * layer * length
        gather_rows(memory, at, right.half_root, layer * per_table, begin, group, 1)
        gather_rows(memory, at + length, right.inverse, layer * per_table, begin, group, 1)
    for channel in range(places.channels):
        at = places.right_units + channel * length
        gather_rows(memory, at, right.units, channel * per_table, begin, group, 1)


@compiled
def addresses(tables: PackedTables) -> PackedTables:
    """Return tables as addresses of their numbers."""
    return PackedTables(
        numbers_of(tables.units), numbers_of(tables.half_root), numbers_of(tables.inverse)
    )


@compiled
def box_linear_part(memory: Numbers, places: Places, group: Group, size: int, step: int) -> None:
    """Set `linear_box` to the sums of (t + r) F⁰ over windows of `size` taps, `step` apart."""
    room, length = places.room2, places.length
    taps = moving_sum(memory, places.linear, size, step, group, room, length)
    write_box(memory, taps, places.linear_box, group.size)


@compiled
def add_tangent_branch(
    memory: Numbers, places: Places, group: Group, outer: int, step: int, layer: Any
) -> None:
    """Add the residual branch of a layer to A, behind its outer filter."""
    room, length = places.room1, places.length
    taps = moving_sum(memory, places.tangent_branch, outer, step, group, room, length)
    add_branch(memory, places.tangent + group.start, layer.skip_scale, taps, group.size)


@compiled
def add_to_states(
    memory: Numbers, places: Places, group: Group, outer: int, step: int, layer: Any,
    with_distance: bool, with_tangent: bool, with_features: bool,
) -> None:  # fmt: skip
    """Add the residual branch of a layer to some of D, A and F, behind its outer filter.

    The filter has `outer` taps, `step` pixels apart.
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
def left_pixels(
    memory: Numbers, places: Places, group: Group, left: PackedTables, case: int, layers: int,
    number: int,
) -> LeftPixels:  # fmt: skip
    """Return the left case's tables for a layer, copied to all rows where vectors need it."""
    d, root, inverse = group.d, places.tables, places.tables + places.length
    input_root, input_inverse = places.tables + 2 * places.length, places.tables + 3 * places.length
    unit, table = case * places.channels * d, case * layers * d
    if group.rows % (VECTOR_BYTES // memory.itemsize) == 0:
        at = table + number * d
        return LeftPixels(
            left.units, left.half_root, left.inverse, unit, d, table, table, at, at, True
        )
    if number == 1:
        for channel in range(places.channels):
            at = places.left_units + channel * places.length
            repeat_over_rows(memory, at, left.units, unit + channel * d, group)
        repeat_over_rows(memory, input_root, left.half_root, table, group)
        repeat_over_rows(memory, input_inverse, left.inverse, table, group)
    repeat_over_rows(memory, inverse, left.inverse, table + number * d, group)
    repeat_over_rows(memory, root, left.half_root, table + number * d, group)
    step = places.length
    return LeftPixels(
        memory,
        memory,
        memory,
        places.left_units,
        step,
        input_root,
        input_inverse,
        root,
        inverse,
        False,
    )


@inlined
def pass_layers(
    memory: Numbers, places: Places, group: Group, rows: GroupRows, left: PackedTables,
    case: int, constants: NetworkConstants, wanted: Wanted, block: Block, results: Results,
    sums: np.ndarray, squares_together: bool,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers, and write the results.

    With `squares_together`, the rings `squares` hold the squared distances of the input's pixels.
    """
    layers, slots, network = constants.layers, constants.slots, constants.numbers
    p, r = numbers_of(constants.p), numbers_of(constants.r)
    inner_size, length, depth = network.inner_size, places.length, len(layers) - 1
    right_layers = places.tables + 4 * length
    sum_factor = network.outer_size if wanted.summed else 1
    K = group.start + (places.features if wanted.summed else places.K)
    with_linear = network.linear_apart and wanted.ntk
    pixels = left_pixels(memory, places, group, left, case, depth + 1, 1)
    ring = places.squares
    if squares_together:
        ring += case % SEVERAL * length
    elif network.window > 0:
        write_own_squares(memory, places, pixels, group, ring)
    squares = Taps(ring + group.start, 0, 0, True)
    if network.window > 0:
        squares = moving_sum(memory, ring, network.window, 1, group, places.room1, length)
    doubtful = first_layer(
        memory, places, pixels, right_layers, right_layers + 2 * length, group, K, network,
        layers[1], p, r, 1.0 / sum_factor, False, squares, squares_together,
    )  # fmt: skip
    boxed = 0
    for number in range(1, depth + 1):
        layer, slot = layers[number], slots[number]
        step, outer_step = constants.steps[number, 0], constants.steps[number, 1]
        if number > 1:
            if with_linear and step != boxed:
                box_linear_part(memory, places, group, inner_size, step)
                boxed = step
            pixels = left_pixels(memory, places, group, left, case, depth + 1, number)
            room1, room2 = places.room1, places.room2
            distances = moving_sum(memory, places.distance, inner_size, step, group, room1, length)
            tangents = distances
            if wanted.ntk:
                tangents = moving_sum(
                    memory, places.tangent, inner_size, step, group, room2, length
                )
            right_root = right_layers + 2 * number * length
            doubtful |= inner_layer(
                memory, places, pixels, right_root, group, K, distances, tangents, wanted.ntk,
                with_linear, layer, p, r,
            )  # fmt: skip
        with_features = not wanted.summed and wanted.gpk and (network.skip or slot >= 0)
        add_to_states(
            memory, places, group, network.outer_size, outer_step, layer, number < depth,
            wanted.ntk, with_features,
        )  # fmt: skip
        if slot >= 0:
            write_results(
                memory, places, group, rows, case, slot, wanted, block, results, sums, sum_factor,
                layer.one,
            )  # fmt: skip
    if doubtful:
        take_doubts(memory, places, group, rows, case, results, sums)


@compiled
def all_doubtful(rows: GroupRows, case: int, results: Results) -> bool:
    """Return whether all pairs of a left case with a group have more doubt than allowed."""
    for row in range(rows.used):
        if not results.doubt[case, rows.right_case[row]] > results.most_doubt:
            return False
    return True


@compiled_on_disk
def compute(
    left: PackedTables, right: PackedTables, constants: NetworkConstants, wanted: Wanted,
    block: Block, results: Results, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of all left with all right cases, at all offsets and all layers.

    The tables of `right` are flat. Pairs whose `results.doubt` exceeds `most_doubt` may be
    incomplete. `stamp` is not to be given: it makes the key on disk change with any of the
    source files.
    """
    cases, layers, d = left.half_root.shape
    channels, per_table = left.units.shape[1], len(right.half_root) // layers
    per_case = d + block.offsets - 1
    total = per_table // per_case * block.offsets
    group = group_of(left.half_root, d, block)
    length = length_of(left.half_root, group)
    vector, network = VECTOR_BYTES // left.half_root.itemsize, constants.numbers
    few = channels < MANY_CHANNELS and network.window == 0
    together = block.rows % vector == 0 and not few
    several = SEVERAL if together else (1 if network.window > 0 else 0)
    places = places_of(length, channels, rooms_of(network), several)
    right_layers = places.tables + 4 * length
    held = aligned_zeros(right_layers + 2 * layers * length, left.half_root)
    memory, lefts, rights = numbers_of(held), addresses(left), addresses(right)
    sums = np.zeros((len(results.grids), block.rows + LINE_BYTES))
    numbers = np.zeros((3, block.rows), np.int64)
    for first in range(0, total, block.rows):
        used = min(block.rows, total - first)
        rows = GroupRows(numbers[0], numbers[1], numbers[2], used)
        find_rows(rows, first, block, per_case)
        begin = numbers_of(rows.begin)
        gather_tables(memory, places, group, rights, begin, per_table, layers, right_layers)
        last = min(cases, rows.right_case[block.rows - 1] + block.diagonal_shift + 1)
        for case in range(last):
            if together and case % SEVERAL == 0:
                write_squares(memory, places, lefts.units, case, last - 1, group)
            if all_doubtful(rows, case, results):
                continue
            pass_layers(
                memory, places, group, rows, lefts, case, constants, wanted, block, results, sums,
                together,
            )  # fmt: skip
    held[0] = 0.0  # numba frees an array after its last use
