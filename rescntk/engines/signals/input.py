"""`Input`: signals, divided by their sizes, as the recursion needs them.

sizes.py has the numbers by which signals are divided, and checks.py refuses signals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...arrays import Array, PixelNumbers, SignalArray, SignalNumbers, array_module
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
from ..request import Request
from .checks import check_branch, check_input_variance, check_normalized, check_sizes, check_tiny
from .pixel_1 import seen_by_pixel_1
from .sizes import (
    divisor_exponents,
    layer_one_exponents,
    powers_that_keep_squares,
    squared_sizes,
)


@dataclass(frozen=True)
class Input:
    """The input of some signals of one length, divided by their sizes."""

    unit: SignalArray
    """(n, channels, *pixels), each pixel's vector divided by its norm; 0 where the norm is 0."""
    input_variance: PixelNumbers
    """(n, *pixels), the variance of each pixel, F⁰ at x = z, before the input filter."""
    scaled: SignalArray
    """(n, channels, *pixels), the divided signals, multiplied by the square root of the network's
    input scale. The inner products of pixels over channels are F⁰ before the input filter."""
    means: Array
    """The means of `scaled`. Their inner products over channels are means of F⁰.

    The shape is (n, channels), for the means over all pixels. For pooled heads it is
    (n, channels, *pixels), for the mean over the pool that begins at each pixel; with shares, these
    means are averaged again over all pools that contain the pixel. The means are computed with more
    digits than float64 and then rounded, except if the activation is homogeneous, the head has no
    pools, and `NetworkConstants.needs_exact_means` is False.
    """
    scale: SignalNumbers
    """(n,), the number by which each signal was divided. It is infinite or NaN if it is outside the
    range of float64."""
    bias: SignalNumbers
    """(n,), the largest standard deviation of biases, divided by the scale; 0 without biases."""
    norm_std: SignalNumbers
    """(n,), the standard deviation of normalized features, which is 1, divided by the scale; 0
    without normalization."""


def read_input(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals (n, channels, *pixels), or raise an OverflowError (checks.py)."""
    if operations.network.homogeneous:
        return _divided_by_sizes(operations, request, X)
    return _as_given(operations, request, X)


def _divided_by_sizes(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals, divided by their sizes, for a homogeneous activation.

    Each signal is first divided by a power of two, so that its squares are in the range of float64,
    and the quotient is then divided by its size. For the head "equivariant", pixels that do not
    influence pixel 1 are set to 0.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    unscaled = xp.ascontiguousarray(X, np.float64)
    if request.reads_pixel_1:
        unscaled = xp.where(xp.asarray(seen_by_pixel_1(operations, X.shape[2:])), unscaled, 0.0)
    powers = powers_that_keep_squares(operations, unscaled)
    divided = unscaled / column(powers, unscaled)
    squares = sum_over_terms(xp, divided * divided)
    length = xp.sqrt(squares)[:, None]
    unit = divided / xp.where(length > 0, length, math.inf)
    input_scale = net.factor_of_input(X.shape[1])
    variances = input_scale * squares
    sizes = squared_sizes(operations, request, variances, powers)
    check_sizes(operations, request, unscaled, variances, powers, sizes)
    size = xp.sqrt(sizes.squared)
    inverse_size = 1.0 / xp.where(size > 0, size, math.inf)  # a signal of 0 stays 0
    input_variance = variances * column(inverse_size**2, variances)
    exact = constants.needs_exact_means or request.pool
    divided_means = (
        means_of(request, divided) if exact else divided.reshape(*X.shape[:2], -1).mean(axis=2)
    )
    factor = inverse_size * math.sqrt(input_scale)
    scaled = divided * column(factor, divided)
    means = divided_means * column(factor, divided_means)
    if constants.forgets_size:
        powers, size = xp.ones(len(X)), xp.full(len(X), operations.bounds.common_std)
        inverse_size = 1.0 / size
    bias, norm_std = (
        std / powers * inverse_size if std else xp.zeros(len(X))
        for std in (constants.largest_bias, float(net.norm))
    )
    if net.norm:
        check_branch(operations, request, norm_std, input_variance, means)
    scale = powers * size
    scale = xp.where((scale < np.finfo(np.float64).tiny) & (size > 0), math.nan, scale)
    return Input(
        unit=unit,
        input_variance=input_variance,
        scaled=scaled,
        means=means,
        scale=scale,
        bias=bias,
        norm_std=norm_std,
    )


def _as_given(operations: Operations, request: Request, X: SignalArray) -> Input:
    """Return the input of signals for an activation that is not homogeneous.

    Signals are not divided by their sizes. Only tiny signals are divided by a power of two.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    unscaled = xp.ascontiguousarray(X, np.float64)
    scale = xp.ones(len(X))
    if not net.norm:
        exponents = layer_one_exponents(operations, unscaled)
        divisors = divisor_exponents(operations, exponents)
        check_tiny(operations, request, exponents, divisors)
        scale = xp.ldexp(scale, divisors)
    divided = unscaled / column(scale, unscaled)
    factor = math.sqrt(net.factor_of_input(X.shape[1]))
    scaled = divided * factor
    input_variance = sum_over_terms(xp, scaled * scaled)
    check_input_variance(net, input_variance)
    if net.norm:
        check_normalized(input_variance, request, (unscaled != 0).any(axis=1))
    length = xp.sqrt(input_variance)[:, None]
    unit = scaled / xp.where(length > 0, length, math.inf)
    return Input(
        unit=unit,
        input_variance=input_variance,
        scaled=scaled,
        means=means_of(request, divided) * factor,
        scale=scale,
        bias=constants.largest_bias / scale,
        norm_std=float(net.norm) / scale,
    )


def means_of(request: Request, X: SignalArray) -> Array:
    """Return the means of each channel over all pixels, or over pools, as in `Input.means`."""
    xp = array_module(X)
    if not request.pool:
        return exact_means(xp, X)
    pixels = pool_pixels(request.pool, X.shape[2:])
    means = pooled(xp, X, pixels)
    return pooled(xp, means, pixels, step=-1) if request.shares else means


def input_terms(operations: Operations, request: Request, inputs: Input) -> tuple[Array, Array]:
    """Return factors of left signals and of right signals, (n, terms, pixels or 1).

    The sum over terms of the product of a left and a right factor is a mean of F⁰, which may be 0:
    the mean over all pixel pairs of the head, or over those of one pool, or with shares over those
    of one left pixel.
    """
    left, means = inputs.scaled, inputs.means
    xp = array_module(left)
    if not request.shares:
        left = means
    elif not request.pool:
        for operation in operations.input:
            left = mean_over_taps(xp, left, operation.step.taps, 2)
    else:  # the taps of the input filter move both pixels of a pair
        for operation in operations.input:
            taps = operation.step.taps
            weighted = [
                weight * values
                for weight, values in zip(taps.weights, at_taps(xp, left, taps, 2), strict=True)
            ]
            left = xp.concatenate(weighted, axis=1)
            means = xp.concatenate(at_taps(xp, means, taps, 2), axis=1)
    return left.reshape(*left.shape[:2], -1), means.reshape(*means.shape[:2], -1)
