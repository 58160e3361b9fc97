"""Ridge regression with one ridge, by Cholesky or conjugate gradients; Gaussian processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import resolution, rounding_unit
from ..validation import (
    check_batches,
    check_constant,
    check_flag,
    check_kernel,
    check_shape,
    check_symmetric,
    check_targets,
)
from .checks import in_range, kernel_matrix
from .conjugate_gradients import Solution, column_norms, conjugate_gradients
from .left_out import LeftOutPoints

_CLOSE = 10.0
"""LAPACK's estimate of 1/condition below _CLOSE·n·eps is checked by the eigenvalues; a pure number.
Raising it only costs time. Chosen with a margin: the estimate is seldom off by more than a factor
of 3 (LAPACK Users' Guide)."""


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
        Cholesky. Any other K is only multiplied by vectors, in conjugate gradients: a matrix of
        `rescntk.stored`, or ``scipy.sparse.linalg.aslinearoperator(array)``.
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
    tolerance : float, default 1e-6
        Relative residual norm ‖Y − (K + λI) A‖ / ‖Y‖ at which conjugate gradients end for a target.
    max_iterations : int, default 1000
        Most iterations of conjugate gradients. A warning follows if a target is not solved by then.

    Returns
    -------
    ndarray or Solution
        β, of the shape of `y`; a `Solution` by conjugate gradients, with an intercept and with
        leave-one-out errors.

    Raises
    ------
    ValueError
        By Cholesky: if the smallest eigenvalue of K + λI is at most n·eps·λ_max, with eps of K's
        dtype (mostly by two equal points). By conjugate gradients: if K + λI is not positive
        definite, λ is 0 with a preconditioner, or products with K are not finite real numbers.
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
        return conjugate_gradients(
            K,
            y,
            ridge,
            intercept=intercept,
            preconditioner=preconditioner,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    y, ridge = check_targets(y, len(K)), check_constant(ridge, "ridge")
    factor = _cholesky(K, ridge, eps)
    inverse = partial(scipy.linalg.cho_solve, (factor, True))

    if not (intercept or leave_one_out):
        return inverse(y)

    def inverse_factors() -> tuple[np.ndarray, np.ndarray]:
        root = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        return root.T, np.ones(len(K))  # G = L⁻ᵀ L⁻¹

    beta, b, errors = fit(inverse, y, intercept, inverse_factors if leave_one_out else None)
    left = y - K @ beta - ridge * beta - b
    norms = column_norms(y - y.mean(axis=0) if intercept else y)
    residuals = np.linalg.norm(left / norms, axis=0)
    return Solution(beta, residuals, 0, residuals[None], b, errors)


def fit(
    inverse: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    intercept: bool,
    inverse_factors: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None,
    groups: Sequence[np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Return coefficients β, constants b and, with `inverse_factors`, errors of points left out.

    β and errors are (..., n) or (..., n, n_targets), b (...) or (..., n_targets).

    With :math:`G = (K + \lambda I)^{-1}` they are :math:`b = 1^\top G y / 1^\top G 1` and
    :math:`\beta = B y`, where :math:`B = G - G 1 1^\top G / (1^\top G 1)`. Without an intercept
    :math:`b = 0`, :math:`B = G`. `inverse` multiplies G by columns (n, m): (..., n, m).
    `inverse_factors` returns A, (n, k), and f, (..., k), of :math:`G = A diag(f) A^\top`.
    `groups` are indices of points that are left out together.
    """
    if intercept and inverse_factors is not None and len(y) == 1:
        raise ValueError(f"y has shape {y.shape}, expected two values: one is the intercept")
    targets, errors = y.reshape(len(y), -1), None
    ones, total = None, np.ones(1)
    if intercept:
        solved = inverse(np.column_stack([targets, np.ones(len(y))]))
        coefficients, ones = solved[..., :-1], solved[..., -1]
        total = ones.sum(axis=-1, keepdims=True)
        constants = ones @ targets / total
        coefficients = coefficients - ones[..., None] * constants[..., None, :]
    else:
        coefficients = inverse(targets)
        constants = np.zeros((*coefficients.shape[:-2], targets.shape[1]))
    if inverse_factors is not None:
        errors = LeftOutPoints(*inverse_factors(), ones, total).errors(coefficients, groups)
    if y.ndim == 2:
        return coefficients, constants, errors
    errors = None if errors is None else errors[..., 0]
    return coefficients[..., 0], constants[..., 0], errors


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
