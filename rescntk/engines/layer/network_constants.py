"""`NetworkConstants`: the constants of all layers of a network, and numbers that they determine.

These are the trained parts, products of weights and divisors over layers, and sizes of biases.
constants.py has the constants of one layer, and explains G, f, b and S. variance_bounds.py has
bounds of variances that follow from these constants.

======  =======================  ===================================================================
symbol  name                     meaning
======  =======================  ===================================================================
∏ G     `total_divisor`          product over layers 1 … l; S_l with normalization
S       `feature_variances`      variances of the features, if input and normalized features have 1
∏ f     `input_weight`           product over layers 1 … l: the weight of F⁰ in the features
λ       `linear_share`           share of the linear network in the kernel of a leaky ReLU
–       `bias_std`               standard deviation that biases add to a signal of size 1, if σ is 1
======  =======================  ===================================================================
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

from ...lazy import once
from ...network import PER_LAYER_FIELDS, Network
from ...network.activations import activation_of
from ...network.parameters import FILTER_FIELDS
from ...network.parts import Layer
from .constants import LayerConstants, divided_layer, normalized_layer, undivided_layer


class CarriedParts(NamedTuple):
    """The trained parts of A = T + ι F: 1 where trained, 0 where frozen."""

    input: float
    inner: float
    outer: float
    iota: float
    """ι, the multiple of F in A, 1 or 0."""

    @property
    def initial(self) -> float:
        """[input] + ι: A of the input is this multiple of the input's covariance F⁰."""
        return self.input + self.iota

    @property
    def inner_minus_iota(self) -> float:
        """[inner] − ι: the multiple of Σ that is added to A before the activation."""
        return self.inner - self.iota

    @property
    def outer_plus_iota(self) -> float:
        """[outer] + ι: the multiple of K that is added to M after the activation."""
        return self.outer + self.iota

    def bias_multiple(self, after_activation: bool) -> float:
        """Return the multiple of the product of both signals' biases that is added to A or M.

        The biases before the activation are added to F too, and those after it to K.
        """
        return self.outer_plus_iota if after_activation else self.iota


@dataclass(frozen=True)
class NetworkConstants:
    """The constants of layers 1 … depth of a network."""

    network: Network
    depth: int

    @once
    def has_equal_constants(self) -> bool:
        """True if all layers have equal constants.

        `Network.is_uniform` asks for equal parameters instead. Filters may differ here, because no
        constant depends on them. With normalization, layers of equal parameters have different
        constants.
        """
        net = self.network
        alike = not any(
            isinstance(getattr(net, name), tuple) for name in PER_LAYER_FIELDS - FILTER_FIELDS
        )
        return alike and not (net.norm and net.homogeneous)

    def of_layer(self, layer_number: int) -> LayerConstants:
        """Return the constants of a layer; the first layer has the number 1."""
        return self.distinct[0 if self.has_equal_constants else layer_number - 1]

    @once
    def distinct(self) -> tuple[LayerConstants, ...]:
        """The constants of layers 1 … depth, or of layer 1 alone if all layers have the same."""
        net = self.network
        layers = map(net.layer, range(1, 2 if self.has_equal_constants else self.depth + 1))
        if not net.homogeneous:
            return tuple(map(undivided_layer, layers))
        if net.norm:
            variances = self.feature_variances
            return tuple(map(normalized_layer, layers, variances, variances[1:]))
        return tuple(divided_layer(layer, self.has_bias) for layer in layers)

    @once
    def feature_variances(self) -> tuple[Fraction, ...]:
        """S_0 … S_L of a network with normalization."""

        def after(before: Fraction, layer: Layer) -> Fraction:
            variance = layer.exact_identity_gain * before + layer.exact_branch_gain
            return variance or before  # a layer whose output is 0 divides by nothing

        layers = map(self.network.layer, range(1, self.depth + 1))
        return tuple(accumulate(layers, after, initial=Fraction(1)))

    def input_weight(self, layer_number: int) -> float:
        """Return the weight of F⁰ in the features after a layer: the product of f up to it.

        After layer 0, the input filter, it is 1.
        """
        if self.has_equal_constants:
            return float(self.of_layer(1).weights.features) ** layer_number
        return self._input_weights[layer_number]

    @once
    def _input_weights(self) -> tuple[float, ...]:
        """The products of f over layers 1 … 0, 1 … 1, 1 … 2, ..."""
        weights = (float(layer_constants.weights.features) for layer_constants in self.distinct)
        return tuple(accumulate(weights, operator.mul, initial=1.0))

    @once
    def _inverse_roots(self) -> tuple[float, ...]:
        """The products of 1/√G over layers 1 … 0, 1 … 1, 1 … 2, ..."""
        roots = (layer_constants.divisor**-0.5 for layer_constants in self.distinct)
        return tuple(accumulate(roots, operator.mul, initial=1.0))

    @once
    def carried_parts(self) -> CarriedParts:
        """The trained parts of A = T + ι F, which engines carry in place of T.

        ι is 1 if the readout is trained and 0 if it is not, with two exceptions, in which ι is 0
        and F is added to T once, at the end. If inner weights are not trained, each layer would
        subtract Σ from A and lose digits by cancellation. If the activation is not homogeneous,
        layers could amplify rounding errors of A − F.
        """
        parts = self.network.parts
        iota = parts.readout if self.network.homogeneous and parts.inner else 0.0
        return CarriedParts(parts.input, parts.inner, parts.outer, iota)

    @property
    def later_readout(self) -> float:
        """[readout] − ι: the multiple of F that is added to A after the last layer, 1 or 0."""
        return self.network.parts.readout - self.carried_parts.iota

    @once
    def has_bias(self) -> bool:
        """True if some layer of the network has biases, even if it comes after layer `depth`."""
        return self.network.has_bias

    @once
    def linear_share(self) -> float:
        """λ = 2s / (1 + s²): a leaky ReLU of slope s has κ = (1 − λ) κ_relu + λ κ_linear."""
        return activation_of(self.network).linear_share

    @property
    def needs_exact_means(self) -> bool:
        """True if means of signals need all their digits, because a layer may add little to F⁰.

        Heads that average over pixel pairs add a product of the means of both signals, which is a
        mean of F⁰, to what the branches add. Where the means are small and branches are weak, the
        kernel is small, and has no more digits than the means.

        Let m be the mean over pixels of a signal's standard deviation. The rounding errors of its
        mean over pixel pairs are relative to m². A ReLU branch of weight b adds at least b m²/π to
        K(x, x), because the mean of κ₁, weighted by both deviations, is at least 1/π. For b = 2^-4
        this is m²/50, so that K(x, x) may lose a factor of 50 of the means' accuracy.
        """
        least = min(layer_constants.weights.branch for layer_constants in self.distinct)
        return self.network.norm or least < 2.0**-4 or not self.network.homogeneous

    @once
    def has_U_plus(self) -> bool:
        """True if U⁺ = a b (1 + ρ) is carried too, because v = 1 + ρ as 2 − w may be inaccurate.

        After a ReLU layer, v is at least (1 − λ) b / 2 at most pixel pairs. If v is above 2^-5,
        for which (1 − λ) b must be above 2^-4, the rounding error of 2 − w changes κ0 by less than
        two units in the last place. Other activations may leave v near 0, and so may normalization,
        whose branch is added to features of any size. Layers without features have b = 1, so that
        1 − λ alone must be above 2^-4; the bound is 0.1 for all layers.
        """
        least, norm = activation_of(self.network).least_U_plus, self.network.norm
        weights = (layer_constants.weights for layer_constants in self.distinct)
        weak = (norm or least * w.branch < 2.0**-4 for w in weights if w.features)
        return least < 0.1 or any(weak)

    @once
    def has_identity(self) -> bool:
        """True if some layer has a skip connection whose features have a weight above 0."""
        return any(layer_constants.weights.features for layer_constants in self.distinct)

    @once
    def largest_bias(self) -> float:
        """The largest standard deviation of biases of all layers, which is the unit of others."""
        return max(layer_constants.layer.bias for layer_constants in self.distinct)

    @once
    def forgets_size(self) -> bool:
        """True if layer 1 reads only normalized features; then kernels do not depend on sizes."""
        net = self.network
        return net.norm and net.homogeneous and not self.of_layer(1).weights.features

    def bias_std(self, layer_number: int, after_activation: bool = False) -> float:
        """Return the standard deviation of a layer's biases, relative to a signal of size 1.

        Biases are measured in units of `largest_bias`. The result is 0 for a layer without biases.
        If `after_activation`, the biases are those after the activation.
        """
        layer_constants = self.of_layer(layer_number)
        if not layer_constants.layer.bias:
            return 0.0
        if self.network.norm and self.network.homogeneous:
            std = 1.0  # normalized features have one size in all layers
        elif self.has_equal_constants:
            std = layer_constants.divisor ** (-0.5 * (layer_number - 1))
        else:
            std = self._inverse_roots[layer_number - 1]
        std = std / math.sqrt(layer_constants.layer.inner_variance)
        if layer_constants.layer.bias != self.largest_bias:
            std *= layer_constants.layer.bias / self.largest_bias
        return std * (layer_constants.bias_ratio if after_activation else 1.0)

    # The cache keeps these objects alive, as those of engines do (B019).
    @lru_cache(maxsize=256)  # noqa: B019
    def total_divisor(self, layer_number: int) -> tuple[float, int]:
        """Return the product of G over layers 1 … l, as (m, e) with the value m · 2^e.

        m lies between ½ and 2 and is rounded only once. In networks with normalization the result
        is S_l.
        """
        if self.network.norm:
            total = self.feature_variances[layer_number]
            exponent = total.numerator.bit_length() - total.denominator.bit_length()
            return float(total / Fraction(2) ** exponent), exponent
        two = decimal.Decimal(2)
        with decimal.localcontext(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            if self.has_equal_constants:
                product = _as_decimal(self.of_layer(1).exact_divisor) ** layer_number
            else:
                divisors = (
                    layer_constants.exact_divisor
                    for layer_constants in self.distinct[:layer_number]
                )
                product = math.prod(map(_as_decimal, divisors), start=decimal.Decimal(1))
            bits = product.log10() / two.log10()
            exponent = int(bits.to_integral_value(decimal.ROUND_FLOOR))
            return float(product / two**exponent), exponent


def _as_decimal(number: Fraction) -> decimal.Decimal:
    """Return a fraction as a decimal number, rounded as the decimal context says."""
    return decimal.Decimal(number.numerator) / number.denominator
