"""`SignalTables`: the variances of each signal's pixels through all layers.

A pixel pair takes from each of its pixels the variance of the features, layer by layer, and
the direction of the input. A table has the pixel on its first axis and the case on its last.
All tables are made in float64 and kept in the working precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..activations import Pixels
from ..arrays import Array, array_module
from .boxes import circular_sum
from .exact_sum import mean, pairwise
from .geometry import receptive_field
from .scaling import Scaling

_OUT_OF_REACH = 1e-30
"""Least squared size of a signal for the equivariant head, as a share of its mean energy.

The head measures the energy that reaches pixel 1. Pixels that do not reach it may be larger
by any factor; the least size keeps their variances below 1e30 d, within float32. A smaller
share brings them nearer to its end, 3e38. Chosen by reasoning.
"""


_LINEAR_BITS = -400
"""log2 of the variances below which erf networks are taken as linear: erf(u) is 2u/√π then.

A larger number rescales more signals, and must stay below −60: the relative error of the linear
kernel is the variance. A smaller one leaves less room above the least variance, 2^−920. Chosen by
reasoning.
"""


@dataclass(frozen=True)
class SignalTables:
    """Tables of the pixels of some signals.

    Attributes
    ----------
    unit_vectors : array, (features, d, cases)
        Each pixel's vector divided by its norm; 0 where the norm is 0.
    layers : list of Pixels, each table (d, cases)
        Of the features F⁰, then of the pre-activations Σ¹ … Σᴸ. These are stored as sums of
        F over a window, in the unit of `Scaling.unit`.
    bounds : dict
        (kind, depth) → a bound on √(kernel at any pixel): a number for all cases, or an
        array (cases,).
    means : array, (channels, cases), float64
        Means of the channels over pixels, times √input_scale: F⁰ averages to their products
        over all pixel pairs. 0 unless `Scaling.linear_apart`.
    scale : array, (cases,), float64
        The number by which each signal was divided.
    tangent_exponents : list of arrays (cases,), integers
        For layers 0 … L, the e such that A(x, z) is stored divided by 2^(e(x) + e(z)). Empty
        for homogeneous activations, whose powers of two are those of `Scaling.exponents`.
    sizes : dict
        (kind, depth) → √(kernel of the signal with itself), (cases,): over pixels' mean, or at
        pixel 1 for the equivariant head. Empty for homogeneous activations.
    amplification : array, (cases,), or None
        The largest factor by which the layers multiply an error of D (errors.py).
    vectors : array, (features, d, cases), float64, or None
        Each pixel's vector as given: rounded unit vectors may be equal where vectors are not.
    """

    unit_vectors: Array
    layers: list[Pixels]
    bounds: Mapping[tuple[str, int], Array | float]
    means: Array
    scale: Array
    tangent_exponents: list[Array]
    sizes: Mapping[tuple[str, int], Array]
    amplification: Array | None = None
    vectors: Array | None = None

    def mapped(
        self, pixels: Callable[[Array], Array], cases: Callable[[Array], Array]
    ) -> SignalTables:
        """Return tables with functions applied to tables of pixels, and to tables of signals."""
        return SignalTables(
            unit_vectors=pixels(self.unit_vectors),
            layers=[map_pixels(table, pixels) for table in self.layers],
            bounds={
                key: bound if isinstance(bound, float) else cases(bound)
                for key, bound in self.bounds.items()
            },
            means=cases(self.means),
            scale=cases(self.scale),
            tangent_exponents=[cases(table) for table in self.tangent_exponents],
            sizes={key: cases(size) for key, size in self.sizes.items()},
            amplification=None if self.amplification is None else cases(self.amplification),
            vectors=None if self.vectors is None else pixels(self.vectors),
        )

    def cases(self, cases: slice) -> SignalTables:
        """Return the tables of some of the signals."""
        return self.mapped(lambda table: table[..., cases], lambda table: table[..., cases])

    def write_exponents(self, depths: tuple[int, ...], out: Array, cases: Array) -> None:
        """Write the tangents' exponents at some depths to the `cases` of `out`, (depths, cases)."""
        if self.tangent_exponents:
            for t, depth in enumerate(depths):
                out[t, cases] = self.tangent_exponents[depth]


def wrap(table: Array, offsets: int) -> Array:
    """Return a table (…, d, cases) with its first offsets − 1 pixels repeated after the last."""
    if offsets == 1:
        return table
    d = table.shape[-2]
    xp = array_module(table)
    return xp.take(table, xp.arange(d + offsets - 1) % d, axis=-2)


def map_pixels(pixels: Pixels, function: Callable[[Array], Array]) -> Pixels:
    """Return the tables `pixels` with `function` applied to each."""
    extra = tuple(function(table) for table in pixels.extra)
    return Pixels(function(pixels.half_root), function(pixels.inverse), extra)


class Input(NamedTuple):
    """The input's pixels of some signals, divided by the signals' sizes."""

    unit_vectors: Array
    """Each pixel's vector divided by its norm, (features, d, cases), in the working precision."""

    variance: Array
    """F⁰ at x = z, j = j', (d, cases), float64."""

    means: Array
    """Means of the channels over pixels, times √input_scale, (channels, cases), float64."""

    scale: Array
    """The number by which each signal was divided, (cases,)."""

    vectors: Array
    """Each pixel's vector, (features, d, cases), float64."""


def read_input(scaling: Scaling, X: Array, windows: bool = True) -> Input:
    """Return the input's pixels of signals `X`, (cases, channels, d).

    Without `windows`, windows of the input filter are not made channels: there are no vectors.
    """
    xp, net = array_module(X), scaling.network
    homogeneous = scaling.activation.homogeneous
    X = xp.asarray(X, dtype=np.float64).transpose(1, 2, 0)
    if scaling.equivariant:  # other pixels may be larger by any factor
        reached = receptive_field(net, scaling.depth, scaling.d)
        X = xp.where(xp.asarray(reached)[:, None], X, 0.0)
    scale = xp.ones(X.shape[2])
    if homogeneous:  # a power of two, at most 2^1023: squares stay within float64
        scale = xp.ldexp(scale, xp.frexp(xp.abs(X).max(axis=(0, 1)))[1] - 1)
    else:
        scale = _linear_scale(scaling, xp, X)
    X = X / scale
    means = xp.zeros((X.shape[0], X.shape[2]))
    if scaling.linear_apart:
        means = math.sqrt(scaling.input_scale) * mean(xp, X.swapaxes(0, 1))
    if windows:
        X = _windows(xp, X, net.input_filter_size)
        energy = _energy(X)
    else:
        energy = circular_sum(_energy(X), net.input_filter_size)
        X = X[:0]
    if not homogeneous:
        scaling.check_energy(bool(xp.isfinite(energy).all()))
    norm = xp.sqrt(energy)
    unit_vectors = xp.asarray(X / xp.where(norm > 0, norm, 1.0), dtype=scaling.dtype)
    variance = energy * (scaling.input_scale / net.input_filter_size)
    if homogeneous:
        size = xp.sqrt(_squared_size(scaling, xp, variance))
        variance = xp.where(size > 0, variance / xp.where(size > 0, size, 1.0) ** 2, 0.0)
        means = means / xp.where(size > 0, size, 1.0)
        with np.errstate(over="ignore"):  # an infinite scale is reported with the results
            scale = size * scale
    return Input(unit_vectors, variance, means, scale, X)


def signal_tables(scaling: Scaling, X: Array, windows: bool = True) -> SignalTables:
    """Return the tables of signals `X`, (cases, channels, d), of the array library of `X`.

    Without `windows`, there are no unit vectors of the input's windows (`read_input`).

    Raises
    ------
    OverflowError
        If the signals are too large for an activation that is not homogeneous.
    """
    xp = array_module(X)
    unit_vectors, variance, means, scale, vectors = read_input(scaling, X, windows)
    layers: list[Pixels] = []
    peaks: list[Array] = []
    bounds: dict[tuple[str, int], Array | float] = {}
    exponents: list[Array] = []
    sizes: dict[tuple[str, int], Array] = {}
    amplification = None
    own_bounds = scaling.common_bounds is None
    recursion = scaling.variances(xp, variance, with_tangent=own_bounds)
    with np.errstate(over="ignore", invalid="ignore"):  # `check_peaks` reports them
        for layer, at in enumerate(recursion):
            peaks.append(at.window.max())  # stays on its device
            layers.append(_pixels(scaling, xp, at.window, scaling.unit(layer)))
            if own_bounds:
                apart = scaling.linear_apart
                gpk, ntk = (
                    (at.branches, at.tangent_branches) if apart else (at.features, at.tangent)
                )
                bounds["gpk", layer] = xp.sqrt(gpk.max(axis=0))
                bounds["ntk", layer] = xp.sqrt(ntk.max(axis=0))
                exponents.append(at.tangent_exponent)
                if layer in scaling.depths:
                    for kind, table in (("gpk", at.features), ("ntk", at.tangent)):
                        own = table[0] if scaling.equivariant else mean(xp, table)
                        sizes[kind, layer] = xp.sqrt(own)
                largest = at.amplification.max(axis=0)
                amplification = largest if layer == 0 else xp.maximum(amplification, largest)
    if own_bounds:
        scaling.check_peaks(xp, peaks)
    bounds.update(scaling.common_bounds or {})
    return SignalTables(
        unit_vectors, layers, bounds, means, scale, exponents, sizes, amplification,
        vectors if own_bounds else None,
    )  # fmt: skip


def _linear_scale(scaling: Scaling, xp: ModuleType, X: Array) -> Array:
    """Return the power of two, at most 1, by which signals (channels, d, cases) are divided.

    On signals so small that the network is linear on them, K(x, z) is proportional to x. Divided
    by the power, the variances stay at most 2^_LINEAR_BITS in all layers, but above the smallest
    ones of float64.
    """
    net, terms = scaling.network, X.shape[0] * scaling.network.input_filter_size
    slope = net.alpha**2 * net.c_v * net.c_w * 4.0 / math.pi  # of a branch, as a share of F
    growth = scaling.depth * math.log2(max(1.0, net.skip + slope)) + math.log2(max(1.0, net.c_w))
    growth += math.log2(max(1.0, scaling.input_scale * terms))
    # max |x| < 2^peak, so that the variances are below 2^(2 peak + growth).
    peak = xp.frexp(xp.abs(X).max(axis=(0, 1)))[1]
    halves = xp.minimum(xp.floor_divide(2 * peak + (math.ceil(growth) - _LINEAR_BITS), 2), 0)
    return xp.ldexp(xp.ones(X.shape[2]), halves)


def _windows(xp: ModuleType, X: Array, size: int) -> Array:
    """Return the windows of the input filter as channels, (size * channels, d, cases)."""
    if size == 1:
        return X
    half = size // 2
    return xp.concatenate([xp.roll(X, -k, axis=1) for k in range(-half, half + 1)], axis=0)


def _energy(X: Array) -> Array:
    """Return the squared norm of each pixel, (d, cases), of X (channels, d, cases)."""
    with np.errstate(over="ignore"):
        return pairwise(channel * channel for channel in X)


def _pixels(scaling: Scaling, xp: ModuleType, q: Array, unit: float) -> Pixels:
    """Return the tables of pixels of variance `q` times `unit`, in the working precision."""
    q = xp.where(q < scaling.smallest_variance, 0.0, q)
    root = xp.sqrt(q)
    inverse = xp.where(root > 0, 1.0 / xp.where(root > 0, root, 1.0), 0.0)
    pixels = Pixels(root * math.sqrt(0.5), inverse, scaling.activation.extra(xp, q, unit))
    return map_pixels(pixels, lambda table: xp.asarray(table, dtype=scaling.dtype))


def _squared_size(scaling: Scaling, xp: ModuleType, variance: Array) -> Array:
    """Return the squared size of each signal, (cases,), as the head measures it.

    D = (q1 + q2)/2 − F has rounding errors of the size of q1 + q2, which must not be large
    beside √(q1 q2). So signals are divided by their size. The squared size is the mean energy
    for trace and GAP, and the energy that reaches pixel 1 for the equivariant head.
    """
    average = mean(xp, variance)
    if not scaling.equivariant:
        return average
    for at in scaling.variances(xp, variance, with_tangent=False):
        reaching = at.features[0]
    return xp.where(reaching > 0, xp.maximum(reaching, _OUT_OF_REACH * average), 0.0)
