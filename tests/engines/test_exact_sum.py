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
        grids = exact_sum.grids(np, 2.0**exponent, len(values))
        sums = []
        for part in exact_sum.split(values, grids):
            assert math.fsum(part) == np.add.accumulate(part)[-1] == part[::-1].sum()
            sums.append(part.sum())
        return exact_sum.total(sums)

    shuffled = list(terms)
    random.shuffle(shuffled)
    assert total(terms) == total(shuffled)
    exact = float(sum(map(Fraction, terms)) * Fraction(2) ** exponent)
    # One rounding of the result, and what both grids drop: 2^-105 n² of the bound, a term.
    dropped = 2.0 ** (exponent - 100) * len(terms) ** 3
    assert abs(total(terms) - exact) <= tolerances.EPS["float64"] * abs(exact) + dropped


@given(st.integers(1, 2**33))
def test_grids_keep_the_bits_of_a_mean_as_small_as_the_bound_over_the_count(count):
    """A grid's step, the last one's too, and the room for `count` terms, counted in bits."""
    grids = exact_sum.grids(np, 1.0, count)
    steps = [math.ulp(float(grid)) for grid in grids]
    for step, coarser in zip(steps, [4.0, *steps], strict=False):
        assert count * (coarser / 2 + step) <= step * 2.0**53
    assert steps[-1] * count / 2 <= 2.0**-53
