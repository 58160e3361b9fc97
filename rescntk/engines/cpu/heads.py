"""Heads: from the kernel at the pixel pairs of a group of rows to the results."""

from __future__ import annotations

import numpy as np

from .compilation import compiled
from .records import Block, Group, GroupRows, Places, Results, Wanted
from .vectors import LINE_BYTES, load_doubles, repeat_like, store

PIXEL_1, MEAN, PIXELS = range(3)
"""Heads as the loops see them: pixel 1 of both signals; sums over pixels; all pixel pairs."""

CODES = {"equivariant": PIXEL_1, "trace": MEAN, "gap": MEAN, "pixels": PIXELS}
"""Code of each head of a request."""


@compiled
def sum_pixels(
    memory: np.ndarray, pixels: int, group: Group, coarse: float, fine: float,
    high: np.ndarray, low: np.ndarray,
) -> None:  # fmt: skip
    """Add all pixels of each row on two grids (exact_sum.split), into `high` and `low`."""
    for row in range(0, group.rows, LINE_BYTES // high.itemsize):
        upper = lower = repeat_like(0.0, load_doubles(memory, pixels + row))
        for j in range(group.d):
            value = load_doubles(memory, pixels + j * group.rows + row)
            part = (value + coarse) - coarse
            upper = upper + part
            lower = lower + (((value - part) + fine) - fine)
        store(high, row, upper)
        store(low, row, lower)


@compiled
def write_results(
    memory: np.ndarray, places: Places, group: Group, rows: GroupRows, case: int, slot: int,
    wanted: Wanted, block: Block, results: Results, sums: np.ndarray, sum_factor: int,
) -> None:  # fmt: skip
    """Write both kernels of one left case with the right cases of a group, at one depth.

    `sums` is scratch space, (2, rows and some more). The sums of F are multiplied by
    `sum_factor`.
    """
    left = block.first_left + case
    for kind in range(2):
        if not (wanted.gpk if kind == 0 else wanted.ntk):
            continue
        pixels = group.start + (places.features if kind == 0 else places.tangent)
        stored = kind if wanted.gpk else 0
        if wanted.head == MEAN:
            coarse, fine = results.coarse[kind, slot], results.fine[kind, slot]
            high, low = sums[0], sums[1]
            sum_pixels(memory, pixels, group, coarse, fine, high, low)
            factor = sum_factor if kind == 0 else 1
            for row in range(rows.used):
                right = block.first_right + rows.right_case[row]
                results.high[stored, slot, left, right] += factor * high[row]
                results.low[stored, slot, left, right] += factor * low[row]
        elif wanted.head == PIXEL_1:
            for row in range(rows.used):
                right = block.first_right + rows.right_case[row]
                results.high[stored, slot, left, right] = memory[pixels + row]
        else:
            for row in range(rows.used):
                right = block.first_right + rows.right_case[row]
                for j in range(group.d):
                    other = (j + rows.offset[row]) % group.d
                    value = memory[pixels + j * group.rows + row]
                    results.pixels[stored, slot, left, right, j, other] = value
