"""Condition numbers, their bounds and asymptotes, against theorems and kernels."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.theory import conditioning, multisphere
from rescntk.theory.depth import asymptotic_complement
from tests import tolerances

EPS = tolerances.EPS["float64"]


def test_diagonals_may_have_rounding_errors_of_float32():
    A = np.array([[1.0, 0.5], [0.5, 1.0]]) + 2 * tolerances.EPS["float32"] * np.eye(2)
    assert abs(conditioning.bounds(A).lower - 3) <= 8 * EPS


@given(st.integers(2, 8), st.floats(-0.99, 0.99))
@example(4, 1 - 1e-9)
@example(3, 1 - 1e-12)
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
    assert abs(found.improved / found.lower - 1) <= 8 * EPS or share < 0.99
    assert abs(found.off_diagonal - b) <= 8 * EPS and found.epsilon <= 8 * n * EPS


@pytest.mark.parametrize(
    ("skip", "expected"), [(True, (0.10, 9.2e-4, 1.4e-6)), (False, (0.025, 1.1e-4, 1.5e-7))]
)
def test_kernels_tend_to_double_constant_matrices(skip, expected):
    """Theorem 6.2, part 1, with the page's digits; ε/(1 − b) → 0 too, so that bounds meet."""
    X = multisphere.sample(8, 4, 10, rng=0)
    networks = [rk.Network(depth, skip=skip) for depth in (10, 100, 1000)]
    gaps = multisphere.gram_complements(networks, X, kind="gpk", head="trace")
    found = [conditioning.bounds(1 - gap) for gap in gaps]
    constant = [b.off_diagonal + (1 - b.off_diagonal) * np.eye(8) for b in found]
    norms = np.linalg.norm(1 - gaps - constant, 2, axis=(1, 2))
    two_digits = 0.05  # half a unit of the last one of 0.10
    assert np.allclose(norms, expected, rtol=two_digits, atol=0)
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
    assert abs(found.improved - (1 - b + epsilon) / (1 - b - epsilon)) <= 100 * EPS


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
    assert found.improved <= found.upper
    if found.improved < np.inf:
        slack = 1 + 1e3 * EPS * n * found.improved
        assert values[0] > 0 and values[-1] / values[0] <= found.improved * slack
    if circulant and n * b >= epsilon and epsilon < 0.99 * (1 - b):  # the paper's formula
        paper = (1 - b + n * b) / (1 - b - epsilon)
        assert abs(found.improved / paper - 1) <= 1e4 * EPS


@pytest.mark.parametrize(
    ("A", "expected"),
    [
        (np.eye(3), 1),
        (np.ones((3, 3)), np.inf),
        ([[2.0]], 1),
        (np.zeros((2, 2)), np.inf),
    ],
)
def test_condition_numbers(A, expected):
    assert conditioning.condition_number(A) == expected


def test_a_rounding_error_of_float32_makes_a_singular_matrix():
    near = 1 - 6e-8 * (1 - np.eye(2))  # the number before 1 in float32
    assert conditioning.condition_number(near) < 4e7
    assert conditioning.condition_number(near.astype(np.float32)) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(5,), (4, 9, 5, 7)])
def test_the_asymptotic_law_of_gap(lengths, rng):
    """Its diagonal averages equal pixels too: complements are δ_L (1/d + 1/d')/2."""
    depth, bar = 4000, tolerances.asymptote(4000, 2.0, 1e-2)
    X = [multisphere.sample(1, 6, d, rng)[0] for d in np.resize(lengths, 4)]
    row = conditioning.compare(rk.Network(1, 1), X, (depth,), kind="gpk", head="gap").rows[0]
    assert abs(row.resnet.condition_number / row.resnet.asymptote - 1) <= bar
    K = rk.ResCGPK(depth, 1, head="gap", normalized=True)(X[:2])
    harmonic = 2 / (1 / len(X[0][0]) + 1 / len(X[1][0]))
    law = asymptotic_complement(rk.Network(depth), n_pixels=harmonic)
    assert abs((1 - K[0, 1]) / law - 1) <= bar


@pytest.mark.slow
def test_tangent_kernels_lose_the_advantage_of_skips():
    """All layers trained: both fall to (n + 3)/3, 17.7, and do not grow like L²."""
    X = multisphere.sample(50, 12, 25, rng=0)
    table = conditioning.compare(rk.Network(1), X, (20, 200, 250), kind="ntk", head="trace")
    assert table.names == ("CNTK", "ResCNTK")
    limit = (50 + 3) / 3
    for name, values in (("cnn", (25.0, 19.0)), ("resnet", (25.8, 19.5))):
        found = table.column(f"{name}.condition_number")
        assert np.abs(found[:2] - values).max() <= tolerances.printed(1)
        assert (np.diff(found) < 0).all() and limit < found[2] <= 1.1 * limit
        assert (abs(table.column(f"{name}.asymptote") / limit - 1) <= 4 * EPS).all()
    assert table.rows[1].cnn.condition_number <= 1.1 * limit
    assert (table.column("ratio") < 1).all() and (table.column("ratio_limit") == 1).all()


@pytest.mark.parametrize("lengths", [(5,), (4, 9, 5, 7)])
def test_the_limit_of_tangent_kernels_with_gap(lengths, rng):
    """1 at equal pixels and 1/4 at others, averaged over all pixel pairs by hand."""
    d = [int(length) for length in np.resize(lengths, 4)]
    own = [(n + n * (n - 1) / 4) / n**2 for n in d]
    A = [[1 if i == j else 0.25 / np.sqrt(own[i] * own[j]) for j in range(4)] for i in range(4)]
    limit = conditioning.condition_number(A)
    law = conditioning.asymptotic_condition_number(rk.Network(9), 4, kind="ntk", n_pixels=lengths)
    assert abs(law / limit - 1) <= tolerances.ROUTES
    r = np.sqrt(np.array(d) / (np.array(d) + 3.0))  # the page's formula
    written = np.linalg.cond(np.diag(1 - r**2) + np.outer(r, r))
    assert abs(law / written - 1) <= tolerances.ROUTES
    if len(lengths) == 1:
        assert abs(law / ((4 * 5 + 3) / 3) - 1) <= tolerances.ROUTES
    X = [multisphere.sample(1, 6, n, rng)[0] for n in d]
    deep = conditioning.compare(rk.Network(1), X, (100, 1000), kind="ntk", head="gap")
    for name in ("cnn", "resnet"):
        above = deep.column(f"{name}.condition_number") / limit - 1
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
    table = conditioning.compare(rk.Network(1), X, (7, 14, 30, 300), kind="gpk", head=head)
    for name in ("cnn", "resnet"):
        law, least = table.column(f"{name}.asymptote"), table.column(f"{name}.lower")
        assert (law[-2:] < least[-2:]).all() and not (law >= least).any()  # NaN before the onset
    far = np.zeros((2, 1, 40))
    far[0, 0, 0] = far[1, 0, 20] = 1
    row = conditioning.compare(rk.Network(1), far, (100,), kind="gpk", head="trace").rows[0]
    for side in (row.cnn, row.resnet):
        assert side.asymptote > 10 * side.condition_number


@pytest.mark.parametrize(
    ("head", "pixels", "asymptote", "condition"),
    [("trace", 100, 45_031.6, 15_716.5), ("gap", 200, 9_006_327.4, 46_826.8)],
)
def test_the_leading_term_exceeds_condition_numbers_of_long_signals(
    head, pixels, asymptote, condition
):
    """The numbers of docs/theory/conditioning.md, section 4."""
    X = np.random.default_rng(0).standard_normal((2, 1, pixels))
    row = conditioning.compare(rk.Network(1), X, (1000,), kind="gpk", head=head).rows[0]
    assert abs(row.cnn.asymptote - asymptote) <= tolerances.printed(1)
    assert abs(row.cnn.condition_number - condition) <= tolerances.printed(1)


def test_asymptotes_of_any_size():
    def law(n, depth, kind="gpk", **pixels):
        return conditioning.asymptotic_condition_number(rk.Network(depth), n, kind=kind, **pixels)

    assert law(5, 50, n_pixels=2**63) == 2.0**63 * law(5, 50)  # 5 · 2**63 does not fit into 64 bits
    assert law(1, 100) == law(1, 100, n_pixels=[5]) == 1.0  # of any matrix of one number
    assert law(5, 10**200) == np.inf and asymptotic_complement(rk.Network(10**200)) == 0
    # From the onset on, L = 3πs/√2 = 6.66 s, the complement is at most 1.
    complements = [asymptotic_complement(rk.Network(n, skip=False)) for n in (1, 6, 7, 20)]
    assert np.isnan(complements[:2]).all() and 1 > complements[2] > complements[3]
    assert np.isnan([law(3, 1), law(3, 13), law(3, 13, n_pixels=5)]).all()
    assert law(3, 14) > 3 and law(3, 1, kind="ntk") == 2


COMPARED = {"depths": (1, 3, 10, 100), "head": "trace"}


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_columns_of_a_comparison_are_by_the_functions_that_they_are_of(kind, rng):
    X = multisphere.sample(20, 6, 8, rng)
    table = conditioning.compare(rk.Network(1), X, kind=kind, **COMPARED)
    assert [row.depth for row in table] == [1, 3, 10, 100]
    for row, (name, skip) in product(table, (("cnn", False), ("resnet", True))):
        A = rk.Kernel(rk.Network(row.depth, skip=skip), kind, "trace", normalized=True)(X)
        value, found = conditioning.condition_number(A), conditioning.bounds(A)
        side = getattr(row, name)
        expected = value, found.lower, found.upper, found.improved
        assert np.allclose(side[:4], expected, rtol=1e3 * EPS * value, atol=0)
        network = rk.Network(row.depth, skip=skip)
        asymptote = conditioning.asymptotic_condition_number(network, 20, kind=kind)
        np.testing.assert_equal(side.asymptote, asymptote)
        assert found.lower <= value <= found.improved <= found.upper


def test_theorem_6_2_part_3_on_uniform_signals(rng):
    X = multisphere.sample(20, 6, 8, rng)
    table = conditioning.compare(rk.Network(1), X, kind="gpk", **COMPARED)
    for name in ("ratio", "ratio_lower"):
        assert (table.column(name) > 1).all() and (np.diff(table.column(name)) > 0).all()
    assert (table.column("ratio_limit") == 4).all()
    for name in ("cnn", "resnet"):  # the asymptote is the leading term, the bound is proven
        assert not (table.column(f"{name}.asymptote") >= table.column(f"{name}.lower")).any()
        assert table.column(f"{name}.asymptote")[-1] > 0


def test_the_order_of_theorem_6_2_needs_a_positive_mean(rng):
    """Of opposite signals K̄ is −½ with skips, and 0 without."""
    (x,) = multisphere.sample(1, 6, 8, rng)
    pair, options = [x, -x], {"kind": "gpk", "head": "equivariant"}
    (row,) = conditioning.compare(rk.Network(1, 1), pair, (1,), **options)
    values = row.resnet.condition_number, row.resnet.lower, row.cnn.condition_number, row.cnn.lower
    assert np.abs(np.subtract(values, (3, 3, 1, 1))).max() <= tolerances.ROUTES


def test_a_table_names_the_first_better_depth_where_others_are_not_better(rng):
    """Of opposite signals the CNN of one layer is better, and the ResNet from some depth on."""
    X = multisphere.sample(20, 6, 8, rng)
    assert (
        "better: 4 of 4 depths\n"
        in f"{conditioning.compare(rk.Network(1), X, kind='gpk', **COMPARED)}\n"
    )
    pair, options = np.stack([X[0], -X[0]]), {"kind": "gpk", "head": "equivariant"}
    table = conditioning.compare(rk.Network(1, 1), pair, (1, 30), **options)
    assert (table.column("ratio") > 1).tolist() == [False, True]
    assert str(table).endswith("better: 1 of 2 depths, first at depth 30")


def test_infinite_condition_numbers_have_no_ratio(rng):
    X = multisphere.sample(2, 6, 8, rng)
    twice = conditioning.compare(rk.Network(1), X[[0, 1, 0]], (2, 300), kind="gpk", head="trace")
    assert (
        twice.rows[0].cnn.condition_number == np.inf
        and np.isnan(twice.rows[0].ratio)
        and "–" in str(twice)
    )
    assert "better: unknown; 2 of 2 depths have infinite condition numbers" in str(twice)


def test_a_tiny_branch_leaves_the_dot_product(rng):
    """s² = 1e400 is beyond float64."""
    X, tiny = multisphere.sample(2, 6, 8, rng), rk.Network(1, alpha=1e-100)
    faint = conditioning.compare(tiny, X, (1, 300), kind="gpk", head="trace").rows[1]
    assert faint.ratio_limit == np.inf and np.isnan(faint.resnet.asymptote)
    dot = [rk.Network(1, alpha=0.0)]
    A = 1 - multisphere.gram_complements(dot, X, kind="gpk", head="trace")[0]
    assert abs(faint.resnet.condition_number / np.linalg.cond(A) - 1) <= tolerances.ROUTES


SIGNAL = np.random.default_rng(0).standard_normal((2, 3, 6))
PART = SIGNAL[1] + (np.arange(6) < 5) * (2 * SIGNAL[0] - SIGNAL[1])
EACH = SIGNAL[0] * np.linspace(0.5, 2, 6)
TWICE = np.concatenate([SIGNAL[0, :, :3]] * 2, axis=1)
SPHERE = multisphere.sample(2, 3, 6, rng=0)


@pytest.mark.slow
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
        (SIGNAL, 2, 3, True),
        ([SIGNAL[0], 2 * np.roll(SIGNAL[0], 1, axis=1)], 2, 3, False),
        (SPHERE, 2, 1, True),
        ([SPHERE[0], np.roll(SPHERE[0], 1, axis=1)], 2, 1, False),
        ([SPHERE[0], np.roll(SPHERE[0], 1, axis=1)], "trace", 1, True),
        ([SPHERE[0], np.roll(SPHERE[0], 1, axis=1)], "gap", 1, False),
    ],
)
def test_asymptotes_hold_where_compare_says(X, head, filter_size, holds):
    """The NTK's limit of two signals: (2w + 3)/3, w pixels averaged: 6 with GAP, 1 with trace."""
    X, depths = np.array(X), (1000, 4000)
    table = conditioning.compare(rk.Network(1, filter_size), X, depths, kind="ntk", head=head)
    limit = {"gap": 5.0, 2: 7 / 3}.get(head, 5 / 3)
    away = np.abs(table.column("cnn.condition_number") / limit - 1)
    assert (away[1] < away[0] / 2 and away[1] <= 0.02) == holds
    for name in ("cnn.asymptote", "resnet.asymptote", "ratio_limit"):
        assert np.isfinite(table.column(name)).all() == holds
    assert ("no asymptotes" in str(table)) != holds


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"negative_slope": 0.1}, "gpk", "network has negative_slope 0.1, expected 0.0"),
        ({"bias": 0.1}, "gpk", "network has bias 0.1, expected 0.0"),
        ({"trained": "input"}, "ntk", "no law is known without trained inner or outer weights"),
    ],
)
def test_a_table_says_why_it_has_no_asymptotes(options, kind, why):
    X = multisphere.sample(3, 3, 4, rng=0)
    table = conditioning.compare(rk.Network(1, **options), X, (1, 2), kind=kind, head="trace")
    assert f"no asymptotes: {why}" in str(table)


@pytest.mark.parametrize(("angle", "holds"), [(3e-6, True), (3e-7, False)])
@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1.0, 1e-200)])
def test_asymptotes_are_of_signals_more_than_a_millionth_apart(angle, sizes, holds):
    """Closer ones follow the law from more than a million layers on."""
    x = np.zeros((2, 2, 3))
    x[0], x[1, 0], x[1, 1] = [[1], [0]], np.cos(angle), np.sin(angle)
    x *= np.array(sizes)[:, None, None]
    table = conditioning.compare(rk.Network(1), x, (300,), kind="gpk", head="trace")
    assert np.isfinite(table.column("cnn.asymptote")).all() == holds


@pytest.mark.parametrize(("difference", "holds"), [(1e-12, True), (1e-6, False)])
def test_asymptotes_without_filters_are_of_pixels_of_one_size(difference, holds):
    """Up to rounding errors: pixels that nothing mixes keep their weights."""
    X = multisphere.sample(3, 3, 4, rng=0)
    X[:, :, 0] *= 1 + difference
    network = rk.Network(1, 1, outer_filter_size=1)
    table = conditioning.compare(network, X, (300,), kind="gpk", head="trace")
    assert np.isfinite(table.column("cnn.asymptote")).all() == holds


@pytest.mark.parametrize(("pixel", "holds"), [(0, False), (3, True)])
def test_the_equivariant_head_without_filters_sees_pixel_0(pixel, holds):
    """Where two signals are equal there, they have no law; other pixels do not count."""
    X = multisphere.sample(3, 3, 4, rng=0)
    X[1, :, pixel] = X[0, :, pixel]
    options = {"kind": "gpk", "head": "equivariant"}
    table = conditioning.compare(rk.Network(1, 1, outer_filter_size=1), X, (300,), **options)
    assert np.isfinite(table.column("cnn.asymptote")).all() == holds


@pytest.mark.parametrize(("head", "holds"), [("trace", True), (1, True), (2, False)])
@pytest.mark.parametrize(
    ("network", "x"),
    [
        (rk.Network(1), SIGNAL[0]),
        (rk.Network(1, 1, outer_filter_size=3), SIGNAL[0]),
        (rk.Network(1, 1, outer_filter_size=1), SPHERE[0]),
    ],
)
def test_pools_of_one_pixel_do_not_see_shifts(network, x, head, holds):
    """A signal's shift has a law of its own unless other pixels of both meet in the head."""
    pair = np.array([x, np.roll(x, 1, axis=1)])
    table = conditioning.compare(network, pair, (300,), kind="gpk", head=head)
    assert np.isfinite(table.column("cnn.asymptote")).all() == holds


@pytest.mark.parametrize("b", [-0.12, 0.0, 0.4])
@pytest.mark.parametrize("spread", [0.03, 0.2])
def test_improved_bounds_are_those_of_two_numbers_beside_each_other(b, spread, rng):
    """The constant vector's form μ, 1 − b ± ε of all others and σ between them; Weyl's if better.

    docs/theory/conditioning.md, section 3.
    """
    n = 6
    noise = np.triu(rng.uniform(-spread, spread, (n, n)), 1)
    A = b + noise + noise.T
    np.fill_diagonal(A, 1.0)
    found, sigma = conditioning.bounds(A), A.sum(axis=1).std()
    b, epsilon = found.off_diagonal, found.epsilon
    mu = 1 + (n - 1) * b
    ends = [
        np.linalg.eigvalsh([[mu, sigma], [sigma, 1 - b + sign * epsilon]])[(sign + 1) // 2]
        for sign in (-1, 1)
    ]
    least, most = max(ends[0], min(mu, 1 - b) - epsilon), min(ends[1], max(mu, 1 - b) + epsilon)
    expected = most / least if least > 0 else np.inf
    assert found.improved == expected or abs(found.improved / expected - 1) <= tolerances.ROUTES


@pytest.mark.parametrize("n", [2, 5])
def test_equal_signals_have_infinite_bounds(n):
    found = conditioning.bounds(np.ones((n, n)))
    assert found[2:] == (np.inf, np.inf, np.inf)


def test_bounds_of_great_entries_are_vacuous():
    """Their squares are still within float64."""
    assert conditioning.bounds([[1.0, 1e140], [1e140, 1.0]]).upper == np.inf


def test_networks_of_equal_condition_are_not_better_than_each_other():
    """A branch beside which the skip connection is a rounding error."""
    X = multisphere.sample(5, 4, 6, rng=0)
    table = conditioning.compare(rk.Network(1, alpha=1e10), X, (3,), kind="gpk", head="trace")
    assert table.rows[0].ratio == 1 and str(table).endswith("better: 0 of 1 depths")


DILATED, POINTS = rk.Network(1, dilation=5), rk.Network(1, 1, outer_filter_size=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "holds"),
    [
        (rk.Network(1, outer_filter_size=1, alpha=2.0), True),
        (rk.Network(1, 1, outer_filter_size=3, c_v=1.3, c_w=1.9), True),
        (rk.Network(1, input_filter_size=3, trained=("input", "outer")), True),
        (DILATED, True),  # 5 and 6 pixels have no common divisor
        (DILATED.replace(dilation=2), False),  # two rings of three pixels each
        (POINTS.replace(input_filter_size=3), False),
    ],
)
def test_asymptotes_of_other_networks(network, holds):
    """Off the multi-sphere, the NTK's limit of two signals with the trace head is 5/3."""
    table = conditioning.compare(network, SIGNAL, (1000, 4000), kind="ntk", head="trace")
    assert np.isfinite(table.column("resnet.asymptote")).all() == holds
    away = np.abs(table.column("resnet.condition_number") / (5 / 3) - 1)
    assert (away[1] < away[0] / 2 and away[1] <= 0.04) == holds


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_condition_numbers_with_biases_have_no_asymptote(kind):
    table = conditioning.compare(rk.Network(1, bias=0.3), SIGNAL, (3,), kind=kind, head="trace")
    for name, skip in (("cnn", False), ("resnet", True)):
        network = rk.Network(3, bias=0.3, skip=skip)
        A = rk.Kernel(network, kind, "trace", normalized=True)(SIGNAL)
        assert table.column(f"{name}.condition_number") == conditioning.condition_number(A)
        assert np.isnan(table.column(f"{name}.asymptote")).all()
    assert np.isnan(table.column("ratio_limit")).all()
