"""The default views: a list has no view twice, begins with the shorter lists, and classifies."""

from functools import cache

import numpy as np
import pytest

from rescntk.datasets import load_labelled
from rescntk.learn import ResidualKernelClassifier
from rescntk.learn.default_views import (
    CLASSIFIER_VIEWS,
    FAST_VIEWS,
    REGRESSOR_VIEWS,
    VIEWS_OF_MANY_SIGNALS,
)


@pytest.mark.parametrize("views", [REGRESSOR_VIEWS, VIEWS_OF_MANY_SIGNALS])
def test_views_of_a_list_differ(views):
    assert len(set(views)) == len(views)


def test_shorter_lists_come_first():
    assert REGRESSOR_VIEWS[: len(CLASSIFIER_VIEWS)] == CLASSIFIER_VIEWS
    assert CLASSIFIER_VIEWS[: len(FAST_VIEWS)] == FAST_VIEWS


@cache
def model_of_gunpoint(views):
    pytest.importorskip("aeon")
    return ResidualKernelClassifier(views, random_state=0).fit(*load_labelled("GunPoint"))


@pytest.mark.slow
@pytest.mark.parametrize(("views", "least"), [("fast", 0.97), ("default", 0.98)])
def test_new_signals_of_a_set_that_ships_are_classified(views, least):
    assert model_of_gunpoint(views).score(*load_labelled("GunPoint", "test")) >= least


@pytest.mark.slow
@pytest.mark.parametrize("views", ["fast", "default"])
def test_signals_left_out_of_a_set_that_ships_are_classified(views):
    """At most two of fifty are wrong."""
    assert model_of_gunpoint(views).left_out_score_ >= 0.95


@pytest.mark.slow
def test_noise_is_novel_and_new_signals_of_a_set_that_ships_are_not():
    """Noise with the means and deviations of signals."""
    novelty = model_of_gunpoint("default").novelty
    Z, _ = load_labelled("GunPoint", "test")
    noise = np.random.default_rng(0).standard_normal(Z.shape)
    noise = Z.mean(axis=2, keepdims=True) + noise * Z.std(axis=2, keepdims=True)
    assert np.median(novelty(Z)) < 1.5 and np.median(novelty(noise)) > 10
