"""`Input`: signals, divided by their sizes, as the recursion needs them.

Signals whose kernels would be inaccurate in the working precision raise an OverflowError.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...arrays import Array, PixelNumbers, SignalArray, SignalNumbers, array_module
from ...network.activations import activation_of
from ..heads import pool_pixels
from ..layer.means import (
    at_taps,
    column,
    exact_means,
    mean_over_taps,
    pooled,
    sum_over_terms,
)
from ..layer.operations import Operations
from ..layer.variances import seen_by_pixel_1, weights_at_pixel_1
from ..request import Request

_LEAST_PIXEL = {"float32": 1e-33, "float64": 1e-280}
"""The smallest fraction of a signal's variance that a pixel may have if its features are
normalized. With smaller ones, the products of the features of two pixels would be inaccurate."""

LEAST_FRACTION = {"float32": 1e-28, "float64": 1e-280}
"""For each precision, the smallest fraction of a signal's variance that may determine a kernel.

Smaller fractions would be subnormal numbers, or the rest of the signal would overflow. Such calls
are refused. 1e-28 is ten decades above the smallest normal number of float32.
"""

_NONE = -(10**4)
"""An exponent that represents the number 0. It is below the exponents of all other numbers."""

_LEAST_BITS = -450
"""The smallest binary exponent that the standard deviation of pre-activations of layer 1 may have.
With smaller ones, their squares would be inaccurate."""

_LEAST_FRACTION_LEFT = 1e-300
"""A number that is used for the fraction of a pixel that is not 0, but whose fraction underflowed
to 0. So the pixel is refused as too small instead of being treated as 0."""


@dataclass(frozen=True)
class Input:
    """The input of some signals of one length, divided by their sizes."""

    unit: SignalArray
    """(n, channels, *pixels), each pixel's vector divided by its norm; 0 where the norm is 0."""
    input_variance: PixelNumbers
    """(n, *pixels), the variance of each pixel, F⁰ at x = z, before the input filter."""
    pixels: SignalArray
    """(n, channels, *pixels), the divided signals, multiplied by the square root of the network's
    input scale. The inner products of pixels over channels are F⁰ before the input filter."""
    means: Array
    """The means of `pixels`. Their inner products over channels are means of F⁰.

    The shape is (n, channels), for the means over all pixels. For pooled heads it is
    (n, channels, *pixels), for the mean over the pool that begins at each pixel; with shares, these
    means are averaged again over all pools that contain the pixel. The means are computed with more
    digits than float64 and then rounded, except if the activation is homogeneous, branches are not
    weak and the head has no pools.
    """
    scale: SignalNumbers
    """(n,), the number by which each signal was divided. It is infinite or NaN if it is outside the
    range of float64."""
    bias: SignalNumbers
    """(n,), the largest standard deviation of biases, divided by the scale; 0 without biases."""
    norm_std: SignalNumbers
    """(n,), the standard deviation of normalized features, which is 1, divided by the scale; 0
    without normalization."""


def check_fraction(
    fraction: Array, request: Request, what: str, least_fractions: dict[str, float] = LEAST_FRACTION
) -> None:
    """Raise an OverflowError if a fraction of a signal's variance is too small for the precision.

    `fraction` is an array of any shape; a fraction of 0 is allowed. The message begins with `what`.
    """
    least = least_fractions[request.dtype]
    small = (fraction > 0) & (fraction < least)
    if bool(small.any()):
        remedy = "give dtype='float64' or " if request.dtype == "float32" else "give "
        raise OverflowError(
            f"{what} a share of {float(fraction[small].min()):.1e} of a signal's variance, "
            f"expected at least {least:g} in {request.dtype}: {remedy}another network"
        )


def check_normalized(
    variances: PixelNumbers, request: Request, has_values: PixelNumbers | bool = False
) -> None:
    """Raise an OverflowError if the features of a pixel are too small to be normalized accurately.

    `variances` are the variances of the features of a signal of size 1. `has_values` says which
    of them are positive, including those that underflowed to 0.
    """
    xp = array_module(variances)
    fraction = xp.where(has_values, variances + _LEAST_FRACTION_LEFT, variances)
    check_fraction(fraction, request, "a pixel, whose features are normalized, has", _LEAST_PIXEL)


def check_branch(
    operations: Operations,
    request: Request,
    norm_std: SignalNumbers,
    input_variance: PixelNumbers,
    means: Array,
) -> None:
    """Raise an OverflowError if a kernel may be determined by branches that are too small.

    In networks with normalization, branches are small compared with the input if the signal is
    large or α is small. If F⁰ is part of the kernel, such branches are negligible. But F⁰ is not
    part of a tangent kernel of inner or outer weights alone, it is 0 at pixels that are 0, and its
    mean over pixel pairs may be 0. `norm_std`, `input_variance` and `means` are fields of `Input`.
    """
    xp, constants = array_module(input_variance), operations.constants
    averages = means if request.meets_others else xp.sqrt(input_variance)[:, None]
    at_pixels = sum_over_terms(xp, averages * averages)
    input_part = at_pixels.reshape(len(input_variance), -1).mean(axis=1)
    input_weight = min(map(constants.input_weight, request.depths))
    if "ntk" in request.kinds:
        input_weight *= min(1.0, operations.network.parts.initial)
    if request.shares or request.head in ("equivariant", "pixels"):  # a pixel of 0 may be read
        input_weight = 0.0
    limits = np.finfo(request.dtype)
    variance = _least_variance(operations, request, norm_std)
    is_beside = input_weight * input_part * float(limits.eps) ** 2 > variance
    share = min(map(constants.branch_share, request.depths))
    has_branch = (input_variance.reshape(len(input_variance), -1) > 0).any(axis=1) & (share > 0)
    # The standard deviations of pre-activations must be divisors, even if only one tap of a filter
    # has values. Numbers above a hundred times the smallest normal one are accurate in sums.
    taps = max(operations.network.values_of("filter_size"))
    least_variance = (4.0 * least_std(request.dtype)) ** 2 * taps**operations.n_axes
    least = {request.dtype: max(share * least_variance, 100.0 * float(limits.tiny))}
    branch = xp.maximum(share * variance, np.finfo(np.float64).smallest_subnormal)
    branch = xp.where(has_branch & ~is_beside, branch, 1.0)
    check_fraction(branch, request, "branches of normalized features have", least)


def _least_variance(
    operations: Operations, request: Request, norm_std: SignalNumbers
) -> SignalNumbers:
    """Return a lower bound of the variance that branches of normalized features add to a kernel.

    Biases increase it. But if only the input is trained, biases are no part of tangent kernels, and
    each layer through which features do not pass as they are divides by the variance of features
    and biases together.
    """
    constants, net = operations.constants, operations.network
    if "ntk" not in request.kinds or net.trained != ("input",):
        return norm_std**2 + (norm_std * constants.least_bias) ** 2
    layers = map(constants.of_layer, range(1, operations.depth + 1))
    n_dividing = sum(of_layer.layer.exact_identity_gain < 1 for of_layer in layers)
    bits = min(2.0 * n_dividing * math.log2(constants.common_std), 1000.0)
    return norm_std**2 * 2.0**-bits


def least_std(dtype: str) -> float:
    """Return the smallest standard deviation by which engines divide in a precision.

    For two such numbers a and b, the product 1/a · 1/b is finite.
    """
    return float(np.finfo(dtype).tiny) ** 0.45


def read_input(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals, divided by their sizes, for a homogeneous activation.

    For the head "equivariant", pixels that do not influence pixel 1 are set to 0.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    unscaled = xp.ascontiguousarray(X, np.float64)
    if request.reads_pixel_1:
        unscaled = xp.where(xp.asarray(seen_by_pixel_1(operations, X.shape[2:])), unscaled, 0.0)
    powers = _powers_that_keep_squares(operations, unscaled)
    divided = unscaled / column(powers, unscaled)
    squares = sum_over_terms(xp, divided * divided)
    length = xp.sqrt(squares)[:, None]
    unit = divided / xp.where(length > 0, length, math.inf)
    input_scale = net.factor_of_input(X.shape[1])
    # The size of a divided signal is the square root of its mean variance. Dividing by the size of
    # a signal of 0 gives 0.
    variances = input_scale * squares
    size = xp.sqrt(mean_variances(operations, request, unscaled, variances, powers))
    inverse_size = 1.0 / xp.where(size > 0, size, math.inf)
    input_variance = variances * column(inverse_size**2, variances)
    # The head "gap" adds products of means to α² times the branch, so that the means need all their
    # digits even if they are as small as α.
    exact = constants.has_weak_branches or request.pool
    divided_means = (
        means_of(request, divided) if exact else divided.reshape(*X.shape[:2], -1).mean(axis=2)
    )
    factor = inverse_size * math.sqrt(input_scale)
    pixels = divided * column(factor, divided)
    means = divided_means * column(factor, divided_means)
    if constants.forgets_size:
        powers, size = xp.ones(len(X)), xp.full(len(X), constants.common_std)
        inverse_size = 1.0 / size
    bias, norm_std = (
        std / powers * inverse_size if std else xp.zeros(len(X))
        for std in (constants.largest_bias, float(net.norm))
    )
    if net.norm:
        check_branch(operations, request, norm_std, input_variance, means)
    scale = powers * size
    scale = xp.where((scale < np.finfo(np.float64).tiny) & (size > 0), math.nan, scale)
    return Input(unit, input_variance, pixels, means, scale, bias, norm_std)


def _powers_that_keep_squares(operations: Operations, X: SignalArray) -> SignalNumbers:
    """Return powers of two, (n,), such that squares of the divided signals do not leave float64.

    A power, at most 2^1023, is near the largest absolute value of the signal. If layer 1 combines
    the signal with biases or normalized features, the largest of these numbers is included too.
    """
    xp, constants = array_module(X), operations.constants
    exponents = powers_of_two(X)
    largest = max(constants.largest_bias, float(operations.network.norm))
    if largest and not constants.forgets_size:
        bits = math.frexp(largest)[1]
        has_values = X.reshape(len(X), -1).any(axis=1)
        exponents = xp.where(has_values, xp.maximum(exponents, bits), bits)
    powers: SignalNumbers = xp.ldexp(xp.ones(len(X)), exponents - 1)
    return powers


def mean_variances(
    operations: Operations,
    request: Request,
    X: SignalArray,
    variances: PixelNumbers,
    powers: SignalNumbers,
) -> SignalNumbers:
    """Return the squared sizes by which the squares of signals are divided, (n,).

    A squared size is the mean over pixels of the variances of the signal, its biases and its
    normalized features. For the head "equivariant" of a network without normalization it is F at
    pixel 1 behind the last layer. `X` are the signals, and `variances` those of their pixels after
    a division by `powers`. An OverflowError is raised if a part of a signal that determines
    kernels is too small for the precision.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    has_values = X.reshape(len(X), -1).any(axis=1)
    mean = signal_part = variances.reshape(len(X), -1).mean(axis=1)
    if (constants.has_bias or net.norm) and not constants.forgets_size:
        added = constants.bias_variance_ratio * (constants.largest_bias / powers) ** 2
        if net.norm:
            added = added + (1.0 / powers) ** 2
        mean = mean + added
    if net.norm:
        fraction = variances / column(xp.where(mean > 0, mean, math.inf), variances)
        check_normalized(fraction, request, (X != 0).any(axis=1))
    elif request.reads_pixel_1:
        weights, bias_weight = weights_at_pixel_1(operations, X.shape[2:])
        signal_part = (variances * xp.asarray(weights)).reshape(len(X), -1).sum(axis=1)
        at_pixel_1 = signal_part + bias_weight * (constants.largest_bias / powers) ** 2
        reaches = has_values | (bias_weight > 0)  # for other signals the kernel is 0
        fraction = xp.where(reaches, xp.maximum(at_pixel_1, _LEAST_FRACTION_LEFT), 0.0)
        fraction = fraction / xp.where(mean > 0, mean, math.inf)
        check_fraction(fraction, request, "pixel 1 gets")
        mean = xp.where(mean > 0, at_pixel_1, 0.0)
    beside_biases = constants.has_bias and not net.norm and "ntk" in request.kinds
    if beside_biases and not net.parts.outer_plus_readout:
        of_signal, of_bias = net.parts.input, 0.0
        if net.parts.inner:
            largest = constants.largest_inner_variances
            of_signal, of_bias = of_signal + largest.of_signal, largest.of_bias
        fraction = of_signal * signal_part + of_bias * (constants.largest_bias / powers) ** 2
        fraction = fraction / xp.where(mean > 0, mean, math.inf)
        reaches = has_values & (of_signal + of_bias > 0)
        fraction = xp.where(reaches, xp.maximum(fraction, _LEAST_FRACTION_LEFT), 0.0)
        check_fraction(fraction, request, "the trained parts have, beside biases,")
    return mean


def read_input_as_given(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals for an activation that is not homogeneous.

    Signals are not divided by their sizes. Only tiny signals are divided by a power of two.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    unscaled = xp.ascontiguousarray(X, np.float64)
    scale = xp.ones(len(X))
    if not net.norm:
        scale = xp.ldexp(scale, powers_of_tiny(operations, request, unscaled))
    divided = unscaled / column(scale, unscaled)
    factor = math.sqrt(net.factor_of_input(X.shape[1]))
    pixels = divided * factor
    input_variance = sum_over_terms(xp, pixels * pixels)
    if not bool(xp.isfinite(input_variance).all()):
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}, which "
            f"depends on their squares"
        )
    if net.norm:
        check_normalized(input_variance, request, (unscaled != 0).any(axis=1))
    length = xp.sqrt(input_variance)[:, None]
    unit = pixels / xp.where(length > 0, length, math.inf)
    means = means_of(request, divided) * factor
    return Input(
        unit,
        input_variance,
        pixels,
        means,
        scale,
        constants.largest_bias / scale,
        float(net.norm) / scale,
    )


def means_of(request: Request, X: SignalArray) -> Array:
    """Return the means of each channel over all pixels, or over pools, as in `Input.means`."""
    xp = array_module(X)
    if not request.pool:
        return exact_means(xp, X)
    pixels = pool_pixels(request.pool, X.shape[2:])
    means = pooled(xp, X, pixels)
    return pooled(xp, means, pixels, step=-1) if request.shares else means


def powers_of_tiny(operations: Operations, request: Request, X: SignalArray) -> SignalNumbers:
    """Return the exponents, at most 0, of the powers of two that divide signals and biases, (n,).

    They are below 0 only for signals so tiny that the activation is linear for the pre-activations
    of all layers (`Activation.linear_below`).
    """
    xp, net = array_module(X), operations.network
    # `inputs` and `both` are exponents of powers of two above the standard deviations of layer 1:
    # those of the input alone, and those of the input and the biases.
    variances = net.layer(1).inner_variance, net.factor_of_input(X.shape[1]), X.shape[1]
    bits = math.ceil(sum(map(math.log2, filter(None, variances))) / 2)
    has_values = X.reshape(len(X), -1).any(axis=1)
    inputs = xp.where(has_values, powers_of_two(X) + bits, _NONE)
    bias = operations.constants.largest_bias
    both = xp.maximum(inputs, math.frexp(bias)[1] if bias else _NONE)
    powers = xp.zeros(len(X), int)
    if linear_below := activation_of(net).linear_below:
        growth = math.ceil(operations.constants.linear_growth_bits)
        least = int(math.log2(linear_below)) - growth
        powers = xp.where(both > _NONE, xp.clip(both - least, -1000, 0), 0)
    alone = "ntk" in request.kinds and net.trained == ("input",)
    decisive = inputs if alone else both
    if bool(((decisive > _NONE) & (decisive - powers < _LEAST_BITS)).any()):
        raise OverflowError(
            f"signals{' and biases' * bool(bias and not alone)} have standard deviations below "
            f"2^{_LEAST_BITS} in layer 1, expected larger ones: float64 does not have their squares"
        )
    return powers


def powers_of_two(X: SignalArray) -> SignalNumbers:
    """Return the exponents, (n,), of powers of two above the largest absolute value of a signal."""
    xp = array_module(X)
    exponents: SignalNumbers = xp.frexp(xp.abs(X).reshape(len(X), -1).max(axis=1))[1]
    return exponents


def input_terms(operations: Operations, request: Request, inputs: Input) -> tuple[Array, Array]:
    """Return factors of left signals and of right signals, (n, terms, pixels or 1).

    The sum over terms of the product of a left and a right factor is a mean of F⁰, which may be 0:
    the mean over all pixel pairs of the head, or over those of one pool, or with shares over those
    of one left pixel.
    """
    pixels, means = inputs.pixels, inputs.means
    xp = array_module(pixels)
    if not request.shares:
        pixels = means
    elif not request.pool:
        for operation in operations.input:
            pixels = mean_over_taps(xp, pixels, operation.step.taps, 2)
    else:  # the taps of the input filter move both pixels of a pair
        for operation in operations.input:
            taps = operation.step.taps
            weighted = [
                weight * values
                for weight, values in zip(taps.weights, at_taps(xp, pixels, taps, 2), strict=True)
            ]
            pixels = xp.concatenate(weighted, axis=1)
            means = xp.concatenate(at_taps(xp, means, taps, 2), axis=1)
    return pixels.reshape(*pixels.shape[:2], -1), means.reshape(*means.shape[:2], -1)
