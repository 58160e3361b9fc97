"""Complements of heads that average pixels, in decimal arithmetic: docs/theory/multisphere.md.

Means over pixel pairs cancel where signals are near each other: from 1 − K = 1e-12 float64 keeps
four digits. Here the recursion runs with as many digits as the result needs, in some 40 (GPK) or
80 (NTK) microseconds for each pixel pair and layer.

The state of a pixel pair is half the squared distance of its features, D = (q1 + q2)/2 − F, where
q1 and q2 are the variances of both pixels, and E = (τ1 + τ2)/2 − T for the tangent kernel. Both are
exactly 0 at equal pixels. Features are divided by powers of c_w, so that a branch weighs β.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from functools import cache
from typing import NamedTuple

import numpy as np

from ...engines.heads import offsets, pixels_averaged, pool_counts
from ...network import Network
from ...network.parts import Layer
from .complements import Arrays, circular_mean

_MOST_DIGITS = 800
"""What these do not tell from 0 is below the least number of float64."""

_LEAST_AND_MOST = np.array([Decimal(0), Decimal(2)])


class Mean(NamedTuple):
    """A head's mean over pixel pairs."""

    kernel: Decimal
    variance: Decimal
    """The mean variance of both signals' pixels, to which the kernel's errors are relative."""


def decimal_complements(
    network: Network,
    depths: Collection[int],
    X: np.ndarray,
    pairs: Sequence[tuple[int, int]],
    kind: str,
    head: str | int,
) -> np.ndarray:
    """Return 1 − K(x,z)/√(K(x,x) K(z,z)) of pairs of signals, (n_depths, n_pairs), rounded once.

    Depths, which ascend, are those of the network's first layers. Pixels are not 0, and may have
    any lengths. The result is 1 where K(x,x) or K(z,z) is 0.
    """
    complements = np.empty((len(depths), len(pairs)))
    shares = 1 if kind == "gpk" else 2  # κ0 is the root of a distance, and has half of its digits
    unknown, digits = list(range(len(pairs))), 50 * shares
    while unknown and digits <= _MOST_DIGITS:
        context = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
        with decimal.localcontext(context):
            head_means = cache(_means_of(network, depths, X, kind, head))
            error = Decimal(10) ** (8 - digits // shares)  # some units for each of 10^7 layers
            left = []
            for place in unknown:
                i, k = pairs[place]
                means = zip(head_means(i, i), head_means(k, k), head_means(i, k), strict=True)
                values = [_complement(*of_depth, error) for of_depth in means]
                complements[:, place] = [float(value) for value, _ in values]
                if not all(is_known for _, is_known in values):
                    left.append(place)
        unknown, digits = left, 2 * digits
    return complements


def _complement(x: Mean, z: Mean, between: Mean, error: Decimal) -> tuple[Decimal, bool]:
    """Return 1 − K(x,z)/√(K(x,x) K(z,z)), and whether `error` leaves it the digits of float64."""
    if any(one.kernel <= error * one.variance for one in (x, z)):
        return Decimal(1), False
    complement = 1 - between.kernel / (x.kernel * z.kernel).sqrt()
    error *= max(one.variance / one.kernel for one in (x, z))
    if complement <= error:
        return Decimal(0), False
    return complement, error <= Decimal("1e-20") * complement


def _means_of(
    network: Network, depths: Collection[int], X: np.ndarray, kind: str, head: str | int
) -> Callable[[int, int], list[Mean]]:
    """Return a function of two signals' numbers, which returns a head's mean at each depth."""
    exact = np.asarray(np.frompyfunc(Decimal, 1, 1)(X.astype(np.float64).transpose(0, 2, 1)))
    d = exact.shape[1]
    n_pixels = pixels_averaged(head, (d,))
    along = offsets(n_pixels, d)
    partners = (np.arange(d)[:, None] + along) % d
    counts = pool_counts(n_pixels, d)[along % d].astype(object)
    input_, readout = int(network.parts.input), int(network.parts.readout)

    def mean(q1: np.ndarray, q2: np.ndarray, distances: np.ndarray) -> Mean:
        variance = (q1.sum() + q2.sum()) / (2 * d)
        return Mean(variance - (counts * distances).sum() / (d * n_pixels**2), variance)

    def head_means(i: int, k: int) -> list[Mean]:
        x, z = exact[i], exact[k]
        distances = ((x[:, None] - z[partners]) ** 2).sum(axis=2) / 2
        F: Arrays = (x**2).sum(axis=1), (z**2).sum(axis=1), distances
        T: Arrays | None = tuple(input_ * array for array in F) if kind == "ntk" else None
        means = []
        for number in range(1, network.depth + 1):
            F, T = _behind_layer(network, number, partners, F, T)
            if number in depths:
                read = F if T is None else (t + readout * f for f, t in zip(F, T, strict=True))
                means.append(mean(*read))
        return means

    return head_means


def _behind_layer(
    network: Network, number: int, partners: np.ndarray, F: Arrays, T: Arrays | None
) -> tuple[Arrays, Arrays | None]:
    """Return both signals' variances and their pixels' distances, of F and T, behind a layer."""
    layer, parts = network.layer(number), [int(part) for part in network.parts]
    _, inner, outer, _ = parts
    s1, s2, S = (circular_mean(array, layer.inner) for array in F)
    root1, root2 = np.sqrt(s1)[:, None], np.sqrt(s2)[partners]
    z, g = (root1 - root2) ** 2 / 2, root1 * root2
    w = np.clip((S - z) / g, *_LEAST_AND_MOST)  # 1 − ρ
    slope, deficit = _relu_dual(w)
    branch = s1, s2, z + g * deficit
    new_T = None
    if T is not None:
        t1, t2, E = (circular_mean(array, layer.inner) for array in T)
        t1, t2, E = inner * s1 + t1, inner * s2 + t2, inner * S + E
        tangent = (t1[:, None] + t2[partners]) / 2 - E
        inside = t1, t2, E + slope * tangent
        tangents = tuple(outer * a + b for a, b in zip(branch, inside, strict=True))
        new_T = _add_branch(layer, T, tangents)
    return _add_branch(layer, F, branch), new_T


def _add_branch(layer: Layer, old: Arrays, branch: Arrays) -> Arrays:
    """Return what a layer makes of features, with its branch before the outer filter."""
    boxed = tuple(circular_mean(array, layer.outer) for array in branch)
    if not layer.skip:
        return boxed
    gain = layer.exact_branch_gain
    weight = Decimal(gain.numerator) / gain.denominator
    return tuple(a + weight * b for a, b in zip(old, boxed, strict=True))


def _relu_dual(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 − κ0 and 1 − κ1 at correlation 1 − w; errors are units of 1."""
    pi = 4 * _arctan(np.array([Decimal(1)], dtype=object))[0]
    sine, chord = np.sqrt(w * (2 - w)), np.sqrt(w / 2)  # of the angle θ, and of θ/2
    tangent = chord / (1 + np.sqrt(1 - w / 2))  # of θ/4
    slope = 4 * _arctan(tangent) / pi
    return slope, w - sine / pi + (1 - w) * slope


def _arctan(t: np.ndarray) -> np.ndarray:
    """Return arctan t for 0 ≤ t ≤ 1: arctan t = 2 arctan(t / (1 + √(1 + t²))), then its series."""
    halvings = 6
    for _ in range(halvings):
        t = t / (1 + np.sqrt(1 + t * t))
    square, total = t * t, 0 * t
    terms = math.ceil(decimal.getcontext().prec * math.log(10) / (2 * halvings * math.log(2)))
    for k in reversed(range(terms)):
        total = Decimal(1) / (2 * k + 1) - square * total
    return 2**halvings * (t * total)
