"""Kernels of sampled networks at finite width: their deviations and shifts, to order 1/width."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from ..checks.values import check_flag, check_positive_integer, check_signals
from ..engines.heads import check_head, pool_weights, pooled_head, right_pixels
from ..memory import check_free_memory
from ..network import PER_LAYER_FIELDS, Network, check_network
from ..network.parameters import RELU_FIELDS
from ..network.sampled import has_outer_weights, reads_signal
from .fluctuations import (
    Activation,
    Convolution,
    Normalization,
    Points,
    Readout,
    State,
    Step,
    add_branch,
    features,
    fixed,
    scaled,
)
from .forward import check_range
from .moments import LEAST_DEFICIT, TwoNumbers

_LEAST_ANGLE = 1e-3
"""The least angle of two points' pre-activations that are no multiples of each other. Curvatures
of the tangent kernel grow like its inverse cube, and their products with covariances cancel."""

_LEAST_VARIANCE = 1e-140
"""The least variance of a point that is not 0: products of two are far from the least floats."""

_LEAST_DEFICIT_OF_CORRELATIONS = 2e-5
"""The least 1 − |ρ| of outputs whose correlations have corrections. Two signals of a network
without skip connections have it at depth 1500, where shifts have three digits left: covariances of
order depth cancel to the square of 1 − ρ."""

_NUMBERS_AT_ONCE = 2**18
"""Quadruples of points whose covariances are held together, of pairs of signals of few points."""

_ARRAYS = 40
"""Arrays of quadruples of points that a layer holds at once: 37 were measured."""


class Correction(NamedTuple):
    """Corrections of order 1/width to the kernels of signals, (n_cases, n_cases) each."""

    gpk_shift: np.ndarray
    """The mean of sampled Gaussian process kernels, less the kernel of infinite width."""
    gpk_deviation: np.ndarray
    """The standard deviation of entries over sampled networks."""
    ntk_shift: np.ndarray
    ntk_deviation: np.ndarray
    correlation_shift: np.ndarray
    """Of the sampled Gaussian process kernels K̂(x, z) / √(K̂(x, x) K̂(z, z)). Where those of
    infinite width are ±1 up to rounding it is 0; where they are so near ±1, up to 2e-5, that
    covariances in float64 do not tell, it is NaN."""
    correlation_deviation: np.ndarray


def correction(
    network: Network, X: ArrayLike, width: int, head: str | int = "gap", *, images: bool = False
) -> Correction:
    r"""Return what finite width adds to the kernels of a network, to order 1/width.

    Parameters
    ----------
    network : Network
        Of ReLU, not leaky: any filters, skip connections, constants of each layer, normalization,
        biases and trained parts.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals. Where the pre-activations of two pixels, of one signal or of two, are in one line
        up to an angle of 1e-3, they are multiples of each other up to rounding.
    width : int
        Channels of all hidden layers.
    head : {"equivariant", "trace", "gap"} or int, default "gap"
    images : bool, default False
        Whether X are images, (n_cases, n_channels, height, width).

    Returns
    -------
    finite.Correction
        Shifts err by terms of order 1/width², and variances by a share of the order depth/width
        (of one layer's, where features are normalized): neither is small unless this share is.

    Raises
    ------
    ValueError
        If the network has another activation or a slope, if variances are below 1e-140 and not 0,
        or for arguments that are not as described.
    MemoryError, OverflowError
        If the covariances of all pairs of pixels do not fit into memory, or numbers into float64.

    Notes
    -----
    Time and memory grow like the fourth power of the pixels of a pair of signals, 2d, times the
    pairs and layers: two signals of 8 pixels take 0.1 s a layer, of 16 pixels 1.5 s, of 32 pixels
    25 s and 4 GB. Formulas: docs/theory/depth_and_width.md.

    For one signal of one pixel `theory.depth.relative_variance` has the variance at any width.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> network = rk.literature.geifman_cnn(depth=2)
    >>> found = rk.finite.correction(network, np.eye(2)[:, :, None], width=50)
    >>> K = rk.Kernel(network, "gpk")(np.eye(2)[:, :, None])
    >>> bool(np.allclose((found.gpk_deviation / K)[0, 0] ** 2, 2 * 5 / 50))  # (1 + 5/n)^2 − 1
    True
    """
    check_network(
        network,
        RELU_FIELDS | {"bias", "norm"},
        ": its fluctuations are not known here",
        per_layer=PER_LAYER_FIELDS,
    )
    n, head = check_positive_integer(width, "width"), check_head(head)
    images, signals = check_flag(images, "images"), check_signals(X, "X", images=True)
    if signals.ndim != 3 + images:
        expected = "height, width" if images else "n_timepoints"
        raise ValueError(
            f"X has shape {signals.shape} and images is {images}, expected (n_cases, n_channels, "
            f"{expected})"
        )
    n_cases, axes = len(signals), signals.shape[2:]
    one, other = np.triu_indices(n_cases, 1)
    pairs = np.stack([one, other]) if n_cases > 1 else np.zeros((1, 1), dtype=int)
    points = Points(len(pairs), axes)
    quadruples = points.size**4
    check_free_memory(
        8.0 * _ARRAYS * quadruples,
        f"a correction for signals of {math.prod(axes)} pixels",
        "give shorter signals",
    )
    results = np.zeros((1 + len(Correction._fields), n_cases, n_cases))
    several = max(1, _NUMBERS_AT_ONCE // quadruples)
    for start in range(0, pairs.shape[1], several):
        cases = pairs[:, start : start + several]
        left, right = cases[:, None], cases[None]
        with np.errstate(over="ignore", invalid="ignore"):  # `check_range` reports it
            found = _of_pairs(network, points, signals, cases, head)
        results[:, left, right] = results[:, right, left] = found
    check_range(results, "squares of kernels")
    deficit, results = 1.0 - np.abs(results[-1]), results[:-1]
    results[::2] /= n
    results[1::2] = np.sqrt(np.maximum(results[1::2], 0.0) / n)
    results[-2:, deficit < _LEAST_DEFICIT_OF_CORRELATIONS] = math.nan
    results[-2:, deficit <= LEAST_DEFICIT] = 0.0  # multiples of each other
    return Correction(*results)


def _of_pairs(
    network: Network, points: Points, signals: Array, cases: Array, head: str | int
) -> Array:
    """Return shifts and variances times the width, and the correlations of infinite width.

    They are (7, 2, 2, B), of pairs of `cases`, (2, B). Of single signals the pairs are one signal,
    and (7, 1, 1, B).
    """
    state = last_state(network, points, signals, cases)
    weights = _head_weights(pooled_head(head, points.axes), points.axes)
    output = Readout(weights, network.readout_scale, network.parts.readout).behind(state)
    _check_variances(output.kernels[0], "behind the readout", cases)
    correlation = Normalization(output.kernels).behind(output)
    a, b = np.ogrid[: len(cases), : len(cases)]
    squares = output.squares[a, b, a, b] + output.squares[a, b, b, a]
    return np.stack(
        [
            output.shift[0],
            output.covariance[0, a, b, 0, a, b],
            output.shift[1],
            output.covariance[1, a, b, 1, a, b] + squares,
            correlation.shift[0],
            correlation.covariance[0, a, b, 0, a, b],
            correlation.kernels[0],
        ]
    )


def last_state(network: Network, points: Points, signals: Array, cases: Array) -> State:
    """Return the state of the last features at the pixels of pairs of signals."""
    n_channels, n_pairs = signals.shape[1], cases.shape[1]
    pixels = np.moveaxis(signals[cases], 2, -1).swapaxes(0, 1)
    pixels = pixels.reshape(n_pairs, points.size, n_channels)
    products = np.moveaxis(pixels @ pixels.swapaxes(1, 2), 0, -1)
    factor = network.factor_of_input(n_channels)
    F = points.box(factor * products, network.input_filter)
    if factor > 0:
        is_there = np.abs(pixels).max(axis=-1).T > 0
        windows = points.box(1.0 * (is_there[:, None] & is_there[None]), network.input_filter)
        _check_variances(F, "in the input", cases, windows)
    state = features(fixed(F, network.parts.input))
    signal = fixed(F, 0.0) if reads_signal(network) else None
    has_outer = has_outer_weights(network)  # looks at all layers
    for number in range(1, network.depth + 1):
        state = _behind_layer(network, number, points, state, signal, has_outer, cases)
        signal = None
    return state


def _behind_layer(
    network: Network,
    number: int,
    points: Points,
    below: State,
    signal: State | None,
    has_outer: bool,
    cases: Array,
) -> State:
    """Return the state of the features behind a layer.

    `signal` is what the layer reads in their place, of layer 1 behind a frozen input.
    """
    layer, parts = network.layer(number), network.parts
    read, steps = below if signal is None else signal, list[Step]()
    if network.norm:
        _check_variances(read.kernels[0], f"in front of layer {number}", cases)
        steps.append(Normalization(read.kernels))
        read = steps[-1].behind(read)
    steps.append(Convolution(points, layer.inner_weights, parts.inner))
    read = steps[-1].behind(read)
    _check_variances(read.kernels[0], f"in layer {number}", cases)
    activation = Activation(read.kernels)
    _check_angles(activation.two, number, cases)
    steps.append(activation)
    read = activation.behind(read)
    if not has_outer:
        return scaled(read, layer.outer_variance)
    steps.append(
        Convolution(points, layer.outer_weights, parts.outer, np.square(layer.branch_factor))
    )
    read = steps[-1].behind(read)
    if not layer.skip:
        return features(read)
    return add_branch(below, read, steps if signal is None else [], layer.identity_factor)


def _check_angles(two: TwoNumbers, number: int, cases: Array) -> None:
    """Raise a ValueError for pre-activations of two points that are nearly in one line."""
    lack = 1.0 - np.abs(two.rho)
    near = (lack > LEAST_DEFICIT) & (lack < 0.5 * _LEAST_ANGLE**2) & (two.stds > 0)
    if near.any():
        *both, place = np.argwhere(near)[0]
        first, second = (_name(point, place, len(two.rho), cases) for point in both)
        raise ValueError(
            f"X has {first} and {second} whose pre-activations in layer {number} are in one line "
            f"up to an angle of {_LEAST_ANGLE:g}, expected greater angles, or multiples"
        )


def _check_variances(F: Array, where: str, cases: Array, exact: Array | None = None) -> None:
    """Raise a ValueError for points of kernels F, (P, P, B), whose variance is nearly 0.

    It is 0 where that of `exact` is 0, by default F itself.
    """
    every = np.arange(len(F))
    variance = F[every, every]
    small = (variance < _LEAST_VARIANCE) & ((F if exact is None else exact)[every, every] > 0)
    if small.any():
        point, place = np.argwhere(small)[0]
        raise ValueError(
            f"X has {_name(point, place, len(F), cases)} whose variance {where} is "
            f"{variance[point, place]:.1e}, expected 0 or at least {_LEAST_VARIANCE:g}: give "
            "larger signals, or a network that decreases variances less"
        )


def _name(point: int, place: int, size: int, cases: Array) -> str:
    """Return the name of one of `size` points, of a pair of cases."""
    d = size // len(cases)
    return f"case {cases[point // d, place]}" + f", pixel {point % d}" * (d > 1)


def _head_weights(head: str | int, axes: tuple[int, ...]) -> Array:
    """Return the weights of pixel pairs of two signals in a head's kernel, (d, d)."""
    d = math.prod(axes)
    if head == "gap":
        return np.full((d, d), 1.0 / d**2)
    if head == "equivariant":
        return np.diag([1.0] + [0.0] * (d - 1))
    if head == "trace":
        return np.eye(d) / d
    if isinstance(head, str):
        raise NotImplementedError(f"corrections of finite width have no head {head!r}")
    weights = np.zeros((d, d))
    pairs = right_pixels(head, axes).reshape(-1, d), pool_weights(head, axes)
    for columns, weight in zip(*pairs, strict=True):
        weights[np.arange(d), columns] += weight / d
    return weights
