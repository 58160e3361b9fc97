"""Dual activations and their polynomials against arithmetic of 50 digits and more."""

import subprocess
import sys
from functools import reduce
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescntk import activations
from rescntk.engines.compiled import polynomials
from rescntk.theory.complements import relu_dual
from tests import tolerances

mp = mpmath.mp.clone()
mp.dps = 50
wide = mpmath.mp.clone()  # for w down to 1e-300, where √(1−ρ²) − ρθ loses 300 digits
wide.dps = 400
EPS = tolerances.EPS["float64"]
TOOLS = Path(__file__).parents[1] / "tools"


def log_uniform(least, most):
    return st.floats(least, most).map(lambda exponent: 10.0**exponent)


@given(st.one_of(st.floats(0, 2, allow_subnormal=False), log_uniform(-300, 0)))
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


def dual_of_erf(left, right, w, v):
    """Return the duals of Gaussians with √(q/2) = left and right, 1 − ρ = w and 1 + ρ = v."""
    activation = activations.BY_NAME["erf"]
    left, right, w, v = (np.atleast_1d(np.asarray(a, dtype=float)) for a in (left, right, w, v))
    pixels = [
        activations.Pixels(root, activation.extra(np, 2 * root * root, 1.0))
        for root in (left, right)
    ]
    half_g = left * right
    pair = activations.DualInput(w, v, half_g, (left - right) ** 2, half_g * (v - w))
    return activation.dual(*pixels, pair, unit=1.0, factor=1.0)


@given(log_uniform(-138, 8), log_uniform(-138, 8) | st.none(), log_uniform(-30, 0), st.booleans())
def test_distances_of_erf_keep_relative_accuracy(root, other, w, flip):
    """Nearly equal or opposite, of all sizes: the smaller distance is right in its own digits."""
    other = root if other is None else other
    one, two = wide.mpf(root), wide.mpf(other)  # √(q/2)
    result = dual_of_erf(root, other, *((2 - w, w) if flip else (w, 2 - w)))
    a, b, s = 2 * one**2, 2 * two**2, 2 * one * two * (1 - wide.mpf(w))
    own = [wide.asin(2 * q / (1 + 2 * q)) for q in (a, b)]
    K = wide.asin(2 * s / wide.sqrt((1 + 2 * a) * (1 + 2 * b)))
    distances = result.branch_distance, result.opposite_distance
    for distance, sign in zip(reversed(distances) if flip else distances, (-1, 1), strict=True):
        expected = (sum(own) / 2 + sign * K) * 2 / wide.pi
        assert abs(wide.mpf(float(distance[0])) - expected) <= 12 * EPS * expected


def test_polynomials_are_what_the_script_derives():
    check = [sys.executable, TOOLS / "polynomials.py", "--check"]
    subprocess.run(check, check=True)


@pytest.mark.parametrize("bits", [64, 32])
def test_quotients_are_the_functions(bits):
    """Quotients of stored coefficients, without rounding, against the closed forms."""
    mp = mpmath.mp.clone()
    mp.dps = 120  # of which r loses up to 30
    above_p, above_r, below = (
        [mp.mpf(float(x)) for x in getattr(polynomials, f"{name}{bits}")] for name in "PRD"
    )
    assert min(above_p + above_r + below) > 0  # sums of positive terms keep their digits
    for a in map(mp.mpf, np.r_[np.linspace(0, 1, 2001)[1:], np.geomspace(1e-30, 1, 301)].tolist()):
        p = mp.acos(1 - a) / (mp.pi * mp.sqrt(a))
        r = (mp.sqrt(a * (2 - a)) - (1 - a) * mp.acos(1 - a)) / (mp.pi * a ** mp.mpf("1.5"))
        P, R, D = (reduce(lambda s, x: s * (1 - a) + x, c) for c in (above_p, above_r, below))
        assert max(abs(P / (D * p) - 1), abs(R / (D * r) - 1)) <= tolerances.EPS[f"float{bits}"] / 4
