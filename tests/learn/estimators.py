"""Estimators that scikit-learn's checks are run on, and what tests ask of fitted models."""

import inspect
import re

import numpy as np

from rescntk import learn
from tests import tolerances
from tests.helpers import assert_within

VIEWS = [learn.View(head="trace", standardize="point", filter_size=3, depth=1)]

ESTIMATORS = [
    learn.KernelMatrix(learn.SignalKernel(depth=1, kind="gpk", head="trace")),
    learn.LandmarkFeatures(),
    learn.ResidualKernelClassifier(VIEWS, class_weight="balanced"),
    learn.ResidualKernelRegressor(VIEWS),
    learn.ViewTransformer(VIEWS[0]),
    learn.EarlyClassifier(learn.ResidualKernelClassifier(VIEWS), n_prefixes=2),
]


def methods_of(estimator):
    """Return the names of the public methods of an estimator that need a fit."""
    return [
        name
        for name, method in inspect.getmembers(type(estimator), inspect.isfunction)
        if method.__module__.startswith("rescntk.") and not re.match("_|fit|set_output", name)
    ]


def call(model, name, X):
    """Call a method, of X if it takes signals. Other arguments have their defaults."""
    method = getattr(model, name)
    parameters = inspect.signature(method).parameters
    required = [p.name for p in parameters.values() if p.default is p.empty and p.name != "X"]
    assert not required, (
        f"{name} of {type(model).__name__} has no default of {', '.join(required)}: give it one, "
        f"or let `call` in tests/learn/estimators.py know a value"
    )
    return method(X) if "X" in parameters else method()


def fitted_views(model):
    """Return the views of a fitted model that have weight, as `ViewRegression`."""
    return model._ensemble.regressions


def assert_add_up(parts, model, X):
    """Assert that contributions to signals and the intercept add up to what is regressed."""
    if hasattr(model, "classes_"):
        decisions = model.decision_function(X)
    else:
        decisions = model.predict(X)
    for part, decision in zip(parts, decisions, strict=True):
        sums, size = part.sum(axis=1) + model.intercept_, np.abs(part).sum(axis=1)
        tolerance = tolerances.added_up(part.shape[1])
        assert_within(sums, np.atleast_1d(decision), tolerance, size)
