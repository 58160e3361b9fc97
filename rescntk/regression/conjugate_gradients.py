"""Ridge regression by preconditioned conjugate gradients: K is only ever multiplied."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..validation import (
    check_constant,
    check_depth,
    check_flag,
    check_positive,
    check_real,
    check_targets,
)


class Solution(NamedTuple):
    """The result of `solve` for (K + λI) A + 1b = Y, with 1ᵀA = 0 if there is an intercept b."""

    coefficients: np.ndarray
    """A, of the shape of Y"""
    residuals: np.ndarray
    """‖Y − (K + λI) A − 1b‖ / ‖Y‖ of each target, () or (n_targets,); 0 where Y is 0. With an
    intercept the divisor is ‖Y − mean(Y)‖. Computed from the coefficients themselves by one more
    product with K."""
    iterations: int
    """Number of products with K before the last product, which checks the residuals; 0 by
    Cholesky"""
    history: np.ndarray
    """(iterations + 1,) or (iterations + 1, n_targets): the residuals as the recursion has them,
    before the first iteration and after each"""
    intercepts: Any = 0.0
    """b, () or (n_targets,); 0 without an intercept"""
    errors: np.ndarray | None = None
    """Leave-one-out errors, of the shape of Y; None if not asked for"""


def conjugate_gradients(
    K: Any,
    y: np.ndarray,
    ridge: float = 0.0,
    *,
    intercept: bool = False,
    preconditioner: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> Solution:
    r"""Return the solution A of :math:`(K + \lambda I) A = Y` by conjugate gradients.

    Each iteration multiplies K once, with the directions of all targets together. Each target
    has steps of its own and stops at the tolerance. The preconditioner
    :math:`P = F F^\top + \lambda I` is inverted by Woodbury's identity in the basis U of the
    singular vectors of :math:`F = U S V^\top`:
    :math:`P^{-1} r = (r - U U^\top r)/\lambda + U (S^2 + \lambda)^{-1} U^\top r`.

    With an intercept the equations are :math:`(K + \lambda I) A + 1 b = Y` and
    :math:`1^\top A = 0`. The iterations stay among vectors with a sum of 0: the preconditioned
    residual is :math:`P^{-1} r - P^{-1} 1\, (1^\top P^{-1} r) / (1^\top P^{-1} 1)` (a constraint
    preconditioner; Gould, Hribar and Nocedal 2001). At the end b is the mean of
    :math:`Y - (K + \lambda I) A`.

    Parameters
    ----------
    K, y, ridge, intercept, preconditioner
        As for `solve`.
    tolerance : float, default 1e-6
        Relative residual norm ‖Y − (K + λI) A‖ / ‖Y‖ at which a target is solved.
    max_iterations : int, default 1000
        Most iterations. A warning follows if a target is not solved by then.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        If shapes do not fit, K + λI is not positive definite, or λ is 0 with a preconditioner.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> found = regression.conjugate_gradients(np.diag([1.0, 2.0]), np.array([2.0, 2.0]))
    >>> found.coefficients.round(6), found.iterations
    (array([2., 1.]), 2)
    """
    n = _check_square(K)
    y, ridge = check_targets(y, n), check_constant(ridge, "ridge")
    tolerance = check_positive(tolerance, "tolerance")
    max_iterations = check_depth(max_iterations, "max_iterations")
    check_flag(intercept, "intercept")
    precondition = _preconditioner(preconditioner, n, ridge, intercept)
    Y = y if y.ndim == 2 else y[:, None]
    mean = Y.mean(axis=0) if intercept else np.zeros(Y.shape[1])
    unit = column_norms(Y - mean)
    Y = (Y - mean) / unit  # squares of huge or tiny targets leave the range of float64

    def product(V: np.ndarray) -> np.ndarray:
        return np.asarray(K @ V, dtype=np.float64) + ridge * V

    A, history = _iterate(product, precondition, intercept, Y, tolerance, max_iterations)
    left = Y - product(A)
    b = left.mean(axis=0) if intercept else np.zeros(Y.shape[1])
    residuals = np.linalg.norm(left - b, axis=0)
    if (history[-1] > tolerance).any() or (residuals > 10 * tolerance).any():
        warnings.warn(
            f"conjugate gradients stopped after {len(history) - 1} iterations at a residual of "
            f"{residuals.max():.2g}, expected {tolerance:.2g}: a larger ridge, a preconditioner "
            f"of higher rank or more iterations help",
            scipy.linalg.LinAlgWarning,
            stacklevel=2,
        )
    A, b, table = A * unit, b * unit + mean, np.array(history)
    if y.ndim == 1:
        return Solution(A[:, 0], residuals[0], len(table) - 1, table[:, 0], b[0])
    return Solution(A, residuals, len(table) - 1, table, b)


def column_norms(Y: np.ndarray) -> np.ndarray:
    """Return the norm of each column, and 1 for columns of zeros; squares cannot overflow."""
    largest = np.abs(Y).max(axis=0)
    largest[largest == 0] = 1.0
    norms: np.ndarray = np.linalg.norm(Y / largest, axis=0) * largest
    norms[norms == 0] = 1.0
    return norms


def _iterate(
    product: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    intercept: bool,
    Y: np.ndarray,
    tolerance: float,
    max_iterations: int,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return A, (n, n_targets), and the residual norms after each iteration, for Y of norm 1."""

    def centre(R: np.ndarray) -> np.ndarray:
        return R - R.mean(axis=0) if intercept else R  # the intercept takes up the mean

    A, R = np.zeros(Y.shape), centre(Y.copy())
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
                f"K of shape {(len(Y), len(Y))} plus the ridge is not positive definite: "
                f"pᵀ(K + λI)p is {curvature.min():.3g} for a direction p, expected above 0"
            )
        step = energy[active] / curvature
        A[:, active] += step * directions
        R[:, active] = centre(R[:, active] - step * Q)
        Z = precondition(R[:, active])
        new = (R[:, active] * Z).sum(axis=0)
        P[:, active] = Z + new / energy[active] * directions
        energy[active] = new
        history.append(np.linalg.norm(R, axis=0))
        active = active[history[-1][active] > tolerance]
    return A, history


def _preconditioner(
    given: Any, n: int, ridge: float, intercept: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function r → λ P⁻¹ r; with an intercept, its part with a sum of 0.

    The factor λ does not change conjugate gradients. Without a preconditioner P is the identity.
    """
    if given is None:

        def inverse(R: np.ndarray) -> np.ndarray:
            return R

    else:
        F = check_real(getattr(given, "factor", given), "preconditioner", "(n, rank)")
        if F.ndim != 2 or len(F) != n or F.size == 0:
            raise ValueError(f"preconditioner has shape {F.shape}, expected ({n}, rank)")
        check_positive(ridge, "ridge")
        U, S, _ = scipy.linalg.svd(F, full_matrices=False)
        weights = (ridge / (S**2 + ridge))[:, None]

        def inverse(R: np.ndarray) -> np.ndarray:
            parts = U.T @ R
            return (R - U @ parts) + U @ (weights * parts)

    if not intercept:
        return inverse
    ones = inverse(np.ones((n, 1)))
    total = float(ones.sum())

    def within_sum_0(R: np.ndarray) -> np.ndarray:
        Z = inverse(R)
        return Z - ones * (Z.sum(axis=0) / total)

    return within_sum_0


def _check_square(K: Any) -> int:
    """Return n of a matrix (n, n) that can be multiplied, or raise ValueError."""
    shape = tuple(getattr(K, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0 or not hasattr(K, "__matmul__"):
        raise ValueError(
            f"K is a {type(K).__name__} of shape {shape}, expected a matrix (n, n) with K @ v"
        )
    return int(shape[0])
