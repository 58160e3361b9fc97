"""Problems that tests of regression share: kernel matrices, kernels and bars on errors."""

import numpy as np

import rescntk as rk
from tests import tolerances


def problem(rng, n=12, targets=3):
    """Return a network's kernel matrix of random signals, and values."""
    K = rk.ResCNTK(3, head="trace")(rng.standard_normal((n, 2, 6)))
    return K, rng.standard_normal((n, targets)) + 5.0


def close(found, expected, condition):
    bar = tolerances.solution(len(expected), condition) * np.abs(expected).max()
    assert found.shape == np.shape(expected)
    assert np.abs(found - expected).max() <= bar


class MatrixKernel:
    """A kernel of signals that hold their index; it counts the pairs computed."""

    def __init__(self, K):
        self.K, self.pairs = K, 0

    def __call__(self, X, Z=None):
        rows, columns = (S[:, 0, 0].astype(int) for S in (X, X if Z is None else Z))
        self.pairs += len(rows) * (len(rows) + 1) // 2 if Z is None else len(rows) * len(columns)
        return self.K[np.ix_(rows, columns)]

    def diag(self, X):
        self.pairs += len(X)
        return self.K.diagonal()[X[:, 0, 0].astype(int)]


def indices(n):
    return np.arange(float(n))[:, None, None]


def matrix(eigenvalues, seed=0):
    """Return a matrix with these eigenvalues and random eigenvectors."""
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))[0]
    K = (V * eigenvalues) @ V.T
    return (K + K.T) / 2


class OnlyProducts:
    """A matrix that can only be multiplied; it counts the products."""

    def __init__(self, K):
        self.K, self.shape, self.products = K, K.shape, 0

    def __matmul__(self, V):
        self.products += 1
        return self.K @ V
