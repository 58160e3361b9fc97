"""Kernel matrices as they come in, their correlations, and what is resolved of their spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np

from .signals import array_module, check_real


def check_symmetric(A: Any, name: str) -> np.ndarray:
    """Return `A` as a float64 symmetric matrix, or say what is wrong with it.

    Parameters
    ----------
    A : array_like, (n, n)
        Real, finite, and symmetric up to √eps of its largest entry, eps that of its dtype.
    name : str
        What to call the argument.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    given, A = A, check_real(A, name, "(n, n)")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"{name} has shape {A.shape}, expected (n, n)")
    if np.abs(A - A.T).max() > np.sqrt(rounding(given)) * np.abs(A).max():
        raise ValueError(f"{name} of shape {A.shape} is not symmetric")
    return A


def check_kernel(kernel: Any) -> None:
    """Say so if this is not a kernel, but a network, say."""
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or another callable")


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


def rounding(values: Any) -> float:
    """Return eps of the dtype in which numbers came, which casting them to float64 forgets."""
    dtype = np.asarray(values).dtype
    own = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    return max(own, float(np.finfo(np.float64).eps))


def resolution(eigenvalues: np.ndarray, eps: float) -> float:
    """Return n·eps·λ_max: eigenvalues of an (n, n) matrix below it are rounding errors.

    `eps` is that of the matrix as it came, its `rounding`.
    """
    return len(eigenvalues) * eps * float(np.abs(eigenvalues).max())
