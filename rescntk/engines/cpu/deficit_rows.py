"""Root masses of a group of rows, for the recursion of deficits (engines/deficits.py).

Each row has its own pair. The state has both sides' root masses and u⁺ besides (`sums.Masses`).
"""

from __future__ import annotations

from typing import NamedTuple

from .arguments import Constants, FlatTables, LeftPixels, RowGroup, RowPlaces
from .compilation import compiled
from .groups import fill_halo, gather_rows
from .substitutes import has_biases
from .sums import Masses
from .vectors import Numbers


class MassSide(NamedTuple):
    """The left or the right tables in the recursion of deficits."""

    tables: FlatTables
    rows: RowPlaces
    per_table: int  # numbers of a table
    to_mass: int  # numbers from a deficit to its root mass in `memory`
    low: int  # as in `Masses`


@compiled
def gather_masses(
    group: RowGroup, ring: int, values: Numbers, first: int, number: int, side: MassSide
) -> None:  # fmt: skip
    """Copy `number` root masses, from `first` on, to the masses of rings from `ring` on."""
    numbers = 2 if side.low > 0 else 1  # of a root mass
    for k in range(numbers * number):
        out = ring + side.to_mass + k // numbers * group.length + k % numbers * side.low
        table = (numbers * first + k) * side.per_table
        gather_rows(group, out + group.start, values, table, side.rows)
        fill_halo(group, out, group.halo)


@compiled
def side_of(
    group: RowGroup, tables: FlatTables, rows: RowPlaces, per_table: int, copy: int, split: bool
) -> MassSide:
    """Return one side, whose masses are in a copy of the quantities before `Places.tangent`.

    The copies are the left (0) and the right root masses (1), and u⁺. `split` masses have two
    copies more, of their low parts.
    """
    places = group.places
    size = places.tangent - places.distance
    low = 3 * size if split else 0
    return MassSide(tables, rows, per_table, places.left_layer - places.distance + copy * size, low)


@compiled
def masses_of(
    group: RowGroup, sides: tuple[MassSide, MassSide], twice: float, constants: Constants
) -> Masses:
    """Return where masses are in `memory`, and the numbers of merges."""
    left, right, biases = sides[0].to_mass, sides[1].to_mass, place_of_biases(group, constants)
    return Masses(
        left=left,
        right=right,
        opposite=right + (right - left),
        low=sides[0].low,
        twice=twice,
        tiny=constants.layers[0].tiny,
        biases=biases + group.start,
    )


@compiled
def place_of_biases(group: RowGroup, constants: Constants) -> int:
    """Return the place of the biases' masses, behind the scratch of both filters' sums."""
    pieces = max(constants.inner.pieces, constants.outer.pieces)
    return group.places.distance_scratch + pieces * group.length


@compiled
def gather_window(
    whole: RowGroup, group: RowGroup, number: int, sides: tuple[MassSide, MassSide],
    constants: Constants,
) -> Masses:  # fmt: skip
    """Copy the root masses of a layer's windows and of their parts; return where they are."""
    places, inner, layer = whole.places, constants.inner, constants.layers[number]
    for side in sides:
        tables, first = side.tables, (number - 2) * inner.pieces
        gather_masses(whole, places.branch_distance, tables.half_root, number, 1, side)
        # K, the quantity after the branch's, has no masses: 1/√q takes their place.
        inverse = places.K + side.to_mass + whole.start
        gather_rows(whole, inverse, tables.inverse, number * side.per_table, side.rows)
        if number > 1:
            scratch = places.distance_scratch
            gather_masses(whole, scratch, tables.inner_pieces, first, inner.pieces, side)
        if has_biases(layer):
            biases = place_of_biases(whole, constants)
            gather_masses(whole, biases, tables.biases, 2 * number - 2, 1, side)
    return masses_of(group, sides, layer.one + layer.one, constants)


@compiled
def gather_branch(
    whole: RowGroup, group: RowGroup, after: int, number: int, sides: tuple[MassSide, MassSide],
    constants: Constants,
) -> Masses:  # fmt: skip
    """Copy the root masses of a branch's parts and of the features `after` the layer."""
    outer, layer = constants.outer, constants.layers[number]
    for side in sides:
        tables, first = side.tables, (number - 1) * outer.pieces
        scratch = whole.places.distance_scratch
        gather_masses(whole, scratch, tables.outer_pieces, first, outer.pieces, side)
        gather_masses(whole, after, tables.features, number, 1, side)
        if has_biases(layer):
            biases = place_of_biases(whole, constants)
            gather_masses(whole, biases, tables.biases, 2 * number - 1, 1, side)
    return masses_of(group, sides, layer.factor, constants)


@compiled
def mass_pixels(group: RowGroup, state: int, masses: Masses) -> LeftPixels:
    """Return the left root masses of the features at `state`, and of the branch."""
    memory, places, left = group.memory, group.places, group.start + masses.left
    return LeftPixels(
        units=memory, roots=memory, inverses=memory, lost=memory, unit=places.left_units,
        unit_step=group.length, input=state + left, root=places.branch_distance + left,
        step=group.length, pixels=0,
    )  # fmt: skip
