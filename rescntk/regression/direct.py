"""Coefficients of functions that fit values at signals, from one kernel matrix in memory."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..arrays import rounding_unit
from ..checks.values import check_finite, check_nonnegative, check_symmetric, check_targets
from .cholesky import cholesky, in_units
from .decomposition import decompose


def interpolate(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return β = K⁻¹ y, `ridge` without a penalty: eq. 4 of Tirer et al. 2022.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``.
    y : ndarray, (n,) or (n, n_targets)
        Values at the n signals.

    Returns
    -------
    ndarray, in the shape of y

    Raises
    ------
    ValueError
        If K is numerically singular in its precision, mostly by two equal signals.
    OverflowError
        If coefficients exceed float64.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.interpolate([[2.0, 1.0], [1.0, 2.0]], [3.0, 0.0])
    array([ 2., -1.])
    """
    return ridge(K, y, 0.0)


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def ridge(K: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    r"""Return β = (K + λI)⁻¹ y, the minimizer of ‖y − Kβ‖² + λ βᵀKβ.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``.
    y : ndarray, (n,) or (n, n_targets)
        Values at the n signals.
    penalty : float
        λ, at least 0.

    Returns
    -------
    ndarray, in the shape of y
        ``kernel(Z, X) @ coefficients`` predicts at signals Z.

    Raises
    ------
    ValueError
        If K + λI is numerically singular in the precision of K, mostly by two equal signals.
    OverflowError
        If coefficients exceed float64.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.ridge([[1.0, 0.0], [0.0, 1.0]], [2.0, 4.0], penalty=1.0)
    array([1., 2.])
    """
    matrix, eps = check_symmetric(K, "K"), rounding_unit(K)
    y, penalty = check_targets(y, len(matrix)), check_nonnegative(penalty, "penalty")
    factor, units = cholesky(matrix, penalty, eps)
    columns = scipy.linalg.cho_solve((factor, True), in_units(y, units)) / units
    return check_finite(columns.reshape(y.shape))


def leave_one_out(
    K: np.ndarray,
    y: np.ndarray,
    penalty: ArrayLike,
    *,
    intercept: bool = False,
    groups: ArrayLike | None = None,
) -> np.ndarray:
    r"""Return the errors y_i − f₋ᵢ(x_i) of ridge regressions without case i, in closed form.

    With :math:`B = (K + \lambda I)^{-1}` and :math:`\beta = B y` they are :math:`\beta_i / B_{ii}`
    (Cawley and Talbot 2004). With an intercept :math:`B - B 1 1^\top B / (1^\top B 1)` takes the
    place of B. Cases g of one group are left out together: :math:`B_{gg}^{-1} \beta_g`.

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``.
    y : ndarray, (n,) or (n, n_targets)
        Values at the n signals.
    penalty : float or array_like, (n_penalties,)
        λ, at least 0. An array puts an axis (n_penalties,) in front of the result.
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
        If K + λI is numerically singular in the precision of K, or labels name one group alone.
    OverflowError
        If errors exceed float64.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.leave_one_out([[2.0, 1.0], [1.0, 2.0]], [3.0, 0.0], [0.0, 1.0]).round(12)
    array([[ 3. , -1.5],
           [ 3. , -1. ]])
    """
    return decompose(K).leave_one_out(y, penalty, intercept=intercept, groups=groups)


def flow(K: np.ndarray, y: np.ndarray, time: ArrayLike) -> np.ndarray:
    r"""Return the coefficients of the function after gradient flow for a time t, from 0.

    Gradient flow on :math:`\frac12 \sum_i (f_i - y_i)^2` in the tangent-kernel regime is
    :math:`f' = -K(f - y)` at the signals, and everywhere :math:`f_t(x) = K(x, X) K^{-1}
    (I - e^{-K t}) y` (Jacot et al. 2018; eq. 3 of Tirer et al. 2022). Steps of gradient descent
    with a small rate η are at times η, 2η, …; on the mean of n squares at η/n, 2η/n, …

    Parameters
    ----------
    K : ndarray, (n, n)
        Symmetric, positive semidefinite: ``kernel(X)``. It may be singular, if no time trains an
        eigenvector of rounding errors.
    y : ndarray, (n,) or (n, n_targets)
        Values at the n signals.
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

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.flow([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0], [0.0, float("inf")])
    array([[0., 0.],
           [1., 1.]])
    """
    return decompose(K).flow(y, time)
