"""Sums over layers, against kernels of networks whose layers differ, and of normalized features."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import digamma

import rescntk as rk
from rescntk.theory import depth, multisphere
from tests import tolerances
from tests.tolerances import CONSTANT

ONE_PIXEL = {"head": "trace", "kinds": ("gpk",), "normalized": True}


def circle(*complements):
    """Return signals of one pixel of norm √2; the first has these complements to the others."""
    angles = np.append(0.0, np.arccos(1.0 - np.array(complements)))
    return math.sqrt(2.0) * np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]


def complements_of(network, X, depths):
    """Return 1 − K̄ of the first signal and all others, (depths, n − 1)."""
    return 1.0 - rk.gram(network, X, depths=depths, **ONE_PIXEL).gpk[:, 0, 1:]


def falling(layers):
    """Return Hayou's α of layers 1 …: 1/(√l log(l + 1))."""
    numbers = np.arange(1, layers + 1)
    return (1.0 / (np.sqrt(numbers) * np.log(numbers + 1))).tolist()


def test_parts_of_layers_add_up():
    network = rk.Network(3, alpha=(1.0, 0.5, 1.0), skip=(True, True, False), c_v=(2.0, 2.0, 3.0))
    sums = depth.effective_depth(network, (1, 2, 3))
    np.testing.assert_allclose(sums, np.cumsum([1 / 2, 1 / 5, 1.0]), rtol=CONSTANT)
    sums = depth.effective_depth(network.replace(norm=True), (1, 2, 3), input_variance=3.0)
    np.testing.assert_allclose(sums, np.cumsum([1 / 4, 1 / 17, 1.0]), rtol=CONSTANT)


def test_bounds_are_attained_at_both_ends():
    """By weak branches: from below at opposite signals, from above at signals that nearly agree."""
    network, layers = rk.Network(10, 1, alpha=1e-3), 10
    for start, side in ((2.0, 0), (1e-10, 1)):
        bounds = depth.complement_bounds(network, [start])
        exact = multisphere.normalized_gpk(network, [start], complement=True)[0]
        moved = start - exact
        next_order = layers * 1e-6 + 1e-4  # p L, and √δ of signals that nearly agree
        assert abs(bounds[side][0, 0] - exact) <= next_order * moved


@pytest.mark.parametrize(("alpha", "layers"), [(1e154, 100), (1e152, 100_000)])
def test_sums_of_variances_may_exceed_float64(alpha, layers):
    """Behind l equal branches of normalized features the last one has the part 1/l."""
    with np.errstate(all="raise", under="ignore"):
        found = depth.effective_depth(rk.Network(layers, alpha=alpha, norm=True))
    expected = digamma(layers + 1) - digamma(1)
    assert abs(found[0] / expected - 1) <= tolerances.added_up(layers)


def test_branches_near_the_largest_number_of_float64():
    """The parts of layers are ratios, in which no variance is too large."""
    large, depths = rk.Network(3, alpha=1e154), (1, 2, 3)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(depth.effective_depth(large, depths), [1, 2, 3], rtol=CONSTANT)
        sums = depth.effective_depth(large.replace(norm=True), depths)
        np.testing.assert_allclose(sums, np.cumsum([1, 1 / 2, 1 / 3]), rtol=CONSTANT)
        sums = depth.effective_depth(rk.Network(3, norm=True), depths, input_variance=1.5e308)
        np.testing.assert_allclose(sums, np.array(depths) / 1.5e308, rtol=CONSTANT)
        low, high = depth.complement_bounds(large, [0.7], depths)
        plain = depth.without_normalization(large.replace(norm=True)).alpha
    k = math.sqrt(2.0) / (3.0 * math.pi)
    np.testing.assert_allclose(high[2], (0.7**-0.5 + 3 * k) ** -2.0, rtol=CONSTANT)
    assert not low.any()
    np.testing.assert_allclose(plain, [1e154, 1.0, math.sqrt(0.5)], rtol=CONSTANT)


def test_depth_counts_by_its_logarithm():
    """s_L = Σ β/(e + β l) = ψ(1 + e/β + L) − ψ(1 + e/β), which is log(1 + βL/e) and a constant."""
    for alpha, energy in ((1.0, 1.0), (0.5, 3.0), (2.0, 0.1)):
        network, beta = rk.Network(1, alpha=alpha, norm=True), alpha**2
        depths = (10, 1000, 100_000)
        found = depth.effective_depth(network, depths, input_variance=energy)
        start = 1.0 + energy / beta
        exact = digamma(start + np.array(depths)) - digamma(start)
        np.testing.assert_allclose(found, exact, rtol=tolerances.ROUTES)
        law = np.log1p(beta * 1e5 / energy) + math.log(energy / beta) - digamma(start)
        of_limit = 1e-4  # what the law leaves at depth 1e5
        assert abs(found[-1] - law) <= of_limit * law


def test_the_law_of_the_logarithm():
    """u_L^-½ = u_0^-½ + k s_L + (√u_0 − √u_L)/20 + smaller terms; u_0 = .7, β = 1."""
    network, depths = rk.Network(1, 1, norm=True), range(1, 1001)
    u = complements_of(network, circle(0.7), depths)[:, 0]
    np.testing.assert_allclose(u[[9, 999]], [0.4300, 0.2052], rtol=0, atol=tolerances.printed(4))
    s, roots = depth.effective_depth(network, depths), np.sqrt(np.append(0.7, u))
    steps = np.diff(s, prepend=0.0) ** 2 * roots[:-1]
    law = roots[0] ** -1.0 + math.sqrt(2.0) / (3.0 * math.pi) * s
    second = law + (roots[0] - roots[1:]) / 20.0 + np.cumsum(steps) / (3.0 * math.pi**2)
    np.testing.assert_allclose(
        second[[9, 999]] ** -2.0, [0.4316, 0.2058], rtol=0, atol=tolerances.printed(4)
    )
    nearer = 0.25  # of the error without the second term
    assert (np.abs(second**-2.0 - u) < nearer * np.abs(law**-2.0 - u))[9:].all()


def test_signals_of_unlike_variances_have_a_sum_of_their_own():
    """(3π/√2)/√δ less the sum of β/√(e e') tends to a constant: the next term falls like 1/sum."""
    X, depths = circle(0.7) * np.array([1.0, 3.0])[:, None, None], (100, 1000, 10_000)
    y = 3 * math.pi / math.sqrt(2) / np.sqrt(complements_of(rk.Network(1, norm=True), X, depths))
    layers = np.arange(1, depths[-1] + 1)
    sums = np.cumsum(1 / np.sqrt((1 + layers) * (9 + layers)))[np.array(depths) - 1]
    rest = y[:, 0] - sums
    next_term = 1 / sums[:-1] ** 2  # its derivative by the sum, which grows by 2.3 here
    assert (np.abs(np.diff(rest)) <= next_term * np.diff(sums)).all()
    other = np.cumsum(1 / (1 + layers))[np.array(depths) - 1]  # of the first signal alone
    assert abs(y[1, 0] - other[1] - rest[1]) > 0.5


@pytest.mark.parametrize(
    ("u", "at_10", "at_1000", "limit"),
    [(0.7, 0.3762, 0.3504, 1.97), (1.0, 0.2645, 0.3025, 1.67), (2.0, 0.0740, 0.2295, 1.25)],
)
def test_tangent_kernels_come_to_a_quarter_from_above(u, at_10, at_1000, limit):
    """(Θ̄ − ¼) s tends to (ς − ½)/4, with √2/(3π) (s + ς) the limit of u^-½: β = e_0 = 1.

    From depth 1000 on du/ds = −h and dT/ds = κ1 + ρκ0 − (1 − κ0) T, and 2 s for equal signals.
    """
    network, depths = rk.Network(1, 1, norm=True), (10, 1000)
    F, Theta = rk.gram(network, circle(u), head="trace", depths=depths)
    found = Theta[:, 0, 1] / Theta[:, 0, 0]
    np.testing.assert_allclose(found, [at_10, at_1000], rtol=0, atol=tolerances.printed(4))

    def speed(s, state):
        root, T = state
        angle = 2 * math.asin(math.sqrt(0.5) / root)
        rho, kappa_0 = math.cos(angle), 1 - angle / math.pi
        h = (math.sin(angle) - angle * rho) / math.pi
        return 0.5 * h * root**3, rho + h + rho * kappa_0 - (1 - kappa_0) * T

    start, end = depth.effective_depth(network, depths)[1], 1e4
    rho, (own, T) = F[1, 0, 1] / F[1, 0, 0], (Theta - F)[1, 0] / F[1, 0, 0]
    begin = (1 - rho) ** -0.5, T
    flow = solve_ivp(speed, (start, end), begin, "LSODA", rtol=1e-9, atol=1e-9)
    root, T = flow.y[:, -1]
    above = ((T + 1 - root**-2) / (own + 2 * (end - start) + 1) - 0.25) * end
    shift = root * 3 * math.pi / math.sqrt(2) - end
    next_term = 0.01  # `next_of_the_ffnet` at L = 1e4 is log²(L)/L = .0085
    assert abs(above - limit) <= next_term and abs((shift - 0.5) / 4 - limit) <= next_term
    assert shift >= 3 * math.pi / math.sqrt(2 * u)  # the bound from above: the limit is above 1


def test_signals_far_apart_cross_a_quarter_in_layer_6():
    network, depths = rk.Network(1, 1, norm=True), (5, 6)
    Theta = rk.gram(network, circle(1.0), head="trace", depths=depths, normalized=True).ntk
    assert Theta[0, 0, 1] < 0.25 < Theta[1, 0, 1]


@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold_at_every_depth(seed):
    rng = np.random.default_rng(seed)
    layers, norm = int(rng.integers(1, 60)), bool(rng.integers(2))
    alphas = np.exp(rng.normal(scale=2.0, size=layers))
    scale, energy = math.exp(rng.normal()), float(np.exp(rng.normal(scale=2.0)))
    network = rk.Network(layers, 1, alpha=alphas, c_v=2.0 * scale, norm=norm)
    u = np.append(rng.uniform(0.0, 2.0, 6), [2.0, 1e-3])
    depths = tuple(range(1, layers + 1))
    found = complements_of(network, math.sqrt(energy) * circle(*u), depths)
    low, high = depth.complement_bounds(network, u, depths, input_variance=energy)
    slack = tolerances.ROUTES
    assert (low - slack <= found).all() and (found <= high + slack).all()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("head", ["equivariant", "trace", "gap", 2])
def test_normalized_features_are_layers_of_their_own(kind, head, rng):
    """Kernels are equal where the energies of pixels are, and differ where these do."""
    network = rk.Network(6, 3, alpha=(0.5, 1.0, 2.0, 0.3, 1.0, 1.0), norm=True, c_v=1.4)
    X = multisphere.sample(4, 3, 5, rng)
    options = {"head": head, "kinds": (kind,)}
    for energy in (0.2, 1.0, 30.0):
        signals = math.sqrt(energy) * X
        (K,) = rk.gram(network, signals, **options)
        (same,) = rk.gram(
            depth.without_normalization(network, input_variance=energy), signals, **options
        )
        assert np.abs(K - same).max() <= tolerances.ROUTES * np.abs(K).max()
    uneven = X * np.array([1.0, 3.0, 1.0, 0.5, 1.0])
    (K,) = rk.gram(network, uneven, **options)
    (same,) = rk.gram(depth.without_normalization(network, input_variance=1.0), uneven, **options)
    assert np.abs(K - same).max() > 1e-3 * np.abs(K).max()


@pytest.mark.slow
def test_limits_are_degenerate_where_effective_depth_is_infinite():
    """Σ 1/(l log²(l + 1)) is 3.388: most of it from layer 1, and signals stay apart."""
    layers = 3000
    stable = rk.Network(layers, 1, alpha=falling(layers))
    plain, norm = rk.Network(layers, 1), rk.Network(layers, 1, norm=True)
    total = sum(alpha**2 for alpha in falling(layers))
    assert 3.388 - 1.05 / math.log(layers) < total < 3.388
    u = {net: complements_of(net, circle(0.7), (layers,))[0, 0] for net in (stable, plain, norm)}
    assert u[stable] > 0.4 and 0.1 < u[norm] < 0.3 and u[plain] < 1e-4


def test_rows_of_pixels_lie_below_the_path_of_their_mean(rng):
    network, X = rk.Network(200, 3, norm=True), multisphere.sample(2, 3, 8, rng)
    start = 1.0 - np.einsum("cj,ck->jk", X[0], X[1]) / 3.0
    pairs = rk.pixel_pairs(network, X, kind="gpk")[0, 1]
    own = rk.pixel_pairs(network, X, kind="gpk")[0, 0, 0, 0]
    u, slack = 1.0 - pairs / own, tolerances.ROUTES
    for offset in range(8):
        row = [(j, (j + offset) % 8) for j in range(8)]
        begin = np.array([start[j, k] for j, k in row])
        end = np.array([u[j, k] for j, k in row])
        assert end.mean() <= depth.complement_bounds(network, begin.mean()).upper[0] + slack
        low = depth.complement_bounds(network, begin.min()).lower[0]
        assert low - slack <= end.min()
        assert end.max() <= depth.complement_bounds(network, begin.max()).upper[0] + slack


def test_checks_take_layers_and_normalized_features(rng):
    """Without a prediction there is no verdict; the rows have the kernels."""
    X = circle(0.7, 1.1)
    report = depth.check_convergence(
        lambda layers: rk.Network(layers, 1, norm=True),
        X,
        kind="gpk",
        head="trace",
        depths=[2**k for k in range(3, 10)],
    )
    assert report.verdict == "undefined"
    exact = complements_of(rk.Network(1, 1, norm=True), X, (512,))[0]
    other = 1.0 - rk.gram(rk.Network(512, 1, norm=True), X, **ONE_PIXEL).gpk[1, 2]
    assert abs(list(report)[-1].complement - np.append(exact, other).mean()) <= tolerances.ROUTES


@pytest.mark.parametrize(
    ("network", "says"),
    [
        (rk.Network(2, bias=0.1), "network has bias 0.1"),
        (rk.Network(2, activation="erf"), "network has activation 'erf'"),
        (rk.Network(2, alpha=(1.0, 0.0)), "network has a layer of alpha 0.0"),
        (rk.Network(2, alpha=(1.0, 2.0)), "depths has 3, expected at most 2"),
    ],
)
def test_other_networks_are_refused(network, says):
    with pytest.raises(ValueError, match=says):
        depth.effective_depth(network, (1, 3) if "depths" in says else (1, 2))


def test_ordinary_layers_have_no_bound_from_below():
    with pytest.raises(ValueError, match="network has skip"):
        depth.complement_bounds(rk.Network(2, skip=(False, True)), [0.5])
    with pytest.raises(ValueError, match="network has norm False"):
        depth.without_normalization(rk.Network(2))
