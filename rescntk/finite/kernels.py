"""Kernels of finite networks: tangent kernels of one network, and means over random networks."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..checks.values import check_integer
from ..network import Network
from .forward import (
    Signals,
    as_signals,
    check_range,
    check_signals,
    features,
    outputs,
    reads_pixels,
)
from .parameters import Key, Parameters, as_key, init, precision

Parts: TypeAlias = dict[str, Any]
"""Some of the parameters, by the names of their parts."""


def ntk(
    network: Network,
    params: Parameters,
    X: ArrayLike,
    Z: ArrayLike | None = None,
    head: str | int = "gap",
) -> np.ndarray:
    r"""Return the empirical tangent kernel :math:`\hat\Theta`, (n_cases, m_cases).

    :math:`\hat\Theta(x, z) = \langle \partial f(x)/\partial\theta, \partial f(z)/\partial\theta
    \rangle` (Jacot et al. 2018), exactly, over the trained parameters only (``network.trained``).
    JAX takes the gradient at z, and the derivative of all f(x) along it. One gradient is held at a
    time; the time is of n·m passes through the network. JAX can trace the call as it can
    ``finite.apply``; a traced result is an array of JAX.

    Parameters
    ----------
    network, params, X, head
        As for ``finite.apply``.
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Signals; without them the kernel of `X` with itself, exactly symmetric.

    Returns
    -------
    array, (n_cases, m_cases)
        An array of NumPy; of JAX if the call is traced.

    Raises
    ------
    ValueError, OverflowError
        As for ``finite.apply``; for numbers of the kernel that exceed the parameters' dtype.

    Examples
    --------
    >>> import rescntk as rk
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> X = rk.theory.multisphere.sample(4, 2, 8, rng=0)
    >>> rk.finite.ntk(network, rk.finite.init(0, network, 2, width=512), X).shape
    (4, 4)
    """
    left = check_signals(network, params, X, head)
    right = left if Z is None else check_signals(network, params, Z, head, "Z")
    signals = right if isinstance(right, tuple) else [right[k : k + 1] for k in range(len(right))]
    with precision(params.readout.dtype):
        columns = [_column(network, head, params, left, z) for z in signals]
        traced = any(isinstance(column, jax.core.Tracer) for column in columns)
        K = (jnp if traced else np).stack(columns, axis=1)
        check_range(K, "tangent kernel's numbers")
        return 0.5 * K + 0.5 * K.T if Z is None else K


def trained_parts(network: Network, params: Parameters) -> Parts:
    """Return the trained parts of the parameters by their names."""
    return {part: getattr(params, part) for part in network.trained}


@partial(jax.jit, static_argnums=(0, 1))
def _column(
    network: Network, head: str | int, params: Parameters, X: Signals, z: jax.Array
) -> jax.Array:
    """Return the tangent kernel of X with one signal z of shape (1, ...), (n_cases,)."""

    def of(signals: Signals, parts: Parts) -> jax.Array:
        return outputs(network, head, params._replace(**parts), signals)

    parts = trained_parts(network, params)
    gradient = jax.grad(lambda p: of(z, p).sum())(parts)
    return jax.jvp(partial(of, X), (parts,), (gradient,))[1]


def mean_gpk(
    key: Key,
    network: Network,
    X: ArrayLike,
    width: int,
    n_samples: int,
    head: str | int = "gap",
    *,
    dtype: str = "float64",
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gaussian process kernel of networks of a finite width, and its standard error.

    One sample is the readout scale r_s times the mean of h(x) h(z) over the features h that the
    readout weighs. It is the exact mean of f(x) f(z) over the readout's weights.

    Parameters
    ----------
    key : key of ``jax.random``, or int
    network, X, head
        As for ``finite.apply``.
    width, n_samples : int
        Channels of each layer, and number of networks, at least 2.
    dtype : {"float64", "float32"}, default "float64"

    Returns
    -------
    mean, standard_error : ndarray, (n_cases, n_cases)
        The mean over samples, and their standard deviation over the root of n_samples.

    Raises
    ------
    ValueError, MemoryError, OverflowError
        As for ``finite.init`` and ``finite.apply``.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 2, 8, rng=0)
    >>> rk.finite.mean_gpk(0, rk.Network(depth=2), X, width=64, n_samples=10)[1].shape
    (3, 3)
    """
    number = check_integer(n_samples, "n_samples", at_least=2)  # one has no standard error
    batch = as_signals(X, "X")
    _, n_channels, *sides = (batch[0] if isinstance(batch, tuple) else batch).shape
    pixels = int(np.prod(sides)) if reads_pixels(head) else None
    kernels = []
    for sample_key in jax.random.split(as_key(key), number):
        params = init(
            sample_key,
            network,
            n_channels,
            width,
            n_timepoints=pixels,
            images=len(sides) == 2,
            dtype=dtype,
        )
        signals = check_signals(network, params, X, head)
        with precision(dtype):
            kernels.append(np.asarray(_products(network, head, params, signals)))
    check_range(np.stack(kernels), "kernel's numbers")
    return np.mean(kernels, axis=0), np.std(kernels, axis=0, ddof=1) / np.sqrt(number)


@partial(jax.jit, static_argnums=(0, 1))
def _products(network: Network, head: str | int, params: Parameters, X: Signals) -> jax.Array:
    """Return the mean of f(x) f(z) over the readout's weights of one network, (n, n)."""
    f = features(network, head, params, X)
    scale = network.readout_scale / f.shape[1]
    return scale * jnp.matmul(f, f.T, precision=jax.lax.Precision.HIGHEST)
