"""Regression with many ridges, times and left-out points from one eigendecomposition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import scipy.linalg

from ..arrays import resolution, rounding_unit
from ..validation import (
    check_constant,
    check_flag,
    check_positive,
    check_real,
    check_shape,
    check_symmetric,
    check_targets,
)
from .checks import find_groups, in_range
from .left_out import LeftOutPoints
from .ridge import check_resolved, fit


@dataclass(frozen=True)
class Decomposition:
    """The eigendecomposition K = V diag(λ) Vᵀ of a kernel matrix; made by `decompose`.

    With weights of the points, W = diag(w), every λI below is λW⁻¹. V are the generalized
    eigenvectors: K V = W⁻¹ V diag(λ) and Vᵀ W⁻¹ V = I.
    """

    eigenvalues: np.ndarray
    """(n,), rising"""
    eigenvectors: np.ndarray
    """V, (n, n), in columns"""
    eps: float
    """eps of the dtype of K: eigenvalues below n·eps·λ_max are rounding errors."""
    matrix: np.ndarray | None = None
    """K, (n, n), where the points have different weights. A ridge of 0 needs K itself."""

    @in_range
    def coefficients(self, y: np.ndarray, ridge: Any = 0.0) -> np.ndarray:
        """Return the coefficients β = (K + λI)⁻¹ y for one ridge λ or for many.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        ridge : float or array_like, (n_ridges,)
            Each at least 0; an array puts an axis (n_ridges,) in front of the result's. At 0 the
            coefficients do not depend on the weights. A singular K + λI is refused as by `solve`.
        """
        return self._fit(y, ridge)[0]

    @in_range
    def with_intercept(self, y: np.ndarray, ridge: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients β and the constant b of a regression with an intercept.

        Arguments, shapes and errors are as for `coefficients`; b has no axis (n,).
        """
        return self._fit(y, ridge, True)[:2]

    @in_range
    def leave_one_out(
        self, y: np.ndarray, ridge: Any = 0.0, *, intercept: bool = False, groups: Any = None
    ) -> np.ndarray:
        r"""Return the leave-one-out errors y_i − f₋ᵢ(x_i), of the shape of the coefficients.

        They are :math:`\beta_i / B_{ii}` with :math:`\beta = B y` (Cawley and Talbot 2004).
        Arguments and errors are as for `coefficients`; an intercept needs two points. With labels
        `groups`, (n,), the points g of a group are left out together:
        :math:`B_{gg}^{-1} \beta_g`. An intercept then needs two groups.
        """
        check_flag(intercept, "intercept")
        members = None if groups is None else find_groups(groups, len(self.eigenvalues), intercept)
        return cast(np.ndarray, self._fit(y, ridge, intercept, True, members)[2])

    def left_out_variance(self, ridge: float, groups: Any = None) -> np.ndarray:
        r"""Return the variance of new observations at each point, left out with its group, (n,).

        In units of the process' variance, noise `ridge` included: the diagonal of
        :math:`(G_{gg})^{-1}` for :math:`G = (K + \lambda I)^{-1}`, as for `leave_one_out`.
        """
        ridge = check_positive(ridge, "ridge")
        members = None if groups is None else find_groups(groups, len(self.eigenvalues))
        return LeftOutPoints(self.eigenvectors, self._inverses(np.array(ridge))).variances(members)

    @in_range
    def variance(self, cross: np.ndarray, prior: Any, ridge: float = 0.0) -> np.ndarray:
        r"""Return the variance of `posterior` at m new points, (m,), for the noise `ridge`.

        `cross`, ``kernel(Z, X)``, is an array (m, n), and `prior`, ``kernel.diag(Z)``, one number
        or an array (m,).
        """
        ridge = check_constant(ridge, "ridge")
        source = self if ridge else self._unweighted()
        n = len(self.eigenvalues)
        cross = check_shape(cross, "cross", f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)
        prior = check_shape(prior, "prior", "() or (m,)", lambda s: s in ((), cross.shape[:1]))
        parts = cross @ source.eigenvectors  # their squares may leave the range
        explained = (parts * (parts * source._inverses(np.array(ridge)))).sum(axis=1)
        return np.maximum(prior - explained, 0.0)  # rounding errors may be below 0

    @in_range
    def flow(self, y: np.ndarray, time: Any, learning_rate: float = 1.0) -> np.ndarray:
        r"""Return the coefficients of the function :math:`f_t` after training for time t.

        Gradient flow on :math:`\frac12 \|f - y\|^2` in the tangent-kernel regime, from a
        function that is 0 at the start: :math:`f_t(x) = K(x, X) K^{-1} (I - e^{-\eta K t}) y`
        (Jacot et al. 2018; eq. 3 of Tirer et al. 2022). After an infinite time it interpolates.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        time : float or array_like, (n_times,)
            Each at least 0; may be infinite. An array puts an axis (n_times,) in front. Times that
            train eigenvectors of a numerically singular K are refused.
        learning_rate : float, default 1.0
            η, positive.
        """
        y = check_targets(y, len(self.eigenvalues))
        rate = check_positive(learning_rate, "learning_rate")
        times = check_nonnegative(time, "time", "(n_times,)", finite=False)
        scaled = rate * times[..., None]
        least = resolution(self.eigenvalues, self.eps)
        # An eigenvector is trained once ηλt > 1; an unresolved one must not be.
        if scaled.max() == np.inf or scaled.max() * least > 1:
            check_resolved(self.eigenvalues, self.eps, "a shorter time")
        values = np.maximum(self.eigenvalues, 0.0)  # below 0 by rounding only, see decompose
        divisor = np.where(values > 0, values, 1.0)
        # (1 − exp(−ηλt))/λ tends to ηt as λ → 0; at λ = 0 the product λt could be 0·inf.
        progress = np.where(values > 0, -np.expm1(-scaled * divisor) / divisor, scaled)
        coefficients = self._filtered(progress, y.reshape(len(y), -1))
        return coefficients if y.ndim == 2 else coefficients[..., 0]

    def learning_rate_bound(self) -> float:
        r"""Return :math:`2/(\lambda_{\min} + \lambda_{\max})`, a rate that is small enough.

        Theorem 5 of Tirer et al. 2022, for the neural tangent kernel of the training points: at
        large width any rate up to this bound trains to zero error; the bound is sufficient. With a
        constant kernel, gradient descent converges for exactly the rates below
        :math:`2/\lambda_{\max}`. A numerically singular K is refused.
        """
        check_resolved(self.eigenvalues, self.eps)
        return float(2.0 / (self.eigenvalues[0] + self.eigenvalues[-1]))

    def _unweighted(self) -> Decomposition:
        """Return the decomposition without weights, which lose digits where they differ a lot."""
        if self.matrix is None:
            return self
        eigenvalues, eigenvectors = scipy.linalg.eigh(self.matrix, driver="evd")
        return Decomposition(eigenvalues, eigenvectors, self.eps)

    def _fit(
        self,
        y: np.ndarray,
        ridge: Any,
        intercept: bool = False,
        leave_one_out: bool = False,
        groups: Sequence[np.ndarray] | None = None,
    ) -> tuple[Any, ...]:
        """Return coefficients, constants and, with `leave_one_out`, its errors."""
        y = check_targets(y, len(self.eigenvalues))
        ridges = check_nonnegative(ridge, "ridge", "(n_ridges,)")
        if self.matrix is not None and not ridges.all():
            unweighted = self._unweighted()
            fits = [
                (self if value else unweighted)._fit(y, value, intercept, leave_one_out, groups)
                for value in ridges.ravel()
            ]
            return tuple(
                None if part[0] is None else np.reshape(part, (*ridges.shape, *part[0].shape))
                for part in zip(*fits, strict=True)
            )
        inverses = self._inverses(ridges)
        inverse = partial(self._filtered, inverses)
        factors = (lambda: (self.eigenvectors, inverses)) if leave_one_out else None
        return fit(inverse, y, intercept, factors, groups)

    def _inverses(self, ridges: np.ndarray) -> np.ndarray:
        """Return 1/(λ + ridge), (n,) or (n_ridges, n)."""
        check_resolved(self.eigenvalues + ridges.min(), self.eps, "a larger ridge")
        return 1.0 / (self.eigenvalues + ridges[..., None])

    def _filtered(self, factors: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return V diag(factors) Vᵀ times columns (n, m) for each row of factors, (..., n, m)."""
        scaled = factors[..., None] * (self.eigenvectors.T @ columns)
        return multiply_each(self.eigenvectors, scaled)


def multiply_each(A: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return A @ columns for columns (..., k, m), (..., n, m).

    One product for all: NumPy multiplies a stack of thin matrices in a slow loop.
    """
    wide = np.moveaxis(columns, -2, 0)
    products = A @ wide.reshape(len(wide), math.prod(wide.shape[1:]))
    return np.moveaxis(products.reshape(-1, *wide.shape[1:]), 0, -2)


def decompose(
    K: np.ndarray, case_weights: np.ndarray | None = None, *, clip: bool = False
) -> Decomposition:
    """Return the eigendecomposition of a kernel matrix K, which serves all ridges and times.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite up to rounding errors of its dtype.
    case_weights : ndarray, (n,), optional
        Positive weights w of the points' squared errors. A point of weight 2 counts as two equal
        points, which leave-one-out errors leave out together.
    clip : bool, default False
        Whether to take eigenvalues below 0 as 0. By default those far below 0 are refused.

    See Also
    --------
    solve : One penalty, also with a stored matrix.
    restricted_ridge : Ridge regression restricted to landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> y, ladder = np.array([3.0, 0.0]), regression.decompose(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> ladder.coefficients(y, ridge=[0.0, 1.0]).shape, ladder.leave_one_out(y).round(12)
    ((2, 2), array([ 3. , -1.5]))
    """
    check_flag(clip, "clip")
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    weights = check_case_weights(case_weights, len(K))
    roots = np.sqrt(weights)
    scaled = K if case_weights is None else _weighted(K, roots)
    # LAPACK's divide and conquer is its fastest driver for all eigenvectors.
    eigenvalues, eigenvectors = scipy.linalg.eigh(scaled, driver="evd")
    # An eigendecomposition errs by about n·eps·λ_max; the factor 10 is for K's own errors.
    least = resolution(eigenvalues, eps)
    if clip:
        eigenvalues = np.maximum(eigenvalues, 0.0)
    elif eigenvalues[0] < -10 * least:
        raise ValueError(
            f"K of shape {K.shape} has the eigenvalue {eigenvalues[0]:.3g}, expected a positive "
            f"semidefinite matrix (more than {least - eigenvalues[0]:.3g} added to the diagonal, "
            f"regression.solve with such a ridge, or clip=True, which takes eigenvalues below 0 "
            f"as 0)"
        )
    if case_weights is not None:
        eigenvectors = roots[:, None] * eigenvectors
    different = weights.min() < weights.max()
    return Decomposition(eigenvalues, eigenvectors, eps, K.copy() if different else None)


@in_range
def _weighted(K: np.ndarray, roots: np.ndarray) -> np.ndarray:
    return K * roots * roots[:, None]


def check_case_weights(weights: Any, n: int) -> np.ndarray:
    """Return positive weights of n cases as a float64 array (n,), ones for None."""
    if weights is None:
        return np.ones(n)
    array = check_shape(weights, "case_weights", (n,))
    if (array <= 0).any():
        raise ValueError(f"case_weights has {array.min():.3g}, expected positive numbers")
    return array


def check_nonnegative(values: Any, name: str, shape: str, finite: bool = True) -> np.ndarray:
    """Return `values`, one number or a vector of numbers of at least 0, as a float64 array."""
    expected = f"of at least 0, one or {shape}"
    array = check_real(values, name, expected, finite)
    if array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {values!r}, expected numbers {expected}")
    return array
