"""`ArraySignalContext`: variances of single signals, for the engines that have tables of signals.

Two functions say which pixels of a signal reach pixel 1 through all filters, and with which
weights.
"""

from __future__ import annotations

import operator
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from types import ModuleType

import numpy as np

from ...arrays import Array, PixelNumbers, SignalNumbers
from ...lazy import once
from ...network.activations import Activation, activation_of
from .constants import LayerConstants
from .means import at_taps, column
from .operations import Operations
from .recursion import variances_around_last_layer
from .step import Variances
from .taps import Taps
from .weights import RoundedWeights

_LEAST_VARIANCE = 1e-153
"""The smallest variance that the last layer may have, if it has no skip connection and its kernels
are to be accurate."""

_LEAST_DIVISOR = 1e-300
"""The number that replaces smaller variances as divisors. Where the variance of a merge is 0, its
parts and coordinates are 0 too."""


@dataclass(eq=False)
class ArraySignalContext:
    """Arrays of n signals of one length, and the answers to their steps (`step.SignalContext`)."""

    operations: Operations
    xp: ModuleType
    input_variance: PixelNumbers
    """(n, *pixels), the variances of the input."""
    bias: SignalNumbers
    """(n,), the largest standard deviation of biases, divided by the scale of each signal."""
    normalized_std: SignalNumbers
    """(n,), the standard deviation of normalized features, divided by the scale of each signal."""
    least_std: float = 0.0
    layer_number: int = 0
    """The number of the layer whose constants are returned."""

    def of_layer(self, layer_number: int) -> ArraySignalContext:
        """Return a copy that answers the steps of another layer."""
        of_layer = copy(self)
        of_layer.layer_number = layer_number
        return of_layer

    @once
    def activation(self) -> Activation:
        return activation_of(self.operations.network)

    @property
    def layer_constants(self) -> LayerConstants:
        return self.operations.constants.of_layer(self.layer_number)

    @property
    def weights(self) -> RoundedWeights:
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

    def state(self, variance: PixelNumbers) -> Variances:
        rounding_error = 0.0 * variance if self.operations.constants.has_bias else None
        return Variances(variance, rounding_error, self.sqrt(variance))

    def check_features(self, features: Variances) -> None:
        """Accept all features; the subclass in signals/tables.py checks them."""

    def check_preactivations(self, variance: PixelNumbers) -> None:
        check_variances(self.operations, self.layer_number, variance, self.input_variance)

    def check_activated(self, variance: PixelNumbers) -> None:
        if not bool(self.xp.isfinite(variance).all()):
            raise OverflowError(
                f"variances of layer {self.layer_number} exceed float64, expected smaller "
                f"signals, alpha or c_v"
            )


def check_variances(
    operations: Operations, layer_number: int, variance: PixelNumbers, input_variance: PixelNumbers
) -> None:
    """Raise an OverflowError if pre-activations leave the range in which `Activation.dual` works.

    `variance`, (n, *pixels), times c_w is the variance of the pre-activations of a layer, and
    `input_variance`, (n, *pixels), is the variance of the input.
    """
    net, constants = operations.network, operations.constants.of_layer(layer_number)
    layer = constants.layer
    most = activation_of(net).largest_variance
    largest = float(layer.inner_variance * variance.max())
    if not largest < most:
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}: variances "
            f"of layer {layer_number} reach {largest:.3g}, expected less than {most:g}"
        )
    features_stay = layer.exact_identity_gain >= 1
    if layer_number < operations.depth or features_stay or not layer.has_branch:
        return
    last, enters = (
        values.reshape(len(variance), -1).max(axis=1) for values in (variance, input_variance)
    )
    if bool(((enters > 0) & (layer.inner_variance * last < _LEAST_VARIANCE)).any()):
        raise OverflowError(
            f"variances of layer {layer_number} fall below {_LEAST_VARIANCE:g}, expected a "
            f"smaller depth or larger c_v and c_w: float64 does not resolve kernels that small"
        )


@lru_cache(maxsize=64)
def seen_by_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> np.ndarray:
    """Return a mask of the pixels whose values influence pixel 1 behind the last layer.

    It is also right for pixels whose weights are outside the range of float64.
    """
    seen = np.zeros((1, *pixels), bool)
    seen[(0, *[0] * len(pixels))] = True
    layers = [operations.constants.of_layer(k) for k in range(1, operations.depth + 1)]
    has_branch = [constants.layer.has_branch for constants in layers]
    passes = [True, *has_branch]  # whether pixels spread in the input filter, and in each layer
    for operation in chain(operations.input, *operations.layers):
        taps = operation.step.taps
        if taps.n_taps and passes[operation.layer_number]:
            seen = reduce(operator.or_, at_taps(np, seen, taps, 1))
    ends = (not c.weights.features and not c.layer.has_branch for c in layers)
    return seen[0] & (not any(ends))


@lru_cache(maxsize=64)
def weights_at_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Return the weight of each pixel's variance in F at pixel 1, and that of biases with σ_b = 1.

    The activation must be homogeneous. The weights are computed as the variances behind the last
    layer of a signal that is 0 except at pixel 1: filters are symmetric, so that the weight of
    pixel j in pixel 1 is the weight of pixel 1 in pixel j.
    """
    input_variance = np.zeros((2, *pixels))
    input_variance[(0, *[0] * len(pixels))] = 1.0
    signals = ArraySignalContext(operations, np, input_variance, np.array([0.0, 1.0]), np.zeros(2))
    _, last = variances_around_last_layer(
        signals.of_layer, operations, signals.state(input_variance)
    )
    pixel_weights, bias_weights = last.variance
    return pixel_weights, float(bias_weights.flat[0])
