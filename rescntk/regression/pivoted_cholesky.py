"""Low-rank approximation K ≈ F Fᵀ by randomly pivoted Cholesky, from a few columns of K."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import rounding_unit
from ..validation import (
    check_batch,
    check_depth,
    check_free_memory,
    check_integer,
    check_kernel,
)

_MOST_PROPOSALS = 500
"""Most pivots proposed in one round.

A pure number. Raising it makes fewer, larger calls of the kernel, and takes more time between the
calls: the cube of the number, in operations. Chosen by reasoning: 500³ take less than a second.
"""

_PROPOSED_FOR_ONE = 1.5
"""Pivots proposed for each landmark that is missing.

A pure number. Raising it makes fewer rounds, and computes more pairs between pivots that are
rejected. Chosen by reasoning: most rounds accept half of the pivots or more.
"""


_ROUNDING = 10
"""A diagonal entry of the residual counts as a rounding error up to this many eps of K's entry.

A pure number. Raising it stops earlier; lowering it takes columns of rounding errors for
landmarks. Chosen by reasoning: entries of K err by a few eps, and steps of the factorization by
less.
"""


class LowRank(NamedTuple):
    """The approximation K ≈ F Fᵀ of `pivoted_cholesky`."""

    landmarks: np.ndarray
    """(rank,): indices of the signals whose columns of K were computed, in order of choice"""
    factor: np.ndarray
    """(n, rank): F. The landmarks' rows are lower triangular, up to rounding errors."""
    residual: float
    """trace(K − F Fᵀ), at least 0: exact, because every diagonal entry of K is computed"""


def pivoted_cholesky(
    kernel: Callable[..., np.ndarray],
    X: np.ndarray,
    rank: int,
    *,
    seed: int = 0,
    **options: Any,
) -> LowRank:
    r"""Return landmarks and a factor F with K ≈ F Fᵀ, by randomly pivoted Cholesky.

    Each pivot i is drawn with probability proportional to the residual's diagonal
    :math:`(K - F F^\top)_{ii}` (Chen, Epperly, Tropp, Webber 2022). Pivots are proposed in
    blocks, and each is accepted with the probability that makes the landmarks' distribution
    equal to the distribution of single pivots (Epperly, Tropp, Webber 2024).

    The kernel is computed for its diagonal and for the columns of the landmarks: at most about
    (rank + 1)·n pairs. All rows are in memory: rank·n numbers in float64.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with matrices ``kernel(X)``, ``kernel(X, Z)`` and,
        optionally, with ``kernel.diag(X)``.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Signals; or a list of arrays (n_channels, n_timepoints_i), if the kernel takes lists.
    rank : int
        Number of landmarks, from 1 to n_cases.
    seed : int, default 0
        Seed of the random pivots. Equal seeds give equal results.
    **options
        Options of each call of the kernel, such as ``dtype`` or ``threads``.

    Returns
    -------
    LowRank
        With fewer columns than `rank`, and a warning, if the residual falls to rounding errors:
        signals are equal, or K has a lower rank.

    Raises
    ------
    ValueError
        If an argument is not as described above, or K has a negative diagonal entry.
    MemoryError
        If the factor takes more memory than this machine has free.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 16))
    >>> kernel = rk.ResCGPK(3, normalized=True)
    >>> low = rk.regression.pivoted_cholesky(kernel, X, 8)
    >>> low.landmarks.shape, low.factor.shape
    ((8,), (20, 8))
    >>> error = np.trace(kernel(X) - low.factor @ low.factor.T)
    >>> bool(np.isclose(error, low.residual))
    True
    """
    check_kernel(kernel)
    X = check_batch(X, "X")
    n, rank = len(X), check_depth(rank, "rank")
    if rank > n:
        raise ValueError(f"rank is {rank}, expected at most the number of signals, {n}")
    check_free_memory(
        8 * n * rank,
        f"the factor, {n} × {rank} numbers,",
        "give a smaller rank",
    )
    rng = np.random.default_rng(check_integer(seed, "seed", at_least=0))
    diagonal, eps = _diagonal(kernel, X, options)
    floor = _ROUNDING * eps * diagonal.sum()  # the residual's rounding error
    factor, landmarks = np.zeros((n, rank)), np.empty(rank, dtype=np.intp)
    found = 0
    while found < rank and diagonal.sum() > floor:
        proposals = _count_proposals(n, rank - found)
        proposed = rng.choice(n, size=proposals, p=diagonal / diagonal.sum())
        block = _Proposals(kernel, X, proposed, factor[:, :found], options)
        accepted, lower = block.accept(diagonal, rank - found, eps, rng)
        if not len(accepted):  # rounding errors are larger than the residual's diagonal
            diagonal[block.places] = 0.0
            continue
        new = slice(found, found + len(accepted))
        residual = block.columns(accepted) - factor[:, :found] @ factor[accepted, :found].T
        factor[:, new] = scipy.linalg.solve_triangular(lower, residual.T, lower=True).T
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
        factor = factor[:, :found].copy()
    return LowRank(landmarks[:found], factor, float(diagonal.sum()))


def _count_proposals(n: int, missing: int) -> int:
    """Return the number of pivots proposed in one round.

    The p pivots of a round cost p²/2 pairs between each other, and n pairs for each accepted
    pivot. With p² at most 2n, the former cost no more than one column. A call of a
    normalized kernel for n signals also costs 1.5n pairs for the diagonals (d = 100; 5n at
    d = 32), so that few rounds are wanted.
    """
    most = min(_MOST_PROPOSALS, math.isqrt(2 * n))
    return max(1, min(most, int(_PROPOSED_FOR_ONE * missing)))


def _diagonal(
    kernel: Callable[..., Any], X: np.ndarray, options: dict[str, Any]
) -> tuple[np.ndarray, float]:
    """Return K(x, x) for each signal, (n,) in float64, and eps of the kernel's dtype."""
    if hasattr(kernel, "diag"):
        given = kernel.diag(X, **options)
    else:
        cases = (X[k : k + 1] for k in range(len(X)))
        given = np.concatenate([np.ravel(kernel(case, case, **options)) for case in cases])
    eps, diagonal = rounding_unit(given), np.array(given, dtype=np.float64)
    if diagonal.shape != (len(X),) or not (diagonal >= 0).all():
        raise ValueError(
            f"kernel has a diagonal of shape {diagonal.shape} and least value "
            f"{diagonal.min():.3g}, expected ({len(X)},) and at least 0"
        )
    return diagonal, eps


class _Proposals:
    """Pivots proposed in one round, and the kernel between them.

    Attributes
    ----------
    places : ndarray
        The different pivots, rising.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        X: np.ndarray,
        proposed: np.ndarray,
        factor: np.ndarray,
        options: dict[str, Any],
    ) -> None:
        self.kernel, self.X, self.options, self.proposed = kernel, X, options, proposed
        self.places, self.index = np.unique(proposed, return_inverse=True)
        signals = X[self.places]
        self.K = np.asarray(kernel(signals, **options), dtype=np.float64)
        rows = factor[self.places]
        self.residual = self.K - rows @ rows.T

    def accept(
        self, diagonal: np.ndarray, most: int, eps: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the accepted pivots, (k,), and the lower Cholesky factor of their residual."""
        left = self.residual.copy()
        chances = rng.random(len(self.proposed))
        chosen: list[int] = []
        columns: list[np.ndarray] = []
        for k, chance in zip(self.index, chances, strict=True):
            at_proposal = diagonal[self.places[k]]
            enough = left[k, k] > _ROUNDING * eps * self.K[k, k] and left[k, k] > 0
            if k in chosen or not enough or chance * at_proposal >= left[k, k]:
                continue
            columns.append(left[:, k] / np.sqrt(left[k, k]))
            left -= np.outer(columns[-1], columns[-1])
            chosen.append(int(k))
            if len(chosen) == most:
                break
        lower = np.tril(np.array(columns).T[chosen]) if chosen else np.empty((0, 0))
        return self.places[chosen], lower

    def columns(self, accepted: np.ndarray) -> np.ndarray:
        """Return the columns of K at the accepted pivots, (n, k); the known rows are reused."""
        known = np.searchsorted(self.places, accepted)
        rest = np.setdiff1d(np.arange(len(self.X)), self.places)
        result = np.empty((len(self.X), len(accepted)))
        result[self.places] = self.K[:, known]
        if len(rest):
            result[rest] = self.kernel(self.X[rest], self.X[accepted], **self.options)
        return result
