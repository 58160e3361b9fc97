"""Cholesky factors of kernel matrices with noise, in units that change no digit."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..checks.values import check_finite
from .decomposition import check_condition


def cholesky(K: np.ndarray, noise: ArrayLike, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower Cholesky factor of K + noise·I in units, and the units, (n, 1).

    Units are powers of two, which change no digit of a solution. With them large beside small
    signals, or noises, are no singularity. Matrices with 1/condition of n·eps at most are refused.
    """
    matrix = check_finite(K + np.diag(np.broadcast_to(noise, len(K))))
    units = units_of(matrix.diagonal())[:, None]
    matrix /= units
    matrix /= units.T
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    norm = np.abs(matrix).sum(axis=0).max()
    reciprocal = 0.0 if failed else scipy.linalg.lapack.dpocon(factor, norm, uplo="L")[0]
    check_condition(reciprocal, len(K), eps)
    return factor, units


def units_of(variance: np.ndarray) -> np.ndarray:
    """Return powers of two near the roots of variances, 1 for 0: exact units of matrices."""
    return np.ldexp(1.0, np.frexp(variance)[1] // 2)


def in_units(y: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return columns (n, n_targets) divided by units."""
    return np.asarray(check_finite(y.reshape(len(y), -1) / units))
