"""Kernel matrices as they come in, and what floating-point numbers resolve of their spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_symmetric(A: Any, name: str) -> np.ndarray:
    """Return `A` as a float64 symmetric matrix, or say what is wrong with it.

    Parameters
    ----------
    A : array_like, (n, n)
        Real, finite, and symmetric up to 1e-8 of its largest entry.
    name : str
        What to call the argument.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    A = np.asarray(A)
    if A.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {A.dtype}, expected real numbers")
    A = A.astype(np.float64, copy=False)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"{name} has shape {A.shape}, expected (n, n)")
    if not np.isfinite(A).all():
        raise ValueError(f"{name} of shape {A.shape} contains NaN or infinity")
    if np.abs(A - A.T).max() > 1e-8 * np.abs(A).max():
        raise ValueError(f"{name} of shape {A.shape} is not symmetric")
    return A


def resolution(n: int, largest: float) -> float:
    """Return n·eps·λ_max: eigenvalues of an (n, n) matrix below it are rounding errors."""
    return n * float(np.finfo(np.float64).eps) * largest
