"""The constants of a layer, computed exactly: divisor, weights (weights.py) and biases.

network_constants.py has what is known of all layers together.

If the activation is homogeneous, engines divide kernels by the sizes of both signals and by a
divisor G for each layer. If box is the mean over the taps of the outer filter, a layer is ::

    F ← f F + b (box(K) + bias);     f = [skip] / G,  b = β / G.

Layer normalization divides U and A by a b, where a² and b² are the variances of the features of
both signals, and multiplies them by n n'. Normalized features have the standard deviation 1; n is
this 1, divided by the size of the left signal, and n' the same for the right signal. The weights
are then ::

    f = [skip] S_{l−1} / S_l,  b = β / S_l;     S_0 = 1,  S_l = [skip] S_{l−1} + β.

So n is the same in all layers, and the kernels after layer L are divided by S_L.

All engines use the following words. A layer has two paths, the branch and the identity. A *factor*
of a path multiplies its features, and a *weight* of a path multiplies its kernel in the sum of
both; any other factor multiplies the whole sum. A *gain* is the number by which a path multiplies
variances, and a *growth* the number by which the whole layer does. The *variance* of a pixel is F
of the signal with itself at this pixel (`Variances`), and its square root is a standard deviation
("std" in names). A *scale* is the number by which a signal was divided (`Input` has it), or a
parameter of `Network` with "scale" in its name.

======  =======================  ===================================================================
symbol  name                     meaning
======  =======================  ===================================================================
l       `layer_number`           from 1 on; 0 is the input filter
[skip]  `exact_identity_gain`    gain of the identity path: 1, or 0 without it; of `Layer`
α²      `branch_factor_squared`  square of the factor of the branch and its bias; of `Layer`
c_v     `Layer.outer_variance`   variance of the weights after the activation
c_w     `Layer.inner_variance`   variance of the weights before the activation
β       `Layer.branch_gain`      α² c_v c_w E[σ(u)²]/q
1 + β   `Layer.growth`           β without the identity path
p       `Layer.branch_share`     β / (1 + β); 1 without the identity path
G       `divisor`                what engines divide the layer by: 1 + β, or 1 (`divided_layer`)
f       `weights.features`       weight of the features in the sum at the end of the layer
b       `weights.branch`         weight of the branch: β / G, which is p where G is 1 + β
α² c_v  `dual_factor`            factor on `Activation.dual`; 1 if the activation is homogeneous
σ_b     `Layer.bias`             standard deviation of biases; their unit is the largest one, σ
======  =======================  ===================================================================

``docs/theory/network.md`` and ``docs/theory/glossary.md`` define the symbols from l down to p.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from ...network.parts import Layer
from .weights import Weights

MOST_BITS = 500
"""The largest number of bits (log2 of the factor) by which a layer may multiply or divide
variances. Networks with more are refused, because their numbers would leave float64."""


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
    """The constants of a layer; the docstring of this module lists their symbols."""

    layer: Layer
    """The parameters that the network sets for the layer."""
    exact_divisor: Fraction
    """G as an exact fraction. It is 1 if the activation is not homogeneous, and in networks with
    normalization."""
    weights: Weights
    """f and b, the weights of features and branch. b is 1 if the activation is not homogeneous."""
    dual_factor: float
    """The factor on `Activation.dual`: α² c_v, or 1 if the activation is homogeneous, because then
    the weight b includes it."""
    bias_ratio: float
    """The standard deviation that biases add after the activation, divided by the one that they add
    before it."""

    @property
    def divisor(self) -> float:
        """G, rounded to the nearest float64."""
        return float(self.exact_divisor)


def undivided_layer(layer: Layer) -> LayerConstants:
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
    """Return the constants of a layer with a homogeneous activation, from exact G, f and b."""
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


def divided_layer(layer: Layer, network_has_bias: bool) -> LayerConstants:
    """Return the constants of a homogeneous layer that is divided by its growth.

    G is 1 + β in layers with a skip connection and β in others. There are two exceptions, both for
    layers without a skip connection, in which G is 1: if β is 0, and if β is below 1 and the
    network has biases (dividing by β would make the biases large compared with the signals).
    """
    check_growth(layer)
    identity, gain = layer.exact_identity_gain, layer.exact_branch_gain
    divisor = identity + gain
    if network_has_bias or not divisor:
        divisor = max(divisor, Fraction(1))
    return _homogeneous(layer, divisor, identity / divisor, gain / divisor)


def normalized_layer(layer: Layer, before: Fraction, after: Fraction) -> LayerConstants:
    """Return the constants of a homogeneous layer with normalization.

    `before` and `after` are S_{l−1} and S_l.
    """
    features, branch = layer.exact_identity_gain * before / after, layer.exact_branch_gain / after
    return _homogeneous(layer, Fraction(1), features, branch)
