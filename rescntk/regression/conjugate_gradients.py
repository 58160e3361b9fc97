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
from . import ridge as direct


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


def solve(
    K: Any,
    y: np.ndarray,
    ridge: float = 0.0,
    *,
    intercept: bool = False,
    leave_one_out: bool = False,
    preconditioner: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> Any:
    r"""Return :math:`\beta = (K + \lambda I)^{-1} y`: kernel interpolation or ridge regression.

    The minimizer of :math:`\|y - K\beta\|^2 + \lambda \beta^\top K \beta`; eq. 4 of Tirer et al.
    2022 for :math:`\lambda = 0`. With an intercept b the minimizer of
    :math:`\|y - K\beta - 1b\|^2 + \lambda \beta^\top K \beta`. The method follows from the
    arguments:

    - K is an array and there is no preconditioner: by Cholesky. The result is an array; with an
      intercept or leave-one-out errors it is a `Solution`, whose field ``coefficients`` is β.
    - K is anything else with ``K @ v``, or there is a preconditioner: by conjugate gradients.
      The result is a `Solution`.

    Parameters
    ----------
    K : array_like (n, n), or an object with ``shape`` and ``K @ v``
        Kernel matrix of the given points: symmetric, positive semidefinite. A matrix of
        `rescntk.stored` is read block by block.
    y : ndarray, (n,) or (n, n_targets)
        Values at the given points.
    ridge : float, default 0.0
        λ, at least 0; above 0 with a preconditioner.
    intercept : bool, default False
        Whether to fit the constant b, without penalty.
    leave_one_out : bool, default False
        Whether to return leave-one-out errors, y_i − f₋ᵢ(x_i). They take the diagonal of
        (K + λI)⁻¹: n³/3 operations more by Cholesky. By conjugate gradients they would take n
        more targets, and are refused. `restricted_ridge` has them for many signals.
    preconditioner : LowRank or ndarray (n, rank), optional
        The result of `pivoted_cholesky`, or its factor F: F Fᵀ + λI is the preconditioner.
    tolerance, max_iterations
        As for `conjugate_gradients`. The Cholesky factorization ignores them.

    Returns
    -------
    ndarray of the shape of `y`, or Solution

    Raises
    ------
    ValueError
        By Cholesky: if K + λI is numerically singular, its smallest eigenvalue is at most
        n·eps·λ_max, with eps of K's dtype. The message names the eigenvalue. The usual reason
        are two equal points. By conjugate gradients: as for `conjugate_gradients`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> rk.regression.solve(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 0.0]))
    array([ 2., -1.])

    With a preconditioner the result tells how exact it is:

    >>> X = np.random.default_rng(0).standard_normal((30, 2, 16))
    >>> kernel = rk.ResCGPK(3, normalized=True)
    >>> low = rk.regression.pivoted_cholesky(kernel, X, 15)
    >>> found = rk.regression.solve(kernel(X), X[:, 0, 0], 0.1, preconditioner=low)
    >>> found.coefficients.shape, bool(found.residuals < 1e-6)
    ((30,), True)
    """
    # Lists, data frames and arrays: everything that the Cholesky factorization can read.
    is_array = hasattr(K, "__array__") or not hasattr(K, "__matmul__")
    intercept = check_flag(intercept, "intercept")
    leave_one_out = check_flag(leave_one_out, "leave_one_out")
    if is_array and preconditioner is None:
        if not (intercept or leave_one_out):
            return direct.solve(K, y, ridge)
        return _by_cholesky(K, y, ridge, intercept, leave_one_out)
    if leave_one_out:
        raise ValueError(
            "leave_one_out is True, expected False for conjugate gradients, which do not compute "
            "the diagonal of the inverse: give K as an array without a preconditioner, or take "
            "restricted_ridge"
        )
    return conjugate_gradients(
        K,
        y,
        ridge,
        intercept=intercept,
        preconditioner=preconditioner,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )


def _by_cholesky(
    K: Any, y: np.ndarray, ridge: float, intercept: bool, leave_one_out: bool
) -> Solution:
    """Return the solution with an intercept, or with leave-one-out errors, by Cholesky."""
    A, b, errors = direct.solve_with(K, y, ridge, intercept, leave_one_out)
    given = np.asarray(y, dtype=np.float64)
    left = given - np.asarray(K, dtype=np.float64) @ A - ridge * A - b
    centred = given - given.mean(axis=0) if intercept else given
    unit = _norms(centred.reshape(len(given), -1)).reshape(given.shape[1:])
    residuals = np.linalg.norm(left / unit, axis=0)
    return Solution(A, residuals, 0, residuals[None], b, errors)


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
    K : array (n, n), or an object with ``shape`` and ``K @ v``
        Symmetric, positive semidefinite.
    y : ndarray, (n,) or (n, n_targets)
    ridge : float, default 0.0
        λ, at least 0; above 0 with a preconditioner.
    intercept : bool, default False
        Whether to fit the constant b.
    preconditioner : LowRank or ndarray (n, rank), optional
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
    precondition = _woodbury(preconditioner, n, ridge)
    Y = y if y.ndim == 2 else y[:, None]
    mean, centre = np.zeros(Y.shape[1]), _unchanged
    if check_flag(intercept, "intercept"):
        mean, centre = Y.mean(axis=0), _centred
        precondition = _within_sum_0(precondition, n)
    unit = _norms(Y - mean)
    Y = (Y - mean) / unit  # squares of huge or tiny targets leave the range of float64

    def product(V: np.ndarray) -> np.ndarray:
        return np.asarray(K @ V, dtype=np.float64) + ridge * V

    A, history = _iterate(product, precondition, centre, Y, tolerance, max_iterations)
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


def _norms(Y: np.ndarray) -> np.ndarray:
    """Return the norm of each column, and 1 for columns of zeros; squares cannot overflow."""
    largest = np.abs(Y).max(axis=0)
    largest[largest == 0] = 1.0
    norms: np.ndarray = np.linalg.norm(Y / largest, axis=0) * largest
    norms[norms == 0] = 1.0
    return norms


def _unchanged(R: np.ndarray) -> np.ndarray:
    """Return the argument: there is no intercept."""
    return R


def _centred(R: np.ndarray) -> np.ndarray:
    """Return the residuals without their means, which the intercept takes up."""
    return R - R.mean(axis=0)


def _within_sum_0(
    precondition: Callable[[np.ndarray], np.ndarray], n: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the constraint preconditioner, whose results have a sum of 0."""
    ones = precondition(np.ones((n, 1)))
    total = float(ones.sum())

    def apply(R: np.ndarray) -> np.ndarray:
        Z = precondition(R)
        return Z - ones * (Z.sum(axis=0) / total)

    return apply


def _iterate(
    product: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    centre: Callable[[np.ndarray], np.ndarray],
    Y: np.ndarray,
    tolerance: float,
    max_iterations: int,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return A, (n, n_targets), and the residual norms after each iteration, for Y of norm 1."""
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


def _woodbury(preconditioner: Any, n: int, ridge: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function r → (F Fᵀ + λI)⁻¹ r, or the identity without a preconditioner."""
    if preconditioner is None:
        return lambda R: R
    F = check_real(getattr(preconditioner, "factor", preconditioner), "preconditioner", "(n, rank)")
    if F.ndim != 2 or len(F) != n or F.size == 0:
        raise ValueError(f"preconditioner has shape {F.shape}, expected ({n}, rank)")
    check_positive(ridge, "ridge")
    U, S, _ = scipy.linalg.svd(F, full_matrices=False)
    weights = (ridge / (S**2 + ridge))[:, None]

    def apply(R: np.ndarray) -> np.ndarray:
        parts = U.T @ R
        # λ P⁻¹: a factor on the preconditioner does not change conjugate gradients.
        return (R - U @ parts) + U @ (weights * parts)

    return apply


def _check_square(K: Any) -> int:
    """Return n of a matrix (n, n) that can be multiplied, or raise ValueError."""
    shape = tuple(getattr(K, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0 or not hasattr(K, "__matmul__"):
        raise ValueError(
            f"K is a {type(K).__name__} of shape {shape}, expected a matrix (n, n) with K @ v"
        )
    return int(shape[0])
