"""Kernels of sampled networks: one of each kind from every draw of the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ..network import Network
from ..validation import check_choice, check_depth, check_integer
from ..vocabulary import KINDS
from .batches import as_batch
from .forward import check_arguments, check_batch, check_layers, features, pool, readout_factor
from .parameters import Parameters, init
from .precision import as_key, precision
from .tangent import ntk, pooled_products


class Estimate(NamedTuple):
    """Mean of a kernel over sampled networks."""

    mean: np.ndarray
    """(n_cases, n_cases)"""
    standard_error: np.ndarray
    """(n_cases, n_cases), of the mean: the samples' standard deviation / √n_samples."""


def gpk(
    key: Any,
    network: Network,
    X: Any,
    width: int,
    n_samples: int,
    head: str = "gap",
    *,
    dtype: str = "float64",
) -> Estimate:
    r"""Return the Gaussian process kernel of networks of a finite width, averaged over samples.

    One sample is :math:`\frac{r}{C} \langle \phi(x), \phi(z) \rangle`, the exact mean of
    f(x) f(z) over the readout's weights. φ are the features that the head reads, r is the
    readout's variance. Samples differ in all other weights.

    Parameters
    ----------
    key : key of ``jax.random``, or int
    network : Network
    X : array, (n_cases, n_channels, n_timepoints)
        Signals; for the head "gap" also a list of arrays of different lengths.
    width : int
        Channels of each layer.
    n_samples : int
        Number of networks, at least 2.
    head : {"equivariant", "trace", "gap"}, default "gap"
    dtype : {"float64", "float32"}, default "float64"

    Returns
    -------
    Estimate
        Mean and standard error, each (n_cases, n_cases).

    Raises
    ------
    ValueError
        For arguments that are not as described.
    MemoryError
        If a network takes more than the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> X = np.random.default_rng(0).standard_normal((3, 2, 8))
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> estimate = finite.gpk(0, network, X, width=64, n_samples=10)
    >>> estimate.mean.shape, estimate.standard_error.shape
    ((3, 3), (3, 3))
    """
    return estimate(samples(key, network, X, width, n_samples, head, "gpk", dtype=dtype))


def estimate(kernels: np.ndarray) -> Estimate:
    """Return mean and standard error over the first axis."""
    deviation = kernels.std(axis=0, ddof=1)
    return Estimate(kernels.mean(axis=0), deviation / np.sqrt(len(kernels)))


def samples(
    key: Any,
    network: Network,
    X: Any,
    width: int,
    n_samples: int,
    head: str = "gap",
    kind: str = "ntk",
    *,
    dtype: str = "float64",
) -> np.ndarray:
    """Return kernels of independently sampled networks, one a network.

    Parameters
    ----------
    key, network, X, width, n_samples, head, dtype
        As for `gpk`.
    kind : {"gpk", "ntk"}, default "ntk"
        The inner products of the features, or the tangent kernel.

    Returns
    -------
    ndarray, (n_samples, n_cases, n_cases)

    Raises
    ------
    ValueError, MemoryError
        As for `gpk`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> X = np.random.default_rng(0).standard_normal((3, 2, 8))
    >>> finite.samples(0, rk.Network(depth=2), X, width=64, n_samples=10).shape
    (10, 3, 3)
    """
    check_choice(kind, "kind", KINDS)
    compute = ntk if kind == "ntk" else features_kernel
    drawn = draws(key, network, X, width, check_samples(n_samples), head, dtype)
    return np.array([compute(network, params, X, head=head) for params in drawn])


def draws(
    key: Any, network: Network, X: Any, width: int, n_samples: int, head: str, dtype: str
) -> Iterator[Parameters]:
    """Yield the parameters of `n_samples` networks that take the signals `X`."""
    batch = as_batch(X, "X", dtype)
    pixels = batch.lengths[0] if head == "trace" else None
    for own in jax.random.split(as_key(key), n_samples):
        yield init(own, network, batch.n_channels, width, n_timepoints=pixels, dtype=dtype)


def features_kernel(network: Network, params: Parameters, X: Any, head: str = "gap") -> np.ndarray:
    """Return the mean of f(x) f(z) over the readout's weights of one network, (n, n).

    Parameters are as for ``finite.ntk``.
    """
    check_arguments(network, params, head)
    batch = as_batch(X, "X", params.dtype)
    check_batch(batch, "X", params, head)
    check_layers(network, params, batch)
    with precision(params.dtype):
        pooled = [_pooled(network, head, params, signals) for signals in batch.arrays]
        products = [[np.asarray(pooled_products(x, z)) for z in pooled] for x in pooled]
    order = batch.order
    return readout_factor(network, params) ** 2 * np.block(products)[np.ix_(order, order)]


@partial(jax.jit, static_argnums=(0, 1))
def _pooled(network: Network, head: str, params: Parameters, signals: jax.Array) -> jax.Array:
    return pool(features(network, params, signals), head)


def check_samples(n_samples: Any) -> int:
    """Return `n_samples` as an int of at least 2, or say what is wrong with it."""
    if check_integer(n_samples, "n_samples") < 2:
        raise ValueError(
            f"n_samples is {n_samples!r}, expected at least 2: one sample has no standard error"
        )
    return check_depth(n_samples, "n_samples")
