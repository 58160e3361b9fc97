"""Parameters of a finite network: shapes, factors and initial values of all weights."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..network import BASIC_FIELDS, Filter, Network, check_network
from ..validation import (
    check_choice,
    check_depth,
    check_dtype,
    check_flag,
    check_free_memory,
    check_integer,
)

FIELDS = BASIC_FIELDS | {"bias"}
"""The fields of `Network` that finite networks support."""

INITIALIZATIONS = ("ntk", "pytorch", "xavier")
"""N(0, 1) with factors; PyTorch's default, uniform; Xavier (Glorot and Bengio 2010), normal."""


@dataclass(frozen=True)
class Convolution:
    """Sizes and variance of a convolution y_j = factor · Σ_k W_k x_{j + step·k}.

    Images have two axes of pixels, and q × q taps.
    """

    size: int  # filter size q, odd: k = −(q−1)/2 … (q−1)/2, on each axis
    inputs: int
    outputs: int
    # Of the output for inputs of unit mean square: c_w, c_v or the input's scale. None for weights
    # that carry their scale themselves.
    variance: float | None
    step: int = 1  # pixels from a tap to the next; more than 1 in a dilated filter.
    axes: int = 1  # of pixels: 2 for images.
    bias: float = 0.0  # β, the factor in front of the biases of `Network.bias`; 0 without them.

    @property
    def shape(self) -> tuple[int, ...]:
        return *(self.size,) * self.axes, self.inputs, self.outputs

    @property
    def taps(self) -> int:
        return self.size**self.axes

    @property
    def fan_in(self) -> int:
        return self.taps * self.inputs

    @property
    def factor(self) -> float:
        """√(variance / (taps · inputs)), the factor in front of N(0, 1) weights; 1 for others."""
        return 1.0 if self.variance is None else math.sqrt(self.variance / self.fan_in)


def layout(
    network: Network, n_channels: int, width: int, axes: int = 1, *, factors: bool = True
) -> dict[str, tuple[Convolution, ...]]:
    """Return the convolutions of `network`, by the name of their part.

    - "input", V⁰: where skip connections read f⁰, or g¹ does because the input is trained.
    - "inner", W¹ … W^L: where the input is frozen, g¹ reads the signal itself.
    - "outer", V¹ … V^L: except frozen 1x1 convolutions without skip connections and biases. Their
      limit is the identity, and the papers' networks of one convolution a layer do not have them.

    Inner and outer convolutions have the biases of `Network.bias`. Without `factors` the weights
    carry their scale themselves.
    """
    layers = range(1, network.depth + 1)
    scale = 1.0 if network.input_scale is None else network.input_scale * n_channels

    def of_signal(variance: float) -> Convolution:
        return Convolution(network.input_filter_size, n_channels, width, variance * scale)

    def of_layer(filter: Filter, variance: float) -> Convolution:
        return Convolution(filter.size, width, width, variance, filter.step)

    trained_input = "input" in network.trained
    first = Convolution(1, width, width, network.c_w) if trained_input else of_signal(network.c_w)
    inner = [of_layer(network.inner_filter(layer), network.c_w) for layer in layers[1:]]
    outer = [of_layer(network.outer_filter(layer), network.c_v) for layer in layers]
    has_outer = (
        network.skip
        or network.outer_filter_size > 1
        or "outer" in network.trained
        or network.bias > 0
    )
    parts = {
        "input": [of_signal(1.0)] if network.skip or trained_input else [],
        "inner": [first, *inner],
        "outer": outer if has_outer else [],
    }
    changes: dict[str, Any] = {"axes": axes} if factors else {"axes": axes, "variance": None}
    return {
        part: tuple(
            replace(each, bias=network.bias * (part != "input"), **changes) for each in convolutions
        )
        for part, convolutions in parts.items()
    }


class Layer(NamedTuple):
    """Weights of one layer, and its biases where the network has them."""

    weights: jax.Array
    """(q, inputs, outputs) of a convolution, (q, q, inputs, outputs) for images."""
    biases: jax.Array | None = None
    """(outputs,). Those of `Network.bias` are N(0, 1), with the factor β in front of them."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("input", "inner", "outer", "readout"),
    meta_fields=("initialization", "n_timepoints"),
)
@dataclass(frozen=True)
class Parameters:
    """All parameters of a finite network, a pytree with one branch for each part.

    The parts are called as in ``Network.trained``. Trained or frozen, all parameters are there.
    """

    input: Layer | None
    """V⁰; None where no layer reads f⁰."""
    inner: tuple[Layer, ...]
    """W¹ … W^L."""
    outer: tuple[Layer, ...] | None
    """V¹ … V^L; None in a network whose layers end with the activation."""
    readout: Layer
    """Weights (width,) or (width, n_outputs); of the trace head with an axis (n_timepoints,) in
    front. Biases () or (n_outputs,)."""
    initialization: str = "ntk"
    """One of "ntk", "pytorch", "xavier"; only "ntk" has factors in front of the weights."""
    n_timepoints: int | None = None
    """Pixels that a trace readout has weights for; None for the heads "equivariant", "gap"."""

    @property
    def width(self) -> int:
        """Channels of each layer."""
        return int(self.inner[0].weights.shape[-1])

    @property
    def n_channels(self) -> int:
        """Channels of the signals that the network takes."""
        first = self.inner[0] if self.input is None else self.input
        return int(first.weights.shape[-2])

    @property
    def has_biases_of_network(self) -> bool:
        """True if the convolutions have the biases of `Network.bias`, which no readout has."""
        return self.inner[0].biases is not None and self.readout.biases is None

    @property
    def axes(self) -> int:
        """Axes of pixels that the filters have: 1 for signals, 2 for images."""
        return self.inner[0].weights.ndim - 2

    @property
    def n_outputs(self) -> int | None:
        """Number of outputs; None for one output without an axis of its own."""
        axes = 1 if self.n_timepoints is None else 2
        shape = self.readout.weights.shape
        return int(shape[-1]) if len(shape) > axes else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the parameters and of all that is computed with them."""
        return np.dtype(self.readout.weights.dtype)

    def replace(self, **parts: Any) -> Parameters:
        """Return the same parameters with some parts replaced."""
        return replace(self, **parts)

    def layers(self, part: str) -> tuple[Layer, ...]:
        """Return the layers of a part, () where the network has none."""
        layers = getattr(self, part)
        return (layers,) if isinstance(layers, Layer) else layers or ()


def init(
    key: Any,
    network: Network,
    n_channels: int,
    width: int,
    *,
    n_outputs: int | None = None,
    n_timepoints: int | None = None,
    images: bool = False,
    initialization: str = "ntk",
    extra_biases: bool = False,
    dtype: str = "float64",
) -> Parameters:
    r"""Return random `Parameters` of `network` at a finite width.

    Weights are N(0, 1) and the factors of ``rescntk.network`` stand in front of them (Barzilai
    et al. 2022, eq. 1-3; Tirer et al. 2022, eq. 6, where the input is trained). So are the biases
    of a network with `Network.bias`.

    Parameters
    ----------
    key : key of ``jax.random``, or int
        Source of randomness; an int is a seed.
    network : Network
        `Network.trained` decides what ``finite.ntk`` and ``finite.train`` touch, not what is
        drawn here. One choice depends on it: where the input is trained, g¹ reads f⁰.
    n_channels, width : int
        Channels C0 of the signals, and C of each layer.
    n_outputs : int, optional
        Number of outputs; by default one output without an axis.
    n_timepoints : int, optional
        Length of the signals, or pixels h·w of the images, for the head "trace", which has
        weights for every pixel. Without it the parameters serve "equivariant" and "gap".
    images : bool, default False
        Whether the network takes images: its filters then have q × q taps.
    initialization : {"ntk", "pytorch", "xavier"}, default "ntk"
        "pytorch": PyTorch's default, uniform on ±1/√fan_in. "xavier": N(0, 2/(fan_in + fan_out)).
        Both drop every factor of the network except α, and refuse networks with `Network.bias`.
    extra_biases : bool, default False
        Whether every layer, readout included, has biases outside the kernels' limit, as practical
        networks do. They start at 0, with "pytorch" uniform on ±1/√fan_in, and have no factor.
        Networks with `Network.bias` refuse them.
    dtype : {"float64", "float32"}, default "float64"
        Precision of the parameters, and of everything that is computed with them.

    Raises
    ------
    ValueError, MemoryError
        For arguments that are not as described; for parameters beyond the free memory.

    Examples
    --------
    >>> import rescntk as rk
    >>> params = rk.finite.init(0, rk.Network(2, filter_size=3), n_channels=4, width=64)
    >>> params.input.weights.shape, params.inner[1].weights.shape, params.readout.weights.shape
    ((1, 4, 64), (3, 64, 64), (64,))
    """
    check_choice(initialization, "initialization", INITIALIZATIONS)
    check_network(network, FIELDS if initialization == "ntk" else BASIC_FIELDS)
    if check_flag(extra_biases, "extra_biases") and network.bias:
        raise ValueError(
            f"extra_biases is True and network has bias {network.bias}, expected only one of them"
        )
    n_channels, width = check_depth(n_channels, "n_channels"), check_depth(width, "width")
    outputs = () if n_outputs is None else (check_depth(n_outputs, "n_outputs"),)
    pixels = () if n_timepoints is None else (check_depth(n_timepoints, "n_timepoints"),)
    dtype = check_dtype(dtype)
    plan = layout(network, n_channels, width, 1 + check_flag(images, "images"))
    shapes = [convolution.shape for part in plan.values() for convolution in part]
    readout = (*pixels, width, *outputs)
    n_parameters = sum(map(math.prod, [*shapes, readout]))
    check_free_memory(
        n_parameters * np.dtype(dtype).itemsize,
        f"a network of width {width} with {n_parameters:.3g} parameters",
        "give a smaller width",
    )
    key = as_key(key)

    def draw(shape: tuple[int, ...], fan_in: int, deviation: float) -> jax.Array:
        own_key, bound = next(keys), 1 / math.sqrt(fan_in)
        if initialization == "pytorch":
            return jax.random.uniform(own_key, shape, dtype, -bound, bound)
        if not deviation:
            return jnp.zeros(shape, dtype)
        return jax.random.normal(own_key, shape, dtype) * deviation

    def layer(
        shape: tuple[int, ...], fan_in: int, fan_out: int, outputs: tuple[int, ...], bias: float
    ) -> Layer:
        xavier = initialization == "xavier"
        weights = draw(shape, fan_in, math.sqrt(2 / (fan_in + fan_out)) if xavier else 1.0)
        biases = draw(outputs, fan_in, 1.0 if bias else 0.0) if bias or extra_biases else None
        return Layer(weights, biases)

    def convolutions(part: str) -> tuple[Layer, ...]:
        return tuple(
            layer(each.shape, each.fan_in, each.taps * each.outputs, (each.outputs,), each.bias)
            for each in plan[part]
        )

    has_biases = extra_biases or network.bias > 0
    with precision(dtype):
        keys = iter(jax.random.split(key, (len(shapes) + 1) * (1 + has_biases)))
        return Parameters(
            input=next(iter(convolutions("input")), None),
            inner=convolutions("inner"),
            outer=convolutions("outer") or None,
            readout=layer(readout, math.prod((*pixels, width)), math.prod(outputs), outputs, 0.0),
            initialization=initialization,
            n_timepoints=pixels[0] if pixels else None,
        )


def precision(dtype: Any) -> AbstractContextManager[Any]:
    """Return a context in which JAX computes in `dtype`, only in the calling thread.

    JAX makes float32 of every float64 unless its option ``jax_enable_x64`` is set.
    """
    return jax.enable_x64(True) if np.dtype(dtype) == np.float64 else nullcontext()


def as_key(key: Any) -> jax.Array:
    """Return a key of ``jax.random``: `key` itself, or the key of an integer seed."""
    if isinstance(key, jax.Array):
        new = jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()
        old = key.dtype == jnp.uint32 and key.ndim == 1
        if not (new or old):
            raise ValueError(
                f"key is an array {key.shape} of {key.dtype}, expected one key of jax.random"
            )
        return key
    seed = check_integer(key, "key")
    if abs(seed) >= 2**63:
        raise ValueError(f"key is {key!r}, expected an integer of 64 bits")
    return jax.random.key(seed)
