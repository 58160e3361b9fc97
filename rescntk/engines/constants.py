"""Constants of layers: factors of branch and features, growth, biases, with all their digits.

Kernels of homogeneous activations are divided by the sizes of both signals and by the growth G of
each layer. With the mean over the taps of the outer filter, box, ::

    F ← f F + b (box(K) + bias);     f = [skip] / G,  b = β / G.

Layer normalization divides U and A by the product a b of both roots, and multiplies them by n n'.
n is the root of a signal's normalized features: 1, divided by the signal's size. The factors are
then ::

    f = [skip] S_{l−1} / S_l,  b = β / S_l;     S_0 = 1,  S_l = [skip] S_{l−1} + β:

n is the same in all layers, and kernels are divided by S_L.
"""

from __future__ import annotations

import decimal
import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from ..activations import activation_of
from ..network import OF_LAYERS, Network
from ..network_parameters import FILTER_FIELDS
from ..network_parts import Layer
from .once import once

MOST_BITS = 500
"""Most bits by which a layer may multiply or divide variances; others are refused. More bits leave
the range of float64."""


def check_growth(layer: Layer) -> float:
    """Return `Layer.growth`, or raise a ValueError if it leaves the range of float64."""
    growth = layer.growth
    if not 2.0**-MOST_BITS <= growth <= 2.0**MOST_BITS and layer.has_branch:
        raise ValueError(
            f"network multiplies variances by {growth:.3g} at each layer, expected a number "
            f"between 2^-{MOST_BITS} and 2^{MOST_BITS}"
        )
    return growth


class LayerConstants(NamedTuple):
    """The constants of a layer's operations."""

    layer: Layer
    exact_growth: Fraction
    """G, by which the layer is divided: [skip] + β. It is 1 where activations are not homogeneous.
    With normalization it is 1 too, and nothing reads it."""
    feature_factor: float
    """f, the factor on the features that pass the layer."""
    branch_factor: float
    """b, the factor on the branch; 1 where activations are not homogeneous."""
    branch_scale: float
    """The factor on `Activation.dual`: α² c_v; 1 of ReLU, whose branch is multiplied by b."""
    branch_bias: float
    """The root of the mass that biases add behind the activation, over the root before it."""

    @property
    def growth(self) -> float:
        """G, rounded."""
        return float(self.exact_growth)


def _of_smooth(layer: Layer) -> LayerConstants:
    """Return the constants of a layer whose activation is not homogeneous."""
    return LayerConstants(
        layer,
        exact_growth=Fraction(1),
        feature_factor=float(layer.skip),
        branch_factor=1.0,
        branch_scale=float(layer.exact_factor * Fraction(layer.c_v)),
        branch_bias=math.sqrt(layer.exact_factor) * math.sqrt(layer.c_w),
    )


def _of_relu(layer: Layer, exact_growth: Fraction, branch_factor: Fraction) -> LayerConstants:
    """Return the constants of a layer whose activation is homogeneous."""
    factor = float(branch_factor)
    has_bias = layer.bias > 0.0
    return LayerConstants(
        layer,
        exact_growth=exact_growth,
        feature_factor=1.0 - factor if layer.skip else 0.0,
        branch_factor=factor,
        branch_scale=1.0,
        branch_bias=1.0 / math.sqrt(layer.c_v * float(layer.activation_gain)) if has_bias else 0.0,
    )


def _divided(network: Network, layer: Layer) -> LayerConstants:
    """Return the constants of a layer that is divided by its growth, of a homogeneous activation.

    With biases, layers that fall are not divided: signals are beside the biases.
    """
    check_growth(layer)
    gain = layer.exact_gain
    growth = layer.skip + gain
    if network.has_bias or not growth:
        growth = max(growth, Fraction(1))
    return _of_relu(layer, growth, gain / growth)


def _normalized(layer: Layer, before: Fraction, after: Fraction) -> LayerConstants:
    """Return the constants of a layer with normalization, of a homogeneous activation.

    `before` and `after` are S around the layer.
    """
    return _of_relu(layer, Fraction(1), 1 - layer.skip * before / after)


@dataclass(frozen=True)
class AllConstants:
    """The constants of layers 1 … depth of a network."""

    network: Network
    depth: int

    @once
    def has_like_layers(self) -> bool:
        """True if all layers have the same constants, whatever their filters."""
        net = self.network
        alike = not any(isinstance(getattr(net, name), tuple) for name in OF_LAYERS - FILTER_FIELDS)
        return alike and not (net.norm and net.homogeneous)

    def of_layer(self, layer: int) -> LayerConstants:
        """Return the constants of a layer."""
        return self._constants[0 if self.has_like_layers else layer - 1]

    @once
    def _constants(self) -> tuple[LayerConstants, ...]:
        """The constants of layers 1 … depth, or of one if all are alike."""
        net = self.network
        layers = [net.layer(k) for k in range(1, 2 if self.has_like_layers else self.depth + 1)]
        if not (net.norm and net.homogeneous):
            smooth = not net.homogeneous
            return tuple(_of_smooth(k) if smooth else _divided(net, k) for k in layers)
        return tuple(map(_normalized, layers, self._sums, self._sums[1:]))

    @once
    def _sums(self) -> tuple[Fraction, ...]:
        """S_0 … S_L of a network with normalization."""

        def behind(before: Fraction, layer: int) -> Fraction:
            of_layer = self.network.layer(layer)
            after = of_layer.skip * before + of_layer.exact_gain
            return after or before  # where nothing is left, nothing is divided

        return tuple(accumulate(range(1, self.depth + 1), behind, initial=Fraction(1)))

    def input_factor(self, layer: int) -> float:
        """Return the factor on F⁰ behind a layer."""
        if self.has_like_layers:
            return self.of_layer(1).feature_factor ** layer
        return self._input_factors[layer]

    @once
    def _input_factors(self) -> tuple[float, ...]:
        """The products of `feature_factor` over layers 1 … 0, 1 … 1, 1 … 2, ..."""
        return tuple(
            accumulate((c.feature_factor for c in self._constants), operator.mul, initial=1.0)
        )

    @once
    def _shrunk(self) -> tuple[float, ...]:
        """The products of 1/√G over layers, likewise."""
        roots = (c.growth**-0.5 for c in self._constants)
        return tuple(accumulate(roots, operator.mul, initial=1.0))

    @once
    def has_bias(self) -> bool:
        """True if a layer has biases."""
        return self.network.has_bias

    @once
    def linear_share(self) -> float:
        """λ = 2s / (1 + s²): a leaky ReLU of slope s has κ = (1 − λ) κ_relu + λ κ_linear."""
        return activation_of(self.network).linear_share

    @property
    def is_weak(self) -> bool:
        """True if layers may add little to the features: what cancels in these decides kernels."""
        weak = self.network.norm or min(c.branch_factor for c in self._constants) < 2.0**-4
        return weak or not self.network.homogeneous

    @once
    def has_opposite(self) -> bool:
        """True if U⁺ = a b (1 + ρ) is carried too, since 2 − w has too few digits of v = 1 + ρ.

        A ReLU layer leaves v ≥ (1 − λ) b / 2 at most pixel pairs. Above 2^-5 rounding errors of
        2 − w cost κ0 less than two units. Other activations may keep pixels opposite, and so does
        normalization beside features of any size.
        """
        least, norm = activation_of(self.network).least_opposite, self.network.norm
        weak = (norm or least * c.branch_factor < 2.0**-4 for c in self._constants if c.layer.skip)
        return least < 0.1 or any(weak)

    @once
    def largest_bias(self) -> float:
        """The largest standard deviation of biases that a layer has, the unit of others."""
        return max(self.network.values_of("bias")[: self.depth])

    @once
    def forgets_size(self) -> bool:
        """True if layer 1 reads normalized features alone: signals of all sizes are alike."""
        net = self.network
        return net.norm and net.homogeneous and not net.layer(1).skip

    @once
    def bits_of_linear_network(self) -> float:
        """By how many bits, at most, all layers multiply variances where σ(u) is about σ'(0) u."""
        bits = 0.0
        for constants in self._constants:
            of = constants.layer
            slope = activation_of(self.network).largest_slope ** 2
            gain = min(float(of.exact_factor) * of.c_w * (slope * of.c_v + bool(of.bias)), 2.0**500)
            bits += math.log2(1.0 + gain)
        return bits * self.depth if self.has_like_layers else bits

    @once
    def most_of_bias(self) -> float:
        """H = max over layers of (σ_l/σ)² (1 + 1/(c_v E[σ(u)²]/q)) / c_w, σ the largest bias.

        H σ² is the variance that biases would add at a signal of size 1 if layer 1 had all of them.
        """
        of_layers = [
            (c.layer.bias / self.largest_bias) ** 2 * ((1.0 + c.branch_bias**2) / c.layer.c_w)
            for c in self._constants
            if c.layer.bias
        ]
        return max(of_layers, default=0.0)

    def bias(self, layer: int, is_branch: bool = False) -> float:
        """Return the root of the mass that biases add in a layer, at a signal of size 1.

        The network's largest bias is 1; layers without biases have 0.
        """
        constants = self.of_layer(layer)
        if not constants.layer.bias:
            return 0.0
        if self.network.norm and self.network.homogeneous:
            before = 1.0  # normalized features have one size in all layers
        elif self.has_like_layers:
            before = constants.growth ** (-0.5 * (layer - 1))
        else:
            before = self._shrunk[layer - 1]
        before = before / math.sqrt(constants.layer.c_w)
        if constants.layer.bias != self.largest_bias:
            before *= constants.layer.bias / self.largest_bias
        return before * (constants.branch_bias if is_branch else 1.0)

    @lru_cache(maxsize=256)  # noqa: B019
    def power(self, layer: int) -> tuple[float, int]:
        """Return the product of G over layers as m · 2^e, with m between ½ and 2.

        It is exact but for one rounding.
        """
        if self.network.norm:
            total = self._sums[layer]
            exponent = total.numerator.bit_length() - total.denominator.bit_length()
            return float(total / Fraction(2) ** exponent), exponent
        two = decimal.Decimal(2)
        with decimal.localcontext(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            if self.has_like_layers:
                growth = _in_decimals(self.of_layer(1).exact_growth) ** layer
            else:
                growths = (c.exact_growth for c in self._constants[:layer])
                growth = math.prod(map(_in_decimals, growths), start=decimal.Decimal(1))
            bits = growth.log10() / two.log10()
            exponent = int(bits.to_integral_value(decimal.ROUND_FLOOR))
            return float(growth / two**exponent), exponent


def _in_decimals(number: Fraction) -> decimal.Decimal:
    """Return a number in the digits of the decimal context."""
    return decimal.Decimal(number.numerator) / number.denominator
