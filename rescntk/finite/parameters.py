"""Parameters of a finite network: which layers there are, their shapes, and their random start."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from numpy.typing import DTypeLike

from ..checks.values import (
    check_dtype,
    check_flag,
    check_integer,
    check_positive_integer,
)
from ..memory import check_free_memory
from ..network import PER_LAYER_FIELDS, Network, check_network
from ..network.parameters import KERNEL_FIELDS
from ..network.sampled import has_outer_weights, reads_signal

Tensor: TypeAlias = jax.Array | jax.ShapeDtypeStruct
"""An array, or what JAX has in its place where only its shape counts."""

KNOWN_FIELDS = KERNEL_FIELDS
"""The fields of a network that have a meaning at a finite width; activations are of any name."""

Key: TypeAlias = jax.Array | int
"""A key of ``jax.random``, or the integer seed of one."""


class Convolution(NamedTuple):
    """Weights of one convolution, and its biases where the network has them."""

    weights: Tensor
    """(q, inputs, outputs) of signals, (q, q, inputs, outputs) of images."""
    biases: Tensor | None = None
    """(outputs,), with the factor `bias` of their layer in front of them."""


class Parameters(NamedTuple):
    """All parameters of a finite network, trained or frozen: a pytree of JAX."""

    input: Convolution | None
    """V⁰; None where no layer reads f⁰."""
    inner: tuple[Convolution, ...]
    """W¹ … W^L."""
    outer: tuple[Convolution, ...]
    """V¹ … V^L; () in a network whose layers end with the activation."""
    readout: Tensor
    """(width,), or (n_timepoints, width) for the head "trace" and pooled heads."""


def check_finite_network(network: object) -> None:
    """Raise a ValueError if `network` is not a `Network` that is known at a finite width."""
    check_network(network, KNOWN_FIELDS, activations=None, per_layer=PER_LAYER_FIELDS)


def shapes(
    network: Network, n_channels: int, width: int, n_timepoints: int | None, axes: int
) -> Parameters:
    """Return what JAX has in the place of arrays; filters have 1 axis of signals, 2 of images.

    V⁰ is there where skip connections read f⁰, or g¹ does.
    """

    def array(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, np.float32)

    def convolution(size: int, inputs: int, bias: float) -> Convolution:
        biases = array(width) if bias > 0 else None
        return Convolution(array(*(size,) * axes, inputs, width), biases)

    first, layers = network.input_filter_size, [*map(network.layer, range(1, network.depth + 1))]
    signal_alone = reads_signal(network)
    has_input = layers[0].skip or not signal_alone
    size, inputs = (first, n_channels) if signal_alone else (1, width)
    later = [convolution(layer.inner.size, width, layer.bias) for layer in layers[1:]]
    outer = [convolution(layer.outer.size, width, layer.bias) for layer in layers]
    return Parameters(
        input=convolution(first, n_channels, 0.0) if has_input else None,
        inner=(convolution(size, inputs, layers[0].bias), *later),
        outer=tuple(outer) if has_outer_weights(network) else (),
        readout=array(width) if n_timepoints is None else array(n_timepoints, width),
    )


def init(
    key: Key,
    network: Network,
    n_channels: int,
    width: int,
    *,
    n_timepoints: int | None = None,
    images: bool = False,
    dtype: str = "float64",
) -> Parameters:
    r"""Return random `Parameters` of `network` at a finite width.

    All weights and biases are N(0, 1), and the factors of ``rescntk.network`` stand in front of
    them (Barzilai et al. 2022, eq. 1-3; Tirer et al. 2022, eq. 6, where the input is trained).

    Parameters
    ----------
    key : key of ``jax.random``, or int
        Source of randomness; an int is a seed.
    network : Network
        `Network.trained` decides what ``finite.ntk`` and ``finite.train`` touch. What is drawn
        depends on it twice: where the input is trained, g¹ reads f⁰; and outer weights that could
        be left out, of a network without skip connections, are drawn where they are trained.
    n_channels, width : int
        Channels C0 of the signals, and n of each layer.
    n_timepoints : int, optional
        Length of the signals, or pixels h·w of the images, for the head "trace" and for numbers,
        which have weights for every pixel. Without it the parameters serve "equivariant" and "gap".
    images : bool, default False
        Whether the network takes images: its filters then have q × q taps.
    dtype : {"float64", "float32"}, default "float64"
        Precision of the parameters, and of everything that is computed with them.

    Returns
    -------
    finite.Parameters
        A named tuple of JAX arrays, which `jax.grad` takes.

    Raises
    ------
    ValueError, MemoryError
        For arguments that are not as described; for parameters beyond the free memory.

    Examples
    --------
    >>> import rescntk as rk
    >>> params = rk.finite.init(0, rk.Network(2, filter_size=3), n_channels=4, width=64)
    >>> params.input.weights.shape, params.inner[1].weights.shape, params.readout.shape
    ((1, 4, 64), (3, 64, 64), (64,))
    """
    check_finite_network(network)
    n_channels, width = (
        check_positive_integer(n_channels, "n_channels"),
        check_positive_integer(width, "width"),
    )
    pixels = None if n_timepoints is None else check_positive_integer(n_timepoints, "n_timepoints")
    dtype, axes = check_dtype(dtype), 1 + check_flag(images, "images")
    leaves, structure = jax.tree.flatten(shapes(network, n_channels, width, pixels, axes))
    number = sum(math.prod(leaf.shape) for leaf in leaves)
    check_free_memory(
        number * np.dtype(dtype).itemsize,
        f"a network of width {width} with {number:.3g} parameters",
        "give a smaller width",
    )
    with precision(dtype):
        keys = jax.random.split(as_key(key), len(leaves))
        pairs = zip(keys, leaves, strict=True)
        return structure.unflatten([jax.random.normal(k, leaf.shape, dtype) for k, leaf in pairs])


def precision(dtype: DTypeLike) -> AbstractContextManager[object]:
    """Return a context in which JAX computes in `dtype`, only in the calling thread.

    JAX makes float32 of every float64 unless its option ``jax_enable_x64`` is set.
    """
    return jax.enable_x64(True) if np.dtype(dtype) == np.float64 else nullcontext()


def as_key(key: Key) -> jax.Array:
    """Return a key of ``jax.random``: `key` itself, or the key of an integer seed."""
    return key if isinstance(key, jax.Array) else jax.random.key(check_integer(key, "key"))
