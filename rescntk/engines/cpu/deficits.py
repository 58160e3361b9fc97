"""The compiled recursion of deficits (engines/deficits.py), for pairs that lose digits otherwise.

Each row of a group has its own pair of cases. The state and the loops are those of rows.py and
layers.py; `distance` holds the deficit u. Windows are merged along the pieces of
`sums.moving_sum`: three parts at a time, and the last three together with the identity path.
Root masses are divided by √2, as the tables have them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..layer import correlate, dual
from .compilation import compiled, compiled_on_disk, inlined, source_stamp
from .heads import find_grids, write_results
from .layers import first_layer, write_tangent_branch
from .records import (
    Block,
    Group,
    GroupRows,
    LeftPixels,
    MassTables,
    NetworkConstants,
    Places,
    Results,
    RowPixels,
    Rows,
    Taps,
    Wanted,
)
from .rows import (
    add_tangent_branch,
    addresses_of_rows,
    box_linear_part,
    group_of,
    group_rows,
    length_of,
    places_of,
    rooms_of,
)
from .sums import (
    aligned_zeros,
    box,
    fill_halo,
    gather_rows,
    moving_sum,
    next_taps,
    piece_count,
    shortened,
)
from .vectors import (
    LINE_BYTES,
    VECTOR_BYTES,
    Numbers,
    Vector,
    load,
    numbers_of,
    rounded_product,
    store,
)


class MassPlaces(NamedTuple):
    """Places of one side's tables of the current layer.

    Attributes
    ----------
    features : int
        Two rings of √(F/2): of even layers, and of odd ones.
    window : int
        Ring of √(q/2).
    inverse : int
        1/√q.
    inner, outer : int
        Rings of the pieces of the inner and of the outer filter's windows.
    """

    features: int
    window: int
    inverse: int
    inner: int
    outer: int


class Side(NamedTuple):
    """Tables of the left or right signals, the places of the tables, and where the rows lie.

    `per_table` is the numbers of a table. Rows begin with their pixel `first`.
    """

    tables: MassTables
    places: MassPlaces
    rows: RowPixels
    per_table: int
    first: int


class MergedTaps(NamedTuple):
    """Three parts of a window: places of their deficits and of both sides' root masses."""

    deficits: Taps
    left: Taps
    right: Taps


@compiled
def mass_places_of(first: int, length: int, inner: int, outer: int) -> tuple[MassPlaces, int]:
    """Return places from `first` on for `inner` and `outer` pieces of the filters, and the end."""
    places = MassPlaces(
        first, first + 2 * length, first + 3 * length, first + 4 * length,
        first + (4 + inner) * length,
    )  # fmt: skip
    return places, first + (4 + inner + outer) * length


@compiled
def difference(a: Vector, b: Vector, other_a: Vector, other_b: Vector, scale: Vector) -> Vector:
    """Return the square of (a b' − a' b) times `scale`, the same for exchanged sides."""
    part = (rounded_product(a, other_b) - rounded_product(other_a, b)) * scale
    return part * part


@compiled
def load_taps(memory: Numbers, taps: Taps, at: int) -> tuple[Vector, Vector, Vector]:
    """Read vectors at three places."""
    first, second = load(memory, taps.first + at), load(memory, taps.second + at)
    return first, second, load(memory, taps.third + at)


@compiled
def merged_box(
    memory: Numbers, parts: MergedTaps, left: int, right: int, twice: float, tiny: float,
    at: int,
) -> Vector:  # fmt: skip
    """Return the deficit of three parts together: Σ u_p + N (Lagrange's identity).

    `left` and `right` are the places of the root masses of all three together. `twice` is twice
    the unit of masses, in the unit of deficits.
    """
    deficit = box(memory, parts.deficits, at)
    if parts.deficits.single:
        return deficit
    a, b, c = load_taps(memory, parts.left, at)
    x, y, z = load_taps(memory, parts.right, at)
    total = load(memory, left + at) * load(memory, right + at) + tiny
    total = total + (a * x + (b * y + c * z))
    scale = 1.0 / total
    squares = difference(a, x, b, y, scale) + difference(a, x, c, z, scale)
    squares = squares + difference(b, y, c, z, scale)
    return deficit + twice * total * squares


@compiled
def write_merged(
    memory: Numbers, parts: MergedTaps, left: int, right: int, out: int, twice: float,
    tiny: float, size: int,
) -> None:  # fmt: skip
    """Write the deficits of three parts together to `size` places from `out` on."""
    for at in range(0, size, VECTOR_BYTES // memory.itemsize):
        store(memory, out + at, merged_box(memory, parts, left, right, twice, tiny, at))


@compiled
def thirds(place: int, shift: int) -> Taps:
    """Return the three places `place`, `place` + `shift` and `place` + 2 `shift`."""
    return Taps(place, place + shift, place + 2 * shift, False)


@compiled
def merged_window(
    memory: Numbers, ring: int, left: int, right: int, left_pieces: int, right_pieces: int,
    size: int, step: int, group: Group, room: int, length: int, twice: float, tiny: float,
) -> MergedTaps:  # fmt: skip
    """Return the last three parts of a filter's windows: `sums.moving_sum` of deficits.

    `left` and `right` are the rings of single pixels' root masses.
    """
    if size == 1:
        start = group.start
        one, other = left + start, right + start
        return MergedTaps(
            Taps(ring + start, ring + start, ring + start, True),
            Taps(one, one, one, True),
            Taps(other, other, other, True),
        )
    fill_halo(memory, ring, group, step * (size // 2))
    rows, levels, width = step * group.rows, 0, 1
    shift = group.start - size // 2 * rows
    first, first_left, first_right = ring + shift, left + shift, right + shift
    left_pieces, right_pieces = left_pieces + shift, right_pieces + shift
    window, one, other = first, first_left, first_right
    while 3 * width < size:
        gap = width * rows
        parts = MergedTaps(thirds(window, gap), thirds(one, gap), thirds(other, gap))
        window = room + levels * length
        one, other = left_pieces + levels * length, right_pieces + levels * length
        count = group.size + (size - 3 * width) * rows
        write_merged(memory, parts, one, other, window, twice, tiny, count)
        width, levels = 3 * width, levels + 1
    pieces = levels
    while True:
        taps, wider = next_taps(window, width, size, rows, first, room, length)
        one_taps, _ = next_taps(one, width, size, rows, first_left, left_pieces, length)
        other_taps, _ = next_taps(other, width, size, rows, first_right, right_pieces, length)
        parts, width = MergedTaps(taps, one_taps, other_taps), wider
        if width == size:
            return parts
        window = room + levels * length
        one, other = left_pieces + pieces * length, right_pieces + pieces * length
        write_merged(memory, parts, one, other, window, twice, tiny, group.size)
        pieces += 1


@compiled
def inner_layer(
    memory: Numbers, places: Places, group: Group, left: MassPlaces, right: MassPlaces,
    parts: MergedTaps, tangents: Taps, with_ntk: bool, with_linear: bool, summed: bool,
    layer: Any, p: Numbers, r: Numbers,
) -> None:  # fmt: skip
    """Compute the branch of layer 2, 3, …, before its outer filter: its deficit, K if `summed`
    is true, and its part of A (layers.inner_layer).
    """
    start, twice = group.start, layer.one + layer.one
    K = start + places.features
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        window1, window2 = left.window + start, right.window + start
        deficit = merged_box(memory, parts, window1, window2, twice, layer.tiny, at)
        root1, root2 = load(memory, window1 + at), load(memory, window2 + at)
        inverse = load(memory, left.inverse + at) * load(memory, right.inverse + at)
        w, half_g = correlate(deficit, inverse), root1 * root2
        branch = dual(half_g, w, 2.0 - w, layer, (p, r))
        store(memory, places.branch_distance + start + at, branch.deficit)
        if summed:
            store(memory, K + at, layer.sum_scale * load(memory, K + at) + branch.K)
        if with_ntk:
            write_tangent_branch(
                memory, places, start + at, branch, w, half_g, box(memory, tangents, at),
                with_linear, layer,
            )  # fmt: skip


@compiled
def add_branch_deficit(
    memory: Numbers, places: Places, group: Group, parts: MergedTaps, features: Taps,
    merged: Taps, layer: Any,
) -> None:  # fmt: skip
    """Set u to the deficit of the identity path and of the window of the branch together.

    `features` are the places of √(F/2) of both sides before the layer, `merged` behind it, each
    the first two of the taps.
    """
    skip, half = layer.skip_scale, layer.half_factor
    state = places.distance + group.start
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        f, g = load(memory, features.first + at), load(memory, features.second + at)
        total = load(memory, merged.first + at) * load(memory, merged.second + at) + layer.tiny
        total = total + skip * (f * g)
        a, b, c = load_taps(memory, parts.left, at)
        x, y, z = load_taps(memory, parts.right, at)
        if parts.deficits.single:
            total = total + half * (a * x)
            squares = skip * half * difference(f, g, a, x, 1.0 / total)
        else:
            total = total + half * (a * x + (b * y + c * z))
            scale = 1.0 / total
            identity = difference(f, g, a, x, scale) + difference(f, g, b, y, scale)
            identity = identity + difference(f, g, c, z, scale)
            taps = difference(a, x, b, y, scale) + difference(a, x, c, z, scale)
            taps = taps + difference(b, y, c, z, scale)
            squares = half * (skip * identity + half * taps)
        deficit = skip * load(memory, state + at) + box(memory, parts.deficits, at)
        store(memory, state + at, deficit + 2.0 * total * squares)


@compiled
def set_features(memory: Numbers, places: Places, group: Group, roots: Taps) -> None:
    """Set F = √(q1 q2) − u; `roots` has the places of both sides' √(F/2)."""
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        size = 2.0 * (load(memory, roots.first + at) * load(memory, roots.second + at))
        deficit = load(memory, places.distance + group.start + at)
        store(memory, places.features + group.start + at, size - deficit)


@compiled
def gather_ring(
    memory: Numbers, ring: int, values: Numbers, table: int, side: Side, group: Group
) -> None:
    """Copy the table number `table` to a ring, and fill its halo."""
    start = ring + group.start
    gather_rows(memory, start, values, table * side.per_table, side.rows, group, side.first)
    fill_halo(memory, ring, group, group.halo)


@compiled
def gather_units(memory: Numbers, places: Places, units: int, side: Side, group: Group) -> None:
    """Copy û of all channels to the place `units`."""
    for channel in range(places.channels):
        at, table = units + channel * places.length, channel * side.per_table
        gather_rows(memory, at, side.tables.units, table, side.rows, group, side.first)


@compiled
def gather_window(
    memory: Numbers, number: int, side: Side, group: Group, length: int, inner: int, outer: int
) -> None:
    """Copy the tables of a layer's pre-activations and of the pieces of its windows."""
    places, tables, per_table = side.places, side.tables, side.per_table
    gather_ring(memory, places.window, tables.half_root, number, side, group)
    gather_rows(
        memory, places.inverse, tables.inverse, number * per_table, side.rows, group, side.first
    )
    for k in range(inner if number > 1 else 0):
        table = (number - 2) * inner + k
        gather_ring(memory, places.inner + k * length, tables.inner_pieces, table, side, group)
    for k in range(outer):
        table = (number - 1) * outer + k
        gather_ring(memory, places.outer + k * length, tables.outer_pieces, table, side, group)


@compiled
def addresses(tables: MassTables) -> MassTables:
    """Return tables as addresses of their numbers."""
    return MassTables(
        numbers_of(tables.units), numbers_of(tables.half_root), numbers_of(tables.inverse),
        numbers_of(tables.features), numbers_of(tables.inner_pieces),
        numbers_of(tables.outer_pieces),
    )  # fmt: skip


@compiled
def features_of(left: MassPlaces, right: MassPlaces, number: int, group: Group, k: int) -> Taps:
    """Return the places of √(F/2) of both sides after a layer; `k` is the length of a place."""
    shift = number % 2 * k + group.start
    return Taps(left.features + shift, right.features + shift, 0, False)


@inlined
def pass_layers(
    memory: Numbers, places: Places, group: Group, rows: GroupRows, left: Side, right: Side,
    constants: NetworkConstants, wanted: Wanted, block: Block, results: Results,
    sums: np.ndarray,
) -> None:  # fmt: skip
    """Take the pairs of a group through all layers, and write the results."""
    layers, slots, network = constants.layers, constants.slots, constants.numbers
    p, r = numbers_of(constants.p), numbers_of(constants.r)
    inner_size, outer_size = network.inner_size, network.outer_size
    inner, outer, length = piece_count(inner_size), piece_count(outer_size), places.length
    one, other, start = left.places, right.places, group.start
    summed = network.linear_apart and wanted.gpk
    sum_factor = outer_size if summed else 1
    for side, units in ((left, places.left_units), (right, places.right_units)):
        gather_units(memory, places, units, side, group)
        gather_ring(memory, side.places.features, side.tables.features, 0, side, group)
        gather_window(memory, 1, side, group, length, inner, outer)
    pixels = LeftPixels(
        memory, memory, memory, places.left_units, length, one.features + start,
        one.inverse, one.window + start, one.inverse, False,
    )  # fmt: skip
    K = start + (places.features if summed else places.K)
    first_layer(
        memory, places, pixels, other.features + start, other.window + start, group, K, network,
        layers[1], p, r, 1.0, True, Taps(0, 0, 0, True), False,
    )  # fmt: skip
    depth, with_linear = len(layers) - 1, network.linear_apart and wanted.ntk
    central = shortened(group, block.margin, memory.itemsize)
    boxed = 0
    for number in range(1, depth + 1):
        layer, slot = layers[number], slots[number]
        step, outer_step = constants.steps[number, 0], constants.steps[number, 1]
        before = features_of(one, other, number - 1, group, length)
        after = features_of(one, other, number, group, length)
        if number > 1:
            if with_linear and step != boxed:
                box_linear_part(memory, places, group, inner_size, step)
                boxed = step
            for side in (left, right):
                gather_window(memory, number, side, group, length, inner, outer)
            parts = merged_window(
                memory, places.distance, before.first - start, before.second - start, one.inner,
                other.inner, inner_size, step, group, places.room1, length,
                layer.one + layer.one, layer.tiny,
            )  # fmt: skip
            tangents = parts.deficits
            if wanted.ntk:
                tangents = moving_sum(
                    memory, places.tangent, inner_size, step, group, places.room2, length
                )
            inner_layer(
                memory, places, group, one, other, parts, tangents, wanted.ntk, with_linear,
                summed, layer, p, r,
            )  # fmt: skip
        for side in (left, right):
            ring = side.places.features + number % 2 * length
            gather_ring(memory, ring, side.tables.features, number, side, group)
        parts = merged_window(
            memory, places.branch_distance, one.window, other.window, one.outer, other.outer,
            outer_size, outer_step, group, places.room1, length, layer.factor, layer.tiny,
        )  # fmt: skip
        add_branch_deficit(memory, places, group, parts, before, after, layer)
        if wanted.ntk:
            add_tangent_branch(memory, places, group, outer_size, outer_step, layer)
        if slot >= 0:
            if wanted.gpk and not summed:
                set_features(memory, places, group, after)
            write_results(
                memory, places, central, rows, 0, slot, wanted, block, results, sums, sum_factor,
                layer.one,
            )  # fmt: skip


@compiled_on_disk
def compute_in_deficits(
    left: MassTables, right: MassTables, left_rows: RowPixels, right_rows: Rows,
    constants: NetworkConstants, wanted: Wanted, block: Block, results: Results,
    stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of pairs of left with right cases, in all layers.

    Each row has its own pair: `right_rows.case`. All left cases have the same length. The arrays
    of `results` have one left case, and the pairs in the place of right cases. Open rows keep
    their pixels in all layers, and zeros beyond the ends: the margin takes up what is wrong.
    `stamp` is not to be given: it makes the key on disk change with any of the source files.
    """
    like, layers, total = left.half_root, len(constants.layers), len(right_rows.case)
    left_table, right_table = len(like) // layers, len(right.half_root) // layers
    group = group_of(like, left_rows.period[0] + 2 * block.margin, block)
    length = length_of(like, group)
    places = places_of(length, len(left.units) // left_table, rooms_of(constants.numbers), 0)
    inner, outer = (
        piece_count(constants.numbers.inner_size),
        piece_count(constants.numbers.outer_size),
    )
    left_places, end = mass_places_of(places.tables, length, inner, outer)
    right_places, end = mass_places_of(end, length, inner, outer)
    held = aligned_zeros(end + length, like)
    memory = numbers_of(held)
    padded = block.rows + LINE_BYTES
    sums = np.zeros((len(results.grids), padded))
    grids = np.zeros((len(results.grids), 2, results.grids.shape[2], padded))
    numbers = np.zeros((8, block.rows), np.int64)
    lefts = Rows(right_rows.case, left_rows)
    for first in range(0, total, block.rows):
        rows = group_rows(right_rows, numbers[:4], grids, first, group)
        find_grids(rows, 0, results)
        own = addresses_of_rows(group_rows(lefts, numbers[4:], grids, first, group).pixels)
        other = addresses_of_rows(rows.pixels)
        one = Side(addresses(left), left_places, own, left_table, -block.margin)
        two = Side(addresses(right), right_places, other, right_table, -block.margin)
        pass_layers(memory, places, group, rows, one, two, constants, wanted, block, results, sums)
    held[0] = numbers[0, 0] = 0  # numba frees arrays after their last use
