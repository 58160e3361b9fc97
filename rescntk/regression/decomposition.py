r"""Eigendecompositions of kernel matrices, which serve all penalties and times of a regression.

`decompose` takes a kernel matrix K, and `decompose_features` the features Φ of :math:`K = \Phi
\Phi^\top`. Results beyond float64 raise an OverflowError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..arrays import resolution, rounding_unit
from ..checks.labels import check_groups
from ..checks.values import (
    check_finite,
    check_flag,
    check_nonnegative_vector,
    check_positive,
    check_shape,
    check_symmetric,
    check_targets,
)

Spectral = tuple[np.ndarray, float]
"""A function f of a kernel matrix: f(μ) − f(0) in directions of U, (k,), and f(0) in all."""


@dataclass(frozen=True)
class Decomposition:
    r"""Eigenvectors U and eigenvalues μ of a kernel matrix, :math:`K = U M U^\top`.

    M is the diagonal matrix of μ. Directions outside of U have the eigenvalue 0. Formulas have the
    penalty λ. With weights w of the cases, U and μ are of :math:`W^{1/2} K W^{1/2}`, and every λI
    in a formula is λW⁻¹.
    """

    eigenvalues: np.ndarray
    """(k,), rising"""
    eigenvectors: np.ndarray
    """U, (n, k), in columns"""
    eps: float
    """Rounding unit of the numbers in K: eigenvalues below n·eps·μ_max are rounding errors."""
    sqrt_weights: np.ndarray
    """√w, (n,); ones without weights"""

    @overload
    def ridge(
        self, y: np.ndarray, penalty: ArrayLike, *, intercept: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def ridge(
        self, y: np.ndarray, penalty: ArrayLike, *, intercept: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def ridge(
        self, y: np.ndarray, penalty: ArrayLike, *, intercept: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return β = (K + λI)⁻¹ y for each penalty λ; with `intercept` also the constants b.

        β minimizes Σ w (y − Kβ − b)² + λ βᵀKβ.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        penalty : float or array_like, (n_penalties,)
            λ, at least 0.
        intercept : bool, default False
            Whether to fit a constant without penalty.

        Returns
        -------
        beta : ndarray, in the shape of y, after an axis (n_penalties,) for several penalties
        b : ndarray
            In the shape of ``beta`` without its axis (n,); only with `intercept`.

        Raises
        ------
        ValueError
            If K + λI is numerically singular.
        OverflowError
            If coefficients exceed float64.
        """
        y, intercept = check_targets(y, len(self.sqrt_weights)), check_flag(intercept, "intercept")
        solutions = [self._fit(y, inverse, intercept)[:2] for inverse in self._inverses(penalty)]
        beta, b = (_stack(part, penalty) for part in zip(*solutions, strict=True))
        return (beta, b) if intercept else beta

    def leave_one_out(
        self,
        y: np.ndarray,
        penalty: ArrayLike,
        *,
        intercept: bool = False,
        groups: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return errors of cases or groups that are left out: see `regression.leave_one_out`.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        penalty : float or array_like, (n_penalties,)
            λ, at least 0.
        intercept : bool, default False
            Whether each regression has a constant without penalty.
        groups : array_like, (n,), optional
            A label for each case, of two groups at least.

        Returns
        -------
        ndarray, in the shape of y, after an axis (n_penalties,) for several penalties

        Raises
        ------
        ValueError
            If K + λI is numerically singular, or labels name one group alone.
        OverflowError
            If errors exceed float64.
        """
        y, members = check_targets(y, len(self.sqrt_weights)), self._members(groups)
        intercept = check_flag(intercept, "intercept")
        if intercept and len(y) == 1:
            raise ValueError("y has one case, expected two: the other gives the intercept")
        errors = []
        for inverse in self._inverses(penalty):
            beta, _, ones = self._fit(y, inverse, intercept)
            shares = ones / (ones.sum() or 1.0)
            errors.append(np.empty_like(beta))
            for cases in members:
                B = (
                    self._block(inverse, cases)
                    - ones[cases][..., None] * shares[cases][..., None, :]
                )
                left = np.linalg.solve(B, beta[cases].reshape(*cases.shape, -1))
                errors[-1][cases] = left.reshape(beta[cases].shape)
        return _stack(errors, penalty)

    def left_out_variance(self, penalty: float, groups: ArrayLike | None = None) -> np.ndarray:
        r"""Return the variance of an observation at each left-out case, noise included.

        The diagonal of :math:`(G_{gg})^{-1}` for :math:`G = (K + \lambda I)^{-1}`, where K is the
        covariance of a Gaussian process and λ the noise.

        Parameters
        ----------
        penalty : float
            λ, positive.
        groups : array_like, (n,), optional
            A label for each case, of two groups at least.

        Returns
        -------
        ndarray, (n,)

        Raises
        ------
        ValueError
            If K + λI is numerically singular, or labels name one group alone.
        """
        (inverse,) = self._inverses(check_positive(penalty, "penalty"))
        variance = np.empty(len(self.sqrt_weights))
        for cases in self._members(groups):
            blocks = np.linalg.inv(self._block(inverse, cases))
            variance[cases] = blocks.diagonal(axis1=-2, axis2=-1)
        return _stack([variance], penalty)

    def flow(self, y: np.ndarray, time: ArrayLike) -> np.ndarray:
        """Return coefficients after gradient flow for one time or many: see `regression.flow`.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        time : float or array_like, (n_times,)
            Each at least 0; infinity interpolates.

        Returns
        -------
        ndarray, in the shape of y, after an axis (n_times,) for several times

        Raises
        ------
        ValueError
            If a time trains an eigenvector of K that is a rounding error.
        OverflowError
            If coefficients exceed float64.
        """
        y = check_targets(y, len(self.sqrt_weights))
        times = check_nonnegative_vector(time, "time", finite=False)
        # A direction is trained once μt > 1. A direction of rounding errors must not be.
        smallest = resolution(self.eigenvalues, self.eps)
        if np.isinf(times).any() or float(times.max()) * float(smallest) > 1:
            self._check(0.0)
        values = self.eigenvalues
        safe = np.where(values > 0, values, 1.0)  # (1 − exp(−μt))/μ is t at μ = 0
        coefficients = []
        for t in times:
            zero = t if self._outside else 0.0
            f = np.where(values > 0, -np.expm1(-safe * t) / safe, t)
            coefficients.append(self._apply((f - zero, zero), y))
        return _stack(coefficients, time)

    def learning_rate_bound(self) -> float:
        """Return 2/(μ_min + μ_max), the largest learning rate of theorem 5 of Tirer et al. 2022.

        Rates up to it train wide networks with this tangent kernel to zero error.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If K is numerically singular.
        """
        self._check(0.0)
        return float(2.0 / (self.eigenvalues[0] + self.eigenvalues[-1]))

    @property
    def _outside(self) -> bool:
        """True if U does not span all directions."""
        return self.eigenvectors.shape[1] < len(self.sqrt_weights)

    def _check(self, penalty: float) -> None:
        """Refuse K + λI whose least eigenvalue is at most n·eps·μ_max."""
        least = penalty + (0.0 if self._outside else self.eigenvalues[0])
        largest = max(self.eigenvalues[-1] + penalty, 1e-300)
        check_condition(least / largest, len(self.sqrt_weights), self.eps)

    def _inverses(self, penalty: ArrayLike) -> list[Spectral]:
        """Return (K + λI)⁻¹ for each penalty, as a function of the eigenvalues."""
        penalties = check_nonnegative_vector(penalty, "penalty")
        self._check(float(penalties.min()))
        zeros = [1.0 / number if self._outside else 0.0 for number in penalties]
        pairs = zip(penalties, zeros, strict=True)
        return [(1.0 / (self.eigenvalues + number) - zero, zero) for number, zero in pairs]

    def _apply(self, function: Spectral, y: np.ndarray) -> np.ndarray:
        """Return √W f(√W K √W) √W y."""
        scaled, (f, zero) = (self.sqrt_weights * y.T).T, function
        with np.errstate(over="ignore", invalid="ignore"):  # refused by `check_finite`
            result = self.eigenvectors @ (f * (self.eigenvectors.T @ scaled).T).T + zero * scaled
            return np.asarray((self.sqrt_weights * result.T).T)

    def _block(self, function: Spectral, cases: np.ndarray) -> np.ndarray:
        """Return √W f(√W K √W) √W between the cases of a group, (k, k), or of many, (…, k, k)."""
        (f, zero), sqrt_weights = function, self.sqrt_weights[cases][..., None]
        if cases.shape[-1] == 1:  # many products of one row would take longer
            squares = self.eigenvectors[cases[..., 0]] ** 2 @ f
            return np.asarray(sqrt_weights**2 * (squares[..., None, None] + zero))
        A = sqrt_weights * self.eigenvectors[cases]
        rest = zero * sqrt_weights**2 * np.eye(cases.shape[-1])
        return np.asarray((f * A) @ A.swapaxes(-2, -1) + rest)

    def _fit(self, y: np.ndarray, inverse: Spectral, intercept: bool) -> tuple[np.ndarray, ...]:
        """Return β = G(y − b), b = 1ᵀGy / 1ᵀG1 and G1 for the inverse G; b, G1 are 0 without it.

        So β = By with B = G − G11ᵀG / 1ᵀG1.
        """
        ones = self._apply(inverse, np.full(len(y), float(intercept)))
        b = np.asarray(ones @ y / (ones.sum() or 1.0))
        return self._apply(inverse, y) - np.multiply.outer(ones, b), b, ones

    def _members(self, groups: ArrayLike | None) -> list[np.ndarray]:
        """Return the indices of each group's cases, (k,), from n labels; without labels (n, 1)."""
        n = len(self.sqrt_weights)
        if groups is None:
            return [np.arange(n)[:, None]]
        numbers = check_groups(groups, n)
        return np.split(numbers.argsort(kind="stable"), np.bincount(numbers).cumsum()[:-1])


def decompose(
    K: np.ndarray, case_weights: ArrayLike | None = None, *, clip: bool = False
) -> Decomposition:
    """Return the eigendecomposition of a kernel matrix, which serves all penalties and times.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``.
    case_weights : array_like, (n,), optional
        Positive weights of squared errors. A case of weight 2 counts as two equal cases, which
        leave-one-out errors leave out together.
    clip : bool, default False
        Whether to take eigenvalues below 0 as 0. By default those far below 0 are refused.

    Returns
    -------
    `Decomposition`

    Raises
    ------
    ValueError
        If K is not symmetric, or has eigenvalues far below 0.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.decompose([[2.0, 1.0], [1.0, 2.0]]).ridge([3.0, 0.0], [0.0, 1.0]).round(12)
    array([[ 2.   , -1.   ],
           [ 1.125, -0.375]])
    """
    matrix, eps, clip = check_symmetric(K, "K"), rounding_unit(K), check_flag(clip, "clip")
    sqrt_weights = _sqrt_weights(case_weights, len(matrix))
    weighted = check_finite(sqrt_weights[:, None] * matrix * sqrt_weights)
    values, U = scipy.linalg.eigh(weighted, driver="evd")
    least = resolution(values, eps)  # an eigendecomposition errs by about this much
    if values[0] < -10 * least and not clip:
        raise ValueError(
            f"K of shape {matrix.shape} has the eigenvalue {values[0]:.3g}, expected a positive "
            f"semidefinite matrix (more than {least - values[0]:.3g} added to the diagonal, or "
            f"clip=True, which takes eigenvalues below 0 as 0)"
        )
    return Decomposition(np.maximum(values, 0.0) if clip else values, U, eps, sqrt_weights)


def decompose_features(
    features: np.ndarray, case_weights: ArrayLike | None = None
) -> Decomposition:
    r"""Return the decomposition of the kernel matrix :math:`\Phi \Phi^\top` of features Φ.

    Parameters
    ----------
    features : ndarray, (n, n_features)
        Φ; ``features.T @ coefficients`` are the weights of the features.
    case_weights : array_like, (n,), optional
        Positive weights of squared errors.

    Returns
    -------
    `Decomposition`

    Raises
    ------
    OverflowError
        If squared features exceed float64.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> x, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 2.0])
    >>> beta, b = regression.decompose_features(x).ridge(y, 1e-6, intercept=True)
    >>> (x.T @ beta).round(4), float(b.round(6))
    (array([1.]), 1.0)
    """
    Phi = check_shape(features, "features", "(n, n_features)", lambda s: len(s) == 2)
    sqrt_weights = _sqrt_weights(case_weights, len(Phi))
    U, S, _ = scipy.linalg.svd(sqrt_weights[:, None] * Phi, full_matrices=False)
    with np.errstate(over="ignore"):
        values = check_finite(np.square(S[::-1]))
    return Decomposition(values, U[:, ::-1], rounding_unit(features), sqrt_weights)


def _sqrt_weights(weights: ArrayLike | None, n: int) -> np.ndarray:
    array = np.ones(n) if weights is None else check_shape(weights, "case_weights", (n,))
    if (array <= 0).any():
        raise ValueError(f"case_weights has {array.min():.3g}, expected positive numbers")
    return np.sqrt(array)


def _stack(parts: Sequence[np.ndarray], argument: ArrayLike) -> np.ndarray:
    """Return results for one number, or stacked for a vector."""
    return np.asarray(check_finite(np.stack(parts) if np.ndim(argument) else parts[0]))


def check_condition(reciprocal: float, n: int, eps: float) -> None:
    """Refuse a matrix K + λI, (n, n), with 1/condition of n·eps at most."""
    if not reciprocal > n * eps:
        raise ValueError(
            f"K of shape {(n, n)} is numerically singular: 1/condition, penalty included, is "
            f"{reciprocal:.2g}, expected above n·eps = {n * eps:.2g} for its dtype (signals that "
            f"differ, a larger penalty, a shorter time, or float64)"
        )
