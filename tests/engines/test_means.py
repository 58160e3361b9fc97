"""Sums and means, against cases that were worked out by hand."""

import numpy as np

from rescntk.engines.layer import means
from rescntk.engines.layer.taps import Taps
from tests import tolerances
from tests.helpers import assert_within


def test_taps_begin_with_the_middle_one():
    values = np.arange(5)[None]
    found = means.at_taps(np, values, Taps(3, 2, 0), 1)
    assert [tap[0].tolist() for tap in found] == [
        [0, 1, 2, 3, 4],
        [3, 4, 0, 1, 2],
        [2, 3, 4, 0, 1],
    ]


def test_taps_that_reach_further_than_the_signal():
    found = means.at_taps(np, np.arange(3)[None], Taps(5, 4, 0), 1)  # 4 is 1 modulo 3
    assert [tap[0, 0] for tap in found] == [0, 1, 2, 1, 2]


def test_means_over_triangles_are_two_means_over_three_taps(rng):
    values = rng.standard_normal((2, 11))
    three, five = Taps(3, 2, 0), Taps(5, 2, 0, is_triangle=True)
    twice = means.mean_over_taps(np, means.mean_over_taps(np, values, three, 1), three, 1)
    assert_within(means.mean_over_taps(np, values, five, 1), twice, tolerances.ROUTES)


def test_means_of_equal_parts_are_exact():
    parts = [np.full(3, 0.1)] * 7
    assert (means.weighted_mean(parts, [1 / 7] * 7) == 0.1).all()


def test_sums_of_many_equal_parts_keep_their_digits():
    """Errors of a sum from one end to the other would grow with the number of parts."""
    n = 5000
    parts = [np.float32([0.1])] * n
    error = float(means.summed(parts)[0]) / (n * float(np.float32(0.1))) - 1
    assert abs(error) <= np.log2(n) * tolerances.EPS["float32"]


def test_compensated_sums_are_rounded_once():
    values = np.array([[1e16, 1.0, -1e16, 1.0, 2.0**-60]])
    assert means.compensated_sum(np, values)[0] == 2.0
