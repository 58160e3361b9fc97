"""Ridge regression on features, which are read block by block; any penalty afterwards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..validation import (
    check_case_weights,
    check_features,
    check_flag,
    check_nonnegative,
    check_targets,
    check_width,
    unresolved_features,
    unresolved_leverage,
)

_EPS = float(np.finfo(np.float64).eps)


class FeatureRidge:
    r"""Ridge regression on features F, (n, k): all penalties λ from one reading of the rows.

    The prediction for a signal with features φ is :math:`\varphi^\top w + b`. Weights w and
    intercept b minimize :math:`\|Y - F w - 1 b\|^2 + \lambda \|w\|^2`. Rows arrive in blocks,
    and may be forgotten after each block. What stays is the triangle R of the QR decomposition
    :math:`[1\ F\ Y] = Q R`: (1 + k + n_targets)² numbers. The condition number of F is not
    squared, as FᵀF would square it.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> F, y = np.eye(3)[:, :2], np.array([2.0, 4.0, 3.0])
    >>> ridge = regression.FeatureRidge().add(F[:2], y[:2]).add(F[2:], y[2:])
    >>> weights, intercept = ridge.weights(0.5, intercept=True)
    >>> weights.round(12), float(intercept.round(12))
    (array([-0.66666667,  0.66666667]), 3.0)
    >>> ridge.leave_one_out(F, y, [0.5, 1.0]).shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._triangle: np.ndarray | None = None
        self._n, self._k, self._axes = 0, 0, 0
        self._decomposed: dict[bool, _Decomposed] = {}

    def add(
        self, F: np.ndarray, y: np.ndarray, case_weights: np.ndarray | None = None
    ) -> FeatureRidge:
        """Add rows of features, with their targets.

        Parameters
        ----------
        F : ndarray, (m, k)
            Blocks of more rows than k are the fastest.
        y : ndarray, (m,) or (m, n_targets)
        case_weights : ndarray, (m,), optional
            Positive factors of the rows' squared errors. A row of weight 2 counts as two equal
            rows. The default is 1.

        Returns
        -------
        FeatureRidge
            This object.

        Raises
        ------
        ValueError
            If features or targets are not as described, or unlike those of earlier blocks.
        """
        F = check_features(F, "F")
        y = check_targets(y, len(F))
        targets = y if y.ndim == 2 else y[:, None]
        rows = _roots(case_weights, len(F)) * np.hstack([np.ones((len(F), 1)), F, targets])
        if self._triangle is None:
            self._k, self._axes = F.shape[1], y.ndim
        else:
            check_width(F, "F", self._k)
            check_width(targets, "y", self._triangle.shape[1] - 1 - self._k)
            rows = np.vstack([self._triangle, rows])
        self._triangle = np.asarray(np.linalg.qr(rows, mode="r"))
        self._n += len(F)
        self._decomposed = {}
        return self

    def weights(
        self, ridge: Any = 0.0, *, intercept: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights w and the intercept b for one penalty λ or for many.

        Parameters
        ----------
        ridge : float or array_like, (n_ridges,), default 0.0
            λ, each at least 0.
        intercept : bool, default False
            Whether to fit the constant b, without penalty. Otherwise b is 0.

        Returns
        -------
        weights : ndarray, (k,) or (k, n_targets)
            With an axis (n_ridges,) in front where `ridge` is an array.
        intercepts : ndarray
            As the weights, without the axis (k,).

        Raises
        ------
        ValueError
            If λ is 0 and the features are linearly dependent; or if there are no rows yet.
        """
        parts, ridges = self._parts(intercept), check_nonnegative(ridge, "ridge", "(n_ridges,)")
        weights = parts.weights(ridges)
        constants = parts.mean_target - parts.mean_features @ weights
        if self._axes == 1:
            return weights[..., 0], constants[..., 0]
        return weights, constants

    def leave_one_out(
        self,
        F: np.ndarray,
        y: np.ndarray,
        ridge: Any = 0.0,
        *,
        intercept: bool = False,
        case_weights: np.ndarray | None = None,
    ) -> np.ndarray:
        r"""Return the leave-one-out errors y_i − f₋ᵢ(x_i) of rows that have been added.

        :math:`y_i - f_{-i}(x_i) = (y_i - f(x_i)) / (1 - h_i)`, where :math:`f_{-i}` is fitted
        to all rows but row i. The leverage is
        :math:`h_i = \varphi_i^\top (F^\top F + \lambda I)^{-1} \varphi_i`; with an intercept it
        is :math:`1/n` more, with centred features. With weights W of the cases it is
        :math:`h_i = w_i \varphi_i^\top (F^\top W F + \lambda I)^{-1} \varphi_i`, and
        :math:`w_i / \sum_j w_j` more: row i is left out with all its weight. No fit is repeated.
        All rows may be given at once, or block by block. Rows that have not been added give
        meaningless numbers.

        Parameters
        ----------
        F, y, case_weights
            As for `add`.
        ridge, intercept
            As for `weights`.

        Returns
        -------
        ndarray
            Of the shape of `y`, with an axis (n_ridges,) in front where `ridge` is an array.

        Raises
        ------
        ValueError
            As for `weights`; or if a leverage is 1 up to rounding errors, so that no other row
            tells about a direction of the features.
        """
        parts, ridges = self._parts(intercept), check_nonnegative(ridge, "ridge", "(n_ridges,)")
        F = check_width(check_features(F, "F"), "F", self._k)
        y = check_targets(y, len(F))
        targets = check_width(y if y.ndim == 2 else y[:, None], "y", len(parts.mean_target))
        inverses = parts.inverses(ridges)
        F = ((F - parts.mean_features) / parts.unit) @ parts.right
        roots = _roots(case_weights, len(F))
        leverages = inverses @ ((roots * F) ** 2).T
        if intercept:
            leverages += (roots[:, 0] / parts.norm_of_ones) ** 2
        rest = 1.0 - leverages
        if rest.min() <= self._k * _EPS:
            raise unresolved_leverage(leverages)
        wide = F @ np.moveaxis(parts.filtered(inverses), -2, 0).reshape(F.shape[1], -1)
        fitted = np.moveaxis(wide.reshape(len(F), *ridges.shape, -1), 0, -2)
        errors = (targets - parts.mean_target - fitted) / rest[..., None]
        return errors[..., 0] if y.ndim == 1 else errors

    def _parts(self, intercept: bool) -> _Decomposed:
        """Return the singular values of the features, centred if there is an intercept."""
        if self._triangle is None:
            raise ValueError("FeatureRidge has no rows, expected a call of add first")
        intercept = check_flag(intercept, "intercept")
        if intercept not in self._decomposed:
            self._decomposed[intercept] = _decomposed(self._triangle, self._k, self._n, intercept)
        return self._decomposed[intercept]


class _Decomposed(NamedTuple):
    """The features' singular value decomposition F = u·U S Vᵀ with a unit u, and Uᵀ Y."""

    mean_features: np.ndarray
    """(k,): subtracted from the features; 0 without an intercept"""
    mean_target: np.ndarray
    """(n_targets,): subtracted from the targets; 0 without an intercept"""
    unit: float
    """u: the largest singular value of F, or 1; its square may leave the range of float64"""
    values: np.ndarray
    """(r,): S, falling from 1, for r of at most k"""
    right: np.ndarray
    """(k, r): V"""
    targets: np.ndarray
    """(r, n_targets): Uᵀ Y"""
    norm_of_ones: float
    """√n for n rows, √Σw for weighted ones"""
    n: int
    """Number of rows"""

    def inverses(self, ridges: np.ndarray) -> np.ndarray:
        """Return 1/(S² + λ/u²), (..., r)."""
        k, r = self.right.shape
        ridges = ridges / self.unit / self.unit
        least = (max(self.n, k) * _EPS) ** 2
        smallest = ridges.min() + (0.0 if r < k else self.values[-1] ** 2)
        if smallest <= least:
            raise unresolved_features((self.n, k), smallest, least)
        return 1.0 / (self.values**2 + ridges[..., None])

    def filtered(self, inverses: np.ndarray) -> np.ndarray:
        """Return u Vᵀ w = S (S² + λ/u²)⁻¹ Uᵀ Y, (..., r, n_targets)."""
        return (self.values * inverses)[..., None] * self.targets

    def weights(self, ridges: np.ndarray) -> np.ndarray:
        """Return w, (..., k, n_targets)."""
        return self.right @ self.filtered(self.inverses(ridges)) / self.unit


def _decomposed(triangle: np.ndarray, k: int, n: int, intercept: bool) -> _Decomposed:
    """Return the decomposition of the features in the triangle of [1 F Y]."""
    # Row 0 of R is √n, or √Σw, times 1 and the means. The rows below it are the triangle of
    # centred columns.
    rows = triangle[1 if intercept else 0 : k + 1, 1:]
    means = triangle[0, 1:] / triangle[0, 0] if intercept else np.zeros(triangle.shape[1] - 1)
    U, S, Vt = scipy.linalg.svd(rows[:, :k], full_matrices=False)
    unit = float(S.max(initial=0.0)) or 1.0
    targets, norm_of_ones = U.T @ rows[:, k:], abs(float(triangle[0, 0]))
    return _Decomposed(means[:k], means[k:], unit, S / unit, Vt.T, targets, norm_of_ones, n)


def _roots(case_weights: np.ndarray | None, m: int) -> np.ndarray:
    """Return the roots of the weights of m rows, (m, 1)."""
    return (
        np.ones((m, 1))
        if case_weights is None
        else np.sqrt(check_case_weights(case_weights, m))[:, None]
    )
