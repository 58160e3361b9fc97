"""Fitted attributes: what `fit` sets is what docstrings say."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from rescntk import learn
from tests.learn.cases import beginnings, ignores_scores
from tests.learn.estimators import ESTIMATORS

docscrape = pytest.importorskip("numpydoc.docscrape")

SET_FOR_TABLES = {"n_features_in_", "feature_names_in_"}
"""What scikit-learn sets for tables, and documents itself."""


def documented(kind):
    """Return the names in the section "Attributes" of a class."""
    section = docscrape.NumpyDocString(inspect.getdoc(kind))["Attributes"]
    return {name for entry in section for name in entry.name.split(", ")}


def set_by_fit(estimator, X):
    y = np.arange(len(X)) % 2
    return {name for name in vars(clone(estimator).fit(X, y)) if name.endswith("_")}


def test_the_estimators_of_tests_are_all_that_fit_signals():
    """A kernel is not fitted."""
    kinds = [value for value in map(vars(learn).get, learn.__all__) if hasattr(value, "fit")]
    assert {type(estimator) for estimator in ESTIMATORS} == set(kinds)


@ignores_scores  # of labels that the signals do not tell
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fit_sets_the_attributes_of_the_docstring(estimator, rng):
    X, _ = beginnings(rng, 20)
    assert set_by_fit(estimator, X) == documented(type(estimator))


@ignores_scores
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fit_to_tables_sets_what_scikit_learn_documents_too(estimator, rng, pd):
    X = beginnings(rng, 20)[0][:, 0]
    table = pd.DataFrame(X, columns=[f"t{k}" for k in range(X.shape[1])])
    assert set_by_fit(estimator, table) == documented(type(estimator)) | SET_FOR_TABLES
