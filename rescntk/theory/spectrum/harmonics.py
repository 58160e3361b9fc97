"""Spherical harmonics of a pixel, and products of them over pixels: how many there are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from itertools import product

import numpy as np

from ...validation import (
    check_channels,
    check_choice,
    check_frequencies,
    check_frequency,
    check_memory,
    check_pixels,
)
from ...vocabulary import HEADS


def multiplicities(
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    head: str = "equivariant",
    *,
    max_memory: float = 4e9,
) -> np.ndarray:
    r"""Return the number of eigenfunctions of each frequency, in the shape of `eigenvalues`.

    For the equivariant and trace heads :math:`\prod_i N(C_0, k_i)`, N the number of spherical
    harmonics of a frequency. With GAP only eigenfunctions that no shift changes have an
    eigenvalue other than 0: the orbits of products under shifts. All shifts of a frequency have
    these eigenfunctions in common. The result divides them equally, into fractions if need be.

    Parameters
    ----------
    n_channels, n_timepoints, max_frequency, head, max_memory
        As for `eigenvalues`.

    Returns
    -------
    ndarray, (max_frequency + 1, ..., max_frequency + 1), d axes

    Raises
    ------
    ValueError
        For arguments that are not as above, or an array beyond `max_memory`.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> spectrum.multiplicities(n_channels=3, n_timepoints=2, max_frequency=2)
    array([[ 1.,  3.,  5.],
           [ 3.,  9., 15.],
           [ 5., 15., 25.]])
    >>> spectrum.multiplicities(3, 2, 2, head="gap")
    array([[ 1. ,  1.5,  2.5],
           [ 1.5,  6. ,  7.5],
           [ 2.5,  7.5, 15. ]])
    """
    n_channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    highest = check_frequencies(max_frequency, d)
    check_choice(head, "head", HEADS)
    size = math.prod(k + 1 for k in highest)
    check_memory(16 * size, max_memory, f"max_frequency is {max_frequency!r}: for {d} pixels this")
    count = [float(harmonics(n_channels, k)) for k in range(max(highest) + 1)]
    result = outer_product(np.array(count[: k + 1]) for k in highest)
    if head != "gap":
        return result
    for shift in range(1, d):  # Burnside's lemma: add the products that each shift keeps
        cycles = math.gcd(shift, d)  # pixels of a cycle have equal residues modulo `cycles`
        for ks in product(*(range(min(highest[c::cycles]) + 1) for c in range(cycles))):
            fixed = math.prod(count[k] for k in ks)
            result[tuple(ks[i % cycles] for i in range(d))] += fixed
    result /= d
    return result


def harmonics(n_channels: int, frequency: int) -> int:
    """Return N(C0, k), the number of spherical harmonics of a frequency in C0 dimensions.

    Parameters
    ----------
    n_channels : int
        C0, at least 2.
    frequency : int
        k, at least 0.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        For arguments that are not as above.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> [spectrum.harmonics(3, k) for k in range(4)]
    [1, 3, 5, 7]
    """
    c, k = check_channels(n_channels), check_frequency(frequency, "frequency")
    return math.comb(k + c - 1, c - 1) - (math.comb(k + c - 3, c - 1) if k > 1 else 0)


def outer_product(factors: Iterable[np.ndarray]) -> np.ndarray:
    """Return the outer product of vectors, an axis for each."""
    return reduce(np.multiply.outer, factors)
