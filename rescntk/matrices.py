"""Kernel matrices as they come in, their correlations, and what is resolved of their spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import array_module


def correlation(K: Any, own: Any, other: Any) -> Any:
    """Return K(x,z)/√(K(x,x) K(z,z)), 0 where that is 0/0 (or K(x,x) a rounding error below).

    Parameters
    ----------
    K : array, (..., n, m)
        Finite, of NumPy or CuPy.
    own, other : array, (..., n) and (..., m)
        K(x,x) and K(z,z).

    Returns
    -------
    array, (..., n, m)
    """
    xp = array_module(K)
    # The product of two kernels may overflow where their root does not: powers of 4 wait.
    own, powers = _mantissas(own, xp)
    other, more = _mantissas(other, xp)
    product = own[..., :, None] * other[..., None, :]
    root = xp.sqrt(xp.where(product > 0, product, 1.0))
    root = xp.ldexp(root, powers[..., :, None] + more[..., None, :])
    return xp.where(product > 0, K / root, 0.0)


def _mantissas(values: Any, xp: Any) -> tuple[Any, Any]:
    """Return m and p, the values (0 if they are below) being 4**p · m, exactly."""
    values = xp.maximum(values, 0.0)
    powers = xp.frexp(values)[1] // 2
    return xp.ldexp(values, -2 * powers), powers


def resolution(eigenvalues: np.ndarray, eps: float) -> float:
    """Return n·eps·λ_max: eigenvalues of an (n, n) matrix below it are rounding errors.

    `eps` is that of the matrix as it came, its `rounding`.
    """
    return len(eigenvalues) * eps * float(np.abs(eigenvalues).max())
