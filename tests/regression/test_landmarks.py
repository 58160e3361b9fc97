"""Landmarks against the best approximations, and the distribution of their draws."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from tests import tolerances
from tests.helpers import assert_within
from tests.regression.problems import MatrixKernel, indices, matrix

EPS = tolerances.EPS["float64"]


@pytest.mark.parametrize("rank", [1, 60, 200])
def test_residual_landmarks_and_pairs(rank):
    eigenvalues = np.arange(1.0, 201) ** -0.5
    K = matrix(eigenvalues)
    kernel = MatrixKernel(K)
    low = regression.pivoted_cholesky(kernel, indices(200), rank, rng=rank)
    left = K - low.factor @ low.factor.T
    assert low.factor.shape == (200, rank) and len(set(low.pivots)) == rank
    assert abs(np.trace(left) - low.residual) <= 2e4 * EPS * np.trace(K)
    assert np.abs(left[low.pivots]).max() <= 1e4 * EPS  # columns of landmarks are exact
    assert np.abs(np.triu(low.factor[low.pivots], 1)).max(initial=0.0) <= 100 * EPS
    assert kernel.pairs <= (rank + 1) * 200
    assert low.residual <= 1.5 * eigenvalues[rank:].sum() + 2e4 * EPS  # near the best of equal rank
    again = regression.pivoted_cholesky(kernel, indices(200), rank, rng=rank)
    assert (again.pivots == low.pivots).all() and (again.factor == low.factor).all()


def test_pivots_follow_the_residual():
    """Blocks with rejection draw pairs of pivots as often as single draws do."""
    K = matrix(np.array([4.0, 2.0, 1.0, 0.5]), seed=1)
    d, draws = K.diagonal(), 300
    expected, found = np.zeros((2, 4, 4))
    for i in range(4):
        left = np.where(np.arange(4) == i, 0.0, d - K[i] ** 2 / d[i])
        expected[i] = d[i] / d.sum() * left / left.sum()
    for seed in range(draws):
        i, j = regression.pivoted_cholesky(MatrixKernel(K), indices(4), 2, seed).pivots
        found[i, j] += 1
    error = tolerances.STANDARD_ERRORS * np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(found / draws - expected) <= error).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_signals_are_one_landmark(dtype, rng):
    X, kernel = np.tile(rng.standard_normal((7, 2, 8)), (5, 1, 1)), rk.ResCNTK(2)
    with pytest.warns(UserWarning, match="rank 7 of 20"):
        low = regression.pivoted_cholesky(kernel, X, 20, dtype=dtype)
    assert low.factor.shape == (35, 7)
    assert_within(low.factor @ low.factor.T, kernel(X), tolerances.KERNEL[dtype])


@pytest.mark.parametrize(
    "shapes", [[(2, d) for d in (5, 3, 7, 5, 4, 6)], [(2, 3, 4)] * 6], ids=["lists", "images"]
)
def test_landmarks_of_lists_and_images(shapes, rng):
    signals = [rng.standard_normal(shape) for shape in shapes]
    signals = signals if len(shapes[0]) == 2 else np.stack(signals)
    low, K = regression.pivoted_cholesky(rk.ResCGPK(3), signals, 4), rk.ResCGPK(3)(signals)
    assert_within(
        np.trace(K - low.factor @ low.factor.T), low.residual, tolerances.ROUTES, np.trace(K)
    )
