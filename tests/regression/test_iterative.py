"""Conjugate gradients against direct solves."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.linalg import aslinearoperator

from rescntk import regression
from tests.regression.problems import MatrixKernel, OnlyProducts, indices

PENALTY = 1e-3

RESIDUAL = 1e-6
"""The default tolerance of `solve`, of residuals in units of y."""


@pytest.fixture(scope="module")
def K():
    x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    return np.exp(-2 * ((x[:, None] - x[None]) ** 2).sum(axis=2))


@pytest.fixture(scope="module")
def preconditioners(K):
    low = regression.pivoted_cholesky(MatrixKernel(K), indices(300), 150)
    return {"low rank": low, "factor": low.factor, "none": None}


@pytest.fixture(params=["several targets", "one target of 1e200"])
def Y(request, rng):
    several = request.param == "several targets"
    return rng.standard_normal((300, 3)) if several else rng.standard_normal(300) * 1e200


NAMES = pytest.mark.parametrize("name", ["low rank", "factor", "none"])


@NAMES
def test_residuals_are_within_the_tolerance(name, K, preconditioners, Y):
    options = {"preconditioner": preconditioners[name], "max_iterations": 5000}
    found = regression.solve(K, Y, PENALTY, **options)
    unit = np.abs(Y).max()
    left = np.linalg.norm((Y - K @ found - PENALTY * found) / unit, axis=0)
    # Iterations update residuals, whose rounding errors are a small part of the tolerance.
    assert (left <= 1.1 * RESIDUAL * np.linalg.norm(Y / unit, axis=0)).all()


@NAMES
def test_solutions_are_those_of_ridge(name, K, preconditioners, Y):
    options = {"preconditioner": preconditioners[name], "max_iterations": 5000}
    tight = regression.solve(K, Y, PENALTY, tolerance=1e-11, **options)
    # Errors are the residual over the penalty, 1e-8, in the norm of 300 numbers.
    bar = 1e-6
    exact = regression.ridge(K, Y, PENALTY)
    assert np.abs(tight - exact).max() <= bar * np.abs(exact).max()


def test_preconditioners_save_products(K, preconditioners, Y):
    """Of a matrix of which only products are known."""
    products = {}
    for name, preconditioner in preconditioners.items():
        only = OnlyProducts(K)
        options = {"preconditioner": preconditioner, "max_iterations": 5000}
        regression.solve(only, Y, PENALTY, **options)
        products[name] = only.products
    assert products["low rank"] <= 50 and products["none"] >= 150


def test_zeros_have_the_solution_zero(K):
    zero = regression.solve(aslinearoperator(K), np.zeros((300, 2)), 1.0)
    assert (zero == 0).all() and zero.shape == (300, 2)


@pytest.mark.parametrize(("over", "warns"), [(9.0, False), (11.0, True)])
def test_residuals_above_ten_times_the_tolerance_warn(over, warns, K, Y):
    """Five iterations leave a residual; the tolerance is a part of it."""
    solve = partial(regression.solve, K, Y, PENALTY, max_iterations=5)
    with pytest.warns(scipy.linalg.LinAlgWarning):
        A, unit = solve(), np.abs(Y).max()
    left = np.linalg.norm((Y - K @ A - PENALTY * A) / unit, axis=0)
    tolerance = (left / np.linalg.norm(Y / unit, axis=0)).max() / over
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(tolerance=tolerance)
    assert ["ended at a residual of" in str(warning.message) for warning in caught] == [
        True
    ] * warns
