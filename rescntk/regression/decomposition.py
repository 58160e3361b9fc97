"""Regression with many ridges, times and left-out points from one eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ..arrays import resolution, rounding_unit
from ..validation import check_constant, check_flag, check_positive, check_symmetric, check_targets
from .checks import check_case_weights, check_cross_kernel, check_nonnegative, check_resolved
from .ridge import fit


@dataclass(frozen=True)
class Decomposition:
    r"""The eigendecomposition K = V diag(λ) Vᵀ of a kernel matrix; made by `decompose`.

    With weights w of the points, W = diag(w), every squared error below is
    :math:`\sum_i w_i (y_i - f_i)^2`, and every :math:`\lambda I` is :math:`\lambda W^{-1}`. V are
    the generalized eigenvectors: :math:`K V = W^{-1} V \operatorname{diag}(\lambda)` with
    :math:`V^\top W^{-1} V = I`, and :math:`(K + \lambda W^{-1})^{-1} =
    V (\operatorname{diag}(\lambda) + \lambda I)^{-1} V^\top`.
    """

    eigenvalues: np.ndarray
    """(n,), rising"""
    eigenvectors: np.ndarray
    """V, (n, n), in columns"""
    eps: float
    """eps of the dtype of K: eigenvalues below n·eps·λ_max are rounding errors."""
    matrix: np.ndarray | None = None
    """K, (n, n), where the points have different weights. A ridge of 0 needs K itself."""

    def coefficients(self, y: np.ndarray, ridge: Any = 0.0) -> np.ndarray:
        """Return the coefficients β = (K + λI)⁻¹ y for one ridge λ or for many.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        ridge : float or array_like, (n_ridges,)
            Each at least 0. At 0 the coefficients do not depend on the weights.

        Returns
        -------
        ndarray
            Of the shape of `y`, with an axis (n_ridges,) in front where `ridge` is an array.

        Raises
        ------
        ValueError
            If K + λI is numerically singular, as for `solve`.
        """
        return self._fit(y, ridge, False)[0]

    def with_intercept(self, y: np.ndarray, ridge: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the coefficients β and the constant b of a regression with an intercept.

        The minimizer of :math:`\|y - K\beta - 1b\|^2 + \lambda \beta^\top K \beta`. With
        :math:`G = (K + \lambda I)^{-1}` it is :math:`\beta = B y`,
        :math:`B = G - G 1 1^\top G / (1^\top G 1)`, and :math:`b = 1^\top G y / (1^\top G 1)`.
        Arguments, shapes and errors are as for `coefficients`; b has no axis (n,).

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> found = regression.decompose(np.eye(2)).with_intercept(np.array([3.0, 1.0]), ridge=1.0)
        >>> found[0].round(12), float(found[1].round(12))
        (array([ 0.5, -0.5]), 2.0)
        """
        coefficients, constants = self._fit(y, ridge, True)
        return coefficients, constants

    def leave_one_out(
        self, y: np.ndarray, ridge: Any = 0.0, *, intercept: bool = False
    ) -> np.ndarray:
        r"""Return the leave-one-out errors y_i − f₋ᵢ(x_i), of the shape of the coefficients.

        :math:`y_i - f_{-i}(x_i) = \beta_i / [(K + \lambda I)^{-1}]_{ii}`, where :math:`f_{-i}`
        is fitted to all points but i; the closed form needs no refit. With an intercept the error
        is :math:`\beta_i / B_{ii}`, with the matrix B of `with_intercept` (the block inverse of
        the bordered system; Cawley and Talbot 2004), for at least two points. Arguments and
        errors are as for `coefficients`.

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> regression.decompose(K).leave_one_out(np.array([3.0, 0.0])).round(12)
        array([ 3. , -1.5])
        """
        return self._fit(y, ridge, check_flag(intercept, "intercept"), True)[2]

    def variance(self, cross: np.ndarray, prior: Any, ridge: float = 0.0) -> np.ndarray:
        r"""Return the variance :math:`K(z,z) - k^\top (K + \lambda I)^{-1} k` at m new points.

        It is the variance of `posterior`, (m,), where λ is the noise; rounding errors do not take
        it below 0. One decomposition serves many λ.

        Parameters
        ----------
        cross : ndarray, (m, n)
            ``kernel(Z, X)``, with k in its rows.
        prior : float or ndarray, (m,)
            ``kernel.diag(Z)``.
        ridge : float, default 0.0
            λ, at least 0.
        """
        ridge = check_constant(ridge, "ridge")
        source = self if ridge else self._unweighted()
        cross = check_cross_kernel(cross, len(self.eigenvalues))
        explained = (cross @ source.eigenvectors) ** 2 @ source._inverses(np.array(ridge))
        return np.maximum(prior - explained, 0.0)

    def flow(self, y: np.ndarray, time: Any, learning_rate: float = 1.0) -> np.ndarray:
        r"""Return the coefficients of the function :math:`f_t` after training for time t.

        Gradient flow on :math:`\frac12 \|f - y\|^2` in the tangent-kernel regime, from a
        function that is 0 at the start: :math:`f_t(x) = K(x, X) K^{-1} (I - e^{-\eta K t}) y`
        (Jacot et al. 2018; eq. 3 of Tirer et al. 2022). After an infinite time it interpolates.

        Parameters
        ----------
        y : ndarray, (n,) or (n, n_targets)
        time : float or array_like, (n_times,)
            Each at least 0; may be infinite. An array puts an axis (n_times,) in front.
        learning_rate : float, default 1.0
            η, positive.

        Raises
        ------
        ValueError
            If K is numerically singular and the time long enough to train such eigenvectors.

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
        found = self._filtered(progress, y if y.ndim == 2 else y[:, None])
        return found if y.ndim == 2 else found[..., 0]

    def learning_rate_bound(self) -> float:
        r"""Return :math:`2/(\lambda_{\min} + \lambda_{\max})`, the bound of stable learning rates.

        Theorem 5 of Tirer et al. 2022, for the neural tangent kernel of the training points and
        gradient descent on :math:`\frac12 \|f - y\|^2` at large width. A learning rate below
        the bound trains to zero error, and the tangent kernel hardly changes.

        A numerically singular K is refused: the theorem is about positive definite kernels.

        Examples
        --------
        >>> import numpy as np
        >>> from rescntk import regression
        >>> regression.decompose(np.diag([1.0, 3.0])).learning_rate_bound()
        0.5
        """
        check_resolved(self.eigenvalues, self.eps)
        return float(2.0 / (self.eigenvalues[0] + self.eigenvalues[-1]))

    def _unweighted(self) -> Decomposition:
        """Return the decomposition without weights, which cost digits where they differ a lot."""
        if self.matrix is None:
            return self
        eigenvalues, eigenvectors = scipy.linalg.eigh(self.matrix, driver="evd")
        return Decomposition(eigenvalues, eigenvectors, self.eps)

    def _fit(
        self, y: np.ndarray, ridge: Any, intercept: bool, leave_one_out: bool = False
    ) -> list[np.ndarray]:
        """Return coefficients, constants and, if wanted, leave-one-out errors (`ridge.fit`)."""
        y = check_targets(y, len(self.eigenvalues))
        ridges = check_nonnegative(ridge, "ridge", "(n_ridges,)")
        if self.matrix is not None and not ridges.all():
            unweighted = self._unweighted()
            fits = [
                (self if value else unweighted)._fit(y, value, intercept, leave_one_out)
                for value in ridges.ravel()
            ]
            parts = zip(*fits, strict=True)
            return [np.reshape(part, (*ridges.shape, *part[0].shape)) for part in parts]
        inverses = self._inverses(ridges)

        def inverse(columns: np.ndarray) -> np.ndarray:
            return self._filtered(inverses, columns)

        def diagonal() -> np.ndarray:
            return inverses @ (self.eigenvectors**2).T

        return fit(inverse, y, intercept, diagonal if leave_one_out else None)

    def _inverses(self, ridges: np.ndarray) -> np.ndarray:
        """Return 1/(λ + ridge), (n,) or (n_ridges, n)."""
        check_resolved(self.eigenvalues + ridges.min(), self.eps, "a larger ridge")
        return 1.0 / (self.eigenvalues + ridges[..., None])

    def _filtered(self, factors: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return V diag(factors) Vᵀ times columns (n, m) for each row of factors, (..., n, m)."""
        products = factors[..., None] * (self.eigenvectors.T @ columns)
        # One product for all rows: NumPy multiplies a stack of thin matrices in a slow loop.
        wide = np.moveaxis(products, -2, 0)
        result = self.eigenvectors @ wide.reshape(len(wide), -1)
        return np.moveaxis(result.reshape(wide.shape), 0, -2)


def decompose(
    K: np.ndarray, case_weights: np.ndarray | None = None, *, clip: bool = False
) -> Decomposition:
    """Return the eigendecomposition of a kernel matrix K, which serves all ridges and times.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite up to rounding errors.
    case_weights : ndarray, (n,), optional
        Positive weights w of the points' squared errors. A point of weight 2 counts as two equal
        points with equal values. Leave-one-out errors leave out the point with all its weight.
    clip : bool, default False
        Whether to take all eigenvalues below 0 as 0, which makes K the nearest positive
        semidefinite matrix. Otherwise eigenvalues far below 0 are refused.

    Raises
    ------
    ValueError
        If K has an eigenvalue below 0 by more than rounding errors of its dtype, or a weight is
        not positive.

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
    check_flag(clip, "clip")
    K, eps = check_symmetric(K, "K"), rounding_unit(K)
    weights = np.ones(1) if case_weights is None else check_case_weights(case_weights, len(K))
    roots = np.sqrt(weights)
    scaled = K if case_weights is None else K * roots * roots[:, None]
    # LAPACK's divide and conquer is its fastest driver for all eigenvectors.
    eigenvalues, eigenvectors = scipy.linalg.eigh(scaled, driver="evd")
    if clip:
        eigenvalues = np.maximum(eigenvalues, 0.0)
    else:
        # An eigendecomposition errs by about n·eps·λ_max; the factor 10 is for K's own errors.
        least = resolution(eigenvalues, eps)
        if eigenvalues[0] < -10 * least:
            raise ValueError(
                f"K of shape {K.shape} has the eigenvalue {eigenvalues[0]:.3g}, expected a "
                f"positive semidefinite matrix (more than {least - eigenvalues[0]:.3g} added to "
                f"the diagonal, regression.solve with such a ridge, or clip=True, which takes "
                f"eigenvalues below 0 as 0)"
            )
    if case_weights is not None:
        eigenvectors = roots[:, None] * eigenvectors
    different = weights.min() < weights.max()
    return Decomposition(eigenvalues, eigenvectors, eps, K.copy() if different else None)
