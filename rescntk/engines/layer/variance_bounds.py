"""`VarianceBounds`: how variances may grow and fall, from the constants of all layers alone.

Signals are divided (signals/sizes.py) and refused (signals/checks.py) by these numbers, before
variances are computed. A new number of a layer may change any of them. The largest standard
deviation of biases is σ here, and H is `bias_variance_ratio`.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from ...lazy import once
from ...network.activations import activation_of
from .network_constants import NetworkConstants


class InnerVariances(NamedTuple):
    """Variances of pre-activations that trained inner weights add to the tangent kernel."""

    signal: float
    """The part of a signal of size 1."""
    bias: float
    """The part of the biases, if the largest standard deviation of biases is 1."""


@dataclass(frozen=True)
class VarianceBounds:
    """Bounds of the variances in the layers of a network."""

    constants: NetworkConstants

    @once
    def may_lose_size(self) -> bool:
        """True if the mean variance of a signal of size 1 may fall from layer to layer.

        If the activation is homogeneous and the network has neither biases nor normalization,
        layers are divided by their growth and keep the mean variance. With biases it may fall,
        because the size of a signal includes biases that only later layers add. With normalization
        it may fall if some layer does not keep features. If the activation is not homogeneous,
        signals are not divided by their sizes, and the result is False.
        """
        net = self.constants.network
        if net.norm and net.homogeneous:
            return not all(
                layer_constants.layer.keeps_features for layer_constants in self.constants.distinct
            )
        return net.homogeneous and self.constants.has_bias

    @once
    def linear_growth_bits(self) -> float:
        """An upper bound of log2 of the factor by which all layers multiply the variance.

        It holds where σ(u) is about σ'(0) u.
        """
        constants, bits = self.constants, 0.0
        slope = activation_of(constants.network).largest_slope
        for layer_constants in constants.distinct:
            layer = layer_constants.layer
            gain = float(layer.branch_factor_squared) * layer.inner_variance
            gain *= slope**2 * layer.outer_variance + bool(layer.bias)
            bits += math.log2(max(1.0, layer.identity_factor**2) + min(gain, 2.0**500))
        return bits * constants.depth if constants.has_equal_constants else bits

    def total_branch_share(self, layer_number: int) -> float:
        """Return the share of all branches together in the features after a layer.

        The network has normalization. The share is 1 − `NetworkConstants.input_weight`, but it is
        computed without cancellation, so that it is accurate even where branches are weak.
        """
        return self._total_branch_shares[layer_number]

    @once
    def _total_branch_shares(self) -> tuple[float, ...]:
        """`total_branch_share` after layers 0 … L."""
        layers = map(self.constants.network.layer, range(1, self.constants.depth + 1))
        gains = (layer.exact_identity_gain for layer in layers)
        input_parts = accumulate(gains, operator.mul, initial=Fraction(1))
        pairs = zip(input_parts, self.constants.feature_variances, strict=True)
        shares = ((total - part) / total for part, total in pairs)
        # A positive share is not rounded to 0, however small it is.
        return tuple(max(float(share), 5e-324) if share else 0.0 for share in shares)

    @once
    def least_bias(self) -> float:
        """The smallest standard deviation of biases of all layers."""
        return min(layer_constants.layer.bias for layer_constants in self.constants.distinct)

    @once
    def bias_variance_ratio(self) -> float:
        """H = max over layers of (σ_l/σ)² (1 + 1/(c_v E[σ(u)²]/q)) / c_w, σ the largest bias.

        H σ² is the variance that biases would add to a signal of size 1 if layer 1 had the biases
        of the layer with the largest value.
        """
        ratios = [
            (layer_constants.layer.bias / self.constants.largest_bias) ** 2
            * ((1.0 + layer_constants.bias_ratio**2) / layer_constants.layer.inner_variance)
            for layer_constants in self.constants.distinct
            if layer_constants.layer.bias
        ]
        return max(ratios, default=0.0)

    @once
    def common_std(self) -> float:
        """√(1 + H σ²), the standard deviation of normalized features together with biases."""
        return math.hypot(1.0, math.sqrt(self.bias_variance_ratio) * self.constants.largest_bias)

    @once
    def largest_inner_variances(self) -> InnerVariances:
        """The largest variances, over all layers, that inner weights add to a tangent kernel."""
        constants = self.constants
        branch_weights = [
            float(layer_constants.weights.branch) for layer_constants in constants.distinct
        ]
        bias_part = max(
            weight * constants.bias_std(layer_number) ** 2
            for layer_number, weight in enumerate(branch_weights, start=1)
        )
        return InnerVariances(max(branch_weights), bias_part)
