"""Predicted limits and constants against closed forms and deep kernels."""

import math
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import HEADS, KINDS, PARTS
from rescntk.theory import depth, multisphere
from rescntk.theory.depth import Family
from tests import tolerances
from tests.families import pairs
from tests.helpers import pairs_meet
from tests.oracles.papers import _row_box, kappa0, kappa1

EPS = tolerances.EPS["float64"]


def normalized(K):
    return K / np.sqrt(np.multiply.outer(K.diagonal(), K.diagonal()))


@pytest.mark.parametrize(("inner", "outer"), [(3, 3), (1, 3), (5, 1)])
@pytest.mark.parametrize("head", HEADS)
def test_the_limit_of_one_layer_in_closed_form(inner, outer, head):
    """½ box(κ1(u) + u κ0(u)) with u = box t."""
    X, d = multisphere.sample(4, 3, 6, rng=2), 6
    network = rk.Network(1, inner, outer_filter_size=outer, trained=("inner", "outer"))
    rows = [multisphere.dot_products(X, offset=offset) for offset in range(d)]
    K = np.empty((4, 4))
    for i, k in np.ndindex(4, 4):
        windows = [_row_box(row[i, k], inner) for row in rows]
        shown = [_row_box((kappa1(u) + u * kappa0(u)) / 2, outer) for u in windows]
        heads = shown[0][0], np.mean(shown[0]), np.mean(shown)
        K[i, k] = heads[HEADS.index(head)]
    limit = normalized(depth.one_layer_kernel(network, X, kind="ntk", head=head))
    # κ0 at the pixels that a signal shares with itself: √(2 eps)/π, of which the mean is taken.
    assert np.abs(limit - normalized(K)).max() <= 2 * np.sqrt(2 * 16 * EPS) / np.pi


@pytest.mark.parametrize(
    "network",
    [
        rk.Network(1, 3, activation="erf", c_v=1.3, c_w=0.7, trained=("inner",)),
        rk.Network(1, 3, dilation=2, input_filter_size=3, input_scale=1.7, trained=("outer",)),
        rk.Network(1, 3, bias=0.3, trained=("inner", "outer")),
    ],
)
def test_the_limit_of_one_layer_is_for_any_signals_and_activation(network, rng):
    X = rng.standard_normal((4, 2, 5))
    limit = normalized(depth.one_layer_kernel(network, X, kind="ntk", head="gap"))
    deep = [network.replace(depth=n, alpha=1 / n) for n in (100, 200)]
    kernels = [rk.Kernel(net, "ntk", "gap", normalized=True)(X) for net in deep]
    far, near = (np.abs(K - limit).max() for K in kernels)
    assert far <= 0.05
    assert 1.8 <= far / near <= 2.2


def test_the_limit_of_one_layer_with_biases():
    """The number of docs/theory/biases.md, of two vectors of correlation −½."""
    X = np.array([[1.0, 0.0], [-0.5, np.sqrt(0.75)]])[:, :, None] * np.sqrt(2)
    network = rk.Network(1, 1, bias=0.3, trained=("inner", "outer"))
    limit = normalized(depth.one_layer_kernel(network, X, kind="ntk", head="trace"))
    assert abs(limit[0, 1] - 0.045) <= tolerances.printed(3)


@pytest.mark.slow
@pytest.mark.parametrize("trained", [PARTS[1:], PARTS, ("input", "inner"), ("outer", "readout")])
@pytest.mark.parametrize(("head", "kind", "alpha"), pairs_meet((*HEADS, 3), KINDS, [1.0, 2.0]))
def test_the_constant_of_theorem_6_1(kind, head, alpha, trained):
    """L^(2γ−1) times the distance tends to the constant of docs/theory/depth_limits.md."""
    network = rk.Network(1, alpha=alpha, outer_filter_size=1, trained=trained)
    family, deep = Family(network, 1.0), 1000
    X = np.random.default_rng(1).standard_normal((4, 2, 5))
    A = rk.Kernel(family.network.replace(alpha=0.0), "gpk", head)(X)
    A *= 1 if kind == "gpk" else ("input" in trained) + ("readout" in trained)
    G = depth.one_layer_kernel(family.network, X, kind=kind, head=head)
    growth = G.diagonal() / A.diagonal()
    change = G - 0.5 * A * np.add.outer(growth, growth)
    root = np.sqrt(np.multiply.outer(A.diagonal(), A.diagonal()))
    constant = alpha**2 * math.sqrt(np.mean(pairs(change / root) ** 2))
    K = rk.Kernel(family(deep), kind, head, normalized=True)(X)
    distance = math.sqrt(np.mean(pairs(family.predict(X, kind=kind, head=head).limit - K) ** 2))
    # The next order is Lα² = α²/L, times a factor of the same kind as the first.
    assert abs(deep * distance / constant - 1) <= 20 * alpha**2 / deep


@pytest.mark.slow
@pytest.mark.parametrize("trained", [PARTS[1:], ("input", "inner", "outer"), ("readout",)])
@pytest.mark.parametrize("kind", KINDS)
def test_what_branches_add_to_the_dot_product(kind, trained):
    """G = ([outer] + [readout]) K + ([inner] + [input]) K̇Σ, of the GPK K; one pixel, ρ = 0.3."""
    rho, L, alpha = 0.3, 10**4, 0.01
    outer, inner = ("outer" in trained) + ("readout" in trained), ("inner" in trained)
    inner, ends = inner + ("input" in trained), ("input" in trained) + ("readout" in trained)
    outer, inner, ends = (1, 0, 1) if kind == "gpk" else (outer, inner, ends)
    constant = outer * (kappa1(rho) - rho) + inner * rho * (kappa0(rho) - 1)
    expected = {PARTS[1:]: 0.24458, ("input", "inner", "outer"): -0.05906}.get(trained)
    is_printed = kind == "ntk" and expected is not None
    assert not is_printed or abs(constant - expected) <= tolerances.printed(5)
    X = np.sqrt(2) * np.array([[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])[:, :, None]
    network = rk.Network(1, 1, alpha=alpha * L, trained=trained)
    K = rk.Kernel(network.replace(depth=L, alpha=alpha / L), kind, "trace", normalized=True)(X)
    moved = (K[0, 1] - rho) / (alpha**2 / L)
    # `KERNEL` over α²/L = 1e-8 is 1e-6, and the next order a part of α² = 1e-4.
    bar = 1e-5
    assert abs(moved - constant / ends) <= bar
    # The law sets in where L α² G_xx is A_xx; here G_xx is the number of terms.
    onset = Family(network.replace(alpha=10.0), 1.0).predict(X, kind=kind, head="trace").onset
    assert abs(onset / (100 * (outer + inner) / ends) - 1) <= tolerances.TRANSCRIPTION


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 40.0])
def test_the_law_of_equal_limits_sets_in_where_the_closest_pixels_part(alpha, gamma):
    """Two pixels seem to agree up to pL = 3π/√(2δ), where p is the gain β at γ > 0."""
    X = multisphere.sample(3, 4, 1, rng=0)
    closest = multisphere.dot_products(X, complement=True)[*np.triu_indices(3, 1)].min()
    network = rk.Network(1, 1, alpha=alpha)
    found = Family(network, gamma).predict(X, kind="gpk", head="trace")
    p = alpha**2 if gamma else alpha**2 / (1 + alpha**2)
    onset = (3 * np.pi / np.sqrt(2 * closest) / p) ** (1 / (1 - 2 * gamma))
    # For γ > 0 the gain β = a² L^-2γ is below 1 only from there on.
    expected = max(onset, 1.0, alpha ** (1 / gamma) if gamma else 1.0)
    assert abs(found.onset / expected - 1) <= tolerances.ROUTES
    theta = min(2 * gamma, 1 - 2 * gamma) if gamma else 1.0
    assert abs(found.correction_exponent - theta) <= tolerances.CONSTANT


@pytest.mark.parametrize("gamma", [0.75, 1.0])
def test_the_law_of_one_layer_sets_in_where_the_gain_is_1(gamma):
    """The gain of a layer is a² L^-2γ, and L layers have 1 together at L^(2γ−1) = a²."""
    X = multisphere.sample(3, 4, 1, rng=0)
    frozen = rk.Network(1, 1, alpha=10.0, trained=("inner", "outer"))
    onset = Family(frozen, gamma).predict(X, kind="ntk", head="trace").onset
    assert abs(onset / 100 ** (1 / (2 * gamma - 1)) - 1) <= tolerances.ROUTES


def test_depths_at_which_laws_set_in_are_finite():
    """Also for exponents near 0, and signals that are near each other."""
    X = multisphere.sample(2, 4, 1, rng=0)
    X[1] = multisphere.project(X[:1] + 1e-12)
    for gamma in (0.5 - 1e-9, 0.5 + 1e-9):
        onset = (
            Family(rk.Network(1, 1, alpha=9.0), gamma).predict(X, kind="gpk", head="trace").onset
        )
        assert 1e200 < onset < np.inf


@pytest.mark.parametrize(
    ("gain", "is_known"), [(1.0, True), (9e3, True), (1.1e4, False), (1e6, False)]
)
def test_flows_of_large_gains_are_not_predicted(gain, is_known):
    X = multisphere.sample(2, 3, 1, rng=0)
    family = Family(rk.Network(1, 1, alpha=gain**0.5), 0.5)
    found = family.predict(X, kind="gpk", head="trace")
    assert ("the gain of the branch is" not in found.undefined) == is_known


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_the_first_layer_errs_where_pixels_and_windows_differ(head):
    """The exponent is min(2γ − 1, 1), and 2γ − 1 of signals of one pixel or of equal pixels."""
    family = Family(rk.Network(1, trained=("inner", "outer")), 2.0)
    several = multisphere.sample(3, 4, 5, rng=0)
    for X, exponent in (
        (several, 1.0),
        (several[:, :, :1], 3.0),
        (np.repeat(several[:, :, :1], 5, axis=2), 3.0),
    ):
        assert family.predict(X, kind="ntk", head=head).exponent == exponent


@pytest.mark.parametrize(("trained", "exponent"), [("inner", 0.25), ("outer", 0.5)])
def test_windows_at_a_square_root_point_halve_exponents(trained, exponent):
    """Opposite vectors are at a square-root point of the inner weights."""
    X = multisphere.sample(1, 3, 1, rng=0) * [[[1.0]], [[-1.0]]]
    found = Family(rk.Network(1, 1, trained=trained), 0.75).predict(X, kind="ntk", head="trace")
    assert (found.exponent, found.correction_exponent) == (exponent, 0.25)


def test_limits_may_exceed_1_by_rounding_errors():
    depth.Prediction(1 + 0.9e-8)
    for limit in (1 + 1.1e-8, [[1.0, 1.1], [1.1, 1.0]], np.nan):
        with pytest.raises(ValueError, match="expected (correlations from -1 to 1|real)"):
            depth.Prediction(limit)


def test_rounding_errors_of_means_at_depth_1e5_leave_no_prediction():
    """F⁰ = 0 has an error of about 1e-32: L α² at depth 1e5 is 1e-25 (γ = 3), and 1e-35 (4)."""
    X = np.random.default_rng(0).standard_normal((4, 2, 6))
    X -= X.mean(axis=2, keepdims=True)
    one, none = (
        Family(rk.Network(1), gamma).predict(X, kind="ntk", head="gap") for gamma in (3.0, 4.0)
    )
    assert not one.undefined and one.exponent == 1 and np.isfinite(one.limit).all()
    assert "rounding errors lead" in none.undefined and (none.source, none.rate) == ("", "")
    assert np.isnan(
        [none.limit, none.exponent, none.onset, none.correction_exponent, none.error]
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize("trained", ["readout", ("input", "readout"), ("inner", "readout")])
def test_a_signal_of_mean_0_beside_another(trained):
    """√(Lα²) G_xz/√(G_xx A_zz) to leading order; A is 2F⁰ where both ends are trained."""
    X, network, L = np.random.default_rng(0).standard_normal((2, 2, 6)), rk.Network(1), 10**4
    X[0] -= X[0].mean(axis=1, keepdims=True)
    network, ends = network.replace(trained=trained), 1 + ("input" in trained)
    G = depth.one_layer_kernel(network, X, kind="ntk", head="gap")
    A = ends * (X[1].mean(axis=1) ** 2).sum() / 2
    K = rk.Kernel(network.replace(depth=L, alpha=1 / L), "ntk", "gap", normalized=True)(X)
    assert abs(K[0, 1] * math.sqrt(L * G[0, 0] * A) / G[0, 1] - 1) <= 20 / L


@pytest.mark.parametrize("head", ["trace", "gap"])
@pytest.mark.parametrize("trained", ["input", "inner", "outer", "readout"])
def test_large_biases_leave_a_trained_input_alone(trained, head):
    """Other kernels tend to 1 as σ_b grows; of a trained input F⁰ is left, as 1 − κ0 ~ 1/σ_b."""
    X = np.random.default_rng(0).standard_normal((2, 2, 5))
    F0 = normalized(rk.Kernel(rk.Network(1, alpha=0.0), "gpk", head)(X))[0, 1]
    network, limit = rk.Network(4, alpha=0.5, trained=trained), F0 if trained == "input" else 1.0
    K = [rk.Kernel(network.replace(bias=b), "ntk", head)(X) for b in (1e3, 1e4)]
    apart = [abs(normalized(each)[0, 1] - limit) for each in K]
    assert apart[1] <= 10 / 1e4 and apart[1] < 0.2 * apart[0]


@pytest.mark.slow
@pytest.mark.parametrize("pixels", [1, 3])
@pytest.mark.parametrize(("trained", "share"), [("inner", 1 / 4), ("readout", 1.0)])
@pytest.mark.parametrize("head", ["trace", 2, "gap"])
def test_gap_sees_its_own_pixels(trained, share, head, pixels):
    """¼ becomes w/(w + 3), and 1 − K̄ becomes (1/w) of the law, of w pixels that are averaged."""
    X, depths = multisphere.sample(4, 3, pixels, rng=0), np.array([1024, 2048])
    network = rk.Network(1, skip=False, trained=trained)
    width = {"trace": 1, 2: min(2, pixels), "gap": pixels}[head]
    # The derivative of x/((1 + (w − 1)x)/w) is 16 w/(w + 3)² at ¼, and 1/w at 1.
    factor = width / (1 + (width - 1) * share) ** 2
    limit = 1 - pairs(Family(network).predict(X, kind="ntk", head=head).limit)
    pooled = share * width / (1 + (width - 1) * share)
    assert np.abs(limit - (1 - pooled)).max() <= 8 * EPS
    networks = [network.replace(depth=int(n)) for n in depths]
    deep = multisphere.gram_complements(networks, X, kind="ntk", head=head)
    distance = np.array([np.sqrt(np.mean((pairs(K) - limit) ** 2)) for K in deep])
    if share == 1.0:
        constant, law, bar = distance[-1] * depths[-1] ** 2, 4.5 * np.pi**2, 0.02
    else:
        constant, law, bar = np.diff(depths * distance)[0] / np.log(2), 3 / 8, 0.05
    assert abs(constant / (law * factor) - 1) <= bar


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "share"), [(2, 1 / 2), (3, 5 / 9), (5, 13 / 25), (8, 1 / 2), ("gap", 1 / 2)]
)
def test_pools_see_a_period_more_than_once(head, share):
    """Of 8 pixels and the period 2 they share n(0) + n(2) + n(4) + n(6) pools of m²."""
    signals = np.tile(multisphere.sample(2, 3, 2, rng=0), (1, 1, 4))
    deep = [rk.Network(3000, skip=False)]
    found, trace = (
        multisphere.gram_complements(deep, signals, kind="gpk", head=each)[0, 0, 1]
        for each in (head, "trace")
    )
    next_term = 0.01  # some log(L)/L, .003
    assert abs(found / trace / share - 1) <= next_term


@pytest.mark.parametrize(("size", "agreeing"), [(1, 2 / 3), (3, 0.0)])
def test_pixels_that_agree_stay_so_without_filters(size, agreeing):
    """Two of three pixels the same: a filter mixes them in, size 1 does not."""
    X = multisphere.sample(2, 3, 3, rng=0)
    X[1, :, :2] = X[0, :, :2]
    limit = 1 - Family(rk.Network(1, size)).predict(X, kind="ntk", head="trace").limit
    assert abs(limit[0, 1] - 0.75 * (1 - agreeing)) <= 8 * EPS
    deep = multisphere.gram_complements([rk.Network(4000, size)], X, kind="ntk", head="trace")
    next_term = 30 / 4000  # some log(L)/L and constants over L
    assert np.abs(deep - limit).max() <= next_term


@pytest.mark.parametrize(("head", "different"), [("trace", 3 / 6), ("gap", 3 / 36)])
def test_a_dilation_leaves_rings_apart(head, different):
    """A row of 6 pixels is two rings for dilation 2, of which one has equal pixels alone."""
    x, z = multisphere.sample(2, 3, 6, rng=5)
    z[:, ::2] = x[:, ::2]
    law = depth.asymptotic_complement(rk.Network(4000)) * different  # a share of pixel pairs
    deep = [rk.Network(4000, dilation=2)]
    found = multisphere.gram_complements(deep, np.stack([x, z]), kind="gpk", head=head)[0, 0, 1]
    log_over_depth = 0.03  # with its factor; one ring more would double the law
    assert found == pytest.approx(law, rel=log_over_depth)


def test_erf_networks_are_linear_on_tiny_signals():
    X, erf = multisphere.sample(2, 2, 3, rng=0), rk.Network(1, activation="erf")
    for gamma, kind in product((0.5, 1.0), KINDS):
        expected = Family(erf, gamma).predict(1e-12 * X, kind=kind, head="trace").limit
        for power in (-60, -310):
            found = Family(erf, gamma).predict(10.0**power * X, kind=kind, head="trace").limit
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerances.FLOW)
    text = "X has pixels of standard deviations up to 1.41e.100, expected at most 3.16e.70"
    with pytest.raises(OverflowError, match=text):
        Family(erf, 0.5).predict(1e100 * X, kind="gpk", head="trace")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained", "pixels"),
    [
        (("inner", "outer", "readout"), 1 / 4),
        (("inner",), 1 / 4),
        (("outer", "input"), 1 / 4),
        (("readout",), 1.0),
        (("input", "readout"), 1 / 2),
        (("input",), 0.0),
    ],
)
@pytest.mark.parametrize("skip", [True, False])
def test_the_table_of_ntk_limits(trained, pixels, skip):
    """c at different pixels, 1 at equal ones; GAP makes cd/(1 + (d − 1)c) of it. Any signals."""
    X, depth = np.random.default_rng(0).standard_normal((3, 2, 4)), 1000
    network = rk.Network(1, 3, skip=skip, trained=trained)
    bar = tolerances.deep_tangent_kernel(depth, 2 if skip else 1)
    for head, limit in (("trace", pixels), ("gap", 4 * pixels / (1 + 3 * pixels))):
        options = {"kinds": ("ntk",), "depths": [depth], "normalized": True}
        K = rk.gram(network, X, head=head, **options).ntk[0]
        assert np.abs(pairs(K) - limit).max() <= bar
