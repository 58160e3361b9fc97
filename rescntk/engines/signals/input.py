"""`Input`: signals as the recursion takes them, divided by their sizes, and what is refused."""

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
"""Least part of a signal's variance that a pixel may have for layer normalization: products of two
such pixels' features keep their digits."""

LEAST_FRACTION = {"float32": 1e-28, "float64": 1e-280}
"""Least fraction of a signal's variance that a kernel may consist of, in each precision.

Smaller parts would fall below the least normal number, or raise the rest of the signal above the
largest one: such calls are refused. Between 1e-28 and the least normal number of
float32 lie ten decades.
"""

_NONE = -(10**4)
"""Exponent that stands for 0, below the exponents of all numbers."""

_LEAST_BITS = -450
"""Power of two of the least pre-activations of layer 1, whose squares keep their digits."""

_LEAST_FRACTION_LEFT = 1e-300
"""What stands for the fraction of a pixel that is not 0 but fell below float64: it is then refused
as too small, and not taken for 0."""


@dataclass(frozen=True)
class Input:
    """The input of some signals of one length, divided by their sizes."""

    unit: SignalArray
    """(n, channels, *pixels), each pixel's vector divided by its norm; 0 where the norm is 0."""
    energy: PixelNumbers
    """(n, *pixels), F⁰ of single pixels at x = z, before the input filter."""
    pixels: SignalArray
    """(n, channels, *pixels), times the root of the input's scale: products of pixels are F⁰."""
    means: Array
    """Means of the same pixels, whose products are means of F⁰; rounded once if branches are weak.

    (n, channels), the means over all pixels. Pooled heads have (n, channels, *pixels): the means
    over the pool that begins at each pixel; with shares, means of these over all pools that
    have the pixel.
    """
    scale: SignalNumbers
    """(n,), the number by which each signal was divided; infinite or NaN beyond float64's range."""
    bias: SignalNumbers
    """(n,), the largest standard deviation of biases, divided by the scale; 0 without biases."""
    norm_root: SignalNumbers
    """(n,), 1 divided by the scale, for normalized features; 0 without normalization."""


def check_fraction(
    fraction: Array, request: Request, what: str, least_fractions: dict[str, float] = LEAST_FRACTION
) -> None:
    """Raise an OverflowError if a fraction of a signal's variance is too small for the precision.

    Of `fraction`, an array of any shape, 0 passes. `what` begins the message.
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
    """Raise an OverflowError if features of pixels have no digits that could be normalized.

    `variances` are those of the features, beside a signal of size 1. `has_values` says which of
    them are not 0, even where they fell to 0.
    """
    xp = array_module(variances)
    fraction = xp.where(has_values, variances + _LEAST_FRACTION_LEFT, variances)
    check_fraction(fraction, request, "a pixel, whose features are normalized, has", _LEAST_PIXEL)


def check_branch(
    operations: Operations,
    request: Request,
    norm_root: SignalNumbers,
    energy: PixelNumbers,
    means: Array,
) -> None:
    """Raise an OverflowError if a kernel consists of branches of normalized features, too small.

    Large signals make branches of normalized features small beside the input, and so do small α.
    Beside F⁰ they are negligible then. But F⁰ has no part in a tangent kernel of inner or outer
    weights alone, none at pixels that are 0, and its mean over pixel pairs may be 0. The arguments
    are fields of `Input`.
    """
    xp, constants = array_module(energy), operations.constants
    averages = means if request.meets_others else xp.sqrt(energy)[:, None]
    at_pixels = sum_over_terms(xp, averages * averages)
    input_part = at_pixels.reshape(len(energy), -1).mean(axis=1)
    input_weight = min(map(constants.input_weight, request.depths))
    if "ntk" in request.kinds:
        input_weight *= min(1.0, operations.network.parts.initial)
    if request.shares or request.head in ("equivariant", "pixels"):  # a pixel of 0 may be read
        input_weight = 0.0
    limits = np.finfo(request.dtype)
    variance = _least_variance(operations, request, norm_root)
    is_beside = input_weight * input_part * float(limits.eps) ** 2 > variance
    share = min(map(constants.branch_share, request.depths))
    has_branch = (energy.reshape(len(energy), -1) > 0).any(axis=1) & (share > 0)
    # Pre-activations have roots that divide, also where one tap of a filter alone has values.
    # Numbers a hundred times the least normal one keep their digits in sums.
    taps = max(operations.network.values_of("filter_size"))
    least_variance = (4.0 * least_root(request.dtype)) ** 2 * taps**operations.n_axes
    least = {request.dtype: max(share * least_variance, 100.0 * float(limits.tiny))}
    branch = xp.maximum(share * variance, np.finfo(np.float64).smallest_subnormal)
    branch = xp.where(has_branch & ~is_beside, branch, 1.0)
    check_fraction(branch, request, "branches of normalized features have", least)


def _least_variance(
    operations: Operations, request: Request, norm_root: SignalNumbers
) -> SignalNumbers:
    """Return the least part of a kernel that branches of normalized features have.

    Biases add to pre-activations. But if the input alone is trained, tangent kernels have no part
    of them, and each layer without skip connection divides by the variance with biases.
    """
    constants, net = operations.constants, operations.network
    if "ntk" not in request.kinds or net.trained != ("input",):
        return norm_root**2 + (norm_root * constants.least_bias) ** 2
    layers = map(constants.of_layer, range(1, operations.depth + 1))
    n_ordinary = sum(not of_layer.weights.features for of_layer in layers)
    bits = min(2.0 * n_ordinary * math.log2(constants.common_root), 1000.0)
    return norm_root**2 * 2.0**-bits


def least_root(dtype: str) -> float:
    """Return the least root of a variance that divides in a precision.

    The product 1/a · 1/b of both sides stays finite.
    """
    return float(np.finfo(dtype).tiny) ** 0.45


def read_input(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals, of size 1 in the mean over pixels, or at pixel 1."""
    xp, net, constants = array_module(X), operations.network, operations.constants
    unscaled = xp.ascontiguousarray(X, np.float64)
    if request.reads_pixel_1:
        unscaled = xp.where(xp.asarray(seen_by_pixel_1(operations, X.shape[2:])), unscaled, 0.0)
    scale = _powers_that_keep_squares(operations, unscaled)
    X = unscaled / column(scale, unscaled)
    squares = sum_over_terms(xp, X * X)
    length = xp.sqrt(squares)[:, None]
    unit = X / xp.where(length > 0, length, math.inf)
    input_scale = net.factor_of_input(X.shape[1])
    energy = input_scale * squares
    size = xp.sqrt(mean_variances(operations, request, unscaled, energy, scale))
    inverse = 1.0 / xp.where(size > 0, size, math.inf)
    energy = energy * column(inverse**2, energy)
    # GAP adds products of means to α² times the branch: means of size α need all their digits.
    exact = constants.has_weak_branches or request.pool
    means = means_of(request, X) if exact else X.reshape(*X.shape[:2], -1).mean(axis=2)
    root = inverse * math.sqrt(input_scale)
    pixels, means = X * column(root, X), means * column(root, means)
    if constants.forgets_size:
        common = constants.common_root
        scale, inverse, size = (xp.full(len(X), value) for value in (1.0, 1.0 / common, common))
    bias, norm = (
        root / scale * inverse if root else xp.zeros(len(X))
        for root in (constants.largest_bias, float(net.norm))
    )
    if net.norm:
        check_branch(operations, request, norm, energy, means)
    with np.errstate(over="ignore"):  # infinity and NaN are reported with the results
        scale = scale * size
    scale = xp.where((scale < np.finfo(np.float64).tiny) & (size > 0), math.nan, scale)
    return Input(unit, energy, pixels, means, scale, bias, norm)


def _powers_that_keep_squares(operations: Operations, X: SignalArray) -> SignalNumbers:
    """Return powers of two, (n,), at most 2^1023: divided by them, squares stay within float64.

    They are near the largest number of a signal. Where layer 1 sees the signal's size beside biases
    or normalized features, these count too.
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
    energy: PixelNumbers,
    scale: SignalNumbers,
) -> SignalNumbers:
    """Return the variances by which signals are divided, (n,): of the mean pixel, or of pixel 1.

    Biases and normalized features are part of them. `energy` is of pixels, divided by `scale`; the
    signals X are as given. Signals whose parts are too small for the precision are refused.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    has_values = X.reshape(len(X), -1).any(axis=1)
    mean = signal_part = energy.reshape(len(X), -1).mean(axis=1)
    if (constants.has_bias or net.norm) and not constants.forgets_size:
        added = constants.bias_variance_ratio * (constants.largest_bias / scale) ** 2
        if net.norm:
            added = added + (1.0 / scale) ** 2
        mean = mean + added
    if net.norm:
        fraction = energy / column(xp.where(mean > 0, mean, math.inf), energy)
        check_normalized(fraction, request, (X != 0).any(axis=1))
    elif request.reads_pixel_1:
        weights, bias_weight = weights_at_pixel_1(operations, X.shape[2:])
        signal_part = (energy * xp.asarray(weights)).reshape(len(X), -1).sum(axis=1)
        at_pixel_1 = signal_part + bias_weight * (constants.largest_bias / scale) ** 2
        reaches = has_values | (bias_weight > 0)  # else the kernel is 0
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
        fraction = of_signal * signal_part + of_bias * (constants.largest_bias / scale) ** 2
        fraction = fraction / xp.where(mean > 0, mean, math.inf)
        reaches = has_values & (of_signal + of_bias > 0)
        fraction = xp.where(reaches, xp.maximum(fraction, _LEAST_FRACTION_LEFT), 0.0)
        check_fraction(fraction, request, "the trained parts have, beside biases,")
    return mean


def read_input_as_given(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals that keep their sizes, but for powers of two of tiny signals."""
    xp, net, constants = array_module(X), operations.network, operations.constants
    X, root = xp.ascontiguousarray(X, np.float64), math.sqrt(net.factor_of_input(X.shape[1]))
    scale = xp.ones(len(X))
    if not net.norm:
        scale = xp.ldexp(scale, powers_of_tiny(operations, request, X))
    divided = X / column(scale, X)
    with np.errstate(over="ignore"):
        pixels = divided * root
        energy = sum_over_terms(xp, pixels * pixels)
    if not bool(xp.isfinite(energy).all()):
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}, which "
            f"depends on their squares"
        )
    if net.norm:
        check_normalized(energy, request, (X != 0).any(axis=1))
    length = xp.sqrt(energy)[:, None]
    unit = pixels / xp.where(length > 0, length, math.inf)
    means = means_of(request, divided) * root
    return Input(
        unit,
        energy,
        pixels,
        means,
        scale,
        constants.largest_bias / scale,
        float(net.norm) / scale,
    )


def means_of(request: Request, X: SignalArray) -> Array:
    """Return the means of each channel over pixels, or over pools (`Input.means`)."""
    xp = array_module(X)
    if not request.pool:
        return exact_means(xp, X)
    pixels = pool_pixels(request.pool, X.shape[2:])
    means = pooled(xp, X, pixels)
    return pooled(xp, means, pixels, step=-1) if request.shares else means


def powers_of_tiny(operations: Operations, request: Request, X: SignalArray) -> SignalNumbers:
    """Return the powers of two, at most 0, by which signals and biases are divided, (n,).

    Tiny pre-activations, in all layers, see a linear network (`Activation.linear_below`).
    """
    xp, net = array_module(X), operations.network
    # Powers of two above the roots of variances in layer 1, of the input and of it with biases.
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
            f"signals{' and biases' * bool(bias and not alone)} have roots of variances below "
            f"2^{_LEAST_BITS} in layer 1, expected larger ones: float64 does not have their squares"
        )
    return powers


def powers_of_two(X: SignalArray) -> SignalNumbers:
    """Return the exponents of the powers of two above the largest values of signals, (n,)."""
    xp = array_module(X)
    exponents: SignalNumbers = xp.frexp(xp.abs(X).reshape(len(X), -1).max(axis=1))[1]
    return exponents


def input_terms(operations: Operations, request: Request, inputs: Input) -> tuple[Array, Array]:
    """Return numbers of signals on the left and on the right, (n, terms, pixels or 1).

    Added up over terms, their products are the head's means of F⁰, which may be 0. They are means
    at each pixel of shares, else for each pool, or as a whole.
    """
    pixels, means = inputs.pixels, inputs.means
    xp = array_module(pixels)
    if not request.shares:
        pixels = means
    elif not request.pool:
        for operation in operations.input:
            pixels = mean_over_taps(xp, pixels, operation.step.taps, 2)
    else:  # the input filter moves both pixels of a pair
        for operation in operations.input:
            taps = operation.step.taps
            weighted = [
                weight * values
                for weight, values in zip(taps.weights, at_taps(xp, pixels, taps, 2), strict=True)
            ]
            pixels = xp.concatenate(weighted, axis=1)
            means = xp.concatenate(at_taps(xp, means, taps, 2), axis=1)
    return pixels.reshape(*pixels.shape[:2], -1), means.reshape(*means.shape[:2], -1)
