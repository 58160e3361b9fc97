"""The multi-sphere, condition numbers and their bounds, against theorems and high precision."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.theory import conditioning, multisphere
from tests import tolerances
from tests.oracles import definition, papers
from tests.strategies import sizes

EPS = tolerances.EPS["float64"]


@given(st.integers(2, 8), st.floats(-0.99, 0.99))
@example(4, 1 - 1e-9)
def test_double_constant_matrices(n, share):
    """Every bound is the condition number itself, 1 + nb/(1−b), or its inverse for b < 0."""
    b = share if share >= 0 else share / (n - 1)  # positive definite above −1/(n−1)
    B = b + (1 - b) * np.eye(n)
    expected = 1 + n * b / (1 - b)
    expected = max(expected, 1 / expected)
    found = conditioning.bounds(B)
    bar = 1e3 * EPS * expected**2  # λ_min carries an absolute error of eps·n·λ_max
    for value in (conditioning.condition_number(B), *found[2:]):
        assert abs(value - expected) <= bar
    assert abs(found.upper_equal_rows / found.lower - 1) <= 8 * EPS or share < 0.99
    assert abs(found.off_diagonal - b) <= 8 * EPS and found.epsilon <= 8 * n * EPS


def test_kernels_tend_to_double_constant_matrices():
    """Theorem 6.2, part 1, with the page's digits; ε/(1 − b) → 0 too, so that bounds meet."""
    X = multisphere.sample(8, 4, 10, rng=0)
    for skip, expected in ((True, (0.10, 9.2e-4, 1.4e-6)), (False, (0.025, 1.1e-4, 1.5e-7))):
        networks = [rk.Network(depth, skip=skip) for depth in (10, 100, 1000)]
        gaps = multisphere.gram_complements(networks, X, head="trace")
        found = [conditioning.bounds(1 - gap) for gap in gaps]
        constant = [b.off_diagonal + (1 - b.off_diagonal) * np.eye(8) for b in found]
        norms = np.linalg.norm(1 - gaps - constant, 2, axis=(1, 2))
        assert np.allclose(norms, expected, rtol=0.05)
        shares = [b.epsilon / (1 - b.off_diagonal) for b in found]
        assert shares[0] > shares[1] > shares[2] and shares[2] <= 0.0145


def test_rows_of_equal_sum_do_not_make_the_constant_vector_the_top_one():
    """Circulant (1, .16, −.3, .16): the top eigenvalue is 1.3, the constant vector has 1.02."""
    row = np.array([1.0, 0.16, -0.3, 0.16])
    A = np.stack([np.roll(row, i) for i in range(4)])
    found = conditioning.bounds(A)
    b, epsilon, value = found.off_diagonal, found.epsilon, conditioning.condition_number(A)
    assert abs(value - 1.3 / 0.38) <= 100 * EPS
    assert (1 + 3 * b) / (1 - b - epsilon) < value  # the paper's formula, which wants the top one
    assert abs(found.upper_equal_rows - (1 - b + epsilon) / (1 - b - epsilon)) <= 100 * EPS


@given(
    st.integers(2, 9),
    st.floats(-0.1, 0.9),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_bounds_hold_for_any_matrix(n, b, spread, circulant, seed):
    """Lemma 6.1 and the sharper bound; rows of equal sums or not, negative entries or not."""
    noise = np.random.default_rng(seed).uniform(-spread, spread, (n, n)) / n
    if circulant:
        noise = np.stack([np.roll(noise[0], i) for i in range(n)])
    A = np.clip(b + (noise + noise.T) / 2, -1, 1)
    np.fill_diagonal(A, 1.0)
    values, found = np.linalg.eigvalsh(A), conditioning.bounds(A)
    off = A[~np.eye(n, dtype=bool)].mean()
    assert abs(found.off_diagonal - off) <= 8 * EPS
    expected = np.abs(A - off).sum(axis=1) - np.abs(1 - off)
    assert abs(found.epsilon - expected.max()) <= 8 * n * EPS
    value = conditioning.condition_number(A)
    assert found.lower <= value * (1 + 1e3 * EPS * n * value)
    b, epsilon = found.off_diagonal, found.epsilon
    assert (found.upper == np.inf) == (epsilon >= 1 - b + min(n * b, 0))
    assert found.upper_equal_rows <= found.upper
    if found.upper_equal_rows < np.inf:
        slack = 1 + 1e3 * EPS * n * found.upper_equal_rows
        assert values[0] > 0 and values[-1] / values[0] <= found.upper_equal_rows * slack
    if circulant and n * b >= epsilon and epsilon < 0.99 * (1 - b):  # the paper's formula
        paper = (1 - b + n * b) / (1 - b - epsilon)
        assert abs(found.upper_equal_rows / paper - 1) <= 1e4 * EPS


def test_condition_numbers():
    for A, expected in ((np.eye(3), 1), (np.ones((3, 3)), np.inf), ([[2.0]], 1)):
        assert conditioning.condition_number(A) == expected
    near = 1 - 6e-8 * (1 - np.eye(2))  # the number before 1 in float32: a rounding error
    assert conditioning.condition_number(near) < 4e7
    assert conditioning.condition_number(near.astype(np.float32)) == np.inf


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("skip", [True, False])
def test_the_asymptotic_law(alpha, skip):
    """δ_L → (9π²/2) s²/L² from any start, from below, with the next term known."""
    slowdown = (1 + alpha**2) / alpha**2 if skip else 1.0
    start = [1.0, 0.3, 1.5, 0.01]
    for depth in (500, 3000):
        complement = multisphere.normalized_gpk(start, depth, 3, alpha, skip, complement=True)
        law = conditioning.asymptotic_complement(depth, alpha, skip)
        assert (complement < law).all()
        assert np.abs(complement / law - 1).max() <= tolerances.asymptote(
            depth, slowdown, np.mean(start)
        )


@pytest.mark.parametrize("skip", [True, False])
def test_the_asymptotic_law_of_leaky_networks(skip):
    """s/(1 − λ) for s, where the gain in s has the factor 1 + slope²."""
    depth, alpha, slope = 4000, 0.5, 0.5
    network = rk.Network(depth, 1, alpha=alpha, skip=skip, negative_slope=slope)
    gain = alpha**2 * (1 + slope**2)
    s = ((1 + gain) / gain if skip else 1.0) / (1 - 2 * slope / (1 + slope**2))
    complement = 1 - rk.Kernel(network, "gpk", normalized=True)(np.eye(2)[:, :, None])[0, 1]
    error = complement / (4.5 * np.pi**2 * (s / depth) ** 2) - 1
    assert abs(error) <= tolerances.asymptote(depth, s, 1.0) < 0.12


@pytest.mark.parametrize("lengths", [(5,), (4, 9, 5, 7)])
def test_the_asymptotic_law_of_gap(lengths, rng):
    """Its diagonal averages equal pixels too: complements are δ_L (1/d + 1/d')/2."""
    depth, bar = 4000, tolerances.asymptote(4000, 2.0, 1e-2)
    X = [multisphere.sample(1, 6, d, rng)[0] for d in np.resize(lengths, 4)]
    row = conditioning.compare(X, (depth,), filter_size=1, head="gap").rows[0]
    assert abs(row.resnet / row.resnet_asymptote - 1) <= bar
    K = rk.ResCGPK(depth, 1, head="gap", normalized=True)(X[:2])
    harmonic = 2 / (1 / len(X[0][0]) + 1 / len(X[1][0]))
    law = conditioning.asymptotic_complement(depth, pixels=harmonic)
    assert abs((1 - K[0, 1]) / law - 1) <= bar


def test_tangent_kernels_lose_the_advantage_of_skips():
    """All layers trained: both fall to (n + 3)/3, 17.7, and do not grow like L²."""
    X = multisphere.sample(50, 12, 25, rng=0)
    table = conditioning.compare(X, (20, 200, 250), kind="ntk")
    assert table.names == ("CNTK", "ResCNTK")
    limit = (50 + 3) / 3
    for name, values in (("cnn", (25.0, 19.0)), ("resnet", (25.8, 19.5))):
        found = table.column(name)
        assert np.abs(found[:2] - values).max() <= 0.05  # the page's digits
        assert (np.diff(found) < 0).all() and limit < found[2] <= 1.1 * limit
        assert (abs(table.column(f"{name}_asymptote") / limit - 1) <= 4 * EPS).all()
    assert table.rows[1].cnn <= 1.1 * limit
    assert (table.column("ratio") < 1).all() and (table.column("ratio_limit") == 1).all()


@pytest.mark.parametrize("lengths", [(5,), (4, 9, 5, 7)])
def test_the_limit_of_tangent_kernels_with_gap(lengths, rng):
    """1 at equal pixels and 1/4 at others, averaged over all pixel pairs by hand."""
    d = [int(length) for length in np.resize(lengths, 4)]
    own = [(n + n * (n - 1) / 4) / n**2 for n in d]
    A = [[1 if i == j else 0.25 / np.sqrt(own[i] * own[j]) for j in range(4)] for i in range(4)]
    limit = conditioning.condition_number(A)
    law = conditioning.asymptotic_condition_number(4, 9, pixels=lengths, kind="ntk")
    assert abs(law / limit - 1) <= tolerances.ROUTES
    if len(lengths) == 1:
        assert abs(law / ((4 * 5 + 3) / 3) - 1) <= tolerances.ROUTES
    X = [multisphere.sample(1, 6, n, rng)[0] for n in d]
    deep = conditioning.compare(X, (100, 1000), head="gap", kind="ntk")
    for name in ("cnn", "resnet"):
        above = deep.column(name) / limit - 1
        # An entry b = d/(d+3) that errs by e moves nb/(1−b), relatively, by e/(b(1−b)).
        bar = tolerances.deep_tangent_kernel(1000, 2.0) * (max(d) + 3) ** 2 / (3 * max(d))
        assert above[0] > above[1] > 0 and above[1] <= bar


@pytest.mark.parametrize("head", ["trace", "equivariant"])
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_where_the_leading_term_is_a_lower_bound(head, spread, rng):
    """On the multi-sphere, even where single pixels differ; elsewhere and with GAP it is none."""
    X = np.zeros((3, 2, 12))
    X[:, 0] = 1
    X[0, 0, 0] = X[1, 0, 4:] = -1
    X = multisphere.project(X + spread * rng.standard_normal(X.shape))
    table = conditioning.compare(X, (7, 14, 30, 300), head=head)
    for name in ("cnn", "resnet"):
        law, least = table.column(f"{name}_asymptote"), table.column(f"{name}_lower")
        assert (law[-2:] < least[-2:]).all() and not (law >= least).any()  # NaN before the onset
    far = np.zeros((2, 1, 40))
    far[0, 0, 0] = far[1, 0, 20] = 1
    row = conditioning.compare(far, (100,)).rows[0]
    assert row.cnn_asymptote > 10 * row.cnn and row.resnet_asymptote > 10 * row.resnet


def test_asymptotes_of_any_size():
    law = conditioning.asymptotic_condition_number
    assert law(5, 50, pixels=2**63) == 2.0**63 * law(5, 50)  # 5 · 2**63 does not fit into 64 bits
    assert law(1, 100) == law(1, 100, pixels=[5]) == 1.0  # of any matrix of one number
    assert law(5, 10**200) == np.inf and conditioning.asymptotic_complement(10**200) == 0
    # From the onset on, L = 3πs/√2 = 6.66 s, the complement is at most 1.
    complements = [conditioning.asymptotic_complement(n, skip=False) for n in (1, 6, 7, 20)]
    assert np.isnan(complements[:2]).all() and 1 > complements[2] > complements[3]
    assert np.isnan([law(3, 1), law(3, 13), law(3, 13, kind="gpk", pixels=5)]).all()
    assert law(3, 14) > 3 and law(3, 1, kind="ntk") == 2
    with pytest.raises(ValueError, match="pixels has 3 lengths, expected 1 or n = 4"):
        law(4, 100, pixels=(2, 3, 4))


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_comparison(kind, rng):
    """Columns by the functions they are of, and theorem 6.2, part 3, on uniform signals."""
    X, depths = multisphere.sample(20, 6, 8, rng), (1, 3, 10, 100)
    table = conditioning.compare(X, depths, kind=kind)
    assert [row.depth for row in table] == list(depths)
    for row, (name, skip) in product(table, (("cnn", False), ("resnet", True))):
        A = rk.Kernel(rk.Network(row.depth, skip=skip), kind, "trace", normalized=True)(X)
        value, found = conditioning.condition_number(A), conditioning.bounds(A)
        columns = [getattr(row, name + of) for of in ("", "_lower", "_upper", "_improved")]
        expected = value, found.lower, found.upper, found.upper_equal_rows
        assert np.allclose(columns, expected, rtol=1e3 * EPS * value, atol=0)
        asymptote = conditioning.asymptotic_condition_number(20, row.depth, 1.0, skip, kind=kind)
        np.testing.assert_equal(getattr(row, name + "_asymptote"), asymptote)
        assert found.lower <= value <= found.upper_equal_rows <= found.upper
    if kind == "ntk":
        return
    for name in ("ratio", "ratio_lower"):
        assert (table.column(name) > 1).all() and (np.diff(table.column(name)) > 0).all()
    assert (table.column("ratio_limit") == 4).all()
    for name in ("cnn", "resnet"):  # the asymptote is the leading term, the bound is proven
        assert not (table.column(f"{name}_asymptote") >= table.column(f"{name}_lower")).any()
        assert table.column(f"{name}_asymptote")[-1] > 0
    # The order needs b > 0: of opposite signals K̄ is −½ with skips, and 0 without.
    row = conditioning.compare([X[0], -X[0]], (1,), filter_size=1, head="equivariant").rows[0]
    values = row.resnet, row.resnet_lower, row.cnn, row.cnn_lower
    assert np.abs(np.subtract(values, (3, 3, 1, 1))).max() <= tolerances.ROUTES
    twice = conditioning.compare(X[[0, 1, 0]], (2, 300))
    assert twice.rows[0].cnn == np.inf and np.isnan(twice.rows[0].ratio) and "–" in str(twice)
    assert "better: unknown; 2 of 2 depths have infinite condition numbers" in str(twice)
    faint = conditioning.compare(X[:2], (1, 300), alpha=1e-100).rows[1]  # s² = 1e400
    assert faint.ratio_limit == np.inf and np.isnan(faint.resnet_asymptote)
    assert (
        abs(
            faint.resnet
            / np.linalg.cond(
                1 - multisphere.gram_complements([rk.Network(1, alpha=0.0)], X[:2], head="trace")[0]
            )
            - 1
        )
        <= tolerances.ROUTES
    )


SIGNAL = np.random.default_rng(0).standard_normal((2, 3, 6))
PART = SIGNAL[1] + (np.arange(6) < 5) * (2 * SIGNAL[0] - SIGNAL[1])
EACH = SIGNAL[0] * np.linspace(0.5, 2, 6)
TWICE = np.concatenate([SIGNAL[0, :, :3]] * 2, axis=1)
SPHERE = multisphere.sample(2, 3, 6, rng=0)


@pytest.mark.parametrize(
    ("X", "head", "filter_size", "holds"),
    [
        (SIGNAL, "trace", 3, True),
        ([SIGNAL[0], PART], "trace", 3, True),  # five of six pixels are multiples
        ([SIGNAL[0], EACH], "gap", 3, True),  # each pixel, by factors of its own
        ([SIGNAL[0], 2 * SIGNAL[0]], "trace", 3, False),
        ([SIGNAL[0], -2 * SIGNAL[0]], "trace", 3, True),
        ([SIGNAL[0], 2 * np.roll(SIGNAL[0], 1, axis=1)], "equivariant", 3, True),
        ([SIGNAL[0], 2 * np.roll(SIGNAL[0], 1, axis=1)], "gap", 3, False),
        ([SIGNAL[1], TWICE], "trace", 3, True),
        ([SIGNAL[1], TWICE], "gap", 3, False),
        (SIGNAL, "trace", 1, False),  # pixels of different norms keep their weights
        (SIGNAL, "equivariant", 1, True),
        (SPHERE, "gap", 1, True),
        ([SPHERE[0], np.roll(SPHERE[0], 1, axis=1)], "trace", 1, True),
        ([SPHERE[0], np.roll(SPHERE[0], 1, axis=1)], "gap", 1, False),
    ],
)
def test_asymptotes_hold_where_compare_says(X, head, filter_size, holds):
    """The NTK's limit of two signals: (2d + 3)/3 with GAP and 5/3 with other heads."""
    X, depths = np.array(X), (1000, 4000)
    table = conditioning.compare(X, depths, filter_size, head=head, kind="ntk")
    limit = 5.0 if head == "gap" else 5 / 3
    away = np.abs(table.column("cnn") / limit - 1)
    assert (away[1] < away[0] / 2 and away[1] <= 0.02) == holds
    for name in ("cnn_asymptote", "resnet_asymptote", "ratio_limit"):
        assert np.isfinite(table.column(name)).all() == holds
    assert ("no asymptotes" in str(table)) != holds


mp = mpmath.mp.clone()
mp.dps = 60
GAPS = st.one_of(st.just(0.0), st.floats(1e-3, 2), st.floats(-18, 0).map(lambda e: 10.0**e))


def test_projection(rng):
    X = rng.standard_normal((5, 3, 7)) * 10.0 ** rng.integers(-200, 200, (5, 1, 7))
    P = multisphere.project(X)
    np.testing.assert_allclose((P**2).sum(axis=1), 3, rtol=4 * EPS)
    size = np.abs(X).max(axis=1, keepdims=True)
    unit = X / size / np.linalg.norm(X / size, axis=1, keepdims=True)
    np.testing.assert_allclose(P, np.sqrt(3) * unit, rtol=8 * EPS)


def test_samples_are_uniform():
    """Dot products of independent uniform pixels have mean 0 and variance 1/C0."""
    X, Z = (multisphere.sample(300, 4, 5, rng=seed) for seed in (1, 2))
    t = multisphere.dot_products(X, Z)
    # 300 x 300 pairs of 300 + 300 independent signals: no better than 300 independent ones.
    assert abs(t.mean()) <= 5 * np.sqrt(1 / 4 / 300)
    assert abs((t**2).mean() - 1 / 4) <= 5 * np.sqrt(1 / 8 / 300)


def test_dot_products(rng):
    X, Z = multisphere.sample(3, 4, 5, rng), multisphere.sample(2, 4, 5, rng)
    for offset in (0, 2, -1, 5):
        expected = np.einsum("icj,kcj->ikj", X, np.roll(Z, -offset, axis=2)) / 4
        gap = multisphere.dot_products(X, Z, offset, complement=True)
        assert np.abs(multisphere.dot_products(X, Z, offset) - expected).max() <= 8 * EPS
        assert np.abs(gap - (1 - expected)).max() <= 8 * EPS
    near = multisphere.project(X + 1e-9 * rng.standard_normal(X.shape))
    gap = multisphere.dot_products(X, near, complement=True).diagonal().T
    np.testing.assert_allclose(gap, ((X - near) ** 2).sum(axis=1) / 8, rtol=8 * EPS)
    assert (gap > 1e-20).all()


def exact_recursion(gap, dilation, q, alpha, skip):
    """Theorem 4.1 in 60 digits, on correlations, with dilated filters; returns the complement."""
    kappa1 = np.frompyfunc(lambda u: (mp.sqrt(1 - u**2) + (mp.pi - mp.acos(u)) * u) / mp.pi, 1, 1)

    def box(row, step):
        return sum(np.roll(row, -step * k) for k in range(-(q // 2), q // 2 + 1)) / q

    K, a2 = np.array([1 - mp.mpf(float(v)) for v in gap]), mp.mpf(alpha) ** 2
    for layer, step in enumerate(dilation):
        branch = box(kappa1(box(K, step) if layer else K), step)
        K = (K + a2 * branch) / (1 + a2) if skip else branch
    return np.array(1 - K, dtype=float)


@given(
    st.lists(GAPS, min_size=1, max_size=5),
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
    sizes,
    st.sampled_from([1.0, 0.2, 1.5]),
    st.booleans(),
)
def test_complement_is_exact(gap, dilation, q, alpha, skip):
    gap, options = np.array(gap), (len(dilation), q, alpha, skip)
    computed = multisphere.normalized_gpk(gap, *options, complement=True, dilation=dilation)
    expected = exact_recursion(gap, dilation, q, alpha, skip)
    assert (np.abs(computed - expected) <= tolerances.complement(len(dilation)) * expected).all()
    plain = multisphere.normalized_gpk(1 - gap, *options, dilation=dilation)
    assert np.abs(plain - (1 - expected)).max() <= 100 * EPS


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_equal_dot_products_give_fully_connected_kernels(kind, rng):
    """Lemma C.3, α = 1: kernels of signals whose pixels are equal, by Huang et al.'s recursion."""
    X = np.repeat(multisphere.sample(2, 4, 1, rng), 6, axis=2)
    network = rk.Network(7, trained=("inner", "outer"))
    found = rk.Kernel(network, kind, "equivariant", normalized=True)(X)[0, 1]
    xx, xz, zz = (
        papers.huang_resnet(X[i, :, 0], X[j, :, 0], 7, 0.0)[kind == "ntk"]
        for i, j in ((0, 0), (0, 1), (1, 1))
    )
    assert abs(found - xz / np.sqrt(xx * zz)) <= tolerances.TRANSCRIPTION


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_resnets_are_below_a_mixture_of_cnns(alpha, rng):
    """Lemma E.3: ResCGPK's mean over pixels ≤ binomial mean of CGPKs ≤ CGPK, from any start."""
    t, L, p = rng.uniform(-1, 1, (200, 7)), 6, alpha**2 / (1 + alpha**2)
    cnn = np.array(
        [[papers.theorem_4_1(row, k, 3, alpha, False).mean() for row in t] for k in range(L + 1)]
    )
    mixture = sum(math.comb(L, k) * p**k * (1 - p) ** (L - k) * cnn[k] for k in range(L + 1))
    resnet = multisphere.normalized_gpk(t, L, alpha=alpha).mean(axis=1)
    assert (resnet < mixture).all() and (mixture < cnn[L]).all()


@pytest.mark.parametrize(
    ("exponent", "trained", "skip"),
    [
        (0.0, ("inner", "outer", "readout"), False),
        (0.0, ("inner",), True),
        (0.6, ("inner", "outer", "readout"), True),
        (1.5, ("outer", "readout"), True),
    ],
)
def test_complements_of_deep_networks(skip, exponent, trained):
    """Both kernels keep all their digits, however small α is: the rest of a sum is carried on."""
    X = multisphere.project(np.array([[[1.0], [0.2]], [[0.6], [0.8]], [[1.0], [0.2001]]]))
    depth = 200
    network = rk.Network(depth, 1, alpha=depth**-exponent, skip=skip, trained=trained)
    for kind, pixels in zip(("gpk", "ntk"), definition.pixel_pairs(X, network)[depth], strict=True):
        found = multisphere.gram_complements([network], X, kind=kind, head="trace")
        K = definition.head(pixels, "trace")
        for other in (1, 2):
            exact = float(1 - K[0, other] / definition.mp.sqrt(K[0, 0] * K[other, other]))
            assert abs(found[0, 0, other] - exact) <= tolerances.complement(depth) * abs(exact)


@pytest.mark.parametrize(
    "network",
    [
        rk.Network(3, 5, outer_filter_size=3, skip=False, dilation=2),
        rk.Network(3, 3, outer_filter_size=1, alpha=1.3, c_v=1.3, c_w=1.9, trained=("inner",)),
        rk.Network(3, 1, outer_filter_size=3, alpha=0.4, input_scale=2.0, trained=("input",)),
        rk.Network(3, 3, alpha=0.7, readout_scale=3.0, trained=("outer", "readout", "input")),
    ],
)
def test_complements_are_the_definition(network):
    """Against pixel pairs in 40 digits, two depths and two α in one call."""
    X = multisphere.sample(3, 2, 3, rng=3)
    networks = [network, network.replace(depth=2, alpha=0.2)]
    pixels = [definition.pixel_pairs(X, one)[one.depth] for one in networks]
    for (which, kind), head in product(enumerate(("gpk", "ntk")), ("equivariant", "trace", "gap")):
        computed = multisphere.gram_complements(networks, X, kind=kind, head=head)
        assert (computed == computed.transpose(0, 2, 1)).all()
        for kernels, complements in zip(pixels, computed, strict=True):
            K = definition.head(kernels[which], head)
            own = np.array([definition.mp.sqrt(K[i, i]) for i in range(3)])
            exact = np.array(1 - K / np.multiply.outer(own, own), dtype=float)
            # X is on the multi-sphere to a few units only, and the definition knows it.
            assert np.abs(complements - exact).max() <= 50 * EPS
