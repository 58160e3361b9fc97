r"""Learning curves of kernel ridge regression, predicted from the spectrum and measured.

Bordelon, Canatar and Pehlevan 2020; Canatar, Bordelon and Pehlevan 2021; Simon et al. 2021
(``docs/theory/learning_curves.md``). A kernel has eigenvalues λ_i and the target the coefficients
v_i. With n signals and ridge δ, κ solves :math:`\sum_i \lambda_i/(\lambda_i+\kappa) +
\delta/\kappa = n`, and the *learnability* of mode i is :math:`L_i = \lambda_i/(\lambda_i+\kappa)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ...arrays import resolution
from ...regression import Decomposition, decompose
from ...regression import ridge as ridge_coefficients
from ...report_table import ReportTable
from ...validation import (
    check_constant,
    check_depth,
    check_depths,
    check_shape,
    check_symmetric,
    check_targets,
)
from ..argument_checks import check_rng


class CurveRow(NamedTuple):
    """The errors of one number of signals, predicted or measured: mean squares over targets.

    Measured errors are means over draws of the training set.
    """

    n: int
    """Number of signals in training."""
    test_error: float
    """At new signals, label noise included; infinite where noise is fitted exactly."""
    standard_error: float
    """Of a measured `test_error`, by its spread over draws; NaN for predictions."""
    train_error: float
    """At the signals in training."""
    effective_dimension: float = math.nan
    """Σ L_i, at most n: as many modes are learned. NaN for measurements, like the last two."""
    kappa: float = math.nan
    """κ, the eigenvalue of a mode that is half learned."""
    overfitting: float = math.nan
    """E_0 = n/(n − Σ L_i²), at least 1: the factor by which noise in the labels grows."""


@dataclass(frozen=True)
class LearningCurve(ReportTable):
    """A learning curve; iterating gives a `CurveRow` for each number of signals."""

    ridge: float
    noise: float
    draws: int = 0
    """Training sets of each size, over which errors are measured; 0 for predictions."""

    header = ("n", "test error", "± s.e.", "train error", "eff. dimension", "kappa", "E_0")


def curve(
    eigenvalues: np.ndarray,
    coefficients: np.ndarray,
    sizes: Iterable[int],
    ridge: float = 0.0,
    *,
    noise: float = 0.0,
    multiplicities: np.ndarray | None = None,
) -> LearningCurve:
    r"""Return the learning curve of a kernel with given eigenvalues and of a given target.

    The test error is :math:`E_0 \bigl(\sum_i (1 - L_i)^2 v_i^2 + \sigma^2\bigr)`, the train error
    :math:`(\delta/n\kappa)^2` times the test error (Simon et al. 2021).

    Parameters
    ----------
    eigenvalues : ndarray, (n_modes,)
        λ_i of the kernel's integral operator, at least 0. Modes of eigenvalue 0 are never learned.
    coefficients : ndarray, (n_modes,) or (n_modes, n_targets)
        v_i of the target in orthonormal eigenfunctions. Errors are means over targets.
    sizes : iterable of int
        Numbers n of training signals.
    ridge : float, default 0.0
        δ, added to the diagonal of the kernel matrix (n, n), as in `regression.ridge`.
    noise : float, default 0.0
        Variance σ² of independent errors in the labels, of training and of test signals.
    multiplicities : ndarray, (n_modes,), optional
        How often each eigenvalue occurs, by default once. The square of a coefficient is then the
        sum of squares over the modes of its eigenvalue.

    Raises
    ------
    ValueError, OverflowError
        For arguments that are not as described; where κ or squared coefficients exceed float64.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> print(learning.curve([1.0, 0.1], [1.0, 1.0], (1, 2), ridge=0.1, multiplicities=[1, 10]))
    n  test error  train error  eff. dimension   kappa    E_0
    ---------------------------------------------------------
    1       1.548     0.005559          0.9401   1.669  1.208
    2       1.248     0.006532           1.855  0.6911  1.342
    """
    values = check_shape(eigenvalues, "eigenvalues", "(n_modes,)", lambda s: len(s) == 1)
    n = len(values)
    squares = _mean_squares(check_targets(coefficients, n, "coefficients"))
    counts = np.ones(n) if multiplicities is None else multiplicities
    counts = check_shape(counts, "multiplicities", (n,))
    for name, array in (("eigenvalues", values), ("multiplicities", counts)):
        if (array < 0).any():
            raise ValueError(f"{name} has {array.min():.3g}, expected numbers of at least 0")
    ladder = check_depths(sizes, "sizes")
    ridge, noise = check_constant(ridge, "ridge"), check_constant(noise, "noise")
    rows = (_row(values, counts, squares, size, ridge, noise) for size in ladder)
    return LearningCurve(tuple(rows), ridge, noise)


def _mean_squares(coefficients: np.ndarray) -> np.ndarray:
    """Return v_i², (n_modes,), the mean over targets."""
    with np.errstate(over="ignore"):
        squares = np.square(coefficients).reshape(len(coefficients), -1).mean(axis=1)
        if not np.isfinite(squares.sum()):
            raise OverflowError("the squares of the target exceed float64, expected smaller values")
    return squares


def _row(
    values: np.ndarray, counts: np.ndarray, squares: np.ndarray, n: int, ridge: float, noise: float
) -> CurveRow:
    kappa = solve_kappa(values, counts, n, ridge)
    learned, unlearned = shares(values, kappa)
    # δ/κ: without a ridge, n signals beyond the rank leave n − rank directions untrained.
    remaining = ridge / kappa if kappa > 0 else n - counts[values > 0].sum()
    spread = counts @ (learned * unlearned) + remaining  # n − Σ L², whose terms are all positive
    overfitting = float(n / spread) if spread > 0 else math.inf
    bias = float(squares @ unlearned**2) + noise
    test = overfitting * bias if bias > 0 else 0.0
    train = (remaining / n) ** 2 * test if remaining > 0 else 0.0
    dimension = float(counts @ learned)
    return CurveRow(
        n=n, test_error=test, standard_error=math.nan, train_error=float(train),
        effective_dimension=dimension, kappa=kappa, overfitting=overfitting,
    )  # fmt: skip


def shares(values: np.ndarray, kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """Return L = λ/(λ+κ) and 1 − L, both with all their digits. Where λ is 0, L is 0."""
    larger, smaller = np.maximum(values, kappa), np.minimum(values, kappa)
    ratio = np.divide(smaller, larger, out=np.zeros_like(values), where=larger > 0)
    most, least = 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)
    above = (values >= kappa) & (values > 0)
    return np.where(above, most, least), np.where(above, least, most)


def solve_kappa(values: np.ndarray, counts: np.ndarray, n: float, ridge: float) -> float:
    """Return κ with Σ λ/(λ+κ) + δ/κ = n, to rounding errors; 0 without a ridge from the rank on."""
    present = (values > 0) & (counts > 0)
    values, counts = values[present], counts[present]
    rank = counts.sum()
    if ridge == 0 and n >= rank:
        return 0.0
    logs = np.log(values)
    # κ ≤ (Σ λ + δ)/n. κ ≥ δ/n, and κ ≥ λ_min (rank − n)/n.
    sums, floors = list(logs + np.log(counts)), []
    if ridge > 0:
        sums.append(math.log(ridge))
        floors.append(math.log(ridge) - math.log(n))
    if rank > n:
        floors.append(logs.min() + math.log((rank - n) / n))
    top, bottom = np.logaddexp.reduce(sums) - math.log(n), max(floors)

    def excess(kappa: float) -> tuple[float, float]:
        """Return Σ L + δ/κ − n, and minus its derivative in log κ.

        L is 1 − (1 − L) from κ on. Their number minus n is exact; other terms are small.
        """
        learned, unlearned = shares(values, kappa)
        above = values >= kappa
        left = counts @ np.where(above, -unlearned, learned) + ridge / kappa
        slope = counts @ (learned * unlearned) + ridge / kappa
        return float((counts[above].sum() - n) + left), float(slope)

    low, high = bottom - 1e-9 * (1 + abs(bottom)), top + 1e-9 * (1 + abs(top))
    if not -_LARGEST < low <= high < _LARGEST:
        raise OverflowError("κ leaves the range of float64, expected moderate eigenvalues")
    kappa = math.exp(brentq(lambda x: excess(math.exp(x))[0], low, high, xtol=1e-12))
    for _ in range(2):  # a logarithm has fewer digits than κ
        difference, slope = excess(kappa)
        kappa *= 1.0 + difference / slope
    return kappa


_LARGEST = 708.0
"""|log κ| up to which κ is a normal float64 number; follows from the format."""


def from_gram(
    K: np.ndarray, y: np.ndarray, sizes: Iterable[int], ridge: float = 0.0, *, noise: float = 0.0
) -> LearningCurve:
    r"""Return the learning curve of training sets drawn from a pool, tested on its other signals.

    The formulas are for a pool of N signals: K/N has the eigenvalues and eigenvectors U, and
    coefficients are :math:`U^\top y/\sqrt N`. For large N they become the formulas of `curve`.

    Parameters
    ----------
    K : ndarray, (N, N)
        Kernel matrix of the pool. Eigenvalues below N·eps·λ_max, eps of its dtype, count as 0.
    y : ndarray, (N,) or (N, n_targets)
        Targets of the pool. Centre them where the regression has an intercept.
    sizes : iterable of int
        Numbers of training signals, each below N.
    ridge : float, default 0.0
        As for `curve`.
    noise : float, default 0.0
        Variance of independent errors that are added to `y`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import learning
    >>> x = np.random.default_rng(0).standard_normal((60, 5))
    >>> table = learning.from_gram(x @ x.T, x[:, 0], (3, 10), ridge=1e-6)
    >>> table.column("test_error").round(3)
    array([0.424, 0.   ])
    """
    ladder = check_depths(sizes, "sizes")
    ridge, noise = check_constant(ridge, "ridge"), check_constant(noise, "noise")
    decomposition = decompose(K)
    values, N = _eigenvalues(decomposition), len(decomposition.eigenvalues)
    y = check_targets(y, N)
    _check_below(ladder, N)
    parts = decomposition.eigenvectors.T @ y.reshape(N, -1) / math.sqrt(N)
    # Rounding errors of orthogonal vectors are no part of the target.
    eps, norms = float(np.finfo(np.float64).eps), np.linalg.norm(parts, axis=0)
    parts[np.abs(parts) <= N * eps * norms] = 0.0
    squares = _mean_squares(parts) + noise / N  # noise has the same share in every direction
    rows = (_pool_row(values, squares, n, ridge) for n in ladder)
    return LearningCurve(tuple(rows), ridge, noise)


def _pool_row(values: np.ndarray, squares: np.ndarray, n: int, ridge: float) -> CurveRow:
    """Return the errors of n signals of a pool, whose K has eigenvalues `values`.

    K + δI is a kernel without a ridge, with eigenvalues Λ + δ. τ solves Σ (Λ+δ)/(Λ+δ+τ) = n. Then
    κ is (δ + τ)/N, and w = τ/(Λ+δ+τ) is left of a direction (docs/theory/learning_curves.md).
    """
    N, rank = len(values), int((values > 0).sum())
    share = n / N
    tau = solve_kappa(values + ridge, np.ones(N), n, 0.0)
    learned, left = shares(values + ridge, tau)
    if ridge == 0 and n > rank:  # the limit of a small ridge: directions of eigenvalue 0 share it
        left = np.where(values > 0, 0.0, (N - n) / (N - rank))
        learned = 1.0 - left
    fitted = float(learned @ left) * (1.0 - share)
    factor = n / fitted if fitted > 0 else math.inf
    bias = float(squares @ left**2)
    test = factor * bias if bias > 0 else 0.0
    # δ/(δ + τ) of a residual would be 0 without a ridge, and as `learned` at eigenvalue 0.
    ridge_share = ridge / (ridge + tau) if ridge else max(n - rank, 0) / max(N - rank, 1)
    at_zero = 1.0 - ridge_share
    train = (ridge_share / at_zero * (1.0 - share) / share) ** 2 * test if ridge_share else 0.0
    kappa = (ridge + tau) / N
    dimension = float(shares(values, N * kappa)[0].sum())
    return CurveRow(
        n=n, test_error=test, standard_error=math.nan, train_error=train,
        effective_dimension=dimension, kappa=kappa, overfitting=factor * at_zero**2,
    )  # fmt: skip


def _check_below(sizes: Iterable[int], N: int) -> None:
    if max(sizes) >= N:
        raise ValueError(f"sizes has {max(sizes)}, expected numbers below {N}, the signals of K")


def _eigenvalues(decomposition: Decomposition) -> np.ndarray:
    """Return the eigenvalues of K, 0 in place of values below n·eps·λ_max."""
    values = decomposition.eigenvalues
    return np.where(values > resolution(values, decomposition.eps), values, 0.0)


def effective_dimension(K: np.ndarray, ridge: float = 0.0) -> float:
    """Return Σ λ/(λ + δ) over the eigenvalues λ of a kernel matrix; its rank for δ = 0.

    Σ λ/(λ + δ) is the trace of K (K + δI)⁻¹: the degrees of freedom of ridge regression.

    Parameters
    ----------
    K : ndarray, (n, n)
    ridge : float, default 0.0
        δ.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> learning.effective_dimension([[3.0, 0.0], [0.0, 1.0]], ridge=1.0)
    1.25
    """
    ridge = check_constant(ridge, "ridge")
    return float(shares(_eigenvalues(decompose(K)), ridge)[0].sum())


def alignment(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the share of y in the k leading eigenvectors of a kernel matrix, k = 1 … n, (n,).

    It rises to 1: the earlier, the fewer signals are needed (Canatar et al. 2021). Within equal
    eigenvalues the order is arbitrary.

    Parameters
    ----------
    K : ndarray, (n, n)
    y : ndarray, (n,) or (n, n_targets)
        Not 0. Several targets have one share, of all their squares.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> learning.alignment([[3.0, 0.0], [0.0, 1.0]], [3.0, 4.0])
    array([0.36, 1.  ])
    """
    vectors = decompose(K).eigenvectors
    y = check_targets(y, len(vectors))
    largest = np.abs(y).max()
    if largest == 0:
        raise ValueError("y is 0 for all signals, expected targets that have a direction")
    squares = _mean_squares(vectors.T @ (y / largest))[::-1]
    return np.cumsum(squares) / squares.sum()


def measure(
    K: np.ndarray,
    y: np.ndarray,
    sizes: Iterable[int],
    ridge: float = 0.0,
    *,
    noise: float = 0.0,
    draws: int = 40,
    rng: np.random.Generator | int | None = None,
) -> LearningCurve:
    """Return mean errors of ridge regressions on random parts of a pool: `from_gram`, measured.

    Parameters
    ----------
    K, y, sizes, ridge, noise
        As for `from_gram`.
    draws : int, default 40
        Training sets of each size, at least 2. Errors fall like the root of their number.
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import learning
    >>> x = np.random.default_rng(0).standard_normal((60, 5))
    >>> table = learning.measure(x @ x.T, x[:, 0], (3,), ridge=1e-6, rng=0)
    >>> table.column("test_error").round(1)
    array([0.4])
    """
    matrix, ladder = check_symmetric(K, "K"), check_depths(sizes, "sizes")
    ridge, deviation = check_constant(ridge, "ridge"), math.sqrt(check_constant(noise, "noise"))
    y, N, generator = check_targets(y, len(matrix)), len(matrix), check_rng(rng)
    if check_depth(draws, "draws") == 1:
        raise ValueError("draws is 1, expected at least 2, for their spread")
    _check_below(ladder, N)
    rows = []
    for n in ladder:
        errors = np.empty((draws, 2))
        for draw in range(draws):
            labels = y + deviation * generator.standard_normal(y.shape)
            order = generator.permutation(N)
            inside, outside = order[:n], order[n:]
            fitted = ridge_coefficients(
                np.asarray(K)[np.ix_(inside, inside)], labels[inside], ridge
            )
            for side, places in enumerate((outside, inside)):
                predictions = matrix[np.ix_(places, inside)] @ fitted
                with np.errstate(over="ignore"):
                    errors[draw, side] = np.mean((predictions - labels[places]) ** 2)
        if not np.isfinite(errors).all():
            raise OverflowError("squared errors exceed float64, expected a smaller y or noise")
        test, train = errors.mean(axis=0)
        spread = float(errors[:, 0].std(ddof=1)) / math.sqrt(draws)
        rows.append(CurveRow(n, float(test), spread, float(train)))
    return LearningCurve(tuple(rows), ridge, deviation**2, draws)
