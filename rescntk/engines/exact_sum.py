"""Sums that do not depend on the order of their terms, to the last bit.

A head averages a kernel over pixels. The pairs (x, z) and (z, x) have the same terms in
different orders, and so have shifted signals and other tiles. Rounding each term to a common
grid makes every partial sum exact, so that all orders agree. The remainders go to a second,
finer grid (Demmel and Nguyen 2013 call this pre-rounding).
"""

from __future__ import annotations

from types import ModuleType

from ..arrays import Array


def grids(xp: ModuleType, bound: Array | float, count: int) -> tuple[Array, Array]:
    """Return the two constants whose addition rounds terms to the two grids.

    numbers.h of the CUDA engine computes the same constants, number by number.

    Parameters
    ----------
    xp : module
        numpy or cupy.
    bound : float or float64 array
        A bound on the magnitude of the terms, which they exceed by a factor 2 at most.
    count : int
        The number of terms.

    Returns
    -------
    coarse, fine : array
        1.5 times powers of two. Sums of up to `count` terms on the coarse grid need at
        most 53 bits. So do sums on the fine grid, because a remainder is at most half a
        coarse step. Together the grids keep 105 − 2 log2(count) bits of `bound`.
    """
    _, exponent = xp.frexp(xp.asarray(bound, dtype=xp.float64))
    headroom = (count - 1).bit_length() + 1
    one_and_a_half = xp.full(exponent.shape, 1.5)
    coarse = xp.ldexp(one_and_a_half, exponent + headroom)
    fine = xp.ldexp(one_and_a_half, exponent + (2 * headroom - 53))
    return coarse, fine


def split(
    xp: ModuleType, terms: Array, coarse: Array, fine: Array, high: Array, low: Array
) -> None:
    """Round float64 `terms` to the two grids, into `high` and `low`; `terms` is kept."""
    xp.add(terms, coarse, out=high)
    xp.subtract(high, coarse, out=high)
    xp.subtract(terms, high, out=low)
    xp.add(low, fine, out=low)
    xp.subtract(low, fine, out=low)


def mean(xp: ModuleType, terms: Array) -> Array:
    """Return the mean of float64 `terms` over axis 0, whatever their order."""
    coarse, fine = grids(xp, xp.abs(terms).max(axis=0), len(terms))
    high, low = xp.empty_like(terms), xp.empty_like(terms)
    split(xp, terms, coarse, fine, high, low)
    return (high.sum(axis=0) + low.sum(axis=0)) / len(terms)
