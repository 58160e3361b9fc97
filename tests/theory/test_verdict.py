"""Fits and verdicts on sequences of numbers with known limits, exponents and constants."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rescntk.theory import depth, limits
from rescntk.theory.extrapolation import (
    STANDARD_ERRORS,
    Corrections,
    Estimate,
    extrapolate,
    fit_constants,
    fit_exponent,
)
from rescntk.theory.verdict import judge
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
    limits, errors = extrapolate(depths, values[:, None], noise, (p, p, 2 * p, 2 * p))
    assert abs(limits[0] - limit) <= STANDARD_ERRORS * errors[0]


@given(st.floats(0.2, 2.5), st.floats(-2, 2), st.sampled_from([0, 1]))
def test_exponents_and_constants_are_within_their_bars(p, b, log_power):
    depths = 2.0 ** np.arange(4, 17)
    factor = 0.4 * np.log(depths) + b + 3 if log_power else 1 + b / np.sqrt(depths)
    values = depths**-p * factor
    corrections = Corrections(0.5, log_power, depths[-1] ** -1.5)
    found, error = fit_exponent(depths, values, 4 * EPS * values, corrections)
    assert abs(found - p) <= STANDARD_ERRORS * error <= 0.1 * p
    found, error = fit_constants(depths, values[:, None], 4 * EPS * values, p, corrections)
    assert abs(found - (0.4 if log_power else 1.0)) <= STANDARD_ERRORS * error


def test_estimates_in_words():
    assert str(Estimate(0.23412, 0.16)) == "0.23 ± 0.16"
    assert str(Estimate(-3e-14, 2e-11)) == "-3e-14 ± 2.0e-11"
    assert str(Estimate(1.0000000123, 2e-9)) == "1.000000012 ± 2.0e-09"
    assert str(Estimate(math.nan, math.inf)) == "unknown"
    assert str(Estimate(0.5, 0.0)) == "0.5"


def judged(function, last=16, limit=None, **prediction):
    """Judge ten pairs, given by a function of depth and of a pattern over pairs."""
    ladder = powers(last)
    values = np.array([function(float(n), PATTERN) for n in ladder])
    known = None if limit is None else limits.Prediction(0.5, **prediction)
    return judge(ladder, values, np.full(len(ladder), 1e-15), known, limit)


def test_verdicts_on_sequences():
    # 1/log L converges more slowly than any power: the limit cannot be told.
    slow = judged(lambda n, u: LIMIT + 0.1 * u / np.log(n), limit=LIMIT, exponent=1.0)
    assert slow.findings[0].verdict == depth.OPEN
    left = judged(lambda n, u: LIMIT + u / n + 1e-4, limit=LIMIT, exponent=1.0)
    assert left.verdict == depth.CONTRADICTS
    assert left.remainder.admits(1e-4)
    hidden = judged(lambda n, u: LIMIT + u * n**-0.2 + 1e-3, limit=LIMIT, exponent=0.2)
    assert hidden.remainder.admits(1e-3)  # below L^-0.2 = 0.1
    far = judged(lambda n, u: LIMIT + 0.3 * u * n**-0.2 + 0.2, limit=LIMIT, exponent=0.2)
    assert far.findings[0].verdict == depth.CONTRADICTS
    # Before the law sets in, nothing is known.
    for onset, verdict in ((2.0**16, depth.OPEN), (8.0, depth.AGREES)):
        law = {"exponent": 1.0, "correction": 1.0, "onset": onset}
        assert judged(lambda n, u: LIMIT + u / n, limit=LIMIT, **law).verdict == verdict
    # Everything to one value.
    for known in ({}, {"limit": LIMIT, "exponent": 1.0}):
        same = judged(lambda n, u: 0.4 + u / n, **known)
        assert same.forgets is True
        assert same.verdict == (depth.CONTRADICTS if known else depth.OPEN)


@pytest.mark.parametrize(
    "wild",
    [
        lambda n, u: 0.5 + 0.1 * u * np.sin(np.log(n)),
        lambda n, u: 0.5 + 0.01 * u * np.log(n),
        lambda n, u: 0.5 + 0.01 * u * n**0.1,
    ],
)
def test_what_does_not_converge_has_no_limit(wild):
    report = judged(wild, limit=LIMIT, exponent=1.0)
    assert report.findings[0].verdict == depth.OPEN
    assert report.forgets is None
    assert report.verdict != depth.AGREES


@given(
    st.floats(0.02, 2.0),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.3]),
    st.integers(9, 17),
    st.booleans(),
)
def test_limits_are_never_judged_wrongly(p, b, left, last, alone):
    """limit + left + u L^-p (1 + b u L^-p), left over in one pair or in all."""
    rest = left * (np.arange(10) == 3) if alone else left

    def kernel(n, u):
        return LIMIT + rest + 0.3 * u * n**-p * (1 + b * u * n**-p)

    report = judged(kernel, last, limit=LIMIT, exponent=p, correction=p)
    found = report.findings[0]
    if left == 0:
        assert report.verdict != depth.CONTRADICTS
    if found.verdict == depth.CONTRADICTS:
        assert report.remainder.admits(left)
    elif report.remainder.uncertainty < np.inf:
        assert left <= found.largest_error
    if left > 100 * 0.3 * 2.0 ** (-p * last) and p >= 0.2:
        assert report.verdict == depth.CONTRADICTS
    if left == 0 and p >= 0.4 and last >= 12:
        assert report.verdict == depth.AGREES


@given(st.floats(0.02, 0.5), st.floats(0.01, 0.3), st.sampled_from([0.03, 0.1, 0.3]))
def test_a_spread_that_is_left_is_not_forgotten(p, left, size):
    report = judged(lambda n, u: 0.4 + u * (left + size * n**-p), 14)
    assert report.forgets is not True
