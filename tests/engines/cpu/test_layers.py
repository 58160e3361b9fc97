"""A ReLU layer of vectors, against 40-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from numba import njit

from rescntk.engines.cpu import layers
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.engines.cpu.vectors import VECTOR_BYTES, addresses, load, store
from rescntk.engines.layer import dual
from rescntk.engines.scaling import DOUBTFUL, MOST_E, constants_dtype
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


@njit(**OPTIONS)
def doubt(total, root, half_g, constants, out):
    total, root, half_g, out = addresses((total, root, half_g, out))
    vectors = load(total, 0), load(root, 0), load(half_g, 0)
    return layers.add_doubt(out, 0, *vectors, constants[0])


def constants(dtype, **values):
    record = np.zeros(1, constants_dtype(dtype))
    for name, value in values.items():
        record[name] = value
    return record


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu(dtype, rng):
    """Each result relative to the terms that it is the sum of."""
    mp = mpmath.mp.clone()
    mp.dps = 40
    count = 8 * VECTOR_BYTES // np.dtype(dtype).itemsize
    w = np.concatenate([np.geomspace(1e-12, 1, count // 2), rng.uniform(1, 2, count // 2)])
    w[:2], w[-1] = 0.0, 2.0
    w, half_g = w.astype(dtype), rng.uniform(0.1, 9, count).astype(dtype)
    out, record = np.empty((3, count), dtype), constants(dtype, factor=1.5, half_factor=0.75)
    relu((half_g, w), record, layers.coefficients(dtype), out)
    for half, complement, ours in zip(half_g, w, out.T, strict=True):
        g, rho = 1.5 * mp.mpf(float(half)), 1 - mp.mpf(float(complement))
        theta = mp.acos(rho)
        kappa1 = (mp.sqrt(1 - rho**2) + (mp.pi - theta) * rho) / mp.pi
        exact = g * (1 - kappa1), g * kappa1, 0.75 * (1 - theta / mp.pi)
        for value, true, size in zip(ours, exact, (g, g, 1.5), strict=True):
            assert abs(float(value) - true) <= 8 * tolerances.EPS[dtype] * size


@pytest.mark.parametrize("dtype", DTYPES)
def test_doubt_is_whole_and_bounded(dtype):
    """E = total/√a in means, where it exceeds DOUBTFUL; MOST_E on ties; 0 where g is 0."""
    count = VECTOR_BYTES // np.dtype(dtype).itemsize
    total, root, half_g = np.ones((3, count), dtype)
    record = constants(dtype, mean=0.5, doubtful=0.5 * DOUBTFUL)
    out = np.full(count, 7.0, dtype)
    assert not doubt(total, root, half_g, record, out)
    root[1:5] = [0.0, 0.01, 1e-30, 0.0]
    total[2], total[5], root[5], half_g[4] = 1.2345, 0.0, 0.0, 0.0
    assert doubt(total, root, half_g, record, out)
    assert (out[:7] == [7, 7 + MOST_E, 7 + 246, 7 + MOST_E, 7, 7, 7]).all()
