"""Masses: variances of each pixel of a signal, operation by operation.

Masses are the recursion at x = z, j = j', which is linear if the activation is homogeneous.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import lru_cache, reduce
from itertools import chain
from types import ModuleType

import numpy as np

from ..activations import activation_of
from ..arrays import Array, array_module
from .means import (
    column,
    from_the_middle,
    past_skip,
    sum_and_rest,
    taps_of,
    weighted_mean,
    window_mean,
)
from .operations import Operation, Operations

_LEAST_VARIANCE = 1e-153
"""Least variance of a last layer without skip connections, whose kernels are to keep digits."""


def masses_of(
    operations: Operations, xp: ModuleType, energy: Array, bias: Array, norm: Array
) -> Iterator[tuple[Operation, list[Array], list[float], Array]]:
    """Yield each operation with its parts, their weights, and the mass of the whole, (n, *pixels).

    The first part has the most weight, so that coordinates of the others are small. `energy` is of
    single pixels; `bias` and `norm`, (n,), are the variances of biases and normalized features.
    """
    features = mass = energy
    # What rounding has lost of sums with biases, which all layers round alike.
    lost_features = lost = 0.0 * energy
    has_bias = operations.constants.has_bias
    for number, of_layer in enumerate((operations.input, *operations.layers)):
        constants = operations.constants.of_layer(max(number, 1))
        for operation in of_layer:
            if operation.kind == "norm":
                parts, mass = [mass], xp.where(mass > 0, column(norm, mass), 0.0)
                lost = 0.0 * mass
                yield operation, parts, [1.0], mass
                continue
            if operation.kind == "activation":
                parts = [mass]
                if operation.has_root:
                    mass = _branch_masses(operations, operation, mass, energy)
                    lost = 0.0 * mass
                yield operation, parts, [1.0], mass
                continue
            if operation.kind == "bias":
                root = operations.constants.bias(operation.layer, operation.is_branch)
                variance = column(root**2 * bias, mass)
                parts, weights = [mass, variance + xp.zeros_like(mass)], [1.0, 1.0]
                mass, lost = sum_and_rest(mass, parts[1] + lost)
            elif operation.kind == "skip":
                parts, weights = (
                    [features, mass],
                    [constants.feature_factor, constants.branch_factor],
                )
                mass = past_skip(features, mass, *weights)
                if has_bias:
                    lost = past_skip(lost_features, lost, *weights)
                if constants.feature_factor < constants.branch_factor:
                    parts, weights = parts[::-1], weights[::-1]
            elif operation.kind == "joined":
                weights = from_the_middle(operations.joined_weights(operation.layer))
                parts = taps_of(mass, operation.window, 1)
                mass = weighted_mean(parts, weights)
            elif operation.kind == "window":
                weights = list(operation.window.weights)
                parts = taps_of(mass, operation.window, 1)
                mass = weighted_mean(parts, weights)
                if has_bias:
                    lost = window_mean(lost, operation.window, 1)
            else:
                raise NotImplementedError(f"masses have no operation {operation.kind!r}")
            yield operation, parts, weights, mass
        features, lost_features = mass, lost


def _branch_masses(
    operations: Operations, operation: Operation, mass: Array, energy: Array
) -> Array:
    """Return the masses behind an activation that is not homogeneous, of pre-activations."""
    check_variances(operations, operation.layer, mass, energy)
    constants = operations.constants.of_layer(operation.layer)
    variance = activation_of(operations.network).variance(constants.layer.c_w * mass)
    with np.errstate(over="ignore"):
        mass = constants.branch_scale * variance
    if not bool(array_module(mass).isfinite(mass).all()):
        raise OverflowError(
            f"variances of layer {operation.layer} exceed float64, expected smaller signals, "
            f"alpha or c_v"
        )
    return mass


def check_variances(operations: Operations, layer: int, mass: Array, energy: Array) -> None:
    """Raise an OverflowError if pre-activations leave the range in which `Activation.dual` works.

    `mass` is of the pre-activations of a layer, and `energy` of the input, (n, *pixels).
    """
    net, of_layer = operations.network, operations.constants.of_layer(layer).layer
    most = activation_of(net).largest_variance
    with np.errstate(over="ignore"):
        largest = float(of_layer.c_w * mass.max())
    if not largest < most:
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}: variances "
            f"of layer {layer} reach {largest:.3g}, expected less than {most:g}"
        )
    if layer < operations.depth or of_layer.skip or not of_layer.has_branch:
        return
    last, enters = (masses.reshape(len(mass), -1).max(axis=1) for masses in (mass, energy))
    if bool(((enters > 0) & (of_layer.c_w * last < _LEAST_VARIANCE)).any()):
        raise OverflowError(
            f"variances of layer {layer} fall below {_LEAST_VARIANCE:g}, expected a "
            f"smaller depth or larger c_v and c_w: float64 does not resolve kernels that small"
        )


@lru_cache(maxsize=64)
def seen_by_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> np.ndarray:
    """Return which pixels reach pixel 1, also where their weights leave the range of float64."""
    seen = np.zeros((1, *pixels), bool)
    seen[(0, *[0] * len(pixels))] = True
    layers = [operations.constants.of_layer(k).layer for k in range(1, operations.depth + 1)]
    for operation in chain(operations.input, *operations.layers):
        if operation.window is not None and (
            operation.layer == 0 or layers[operation.layer - 1].has_branch
        ):
            seen = reduce(operator.or_, taps_of(seen, operation.window, 1))
    return seen[0] & all(layer.skip or layer.has_branch for layer in layers)


@lru_cache(maxsize=64)
def weights_at_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Return the weight of each pixel's energy, and of a bias σ_b = 1, in F at pixel 1.

    The activation is homogeneous. Windows are symmetric: pixel j reaches pixel 1 with the weight of
    pixel 1 in pixel j.
    """
    energy = np.zeros((2, *pixels))
    energy[(0, *[0] * len(pixels))] = 1.0
    *_, last = masses_of(operations, np, energy, np.array([0.0, 1.0]), np.zeros(2))
    return last[-1][0], float(last[-1][1].flat[0])
