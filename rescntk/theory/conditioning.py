r"""Condition numbers of kernel matrices, and what depth does to them.

Barzilai et al. 2022, section 6.2: a normalized kernel matrix is compared with the
*double-constant* matrix that has 1 on the diagonal and the mean off-diagonal entry b off it.
Its eigenvalues are :math:`1 - b` (n − 1 times) and :math:`1 - b + nb`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import rounding_unit
from ..kernels import gram
from ..matrices import resolution
from ..network import Network
from ..validation import (
    check_constant,
    check_depth,
    check_depths,
    check_flag,
    check_signals,
    check_symmetric,
)
from .report_table import ReportTable


class Bounds(NamedTuple):
    """Lemma 6.1 of Barzilai et al. 2022 for one matrix."""

    off_diagonal: float
    """The mean off-diagonal entry b."""
    epsilon: float
    """The largest absolute row sum of A − B."""
    lower: float
    """1 + nb/(1−b), the condition number of B; 1 where b < 0 and the lemma is silent."""
    upper: float
    """(1−b+nb+ε)/(1−b−ε); inf where ε ≥ 1−b and the lemma is silent. For b < 0, which the lemma
    leaves out, the same with B's eigenvalues the other way round."""
    upper_equal_rows: float
    """(1−b+nb)/(1−b−ε), valid where all rows have the same sum; inf as above. For b < 0 the same
    as `upper`."""


def condition_number(A: np.ndarray) -> float:
    """Return the condition number of a positive semidefinite matrix, λ_max/λ_min.

    Parameters
    ----------
    A : ndarray, (n, n)
        Symmetric.

    Returns
    -------
    float
        inf where λ_min is not above its own rounding error, n·eps·λ_max, with eps that of A's
        dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import conditioning
    >>> conditioning.condition_number(np.diag([4.0, 2.0, 1.0]))
    4.0
    """
    A, eps = check_symmetric(A, "A"), rounding_unit(A)
    eigenvalues = scipy.linalg.eigvalsh(A)
    if eigenvalues[0] <= resolution(eigenvalues, eps):
        return math.inf
    return float(eigenvalues[-1] / eigenvalues[0])


def bounds(A: np.ndarray) -> Bounds:
    r"""Return bounds on the condition number of a normalized kernel matrix.

    Lemma 6.1 of Barzilai et al. 2022. With b the mean off-diagonal entry and
    :math:`\epsilon = \max_i \sum_j |A_{ij} - B_{ij}|`: if :math:`b \ge 0`,
    :math:`1 + nb/(1-b) \le \mathrm{cond}(A)`; if :math:`\epsilon < 1 - b`,
    :math:`\mathrm{cond}(A) \le (1-b+nb+\epsilon)/(1-b-\epsilon)`.

    Parameters
    ----------
    A : ndarray, (n, n)
        Symmetric, 1 on the diagonal, n at least 2.

    Returns
    -------
    Bounds

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import conditioning
    >>> b = conditioning.bounds(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> b.lower, b.upper
    (3.0, 3.0)
    """
    A = check_symmetric(A, "A")
    n = len(A)
    if n < 2:
        raise ValueError(f"A has shape {A.shape}, expected at least 2 rows")
    if np.abs(A.diagonal() - 1.0).max() > 1e-6:
        raise ValueError("A does not have 1 on its diagonal, expected a normalized kernel matrix")
    gap = 1.0 - A  # where entries near 1 still differ
    np.fill_diagonal(gap, 0.0)
    mean_gap = float(gap.sum()) / (n * (n - 1))  # 1 − b
    b = 1.0 - mean_gap
    deviation = np.abs(gap - mean_gap)
    np.fill_diagonal(deviation, 0.0)
    epsilon = float(deviation.sum(axis=1).max())
    # Eigenvalues of B: 1 − b + nb for the constant vector, 1 − b for all others.
    constant = mean_gap + n * b
    smallest, largest = sorted((mean_gap, constant))
    upper = (largest + epsilon) / (smallest - epsilon) if epsilon < smallest else math.inf
    if b < 0:
        return Bounds(b, epsilon, 1.0, upper, upper)
    lower = constant / mean_gap if mean_gap > 0 else math.inf
    equal_rows = constant / (mean_gap - epsilon) if epsilon < mean_gap else math.inf
    return Bounds(b, epsilon, lower, upper, equal_rows)


def asymptotic_complement(depth: int, alpha: float = 1.0, skip: bool = True) -> float:
    r"""Return what 1 − (normalized GPK) tends to along depth, relatively, on the multi-sphere.

    Not in the paper. Near correlation 1, :math:`1 - \kappa_1(1-\delta) = \delta -
    \frac{2\sqrt2}{3\pi} \delta^{3/2} + \dots`, so that along depth every complement tends to
    :math:`\delta_L = \frac{9\pi^2}{2} \frac{s^2}{L^2}` with s the `slowdown`, whatever the
    signals, their length and the filter size. The next term is
    :math:`\delta_L (1 - (3\log L + O(s))/L)`.

    Parameters
    ----------
    depth : int
    alpha : float, default 1.0
        Positive.
    skip : bool, default True
        ResCGPK, or CGPK.

    Returns
    -------
    float

    Examples
    --------
    >>> from rescntk.theory import conditioning, multisphere
    >>> gap = multisphere.normalized_gpk([1.0], 100_000, 1, complement=True)[0]
    >>> print(f"{gap / conditioning.asymptotic_complement(100_000):.3f}")
    0.999
    """
    depth, alpha = check_depth(depth), check_constant(alpha, "alpha")
    s = slowdown(alpha) if check_flag(skip, "skip") else 1.0
    return 4.5 * math.pi**2 * s**2 / depth**2


def asymptotic_condition_number(n: int, depth: int, alpha: float = 1.0, skip: bool = True) -> float:
    r"""Return the condition number that a deep kernel matrix tends to, relatively.

    Where every complement is :math:`\delta_L`, the `asymptotic_complement`, it is
    :math:`n/\delta_L`; condition numbers come down to that law.

    Parameters
    ----------
    n : int
        Size of the matrix.
    depth, alpha, skip
        As for `asymptotic_complement`.

    Returns
    -------
    float

    Examples
    --------
    >>> from rescntk.theory import conditioning
    >>> deep = conditioning.asymptotic_condition_number
    >>> round(deep(50, 1000, skip=False) / deep(50, 1000), 12)
    4.0
    """
    return check_depth(n, "n") / asymptotic_complement(depth, alpha, skip)


def slowdown(alpha: float) -> float:
    """Return s = (1+α²)/α², how many layers of a ResNet do what one without skips does.

    Examples
    --------
    >>> from rescntk.theory import conditioning
    >>> conditioning.slowdown(0.5)
    5.0
    """
    alpha = check_constant(alpha, "alpha")
    if alpha * alpha == 0:
        raise ValueError(
            f"alpha is {alpha!r}, expected a positive number: without a residual branch depth "
            f"changes nothing"
        )
    return (1.0 + alpha**2) / alpha**2


class Row(NamedTuple):
    """One depth of a `Comparison`: condition numbers, and what bounds and predicts them."""

    depth: int
    cgpk: float
    cgpk_lower: float
    cgpk_upper: float
    cgpk_asymptote: float
    rescgpk: float
    rescgpk_lower: float
    rescgpk_upper: float
    rescgpk_asymptote: float
    ratio: float
    """Of the condition numbers, CGPK over ResCGPK."""
    ratio_lower: float
    """Of their lower bounds."""
    ratio_limit: float
    """Where both ratios tend to with depth, ((1+α²)/α²)²."""


@dataclass(frozen=True)
class Comparison(ReportTable[Row]):
    """CGPK and ResCGPK side by side over depth; iterating gives a `Row` for each depth."""

    n_cases: int
    n_channels: int
    n_timepoints: int
    filter_size: int
    alpha: float
    head: str

    def __str__(self) -> str:
        """Return the table as text."""
        sides = ("condition", "lower", "upper", "asymptote")
        header = ["depth", *sides, *sides, "ratio", "of lower", "limit"]
        lines = []
        for cells in self._cells(header):
            groups = cells[:1], cells[1:5], cells[5:9], cells[9:]
            lines.append(" | ".join("  ".join(group) for group in groups))
        head, *body = lines
        first, second, third = (i for i, c in enumerate(head) if c == "|")
        names = "CGPK".center(second - first - 1), "ResCGPK".center(third - second - 1)
        top = " " * first + "|" + names[0] + "|" + names[1] + "|" + " CGPK / ResCGPK"
        return "\n".join([top, head, "-" * len(head), *body])


def compare(
    X: np.ndarray,
    depths: Iterable[int],
    filter_size: int = 3,
    alpha: float = 1.0,
    head: str = "trace",
    *,
    engine: str = "auto",
    progress: bool = False,
) -> Comparison:
    """Return condition numbers of CGPK and ResCGPK on the same signals over depth.

    Theorem 6.2 and figure 3 of Barzilai et al. 2022, on any signals. All depths come from
    one pass of each recursion.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
        At least two signals; the theorem has them on the multi-sphere.
    depths : iterable of int
    filter_size, alpha
        As for `Network`, `alpha` positive.
    head, engine, progress
        As for `Kernel`.

    Returns
    -------
    Comparison
        Bounds are those of `bounds`, asymptotes those of `asymptotic_condition_number`.

    Examples
    --------
    >>> from rescntk.theory import conditioning, multisphere
    >>> X = multisphere.sample(10, 4, 8, rng=0)
    >>> table = conditioning.compare(X, depths=(1, 10, 100))
    >>> bool((table.column("ratio") > 1).all())
    True
    """
    X, depths = check_signals(X, "X"), check_depths(depths)
    network = Network(1, filter_size, alpha=alpha)
    n = len(X)
    if n < 2:
        raise ValueError(f"X has {n} case, expected at least 2 to compare")
    sides: list[list[tuple[float, float, float, float]]] = []
    for skip in (False, True):
        matrices = gram(
            network.replace(skip=skip),
            X,
            head=head,
            kinds=("gpk",),
            depths=depths,
            normalized=True,
            engine=engine,
            progress=progress,
        )[0]
        side = []
        for depth, A in zip(depths, matrices, strict=True):
            if not A.diagonal().all():
                raise ValueError(
                    f"X of shape {X.shape} has a signal without energy (case "
                    f"{int(np.argmin(A.diagonal()))}), expected signals with a normalized kernel"
                )
            b = bounds(A)
            asymptote = asymptotic_condition_number(n, depth, alpha, skip)
            side.append((condition_number(A), b.lower, b.upper, asymptote))
        sides.append(side)
    limit = slowdown(network.alpha) ** 2
    rows = []
    for depth, cnn, resnet in zip(depths, *sides, strict=True):
        ratios = _ratio(cnn[0], resnet[0]), _ratio(cnn[1], resnet[1]), limit
        rows.append(Row._make((int(depth), *cnn, *resnet, *ratios)))
    _, n_channels, n_timepoints = X.shape
    return Comparison(
        tuple(rows), n, n_channels, n_timepoints, network.filter_size, network.alpha, head
    )


def _ratio(above: float, below: float) -> float:
    """Return above/below, NaN where both are unresolved."""
    return above / below if math.isfinite(below) else math.nan
