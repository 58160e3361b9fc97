"""Kernel matrices as they come in, and what floating-point numbers resolve of their spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np

from .signals import check_real


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
