"""Sums that do not depend on the order of their terms, to the last bit.

A head averages a kernel over pixels. The pairs (x, z) and (z, x) have the same terms in
different orders, and so have shifted signals and other tiles. Rounding each term to a common
grid makes every partial sum exact, so that all orders agree. The remainders go to a second,
finer grid (Demmel and Nguyen 2013 call this pre-rounding).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType

import numpy as np

from ...arrays import Array

_NOTHING = 1.5 * 2.0**1000
"""A constant whose addition rounds terms to 0."""


def grids(
    xp: ModuleType, bound: Array | float, count: np.ndarray | int, bits: int = 53
) -> list[Array]:
    """Return the constants whose addition rounds terms to the grids, coarse to fine.

    numbers.h of the CUDA engine computes the first three, number by number.
    `bound` is a bound on the magnitude of the terms, which they exceed by a factor 2 at most.
    `count`, of the host, is the number of terms and broadcasts with `bound`. Where a count needs
    fewer grids than another, terms are 0 on the rest.

    The constants are 1.5 times powers of two. Sums of up to `count` terms on one grid need at most
    53 bits, and a grid keeps 52 − log2(count). All grids together keep at least `bits` + 1 +
    log2(count) bits of `bound`. A mean as small as bound / count still has `bits` + 1
    bits. Of a float64 number `bits` are 53; the terms may have been rounded to fewer.
    """
    _, exponent = xp.frexp(xp.asarray(bound, dtype=xp.float64))
    # Bits beyond the terms' own; numbers of terms are known on the host: no device is waited for.
    headroom = np.frexp(np.asarray(count - 1, dtype=np.float64))[1] + 1
    number = -(-(bits + headroom) // (53 - headroom))
    headroom, needed, one_and_a_half = xp.asarray(headroom), xp.asarray(number), xp.asarray(1.5)
    return [
        xp.where(
            k < needed, xp.ldexp(one_and_a_half, exponent + (k + 1) * headroom - 53 * k), _NOTHING
        )
        for k in range(int(number.max()))
    ]


def split(terms: Array, grids: Sequence[Array]) -> Iterator[Array]:
    """Yield float64 `terms` rounded to each grid in turn: parts that add up to the terms."""
    for grid in grids:
        part = (terms + grid) - grid
        yield part
        terms = terms - part


def mean(xp: ModuleType, terms: Array) -> Array:
    """Return the mean of float64 `terms` over axis 0, whatever their order."""
    steps = grids(xp, xp.abs(terms).max(axis=0), len(terms))
    return total([part.sum(axis=0) for part in split(terms, steps)]) / len(terms)


def total(sums: Sequence[Array]) -> Array:
    """Return the sum of the sums on each grid, fine to coarse."""
    result = sums[-1]
    for part in sums[-2::-1]:
        result = part + result
    return result


def pairwise(terms: Iterable[Array]) -> Array:
    """Return the sum of `terms` in pairs, pairs of pairs, …, in the order of the terms.

    Its error grows with the logarithm of the number of terms. There is at least one term.
    """
    partial: list[Array] = []
    for number, term in enumerate(terms, start=1):
        for _ in range((number & -number).bit_length() - 1):
            term = partial.pop() + term
        partial.append(term)
    return total(partial)
