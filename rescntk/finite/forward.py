"""Outputs of a finite network: layers, features, heads (Barzilai et al. 2022, eq. 1-3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..network import Network, check_network
from ..validation import check_choice, check_free_memory
from ..vocabulary import HEADS
from .batches import Batch, as_batch
from .circular import convolve
from .layout import Convolution, Layout, first_layer_reads_features, layout
from .parameters import Layer, Parameters
from .precision import precision

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "erf": jax.scipy.special.erf,
}

LayerCall = Callable[[str, Convolution, Layer, jax.Array], jax.Array]
"""Computes one layer of a part: its output (n, d, outputs) from its input (n, d, inputs)."""


def apply(network: Network, params: Parameters, X: Any, head: str = "gap") -> jax.Array:
    r"""Return the outputs f(x) of a finite network.

    At the width C of `params`, layers :math:`l = 1 \dots L` are

    .. math::
        g^l = \sqrt{c_w/(q C)}\, W^l * f^{l-1}, \qquad
        f^l = f^{l-1} + \alpha \sqrt{c_v/(q C)}\, V^l * \sigma(g^l),

    as in `Network`. With the readout's variance r the heads are :math:`\sqrt{r/C}\, w \cdot f^L_1`
    ("equivariant"), :math:`\sqrt{r/(dC)}\, \langle W, f^L \rangle` ("trace") and
    :math:`\sqrt{r/C}\, w \cdot \frac1d \sum_j f^L_j` ("gap").

    Parameters
    ----------
    network : Network
    params : Parameters
        From ``finite.init`` with the same network.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals, of NumPy or JAX. For the head "gap" also a list of arrays
        (n_channels, n_timepoints_i) of different lengths.
    head : {"equivariant", "trace", "gap"}, default "gap"

    Returns
    -------
    jax.Array, (n_cases,) or (n_cases, n_outputs)
        Of the parameters' precision. JAX can differentiate, vectorize and compile the call.

    Raises
    ------
    ValueError
        For arguments that are not as described or do not belong together.
    MemoryError
        If a layer of all signals takes more than the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> params = finite.init(0, network, n_channels=2, width=64)
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> finite.apply(network, params, X).shape
    (5,)
    >>> finite.apply(network, params, [X[0], X[1, :, :9]]).shape
    (2,)
    """
    check_arguments(network, params, head)
    batch = as_batch(X, "X", params.dtype)
    check_batch(batch, "X", params, head)
    check_layers(network, params, batch)
    with precision(params.dtype):
        return outputs_of_groups(network, head, params, batch.arrays)[batch.order]


def outputs_of_groups(
    network: Network, head: str, params: Parameters, groups: tuple[Any, ...]
) -> jax.Array:
    """Return the outputs of signals of several lengths, one length after another."""
    return jnp.concatenate([_outputs(network, head, params, signals) for signals in groups])


@partial(jax.jit, static_argnums=(0, 1))
def _outputs(network: Network, head: str, params: Parameters, signals: jax.Array) -> jax.Array:
    return read(network, head, params, features(network, params, signals))


def call_layer(part: str, convolution: Convolution, layer: Layer, signal: jax.Array) -> jax.Array:
    """Return factor · W * signal, plus the biases where there are any."""
    result = convolution.factor * convolve(signal, layer.weights, convolution.step)
    return result if layer.biases is None else result + layer.biases


def features(
    network: Network, params: Parameters, signals: jax.Array, call: LayerCall = call_layer
) -> jax.Array:
    """Return the features f^L, (n_cases, n_timepoints, width).

    Parameters
    ----------
    network, params
        As for `apply`.
    signals : jax.Array, (n_cases, n_channels, n_timepoints)
    call : callable
        Computes each layer; the tangent kernel passes a `call` that also takes notes.
    """
    plan = plan_of(network, params)
    activation = ACTIVATIONS[network.activation]
    x = signals.swapaxes(1, 2)
    f = None
    if plan.input is not None and params.input is not None:
        f = call("input", plan.input, params.input, x)
    for index in range(network.depth):
        reads_signal = index == 0 and not first_layer_reads_features(network)
        read_by_g = x if reads_signal or f is None else f
        g = call("inner", plan.inner[index], params.inner[index], read_by_g)
        branch = activation(g)
        if plan.outer is not None and params.outer is not None:
            branch = call("outer", plan.outer[index], params.outer[index], branch)
        elif params.initialization == "ntk":
            branch = math.sqrt(network.c_v) * branch
        f = f + network.alpha * branch if network.skip and f is not None else branch
    assert f is not None  # depth is at least 1
    return f


def read(network: Network, head: str, params: Parameters, f: jax.Array) -> jax.Array:
    """Return the outputs (n_cases,) or (n_cases, n_outputs) from the features f^L."""
    weights, biases = params.readout
    pooled = pool(f, head)
    axes = pooled.ndim - 1
    result = readout_factor(network, params) * jnp.tensordot(
        pooled, weights, axes, precision=jax.lax.Precision.HIGHEST
    )
    return result if biases is None else result + biases


def pool(f: jax.Array, head: str) -> jax.Array:
    """Return what the readout's weights multiply, from the features f^L (n, d, width).

    Pixel 1 for "equivariant" and the mean over pixels for "gap", (n, width); all of f^L for
    "trace".
    """
    if head == "equivariant":
        return f[:, 0]
    return f.mean(axis=1) if head == "gap" else f


def readout_factor(network: Network, params: Parameters) -> float:
    """Return the readout's factor √(readout_scale / C), for the head "trace" √(… / (dC))."""
    if params.initialization != "ntk":
        return 1.0
    return math.sqrt(network.readout_scale / (params.width * (params.n_timepoints or 1)))


def plan_of(network: Network, params: Parameters) -> Layout:
    """Return the layout of these parameters; without factors where weights carry their scale."""
    plan = layout(network, params.n_channels, params.width)
    return plan if params.initialization == "ntk" else plan.without_factors()


def check_arguments(network: Network, params: Parameters, head: str) -> None:
    """Say so if network, parameters and head are not what they should be or do not match."""
    check_network(network)
    check_choice(head, "head", HEADS)
    if not isinstance(params, Parameters):
        raise ValueError(
            f"params is {type(params).__name__}, expected Parameters as from finite.init"
        )
    plan = layout(network, params.n_channels, params.width)
    for name, expected in (("input", plan.input), ("inner", plan.inner), ("outer", plan.outer)):
        here, there = _shapes(getattr(params, name)), _sizes(expected)
        if here != there:
            raise ValueError(
                f"params.{name} has weights {here}, expected {there} for this network: "
                f"call finite.init with the network that is applied"
            )
    if head == "trace" and params.n_timepoints is None:
        raise ValueError(
            "params has a readout without pixels, expected one with weights for every pixel "
            'for the head "trace": finite.init(..., n_timepoints=…)'
        )
    if head != "trace" and params.n_timepoints is not None:
        raise ValueError(
            f'head is {head!r}, expected "trace": params has a readout with weights for '
            f"{params.n_timepoints} pixels"
        )


def check_batch(batch: Batch, name: str, params: Parameters, head: str) -> None:
    """Say so if signals do not fit the parameters or the head."""
    if batch.n_channels != params.n_channels:
        raise ValueError(
            f"{name} has signals of {batch.n_channels} channels, "
            f"expected {params.n_channels} as params has them"
        )
    if len(batch.groups) > 1 and head != "gap":
        raise ValueError(
            f"{name} has signals of lengths {batch.lengths} for the head {head!r}, "
            f'expected one length: only "gap" takes signals of different lengths'
        )
    if head == "trace" and batch.lengths != [params.n_timepoints]:
        raise ValueError(
            f"{name} has signals of length {batch.lengths[0]}, "
            f"expected {params.n_timepoints}, the pixels of params' readout"
        )


def check_layers(
    network: Network,
    params: Parameters,
    batch: Batch,
    *,
    kept: int = 1,
    n_cases: int | None = None,
) -> None:
    """Raise a MemoryError if layers of signals take more than the free memory.

    Parameters
    ----------
    kept : int, default 1
        Layers in memory at once: all of them where gradients are taken.
    n_cases : int, optional
        Signals of the longest group that are computed at once; by default all.
    """
    sizes = [(n_cases or len(group.indices)) * group.signals.shape[2] for group in batch.groups]
    taps = min(max(network.filter_size, network.outer_filter_size), max(batch.lengths))
    # Of each layer the pre-activation and the features; of the last also the filter's windows.
    numbers = max(sizes) * params.width * (2 * kept + taps)
    check_free_memory(
        numbers * params.dtype.itemsize,
        f"a network of width {params.width} on signals of {max(sizes)} pixels in all",
        "give fewer or shorter signals, or a smaller width",
    )


def _shapes(layers: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the weights of a layer, of several or of none."""
    if layers is None:
        return []
    return [tuple(layer.weights.shape) for layer in _several(layers)]


def _sizes(convolutions: Any) -> list[tuple[int, ...]]:
    if convolutions is None:
        return []
    return [convolution.shape for convolution in _several(convolutions)]


def _several(one_or_more: Any) -> tuple[Any, ...]:
    single = isinstance(one_or_more, Layer | Convolution)
    return (one_or_more,) if single else tuple(one_or_more)
