"""Dual activations against 50-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescntk import activations
from rescntk.theory.complements import relu_dual
from tests import tolerances

mp = mpmath.mp.clone()
mp.dps = 50
wide = mpmath.mp.clone()  # for w down to 1e-300, where √(1−ρ²) − ρθ loses 300 digits
wide.dps = 400
EPS = tolerances.EPS["float64"]


@given(st.one_of(st.floats(0, 2, allow_subnormal=False), st.floats(-300, 0).map(lambda e: 10.0**e)))
def test_kappa1_and_the_angle_keep_relative_accuracy(w):
    """κ1(1−w) − (1−w), the angle arccos(1−w), and 1 − κ1, for w down to 1e-300."""
    exact = wide.mpf(w)
    angle = 2 * wide.asin(wide.sqrt(exact / 2))
    excess = (wide.sqrt(exact * (2 - exact)) - (1 - exact) * angle) / wide.pi
    found_angle, found = activations.angle_and_kappa1_excess(np, np.array([w]), np.array([2.0 - w]))
    assert abs(float(found[0] - excess)) <= 8 * EPS * w
    # 2 − w is rounded where w < 1, by at most eps/2, which moves the angle by less than eps.
    assert abs(float(found_angle[0] - angle)) <= 4 * EPS * float(angle)
    expected = float(exact - excess)
    assert abs(relu_dual(np.array([w]), False)[0][0] - expected) <= 16 * EPS * expected


def test_the_series_meets_the_closed_form():
    edge = activations._SERIES_END
    w = np.array([np.nextafter(edge, 0), edge, np.nextafter(edge, 1)])
    assert np.abs(np.diff(relu_dual(w, False)[0])).max() <= 16 * EPS * edge


def run_dual(name, left, right, w, v, unit=1.0, factor=1.0):
    """Return the duals of Gaussians with √(q/2) = left and right, 1 − ρ = w and 1 + ρ = v."""
    activation = activations.BY_NAME[name]
    left, right, w, v = (np.atleast_1d(np.asarray(a, dtype=float)) for a in (left, right, w, v))
    pixels = [
        activations.Pixels(root, np.array([]), activation.extra(np, 2 * root * root, unit))
        for root in (left, right)
    ]
    half_g = left * right
    pair = activations.DualInput(w, v, half_g, (left - right) ** 2, half_g * (v - w))
    return activation.dual(*pixels, pair, unit=unit, factor=factor)


def closed_form(name, unit, q1, q2, s):
    """Section 2, in 50 digits."""
    q1, q2, s = (unit * mp.mpf(v) for v in (q1, q2, s))
    if name == "relu":
        g = mp.sqrt(q1 * q2)
        rho = s / g
        angle = mp.pi - mp.acos(rho)
        return g / 2 * (mp.sqrt(1 - rho**2) + angle * rho) / mp.pi, angle / mp.pi / 2
    m = (1 + 2 * q1) * (1 + 2 * q2)
    return 2 / mp.pi * mp.asin(2 * s / mp.sqrt(m)), 4 / mp.pi / mp.sqrt(m - 4 * s**2)


@pytest.mark.parametrize("name", activations.BY_NAME)
@given(st.floats(0.1, 9), st.floats(0.1, 9), st.floats(-0.99, 0.99), st.sampled_from([1.0, 0.3]))
def test_duals_are_their_closed_forms(name, q1, q2, rho, unit):
    roots = np.sqrt([q1 / 2, q2 / 2])
    found = run_dual(name, *roots, 1 - rho, 1 + rho, unit=unit, factor=0.7)
    K, distance, K_dot = found.K, found.branch_distance, found.times_slope(1.0)
    expected, expected_slope = closed_form(name, unit, q1, q2, rho * np.sqrt(q1 * q2))
    bar = 60 * EPS * max(q1, q2)  # ρ near ±0.99 loses a factor 7 on the slope
    assert abs(K[0] - 0.7 * expected) <= bar
    assert abs(K_dot[0] - 0.7 * unit * expected_slope) <= bar
    own = [closed_form(name, unit, q, q, q)[0] for q in (q1, q2)]
    assert abs(distance[0] - 0.7 * (sum(own) / 2 - expected)) <= bar


def log_uniform(least, most):
    return st.floats(least, most).map(lambda exponent: 10.0**exponent)


@given(log_uniform(-138, 8), log_uniform(-138, 8) | st.none(), log_uniform(-30, 0), st.booleans())
def test_distances_of_erf_keep_relative_accuracy(root, other, w, flip):
    """Nearly equal or opposite, of all sizes: the smaller distance is right in its own digits."""
    other = root if other is None else other
    one, two = wide.mpf(root), wide.mpf(other)  # √(q/2)
    result = run_dual("erf", root, other, *((2 - w, w) if flip else (w, 2 - w)))
    a, b, s = 2 * one**2, 2 * two**2, 2 * one * two * (1 - wide.mpf(w))
    own = [wide.asin(2 * q / (1 + 2 * q)) for q in (a, b)]
    K = wide.asin(2 * s / wide.sqrt((1 + 2 * a) * (1 + 2 * b)))
    distances = result.branch_distance, result.opposite_distance
    for distance, sign in zip(reversed(distances) if flip else distances, (-1, 1), strict=True):
        expected = (sum(own) / 2 + sign * K) * 2 / wide.pi
        assert abs(wide.mpf(float(distance[0])) - expected) <= 12 * EPS * expected


def test_ties_and_opposites_have_distance_0(rng):
    q = np.append(10.0 ** rng.uniform(-100, 100, 50), 0.0)
    for sign in (1.0, -1.0):
        w, v = np.full_like(q, 1 - sign), np.full_like(q, 1 + sign)
        K, distance, _, opposite = run_dual("erf", *np.sqrt([q / 2, q / 2]), w, v)
        near, far = (distance, opposite) if sign > 0 else (opposite, distance)
        assert (near == 0).all()
        assert (far == 2 * np.abs(K)).all()
        assert np.isfinite(K).all()


@pytest.mark.parametrize("name", activations.BY_NAME)
def test_diagonals_are_duals_of_a_pixel_with_itself(name):
    q = np.array([0.01, 0.5, 2.0, 40.0])
    roots = np.sqrt([q / 2, q / 2])
    found = run_dual(name, *roots, 0 * q, 2 + 0 * q, unit=0.5, factor=3.0)
    K, distance, K_dot = found.K, found.branch_distance, found.times_slope(1.0)
    own, own_slope = activations.BY_NAME[name].diagonal(np, q, 0.5, 3.0)
    np.testing.assert_allclose(K, own, rtol=8 * EPS)
    np.testing.assert_allclose(K_dot, own_slope, rtol=8 * EPS)
    np.testing.assert_allclose(distance, 0, atol=8 * EPS * own.max())
