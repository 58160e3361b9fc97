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


def dual_of(activation, root, other, w, v):
    """Return the duals of Gaussians with √q = root and other, 1 − ρ = w and 1 + ρ = v."""
    root, other, w, v = (np.array([number], dtype=float) for number in (root, other, w, v))
    pairs = activations.Gaussians(w, v, root * other, (root * root, other * other))
    return activation.dual(pairs)


@given(log_uniform(-138, 8), log_uniform(-138, 8) | st.none(), log_uniform(-30, 0), st.booleans())
def test_deficits_of_erf_keep_relative_accuracy(root, other, w, flip):
    """Nearly equal or opposite, of all sizes: in the digits of half the squared distance."""
    other = root if other is None else other
    result = dual_of(activations.Erf(), root, other, *((2 - w, w) if flip else (w, 2 - w)))
    one, two = wide.mpf(root), wide.mpf(other)
    a, b, s = one**2, two**2, one * two * (1 - wide.mpf(w))
    of_u, of_v = (wide.asin(2 * q / (1 + 2 * q)) * 2 / wide.pi for q in (a, b))
    K = wide.asin(2 * s / wide.sqrt((1 + 2 * a) * (1 + 2 * b))) * 2 / wide.pi
    own, distance = wide.sqrt(of_u * of_v), (of_u + of_v) / 2 - K
    less, more = reversed(result.deficits) if flip else result.deficits
    assert abs(float(less[0]) - (own - K)) <= 12 * EPS * min(distance, own)
    assert abs(float(more[0]) - (own + K)) <= 12 * EPS * own


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
