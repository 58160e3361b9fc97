"""The numbers by which signals are divided: powers of two, and sizes.

If the activation is homogeneous, each signal is divided by its size, so that all signals have the
same size in the recursion. If not, only tiny signals are divided, by a power of two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...arrays import PixelNumbers, SignalArray, SignalNumbers, array_module
from ...network.activations import activation_of
from ..layer.operations import Operations
from ..request import Request
from .pixel_1 import weights_at_pixel_1

EXPONENT_OF_ZERO = -(10**4)
"""An exponent that stands for the number 0. It is below the exponents of all other numbers."""


def powers_that_keep_squares(operations: Operations, X: SignalArray) -> SignalNumbers:
    """Return powers of two, (n,), such that squares of the divided signals do not leave float64.

    A power, at most 2^1023, is near the largest absolute value of the signal. If layer 1 combines
    the signal with biases or normalized features, the largest of these numbers is included too.
    """
    xp, constants = array_module(X), operations.constants
    exponents = exponents_of(X)
    largest = max(constants.largest_bias, float(operations.network.norm))
    if largest and not constants.forgets_size:
        bits = math.frexp(largest)[1]
        has_values = X.reshape(len(X), -1).any(axis=1)
        exponents = xp.where(has_values, xp.maximum(exponents, bits), bits)
    powers: SignalNumbers = xp.ldexp(xp.ones(len(X)), exponents - 1)
    return powers


class SquaredSizes(NamedTuple):
    """The squared sizes of signals that were divided by powers of two, and what they consist of.

    All are arrays (n,).
    """

    squared: SignalNumbers
    """The squared sizes. They are `mean`. But for the head "equivariant" of a network without
    normalization they are F at pixel 1 after the last layer, or 0 where `mean` is 0."""
    mean: SignalNumbers
    """The mean over pixels of the variances of the signal, its biases and its normalized features
    together."""
    signal_part: SignalNumbers
    """The part of the signal alone in `squared`."""


def squared_sizes(
    operations: Operations, request: Request, variances: PixelNumbers, powers: SignalNumbers
) -> SquaredSizes:
    """Return the squared sizes of signals.

    `variances` are those of the pixels, (n, *pixels), after a division of the signals by `powers`.
    """
    xp, net, constants = array_module(variances), operations.network, operations.constants
    n, pixels = len(variances), variances.shape[1:]
    mean = signal_part = variances.reshape(n, -1).mean(axis=1)
    if (constants.has_bias or net.norm) and not constants.forgets_size:
        added = operations.bounds.bias_variance_ratio * (constants.largest_bias / powers) ** 2
        if net.norm:
            added = added + (1.0 / powers) ** 2
        mean = mean + added
    if net.norm or not request.reads_pixel_1:
        return SquaredSizes(mean, mean, signal_part)
    weights, bias_weight = weights_at_pixel_1(operations, pixels)
    signal_part = (variances * xp.asarray(weights)).reshape(n, -1).sum(axis=1)
    at_pixel_1 = signal_part + bias_weight * (constants.largest_bias / powers) ** 2
    return SquaredSizes(xp.where(mean > 0, at_pixel_1, 0.0), mean, signal_part)


class LayerOneExponents(NamedTuple):
    """Exponents of powers of two above the standard deviations of layer 1, (n,) each.

    `EXPONENT_OF_ZERO` stands for a standard deviation of 0.
    """

    input: SignalNumbers
    """Those of the input alone."""
    input_and_biases: SignalNumbers
    """Those of the input and the biases together."""


def layer_one_exponents(operations: Operations, X: SignalArray) -> LayerOneExponents:
    """Return the exponents of the signals `X`, which were not divided."""
    xp, net = array_module(X), operations.network
    variances = net.layer(1).inner_variance, net.factor_of_input(X.shape[1]), X.shape[1]
    bits = math.ceil(sum(map(math.log2, filter(None, variances))) / 2)
    has_values = X.reshape(len(X), -1).any(axis=1)
    input_exponents = xp.where(has_values, exponents_of(X) + bits, EXPONENT_OF_ZERO)
    bias = operations.constants.largest_bias
    bias_exponent = math.frexp(bias)[1] if bias else EXPONENT_OF_ZERO
    return LayerOneExponents(input_exponents, xp.maximum(input_exponents, bias_exponent))


def divisor_exponents(operations: Operations, exponents: LayerOneExponents) -> SignalNumbers:
    """Return the exponents, at most 0, of the powers of two that divide signals and biases, (n,).

    They are below 0 only for signals so tiny that the activation is linear for the pre-activations
    of all layers (`Activation.linear_below`).
    """
    both = exponents.input_and_biases
    xp = array_module(both)
    linear_below = activation_of(operations.network).linear_below
    if not linear_below:
        return xp.zeros(len(both), int)
    growth = math.ceil(operations.bounds.linear_growth_bits)
    least = int(math.log2(linear_below)) - growth
    divisors: SignalNumbers = xp.where(both > EXPONENT_OF_ZERO, xp.clip(both - least, -1000, 0), 0)
    return divisors


def exponents_of(X: SignalArray) -> SignalNumbers:
    """Return the exponents, (n,), of powers of two above the largest absolute value of a signal."""
    xp = array_module(X)
    exponents: SignalNumbers = xp.frexp(xp.abs(X).reshape(len(X), -1).max(axis=1))[1]
    return exponents
