"""Sums over pixels: equal to exact_sum.py to the bit, and right for any number of terms."""

import math

import numpy as np
import pytest
from numba import njit

from rescntk.engines import exact_sum
from rescntk.engines.cpu.arguments import RowGroup
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.engines.cpu.heads import sum_pixels
from tests import tolerances


@njit(**OPTIONS)
def on_grids(memory, group, grids, sums, one):
    sum_pixels(memory, 0, group, grids, 0, 0, sums, one)


def row_sums(terms, grids):
    """Return sums of `terms`, (d, rows), over d, from the parts on each grid."""
    d, rows = terms.shape
    memory = np.concatenate([terms.ravel(), np.zeros(64, terms.dtype)])
    sums = np.zeros((len(grids), rows + 64))
    of_rows = np.zeros((len(grids), 2, 1, rows + 64))
    of_rows[:] = np.reshape(grids, (-1, 1, 1, 1))
    on_grids(memory, RowGroup(d, rows, 0, 0, d * rows, True), of_rows, sums, 1.0)
    return exact_sum.total(sums)[:rows]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rows", [3, 16])
@pytest.mark.parametrize("count", [12, 2**18, 2**26, 2**32])
def test_sums_are_exact_in_any_order(rows, dtype, count, rng):
    """Terms as small as the bound over the number of terms have their digits too."""
    terms = (4.0 / count * rng.uniform(0.5, 1, (40, rows))).astype(dtype)
    terms[0] = 4.0
    grids = np.array(exact_sum.grids(np, 4.0, count))
    assert len(grids) == {12: 2, 2**18: 3, 2**26: 4, 2**32: 5}[count]
    ours = row_sums(terms, grids)
    assert (ours == row_sums(rng.permutation(terms), grids)).all()
    wide = terms.astype(float)
    parts = exact_sum.split(np, wide, grids, np.empty_like(wide), np.empty_like(wide))
    assert (ours == exact_sum.total([part.sum(axis=0) for part in parts])).all()
    small = row_sums(terms[1:], grids)
    for row in range(rows):
        exact = math.fsum(wide[1:, row])
        assert abs(small[row] - exact) <= 2 * tolerances.EPS["float64"] * exact
