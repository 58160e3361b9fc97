"""Ridge regression on a kernel matrix: one ridge by Cholesky, and intercepts for any solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import rounding_unit
from ..validation import (
    check_batches,
    check_constant,
    check_cross_kernel,
    check_flag,
    check_kernel,
    check_posterior_variance,
    check_prior_variance,
    check_resolved,
    check_symmetric,
    check_targets,
    check_two_values,
    singular_matrix,
)
from .conjugate_gradients import Solution, column_norms, conjugate_gradients

_CLOSE = 10.0
"""LAPACK's estimate of 1/condition below _CLOSE·n·eps is checked by the eigenvalues themselves.

A pure number. Raising it computes eigenvalues for more matrices, which costs time and changes no
result. Chosen with a margin: the estimate is seldom off by more than a factor of 3 (LAPACK Users'
Guide, on condition estimation), and 1-norms stand for 2-norms.
"""


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
    The method follows from the arguments:

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
    check_flag(intercept, "intercept")
    check_flag(leave_one_out, "leave_one_out")
    # Lists, data frames and arrays: everything that the Cholesky factorization can read.
    is_array = hasattr(K, "__array__") or not hasattr(K, "__matmul__")
    if not is_array or preconditioner is not None:
        if leave_one_out:
            raise ValueError(
                "leave_one_out is True, expected False for conjugate gradients, which do not "
                "compute the diagonal of the inverse: give K as an array without a "
                "preconditioner, or take restricted_ridge"
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

    def inverse(columns: np.ndarray) -> np.ndarray:
        solved: np.ndarray = scipy.linalg.cho_solve((factor, True), columns)
        return solved

    def diagonal() -> np.ndarray:
        root = np.tril(scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0])
        return np.einsum("ij,ij->j", root, root)

    if not (intercept or leave_one_out):
        return inverse(y)
    A, b, errors = fit(inverse, y, intercept, diagonal if leave_one_out else None)
    left = y - K @ A - ridge * A - b
    centred = y - y.mean(axis=0) if intercept else y
    norms = column_norms(centred.reshape(len(y), -1)).reshape(y.shape[1:])
    residuals = np.linalg.norm(left / norms, axis=0)
    return Solution(A, residuals, 0, residuals[None], b, errors)


def fit(
    inverse: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    intercept: bool,
    diagonal: Callable[[], np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Return coefficients β, constants b and leave-one-out errors, given :math:`G`.

    :math:`G = (K + \lambda I)^{-1}`, :math:`b = 1^\top G y / 1^\top G 1` and :math:`\beta = B y`
    with :math:`B = G - G 1 1^\top G / (1^\top G 1)`. The error of point i is
    :math:`\beta_i / B_{ii}`. Without an intercept :math:`b = 0` and :math:`B = G`.

    Parameters
    ----------
    inverse : callable
        From columns (n, m) to G times the columns, (..., n, m): one matrix for each ridge.
    y : ndarray, (n,) or (n, n_targets)
    intercept : bool
    diagonal : callable, optional
        From nothing to the diagonal of G, (..., n). Without it there are no errors.
    """
    if intercept and diagonal is not None:
        check_two_values(y)
    targets = y if y.ndim == 2 else y[:, None]
    correction: np.ndarray | float = 0.0
    if intercept:
        solved = inverse(np.column_stack([targets, np.ones(len(y))]))
        found, ones = solved[..., :-1], solved[..., -1]
        total = ones.sum(axis=-1, keepdims=True)
        constants, correction = ones @ targets / total, ones**2 / total
        found = found - ones[..., None] * constants[..., None, :]
    else:
        found = inverse(targets)
        constants = np.zeros((*found.shape[:-2], targets.shape[1]))
    errors = None if diagonal is None else found / (diagonal() - correction)[..., None]
    if y.ndim == 1:
        found, constants = found[..., 0], constants[..., 0]
        errors = None if errors is None else errors[..., 0]
    return found, constants, errors


def interpolate(
    kernel: Callable[..., np.ndarray],
    X: np.ndarray,
    y: np.ndarray,
    Z: np.ndarray,
    ridge: float = 0.0,
) -> np.ndarray:
    """Return predictions f(Z) of the regression on `X` and `y` (eq. 4 of Tirer et al. 2022).

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with matrices ``kernel(X)`` and ``kernel(Z, X)``.
    X : ndarray, (n_cases, n_channels, n_timepoints)
    y : ndarray, (n_cases,) or (n_cases, n_targets)
    Z : ndarray, (m_cases, n_channels, n_timepoints)
    ridge : float, default 0.0
        As for `solve`.

    Returns
    -------
    ndarray, (m_cases,) or (m_cases, n_targets)

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> np.allclose(rk.regression.interpolate(rk.ResCNTK(3), X, np.arange(5.0), X), np.arange(5.0))
    True
    """
    check_kernel(kernel)
    ridge, (X, other) = check_constant(ridge, "ridge"), check_batches(X, Z, "gap")
    y = check_targets(y, len(X))
    return kernel(X if other is None else other, X) @ solve(kernel(X), y, ridge)


class Posterior(NamedTuple):
    """Mean and variance of a Gaussian process at m new points, given observations at n points."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    variance: np.ndarray
    """(m,), of the process itself, without the noise of a new observation."""


def posterior(
    K: np.ndarray, cross: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: float = 0.0
) -> Posterior:
    r"""Return the posterior mean μ and variance s² of a Gaussian process, each at m new points.

    :math:`\mu = k^\top (K + \sigma^2 I)^{-1} y` and :math:`s^2 = K(z,z) - k^\top
    (K + \sigma^2 I)^{-1} k`. With the Gaussian process kernel of a network this is exact Bayesian
    inference; the prior is the infinitely wide network at random weights (Neal 1996; Lee et al.
    2018). The neural tangent kernel is no covariance of a network's outputs: an ensemble trained
    by gradient descent has another mean and another variance.

    Parameters
    ----------
    K : ndarray, (n, n)
        ``kernel(X)``.
    cross : ndarray, (m, n)
        ``kernel(Z, X)``.
    prior : ndarray, (m,)
        ``kernel.diag(Z)``.
    y : ndarray, (n,) or (n, n_targets)
        Observations at X.
    noise : float, default 0.0
        Variance σ² of the observations' errors.

    Returns
    -------
    Posterior
        The variance lies between 0 and `prior`. A variance that rounding errors take below 0
        is returned as 0.

    Raises
    ------
    ValueError
        As for `solve`; or if a variance would be negative by more than rounding errors, so that
        `cross` and `prior` cannot belong to `K`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> p = regression.posterior(np.eye(2), np.array([[0.6, 0.0]]), np.ones(1), np.array([1, 2]))
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    matrices, K = (K, cross, prior), check_symmetric(K, "K")
    y, noise = check_targets(y, len(K)), check_constant(noise, "noise")
    cross = check_cross_kernel(cross, len(K))
    prior = check_prior_variance(prior, len(cross))
    eps = max(map(rounding_unit, matrices))
    factor = _cholesky(K, noise, eps)
    mean = cross @ scipy.linalg.cho_solve((factor, True), y)
    explained = scipy.linalg.solve_triangular(factor, cross.T, lower=True)
    variance = prior - (explained**2).sum(axis=0)
    check_posterior_variance(variance, prior, eps)
    return Posterior(mean, np.maximum(variance, 0.0))


def _cholesky(K: np.ndarray, ridge: float, eps: float) -> np.ndarray:
    """Return the lower Cholesky factor of K + ridge·I, or raise ValueError if it is singular."""
    shifted = K.copy()
    np.fill_diagonal(shifted, K.diagonal() + ridge)
    one_norm = scipy.linalg.lapack.dlange("1", shifted.T)  # transposed: it reads columns
    try:
        factor = scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise singular_matrix(scipy.linalg.eigvalsh(K) + ridge, eps, "a larger ridge") from None
    inverse_condition = scipy.linalg.lapack.dpocon(factor, one_norm, uplo="L")[0]
    if inverse_condition <= _CLOSE * len(K) * eps:
        check_resolved(scipy.linalg.eigvalsh(K) + ridge, eps, "a larger ridge")
    return factor
