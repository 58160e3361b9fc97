"""Vectors: arithmetic, comparison, loads and stores, against NumPy."""

import numpy as np
import pytest
from numba import njit

from rescntk.engines.cpu import vectors as v
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.validation import DTYPES


@njit(**OPTIONS)
def arithmetic(a, b, out):
    count, (a, b, out) = len(a), v.addresses((a, b, out))
    for at in range(0, count, a.per_vector):
        x, y = v.load(a, at), v.load(b, at)
        v.store(out, at, x + y)
        v.store(out, at + count, 2 - x)
        v.store(out, at + 2 * count, x * 0.5)
        v.store(out, at + 3 * count, v.sqrt(v.fabs(x)))
        v.store(out, at + 4 * count, v.where_less(x, y, x, 7.0))
        v.store(out, at + 5 * count, v.repeat_like(a[0], y))


@njit(**OPTIONS)
def any_below(a):
    return v.any_negative(v.load(v.addresses(a), 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_numbers_side_by_side(dtype, rng):
    count = 3 * v.VECTOR_BYTES // np.dtype(dtype).itemsize
    a, b = rng.standard_normal((2, count)).astype(dtype)
    a[1] = np.nan
    out = np.empty((6, count), dtype)
    arithmetic(a, b, out)
    first = np.full_like(a, a[0])
    expected = [a + b, 2 - a, a * 0.5, np.sqrt(np.abs(a)), np.where(a < b, a, 7), first]
    for ours, theirs in zip(out, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_negative_numbers_are_found_at_each_place(dtype):
    a = np.ones(v.VECTOR_BYTES // np.dtype(dtype).itemsize, dtype)
    a[3] = np.nan
    assert not any_below(a)
    for place in range(len(a)):
        a[:] = 0.0
        a[place] = -1e-30
        assert any_below(a)
