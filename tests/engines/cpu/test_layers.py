"""A ReLU layer of vectors, against 40-digit arithmetic."""

import mpmath
import numpy as np
import pytest

from rescntk.engines.cpu import layers
from rescntk.engines.cpu.compilation import compiled
from rescntk.engines.cpu.records import layer_constants
from rescntk.engines.cpu.vectors import VECTOR_BYTES, load, store
from tests import tolerances


@compiled
def relu(root1, root2, w, constants, p, r, out):
    layer = constants[0]
    for at in range(0, len(w), VECTOR_BYTES // w.itemsize):
        complement = load(w, at)
        x, z = load(root1, at), load(root2, at)
        distance, K, slope = layers.relu(x, z, complement, 2.0 - complement, layer, p, r)
        store(out[0], at, distance)
        store(out[1], at, K)
        store(out[2], at, slope)


@compiled
def complement(root1, root2, inverse, distance, constants, out):
    layer = constants[0]
    for at in range(0, len(out), VECTOR_BYTES // out.itemsize):
        x, z = load(root1, at), load(root2, at)
        value = layers.complement(x, z, load(inverse, at), load(distance, at), layer)
        store(out, at, value)


def constants(dtype, **values):
    record = np.zeros(1, layer_constants(dtype))
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
        spread = (x - z) ** 2 / 2 + x * z
        exact = (
            1.5 * ((x - z) ** 2 / 2 + x * z * (1 - kappa1)), 1.5 * x * z * kappa1, 0.75 * kappa0,
        )  # fmt: skip
        for value, true, size in zip(ours, exact, (spread, spread, 1), strict=True):
            assert abs(float(value) - true) <= 8 * tolerances.EPS[dtype] * 1.5 * size


def test_ties_count_as_parallel():
    """D − z within its rounding error is 0; negative and too large complements are clipped."""
    count = VECTOR_BYTES // 8
    root1, root2 = np.full(count, 1.0), np.full(count, 0.5)
    z = 0.25
    distance = np.full(count, z)
    distance[1], distance[2], distance[3] = z + 1e-15, z + 1e-3, z - 1e-9
    distance[4] = 100.0
    tie = 2 * 16 * tolerances.EPS["float64"]
    record = constants("float64", tie_scale=tie, tie_bound=4 * tie)
    out = np.empty(count)
    complement(root1, root2, np.ones(count), distance, record, out)
    assert (out[[0, 1, 3]] == 0).all()
    assert abs(out[2] - 1e-3) <= 1e-15
    assert out[4] == 2.0
