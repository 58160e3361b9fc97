"""The compiled loop of the engine "numba": all layers of some rows, their state in the cache."""

from __future__ import annotations

import numpy as np

from .compilation import compiled, compiled_on_disk, inlined, source_stamp
from .heads import write_results
from .layers import first_layer, inner_layer
from .records import (
    Block,
    Group,
    GroupRows,
    NetworkConstants,
    PackedTables,
    Places,
    Results,
    Wanted,
)
from .sums import add_branch, aligned_zeros, gather_rows, moving_sum, repeat_over_rows
from .vectors import LINE_BYTES, VECTOR_BYTES


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
def places_of(length: int, channels: int) -> Places:
    """Return places of all quantities in one memory, `length` apart."""
    k = length
    return Places(
        0, k, 2 * k, 3 * k, 4 * k, 5 * k, (6 * k, 7 * k, 8 * k), (9 * k, 10 * k, 11 * k),
        12 * k, 13 * k, 14 * k, 15 * k, (15 + channels) * k, (15 + 2 * channels) * k, k, channels,
    )  # fmt: skip


@compiled
def find_rows(rows: GroupRows, first: int, block: Block, per_case: int) -> None:
    """Find the right case and the offset of each row of the group that begins at row `first`."""
    for row in range(len(rows.begin)):
        place = first + min(row, rows.used - 1)  # the last group repeats its last row
        rows.right_case[row], rows.offset[row] = place // block.offsets, place % block.offsets
        rows.begin[row] = rows.right_case[row] * per_case + rows.offset[row]


@compiled
def gather_tables(
    memory: np.ndarray, places: Places, group: Group, right: PackedTables, begin: np.ndarray,
    per_table: int, layers: int,
) -> None:  # fmt: skip
    """Copy the right cases' tables to the rows of a group."""
    length = places.length
    for layer in range(layers):
        at = places.right_layers + 2 * layer * length
        gather_rows(memory, at, right.half_root, layer * per_table, begin, group)
        gather_rows(memory, at + length, right.inverse, layer * per_table, begin, group)
    for channel in range(places.channels):
        at = places.right_units + channel * length
        gather_rows(memory, at, right.units, channel * per_table, begin, group)


@inlined
def pass_layers(
    memory: np.ndarray, places: Places, group: Group, rows: GroupRows, left: PackedTables,
    case: int, constants: NetworkConstants, wanted: Wanted, block: Block, results: Results,
    sums: np.ndarray,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers, and write the results."""
    half_root, inverse = left.half_root, left.inverse
    layers, slots, p, r = constants.layers, constants.slots, constants.p, constants.r
    inner_size, outer_size = constants.inner_size, constants.outer_size
    size, start = group.size, group.start
    sum_factor = outer_size if wanted.summed else 1
    K = start + (places.features if wanted.summed else places.K)
    for channel in range(places.channels):
        at = places.left_units + channel * places.length
        repeat_over_rows(memory, at, left.units, case, channel, group)
    repeat_over_rows(memory, places.left_input, half_root, case, 0, group)
    repeat_over_rows(memory, places.left_root, half_root, case, 1, group)
    for careful in (False, True):
        if not first_layer(memory, places, group, K, constants, 1.0 / sum_factor, careful):
            break

    depth = len(layers) - 1
    for number in range(1, depth + 1):
        layer, slot = layers[number], slots[number]
        if number > 1:
            repeat_over_rows(memory, places.left_root, half_root, case, number, group)
            repeat_over_rows(memory, places.left_inverse, inverse, case, number, group)
            distances = moving_sum(memory, places.distance, inner_size, group, places.room1)
            tangents = distances
            if wanted.ntk:
                tangents = moving_sum(memory, places.tangent, inner_size, group, places.room2)
            right_root = places.right_layers + 2 * number * places.length
            inner_layer(
                memory, places, group, K, right_root, distances, tangents, wanted.ntk, layer, p, r
            )
        if number < depth:
            taps = moving_sum(memory, places.branch_distance, outer_size, group, places.room1)
            add_branch(memory, places.distance + start, layer.skip_scale, taps, size)
        if wanted.ntk:
            taps = moving_sum(memory, places.tangent_branch, outer_size, group, places.room1)
            add_branch(memory, places.tangent + start, layer.skip_scale, taps, size)
        if not wanted.summed and wanted.gpk and (constants.skip or slot >= 0):
            taps = moving_sum(memory, places.K, outer_size, group, places.room1)
            add_branch(memory, places.features + start, layer.skip_scale, taps, size)
        if slot >= 0:
            write_results(
                memory, places, group, rows, case, slot, wanted, block, results, sums, sum_factor
            )


@compiled_on_disk
def compute(
    left: PackedTables, right: PackedTables, constants: NetworkConstants, wanted: Wanted,
    block: Block, results: Results, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of all left with all right cases, at all offsets and all layers.

    `stamp` is not to be given: it makes the key on disk change with any of the source files.
    """
    cases, layers, d = left.half_root.shape
    channels, per_table = left.units.shape[1], len(right.half_root) // layers
    per_case = d + block.offsets - 1
    total = per_table // per_case * block.offsets
    group = group_of(left.half_root, d, block)
    length = length_of(left.half_root, group)
    places = places_of(length, channels)
    memory = aligned_zeros(places.right_layers + 2 * layers * length, left.half_root)
    sums = np.zeros((2, block.rows + LINE_BYTES))
    numbers = np.zeros((3, block.rows), np.int64)
    for first in range(0, total, block.rows):
        used = min(block.rows, total - first)
        rows = GroupRows(numbers[0], numbers[1], numbers[2], used)
        find_rows(rows, first, block, per_case)
        gather_tables(memory, places, group, right, rows.begin, per_table, layers)
        last = rows.right_case[block.rows - 1]
        for case in range(min(cases, last + block.diagonal_shift + 1)):
            pass_layers(
                memory, places, group, rows, left, case, constants, wanted, block, results, sums
            )
