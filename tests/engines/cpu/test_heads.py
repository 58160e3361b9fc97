"""Sums over pixels: equal to exact_sum.py to the bit, and right for any number of terms."""

import math

import numpy as np
import pytest
from numba import njit
from rescntk.engines.cpu.arguments import Results, RowGroup
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.engines.cpu.groups import resized
from rescntk.engines.cpu.heads import sum_pixels
from rescntk.engines.cpu.references import addresses

from rescntk.engines import exact_sum
from rescntk.validation import DTYPES
from tests import tolerances


@njit(**OPTIONS)
def on_grids(memory, d, rows, results):
    group = resized(RowGroup(addresses(memory), 0, 0, d, rows, 0, 0, 0, True, 1), d, 0)
    sum_pixels(group, 0, results, 0, 0, 1.0, 1.0)


def row_sums(terms, grids):
    """Return sums of `terms`, (d, rows), over d, from the parts on each grid."""
    d, rows = terms.shape
    sums = np.zeros((len(grids), rows + 64))
    of_rows = np.tile(np.reshape(grids, (-1, 1)), (2, 1, 1, rows + 64))
    memory = np.concatenate([terms.ravel(), np.zeros(64, terms.dtype)])
    nothing = dict.fromkeys(Results._fields, 0.0)
    results = Results(**(nothing | {"row_grids": of_rows, "row_sums": sums}))
    on_grids(memory, d, rows, results)
    return exact_sum.total(sums)[:rows]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [3, 16])
@pytest.mark.parametrize(("count", "several"), [(12, 2), (2**18, 3), (2**26, 4), (2**32, 5)])
def test_sums_are_exact_in_any_order(rows, dtype, count, several, rng):
    """Terms as small as the bound over the number of terms have their digits too."""
    terms = (4.0 / count * rng.uniform(0.5, 1, (40, rows))).astype(dtype)
    terms[0] = 4.0
    grids = np.array(exact_sum.grids(np, 4.0, count))
    assert len(grids) == several
    ours, wide = row_sums(terms, grids), terms.astype(float)
    assert (ours == row_sums(rng.permutation(terms), grids)).all()
    parts = exact_sum.split(wide, grids)
    assert (ours == exact_sum.total([part.sum(axis=0) for part in parts])).all()
    for small, column in zip(row_sums(terms[1:], grids), wide[1:].T, strict=True):
        exact = math.fsum(column)
        assert abs(small - exact) <= 2 * tolerances.EPS["float64"] * exact
