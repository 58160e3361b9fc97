"""Conjugate gradients: (K + λI) A + 1b = Y from products with K alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..progress import warn
from ..validation import check_constant, check_depth, check_positive, check_shape, check_targets
from .checks import powers_of_targets


class Solution(NamedTuple):
    """The result of `solve` for (K + λI) A + 1b = Y, with 1ᵀA = 0 if there is an intercept b."""

    coefficients: np.ndarray
    """A, of the shape of Y"""
    residuals: np.ndarray
    """‖Y − (K + λI) A − 1b‖ / ‖Y‖ of each target, () or (n_targets,), from one more product with
    K; 0 where Y is 0. With an intercept the divisor is ‖Y − mean(Y)‖."""
    iterations: int
    """Number of products with K before the last; 0 by Cholesky"""
    history: np.ndarray
    """(iterations + 1,) or (iterations + 1, n_targets): the recursion's own residuals"""
    intercepts: Any = 0.0
    """b, () or (n_targets,); 0 without an intercept"""
    errors: np.ndarray | None = None
    """Leave-one-out errors, of the shape of Y; None if not asked for"""


def conjugate_gradients(
    K: Any,
    y: np.ndarray,
    ridge: float,
    *,
    intercept: bool,
    preconditioner: Any,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    r"""Return the `Solution` A of :math:`(K + \lambda I) A = Y`; `solve` has the arguments.

    Each iteration multiplies K once, for all targets. Each target stops at the tolerance.
    ``docs/theory/large_grams.md`` has the formulas, also with an intercept (Gould et al. 2001).
    """
    shape = tuple(getattr(K, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0 or not hasattr(K, "__matmul__"):
        raise ValueError(
            f"K is a {type(K).__name__} of shape {shape}, expected a matrix (n, n) with K @ v"
        )
    n = int(shape[0])
    if hasattr(K, "__array__"):
        K = check_shape(K, "K", shape)
    y, ridge = check_targets(y, n), check_constant(ridge, "ridge")
    tolerance = check_positive(tolerance, "tolerance")
    max_iterations = check_depth(max_iterations, "max_iterations")
    precondition = _preconditioner(preconditioner, n, ridge, intercept)
    Y = y.reshape(n, -1)
    powers = powers_of_targets(Y)
    Y = np.ldexp(Y, -powers)
    mean = Y.mean(axis=0) if intercept else np.zeros(Y.shape[1])
    unit = column_norms(Y - mean)
    Y = (Y - mean) / unit

    def product(V: np.ndarray) -> np.ndarray:
        return check_shape(K @ V, "K @ v", V.shape) + ridge * V

    A, R = np.zeros(Y.shape), Y - Y.mean(axis=0) if intercept else Y.copy()
    Z = precondition(R)
    P, energy = Z.copy(), (R * Z).sum(axis=0)
    history = [np.linalg.norm(R, axis=0)]
    active = np.flatnonzero(history[0] > tolerance)
    while len(active) and len(history) <= max_iterations:
        directions = P[:, active]
        Q = product(directions)
        curvature = (directions * Q).sum(axis=0)
        if not (curvature > 0).all():
            raise ValueError(
                f"K of shape {(n, n)} plus the ridge is not positive definite: pᵀ(K + λI)p is "
                f"{curvature.min():.3g} for a direction p, expected above 0"
            )
        step = energy[active] / curvature
        A[:, active] += step * directions
        residual = R[:, active] - step * Q
        # The intercept absorbs the mean.
        R[:, active] = residual - residual.mean(axis=0) if intercept else residual
        Z = precondition(R[:, active])
        before, energy[active] = energy[active], (R[:, active] * Z).sum(axis=0)
        P[:, active] = Z + energy[active] / before * directions
        history.append(np.linalg.norm(R, axis=0))
        active = active[history[-1][active] > tolerance]
    left = Y - product(A)
    b = left.mean(axis=0) if intercept else np.zeros(Y.shape[1])
    residuals = np.linalg.norm(left - b, axis=0)
    if (history[-1] > tolerance).any() or (residuals > 10 * tolerance).any():
        warn(
            f"conjugate gradients stopped after {len(history) - 1} iterations at a residual of "
            f"{residuals.max():.2g}, expected {tolerance:.2g}: a larger ridge, a preconditioner "
            f"of higher rank or more iterations help",
            scipy.linalg.LinAlgWarning,
        )
    A, b = (np.ldexp(part, powers) for part in (A * unit, b * unit + mean))
    table = np.array(history)
    if y.ndim == 1:
        A, residuals, table, b = A[:, 0], residuals[0], table[:, 0], b[0]
    return Solution(A, residuals, len(table) - 1, table, b)


def column_norms(Y: np.ndarray) -> np.ndarray:
    """Return the norm of each column, and 1 for columns of zeros."""
    largest = np.abs(Y).max(axis=0)  # squares of the columns may overflow
    largest = np.where(largest == 0, 1.0, largest)
    norms = np.linalg.norm(Y / largest, axis=0) * largest
    return np.where(norms == 0, 1.0, norms)


def _preconditioner(
    given: Any, n: int, ridge: float, intercept: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function r → λ (F Fᵀ + λI)⁻¹ r, with an intercept within vectors of sum 0."""
    if given is not None:
        F = getattr(given, "factor", given)
        F = check_shape(F, "preconditioner", f"({n}, rank)", lambda s: len(s) == 2 and s[0] == n)
        check_positive(ridge, "ridge")
        U, S, _ = scipy.linalg.svd(F, full_matrices=False)
        weights = (ridge / (S**2 + ridge))[:, None]

    def inverse(R: np.ndarray) -> np.ndarray:
        if given is None:
            return R
        parts = U.T @ R
        return (R - U @ parts) + U @ (weights * parts)

    def within_sum_0(R: np.ndarray) -> np.ndarray:
        Z = inverse(R)
        return Z - ones * (Z.sum(axis=0) / ones.sum())

    ones = inverse(np.ones((n, 1)))
    return within_sum_0 if intercept else inverse
