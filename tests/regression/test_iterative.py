"""Conjugate gradients against direct solves."""

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.linalg import aslinearoperator

from rescntk import regression
from tests.regression.problems import MatrixKernel, OnlyProducts, indices


def test_conjugate_gradients(rng):
    x, penalty = rng.uniform(-1, 1, (300, 3)), 1e-3
    K = np.exp(-2 * ((x[:, None] - x[None]) ** 2).sum(axis=2))
    low = regression.pivoted_cholesky(MatrixKernel(K), indices(300), 150)
    for Y in (rng.standard_normal((300, 3)), rng.standard_normal(300) * 1e200):
        exact, products = regression.ridge(K, Y, penalty), []
        for preconditioner in (low, low.factor, None):
            only = OnlyProducts(K)
            options = {"preconditioner": preconditioner, "max_iterations": 5000}
            found = regression.solve(only, Y, penalty, **options)
            left = np.linalg.norm((Y - K @ found - penalty * found) / np.abs(Y).max(), axis=0)
            assert (left <= 1.1e-6 * np.linalg.norm(Y / np.abs(Y).max(), axis=0)).all()
            products.append(only.products)
            tight = regression.solve(K, Y, penalty, tolerance=1e-11, **options)
            assert np.abs(tight - exact).max() <= 1e-6 * np.abs(exact).max()
        assert products[0] <= 50 and products[2] >= 150
    zero = regression.solve(aslinearoperator(K), np.zeros((300, 2)), 1.0)
    assert (zero == 0).all() and zero.shape == (300, 2)
    with pytest.warns(scipy.linalg.LinAlgWarning, match="ended at a residual of"):
        regression.solve(K, Y, penalty, max_iterations=5)
