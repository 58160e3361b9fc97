"""Spherical harmonics of a pixel: their number, and integrals against their zonal functions.

``docs/theory/spectrum.md`` has the zonal functions P_k and the density η of a pixel's dot product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, reduce
from itertools import product

import numpy as np
import scipy.special

from ...checks.values import check_integer
from ..tools.argument_checks import check_channels

METHODS = ("angles", "gegenbauer")


def zonal(angles: np.ndarray, n_channels: int, highest: int) -> np.ndarray:
    """Return the zonal functions P_0 … P_K at t = cos(angles), (K + 1, ...).

    By Reinsch's recurrence, without cancellation near t = ±1.
    """
    complement = 2.0 * np.sin(np.minimum(angles, np.pi - angles) / 2) ** 2  # 1 − |t|
    values = np.ones((highest + 1, *angles.shape))
    step = -complement
    for k in range(highest):
        if k > 0:
            curvature = (2 * k + n_channels - 2) * complement * values[k]
            step = (k * step - curvature) / (k + n_channels - 2)
        values[k + 1] = values[k] + step
    values[1::2] *= np.where(angles > np.pi / 2, -1.0, 1.0)
    return values


def nodes_and_matrix(
    method: str, n_channels: int, highest: int, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the complements 1 − t at the nodes of one pixel, and the matrix of `integrate`.

    "angles" is Gauss-Legendre in θ, "gegenbauer" Gauss-Gegenbauer in t.
    """
    angles: np.ndarray
    if method == "angles":
        x, weights = _gauss(nodes, 0.5)
        angles = np.pi / 2 * (x + 1.0)
        weights = weights * np.sin(angles) ** (n_channels - 2)
    elif n_channels == 2:
        angles = (np.arange(nodes) + 0.5) * (np.pi / nodes)
        weights = np.full(nodes, 1.0 / nodes)
    else:
        t, weights = _gauss(nodes, (n_channels - 2) / 2)
        angles, weights = np.arccos(t[::-1]), weights[::-1]
    # The density integrates to 1; a rule knows its norm to fewer digits than this sum has.
    weights = weights / weights.sum()
    matrix = weights * zonal(angles, n_channels, highest)
    return 2.0 * np.sin(angles / 2) ** 2, matrix


def integrate(matrix: np.ndarray, values: np.ndarray, highest: Mapping[int, int]) -> np.ndarray:
    """Return integrals along axes up to the highest frequency of each; axes of length 1 remain.

    `matrix`, (K + 1, n_nodes), has the weight times P_k at each node.
    """
    for axis, k in highest.items():
        if values.shape[axis] == matrix.shape[1]:
            integrals = np.tensordot(matrix[: k + 1], values, (1, axis))
            values = np.moveaxis(integrals, 0, axis)
    return values


@lru_cache
def _gauss(nodes: int, index: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes on [-1, 1] of Gauss-Gegenbauer quadrature, and weights up to a factor.

    Gauss-Legendre has the index ½. To the last digits: SciPy's nodes are off by 1e-12 for 64.
    """
    x = scipy.special.roots_gegenbauer(nodes, index)[0].astype(np.longdouble)
    for _ in range(2):  # Newton's steps
        below, p = np.ones_like(x), x
        for k in range(1, nodes):
            below, p = p, (2 * (k + index) * x * p - k * below) / (k + 2 * index)
        slope = nodes * (below - x * p) / (1 - x * x)
        x = x - p / slope
    weights = 1 / ((1 - x * x) * slope * slope)
    return x.astype(np.float64), (weights / weights.sum()).astype(np.float64)


def default_nodes(method: str, n_channels: int, max_frequency: int) -> int:
    """Return the number of nodes that serves frequencies up to `max_frequency` (spectrum.md)."""
    if method == "angles":
        omega = math.pi / 2 * (max_frequency + n_channels - 2)
        enough = math.ceil(omega / 2 + 5.5 * omega ** (1 / 3)) + 3
        return enough + max(8, math.ceil(enough / 7))
    factor = min(4.0, 0.5 + 0.5 * 10 ** (5 / n_channels))
    return math.ceil(factor * max_frequency) + 16


def multiplicities(
    n_channels: int, highest: tuple[int, ...], *, shift_invariant: bool
) -> np.ndarray:
    """Return the numbers of eigenfunctions of each frequency, an axis for each pixel.

    All of them, or those that no shift changes, in equal parts for all shifts of a frequency.
    """
    count = [float(harmonics(n_channels, k)) for k in range(max(highest) + 1)]
    result, d = reduce(np.multiply.outer, [np.array(count[: k + 1]) for k in highest]), len(highest)
    if not shift_invariant:
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
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> [spectrum.harmonics(n_channels=3, frequency=k) for k in range(4)]
    [1, 3, 5, 7]
    """
    c, k = check_channels(n_channels), check_integer(frequency, "frequency", 0)
    return math.comb(k + c - 1, c - 1) - (math.comb(k + c - 3, c - 1) if k > 1 else 0)
