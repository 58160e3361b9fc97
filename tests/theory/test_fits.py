"""Fits and verdicts on sequences of numbers with known limits and exponents."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rescntk.theory import depth
from rescntk.theory.depth import extrapolate, fit_exponent
from rescntk.theory.limits import Prediction
from tests import tolerances
from tests.ladders import powers

EPS = tolerances.EPS["float64"]
PATTERN = np.linspace(-1, 1, 10)
LIMIT = 0.7 + 0.1 * PATTERN


@given(
    st.floats(0.15, 3),
    st.floats(0.15, 3),
    st.floats(-3, 3),
    st.sampled_from([0.0, 1.0, -0.3]),
    st.sampled_from([2.0, 1.5, 3.0]),
)
def test_limits_are_within_their_bars(p, further, b, limit, ratio):
    """limit + L^-p + b L^-(p+further): whatever the ladder."""
    depths = np.unique(np.round(8 * ratio ** np.arange(14)))
    assume(abs(b) * depths[-1] ** -further <= 0.2)  # in the end the first term leads
    values = limit + depths**-p * (1 + b * depths**-further)
    noise = 4 * EPS * (abs(limit) + np.abs(values))
    found, error = extrapolate(depths, values, noise, (p, p, 2 * p, 2 * p))
    assert abs(found - limit) <= depth._STANDARD_ERRORS * error


@given(st.floats(0.2, 2.5), st.floats(-2, 2), st.sampled_from([0, 1]))
def test_exponents_are_within_their_bars(p, b, log_power):
    """And a power without a logarithm has no exponent beside one."""
    depths = 2.0 ** np.arange(4, 17)
    factor = 0.4 * np.log(depths) + b + 3 if log_power else 1 + b / np.sqrt(depths)
    values = depths**-p * factor
    found, bar = fit_exponent(depths, values, 4 * EPS * values, 0.5, log_power, depths[-1] ** -1.5)
    assert abs(found - p) <= bar <= 0.1 * depth._STANDARD_ERRORS * p
    values = depths**-p * (1 + 0.5 * abs(b) / depths)
    assert log_power or math.isinf(fit_exponent(depths, values, 4 * EPS * values, 1, 1, 1e-6).bar)


def judged(function, last=16, limit=LIMIT, **prediction):
    """Judge ten pairs, given by a function of depth and of a pattern over pairs."""
    ladder = powers(last)
    values = np.array([function(float(n), PATTERN) for n in ladder])
    names = {"family": "", "kind": "gpk", "head": "gap", "shape": (5, 1, 1)}
    law = Prediction(0.5, **prediction)
    return depth.judge(ladder, values, np.full(len(ladder), 1e-15), law, limit, **names)


def test_verdicts_on_sequences():
    right = judged(lambda n, u: LIMIT + u / n)
    assert right.verdict == depth.AGREES and right.exponent.bar <= 1e-8
    for wrong in ({"exponent": 1.01}, {"limit": LIMIT + 1e-4}, {"limit": LIMIT - 1e-4}):
        assert judged(lambda n, u: LIMIT + u / n, **wrong).verdict == depth.CONTRADICTS
    # For some signals the constant of a law is 0, and the next order leads.
    second = judged(lambda n, u: LIMIT + u / n, exponent=0.5)
    assert second.verdict == depth.OPEN and "of a higher order" in second.reason
    # Before the law sets in, nothing is known.
    for onset, verdict in ((2.0**16, depth.OPEN), (8.0, depth.AGREES)):
        assert judged(lambda n, u: LIMIT + u / n, onset=onset).verdict == verdict
    # Windows near a square root: up to half the power contradicts nothing.
    for settled, verdict in ((2.0**17, depth.OPEN), (1.0, depth.CONTRADICTS)):
        assert judged(lambda n, u: LIMIT + u / n, exponent=1.3, settled=settled).verdict == verdict


@pytest.mark.parametrize(
    "wild",
    [
        lambda n, u: LIMIT + 0.1 * u / np.log(n),  # more slowly than any power
        lambda n, u: 0.5 + 0.1 * u * np.sin(np.log(n)),
        lambda n, u: 0.5 + 0.01 * u * n**0.1,
    ],
)
def test_what_does_not_converge_has_no_exponent(wild):
    for exponent in (0.05, 0.2, 1.0):
        assert judged(wild, exponent=exponent).verdict != depth.AGREES


@given(
    st.floats(0.02, 2.0),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.3]),
    st.integers(9, 17),
    st.booleans(),
)
@example(1.125, 0.0, 1e-6, 13, False)
@example(1.838, -0.54, 1e-6, 10, True)
def test_limits_are_never_judged_wrongly(p, b, left, last, alone):
    """limit + left + u L^-p (1 + b u L^-p), left over in one pair or in all."""
    rest = left * (np.arange(10) == 3) if alone else left

    def kernel(n, u):
        return LIMIT + rest + 0.3 * u * n**-p * (1 + b * u * n**-p)

    report = judged(kernel, last, exponent=p, correction=min(p, 1.0))
    if left == 0:
        assert report.verdict != depth.CONTRADICTS
        assert report.verdict == depth.AGREES or p < 0.4 or last < 12
    elif left > 0.1 * report.rows[-1].distance:
        assert report.verdict != depth.AGREES
    if left > 100 * 0.3 * 2.0 ** (-p * last) and p >= 0.2:
        assert report.verdict == depth.CONTRADICTS
