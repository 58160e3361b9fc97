"""Square roots of time that windows of signals leave in kernels (docs/theory/depth_limits.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from ..engines.boxes import circular_mean
from ..network import Network
from .complements import arc_cosines

_TIES = 64 * float(np.finfo(np.float64).eps)
"""Roundings of a distance between windows, relative to their variances: less counts as 0."""

_BLOCK = 2**16
"""Pixel pairs whose arrays are held together, some 30 and two for each channel: some 30 MB."""

_TIMES = 10.0 ** np.arange(-14.0, 0.5, 0.5)
"""Times at which windows have left a root: the edges of a histogram."""


def roots(
    network: Network, kind: str, X: np.ndarray, head: str, limit: np.ndarray, energies: np.ndarray
) -> tuple[float, Callable[[float], float]]:
    """Return f of the term f √h that roots add to kernels at once, and what later roots add.

    h = Lβ is small. K̇ has square roots where windows are opposite or parallel, and K where one of
    the windows is 0. Layers take a pair of windows out of the root, at the rate c. A pair at the
    distance ε has the root √(ε + ch), a power series in h for h < ε/c. Sizes are in root mean
    square over pairs of signals. `limit`, (n, n), are normalized kernels, and `energies`, (n,),
    the kernels of signals with themselves, in units of the variance of F⁰.
    """
    linear = 2.0 * network.negative_slope / network.activation_gain
    if network.activation != "relu" or linear == 1.0:
        return 0.0, lambda h: 0.0
    n, channels, d = X.shape
    inner, outer, parts = network.inner_filter(2), network.outer_filter(2), network.parts
    tangent, output = parts.input + parts.inner, parts.outer_plus_readout
    tangent, output = (tangent, output) if kind == "ntk" else (0.0, 1.0)
    if head == "equivariant":
        weights = circular_mean(np.eye(d)[0], *outer)
    else:
        weights = np.full(d, d**-2.0 if head == "gap" else 1.0 / d)
    weights *= 2.0 / 3.0 * (1.0 - linear) / math.pi  # the mean of √t over times from 0 to 1

    def windows(values: np.ndarray) -> np.ndarray:
        return circular_mean(circular_mean(values, *network.input_filter), *inner)

    def layer(K: np.ndarray) -> np.ndarray:
        return circular_mean(circular_mean(K, *outer), *inner)

    left, right = np.triu_indices(n)
    scale = 1.0 / channels if network.input_scale is None else network.input_scale
    signals = X.transpose(1, 2, 0) * math.sqrt(0.5 * scale)
    variance = windows(2.0 * (signals**2).sum(axis=0))
    gained = layer(variance)
    sizes = np.zeros((len(_TIMES) + 2, len(left)))  # at once, by time, and never
    blocks = np.array_split(np.arange(len(left)), -(-len(left) * d // _BLOCK))

    def add(pairs: np.ndarray, distance: np.ndarray, rate: np.ndarray, size: np.ndarray) -> None:
        """Add roots size·√h of a `distance` that layers increase at a `rate`."""
        times = np.divide(distance, rate, out=np.full(rate.shape, np.inf), where=rate > 0)
        slots = np.where(times > 0, 1 + np.searchsorted(_TIMES, times), 0)
        for slot in np.unique(slots):
            part = np.where(slots == slot, np.abs(size) if slot else size, 0.0)
            sizes[slot, pairs] += weights @ part

    for pairs, offset in product(blocks, range(d if head == "gap" else 1)):
        partners = (np.arange(d) + offset) % d
        x, z = signals[..., left[pairs]], signals[:, partners][..., right[pairs]]
        q1, q2 = variance[:, left[pairs]], variance[partners][:, right[pairs]]
        Q1, Q2 = gained[:, left[pairs]], gained[partners][:, right[pairs]]
        g, slack = np.sqrt(q1 * q2), _TIES * (q1 + q2)
        of_norms = 0.5 * (np.sqrt(q1) - np.sqrt(q2)) ** 2
        ratio = np.sqrt(np.divide(q2, q1, out=np.ones_like(g), where=g > 0))
        for sign in (1.0, -1.0):
            distance = windows(((x - sign * z) ** 2).sum(axis=0)) - of_norms  # g (1 ∓ ρ)
            distance[distance <= slack] = 0.0
            rho = sign * (1.0 - np.divide(distance, g, out=np.ones_like(g), where=g > 0))
            K = g * ((1.0 - linear) * arc_cosines(np.clip(rho, -1.0, 1.0))[1] + linear * rho)
            rate = 0.5 * (Q1 * ratio + Q2 / ratio) - sign * layer(K)
            rate[(rate <= slack) | (g == 0)] = 0.0
            add(pairs, distance, rate, -tangent * np.sqrt(2.0 * rate * g))
        add(pairs, q2, Q2 * (q1 > 0), output * np.sqrt(q1 * Q2))
        add(pairs, q1, Q1 * (q2 > 0), output * np.sqrt(q2 * Q1))

    def size(pairs: np.ndarray, sign: float) -> float:
        """Return the change of normalized kernels, in root mean square over pairs."""
        changes = np.empty((n, n))
        changes[left, right] = changes[right, left] = pairs
        units = np.where(energies > 0, energies, 1.0)
        changes /= np.sqrt(np.multiply.outer(units, units))
        half = 0.5 * changes.diagonal()
        changes += sign * limit * np.add.outer(half, half)
        different = changes[np.triu_indices(n, 1)]
        return float(np.sqrt((different**2).mean())) if n > 1 else 0.0

    def later(h: float) -> float:
        left_over = np.minimum(1.0, (h / _TIMES) ** 3)  # two terms of the power series are removed
        return math.sqrt(h) * size(left_over @ sizes[1:-1], 1.0)

    return size(sizes[0], -1.0), later
