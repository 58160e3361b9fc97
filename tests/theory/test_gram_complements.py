"""Kernel matrices on the multi-sphere as complements, against 40 digits."""

import mpmath
import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import multisphere
from tests import tolerances
from tests.covering import pairs_meet
from tests.oracles import definition

EPS = tolerances.EPS["float64"]
mp = mpmath.mp.clone()
mp.dps = 40


def exact_scalar(complement, depth, alpha, skip, inner, outer, extra_in, readout):
    """1 − (normalized GPK, NTK) of fully connected networks from covariances, in 40 digits."""
    K = 1 - mp.mpf(complement)
    share = mp.mpf(alpha) ** 2 / (1 + mp.mpf(alpha) ** 2) if skip else mp.mpf(1)
    T, own = extra_in * K, mp.mpf(extra_in)
    for _ in range(depth):
        angle = mp.pi - mp.acos(K)
        both, slope = (mp.sqrt(1 - K * K) + angle * K) / mp.pi, angle / mp.pi
        T = (1 - share) * T + share * (outer * both + slope * (inner * K + T))
        own += share * (inner + outer)
        K = (1 - share) * K + share * both
    return float(1 - K), float(1 - (T + readout * K) / (own + readout))


TRAINED = [("inner", "outer", "readout"), ("inner",), ("input", "outer"), ("outer", "readout")]


@pytest.mark.parametrize(
    ("exponent", "trained", "skip"), pairs_meet([0.0, 0.6, 1.25], TRAINED, [True, False])
)
def test_complements_of_deep_networks(skip, exponent, trained):
    """Both kernels keep all their digits, however small α is: the rest of a sum is carried on."""
    X = multisphere.project(np.array([[[1.0], [0.2]], [[0.6], [0.8]], [[1.0], [0.2001]]]))
    depth = 1000
    alpha = depth**-exponent
    network = rk.Network(depth, 1, alpha=alpha, skip=skip, trained=trained)
    complements = multisphere.dot_products(X, complement=True)[:, :, 0]
    flags = (part in trained for part in ("inner", "outer", "input", "readout"))
    flags = [int(flag) for flag in flags]
    computed = [
        multisphere.gram_complements([network], X, kind=kind, head="trace")[0]
        for kind in ("gpk", "ntk")
    ]
    for i, k in ((0, 1), (0, 2)):
        expected = exact_scalar(float(complements[i, k]), depth, alpha, skip, *flags)
        for value, exact in zip(computed, expected, strict=True):
            assert abs(value[i, k] - exact) <= tolerances.complement(depth) * abs(exact)


@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
@pytest.mark.parametrize(
    "network",
    [
        rk.Network(3, 3, alpha=0.7),
        rk.Network(3, 5, outer_filter_size=3, skip=False),
        rk.Network(3, 3, outer_filter_size=1, alpha=1.3, c_v=1.3, c_w=1.9, trained=("inner",)),
        rk.Network(3, 1, outer_filter_size=3, alpha=0.4, input_scale=2.0, trained=("input",)),
        rk.Network(3, 3, alpha=0.7, readout_scale=3.0, trained=("outer", "readout", "input")),
    ],
)
def test_complements_are_the_definition(network, head):
    """Against pixel pairs in 40 digits, three depths and two α in one call."""
    X = multisphere.sample(3, 2, 3, rng=3)
    networks = [network, network.replace(depth=2), network.replace(depth=3, alpha=0.2)]
    for kind, which in (("gpk", 0), ("ntk", 1)):
        computed = multisphere.gram_complements(networks, X, kind=kind, head=head)
        for one, complements in zip(networks, computed, strict=True):
            pixels = definition.pixel_pairs(X, one)[one.depth][which]
            K = definition.head(pixels, head)
            own = np.array([mp.sqrt(K[i, i]) for i in range(3)])
            exact = np.array(1 - K / np.multiply.outer(own, own), dtype=float)
            # X is on the multi-sphere to a few units only, and the definition knows it.
            assert np.abs(complements - exact).max() <= 50 * EPS


def test_networks_pass_together_as_they_do_alone():
    X = multisphere.sample(4, 3, 5, rng=1)
    steps = (1, 2, 4, 1, 3, 2, 2, 1, 5)
    networks = [
        rk.Network(n, 3, alpha=a, dilation=steps[:n])
        for n, a in ((9, 0.1), (4, 1.0), (9, 1.0), (1, 0.1))
    ]
    with pytest.raises(ValueError, match="networks differ in more than depth and alpha"):
        multisphere.gram_complements([*networks, rk.Network(2, dilation=(1, 3))], X)
    for kind in ("gpk", "ntk"):
        together = multisphere.gram_complements(networks, X, kind=kind, head="gap")
        alone = [
            multisphere.gram_complements([network], X, kind=kind, head="gap")[0]
            for network in networks
        ]
        assert (together == np.stack(alone)).all()
        assert (together == together.transpose(0, 2, 1)).all()
        assert (together.diagonal(axis1=1, axis2=2) == 0).all()


def test_gap_complements_do_not_cancel():
    """Normalizing GAP takes differences of complements; deep in, they are all alike."""
    A = np.array([[mp.mpf(3) / 7, mp.mpf(2) / 7], [mp.mpf(2) / 7, mp.mpf(1) / 2]]) / 10**9
    exact = 1 - (1 - A[0, 1]) / mp.sqrt((1 - A[0, 0]) * (1 - A[1, 1]))
    computed = multisphere.normalize_complements(A.astype(float))
    assert abs(computed[0, 1] - float(exact)) <= 8 * EPS * 1e-9
    assert (computed.diagonal() == 0).all()


@pytest.mark.parametrize(
    ("networks", "says"),
    [
        ([], "networks is empty"),
        (["net"], "network is 'net', expected a rescntk.Network"),
        ([rk.Network(2, activation="erf")], "dot products alone for activation 'relu'"),
        ([rk.Network(2, input_filter_size=3)], "input_filter_size 1"),
        ([rk.Network(2), rk.Network(2, 5)], "networks differ in more than depth and alpha"),
        ([rk.Network(2, skip=False, c_w=0)], "whose ntk is 0 for every signal"),
        ([rk.Network(2, input_scale=0)], "whose ntk is 0 for every signal"),
        ([rk.Network(2, alpha=0, trained=("inner",))], "whose ntk is 0 for every signal"),
        ([rk.Network(2, trained=())], "whose ntk is 0 for every signal"),
    ],
)
def test_networks_that_the_recursion_does_not_take(networks, says):
    with pytest.raises(ValueError, match=says):
        multisphere.gram_complements(networks, multisphere.sample(3, 2, 4, 0), kind="ntk")
    with pytest.raises(ValueError, match="not on the multi-sphere"):
        multisphere.gram_complements([rk.Network(2)], 2 * multisphere.sample(3, 2, 4, 0))
