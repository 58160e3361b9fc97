"""Learning curves: errors of kernel regression over the number of signals, from a spectrum.

Bordelon, Canatar and Pehlevan 2020; Canatar, Bordelon and Pehlevan 2021; Simon et al. 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ...arrays import resolution
from ...checks.values import (
    check_depths,
    check_finite,
    check_nonnegative,
    check_shape,
    check_targets,
)
from ...regression.decomposition import decompose
from ..tools.report_table import ReportTable


class CurveRow(NamedTuple):
    """A row of a `LearningCurve`, which documents the columns."""

    n: int
    test_error: float
    train_error: float
    effective_dimension: float
    kappa: float
    overfitting: float


@dataclass(frozen=True)
class LearningCurve(ReportTable[CurveRow]):
    """Predicted errors, mean squares over targets; iterating gives a row for each size.

    - ``n``: number of training signals.
    - ``test_error``: at new signals, label noise included; infinite where noise is fitted exactly.
    - ``train_error``: at the training signals.
    - ``effective_dimension``: Σ ℓ_i, at most n: as many modes are learned.
    - ``kappa``: κ, the eigenvalue of a mode that is half learned.
    - ``overfitting``: E_0 = n/(n − Σ ℓ_i²), at least 1: the factor by which noise in the labels
      grows. Of a pool of N signals it is the test error over Σ (1 − ℓ_i)² v_i², which tends to E_0
      as N grows.
    """


def curve(
    eigenvalues: np.ndarray,
    coefficients: np.ndarray,
    sizes: Iterable[int],
    penalty: float = 0.0,
    *,
    noise: float = 0.0,
    multiplicities: np.ndarray | None = None,
) -> LearningCurve:
    r"""Return the learning curve of a kernel with given eigenvalues and of a given target.

    The test error is :math:`E_0 \bigl(\sum_i (1 - \ell_i)^2 v_i^2 + \sigma^2\bigr)`, the train
    error :math:`(\delta/n\kappa)^2` times the test error (Simon et al. 2021).

    Parameters
    ----------
    eigenvalues : ndarray, (n_modes,)
        λ_i of the kernel's integral operator, at least 0. Modes of eigenvalue 0 are never learned.
    coefficients : ndarray, (n_modes,) or (n_modes, n_targets)
        v_i of the target in orthonormal eigenfunctions. Errors are means over targets.
    sizes : iterable of int
        Numbers n of training signals.
    penalty : float, default 0.0
        δ, added to the diagonal of the kernel matrix (n, n).
    noise : float, default 0.0
        Variance σ² of independent errors in the labels, of training and of test signals.
    multiplicities : ndarray, (n_modes,), optional
        How often each eigenvalue occurs; a squared coefficient is the sum over its modes.

    Returns
    -------
    `LearningCurve`
        A row for each size.

    Raises
    ------
    ValueError
        If an argument is negative, or of another shape.
    OverflowError
        If κ, an error, the squared coefficients or the sum of multiplicities leave float64.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> print(learning.curve([1.0, 0.1], [1.0, 1.0], (1, 2), penalty=0.1, multiplicities=[1, 10]))
    n  test_error  train_error  effective_dimension   kappa  overfitting
    --------------------------------------------------------------------
    1       1.548     0.005559               0.9401   1.669        1.208
    2       1.248     0.006532                1.855  0.6911        1.342
    """
    values = check_shape(eigenvalues, "eigenvalues", "(n_modes,)", lambda s: len(s) == 1)
    parts = check_targets(coefficients, len(values), "coefficients").reshape(len(values), -1)
    with np.errstate(over="ignore"):
        squares = np.square(parts).mean(axis=1)
        check_finite(squares.sum())
    counts = np.ones(len(values)) if multiplicities is None else multiplicities
    counts = check_shape(counts, "multiplicities", values.shape)
    for name, array in (("eigenvalues", values), ("multiplicities", counts)):
        if (array < 0).any():
            raise ValueError(f"{name} has {array.min():.3g}, expected numbers of at least 0")
    with np.errstate(over="ignore"):
        check_finite(counts.sum())
    penalty, noise = check_nonnegative(penalty, "penalty"), check_nonnegative(noise, "noise")
    rows = []
    for n in check_depths(sizes, "sizes"):
        kappa = _solve_kappa(values, counts, n, penalty)
        learned, unlearned = fractions(values, kappa)
        # δ/κ: without a penalty, n signals beyond the rank leave n − rank directions untrained.
        remaining = penalty / kappa if kappa > 0 else n - counts[values > 0].sum()
        spread = counts @ (learned * unlearned) + remaining  # n − Σ ℓ²: all terms are positive
        overfitting = float(n / spread) if spread > 0 else math.inf
        bias = float(squares @ unlearned**2 + noise)
        test = overfitting * bias if bias > 0 else 0.0
        if spread > 0:  # else noise is fitted exactly
            check_finite(np.asarray(test))
        train = float(remaining / n) ** 2 * test if remaining > 0 else 0.0
        rows.append(CurveRow(n, test, train, float(counts @ learned), kappa, overfitting))
    return LearningCurve(tuple(rows))


def pool_curve(
    K: np.ndarray, y: np.ndarray, sizes: Iterable[int], penalty: float = 0.0, *, noise: float = 0.0
) -> LearningCurve:
    r"""Return the learning curve of training sets drawn from a pool, tested on its other signals.

    Of K + δI, with eigenvalues Λ + δ, τ solves κ's equation without a penalty. Then κ is (δ + τ)/N,
    and τ/(Λ+δ+τ) is left of a direction (docs/theory/learning_curves.md).

    Parameters
    ----------
    K : ndarray, (N, N)
        Kernel matrix of the pool. Eigenvalues below N·eps·Λ_max, eps of its dtype, count as 0.
    y : ndarray, (N,) or (N, n_targets)
        Targets of the pool. Centre them where the regression has an intercept.
    sizes : iterable of int
        Numbers n of training signals, below N.
    penalty : float, default 0.0
        δ, added to the diagonal of the kernel matrix (n, n).
    noise : float, default 0.0
        Variance σ² of independent errors in the labels, beside those that y has.

    Returns
    -------
    `LearningCurve`
        A row for each size.

    Raises
    ------
    ValueError
        If K is not symmetric and positive semidefinite, or a size is not below N.
    OverflowError
        If κ or the squared targets leave float64.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import learning
    >>> x = np.random.default_rng(0).standard_normal((60, 5))
    >>> table = learning.pool_curve(x @ x.T, x[:, 0], (3, 10), penalty=1e-6)
    >>> table.column("test_error").round(3)
    array([0.424, 0.   ])
    """
    sizes, penalty = check_depths(sizes, "sizes"), check_nonnegative(penalty, "penalty")
    decomposition, noise = decompose(K), check_nonnegative(noise, "noise")
    N, values = len(decomposition.eigenvalues), decomposition.eigenvalues
    values = values * (values > resolution(values, decomposition.eps))
    if max(sizes) >= N:
        raise ValueError(f"sizes has {max(sizes)}, expected numbers below {N}, the signals of K")
    with np.errstate(over="ignore", invalid="ignore"):
        parts = decomposition.eigenvectors.T @ check_targets(y, N).reshape(N, -1) / math.sqrt(N)
        check_finite(np.square(parts).sum())
    # Rounding errors of orthogonal vectors are no part of the target.
    tiny = N * float(np.finfo(np.float64).eps) * np.linalg.norm(parts, axis=0)
    parts[np.abs(parts) <= tiny] = 0.0
    # The root of the mean over targets. Noise has the same share in every direction.
    parts = np.hypot.reduce(parts, axis=1) / math.sqrt(parts.shape[1])
    parts, rank, rows = np.hypot(parts, math.sqrt(noise / N)), int(np.count_nonzero(values)), []
    for n, test, _, _, tau, overfitting in curve(values + penalty, parts, sizes):
        # Without a penalty, eigenvalues 0 share what n signals beyond the rank leave.
        odds = penalty / tau if penalty else max(n - rank, 0) / (N - n)
        left = 1.0 / (1.0 + odds)
        grown = N / (N - n) * (1.0 if penalty else left)
        train = (odds * (N - n) / n) ** 2 * test * grown if odds else 0.0
        overfitting *= grown * (left**2 if penalty else 1.0)
        dimension, kappa = (
            float(fractions(values, penalty + tau)[0].sum()),
            (penalty + tau) / N,
        )
        rows.append(CurveRow(n, test * grown, train, dimension, kappa, overfitting))
    return LearningCurve(tuple(rows))


def fractions(values: np.ndarray, kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ℓ = λ/(λ+κ) and 1 − ℓ, both with all their digits. Where λ is 0, ℓ is 0."""
    total = np.where(values > 0, values + kappa, 1.0)
    return values / total, np.where(values > 0, kappa / total, 1.0)


def _solve_kappa(values: np.ndarray, counts: np.ndarray, n: float, penalty: float) -> float:
    """Return κ with Σ λ/(λ+κ) + δ/κ = n, to rounding errors; 0 for δ = 0 from the rank on."""
    present = (values > 0) & (counts > 0)
    values, counts, rank = values[present], counts[present], counts[present].sum()
    if penalty == 0 and n >= rank:
        return 0.0
    with np.errstate(over="ignore"):  # κ ≤ (Σ λ + δ)/n; κ ≥ δ/n, and κ ≥ λ_min (rank − n)/n
        high = (values @ counts + penalty) / n
        low = max(penalty / n, values.min(initial=np.inf) * (rank - n) / n)
    if not 1e-307 < low <= high < 1e307:
        raise OverflowError("κ leaves the range of float64, expected moderate eigenvalues")

    def excess(kappa: float) -> float:
        """Return Σ ℓ + δ/κ − n. From κ on ℓ is 1 − (1 − ℓ): the sum of the 1 less n is exact."""
        learned, unlearned = fractions(values, kappa)
        above = values >= kappa
        remainder = counts @ np.where(above, -unlearned, learned) + penalty / kappa
        return float((counts[above].sum() - n) + remainder)

    return float(brentq(excess, 0.999 * low, 1.001 * high, xtol=1e-320, rtol=1e-15, maxiter=3000))
