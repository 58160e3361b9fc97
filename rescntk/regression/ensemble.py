"""Ensembles of infinitely wide networks: mean and covariance over their initializations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import rounding_unit
from ..validation import check_shape, check_symmetric, check_targets, is_sequence
from .checks import in_range
from .decomposition import decompose


class Ensemble(NamedTuple):
    """Mean and covariance, over random initializations, of outputs at m new points."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    covariance: np.ndarray
    """(m, m), of each target; targets are independent."""


@in_range
def ensemble(
    theta_train: np.ndarray,
    theta_new: np.ndarray,
    gpk_train: np.ndarray,
    gpk_new: np.ndarray,
    gpk_new_new: np.ndarray,
    y: np.ndarray,
    time: float = np.inf,
    learning_rate: float = 1.0,
) -> Ensemble:
    r"""Return mean and covariance of infinitely wide networks, trained from random weights.

    Each network has a random function f_0 with the covariance K, the Gaussian process kernel.
    Gradient flow on :math:`\frac12 \|f - y\|^2` for a time t makes it :math:`f_t = f_0 + P_t (y -
    f_0(X))`, with :math:`P_t = \Theta(Z, X)\, \Theta^{-1} (I - e^{-\eta\Theta t})`. So the mean is
    :math:`P_t\, y`, and the covariance

    .. math:: K(Z, Z) + P_t K P_t^\top - P_t K(X, Z) - K(Z, X) P_t^\top

    (Lee et al. 2019). At t = 0 it is K(Z, Z). Where the readout alone is trained, Θ
    is K, and after an infinite time it is the covariance of the `posterior` without noise.

    Parameters
    ----------
    theta_train, theta_new : ndarray, (n, n) and (m, n)
        ``kernel(X)`` and ``kernel(Z, X)`` of the tangent kernel, not normalized.
    gpk_train, gpk_new, gpk_new_new : ndarray, (n, n), (m, n) and (m, m)
        ``kernel(X)``, ``kernel(Z, X)`` and ``kernel(Z)`` of the same network's Gaussian process
        kernel, not normalized.
    y : ndarray, (n,) or (n, n_targets)
    time : float, default infinity
        t, at least 0. Times that train eigenvectors of a numerically singular Θ are refused.
    learning_rate : float, default 1.0
        η, positive.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> rng = np.random.default_rng(0)
    >>> X, Z, y = rng.standard_normal((4, 1, 8)), rng.standard_normal((2, 1, 8)), np.arange(4.0)
    >>> ntk, gpk = rk.ResCNTK(2), rk.ResCGPK(2)
    >>> matrices = ntk(X), ntk(Z, X), gpk(X), gpk(Z, X), gpk(Z)
    >>> start = rk.regression.ensemble(*matrices, y, time=0.0)
    >>> np.allclose(start.mean, 0), np.allclose(start.covariance, gpk(Z))
    (True, True)
    """
    n = len(check_symmetric(theta_train, "theta_train"))
    of_new = f"(m, {n})"
    theta_new = check_shape(theta_new, "theta_new", of_new, lambda s: len(s) == 2 and s[1] == n)
    m, y = len(theta_new), check_targets(y, n)
    prior = check_symmetric(gpk_new_new, "gpk_new_new")
    cross = check_shape(gpk_new, "gpk_new", (m, n))
    K = check_shape(check_symmetric(gpk_train, "gpk_train"), "gpk_train", (n, n))
    check_shape(prior, "gpk_new_new", (m, m))
    if isinstance(time, bool | np.bool_) or is_sequence(time):
        raise ValueError(f"time is {time!r}, expected one number")
    # P_t comes from the flow of n targets, one at each point.
    P = theta_new @ decompose(theta_train).flow(np.eye(n), time, learning_rate)
    covariance = prior + P @ K @ P.T - P @ cross.T - cross @ P.T
    covariance = 0.5 * (covariance + covariance.T)
    variance, size = covariance.diagonal(), np.maximum(prior.diagonal(), (P @ K * P).sum(axis=1))
    eps = max(map(rounding_unit, (theta_train, theta_new, gpk_train, gpk_new, gpk_new_new)))
    worst = int(np.argmin(variance + np.sqrt(eps) * size))
    if variance[worst] < -np.sqrt(eps) * size[worst]:  # rounding errors are smaller
        raise ValueError(
            f"gpk_train, gpk_new and gpk_new_new are not of one kernel: the variance at new point "
            f"{worst} would be {variance[worst]:.3g}, expected at least 0"
        )
    np.fill_diagonal(covariance, np.maximum(variance, 0.0))
    return Ensemble(P @ y, covariance)
