"""Regression with one ridge, by Cholesky: interpolation, ridge regression, Gaussian processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import rounding_unit
from ..validation import (
    check_batches,
    check_constant,
    check_cross_kernel,
    check_kernel,
    check_posterior_variance,
    check_prior_variance,
    check_resolved,
    check_symmetric,
    check_targets,
    check_two_values,
    singular_matrix,
)

_CLOSE = 10.0
"""LAPACK's estimate of 1/condition below _CLOSE·n·eps is checked by the eigenvalues themselves.

A pure number. Raising it computes eigenvalues for more matrices, which costs time and changes no
result. Chosen with a margin: the estimate is seldom off by more than a factor of 3 (LAPACK Users'
Guide, on condition estimation), and 1-norms stand for 2-norms.
"""


def solve(K: np.ndarray, y: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    r"""Return the coefficients β of kernel interpolation or ridge regression, by Cholesky.

    :math:`\beta = (K + \lambda I)^{-1} y`, the minimizer of
    :math:`\|y - K\beta\|^2 + \lambda \beta^\top K \beta`; eq. 4 of Tirer et al. 2022 for
    :math:`\lambda = 0`.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix of the given points: symmetric, positive semidefinite.
    y : ndarray, (n,) or (n, n_targets)
        Values at the given points.
    ridge : float, default 0.0
        λ, at least 0.

    Returns
    -------
    ndarray of the shape of `y`

    Raises
    ------
    ValueError
        If K + λI is numerically singular: its smallest eigenvalue is at most n·eps·λ_max, with
        eps of K's dtype. The message names the eigenvalue. The usual reason are two equal points.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> regression.solve(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 0.0]))
    array([ 2., -1.])
    """
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    y, ridge = check_targets(y, len(K)), check_constant(ridge, "ridge")
    return scipy.linalg.cho_solve((_cholesky(K, ridge, eps), True), y)


def solve_with(
    K: np.ndarray, y: np.ndarray, ridge: float, intercept: bool, leave_one_out: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Return coefficients β, intercepts b, and leave-one-out errors or None, by Cholesky.

    The formulas are those of `Decomposition.with_intercept` and `Decomposition.leave_one_out`,
    with :math:`G = (K + \lambda I)^{-1}`: :math:`b = 1^\top G y / 1^\top G 1`,
    :math:`\beta = G (y - 1 b)`, and errors :math:`\beta_i / (G_{ii} - (G1)_i^2 / 1^\top G 1)`.
    """
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    y, ridge = check_targets(y, len(K)), check_constant(ridge, "ridge")
    if intercept and leave_one_out:
        check_two_values(y)
    factor = _cholesky(K, ridge, eps)
    targets = y if y.ndim == 2 else y[:, None]
    solved = scipy.linalg.cho_solve((factor, True), np.column_stack([targets, np.ones(len(y))]))
    found, ones = solved[:, :-1], solved[:, -1]
    constants, correction = np.zeros(targets.shape[1]), np.zeros(len(y))
    if intercept:
        total = ones.sum()
        constants, correction = ones @ targets / total, ones**2 / total
        found = found - np.outer(ones, constants)
    errors = None
    if leave_one_out:
        inverse, _ = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)
        diagonal = np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse)) - correction
        errors = found / diagonal[:, None]
    if y.ndim == 1:
        return found[:, 0], constants[0], None if errors is None else errors[:, 0]
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
    given, K = (K, cross, prior), check_symmetric(K, "K")
    y, noise = check_targets(y, len(K)), check_constant(noise, "noise")
    cross = check_cross_kernel(cross, len(K))
    prior = check_prior_variance(prior, len(cross))
    eps = max(map(rounding_unit, given))
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
