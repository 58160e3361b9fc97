"""Multi-sphere and conditioning against definitions, theorems and high precision."""

import csv

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.theory import conditioning, multisphere
from tests import tolerances
from tests.strategies import sizes

mp = mpmath.mp.clone()
mp.dps = 60
EPS = tolerances.EPS["float64"]
GAPS = st.one_of(st.just(0.0), st.floats(1e-3, 2), st.floats(-18, 0).map(lambda e: 10.0**e))


# ---------------------------------------------------------------- multi-sphere


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


@pytest.mark.parametrize("skip", [True, False])
def test_complement_at_depth_3000(skip):
    gap = np.array([1.0, 1e-3, 1e-9])
    computed = multisphere.normalized_gpk(gap, 3000, 3, 0.7, skip, complement=True)
    expected = exact_recursion(gap, 3000, 3, 0.7, skip)
    assert (np.abs(computed - expected) <= tolerances.complement(3000) * expected).all()


@given(st.integers(1, 6), sizes, st.sampled_from([1.0, 0.3]), st.booleans())
def test_theorem_4_1_is_the_general_recursion(depth, q, alpha, skip):
    X, Z = multisphere.sample(3, 3, 6, 1), multisphere.sample(2, 3, 6, 2)
    network = rk.Network(depth, q, skip=skip, alpha=alpha)
    own = (1 + alpha**2) ** depth if skip else 1.0
    trace = rk.Kernel(network, "gpk", "trace")(X, Z) / own
    rows = [
        multisphere.normalized_gpk(multisphere.dot_products(X, Z, offset), depth, q, alpha, skip)
        for offset in range(6)
    ]
    assert np.abs(trace - rows[0].mean(axis=2)).max() <= tolerances.ROUTES
    gap = rk.Kernel(network, "gpk", "gap")(X, Z) / own
    assert np.abs(gap - np.mean(rows, axis=(0, 3))).max() <= tolerances.ROUTES
    equivariant = rk.Kernel(network, "gpk", "equivariant")(X, Z) / own
    assert np.abs(equivariant - rows[0][..., 0]).max() <= tolerances.ROUTES


# ---------------------------------------------------------------- conditioning


def kernel_matrix(rng, n=12, depth=4, skip=True):
    X = multisphere.sample(n, 4, 6, rng)
    return rk.Kernel(rk.Network(depth, skip=skip), "gpk", "trace", normalized=True)(X)


@given(st.integers(2, 8), st.floats(0, 0.99))
def test_double_constant_matrices(n, b):
    """Every bound is the condition number itself, 1 + nb/(1−b)."""
    B = np.full((n, n), b)
    np.fill_diagonal(B, 1.0)
    expected = 1 + n * b / (1 - b)
    found = conditioning.bounds(B)
    bar = 1e3 * EPS * expected**2  # λ_min carries an absolute error of eps·n·λ_max
    assert abs(conditioning.condition_number(B) - expected) <= bar
    for value in found[2:]:
        assert abs(value - expected) <= bar
    assert abs(found.off_diagonal - b) <= 8 * EPS
    assert found.epsilon <= 8 * n * EPS


@given(st.integers(3, 10), st.floats(0, 0.9), st.floats(0, 0.3), st.integers(0, 2**32 - 1))
def test_lemma_6_1(n, b, spread, seed):
    noise = np.random.default_rng(seed).uniform(-spread, spread, (n, n)) / n
    A = np.clip(b + (noise + noise.T) / 2, -1, 1)
    np.fill_diagonal(A, 1.0)
    value, found = conditioning.condition_number(A), conditioning.bounds(A)
    off = A[~np.eye(n, dtype=bool)]
    assert abs(found.off_diagonal - off.mean()) <= 8 * EPS
    expected = np.abs(A - off.mean()).sum(axis=1) - np.abs(1 - off.mean())
    assert abs(found.epsilon - expected.max()) <= 8 * n * EPS
    slack = 1 + 1e3 * EPS * n * value
    assert found.lower <= value * slack
    assert value <= found.upper * slack
    if found.off_diagonal < 0:
        assert found.lower == 1
    assert (found.upper == np.inf) == (found.epsilon >= 1 - found.off_diagonal)


def test_bounds_of_negative_means():
    """b < 0, where the largest eigenvalue of B is 1 − b."""
    found = conditioning.bounds([[1, -0.5], [-0.5, 1]])
    assert found.lower == 1
    assert abs(found.upper - 3) <= 16 * EPS
    assert found.upper_equal_rows == found.upper
    for seed in range(20):
        noise = np.random.default_rng(seed).uniform(-0.05, 0.05, (4, 4))
        A = -0.2 + (noise + noise.T) / 2
        np.fill_diagonal(A, 1.0)
        assert conditioning.condition_number(A) <= conditioning.bounds(A).upper * (1 + 100 * EPS)


def test_rows_of_equal_sum_have_the_sharper_bound():
    """Circulant matrices are such; the bound is between the value and the general one."""
    row = np.array([1.0, 0.62, 0.6, 0.58, 0.6, 0.62])
    A = np.stack([np.roll(row, i) for i in range(6)])
    A = (A + A.T) / 2
    found = conditioning.bounds(A)
    assert conditioning.condition_number(A) <= found.upper_equal_rows * (1 + 100 * EPS)
    assert found.upper_equal_rows < found.upper < np.inf


def test_condition_numbers():
    assert conditioning.condition_number(np.eye(3)) == 1
    assert conditioning.condition_number(np.ones((3, 3))) == np.inf
    assert conditioning.condition_number([[2.0]]) == 1
    near = np.array([[1.0, 1 - 1e-6], [1 - 1e-6, 1.0]])
    assert conditioning.condition_number(near) < 3e6
    near[0, 1] = near[1, 0] = 1 - 6e-8  # the number before 1 in float32: a rounding error
    assert conditioning.condition_number(near.astype(np.float32)) == np.inf
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    A = Q @ np.diag([1e4, 100, 3, 2, 1]) @ Q.T
    assert abs(conditioning.condition_number((A + A.T) / 2) / 1e4 - 1) <= 1e5 * EPS


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("skip", [True, False])
def test_the_asymptotic_law(alpha, skip):
    """δ_L → (9π²/2) s²/L² from any start, from below, with the next term known."""
    slowdown = (1 + alpha**2) / alpha**2 if skip else 1.0
    start = [1.0, 0.3, 1.5, 0.01]
    for depth in (1000, 10_000):
        gap = multisphere.normalized_gpk(start, depth, 3, alpha, skip, complement=True)
        law = 1 / conditioning.asymptotic_condition_number(1, depth, alpha, skip)
        assert (gap < law).all()
        assert np.abs(gap / law - 1).max() <= tolerances.asymptote(depth, slowdown, np.mean(start))


def test_comparison(rng, tmp_path):
    """Theorem 6.2 on uniform signals, and a table that says what it should."""
    X = multisphere.sample(40, 6, 10, rng)
    depths = (1, 3, 10, 30, 100)
    table = conditioning.compare(X, depths)
    assert len(table) == 5
    assert [row.depth for row in table] == list(depths)
    for t, depth in enumerate(depths):
        row = table.rows[t]
        for name, skip in (("cgpk", False), ("rescgpk", True)):
            A = rk.Kernel(rk.Network(depth, skip=skip), "gpk", "trace", normalized=True)(X)
            value = conditioning.condition_number(A)
            found = conditioning.bounds(A)
            assert abs(getattr(row, name) / value - 1) <= 1e3 * EPS * value
            assert abs(getattr(row, name + "_lower") / found.lower - 1) <= 1e3 * EPS * value
            asymptote = conditioning.asymptotic_condition_number(40, depth, 1.0, skip)
            assert getattr(row, name + "_asymptote") == asymptote
            assert found.lower <= value <= found.upper
        assert row.ratio == row.cgpk / row.rescgpk
    for name in ("ratio", "ratio_lower"):
        assert (table.column(name) > 1).all()  # part 3 of the theorem
        assert (np.diff(table.column(name)) > 0).all()
    assert (table.column("ratio_limit") == 4).all()
    assert (np.diff(table.column("cgpk_lower")) > 0).all()
    table.write_csv(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["depth"]) for row in rows] == list(depths)
    assert [float(row["rescgpk"]) for row in rows] == table.column("rescgpk").tolist()
    text = str(table).splitlines()
    assert len(text) == 3 + len(depths)
    assert len({len(line) for line in text[1:]}) == 1
    with pytest.raises(ValueError, match="column is 'kappa'"):
        table.column("kappa")


def test_duplicates_make_a_matrix_singular_and_the_table_says_so(rng):
    X = multisphere.sample(5, 3, 6, rng)[[0, 1, 2, 3, 4, 0]]
    table = conditioning.compare(X, (2,))
    assert table.rows[0].cgpk == np.inf
    assert np.isnan(table.rows[0].ratio)
    assert "–" in str(table)


def test_condition_numbers_of_a_deep_kernel_follow_the_law(rng):
    """cond(CGPK)/cond(ResCGPK) → ((1+α²)/α²)²: within a percent of 4 at depth 2000."""
    X = multisphere.sample(20, 8, 10, rng)
    table = conditioning.compare(X, (200, 2000))
    shallow, deep = table.column("ratio")
    assert abs(deep - 4) < abs(shallow - 4)
    assert 3.9 <= deep <= 4
    for name in ("cgpk", "rescgpk"):
        assert abs(table.column(name)[1] / table.column(name + "_asymptote")[1] - 1) <= 0.03
