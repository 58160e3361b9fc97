"""The compiled recursion of deficits (engines/deficits.py), for pairs that lose digits otherwise.

Each row of a group has its own pair of cases. The state and the loops are those of rows.py and
layers.py; `distance` holds the deficit u. Windows are merged along the pieces of
`sums.moving_sum`: three parts at a time, and the last three together with the identity path.
Root masses are divided by √2, as the tables have them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..layer import correlate, dual
from .arguments import (
    FilterSum,
    FlatTables,
    GroupRows,
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
from .heads import find_grids, write_results
from .layers import first_layer, write_tangent_branch
from .rows import (
    add_tangent_branch,
    box_linear_part,
    gather_units,
    group_of,
    length_of,
    places_of,
    places_of_group,
    rooms_of,
    scratch_of_sums,
)
from .sums import (
    address_of_sum,
    aligned_zeros,
    box,
    fill_halo,
    gather_rows,
    moving_sum,
    shortened,
    taps_of_step,
)
from .vectors import (
    VECTOR_BYTES,
    Numbers,
    Vector,
    load,
    numbers_of,
    rounded_product,
    store,
)


class MassSide(NamedTuple):
    """One side's tables, and the places of its root masses in the current layer."""

    tables: FlatTables
    rows: RowPlaces

    per_table: int
    """Numbers of a table."""

    features: int
    """Two rings of √(F/2): of even layers, and of odd ones."""

    window: int
    inverse: int
    """Ring of √(q/2), and 1/√q."""

    inner: int
    outer: int
    """Rings of the pieces of the inner and of the outer filter's windows."""


class MergedTaps(NamedTuple):
    """Three parts of a window: places of their deficits and of both sides' root masses."""

    deficits: Taps
    left: Taps
    right: Taps


@compiled
def mass_side(
    tables: FlatTables, rows: RowPlaces, per_table: int, first: int, length: int, inner: int
) -> MassSide:
    """Return a side whose places begin at `first`; the inner filter has `inner` pieces."""
    window = first + 2 * length
    pieces = window + 2 * length
    return MassSide(
        tables, rows, per_table, first, window, window + length, pieces, pieces + inner * length
    )


@compiled
def difference(a: Vector, b: Vector, other_a: Vector, other_b: Vector, scale: Vector) -> Vector:
    """Return the square of (a b' − a' b) times `scale`, the same for exchanged sides."""
    part = (rounded_product(a, other_b) - rounded_product(other_a, b)) * scale
    return part * part


@compiled
def load_taps(memory: Numbers, taps: Taps, at: int) -> tuple[Vector, Vector, Vector]:
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
def merged_window(
    memory: Numbers, ring: int, left: int, right: int, left_pieces: int, right_pieces: int,
    window: FilterSum, step: int, group: RowGroup, room: int, length: int, twice: float,
    tiny: float,
) -> MergedTaps:  # fmt: skip
    """Return the last three parts of a filter's windows: `sums.moving_sum` of deficits.

    `left` and `right` are the rings of single pixels' root masses.
    """
    start = group.start
    if window.size == 1:
        return MergedTaps(
            Taps(ring + start, ring + start, ring + start, True),
            Taps(left + start, left + start, left + start, True),
            Taps(right + start, right + start, right + start, True),
        )
    fill_halo(memory, ring, group, step * (window.size // 2))
    rows = step * group.rows
    first = start - window.size // 2 * rows
    last, one, other = ring + first, left + first, right + first
    left_pieces, right_pieces = left_pieces + first, right_pieces + first
    number = 0
    while True:
        parts = MergedTaps(
            taps_of_step(window, number, last, ring + first, rows, room, length),
            taps_of_step(window, number, one, left + first, rows, left_pieces, length),
            taps_of_step(window, number, other, right + first, rows, right_pieces, length),
        )
        if number == window.pieces:
            return parts
        last = room + min(number, window.levels) * length
        one, other = left_pieces + number * length, right_pieces + number * length
        size = group.size + window.steps[5 * number + 4] * rows
        write_merged(memory, parts, one, other, last, twice, tiny, size)
        number += 1


@compiled
def inner_layer(
    memory: Numbers, places: Places, group: RowGroup, left: MassSide, right: MassSide,
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
    memory: Numbers, places: Places, group: RowGroup, parts: MergedTaps, features: Taps,
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
def set_features(memory: Numbers, places: Places, group: RowGroup, roots: Taps) -> None:
    """Set F = √(q1 q2) − u; `roots` has the places of both sides' √(F/2)."""
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        size = 2.0 * (load(memory, roots.first + at) * load(memory, roots.second + at))
        deficit = load(memory, places.distance + group.start + at)
        store(memory, places.features + group.start + at, size - deficit)


@compiled
def gather_ring(
    memory: Numbers, ring: int, values: Numbers, table: int, side: MassSide, group: RowGroup
) -> None:
    """Copy the table number `table` to a ring, and fill its halo."""
    start = ring + group.start
    gather_rows(memory, start, values, table * side.per_table, side.rows, group)
    fill_halo(memory, ring, group, group.halo)


@compiled
def gather_window(
    memory: Numbers, number: int, side: MassSide, group: RowGroup, length: int, inner: int,
    outer: int,
) -> None:  # fmt: skip
    """Copy the tables of a layer's pre-activations and of the pieces of its windows."""
    tables, per_table = side.tables, side.per_table
    gather_ring(memory, side.window, tables.half_root, number, side, group)
    gather_rows(memory, side.inverse, tables.inverse, number * per_table, side.rows, group)
    for k in range(inner if number > 1 else 0):
        table = (number - 2) * inner + k
        gather_ring(memory, side.inner + k * length, tables.inner_pieces, table, side, group)
    for k in range(outer):
        table = (number - 1) * outer + k
        gather_ring(memory, side.outer + k * length, tables.outer_pieces, table, side, group)


@compiled
def features_of(left: MassSide, right: MassSide, number: int, group: RowGroup, k: int) -> Taps:
    """Return the places of √(F/2) of both sides after a layer; `k` is the length of a place."""
    shift = number % 2 * k + group.start
    return Taps(left.features + shift, right.features + shift, 0, False)


@inlined
def pass_layers(
    memory: Numbers, places: Places, group: RowGroup, rows: GroupRows, left: MassSide,
    right: MassSide, constants: RunConstants, results: Results,
) -> None:  # fmt: skip
    """Take the pairs of a group through all layers, and write the results."""
    layers, network = constants.layers, constants.numbers
    p, r = numbers_of(constants.p), numbers_of(constants.r)
    inner, outer = address_of_sum(constants.inner), address_of_sum(constants.outer)
    length = places.length
    one, other, start = left, right, group.start
    summed = network.linear_apart and network.gpk
    sum_factor = outer.size if summed else 1
    for side, units in ((left, places.left_units), (right, places.right_units)):
        gather_units(memory, places, units, side.tables, side.rows, side.per_table, group)
        gather_ring(memory, side.features, side.tables.features, 0, side, group)
        gather_window(memory, 1, side, group, length, inner.pieces, outer.pieces)
    pixels = LeftPixels(
        memory, memory, memory, places.left_units, length, one.features + start,
        one.inverse, one.window + start, one.inverse, False,
    )  # fmt: skip
    K = start + (places.features if summed else places.K)
    first_layer(
        memory, places, pixels, other.features + start, other.window + start, group, K, network,
        layers[1], p, r, 1.0, True, Taps(0, 0, 0, True), False,
    )  # fmt: skip
    depth, with_linear = len(layers) - 1, network.linear_apart and network.ntk
    central = shortened(group, network.margin, memory.itemsize)
    boxed = 0
    for number in range(1, depth + 1):
        layer = layers[number]
        slot, step, outer_step = layer.slot, layer.inner_step, layer.outer_step
        before = features_of(one, other, number - 1, group, length)
        after = features_of(one, other, number, group, length)
        if number > 1:
            if with_linear and step != boxed:
                box_linear_part(memory, places, group, inner, step)
                boxed = step
            for side in (left, right):
                gather_window(memory, number, side, group, length, inner.pieces, outer.pieces)
            parts = merged_window(
                memory, places.distance, before.first - start, before.second - start, one.inner,
                other.inner, inner, step, group, places.room1, length,
                layer.one + layer.one, layer.tiny,
            )  # fmt: skip
            tangents = parts.deficits
            if network.ntk:
                tangents = moving_sum(
                    memory, places.tangent, inner, step, group, places.room2, length
                )
            inner_layer(
                memory, places, group, one, other, parts, tangents, network.ntk, with_linear,
                summed, layer, p, r,
            )  # fmt: skip
        for side in (left, right):
            ring = side.features + number % 2 * length
            gather_ring(memory, ring, side.tables.features, number, side, group)
        parts = merged_window(
            memory, places.branch_distance, one.window, other.window, one.outer, other.outer,
            outer, outer_step, group, places.room1, length, layer.factor, layer.tiny,
        )  # fmt: skip
        add_branch_deficit(memory, places, group, parts, before, after, layer)
        if network.ntk:
            add_tangent_branch(memory, places, group, outer, outer_step, layer)
        if slot >= 0:
            if network.gpk and not summed:
                set_features(memory, places, group, after)
            write_results(
                memory, places, central, rows, 0, slot, network, results, sum_factor, layer.one,
            )  # fmt: skip


@compiled_on_disk
def compute_in_deficits(
    left: FlatTables, right: FlatTables, lefts: RowPlaces, rights: RowPlaces, group_rows: int,
    constants: RunConstants, results: Results, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of pairs of left with right cases, in all layers.

    Each row has its own pair, `rights.case`. All left cases have the same length. The arrays
    of `results` have one left case, and the pairs in the place of right cases. Open rows keep
    their pixels in all layers, and zeros beyond the ends: the margin takes up what is wrong.
    `stamp` is not to be given: it makes the key on disk change with any of the source files.
    """
    like, layers, network = left.half_root, len(constants.layers), constants.numbers
    left_table, right_table = len(like) // layers, len(right.half_root) // layers
    # Open rows have a halo too: windows reach beyond their ends, where the margin takes it up.
    d, halo = lefts.period[0] + 2 * network.margin, network.halo
    group = group_of(like, d, group_rows, halo, network.closed)
    length = length_of(like, group)
    places = places_of(length, len(left.units) // left_table, rooms_of(constants), 0)
    inner, outer = constants.inner.pieces, constants.outer.pieces
    per_side = (4 + inner + outer) * length
    held = aligned_zeros(places.tables + 2 * per_side + length, like)
    memory, left_tables, right_tables = numbers_of(held), addresses(left), addresses(right)
    grids, sums = scratch_of_sums(results, group_rows)
    for first in range(0, rights.number, group_rows):
        own = places_of_group(lefts, first, group_rows)
        other = places_of_group(rights, first, group_rows)
        rows = GroupRows(other.number, other.case, other.offset, grids, sums)
        find_grids(rows, 0, results)
        one = mass_side(left_tables, own, left_table, places.tables, length, inner)
        end = places.tables + per_side
        two = mass_side(right_tables, other, right_table, end, length, inner)
        pass_layers(memory, places, group, rows, one, two, constants, results)
    held[0] = 0.0  # numba frees an array after its last use
