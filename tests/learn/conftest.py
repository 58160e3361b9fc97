"""Fixtures: signals of one channel, pandas, polars, and the views that estimators fit."""

import pytest

from rescntk.learn import estimator
from tests.learn.cases import waves


@pytest.fixture
def fitted_views(monkeypatch):
    """A list that gets each `FittedView` that estimators fit."""
    views, fit_view = [], estimator.fit_view

    def fit(*args):
        fitted, *results = fit_view(*args)
        views.append(fitted)
        return fitted, *results

    monkeypatch.setattr(estimator, "fit_view", fit)
    return views


@pytest.fixture
def flat(rng):
    """Twenty signals of one channel, (n_cases, n_timepoints), and labels."""
    X, y = waves(rng, 20, 2)
    return X[:, 0], y


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture
def pl():
    return pytest.importorskip("polars")
