r"""Regression with a kernel matrix K: interpolation, ridge, gradient flow, Gaussian processes.

Functions return coefficients β; ``kernel(Z, X) @ coefficients`` predicts. `decompose` finds the
eigenvalues of K once, for all penalties and times; `decompose_features` those of :math:`\Phi
\Phi^\top`. For large matrices, `pivoted_cholesky` takes a few columns of K, and `solve` only
multiplies K. Results beyond float64 raise an OverflowError.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from .arrays import rounding_unit
from .decomposition import (
    Decomposition,
    check_condition,
    check_finite,
    decompose,
    decompose_features,
)
from .validation import (
    check_batch,
    check_constant,
    check_depth,
    check_integer,
    check_kernel,
    check_positive,
    check_shape,
    check_symmetric,
    check_targets,
)

__all__ = [
    "Decomposition", "LowRank", "Posterior", "decompose", "decompose_features", "flow",
    "interpolate", "leave_one_out", "pivoted_cholesky", "posterior", "ridge", "solve",
]  # fmt: skip

# ---------------------------------------------------------------- one kernel matrix


def interpolate(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return β = K⁻¹ y, `ridge` without a penalty: eq. 4 of Tirer et al. 2022.

    Parameters
    ----------
    K, y
        As for `ridge`.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.interpolate([[2.0, 1.0], [1.0, 2.0]], [3.0, 0.0])
    array([ 2., -1.])
    """
    return ridge(K, y, 0.0)


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

    Raises
    ------
    ValueError
        If K + λI is numerically singular in the precision of K, mostly by two equal signals.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.ridge([[1.0, 0.0], [0.0, 1.0]], [2.0, 4.0], penalty=1.0)
    array([1., 2.])
    """
    matrix, eps = check_symmetric(K, "K"), rounding_unit(K)
    y, penalty = check_targets(y, len(matrix)), check_constant(penalty, "penalty")
    return check_finite(scipy.linalg.cho_solve((_cholesky(matrix, penalty, eps), True), y))


def leave_one_out(
    K: np.ndarray, y: np.ndarray, penalty: Any, *, intercept: bool = False, groups: Any = None
) -> np.ndarray:
    r"""Return the errors y_i − f₋ᵢ(x_i) of ridge regressions without case i, in closed form.

    They are :math:`\beta_i / B_{ii}` for :math:`\beta = B y` (Cawley and Talbot 2004). Cases g of
    one group are left out together: :math:`B_{gg}^{-1} \beta_g`.

    Parameters
    ----------
    K, y
        As for `ridge`.
    penalty : float or array_like, (n_penalties,)
        λ, at least 0. An array puts an axis (n_penalties,) in front of the result.
    intercept : bool, default False
        Whether each regression has a constant without penalty.
    groups : array_like, (n,), optional
        A label for each case.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.leave_one_out([[2.0, 1.0], [1.0, 2.0]], [3.0, 0.0], [0.0, 1.0]).round(12)
    array([[ 3. , -1.5],
           [ 3. , -1. ]])
    """
    return decompose(K).leave_one_out(y, penalty, intercept=intercept, groups=groups)


def flow(K: np.ndarray, y: np.ndarray, time: Any) -> np.ndarray:
    r"""Return the coefficients of the function after gradient flow for a time t, from 0.

    Gradient flow on :math:`\frac12 \sum_i (f_i - y_i)^2` in the tangent-kernel regime is
    :math:`f' = -K(f - y)` at the signals, and everywhere :math:`f_t(x) = K(x, X) K^{-1}
    (I - e^{-K t}) y` (Jacot et al. 2018; eq. 3 of Tirer et al. 2022). Steps of gradient descent
    with a small rate η are at times η, 2η, …; on the mean of n squares at η/n, 2η/n, …

    Parameters
    ----------
    K, y
        As for `ridge`; K may be singular, if no time trains an eigenvector of rounding errors.
    time : float or array_like, (n_times,)
        Each at least 0; infinity interpolates. An array puts an axis (n_times,) in front.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.flow([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0], [0.0, float("inf")])
    array([[0., 0.],
           [1., 1.]])
    """
    return decompose(K).flow(y, time)


class Posterior(NamedTuple):
    """Mean and variance of a Gaussian process at m new points, given observations at n points."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    variance: np.ndarray
    """(m,), from 0 to the prior; of the process itself, without a new observation's noise."""


def posterior(
    K: np.ndarray, cross: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: float = 0.0
) -> Posterior:
    r"""Return the posterior mean and variance of a Gaussian process, each at m new points.

    They are :math:`k^\top (K + \sigma^2 I)^{-1} y` and :math:`K(z,z) - k^\top
    (K + \sigma^2 I)^{-1} k`. A network's Gaussian process kernel is the covariance of its outputs
    over random weights (Neal 1996; Lee et al. 2018). Its neural tangent kernel is not.

    Parameters
    ----------
    K, cross, prior : ndarray, (n, n), (m, n) and (m,)
        ``kernel(X)``, ``kernel(Z, X)`` and ``kernel.diag(Z)``. Matrices that give a negative
        variance are refused.
    y : ndarray, (n,) or (n, n_targets)
        Observations at X.
    noise : float, default 0.0
        Variance σ² of the observations' errors, the penalty of `ridge`.

    Examples
    --------
    >>> from rescntk import regression
    >>> p = regression.posterior([[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.0]], [1.0], [1.0, 2.0])
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    given, K = (K, cross, prior), check_symmetric(K, "K")
    n, y, noise = len(K), check_targets(y, len(K)), check_constant(noise, "noise")
    cross = check_shape(cross, "cross", f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)
    prior = check_shape(prior, "prior", (len(cross),))
    eps = max(map(rounding_unit, given))
    factor = _cholesky(K, noise, eps)
    mean = cross @ scipy.linalg.cho_solve((factor, True), y)
    explained = (scipy.linalg.solve_triangular(factor, cross.T, lower=True) ** 2).sum(axis=0)
    wrong = explained > (1.0 + np.sqrt(eps)) * prior  # rounding errors are smaller
    if wrong.any():
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {wrong.argmax()} "
            f"would be negative, expected matrices of one kernel"
        )
    return Posterior(check_finite(mean), check_finite(np.maximum(prior - explained, 0.0)))


def _cholesky(K: np.ndarray, penalty: float, eps: float) -> np.ndarray:
    """Return the lower Cholesky factor of K + λI; refuse 1/condition of n·eps at most."""
    shifted = K + penalty * np.eye(len(K))
    factor, failed = scipy.linalg.lapack.dpotrf(shifted, lower=1)
    norm = np.abs(shifted).sum(axis=0).max()
    reciprocal = 0.0 if failed else scipy.linalg.lapack.dpocon(factor, norm, uplo="L")[0]
    check_condition(reciprocal, len(K), eps)
    return factor


# ---------------------------------------------------------------- large matrices


class LowRank(NamedTuple):
    """The approximation K ≈ F Fᵀ of `pivoted_cholesky`."""

    landmarks: np.ndarray
    """(rank,): indices of the signals whose columns of K were computed, in order of choice"""
    factor: np.ndarray
    """(n, rank): F. The landmarks' rows are lower triangular, up to rounding errors."""
    residual: float
    """trace(K − F Fᵀ), at least 0: exact, because every diagonal entry of K is computed"""


def pivoted_cholesky(kernel: Any, X: Any, rank: int, seed: int = 0, **options: Any) -> LowRank:
    r"""Return landmarks and a factor F with K ≈ F Fᵀ, by randomly pivoted Cholesky.

    Pivots are drawn with probabilities proportional to the residual's diagonal, in blocks with
    rejection (Chen et al. 2022, Epperly et al. 2024; ``docs/guide/large_data.md``). About
    (rank + 1)·n pairs of K are computed.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with ``kernel(X)``, ``kernel(X, Z)`` and ``kernel.diag(X)``.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Signals; or a list of arrays (n_channels, n_timepoints_i), if the kernel takes lists.
    rank : int
        Number of landmarks, from 1 to n_cases. There are fewer, and a warning, if the residual
        falls to rounding errors.
    seed : int, default 0
        Seed of the random pivots. Equal seeds give equal results.
    **options
        Options of each call of the kernel, such as ``dtype`` or ``threads``.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, kernel = np.random.default_rng(0).standard_normal((20, 2, 16)), rk.ResCGPK(3)
    >>> rk.regression.pivoted_cholesky(kernel, X, 8).factor.shape
    (20, 8)
    """
    check_kernel(kernel)
    if not callable(getattr(kernel, "diag", None)):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel, or kernel.diag(X) too")
    X, rank = check_batch(X, "X"), check_depth(rank, "rank")
    if rank > (n := len(X)):
        raise ValueError(f"rank is {rank}, expected at most the number of signals, {n}")
    rng = np.random.default_rng(check_integer(seed, "seed", at_least=0))
    values = kernel.diag(X, **options)
    eps, diagonal = rounding_unit(values), check_shape(values, "the kernel's diagonal", (n,)).copy()
    if (diagonal < 0).any():
        raise ValueError(f"kernel has {diagonal.min():.3g} on its diagonal, expected at least 0")
    rounding = 10 * eps  # residuals of up to this share of K's entry are rounding errors
    floor, found = rounding * diagonal.sum(), 0
    factor, landmarks = np.zeros((n, rank)), np.empty(rank, dtype=np.intp)
    while found < rank and diagonal.sum() > floor:
        # p pivots cost p²/2 pairs between each other: with p² at most 2n, no more than one column.
        # Half as many again are proposed as are missing, because some are rejected.
        proposals = max(1, min(500, math.isqrt(2 * n), int(1.5 * (rank - found))))
        proposed = rng.choice(n, size=proposals, p=diagonal / diagonal.sum())
        places, order = np.unique(proposed, return_inverse=True)
        p = len(places)
        K, rows = check_shape(kernel(X[places], **options), "kernel(X)", (p, p)), factor[places]
        bounds = np.maximum(
            rng.random(proposals) * diagonal[proposed], rounding * K.diagonal()[order]
        )
        chosen, lower = _accept(K - rows @ rows.T, order, bounds, rank - found)
        if not chosen:  # rounding errors are larger than the residual's diagonal
            diagonal[places] = 0.0
            continue
        accepted, new = places[chosen], slice(found, found + len(chosen))
        columns, others = np.empty((n, len(chosen))), np.setdiff1d(np.arange(n), places)
        columns[places] = K[:, chosen]
        if len(others):
            block = kernel(X[others], X[accepted], **options)
            columns[others] = check_shape(block, "kernel(X, Z)", (len(others), len(chosen)))
        columns -= factor @ factor[accepted].T
        factor[:, new] = scipy.linalg.solve_triangular(lower, columns.T, lower=True).T
        landmarks[new] = accepted
        diagonal = np.maximum(diagonal - (factor[:, new] ** 2).sum(axis=1), 0.0)
        diagonal[accepted] = 0.0
        found = new.stop
    if found < rank:
        warnings.warn(
            f"pivoted_cholesky stopped at rank {found} of {rank}: the residual is a rounding "
            f"error (equal signals, or a kernel matrix of lower rank)",
            stacklevel=2,
        )
    return LowRank(landmarks[:found], factor[:, :found], float(diagonal.sum()))


def _accept(
    residual: np.ndarray, order: np.ndarray, bounds: np.ndarray, most: int
) -> tuple[list[int], np.ndarray]:
    """Return which pivots are accepted, at most so many, and their Cholesky factor.

    `residual` is K − F Fᵀ between the pivots. `order` has the pivots as proposed, some more than
    once. A residual must exceed its bound.
    """
    chosen: list[int] = []
    columns: list[np.ndarray] = []
    for k, bound in zip(order, bounds, strict=True):
        if k not in chosen and residual[k, k] > bound and len(chosen) < most:
            columns.append(residual[:, k] / np.sqrt(residual[k, k]))
            residual -= np.outer(columns[-1], columns[-1])
            chosen.append(int(k))
    return chosen, np.tril(np.array(columns).T[chosen]) if chosen else np.empty((0, 0))


def solve(
    K: Any, Y: np.ndarray, ridge: float = 0.0, *, preconditioner: Any = None,
    tolerance: float = 1e-6, max_iterations: int = 1000,
) -> np.ndarray:  # fmt: skip
    r"""Return A = (K + λI)⁻¹ Y by SciPy's conjugate gradients: K is only multiplied.

    All targets share the iterations, so each iteration reads K once.

    Parameters
    ----------
    K : ndarray (n, n), a stored matrix, or another object with ``shape`` and ``K @ v``
        Symmetric, positive semidefinite.
    Y : ndarray, (n,) or (n, n_targets)
    ridge : float, default 0.0
        λ, at least 0; above 0 with a preconditioner.
    preconditioner : LowRank or ndarray (n, rank), optional
        The result of `pivoted_cholesky`, or its factor F.
    tolerance : float, default 1e-6
        Bound on ‖Y − (K + λI) A‖ / ‖Y‖ of each target.
    max_iterations : int, default 1000
        Most iterations. A LinAlgWarning follows if the bound is not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> regression.solve(2.0 * np.eye(3), [3.0, 0.0, 6.0], ridge=1.0)
    array([1., 0., 2.])
    """
    shape = tuple(getattr(K, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0 or not hasattr(K, "__matmul__"):
        raise ValueError(f"K is a {type(K).__name__} of shape {shape}, expected (n, n) with K @ v")
    n, Y = int(shape[0]), check_targets(Y, int(shape[0]))
    ridge, tolerance = check_constant(ridge, "ridge"), check_positive(tolerance, "tolerance")
    check_depth(max_iterations, "max_iterations")
    K = check_symmetric(K, "K") if isinstance(K, np.ndarray) else K
    columns = Y.reshape(n, -1)
    norms = np.array([scipy.linalg.norm(column) for column in columns.T])
    columns = columns / np.where(norms > 0, norms, 1.0)

    def operator(multiply: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
        """Return a linear map of all columns, one below the other."""
        return LinearOperator(
            (columns.size,) * 2, lambda v: multiply(v.reshape(columns.shape)).ravel(), dtype=float
        )

    system = operator(lambda V: check_shape(K @ V, "K @ v", V.shape) + ridge * V)
    inverse = None
    if preconditioner is not None:
        F = getattr(preconditioner, "factor", preconditioner)
        F = check_shape(F, "preconditioner", f"({n}, rank)", lambda s: len(s) == 2 and s[0] == n)
        U, S, _ = scipy.linalg.svd(F, full_matrices=False)
        explained = np.square(S / np.hypot(S, math.sqrt(check_positive(ridge, "ridge"))))[:, None]
        inverse = operator(lambda V: V - U @ (explained * (U.T @ V)))  # λ (F Fᵀ + λI)⁻¹ V
    options = {"rtol": 0.0, "atol": tolerance, "maxiter": max_iterations, "M": inverse}
    A = cg(system, columns.ravel(), **options)[0]
    residuals = columns - system.matvec(A).reshape(columns.shape)
    left = float(np.linalg.norm(residuals, axis=0).max())
    if not left <= 10 * tolerance:  # rounding errors of the recursion are smaller
        warnings.warn(
            f"conjugate gradients ended at a residual of {left:.2g}, expected {tolerance:.2g}: a "
            f"larger ridge, a preconditioner of higher rank or more iterations help, if K is "
            f"positive semidefinite",
            scipy.linalg.LinAlgWarning,
            stacklevel=2,
        )
    with np.errstate(over="ignore", invalid="ignore"):
        A = A.reshape(columns.shape) * norms
    return np.asarray(check_finite(A.reshape(Y.shape)))
