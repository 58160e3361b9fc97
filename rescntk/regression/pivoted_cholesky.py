"""Low-rank approximation K ≈ F Fᵀ by randomly pivoted Cholesky, from a few columns of K."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import rounding_unit
from ..engines.protocol import blocks
from ..progress import warn
from ..validation import (
    check_batch,
    check_depth,
    check_free_memory,
    check_integer,
    check_kernel,
    check_shape,
)
from .checks import kernel_matrix

_MOST_PROPOSALS = 500
"""Most pivots proposed in one round; a pure number. Raising it makes fewer, larger calls of the
kernel, and takes more time between them: its cube in operations. Chosen by reasoning: 500³ take
less than a second."""

_PROPOSED_FOR_ONE = 1.5
"""Pivots proposed for each landmark that is missing; a pure number. Raising it makes fewer rounds,
and more pairs between rejected pivots. Chosen by reasoning: most rounds accept half or more."""

_ROUNDING = 10
"""A diagonal entry of the residual counts as a rounding error up to this many eps of K's entry; a
pure number. Raising it stops earlier; lowering it makes landmarks of columns of rounding errors.
Chosen by reasoning: entries of K err by a few eps, and steps of the factorization by less."""


_BLOCKS, _LEAST_BLOCK = 8, 1024
"""Calls of the kernel for new columns, and the least signals in a call. More calls copy fewer
signals at a time; each costs milliseconds. Chosen by reasoning: a call takes seconds."""


class LowRank(NamedTuple):
    """The approximation K ≈ F Fᵀ of `pivoted_cholesky`."""

    landmarks: np.ndarray
    """(rank,): indices of the signals whose columns of K were computed, in order of choice"""
    factor: np.ndarray
    """(n, rank): F. The landmarks' rows are lower triangular, up to rounding errors."""
    residual: float
    """trace(K − F Fᵀ), at least 0: exact, because every diagonal entry of K is computed"""


def pivoted_cholesky(
    kernel: Callable[..., Any], X: np.ndarray, rank: int, *, seed: int = 0, **options: Any
) -> LowRank:
    r"""Return landmarks and a factor F with K ≈ F Fᵀ, by randomly pivoted Cholesky.

    Pivots are drawn with probabilities proportional to the residual's diagonal, in blocks
    (``docs/theory/large_grams.md``; Chen et al. 2022, Epperly et al. 2024). At most about
    (rank + 1)·n pairs are computed. The factor is in memory: rank·n numbers in float64, or a
    MemoryError. Besides it, a call copies an eighth of the signals at a time, and the kernel takes
    its own memory (`rescntk.gram`). A negative diagonal entry of K is refused.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with matrices ``kernel(X)``, ``kernel(X, Z)`` and,
        optionally, with ``kernel.diag(X)``.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Signals; or a list of arrays (n_channels, n_timepoints_i), if the kernel takes lists.
    rank : int
        Number of landmarks, from 1 to n_cases. There are fewer, and a warning, if the residual
        falls to rounding errors.
    seed : int, default 0
        Seed of the random pivots. Equal seeds give equal results.
    **options
        Options of each call of the kernel, such as ``dtype`` or ``threads``.

    Raises
    ------
    ValueError
        If K has a negative diagonal entry.
    MemoryError
        If the factor takes more memory than this machine has free.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, kernel = np.random.default_rng(0).standard_normal((20, 2, 16)), rk.ResCGPK(3)
    >>> rk.regression.pivoted_cholesky(kernel, X, 8).factor.shape
    (20, 8)
    """
    low = pivoted_factor(kernel, X, rank, seed, options)
    if len(low.landmarks) < rank:
        warn(
            f"pivoted_cholesky stopped at rank {len(low.landmarks)} of {rank}: the residual is a "
            f"rounding error (equal signals, or a kernel matrix of lower rank)",
        )
    return low


def pivoted_factor(
    kernel: Callable[..., Any], X: np.ndarray, rank: int, seed: int, options: dict[str, Any]
) -> LowRank:
    """Return the result of `pivoted_cholesky`, without a warning where it has fewer columns."""
    check_kernel(kernel)
    X = check_batch(X, "X")
    n, rank = len(X), check_depth(rank, "rank")
    if rank > n:
        raise ValueError(f"rank is {rank}, expected at most the number of signals, {n}")
    needed = f"the factor, {n} × {rank} numbers,"
    check_free_memory(8 * n * rank, needed, "give a smaller rank")
    rng = np.random.default_rng(check_integer(seed, "seed", at_least=0))
    if hasattr(kernel, "diag"):
        values = kernel.diag(X, **options)
    else:
        cases = (X[k : k + 1] for k in range(n))
        values = np.concatenate([np.ravel(kernel(case, case, **options)) for case in cases])
    eps, diagonal = rounding_unit(values), check_shape(values, "the kernel's diagonal", (n,)).copy()
    if not (diagonal >= 0).all():
        raise ValueError(
            f"kernel has a diagonal of least value {diagonal.min():.3g}, expected at least 0"
        )
    floor = _ROUNDING * eps * diagonal.sum()  # the residual's rounding error
    factor, landmarks, rank_so_far = np.zeros((n, rank)), np.empty(rank, dtype=np.intp), 0
    while rank_so_far < rank and diagonal.sum() > floor:
        # p pivots cost p²/2 pairs between each other: with p² at most 2n, no more than one column.
        # Few rounds are better: each call of a normalized kernel also computes diagonals.
        proposals = int(_PROPOSED_FOR_ONE * (rank - rank_so_far))
        proposals = max(1, min(_MOST_PROPOSALS, math.isqrt(2 * n), proposals))
        proposed = rng.choice(n, size=proposals, p=diagonal / diagonal.sum())
        places, order = np.unique(proposed, return_inverse=True)
        K, rows = kernel_matrix(kernel, X[places], **options), factor[places, :rank_so_far]
        residual = K - rows @ rows.T
        least = np.maximum(_ROUNDING * eps * K.diagonal(), 0.0)
        bounds = rng.random(proposals) * diagonal[proposed]
        chosen, lower = _accept(residual, order, bounds, least, rank - rank_so_far)
        if not len(chosen):  # rounding errors are larger than the residual's diagonal
            diagonal[places] = 0.0
            continue
        accepted, new = places[chosen], slice(rank_so_far, rank_so_far + len(chosen))
        columns, before = factor[:, new], factor[accepted, :rank_so_far].T
        columns[places] = K[:, chosen]
        for part in blocks(0, n, max(_LEAST_BLOCK, -(-n // _BLOCKS))):  # copies of signals
            others = np.setdiff1d(np.arange(part.start, part.stop), places)
            if len(others):
                columns[others] = kernel_matrix(kernel, X[others], X[accepted], **options)
            residual = columns[part] - factor[part, :rank_so_far] @ before
            columns[part] = scipy.linalg.solve_triangular(lower, residual.T, lower=True).T
        landmarks[new] = accepted
        diagonal = np.maximum(diagonal - (factor[:, new] ** 2).sum(axis=1), 0.0)
        diagonal[accepted] = 0.0
        rank_so_far = new.stop
    factor = factor if rank_so_far == rank else factor[:, :rank_so_far].copy()
    return LowRank(landmarks[:rank_so_far], factor, float(diagonal.sum()))


def _accept(
    residual: np.ndarray, order: np.ndarray, bounds: np.ndarray, least: np.ndarray, most: int
) -> tuple[list[int], np.ndarray]:
    """Return which of p pivots are accepted, and the Cholesky factor of their residual.

    `residual` is K − F Fᵀ between the pivots, (p, p), with rounding errors `least` of its diagonal.
    `order` has the pivots as proposed, some more than once. A residual must exceed its bound.
    """
    residual = residual.copy()
    chosen: list[int] = []
    columns: list[np.ndarray] = []
    for k, bound in zip(order, bounds, strict=True):
        if k in chosen or residual[k, k] <= max(least[k], bound):
            continue
        columns.append(residual[:, k] / np.sqrt(residual[k, k]))
        residual -= np.outer(columns[-1], columns[-1])
        chosen.append(int(k))
        if len(chosen) == most:
            break
    return chosen, np.tril(np.array(columns).T[chosen]) if chosen else np.empty((0, 0))
