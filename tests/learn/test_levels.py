"""Levels and sizes of training signals: the units in which other signals are near or far."""

import numpy as np
import pytest

from rescntk.learn.ensemble.levels import LevelsAndSizes
from tests import tolerances
from tests.helpers import assert_within


def walks(rng, n, channels=1):
    return rng.standard_normal((n, channels, 20)).cumsum(axis=2)


def far_away(X):
    """Return a signal whose level is far above those of others."""
    return np.full((1, *X.shape[1:]), 1e9)


def unit_of_levels(training, X, weights):
    """Return the unit of the levels of one channel, by the distance of a signal far away."""
    mean = np.average(X.mean(axis=(1, 2)), weights=weights)
    return (1e9 - mean) / training.distances(far_away(X)).levels[0]


def test_one_of_twenty_signals_is_far_from_the_mean_of_the_others(rng):
    """By means without each signal. One signal has a third of all weight."""
    X, weights = walks(rng, 60), rng.uniform(0.2, 3.0, 60)
    weights[3] = weights.sum() / 2
    levels, share = X.mean(axis=(1, 2)), weights / weights.sum()
    left_out = [
        abs(levels[k] - np.average(np.delete(levels, k), weights=np.delete(weights, k)))
        for k in range(60)
    ]
    distances = left_out / unit_of_levels(LevelsAndSizes.of(X, weights), X, weights)
    rounding = tolerances.added_up(60)
    far, at_the_limit = distances > 1 + rounding, abs(distances - 1) <= rounding
    assert share[far].sum() <= 1 / 20 < share[far | at_the_limit].sum()


def test_the_unit_of_levels_is_their_deviation_at_least(rng):
    """One level far from all others makes the deviation large, beside distances of the others."""
    X, weights = walks(rng, 60, channels=3), rng.uniform(0.5, 1.0, 60)
    X[7] += 1000.0
    distances = LevelsAndSizes.of(X, weights).distances(X).levels
    assert_within(np.average(distances**2, weights=weights), 1, tolerances.added_up(180))


@pytest.mark.parametrize("lists", [False, True])
def test_equal_levels_have_a_unit_by_what_varies_inside_of_signals(lists, rng):
    """Of signals of mean 0 and deviation 5: a shift of less than .5 is near, and of more far.

    Signals of next to no weight vary more.
    """
    X, weights = rng.standard_normal((30, 2, 40)), np.ones(30)
    X = 5 * (X - X.mean(axis=2, keepdims=True)) / X.std(axis=2, keepdims=True)
    X[20:], weights[20:] = 10 * X[20:], 1e-6
    training = LevelsAndSizes.of(list(X) if lists else X, weights)
    for shift, is_far in ((0.0, False), (0.499, False), (0.501, True)):
        assert ((training.distances(X + shift).levels > 1) == is_far).all()


def test_signals_that_are_all_equal_and_constant_have_no_unit_of_levels():
    """Any level is near: there is nothing to compare it with."""
    X = np.full((5, 1, 8), 4.0)
    assert (LevelsAndSizes.of(X, np.ones(5)).distances(X + 3).levels == 0).all()


@pytest.mark.parametrize("offset", [0.0, 3.0, 1000.0])
@pytest.mark.parametrize("gain", [0.5, 2.0])
def test_a_gain_is_far_whatever_the_offset(gain, offset, rng):
    X, Z = rng.standard_normal((40, 1, 60)), rng.standard_normal((20, 1, 60))
    training = LevelsAndSizes.of(X + offset, np.ones(40))
    near, far = (training.distances(factor * Z + offset).sizes for factor in (1.0, gain))
    assert np.median(near) < 1 < far.min()


def test_one_channel_of_many_makes_a_signal_far(rng):
    X, Z = rng.standard_normal((40, 16, 60)), rng.standard_normal((20, 16, 60))
    training = LevelsAndSizes.of(X, np.ones(40))
    faulty = Z * np.where(np.arange(16) == 5, 0.5, 1.0)[:, None]
    assert np.median(training.distances(Z).sizes) < 1 < training.distances(faulty).sizes.min()


def test_one_of_twenty_sizes_is_far_whatever_the_number_of_channels(rng):
    """Sizes of heavy tails, whose largest one of 50 channels is often far by its own unit."""
    X = rng.standard_normal((60, 50, 20)) * np.exp(rng.standard_t(3, (60, 50, 1)))
    assert np.mean(LevelsAndSizes.of(X, np.ones(60)).distances(X).sizes > 1) <= 1 / 20


@pytest.mark.parametrize("constant", [0.0, 1 / 3, 1e9])
def test_rounding_errors_of_a_constant_channel_are_no_size(constant, rng):
    X = rng.standard_normal((20, 2, 30))
    X[:, 1] = constant
    Z = X * (1 + np.finfo(float).eps * rng.integers(-1, 2, X.shape))
    training = LevelsAndSizes.of(X, np.ones(20))
    assert_within(training.distances(Z), training.distances(X), tolerances.ROUTES)


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("constant", [7.3, -1e9])
def test_a_constant_is_as_far_on_either_side(constant, lists, rng):
    """Beside a channel that varies, whose signals stay. A twentieth of the constant is near."""
    X = rng.standard_normal((20, 2, 30))
    X[:, 1] = constant
    training, Z = LevelsAndSizes.of(list(X) if lists else X, np.ones(20)), X[:10].copy()
    sizes = {}
    for factor in (1.0, 1.05, 0.95, -1.0, 3.0):
        Z[:, 1] = factor * constant
        sizes[factor] = training.distances(Z).sizes
    assert (np.maximum(sizes[1.05], sizes[0.95]) <= np.maximum(sizes[1.0], 1)).all()
    assert sizes[-1.0].min() > 1
    assert_within(sizes[-1.0], sizes[3.0], tolerances.ROUTES)


def test_any_other_value_than_a_constant_zero_is_far(rng):
    X = rng.standard_normal((20, 2, 30))
    X[:, 1] = 0.0
    training, Z = LevelsAndSizes.of(X, np.ones(20)), X.copy()
    Z[:, 1] = 1e-10
    assert training.distances(X).sizes.min() < 1 < training.distances(Z).sizes.min()


@pytest.mark.parametrize("deviation", [0.0, 0.5, 2.0])
def test_the_unit_of_sizes_is_twice_their_deviation_and_a_fifth_of_an_octave(deviation):
    """Of waves of +1 and −1, in two sizes that are as many octaves from their mean."""
    wave, n_octaves = np.resize([1.0, -1.0], (1, 1, 20)), deviation * np.resize([1, -1], (30, 1, 1))
    training = LevelsAndSizes.of(wave * 2.0**n_octaves, np.ones(30))
    for sign in (1, -1):
        Z = wave * 2.0 ** (sign * (2 * deviation + 0.2))
        assert_within(training.distances(Z).sizes, 1, tolerances.ROUTES)
