"""Condition numbers, bounds on them (Barzilai et al. 2022, lemma 6.1), and their asymptotes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import numpy as np
import scipy.linalg

from ...arrays import resolution, rounding_unit
from ...checks.values import (
    check_nonnegative,
    check_positive,
    check_positive_integer,
    check_symmetric,
    is_sequence,
)
from ...network import Network
from ..depth.asymptote import asymptotic_complement
from ..tools.argument_checks import check_kind


class Bounds(NamedTuple):
    """Bounds on the condition number of a matrix A (Barzilai et al. 2022, lemma 6.1)."""

    off_diagonal: float
    """The mean off-diagonal entry b."""
    epsilon: float
    """The largest absolute row sum of A − B."""
    lower: float
    """The condition number of B: 1 + nb/(1−b); for b < 0, where the lemma is silent,
    (1−b)/(1−b+nb)."""
    upper: float
    """(1−b+nb+ε)/(1−b−ε); for b < 0, (1−b+ε)/(1−b+nb−ε). inf where a denominator is 0 or less:
    the bound is vacuous there, whatever the condition number."""
    improved: float
    """The improved bound of figure 3, at most `upper` (docs/theory/conditioning.md, section 3)."""


def condition_number(A: np.ndarray) -> float:
    """Return the condition number of a positive semidefinite matrix, λ_max/λ_min.

    Parameters
    ----------
    A : ndarray, (n, n)
        Symmetric.

    Returns
    -------
    float
        Infinity where λ_min is at most its rounding error, n·eps·λ_max, eps of A's dtype.

    Raises
    ------
    ValueError
        If A is not symmetric.

    Examples
    --------
    >>> from rescntk.theory import conditioning
    >>> conditioning.condition_number([[4.0, 0.0], [0.0, 2.0]])
    2.0
    """
    A, eps = check_symmetric(A, "A"), rounding_unit(A)
    eigenvalues = scipy.linalg.eigvalsh(A)
    if eigenvalues[0] <= resolution(eigenvalues, eps):
        return math.inf
    return float(eigenvalues[-1] / eigenvalues[0])


def bounds(A: np.ndarray) -> Bounds:
    """Return bounds on the condition number of a normalized kernel matrix.

    Parameters
    ----------
    A : ndarray, (n, n)
        Symmetric, 1 on the diagonal, n at least 2.

    Returns
    -------
    `Bounds`

    Raises
    ------
    ValueError
        If A is not symmetric, has another diagonal, or entries above 1e150.

    Examples
    --------
    >>> from rescntk.theory import conditioning
    >>> conditioning.bounds([[1.0, 0.5], [0.5, 1.0]]).upper
    3.0
    """
    A = check_symmetric(A, "A")
    n = len(A)
    if n < 2:
        raise ValueError(f"A has shape {A.shape}, expected at least 2 rows")
    value = max(A.diagonal(), key=lambda entry: abs(entry - 1.0))
    if abs(value - 1.0) > 1e-6:
        raise ValueError(
            f"A has {value:.6g} on its diagonal, expected 1: a normalized kernel matrix"
        )
    complements = 1.0 - A  # entries near 1 still differ in their complements
    np.fill_diagonal(complements, 0.0)
    if np.abs(complements).max() > 1e150:  # squares exceed float64
        raise ValueError(f"A has {np.abs(A).max():.3g}, expected correlations from -1 to 1")
    mean_complement = float(complements.sum()) / (n * (n - 1))  # 1 − b
    b = 1.0 - mean_complement
    deviation = np.abs(complements - mean_complement)
    np.fill_diagonal(deviation, 0.0)
    epsilon = float(deviation.sum(axis=1).max())
    # Eigenvalues of B: 1 − b + nb for the constant vector, 1 − b for all others.
    constant = mean_complement + n * b
    smallest, largest = sorted((mean_complement, constant))
    least, most = smallest - epsilon, largest + epsilon
    # The same with the constant vector apart from all others (docs/theory/conditioning.md).
    spread = float(np.std(complements.sum(axis=1)))
    top, bottom = mean_complement + epsilon, mean_complement - epsilon
    upper_end = min(most, max(constant, top) + _outside_of_diagonal(constant, top, spread))
    lower_end = max(least, min(constant, bottom) - _outside_of_diagonal(constant, bottom, spread))
    upper = most / least if least > 0 else math.inf
    equal_rows = upper_end / lower_end if lower_end > 0 else math.inf
    lower = largest / smallest if smallest > 0 else math.inf
    return Bounds(b, epsilon, lower, upper, min(equal_rows, upper))


def _outside_of_diagonal(first: float, second: float, off_diagonal: float) -> float:
    """Return how far outside of its diagonal, two numbers, a symmetric matrix has eigenvalues."""
    half = 0.5 * abs(first - second)
    return (
        off_diagonal * (off_diagonal / (half + math.hypot(half, off_diagonal)))
        if off_diagonal
        else 0.0
    )


def asymptotic_condition_number(
    network: Network, n: int, *, kind: str, n_pixels: int | Iterable[int] = 1
) -> float:
    """Return the asymptote of the condition number of a deep kernel matrix (n, n).

    `compare` tells for which signals (docs/theory/conditioning.md, section 4).

    - GPK: n over `depth.asymptotic_complement`, for one length. This is a leading term, no bound.
      On the multi-sphere, with the heads "trace" and "equivariant", it is below `Bounds.lower`.
      Elsewhere it can exceed the condition number until layers have evened out the pixels: for
      long signals and GAP some hundred times.
    - NTK with trained inner or outer weights: the limit, at any depth. For one length it is
      (nm + 3)/3, m the `n_pixels`; for several the condition number of diag(3/(mᵢ + 3)) + wwᵀ with
      wᵢ² = mᵢ/(mᵢ + 3).

    Parameters
    ----------
    network : Network
        Of ReLU without biases. With skip connections `alpha` is positive.
    n : int
        Number of signals.
    kind : {"gpk", "ntk"}
    n_pixels : int or iterable of n int, default 1
        Pixels m that the head averages: of "gap" the signals' length, one, or one of each signal;
        of a head of m pixels m, of images m²; else 1.

    Returns
    -------
    float
        The asymptote; 1 for n = 1. Of the GPK NaN before the law's onset, and infinity where the
        complement is below float64.

    Raises
    ------
    ValueError
        If the network is another one, has no branch, or trains neither inner nor outer weights
        (NTK), or if there are not 1 or n lengths.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import conditioning
    >>> deep, plain = rk.Network(1000), rk.Network(1000, skip=False)
    >>> number = conditioning.asymptotic_condition_number
    >>> law = [number(network, 50, kind="gpk") for network in (plain, deep)]
    >>> round(law[0] / law[1], 12)
    4.0
    >>> round(conditioning.asymptotic_condition_number(deep, 50, kind="ntk"), 2)
    17.67
    """
    n, kind = check_positive_integer(n, "n"), check_kind(kind)
    counts = tuple(cast(Iterable[int], n_pixels)) if is_sequence(n_pixels) else (n_pixels,)
    count = check_nonnegative(n, "n")
    lengths = np.array(
        [check_positive(check_positive_integer(d, "n_pixels"), "n_pixels") for d in counts]
    )
    if len(lengths) not in (1, n):
        raise ValueError(f"n_pixels has {len(lengths)} lengths, expected 1 or n = {n}")
    delta = asymptotic_complement(network)
    if kind == "ntk" and not (network.parts.inner or network.parts.outer):
        raise ValueError(
            f"network has trained {network.trained!r}, expected 'inner' or 'outer' for kind 'ntk': "
            f"other tangent kernels have other limits"
        )
    if n == 1:
        return 1.0
    if kind == "ntk":
        return _tangent_limit(n, lengths)
    if delta == 0:  # deeper than 1e161 layers
        return math.inf
    if (lengths == lengths[0]).all():
        return count / (delta / float(lengths[0]))
    # The matrix is 1 − δ (1/dᵢ + 1/dⱼ)/2 off the diagonal. To leading order its eigenvalues are n,
    # and the eigenvalues of δ diag(1/dᵢ) on vectors of sum 0.
    centred = np.eye(n) - 1.0 / n
    eigenvalues = scipy.linalg.eigvalsh(centred @ (centred / lengths[:, None]))
    return float(count / (delta * eigenvalues[1]))


def _tangent_limit(n: int, lengths: np.ndarray) -> float:
    """Return the condition number of n tangent kernels of infinite depth, of GAP's lengths."""
    if (lengths == lengths[0]).all():
        return 1.0 + float(n) * float(lengths[0]) / 3.0
    # 1/4 at different pixels and 1 at equal ones: GAP's normalized entry is root_i · root_j.
    roots = np.sqrt(lengths / (lengths + 3.0))
    limit = np.multiply.outer(roots, roots)
    np.fill_diagonal(limit, 1.0)
    return condition_number(limit)
