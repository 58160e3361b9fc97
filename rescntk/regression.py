r"""Regression with a kernel: interpolation, ridge, gradient flow, and the posterior of a GP.

Every predictor here is :math:`f(x) = \sum_i \beta_i K(x, x_i)`: the functions take a kernel
matrix and return coefficients, and ``kernel(Z, X) @ coefficients`` predicts. With the
Gaussian process kernel of a network they are Bayesian inference under its prior (training the
last layer alone), with its neural tangent kernel what gradient descent on all parts arrives at.

One ridge is cheapest by Cholesky (`solve`); many ridges, leave-one-out errors and times of
gradient flow share one eigendecomposition (`decompose`), after which each costs O(n²).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from .matrices import check_symmetric, resolution
from .network import check_constant


def solve(K: np.ndarray, y: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    r"""Return the coefficients of kernel interpolation or ridge regression, by Cholesky.

    :math:`\beta = (K + \lambda I)^{-1} y`, the minimizer of
    :math:`\|y - K\beta\|^2 + \lambda \beta^\top K \beta`; eq. 4 of Tirer et al. 2022 for
    :math:`\lambda = 0`.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix of the given points: symmetric, positive semidefinite.
    y : ndarray, (n,) or (n, n_targets)
        Values at these points.
    ridge : float, default 0.0
        λ, at least 0.

    Returns
    -------
    ndarray of the shape of `y`

    Raises
    ------
    ValueError
        If K + λI is numerically singular: its smallest eigenvalue, which the message names,
        is not above n·eps·λ_max. Two points alike are the usual reason.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> regression.solve(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 0.0]))
    array([ 2., -1.])
    """
    K, y = check_symmetric(K, "K"), _check_targets(y, len(K))
    return scipy.linalg.cho_solve(_cholesky(K, check_constant(ridge, "ridge")), y)


def interpolate(
    kernel: Callable[..., np.ndarray],
    X: np.ndarray,
    y: np.ndarray,
    Z: np.ndarray,
    ridge: float = 0.0,
) -> np.ndarray:
    """Return predictions at `Z` of the regression on `X` and `y`: closed form, eq. 4 of Tirer.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or anything else that gives matrices ``kernel(X)`` and ``kernel(Z, X)``.
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
    coefficients = solve(kernel(X), y, ridge)
    return kernel(Z, X) @ coefficients


class Posterior(NamedTuple):
    """A Gaussian process at new points, given its values at others."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    variance: np.ndarray
    """(m,), of the process itself: noise of a new observation comes on top."""


def posterior(
    K: np.ndarray, cross: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: float = 0.0
) -> Posterior:
    r"""Return mean and variance of a Gaussian process given noisy observations.

    With a network's Gaussian process kernel this is exact Bayesian inference with the infinitely
    wide network, at random weights, as the prior (Neal 1996; Lee et al. 2018):
    :math:`\mu = k^\top (K + \sigma^2 I)^{-1} y`, :math:`s^2 = K(z,z) - k^\top
    (K + \sigma^2 I)^{-1} k`. (Its neural tangent kernel is not the covariance of a network: mean
    and variance of an ensemble trained by gradient descent are not these.)

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
        The variance lies between 0 and `prior`; what rounding errors take below 0 is 0.

    Raises
    ------
    ValueError
        As for `solve`; or if `cross` and `prior` cannot belong to `K`: the variance would be
        negative.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> p = regression.posterior(np.eye(2), np.array([[0.6, 0.0]]), np.ones(1), np.array([1, 2]))
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    K, y = check_symmetric(K, "K"), _check_targets(y, len(K))
    cross = _check_real(cross, "cross")
    if cross.ndim != 2 or cross.shape[1] != len(K) or cross.size == 0:
        raise ValueError(f"cross has shape {cross.shape}, expected (m, {len(K)})")
    prior = _check_real(prior, "prior")
    if prior.shape != (len(cross),):
        raise ValueError(f"prior has shape {prior.shape}, expected ({len(cross)},)")
    factor = _cholesky(K, check_constant(noise, "noise"))
    mean = cross @ scipy.linalg.cho_solve(factor, y)
    explained = scipy.linalg.solve_triangular(factor[0], cross.T, lower=True)
    variance = prior - (explained**2).sum(axis=0)
    if (variance < -np.sqrt(np.finfo(np.float64).eps) * np.abs(prior)).any():
        worst = int(np.argmin(variance))
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {worst} would "
            f"be {variance[worst]:.3g}, expected matrices of one kernel"
        )
    return Posterior(mean, np.maximum(variance, 0.0))


def learning_rate_bound(K: np.ndarray) -> float:
    r"""Return :math:`2/(\lambda_{\min} + \lambda_{\max})`, below which learning is stable.

    Theorem 5 of Tirer et al. 2022: gradient descent on :math:`\frac12 \|f - y\|^2` with a
    learning rate below this bound (at large width) trains to zero error, and the tangent kernel
    stays what it was.

    Parameters
    ----------
    K : ndarray, (n, n)
        Neural tangent kernel of the training points.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> regression.learning_rate_bound(np.diag([1.0, 3.0]))
    0.5
    """
    eigenvalues = scipy.linalg.eigvalsh(check_symmetric(K, "K"))
    total = float(eigenvalues[0] + eigenvalues[-1])
    if total <= 0:
        raise ValueError(f"K has eigenvalues of sum {total:.3g}, expected a kernel matrix not 0")
    return 2.0 / total


@dataclass(frozen=True)
class Decomposition:
    """A kernel matrix K = V diag(λ) Vᵀ, ready for any ridge and any time; from `decompose`."""

    eigenvalues: np.ndarray
    """(n,), rising"""
    eigenvectors: np.ndarray
    """(n, n), in columns"""

    def coefficients(self, y: np.ndarray, ridge: Any = 0.0) -> np.ndarray:
        """Return coefficients (K + λI)⁻¹ y for one ridge or for many.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        ridge : float or array_like, (n_ridges,)
            Each at least 0.

        Returns
        -------
        ndarray
            Of the shape of `y`, with an axis (n_ridges,) in front where `ridge` is an array.

        Raises
        ------
        ValueError
            As for `solve`.
        """
        y = _check_targets(y, len(self.eigenvalues))
        return self._filtered(self._inverses(ridge), y)

    def leave_one_out(self, y: np.ndarray, ridge: Any = 0.0) -> np.ndarray:
        r"""Return how far each value is from its prediction by the regression on all others.

        In closed form, without any refit: :math:`y_i - f_{-i}(x_i) = \beta_i /
        [(K + \lambda I)^{-1}]_{ii}`.

        Parameters
        ----------
        y, ridge
            As for `coefficients`.

        Returns
        -------
        ndarray
            As for `coefficients`.

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> regression.decompose(K).leave_one_out(np.array([3.0, 0.0])).round(12)
        array([ 3. , -1.5])
        """
        y = _check_targets(y, len(self.eigenvalues))
        inverses = self._inverses(ridge)
        diagonal = inverses @ (self.eigenvectors**2).T
        if y.ndim == 2:
            diagonal = diagonal[..., None]
        return self._filtered(inverses, y) / diagonal

    def flow(self, y: np.ndarray, time: Any, learning_rate: float = 1.0) -> np.ndarray:
        r"""Return coefficients of the network's function after training for a time.

        Gradient flow on :math:`\frac12 \|f - y\|^2` in the tangent-kernel regime, from a
        function that is 0 at the start: :math:`f_t(x) = K(x, X) K^{-1} (I - e^{-\eta K t}) y`
        (Jacot et al. 2018; eq. 3 of Tirer et al. 2022). After an infinite time it interpolates.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        time : float or array_like, (n_times,)
            Each at least 0; may be infinite.
        learning_rate : float, default 1.0
            η, positive.

        Returns
        -------
        ndarray
            Of the shape of `y`, with an axis (n_times,) in front where `time` is an array.

        Raises
        ------
        ValueError
            If K is numerically singular and the time so long that this matters.

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> K = np.eye(2)
        >>> regression.decompose(K).flow(np.ones(2), [0.0, 1.0, np.inf]).round(4)
        array([[0.    , 0.    ],
               [0.6321, 0.6321],
               [1.    , 1.    ]])
        """
        y = _check_targets(y, len(self.eigenvalues))
        rate = check_constant(learning_rate, "learning_rate")
        if rate == 0:
            raise ValueError(f"learning_rate is {learning_rate!r}, expected a positive number")
        scaled = rate * _check_nonnegative(time, "time", infinite=True)[..., None]
        smallest, largest = float(self.eigenvalues[0]), float(self.eigenvalues[-1])
        least = resolution(len(self.eigenvalues), largest)
        if smallest <= least and (scaled.max() == np.inf or scaled.max() * least > 1):
            raise _singular(len(self.eigenvalues), smallest, least, "or a shorter time")
        values = np.maximum(self.eigenvalues, 0.0)  # below 0 by rounding only, see decompose
        divisor = np.where(values > 0, values, 1.0)
        # λt is not formed where λ is 0: it may be 0·inf, and the filter's limit there is ηt.
        progress = np.where(values > 0, -np.expm1(-scaled * divisor) / divisor, scaled)
        return self._filtered(progress, y)

    def _inverses(self, ridge: Any) -> np.ndarray:
        """Return 1/(λ + ridge), (n,) or (n_ridges, n)."""
        shifted = self.eigenvalues + _check_nonnegative(ridge, "ridge")[..., None]
        flat = shifted.reshape(-1, shifted.shape[-1])
        for row in flat:
            _check_resolved(len(row), float(row[0]), float(row[-1]))
        return 1.0 / shifted

    def _filtered(self, factors: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return V diag(factors) Vᵀ y for each row of factors."""
        columns = self.eigenvectors.T @ (y if y.ndim == 2 else y[:, None])
        result = self.eigenvectors @ (factors[..., None] * columns)
        return result if y.ndim == 2 else result[..., 0]


def decompose(K: np.ndarray) -> Decomposition:
    """Return the eigendecomposition of a kernel matrix: all ridges and times from one of it.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite up to rounding errors.

    Returns
    -------
    Decomposition

    Raises
    ------
    ValueError
        If K has an eigenvalue below 0 by more than rounding errors.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> K = rk.ResCNTK(3)(X)
    >>> ladder = rk.regression.decompose(K)
    >>> ladder.coefficients(np.arange(5.0), ridge=[0.0, 0.1, 1.0]).shape
    (3, 5)
    """
    K = check_symmetric(K, "K")
    eigenvalues, eigenvectors = scipy.linalg.eigh(K)
    # Kernel matrices carry errors of their own: ten times what the decomposition adds.
    if eigenvalues[0] < -10 * resolution(len(K), float(np.abs(eigenvalues).max())):
        raise ValueError(
            f"K of shape {K.shape} has the eigenvalue {eigenvalues[0]:.3g}, "
            f"expected a positive semidefinite matrix"
        )
    return Decomposition(eigenvalues, eigenvectors)


def _cholesky(K: np.ndarray, ridge: float) -> tuple[np.ndarray, bool]:
    """Return the lower Cholesky factor of K + ridge·I as `scipy.linalg.cho_solve` wants it."""
    n = len(K)
    shifted = K + ridge * np.eye(n)
    try:
        factor = scipy.linalg.cholesky(shifted, lower=True)
    except np.linalg.LinAlgError:
        factor, reciprocal = None, 0.0
    else:
        one_norm = np.abs(shifted).sum(axis=0).max()
        reciprocal = float(scipy.linalg.lapack.dpocon(factor, one_norm, uplo="L")[0])
    # The estimate is cheap, and within a factor of ten; where it is close, eigenvalues decide.
    if reciprocal <= 10 * resolution(n, 1.0):
        eigenvalues = scipy.linalg.eigvalsh(shifted)
        _check_resolved(n, float(eigenvalues[0]), float(eigenvalues[-1]), factor is not None)
    return factor, True


def _check_resolved(n: int, smallest: float, largest: float, factored: bool = True) -> None:
    least = resolution(n, largest)
    if not (factored and smallest > least):
        raise _singular(n, smallest, least, "or a larger ridge")


def _singular(n: int, smallest: float, least: float, remedy: str) -> ValueError:
    return ValueError(
        f"K of shape {(n, n)} is numerically singular: its smallest eigenvalue (ridge included) "
        f"is {smallest:.3g}, expected above n·eps·λ_max = {least:.3g} (points that differ, "
        f"{remedy})"
    )


def _check_real(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} of shape {array.shape} contains NaN or infinity")
    return array


def _check_targets(y: Any, n: int) -> np.ndarray:
    y = _check_real(y, "y")
    if y.ndim not in (1, 2) or len(y) != n or y.size == 0:
        raise ValueError(f"y has shape {y.shape}, expected ({n},) or ({n}, n_targets)")
    return y


def _check_nonnegative(values: Any, name: str, infinite: bool = False) -> np.ndarray:
    """Return a number or a vector of numbers of at least 0."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {values!r}, expected numbers of at least 0") from None
    fits = (array >= 0) & (True if infinite else np.isfinite(array))
    if array.ndim > 1 or array.size == 0 or not fits.all():
        what = "numbers" if infinite else "finite numbers"
        raise ValueError(f"{name} is {values!r}, expected {what} of at least 0, one or a vector")
    return array
