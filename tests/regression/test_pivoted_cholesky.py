"""Randomly pivoted Cholesky against dense matrices, best approximations, and its own promises."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from tests import tolerances

EPS = tolerances.EPS["float64"]
N = 200


class MatrixKernel:
    """A kernel of signals that hold their index; it counts the pairs computed."""

    def __init__(self, K):
        self.K, self.pairs = K, 0

    def __call__(self, X, Z=None):
        rows = X[:, 0, 0].astype(int)
        columns = rows if Z is None else Z[:, 0, 0].astype(int)
        self.pairs += len(rows) * (len(rows) + 1) // 2 if Z is None else len(rows) * len(columns)
        return self.K[np.ix_(rows, columns)]

    def diag(self, X):
        self.pairs += len(X)
        return self.K.diagonal()[X[:, 0, 0].astype(int)]


def indices(n=N):
    return np.arange(float(n))[:, None, None]


def matrix(eigenvalues, seed=0):
    """Return a matrix with these eigenvalues and random eigenvectors."""
    n = len(eigenvalues)
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    K = (V * eigenvalues) @ V.T
    return (K + K.T) / 2


PLACES = np.arange(1.0, N + 1)
SPECTRA = {
    "slow": PLACES**-0.5,
    "kink": np.minimum(1.0, 30.0 / PLACES) ** 0.75,
    "step and noise": np.where(PLACES <= 20, 1.0, 0.1),
    "fast": PLACES**-2,
}


@pytest.mark.parametrize("name", SPECTRA)
def test_error_is_near_the_best_of_equal_rank(name):
    """With random eigenvectors and decay is fast, twice the rank replaces the factor 1.5."""
    eigenvalues, rank = SPECTRA[name], 40
    kernel = MatrixKernel(matrix(eigenvalues))
    for seed in range(3):
        low = regression.pivoted_cholesky(kernel, indices(), rank, seed=seed)
        best = rank // 2 if name == "fast" else rank
        assert low.residual <= 1.5 * eigenvalues[best:].sum()


@pytest.mark.parametrize("rank", [1, 7, 60, N])
def test_residual_landmarks_and_pairs(rank):
    K = matrix(PLACES**-1.0)
    kernel = MatrixKernel(K)
    low = regression.pivoted_cholesky(kernel, indices(), rank, seed=rank)
    left = K - low.factor @ low.factor.T
    assert low.factor.shape == (N, rank) and len(set(low.landmarks)) == rank
    assert abs(np.trace(left) - low.residual) <= 100 * N * EPS * np.trace(K)
    assert np.abs(left[low.landmarks]).max() <= 1e4 * EPS  # columns of landmarks are exact
    assert np.abs(np.triu(low.factor[low.landmarks], 1)).max(initial=0.0) <= 100 * EPS
    assert np.linalg.eigvalsh(left)[0] >= -1e3 * N * EPS
    assert kernel.pairs <= (rank + 1) * N
    again = regression.pivoted_cholesky(lambda X, Z=None: kernel(X, Z), indices(), rank, seed=rank)
    assert (again.landmarks == low.landmarks).all() and (again.factor == low.factor).all()


def test_pivots_follow_the_residual():
    """Blocks with rejection draw pairs of pivots as often as single draws do."""
    K = matrix(np.array([4.0, 2.0, 1.0, 0.5]), seed=1)
    d = K.diagonal()
    expected = np.zeros((4, 4))
    for i in range(4):
        left = np.maximum(d - K[i] ** 2 / d[i], 0.0)
        left[i] = 0.0
        expected[i] = d[i] / d.sum() * left / left.sum()
    kernel, draws, found = MatrixKernel(K), 300, np.zeros((4, 4))
    for seed in range(draws):  # two proposals a round
        i, j = regression.pivoted_cholesky(kernel, indices(4), 2, seed=seed).landmarks
        found[i, j] += 1
    error = 5 * np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(found / draws - expected) <= error).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_duplicates_stop_early(dtype, rng):
    X = np.tile(rng.standard_normal((7, 2, 8)), (5, 1, 1))
    kernel, options = rk.ResCNTK(2), {"dtype": dtype, "engine": "reference"}
    with pytest.warns(UserWarning, match="rank 7 of 20"):
        low = regression.pivoted_cholesky(kernel, X, 20, **options)
    K = kernel(X, engine="reference")
    assert low.factor.shape == (35, 7) and low.factor.dtype == np.float64
    assert np.allclose(low.factor @ low.factor.T, K, rtol=1e6 * tolerances.EPS[dtype])
    nothing = MatrixKernel(np.zeros((5, 5)))
    for diagonal in (np.zeros(5), np.ones(5)):  # the second has columns that do not follow it
        nothing.diag = lambda X, values=diagonal: values
        with pytest.warns(UserWarning, match="rank 0 of 3"):
            low = regression.pivoted_cholesky(nothing, indices(5), 3)
        assert low.factor.shape == (5, 0) and low.residual == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 201}, "rank is 201, expected at most the number of signals, 200"),
        ({"rank": 0}, "rank is 0"),
        ({"rank": 2, "seed": -1}, "seed is -1"),
        ({"rank": 2, "kernel": 3}, "kernel is 3"),
        ({"rank": 2, "kernel": MatrixKernel(-np.eye(N))}, "least value -1"),
    ],
)
def test_messages(arguments, message):
    arguments = {"kernel": MatrixKernel(np.eye(N)), "X": indices(), **arguments}
    with pytest.raises(ValueError, match=message):
        regression.pivoted_cholesky(**arguments)


def test_a_factor_larger_than_memory_is_refused(free):
    free(8 * 200 * 7 - 1)
    with pytest.raises(MemoryError, match=r"the factor, 200 × 7 numbers, takes at least"):
        regression.pivoted_cholesky(MatrixKernel(np.eye(N)), indices(), 7)


def test_many_signals_in_float32(rng):
    """A small part of the trace, below n·eps of float32, is no rounding error."""
    points, share = rng.standard_normal((5000, 1, 1)), 3e-4

    def kernel(X, Z=None):
        gaps = X[:, :, 0] - (X if Z is None else Z)[:, :, 0].T
        return (1 - share + share * np.exp(-(gaps**2))).astype(np.float32)

    assert len(points) * tolerances.EPS["float32"] > share
    low = regression.pivoted_cholesky(kernel, points, 7)
    assert len(low.landmarks) == 7
    assert low.residual <= 0.1 * share * len(points)  # the best of rank 7 leaves 0.01 to 0.02
    left = len(points) - (low.factor**2).sum()
    assert abs(left - low.residual) <= 7 * tolerances.EPS["float32"] * len(points)
