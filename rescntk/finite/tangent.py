r"""Empirical tangent kernel of a finite network: exact, without any Jacobian in memory.

A convolution :math:`y_j = s \sum_k W_k u_{j+k}` with :math:`\delta_j = \partial f/\partial y_j`
contributes the product of two matrices of pixel pairs (docs/guide/finite_networks.md).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..network import Filter, Network
from ..validation import check_memory
from .forward import (
    Batch,
    call_layer,
    check_range,
    features,
    fitting_batch,
    plan_of,
    pool,
    read,
    readout_factor,
)
from .weights import Convolution, Layer, Parameters, precision

MAX_MEMORY = 2**30
"""Most bytes of the arrays of one call of `ntk`, by default: 1 GiB, chosen, not measured. Raising
it makes larger blocks of signals, and repeats fewer passes through the network."""


def ntk(
    network: Network,
    params: Parameters,
    X: Any,
    Z: Any = None,
    head: str = "gap",
    *,
    max_memory: float = MAX_MEMORY,
) -> np.ndarray:
    r"""Return the empirical tangent kernel :math:`\hat\Theta(x, z)` of a finite network.

    :math:`\hat\Theta_{ab}(x, z) = \langle \partial f_a(x)/\partial\theta, \partial
    f_b(z)/\partial\theta \rangle` for outputs a and b (Jacot et al. 2018), exactly, over the
    trained parameters only (``network.trained``). The result is (n_cases, m_cases), with several
    outputs (n_cases, m_cases, n_outputs, n_outputs).

    Parameters
    ----------
    network, params, X, head
        As for ``finite.apply``.
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Signals; without them the kernel of `X` with itself, exactly symmetric.
    max_memory : float, default 2**30
        Most bytes that the call's arrays may take, result, parameters and copies of parameters
        not counted. The signals go through the network in blocks accordingly.

    Raises
    ------
    ValueError
        For arguments that are not as described or do not belong together, or if a single pair
        of signals takes more than `max_memory`.
    OverflowError
        If numbers of the kernel exceed the parameters' dtype.

    Examples
    --------
    >>> import rescntk as rk
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> X = rk.theory.multisphere.sample(4, 2, 8, rng=0)
    >>> rk.finite.ntk(network, rk.finite.init(0, network, 2, width=512), X).shape
    (4, 4)
    """
    left = fitting_batch(network, params, head, X)
    right = None if Z is None else fitting_batch(network, params, head, Z, "Z")
    return ntk_of_batches(network, params, left, right, head, max_memory)


def ntk_of_batches(
    network: Network,
    params: Parameters,
    left: Batch,
    right: Batch | None,
    head: str,
    max_memory: float = MAX_MEMORY,
) -> np.ndarray:
    """Return the tangent kernel of checked signals, of `left` with itself where `right` is None."""
    symmetric = right is None
    right = left if right is None else right
    size = _block_size(network, params, left, right, max_memory)
    k = params.n_outputs or 1
    result = np.empty((left.n_cases, right.n_cases, k, k), params.dtype)
    with precision(params.dtype):
        columns = _blocks(right, size)
        for index, (rows, signals) in enumerate(_blocks(left, size)):
            notes = _take_notes(network, head, params, signals)
            for places, z in columns[index:] if symmetric else columns:
                same = symmetric and places is columns[index][0]
                of_z = notes if same else _take_notes(network, head, params, z)
                block = _contract(network, params, notes, of_z)
                exchanged = block.transpose(1, 0, 3, 2)
                if same:
                    block = exchanged = (block + exchanged) / 2
                result[np.ix_(rows, places)] = block
                if symmetric:
                    result[np.ix_(places, rows)] = exchanged
    check_range(result, "tangent kernel's numbers")
    return result if params.n_outputs else result[:, :, 0, 0]


_Notes = tuple[tuple[jax.Array, ...], tuple[jax.Array, ...], jax.Array]
"""u, (n, d, inputs), and δ, (n_outputs, n, d, outputs), of each trained convolution for a block of
signals; the inputs of the readout, (n, …). Images have the axes (h, w) instead of (d,)."""


@partial(jax.jit, static_argnums=(0, 1))
def _take_notes(network: Network, head: str, params: Parameters, signals: jax.Array) -> _Notes:
    n, _, *sides = signals.shape

    def outputs(nudges: list[jax.Array]) -> tuple[jax.Array, tuple[tuple[jax.Array, ...], Any]]:
        seen: list[jax.Array] = []

        def call(part: str, conv: Convolution, layer: Layer, signal: jax.Array) -> jax.Array:
            result = call_layer(part, conv, layer, signal)
            if part not in network.trained:
                return result
            seen.append(signal)
            return result + nudges[len(seen) - 1]

        f = features(network, params, signals, call)
        return read(network, head, params, f), (tuple(seen), pool(f, head))

    layers = _trained(network, params)
    zeros = [jnp.zeros((n, *sides, conv.outputs), params.dtype) for conv, _ in layers]
    result, pull_back, (inputs, pooled) = jax.vjp(outputs, zeros, has_aux=True)
    of_outputs = jnp.eye(params.n_outputs or 1, dtype=params.dtype)

    def derivatives(of: jax.Array) -> list[jax.Array]:
        return pull_back(jnp.broadcast_to(of, (n, len(of))).reshape(result.shape))[0]

    return inputs, tuple(jax.vmap(derivatives)(of_outputs)), pooled


def _contract(network: Network, params: Parameters, x: _Notes, z: _Notes) -> np.ndarray:
    """Return the kernel of two blocks of signals, (n, m, n_outputs, n_outputs)."""
    k = params.n_outputs or 1
    (inputs_x, deltas_x, pooled_x), (inputs_z, deltas_z, pooled_z) = x, z
    result = np.zeros((len(pooled_x), len(pooled_z), k, k), params.dtype)
    # One layer after another: XLA would hold the pixel pairs of all layers at once.
    for (conv, layer), u, v, du, dv in zip(
        _trained(network, params), inputs_x, inputs_z, deltas_x, deltas_z, strict=True
    ):
        result += np.asarray(_contract_layer(conv, layer.biases is not None, u, v, du, dv))
    if "readout" in network.trained:
        gpk = readout_factor(network, params) ** 2 * np.asarray(pooled_products(pooled_x, pooled_z))
        biases = 0 if params.readout.biases is None else 1
        result += (gpk + biases)[:, :, None, None] * np.eye(k, dtype=params.dtype)
    return result


@partial(jax.jit, static_argnums=(0, 1))
def _contract_layer(
    conv: Convolution, biases: bool, u: jax.Array, v: jax.Array, du: jax.Array, dv: jax.Array
) -> jax.Array:
    """Return the share of one convolution and its biases, (n, m, n_outputs, n_outputs)."""
    product = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
    sides = u.shape[1:-1], v.shape[1:-1]
    u, v, du, dv = (a.reshape(*a.shape[: -1 - conv.axes], -1, a.shape[-1]) for a in (u, v, du, dv))
    windows = box_sum(product("njc,mic->nmji", u, v), conv.size, conv.step, sides)
    pairs = product("anjc,bmic->nmabji", du, dv)
    result = conv.factor**2 * product("nmabji,nmji->nmab", pairs, windows)
    if biases:
        factor = (conv.bias or 1.0) ** 2
        result += factor * product("anc,bmc->nmab", du.sum(axis=2), dv.sum(axis=2))
    return result


def box_sum(A: jax.Array, size: int, step: int, sides: tuple[tuple[int, ...], ...]) -> jax.Array:
    """Return Σ_k A[…, j + step·k, j' + step·k], indices modulo the lengths, over `size` taps.

    `sides` are the axes of the pixels j and j': (d,) each, or (h, w) of images, with taps on both.
    """
    result, axes = A.reshape(*A.shape[:-2], *sides[0], *sides[1]), len(sides[0])
    for axis in range(-2 * axes, -axes):
        moved = (jnp.roll(result, (-k, -k), (axis, axis + axes)) for k in Filter(size, step).taps)
        result = sum(moved, jnp.zeros_like(result))
    return result.reshape(A.shape)


def pooled_products(x: jax.Array, z: jax.Array) -> jax.Array:
    """Return the inner products (n, m) of pooled features, as from `pool`."""
    return jnp.matmul(
        x.reshape(len(x), -1), z.reshape(len(z), -1).T, precision=jax.lax.Precision.HIGHEST
    )


def _trained(network: Network, params: Parameters) -> list[tuple[Convolution, Layer]]:
    """Return the trained convolutions, in the order in which the layers are computed."""
    plan = plan_of(network, params)
    depth = range(network.depth)
    order = [("input", 0), *((part, index) for index in depth for part in ("inner", "outer"))]
    return [
        (plan[part][index], params.layers(part)[index])
        for part, index in order
        if part in network.trained and index < len(plan[part])
    ]


def _blocks(batch: Batch, size: int) -> list[tuple[np.ndarray, Any]]:
    """Return blocks of at most `size` signals of one length: their places, and the signals."""
    return [
        (places[start : start + size], signals[start : start + size])
        for places, signals in zip(batch.places, batch.arrays, strict=True)
        for start in range(0, len(places), size)
    ]


def _block_size(
    network: Network, params: Parameters, left: Batch, right: Batch, max_memory: float
) -> int:
    """Return the number of signals in a block for which `max_memory` suffice."""
    d, m = max(left.lengths), max(right.lengths)
    k, item = params.n_outputs or 1, params.dtype.itemsize
    # A layer's windows, its output, the nudge and the pass back, for each output another one.
    of_pixel = sum(
        min(convolution.taps, max(d, m)) * convolution.inputs + (2 + 2 * k) * convolution.outputs
        for part in plan_of(network, params).values()
        for convolution in part
    )
    signal = item * of_pixel * (d + m)
    pair = item * d * m * (k * k + 4)  # derivatives' products; windows, rolled and summed

    def needed(size: int) -> int:
        return size * signal + size * size * pair

    check_memory(
        needed(1),
        max_memory,
        f"the tangent kernel of two signals of {d} and {m} pixels at width {params.width}",
    )
    size = max(left.n_cases, right.n_cases)
    while needed(size) > max_memory:
        size = (size + 1) // 2
    return size
