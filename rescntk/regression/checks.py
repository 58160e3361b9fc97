"""Checks that several kinds of regression share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import resolution
from ..validation import check_real, check_shape


def check_case_weights(weights: Any, n: int) -> np.ndarray:
    """Return positive weights of n cases as a float64 array (n,)."""
    array = check_shape(weights, "case_weights", f"({n},)", lambda s: s == (n,))
    if (array <= 0).any():
        raise ValueError(f"case_weights has {array.min():.3g}, expected positive numbers")
    return array


def check_features(F: Any, name: str) -> np.ndarray:
    """Return features, rows of real numbers, as a float64 array (n, k)."""
    return check_shape(F, name, "(n, k)", lambda s: len(s) == 2)


def check_width(values: np.ndarray, name: str, width: int) -> np.ndarray:
    """Return an array (n, width), or raise ValueError if the number of columns is another."""
    if values.shape[1] != width:
        raise ValueError(f"{name} has {values.shape[1]} columns, expected {width} as before")
    return values


def check_cross_kernel(cross: Any, n: int) -> np.ndarray:
    """Return `cross`, kernel(Z, X), as a float64 array (m, n), or raise ValueError."""
    return check_shape(cross, "cross", f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)


def check_resolved(eigenvalues: np.ndarray, eps: float, remedy: str = "") -> None:
    """Raise ValueError if the smallest eigenvalue of K, (n,) rising, is at most n·eps·λ_max."""
    if eigenvalues[0] <= resolution(eigenvalues, eps):
        raise singular_matrix(eigenvalues, eps, remedy)


def singular_matrix(eigenvalues: np.ndarray, eps: float, remedy: str) -> ValueError:
    """Return the error of a numerically singular K, with its smallest eigenvalue and remedies."""
    n = len(eigenvalues)
    remedies = ["points that differ", remedy]
    if eps > np.finfo(np.float64).eps:
        remedies.append("a matrix in float64")
    return ValueError(
        f"K of shape {(n, n)} is numerically singular: its smallest eigenvalue (ridge included) "
        f"is {eigenvalues[0]:.3g}, expected above n·eps·λ_max = {resolution(eigenvalues, eps):.3g} "
        f"for eps = {eps:.3g} of its dtype ({' or '.join(filter(None, remedies))})"
    )


def check_nonnegative(values: Any, name: str, shape: str, finite: bool = True) -> np.ndarray:
    """Return `values`, one number or a vector of numbers of at least 0, as a float64 array."""
    expected = f"of at least 0, one or {shape}"
    array = check_real(values, name, expected, finite)
    if array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {values!r}, expected numbers {expected}")
    return array


def check_indices(values: Any, name: str, n: int) -> np.ndarray:
    """Return `values`, different integers from 0 to n − 1, as a vector."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} is {values!r}, expected a vector of integers")
    if array.min() < 0 or array.max() >= n or len(np.unique(array)) < len(array):
        raise ValueError(f"{name} is {values!r}, expected different integers from 0 to {n - 1}")
    return array.astype(np.intp, copy=False)
