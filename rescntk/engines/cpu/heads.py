"""Heads: from the kernel at the pixel pairs of a group of rows to the results."""

from __future__ import annotations

from typing import Any

from ..doubt import LARGE_DOUBTS
from .arguments import Constants, Results, RowGroup, RowPlaces
from .compilation import compiled
from .references import addresses
from .vectors import Numbers, Vector, load, load_like, load_line, store, sum_numbers, where_less

PIXEL_1, MEAN, PIXELS, SHARES = range(4)
CODES = {"equivariant": PIXEL_1, "trace": MEAN, "gap": MEAN, "pixels": PIXELS}
"""Heads as the loops see them: pixel 1 of both signals; sums over pixels; all pixel pairs.

`SHARES` are sums over the rows at each pixel, for the heads "trace" and "gap".
"""


@compiled
def sum_rows(
    group: RowGroup, pixels: int, row: int, grids: Numbers, place: int, number: int,
    sums: Numbers, padded: int, factor: float, one: float, like: Vector,
) -> None:  # fmt: skip
    """Write `factor` times the sums over all pixels of some rows on each of `number` grids.

    The grids begin at the place `place` of `grids`, and sums at the same place of `sums`. Both are
    (grid, row), and `padded` is the number of rows. Rows are summed from `row` on, one for each
    number of the float64 vector `like`. `one` is 1: products by it let units of products take half
    of the additions, 0.15 instead of 0.24 ns a pixel pair.
    """
    for first in range(0, number, 2):  # two grids at a time
        second = min(first + 1, number - 1)
        coarse = load_like(grids, place + first * padded + row, like)
        fine = load_like(grids, place + second * padded + row, like)
        upper = lower = more_upper = more_lower = 0.0 * like
        for j in range(0, group.d, 2):  # two sums side by side do not wait for each other
            value = load_like(group.memory, pixels + j * group.rows + row, like)
            next_value = 0.0 * like
            if j + 1 < group.d:
                next_value = load_like(group.memory, pixels + (j + 1) * group.rows + row, like)
            for before in range(first):
                grid = load_like(grids, place + before * padded + row, like)
                value = value - ((value + grid) - grid)
                next_value = next_value - ((next_value + grid) - grid)
            part, next_part = (one * value + coarse) - coarse, (one * next_value + coarse) - coarse
            upper, more_upper = one * part + upper, one * next_part + more_upper
            if second > first:
                lower = lower + ((one * (value - part) + fine) - fine)
                more_lower = more_lower + ((one * (next_value - next_part) + fine) - fine)
        upper, lower = factor * (upper + more_upper), factor * (lower + more_lower)
        store(sums, place + first * padded + row, upper)
        if second > first:
            store(sums, place + second * padded + row, lower)


@compiled
def sum_pixels(
    group: RowGroup, pixels: int, results: Results, kind: int, slot: int, factor: float, one: float
) -> None:  # fmt: skip
    """Write `factor` times the sums of each row on each grid (exact_sum.split) to `row_sums`."""
    _, depths, number, padded = results.row_grids.shape
    grids, sums = addresses((results.row_grids, results.row_sums))
    place, row = (kind * depths + slot) * number * padded, 0
    vector, line = load(sums, 0), load_line(sums, 0)
    while row < group.rows:
        if row + sums.per_vector <= group.rows:
            sum_rows(
                group, pixels, row, grids, place, number, sums=sums, padded=padded, factor=factor,
                one=one, like=vector,
            )  # fmt: skip
            row += sums.per_vector
        else:
            sum_rows(
                group, pixels, row, grids, place, number, sums=sums, padded=padded, factor=factor,
                one=one, like=line,
            )  # fmt: skip
            row += sums.per_line


@compiled
def write_shares(
    group: RowGroup, pixels: int, rows: RowPlaces, case: int, kind: int, slot: int, stored: int,
    results: Results,
) -> None:  # fmt: skip
    """Add the rows of each right case at each pixel, on each grid, to `results.shares`."""
    _, depths, lefts, rights, d, _ = results.shares.shape
    _, _, number, padded = results.row_grids.shape
    grids, marks = addresses((results.row_grids, results.row_doubts))
    out, table = addresses(results.shares), (kind * depths + slot) * number * padded
    first = 0
    while first < rows.number:
        stop = first + 1
        while stop < rows.number and rows.each[stop].case == rows.each[first].case:
            stop += 1
        place = ((stored * depths + slot) * lefts + case) * rights + rows.each[first].case
        place = (place * d + results.first_pixel) * number
        begin = first - first % marks.per_line
        for row in range(begin, stop + marks.per_line):  # whether rows are of the right case
            marks[row] = 1.0 if first <= row < stop else 0.0
        for j in range(group.d):
            for grid in range(number):
                line = 0.0 * load_line(marks, 0)
                for row in range(begin, stop, marks.per_line):
                    value = load_like(group.memory, pixels + j * group.rows + row, line)
                    part = value = where_less(0.0, load_line(marks, row), value, 0.0)
                    for before in range(grid + 1):
                        constant = load_line(grids, table + before * padded + row)
                        part = (value + constant) - constant
                        value = value - part
                    line = line + part
                out[place + j * number + grid] += sum_numbers(line)
        first = stop


@compiled
def write_values(
    group: RowGroup, pixels: int, rows: RowPlaces, case: int, slot: int, stored: int,
    results: Results,
) -> None:  # fmt: skip
    """Write the kernel at each pixel of each row to `results.values`."""
    left, has_pixels = results.first_left + case, results.values.shape[5] > 1
    for row in range(rows.number):
        right = results.first_right + rows.each[row].case
        for j in range(group.d):
            right_pixel = 0
            if has_pixels:
                pixel = (j % group.width + rows.each[row].across) % group.width
                line = (j // group.width + rows.each[row].offset) * group.width % group.d
                right_pixel = line + pixel
            value = group.memory[pixels + j * group.rows + row]
            results.values[stored, slot, left, right, results.first_pixel + j, right_pixel] = value


@compiled
def find_grids(rows: RowPlaces, length: int, results: Results) -> None:
    """Find the grids of each row's sums with left cases of a length (`LeftCases.length`)."""
    kinds, depths, number, _ = results.row_grids.shape
    for kind in range(kinds):
        for slot in range(depths):
            for grid in range(number):
                for row in range(rows.number):
                    value = results.grids[grid, kind, slot, length, rows.each[row].case]
                    results.row_grids[kind, slot, grid, row] = value


@compiled
def take_doubts(
    group: RowGroup, rows: RowPlaces, case: int, first: int, results: Results
) -> None:  # fmt: skip
    """Add the weighted sums over each row of E² to `results.doubt`.

    `first` is the number of the group's first row. Where `results` have levels, a row of two
    signals of one length has the level of its doubt (`LARGE_DOUBTS`); other rows are no rings.
    """
    sums, levels = addresses(results.row_doubts), len(results.doubt)
    for row in range(0, group.rows, sums.per_line):
        total = 0.0 * load_line(sums, 0)
        for j in range(group.d):
            place = group.places.doubt + group.start + j * group.rows + row
            E = results.weights[j] * load_like(group.memory, place, total)
            total = total + E * E
        store(sums, row, total)
    for row in range(rows.number):
        right, level, length = rows.each[row].case, 0, rows.each[row].period
        if levels > 1 and length == group.d:
            for large in LARGE_DOUBTS:
                if sums[row] * length > large * results.most_doubt[case, right]:
                    level += 1
            results.levels[case, first + row] = level
        results.doubt[level, case, right] += sums[row]


@compiled
def add_sums(
    rows: RowPlaces, case: int, first: int, gpk: bool, results: Results
) -> None:  # fmt: skip
    """Add the sums of a group's rows to `results.sums`, of which GPKs come first, if any.

    `first` is the number of the group's first row.
    """
    levels, grids, kinds, depths, lefts, rights = results.sums.shape
    of_level, of_row = grids * kinds * depths * lefts * rights, results.row_sums.shape[3]
    out, sums, places = addresses((results.sums, results.row_sums, results.row_places))
    for row in range(rows.number):
        level = results.levels[case, first + row] if levels > 1 else 0
        places[row] = level * of_level + case * rights + rows.each[row].case
    for stored in range(kinds):
        kind = stored if gpk else 1
        for slot in range(depths):
            for grid in range(grids):
                whole = ((grid * kinds + stored) * depths + slot) * lefts * rights
                line = ((kind * depths + slot) * grids + grid) * of_row
                for row in range(rows.number):
                    out[whole + places[row]] += sums[line + row]


@compiled
def add_linear(group: RowGroup, pixels: int, scale: float) -> int:
    """Add `scale` times F⁰ to a kernel at all pixels; return the place of the sum's pixels."""
    memory, linear = group.memory, group.places.linear + group.start
    total = group.places.distance_scratch + group.start
    for at in range(0, group.size, memory.per_vector):
        kernel = load(memory, pixels + at)
        store(memory, total + at, scale * load(memory, linear + at) + kernel)
    return total


@compiled
def kernel_of_kind(
    group: RowGroup, kind: int, constants: Constants, layer: Any
) -> tuple[int, int]:  # fmt: skip
    """Return the place of a kernel's pixels, and the factor on all of them."""
    ring = group.places.features if kind == 0 else group.places.tangent
    if kind == 1 and constants.swept:
        ring = group.places.tangent_branch
    pixels, summed = ring + group.start, constants.swept or (kind == 0 and constants.summed)
    factor = constants.outer.n_taps if summed else 1
    if constants.skip and not constants.adds_mean:
        share = (constants.initial if kind == 1 else 1.0) / factor
        pixels = add_linear(group, pixels, share * layer.linear_scale * layer.skip_scale)
    return pixels, factor


@compiled
def write_sums(
    group: RowGroup, slot: int, constants: Constants, results: Results, layer: Any
) -> None:  # fmt: skip
    """Write the sums over pixels of both kernels of a group's rows to `results.row_sums`."""
    for kind in range(2):
        if constants.gpk if kind == 0 else constants.ntk:
            pixels, factor = kernel_of_kind(group, kind, constants, layer)
            sum_pixels(group, pixels, results, kind, slot, factor=1.0 * factor, one=layer.one)


@compiled
def write_results(
    group: RowGroup, rows: RowPlaces, case: int, slot: int, constants: Constants,
    results: Results, layer: Any,
) -> None:  # fmt: skip
    """Write both kernels of one left case with the right cases of a group, after a layer."""
    if constants.head == MEAN:
        write_sums(group, slot, constants, results, layer=layer)
        return
    for kind in range(2):
        if not (constants.gpk if kind == 0 else constants.ntk):
            continue
        pixels, _ = kernel_of_kind(group, kind, constants, layer)
        stored = kind if constants.gpk else 0
        if constants.head == PIXEL_1:
            for row in range(rows.number):
                results.sums[0, 0, stored, slot, case, rows.each[row].case] = group.memory[
                    pixels + row
                ]
        elif constants.head == SHARES and results.values.size == 0:
            write_shares(group, pixels, rows, case, kind, slot, stored=stored, results=results)
        else:
            write_values(group, pixels, rows, case, slot, stored, results=results)
