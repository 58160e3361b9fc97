"""Dual activations and their polynomials against arithmetic of 50 digits and more."""

import subprocess
import sys
from functools import partial, reduce
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.engines.compiled import polynomials
from rescntk.network import activations
from rescntk.theory.tools.complements import relu_dual
from tests import tolerances
from tests.oracles import definition, quadruple
from tests.strategies import EVERY_FIELD

mp = mpmath.mp.clone()
mp.dps = 50
wide = mpmath.mp.clone()  # for w down to 1e-300, where √(1−ρ²) − ρθ loses 300 digits
wide.dps = 400
EPS = tolerances.EPS["float64"]
TOOLS = Path(__file__).parents[2] / "tools"


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


def test_kappa1_keeps_its_digits_where_its_series_ends():
    """Errors of few units times w: twice as large ones of one sign would add up over layers."""
    w, few = np.geomspace(1e-3, 1e-1, 2001), 4
    root = [mp.sqrt(x * (2 - x)) for x in map(mp.mpf, w)]
    exact = [(r - (1 - x) * mp.asin(r)) / mp.pi for r, x in zip(root, map(mp.mpf, w), strict=True)]
    found = activations.angle_and_kappa1_excess(np, w, 2.0 - w)[1]
    errors = [float(k - e) for k, e in zip(map(mp.mpf, found), exact, strict=True)]
    assert np.abs(errors / w).max() <= few * EPS


def dual_of(activation, root, other, w, v):
    """Return the duals of Gaussians with √q = root and other, 1 − ρ = w and 1 + ρ = v."""
    root, other, w, v = (np.array([number], dtype=float) for number in (root, other, w, v))
    pairs = activations.Gaussians(w, v, root * other, (root * root, other * other))
    return activation.dual(np, pairs)


@given(log_uniform(-138, 8), log_uniform(-138, 8) | st.none(), log_uniform(-30, 0), st.booleans())
def test_deficits_of_erf_keep_relative_accuracy(root, other, w, flip):
    """Pixels are nearly equal or opposite and of all sizes. Errors are relative to half the squared
    distance."""
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


def gelu(a, b, s):
    """Return E[σσ] and E[σ'σ'] at variances a and b and covariance s: by Stein's lemma."""
    p, q = 1 + a, 1 + b
    joint = wide.mpf(1) / 4 + wide.asin(s / wide.sqrt(p * q)) / (2 * wide.pi)  # E[Φ(u)Φ(v)]
    d = p * q - s**2
    density = 1 / (2 * wide.pi * wide.sqrt(d))  # E[φ(u)φ(v)]
    K = s * joint + density * (a * (p * b - s**2) / p + s**2 / q)
    return K, joint + density * s * (1 / p + 1 / q + 1 / d)


roots = log_uniform(-90, 90) | log_uniform(-2, 4)


@given(roots, log_uniform(-16, 5) | st.none(), log_uniform(-40, 0) | st.just(0.0), st.booleans())
def test_gelu_keeps_its_digits(root, ratio, w, flip):
    """Pixels have all sizes, and are nearly equal, proportional or opposite."""
    other = root if ratio is None else root * (1.0 + ratio)
    result = dual_of(activations.Gelu(), root, other, *((2 - w, w) if flip else (w, 2 - w)))
    with wide.workdps(800):  # P − S² loses all digits of q
        a, b = wide.mpf(root) ** 2, wide.mpf(other) ** 2
        g = wide.sqrt(a * b)
        K, slope = gelu(a, b, (-g if flip else g) * (1 - wide.mpf(w)))
        own = wide.sqrt(gelu(a, a, a)[0] * gelu(b, b, b)[0])
        assert abs(result.K[0] - K) <= 8 * EPS * own
        assert abs(result.times_slope(1.0)[0] - slope) <= 2 * EPS
        less, more = (wide.mpf(float(deficit[0])) for deficit in result.deficits)
        # A later layer may take the root of the deficit: its error is a rounding unit of 1.
        resolved = own if flip else wide.sqrt((own - K) * own) + wide.mpf("1e-150") * own
        assert abs(less - (own - K)) <= 32 * EPS * resolved
        assert abs(more - (own + K)) <= 16 * EPS * own


def test_deficits_of_gelu_keep_their_digits_where_sizes_differ():
    """Near ρ = 1, pairs of sizes lie on both sides of the bound between two formulas."""
    for root, step, w in product((0.03, 1.0, 2.0), np.linspace(0.02, 0.32, 16), (0.0, 1e-12, 1e-6)):
        other = root + step * np.sqrt(1 + root**2)
        less = dual_of(activations.Gelu(), root, other, w, 2 - w).deficits[0]
        a, b = wide.mpf(root) ** 2, wide.mpf(float(other)) ** 2
        K, _ = gelu(a, b, wide.sqrt(a * b) * (1 - wide.mpf(w)))
        own = wide.sqrt(gelu(a, a, a)[0] * gelu(b, b, b)[0])
        error = abs(wide.mpf(float(less[0])) - (own - K))
        assert error <= 32 * EPS * wide.sqrt((own - K) * own)


SPECIAL = {"relu": activations.Relu(0.2), "erf": activations.Erf(), "gelu": activations.Gelu()}
U, WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_the_oracles_know_each_activation(name):
    """Whoever adds one writes its integrals here, and in tests/oracles/definition.py."""
    definition.dual_of(rk.Network(1, activation=name))
    assert name in SPECIAL


def test_the_definition_knows_each_field():
    assert definition.KNOWN_FIELDS == quadruple.KNOWN_FIELDS == EVERY_FIELD


def test_activations_are_linear_on_signals_that_are_told_to_be_so():
    """Their variance is the squared slope at 0 times the signal's, up to 2^-100."""
    root = {name: wide.mpf(SPECIAL[name].linear_below) for name in ("erf", "gelu")}
    with wide.workdps(300):
        q = root["erf"] ** 2
        erf = wide.asin(2 * q / (1 + 2 * q)) * 2 / wide.pi / (q * 4 / wide.pi)
        q = root["gelu"] ** 2
        of_gelu = gelu(q, q, q)[0] / (q / 4)
        assert max(abs(erf - 1), abs(of_gelu - 1)) <= wide.mpf(2) ** -100


@pytest.mark.parametrize("name", [name for name, of in SPECIAL.items() if not of.homogeneous])
@pytest.mark.parametrize("w", [0.0, 1e-3, 1.0, 2.0])
def test_duals_of_variances_below_the_largest_stay_in_float64(name, w):
    q = np.array([0.999 * SPECIAL[name].largest_variance])
    for other in (q, np.ones(1), 1e-200 * np.ones(1)):
        for pair in ((q, other), (other, q)):
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                ws = np.array([w]), np.array([2.0 - w])
                dual = SPECIAL[name].correlation_map(np, *ws, *pair)
                numbers = [dual.K, *dual.deficits, dual.times_slope(1.0)]
            assert np.isfinite(numbers).all()


@pytest.mark.parametrize("name", SPECIAL)
def test_zeros_stay_zeros(name):
    assert SPECIAL[name].function(np, scipy.special, np.zeros(1)) == 0


@pytest.mark.parametrize("rho", [-1.0, -0.3, 0.0, 0.7, 1.0])
@pytest.mark.parametrize("variances", [(1.0, 1.0), (0.3, 1.7)])
@pytest.mark.parametrize("name", [name for name, of in SPECIAL.items() if not of.homogeneous])
def test_duals_of_smooth_activations_are_integrals(name, rho, variances):
    """The integrals are computed by Gauss-Hermite quadrature with 200 nodes on each axis."""
    a, b = np.sqrt(variances)
    u, v = a * U[:, None], b * (rho * U[:, None] + np.sqrt(1 - rho**2) * U)
    weights, sigma = WEIGHTS[:, None] * WEIGHTS, SPECIAL[name]
    function, step = partial(sigma.function, np, scipy.special), 1e-4

    def slope(u):
        """Return Richardson's extrapolation of central differences: it errs by step⁴."""
        near, far = (function(u + s) - function(u - s) for s in (step, 2 * step))
        return (8 * near - far) / (12 * step)

    result, of_poles = dual_of(sigma, a, b, 1 - rho, 1 + rho), 1e-9  # which the formula leaves
    assert abs(result.K[0] - (weights * function(u) * function(v)).sum()) <= of_poles
    assert abs(result.times_slope(1.0)[0] - (weights * slope(u) * slope(v)).sum()) <= of_poles


@pytest.mark.parametrize("name", SPECIAL)
def test_functions_have_the_variances_and_slopes_that_are_told(name):
    activation, u = SPECIAL[name], np.linspace(-5, 5, 100_001)
    values = activation.function(np, scipy.special, u)
    slopes = np.diff(values) / np.diff(u)
    assert 1 - 1e-6 <= slopes.max() / activation.largest_slope <= 1 + 1e-9
    q = np.array([0.3, 1.7])
    squares = activation.function(np, scipy.special, np.sqrt(q)[:, None] * U) ** 2
    # The kink of ReLU lies between two nodes.
    bar = 1e-3 if activation.homogeneous else 1e-9
    found = activation.dual_divisor * activation.variance(np, q)
    assert np.abs(squares @ WEIGHTS - found).max() <= bar


SLOPES = [-3.0, -1.0, -0.2, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("slope", SLOPES)
def test_opposites_of_relus_have_a_lower_bound(slope):
    """Slopes below 0, as of |u|, are no parameters of networks."""
    relu, rho = activations.Relu(slope), np.linspace(-1.0, 1.0, 2001)
    dual = relu.correlation_map(np, 1.0 - rho, 1.0 + rho, np.ones(1), np.ones(1))
    least = (1.0 + dual.K).min()
    assert least >= relu.least_U_plus - tolerances.ROUTES
    assert least <= max(1.0 + 2.0 / np.pi, relu.least_U_plus) + tolerances.ROUTES


@pytest.mark.parametrize("slope", SLOPES)
def test_slopes_of_relus_are_those_of_their_sides(slope):
    """At ρ = 1 both Gaussians have one sign, and at −1 the other one."""
    relu = activations.Relu(slope)
    ends = np.array([1.0, -1.0])
    dual = relu.correlation_map(np, 1.0 - ends, 1.0 + ends, np.ones(1), np.ones(1))
    expected = np.array([1.0, slope / float(relu.dual_divisor)])
    np.testing.assert_allclose(dual.times_slope(1.0), expected, atol=tolerances.ROUTES)


@pytest.mark.slow
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
    of_degrees = tolerances.EPS[f"float{bits}"] / 4  # to which the script chooses them
    assert min(above_p + above_r + below) > 0  # sums of positive terms keep their digits
    for a in map(mp.mpf, np.r_[np.linspace(0, 1, 2001)[1:], np.geomspace(1e-30, 1, 301)].tolist()):
        p = mp.acos(1 - a) / (mp.pi * mp.sqrt(a))
        r = (mp.sqrt(a * (2 - a)) - (1 - a) * mp.acos(1 - a)) / (mp.pi * a ** mp.mpf("1.5"))
        P, R, D = (reduce(lambda s, x: s * (1 - a) + x, c) for c in (above_p, above_r, below))
        assert max(abs(P / (D * p) - 1), abs(R / (D * r) - 1)) <= of_degrees
