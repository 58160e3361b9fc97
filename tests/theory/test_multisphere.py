"""Signals on the multi-sphere and their kernels' complements, against high precision."""

import math
import re
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.checks.values import HEADS
from rescntk.theory import multisphere
from rescntk.theory.tools.decimal_complements import decimal_complements
from tests import tolerances
from tests.oracles import definition, papers
from tests.strategies import sizes

EPS = tolerances.EPS["float64"]
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


@pytest.mark.parametrize("offset", [0, 2, -1, 5])
def test_dot_products(offset, rng):
    X, Z = multisphere.sample(3, 4, 5, rng), multisphere.sample(2, 4, 5, rng)
    expected = np.einsum("icj,kcj->ikj", X, np.roll(Z, -offset, axis=2)) / 4
    gap = multisphere.dot_products(X, Z, offset, complement=True)
    assert np.abs(multisphere.dot_products(X, Z, offset) - expected).max() <= 8 * EPS
    assert np.abs(gap - (1 - expected)).max() <= 8 * EPS


def test_complements_of_signals_that_nearly_agree(rng):
    X = multisphere.sample(3, 4, 5, rng)
    near = multisphere.project(X + 1e-9 * rng.standard_normal(X.shape))
    gap = multisphere.dot_products(X, near, complement=True).diagonal().T
    np.testing.assert_allclose(gap, ((X - near) ** 2).sum(axis=1) / 8, rtol=8 * EPS)
    assert (gap > 1e-20).all()


def test_pixels_are_on_the_multi_sphere_up_to_errors_of_float32(rng):
    """Squared norms may be off by 2e-6."""
    X = multisphere.sample(2, 4, 3, rng)
    assert multisphere.is_on_sphere(X.astype(np.float32))
    for off, on_sphere in ((0.9e-6, True), (1.1e-6, False)):
        assert multisphere.is_on_sphere(X * (1 + off)) == on_sphere
        assert multisphere.is_on_sphere(X * (1 - off)) == on_sphere


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
    gap, network = np.array(gap), rk.Network(len(dilation), q, alpha=alpha, skip=skip)
    network = network.replace(dilation=dilation)
    computed = multisphere.normalized_gpk(network, gap, complement=True)
    expected = exact_recursion(gap, dilation, q, alpha, skip)
    assert (np.abs(computed - expected) <= tolerances.complement(len(dilation)) * expected).all()
    plain = multisphere.normalized_gpk(network, 1 - gap)
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
    resnet = multisphere.normalized_gpk(rk.Network(L, alpha=alpha), t).mean(axis=1)
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
    for (which, kind), head in product(enumerate(("gpk", "ntk")), (*HEADS, 2)):
        computed = multisphere.gram_complements(networks, X, kind=kind, head=head)
        assert (computed == computed.transpose(0, 2, 1)).all()
        for kernels, complements in zip(pixels, computed, strict=True):
            K = definition.head(kernels[which], head)
            own = np.array([definition.mp.sqrt(K[i, i]) for i in range(3)])
            exact = np.array(1 - K / np.multiply.outer(own, own), dtype=float)
            # X is on the multi-sphere to a few units only, and the definition knows it.
            assert np.abs(complements - exact).max() <= 50 * EPS


def exact_complements(network, X, kind, head):
    """Return 1 − K(x,z)/√(K(x,x) K(z,z)) by the definition, as its numbers."""
    K = definition.head(definition.pixel_pairs(X, network)[network.depth][kind == "ntk"], head)
    own = np.array([definition.mp.sqrt(K[i, i]) for i in range(len(X))])
    return 1 - K / np.multiply.outer(own, own)


def near_signals(distance, rng, d=4):
    signal = 1 + 0.3 * rng.standard_normal((3, d))
    other = signal + distance * rng.standard_normal(signal.shape)
    return multisphere.project(np.stack([signal, other, rng.standard_normal(signal.shape)]))


@pytest.mark.parametrize("distance", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("head", ["gap", 2])
def test_means_over_pixels_keep_the_digits_of_near_signals(head, kind, distance, rng):
    X, network = near_signals(distance, rng), rk.Network(3)
    found = multisphere.gram_complements([network], X, kind=kind, head=head)[0, 0, 1]
    expected = float(exact_complements(network, X, kind, head)[0, 1])
    assert abs(found - expected) <= tolerances.ROUTES * expected


@pytest.mark.parametrize(
    "network",
    [
        rk.Network(3, 5, outer_filter_size=3, skip=False, dilation=(1, 2, 1)),
        rk.Network(3, alpha=1.3, c_v=1.3, c_w=1.9, trained=("inner",)),
        rk.Network(3, 1, outer_filter_size=3, alpha=0.4, trained=("input",)),
        rk.Network(3, alpha=0.7, readout_scale=3.0, trained=("outer", "readout", "input")),
    ],
)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_near_signals_of_other_networks(kind, network, rng):
    """Also of several networks in one call, in any order."""
    X = near_signals(1e-6, rng, d=3)
    networks = [network.replace(depth=2, alpha=0.2), network]
    networks = networks if isinstance(network.dilation, int) else networks[1:]
    found = multisphere.gram_complements(networks, X, kind=kind, head="gap")
    for one, complements in zip(networks, found, strict=True):
        expected = exact_complements(one, X, kind, "gap").astype(float)
        assert abs(complements[0, 1] - expected[0, 1]) <= tolerances.ROUTES * expected[0, 1]
        assert (complements == complements.T).all()


def test_near_signals_of_two_depths(rng):
    X = near_signals(1e-6, rng, d=3)
    networks = [rk.Network(depth) for depth in (4, 1, 3)]
    found = multisphere.gram_complements(networks, X, kind="gpk", head="gap")
    for one, complements in zip(networks, found, strict=True):
        expected = float(exact_complements(one, X, "gpk", "gap")[0, 1])
        assert abs(complements[0, 1] - expected) <= tolerances.ROUTES * expected


def test_signals_that_differ_in_one_bit(rng):
    """Of their complement of some 1e-34 the definition's 40 digits would leave six."""
    X = multisphere.project(rng.standard_normal((1, 2, 3))).repeat(2, axis=0)
    X[1, 0, 0] = np.nextafter(X[1, 0, 0], 9.0)
    found = multisphere.gram_complements([rk.Network(2)], X, kind="gpk", head="gap")[0, 0, 1]
    with definition.mp.workdps(90):
        expected = float(exact_complements(rk.Network(2), X, "gpk", "gap")[0, 1])
    assert expected > 0
    assert abs(found - expected) <= tolerances.ROUTES * expected


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_signals_that_global_average_pooling_does_not_tell_apart(kind, rng):
    """Exactly 0 for shifted signals. Their mirror image is told apart."""
    x = multisphere.project(rng.standard_normal((1, 2, 5)))[0]
    X = np.stack([x, np.roll(x, 2, axis=1), x[:, ::-1], x])
    find = multisphere.gram_complements
    found = find([rk.Network(3)], X, kind=kind, head="gap")[0]
    assert (found[0] == [0, 0, found[0, 2], 0]).all()
    pooled = find([rk.Network(3)], X, kind=kind, head=2)[0]
    assert pooled[0, 3] == 0
    assert (pooled[0, 1:3] > 1e-3).all()


def test_mirrored_pixels_without_filters_are_not_told_apart(rng):
    """Their complement is 0, also where the order of sums differs."""
    x = multisphere.project(rng.standard_normal((1, 2, 3)))[0]
    X = np.stack([x, x[:, ::-1]])
    found = multisphere.gram_complements([rk.Network(2, 1)], X, kind="gpk", head="gap")[0, 0, 1]
    assert found == 0


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_means_near_zero_keep_their_digits(kind, rng):
    """GAP of signals of zero mean leaves only the branches of the kernel, of the order of α²."""
    X = rng.standard_normal((3, 2, 4))
    X = multisphere.project(np.concatenate([X, -X], axis=2) + 1e-9 * rng.standard_normal((3, 2, 8)))
    network = rk.Network(2, alpha=1e-4)
    found = multisphere.gram_complements([network], X, kind=kind, head="gap")[0]
    expected = exact_complements(network, X, kind, "gap").astype(float)
    assert (abs(found - expected) <= tolerances.ROUTES).all()


@pytest.mark.parametrize("d", [2, 16])
def test_cancellation_of_moderately_near_signals_is_bounded(d):
    """The page promises errors of 32 d means, here of two roundings each, whatever the distance."""
    rng = np.random.default_rng(1)
    signal = rng.standard_normal((1, 3, d))
    distances = 10.0 ** rng.uniform(-1.5, -0.5, (12, 1, 1))
    near = signal + distances * rng.standard_normal((12, 3, d))
    X, network = multisphere.project(np.concatenate([signal, near])), rk.Network(1)
    found = multisphere.gram_complements([network], X, kind="gpk", head="gap")[0, 0, 1:]
    pairs = [(0, k) for k in range(1, 13)]
    expected = decimal_complements(network, [1], X, pairs, "gpk", "gap")[0]
    assert (abs(found / expected - 1) <= 2 * EPS * 32 * d).all()


@pytest.mark.parametrize("own", [(0.9, 0.9), (1e-4, 0.9), (0.3, 1e-3)])
@pytest.mark.parametrize("cosine", [0.999, 0.3, 0.0, -0.8])
def test_errors_of_means_are_increased_by_the_factor_of_the_page(own, cosine):
    """The largest growth over the signs of three relative errors, also of unlike own means."""
    between = cosine * math.sqrt(own[0] * own[1])
    means = 1.0 - np.array([[own[0], between], [between, own[1]]])
    small = mp.mpf(10) ** -30

    def normalized(signs):
        entries = means[0, 0], means[1, 1], means[0, 1]
        a, b, c = (float(x) * (1 + sign * small) for x, sign in zip(entries, signs, strict=True))
        return 1 - (1 - c) / mp.sqrt((1 - a) * (1 - b))

    exact = normalized((0, 0, 0))
    changes = [abs(normalized(signs) - exact) for signs in product((-1, 1), repeat=3)]
    expected = float(max(changes) / exact / small)
    complements = np.array([[0.0, float(exact)], [float(exact), 0.0]])
    found = multisphere._cancellation(means, complements)[0, 1]
    assert abs(found - expected) <= tolerances.ROUTES * expected


@pytest.mark.parametrize("missing", [1e-2, 1e-4, 1e-6, 1e-9, 0.0])
def test_tangent_kernels_of_nearly_opposite_pixels_have_the_error_of_the_page(missing):
    """κ0 has a square root at ρ = −1."""
    angles = np.array([0.7, 0.7 + math.pi + missing])
    X = multisphere.project(np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None])
    network = rk.Network(2, 1)
    found = multisphere.gram_complements([network], X, kind="ntk", head="trace")[0, 0, 1]
    expected = decimal_complements(network, [2], X, [(0, 1)], "ntk", "trace")[0, 0]
    assert abs(found - expected) <= min(EPS / max(missing, EPS), math.sqrt(EPS))


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_signals_far_from_each_other_need_no_decimal_arithmetic(kind, monkeypatch):
    """It is a hundred times slower."""
    monkeypatch.setattr(multisphere, "decimal_complements", None)
    for d, depth, n_cases in ((5, 1, 12), (40, 2, 6), (3, 200, 6)):
        X = multisphere.sample(n_cases, 3, d, rng=d + depth)
        multisphere.gram_complements([rk.Network(depth)], X, kind=kind, head="gap")


def test_lost_digits_are_told_where_more_would_take_minutes(monkeypatch, rng):
    X, network = near_signals(1e-6, rng), rk.Network(3)
    monkeypatch.setattr(multisphere, "_MOST_WORK", 0)
    with pytest.warns(UserWarning, match=r"1 pairs .* X\[0\] and X\[1\] first") as told:
        found = multisphere.gram_complements([network], X, kind="gpk", head="gap")[0, 0, 1]
    error = float(re.search("up to (\\S+) at depth 3", str(told[0].message))[1])
    expected = float(exact_complements(network, X, "gpk", "gap")[0, 1])
    assert abs(found / expected - 1) <= error <= 1


TURNS = 2 * np.pi / 3 * np.arange(6)
OF_MEAN_ZERO = {
    "gap": np.array([[[1.0, -1.0, 1.0, -1.0]], [[1.0, 1.0, 1.0, -1.0]]]),
    3: np.stack([[math.sqrt(2) * np.cos(TURNS), math.sqrt(2) * np.sin(TURNS)], np.ones((2, 6))]),
}


@pytest.mark.parametrize("head", OF_MEAN_ZERO)
def test_signals_whose_kernel_is_zero_without_branches_are_refused(head):
    """At α = 0 kernels are products of the means over pools, which are 0 for the first signal."""
    X, complements = OF_MEAN_ZERO[head], rk.theory.multisphere.gram_complements
    with_branches, without = rk.Network(2), rk.Network(2, alpha=0.0)
    with pytest.raises(ValueError, match=r"X\[0\] has means of 0 over pixels"):
        complements([with_branches, without], X, kind="gpk", head=head)
    assert complements([with_branches], X, kind="gpk", head=head)[0, 0, 1] > 0
