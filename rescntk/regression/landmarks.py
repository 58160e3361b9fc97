"""Low-rank approximations of kernel matrices: landmarks by randomly pivoted Cholesky."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import rounding_unit
from ..checks.messages import shown, warn
from ..checks.values import (
    check_batch,
    check_kernel,
    check_positive_integer,
    check_rng,
    check_shape,
)


class LowRank(NamedTuple):
    """The approximation K ≈ F Fᵀ of `pivoted_cholesky`."""

    pivots: np.ndarray
    """(rank,): indices of the landmarks, whose columns of K were computed, in order of choice"""
    factor: np.ndarray
    """(n, rank): F. Its rows of pivots are lower triangular, up to rounding errors."""
    residual: float
    """trace(K − F Fᵀ), at least 0: exact, because every diagonal entry of K is computed"""


def pivoted_cholesky(
    kernel: Callable[..., np.ndarray],
    X: np.ndarray | list[np.ndarray],
    rank: int,
    rng: np.random.Generator | int = 0,
    **options: Any,
) -> LowRank:
    r"""Return pivots and a factor F with K ≈ F Fᵀ, by randomly pivoted Cholesky.

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
    rng : Generator or int, default 0
        Source of the random pivots, or its seed. Equal seeds give equal results.
    **options
        Options of each call of the kernel, such as ``dtype`` or ``threads``.

    Returns
    -------
    `LowRank`

    Raises
    ------
    ValueError
        If `rank` exceeds the number of signals, or the kernel has a negative diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, kernel = np.random.default_rng(0).standard_normal((20, 2, 16)), rk.ResCGPK(3)
    >>> rk.regression.pivoted_cholesky(kernel, X, 8).factor.shape
    (20, 8)
    """
    check_kernel(kernel)
    if not callable(diag := getattr(kernel, "diag", None)):
        raise ValueError(
            f"kernel is {shown(kernel)}, expected a rescntk.Kernel, or kernel.diag(X) too"
        )
    signals, rank = check_batch(X, "X"), check_positive_integer(rank, "rank")
    if rank > (n := len(signals)):
        raise ValueError(f"rank is {rank}, expected at most the number of signals, {n}")
    rng = check_rng(rng)
    values = diag(signals, **options)
    eps, diagonal = rounding_unit(values), check_shape(values, "the kernel's diagonal", (n,)).copy()
    if (diagonal < 0).any():
        raise ValueError(f"kernel has {diagonal.min():.3g} on its diagonal, expected at least 0")
    rounding = 10 * eps  # residuals of up to this share of K's entry are rounding errors
    count = 0
    factor, pivots = np.zeros((n, rank)), np.empty(rank, dtype=np.intp)
    while count < rank and diagonal.any():
        # p pivots cost p²/2 pairs between each other: with p² at most 2n, no more than one column.
        # One and a half times the missing number is proposed, because some are rejected.
        proposals = max(1, min(500, math.isqrt(2 * n), int(1.5 * (rank - count))))
        proposed = rng.choice(n, size=proposals, p=diagonal / diagonal.sum())
        places, order = np.unique(proposed, return_inverse=True)
        p = len(places)
        K, rows = (
            check_shape(kernel(signals[places], **options), "kernel(X)", (p, p)),
            factor[places],
        )
        bounds = np.maximum(
            rng.random(proposals) * diagonal[proposed], rounding * K.diagonal()[order]
        )
        chosen, lower = _accept(K - rows @ rows.T, order, bounds, rank - count)
        if not chosen:  # rounding errors are larger than the residual's diagonal
            diagonal[places] = 0.0
            continue
        accepted, new = places[chosen], slice(count, count + len(chosen))
        columns, remaining = np.empty((n, len(chosen))), np.setdiff1d(np.arange(n), places)
        columns[places] = K[:, chosen]
        if len(remaining):
            block = kernel(signals[remaining], signals[accepted], **options)
            columns[remaining] = check_shape(block, "kernel(X, Z)", (len(remaining), len(chosen)))
        columns -= factor @ factor[accepted].T
        factor[:, new] = scipy.linalg.solve_triangular(lower, columns.T, lower=True).T
        pivots[new] = accepted
        diagonal = np.maximum(diagonal - (factor[:, new] ** 2).sum(axis=1), 0.0)
        diagonal[accepted] = 0.0
        count = new.stop
    if count < rank:
        warn(
            f"pivoted_cholesky stopped at rank {count} of {rank}: the residual is a rounding "
            f"error (equal signals, or a kernel matrix of lower rank)",
        )
    return LowRank(pivots[:count], factor[:, :count], float(diagonal.sum()))


def _accept(
    residual: np.ndarray, order: np.ndarray, bounds: np.ndarray, at_most: int
) -> tuple[list[int], np.ndarray]:
    """Return which pivots are accepted, `at_most` many, and their Cholesky factor.

    `residual` is K − F Fᵀ between the pivots. `order` has the pivots as proposed, some more than
    once. A residual must exceed its bound.
    """
    chosen: list[int] = []
    columns: list[np.ndarray] = []
    for k, bound in zip(order, bounds, strict=True):
        if residual[k, k] > bound and len(chosen) < at_most:  # that of a chosen one is next to 0
            columns.append(residual[:, k] / np.sqrt(residual[k, k]))
            residual -= np.outer(columns[-1], columns[-1])
            chosen.append(int(k))
    return chosen, np.tril(np.array(columns).T[chosen]) if chosen else np.empty((0, 0))
