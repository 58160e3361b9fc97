"""The classifier of infinite depth, against regressions with deep kernels."""

import mpmath
import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import multisphere, smoothness
from rescntk.theory.depth import limit_classifier
from tests import tolerances


@pytest.mark.slow
@pytest.mark.parametrize("head", ["trace", 2, "gap"])
@pytest.mark.parametrize(
    ("kind", "trained"),
    [
        ("gpk", ("readout",)),
        ("ntk", ("readout",)),
        ("ntk", ("inner",)),
        ("ntk", ("outer", "input")),
        ("ntk", ("input", "readout")),
        ("ntk", ("input",)),
    ],
)
def test_limits_of_kernels(kind, trained, head):
    """At depth 1000, where the slowest limit is (3/8) log(L)/L away."""
    network = rk.Network(1000, trained=trained)
    X = multisphere.sample(2, 4, 3, rng=0)
    K = 1 - multisphere.gram_complements([network], X, kind=kind, head=head)[0, 0, 1]
    averaged = {"trace": 1, "gap": 3}.get(head, head)
    found = limit_classifier(network, kind=kind, n_pixels=averaged)
    assert abs(K - found.off_diagonal) <= tolerances.deep_tangent_kernel(1000, 2.0)
    assert (found.name == "singular") == (found.off_diagonal == 0)


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_ridge_regressions_become_majority_votes(kind, penalty):
    """The sum of the labels over n + 3 + 4λ for the NTK, over n + λ for the GPK."""
    X, Z = np.split(multisphere.sample(25, 4, 3, rng=0), [15])
    y = np.where(np.arange(15) < 9, 1.0, -1.0)
    network = rk.Network(2000)
    both = np.concatenate([X, Z])
    K = 1 - multisphere.gram_complements([network], both, kind=kind, head="trace")[0]
    votes = K[15:, :15] @ np.linalg.solve(K[:15, :15] + penalty * np.eye(15), y)
    found = limit_classifier(network, kind=kind).ridge(y, penalty)
    expected = 3 / (18 + 4 * penalty if kind == "ntk" else 15 + penalty)
    assert abs(found - expected) <= tolerances.CONSTANT
    assert np.abs(votes - found).max() <= 15 * tolerances.deep_tangent_kernel(2000, 2.0) * found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "trained", "penalty", "power"),
    [
        ("ntk", ("inner", "outer", "readout"), 0.0, 1),
        ("ntk", ("inner",), 0.1, 1),
        ("gpk", ("readout",), 0.0, 1),
        ("gpk", ("readout",), 0.1, 3),
        ("ntk", ("input", "readout"), 0.0, 3),
    ],
)
def test_votes_of_balanced_labels_vanish(kind, trained, penalty, power):
    """Like 1/L where the NTK's hidden layers are trained, or a GPK has no penalty, else L⁻³."""
    X, y = multisphere.sample(7, 4, 1, rng=1), np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    deep = [rk.Network(depth, 1, trained=trained) for depth in (4000, 8000)]
    K = 1 - multisphere.gram_complements(deep, X, kind=kind, head="trace")
    near, far = (k[6, :6] @ np.linalg.solve(k[:6, :6] + penalty * np.eye(6), y) for k in K)
    start = multisphere.dot_products(X, complement=True)[*np.triu_indices(7, 1)].min()
    error = 2 * tolerances.asymptote(4000, 2.0, start)
    assert abs(np.log2(near / far) - power) <= error and near * far > 0


CLOSE = 10.0 ** -np.arange(2, 6)
"""Complements of dot products. Farther ones have the next term, closer ones deeper onsets."""


def slopes(network, kind, size=1.0):
    """Return slopes of log K over log(1 − t), of vectors whose energies are `size` times C0."""
    angles = np.append(0.0, np.arccos(1 - CLOSE))
    X = np.sqrt(size) * multisphere.project(smoothness.circle(angles))
    K = rk.Kernel(network, kind, "trace", normalized=True)(X)[0, 1:]
    return np.diff(np.log(K)) / np.diff(np.log(CLOSE))


@pytest.mark.parametrize(("c_v", "size"), [(4.0, 2.5115), (4.0, 0.5), (8.0, 1.0)])
def test_erf_is_singular(c_v, size):
    """From any variance: early layers are a factor, the same for all close pairs."""
    network = rk.Network(80, 1, skip=False, activation="erf", c_v=c_v)
    found = limit_classifier(network, kind="gpk")
    next_term = 0.01  # the complements from 1e-3 on, some ten times
    assert np.abs(slopes(network, "gpk", size)[1:] / -found.exponent - 1).max() <= next_term


def test_a_trained_input_is_singular():
    """The slope of its NTK is near −3/2 where 1 − t is small, and depth beyond the onset."""
    network = rk.Network(20_000, 1, skip=False, trained=("input",))
    found = limit_classifier(network, kind="ntk")
    middle, next_term = slopes(network, "ntk")[0], 0.02  # the complements 1e-2 and 1e-3
    assert found.exponent == 1.5 and abs(middle / -found.exponent - 1) <= next_term


@pytest.mark.parametrize("gain", [1 + 1e-9, 1 + 1e-8, 1 + 1e-6, 1.1, 4.0, 1e8, 1e200, 1e300])
def test_exponents_of_erf_from_its_dual(gain):
    """The slopes of φ(t) = arcsin(at)/arcsin(a), a = 2q/(1 + 2q), where q = 2 c_v c_w arcsin(a)/π.

    In 700 digits, which resolve 1 − a = 1e-300.
    """
    network = rk.Network(1, skip=False, activation="erf", c_v=gain * np.pi / 4)
    found = limit_classifier(network, kind="gpk").exponent
    with mpmath.workdps(700):
        c = 2 * mpmath.mpf(network.c_v) / mpmath.pi
        low, high = mpmath.mpf(10) ** -30, c * mpmath.pi
        while high / low - 1 > mpmath.mpf(10) ** -30:  # c_v c_w arcsin(a)/q falls with q
            q = mpmath.sqrt(low * high)
            grows = c * mpmath.asin(2 * q / (1 + 2 * q)) > q
            low, high = (q, high) if grows else (low, q)
        a = 2 * low / (1 + 2 * low)
        slopes = [a / mpmath.sqrt(1 - (a * t) ** 2) / mpmath.asin(a) for t in (0, 1)]
        expected = -mpmath.log(slopes[0]) / mpmath.log(slopes[1])
        assert abs(found / expected - 1) <= tolerances.ROUTES


def test_votes_of_large_values_are_finite():
    vote = limit_classifier(rk.Network(1), kind="ntk")
    assert vote.ridge([1e308] * 5) == pytest.approx(6.25e307, rel=tolerances.ROUTES)
    assert vote.ridge([1e308, -1e308]) == vote.ridge([5e-324, -5e-324]) == 0


@pytest.mark.parametrize(("gain", "size"), [(2, 4.9e-50), (1000, 1.4e-4)])
def test_weights_of_erf_have_a_log_periodic_factor(gain, size):
    """Of h with h(φ(t)) = φ'(0) h(t) over (1 − t)^e, between t and the t' with φ(t') = t.

    So near 1 and 0 that the terms of the relative order 1 − t and t² are below 1e-65.
    """
    with mpmath.workdps(160):
        c = 2 * mpmath.mpf(gain) / mpmath.pi
        q = mpmath.findroot(lambda q: c * mpmath.asin(2 * q / (1 + 2 * q)) - q, (gain / 3, gain))
        a = 2 * q / (1 + 2 * q)
        at_0, at_1 = (a / mpmath.sqrt(1 - (a * t) ** 2) / mpmath.asin(a) for t in (0, 1))
        factors = []
        for k in range(16):
            away = mpmath.mpf(10) ** -70 * at_1 ** (mpmath.mpf(k) / 16)
            t, layers = 1 - away, 0
            while t > mpmath.mpf(10) ** -35:
                t, layers = mpmath.asin(a * t) / mpmath.asin(a), layers + 1
            factors.append(t / at_0**layers / away ** (mpmath.log(at_0) / mpmath.log(at_1)))
        found = (max(factors) - min(factors)) / max(factors)
    assert abs(found / size - 1) <= tolerances.printed(1)  # sizes have two digits
