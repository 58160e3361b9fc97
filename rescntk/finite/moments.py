r"""Moments of rectified Gaussian numbers: of two in closed form, of four by one integral.

Of Gaussian numbers u of mean 0, σ is max(u, 0), σ' its slope, and φ the density of numbers at 0.
Derivatives by a covariance Σ_ij are means of second derivatives (Price 1958): ::

    ∂E[f(u)] / ∂Σ_ij = E[∂_i ∂_j f(u)].

So moments of four numbers of correlations ρ are integrals, along the path of correlations tρ from
t = 0 to 1, of moments in which two of the numbers are 0, and these are moments of two numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from ..arrays import Array

Pair: TypeAlias = tuple[int, int]

LEAST_DEFICIT = 1e-14
"""Numbers whose correlation is ±1 up to this are multiples of each other: the rest is rounding."""

_NODES, _END = 40, 3.0
"""Nodes of the integral, and the end of their range. Errors are then at most 1e-11 of E[σσσσ] and
1e-6 of E[σ'σ'σ'σ'], which is least smooth where numbers are nearly multiples of each other."""

_AT_ONCE = 4096
"""Quadruples of numbers whose integrals are computed together."""

_PAIRS: tuple[Pair, ...] = tuple(combinations(range(4), 2))


class TwoNumbers:
    """Moments of all pairs of numbers of the covariances `S`, (P, P, …); of P numbers each."""

    def __init__(self, S: Array) -> None:
        self.S, size = S, len(S)
        every = np.arange(size)
        self.variance = S[every, every]
        self.std = np.sqrt(self.variance)
        self.stds = self.std[:, None] * self.std[None]
        rho = np.clip(quotient(S, self.stds), -1.0, 1.0)
        rho[every, every] = 1.0
        self.in_line = 1.0 - np.abs(rho) <= LEAST_DEFICIT
        self.rho = np.where(self.in_line, np.sign(rho), rho)
        self.sine = np.sqrt((1.0 - self.rho) * (1.0 + self.rho))
        self.slopes = (math.pi - np.arccos(self.rho)) / (2.0 * math.pi)
        """E[σ'_a σ'_b]."""
        self.products = self.stds * (self.sine / (2.0 * math.pi) + self.slopes * self.rho)
        """E[σ_a σ_b]."""
        self.of_steps = quotient(self.std[:, None], self.std[None]) * self.sine / (2.0 * math.pi)
        """E[σ_a φ_b]: where the number b is 0."""


def quotient(A: Array, B: Array) -> Array:
    """Return A / B, and 0 where B is 0."""
    A, B = np.broadcast_arrays(A, B)
    return np.divide(A, B, out=np.zeros(A.shape), where=B > 0)


class FourNumbers(NamedTuple):
    """Moments of all quadruples of numbers, (P, P, P, P, …)."""

    products: Array
    """E[σ_a σ_b σ_c σ_d]."""
    mixed: Array
    """E[σ_a σ_b σ'_c σ'_d]."""
    slopes: Array
    """E[σ'_a σ'_b σ'_c σ'_d]."""


def of_four_numbers(two: TwoNumbers) -> FourNumbers:
    """Return moments of quadruples of the numbers of `two`."""
    size, *others = two.rho.shape[1:]
    quadruples = np.array([*combinations_with_replacement(range(size), 4)])
    found = [np.empty((size,) * 4 + tuple(others)) for _ in FourNumbers._fields]
    for start in range(0, len(quadruples), _AT_ONCE):
        some = quadruples[start : start + _AT_ONCE]
        rho = {(i, j): two.rho[some[:, i], some[:, j]] for i, j in permutations(range(4), 2)}
        products, mixed, slopes = _moments(rho)
        for order in permutations(range(4)):
            places = tuple(some[:, k] for k in order)
            first: Pair = (min(order[:2]), max(order[:2]))
            for array, moments in zip(found, (products, mixed[first], slopes), strict=True):
                array[places] = moments
    ramps = two.stds[:, :, None, None]
    found[0] *= ramps * two.stds
    found[1] *= ramps
    return FourNumbers(*found)


@lru_cache(maxsize=1)
def _nodes() -> tuple[Array, Array, Array]:
    """Return t, 1 − t and weights of the tanh-sinh rule on [0, 1], (_NODES,) each.

    Integrands change on all scales of 1 − t where numbers are nearly multiples of each other.
    """
    x = np.linspace(-_END, _END, _NODES)
    rise = math.pi * np.sinh(x)
    t, rest = 1.0 / (1.0 + np.exp(-rise)), 1.0 / (1.0 + np.exp(rise))
    return t, rest, (x[1] - x[0]) * math.pi * np.cosh(x) * t * rest


def _moments(rho: dict[Pair, Array]) -> tuple[Array, dict[Pair, Array], Array]:
    """Return E[σσσσ], E[σ_i σ_j σ'_k σ'_m] of the pairs (i, j), and E[σ'σ'σ'σ'], variances 1.

    `rho` has the correlations of all ordered pairs of 0, 1, 2 and 3, arrays of one shape.
    """
    t, rest, weights = _nodes()
    r = {pair: values[..., None] for pair, values in rho.items()}
    both, ramps, one = _where_numbers_are_0(r, t, rest)

    def integral(values: Array) -> Array:
        return np.asarray((values * weights).sum(axis=-1))

    # E[σ'σ'σ'σ'] is 1/16 at t = 0. It is the derivative of E[σ_i σ_j σ'_k σ'_m] by the covariance
    # of i and j, which in turn is that of E[σσσσ] by the covariance of k and m. The integral of a
    # function h from 0 to t, integrated over t from 0 to 1, is the integral of (1 − t) h.
    change = sum(r[pair] * both[pair] for pair in _PAIRS)
    products, mixed = np.full(rho[0, 1].shape, 1.0 / (4.0 * math.pi**2)), {}
    for (i, j), (k, m) in zip(_PAIRS, reversed(_PAIRS), strict=True):
        others = r[k, m] * ramps[i, j]
        for step in (k, m):
            others = others + r[step, i] * one[step, j] + r[step, j] * one[step, i]
        start, by_slopes = 1.0 / (8.0 * math.pi), rho[i, j] / 16.0
        mixed[i, j] = start + by_slopes + integral(r[i, j] * rest * change + others)
        mean = r[i, j] * rest**2 / 2.0 * change + rest * others
        products += rho[k, m] * (start + by_slopes / 2.0 + integral(mean))
    return products, mixed, 1.0 / 16.0 + integral(change)


def _where_numbers_are_0(
    rho: dict[Pair, Array], t: Array, rest: Array
) -> tuple[dict[Pair, Array], dict[Pair, Array], dict[Pair, Array]]:
    """Return E[φ_i φ_j σ'_k σ'_m], E[φ_k φ_m σ_i σ_j] and E[φ_i σ_j σ'_k σ'_m], by (i, j), of tρ.

    Determinants are those of tR + (1 − t)I: polynomials of coefficients that are 0 or positive if
    numbers are multiples of each other, where they would cancel in tρ.
    """
    lack = {(i, j): (1.0 - rho[i, j]) * (1.0 + rho[i, j]) for i, j in permutations(range(4), 2)}
    of_pair = {pair: rest * (rest + 2.0 * t) + t**2 * lack[pair] for pair in _PAIRS}
    of_three = {}
    for i, j, k in combinations(range(4), 3):
        at_once = lack[i, j] - (rho[i, k] - rho[i, j] * rho[j, k]) * rho[i, k]
        at_once = at_once - (rho[j, k] - rho[i, j] * rho[i, k]) * rho[j, k]
        in_pairs = lack[i, j] + lack[i, k] + lack[j, k]
        of_three[frozenset((i, j, k))] = rest**2 * (rest + 3.0 * t) + t**2 * (
            rest * in_pairs + t * np.maximum(at_once, 0.0)
        )
    both: dict[Pair, Array] = {}
    ramps: dict[Pair, Array] = {}
    for (i, j), (k, m) in zip(_PAIRS, reversed(_PAIRS), strict=True):
        # Given that i and j are 0, k and m have these variances and this covariance.
        variances = [of_three[frozenset((i, j, other))] / of_pair[i, j] for other in (k, m)]
        ij, km, ik, jk, im, jm = (rho[p] for p in ((i, j), (k, m), (i, k), (j, k), (i, m), (j, m)))
        at_once = km * lack[i, j] - ik * (im - ij * jm) - jk * (jm - ij * im)
        in_pairs = 2.0 * km - im * ik - jm * jk
        covariance = t * (rest**2 * km + t * (rest * in_pairs + t * at_once)) / of_pair[i, j]
        size = np.sqrt(variances[0] * variances[1])
        cosine = np.clip(quotient(covariance, size), -1.0, 1.0)
        density = 1.0 / (2.0 * math.pi * np.sqrt(of_pair[i, j]))
        quadrant = (math.pi - np.arccos(cosine)) / (2.0 * math.pi)
        both[i, j] = both[j, i] = density * quadrant
        sine = np.sqrt((1.0 - cosine) * (1.0 + cosine)) / (2.0 * math.pi)
        ramps[k, m] = density * size * (sine + quadrant * cosine)
    one = {}
    for i, j in permutations(range(4), 2):  # given that i is 0: by parts in the number j
        total = (1.0 - t**2 * rho[i, j] ** 2) * both[i, j]
        for k in {0, 1, 2, 3} - {i, j}:
            total = total + (t * rho[j, k] - t**2 * rho[i, j] * rho[i, k]) * both[i, k]
        one[i, j] = total
    return both, ramps, one
