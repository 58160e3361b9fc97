"""Tables of single signals: unit vectors, root masses and the coordinates of each window.

Masses are variances: the recursion at x = z, j = j', which is linear if the activation is
homogeneous. They are computed in float64; their roots and coordinates are rounded once to the
working precision. Proportional signals have equal coordinates but for rare last bits, and so
differences are exact where they matter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from types import ModuleType

import numpy as np

from ..activations import activation_of
from ..arrays import Array, array_module
from .means import (
    column,
    exact_means,
    from_the_middle,
    past_skip,
    pooled,
    sum_and_rest,
    taps_of,
    weighted_mean,
    window_mean,
)
from .operations import Operation, Operations
from .pooling import widths_of
from .request import Request

_LEAST_PIXEL = {"float32": 1e-33, "float64": 1e-280}
"""Least part of a signal's variance that a pixel may have for layer normalization: products of two
such pixels' features keep their digits."""

LEAST_SHARE = {"float32": 1e-28, "float64": 1e-280}
"""Least part of a signal's variance that a kernel may consist of, in each precision.

Smaller parts would fall below the least normal number, or raise the rest of the signal above the
largest one: such calls are refused. Of 1e-28 numbers of float32 keep ten digits.
"""

_TAIL = 16
"""Numbers behind tables: vectors of this many lanes may begin at the last number."""

_NONE = -(10**4)
"""Power of two that stands for 0."""

_LEAST_BITS = -450
"""Power of two of the least pre-activations of layer 1, whose squares keep their digits."""

_LEAST_VARIANCE = 1e-153
"""Least variance of a last layer without skip connections, whose kernels are to keep digits."""

_TINY = 1e-300
"""Divides the parts of merges without mass, which are 0."""


@dataclass(frozen=True)
class Input:
    """The input of some signals of one length, divided by their sizes."""

    unit: Array
    """(n, channels, *pixels), each pixel's vector divided by its norm; 0 where the norm is 0."""
    energy: Array
    """(n, *pixels), F⁰ of single pixels at x = z, before the input filter."""
    parts: Array
    """(n, channels, *pixels), pixels times the root of the input's scale: F⁰ is their product."""
    means: Array
    """(n, channels), the means of `parts` over pixels; rounded once, if branches are weak.

    Of pooled heads (n, channels, *pixels), means over windows, for shares twice.
    """
    scale: Array
    """(n,), the number by which each signal was divided; infinite or NaN beyond float64's range."""
    bias: Array
    """(n,), the largest standard deviation of biases, divided by the scale; 0 without biases."""
    norm: Array
    """(n,), the root n of normalized features: 1, divided by the scale; 0 without normalization."""


@dataclass(frozen=True)
class Tables:
    """Tables of some signals of one length."""

    rows: Array
    """(n, rows, *pixels), in the working precision; `Operations` numbers the rows."""
    input: Input

    def selected(self, cases: np.ndarray | slice) -> Tables:
        """Return the tables of some of the signals."""
        return Tables(
            self.rows[cases], Input(*(array[cases] for array in vars(self.input).values()))
        )


def signal_tables(operations: Operations, request: Request, X: Array, pad: int = 0) -> Tables:
    """Return the tables of signals X, (n, channels, *pixels).

    Signals are divided by their sizes if the activation is homogeneous; for the head "equivariant"
    by the size of the energy that reaches pixel 1. Rows have `pad` pixels more, which are 0.
    """
    xp, pixels = array_module(X), X.shape[2:]
    read = read_input if operations.network.homogeneous else read_input_as_given
    inputs = read(operations, request, X)
    rows = zeros((len(X), operations.n_rows, *pixels[:-1], pixels[-1] + pad), request.dtype, xp)
    inside = rows[..., : pixels[-1]]
    inside[:, : operations.n_channels] = inputs.unit
    for number, row in enumerate(mass_rows(operations, request, xp, inputs), operations.n_channels):
        inside[:, number] = row
    return Tables(rows, inputs)


def zeros(shape: tuple[int, ...], dtype: str, xp: ModuleType) -> Array:
    """Return zeros, behind which a vector of lanes may be read."""
    size = math.prod(shape)
    table: Array = xp.zeros(size + _TAIL, dtype)[:size].reshape(shape)
    return table


def check_share(
    fraction: Array, request: Request, what: str, least_shares: dict[str, float] = LEAST_SHARE
) -> None:
    """Raise an OverflowError if a share of signals' variance is too small for the precision."""
    least = least_shares[request.dtype]
    small = (fraction > 0) & (fraction < least)
    if bool(small.any()):
        remedy = "give dtype='float64' or " if request.dtype == "float32" else "give "
        raise OverflowError(
            f"{what} a share of {float(fraction[small].min()):.1e} of a signal's variance, "
            f"expected at least {least:g} in {request.dtype}: {remedy}another network"
        )


def check_pixels(has_values: Array, fraction: Array, request: Request) -> None:
    """Raise an OverflowError if pixels are not 0 and have no digits that could be normalized.

    `share` is each pixel's of its signal's variance, biases and normalized features included.
    """
    fraction = array_module(fraction).where(has_values, fraction + _TINY, 0.0)
    check_share(fraction, request, "a pixel, whose features are normalized, has", _LEAST_PIXEL)


def read_input(operations: Operations, request: Request, X: Array) -> Input:
    """Return the input of signals, of size 1 in the mean over pixels, or at pixel 1."""
    xp, net, constants = array_module(X), operations.network, operations.constants
    X = xp.ascontiguousarray(X, np.float64)
    if request.head == "equivariant":
        X = xp.where(xp.asarray(seen_by_pixel_1(operations, X.shape[2:])), X, 0.0)
    # Divided by a power of two, at most 2^1023, squares stay within float64.
    undivided, peak, forgets = X, powers_of_two(X), constants.forgets_size
    if beside := 0.0 if forgets else max(constants.largest_bias, float(net.norm)):
        bits = math.frexp(beside)[1]
        peak = xp.where(X.reshape(len(X), -1).any(axis=1), xp.maximum(peak, bits), bits)
    scale = xp.ldexp(xp.ones(len(X)), peak - 1)
    X = X / column(scale, X)
    squares = (X * X).sum(axis=1)
    input_scale = net.factor_of_input(X.shape[1])
    energy = input_scale * squares
    mean = mean_variances(operations, request, undivided, energy, scale)
    size = xp.sqrt(mean)
    inverse = 1.0 / xp.where(size > 0, size, math.inf)
    length = xp.sqrt(squares)[:, None]
    unit = X / xp.where(length > 0, length, math.inf)
    of_parts = column(inverse * math.sqrt(input_scale), X)
    # GAP adds products of means to α² times the branch: means of size α need all their digits.
    exact = constants.is_weak or request.pool
    means = means_of(request, X) if exact else X.reshape(*X.shape[:2], -1).mean(axis=2)
    means = means * column(of_parts.ravel(), means)
    energy, parts = energy * column(inverse**2, energy), X * of_parts
    if forgets:
        root = math.sqrt(1.0 + constants.most_of_bias * constants.largest_bias**2)
        scale, inverse, size = xp.ones(len(X)), xp.full(len(X), 1.0 / root), xp.full(len(X), root)
    bias, norm = (
        factor / scale * inverse if factor else xp.zeros(len(X))
        for factor in (constants.largest_bias, float(net.norm))
    )
    with np.errstate(over="ignore"):  # infinity and NaN are reported with the results
        scale = scale * size
    scale = xp.where((scale < np.finfo(np.float64).tiny) & (size > 0), math.nan, scale)
    return Input(unit, energy, parts, means, scale, bias, norm)


def mean_variances(
    operations: Operations, request: Request, X: Array, energy: Array, scale: Array
) -> Array:
    """Return the variances by which signals are divided, (n,): of the mean pixel, or of pixel 1.

    Biases and normalized features are part of them. `energy` is of pixels, divided by `scale`; the
    signals X are as given. Signals whose parts are too small for the precision are refused.
    """
    xp, net, constants = array_module(X), operations.network, operations.constants
    mean = of_signal = energy.reshape(len(X), -1).mean(axis=1)
    if (constants.has_bias or net.norm) and not constants.forgets_size:
        more = constants.most_of_bias * (constants.largest_bias / scale) ** 2
        mean = mean + (more + 1.0 / scale**2 if net.norm else more)
    if net.norm:
        fraction = energy / column(xp.where(mean > 0, mean, math.inf), energy)
        check_pixels((X != 0).any(axis=1), fraction, request)
    elif request.head == "equivariant":
        weights, of_bias = weights_at_pixel_1(operations, X.shape[2:])
        of_signal = (energy * xp.asarray(weights)).reshape(len(X), -1).sum(axis=1)
        at_pixel_1 = of_signal + of_bias * (constants.largest_bias / scale) ** 2
        fraction = xp.maximum(at_pixel_1, _TINY) / xp.where(mean > 0, mean, math.inf)
        check_share(fraction, request, "pixel 1 gets")
        mean = xp.where(mean > 0, at_pixel_1, 0.0)
    if constants.has_bias and not net.norm and "ntk" in request.kinds and net.trained == ("input",):
        fraction = of_signal / xp.where(mean > 0, mean, math.inf)
        has_values = X.reshape(len(X), -1).any(axis=1)
        fraction = xp.where(has_values, xp.maximum(fraction, _TINY), 0.0)
        check_share(fraction, request, "the input, which alone is trained, has, beside biases,")
    return mean


def read_input_as_given(operations: Operations, request: Request, X: Array) -> Input:
    """Return the input of signals that keep their sizes, but for powers of two of tiny signals."""
    xp, net, constants = array_module(X), operations.network, operations.constants
    X, root = xp.ascontiguousarray(X, np.float64), math.sqrt(net.factor_of_input(X.shape[1]))
    scale = xp.ones(len(X))
    if not net.norm:
        scale = xp.ldexp(scale, powers_of_tiny(operations, request, X))
    with np.errstate(over="ignore"):
        parts = X / column(scale, X) * root
        energy = (parts * parts).sum(axis=1)
    if not bool(xp.isfinite(energy).all()):
        raise OverflowError(
            f"the signals are too large for float64 and activation {net.activation!r}, which "
            f"depends on their squares"
        )
    if net.norm:
        check_pixels((X != 0).any(axis=1), energy, request)
    length = xp.sqrt(energy)[:, None]
    unit = parts / xp.where(length > 0, length, math.inf)
    means = means_of(request, X)
    means = means / column(scale, means) * root
    return Input(
        unit,
        energy,
        parts,
        means,
        scale,
        constants.largest_bias / scale,
        float(net.norm) / scale,
    )


def means_of(request: Request, X: Array) -> Array:
    """Return the means of each channel over pixels, or over windows (`Input.means`)."""
    if not request.pool:
        return exact_means(X)
    xp, widths = array_module(X), widths_of(request.pool, X.shape[2:])
    means = pooled(X, widths, xp)
    return pooled(means, widths, xp, turn=-1) if request.shares else means


def powers_of_tiny(operations: Operations, request: Request, X: Array) -> Array:
    """Return the powers of two, at most 0, by which signals and biases are divided, (n,).

    Tiny pre-activations, in all layers, see a linear network (`Activation.linear_below`).
    """
    xp, net = array_module(X), operations.network
    # Powers of two above the roots of variances in layer 1, of the input and of it with biases.
    factors = net.layer(1).c_w, net.factor_of_input(X.shape[1]), X.shape[1]
    of_input = math.ceil(sum(map(math.log2, filter(None, factors))) / 2)
    has_values = X.reshape(len(X), -1).any(axis=1)
    inputs = xp.where(has_values, powers_of_two(X) + of_input, _NONE)
    bias = operations.constants.largest_bias
    both = xp.maximum(inputs, math.frexp(bias)[1] if bias else _NONE)
    powers = xp.zeros(len(X), int)
    if linear_below := activation_of(net).linear_below:
        growth = math.ceil(operations.constants.bits_of_linear_network)
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


def powers_of_two(X: Array) -> Array:
    """Return the exponents of the powers of two above the largest values of signals, (n,)."""
    xp = array_module(X)
    exponents: Array = xp.frexp(xp.abs(X).reshape(len(X), -1).max(axis=1))[1]
    return exponents


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
    *_, last = _merged(operations, np, energy, np.array([0.0, 1.0]), np.zeros(2))
    return last[-1][0], float(last[-1][1].flat[0])


def mass_rows(
    operations: Operations, request: Request, xp: ModuleType, inputs: Input
) -> Iterator[Array]:
    """Yield the rows of a table behind the unit vectors, (n, *pixels) in float64."""
    # It keeps the product of both sides' 1/a finite.
    least = float(np.finfo(request.dtype).tiny) ** 0.45
    a = xp.sqrt(inputs.energy)
    yield a
    net, squares = operations.network, (inputs.bias**2, inputs.norm**2)
    for operation, parts, weights, mass in _merged(operations, xp, inputs.energy, *squares):
        if operation.kind == "norm":
            before, a = a, xp.sqrt(mass)
            yield a
            yield a / xp.where(before > 0, before, math.inf)
            continue
        if operation.kind == "activation":
            yield 1.0 / xp.maximum(a, least)
            if operation.has_root:
                a = xp.sqrt(mass)
                yield a
            continue
        # Of equal masses all ratios are 1, whatever the masses: coordinates are equal to the bit.
        a, known = xp.sqrt(mass), xp.maximum(mass, _TINY)
        first, *later = (xp.sqrt(part / known) for part in parts)  # a_p / (√weight a)
        both = math.sqrt(0.5) + math.sqrt(0.5 * weights[0]) * first  # (a + a_0) / (√2 a)
        yield a
        yield a * both
        divisors = {weight: both * math.sqrt(2.0 / weight) for weight in {*weights[1:]} - {0.0}}
        for other, weight in zip(later, weights[1:], strict=True):
            yield other / divisors[weight] if weight else 0.0 * other
    if request.head == "equivariant" and (net.norm or not net.homogeneous):
        check_pixel_1(operations, xp.sqrt(mass), inputs, 4.0 * least)
    falls = not all(net.values_of("skip")) if net.norm else operations.constants.has_bias
    if falls and net.homogeneous:  # else signals keep their size
        check_share(mass.reshape(len(mass), -1).mean(axis=1), request, "the last layer has")


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


def check_pixel_1(operations: Operations, roots: Array, inputs: Input, least: float) -> None:
    """Raise an OverflowError if pixel 1 sees signals whose variances have too few digits there.

    `roots` are of the last layer's variances, (n, *pixels).
    """
    seen = array_module(roots).asarray(seen_by_pixel_1(operations, roots.shape[1:]))
    sees_values = ((inputs.parts != 0).any(axis=1) & seen).reshape(len(roots), -1).any(axis=1)
    if bool((sees_values & (roots.reshape(len(roots), -1)[:, 0] < least)).any()):
        raise OverflowError(
            f"pixel 1 has roots of variances below {least:.1e}, expected larger signals at the "
            f"pixels that it sees"
        )


def _merged(
    operations: Operations, xp: ModuleType, energy: Array, bias: Array, norm: Array
) -> Iterator[tuple[Operation, list[Array], list[float], Array]]:
    """Yield each operation with its parts, their weights, and the mass of the whole, (n, *pixels).

    The first part has the most weight, so that coordinates of the others are small. `energy` is of
    single pixels; `bias` and `norm`, (n,), are the variances of biases and normalized features.
    """
    features = mass = energy
    # Rounding has lost this of sums with biases: all layers add the same, and round alike.
    lost_features = lost = 0.0 * energy
    activation = activation_of(operations.network)
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
                    check_variances(operations, operation.layer, mass, energy)
                    variance = activation.variance(constants.layer.c_w * mass)
                    with np.errstate(over="ignore"):
                        mass = constants.branch_scale * variance
                    lost = 0.0 * mass
                    if not bool(xp.isfinite(mass).all()):
                        raise OverflowError(
                            f"variances of layer {operation.layer} exceed float64, expected "
                            f"smaller signals, alpha or c_v"
                        )
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
                    [constants.feature_weight, constants.branch_weight],
                )
                mass = past_skip(features, mass, *weights)
                if has_bias:
                    lost = past_skip(lost_features, lost, *weights)
                if constants.feature_weight < constants.branch_weight:
                    parts, weights = parts[::-1], weights[::-1]
            elif operation.kind == "joined":
                weights = from_the_middle(operations.joined_weights(operation.layer))
                parts = taps_of(mass, operation.window, 1)
                mass = weighted_mean(parts, weights)
            else:  # a window
                weights = list(operation.window.weights)
                parts = taps_of(mass, operation.window, 1)
                mass = weighted_mean(parts, weights)
                if has_bias:
                    lost = window_mean(lost, operation.window, 1)
            yield operation, parts, weights, mass
        features, lost_features = mass, lost


def linear_terms(operations: Operations, request: Request, inputs: Input) -> tuple[Array, Array]:
    """Return numbers of signals on the left and on the right, (n, terms, pixels or 1).

    Added up over terms, their products are the head's means of F⁰, which may be 0. They are means
    at each pixel of shares, else at windows of pooled pixels, or as a whole.
    """
    parts, means = inputs.parts, inputs.means
    if not request.shares:
        parts = means
    elif not request.pool:
        for operation in operations.input:
            parts = window_mean(parts, operation.window, 2)
    else:  # the input filter moves both pixels of a pair
        for operation in operations.input:
            weights = operation.window.weights
            taps = zip(weights, taps_of(parts, operation.window, 2), strict=True)
            parts = array_module(parts).concatenate([weight * tap for weight, tap in taps], axis=1)
            means = array_module(means).concatenate(taps_of(means, operation.window, 2), axis=1)
    return parts.reshape(*parts.shape[:2], -1), means.reshape(*means.shape[:2], -1)
