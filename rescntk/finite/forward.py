"""Outputs of a finite network: layers, features, heads (Barzilai et al. 2022, eq. 1-3)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..checks.values import check_batch, check_unmasked
from ..engines.heads import check_head, pool_pixels
from ..engines.layer.means import pooled
from ..network import Network
from ..network.activations import activation_of
from ..network.parts import ConvolutionWeights, Filter
from ..network.sampled import reads_signal
from .parameters import (
    Convolution,
    Parameters,
    check_finite_network,
    precision,
    shapes,
)

Values = TypeVar("Values", np.ndarray, jax.Array)

Signals: TypeAlias = "jax.Array | tuple[jax.Array, ...]"
"""An array of signals or images; or a tuple of batches of one signal each, of any lengths."""


def apply(network: Network, params: Parameters, X: ArrayLike, head: str | int = "gap") -> jax.Array:
    r"""Return the outputs f(x) of a finite network, (n_cases,).

    Layers are as in `Network`, at the width n of `params`. With the readout's variance r_s the
    heads are :math:`\sqrt{r_s/n}\, \omega \cdot f^L_1` ("equivariant"),
    :math:`\sqrt{r_s/(dn)}\, \langle \omega, f^L \rangle` ("trace") and
    :math:`\sqrt{r_s/n}\, \omega \cdot \frac1d \sum_j f^L_j` ("gap"): docs/theory/network.md. A head
    of m pixels is "trace" of the means of :math:`f^L` over circular windows. JAX can differentiate,
    vectorize and compile the call; with parameters of float64, within ``jax.enable_x64(True)``.

    Parameters
    ----------
    network : Network
    params : Parameters
        From ``finite.init`` with the same network.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals, of NumPy or JAX. Images, (n_cases, n_channels, height, width), where `params`
        have ``images=True``. For the head "gap" also a list of arrays (n_channels,
        n_timepoints_i) of different lengths.
    head : {"equivariant", "trace", "gap"} or int, default "gap"

    Returns
    -------
    array, (n_cases,)
        An array of JAX, in the precision of `params`.

    Raises
    ------
    ValueError, OverflowError
        For arguments that are not as described or do not belong together; for outputs that exceed
        the parameters' dtype.

    Examples
    --------
    >>> import rescntk as rk
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> params = rk.finite.init(0, network, n_channels=2, width=64)
    >>> rk.finite.apply(network, params, rk.theory.multisphere.sample(5, 2, 16)).shape
    (5,)
    """
    X = check_signals(network, params, X, head)
    with precision(params.readout.dtype):
        return check_range(outputs(network, head, params, X), "outputs")


@partial(jax.jit, static_argnums=(0, 1))
def outputs(network: Network, head: str | int, params: Parameters, X: Signals) -> jax.Array:
    """Return the outputs of checked signals, (n_cases,)."""
    f = features(network, head, params, X)
    factor = math.sqrt(network.readout_scale / f.shape[1])
    return factor * jnp.matmul(f, params.readout.ravel(), precision=jax.lax.Precision.HIGHEST)


def features(network: Network, head: str | int, params: Parameters, X: Signals) -> jax.Array:
    """Return what the readout reads, (n_cases, width), or (n_cases, d · width) of all pixels."""
    if isinstance(X, tuple):
        return jnp.concatenate([features(network, head, params, x) for x in X])
    f = _last_layer(network, params, jnp.moveaxis(jnp.asarray(X), 1, -1))
    if not isinstance(head, str):
        f = jnp.moveaxis(f, -1, 1)
        f = jnp.moveaxis(pooled(jnp, f, pool_pixels(head, f.shape[2:])), 1, -1)
    f = f.reshape(len(f), -1, f.shape[-1])
    if reads_pixels(head):
        return f.reshape(len(f), -1)
    if head == "equivariant":
        return f[:, 0]
    if head == "gap":
        return f.mean(axis=1)
    raise NotImplementedError(f"networks of finite width have no head {head!r}")


def reads_pixels(head: str | int) -> bool:
    """Return whether the readout has weights for every pixel."""
    return head == "trace" or not isinstance(head, str)


def _last_layer(network: Network, params: Parameters, x: jax.Array) -> jax.Array:
    """Return the features f^L, (n, d, width) or (n, h, w, width), of signals (…, n_channels)."""
    energy = 1.0 if network.input_scale is None else network.input_scale * x.shape[-1]
    activation = activation_of(network)
    signal_weights = ConvolutionWeights(network.input_filter, energy, 0.0)
    f: Any = None if params.input is None else convolve(params.input, x, signal_weights)
    for index, inner in enumerate(params.inner):
        layer = network.layer(index + 1)
        weights, read = layer.inner_weights, normalized(f) if network.norm else f
        if index == 0 and reads_signal(network):
            weights, read = weights._replace(variance=weights.variance * energy), x
        branch = activation.function(jnp, jax.scipy.special, convolve(inner, read, weights))
        if params.outer:
            branch = convolve(params.outer[index], branch, layer.outer_weights)
        else:
            branch = math.sqrt(layer.outer_weights.variance) * branch
        branch = layer.branch_factor * branch
        f = layer.identity_factor * f + branch if layer.skip else branch
    return f


def convolve(params: Convolution, signal: jax.Array, weights: ConvolutionWeights) -> jax.Array:
    """Return a convolution of `params`, multiplied by the standard deviations of `weights`."""
    fan_in = math.prod(params.weights.shape[:-1])
    result = math.sqrt(weights.variance / fan_in) * circular_convolution(
        signal, params.weights, weights.filter.dilation
    )
    return result if params.biases is None else result + weights.bias * params.biases


def normalized(f: jax.Array) -> jax.Array:
    """Return features (…, width) divided by their root mean square over channels; 0 stays 0."""
    square = jnp.mean(f * f, axis=-1, keepdims=True)
    return f * jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def circular_convolution(signal: jax.Array, weights: jax.Array, dilation: int) -> jax.Array:
    """Return y_j = Σ_k W_k x_{j + rk} with dilation r, indices modulo the length: (n, d, outputs).

    The signal is (n, d, inputs), the weights are (q, inputs, outputs); (n, h, w, inputs) and
    (q, q, inputs, outputs) of images. The filter may be longer than the signal.
    """
    offsets, windows = Filter(weights.shape[0], dilation).offsets, signal
    for axis in range(1, signal.ndim - 1):
        windows = jnp.stack([jnp.roll(windows, -k, axis) for k in offsets], axis=-2)
    return jnp.tensordot(windows, weights, signal.ndim - 1, precision=jax.lax.Precision.HIGHEST)


def check_signals(
    network: Network, params: Parameters, X: ArrayLike, head: str | int, name: str = "X"
) -> Signals:
    """Return signals in the parameters' dtype, or raise where arguments do not belong together.

    Values that JAX traces are not checked.
    """
    check_finite_network(network)
    check_head(head)
    if not isinstance(params, Parameters):
        raise ValueError(f"params is {type(params).__name__}, expected Parameters of finite.init")
    axes, n_channels, pixels = _check_parameters(network, params)
    X = as_signals(X, name)
    batches = X if isinstance(X, tuple) else (X,)
    shape, sides = batches[0].shape, batches[0].shape[2:]
    if len(shape) != 2 + axes or shape[1] != n_channels:
        form = f"(n_cases, {n_channels}, {'n_timepoints' if axes == 1 else 'height, width'})"
        raise ValueError(f"{name} has shape {shape}, expected {form}, as params is for")
    if isinstance(X, tuple) and head != "gap":
        raise ValueError(
            f"{name} is a list of signals, expected one array for the head {head!r}: only "
            '"gap" takes signals of different lengths'
        )
    if reads_pixels(head) != (pixels is not None) or pixels not in (None, math.prod(sides)):
        raise ValueError(
            f"head is {head!r} and {name} has {math.prod(sides)} pixels, expected what params is "
            f'for: finite.init(..., n_timepoints={pixels}), which the head "trace" needs, and '
            f"windows of pixels"
        )
    dtype = params.readout.dtype
    with np.errstate(over="ignore"):  # `check_range` reports it
        return jax.tree.map(lambda x: x.astype(dtype), X)


def _check_parameters(network: Network, params: Parameters) -> tuple[int, int, int | None]:
    """Return the axes of filters, the channels and pixels that parameters of `network` are for."""
    first = params.inner[0].weights if params.input is None else params.input.weights
    axes, n_channels, width = first.ndim - 2, first.shape[-2], first.shape[-1]
    pixels = None if params.readout.ndim == 1 else len(params.readout)
    expected = shapes(network, n_channels, width, pixels, axes)
    for part, came, wanted in zip(Parameters._fields, params, expected, strict=True):
        received, needed = (jax.tree.map(lambda a: a.shape, tree) for tree in (came, wanted))
        if received != needed:
            raise ValueError(
                f"params has {part} of shapes {received}, expected {needed}: call finite.init with "
                "the network that is applied"
            )
    return axes, n_channels, pixels


def as_signals(X: Any, name: str) -> Signals:
    """Return one array of signals or images, or a tuple of batches of one signal each."""
    if not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(X)):
        check_unmasked(X, name, "(n_cases, n_channels, n_timepoints)")
        lists = isinstance(X, list | tuple)
        X = check_batch([np.asarray(x) for x in X] if lists else np.asarray(X), name)
    return X if hasattr(X, "ndim") else tuple(x[None] for x in X)


def check_range(values: Values, what: str) -> Values:
    """Return results, or raise an OverflowError if they exceed their dtype; not while traced."""
    if not isinstance(values, jax.core.Tracer) and not np.isfinite(np.asarray(values)).all():
        raise OverflowError(
            f"the {what} exceed {values.dtype}, expected smaller signals or parameters"
        )
    return values
