"""Moving sums of a group of rows, and tables copied to rows, against shifted arrays."""

import numpy as np
import pytest
from numba import njit

from rescntk.engines.cpu import sums
from rescntk.engines.cpu.arguments import RowGroup, RowPlaces
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.engines.cpu.vectors import addresses
from rescntk.validation import DTYPES
from tests import tolerances


@njit(**OPTIONS)
def moving(values, window, step, rows, halo, closed):
    """Return moving sums. Open rows have sums at pixels with all taps alone."""
    start, length = halo * rows, len(values) + 2 * halo * rows + 200
    held = np.zeros((window.pieces + 2) * length, values.dtype)
    held[start : start + len(values)] = values
    memory, window = addresses((held, window))
    group = RowGroup(memory, 0, length, 0, rows, halo, 0, 0, closed)
    group = sums.resized(group, len(values) // rows, start)
    group = sums.shortened(group, step * (window.size // 2))
    taps = sums.moving_sum(group, 0, window, step, 2 * length)
    sums.write_box(memory, taps, length, group.size)
    return held[length : length + group.d * rows]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 5, 16, 64])
@pytest.mark.parametrize("d", [1, 2, 7, 20])
def test_moving_sums(d, rows, dtype, rng):
    values = rng.standard_normal((d, rows)).astype(dtype)
    filters = [(size, 1) for size in (1, 3, 5, 7, 9, 11, 13, 15, 17, 31, 35, 63, 83, 245)]
    for size, step in [*filters, (3, 2), (5, 20), (7, 3), (9, 4), (31, 2), (35, 7)]:
        window, reach = sums.filter_sum(size), step * (size // 2)
        halo = reach + size % 2
        computed = moving(values.ravel(), window, step, rows, halo, True).reshape(d, rows)
        wide = values.astype(np.longdouble)
        taps = range(-reach, reach + 1, step)
        exact = sum(np.roll(wide, -k, axis=0) for k in taps)
        terms = sum(np.roll(np.abs(wide), -k, axis=0) for k in taps)
        turned = np.roll(values, 3, axis=0).ravel()
        shifted = moving(turned, window, step, rows, halo, True).reshape(d, rows)
        assert (shifted == np.roll(computed, 3, axis=0)).all()
        assert (np.abs(computed - exact) <= 4 * tolerances.EPS[dtype] * terms).all()
        extended = np.take(values, np.arange(-reach, d + reach) % d, axis=0)
        opened = moving(extended.ravel(), window, step, rows, 0, False)
        assert (opened.reshape(d, rows) == computed).all()


@njit(**OPTIONS)
def gather(values, table, rows, d, number, out):
    values, rows, out = addresses((values, rows, out))
    group = RowGroup(out, 0, 0, d, number, 0, 0, 0, False)
    sums.gather_rows(group, 0, values, table, rows)


@pytest.mark.parametrize("rows", [3, 8, 32])
def test_tables_are_copied_to_rows(rows, rng):
    """Some rows are neighbours in the table, some equal, some neither."""
    out = np.zeros(6 * rows)
    table, begin = rng.standard_normal(800), np.sort(rng.integers(0, 90, rows))
    begin[: rows // 2] = np.arange(rows // 2)
    begin[-rows // 4 :] = begin[-1]
    nothing, long = np.zeros_like(begin), np.full(rows, 100)
    for stride in (1, 40):
        gather(table, 200, RowPlaces(rows, nothing, begin, nothing, long, stride), 6, rows, out)
        expected = table[200 + begin[None, :] + stride * np.arange(6)[:, None]]
        assert (out.reshape(6, rows) == expected).all()
