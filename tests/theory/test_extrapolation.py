"""Limits and exponents of sequences, against sequences with known ones."""

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from rescntk.theory.extrapolation import Estimate, extrapolate_limit
from rescntk.theory.power_law import fit_power_law
from tests import tolerances

EPS = tolerances.EPS["float64"]


@given(
    st.floats(0.15, 3),
    st.floats(0.15, 3),
    st.floats(-3, 3),
    st.sampled_from([0.0, 1.0, -0.3]),
    st.sampled_from([2.0, 1.5, 3.0]),
)
def test_limits_are_within_their_uncertainty(p, further, b, limit, ratio):
    """limit + L^-p + b L^-(p+further): whatever the ladder."""
    depths = np.unique(np.round(8 * ratio ** np.arange(14)))
    assume(abs(b) * depths[-1] ** -further <= 0.2)  # in the end the first term leads
    values = limit + depths**-p * (1 + b * depths**-further)
    found = extrapolate_limit(depths, values, 4 * EPS * (abs(limit) + np.abs(values)))
    assert abs(found.value - limit) <= found.uncertainty + 16 * EPS


def test_logarithms_are_not_taken_for_powers():
    depths = 2.0 ** np.arange(3, 18)
    for values in (0.3 + 1 / np.log(depths), np.log(depths), np.log(np.log(depths))):
        found = extrapolate_limit(depths, values, EPS * values)
        assert found.uncertainty >= 0.3 * abs(values[-1] - values[0]) or found.admits(0.3)
    alternating = 0.3 + (-1.0) ** np.arange(15) * depths**-0.5
    assert extrapolate_limit(depths, alternating, EPS * depths).uncertainty == math.inf
    growing = extrapolate_limit(depths, depths**0.1, EPS * depths)
    assert growing.uncertainty == math.inf


@given(st.floats(0.2, 2.5), st.floats(-2, 2), st.sampled_from([0, 1]))
def test_exponents_are_within_their_uncertainty(p, b, log_power):
    depths = 2.0 ** np.arange(4, 17)
    factor = 0.4 * np.log(depths) + b + 3 if log_power else 1 + b / np.sqrt(depths)
    values = depths**-p * factor
    found = fit_power_law(depths, values, 4 * EPS * values, log_power, p)
    assert found.tends_to_zero(math.inf)
    assert not found.stays_positive
    assert found.exponent.admits(p, 1e-6)
    assert found.constant.admits(0.4 if log_power else 1.0, 1e-6)
    assert found.exponent.uncertainty <= 0.1 * p


def test_rounding_errors_are_no_decay():
    depths = 2.0 ** np.arange(3, 15)
    values = depths**-4.0 + 1e-13 * np.random.default_rng(0).uniform(size=12)
    found = fit_power_law(depths, values, np.full(12, 1e-13))
    assert found.vanished
    assert found.tends_to_zero(0.02)
    assert found.remainder.uncertainty == 1e-13
    gone = fit_power_law(depths, values * 0, np.full(12, 1e-13))
    assert gone.vanished
    assert gone.tends_to_zero(0.02)


def test_estimates_in_words():
    assert str(Estimate(0.23412, 0.16)) == "0.23 ± 0.16"
    assert str(Estimate(-3e-14, 2e-11)) == "-3e-14 ± 2.0e-11"
    assert str(Estimate(1.0000000123, 2e-9)) == "1.000000012 ± 2.0e-09"
    assert str(Estimate(math.nan, math.inf)) == "unknown"
    assert str(Estimate(0.5, 0.0)) == "0.5"
