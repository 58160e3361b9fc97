"""What a row shares: tables of each signal's pixels, through all layers.

A pixel pair needs to know of each of its pixels only the variance of its features, layer by
layer, and for the first layer its direction. A table has the pixel on its first axis and the
case on its last. All tables are made in float64 and then kept in the working precision.

The CUDA engine makes its tables by this code, on CuPy's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..activations import BY_NAME, Pixels
from ..arrays import Array
from ..rings import circular_sum
from .exact_sum import mean
from .protocol import Request, ScaledKernel

# Values are rescaled by 2^-32 whenever they have grown by 2^32: exact, rare, and far from
# the ends of float32's range (2^±126) on either side.
_RESCALE_BITS = 32

# What a layer may multiply variances by, so that one layer stays within float32.
_MOST_BITS = 90


# Two pixels whose features are exactly parallel but not equally long have D = z, and rounding
# leaves |D − z| of a few units times |q1 − q2|. Below this many units it counts as a tie;
# without it κ0 = 1 − √(2w)/π would turn 1e-16 into 1e-8.
TIE_UNITS = 16.0

# 1 + ρ is taken from sums of unit vectors, not as 2 − w, where w exceeds this.
NEARLY_OPPOSITE = 1.99


@dataclass(frozen=True)
class SignalTables:
    """Tables of some signals: all that a pair needs to know of one of its members.

    Attributes
    ----------
    units : array, (features, d, cases)
        Each pixel's vector divided by its norm (0 where that is 0).
    layers : list of Pixels, each table (d, cases)
        Of the features F⁰ that enter, then of the pre-activations Σ¹ … Σᴸ, these in the
        unit of `TableMaker.unit`: they are *sums* of F over a window, as the rows have them.
    peaks : list of numbers
        The largest variance in each of `layers`, in the same unit.
    bounds : dict
        (kind, depth) -> a bound on √(kernel at any pixel): a number for all cases, or
        an array (cases,).
    scale : array, (cases,), float64
        What the signals were divided by.
    """

    units: Array
    layers: list[Pixels]
    peaks: list[Any]
    bounds: dict[tuple[str, int], Array]
    scale: Array

    def cases(self, some: slice) -> SignalTables:
        """Return the tables of some of the signals."""
        bounds = {
            key: bound if isinstance(bound, float) else bound[some]
            for key, bound in self.bounds.items()
        }
        layers = [map_pixels(p, lambda table: table[:, some]) for p in self.layers]
        return SignalTables(self.units[..., some], layers, self.peaks, bounds, self.scale[some])

    def wrapped(self, xp: Any) -> SignalTables:
        """Return the same with pixels 0 … d−2 repeated after d−1, for windows of d pixels."""

        def again(table: Array, axis: int = 0) -> Array:
            d = table.shape[axis]
            return xp.take(table, xp.arange(2 * d - 1) % d, axis=axis)

        layers = [map_pixels(p, again) for p in self.layers]
        return SignalTables(again(self.units, 1), layers, self.peaks, self.bounds, self.scale)


def map_pixels(pixels: Pixels, function: Any) -> Pixels:
    """Apply `function` to each of the tables."""
    extra = tuple(function(table) for table in pixels.extra)
    return Pixels(function(pixels.half_root), function(pixels.inverse), extra)


class TableMaker:
    """Maker of `SignalTables`s for one request."""

    def __init__(self, request: Request, n_channels: int, d: int, xp: Any) -> None:
        net = request.network
        self.network, self.d, self.xp = net, d, xp
        self.depths, self.depth = request.depths, request.depths[-1]
        self.equivariant = request.head == "equivariant"
        self.offsets = d if request.head in ("gap", "pixels") else 1
        self.halo = max(net.filter_size, net.outer_filter_size) // 2
        self.dtype = np.dtype(request.dtype)
        self.activation = BY_NAME[net.activation]
        self.exponents = self._exponents()
        self.input_scale = 1.0 / n_channels if net.input_scale is None else net.input_scale
        self.common_bounds = self._bounds_of_all() if self.activation.homogeneous else None

    def wrapped(self, side: SignalTables) -> SignalTables:
        """Return tables long enough for every offset that the head needs."""
        return side.wrapped(self.xp) if self.offsets > 1 else side

    def scaled(self, values: dict[str, Array], left: Array, right: Array) -> ScaledKernel:
        """Return finished results with the scales that were taken out of them."""
        return ScaledKernel(
            values, left, right, tuple(self.exponents[depth] for depth in self.depths)
        )

    def bytes_per_case(self, n_channels: int) -> int:
        """Return the memory that one signal's tables take."""
        per_pixel = 2 * (self.depth + 1) + n_channels * self.network.input_filter_size
        return per_pixel * self.d * self.dtype.itemsize

    def step(self, layer: int) -> float:
        """Return the power of two by which this layer's results are multiplied."""
        return 2.0 ** (self.exponents[layer - 1] - self.exponents[layer])

    def unit(self, layer: int) -> float:
        """Return what a sum of F over a window is multiplied by to give Σ: c_w/q."""
        if layer == 0:
            return 1.0
        return self.network.c_w / (1 if layer == 1 else self.network.filter_size)

    def factor(self, layer: int) -> float:
        """Return what sums over the outer filter's window are multiplied by: α² c_v/q.

        Its product with `unit` is a number of the working precision, so that the tables,
        made in float64, and the rows grow alike.
        """
        net, unit = self.network, self.unit(layer)
        factor = self.step(layer) * (net.alpha**2 * net.c_v / net.outer_filter_size)
        return float(self.dtype.type(factor * unit)) / unit if unit > 0 else factor

    def correction(self, depth: int) -> float:
        """Return what takes the rounding of the network's constants out of a result.

        Constants such as 1/3 are rounded, and a homogeneous network raises them to the
        power of its depth: 50 layers of a rounded 1/3 already cost 5e-15. By how much its
        variances really grow a layer, and should grow, is known exactly.
        """
        net = self.network
        if not self.activation.homogeneous:
            return 1.0
        should = net.skip + Fraction(net.alpha) ** 2 * Fraction(net.c_v) * Fraction(net.c_w) / 2

        def error(layer: int) -> float:
            taps = net.outer_filter_size * (1 if layer == 1 else net.filter_size)
            constant = Fraction(self.factor(layer) * self.unit(layer)) / Fraction(self.step(layer))
            does = net.skip + taps * constant / 2
            return float((should - does) / does) if does else 0.0

        errors = math.log1p(error(1)) + (depth - 1) * math.log1p(error(min(2, depth)))
        return math.exp(errors)

    def finish(self, value: Array, symmetric: bool) -> None:
        """Put results (depths, left, right case, …) right: both triangles, and `correction`."""
        for i in range(1, value.shape[1] if symmetric else 0):
            column = value[:, :i, i]
            # For pixel pairs, (z, x) at (j', j) is (x, z) at (j, j').
            value[:, i, :i] = column.swapaxes(-1, -2) if value.ndim == 5 else column
        for t, depth in enumerate(self.depths):
            value[t] *= self.correction(depth)

    def make(self, X: Array) -> SignalTables:
        """Return the tables of the signals `X`, (cases, channels, d)."""
        xp, net = self.xp, self.network
        X = xp.asarray(X, dtype=np.float64).transpose(1, 2, 0)
        power = xp.ones(X.shape[2])
        if self.activation.homogeneous:  # exactly to order 1: squares cannot leave float64
            power = xp.ldexp(power, xp.frexp(xp.abs(X).max(axis=(0, 1)))[1])
        X = X / power
        if net.input_filter_size > 1:
            half = net.input_filter_size // 2
            windows = [xp.roll(X, -k, axis=1) for k in range(-half, half + 1)]
            X = xp.concatenate(windows, axis=0)
        energy = xp.zeros(X.shape[1:])
        with np.errstate(over="ignore"):
            for channel in X:  # one by one: the order must not depend on the batch
                energy += channel * channel
        if not self.activation.homogeneous:
            self.check_energy(bool(xp.isfinite(energy).all()))
        norm = xp.sqrt(energy)
        units = xp.asarray(X / xp.where(norm > 0, norm, 1.0), dtype=self.dtype)
        variance = energy * (self.input_scale / net.input_filter_size)
        scale = power
        if self.activation.homogeneous:
            size = xp.sqrt(self._yardstick(variance))
            variance = xp.where(size > 0, variance / xp.where(size > 0, size, 1.0) ** 2, 0.0)
            scale = size * power

        layers, peaks, bounds = [], [], {}
        bounded = self.common_bounds is None
        with np.errstate(over="ignore", invalid="ignore"):  # `check_peaks` says so
            for layer, (window, features, tangent) in enumerate(
                self._variances(xp, variance, bounded)
            ):
                peaks.append(window.max())  # stays on its device
                layers.append(self._pixels(window, self.unit(layer)))
                if bounded:
                    bounds["gpk", layer] = xp.sqrt(features.max(axis=0))
                    bounds["ntk", layer] = xp.sqrt(tangent.max(axis=0))
        if bounded:
            self.check_peaks(peaks)
        return SignalTables(units, layers, peaks, self.common_bounds or bounds, scale)

    def check_energy(self, finite: bool) -> None:
        """Say so if not all of the pixels' energies are finite."""
        if not finite:
            raise OverflowError("the signals are too large: their squares exceed float64")

    def check_peaks(self, peaks: list[Array]) -> None:
        """Check the largest variance of every layer; a device is waited for once."""
        largest = self.xp.stack(peaks)
        if self.xp is not np:
            largest = self.xp.asnumpy(largest)
        for layer, peak in enumerate(largest.tolist()):
            self.check_peak(layer, peak)

    def check_peak(self, layer: int, peak: float) -> None:
        """Say so if a layer's largest variance is too large for what is not homogeneous."""
        if not peak * self.unit(layer) < 0.1 * math.sqrt(float(np.finfo(self.dtype).max)):
            raise OverflowError(
                f"the signals are too large for {self.dtype.name}: a network whose activation "
                f"is not homogeneous squares their variances, and these reach {peak:.3g}"
            )

    @property
    def smallest_variance(self) -> float:
        """The variance below which one counts as 0: it keeps 1/(√q √q) finite."""
        return float(np.finfo(self.dtype).tiny) ** 0.9

    def _pixels(self, q: Array, unit: float) -> Pixels:
        """Return the tables of pixels of variance `q` times `unit`, in the working precision."""
        xp = self.xp
        q = xp.where(q < self.smallest_variance, 0.0, q)
        root = xp.sqrt(q)
        inverse = xp.where(root > 0, 1.0 / xp.where(root > 0, root, 1.0), 0.0)
        pixels = Pixels(root * math.sqrt(0.5), inverse, self.activation.extra(xp, q, unit))
        return map_pixels(pixels, lambda table: xp.asarray(table, dtype=self.dtype))

    def _variances(
        self, xp: Any, variance: Array, with_tangent: bool
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield (Σ / unit, F, A) at x = z, j = j' for layers 0 … L; in place of Σ⁰ stands F⁰.

        A costs as much as the rest, and is as it began if it is not wanted.
        """
        net = self.network
        train_input, inner, outer, readout = net.parts
        features, tangent = variance, (train_input + readout) * variance
        yield features, features, tangent
        for layer in range(1, self.depth + 1):
            size = 1 if layer == 1 else net.filter_size
            window = circular_sum(xp, features, size)
            both, slope = self.activation.diagonal(xp, window, self.unit(layer), self.factor(layer))
            keep = self.step(layer) * net.skip
            features = keep * features + circular_sum(xp, both, net.outer_filter_size)
            if with_tangent:
                tangent_g = (inner - readout) * window + circular_sum(xp, tangent, size)
                source = (outer + readout) * both + slope * tangent_g
                tangent = keep * tangent + circular_sum(xp, source, net.outer_filter_size)
            yield window, features, tangent

    def _exponents(self) -> tuple[int, ...]:
        """Return e such that layer l is to be stored divided by 2^e[l].

        A homogeneous network multiplies variances by one number at each layer.
        """
        net = self.network
        growth = net.growth
        if not self.activation.homogeneous or growth == 0.0:
            return (0,) * (self.depth + 1)
        if abs(math.log2(growth)) > _MOST_BITS:
            raise ValueError(
                f"network multiplies variances by {growth:.3g} at each layer, "
                f"expected a number between 2^-{_MOST_BITS} and 2^{_MOST_BITS}"
            )
        steps = math.log2(growth) / _RESCALE_BITS
        return tuple(_RESCALE_BITS * math.floor(layer * steps) for layer in range(self.depth + 1))

    def _yardstick(self, variance: Array) -> Array:
        """Return the squared size by which to divide each signal.

        D = (q1 + q2)/2 − F carries rounding errors of the size of q1 + q2, which must not be
        large beside √(q1 q2): signals have to be of one size, as the head measures it. That
        is the mean energy for trace and GAP, the energy that reaches pixel 1 for the
        equivariant head.
        """
        average = mean(self.xp, variance)
        if not self.equivariant:
            return average
        for _, features, _ in self._variances(self.xp, variance, with_tangent=False):
            reaching = features[0]
        # Pixels that do not reach the head stay within the range of float32.
        return self.xp.where(reaching > 0, self.xp.maximum(reaching, 1e-30 * average), 0.0)

    def _bounds_of_all(self) -> dict[tuple[str, int], Array]:
        """Return bounds that hold for all signals of mean energy 1.

        At x = z the recursion of a homogeneous network is linear and keeps the mean over
        pixels, and no pixel has more than d times the mean.
        """
        bounds = {}
        one = np.ones((1, 1))  # NumPy's: each number read back from a device would be waited for
        for layer, (_, features, tangent) in enumerate(self._variances(np, one, True)):
            bounds["gpk", layer] = math.sqrt(self.d * float(features[0, 0]))
            bounds["ntk", layer] = math.sqrt(self.d * float(tangent[0, 0]))
        return bounds
