"""Gaussian processes: posteriors, evidence, and ensembles of trained networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..arrays import rounding_unit
from ..checks.values import (
    check_finite,
    check_nonnegative,
    check_nonnegative_vector,
    check_shape,
    check_symmetric,
    check_targets,
    is_sequence,
)
from .cholesky import cholesky, in_units, units_of
from .decomposition import decompose


class Posterior(NamedTuple):
    """Mean and covariance of random functions at m points."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    variance: np.ndarray
    """(m,), at least 0; of the functions, without a new observation's noise. One for all targets"""
    covariance: np.ndarray | None = None
    """(m, m), symmetric, positive semidefinite up to its own rounding; None if not asked for"""


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def posterior(
    K: np.ndarray, cross: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: ArrayLike = 0.0
) -> Posterior:
    r"""Return the posterior of a Gaussian process at m new points, given observations at n points.

    The mean is :math:`k^\top (K + \sigma^2 I)^{-1} y`, the covariance :math:`K(z, z') - k^\top
    (K + \sigma^2 I)^{-1} k'`. A network's Gaussian process kernel is the covariance of its outputs
    over random weights (Neal 1996; Lee et al. 2018). Its neural tangent kernel is not.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``.
    cross : ndarray, (m, n)
        ``kernel(Z, X)``.
    prior : ndarray, (m,) or (m, m)
        ``kernel.diag(Z)`` for variances, or ``kernel(Z)`` for covariances too. Matrices that give
        a negative variance are refused.
    y : ndarray, (n,) or (n, n_targets)
        Observations at X.
    noise : float or array_like, (n,), default 0.0
        Variance σ² of the observations' errors, the penalty of `ridge`; or one of each.

    Returns
    -------
    `Posterior`
        With covariances if `prior` has them.

    Raises
    ------
    ValueError
        If K with its noise is numerically singular in the precision of K, or the matrices are not
        of one kernel.
    OverflowError
        If the mean exceeds float64.

    Examples
    --------
    >>> from rescntk import regression
    >>> p = regression.posterior([[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.0]], [1.0], [1.0, 2.0])
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    matrices, (K, y, noise) = (K, cross, prior), _observations(K, y, noise)
    cross, prior = _new_points(cross, prior, len(K), ("cross", "prior"))
    eps, size = max(map(rounding_unit, matrices)), _diagonal(prior)
    factor, units = cholesky(K, noise, eps)
    V = scipy.linalg.solve_triangular(factor, in_units(cross.T, units), lower=True)
    white = scipy.linalg.solve_triangular(factor, in_units(y, units), lower=True)
    mean = (V.T @ white).reshape(len(cross), *y.shape[1:])
    explained = (V**2).sum(axis=0) if prior.ndim == 1 else V.T @ V
    moments = _second_moments(prior, -explained, size, eps, "cross and prior do not belong to K")
    return Posterior(check_finite(mean), *moments)


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def evidence(K: np.ndarray, y: np.ndarray, noise: ArrayLike) -> float | np.ndarray:
    r"""Return the log marginal likelihood of observations of a Gaussian process, the evidence.

    It is :math:`-\frac12 y^\top C^{-1} y - \frac12 \log|C| - \frac n2 \log 2\pi`, :math:`C = K +
    \sigma^2 I`. The kernel and the noise with the greatest evidence explain y best.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``.
    y : ndarray, (n,) or (n, n_targets)
        Observations at X.
    noise : float or array_like, (n,)
        Variance σ² of the observations' errors, or one of each.

    Returns
    -------
    float, or ndarray (n_targets,)
        The evidence of each target by itself.

    Raises
    ------
    ValueError
        If K with its noise is numerically singular in the precision of K.
    OverflowError
        If the evidence is below float64.

    Examples
    --------
    >>> from rescntk import regression
    >>> round(regression.evidence([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0], noise=1.0), 3)
    -2.781
    """
    matrix, (K, y, noise) = K, _observations(K, y, noise)
    factor, units = cholesky(K, noise, rounding_unit(matrix))
    white = scipy.linalg.solve_triangular(factor, in_units(y, units), lower=True)
    squares = np.square(white).sum(axis=0)
    log_root = np.log(factor.diagonal()).sum() + np.log(units).sum()
    log_evidence = check_finite(-0.5 * squares - log_root - 0.5 * len(y) * math.log(2 * math.pi))
    return log_evidence if y.ndim == 2 else float(log_evidence[0])


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def ensemble(
    tangent: tuple[np.ndarray, np.ndarray],
    gpk: tuple[np.ndarray, np.ndarray, np.ndarray],
    y: np.ndarray,
    time: ArrayLike = math.inf,
) -> Posterior:
    r"""Return mean and covariance at m points of networks trained from random weights.

    In the limit of infinite width gradient flow is :math:`f' = -T (f - y)` at the signals, as for
    `flow`, from a random function :math:`f_0` of covariance K. With :math:`M = T(Z, X)\, T^{-1}
    (I - e^{-T t})` the mean is :math:`M y`, and the covariance is of :math:`f_0(Z) - M f_0(X)` (Lee
    et al. 2019, eq. 14 to 16). At infinity it is the `posterior` without noise if T is a multiple
    of K, and else another one.

    Parameters
    ----------
    tangent : (T, T_cross), ndarrays (n, n) and (m, n)
        The network's neural tangent kernel, ``kernel(X)`` and ``kernel(Z, X)``.
    gpk : (K, K_cross, K_prior), ndarrays (n, n), (m, n), and (m,) or (m, m)
        Its Gaussian process kernel. `K_prior` is ``kernel.diag(Z)`` for variances, or
        ``kernel(Z)`` for covariances too.
    y : ndarray, (n,) or (n, n_targets)
        Values at X. Each target is an output of the network.
    time : float or array_like, (n_times,), default infinity
        Each at least 0, in the unit of `flow`; infinity interpolates.

    Returns
    -------
    `Posterior`
        With covariances if `gpk` has them. Several times put an axis (n_times,) in front of each.

    Raises
    ------
    ValueError
        If a time trains an eigenvector of T that is a rounding error, or a variance is negative.
    OverflowError
        If the mean exceeds float64.

    Examples
    --------
    >>> from rescntk import regression
    >>> tangent, gpk = ([[2.0]], [[1.0]]), ([[1.0]], [[1.0]], [1.0])
    >>> p = regression.ensemble(tangent, gpk, [4.0], [0.0, float("inf")])
    >>> p.mean.ravel(), p.variance.ravel()
    (array([0., 2.]), array([1.  , 0.25]))
    """
    T, T_cross = _matrices(tangent, "tangent", ("T", "T_cross"))
    K, K_cross, K_prior = matrices = _matrices(gpk, "gpk", ("K", "K_cross", "K_prior"))
    n = len(check_symmetric(T, "T"))
    K, y = check_symmetric(K, "K"), check_targets(y, n)
    K_cross, K_prior = _new_points(K_cross, K_prior, n, ("K_cross", "K_prior"))
    T_cross = check_shape(T_cross, "T_cross", K_cross.shape)
    if len(K) != n:
        raise ValueError(f"K has shape {K.shape}, expected {(n, n)} as T")
    check_nonnegative_vector(time, "time", finite=False)
    try:
        flows = decompose(T).flow(T_cross.T, time)
    except ValueError as error:
        raise ValueError(f"T of tangent: {error}") from None
    eps, results = max(map(rounding_unit, matrices)), []
    for M in flows.reshape(-1, n, len(T_cross)).swapaxes(1, 2):
        size = (np.sqrt(_diagonal(K_prior)) + np.abs(M) @ np.sqrt(K.diagonal())) ** 2
        if K_prior.ndim == 1:
            change = ((M @ K - 2.0 * K_cross) * M).sum(axis=1)
        else:
            half = (0.5 * (M @ K) - K_cross) @ M.T
            change = half + half.T
        refusal = "tangent and gpk are not of one network"
        moments = _second_moments(K_prior, change, size, eps, refusal)
        results.append((check_finite(M @ y), *moments))
    parts = zip(*results, strict=True)
    return Posterior(*(np.stack(p) if np.ndim(time) and p[0] is not None else p[0] for p in parts))


def _observations(
    K: np.ndarray, y: np.ndarray, noise: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K, y and the noise of each observation, (n,), checked."""
    K = check_symmetric(K, "K")
    y = check_targets(y, len(K))
    if not is_sequence(noise):
        return K, y, np.full(len(K), check_nonnegative(noise, "noise"))
    variances = np.asarray(check_shape(noise, "noise", (len(K),)))
    if (variances < 0).any():
        raise ValueError(f"noise has {variances.min():.3g}, expected numbers of at least 0")
    return K, y, variances


def _new_points(
    cross: np.ndarray, prior: np.ndarray, n: int, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return kernels between m points and n signals, (m, n), and of the points, checked."""
    cross = check_shape(cross, names[0], f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)
    m = len(cross)
    checked = check_shape(prior, names[1], f"({m},) or ({m}, {m})", lambda s: s in ((m,), (m, m)))
    return cross, checked if checked.ndim == 1 else check_symmetric(prior, names[1])


def _matrices(
    matrices: Sequence[np.ndarray], name: str, names: tuple[str, ...]
) -> Sequence[np.ndarray]:
    """Return several matrices that came in a tuple or list."""
    if isinstance(matrices, (tuple, list)) and len(matrices) == len(names):
        return matrices
    length = f" of length {len(matrices)}" if hasattr(matrices, "__len__") else ""
    raise ValueError(
        f"{name} is a {type(matrices).__name__}{length}, expected a tuple ({', '.join(names)})"
    )


def _diagonal(prior: np.ndarray) -> np.ndarray:
    return prior if prior.ndim == 1 else prior.diagonal()


def _second_moments(
    prior: np.ndarray, change: np.ndarray, size: np.ndarray, eps: float, refusal: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return variances of prior + change, and covariances if they are (m, m).

    What is negative by rounding becomes 0; it is at most √eps of `size`, the size of all terms.
    """
    moments = check_finite(prior + change)
    wrong = ~(_diagonal(moments) >= -np.sqrt(eps) * size)
    if wrong.any():
        raise ValueError(
            f"{refusal}: the variance at point {wrong.argmax()} would be negative, expected "
            f"matrices of one kernel"
        )
    if moments.ndim == 1:
        return np.maximum(moments, 0.0), None
    covariance, units = 0.5 * moments + 0.5 * moments.T, units_of(size)[:, None]
    values, U = scipy.linalg.eigh(covariance / units / units.T, driver="evd")
    if values[0] < -np.sqrt(eps) * len(covariance):
        raise ValueError(
            f"{refusal}: their covariance would have a negative eigenvalue, expected matrices of "
            f"one kernel"
        )
    if values[0] < 0 and change.any():
        root = units * U * np.sqrt(np.maximum(values, 0.0))
        covariance = root @ root.T
    return np.maximum(covariance.diagonal(), 0.0), covariance
