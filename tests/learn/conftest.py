"""Fixtures: signals of one channel, pandas, polars, and the views that estimators fit."""

import pytest

from rescntk.learn.ensemble import ensemble
from rescntk.learn.views import kernels
from tests.learn.cases import waves


@pytest.fixture
def fitted_views(monkeypatch):
    """A list that gets each `ViewRegression` that estimators fit."""
    views, fit_view = [], ensemble.fit_view

    def fit(*args):
        fitted, *results = fit_view(*args)
        views.append(fitted)
        return fitted, *results

    monkeypatch.setattr(ensemble, "fit_view", fit)
    return views


@pytest.fixture
def before_views(monkeypatch):
    """A function that has another one called before each view that estimators fit."""
    fit_view = ensemble.fit_view

    def set_call(call):
        def fit(*args):
            call()
            return fit_view(*args)

        monkeypatch.setattr(ensemble, "fit_view", fit)

    return set_call


@pytest.fixture
def folds(monkeypatch):
    """A list that gets the folds, (n_cases,), of each fit."""
    of_fits, folds_of = [], ensemble.folds_of

    def draw(*args):
        of_fits.append(folds_of(*args))
        return of_fits[-1]

    monkeypatch.setattr(ensemble, "folds_of", draw)
    return of_fits


@pytest.fixture
def little_memory(monkeypatch):
    """A function that has as few signals as possible computed at once."""

    def set_limits():
        for module in (ensemble, kernels):
            monkeypatch.setattr(module, "_NUMBERS_AT_ONCE", 1)

    return set_limits


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
