"""Kernel matrices: their normalization, and the resolution of their eigenvalues."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from .arrays import Array, ArrayT, array_module


def correlation(K: ArrayT, own: Array, other: Array) -> ArrayT:
    """Return the normalized kernel K(x,z)/√(K(x,x) K(z,z)), and 0 where K(x,x) K(z,z) ≤ 0.

    Parameters
    ----------
    K : array, (..., n, m)
        Finite, of NumPy or CuPy.
    own, other : array, (..., n) and (..., m)
        K(x,x) and K(z,z). Rounding may have made a zero slightly negative.

    Returns
    -------
    array, (..., n, m)
    """
    xp = array_module(K)
    # K(x,x) K(z,z) may overflow where its root does not: powers of 4 are multiplied last.
    own, own_powers = _mantissas(own, xp)
    other, other_powers = _mantissas(other, xp)
    product = own[..., :, None] * other[..., None, :]
    root = xp.sqrt(xp.where(product > 0, product, 1.0))
    root = xp.ldexp(root, own_powers[..., :, None] + other_powers[..., None, :])
    return xp.where(product > 0, K / root, 0.0)


def _mantissas(values: Array, xp: ModuleType) -> tuple[Array, Array]:
    """Return m and p such that max(values, 0) = 4**p · m exactly, with m in [½, 2) or 0."""
    values = xp.maximum(values, 0.0)
    powers = xp.frexp(values)[1] // 2
    return xp.ldexp(values, -2 * powers), powers


def normalize_complements(complements: np.ndarray) -> np.ndarray:
    r"""Return 1 − A(x,z)/√(A(x,x) A(z,z)) of matrices given as 1 − A, without cancellation.

    Parameters
    ----------
    complements : ndarray, (..., n, n)
        1 − A: symmetric, below 1 on the diagonal.

    Returns
    -------
    ndarray of the same shape
        0 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.matrices import normalize_complements
    >>> normalize_complements(1 - np.array([[0.5, 0.2], [0.2, 0.5]])).round(12)
    array([[0. , 0.6],
           [0.6, 0. ]])
    """
    diagonal = np.diagonal(complements, axis1=-2, axis2=-1)
    own, other = diagonal[..., :, None], diagonal[..., None, :]
    product = own + other - own * other  # 1 − A(x,x) A(z,z)
    root = np.sqrt(1.0 - product)
    result = (complements - product / (1.0 + root)) / root
    index = np.arange(complements.shape[-1])
    result[..., index, index] = 0.0
    return result


def resolution(eigenvalues: np.ndarray, eps: float) -> float:
    """Return n·eps·λ_max, below which eigenvalues of an (n, n) matrix are rounding errors.

    `eps` is the rounding unit of the numbers in the matrix (`arrays.rounding_unit`).
    """
    return len(eigenvalues) * eps * float(np.abs(eigenvalues).max())
