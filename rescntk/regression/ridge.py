"""Ridge regression with one ridge, by Cholesky or conjugate gradients; Gaussian processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import resolution, rounding_unit
from ..validation import (
    check_batches,
    check_constant,
    check_depth,
    check_flag,
    check_kernel,
    check_positive,
    check_shape,
    check_symmetric,
    check_targets,
)
from .checks import in_range, kernel_matrix, powers_of_targets

_CLOSE = 10.0
"""LAPACK's estimate of 1/condition below _CLOSE·n·eps is checked by the eigenvalues; a pure number.
Raising it only costs time. Chosen with a margin: the estimate is seldom off by more than a factor
of 3 (LAPACK Users' Guide)."""


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


@in_range
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

    The minimizer of :math:`\|y - K\beta - 1b\|^2 + \lambda \beta^\top K \beta`, where the
    constant b is 0 without an intercept; eq. 4 of Tirer et al. 2022 for :math:`\lambda = 0`.

    Parameters
    ----------
    K : array_like (n, n), or an object with ``shape`` and ``K @ v``
        Symmetric, positive semidefinite. An array without a preconditioner is factorized by
        Cholesky. Any other K, such as a matrix of `rescntk.stored`, is only multiplied by vectors,
        in conjugate gradients.
    y : ndarray, (n,) or (n, n_targets)
        Values at the given points.
    ridge : float, default 0.0
        λ, at least 0; above 0 with a preconditioner.
    intercept : bool, default False
        Whether to fit the constant b, without penalty.
    leave_one_out : bool, default False
        Whether to return the errors y_i − f₋ᵢ(x_i): only by Cholesky, for n³/3 more operations.
        `restricted_ridge` has them for many signals.
    preconditioner : LowRank or ndarray (n, rank), optional
        The result of `pivoted_cholesky`, or its factor F, for conjugate gradients.
    tolerance, max_iterations
        As for `conjugate_gradients`.

    Returns
    -------
    ndarray or Solution
        β, of the shape of `y`; a `Solution` by conjugate gradients, with an intercept and with
        leave-one-out errors.

    Raises
    ------
    ValueError
        By Cholesky: if the smallest eigenvalue of K + λI is at most n·eps·λ_max, with eps of K's
        dtype (mostly by two equal points). By conjugate gradients: see there.
    OverflowError
        If results exceed float64.

    See Also
    --------
    decompose : All penalties from one matrix.
    pivoted_cholesky : Landmarks, and a preconditioner.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> regression.solve(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 0.0]))
    array([ 2., -1.])
    """
    check_flag(intercept, "intercept")
    check_flag(leave_one_out, "leave_one_out")
    # Lists, data frames and arrays: everything that the Cholesky factorization can read.
    is_array = hasattr(K, "__array__") or not hasattr(K, "__matmul__")
    if not is_array or preconditioner is not None:
        if leave_one_out:
            raise ValueError(
                "leave_one_out is True, expected False for conjugate gradients: give K as an "
                "array without a preconditioner, or use restricted_ridge"
            )
        limits: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations}
        return conjugate_gradients(
            K, y, ridge, intercept=intercept, preconditioner=preconditioner, **limits
        )
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    y, ridge = check_targets(y, len(K)), check_constant(ridge, "ridge")
    factor = _cholesky(K, ridge, eps)
    inverse = partial(scipy.linalg.cho_solve, (factor, True))

    def diagonal() -> np.ndarray:
        root = np.tril(scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0])
        return np.einsum("ij,ij->j", root, root)

    if not (intercept or leave_one_out):
        return inverse(y)
    A, b, *errors = fit(inverse, y, intercept, diagonal if leave_one_out else None)
    left = y - K @ A - ridge * A - b
    norms = _column_norms(y - y.mean(axis=0) if intercept else y)
    residuals = np.linalg.norm(left / norms, axis=0)
    return Solution(A, residuals, 0, residuals[None], b, *errors)


def fit(
    inverse: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    intercept: bool,
    diagonal: Callable[[], np.ndarray] | None,
    block: Callable[[np.ndarray], np.ndarray] | None = None,
    groups: Sequence[np.ndarray] = (),
) -> list[np.ndarray]:
    r"""Return coefficients β, constants b and, with a diagonal or blocks, errors when left out.

    With :math:`G = (K + \lambda I)^{-1}` they are :math:`b = 1^\top G y / 1^\top G 1`,
    :math:`\beta = B y` and :math:`\beta_i / B_{ii}`, where
    :math:`B = G - G 1 1^\top G / (1^\top G 1)`. Without an intercept :math:`b = 0`, :math:`B = G`.
    `inverse` multiplies G by columns (n, m): (..., n, m). `diagonal` returns G_ii, (..., n).
    `block` returns G_gg of k indices g, (..., k, k). The errors of a group g, left out as a whole,
    are :math:`B_{gg}^{-1} \beta_g`.
    """
    if intercept and diagonal is not None and len(y) == 1:
        raise ValueError(f"y has shape {y.shape}, expected two values: one is the intercept")
    targets = y.reshape(len(y), -1)
    correction: np.ndarray | float = 0.0
    if intercept:
        solved = inverse(np.column_stack([targets, np.ones(len(y))]))
        coefficients, ones = solved[..., :-1], solved[..., -1]
        total = ones.sum(axis=-1, keepdims=True)
        constants, correction = ones @ targets / total, ones * (ones / total)
        coefficients = coefficients - ones[..., None] * constants[..., None, :]
    else:
        coefficients = inverse(targets)
        constants = np.zeros((*coefficients.shape[:-2], targets.shape[1]))
    results = [coefficients, constants]
    if block is not None:
        errors = np.empty_like(coefficients)
        for group in groups:
            B = block(group)
            if intercept:
                part = ones[..., group]
                B = B - part[..., :, None] * (part / total)[..., None, :]
            errors[..., group, :] = np.linalg.solve(B, coefficients[..., group, :])
        results.append(errors)
    if diagonal is not None:
        results.append(coefficients / (diagonal() - correction)[..., None])
    return results if y.ndim == 2 else [result[..., 0] for result in results]


def _cholesky(K: np.ndarray, ridge: float, eps: float) -> np.ndarray:
    """Return the lower Cholesky factor of K + ridge·I, or raise ValueError if it is singular."""
    shifted = K.copy()
    np.fill_diagonal(shifted, K.diagonal() + ridge)
    one_norm = scipy.linalg.lapack.dlange("1", shifted.T)  # transposed: it reads columns
    try:
        factor = scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True)
        inverse_condition = scipy.linalg.lapack.dpocon(factor, one_norm, uplo="L")[0]
    except np.linalg.LinAlgError:
        inverse_condition = -1.0
    if inverse_condition <= _CLOSE * len(K) * eps:
        eigenvalues = scipy.linalg.eigvalsh(K) + ridge
        check_resolved(eigenvalues, eps, "a larger ridge", refuse=inverse_condition < 0)
    return factor


def check_resolved(
    eigenvalues: np.ndarray, eps: float, remedy: str = "", refuse: bool = False
) -> None:
    """Raise ValueError if the least of rising eigenvalues is at most n·eps·λ_max, or `refuse`."""
    n, least = len(eigenvalues), resolution(eigenvalues, eps)
    if eigenvalues[0] <= least or refuse:
        float64 = "a matrix in float64" if eps > np.finfo(np.float64).eps else ""
        remedies = " or ".join(filter(None, ("points that differ", remedy, float64)))
        raise ValueError(
            f"K of shape {(n, n)} is numerically singular: its smallest eigenvalue (ridge "
            f"included) is {eigenvalues[0]:.3g}, expected above n·eps·λ_max = {least:.3g} for "
            f"eps = {eps:.3g} of its dtype ({remedies})"
        )


@in_range
def interpolate(
    kernel: Callable[..., Any], X: np.ndarray, y: np.ndarray, Z: np.ndarray, ridge: float = 0.0
) -> np.ndarray:
    """Return predictions f(Z), (m_cases,) or (m_cases, n_targets): eq. 4 of Tirer et al. 2022.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with matrices ``kernel(X)`` and ``kernel(Z, X)``.
    X, Z : ndarray, (n_cases, n_channels, n_timepoints), (m_cases, n_channels, n_timepoints)
    y, ridge
        As for `solve`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> np.allclose(rk.regression.interpolate(rk.ResCNTK(3), X, np.arange(5.0), X), np.arange(5.0))
    True
    """
    check_kernel(kernel)
    check_constant(ridge, "ridge")
    X, Z_or_none = check_batches(X, Z, "gap")
    y = check_targets(y, len(X))
    coefficients = solve(kernel(X), y, ridge)
    return kernel_matrix(kernel, X if Z_or_none is None else Z_or_none, X) @ coefficients


class Posterior(NamedTuple):
    """Mean and variance of a Gaussian process at m new points, given observations at n points."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    variance: np.ndarray
    """(m,), from 0 to the prior; of the process itself, without a new observation's noise."""


@in_range
def posterior(
    K: np.ndarray, cross: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: float = 0.0
) -> Posterior:
    r"""Return the posterior mean μ and variance s² of a Gaussian process, each at m new points.

    :math:`\mu = k^\top (K + \sigma^2 I)^{-1} y` and :math:`s^2 = K(z,z) - k^\top
    (K + \sigma^2 I)^{-1} k`. The Gaussian process kernel of a network has random weights as the
    prior (Neal 1996; Lee et al. 2018); the neural tangent kernel is not such a covariance.

    Parameters
    ----------
    K, cross, prior : ndarray, (n, n), (m, n) and (m,)
        ``kernel(X)``, ``kernel(Z, X)`` and ``kernel.diag(Z)``; matrices that give a negative
        variance are refused.
    y : ndarray, (n,) or (n, n_targets)
        Observations at X.
    noise : float, default 0.0
        Variance σ² of the observations' errors. K + σ²I is checked as by `solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> p = regression.posterior(np.eye(2), np.array([[0.6, 0.0]]), np.ones(1), np.array([1, 2]))
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    matrices, K = (K, cross, prior), check_symmetric(K, "K")
    n, y, noise = len(K), check_targets(y, len(K)), check_constant(noise, "noise")
    cross = check_shape(cross, "cross", f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)
    prior = check_shape(prior, "prior", (len(cross),))
    eps = max(map(rounding_unit, matrices))
    factor = _cholesky(K, noise, eps)
    mean = cross @ scipy.linalg.cho_solve((factor, True), y)
    explained = scipy.linalg.solve_triangular(factor, cross.T, lower=True)
    variance = prior - (explained**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(prior > 0, variance / prior, -np.inf)
    relative = np.where(variance < 0, ratio, 0.0)
    worst = int(np.argmin(relative))
    if relative[worst] < -np.sqrt(eps):  # rounding errors are smaller
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {worst} would "
            f"be {variance[worst]:.3g}, expected matrices of one kernel"
        )
    return Posterior(mean, np.maximum(variance, 0.0))


@in_range
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
    r"""Return the `Solution` A of :math:`(K + \lambda I) A = Y` by conjugate gradients.

    Each iteration multiplies K once, for all targets. Each target stops at the tolerance.
    ``docs/theory/large_grams.md`` has the formulas, also with an intercept (Gould et al. 2001).

    Parameters
    ----------
    K, y, ridge, intercept, preconditioner
        As for `solve`.
    tolerance : float, default 1e-6
        Relative residual norm ‖Y − (K + λI) A‖ / ‖Y‖ at which a target is solved.
    max_iterations : int, default 1000
        A warning follows if a target is not solved by then.

    Raises
    ------
    ValueError
        If K + λI is not positive definite, λ is 0 with a preconditioner, or products with K are
        not finite real numbers.
    OverflowError
        If results exceed float64.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> found = regression.conjugate_gradients(np.diag([1.0, 2.0]), np.array([2.0, 2.0]))
    >>> found.coefficients.round(6), found.iterations
    (array([2., 1.]), 2)
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
    check_flag(intercept, "intercept")
    precondition = _preconditioner(preconditioner, n, ridge, intercept)
    Y = y.reshape(n, -1)
    powers = powers_of_targets(Y)
    Y = np.ldexp(Y, -powers)
    mean = Y.mean(axis=0) if intercept else np.zeros(Y.shape[1])
    unit = _column_norms(Y - mean)
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
        warnings.warn(
            f"conjugate gradients stopped after {len(history) - 1} iterations at a residual of "
            f"{residuals.max():.2g}, expected {tolerance:.2g}: a larger ridge, a preconditioner "
            f"of higher rank or more iterations help",
            scipy.linalg.LinAlgWarning,
            stacklevel=3,
        )
    A, b = (np.ldexp(part, powers) for part in (A * unit, b * unit + mean))
    table = np.array(history)
    if y.ndim == 1:
        A, residuals, table, b = A[:, 0], residuals[0], table[:, 0], b[0]
    return Solution(A, residuals, len(table) - 1, table, b)


def _column_norms(Y: np.ndarray) -> np.ndarray:
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
