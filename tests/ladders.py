"""Ladders of depths, and the pairs of a kernel matrix, for tests of limits."""

import numpy as np


def powers(last):
    """Return the depths 8, 16, …, 2^last."""
    return tuple(2**k for k in range(3, last + 1))


SHORT = powers(11)


def pairs(A):
    """Return the entries of a matrix (n, n) above its diagonal."""
    return A[np.triu_indices(len(A), 1)]
