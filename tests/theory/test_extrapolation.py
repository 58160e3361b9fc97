"""Limits and exponents of sequences, against sequences with known ones."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rescntk.theory.extrapolation import STANDARD_ERRORS, Estimate, extrapolate
from rescntk.theory.power_law import Corrections, fit_constants, fit_exponent
from tests import tolerances

EPS = tolerances.EPS["float64"]


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
    corrections = Corrections.of(0.5, 1.0, depths[-1], log_power)
    found, error = fit_exponent(depths, values, 4 * EPS * values, corrections)
    assert abs(found - p) <= STANDARD_ERRORS * error <= 0.1 * p
    found, error = fit_constants(depths, values[:, None], 4 * EPS * values, p, corrections)
    assert abs(found - (0.4 if log_power else 1.0)) <= STANDARD_ERRORS * error


@pytest.mark.parametrize("depth", [2.0, 7.9])
def test_nothing_is_known_before_the_onset(depth):
    assert math.isinf(Corrections.of(0.5, 8.0, depth).remaining)
    assert Corrections.of(0.5, 8.0, 800.0).remaining == pytest.approx(1e-3)


def test_estimates_in_words():
    assert str(Estimate(0.23412, 0.16)) == "0.23 ± 0.16"
    assert str(Estimate(-3e-14, 2e-11)) == "-3e-14 ± 2.0e-11"
    assert str(Estimate(1.0000000123, 2e-9)) == "1.000000012 ± 2.0e-09"
    assert str(Estimate(math.nan, math.inf)) == "unknown"
    assert str(Estimate(0.5, 0.0)) == "0.5"
