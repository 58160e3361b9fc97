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
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from .arrays import resolution, rounding_unit
from .validation import (
    check_batch,
    check_constant,
    check_depth,
    check_integer,
    check_kernel,
    check_positive,
    check_real,
    check_rectangular,
    check_shape,
    check_symmetric,
    check_targets,
)  # fmt: skip

# ---------------------------------------------------------------- one kernel matrix


def interpolate(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return β = K⁻¹ y, `ridge` without a penalty: eq. 4 of Tirer et al. 2022.

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
    return _finite(scipy.linalg.cho_solve((_cholesky(matrix, penalty, eps), True), y))


def leave_one_out(
    K: np.ndarray, y: np.ndarray, penalty: Any, *, intercept: bool = False, groups: Any = None
) -> np.ndarray:
    r"""Return the errors y_i − f₋ᵢ(x_i) of ridge regressions without case i, in closed form.

    They are :math:`\beta_i / B_{ii}` for :math:`\beta = B y` (Cawley and Talbot 2004). Cases g of
    one group are left out together: :math:`B_{gg}^{-1} \beta_g`.

    Parameters are as for `ridge`. An array of penalties, (n_penalties,), puts such an axis in front
    of the result. With `intercept` each regression has a constant without penalty. `groups` has a
    label for each case, (n,).

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

    Gradient flow on :math:`\frac12 \|f - y\|^2` in the tangent-kernel regime has
    :math:`f_t(x) = K(x, X) K^{-1} (I - e^{-K t}) y` (Jacot et al. 2018; eq. 3 of Tirer et al.
    2022). Steps of gradient descent with a small rate η are at times η, 2η, …

    K and y are as for `ridge`; K may be singular, if no time trains an eigenvector of rounding
    errors. Times are numbers of at least 0, and infinity interpolates. An array of times,
    (n_times,), puts such an axis in front of the result.

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

    K, `cross` and `prior` are ``kernel(X)``, (n, n), ``kernel(Z, X)``, (m, n), and
    ``kernel.diag(Z)``, (m,); matrices that give a negative variance are refused. `noise` is the
    variance σ² of the observations y at X, (n,) or (n, n_targets), the penalty of `ridge`.

    Examples
    --------
    >>> from rescntk import regression
    >>> p = regression.posterior([[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.0]], [1.0], [1.0, 2.0])
    >>> p.mean.round(12), p.variance.round(12)
    (array([0.6]), array([0.64]))
    """
    eps = max(map(rounding_unit, (K, cross, prior)))
    K = check_symmetric(K, "K")
    n, y, noise = len(K), check_targets(y, len(K)), check_constant(noise, "noise")
    cross = check_shape(cross, "cross", f"(m, {n})", lambda s: len(s) == 2 and s[1] == n)
    prior = check_shape(prior, "prior", (len(cross),))
    factor = _cholesky(K, noise, eps)
    mean = cross @ scipy.linalg.cho_solve((factor, True), y)
    explained = (scipy.linalg.solve_triangular(factor, cross.T, lower=True) ** 2).sum(axis=0)
    wrong = explained > (1.0 + np.sqrt(eps)) * prior  # rounding errors are smaller
    if wrong.any():
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {wrong.argmax()} "
            f"would be negative, expected matrices of one kernel"
        )
    return Posterior(_finite(mean), _finite(np.maximum(prior - explained, 0.0)))


def _cholesky(K: np.ndarray, penalty: float, eps: float) -> np.ndarray:
    """Return the lower Cholesky factor of K + λI; refuse 1/condition of n·eps at most."""
    shifted = K + penalty * np.eye(len(K))
    factor, failed = scipy.linalg.lapack.dpotrf(shifted, lower=1)
    norm = np.abs(shifted).sum(axis=0).max()
    reciprocal = 0.0 if failed else scipy.linalg.lapack.dpocon(factor, norm, uplo="L")[0]
    _check_condition(reciprocal, len(K), eps)
    return factor


def _check_condition(reciprocal: float, n: int, eps: float) -> None:
    if not reciprocal > n * eps:
        raise ValueError(
            f"K of shape {(n, n)} is numerically singular: 1/condition, penalty included, is "
            f"{reciprocal:.2g}, expected above n·eps = {n * eps:.2g} for its dtype (signals that "
            f"differ, a larger penalty, a shorter time, or float64)"
        )


def _finite(result: Any) -> Any:
    """Return a result unchanged, or raise an OverflowError if it exceeds float64."""
    if np.isfinite(result).all():
        return result
    raise OverflowError("the results exceed float64, expected smaller targets or kernel values")


# ---------------------------------------------------------------- all penalties at once


Filter: TypeAlias = tuple[np.ndarray, float]
"""A function f of eigenvalues: f(λ) − f(0) in the directions of U, (k,), and f(0) in all."""


@dataclass(frozen=True)
class Decomposition:
    r"""Eigenvectors U and eigenvalues λ of a kernel matrix, :math:`K = U \Lambda U^\top`.

    Directions outside of U have the eigenvalue 0. With weights w of the cases, U and λ are of
    :math:`W^{1/2} K W^{1/2}`, and every λI in a formula is λW⁻¹.
    """

    eigenvalues: np.ndarray
    """(k,), rising"""
    eigenvectors: np.ndarray
    """U, (n, k), in columns"""
    eps: float
    """Rounding unit of the numbers in K: eigenvalues below n·eps·λ_max are rounding errors."""
    roots: np.ndarray
    """√w, (n,); ones without weights"""

    def ridge(self, y: np.ndarray, penalty: Any, *, intercept: bool = False) -> Any:
        """Return β = (K + λI)⁻¹ y for each penalty λ; with `intercept` also the constants b.

        β minimizes Σ w (y − Kβ − b)² + λ βᵀKβ. It has the shape of y, after an axis
        (n_penalties,) if `penalty` is an array.
        """
        y = check_targets(y, len(self.roots))
        found = [self._fit(y, inverse, intercept)[:2] for inverse in self._inverses(penalty)]
        beta, b = (_stack(part, penalty) for part in zip(*found, strict=True))
        return (beta, b) if intercept else beta

    def leave_one_out(
        self, y: np.ndarray, penalty: Any, *, intercept: bool = False, groups: Any = None
    ) -> np.ndarray:
        """Return errors of cases or groups that are left out: see the function of this name."""
        y, members = check_targets(y, len(self.roots)), self._members(groups)
        if intercept and len(members) == 1:
            raise ValueError("y has one case or group, expected two: the other gives the intercept")
        errors = []
        for inverse in self._inverses(penalty):
            beta, _, ones = self._fit(y, inverse, intercept)
            total = ones.sum() if intercept else np.inf  # B = G − G11ᵀG / 1ᵀG1
            if groups is None:
                errors.append((beta.T / (self._diagonal(inverse) - ones * (ones / total))).T)
                continue
            errors.append(np.empty_like(beta))
            for cases in members:
                B = self._block(inverse, cases) - np.outer(ones[cases], ones[cases] / total)
                errors[-1][cases] = np.linalg.solve(B, beta[cases])
        return _stack(errors, penalty)

    def left_out_variance(self, penalty: float, groups: Any = None) -> np.ndarray:
        r"""Return the variance of an observation at each left-out case, (n,), noise included.

        The diagonal of :math:`(G_{gg})^{-1}` for :math:`G = (K + \lambda I)^{-1}`, where K is the
        covariance of a Gaussian process and λ, above 0, the noise.
        """
        (inverse,) = self._inverses(check_positive(penalty, "penalty"))
        if groups is None:
            return _stack([1.0 / self._diagonal(inverse)], penalty)
        variance = np.empty(len(self.roots))
        for cases in self._members(groups):
            variance[cases] = np.linalg.inv(self._block(inverse, cases)).diagonal()
        return variance

    def flow(self, y: np.ndarray, time: Any) -> np.ndarray:
        """Return coefficients after gradient flow for one time or many: see `regression.flow`."""
        y, times = check_targets(y, len(self.roots)), _nonnegative(time, "time", finite=False)
        # An eigenvector is trained once λt > 1; an eigenvector of rounding errors must not be.
        if times.max() * resolution(self.eigenvalues, self.eps) > 1:
            self._check(0.0)
        values = np.maximum(self.eigenvalues, 0.0)
        safe = np.where(values > 0, values, 1.0)  # (1 − exp(−λt))/λ is t at λ = 0
        found = []
        for t in times:
            zero = t if self._outside else 0.0
            f = np.where(values > 0, -np.expm1(-safe * t) / safe, t)
            found.append(self._apply((f - zero, zero), y))
        return _stack(found, time)

    def learning_rate_bound(self) -> float:
        """Return 2/(λ_min + λ_max): rates up to it train wide networks with this tangent kernel to
        zero error (theorem 5 of Tirer et al. 2022).
        """
        self._check(0.0)
        return float(2.0 / (self.eigenvalues[0] + self.eigenvalues[-1]))

    @property
    def _outside(self) -> bool:
        """Whether there are directions outside of U."""
        return self.eigenvectors.shape[1] < len(self.roots)

    def _check(self, penalty: float) -> None:
        """Refuse K + λI whose least eigenvalue is at most n·eps·λ_max."""
        least = penalty + (0.0 if self._outside else self.eigenvalues[0])
        largest = max(self.eigenvalues[-1] + penalty, 1e-300)
        _check_condition(least / largest, len(self.roots), self.eps)

    def _inverses(self, penalty: Any) -> list[Filter]:
        """Return (K + λI)⁻¹ for each penalty, as a function of the eigenvalues."""
        penalties = _nonnegative(penalty, "penalty")
        self._check(float(penalties.min()))
        zeros = [1.0 / number if self._outside else 0.0 for number in penalties]
        pairs = zip(penalties, zeros, strict=True)
        return [(1.0 / (self.eigenvalues + number) - zero, zero) for number, zero in pairs]

    def _apply(self, function: Filter, y: np.ndarray) -> np.ndarray:
        """Return √W f(√W K √W) √W y."""
        scaled, (f, zero) = (self.roots * y.T).T, function
        with np.errstate(over="ignore", invalid="ignore"):  # refused by `_finite`
            result = self.eigenvectors @ (f * (self.eigenvectors.T @ scaled).T).T + zero * scaled
            return np.asarray((self.roots * result.T).T)

    def _diagonal(self, function: Filter) -> np.ndarray:
        f, zero = function
        return np.asarray(self.roots**2 * (self.eigenvectors**2 @ f + zero))

    def _block(self, function: Filter, cases: np.ndarray) -> np.ndarray:
        """Return √W f(√W K √W) √W between some cases, (k, k)."""
        (f, zero), A = function, self.roots[cases, None] * self.eigenvectors[cases]
        return np.asarray((f * A) @ A.T + zero * np.diag(self.roots[cases] ** 2))

    def _fit(self, y: np.ndarray, inverse: Filter, intercept: bool) -> tuple[np.ndarray, ...]:
        """Return β, b and G1: b = 1ᵀGy / 1ᵀG1 and β = G(y − b); b = 0 without an intercept."""
        coefficients, ones = self._apply(inverse, y), self._apply(inverse, np.ones(len(y)))
        b = np.asarray(ones @ y / ones.sum() if intercept else np.zeros(y.shape[1:]))
        return coefficients - np.multiply.outer(ones, b), b, ones

    def _members(self, groups: Any) -> list[np.ndarray]:
        """Return the places of each group's cases, from n labels of one kind."""
        n = len(self.roots)
        labels = np.arange(n) if groups is None else check_rectangular(groups, "groups", "labels")
        if labels.shape != (n,) or (labels != labels).any():
            raise ValueError(f"groups of shape {labels.shape}, expected ({n},) labels without NaN")
        try:
            numbers = np.unique(labels, return_inverse=True)[1].reshape(-1)
        except TypeError:
            raise ValueError("groups has labels of several kinds, expected one kind") from None
        return np.split(numbers.argsort(kind="stable"), np.bincount(numbers).cumsum()[:-1])


def decompose(K: np.ndarray, case_weights: Any = None, *, clip: bool = False) -> Decomposition:
    """Return the eigendecomposition of a kernel matrix, which serves all penalties and times.

    K is as for `ridge`. A positive weight of each case, (n,), multiplies its squared error: a case
    of weight 2 counts as two equal cases, which leave-one-out errors leave out together.
    Eigenvalues that are below 0 by more than rounding errors are refused, or with `clip` set to 0.

    Examples
    --------
    >>> from rescntk import regression
    >>> regression.decompose([[2.0, 1.0], [1.0, 2.0]]).ridge([3.0, 0.0], [0.0, 1.0]).round(12)
    array([[ 2.   , -1.   ],
           [ 1.125, -0.375]])
    """
    matrix, eps = check_symmetric(K, "K"), rounding_unit(K)
    roots = _roots(case_weights, len(matrix))
    values, U = scipy.linalg.eigh(_finite(roots[:, None] * matrix * roots), driver="evd")
    least = resolution(values, eps)  # an eigendecomposition errs by about this much
    if values[0] < -10 * least and not clip:
        raise ValueError(
            f"K of shape {matrix.shape} has the eigenvalue {values[0]:.3g}, expected a positive "
            f"semidefinite matrix (more than {least - values[0]:.3g} added to the diagonal, or "
            f"clip=True, which takes eigenvalues below 0 as 0)"
        )
    return Decomposition(np.maximum(values, 0.0) if clip else values, U, eps, roots)


def decompose_features(features: np.ndarray, case_weights: Any = None) -> Decomposition:
    r"""Return the decomposition of the kernel matrix :math:`\Phi \Phi^\top` of features Φ.

    `features` is (n, n_features); ``features.T @ coefficients`` are the weights of the features.

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
    roots = _roots(case_weights, len(Phi))
    U, S, _ = scipy.linalg.svd(roots[:, None] * Phi, full_matrices=False)
    return Decomposition(S[::-1] ** 2, U[:, ::-1], rounding_unit(features), roots)


def _roots(weights: Any, n: int) -> np.ndarray:
    array = np.ones(n) if weights is None else check_shape(weights, "case_weights", (n,))
    if (array <= 0).any():
        raise ValueError(f"case_weights has {array.min():.3g}, expected positive numbers")
    return np.sqrt(array)


def _nonnegative(values: Any, name: str, finite: bool = True) -> np.ndarray:
    """Return one number or a vector, each at least 0, as a vector."""
    array = check_real(values, name, "of at least 0, one or a vector", finite)
    if array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {values!r}, expected numbers of at least 0, one or a vector")
    return np.atleast_1d(array)


def _stack(parts: Any, given: Any) -> np.ndarray:
    """Return results for one number, or stacked for a vector."""
    return np.asarray(_finite(np.stack(parts) if np.ndim(given) else parts[0]))


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
    rejection (Chen et al. 2022, Epperly et al. 2024; ``docs/theory/large_grams.md``). About
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
    unit = np.abs(Y).reshape(n, -1).max(axis=0)  # squares of huge targets would overflow
    columns = Y.reshape(n, -1) / np.where(unit > 0, unit, 1.0)
    norms = np.linalg.norm(columns, axis=0)
    columns = columns / np.where(norms > 0, norms, 1.0)

    def product(v: np.ndarray) -> np.ndarray:
        V = v.reshape(columns.shape)
        return np.asarray(check_shape(K @ V, "K @ v", V.shape) + ridge * V).ravel()

    def operator(function: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
        return LinearOperator((columns.size,) * 2, function, dtype=np.float64)

    inverse = None
    if preconditioner is not None:
        F = getattr(preconditioner, "factor", preconditioner)
        F = check_shape(F, "preconditioner", f"({n}, rank)", lambda s: len(s) == 2 and s[0] == n)
        U, S, _ = scipy.linalg.svd(F, full_matrices=False)
        explained = (S**2 / (S**2 + check_positive(ridge, "ridge")))[:, None]

        def precondition(v: np.ndarray) -> np.ndarray:  # λ (F Fᵀ + λI)⁻¹ v
            V = v.reshape(columns.shape)
            return np.asarray(V - U @ (explained * (U.T @ V))).ravel()

        inverse = operator(precondition)
    options = {"rtol": 0.0, "atol": tolerance, "maxiter": max_iterations, "M": inverse}
    A = cg(operator(product), columns.ravel(), **options)[0]
    residuals = (columns.ravel() - product(A)).reshape(columns.shape)
    left = float(np.linalg.norm(residuals, axis=0).max())
    if not left <= 10 * tolerance:  # rounding errors of the recursion are smaller
        warnings.warn(
            f"conjugate gradients ended at a residual of {left:.2g}, expected {tolerance:.2g}: a "
            f"larger ridge, a preconditioner of higher rank or more iterations help, if K is "
            f"positive semidefinite",
            scipy.linalg.LinAlgWarning,
            stacklevel=2,
        )
    with np.errstate(over="ignore"):
        A = A.reshape(columns.shape) * norms * unit
    return np.asarray(_finite(A.reshape(Y.shape)))
