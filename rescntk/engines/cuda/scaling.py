"""`Scaling`: the constants of each layer, common to all engines.

Powers of two are taken out of the layers of homogeneous networks, so that no depth overflows.
Sums over windows are stored without the filters' constants: c_w/q and α² c_v/q are applied at
the activation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...activations import activation_of
from ...arrays import Array, array_module
from ...network import Filter
from ..once import once
from ..protocol import Request, ScaledKernel
from . import biases, repeated
from .doubt import DOUBTFUL, MOST_DOUBT, MOST_E, PARALLEL, SHALLOW, TIED
from .kept import once_a_layer
from .variances import RESCALE_BITS, Variances, variances

_MOST_BITS = 90
"""Bits by which one layer of a homogeneous network may multiply variances: others are refused.

More bits would let products within one layer leave the range of float32. Chosen by reasoning:
RESCALE_BITS + _MOST_BITS = 122 is below 126.
"""

_CONSTANTS = (
    "factor",  # α² c_v c_w (1 + s²)/(q_outer q), times the layer's power of two: sums → E[σσ]
    "half_factor",
    "power",  # the power of two next to `half_factor`: its square may leave the range.
    "half_over_squared_power",  # `half_factor` / `power`²
    "skip_scale",  # the layer's power of two, by which D, A and F pass; 0 without skip connections.
    "sum_scale",  # `skip_scale` where K is summed over the layers without its filter, else 0.
    "twice_inner_minus_readout",  # 2 (i − r).
    "outer_plus_readout",  # o + r.
    "linear_scale",  # the power of two on F⁰ before the layer; 0 without skip connections.
    "mean",  # of Σ over pixels, the unit of E (`DOUBTFUL`).
    "doubtful",  # pixel pairs with D + |q1 − q2|/2 above this multiple of √a are doubtful.
    "tied",  # `doubtful` times `Scaling.tied`.
    "parallel",  # `doubt.PARALLEL` · eps; 0 in shallow networks.
    "most_E",  # `MOST_E`.
    "tiny",  # the smallest normal number.
    "one",  # a literal 1 would make LLVM round another product of the first layer.
)


class Scaling:
    """The constants of each layer for one request on signals of one shape.

    Attributes
    ----------
    offsets : int
        Number of rows of a pair.
    input_scale : float
        The factor on inner products of the input's pixels.
    exponents : tuple of int
        For layers 0 … L, the e such that the layer is stored divided by 2^e.
    mean_variances : list of float
        Mean of Σ / unit over pixels in layers 0 … L, for signals divided by their size
        (`signal_tables`). Empty unless `Network.homogeneous`.
    """

    def __init__(self, request: Request, n_channels: int, d: int) -> None:
        self.network = net = request.network
        self.depths, self.depth, self.kinds = request.depths, request.depths[-1], request.kinds
        self.request_head, self._sums_features = request.head, request.summed
        self.shares, self.width = request.shares, request.width
        self.equivariant = request.head == "equivariant"
        self.dtype = np.dtype(request.dtype)
        self.activation = activation_of(net)
        dithered = net.homogeneous and not net.skip
        self._dither = repeated.DITHER if dithered else Fraction(1)
        self.exponents = self._exponents()
        self.input_scale = 1.0 / n_channels if net.input_scale is None else net.input_scale
        self.mean_variances: list[float] = []
        # Of kernels at x = z: of signals of mean energy 1, and of biases of variance 1 alone.
        self._means, self._bias_means = np.zeros((2, 2, len(self.depths)))
        self.bias_energy = biases.energy(net)
        if net.homogeneous:
            self._find_means()
        self.d = d
        self.offsets = d if self.request_head in ("gap", "pixels") else 1

    # -- the filters, of signals or of images

    @property
    def input_filter(self) -> Filter:
        return self.network.input_filter._replace(width=self.width)

    @once_a_layer
    def inner_filter(self, layer: int) -> Filter:
        return self.network.inner_filter(layer)._replace(width=self.width)

    @once_a_layer
    def outer_filter(self, layer: int) -> Filter:
        return self.network.outer_filter(layer)._replace(width=self.width)

    # -- constants of a layer

    def step(self, layer: int) -> float:
        """Return the power of two by which the results of this layer are multiplied."""
        return 2.0 ** (self.exponents[layer - 1] - self.exponents[layer])

    @once_a_layer
    def unit(self, layer: int) -> float:
        """Return c_w/q: Σ is c_w/q times the sum of F over a window. 1 for layer 0."""
        if layer == 0:
            return 1.0
        return self.network.c_w / self.inner_filter(layer).n_taps

    @once_a_layer
    def factor(self, layer: int) -> float:
        """Return α² c_v/q, the factor on E[σσ] in sums over the outer filter's window.

        Its product with `unit` and the activation's gain is a number of the working precision. So
        the tables, made in float64, and the rows grow alike.
        """
        net, unit = self.network, self.unit(layer) * self.activation.gain
        factor = net.alpha**2 * net.c_v / self.outer_filter(layer).n_taps
        factor *= self.step(layer) * float(self._dither)
        return float(self.dtype.type(factor * unit)) / unit if unit > 0 else factor

    @once
    def constants(self) -> np.ndarray:
        """The constants of layers 0 … L, (L + 1,), with `Activation.constants` among the fields.

        Without `mean_variances` there is no doubt: its constants are 0.
        """
        net = self.network
        names = (*_CONSTANTS, *self.activation.constants, *(biases.NAMES if net.bias else ()))
        layers = np.zeros(self.depth + 1, [(name, self.dtype) for name in names])
        for number, layer in enumerate(layers[1:], start=1):
            factor = self.factor(number) * self.unit(number) * self.activation.gain
            skip_scale = self.step(number) * net.skip
            layer["factor"], layer["half_factor"] = factor, 0.5 * factor
            layer["skip_scale"] = skip_scale
            layer["sum_scale"] = skip_scale * self._sums_features
            if net.skip:
                layer["linear_scale"] = 2.0 ** -self.exponents[number - 1]
            if self.mean_variances:
                layer["mean"] = self.mean_variances[number]
                layer["doubtful"] = self.doubtful * self.mean_variances[number]
                layer["tied"] = layer["doubtful"] * self.tied
        half = layers["half_factor"].astype(np.float64)
        layers["power"] = power = np.exp2(np.rint(np.log2(np.where(half > 0, half, 1.0))))
        layers["half_over_squared_power"] = half / power / power
        layers["twice_inner_minus_readout"] = 2.0 * net.parts.inner_minus_readout
        for name, value in self.activation.constants.items():
            layers[name] = value
        layers["outer_plus_readout"] = net.parts.outer_plus_readout
        if self.depth > SHALLOW:
            layers["parallel"] = PARALLEL * np.finfo(self.dtype).eps
        layers["most_E"] = MOST_E[self.dtype.name]
        layers["tiny"] = np.finfo(self.dtype).tiny
        layers["one"] = 1
        for name in biases.NAMES if net.bias else ():
            layers[name] = [layer[name] for layer in self.biases]
        return layers

    @once
    def biases(self) -> list[dict[str, float]]:
        """The constants `biases.NAMES` of layers 0 … L."""
        return biases.constants(self)

    def stored(self, layer: int) -> float:
        """Return the factor between kernels at a layer and their stored numbers."""
        return math.ldexp(1.0 / self.correction(layer), -self.exponent(layer))

    def exponent(self, layer: int) -> int:
        """Return the e such that a layer's corrected numbers are kernels divided by 2^e."""
        return self.exponents[layer] - repeated.undithered(self._dither, layer)[1]

    @once
    def layers(self) -> list[SimpleNamespace]:
        """The `constants` as numbers of Python, which arrays take faster than records."""
        names, rows = self.constants.dtype.names or (), self.constants.tolist()
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows]

    @once_a_layer
    def correction(self, depth: int) -> float:
        """Return the factor that takes rounded constants and the dither out of a result."""
        net = self.network
        if not net.homogeneous or depth == 0:
            return 1.0

        def constant(layer: int) -> Fraction:
            taps = self.outer_filter(layer).n_taps * self.inner_filter(layer).n_taps
            factor = self.factor(layer) * self.unit(layer) * self.activation.gain
            return taps * Fraction(factor) / Fraction(self.step(layer))

        constants = constant(1), constant(min(2, depth))  # all later layers have the second
        errors = repeated.growth_error(
            net, self._dither * self.activation.exact_gain, *constants, depth
        )
        return errors * repeated.undithered(self._dither, depth)[0]

    def _exponents(self) -> tuple[int, ...]:
        """Return the exponents of layers 0 … L: homogeneous networks grow evenly."""
        growth = self.network.growth * float(self._dither)
        if self.network.bias:  # variances stay above the biases'
            growth = max(growth, float(self._dither))
        if not self.network.homogeneous or growth == 0.0:
            return (0,) * (self.depth + 1)
        if abs(math.log2(growth)) > _MOST_BITS:
            raise ValueError(
                f"network multiplies variances by {self.network.growth:.3g} at each layer, "
                f"expected a number between 2^-{_MOST_BITS} and 2^{_MOST_BITS}"
            )
        steps = math.log2(growth) / RESCALE_BITS
        return tuple(RESCALE_BITS * math.floor(layer * steps) for layer in range(self.depth + 1))

    def _find_means(self) -> None:
        """Set means over pixels at x = z, for all signals of mean energy 1.

        At x = z the recursion of a ReLU network is linear and keeps the mean over pixels. With
        biases, signals lie between a signal without biases and biases without a signal.
        """
        # A line of pixels, NumPy's: reading numbers back from a device would wait for it.
        one, bias = np.ones((self.width, 1)), None
        if self.bias_energy:
            one, bias = one * [1.0, 0.0], np.array([0.0, 1.0 / self.bias_energy])
        for layer, at in enumerate(variances(self, one, with_tangent=True, bias=bias)):
            self.mean_variances.append(float(at.window[0].min() if layer else 1.0))
            if layer in self.depths:
                t = self.depths.index(layer)
                for kind, table in enumerate(self.averaged(at)):
                    self._means[kind, t] = table[0, 0]
                    self._bias_means[kind, t] = table[0, -1] * self.bias_energy
        reaching = float(at.features[0, 0])
        if self.equivariant and reaching > 0:  # signals are divided by the energy at the head
            self.mean_variances = [mean / reaching for mean in self.mean_variances]

    def bounds(self, energy: Array, bias: Array) -> Array:
        """Return `SignalTables.bounds`, from mean energies and the variances of biases, (cases,).

        Means over pixels at x = z are linear in both. No pixel has more than d times the mean.
        """
        xp = array_module(energy)
        means, of_biases = (xp.asarray(each)[..., None] for each in (self._means, self._bias_means))
        return xp.sqrt(self.d * (means * energy + of_biases * bias))

    def averaged(self, at: Variances) -> tuple[Array, Array]:
        """Return the F and A that the head averages: without F⁰ where its mean is added."""
        if self.adds_mean:
            return at.branches, at.tangent_branches
        return at.features, at.tangent

    @property
    def adds_mean(self) -> bool:
        """True if the mean of F⁰ over pixel pairs is added to the branches' means.

        F⁰ = xᵀz/C averages to x̄ · z̄/C over all pixel pairs: 0 for signals of zero mean, while
        its entries are of order 1. Added to branches of order α², it would cost their digits.
        With other heads F⁰ is added at each pixel pair, once: its sum with small branches, layer
        by layer, would be rounded alike in all layers.
        """
        return self.request_head == "gap" and self.network.skip

    # -- doubt

    @property
    def keeps_root_errors(self) -> bool:
        """True if tables keep the rounding errors of √q: only in float32 (doubt.py)."""
        return self.network.homogeneous and self.dtype == np.float32

    @property
    def doubtful(self) -> float:
        """The E that makes a pixel pair doubtful."""
        return DOUBTFUL * min(1.0, SHALLOW / self.depth)

    @property
    def tied(self) -> float:
        """The √a below which windows may be proportional."""
        return TIED * self.depth * float(np.finfo(self.dtype).eps)

    @property
    def allowed_E(self) -> float:
        """The E of a pixel pair, summed over layers, that a kernel may have."""
        return MOST_DOUBT[self.dtype.name] * min(max(self.depth - 1, 1), 2)

    def allowed_doubt(self, pixel_pairs: Any, cancelled: Any = 1.0) -> Any:
        """Return the sum of E² over pixel pairs that a kernel may have, E summed over layers."""
        counted = pixel_pairs if self.request_head in ("trace", "gap") else 1
        return (cancelled * self.allowed_E) ** 2 * counted

    @property
    def growth_bits(self) -> float:
        """log2 of the largest factor by which the layers of an erf network multiply distances."""
        net = self.network
        slope = net.alpha**2 * net.c_v * net.c_w * 4.0 / math.pi  # of a branch, as a share of F
        return self.depth * math.log2(max(1.0, net.skip + slope))

    # -- results

    def add_mean(self, values: Mapping[str, Array], linear: Array) -> None:
        """Add the means of F⁰, `linear`, to kernels of branches, (depths, left, right case)."""
        for t, depth in enumerate(self.depths):
            scale = 2.0 ** -self.exponents[depth]
            tangent = scale * self.network.parts.initial
            for kind, value in values.items():
                value[t] += (scale if kind == "gpk" else tangent) * linear

    def finish(self, value: Array, symmetric: bool, terms: int = 1) -> None:
        """Correct results (depths, left, right case, …) in place; mirror them if symmetric.

        Results are divided by a number of `terms`.
        """
        for i in range(1, value.shape[1] if symmetric else 0):
            column = value[:, :i, i]
            # For pixel pairs, (z, x) at (j', j) is (x, z) at (j, j').
            value[:, i, :i] = column.swapaxes(-1, -2) if value.ndim == 5 else column
        for t, depth in enumerate(self.depths):
            value[t] *= self.correction(depth) / terms

    def scaled(
        self, values: Mapping[str, Array], left: Array, right: Array, lengths: Any = 0
    ) -> ScaledKernel:
        """Return finished results with the scales that were taken out of them.

        The left signals have the `lengths`, (cases,), or one for all. Results of pairs are
        (depths, pairs).
        """
        if self.network.bias:
            biases.add_to_results(self, values, left, right, lengths)
        return ScaledKernel(dict(values), left, right, tuple(map(self.exponent, self.depths)))
