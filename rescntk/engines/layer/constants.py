"""Constants of layers, with all their digits: divisors, weights (weights.py), biases.

Kernels of homogeneous activations are divided by the sizes of both signals and by the growth G of
each layer. With the mean over the taps of the outer filter, box, ::

    F ← f F + b (box(K) + bias);     f = [skip] / G,  b = β / G.

Layer normalization divides U and A by the product a b of both roots, and multiplies them by n n'.
n is the root of a signal's normalized features: 1, divided by the signal's size. The weights are
then ::

    f = [skip] S_{l−1} / S_l,  b = β / S_l;     S_0 = 1,  S_l = [skip] S_{l−1} + β:

n is the same in all layers, and kernels are divided by S_L.

All engines use these words. The paths of a layer, branch and identity, have *factors* in features
and *weights* in kernels, which are sums of both; any other factor multiplies the whole. A *gain* is
what a path multiplies variances by, a *growth* what the layer does. The *variance* of a
signal's pixel is F at x = z (variances.py). A *scale* is what a signal was divided by (`Input` has
it), or a parameter of `Network`.

======  =======================  ===================================================================
symbol  name                     meaning
======  =======================  ===================================================================
l       `layer_number`           from 1 on; 0 is the input filter
[skip]  `exact_identity_gain`    gain of the identity path: 1, or 0 without it; of `Layer`
α²      `branch_factor_squared`  square of the factor of the branch and its bias; of `Layer`
c_v     `Layer.outer_variance`   variance of the weights behind the activation
c_w     `Layer.inner_variance`   variance of the weights before it
β       `Layer.branch_gain`      α² c_v c_w E[σ(u)²]/q
1 + β   `Layer.growth`           β without the identity path
p       `Layer.branch_weight`    β / (1 + β); 1 without the identity path
G       `divisor`                what engines divide the layer by: 1 + β, or 1 (`_divided`)
∏ G     `total_divisor`          over layers 1 … l; S_l with normalization
S       `_feature_variances`     variances of features beside normalized ones of size 1
f       `weights.features`       weight of the features behind the layer
b       `weights.branch`         weight of the branch: β / G, which is p where G is 1 + β
∏ f     `input_weight`           weight of F⁰ in the features, over layers 1 … l
α² c_v  `dual_factor`            factor on `Activation.dual`; 1 of homogeneous activations
λ       `linear_share`           the linear part of a leaky ReLU
σ_b     `Layer.bias`             standard deviation of biases; σ, the largest, is their unit
–       `bias_root`              root of what they add to a variance of size 1, for σ = 1
H       `bias_variance_ratio`    the most that they add to such a variance, over σ²
======  =======================  ===================================================================

``docs/theory/network.md`` and ``docs/theory/glossary.md`` have the symbols down to p.
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
from ...network import OF_LAYERS, Network
from ...network.activations import activation_of
from ...network.parameters import FILTER_FIELDS
from ...network.parts import Layer, TrainedParts
from .weights import Weights

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
    """The constants by which engines pass a layer; the head of this file has their symbols."""

    layer: Layer
    """The numbers that the network gives the layer."""
    exact_divisor: Fraction
    """G without rounding; 1 where activations are not homogeneous, and with normalization."""
    weights: Weights
    """f and b, the weights of features and branch; b is 1 of activations not homogeneous."""
    dual_factor: float
    """The factor on `Activation.dual`: α² c_v; 1 of ReLU, whose branch has the weight b."""
    bias_ratio: float
    """The root of the variance that biases add behind the activation, over the root before it."""

    @property
    def divisor(self) -> float:
        """G, rounded once."""
        return float(self.exact_divisor)


def _smooth(layer: Layer) -> LayerConstants:
    """Return the constants of a layer whose activation is not homogeneous."""
    return LayerConstants(
        layer,
        exact_divisor=Fraction(1),
        weights=Weights.of(layer.exact_identity_gain, Fraction(1)),
        dual_factor=float(layer.branch_factor_squared * Fraction(layer.outer_variance)),
        bias_ratio=math.sqrt(layer.branch_factor_squared) * math.sqrt(layer.inner_variance),
    )


def _homogeneous(
    layer: Layer, exact_divisor: Fraction, features: Fraction, branch: Fraction
) -> LayerConstants:
    """Return the constants of a layer whose activation is homogeneous, from G and exact f and b."""
    bias_ratio = 0.0
    if layer.bias > 0.0:
        bias_ratio = 1.0 / math.sqrt(layer.outer_variance * float(layer.activation_gain))
    return LayerConstants(
        layer,
        exact_divisor=exact_divisor,
        weights=Weights.of(features, branch),
        dual_factor=1.0,
        bias_ratio=bias_ratio,
    )


def _divided(layer: Layer, network_has_bias: bool) -> LayerConstants:
    """Return the constants of a homogeneous layer that is divided by its growth.

    G is 1 + β, but 1 in two cases, which layers without a skip connection alone have: β is 0; or β
    is below 1 and the network has biases, beside which signals keep their sizes.
    """
    check_growth(layer)
    identity, gain = layer.exact_identity_gain, layer.exact_branch_gain
    divisor = identity + gain
    if network_has_bias or not divisor:
        divisor = max(divisor, Fraction(1))
    return _homogeneous(layer, divisor, identity / divisor, gain / divisor)


def _normalized(layer: Layer, before: Fraction, after: Fraction) -> LayerConstants:
    """Return the constants of a homogeneous layer with normalization, from S before and after."""
    features, branch = layer.exact_identity_gain * before / after, layer.exact_branch_gain / after
    return _homogeneous(layer, Fraction(1), features, branch)


class InnerVariances(NamedTuple):
    """Pre-activations as a tangent kernel of inner weights has them, beside a signal of size 1."""

    of_signal: float
    of_bias: float
    """Of the largest bias, 1."""


@dataclass(frozen=True)
class NetworkConstants:
    """The constants of layers 1 … depth of a network."""

    network: Network
    depth: int

    @once
    def has_like_layers(self) -> bool:
        """True if all layers have the same constants, whatever their filters."""
        net = self.network
        alike = not any(isinstance(getattr(net, name), tuple) for name in OF_LAYERS - FILTER_FIELDS)
        return alike and not (net.norm and net.homogeneous)

    @property
    def different_layers(self) -> range:
        """The numbers of layers 1 … depth, or of one if all have the same constants."""
        return range(1, 2 if self.has_like_layers else self.depth + 1)

    def of_layer(self, layer_number: int) -> LayerConstants:
        """Return the constants of a layer, from 1 on."""
        return self._constants[0 if self.has_like_layers else layer_number - 1]

    @once
    def _constants(self) -> tuple[LayerConstants, ...]:
        """The constants of layers 1 … depth, or of one if all are alike."""
        net = self.network
        layers = map(net.layer, self.different_layers)
        if not net.homogeneous:
            return tuple(map(_smooth, layers))
        if net.norm:
            variances = self._feature_variances
            return tuple(map(_normalized, layers, variances, variances[1:]))
        return tuple(_divided(layer, self.has_bias) for layer in layers)

    @once
    def _feature_variances(self) -> tuple[Fraction, ...]:
        """S_0 … S_L of a network with normalization."""

        def behind(before: Fraction, layer: Layer) -> Fraction:
            after = layer.exact_identity_gain * before + layer.exact_branch_gain
            return after or before  # where nothing is left, nothing is divided

        layers = map(self.network.layer, range(1, self.depth + 1))
        return tuple(accumulate(layers, behind, initial=Fraction(1)))

    def input_weight(self, layer_number: int) -> float:
        """Return the weight of F⁰ in the features behind a layer, from 0 on: a product of f."""
        if self.has_like_layers:
            return float(self.of_layer(1).weights.features) ** layer_number
        return self._input_weights[layer_number]

    def branch_share(self, layer_number: int) -> float:
        """Return the weight of all branches in the features behind a layer, with normalization.

        It is 1 less `input_weight`, and keeps its digits where branches are weak.
        """
        return self._branch_shares[layer_number]

    @once
    def _branch_shares(self) -> tuple[float, ...]:
        """`branch_share` behind layers 0 … L."""
        gains = (self.network.layer(k).exact_identity_gain for k in range(1, self.depth + 1))
        of_input = accumulate(gains, operator.mul, initial=Fraction(1))
        pairs = zip(of_input, self._feature_variances, strict=True)
        shares = ((total - part) / total for part, total in pairs)
        # A share that is not 0 stays so, however small.
        return tuple(max(float(share), 5e-324) if share else 0.0 for share in shares)

    @once
    def _input_weights(self) -> tuple[float, ...]:
        """The products of f over layers 1 … 0, 1 … 1, 1 … 2, ..."""
        weights = (float(constants.weights.features) for constants in self._constants)
        return tuple(accumulate(weights, operator.mul, initial=1.0))

    @once
    def _inverse_roots(self) -> tuple[float, ...]:
        """The products of 1/√G over layers 1 … 0, 1 … 1, 1 … 2, ..."""
        roots = (c.divisor**-0.5 for c in self._constants)
        return tuple(accumulate(roots, operator.mul, initial=1.0))

    @once
    def carried_parts(self) -> TrainedParts:
        """The parts of A = T + ι F, the tangent kernel that engines carry; ι is its `readout`.

        ι is 1 where the readout is trained, with two exceptions. With frozen inner weights each
        layer would subtract Σ from A, and lose digits. Layers of activations that are not
        homogeneous could amplify rounding errors of A − F. In both cases F is added to T once, at
        the end.
        """
        net = self.network
        carries = net.homogeneous and "inner" in net.trained
        return net.parts if carries else net.parts._replace(readout=0.0)

    @once
    def has_bias(self) -> bool:
        """True if a layer has biases, of the first `depth` or of later ones."""
        return self.network.has_bias

    @once
    def linear_share(self) -> float:
        """λ = 2s / (1 + s²): a leaky ReLU of slope s has κ = (1 − λ) κ_relu + λ κ_linear."""
        return activation_of(self.network).linear_share

    @property
    def has_weak_branches(self) -> bool:
        """True if layers may add little to the features: what cancels in these decides kernels."""
        least = min(constants.weights.branch for constants in self._constants)
        return self.network.norm or least < 2.0**-4 or not self.network.homogeneous

    @once
    def has_opposite(self) -> bool:
        """True if U⁺ = a b (1 + ρ) is carried too, since 2 − w has too few digits of v = 1 + ρ.

        A ReLU layer leaves v ≥ (1 − λ) b / 2 at most pixel pairs. Above 2^-5 rounding errors of
        2 − w cost κ0 less than two units. Other activations may keep pixels opposite, and so does
        normalization beside features of any size.
        """
        least, norm = activation_of(self.network).least_opposite, self.network.norm
        weights = (constants.weights for constants in self._constants)
        weak = (norm or least * w.branch < 2.0**-4 for w in weights if w.features)
        return least < 0.1 or any(weak)

    @once
    def has_identity(self) -> bool:
        """True if features pass a layer."""
        return any(constants.weights.features for constants in self._constants)

    @once
    def has_ordinary_layers(self) -> bool:
        """True if nothing passes some layer."""
        return not all(constants.weights.features for constants in self._constants)

    @once
    def largest_bias(self) -> float:
        """The largest standard deviation of biases that a layer has, the unit of others."""
        return max(constants.layer.bias for constants in self._constants)

    @once
    def least_bias(self) -> float:
        """The smallest standard deviation of biases that a layer has."""
        return min(constants.layer.bias for constants in self._constants)

    @once
    def forgets_size(self) -> bool:
        """True if layer 1 reads normalized features alone: signals of all sizes are alike."""
        net = self.network
        return net.norm and net.homogeneous and not self.of_layer(1).weights.features

    @once
    def linear_growth_bits(self) -> float:
        """By how many bits, at most, all layers multiply variances where σ(u) is about σ'(0) u."""
        bits = 0.0
        for constants in self._constants:
            layer, slope = constants.layer, activation_of(self.network).largest_slope
            gain = float(layer.branch_factor_squared) * layer.inner_variance
            gain *= slope**2 * layer.outer_variance + bool(layer.bias)
            bits += math.log2(max(1.0, layer.identity_factor**2) + min(gain, 2.0**500))
        return bits * self.depth if self.has_like_layers else bits

    @once
    def bias_variance_ratio(self) -> float:
        """H = max over layers of (σ_l/σ)² (1 + 1/(c_v E[σ(u)²]/q)) / c_w, σ the largest bias.

        H σ² is the variance that biases would add at a signal of size 1 if layer 1 had all of them.
        """
        ratios = [
            (c.layer.bias / self.largest_bias) ** 2
            * ((1.0 + c.bias_ratio**2) / c.layer.inner_variance)
            for c in self._constants
            if c.layer.bias
        ]
        return max(ratios, default=0.0)

    @once
    def largest_inner_variances(self) -> InnerVariances:
        """The most that a branch adds to a tangent kernel of its inner weights alone."""
        numbers = self.different_layers
        branch_weights = {k: float(self.of_layer(k).weights.branch) for k in numbers}
        of_bias = max(weight * self.bias_root(k) ** 2 for k, weight in branch_weights.items())
        return InnerVariances(max(branch_weights.values()), of_bias)

    @once
    def common_root(self) -> float:
        """√(1 + H σ²), the root of the variance of normalized features with biases."""
        return math.hypot(1.0, math.sqrt(self.bias_variance_ratio) * self.largest_bias)

    def bias_root(self, layer_number: int, is_branch: bool = False) -> float:
        """Return the root of the variance that biases add in a layer, at a signal of size 1.

        The network's largest bias is 1; layers without biases have 0.
        """
        constants = self.of_layer(layer_number)
        if not constants.layer.bias:
            return 0.0
        if self.network.norm and self.network.homogeneous:
            root = 1.0  # normalized features have one size in all layers
        elif self.has_like_layers:
            root = constants.divisor ** (-0.5 * (layer_number - 1))
        else:
            root = self._inverse_roots[layer_number - 1]
        root = root / math.sqrt(constants.layer.inner_variance)
        if constants.layer.bias != self.largest_bias:
            root *= constants.layer.bias / self.largest_bias
        return root * (constants.bias_ratio if is_branch else 1.0)

    @lru_cache(maxsize=256)  # noqa: B019
    def total_divisor(self, layer_number: int) -> tuple[float, int]:
        """Return the product of G over layers 1 … l as (m, e): m · 2^e with m between ½ and 2.

        It is exact but for one rounding. With normalization it is S.
        """
        if self.network.norm:
            total = self._feature_variances[layer_number]
            exponent = total.numerator.bit_length() - total.denominator.bit_length()
            return float(total / Fraction(2) ** exponent), exponent
        two = decimal.Decimal(2)
        with decimal.localcontext(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            if self.has_like_layers:
                product = _as_decimal(self.of_layer(1).exact_divisor) ** layer_number
            else:
                divisors = (c.exact_divisor for c in self._constants[:layer_number])
                product = math.prod(map(_as_decimal, divisors), start=decimal.Decimal(1))
            bits = product.log10() / two.log10()
            exponent = int(bits.to_integral_value(decimal.ROUND_FLOOR))
            return float(product / two**exponent), exponent


def _as_decimal(number: Fraction) -> decimal.Decimal:
    """Return a number in the digits of the decimal context."""
    return decimal.Decimal(number.numerator) / number.denominator
