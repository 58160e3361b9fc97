"""Multi-sphere and conditioning against definitions, theorems and high precision."""

import mpmath
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.theory import multisphere
from tests import tolerances
from tests.strategies import sizes

mp = mpmath.mp.clone()
mp.dps = 60
EPS = tolerances.EPS["float64"]
GAPS = st.one_of(st.just(0.0), st.floats(1e-3, 2), st.floats(-18, 0).map(lambda e: 10.0**e))


def test_projection(rng):
    X = rng.standard_normal((5, 3, 7)) * 10.0 ** rng.integers(-200, 200, (5, 1, 7))
    before = X.copy()
    P = multisphere.project(X)
    assert (before == X).all()
    np.testing.assert_allclose((P**2).sum(axis=1), 3, rtol=4 * EPS)
    cosine = (P * X).sum(axis=1) / np.linalg.norm(P, axis=1) / np.abs(X).max(axis=1)
    assert (cosine > 0).all()
    np.testing.assert_allclose(multisphere.project(P), P, rtol=8 * EPS)
    assert (multisphere.project(-np.ones((1, 1, 2))) == -1).all()


def test_samples_are_uniform():
    """Dot products of independent uniform pixels have mean 0 and variance 1/C0."""
    X, Z = (multisphere.sample(300, 4, 5, rng=seed) for seed in (1, 2))
    t = multisphere.dot_products(X, Z)
    # 300 x 300 pairs of 300 + 300 independent signals: no better than 300 independent ones.
    assert abs(t.mean()) <= 5 * np.sqrt(1 / 4 / 300)
    assert abs((t**2).mean() - 1 / 4) <= 5 * np.sqrt(1 / 8 / 300)
    assert (multisphere.sample(2, 3, 4, rng=7) == multisphere.sample(2, 3, 4, rng=7)).all()


def test_dot_products(rng):
    X, Z = multisphere.sample(3, 4, 5, rng), multisphere.sample(2, 4, 5, rng)
    for offset in (0, 2, -1, 5):
        t = multisphere.dot_products(X, Z, offset)
        gap = multisphere.dot_products(X, Z, offset, complement=True)
        for i, k, j in np.ndindex(3, 2, 5):
            expected = X[i, :, j] @ Z[k, :, (j + offset) % 5] / 4
            assert abs(t[i, k, j] - expected) <= 8 * EPS
            assert abs(gap[i, k, j] - (1 - expected)) <= 8 * EPS
    near = multisphere.project(X + 1e-9 * rng.standard_normal(X.shape))
    gap = multisphere.dot_products(X, near, complement=True).diagonal().T
    exact = ((X - near) ** 2).sum(axis=1) / 8
    np.testing.assert_allclose(gap, exact, rtol=8 * EPS)
    assert (gap > 1e-20).all()


def exact_recursion(gap, depth, q, alpha, skip):
    """Theorem 4.1 in 60 digits, on correlations; returns the complement."""
    d = len(gap)
    K = [1 - mp.mpf(float(v)) for v in gap]
    a2 = mp.mpf(alpha) ** 2

    def box(row):
        return [
            mp.fsum(row[(j + k) % d] for k in range(-(q // 2), q // 2 + 1)) / q for j in range(d)
        ]

    def kappa1(rho):
        return (mp.sqrt(1 - rho**2) + (mp.pi - mp.acos(rho)) * rho) / mp.pi

    for layer in range(1, depth + 1):
        branch = box([kappa1(r) for r in (K if layer == 1 else box(K))])
        K = [(k + a2 * b) / (1 + a2) for k, b in zip(K, branch, strict=True)] if skip else branch
    return np.array([float(1 - k) for k in K])


@given(
    st.lists(GAPS, min_size=1, max_size=5),
    st.integers(1, 12),
    sizes,
    st.sampled_from([1.0, 0.2, 1.5]),
    st.booleans(),
)
def test_complement_is_exact(gap, depth, q, alpha, skip):
    gap = np.array(gap)
    computed = multisphere.normalized_gpk(gap, depth, q, alpha, skip, complement=True)
    expected = exact_recursion(gap, depth, q, alpha, skip)
    assert (np.abs(computed - expected) <= tolerances.complement(depth) * expected).all()
    plain = multisphere.normalized_gpk(1 - gap, depth, q, alpha, skip)
    assert np.abs(plain - (1 - expected)).max() <= 100 * EPS


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    sizes,
    st.sampled_from([1.0, 0.3]),
    st.booleans(),
)
def test_theorem_4_1_is_the_general_recursion(dilation, q, alpha, skip):
    depth = len(dilation)
    X, Z = multisphere.sample(3, 3, 6, 1), multisphere.sample(2, 3, 6, 2)
    network = rk.Network(depth, q, skip=skip, alpha=alpha, dilation=dilation)
    own = (1 + alpha**2) ** depth if skip else 1.0
    trace = rk.Kernel(network, "gpk", "trace")(X, Z) / own
    rows = [
        multisphere.normalized_gpk(
            multisphere.dot_products(X, Z, offset), depth, q, alpha, skip, dilation=dilation
        )
        for offset in range(6)
    ]
    assert np.abs(trace - rows[0].mean(axis=2)).max() <= tolerances.ROUTES
    gap = rk.Kernel(network, "gpk", "gap")(X, Z) / own
    assert np.abs(gap - np.mean(rows, axis=(0, 3))).max() <= tolerances.ROUTES
    equivariant = rk.Kernel(network, "gpk", "equivariant")(X, Z) / own
    assert np.abs(equivariant - rows[0][..., 0]).max() <= tolerances.ROUTES
