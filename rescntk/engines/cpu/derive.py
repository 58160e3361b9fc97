"""The compiled way back: derivatives of kernels, one group of rows at a time (engines/adjoint.py).

A group of rows goes through all layers in distances. What the way back needs of each layer is kept,
in the cache. Then the layers come in reverse order. After each layer, derivatives by variances are
multiplied by the weights of their pairs and added up, in float64. The sums go over the rows at each
pixel of the left case, and over the left cases at each pixel of the right cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import (
    PADDING,
    Constants,
    FlatTables,
    Results,
    RowGroup,
    RowPlaces,
)
from .back import add_right, pass_back, write_weights
from .compilation import compiled_on_disk, source_stamp
from .forth import pass_forth
from .groups import gather_rows, resized, rows_of_group
from .heads import find_grids
from .layers import write_squares
from .references import addresses, reference
from .rows import all_doubtful, gather_right, write_biases
from .substitutes import has_biases
from .sweep import left_side, side_in_rows, sweep_strip
from .way import RowGradients, Way


@compiled_on_disk
def derive(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces, diagonal_shift: int,
    whole: RowGroup, constants: Constants, results: Results, way: Way, gradients: RowGradients,
    general: Any, swept: Any, through_memory: Any, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute kernels of left cases with right cases, and derivatives of their weighted sum.

    The loops that take the way forth, `general` or `swept`, are not None: numba leaves out the
    others. `through_memory` is as in `sweep.sweep`. The other arguments are as for `rows.compute`.
    """
    layers, group_rows = len(constants.layers), whole.rows
    per_table = (len(right.inverse) - PADDING) // layers
    out = addresses(gradients)
    gradients = reference(gradients)
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    way = addresses(way)
    together, n_tables = whole.places.left_cases, layers + gradients.n_channels
    others = addresses(side_in_rows(whole))
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        gather_right(whole, right, rows, layers, per_table)
        for table in range(2 * gradients.n_channels):
            place, first_number = way.right_pixels + table * whole.length, table * out.n_right
            gather_rows(whole, place, out.right_pixels, first_number - out.first_right, rows)
        left_length = -1
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        for case in range(last):
            if constants.stop[0]:
                return
            group = addresses(resized(whole, lefts[case].pixels, whole.start))
            if lefts[case].length != left_length:
                left_length = lefts[case].length
                find_grids(rows, left_length, results)
            if not way.turns and together > 1 and case % together == 0:
                write_squares(group, left.units, lefts, case, last - 1)
            if all_doubtful(rows, case, results):
                continue
            if has_biases(constants.layers[0]):
                write_biases(group, rows, case, results)
            some = write_weights(whole, rows, case, way, gradients)
            if some or way.every:
                if general is not None:
                    pass_forth(group, rows, left, lefts, case, constants, results, way, out)
                if swept is not None:
                    side = addresses(left_side(group, left, lefts[case].first, layers))
                    sweep_strip(
                        group, rows, side, others, case, constants, results, True, through_memory,
                        way, out,
                    )  # fmt: skip
            if some:
                pass_back(group, rows, left, lefts, case, constants, way, gradients, out)
        add_right(whole, rows, layers - 1, n_tables, way, out)
