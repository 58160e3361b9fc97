"""Sums without an order, against exact fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescntk.engines import exact_sum
from tests import tolerances


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=300), st.randoms(), st.integers(-80, 80))
def test_sums_have_no_order(terms, random, exponent):
    def total(values):
        values = np.array(values) * 2.0**exponent
        coarse, fine = exact_sum.grids(np, 2.0**exponent, len(values))
        high, low = np.empty_like(values), np.empty_like(values)
        exact_sum.split(np, values, coarse, fine, high, low)
        assert math.fsum(high) == np.add.accumulate(high)[-1] == high[::-1].sum()
        return high.sum() + low.sum()

    shuffled = list(terms)
    random.shuffle(shuffled)
    assert total(terms) == total(shuffled)
    exact = float(sum(map(Fraction, terms)) * Fraction(2) ** exponent)
    # One rounding of the result, and what both grids drop: 2^-105 n² of the bound, a term.
    dropped = 2.0 ** (exponent - 100) * len(terms) ** 3
    assert abs(total(terms) - exact) <= tolerances.EPS["float64"] * abs(exact) + dropped
