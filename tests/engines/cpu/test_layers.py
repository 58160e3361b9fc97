"""A ReLU layer of vectors, against 40-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from numba import njit

from rescntk.engines.cpu import layers
from rescntk.engines.cpu.compilation import OPTIONS
from rescntk.engines.cpu.vectors import VECTOR_BYTES, load, numbers_of, store
from rescntk.engines.layer import constants_dtype, correlate, dual
from rescntk.engines.scaling import DOUBTFUL, MOST_E
from tests import tolerances


@njit(**OPTIONS)
def relu(root1, root2, w, constants, p, r, out):
    layer = constants[0]
    for at in range(0, len(w), VECTOR_BYTES // w.itemsize):
        complement = load(w, at)
        x, z = load(root1, at), load(root2, at)
        branch = dual(x * z, complement, 2.0 - complement, layer, (numbers_of(p), numbers_of(r)))
        store(out[0], at, branch.deficit)
        store(out[1], at, branch.K)
        store(out[2], at, branch.K_dot)


@njit(**OPTIONS)
def doubt(total, root, half_g, constants, out):
    layer, any_doubt = constants[0], False
    for at in range(0, len(out), VECTOR_BYTES // out.itemsize):
        t, r, g = load(total, at), load(root, at), load(half_g, at)
        any_doubt |= layers.add_doubt(out, at, t, r, g, layer)
    return any_doubt


@njit(**OPTIONS)
def clip(w, out):
    store(out, 0, correlate(load(w, 0), 1.0))


def constants(dtype, **values):
    record = np.zeros(1, constants_dtype(dtype))
    for name, value in values.items():
        record[name] = value
    return record


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_relu(dtype, rng):
    """Each result relative to the terms that it is the sum of."""
    mp = mpmath.mp.clone()
    mp.dps = 40
    count = 8 * VECTOR_BYTES // np.dtype(dtype).itemsize
    w = np.concatenate([np.geomspace(1e-12, 1, count // 2), rng.uniform(1, 2, count // 2)])
    w[:2], w[-1] = 0.0, 2.0
    w, (root1, root2) = w.astype(dtype), rng.uniform(0.1, 3, (2, count)).astype(dtype)
    out = np.empty((3, count), dtype)
    record = constants(dtype, factor=1.5, half_factor=0.75)
    relu(root1, root2, w, record, *layers.coefficients(dtype), out)
    for x, z, c, ours in zip(root1, root2, w, out.T, strict=True):
        x, z, rho = mp.mpf(float(x)), mp.mpf(float(z)), 1 - mp.mpf(float(c))
        theta = mp.acos(rho)
        kappa0 = 1 - theta / mp.pi
        kappa1 = (mp.sqrt(1 - rho**2) + (mp.pi - theta) * rho) / mp.pi
        exact = 1.5 * x * z * (1 - kappa1), 1.5 * x * z * kappa1, 0.75 * kappa0
        for value, true, size in zip(ours, exact, (x * z, x * z, 1), strict=True):
            assert abs(float(value) - true) <= 8 * tolerances.EPS[dtype] * 1.5 * size


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_doubt_is_whole_and_bounded(dtype):
    """E = total/√a in means, where it exceeds DOUBTFUL; MOST_E on ties; 0 where g is 0."""
    count = VECTOR_BYTES // np.dtype(dtype).itemsize
    total, root, half_g = np.ones((3, count), dtype)
    record = constants(dtype, mean=0.5, doubtful=0.5 * DOUBTFUL)
    out = np.full(count, 7.0, dtype)
    assert not doubt(total, root, half_g, record, out)
    root[1:5] = [0.0, 0.01, 1e-30, 0.0]
    total[5] = root[5] = 0.0
    half_g[4] = 0.0
    total[2] = 1.2345
    assert doubt(total, root, half_g, record, out)
    assert (out[:7] == [7, 7 + MOST_E, 7 + 246, 7 + MOST_E, 7, 7, 7]).all()


def test_complements_are_clipped():
    w = np.ones(VECTOR_BYTES // 8)
    w[:5] = [-1e-9, 0.0, 0.5, 2.0, 100.0]
    out = np.empty_like(w)
    clip(w, out)
    assert (out[:6] == [0, 0, 0.5, 2, 2, 1]).all()
