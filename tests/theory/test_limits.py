"""Predicted limits and constants against closed forms and deep kernels."""

import math

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import conditioning, depth, families, limits, multisphere
from rescntk.validation import HEADS, KINDS
from tests import tolerances
from tests.covering import pairs_meet
from tests.ladders import pairs
from tests.oracles.papers import _row_box, kappa0, kappa1

EPS = tolerances.EPS["float64"]


@pytest.mark.parametrize(("inner", "outer"), [(3, 3), (1, 3), (5, 1), (3, 7)])
@pytest.mark.parametrize("head", HEADS)
def test_the_two_layer_limit_in_closed_form(inner, outer, head):
    """½ box(κ1(u) + u κ0(u)) with u = box t."""
    X, d = multisphere.sample(4, 3, 6, rng=2), 6
    network = rk.Network(1, inner, outer_filter_size=outer, trained=("inner", "outer"))
    rows = [multisphere.dot_products(X, offset=offset) for offset in range(d)]
    K = np.empty((4, 4))
    for i, k in np.ndindex(4, 4):
        shown = []
        for row in rows:
            u = _row_box(row[i, k], inner)
            shown.append(_row_box((kappa1(u) + u * kappa0(u)) / 2, outer))
        heads = shown[0][0], np.mean(shown[0]), np.mean(shown)
        K[i, k] = heads[HEADS.index(head)]
    own = np.sqrt(K.diagonal())
    expected = K / np.multiply.outer(own, own)
    limit = limits.two_layer(network).replace(head=head)(X)
    # κ0 at the pixels that a signal shares with itself: √(2 eps)/π, of which the mean is taken.
    assert np.abs(limit - expected).max() <= 2 * np.sqrt(2 * 16 * EPS) / np.pi


def test_the_two_layer_limit_is_for_any_signals_and_activation(rng):
    X = rng.standard_normal((4, 2, 5))
    for network in (
        rk.Network(1, 3, trained=("inner", "outer")),
        rk.Network(1, 3, activation="erf", c_v=1.3, c_w=0.7, trained=("inner",)),
        rk.Network(1, 1, input_filter_size=3, trained=("outer",)),
    ):
        limit = limits.two_layer(network).replace(head="gap")(X)
        deep = [network.replace(depth=n, alpha=1 / n) for n in (100, 200)]
        kernels = [rk.Kernel(net, "ntk", "gap", normalized=True)(X) for net in deep]
        far, near = (np.abs(K - limit).max() for K in kernels)
        assert far <= 0.05
        assert 1.8 <= far / near <= 2.2


def test_dilated_networks():
    """Dilation leaves the dot product and the law of all ones alone, and no input filter has it."""
    assert limits.two_layer(rk.Network(3, 1, dilation=2)).network.input_filter_size == 1
    assert limits.decaying(rk.Network(1, dilation=2), 0.75, "ntk").rate == "L^-0.5"
    assert limits.decaying(rk.Network(1, dilation=2, trained="inner"), 0.75, "ntk") is None
    for function in (limits.two_layer, lambda network: depth.check(lambda n: network)):
        with pytest.raises(ValueError, match=r"has the dilations \(1, 2\), expected one for all"):
            function(rk.Network(2, dilation=(1, 2)))


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_dilated_deep_networks_are_ones_where_rings_differ(head, rng):
    """A row of 6 pixels is two rings for dilation 2: one of them may have equal pixels alone."""
    x, z = multisphere.sample(2, 3, 6, rng=5)
    z[:, ::2] = x[:, ::2]
    X = np.stack([x, z])
    network = rk.Network(4000, dilation=2)
    prediction = limits.fixed(network, "gpk")
    found = multisphere.gram_complements([network], X, head=head)[0, 0, 1]
    # Corrections are of order log(L)/L. One closed ring more would double the trace's constant.
    assert found == pytest.approx(prediction.constant(X, head) / 4000**2, rel=0.03)


@pytest.mark.parametrize(("head", "kind", "alpha"), pairs_meet(HEADS, KINDS, [1.0, 2.0]))
def test_the_constant_of_theorem_6_1(kind, head, alpha):
    """L^(2γ−1) times the distance tends to the predicted constant; general signals too."""
    family = families.decaying(rk.Network(1, alpha=alpha, outer_filter_size=1), 1.0)
    for X in (multisphere.sample(4, 3, 5, 1), np.random.default_rng(1).standard_normal((4, 2, 5))):
        prediction = family.predict(kind)
        constant = prediction.distance_constant(X, head)
        limit = prediction.complements(X, head)
        deep = 1000
        K = rk.Kernel(family(deep), kind, head, normalized=True)(X)
        distance = math.sqrt(np.mean(pairs(1 - limit - K) ** 2))
        # The next order is Lα² = α²/L, times a factor of the same kind as the first.
        assert abs(deep * distance / constant - 1) <= 20 * alpha**2 / deep


@pytest.mark.parametrize("pixels", [1, 3])
def test_gap_sees_its_own_pixels(pixels):
    """¼ becomes d/(d + 3), and 1 − K̄ becomes (1/d) of the law."""
    X = multisphere.sample(4, 3, pixels, rng=0)
    quarter = limits.fixed(rk.Network(1), "ntk")
    found = pairs(1 - quarter.complements(X, "gap"))
    assert np.abs(found - pixels / (pixels + 3)).max() <= 8 * EPS
    ones = limits.fixed(rk.Network(1), "gpk")
    law = conditioning.asymptotic_complement(1)
    assert abs(ones.distance_constant(X, "gap") / law - 1 / pixels) <= 1e-11
    assert abs(ones.distance_constant(X, "trace") / law - 1) <= 8 * EPS
    # 16 d/(d+3)² times ⅜, from the derivative of (¼+η)/((1 + (d−1)(¼+η))/d).
    expected = 0.375 * 16 * pixels / (pixels + 3) ** 2
    assert abs(quarter.distance_constant(X, "gap") / expected - 1) <= 1e-9


def test_pixels_that_agree_stay_so_without_filters():
    """Two of three pixels the same: a filter mixes them in, size 1 does not."""
    X = multisphere.sample(3, 3, 3, rng=0)
    X[1, :, :2] = X[0, :, :2]
    for size, agreeing in ((1, 2 / 3), (3, 0.0)):
        limit = limits.fixed(rk.Network(1, size), "ntk").complements(X, "trace")
        assert abs(limit[0, 1] - 0.75 * (1 - agreeing)) <= 8 * EPS
        deep = multisphere.gram_complements([rk.Network(4000, size)], X, kind="ntk", head="trace")
        assert np.abs(deep - limit).max() <= 1e-3 * 30 / 4


def test_refusals():
    for make, says in (
        (lambda: limits.two_layer(rk.Network(1, input_filter_size=5)), "is 3 and input_filter_s"),
        (lambda: limits.two_layer(rk.Network(1, dilation=2)), "dilation 2, expected 1: the limit"),
        (lambda: limits.decaying(rk.Network(1, skip=False), 1.0, "ntk"), "no skip connections"),
        (lambda: limits.decaying(rk.Network(1, alpha=0), 1.0, "ntk"), "alpha, c_v, c_w are 0.0"),
        (lambda: limits.fixed(rk.Network(1, alpha=0), "ntk"), "without a residual branch"),
        (lambda: limits.decaying(rk.Network(1, c_v=0), 0.5, "gpk"), "c_v, c_w are 1.0, 0.0, 1.0"),
        (lambda: limits.fixed(rk.Network(1, c_v=0), "ntk"), "alpha, c_v, c_w are 1.0, 0.0, 1.0"),
        (lambda: limits.Prediction(0.5, exponent=-1), "exponent is -1"),
        (lambda: limits.Prediction(0.5, exponent=0), "exponent is 0, expected a positive number"),
        (lambda: limits.Prediction(0.5, log_power=2), "log_power is 2"),
        (lambda: limits.Prediction(0.5, onset=-5.0), "onset is -5.0"),
        (lambda: limits.Prediction(0.5, correction=np.nan), "correction is nan"),
        (lambda: limits.Prediction(0.5, constant="c"), "constant is 'c'"),
    ):
        with pytest.raises(ValueError, match=says):
            make()


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
    pytest.importorskip("numba")
    X, depth = np.random.default_rng(0).standard_normal((3, 2, 4)), 1000
    network = rk.Network(1, 3, skip=skip, trained=trained)
    pooled = 4 * pixels / (1 + 3 * pixels)
    bar = tolerances.deep_tangent_kernel(depth, 2 if skip else 1)
    for head, limit in (("trace", pixels), ("gap", pooled)):
        options = {"kinds": ("ntk",), "depths": [depth], "normalized": True, "engine": "numba"}
        K = rk.gram(network, X, head=head, **options).ntk[0]
        assert np.abs(pairs(K) - limit).max() <= bar
