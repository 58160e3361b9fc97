"""`ArraySignalContext`: what the steps may ask about signals whose tables are computed.

The arrays are those of NumPy or CuPy. JAX has its own `JaxSignalContext` (jax/pairs.py).
"""

from __future__ import annotations

from copy import copy
from dataclasses import KW_ONLY, dataclass
from types import ModuleType

from ...arrays import Array, PixelNumbers, SignalNumbers
from ...lazy import once
from ...network.activations import Activation, activation_of
from ..layer.constants import LayerConstants
from ..layer.means import at_taps, column
from ..layer.operations import Operations
from ..layer.step import Variances
from ..layer.taps import Taps
from ..layer.weights import RoundedWeights

_LEAST_DIVISOR = 1e-300
"""The number that replaces smaller variances as divisors. Where the variance of a merge is 0, its
parts and coordinates are 0 too."""


@dataclass(eq=False)
class ArraySignalContext:
    """The implementation of `step.SignalContext` for arrays of n signals of one length.

    No signal is refused; the subclass in tables.py does that.
    """

    operations: Operations
    xp: ModuleType
    input_variance: PixelNumbers
    """(n, *pixels), the variances of the input."""
    _: KW_ONLY
    bias: SignalNumbers
    """(n,), the largest standard deviation of biases, divided by the scale of each signal."""
    normalized_std: SignalNumbers
    """(n,), the standard deviation of normalized features, divided by the scale of each signal."""
    least_std: float = 0.0
    layer_number: int = 0
    """The number of the layer whose constants are returned."""

    def of_layer(self, layer_number: int) -> ArraySignalContext:
        """Return a copy for the steps of another layer."""
        context = copy(self)
        context.layer_number = layer_number
        return context

    @once
    def activation(self) -> Activation:
        return activation_of(self.operations.network)

    @property
    def layer_constants(self) -> LayerConstants:
        return self.operations.constants.of_layer(self.layer_number)

    @property
    def layer_weights(self) -> RoundedWeights:
        return self.layer_constants.weights.rounded

    def sqrt(self, values: Array) -> Array:
        roots: Array = self.xp.sqrt(values)
        return roots

    def positive(self, values: Array) -> Array:
        divisors: Array = self.xp.maximum(values, _LEAST_DIVISOR)
        return divisors

    def at_taps(self, values: Array, taps: Taps) -> list[Array]:
        return at_taps(self.xp, values, taps, 1)

    def bias_variance(self, after_activation: bool) -> Array:
        std = self.operations.constants.bias_std(self.layer_number, after_activation)
        return column(std**2 * self.bias**2, self.input_variance)

    def norm_std(self) -> Array:
        return column(self.normalized_std, self.input_variance)

    def exact_variances(self, variance: PixelNumbers) -> Variances:
        rounding_error = 0.0 * variance if self.operations.constants.has_bias else None
        return Variances(variance, rounding_error, self.sqrt(variance))

    def check_features(self, features: Variances) -> None:
        """Accept all features."""

    def check_preactivations(self, variance: PixelNumbers) -> None:
        """Accept all pre-activations."""

    def check_activated(self, variance: PixelNumbers) -> None:
        """Accept all variances."""
