"""Fixtures: the views that estimators fit."""

import pytest

from rescntk.learn import estimator


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
