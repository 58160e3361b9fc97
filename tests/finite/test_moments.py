"""Moments of rectified Gaussians, against one integral over directions and a known probability."""

import math
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from rescntk.finite.moments import TwoNumbers, of_four_numbers
from tests import tolerances

OF_PRODUCTS, OF_MIXED, OF_SLOPES = 1e-10, 1e-6, 3e-6
"""Errors of the integrals, which are greatest where numbers are nearly multiples of each other."""

OF_ORACLE = 1e-12
"""Of sums of up to eight integrals that err by 1e-13 each."""

ANGLES = (0.0, 0.7, 1.9, 0.7 + 1e-3, math.pi, 4.0)
SIZES = np.array([1.0, 0.5, 2.0, 1.0, 3.0, 0.1])


def moments(S):
    two = TwoNumbers(np.asarray(S)[..., None])
    return two, [values[..., 0] for values in of_four_numbers(two)]


def in_the_plane(places, powers):
    """Return E[Π σ^(power) σ'^(1 − power)] of numbers r cos(φ − angle): r² has the mean 2."""
    turns = np.add.outer([ANGLES[k] for k in places], [-math.pi / 2, math.pi / 2])
    kinks = np.unique(turns % (2 * math.pi))

    def around(phi):
        numbers = [math.cos(phi - ANGLES[k]) for k in places]
        return math.prod(max(u, 0.0) ** p * (u > 0) for u, p in zip(numbers, powers, strict=True))

    ends = [0.0, *kinks, 2 * math.pi]
    total = sum(quad(around, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends))
    degree = sum(powers)
    radius = 2 ** (degree / 2) * math.gamma(degree / 2 + 1)
    sizes = math.prod(SIZES[k] ** p for k, p in zip(places, powers, strict=True))
    return sizes * radius * total / (2 * math.pi)


def test_numbers_of_a_plane_by_an_integral_over_directions():
    """Multiples of each other, opposite and nearly equal ones among them."""
    V = SIZES[:, None] * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    two, (products, mixed, slopes) = moments(V @ V.T)
    for places in combinations_with_replacement(range(len(ANGLES)), 4):
        a, b, c, d = places
        size = math.prod(SIZES[k] for k in places)
        assert abs(products[places] - in_the_plane(places, (1, 1, 1, 1))) <= OF_PRODUCTS * size
        assert abs(slopes[places] - in_the_plane(places, (0, 0, 0, 0))) <= OF_SLOPES
        for order in ((a, b, c, d), (c, d, a, b), (a, c, b, d)):
            expected = in_the_plane(order, (1, 1, 0, 0))
            assert abs(mixed[order] - expected) <= OF_MIXED * SIZES[order[0]] * SIZES[order[1]]
    for a, b in product(range(len(ANGLES)), repeat=2):
        exact = in_the_plane((a, b), (1, 1)), in_the_plane((a, b), (0, 0))
        assert abs(two.products[a, b, 0] - exact[0]) <= OF_ORACLE * SIZES[a] * SIZES[b]
        assert abs(two.slopes[a, b, 0] - exact[1]) <= OF_ORACLE


@pytest.mark.parametrize(("rho", "probability"), [(0.0, 1 / 16), (0.5, 1 / 5)])
def test_four_numbers_of_one_correlation_are_positive_with_a_known_probability(rho, probability):
    """1/16 of independent ones; 1/5 at ½, where the least of five equal numbers is the fifth."""
    _, (_, _, slopes) = moments(np.full((4, 4), rho) + (1 - rho) * np.eye(4))
    of_angles = 1e-8  # far from multiples the integral converges like that
    assert abs(slopes[0, 1, 2, 3] - probability) <= of_angles


@pytest.mark.parametrize("seed", range(3))
def test_four_numbers_by_their_distribution_and_by_derivatives(seed):
    """Price's theorem: the derivatives by covariances of one moment are another."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((4, 5))
    S = V @ V.T
    _, (_, mixed, slopes) = moments(S)
    expected = multivariate_normal(cov=S, abseps=1e-6, releps=1e-6).cdf(np.zeros(4))
    of_sampling = 1e-5  # SciPy integrates by random points
    assert abs(slopes[0, 1, 2, 3] - expected) <= of_sampling
    step = 1e-4

    def change(name, i, j):
        ends = []
        for sign in (1, -1):
            moved = S.copy()
            moved[i, j] = moved[j, i] = S[i, j] + sign * step
            ends.append(moments(moved)[1][name])
        return (ends[0] - ends[1]) / (2 * step)

    of_step = 1e-6  # the square of the step times third derivatives, of order 1 to 100
    assert abs(change(0, 2, 3)[0, 1, 2, 3] - mixed[0, 1, 2, 3]) <= of_step
    assert abs(change(1, 0, 1)[0, 1, 2, 3] - slopes[0, 1, 2, 3]) <= of_step


def test_sampled_numbers():
    rng, number = np.random.default_rng(0), 400_000
    V = rng.standard_normal((4, 4))
    u = rng.standard_normal((number, 4)) @ V.T
    _, (products, mixed, _) = moments(V @ V.T)
    ramps, steps = np.maximum(u, 0), u > 0
    for values, exact in (
        (ramps.prod(axis=1), products[0, 1, 2, 3]),
        (ramps[:, 0] * ramps[:, 2] * steps[:, 1] * steps[:, 3], mixed[0, 2, 1, 3]),
    ):
        error = values.std() / np.sqrt(number)
        assert abs(values.mean() - exact) <= tolerances.STANDARD_ERRORS * error
        assert error <= 0.05 * exact  # the test has teeth
