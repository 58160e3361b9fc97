"""Sums over pixels: equal to exact_sum.py to the bit."""

import numpy as np
import pytest

from rescntk.engines import exact_sum
from rescntk.engines.cpu.compilation import compiled
from rescntk.engines.cpu.heads import sum_pixels
from rescntk.engines.cpu.records import Group


@compiled
def sums(memory, group, coarse, fine, high, low):
    sum_pixels(memory, 0, group, coarse, fine, high, low)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rows", [3, 16])
def test_sums_are_exact_in_any_order(rows, dtype, rng):
    d = 12
    terms = rng.standard_normal((d, rows)).astype(dtype)
    coarse, fine = (float(grid) for grid in exact_sum.grids(np, 4.0, d))
    group = Group(d, rows, 0, 0, d * rows)
    results = []
    for order in (np.arange(d), rng.permutation(d)):
        memory = np.concatenate([terms[order].ravel(), np.zeros(64, dtype)])
        high, low = np.zeros((2, rows + 64))
        sums(memory, group, coarse, fine, high, low)
        results.append((high[:rows] + low[:rows]).copy())
    parts = np.empty((2, d, rows))
    exact_sum.split(np, terms.astype(float), coarse, fine, *parts)
    assert (results[0] == results[1]).all()
    assert (results[0] == parts[0].sum(axis=0) + parts[1].sum(axis=0)).all()
