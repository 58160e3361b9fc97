"""Every parameter and every public method of each estimator: what they refuse, what they leave."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tests.learn.cases import beginnings, ignores_scores
from tests.learn.estimators import ESTIMATORS, call, methods_of

pytestmark = ignores_scores  # of signals that begin anywhere

METHODS = [(estimator, name) for estimator in ESTIMATORS for name in methods_of(estimator)]
"""Estimators, each with the name of a public method that needs a fit."""

PARAMETERS = [(estimator, name) for estimator in ESTIMATORS for name in estimator.get_params(False)]


def named(pairs):
    """Return the argument `ids` of pairs of an estimator and a name."""
    return [f"{type(estimator).__name__}.{name}" for estimator, name in pairs]


def fitted(estimator, rng):
    """Return an estimator that is fitted to signals of one channel, and the signals."""
    X, y = beginnings(rng, 20)
    return clone(estimator).fit(X, y), X


def test_some_methods_are_tried():
    assert {"predict_proba", "predict_interval", "transform", "decide"} <= {n for _, n in METHODS}


def test_a_method_that_cannot_be_tried_without_an_argument_fails_by_its_name():
    class Model:
        def decide(self, X, limit):
            return X

    with pytest.raises(AssertionError, match="decide of Model has no default of limit: give it"):
        call(Model(), "decide", None)


@pytest.mark.parametrize(("estimator", "name"), PARAMETERS, ids=named(PARAMETERS))
def test_a_wrong_parameter_is_refused_by_name(estimator, name, rng):
    """scikit-learn refuses seeds in its own words."""
    X, y = beginnings(rng, 20)
    with pytest.raises(ValueError, match=f"^{name} is|cannot be used to seed"):
        clone(estimator).set_params(**{name: object()}).fit(X, y)


@pytest.mark.parametrize(("estimator", "name"), METHODS, ids=named(METHODS))
def test_methods_before_fit_are_refused(estimator, name, rng):
    says = f"This {type(estimator).__name__} instance is not fitted yet"
    with pytest.raises(NotFittedError, match=says):
        call(clone(estimator), name, rng.standard_normal((5, 1, 32)))


SIGNAL_METHODS = [pair for pair in METHODS if "X" in inspect.signature(getattr(*pair)).parameters]


@pytest.mark.parametrize(("estimator", "name"), SIGNAL_METHODS, ids=named(SIGNAL_METHODS))
def test_methods_refuse_signals_of_another_shape(estimator, name, rng):
    model, X = fitted(estimator, rng)
    with pytest.raises(ValueError, match="X has signals of 3 channels × 32 time points, expected"):
        call(model, name, np.repeat(X, 3, axis=1))


@pytest.mark.parametrize(("estimator", "name"), METHODS, ids=named(METHODS))
def test_methods_leave_the_model_as_it_was(estimator, name, rng):
    model, X = fitted(estimator, rng)
    before = pickle.dumps(model)
    call(model, name, X)
    assert pickle.dumps(model) == before
