"""A ReLU layer of vectors, against 40-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from numba import njit

from rescntk.engines.cpu import layers
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.engines.cpu.vectors import VECTOR_BYTES, addresses, load, store
from rescntk.engines.layer import dual
from rescntk.engines.scaling import constants_dtype
from rescntk.validation import DTYPES
from tests import tolerances


@njit(**OPTIONS)
def relu(arrays, constants, polynomials, out):
    half_g, w = addresses(arrays)
    results, count = addresses(out), len(out[0])
    for at in range(0, count, w.per_vector):
        branch = dual(
            load(half_g, at), load(w, at), 2.0 - load(w, at), constants[0], addresses(polynomials)
        )
        store(results, at, branch.deficit)
        store(results, count + at, branch.K)
        store(results, 2 * count + at, branch.K_dot)


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu(dtype, rng):
    """Each result relative to the terms that it is the sum of."""
    mp = mpmath.mp.clone()
    mp.dps = 40
    count = 8 * VECTOR_BYTES // np.dtype(dtype).itemsize
    w = np.concatenate([np.geomspace(1e-12, 1, count // 2), rng.uniform(1, 2, count // 2)])
    w[:2], w[-1] = 0.0, 2.0
    w, half_g = w.astype(dtype), rng.uniform(0.1, 9, count).astype(dtype)
    out, record = np.empty((3, count), dtype), np.zeros(1, constants_dtype(dtype))
    record["factor"], record["half_factor"] = 1.5, 0.75
    relu((half_g, w), record, layers.coefficients(dtype), out)
    for half, complement, ours in zip(half_g, w, out.T, strict=True):
        g, rho = 1.5 * mp.mpf(float(half)), 1 - mp.mpf(float(complement))
        theta = mp.acos(rho)
        kappa1 = (mp.sqrt(1 - rho**2) + (mp.pi - theta) * rho) / mp.pi
        exact = g * (1 - kappa1), g * kappa1, 0.75 * (1 - theta / mp.pi)
        for value, true, size in zip(ours, exact, (g, g, 1.5), strict=True):
            assert abs(float(value) - true) <= 8 * tolerances.EPS[dtype] * size
