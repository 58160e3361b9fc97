"""Landmarks against the best approximations, and the distribution of their draws."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from tests import tolerances
from tests.helpers import assert_within
from tests.regression.problems import MatrixKernel, indices, matrix

EPS = tolerances.EPS["float64"]


EIGENVALUES = np.arange(1.0, 201) ** -0.5
K = matrix(EIGENVALUES)

OF_ENTRIES = 1e4 * EPS
"""Error of entries of K − F Fᵀ: sums of up to 200 products, times growth of the factorization."""


@pytest.fixture(scope="module", params=[1, 60, 200])
def approximation(request):
    """Return a rank, its approximation, and the number of pairs computed."""
    rank, kernel = request.param, MatrixKernel(K)
    low = regression.pivoted_cholesky(kernel, indices(200), rank, rng=rank)
    return rank, low, kernel.pairs


def test_landmarks_differ_and_have_the_rank(approximation):
    rank, low, _ = approximation
    assert low.factor.shape == (200, rank) and len(set(low.pivots)) == rank


def test_the_residual_is_the_trace(approximation):
    _, low, _ = approximation
    trace = np.trace(K - low.factor @ low.factor.T)
    assert abs(trace - low.residual) <= 2 * OF_ENTRIES * np.trace(K)


def test_columns_of_landmarks_are_exact(approximation):
    _, low, _ = approximation
    assert np.abs((K - low.factor @ low.factor.T)[low.pivots]).max() <= OF_ENTRIES


def test_rows_of_landmarks_are_lower_triangular(approximation):
    _, low, _ = approximation
    above = np.triu(low.factor[low.pivots], 1)
    assert np.abs(above).max(initial=0.0) <= tolerances.ROUTES


def test_landmarks_compute_a_column_each_and_the_diagonal(approximation):
    rank, _, pairs = approximation
    assert pairs <= (rank + 1) * 200


def test_landmarks_are_near_the_best_of_equal_rank(approximation):
    rank, low, _ = approximation
    assert low.residual <= 1.5 * EIGENVALUES[rank:].sum() + 2 * OF_ENTRIES


def test_equal_seeds_give_equal_landmarks(approximation):
    rank, low, _ = approximation
    again = regression.pivoted_cholesky(MatrixKernel(K), indices(200), rank, rng=rank)
    assert (again.pivots == low.pivots).all() and (again.factor == low.factor).all()


@pytest.mark.slow
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


@pytest.mark.parametrize("small", [1e-13, 1e-30])
def test_small_signals_are_landmarks_too(small):
    """Entries of a diagonal matrix are independent, however small some are beside others."""
    K = np.diag([1.0, small, 0.0, 2 * small])
    with pytest.warns(UserWarning, match="rank 3 of 4"):  # a signal of 0 explains nothing
        low = regression.pivoted_cholesky(MatrixKernel(K), indices(4), 4)
    assert sorted(low.pivots) == [0, 1, 3] and low.residual == 0


def test_signals_that_are_nearly_equal_are_landmarks():
    """What one leaves of the other is 1e-12, which is no rounding error."""
    near = 1 - 5e-13
    K = np.array([[1.0, near], [near, 1.0]])
    assert len(regression.pivoted_cholesky(MatrixKernel(K), indices(2), 2).pivots) == 2


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
