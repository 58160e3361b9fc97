"""The compiled loop in deficits, for pairs whose distances lose digits (engines/deficits.py).

Each row has its own pair. The state has both sides' root masses and u⁺ besides (`sums.Masses`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .arguments import (
    PADDING,
    Constants,
    FlatTables,
    LeftPixels,
    Places,
    Results,
    RowGroup,
    RowPlaces,
    Taps,
)
from .compilation import compiled
from .groups import (
    fill_halo,
    gather_rows,
    gather_tables,
    rows_of_group,
    shortened,
    write_biases,
)
from .heads import find_grids
from .layer_sums import add_kernels, box_linear, box_tangent
from .layers import first_layer, hidden_layer
from .references import addresses, reference
from .substitutes import has_biases
from .sums import Masses, add_branch_deficit, moving_sum, write_window
from .vectors import Numbers


class MassSide(NamedTuple):
    """The left or the right tables in the recursion of deficits."""

    tables: FlatTables
    rows: RowPlaces
    per_table: int  # numbers of a table
    to_mass: int  # numbers from a deficit to its root mass in `memory`
    low: int  # as in `Masses`


@compiled
def masses_of(places: Places, split: bool, twice: float, tiny: float, biases: int) -> Masses:
    """Return where masses are in `memory`: in copies of the quantities before `Places.tangent`.

    The copies are the left and the right root masses, and u⁺. `split` masses have two copies more,
    of their low parts. The copies of `biases` are the biases' masses.
    """
    copy = places.tangent - places.distance
    low = 3 * copy if split else 0
    first = places.left_layer - places.distance
    return Masses(first, first + copy, first + 2 * copy, low, twice, tiny, biases)


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
def pass_layers_in_deficits(
    whole: RowGroup, rows: RowPlaces, sides: tuple[MassSide, MassSide], constants: Constants,
    results: Results,
) -> None:  # fmt: skip
    """Take the pairs of a group's rows through all layers, and write the results.

    Open rows become shorter with each filter.
    """
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    memory, places, length, boxed = whole.memory, whole.places, whole.length, 0
    state, other_state, branch = places.distance, places.other_distance, places.branch_distance
    split = sides[0].low > 0
    for side in sides:
        gather_masses(whole, state, side.tables.features, 0, 1, side)
    central = addresses(shortened(whole, constants.margin))
    biased = has_biases(layers[0])
    if biased:
        write_biases(whole, rows, -1, results, whole.d)
    group = addresses(shortened(whole, constants.window.size // 2))
    for number in range(1, len(layers)):
        if constants.stop[0]:
            return
        layer = layers[number]
        step = layer.inner_step
        if number > 1:
            group = addresses(shortened(group, step * (inner.size // 2)))
        for side in sides:
            tables, first = side.tables, (number - 2) * inner.pieces
            gather_masses(whole, branch, tables.half_root, number, 1, side)
            # K, the quantity after the branch's, has no masses: 1/√q takes their place.
            inverse = places.K + side.to_mass + whole.start
            gather_rows(whole, inverse, tables.inverse, number * side.per_table, side.rows)
            if number > 1:
                scratch = places.distance_scratch
                gather_masses(whole, scratch, tables.inner_pieces, first, inner.pieces, side)
        biases = places.distance_scratch + max(inner.pieces, outer.pieces) * length
        if biased and number > 1:
            for side in sides:
                gather_masses(whole, biases, side.tables.biases, 2 * number - 2, 1, side)
        twice = layer.one + layer.one
        masses = masses_of(places, split, twice, layer.tiny, biases + group.start)
        right_input = state + group.start + masses.right
        right_root = branch + group.start + masses.right
        pixels = addresses(LeftPixels(
            memory, memory, memory, memory, places.left_units, length,
            state + group.start + masses.left, branch + group.start + masses.left, length, 0,
        ))  # fmt: skip
        if number == 1:
            taps = moving_sum(
                group, places.squares, constants.window, 1, places.distance_scratch, None
            )  # fmt: skip
            first_layer(
                group, pixels, right_input, right_root, taps, constants, masses=masses, tape=None,
                kept=0,
            )  # fmt: skip
        else:
            boxed = box_linear(group, constants, step, boxed)
            taps = moving_sum(group, state, inner, step, places.distance_scratch, masses)
            merged = branch + group.start
            write_window(memory, taps, merged, group.size, masses, layer)
            taps = Taps(merged, merged, merged, True)
            tangents = box_tangent(group, constants, step, taps)
            hidden_layer(
                group, pixels, right_root, taps, tangents, constants, layer=layer, masses=masses,
                tape=None, kept=0,
            )  # fmt: skip
        group = addresses(shortened(group, layer.outer_step * (outer.size // 2)))
        for side in sides:
            tables, first = side.tables, (number - 1) * outer.pieces
            scratch = places.distance_scratch
            gather_masses(whole, scratch, tables.outer_pieces, first, outer.pieces, side)
            gather_masses(whole, other_state, tables.features, number, 1, side)
            if biased:
                gather_masses(whole, biases, tables.biases, 2 * number - 1, 1, side)
        outer_masses = masses_of(
            places, split, layer.factor, layer.tiny, biases + group.start
        )  # fmt: skip
        add_branch_deficit(group, state, other_state, outer, layer, outer_masses)
        state, other_state = other_state, state
        add_kernels(group, central, rows, 0, constants, results, layer)


@compiled
def compute_pairs(
    left: FlatTables, right: FlatTables, pairs: RowPlaces, rights: RowPlaces, whole: RowGroup,
    constants: Any, results: Results,
) -> None:  # fmt: skip
    """Compute kernels of pairs; `pairs` are the left cases' rows, as `rights` the right cases'.

    Both sides' tables are laid out as right ones. The arrays of `results` have one left case, and
    the pairs in the place of right cases.
    """
    layers, split = len(constants.layers), len(left.half_root) > len(left.inverse)
    left_table = (len(left.inverse) - PADDING) // layers
    right_table = (len(right.inverse) - PADDING) // layers
    left, right = addresses(left), addresses(right)
    constants, results = addresses(constants), reference(results)
    places, group_rows = whole.places, whole.rows
    units = 2 * places.channels if split else places.channels
    masses = masses_of(places, split, 0.0, 0.0, 0)
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        own = addresses(rows_of_group(pairs, first, group_rows))
        gather_tables(whole, places.right_units, 1, right.units, units, rows, right_table)
        gather_tables(whole, places.left_units, 1, left.units, units, own, left_table)
        sides = (
            MassSide(left, own, left_table, masses.left, masses.low),
            MassSide(right, rows, right_table, masses.right, masses.low),
        )
        find_grids(rows, 0, results)
        pass_layers_in_deficits(whole, rows, sides, constants, results)
