"""Checks of kernel matrices, of their eigenvalues, and of features."""

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


def check_two_values(y: np.ndarray) -> None:
    """Raise ValueError if targets have one value alone, which a fitted constant takes up."""
    if len(y) == 1:
        raise ValueError(f"y has shape {y.shape}, expected two values: one is the intercept")


def check_features(F: Any, name: str) -> np.ndarray:
    """Return features, rows of real numbers, as a float64 array (n, k)."""
    return check_shape(F, name, "(n, k)", lambda s: len(s) == 2)


def check_rows(values: np.ndarray, name: str, n: int) -> np.ndarray:
    """Return an array (n, ...), or raise ValueError if the number of rows is another."""
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} rows, expected {n} as X")
    return values


def check_width(values: np.ndarray, name: str, width: int) -> np.ndarray:
    """Return an array (n, width), or raise ValueError if the number of columns is another."""
    if values.shape[1] != width:
        raise ValueError(f"{name} has {values.shape[1]} columns, expected {width} as before")
    return values


def check_cross_kernel(cross: Any, n: int) -> np.ndarray:
    """Return `cross`, kernel(Z, X), as a float64 array (m, n), or raise ValueError."""
    return check_shape(cross, "cross", f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)


def check_prior_variance(prior: Any, m: int) -> np.ndarray:
    """Return `prior`, kernel.diag(Z), as a float64 array (m,), or raise ValueError."""
    return check_shape(prior, "prior", f"({m},)", lambda s: s == (m,))


def check_posterior_variance(variance: np.ndarray, prior: np.ndarray, eps: float) -> None:
    """Raise ValueError if a variance lies below −√eps times its prior: no rounding error does."""
    relative = np.where(variance < 0, -np.inf, 0.0)  # where the prior is 0
    with np.errstate(over="ignore"):
        np.divide(variance, prior, out=relative, where=prior > 0)
    worst = int(np.argmin(relative))
    if relative[worst] < -np.sqrt(eps):
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {worst} would "
            f"be {variance[worst]:.3g}, expected matrices of one kernel"
        )


def check_semidefinite(eigenvalues: np.ndarray, eps: float) -> None:
    """Raise ValueError if the smallest eigenvalue of K, (n,) rising, is clearly below 0.

    The bound is −10·n·eps·λ_max. An eigendecomposition errs by about n·eps·λ_max; the factor 10
    leaves room for the rounding errors of the kernel matrix itself.
    """
    n = len(eigenvalues)
    if eigenvalues[0] < -10 * resolution(eigenvalues, eps):
        remedy = resolution(eigenvalues, eps) - eigenvalues[0]
        raise ValueError(
            f"K of shape {(n, n)} has the eigenvalue {eigenvalues[0]:.3g}, "
            f"expected a positive semidefinite matrix (more than {remedy:.3g} added to the "
            f"diagonal, regression.solve with such a ridge, or regression.decompose(K, clip=True), "
            f"which takes eigenvalues below 0 as 0)"
        )


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


def unresolved_features(shape: tuple[int, int], found: float, least: float) -> ValueError:
    """Return the error of features, (n, k), whose ridge regression has no unique solution."""
    return ValueError(
        f"F of shape {shape} has linearly dependent columns: the smallest squared singular value "
        f"plus the ridge is {found:.3g} times the largest, expected above {least:.3g} (a larger "
        f"ridge, more rows or fewer columns)"
    )


def unresolved_leverage(leverages: np.ndarray) -> ValueError:
    """Return the error of a row of features that its leave-one-out fit knows nothing about."""
    return ValueError(
        f"F has a row of leverage {leverages.max():.6g} up to rounding errors, expected below 1: "
        f"no other row tells about one direction of the features (a larger ridge, more rows or "
        f"fewer columns)"
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
