"""Parameters of a finite network: what they are, and how they start."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ..network import Network, check_network
from ..validation import (
    check_choice,
    check_depth,
    check_dtype,
    check_flag,
    check_free_memory,
)
from .draws import INITIALIZATIONS, draw_biases, draw_weights
from .layout import Convolution, Layout, layout
from .precision import as_key, precision


class Layer(NamedTuple):
    """Weights of one layer, and its biases where the network has them."""

    weights: jax.Array
    """(taps, inputs, outputs) of a convolution."""
    biases: jax.Array | None = None
    """(outputs,)"""


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
    """V⁰, 1x1 or as large as the input's window; None where no layer reads f⁰."""
    inner: tuple[Layer, ...]
    """W¹ … W^L."""
    outer: tuple[Layer, ...] | None
    """V¹ … V^L; None in a network whose layers end with the activation."""
    readout: Layer
    """Weights (width,) or (width, n_outputs); of the trace head with an axis (n_timepoints,) in
    front. Biases () or (n_outputs,)."""
    initialization: str = field(default="ntk")
    """One of "ntk", "pytorch", "xavier"; only "ntk" has factors in front of the weights."""
    n_timepoints: int | None = field(default=None)
    """Pixels that a trace readout has weights for; None for the heads "equivariant", "gap"."""

    @property
    def width(self) -> int:
        """Channels of each layer."""
        return int(self.inner[0].weights.shape[-1])

    @property
    def n_channels(self) -> int:
        """Channels of the signals that the network takes."""
        first = self.inner[0] if self.input is None else self.input
        return int(first.weights.shape[1])

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


def init(
    key: Any,
    network: Network,
    n_channels: int,
    width: int,
    *,
    n_outputs: int | None = None,
    n_timepoints: int | None = None,
    initialization: str = "ntk",
    biases: bool = False,
    dtype: str = "float64",
) -> Parameters:
    r"""Return random parameters of `network` at a finite width.

    Weights are N(0, 1) and the factors of ``rescntk.network`` stand in front of them (Barzilai
    et al. 2022, eq. 1-3; Tirer et al. 2022, eq. 6, where the input is trained). As the width
    goes to infinity, the network's kernels tend to ``rescntk.gram``.

    Parameters
    ----------
    key : key of ``jax.random``, or int
        Source of randomness; an int is a seed.
    network : Network
        `Network.trained` decides what ``finite.ntk`` and ``finite.train`` touch, not what is
        drawn here. One choice depends on it: where the input is trained, g¹ reads f⁰.
    n_channels : int
        Channels C0 of the signals.
    width : int
        Channels C of each layer.
    n_outputs : int, optional
        Number of outputs; by default one output without an axis.
    n_timepoints : int, optional
        Length of the signals, for the head "trace", which has weights for every pixel. Without
        it the parameters serve the heads "equivariant" and "gap".
    initialization : {"ntk", "pytorch", "xavier"}, default "ntk"
        An extra of the finite side. "pytorch": PyTorch's default, uniform on ±1/√fan_in.
        "xavier": N(0, 2/(fan_in + fan_out)). Both drop every factor of the network except α:
        ``c_v``, ``c_w``, ``input_scale`` and ``readout_scale`` are not used.
    biases : bool, default False
        An extra of the finite side: whether every layer has biases. They are trained with
        their layer. They start at 0, with "pytorch" uniform on ±1/√fan_in.
    dtype : {"float64", "float32"}, default "float64"
        Precision of the parameters, and of everything that is computed with them.

    Returns
    -------
    The parameters, a pytree.

    Raises
    ------
    ValueError
        For arguments that are not as described.
    MemoryError
        If the parameters take more than the free memory.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> params = finite.init(0, rk.Network(depth=2, filter_size=3), n_channels=4, width=64)
    >>> params.input.weights.shape, params.inner[1].weights.shape, params.readout.weights.shape
    ((1, 4, 64), (3, 64, 64), (64,))
    """
    check_network(network)
    arguments = _Arguments(
        network=network,
        n_channels=check_depth(n_channels, "n_channels"),
        width=check_depth(width, "width"),
        n_outputs=None if n_outputs is None else check_depth(n_outputs, "n_outputs"),
        n_timepoints=None if n_timepoints is None else check_depth(n_timepoints, "n_timepoints"),
        initialization=check_choice(initialization, "initialization", INITIALIZATIONS),
        biases=check_flag(biases, "biases"),
        dtype=check_dtype(dtype),
    )
    check_free_memory(
        arguments.n_parameters * np.dtype(arguments.dtype).itemsize,
        f"a network of width {width} with {arguments.n_parameters:.3g} parameters",
        "give a smaller width",
    )
    key = as_key(key)
    with precision(arguments.dtype):
        return _draw(key, arguments)


@dataclass(frozen=True)
class _Arguments:
    """Checked arguments of `init` but for the key; hashable."""

    network: Network
    n_channels: int
    width: int
    n_outputs: int | None
    n_timepoints: int | None
    initialization: str
    biases: bool
    dtype: str

    @property
    def readout_shape(self) -> tuple[int, ...]:
        pixels = () if self.n_timepoints is None else (self.n_timepoints,)
        outputs = () if self.n_outputs is None else (self.n_outputs,)
        return (*pixels, self.width, *outputs)

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        plan = layout(self.network, self.n_channels, self.width)
        inputs = () if plan.input is None else (plan.input,)
        convolutions = (*inputs, *plan.inner, *(plan.outer or ()))
        return sum(math.prod(c.shape) for c in convolutions) + math.prod(self.readout_shape)


def _draw(key: jax.Array, arguments: _Arguments) -> Parameters:
    plan = layout(arguments.network, arguments.n_channels, arguments.width)
    keys = iter(jax.random.split(key, _count_of_draws(plan, arguments.biases)))

    def layer(shape: tuple[int, ...], fan_in: int, fan_out: int, outputs: tuple[int, ...]) -> Layer:
        style, dtype = arguments.initialization, arguments.dtype
        weights = draw_weights(next(keys), shape, fan_in, fan_out, style, dtype)
        if not arguments.biases:
            return Layer(weights)
        return Layer(weights, draw_biases(next(keys), outputs, fan_in, style, dtype))

    def of(convolution: Convolution) -> Layer:
        fan_out = convolution.taps * convolution.outputs
        return layer(convolution.shape, convolution.fan_in, fan_out, (convolution.outputs,))

    outputs = () if arguments.n_outputs is None else (arguments.n_outputs,)
    shape = arguments.readout_shape
    fan_in = arguments.width * (arguments.n_timepoints or 1)
    return Parameters(
        input=None if plan.input is None else of(plan.input),
        inner=tuple(map(of, plan.inner)),
        outer=None if plan.outer is None else tuple(map(of, plan.outer)),
        readout=layer(shape, fan_in, arguments.n_outputs or 1, outputs),
        initialization=arguments.initialization,
        n_timepoints=arguments.n_timepoints,
    )


def _count_of_draws(plan: Layout, biases: bool) -> int:
    """Return the number of arrays to draw, the readout's among them."""
    layers = (plan.input is not None) + len(plan.inner) + len(plan.outer or ()) + 1
    return layers * (1 + biases)
