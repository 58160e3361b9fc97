"""The compiled loop of derivatives: groups of rows go forth (rows.py) and back (back.py).

Pairs whose distances lose digits go forth in deficits. Each row then has its own pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import PADDING, Constants, FlatTables, Results, RowGroup, RowPlaces
from .back import pass_back
from .compilation import compiled, compiled_on_disk, source_stamp
from .groups import gather_tables, resized, rows_of_group, write_biases
from .layers import write_squares
from .references import addresses, reference
from .rows import all_doubtful, gather_pairs, gather_right, pass_layers
from .substitutes import has_biases
from .tape import RowGradients, Tape, back_vectors, keep_correlations
from .vectors import Numbers


@compiled
def write_weights(
    group: RowGroup, rows: RowPlaces, case: int, kind: int, tape: Tape, gradients: RowGradients
) -> bool:
    """Write the weights of each row, 0 for repeated rows; return whether any is not 0."""
    some, memory = False, group.memory
    for row in range(group.rows):
        left = right = 0.0
        if row < rows.number:
            right_case = rows.each[row].case
            left = gradients.left_weights[kind, case, right_case]
            right = gradients.right_weights[kind, case, right_case]
        some |= left != 0.0 or right != 0.0
        memory[tape.left_weights + row], memory[tape.right_weights + row] = left, right
    return some


@compiled
def add_sums(
    group: RowGroup, ring: int, rows: RowPlaces, depth: int, tables: int, sums: Numbers, n: int,
    first: int,
) -> None:  # fmt: skip
    """Add a group's sums to `tables` of `n` numbers, the first of which is `first`; make them 0."""
    memory = group.memory
    for row in range(rows.number):
        place = rows.each[row]
        line, pixel, begin = place.offset, 0, place.begin - first
        for j in range(group.d):
            source = (line * rows.line + place.across + pixel) * rows.stride + begin
            at = ring + j * group.rows + row
            for table in range(tables):
                factor = 0.5 if 0 < table <= depth else 1.0
                sums[table * n + source] += factor * memory[at]
                at += group.length
            pixel += 1
            if pixel == group.width:
                line, pixel = line + 1, 0
                if line == place.period:
                    line = 0
    for at in range(tables * group.length):
        memory[ring + at] = 0.0


@compiled
def derive_pairs(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, pairs: RowPlaces, rights: RowPlaces,
    whole: RowGroup, constants: Any, results: Results, tape: Tape, gradients: RowGradients,
) -> None:  # fmt: skip
    """Compute derivatives of pairs in deficits (`derive`)."""
    layers, vectors = len(constants.layers), 2 * gradients.n_channels
    n_tables = layers + gradients.n_channels
    per_table = (len(left.inverse) - PADDING) // layers, (len(right.inverse) - PADDING) // layers
    split = len(left.half_root) > len(left.inverse)
    out, gradients = addresses(gradients), reference(gradients)
    left, right, tape = addresses(left), addresses(right), addresses(tape)
    constants, results = addresses(constants), reference(results)
    for first in range(0, rights.number, whole.rows):
        if constants.stop[0]:
            return
        rows = addresses(rows_of_group(rights, first, whole.rows))
        left_rows = addresses(rows_of_group(pairs, first, whole.rows))
        sides = gather_pairs(
            whole, left, right, left_rows, rows, per_table, split=split, constants=constants,
            results=results,
        )  # fmt: skip
        gather_tables(
            whole, tape.left_pixels, 1, out.left_pixels, vectors, left_rows, per_table=out.n_left,
            begin=-out.first_left,
        )  # fmt: skip
        gather_tables(
            whole, tape.right_pixels, 1, out.right_pixels, vectors, rows, per_table=out.n_right,
            begin=-out.first_right,
        )  # fmt: skip
        passed = False
        for kind in range(len(gradients.ntk)):
            if not write_weights(whole, rows, 0, kind, tape, gradients):
                continue
            if not passed:
                pass_layers(
                    whole, rows, left, lefts, 0, constants, results=results, tape=tape,
                    sides=sides,
                )  # fmt: skip
            pass_back(
                whole, rows, None, lefts, 0, constants, tape=tape, kind=kind,
                gradients=gradients, out=out,
            )  # fmt: skip
            passed = True
        if not passed:
            continue
        back_vectors(whole, None, layers, 0, constants.margin, tape, out=out)
        add_sums(
            whole, tape.left, left_rows, layers - 1, n_tables, out.left, n=out.n_left,
            first=out.first_left,
        )  # fmt: skip
        add_sums(
            whole, tape.right, rows, layers - 1, n_tables, out.right, n=out.n_right,
            first=out.first_right,
        )  # fmt: skip


@compiled_on_disk
def derive(
    left: FlatTables, right: FlatTables, lefts: np.ndarray, rights: RowPlaces, diagonal_shift: int,
    whole: RowGroup, constants: Constants, results: Results, tape: Tape, gradients: RowGradients,
    pairs: RowPlaces | None = None, stamp: str = source_stamp(),
) -> None:  # fmt: skip
    """Compute derivatives of a weighted sum of kernels of left cases with right cases.

    The other arguments are as for `rows.compute`. With `pairs`, `gradients` have one left case,
    and the pairs in the place of right cases; their left arrays are laid out as right ones.
    """
    if pairs is not None:
        derive_pairs(
            left, right, lefts, pairs, rights, addresses(whole), constants=constants,
            results=results, tape=tape, gradients=gradients,
        )  # fmt: skip
        return
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
        gather_tables(
            whole, tape.right_pixels, 1, out.right_pixels, 2 * gradients.n_channels, rows,
            per_table=out.n_right, begin=-out.first_right,
        )  # fmt: skip
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
            passed = False
            for kind in range(len(gradients.ntk)):
                if not write_weights(whole, rows, case, kind, tape, gradients):
                    continue
                if not passed and tape.turns:
                    keep_correlations(group, case, constants, tape, out)
                if not passed:
                    pass_layers(
                        group, rows, left, lefts, case, constants, results=results, tape=tape,
                        sides=None,
                    )  # fmt: skip
                pass_back(
                    group, rows, left, lefts, case, constants, tape=tape, kind=kind,
                    gradients=gradients, out=out,
                )  # fmt: skip
                passed = True
            if passed:
                begin = out.begins[case]
                back_vectors(group, left, layers, begin, constants.margin, tape, out=out)
        add_sums(
            whole, tape.right, rows, layers - 1, n_tables, out.right, n=out.n_right,
            first=out.first_right,
        )  # fmt: skip
