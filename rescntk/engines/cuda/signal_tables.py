"""`SignalTables`: the variances of each signal's pixels through all layers.

A pixel pair takes from each of its pixels the variance of the features, layer by layer, and
the direction of the input. Tables end with the axes (pixel, case). All tables are made in float64
and kept in the working precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...arrays import Array, array_module
from ...network import Network
from ...validation import KINDS
from ..boxes import circular_sum
from ..protocol import blocks
from .doubt import cancelled
from .exact_sum import mean, pairwise
from .scaling import Scaling
from .variances import variances

_OUT_OF_REACH = 1e-30
"""Least squared size of a signal for the equivariant head, as a share of its mean energy.

Pixels that do not reach the head may be larger by any factor; the least size keeps their variances
below 1e30 d, within float32. A smaller share brings them nearer to its end, 3e38. Chosen by
reasoning.
"""

_LINEAR_BITS = -400
"""log2 of the variances below which erf networks are taken as linear: erf(u) is 2u/√π then.

A larger number rescales more signals, and must stay below −60: the relative error of the linear
kernel is the variance. A smaller one leaves less room above the least variance, 2^−920. Chosen by
reasoning.
"""


_LARGEST_VARIANCE, _LARGEST_BOUND = 1e153, 1e150
"""Variances of erf networks, which are squared, and roots of kernels stay below these numbers.

Larger numbers leave the range of float64, 2e308, in products of two and in sums.
"""

TOGETHER = 2**15
"""Numbers of a table that are made at once, of several layers or of some of the signals.

More save Python in calls of few signals; fewer stay in the cache, in memory that is used again.
Measured: the tables of 64 signals of 4096 points take .55 of the time that they take all at once.
"""


def receptive_field(network: Network, depth: int, length: int) -> np.ndarray:
    """Return whether each pixel of a signal, (length,), reaches the output at pixel 1."""
    reached = np.arange(length) == 0
    for window in (*network.replace(depth=depth).filters(), network.input_filter):
        if reached.all():
            break
        reached = circular_sum(reached.astype(np.float64), *window) > 0
    return np.asarray(reached)


class SignalTables(NamedTuple):
    """Tables of the pixels of some signals; the first three are of pixels, the others of signals.

    "Joined" tables have one axis of pixels in the place of (pixel, case), in which the signals
    follow one another: they serve signals of any lengths.
    """

    # (features, d, cases), each pixel's vector divided by its norm; 0 where the norm is 0.
    unit_vectors: Array
    # (tables, L + 1, d, cases): `activations.Pixels` of the features F⁰, then of Σ¹ … Σᴸ. Each Σ is
    # the sum of F over a window, in the unit of `Scaling.unit`.
    layers: Array
    # (channels, d, cases), float64, the part of each pixel in `means`. Only shares have channels.
    mean_parts: Array

    # (cases,), the number by which each signal was divided.
    scale: Array
    # (cases,), by how much rounding errors at different pixels cancel (doubt.py); 1 for
    # heads that are not a mean over pixel pairs.
    cancelled: Array
    # (channels, cases), means of the channels over pixels, times √input_scale: F⁰ averages to their
    # products over all pixel pairs. 0 unless `Scaling.adds_mean`.
    means: Array
    # (2, depths asked for, cases): bounds on √(kernel at any pixel), of `KINDS`. Of erf, 0 for a
    # kind that is not asked for.
    bounds: Array
    # (cases,), the standard deviation of biases, divided by the signal's scale.
    bias: Array

    def selected(self, pixels: slice, cases: slice) -> SignalTables:
        """Return tables of some `pixels` of joined tables, and of their signals, the `cases`."""
        of_pixels = [table[..., pixels] for table in self[:_OF_PIXELS]]
        return SignalTables(*of_pixels, *(table[..., cases] for table in self[_OF_PIXELS:]))


_OF_PIXELS = SignalTables._fields.index("scale")
"""The number of tables of pixels."""


def joined(parts: Sequence[SignalTables]) -> SignalTables:
    """Return the joined tables of several groups of signals, each of one length."""
    xp, tables = array_module(parts[0].scale), list(zip(*parts, strict=True))
    of_signals = (xp.concatenate(each, axis=-1) for each in tables[_OF_PIXELS:])
    return SignalTables(*map(joined_pixels, tables[:_OF_PIXELS]), *of_signals)


def joined_pixels(tables: Iterable[Array]) -> Array:
    """Return tables (…, d, cases) of several groups of signals as one joined table."""
    lines = [  # -1 would not do for tables without features
        table.swapaxes(-1, -2).reshape(*table.shape[:-2], math.prod(table.shape[-2:]))
        for table in tables
    ]
    line: Array = array_module(lines[0]).concatenate(lines, axis=-1)
    return line


class Input(NamedTuple):
    """The input's pixels of some signals, divided by the signals' sizes."""

    unit_vectors: Array  # as in `SignalTables`.
    variance: Array  # F⁰ at x = z, j = j', (d, cases), float64.
    means: Array  # as in `SignalTables`.
    scale: Array  # as in `SignalTables`.
    vectors: Array  # each pixel's vector, (features, d, cases), float64.
    mean_parts: Array  # as in `SignalTables`.
    unit: Array  # (cases,), the factor on squares of `vectors` in `variance`.

    # (cases,): `unit` times the square is the variance of the biases.
    bias: Array
    # (channels, d, cases), float64: the signals divided by a power of two, without windows. Their
    # squares times `unit`, summed over channels and the input filter, are `variance`.
    pixels: Array


def read_input(scaling: Scaling, X: Array, windows: bool = True) -> Input:
    """Return the input's pixels of signals `X`, (cases, channels, d).

    Without `windows`, windows of the input filter are not made channels: there are no vectors.
    """
    xp, net, window = array_module(X), scaling.network, scaling.input_filter
    X = xp.asarray(X, dtype=np.float64).transpose(1, 2, 0)
    if scaling.equivariant:  # other pixels may be larger by any factor
        reached = receptive_field(net, scaling.depth, scaling.d)
        X = xp.where(xp.asarray(reached)[:, None], X, 0.0)
    # max |x| < 2^peak. The scale is a power of two, at most 2^1023: squares stay within float64.
    peak = xp.frexp(xp.abs(X).max(axis=(0, 1)))[1]
    if net.bias:
        bits = math.frexp(net.bias)[1]
        peak = xp.maximum(peak, bits)
        peak = xp.where(xp.any(X, axis=(0, 1)), peak, bits)
    exponent = peak - 1 if net.homogeneous else _linear_exponent(scaling, xp, peak, len(X))
    scale = xp.ldexp(xp.ones(X.shape[2]), exponent)
    X = pixels = X / scale
    means = xp.zeros((X.shape[0], X.shape[2]))
    if scaling.adds_mean:
        means = math.sqrt(scaling.input_scale) * mean(xp, X.swapaxes(0, 1))
    mean_parts = X[:0]
    if scaling.adds_mean and scaling.shares:
        factor = math.sqrt(scaling.input_scale) / (window.n_taps * scaling.d)
        mean_parts = factor * circular_sum(X.swapaxes(0, 1), *window).swapaxes(0, 1)
    energy = circular_sum(_energy(X), *window)  # the same bits with and without windows
    if not windows:
        X = X[:0]
    elif window.size > 1:
        lines = X.reshape(len(X), -1, window.width, X.shape[2])
        for axis in range(1, 1 + window.n_axes):
            taps = [xp.roll(lines, -tap, axis=axis) for tap in window.taps]
            lines = xp.concatenate(taps)
        X = lines.reshape(len(lines), *X.shape[1:])
    if not net.homogeneous:
        _check_size(scaling, energy * (scaling.input_scale / window.n_taps))
    norm = xp.sqrt(energy)
    unit_vectors = xp.asarray(X / xp.where(norm > 0, norm, 1.0), dtype=scaling.dtype)
    per_square = scaling.input_scale / window.n_taps
    unit = xp.full(X.shape[2], per_square)
    variance, bias = energy * unit, (net.bias / scale) / math.sqrt(per_square or 1.0)
    if net.homogeneous:
        whole = variance + scaling.bias_energy * (net.bias / scale) ** 2 if net.bias else variance
        size = xp.sqrt(_squared_size(scaling, xp, whole))
        divisor = xp.where(size > 0, size, 1.0)
        variance = xp.where(size > 0, variance / divisor**2, 0.0)
        unit = xp.where(size > 0, unit / divisor**2, 0.0)
        means, mean_parts = means / divisor, mean_parts / divisor
        with np.errstate(over="ignore"):  # an infinite scale is reported with the results
            scale = size * scale
    return Input(
        unit_vectors=unit_vectors, variance=variance, means=means, scale=scale, vectors=X,
        mean_parts=mean_parts, unit=unit, bias=bias, pixels=pixels,
    )  # fmt: skip


def signal_tables(
    scaling: Scaling, X: Array, windows: bool = True, layers: Array | None = None
) -> SignalTables:
    """Return the tables of signals `X`, (cases, channels, d), of the array library of `X`.

    Without `windows`, there are no unit vectors of the input's windows (`read_input`).
    `SignalTables.layers` are written to `layers`, if given.

    Raises
    ------
    OverflowError
        If the signals are too large for a network in which they keep their sizes.
    """
    xp, (n, _, d) = array_module(X), X.shape
    if layers is None:  # the pixels of a case lie side by side, as in `X`
        shape = number_of_tables(scaling), n, scaling.depth + 1, d
        layers = xp.moveaxis(xp.empty(shape, dtype=scaling.dtype), 1, -1)
    step = max(1, TOGETHER // d) if xp is np else n  # cases that stay in the cache
    parts = [
        _tables_of_some(scaling, X[cases], windows, layers[..., cases])
        for cases in blocks(0, n, step)
    ]
    if len(parts) == 1:
        return parts[0]
    each = zip(*(part._replace(layers=part.scale) for part in parts), strict=True)
    return SignalTables(*(xp.concatenate(some, axis=-1) for some in each))._replace(layers=layers)


def number_of_tables(scaling: Scaling) -> int:
    """Return the number of tables in `SignalTables.layers`."""
    return 2 + scaling.keeps_root_errors + len(scaling.activation.extra(np, np.zeros(0), 1.0))


def _tables_of_some(scaling: Scaling, X: Array, windows: bool, layers: Array) -> SignalTables:
    """Return the tables of a few signals, of which `layers` are written to that array."""
    xp, net, depths = array_module(X), scaling.network, scaling.depths
    pixels = read_input(scaling, X, windows)
    variance, scale = pixels.variance, pixels.scale
    bias = pixels.bias * xp.sqrt(pixels.unit)
    n = len(scale)
    bounds = xp.zeros((2, len(depths), n))
    variance_of_biases = bias * bias if net.bias else None
    recursion = variances(
        scaling, variance, with_tangent=not net.homogeneous, bias=variance_of_biases
    )
    windows_of, together = list[Array](), TOGETHER // max(1, math.prod(variance.shape))
    # The bounds tell whether tangent kernels are too large.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for layer, at in enumerate(recursion):
            windows_of.append(at.window)
            if len(windows_of) >= together or layer == scaling.depth:
                _write_pixels(scaling, layers, layer + 1 - len(windows_of), windows_of)
                windows_of = []
            if layer in depths and not net.homogeneous:
                tables = dict(zip(KINDS, scaling.averaged(at), strict=True))
                for kind in scaling.kinds:
                    largest = tables[kind].max(axis=0)
                    bounds[KINDS.index(kind), depths.index(layer)] = xp.sqrt(largest)
    if net.homogeneous:
        energy = mean(xp, variance) if net.bias else xp.ones(n)  # else divided by its root
        bounds[...] = scaling.bounds(energy, bias * bias)
    elif not float(bounds.max()) < _LARGEST_BOUND:
        raise OverflowError(
            f"the tangent kernel exceeds float64 at depth {scaling.depth}, expected fewer layers, "
            f"or a smaller alpha, c_v or c_w"
        )
    mean_of_pixels = scaling.request_head in ("trace", "gap") and not scaling.shares
    lessened = xp.ones(n)
    if mean_of_pixels:
        lessened = cancelled(layers[0, 0], scaling.request_head == "gap")
    return SignalTables(
        unit_vectors=pixels.unit_vectors, layers=layers, mean_parts=pixels.mean_parts, scale=scale,
        cancelled=lessened, means=pixels.means, bounds=bounds, bias=bias,
    )  # fmt: skip


def _check_size(scaling: Scaling, variance: Array) -> None:
    """Raise an OverflowError if the variances of some layer are too large to be squared."""
    net = scaling.network
    largest = net.c_w * (float(variance.max()) + scaling.depth * net.alpha**2 * net.c_v)
    if not largest < _LARGEST_VARIANCE:
        raise OverflowError(
            f"the signals are too large for float64: a network whose activation is not homogeneous "
            f"squares their variances, and these reach {largest:.3g}, expected less than "
            f"{_LARGEST_VARIANCE:.3g}"
        )


def _linear_exponent(scaling: Scaling, xp: ModuleType, peak: Array, n_channels: int) -> Array:
    """Return the e of each signal, at most 0, for which it is divided by 2^e.

    On signals so small that the network is linear on them, K(x, z) is proportional to x. Divided
    by 2^e, the variances stay at most 2^_LINEAR_BITS in all layers, but above the smallest ones of
    float64.
    """
    net, terms = scaling.network, n_channels * scaling.input_filter.n_taps
    growth = scaling.growth_bits + math.log2(max(1.0, net.c_w))
    growth += math.log2(max(1.0, scaling.input_scale * terms))
    # Variances are below 2^(2 peak + growth).
    exponent: Array = xp.floor_divide(2 * peak + (math.ceil(growth) - _LINEAR_BITS), 2)
    return xp.minimum(exponent, 0)


def _energy(X: Array) -> Array:
    """Return the squared norm of each pixel, (d, cases), of X (channels, d, cases)."""
    with np.errstate(over="ignore"):
        return pairwise(channel * channel for channel in X)


def _write_pixels(scaling: Scaling, layers: Array, first: int, windows: list[Array]) -> None:
    """Write `SignalTables.layers` of layers from the `first` one on, of their variances."""
    xp, some = array_module(layers), slice(first, first + len(windows))
    units = xp.asarray([scaling.unit(first + k) for k in range(len(windows))])[:, None, None]
    q = xp.stack(windows)
    q *= q >= float(np.finfo(scaling.dtype).tiny) ** 0.9  # keeps 1/(√q √q) finite
    for k, table in enumerate(scaling.activation.extra(xp, q, units), start=2):
        layers[k, some] = table
    root = xp.sqrt(q, out=q)
    layers[1, some] = xp.where(root > 0, 1.0 / root, 0.0)
    root *= math.sqrt(0.5)
    layers[0, some] = root
    if scaling.keeps_root_errors:
        root -= layers[0, some]
        layers[2, some] = root


def _squared_size(scaling: Scaling, xp: ModuleType, variance: Array) -> Array:
    """Return the squared size of each signal, (cases,), as the head measures it.

    D = (q1 + q2)/2 − F has rounding errors of the size of q1 + q2, which must not be large
    beside √(q1 q2). So signals are divided by their size. The squared size is the mean energy
    for trace and GAP, and the energy that reaches pixel 1 for the equivariant head.
    """
    average = mean(xp, variance)
    if not scaling.equivariant:
        return average
    for at in variances(scaling, variance, with_tangent=False):
        reaching = at.features[0]
    return xp.where(reaching > 0, xp.maximum(reaching, _OUT_OF_REACH * average), 0.0)
