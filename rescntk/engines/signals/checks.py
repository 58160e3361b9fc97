"""Signals that are refused, because their kernels would be inaccurate in the working precision.

Each check raises an OverflowError. The first ones look at the input of signals, the others at the
variances that the recursion computes from it. They rely on how variances may grow and fall from
layer to layer: `Layer.keeps_features` and `VarianceBounds.may_lose_size`.
"""

from __future__ import annotations

import math

import numpy as np

from ...arrays import Array, PixelNumbers, SignalArray, SignalNumbers, array_module
from ...network import Network
from ...network.activations import activation_of
from ...network.parts import BRANCH_FACTOR, OUTER_VARIANCE, WEIGHT_VARIANCES
from ..layer.means import column, sum_over_terms
from ..layer.operations import Operations
from ..layer.step import Variances
from ..request import Request
from .pixel_1 import seen_by_pixel_1, weights_at_pixel_1
from .sizes import EXPONENT_OF_ZERO, LayerOneExponents, SquaredSizes

LEAST_FRACTION = {"float32": 1e-28, "float64": 1e-280}
"""For each precision, the smallest fraction of a signal's variance that may determine a kernel.

Smaller fractions would be subnormal numbers, or the rest of the signal would overflow. Such calls
are refused. 1e-28 is ten decades above the smallest normal number of float32.
"""

_LEAST_PIXEL = {"float32": 1e-33, "float64": 1e-280}
"""The smallest fraction of a signal's variance that a pixel may have if its features are
normalized. With smaller ones, the products of the features of two pixels would be inaccurate."""

_UNDERFLOWED = 1e-300
"""A number that takes the place of a fraction that underflowed to 0. So the signal is refused,
because the fraction is too small, instead of being treated as if the fraction were 0."""

_LEAST_EXPONENT = -450
"""The smallest binary exponent that the standard deviation of pre-activations of layer 1 may have.
With smaller ones, their squares would be inaccurate."""

_LEAST_VARIANCE = 1e-153
"""The smallest variance that the last layer may have, if the features do not pass it undiminished
and its kernels are to be accurate."""

_STD_MARGIN = 4.0
"""How many times `least_std` the standard deviations of pre-activations must be if features are
normalized. A deficit below half the smallest subnormal number is rounded to 0, which changes κ₀ of
nearly equal pixels by up to √(eps · tiny^0.1)/π, divided by this factor: by 3.5e-7 in float32."""

_BRANCH_MARGIN = 100.0
"""How many times the smallest normal number all branches together must be in a variance. Each layer
adds its part with an error of up to eps/2 times this number, so that the errors of 100 layers are
eps/2 together."""


def least_std(dtype: str) -> float:
    """Return the smallest standard deviation by which engines divide in a precision.

    For two such numbers a and b, the product 1/a · 1/b is finite.
    """
    return float(np.finfo(dtype).tiny) ** 0.45


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


# ---------------------------------------------------------------- the input


def check_sizes(
    operations: Operations,
    request: Request,
    X: SignalArray,
    variances: PixelNumbers,
    powers: SignalNumbers,
    sizes: SquaredSizes,
) -> None:
    """Raise an OverflowError if a part of a signal that determines kernels is too small.

    The activation is homogeneous. `X` are the signals, and `variances` those of their pixels after
    a division by `powers`.
    """
    xp, net = array_module(X), operations.network
    mean = xp.where(sizes.mean > 0, sizes.mean, math.inf)  # of a signal of 0, all fractions are 0
    if net.norm:
        check_normalized(variances / column(mean, variances), request, (X != 0).any(axis=1))
        return
    has_values = X.reshape(len(X), -1).any(axis=1)
    if request.reads_pixel_1:
        _, bias_weight = weights_at_pixel_1(operations, X.shape[2:])
        has_kernel = has_values | (bias_weight > 0)  # for other signals the kernel is 0
        fraction = xp.where(has_kernel, xp.maximum(sizes.squared, _UNDERFLOWED), 0.0)
        check_fraction(fraction / mean, request, "pixel 1 gets")
    if operations.constants.has_bias and "ntk" in request.kinds:
        _check_trained_parts(operations, request, X, powers, sizes)


def _check_trained_parts(
    operations: Operations,
    request: Request,
    X: SignalArray,
    powers: SignalNumbers,
    sizes: SquaredSizes,
) -> None:
    """Raise an OverflowError if a tangent kernel is too small compared with the biases.

    The network has no normalization. If outer weights or the readout are trained, the tangent
    kernel includes K or F, and with it the biases. The arguments are those of `check_sizes`.
    """
    xp, net, constants = array_module(powers), operations.network, operations.constants
    if net.parts.outer_plus_readout:
        return
    signal_weight, bias_weight = net.parts.input, 0.0
    if net.parts.inner:
        largest = operations.bounds.largest_inner_variances
        signal_weight, bias_weight = signal_weight + largest.signal, largest.bias
    fraction = signal_weight * sizes.signal_part
    fraction = fraction + bias_weight * (constants.largest_bias / powers) ** 2
    fraction = fraction / xp.where(sizes.squared > 0, sizes.squared, math.inf)
    has_kernel = X.reshape(len(X), -1).any(axis=1) & (signal_weight + bias_weight > 0)
    fraction = xp.where(has_kernel, xp.maximum(fraction, _UNDERFLOWED), 0.0)
    check_fraction(fraction, request, "the trained parts have, beside biases,")


def check_normalized(
    variances: PixelNumbers, request: Request, has_values: PixelNumbers | bool = False
) -> None:
    """Raise an OverflowError if the features of a pixel are too small to be normalized accurately.

    `variances` are the variances of the features of a signal of size 1. `has_values` says which
    of them are positive, including those that underflowed to 0.
    """
    xp = array_module(variances)
    fraction = xp.where(has_values, variances + _UNDERFLOWED, variances)
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
    averages = means if request.has_offsets else xp.sqrt(input_variance)[:, None]
    at_pixels = sum_over_terms(xp, averages * averages)
    input_part = at_pixels.reshape(len(input_variance), -1).mean(axis=1)
    input_weight = min(map(constants.input_weight, request.depths))
    if "ntk" in request.kinds:
        input_weight *= min(1.0, operations.network.parts.initial)
    if request.shares or request.head in ("equivariant", "pixels"):  # a pixel of 0 may be read
        input_weight = 0.0
    limits = np.finfo(request.dtype)
    variance = _least_branch_variance(operations, request, norm_std)
    is_negligible = input_weight * input_part * float(limits.eps) ** 2 > variance
    share = min(map(operations.bounds.total_branch_share, request.depths))
    has_branch = (input_variance.reshape(len(input_variance), -1) > 0).any(axis=1) & (share > 0)
    # The standard deviations of pre-activations must be divisors, even if only one tap of a filter
    # has values.
    taps = max(operations.network.values_of("filter_size"))
    least_variance = (_STD_MARGIN * least_std(request.dtype)) ** 2 * taps**operations.n_axes
    least = {request.dtype: max(share * least_variance, _BRANCH_MARGIN * float(limits.tiny))}
    branch = xp.maximum(share * variance, np.finfo(np.float64).smallest_subnormal)
    branch = xp.where(has_branch & ~is_negligible, branch, 1.0)
    check_fraction(branch, request, "branches of normalized features have", least)


def _least_branch_variance(
    operations: Operations, request: Request, norm_std: SignalNumbers
) -> SignalNumbers:
    """Return a lower bound of the variance that branches of normalized features add to a kernel.

    Biases increase it. But if only the input is trained, biases are no part of tangent kernels, and
    each layer that does not keep features (`Layer.keeps_features`) divides by the variance of
    features and biases together.
    """
    constants, net = operations.constants, operations.network
    if "ntk" not in request.kinds or net.trained != ("input",):
        return norm_std**2 + (norm_std * operations.bounds.least_bias) ** 2
    layers = map(constants.of_layer, range(1, operations.depth + 1))
    n_dividing = sum(not layer_constants.layer.keeps_features for layer_constants in layers)
    # `check_branch` refuses 2^-1000 in every precision, so that less need not be in float64.
    bits = min(2.0 * n_dividing * math.log2(operations.bounds.common_std), 1000.0)
    return norm_std**2 * 2.0**-bits


def check_tiny(
    operations: Operations,
    request: Request,
    exponents: LayerOneExponents,
    divisor_exponents: SignalNumbers,
) -> None:
    """Raise an OverflowError if pre-activations of layer 1 are too small to be squared.

    `divisor_exponents` are those of the powers of two that divide the signals.
    """
    only_input = "ntk" in request.kinds and operations.network.trained == ("input",)
    undivided = exponents.input if only_input else exponents.input_and_biases
    is_tiny = undivided - divisor_exponents < _LEAST_EXPONENT
    if bool(((undivided > EXPONENT_OF_ZERO) & is_tiny).any()):
        has_bias = operations.constants.largest_bias and not only_input
        raise OverflowError(
            f"signals{' and biases' * bool(has_bias)} have standard deviations below "
            f"2^{_LEAST_EXPONENT} in layer 1, expected larger ones: float64 does not have their "
            f"squares"
        )


def check_input_variance(network: Network, input_variance: PixelNumbers) -> None:
    """Raise an OverflowError if the squares of signals that were not divided exceed float64."""
    if not bool(array_module(input_variance).isfinite(input_variance).all()):
        raise OverflowError(
            f"the signals are too large for float64 and activation {network.activation!r}, which "
            f"depends on their squares"
        )


# ---------------------------------------------------------------- the recursion


def check_preactivations(
    operations: Operations, layer_number: int, variance: PixelNumbers, input_variance: PixelNumbers
) -> None:
    """Raise an OverflowError if pre-activations leave the range in which `Activation.dual` works.

    `variance`, (n, *pixels), times c_w is the variance of the pre-activations of a layer, and
    `input_variance`, (n, *pixels), is the variance of the input.
    """
    net, layer = operations.network, operations.constants.of_layer(layer_number).layer
    most = activation_of(net).largest_variance
    largest = float(layer.inner_variance * variance.max())
    if not largest < most:
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}: variances "
            f"of layer {layer_number} reach {largest:.3g}, expected less than {most:g}"
        )
    if layer_number < operations.depth or layer.keeps_features or not layer.has_branch:
        return
    largest_last, largest_input = (
        values.reshape(len(variance), -1).max(axis=1) for values in (variance, input_variance)
    )
    earlier_layers = (net.layer(number) for number in range(1, layer_number))
    too_small = (largest_input > 0) & (layer.inner_variance * largest_last < _LEAST_VARIANCE)
    # After a layer without a branch and without an identity path, variances are exactly 0.
    if bool(too_small.any()) and all(
        each.has_branch or each.identity_factor for each in earlier_layers
    ):
        raise OverflowError(
            f"variances of layer {layer_number} fall below {_LEAST_VARIANCE:g}, expected a "
            f"smaller depth or larger {' and '.join(WEIGHT_VARIANCES)}: float64 does not resolve "
            f"kernels that small"
        )


def check_activated(layer_number: int, variance: PixelNumbers) -> None:
    """Raise an OverflowError if a variance after the activation of a layer exceeds float64."""
    if not bool(array_module(variance).isfinite(variance).all()):
        raise OverflowError(
            f"variances of layer {layer_number} exceed float64, expected smaller "
            f"signals, {' or '.join(BRANCH_FACTOR + OUTER_VARIANCE)}"
        )


def check_last_layer(
    operations: Operations,
    request: Request,
    bias: SignalNumbers,
    features: Variances,
    last: Variances,
) -> None:
    """Raise an OverflowError if the variance after the last layer is too small.

    `bias` is that of `Input`. `features` are the variances before the last layer, and `last` those
    after its last operation.
    """
    constants = operations.constants
    if not operations.bounds.may_lose_size:
        return
    passing, mean = (
        variances.variance.reshape(len(variances.variance), -1).mean(axis=1)
        for variances in (features, last)
    )
    if operations.end_with_activation:  # the biases and the skip connection are applied to sums
        weights = constants.of_layer(operations.depth).weights.rounded
        bias_std = constants.bias_std(operations.depth, after_activation=True) * bias
        mean = weights.weighted_sum(passing, mean + bias_std**2)
    check_fraction(mean, request, "the last layer has")


def check_pixel_1(
    operations: Operations, request: Request, scaled: SignalArray, last: Variances
) -> None:
    """Raise an OverflowError if the variance at pixel 1 is too small to be accurate.

    `scaled` is the field of `Input`, and `last` are the variances after the last layer. Signals
    whose values do not influence pixel 1 are not checked. If the activation is homogeneous or
    features are normalized, `check_sizes` and `check_branch` have checked pixel 1.
    """
    net, stds = operations.network, last.std
    if not request.reads_pixel_1 or net.homogeneous or net.norm:
        return
    # The kernel of a pixel below `least_std` is inaccurate. By the Cauchy-Schwarz inequality, such
    # pixels contribute less than eps √(K(x, x) K(z, z)) to K(x, z), whatever pixels z has.
    least = least_std(request.dtype) / float(np.finfo(request.dtype).eps)
    seen = array_module(stds).asarray(seen_by_pixel_1(operations, stds.shape[1:]))
    sees_values = ((scaled != 0).any(axis=1) & seen).reshape(len(stds), -1).any(axis=1)
    if bool((sees_values & (stds.reshape(len(stds), -1)[:, 0] < least)).any()):
        raise OverflowError(
            f"pixel 1 has standard deviations below {least:.1e}, expected larger signals at the "
            f"pixels that it sees"
        )
