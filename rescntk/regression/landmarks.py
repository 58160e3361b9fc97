r"""Landmarks: features F with F Fᵀ ≈ K, and ridge regression restricted to a few columns of K.

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

from ..arrays import rounding_unit
from ..engines.protocol import blocks
from ..signals import SignalList
from ..validation import (
    check_batch,
    check_case_weights,
    check_flag,
    check_indices,
    check_kernel,
    check_match,
    check_nonnegative,
    check_rows,
    check_targets,
)
from .feature_ridge import FeatureRidge
from .pivoted_cholesky import LowRank

_BLOCK = 1024
"""Signals whose features are computed in one call of the kernel.

Raising it takes more memory, block · k numbers, and starts fewer calls. Chosen by reasoning: a
call of 1024 rows and some hundred columns takes seconds, its start milliseconds.
"""


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
        """Return the features F of signals X, (n, k) in float64, computed block by block."""
        X = check_batch(X, "X")
        lists = isinstance(X, SignalList) or isinstance(self.signals, SignalList)
        check_match(self.signals, X, lists, names=("signals", "X"))
        found = np.empty((len(X), len(self.signals)))
        for rows in blocks(0, len(X), _BLOCK):
            found[rows] = self.block(X[rows])
        return found

    def block(self, X: np.ndarray) -> np.ndarray:
        """Return the features F of a few signals X, (n, k), from one call of the kernel."""
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

    Returns
    -------
    LandmarkMap

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
        check_rows(landmarks.factor, "landmarks.factor", len(X))
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

    Shapes: with many penalties each array has the axis (n_ridges,) in front.
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

    Memory: (1 + k + n_targets)² numbers and a block of features. With `leave_one_out` all
    features are kept: n·k numbers in float64.

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

    Returns
    -------
    RestrictedRidge

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
    weighted = np.ones(len(X)) if case_weights is None else case_weights
    weighted = check_case_weights(weighted, len(X))
    options_of_fit = {"ridge": ridge, "intercept": check_flag(intercept, "intercept")}
    check_flag(leave_one_out, "leave_one_out")
    known = landmarks.factor if isinstance(landmarks, LowRank) else None
    fit, kept = FeatureRidge(), []
    for rows in blocks(0, len(X), _BLOCK):
        F = features.block(X[rows]) if known is None else known[rows]
        fit.add(F, y[rows], weighted[rows])
        if leave_one_out:
            kept.append((rows, F))
    weights, intercepts = fit.weights(**options_of_fit)
    errors = None
    if leave_one_out:
        found = [
            fit.leave_one_out(F, y[rows], case_weights=weighted[rows], **options_of_fit)
            for rows, F in kept
        ]
        errors = np.concatenate(found, axis=ridge.ndim)
    coefficients = _solve_transposed(features.factor, weights, ridge.ndim)
    return RestrictedRidge(features, ridge, coefficients, weights, intercepts, errors)


def _solve_transposed(factor: np.ndarray, weights: np.ndarray, axis: int) -> np.ndarray:
    """Return L⁻ᵀ w along an axis of the weights."""
    columns = np.moveaxis(weights, axis, 0)
    flat = columns.reshape(len(factor), -1)
    solved = scipy.linalg.solve_triangular(factor, flat, lower=True, trans="T")
    return np.moveaxis(solved.reshape(columns.shape), 0, axis)
