"""The Gaussian process of a pass: its variance at new signals, and its form in files."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from ..engines.kept import once
from ..regression import Decomposition, decompose

_LEVEL = 1
"""Level of zlib's compression, from 1 to 9. Raising it takes more time. Measured with five passes
over 800 signals: 3.88 MB with 1, 3.79 MB with 6."""


class Process:
    """A Gaussian process of prior variance 1, conditioned on noisy observations at n points.

    It keeps the kernel matrix's lower triangle, n(n + 1)/2 numbers of the kernel's dtype. A file
    has them without loss in some 2.5 bytes for each of float32, of which the first bytes are alike.
    The factor of the matrix is made when it is first used, by one thread: its bits do not depend
    on the machine's cores.

    Parameters
    ----------
    matrix : ndarray, (n, n)
        K, symmetric.
    penalty : float
        Variance λ of the noise.
    case_weights : ndarray, (n,)
        Weights w of the points, whose noise has the variances λ/w.
    """

    def __init__(self, matrix: np.ndarray, penalty: float, case_weights: np.ndarray) -> None:
        self.triangle = matrix[np.tril_indices(len(matrix))]
        self.penalty, self.case_weights = penalty, case_weights

    def variance(self, cross: np.ndarray) -> np.ndarray:
        """Return the variance at new points, (m,), from their kernels with the n points, (m, n)."""
        if isinstance(self._solved, Decomposition):
            return self._solved.variance(cross, 1.0, self.penalty)
        parts, _ = scipy.linalg.lapack.dtrtrs(self._solved, cross.T, lower=1)
        return np.maximum(1.0 - (parts * parts).sum(axis=0), 0.0)  # rounding errors may be below 0

    def variance_slopes(self, cross: np.ndarray) -> np.ndarray:
        """Return the derivatives of `variance` by the kernels of each new point, (m, n)."""
        if isinstance(self._solved, Decomposition):
            return -2.0 * self._solved.coefficients(cross.T, self.penalty).T
        return -2.0 * np.asarray(scipy.linalg.cho_solve((self._solved, True), cross.T)).T

    @property
    def matrix(self) -> np.ndarray:
        """The kernel matrix K, (n, n), in float64."""
        n = len(self.case_weights)
        lower = np.zeros((n, n))
        lower[np.tril_indices(n)] = self.triangle
        return lower + np.tril(lower, -1).T

    @once
    def _solved(self) -> np.ndarray | Decomposition:
        """The Cholesky factor of K + λW⁻¹; if a small λ leaves it singular, K decomposed."""
        matrix = self.matrix
        noisy = matrix + np.diag(self.penalty / self.case_weights)
        with threadpool_limits(1, "blas"):
            try:
                return np.asarray(scipy.linalg.cholesky(noisy, lower=True, overwrite_a=True))
            except np.linalg.LinAlgError:
                return decompose(matrix, self.case_weights, clip=True)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_solved"}
        little = self.triangle.astype(self.triangle.dtype.newbyteorder("<"), copy=False)
        rows = little.view(np.uint8).reshape(len(little), -1).T  # first bytes, second bytes, …
        packed = zlib.compress(np.ascontiguousarray(rows).data, _LEVEL)
        return state | {"triangle": (little.dtype.str, packed)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        dtype, packed = state["triangle"]
        rows = np.frombuffer(zlib.decompress(packed), np.uint8)
        columns = np.ascontiguousarray(rows.reshape(np.dtype(dtype).itemsize, -1).T)
        triangle = columns.view(dtype)[:, 0]
        native = triangle.astype(triangle.dtype.newbyteorder("="), copy=False)
        self.__dict__.update(state | {"triangle": native})
