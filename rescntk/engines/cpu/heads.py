"""Heads: from the kernel at the pixel pairs of a group of rows to the results."""

from __future__ import annotations

import numpy as np

from .arguments import GroupRows, Places, Results, RowGroup, RunNumbers
from .compilation import compiled
from .vectors import (
    LINE_BYTES,
    VECTOR_BYTES,
    Numbers,
    Vector,
    load,
    load_like,
    load_line,
    store,
)

PIXEL_1, MEAN, PIXELS = range(3)
"""Heads as the loops see them: pixel 1 of both signals; sums over pixels; all pixel pairs."""

CODES = {"equivariant": PIXEL_1, "trace": MEAN, "gap": MEAN, "pixels": PIXELS}
"""Code of each head of a request."""


@compiled
def sum_rows(
    memory: Numbers, pixels: int, row: int, group: RowGroup, grids: np.ndarray, kind: int,
    slot: int, sums: np.ndarray, one: float, like: Vector,
) -> None:  # fmt: skip
    """Add all pixels of some rows on each grid, into sums[grid, row].

    `grids` are `GroupRows.grids`. The number of rows is the number of elements of the float64
    vector `like`. `one` is 1: with its products, the processor's units of products take half of
    the additions. On an AMD EPYC (Zen 4) the sums then take 0.15 instead of 0.24 ns a pixel pair.
    """
    number, _, depths, length = grids.shape
    place, next_grid = (kind * depths + slot) * length + row, 2 * depths * length
    for first in range(0, number, 2):  # two grids at a time
        coarse = load_like(grids, place + first * next_grid, like)
        fine = load_like(grids, place + min(first + 1, number - 1) * next_grid, like)
        upper = lower = 0.0 * like
        for j in range(group.d):
            value = load_like(memory, pixels + j * group.rows + row, like)
            for before in range(first):
                grid = load_like(grids, place + before * next_grid, like)
                value = value - ((value + grid) - grid)
            part = (one * value + coarse) - coarse
            upper = one * part + upper
            lower = lower + ((one * (value - part) + fine) - fine)
        store(sums, first * sums.shape[1] + row, upper)
        if first + 1 < number:
            store(sums, (first + 1) * sums.shape[1] + row, lower)


@compiled
def sum_pixels(
    memory: Numbers, pixels: int, group: RowGroup, grids: np.ndarray, kind: int, slot: int,
    sums: np.ndarray, one: float,
) -> None:  # fmt: skip
    """Add all pixels of each row on each grid (exact_sum.split), into sums[grid, row]."""
    row, several = 0, VECTOR_BYTES // sums.itemsize
    while row < group.rows:
        if row + several <= group.rows:
            sum_rows(memory, pixels, row, group, grids, kind, slot, sums, one, load(sums, 0))
            row += several
        else:
            sum_rows(memory, pixels, row, group, grids, kind, slot, sums, one, load_line(sums, 0))
            row += LINE_BYTES // sums.itemsize


@compiled
def find_grids(rows: GroupRows, length: int, results: Results) -> None:
    """Find the grids of each row's sums with left cases of a length (`LeftCases.length`)."""
    for grid in range(rows.grids.shape[0]):
        for kind in range(2):
            for slot in range(rows.grids.shape[2]):
                for row in range(rows.used):
                    value = results.grids[grid, kind, slot, length, rows.case[row]]
                    rows.grids[grid, kind, slot, row] = value


@compiled
def take_doubts(
    memory: Numbers, places: Places, group: RowGroup, rows: GroupRows, case: int, results: Results
) -> None:
    """Add the weighted sums over each row of E to `results.doubt`."""
    sums = rows.sums
    for row in range(0, group.rows, LINE_BYTES // sums.itemsize):
        total = 0.0 * load_line(sums, 0)
        for j in range(group.d):
            place = places.doubt + group.start + j * group.rows + row
            value = load_like(memory, place, total)
            total = total + results.weights[j] * value
        store(sums, row, total)
    for row in range(rows.used):
        results.doubt[case, rows.case[row]] += sums[0, row]


@compiled
def write_results(
    memory: Numbers, places: Places, group: RowGroup, rows: GroupRows, case: int, slot: int,
    wanted: RunNumbers, results: Results, sum_factor: int, one: float,
) -> None:  # fmt: skip
    """Write both kernels of one left case with the right cases of a group, at one depth.

    The sums of F are multiplied by `sum_factor`. `one` is 1 (`sum_rows`).
    """
    sums = rows.sums
    for kind in range(2):
        if not (wanted.gpk if kind == 0 else wanted.ntk):
            continue
        pixels = group.start + (places.features if kind == 0 else places.tangent)
        stored = kind if wanted.gpk else 0
        if wanted.head == MEAN:
            sum_pixels(memory, pixels, group, rows.grids, kind, slot, sums, one)
            factor = sum_factor if kind == 0 else 1
            for grid in range(len(results.grids)):
                for row in range(rows.used):
                    right = rows.case[row]
                    results.sums[grid, stored, slot, case, right] += factor * sums[grid, row]
        elif wanted.head == PIXEL_1:
            for row in range(rows.used):
                results.sums[0, stored, slot, case, rows.case[row]] = memory[pixels + row]
        else:
            left = results.first_left + case
            for row in range(rows.used):
                right = results.first_right + rows.case[row]
                for j in range(group.d):
                    other = (j + rows.offset[row]) % group.d
                    value = memory[pixels + j * group.rows + row]
                    results.pixels[stored, slot, left, right, j, other] = value
