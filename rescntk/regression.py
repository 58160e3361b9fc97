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

from .arrays import rounding_unit
from .matrices import resolution
from .validation import (
    check_constant,
    check_flag,
    check_kernel,
    check_match,
    check_nonnegative,
    check_real,
    check_signals,
    check_symmetric,
    check_targets,
)


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
        is not above n·eps·λ_max, eps that of K's dtype. Two points alike are the usual reason.

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
    check_kernel(kernel)
    X, Z, ridge = check_signals(X, "X"), check_signals(Z, "Z"), check_constant(ridge, "ridge")
    check_match(X, Z)
    y = check_targets(y, len(X))
    return kernel(Z, X) @ solve(kernel(X), y, ridge)


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
    given, K = (K, cross, prior), check_symmetric(K, "K")
    y, noise = check_targets(y, len(K)), check_constant(noise, "noise")
    cross = check_real(cross, "cross", f"(m, {len(K)})")
    if cross.ndim != 2 or cross.shape[1] != len(K) or cross.size == 0:
        raise ValueError(f"cross has shape {cross.shape}, expected (m, {len(K)})")
    prior = check_real(prior, "prior", f"({len(cross)},)")
    if prior.shape != (len(cross),):
        raise ValueError(f"prior has shape {prior.shape}, expected ({len(cross)},)")
    eps = max(map(rounding_unit, given))
    factor = _cholesky(K, noise, eps)
    mean = cross @ scipy.linalg.cho_solve((factor, True), y)
    explained = scipy.linalg.solve_triangular(factor, cross.T, lower=True)
    variance = prior - (explained**2).sum(axis=0)
    nothing = np.where(variance < 0, -np.inf, 0.0)  # relative to a prior of 0
    with np.errstate(over="ignore"):
        relative = np.divide(variance, prior, out=nothing, where=prior > 0)
    worst = int(np.argmin(relative))
    if relative[worst] < -np.sqrt(eps):
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {worst} would "
            f"be {variance[worst]:.3g}, expected matrices of one kernel"
        )
    return Posterior(mean, np.maximum(variance, 0.0))


@dataclass(frozen=True)
class Decomposition:
    """A kernel matrix K = V diag(λ) Vᵀ, ready for any ridge and any time; from `decompose`."""

    eigenvalues: np.ndarray
    """(n,), rising"""
    eigenvectors: np.ndarray
    """(n, n), in columns"""
    eps: float
    """That of the matrix as it came: what is below n·eps·λ_max is not known of its spectrum."""

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
        y = check_targets(y, len(self.eigenvalues))
        return self._solve(y, ridge, False)[0]

    def with_intercept(self, y: np.ndarray, ridge: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        r"""Return coefficients and the constant of the regression that also fits a constant.

        The minimizer of :math:`\|y - K\beta - 1b\|^2 + \lambda \beta^\top K \beta`. With
        :math:`G = (K + \lambda I)^{-1}` it is :math:`\beta = B y`,
        :math:`B = G - G 1 1^\top G / (1^\top G 1)`, and :math:`b = 1^\top G y / (1^\top G 1)`.

        Parameters
        ----------
        y, ridge
            As for `coefficients`.

        Returns
        -------
        coefficients : ndarray
            As for `coefficients`.
        intercepts : float or ndarray
            The same without the axis (n,).

        Raises
        ------
        ValueError
            As for `solve`.

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> found = regression.decompose(np.eye(2)).with_intercept(np.array([3.0, 1.0]), ridge=1.0)
        >>> found[0].round(12), float(found[1].round(12))
        (array([ 0.5, -0.5]), 2.0)
        """
        y = check_targets(y, len(self.eigenvalues))
        return self._solve(y, ridge, True)[:2]

    def leave_one_out(
        self, y: np.ndarray, ridge: Any = 0.0, *, intercept: bool = False
    ) -> np.ndarray:
        r"""Return how far each value is from its prediction by the regression on all others.

        In closed form, without any refit: :math:`y_i - f_{-i}(x_i) = \beta_i /
        [(K + \lambda I)^{-1}]_{ii}`; with an intercept :math:`\beta_i / B_{ii}`, the B of
        `with_intercept` (the block inverse of the bordered system; Cawley and Talbot 2004).

        Parameters
        ----------
        y, ridge
            As for `coefficients`.
        intercept : bool, default False
            Whether the regression also fits a constant; then of two values at least.

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
        n = len(self.eigenvalues)
        y = check_targets(y, n)
        if check_flag(intercept, "intercept") and n == 1:
            raise ValueError(f"y has shape {y.shape}, expected two values: one is the intercept")
        coefficients, _, less = self._solve(y, ridge, intercept)
        diagonal = self._inverses(ridge) @ (self.eigenvectors**2).T - less
        return coefficients / (diagonal[..., None] if y.ndim == 2 else diagonal)

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
        y = check_targets(y, len(self.eigenvalues))
        rate = check_constant(learning_rate, "learning_rate")
        if rate == 0:
            raise ValueError(f"learning_rate is {learning_rate!r}, expected a positive number")
        times = check_nonnegative(time, "time", "(n_times,)", finite=False)
        scaled = rate * times[..., None]
        least = resolution(self.eigenvalues, self.eps)
        if scaled.max() == np.inf or scaled.max() * least > 1:
            _check_resolved(self.eigenvalues, self.eps, "a shorter time")
        values = np.maximum(self.eigenvalues, 0.0)  # below 0 by rounding only, see decompose
        divisor = np.where(values > 0, values, 1.0)
        # λt is not formed where λ is 0: it may be 0·inf, and the filter's limit there is ηt.
        progress = np.where(values > 0, -np.expm1(-scaled * divisor) / divisor, scaled)
        return self._filtered(progress, y)

    def learning_rate_bound(self) -> float:
        r"""Return :math:`2/(\lambda_{\min} + \lambda_{\max})`, below which learning is stable.

        Theorem 5 of Tirer et al. 2022, for the neural tangent kernel of the training points:
        gradient descent on :math:`\frac12 \|f - y\|^2` with a learning rate below this bound
        (at large width) trains to zero error, and the tangent kernel stays what it was.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If K is numerically singular: the theorem is about positive definite kernels.

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> regression.decompose(np.diag([1.0, 3.0])).learning_rate_bound()
        0.5
        """
        _check_resolved(self.eigenvalues, self.eps)
        return float(2.0 / (self.eigenvalues[0] + self.eigenvalues[-1]))

    def _inverses(self, ridge: Any) -> np.ndarray:
        """Return 1/(λ + ridge), (n,) or (n_ridges, n)."""
        ridges = check_nonnegative(ridge, "ridge", "(n_ridges,)")
        _check_resolved(self.eigenvalues + ridges.min(), self.eps, "a larger ridge")
        return 1.0 / (self.eigenvalues + ridges[..., None])

    def _solve(
        self, y: np.ndarray, ridge: Any, intercept: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return By, the constant, and the diagonal of G - B, which without a constant is 0."""
        inverses = self._inverses(ridge)
        targets = y if y.ndim == 2 else y[:, None]
        if intercept:
            solved = self._filtered(inverses, np.column_stack([targets, np.ones(len(y))]))
            found, ones = solved[..., :-1], solved[..., -1]
            total = ones.sum(axis=-1, keepdims=True)
            constants = ones @ targets / total
            found = found - ones[..., None] * constants[..., None, :]
            less = ones**2 / total
        else:
            found, less = self._filtered(inverses, targets), np.zeros(inverses.shape)
            constants = np.zeros((*inverses.shape[:-1], targets.shape[1]))
        if y.ndim == 1:
            found, constants = found[..., 0], constants[..., 0]
        return found, constants, less

    def _filtered(self, factors: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return V diag(factors) Vᵀ y for each row of factors."""
        columns = self.eigenvectors.T @ (y if y.ndim == 2 else y[:, None])
        # All rows in one product: NumPy takes a stack of thin ones by a slow loop.
        wide = np.moveaxis(factors[..., None] * columns, -2, 0)
        result = self.eigenvectors @ wide.reshape(len(wide), -1)
        result = np.moveaxis(result.reshape(wide.shape), 0, -2)
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
        If K has an eigenvalue below 0 by more than rounding errors of its dtype.

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
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    eigenvalues, eigenvectors = scipy.linalg.eigh(K, driver="evd")  # the fastest for all vectors
    # Kernel matrices carry errors of their own: ten times what the decomposition adds.
    if eigenvalues[0] < -10 * resolution(eigenvalues, eps):
        raise ValueError(
            f"K of shape {K.shape} has the eigenvalue {eigenvalues[0]:.3g}, "
            f"expected a positive semidefinite matrix"
        )
    return Decomposition(eigenvalues, eigenvectors, eps)


def _cholesky(K: np.ndarray, ridge: float, eps: float) -> np.ndarray:
    """Return the lower Cholesky factor of K + ridge·I."""
    shifted = K.copy()
    np.fill_diagonal(shifted, K.diagonal() + ridge)
    one_norm = scipy.linalg.lapack.dlange("1", shifted.T)  # transposed: it reads columns
    try:
        factor = scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise _singular(scipy.linalg.eigvalsh(K) + ridge, eps, "a larger ridge") from None
    # The estimate is cheap, and within a factor of ten; where it is close, eigenvalues decide.
    if scipy.linalg.lapack.dpocon(factor, one_norm, uplo="L")[0] <= 10 * len(K) * eps:
        _check_resolved(scipy.linalg.eigvalsh(K) + ridge, eps, "a larger ridge")
    return factor


def _check_resolved(eigenvalues: np.ndarray, eps: float, remedy: str = "") -> None:
    if eigenvalues[0] <= resolution(eigenvalues, eps):
        raise _singular(eigenvalues, eps, remedy)


def _singular(eigenvalues: np.ndarray, eps: float, remedy: str) -> ValueError:
    n = len(eigenvalues)
    remedies = ["points that differ", remedy]
    if eps > np.finfo(np.float64).eps:
        remedies.append("a matrix in float64")
    return ValueError(
        f"K of shape {(n, n)} is numerically singular: its smallest eigenvalue (ridge included) "
        f"is {eigenvalues[0]:.3g}, expected above n·eps·λ_max = {resolution(eigenvalues, eps):.3g} "
        f"for eps = {eps:.3g} of its dtype ({' or '.join(filter(None, remedies))})"
    )
