"""The default views: a list has no view twice, begins with the shorter lists, and classifies."""

import warnings
from functools import cache

import numpy as np
import pytest

from rescntk.datasets import load_labelled
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from rescntk.learn.views.defaults import (
    CLASSIFIER_VIEWS,
    COVARIANCES,
    FAST_VIEWS,
    REGRESSOR_DEFAULTS,
    with_savings,
)
from tests import tolerances
from tests.helpers import assert_within


def test_shorter_lists_come_first():
    assert REGRESSOR_DEFAULTS["default"][: len(CLASSIFIER_VIEWS)] == CLASSIFIER_VIEWS
    assert CLASSIFIER_VIEWS[: len(FAST_VIEWS)] == FAST_VIEWS


@pytest.mark.parametrize("views", [FAST_VIEWS, CLASSIFIER_VIEWS, REGRESSOR_DEFAULTS["default"]])
def test_no_list_has_a_view_twice(views):
    assert len(set(views)) == len(views)


ERRORS = {
    "regressor": (
        REGRESSOR_DEFAULTS["default"],
        [
            0.01543,
            1.39435,
            1.28343,
            0.47133,
            0.81577,
            0.02285,
            0.63496,
            1.13614,
            0.15982,
            1.19845,
            0.33263,
            0.01161,
            0.49938,
            0.04959,
            0.65424,
            0.25932,
            2.94353,
        ],
    ),
    "many signals": (
        [view for view in [*with_savings(FAST_VIEWS)][-1] if view not in FAST_VIEWS],
        [0.01653, 0.93958],
    ),
    "several channels": ([COVARIANCES], [0.34816]),
}
"""Leave-one-out errors of each view on twelve bursts, when `benchmarks/results` were measured.
Who changes a view on purpose measures these results again."""


@pytest.mark.parametrize(("views", "errors"), ERRORS.values(), ids=ERRORS)
def test_default_views_are_those_of_published_results(views, errors):
    """Each of them; signals are longer than twice what any view sees."""
    n, rng, time = 12, np.random.default_rng(0), np.linspace(0.0, 1.0, 4200)
    frequency = np.linspace(1.0, 2.0, n)
    phase, place = rng.uniform(0.0, 6.0, (n, 1)), rng.uniform(0.3, 0.7, (n, 1))
    waves = np.sin(40 * np.pi * frequency[:, None] * time + phase)
    noise = 0.1 * rng.standard_normal((n, 4200))
    X = waves * np.exp(-(((time - place) / 0.2) ** 2)) + noise + 0.3 * place
    if COVARIANCES in views:  # channels see the bursts one after the other
        X = np.stack([np.roll(X, 150 * k, axis=1) for k in range(3)], axis=1)
    options = {"penalty": 0.01, "dtype": "float64", "random_state": 0}
    with warnings.catch_warnings(action="ignore"):  # some views find nothing here
        found = [
            ResidualKernelRegressor([view], **options).fit(X, frequency).views_["error"][0]
            for view in views
        ]
    assert_within(found, errors, tolerances.printed(5), 1)


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
