r"""Ridge regression on features, and on the features of landmarks: a few columns of K.

With landmarks S and the Cholesky factor L of their kernel matrix, :math:`K(S,S) = L L^\top`, the
features are :math:`F = K(X,S) L^{-\top}`. Then :math:`F F^\top = K(X,S) K(S,S)^{-1} K(S,X)` is
Nyström's approximation of K, exact in the rows and columns of the landmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import SignalList, rounding_unit
from ..engines.protocol import blocks
from ..validation import check_batch, check_flag, check_kernel, check_match, check_targets
from .checks import (
    check_case_weights,
    check_features,
    check_indices,
    check_nonnegative,
    check_width,
)
from .pivoted_cholesky import LowRank

_EPS = float(np.finfo(np.float64).eps)

_BLOCK = 1024
"""Signals whose features are computed in one call of the kernel. Raising it takes more memory,
block · k numbers, and starts fewer calls. Chosen by reasoning: a call of 1024 rows and some hundred
columns takes seconds, its start milliseconds."""


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
        self._triangle = np.empty((0, 0))
        self._n, self._k, self._axes = 0, 0, 0
        self._decompositions: dict[bool, _SingularValues] = {}

    def add(
        self, F: np.ndarray, y: np.ndarray, case_weights: np.ndarray | None = None
    ) -> FeatureRidge:
        """Add rows of features with their targets, as those of earlier blocks; return this object.

        Parameters
        ----------
        F : ndarray, (m, k)
            Blocks of more rows than k are the fastest.
        y : ndarray, (m,) or (m, n_targets)
        case_weights : ndarray, (m,), optional
            Positive factors of the rows' squared errors. A row of weight 2 counts as two equal
            rows. The default is 1.
        """
        F = check_features(F, "F")
        y = check_targets(y, len(F))
        targets = y if y.ndim == 2 else y[:, None]
        rows = _roots(case_weights, len(F)) * np.hstack([np.ones((len(F), 1)), F, targets])
        if not self._n:
            self._k, self._axes = F.shape[1], y.ndim
        else:
            check_width(F, "F", self._k)
            check_width(targets, "y", self._triangle.shape[1] - 1 - self._k)
            rows = np.vstack([self._triangle, rows])
        self._triangle = np.asarray(np.linalg.qr(rows, mode="r"))
        self._n += len(F)
        self._decompositions = {}
        return self

    def weights(
        self, ridge: Any = 0.0, *, intercept: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights w, (k,) or (k, n_targets), and the intercept b, without the axis (k,).

        Parameters
        ----------
        ridge : float or array_like, (n_ridges,), default 0.0
            λ, each at least 0. An array puts an axis (n_ridges,) in front of the results.
        intercept : bool, default False
            Whether to fit the constant b, without penalty. Otherwise b is 0.

        Raises
        ------
        ValueError
            If λ is 0 and the features are linearly dependent; or if there are no rows yet.
        """
        found, _, rotated = self._solve(ridge, intercept)
        weights = found.right @ rotated / found.unit
        constants = found.means[self._k :] - found.means[: self._k] @ weights
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
        to all rows but row i. With weights W of the cases the leverage is
        :math:`h_i = w_i \varphi_i^\top (F^\top W F + \lambda I)^{-1} \varphi_i`; with an
        intercept it is :math:`w_i / \sum_j w_j` more, with centred features. Row i is left out
        with all its weight, and no fit is repeated. Rows may be given in blocks. Rows that have
        not been added give meaningless numbers.

        Arguments are as for `add` and `weights`. The errors have the shape of `y`, with an axis
        (n_ridges,) in front where `ridge` is an array. A ValueError also follows if a leverage is
        1 up to rounding errors: no other row tells about a direction of the features.
        """
        found, inverses, rotated = self._solve(ridge, intercept)
        F = check_width(check_features(F, "F"), "F", self._k)
        y = check_targets(y, len(F))
        targets = check_width(y if y.ndim == 2 else y[:, None], "y", found.targets.shape[1])
        F = ((F - found.means[: self._k]) / found.unit) @ found.right
        roots = _roots(case_weights, len(F))
        leverages = inverses @ ((roots * F) ** 2).T
        if intercept:
            leverages += (roots[:, 0] / abs(self._triangle[0, 0])) ** 2
        rest = 1.0 - leverages
        if rest.min() <= self._k * _EPS:
            raise ValueError(
                f"F has a row of leverage {leverages.max():.6g} up to rounding errors, expected "
                f"below 1: no other row tells about one direction of the features (a larger "
                f"ridge, more rows or fewer columns)"
            )
        # One product for all penalties: NumPy multiplies a stack of thin matrices in a slow loop.
        wide = F @ np.moveaxis(rotated, -2, 0).reshape(F.shape[1], -1)
        fitted = np.moveaxis(wide.reshape(len(F), *rotated.shape[:-2], -1), 0, -2)
        errors = (targets - found.means[self._k :] - fitted) / rest[..., None]
        return errors[..., 0] if y.ndim == 1 else errors

    def _solve(self, ridge: Any, intercept: bool) -> tuple[_SingularValues, np.ndarray, np.ndarray]:
        """Return F = u·U S Vᵀ, 1/(S² + λ/u²), (..., r), and u Vᵀ w, (..., r, n_targets)."""
        if not self._n:
            raise ValueError("FeatureRidge has no rows, expected a call of add first")
        if check_flag(intercept, "intercept") not in self._decompositions:
            self._decompositions[intercept] = _decompose(self._triangle, self._k, intercept)
        found = self._decompositions[intercept]
        ridges = check_nonnegative(ridge, "ridge", "(n_ridges,)") / found.unit / found.unit
        k, r = found.right.shape
        least = (max(self._n, k) * _EPS) ** 2
        smallest = ridges.min() + (0.0 if r < k else found.values[-1] ** 2)
        if smallest <= least:
            raise ValueError(
                f"F of shape {(self._n, k)} has linearly dependent columns: the smallest squared "
                f"singular value plus the ridge is {smallest:.3g} times the largest, expected "
                f"above {least:.3g} (a larger ridge, more rows or fewer columns)"
            )
        inverses = 1.0 / (found.values**2 + ridges[..., None])
        return found, inverses, (found.values * inverses)[..., None] * found.targets


class _SingularValues(NamedTuple):
    """The singular value decomposition F = u·U S Vᵀ of centred features, and Uᵀ Y."""

    means: np.ndarray
    """(k + n_targets,), of features and targets; 0 without an intercept"""
    unit: float
    """u: the largest singular value of F, or 1; its square may leave the range of float64"""
    values: np.ndarray
    """(r,): S, falling from 1, for r of at most k"""
    right: np.ndarray
    """(k, r): V"""
    targets: np.ndarray
    """(r, n_targets): Uᵀ Y"""


def _decompose(triangle: np.ndarray, k: int, intercept: bool) -> _SingularValues:
    """Return the decomposition of the features in the triangle of [1 F Y]."""
    # Row 0 of R is √n, or √Σw, times 1 and the means. The rows below it are the triangle of
    # centred columns.
    rows = triangle[1 if intercept else 0 : k + 1, 1:]
    means = triangle[0, 1:] / triangle[0, 0] if intercept else np.zeros(triangle.shape[1] - 1)
    U, S, Vt = scipy.linalg.svd(rows[:, :k], full_matrices=False)
    unit = float(S.max(initial=0.0)) or 1.0
    return _SingularValues(means, unit, S / unit, Vt.T, U.T @ rows[:, k:])


def _roots(case_weights: np.ndarray | None, m: int) -> np.ndarray:
    """Return the roots of the weights of m rows, (m, 1)."""
    weights = np.ones(m) if case_weights is None else check_case_weights(case_weights, m)
    return np.sqrt(weights)[:, None]


@dataclass(frozen=True)
class LandmarkMap:
    r"""The features :math:`\varphi(x) = L^{-1} K(S, x)` of k landmarks S; made by `landmark_map`.

    Calling the map with signals X returns F, (n, k), with :math:`F F^\top \approx K(X, X)`.
    """

    kernel: Callable[..., np.ndarray]
    """The kernel K."""
    landmarks: np.ndarray
    """(k,): indices of the landmarks among the signals given."""
    signals: np.ndarray
    """(k, n_channels, n_timepoints), or signals of different lengths: the landmarks S."""
    factor: np.ndarray
    """(k, k): L, lower triangular, K(S, S) = L Lᵀ."""
    options: dict[str, Any]
    """Options of each call of the kernel."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = check_batch(X, "X")
        lists = isinstance(X, SignalList) or isinstance(self.signals, SignalList)
        check_match(self.signals, X, lists, names=("signals", "X"))
        found = np.empty((len(X), len(self.signals)))
        for rows in blocks(0, len(X), _BLOCK):
            found[rows] = self.block(X[rows])
        return found

    def block(self, X: np.ndarray) -> np.ndarray:
        """Return the features of a few signals X from one call of the kernel."""
        K = np.asarray(self.kernel(X, self.signals, **self.options), dtype=np.float64)
        return scipy.linalg.solve_triangular(self.factor, K.T, lower=True, overwrite_b=True).T


def landmark_map(
    kernel: Callable[..., np.ndarray], X: np.ndarray, landmarks: Any, **options: Any
) -> LandmarkMap:
    r"""Return the feature map of some landmarks among signals X.

    **Rank rule.** The Cholesky factorization of K(S, S), scaled to a diagonal of 1, takes the
    landmark with the largest remaining diagonal next. It stops once all remaining diagonals are
    at most k·eps, with eps of the kernel's dtype. The landmarks that remain are dropped: equal
    signals, zero signals, and signals whose features are combinations of the others up to
    rounding errors. Nothing is added to the diagonal.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with matrices ``kernel(X)`` and ``kernel(X, Z)``.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Signals; or a list of arrays (n_channels, n_timepoints_i), if the kernel takes lists.
    landmarks : LowRank or array_like of int, (k,)
        Indices of the landmarks among X, all different; or the result of `pivoted_cholesky` with
        the same kernel and signals, whose factor is used.
    **options
        Options of each call of the kernel, such as ``dtype`` or ``threads``.

    Raises
    ------
    ValueError
        If an argument is not as described above, or no landmark is left: K(S, S) is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 16))
    >>> kernel = rk.ResCGPK(3, normalized=True)
    >>> features = rk.regression.landmark_map(kernel, X, np.arange(8))
    >>> F = features(X)
    >>> F.shape, np.allclose(F[:8] @ F.T, kernel(X[:8], X))
    ((20, 8), True)
    """
    check_kernel(kernel)
    X = check_batch(X, "X")
    if isinstance(landmarks, LowRank):
        rows = len(landmarks.factor)
        if rows != len(X):
            raise ValueError(f"landmarks.factor has {rows} rows, expected {len(X)} as X")
        chosen = landmarks.landmarks
        factor = np.tril(landmarks.factor[chosen])
    else:
        chosen = check_indices(landmarks, "landmarks", len(X))
        order, factor = _pivoted_factor(kernel(X[chosen], **options))
        chosen = chosen[order]
    if not len(chosen):
        raise ValueError("kernel is 0 at all landmarks, expected a landmark with K(x, x) > 0")
    return LandmarkMap(kernel, chosen, X[chosen], factor, options)


def _pivoted_factor(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of the landmarks kept, and L for this order (`landmark_map`)."""
    eps, K = rounding_unit(K), np.array(K, dtype=np.float64)
    scale = np.sqrt(np.maximum(K.diagonal(), 0.0))
    divisor = np.where(scale > 0, scale, 1.0)
    tolerance = len(K) * eps
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(
        K / divisor / divisor[:, None], lower=True, tol=tolerance
    )
    order = order[:rank].astype(np.intp) - 1  # LAPACK counts from 1
    return order, np.tril(factor[:rank, :rank]) * scale[order, None]


class RestrictedRidge(NamedTuple):
    r"""Ridge regression restricted to landmarks: :math:`f(x) = K(x, S) \beta + b`.

    With many penalties each array but `features` has the axis (n_ridges,) in front.
    """

    features: LandmarkMap
    """The features of the landmarks S; ``features.landmarks`` are the indices of S among X."""
    ridge: np.ndarray
    """λ, () or (n_ridges,)"""
    coefficients: np.ndarray
    """β, (k,) or (k, n_targets): ``kernel(Z, X[landmarks]) @ coefficients`` predicts"""
    weights: np.ndarray
    """w = Lᵀβ, (k,) or (k, n_targets): ``features(Z) @ weights`` predicts, too"""
    intercepts: np.ndarray
    """b, () or (n_targets,); 0 without an intercept"""
    errors: np.ndarray | None
    """Leave-one-out errors, (n,) or (n, n_targets); None if not asked for"""

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return predictions f(Z), (m,) or (m, n_targets)."""
        axis = self.ridge.ndim
        found = np.tensordot(self.features(Z), self.weights, axes=(1, axis))
        return np.moveaxis(found, 0, axis) + np.expand_dims(self.intercepts, axis)


def restricted_ridge(
    kernel: Callable[..., np.ndarray],
    X: np.ndarray,
    y: np.ndarray,
    landmarks: Any,
    ridge: Any,
    *,
    intercept: bool = False,
    leave_one_out: bool = False,
    case_weights: np.ndarray | None = None,
    **options: Any,
) -> RestrictedRidge:
    r"""Return the ridge regression restricted to landmarks S, for one penalty or for many.

    The minimizer of :math:`\|Y - K(X,S)\beta - 1b\|^2 + \lambda \beta^\top K(S,S) \beta`. With
    :math:`K(S,S) = L L^\top` it is ridge regression on the features
    :math:`F = K(X,S) L^{-\top}`, with weights :math:`w = L^\top \beta` (`FeatureRidge`). At most
    n·k pairs are computed, never n²; after `pivoted_cholesky` none, because its factor is F.
    Memory: (1 + k + n_targets)² numbers and a block of features; with `leave_one_out` all
    features, n·k numbers in float64.

    Parameters
    ----------
    kernel, X, landmarks, **options
        As for `landmark_map`.
    y : ndarray, (n_cases,) or (n_cases, n_targets)
        Values at the signals.
    ridge : float or array_like, (n_ridges,)
        λ, each at least 0.
    intercept : bool, default False
        Whether to fit the constant b, without penalty.
    leave_one_out : bool, default False
        Whether to return leave-one-out errors. The landmarks stay the same when one of them is
        left out as a point.
    case_weights : ndarray, (n_cases,), optional
        Positive factors of the signals' squared errors, as for `FeatureRidge.add`.

    Raises
    ------
    ValueError
        If an argument is not as described above, or as for `FeatureRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((50, 2, 16))
    >>> kernel, y = rk.ResCGPK(3, normalized=True), X[:, 0, 0]
    >>> low = rk.regression.pivoted_cholesky(kernel, X, 10)
    >>> found = rk.regression.restricted_ridge(kernel, X, y, low, [0.1, 1.0], leave_one_out=True)
    >>> found.coefficients.shape, found.errors.shape, found.predict(X[:4]).shape
    ((2, 10), (2, 50), (2, 4))
    """
    features = landmark_map(kernel, X, landmarks, **options)
    X = check_batch(X, "X")
    y, ridge = check_targets(y, len(X)), check_nonnegative(ridge, "ridge", "(n_ridges,)")
    case_weights = np.ones(len(X)) if case_weights is None else case_weights
    case_weights = check_case_weights(case_weights, len(X))
    check_flag(intercept, "intercept")
    check_flag(leave_one_out, "leave_one_out")
    known = landmarks.factor if isinstance(landmarks, LowRank) else None
    fit, kept = FeatureRidge(), []
    for rows in blocks(0, len(X), _BLOCK):
        F = features.block(X[rows]) if known is None else known[rows]
        fit.add(F, y[rows], case_weights[rows])
        if leave_one_out:
            kept.append((F, y[rows], case_weights[rows]))
    weights, intercepts = fit.weights(ridge, intercept=intercept)
    errors = None
    if leave_one_out:
        found = [
            fit.leave_one_out(F, targets, ridge, intercept=intercept, case_weights=w)
            for F, targets, w in kept
        ]
        errors = np.concatenate(found, axis=ridge.ndim)
    columns = np.moveaxis(weights, ridge.ndim, 0)
    solved = scipy.linalg.solve_triangular(
        features.factor, columns.reshape(len(columns), -1), lower=True, trans="T"
    )
    coefficients = np.moveaxis(solved.reshape(columns.shape), 0, ridge.ndim)
    return RestrictedRidge(features, ridge, coefficients, weights, intercepts, errors)
