"""Outputs of a finite network: layers, features, heads (Barzilai et al. 2022, eq. 1-3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..arrays import channels_and_length
from ..network import Filter, Network, check_network
from ..validation import HEADS, check_batch, check_choice, check_free_memory, check_unmasked
from .weights import FIELDS, Convolution, Layer, Parameters, layout, precision

LayerCall = Callable[[str, Convolution, Layer, jax.Array], jax.Array]
"""Computes one layer of a part: its output (n, d, outputs) from its input (n, d, inputs)."""


def apply(network: Network, params: Parameters, X: Any, head: str = "gap") -> jax.Array:
    r"""Return the outputs f(x) of a finite network, (n_cases,) or (n_cases, n_outputs).

    Layers are as in `Network`, at the width C of `params`. With the readout's variance r the heads
    are :math:`\sqrt{r/C}\, w \cdot f^L_1` ("equivariant"),
    :math:`\sqrt{r/(dC)}\, \langle W, f^L \rangle` ("trace") and
    :math:`\sqrt{r/C}\, w \cdot \frac1d \sum_j f^L_j` ("gap"). JAX can differentiate, vectorize
    and compile the call; with parameters of float64, within ``jax.enable_x64(True)``.

    Parameters
    ----------
    network : Network
    params : Parameters
        From ``finite.init`` with the same network.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals, of NumPy or JAX. Images, (n_cases, n_channels, height, width), where `params`
        have ``images=True``. For the head "gap" also a list of arrays (n_channels,
        n_timepoints_i) of different lengths.
    head : {"equivariant", "trace", "gap"}, default "gap"

    Raises
    ------
    ValueError, MemoryError, OverflowError
        For arguments that are not as described or do not belong together; for a layer of all
        signals beyond the free memory; for outputs that exceed the parameters' dtype.

    Examples
    --------
    >>> import rescntk as rk
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> params = rk.finite.init(0, network, n_channels=2, width=64)
    >>> rk.finite.apply(network, params, rk.theory.multisphere.sample(5, 2, 16)).shape
    (5,)
    """
    batch = fitting_batch(network, params, head, X)
    check_layers(network, params, batch)
    with precision(params.dtype):
        outputs = outputs_of_lengths(network, head, params, batch.arrays)[batch.order]
    return check_range(outputs, "outputs")


def outputs_of_lengths(
    network: Network, head: str, params: Parameters, arrays: tuple[Any, ...]
) -> jax.Array:
    """Return the outputs of signals of several lengths, one length after another."""
    return jnp.concatenate([_outputs(network, head, params, signals) for signals in arrays])


@partial(jax.jit, static_argnums=(0, 1))
def _outputs(network: Network, head: str, params: Parameters, signals: jax.Array) -> jax.Array:
    return read(network, head, params, features(network, params, signals))


def activate(network: Network, g: jax.Array) -> jax.Array:
    """Return σ(g), the activation of the network."""
    if network.activation != "relu":
        return jax.scipy.special.erf(g)
    return jax.nn.relu(g) if network.is_relu else jax.nn.leaky_relu(g, network.negative_slope)


def convolve(signal: jax.Array, weights: jax.Array, step: int = 1) -> jax.Array:
    """Return y_j = Σ_k W_k x_{j + step·k}, indices modulo the length: (n, d, outputs).

    The signal is (n, d, inputs), the weights are (q, inputs, outputs). Of images, pixels and taps
    have two axes each: (n, h, w, inputs) and (q, q, inputs, outputs). The filter may be longer than
    the signal: taps that meet the same pixel are added first.
    """
    sides = signal.shape[1:-1]
    windows = signal  # with an axis of taps behind each axis of pixels
    for axis, d in enumerate(sides):
        offsets = np.array(Filter(weights.shape[axis], step).taps) % d
        distinct, places = np.unique(offsets, return_inverse=True)
        if len(distinct) < len(offsets):
            of_taps = jnp.moveaxis(weights, axis, 0)
            of_taps = jax.ops.segment_sum(of_taps, places, num_segments=len(distinct))
            weights, offsets = jnp.moveaxis(of_taps, 0, axis), distinct
        place = 1 + 2 * axis
        if len(offsets) == 1:  # rolling takes a third of the time
            moved = jnp.roll(windows, -int(offsets[0]), axis=place)
            windows = jnp.expand_dims(moved, place + 1)
        else:
            pixels = (np.arange(d)[:, None] + offsets) % d
            windows = jnp.take(windows, pixels, axis=place)
    axes = len(sides)
    windows = jnp.moveaxis(windows, range(2, 2 + 2 * axes, 2), range(-1 - axes, -1))
    weights = weights.reshape(-1, weights.shape[-1])
    product = jnp.matmul(
        windows.reshape(-1, len(weights)), weights, precision=jax.lax.Precision.HIGHEST
    )
    return product.reshape(*signal.shape[:-1], -1)


def call_layer(part: str, convolution: Convolution, layer: Layer, signal: jax.Array) -> jax.Array:
    result = convolution.factor * convolve(signal, layer.weights, convolution.step)
    return result if layer.biases is None else result + (convolution.bias or 1.0) * layer.biases


def features(
    network: Network, params: Parameters, signals: jax.Array, call: LayerCall = call_layer
) -> jax.Array:
    """Return the features f^L, (n_cases, d, width); an image has its pixels line by line.

    `call` computes each layer; the tangent kernel passes a function that also records inputs.
    """
    plan = plan_of(network, params)
    x = jnp.moveaxis(signals, 1, -1)
    f: Any = None
    if params.input is not None:
        f = call("input", plan["input"][0], params.input, x)
    for index in range(network.depth):
        source = x if index == 0 and "input" not in network.trained else f
        g = call("inner", plan["inner"][index], params.inner[index], source)
        branch = activate(network, g)
        if params.outer is not None:
            branch = call("outer", plan["outer"][index], params.outer[index], branch)
        elif params.initialization == "ntk":
            branch = math.sqrt(network.c_v) * branch
        f = f + network.alpha * branch if network.skip else branch
    return f.reshape(len(f), -1, f.shape[-1])


def read(network: Network, head: str, params: Parameters, f: jax.Array) -> jax.Array:
    """Return the outputs from the features f^L."""
    weights, biases = params.readout
    pooled = pool(f, head)
    result = readout_factor(network, params) * jnp.tensordot(
        pooled, weights, pooled.ndim - 1, precision=jax.lax.Precision.HIGHEST
    )
    return result if biases is None else result + biases


def pool(f: jax.Array, head: str) -> jax.Array:
    """Return the readout's inputs: (n, width), or f^L (n, d, width) for "trace"."""
    if head == "equivariant":
        return f[:, 0]
    return f.mean(axis=1) if head == "gap" else f


def readout_factor(network: Network, params: Parameters) -> float:
    """Return the readout's factor √(readout_scale / C), for the head "trace" √(… / (dC))."""
    if params.initialization != "ntk":
        return 1.0
    return math.sqrt(network.readout_scale / (params.width * (params.n_timepoints or 1)))


def plan_of(network: Network, params: Parameters) -> dict[str, tuple[Convolution, ...]]:
    """Return the layout of the parameters; without factors where weights carry their scale."""
    factors = params.initialization == "ntk"
    return layout(network, params.n_channels, params.width, params.axes, factors=factors)


class Batch(NamedTuple):
    """Signals for finite networks: one array for each length."""

    arrays: tuple[Any, ...]  # (n, n_channels, n_timepoints) each, lengths rising; or one of images
    places: tuple[np.ndarray, ...]  # (n,) each: the places of the signals in the batch

    @property
    def n_cases(self) -> int:
        return sum(map(len, self.places))

    @property
    def lengths(self) -> list[int]:
        return [channels_and_length(signals)[1] for signals in self.arrays]

    @property
    def order(self) -> np.ndarray:
        """Places (n_cases,) of the batch's signals among the concatenated arrays."""
        return np.argsort(np.concatenate(self.places))


def as_batch(X: Any, name: str, dtype: Any) -> Batch:
    """Return signals of equal or of different lengths, of NumPy or JAX, cast to `dtype`.

    Values that JAX traces are not checked.
    """
    traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(X))
    if not traced:
        check_unmasked(X, name, "(n_cases, n_channels, n_timepoints)")
        lists = isinstance(X, list | tuple)
        X = check_batch([np.asarray(x) for x in X] if lists else np.asarray(X), name)
    if hasattr(X, "ndim"):
        if X.ndim not in (3, 4):
            raise ValueError(
                f"{name} has shape {X.shape}, expected (n_cases, n_channels, n_timepoints), or "
                "(n_cases, n_channels, height, width) of images"
            )
        with np.errstate(over="ignore"):  # `check_range` reports it
            return Batch((X.astype(dtype),), (np.arange(len(X)),))
    lengths = np.array([x.shape[1] for x in X])
    places = tuple(np.flatnonzero(lengths == length) for length in np.unique(lengths))
    stack: Any = jnp.stack if traced else np.stack
    with np.errstate(over="ignore"):
        return Batch(tuple(stack([X[k] for k in run]).astype(dtype) for run in places), places)


def check_range(values: Any, what: str) -> Any:
    """Return results, or raise an OverflowError if they exceed their dtype; not while traced."""
    if not isinstance(values, jax.core.Tracer) and not np.isfinite(np.asarray(values)).all():
        raise OverflowError(
            f"the {what} exceed {values.dtype}, expected smaller signals or parameters"
        )
    return values


def fitting_batch(
    network: Network, params: Parameters, head: str, X: Any, name: str = "X"
) -> Batch:
    """Return signals as a batch, or raise if network, parameters, head or signals do not match."""
    check_network(network, FIELDS)
    check_choice(head, "head", HEADS)
    if not isinstance(params, Parameters):
        raise ValueError(f"params is {type(params).__name__}, expected Parameters of finite.init")
    if params.has_biases_of_network != (network.bias > 0):
        came = "biases" if params.has_biases_of_network else "no biases"
        raise ValueError(
            f"params has {came} of Network.bias, expected those of network with bias "
            f"{network.bias}: call finite.init with the network that is applied"
        )
    for part, convolutions in plan_of(network, params).items():
        shapes = [tuple(layer.weights.shape) for layer in params.layers(part)]
        expected = [convolution.shape for convolution in convolutions]
        if shapes != expected:
            raise ValueError(
                f"params.{part} has weights {shapes}, expected {expected} for this network: "
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
    batch = as_batch(X, name, params.dtype)
    n_channels, axes = batch.arrays[0].shape[1], batch.arrays[0].ndim - 2
    if axes != params.axes:
        came, needed = (("signals", "images")[count - 1] for count in (axes, params.axes))
        raise ValueError(
            f"{name} has {came}, expected {needed}: params is from "
            f"finite.init(..., images={params.axes == 2})"
        )
    if n_channels != params.n_channels:
        raise ValueError(
            f"{name} has signals of {n_channels} channels, "
            f"expected {params.n_channels} as params has them"
        )
    if len(batch.arrays) > 1 and head != "gap":
        raise ValueError(
            f"{name} has signals of lengths {batch.lengths} for the head {head!r}, "
            f'expected one length: only "gap" takes signals of different lengths'
        )
    if head == "trace" and batch.lengths != [params.n_timepoints]:
        raise ValueError(
            f"{name} has signals of length {batch.lengths[0]}, "
            f"expected {params.n_timepoints}, the pixels of params' readout"
        )
    return batch


def check_layers(
    network: Network, params: Parameters, batch: Batch, kept: int = 1, n_cases: int | None = None
) -> None:
    """Raise a MemoryError if `kept` layers of signals take more than the free memory.

    `n_cases` signals of one length are computed at once; by default all.
    """
    of_arrays = zip(batch.places, batch.lengths, strict=True)
    sizes = [(n_cases or len(places)) * pixels for places, pixels in of_arrays]
    taps = max(network.filter_size, network.outer_filter_size) ** params.axes
    widest = min(taps, max(batch.lengths))
    # Of each layer the pre-activation and the features; of the last also the filter's windows.
    numbers = max(sizes) * params.width * (2 * kept + widest)
    check_free_memory(
        numbers * params.dtype.itemsize,
        f"a network of width {params.width} on signals of {max(sizes)} pixels in all",
        "give fewer or shorter signals, or a smaller width",
    )
