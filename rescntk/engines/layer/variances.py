"""`SignalVariances`: the recursion of signals alone, which gives the variances of their pixels.

A variance is F at x = z and j = j'. Its recursion is linear if the activation is homogeneous.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import chain
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...arrays import PixelNumbers, SignalNumbers
from ...network.activations import activation_of
from .means import (
    column,
    from_the_middle,
    sum_and_rest,
    taps_of,
    weighted_mean,
    window_mean,
)
from .operations import Operation, Operations
from .recursion import NO_KERNELS, Kernels, Recursion
from .weights import RoundedWeights
from .window import Window

_LEAST_VARIANCE = 1e-153
"""Least variance of a last layer without skip connections, whose kernels are to keep digits."""


class VarianceState(NamedTuple):
    """The variances of signals behind an operation, (n, *pixels)."""

    variance: PixelNumbers
    rounding_error: PixelNumbers
    """The rounding errors of variances with biases. The next bias adds them: their sign is the same
    in all layers."""
    root: PixelNumbers
    """The root of the variance."""


class SignalVariances(Recursion[VarianceState]):
    """The recursion of signals alone, from the energy of their pixels, (n, *pixels).

    `bias_variance` and `norm_variance`, (n,), are of biases and of normalized features. Subclasses
    learn of each operation by `report_norm`, `report_activation` and `report_merge`.
    """

    def __init__(
        self,
        operations: Operations,
        xp: ModuleType,
        energy: PixelNumbers,
        bias_variance: SignalNumbers,
        norm_variance: SignalNumbers,
    ) -> None:
        self.operations, self.xp, self.energy = operations, xp, energy
        self.bias_variance, self.norm_variance = bias_variance, norm_variance
        self.trained = operations.constants.carried_parts

    def report_norm(self, operation: Operation, before: PixelNumbers, root: PixelNumbers) -> None:
        """Take the roots of variances before and after a normalization."""

    def report_activation(
        self, operation: Operation, before: PixelNumbers, root: PixelNumbers
    ) -> None:
        """Take the roots of variances before and after an activation."""

    def report_merge(
        self,
        operation: Operation,
        parts: list[PixelNumbers],
        weights: Sequence[float],
        variance: PixelNumbers,
        root: PixelNumbers,
    ) -> None:
        """Take the parts of a merge, the heaviest first, and the whole's variance and root."""

    def last(self) -> VarianceState:
        """Return the variances behind the last layer."""
        return self.around_last_layer()[1]

    def around_last_layer(self) -> tuple[VarianceState, VarianceState]:
        """Return the variances before the last layer, and behind its last operation."""
        state = self.state(self.energy)
        for operation in self.operations.input:
            state = self.window(operation, state)
        features = state
        for layer_operations in self.operations.layers:
            features = state
            state, _ = self.behind_layer(layer_operations, features, NO_KERNELS, 0.0, 0.0)
        return features, state

    def state(self, variance: PixelNumbers) -> VarianceState:
        """Return the state of variances that have no rounding errors yet."""
        return VarianceState(variance, 0.0 * variance, self.xp.sqrt(variance))

    def norm(
        self, operation: Operation, state: VarianceState
    ) -> tuple[VarianceState, PixelNumbers]:
        variance = self.xp.where(
            state.variance > 0, column(self.norm_variance, state.variance), 0.0
        )
        after = self.state(variance)
        self.report_norm(operation, state.root, after.root)
        return after, variance

    def activate(
        self, operation: Operation, state: VarianceState, A: PixelNumbers | None
    ) -> tuple[VarianceState, Kernels]:
        after = state
        if operation.has_root:
            after = self.state(self._behind_smooth_activation(operation, state.variance))
        self.report_activation(operation, state.root, after.root)
        return after, NO_KERNELS

    def bias(
        self, operation: Operation, state: VarianceState
    ) -> tuple[VarianceState, PixelNumbers]:
        root = self.operations.constants.bias_root(operation.layer_number, operation.is_branch)
        of_bias = column(root**2 * self.bias_variance, state.variance)
        parts = [state.variance, of_bias + self.xp.zeros_like(state.variance)]
        variance, rounding_error = sum_and_rest(state.variance, parts[1] + state.rounding_error)
        return self._merged(operation, parts, [1.0, 1.0], variance, rounding_error), of_bias

    def window(self, operation: Operation, state: VarianceState) -> VarianceState:
        parts, weights = taps_of(state.variance, operation.window, 1), operation.window.weights
        rounding_error = state.rounding_error
        if self.operations.constants.has_bias:
            rounding_error = self.mean(operation.window, rounding_error)
        return self._merged(
            operation, parts, weights, weighted_mean(parts, weights), rounding_error
        )

    def joined(self, operation: Operation, state: VarianceState) -> VarianceState:
        weights = from_the_middle(self.operations.joined_weights(operation.layer_number))
        parts = taps_of(state.variance, operation.window, 1)
        return self._merged(
            operation, parts, weights, weighted_mean(parts, weights), state.rounding_error
        )

    def skip(
        self, operation: Operation, features: VarianceState, branch: VarianceState
    ) -> tuple[VarianceState, RoundedWeights]:
        constants = self.operations.constants.of_layer(operation.layer_number)
        weights = constants.weights.rounded
        variance, rounding_error = (
            weights.merged(features.variance, branch.variance),
            branch.rounding_error,
        )
        if self.operations.constants.has_bias:
            rounding_error = weights.merged(features.rounding_error, rounding_error)
        forward = 1 if weights.features >= weights.branch else -1
        parts = [features.variance, branch.variance][::forward]
        of_parts = [weights.features, weights.branch][::forward]
        return self._merged(operation, parts, of_parts, variance, rounding_error), weights

    def mean(self, window: Window, values: PixelNumbers) -> PixelNumbers:
        return window_mean(values, window, 1)

    def _merged(
        self,
        operation: Operation,
        parts: list[PixelNumbers],
        weights: Sequence[float],
        variance: PixelNumbers,
        rounding_error: PixelNumbers,
    ) -> VarianceState:
        root = self.xp.sqrt(variance)
        self.report_merge(operation, parts, weights, variance, root)
        return VarianceState(variance, rounding_error, root)

    def _behind_smooth_activation(
        self, operation: Operation, variance: PixelNumbers
    ) -> PixelNumbers:
        """Return the variances behind an activation that is not homogeneous, of pre-activations."""
        check_variances(self.operations, operation.layer_number, variance, self.energy)
        constants = self.operations.constants.of_layer(operation.layer_number)
        activation, c_w = activation_of(self.operations.network), constants.layer.inner_variance
        activated = activation.variance(c_w * variance)
        with np.errstate(over="ignore"):
            variance = constants.dual_factor * activated
        if not bool(self.xp.isfinite(variance).all()):
            raise OverflowError(
                f"variances of layer {operation.layer_number} exceed float64, expected smaller "
                f"signals, alpha or c_v"
            )
        return variance


def check_variances(
    operations: Operations, layer_number: int, variance: PixelNumbers, energy: PixelNumbers
) -> None:
    """Raise an OverflowError if pre-activations leave the range in which `Activation.dual` works.

    `variance` is of the pre-activations of a layer, and `energy` of the input, (n, *pixels).
    """
    net, constants = operations.network, operations.constants.of_layer(layer_number)
    layer = constants.layer
    most = activation_of(net).largest_variance
    with np.errstate(over="ignore"):
        largest = float(layer.inner_variance * variance.max())
    if not largest < most:
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}: variances "
            f"of layer {layer_number} reach {largest:.3g}, expected less than {most:g}"
        )
    if layer_number < operations.depth or constants.weights.features or not layer.has_branch:
        return
    last, enters = (values.reshape(len(variance), -1).max(axis=1) for values in (variance, energy))
    if bool(((enters > 0) & (layer.inner_variance * last < _LEAST_VARIANCE)).any()):
        raise OverflowError(
            f"variances of layer {layer_number} fall below {_LEAST_VARIANCE:g}, expected a "
            f"smaller depth or larger c_v and c_w: float64 does not resolve kernels that small"
        )


@lru_cache(maxsize=64)
def seen_by_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> np.ndarray:
    """Return which pixels reach pixel 1, also where their weights leave the range of float64."""
    seen = np.zeros((1, *pixels), bool)
    seen[(0, *[0] * len(pixels))] = True
    layers = [operations.constants.of_layer(k) for k in range(1, operations.depth + 1)]
    has_branch = [constants.layer.has_branch for constants in layers]
    passes = [True, *has_branch]  # of the input filter, and of layers
    for operation in chain(operations.input, *operations.layers):
        if operation.window.n_taps and passes[operation.layer_number]:
            seen = reduce(operator.or_, taps_of(seen, operation.window, 1))
    ends = (not c.weights.features and not c.layer.has_branch for c in layers)
    return seen[0] & (not any(ends))


@lru_cache(maxsize=64)
def weights_at_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Return the weight of each pixel's energy, and of a bias σ_b = 1, in F at pixel 1.

    The activation is homogeneous. Windows are symmetric: pixel j reaches pixel 1 with the weight of
    pixel 1 in pixel j.
    """
    energy = np.zeros((2, *pixels))
    energy[(0, *[0] * len(pixels))] = 1.0
    bias, norm = np.array([0.0, 1.0]), np.zeros(2)
    pixel_weights, bias_weights = (
        SignalVariances(operations, np, energy, bias, norm).last().variance
    )
    return pixel_weights, float(bias_weights.flat[0])
