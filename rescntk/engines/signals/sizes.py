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

NO_BITS = -(10**4)
"""An exponent that represents the number 0. It is below the exponents of all other numbers."""


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
    """The squared sizes: `mean`, but for the head "equivariant" of a network without normalization
    F at pixel 1 behind the last layer, or 0 where `mean` is 0."""
    mean: SignalNumbers
    """The mean over pixels of the variances of the signal, its biases and its normalized features
    together."""
    of_signal: SignalNumbers
    """The part of the signal alone in `squared`."""


def squared_sizes(
    operations: Operations, request: Request, variances: PixelNumbers, powers: SignalNumbers
) -> SquaredSizes:
    """Return the squared sizes of signals.

    `variances` are those of the pixels, (n, *pixels), after a division of the signals by `powers`.
    """
    xp, net, constants = array_module(variances), operations.network, operations.constants
    n, pixels = len(variances), variances.shape[1:]
    mean = of_signal = variances.reshape(n, -1).mean(axis=1)
    if (constants.has_bias or net.norm) and not constants.forgets_size:
        added = constants.bias_variance_ratio * (constants.largest_bias / powers) ** 2
        if net.norm:
            added = added + (1.0 / powers) ** 2
        mean = mean + added
    if net.norm or not request.reads_pixel_1:
        return SquaredSizes(mean, mean, of_signal)
    weights, bias_weight = weights_at_pixel_1(operations, pixels)
    of_signal = (variances * xp.asarray(weights)).reshape(n, -1).sum(axis=1)
    at_pixel_1 = of_signal + bias_weight * (constants.largest_bias / powers) ** 2
    return SquaredSizes(xp.where(mean > 0, at_pixel_1, 0.0), mean, of_signal)


class LayerOneExponents(NamedTuple):
    """Exponents of powers of two above the standard deviations of layer 1, (n,) each.

    `NO_BITS` stands for a standard deviation of 0.
    """

    of_input: SignalNumbers
    """Those of the input alone."""
    of_both: SignalNumbers
    """Those of the input and the biases."""


def layer_one_exponents(operations: Operations, X: SignalArray) -> LayerOneExponents:
    """Return the exponents of the signals `X`, which were not divided."""
    xp, net = array_module(X), operations.network
    variances = net.layer(1).inner_variance, net.factor_of_input(X.shape[1]), X.shape[1]
    bits = math.ceil(sum(map(math.log2, filter(None, variances))) / 2)
    has_values = X.reshape(len(X), -1).any(axis=1)
    of_input = xp.where(has_values, exponents_of(X) + bits, NO_BITS)
    bias = operations.constants.largest_bias
    of_bias = math.frexp(bias)[1] if bias else NO_BITS
    return LayerOneExponents(of_input, xp.maximum(of_input, of_bias))


def exponents_of_tiny(operations: Operations, exponents: LayerOneExponents) -> SignalNumbers:
    """Return the exponents, at most 0, of the powers of two that divide signals and biases, (n,).

    They are below 0 only for signals so tiny that the activation is linear for the pre-activations
    of all layers (`Activation.linear_below`).
    """
    of_both = exponents.of_both
    xp = array_module(of_both)
    linear_below = activation_of(operations.network).linear_below
    if not linear_below:
        return xp.zeros(len(of_both), int)
    growth = math.ceil(operations.constants.linear_growth_bits)
    least = int(math.log2(linear_below)) - growth
    divisors: SignalNumbers = xp.where(of_both > NO_BITS, xp.clip(of_both - least, -1000, 0), 0)
    return divisors


def exponents_of(X: SignalArray) -> SignalNumbers:
    """Return the exponents, (n,), of powers of two above the largest absolute value of a signal."""
    xp = array_module(X)
    exponents: SignalNumbers = xp.frexp(xp.abs(X).reshape(len(X), -1).max(axis=1))[1]
    return exponents
