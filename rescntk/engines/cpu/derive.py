"""The compiled way back: derivatives of kernels, one group of rows at a time (engines/adjoint.py).

A group of rows goes through all layers in distances. What the way back needs of each layer is kept,
in the cache. Then the layers come in reverse order. After each layer, derivatives by variances are
multiplied by the weights of their pairs and added up, in float64. The sums go over the rows at each
pixel of the left case, and over the left cases at each pixel of the right cases.
"""

from __future__ import annotations

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
from .groups import gather_rows, resized, rows_of_group
from .layers import write_squares
from .references import addresses, reference
from .rows import all_doubtful, gather_right, pass_layers, write_biases
from .substitutes import has_biases
from .tape import RowGradients, Tape, keep_correlations


@compiled_on_disk
def derive(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces, diagonal_shift: int,
    whole: RowGroup, constants: Constants, results: Results, tape: Tape, gradients: RowGradients,
    stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute derivatives of a weighted sum of kernels of left cases with right cases.

    The other arguments are as for `rows.compute`.
    """
    layers, group_rows = len(constants.layers), whole.rows
    per_table = (len(right.inverse) - PADDING) // layers
    out = addresses(gradients)
    gradients = reference(gradients)
    left, right = addresses(left), addresses(right)
    whole, constants, results = addresses(whole), addresses(constants), reference(results)
    tape = addresses(tape)
    together, n_tables = whole.places.left_cases, layers + gradients.n_channels
    for first in range(0, rights.number, group_rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, group_rows))
        gather_right(whole, right, rows, layers, per_table)
        for table in range(2 * gradients.n_channels):
            place, first_number = tape.right_pixels + table * whole.length, table * out.n_right
            gather_rows(whole, place, out.right_pixels, first_number - out.first_right, rows)
        last = min(len(lefts), rows.each[group_rows - 1].case + diagonal_shift + 1)
        for case in range(last):
            if constants.stop[0]:
                return
            group = addresses(resized(whole, lefts[case].pixels, whole.start))
            if not tape.turns and together > 1 and case % together == 0:
                write_squares(group, left.units, lefts, case, last - 1)
            if all_doubtful(rows, case, results):
                continue
            if has_biases(constants.layers[0]):
                write_biases(group, rows, case, results, group.d)
            if write_weights(whole, rows, case, tape, gradients):
                if tape.turns:
                    keep_correlations(group, case, constants, tape, out)
                pass_layers(group, rows, left, lefts, case, constants, results=results, tape=tape)
                pass_back(
                    group, rows, left, lefts, case, constants, tape=tape, gradients=gradients,
                    out=out,
                )  # fmt: skip
        add_right(whole, rows, layers - 1, n_tables, tape, out)
