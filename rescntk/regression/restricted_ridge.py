r"""Ridge regression on features, and on the features of landmarks: a few columns of K.

``docs/theory/large_grams.md`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import SignalList, channels_and_length, rounding_unit
from ..engines.protocol import blocks
from ..validation import (
    check_batch,
    check_flag,
    check_kernel,
    check_match,
    check_shape,
    check_symmetric,
    check_targets,
    check_unmasked,
)
from .checks import find_groups, in_range, kernel_matrix
from .decomposition import check_case_weights, check_nonnegative, multiply_each
from .left_out import LeftOutPoints
from .pivoted_cholesky import LowRank

_EPS = float(np.finfo(np.float64).eps)

_BLOCK = 1024
"""Signals of one call of the kernel. Raising it takes more memory, block · k numbers, and starts
fewer calls. Chosen by reasoning: such a call takes seconds, its start milliseconds."""


class FeatureRidge:
    r"""Ridge regression on features F, (n, k): all penalties λ from one reading of the rows.

    Weights w and intercept b minimize :math:`\|Y - F w - 1 b\|^2 + \lambda \|w\|^2`. Rows arrive in
    blocks, of which the triangle R of :math:`[1\ F\ Y] = Q R` stays, (1 + k + n_targets)² numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> F, y = np.eye(3)[:, :2], np.array([2.0, 4.0, 3.0])
    >>> ridge = regression.FeatureRidge().add(F[:2], y[:2]).add(F[2:], y[2:])
    >>> ridge.weights(1.0)[0], ridge.leave_one_out(F, y, [0.5, 1.0]).shape
    (array([1., 2.]), (2, 3))
    """

    def __init__(self) -> None:
        self._triangle = np.empty((0, 0))
        self._n, self._k, self._axes = 0, 0, 0
        self._spectra: dict[bool, tuple[Any, ...]] = {}

    def add(
        self, F: np.ndarray, y: np.ndarray, case_weights: np.ndarray | None = None
    ) -> FeatureRidge:
        """Add rows of features and targets, as wide as earlier ones; return this object.

        Parameters
        ----------
        F : ndarray, (m, k)
            Blocks of more rows than k are the fastest.
        y : ndarray, (m,) or (m, n_targets)
        case_weights : ndarray, (m,), optional
            Positive factors of the rows' squared errors, by default 1.
        """
        F, targets, roots = self._check_rows(F, y, case_weights)
        rows = roots * np.hstack([np.ones((len(F), 1)), F, targets])
        if self._n:
            rows = np.vstack([self._triangle, rows])
        else:
            self._k, self._axes = F.shape[1], np.ndim(y)
        self._triangle = np.asarray(np.linalg.qr(rows, mode="r"))
        self._n += len(F)
        self._spectra = {}
        return self

    def _check_rows(self, F: Any, y: Any, case_weights: Any) -> tuple[np.ndarray, ...]:
        """Return rows of features, of targets (m, n_targets), and roots of weights (m, 1)."""
        F = check_shape(F, "F", "(n, k)", lambda s: len(s) == 2)
        targets = check_targets(y, len(F)).reshape(len(F), -1)
        widths = (("F", F, self._k), ("y", targets, self._triangle.shape[1] - 1 - self._k))
        for name, values, width in widths:
            if self._n and values.shape[1] != width:
                raise ValueError(
                    f"{name} has {values.shape[1]} columns, expected {width} as before"
                )
        return F, targets, np.sqrt(check_case_weights(case_weights, len(F)))[:, None]

    @in_range
    def weights(self, ridge: Any = 0.0, *, intercept: bool = False) -> tuple[np.ndarray, ...]:
        """Return the weights w, (k,) or (k, n_targets), and the intercept b, without the axis (k,).

        Parameters
        ----------
        ridge : float or array_like, (n_ridges,), default 0.0
            λ, each at least 0; 0 is refused if the features are linearly dependent. An array puts
            an axis (n_ridges,) in front of the results.
        intercept : bool, default False
            Whether to fit the constant b, without penalty. Otherwise b is 0.
        """
        means, unit, V, rotated, _ = self._solve(ridge, intercept)
        weights = V @ rotated / unit
        constants = means[self._k :] - means[: self._k] @ weights
        if self._axes == 1:
            return weights[..., 0], constants[..., 0]
        return weights, constants

    @in_range
    def leave_one_out(
        self,
        F: np.ndarray,
        y: np.ndarray,
        ridge: Any = 0.0,
        *,
        intercept: bool = False,
        case_weights: np.ndarray | None = None,
        groups: Any = None,
    ) -> np.ndarray:
        """Return the leave-one-out errors y_i − f₋ᵢ(x_i) of rows that have been added.

        Row i is left out with all its weight; a leverage of 1 is refused
        (``docs/theory/large_grams.md``). Arguments are as for `add`, in blocks or not, and
        `weights`; rows that have not been added give meaningless numbers. The errors have the
        shape of `y`, after an axis (n_ridges,) where `ridge` is an array. With labels `groups`,
        (m,), all rows of a group are left out together; none may be missing.
        """
        means, unit, V, rotated, inverses = self._solve(ridge, intercept)
        F, targets, roots = self._check_rows(F, y, case_weights)
        members = None if groups is None else find_groups(groups, len(F), intercept)
        F = ((F - means[: self._k]) / unit) @ V
        residuals = roots * (targets - means[self._k :] - multiply_each(F, rotated))
        ones = roots[:, 0] / abs(self._triangle[0, 0]) if intercept else None
        # The identity less the hat matrix of rows times √w.
        left_out = LeftOutPoints(roots * F, -inverses, ones, identity=1.0)
        errors = left_out.errors(residuals, members, self._check_leverage) / roots
        return errors[..., 0] if np.ndim(y) == 1 else errors

    def _check_leverage(self, least: float) -> None:
        """Raise a ValueError unless 1 − leverage is above rounding errors."""
        if least <= self._k * _EPS:
            raise ValueError(
                f"F has a row of leverage {1 - least:.6g} up to rounding errors, or a group, "
                f"expected below 1: no other row determines one direction of the features (a "
                f"larger ridge, more rows or fewer columns)"
            )

    def _solve(self, ridge: Any, intercept: bool) -> tuple[Any, ...]:
        """Return the means of [F Y], u, V, u Vᵀ w, (..., r, n_targets), 1/(S² + λ/u²), (..., r).

        Features, centred with an intercept, are F = u·U S Vᵀ of rank r. u is the largest singular
        value, whose square may leave the range of float64, or 1. Means are 0 without an intercept.
        """
        if not self._n:
            raise ValueError("FeatureRidge has no rows, expected a call of add first")
        k = self._k
        if check_flag(intercept, "intercept") not in self._spectra:
            # Row 0 of R is √n, or √Σw, times 1 and the means. The rows below it are the triangle
            # of centred columns.
            R, first = self._triangle, int(intercept)
            means = R[0, 1:] / R[0, 0] if intercept else np.zeros(R.shape[1] - 1)
            U, S, Vt = scipy.linalg.svd(R[first : k + 1, 1 : k + 1], full_matrices=False)
            unit = float(S.max(initial=0.0)) or 1.0
            targets = U.T @ R[first : k + 1, k + 1 :]
            self._spectra[intercept] = means, unit, S / unit, Vt.T, targets
        means, unit, S, V, targets = self._spectra[intercept]
        ridges = check_nonnegative(ridge, "ridge", "(n_ridges,)") / unit / unit
        least = (max(self._n, k) * _EPS) ** 2
        smallest = ridges.min() + (0.0 if len(S) < k else S[-1] ** 2)
        if smallest <= least:
            raise ValueError(
                f"F of shape {(self._n, k)} has linearly dependent columns: the smallest squared "
                f"singular value plus the ridge is {smallest:.3g} times the largest, expected "
                f"above {least:.3g} (a larger ridge, more rows or fewer columns)"
            )
        inverses = 1.0 / (S**2 + ridges[..., None])
        return means, unit, V, (S * inverses)[..., None] * targets, inverses


@dataclass(frozen=True)
class LandmarkMap:
    r"""The features :math:`\varphi(x) = L^{-1} K(S, x)` of k landmarks S; made by `landmark_map`.

    Calling the map with signals X returns F, (n, k), with :math:`F F^\top \approx K(X, X)`.
    """

    kernel: Callable[..., np.ndarray]
    landmarks: np.ndarray
    """(k,): indices of the landmarks among the signals given."""
    signals: np.ndarray
    """(k, n_channels, n_timepoints), or signals of different lengths: the landmarks S."""
    factor: np.ndarray
    """(k, k): L, lower triangular, K(S, S) = L Lᵀ."""
    options: dict[str, Any]
    """Options of each call of the kernel."""

    def __call__(self, X: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        lists = any(isinstance(side, list | tuple | SignalList) for side in (X, self.signals))
        batch = check_batch(X, "X")
        check_match(self.signals, batch, lists, names=("signals", "X"))
        if channels_and_length(batch) != channels_and_length(self.signals):
            batch = SignalList.of(batch)  # a list of one other length
        F = np.empty((len(batch), len(self.signals)))
        for rows in blocks(0, len(batch), _BLOCK):
            K = kernel_matrix(self.kernel, batch[rows], self.signals, **self.options)
            F[rows] = scipy.linalg.solve_triangular(self.factor, K.T, lower=True).T
        return F


def landmark_map(
    kernel: Callable[..., np.ndarray], X: np.ndarray, landmarks: Any, **options: Any
) -> LandmarkMap:
    """Return the feature map of some landmarks among signals X.

    Landmarks whose features are combinations of the others' up to rounding errors are dropped
    (``docs/theory/large_grams.md`` has the rule). K(S, S) = 0 is refused.

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

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, kernel = np.random.default_rng(0).standard_normal((20, 2, 16)), rk.ResCGPK(3)
    >>> F = rk.regression.landmark_map(kernel, X, np.arange(8))(X)
    >>> F.shape, np.allclose(F[:8] @ F.T, kernel(X[:8], X))
    ((20, 8), True)
    """
    check_kernel(kernel)
    X = check_batch(X, "X")
    if isinstance(landmarks, LowRank):
        chosen, factor, _ = landmarks
        if len(factor) != len(X):
            raise ValueError(f"landmarks.factor has {len(factor)} rows, expected {len(X)} as X")
        factor = np.tril(factor[chosen])
    else:
        check_unmasked(landmarks, "landmarks", "integers")
        chosen = np.asarray(landmarks)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or chosen.size == 0:
            raise ValueError(f"landmarks is {landmarks!r}, expected a vector of integers")
        if chosen.min() < 0 or chosen.max() >= len(X) or len(np.unique(chosen)) < len(chosen):
            raise ValueError(
                f"landmarks is {landmarks!r}, expected different integers from 0 to {len(X) - 1}"
            )
        matrix = kernel(X[chosen], **options)
        eps, K = rounding_unit(matrix), check_symmetric(matrix, "kernel(X[landmarks])")
        scale = np.sqrt(np.maximum(K.diagonal(), 0.0))
        divisor = np.where(scale > 0, scale, 1.0)
        factor, order, rank, _ = scipy.linalg.lapack.dpstrf(
            K / divisor / divisor[:, None], lower=True, tol=len(K) * eps
        )
        order = order[:rank].astype(np.intp) - 1  # LAPACK counts from 1
        chosen = chosen[order].astype(np.intp, copy=False)
        factor = np.tril(factor[:rank, :rank]) * scale[order, None]
    if not len(chosen):
        raise ValueError("kernel is 0 at all landmarks, expected a landmark with K(x, x) > 0")
    return LandmarkMap(kernel, chosen, X[chosen], factor, options)


class RestrictedRidge(NamedTuple):
    r"""Ridge regression restricted to landmarks S: :math:`f(x) = K(x, S) \beta + b`.

    With many penalties each array but `features` has the axis (n_ridges,) in front.
    """

    features: LandmarkMap
    """The features of S; ``features.landmarks`` are the indices of S among X."""
    ridge: np.ndarray
    """λ, () or (n_ridges,)"""
    coefficients: np.ndarray
    """β, (k,) or (k, n_targets): ``kernel(Z, X[landmarks]) @ coefficients`` predicts"""
    weights: np.ndarray
    """w = Lᵀβ, (k,) or (k, n_targets): ``features(Z) @ weights`` also predicts"""
    intercepts: np.ndarray
    """b, () or (n_targets,); 0 without an intercept"""
    errors: np.ndarray | None
    """Leave-one-out errors, (n,) or (n, n_targets); None if not asked for"""
    rows: np.ndarray | None
    """The features of X, (n, k), where leave-one-out errors are asked for; else None"""
    regression: FeatureRidge
    """The regression on these features, for errors of other parts left out"""

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return predictions f(Z), (m,) or (m, n_targets)."""
        axis = self.ridge.ndim
        products = np.tensordot(self.features(Z), self.weights, axes=(1, axis))
        return np.moveaxis(products, 0, axis) + np.expand_dims(self.intercepts, axis)


@in_range
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
    groups: Any = None,
    **options: Any,
) -> RestrictedRidge:
    r"""Return the ridge regression restricted to landmarks S, for one penalty or for many.

    Ridge regression on the features of the landmarks (`FeatureRidge`;
    ``docs/theory/large_grams.md``). At most n·k pairs are computed, of two landmarks each once;
    after `pivoted_cholesky` none. Memory holds a block of features, with `leave_one_out` all.

    Parameters
    ----------
    kernel, X, landmarks, **options
        As for `landmark_map`.
    y : ndarray, (n_cases,) or (n_cases, n_targets)
    ridge : float or array_like, (n_ridges,)
        λ, each at least 0.
    intercept : bool, default False
        Whether to fit the constant b, without penalty.
    leave_one_out : bool, default False
        Whether to return leave-one-out errors. A landmark left out as a point stays a landmark.
    case_weights : ndarray, (n_cases,), optional
        Positive factors of the signals' squared errors, as for `FeatureRidge.add`.
    groups : array_like, (n_cases,), optional
        Labels: signals of a group are left out together.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, kernel = np.random.default_rng(0).standard_normal((50, 2, 16)), rk.ResCGPK(3)
    >>> found = rk.regression.restricted_ridge(kernel, X, X[:, 0, 0], range(10), [0.1, 1.0])
    >>> found.coefficients.shape, found.predict(X[:4]).shape
    ((2, 10), (2, 4))
    """
    features = landmark_map(kernel, X, landmarks, **options)
    X = check_batch(X, "X")
    y, ridge = check_targets(y, len(X)), check_nonnegative(ridge, "ridge", "(n_ridges,)")
    case_weights = check_case_weights(case_weights, len(X))
    check_flag(intercept, "intercept")
    check_flag(leave_one_out, "leave_one_out")
    known = landmarks.factor if isinstance(landmarks, LowRank) else None
    fit, errors = FeatureRidge(), None
    kept = np.empty((len(X), len(features.factor))) if leave_one_out else None
    others = np.setdiff1d(np.arange(len(X)), features.landmarks)
    for cases in (features.landmarks, *(others[part] for part in blocks(0, len(others), _BLOCK))):
        if cases is features.landmarks:
            F = features.factor
        else:
            F = features(X[cases]) if known is None else known[cases]
        fit.add(F, y[cases], case_weights[cases])
        if kept is not None:
            kept[cases] = F
    weights, intercepts = fit.weights(ridge, intercept=intercept)
    if kept is not None:
        errors = fit.leave_one_out(
            kept, y, ridge, intercept=intercept, case_weights=case_weights, groups=groups
        )
    columns = np.moveaxis(weights, ridge.ndim, 0)
    solved = scipy.linalg.solve_triangular(
        features.factor, columns.reshape(len(columns), -1), lower=True, trans="T"
    )
    coefficients = np.moveaxis(solved.reshape(columns.shape), 0, ridge.ndim)
    return RestrictedRidge(
        features=features, ridge=ridge, coefficients=coefficients, weights=weights,
        intercepts=intercepts, errors=errors, rows=kept, regression=fit,
    )  # fmt: skip
