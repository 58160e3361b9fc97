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
    nonnegative,
)
from .validation import (
    check_batch,
    check_integer,
    check_kernel,
    check_nonnegative,
    check_positive,
    check_positive_integer,
    check_shape,
    check_symmetric,
    check_targets,
    is_sequence,
)

__all__ = [
    "Decomposition", "LowRank", "Posterior", "decompose", "decompose_features", "ensemble",
    "evidence", "flow", "interpolate", "leave_one_out", "pivoted_cholesky", "posterior", "ridge",
    "solve",
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
    y, penalty = check_targets(y, len(matrix)), check_nonnegative(penalty, "penalty")
    factor, units = _cholesky(matrix, penalty, eps)
    columns = scipy.linalg.cho_solve((factor, True), _in_units(y, units)) / units
    return check_finite(columns.reshape(y.shape))


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


# ---------------------------------------------------------------- Gaussian processes


class Posterior(NamedTuple):
    """Mean and covariance of random functions at m points."""

    mean: np.ndarray
    """(m,) or (m, n_targets)"""
    variance: np.ndarray
    """(m,), at least 0; of the functions, without a new observation's noise. One for all targets"""
    covariance: np.ndarray | None = None
    """(m, m), symmetric, positive semidefinite up to its own rounding; None if it was not asked"""


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def posterior(
    K: np.ndarray, cross: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: Any = 0.0
) -> Posterior:
    r"""Return the posterior of a Gaussian process at m new points, given observations at n points.

    The mean is :math:`k^\top (K + \sigma^2 I)^{-1} y`, the covariance :math:`K(z, z') - k^\top
    (K + \sigma^2 I)^{-1} k'`. A network's Gaussian process kernel is the covariance of its outputs
    over random weights (Neal 1996; Lee et al. 2018). Its neural tangent kernel is not.

    Parameters
    ----------
    K, cross : ndarray, (n, n) and (m, n)
        ``kernel(X)`` and ``kernel(Z, X)``.
    prior : ndarray, (m,) or (m, m)
        ``kernel.diag(Z)`` for variances, or ``kernel(Z)`` for covariances too. Matrices that give
        a negative variance are refused.
    y : ndarray, (n,) or (n, n_targets)
        Observations at X.
    noise : float or array_like, (n,), default 0.0
        Variance σ² of the observations' errors, the penalty of `ridge`; or one of each.

    Raises
    ------
    ValueError
        If K with its noise is numerically singular in the precision of K.

    Examples
    --------
    >>> from rescntk import regression
    >>> p = regression.posterior([[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.0]], [1.0], [1.0, 2.0])
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    given, (K, y, noise) = (K, cross, prior), _observations(K, y, noise)
    cross, prior = _new_points(cross, prior, len(K), ("cross", "prior"))
    eps, size = max(map(rounding_unit, given)), _diagonal(prior)
    factor, units = _cholesky(K, noise, eps)
    unit = _units(size)[:, None]
    V = scipy.linalg.solve_triangular(factor, _in_units((cross / unit).T, units), lower=True)
    white = scipy.linalg.solve_triangular(factor, _in_units(y, units), lower=True)
    mean = (unit * (V.T @ white)).reshape(len(cross), *y.shape[1:])
    if prior.ndim == 1:
        explained = unit[:, 0] ** 2 * (V**2).sum(axis=0)
    else:
        explained = unit * (V.T @ V) * unit.T
    spread = _spread(prior, -explained, size, eps, "cross and prior do not belong to K")
    return Posterior(check_finite(mean), *spread)


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def evidence(K: np.ndarray, y: np.ndarray, noise: Any) -> Any:
    r"""Return the log marginal likelihood of observations of a Gaussian process, the evidence.

    It is :math:`-\frac12 y^\top C^{-1} y - \frac12 \log|C| - \frac n2 \log 2\pi`, :math:`C = K +
    \sigma^2 I`. Of several kernels and noises, those of the greatest evidence explain y best.

    Parameters
    ----------
    K, y, noise
        As for `posterior`.

    Returns
    -------
    float, or ndarray (n_targets,)
        The evidence of each target by itself.

    Examples
    --------
    >>> from rescntk import regression
    >>> round(regression.evidence([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0], noise=1.0), 3)
    -2.781
    """
    given, (K, y, noise) = K, _observations(K, y, noise)
    factor, units = _cholesky(K, noise, rounding_unit(given))
    white = scipy.linalg.solve_triangular(factor, _in_units(y, units), lower=True)
    squares = np.square(white).sum(axis=0)
    log_root = np.log(factor.diagonal()).sum() + np.log(units).sum()
    found = check_finite(-0.5 * squares - log_root - 0.5 * len(y) * math.log(2 * math.pi))
    return found if y.ndim == 2 else float(found[0])


@np.errstate(over="ignore", invalid="ignore")  # refused by `check_finite`
def ensemble(tangent: Any, gpk: Any, y: np.ndarray, time: Any = math.inf) -> Posterior:
    r"""Return mean and covariance at m points of networks trained from random weights.

    In the limit of infinite width gradient flow is :math:`f' = -T (f - y)` at the signals, as for
    `flow`, from a random function :math:`f_0` of covariance K. With :math:`M = T(Z, X)\, T^{-1}
    (I - e^{-T t})` the mean is :math:`M y`, the covariance that of :math:`f_0(Z) - M f_0(X)` (Lee
    et al. 2019, eq. 14 to 16). At infinity it is the `posterior` without noise if T is a multiple
    of K, and else another one.

    Parameters
    ----------
    tangent : (T, T_cross), ndarrays (n, n) and (m, n)
        The network's neural tangent kernel, ``kernel(X)`` and ``kernel(Z, X)``.
    gpk : (K, K_cross, K_prior), ndarrays (n, n), (m, n), and (m,) or (m, m)
        Its Gaussian process kernel. `K_prior` is ``kernel.diag(Z)`` for variances, or
        ``kernel(Z)`` for covariances too.
    y : ndarray, (n,) or (n, n_targets)
        Values at X. Each target is an output of the network.
    time : float or array_like, (n_times,), default infinity
        As for `flow`. An array puts an axis (n_times,) in front of each result.

    Raises
    ------
    ValueError
        If a time trains an eigenvector of T that is a rounding error, or a variance is negative.

    Examples
    --------
    >>> from rescntk import regression
    >>> tangent, gpk = ([[2.0]], [[1.0]]), ([[1.0]], [[1.0]], [1.0])
    >>> p = regression.ensemble(tangent, gpk, [4.0], [0.0, float("inf")])
    >>> p.mean.ravel(), p.variance.ravel()
    (array([0., 2.]), array([1.  , 0.25]))
    """
    T, T_cross = _matrices(tangent, "tangent", ("T", "T_cross"))
    K, K_cross, K_prior = given = _matrices(gpk, "gpk", ("K", "K_cross", "K_prior"))
    n = len(check_symmetric(T, "T"))
    K, y = check_symmetric(K, "K"), check_targets(y, n)
    K_cross, K_prior = _new_points(K_cross, K_prior, n, ("K_cross", "K_prior"))
    T_cross = check_shape(T_cross, "T_cross", K_cross.shape)
    if len(K) != n:
        raise ValueError(f"K has shape {K.shape}, expected {(n, n)} as T")
    nonnegative(time, "time", finite=False)
    try:
        flows = decompose(T).flow(T_cross.T, time)
    except ValueError as error:
        raise ValueError(f"T of tangent: {error}") from None
    eps, results = max(map(rounding_unit, given)), []
    for M in flows.reshape(-1, n, len(T_cross)).swapaxes(1, 2):
        size = (np.sqrt(_diagonal(K_prior)) + np.abs(M) @ np.sqrt(K.diagonal())) ** 2
        if K_prior.ndim == 1:
            change = ((M @ K - 2.0 * K_cross) * M).sum(axis=1)
        else:
            half = (0.5 * (M @ K) - K_cross) @ M.T
            change = half + half.T
        spread = _spread(K_prior, change, size, eps, "tangent and gpk are not of one network")
        results.append((check_finite(M @ y), *spread))
    parts = zip(*results, strict=True)
    return Posterior(*(np.stack(p) if np.ndim(time) and p[0] is not None else p[0] for p in parts))


def _observations(K: Any, y: Any, noise: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K, y and the noise of each observation, (n,), checked."""
    K = check_symmetric(K, "K")
    y = check_targets(y, len(K))
    if not is_sequence(noise):
        return K, y, np.full(len(K), check_nonnegative(noise, "noise"))
    noise = check_shape(noise, "noise", (len(K),))
    if (noise < 0).any():
        raise ValueError(f"noise has {noise.min():.3g}, expected numbers of at least 0")
    return K, y, noise


def _new_points(cross: Any, prior: Any, n: int, names: tuple[str, str]) -> tuple[Any, Any]:
    """Return kernels between m points and n signals, (m, n), and of the points, checked."""
    cross = check_shape(cross, names[0], f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)
    m = len(cross)
    checked = check_shape(prior, names[1], f"({m},) or ({m}, {m})", lambda s: s in ((m,), (m, m)))
    return cross, checked if checked.ndim == 1 else check_symmetric(prior, names[1])


def _matrices(given: Any, name: str, names: tuple[str, ...]) -> Any:
    """Return several matrices that came in a tuple or list."""
    if isinstance(given, (tuple, list)) and len(given) == len(names):
        return given
    length = f" of length {len(given)}" if hasattr(given, "__len__") else ""
    raise ValueError(
        f"{name} is a {type(given).__name__}{length}, expected a tuple ({', '.join(names)})"
    )


def _diagonal(prior: np.ndarray) -> np.ndarray:
    return prior if prior.ndim == 1 else prior.diagonal()


def _units(variance: np.ndarray) -> np.ndarray:
    """Return powers of two near the roots of variances, 1 for 0: exact units of matrices."""
    return np.ldexp(1.0, np.frexp(variance)[1] // 2)


def _in_units(y: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return columns (n, n_targets) divided by units."""
    return np.asarray(check_finite(y.reshape(len(y), -1) / units))


def _spread(
    prior: np.ndarray, change: np.ndarray, size: np.ndarray, eps: float, refusal: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return variances of prior + change, and covariances if they are (m, m).

    What is negative by rounding becomes 0; it is at most √eps of `size`, the size of all terms.
    """
    found = check_finite(prior + change)
    wrong = ~(_diagonal(found) >= -np.sqrt(eps) * size)
    if wrong.any():
        raise ValueError(
            f"{refusal}: the variance at point {wrong.argmax()} would be negative, expected "
            f"matrices of one kernel"
        )
    if found.ndim == 1:
        return np.maximum(found, 0.0), None
    found, units = 0.5 * found + 0.5 * found.T, _units(size)[:, None]
    values, U = scipy.linalg.eigh(found / units / units.T, driver="evd")
    if values[0] < -np.sqrt(eps) * len(found):
        raise ValueError(
            f"{refusal}: their covariance would have a negative eigenvalue, expected matrices of "
            f"one kernel"
        )
    if values[0] < 0 and change.any():
        root = units * U * np.sqrt(np.maximum(values, 0.0))
        found = root @ root.T
    return np.maximum(found.diagonal(), 0.0), found


def _cholesky(K: np.ndarray, noise: Any, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower Cholesky factor of K + noise·I in units, and the units, (n, 1).

    Refuse 1/condition of n·eps at most. Units of two to a power do not change a digit of a
    solution, and large and small signals, or noises, do not count as singular.
    """
    matrix = check_finite(K + np.diag(np.broadcast_to(noise, len(K))))
    units = _units(matrix.diagonal())[:, None]
    matrix /= units
    matrix /= units.T
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    norm = np.abs(matrix).sum(axis=0).max()
    reciprocal = 0.0 if failed else scipy.linalg.lapack.dpocon(factor, norm, uplo="L")[0]
    check_condition(reciprocal, len(K), eps)
    return factor, units


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
    X, rank = check_batch(X, "X"), check_positive_integer(rank, "rank")
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
    ridge, tolerance = check_nonnegative(ridge, "ridge"), check_positive(tolerance, "tolerance")
    check_positive_integer(max_iterations, "max_iterations")
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
