"""Distributions of weights and biases at initialization.

"ntk" is the parametrization of ``rescntk.network``: weights N(0, 1) with factors in front of
them. "pytorch" and "xavier" are the common initializations of practice, extras of the finite side:
the weights carry their scale themselves, and no factor stands in front of them.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

INITIALIZATIONS = ("ntk", "pytorch", "xavier")
"""N(0, 1) with factors; PyTorch's default, uniform; Xavier (Glorot and Bengio 2010), normal."""


def draw_weights(
    key: jax.Array,
    shape: tuple[int, ...],
    fan_in: int,
    fan_out: int,
    initialization: str,
    dtype: str,
) -> jax.Array:
    """Return random weights of `shape`.

    - "ntk": N(0, 1).
    - "pytorch": uniform on ±1/√fan_in, as ``torch.nn.Linear`` and ``torch.nn.Conv1d`` have it.
    - "xavier": N(0, 2/(fan_in + fan_out)).
    """
    if initialization == "pytorch":
        return _uniform(key, shape, fan_in, dtype)
    normal = jax.random.normal(key, shape, dtype)
    return normal * math.sqrt(2 / (fan_in + fan_out)) if initialization == "xavier" else normal


def draw_biases(
    key: jax.Array, shape: tuple[int, ...], fan_in: int, initialization: str, dtype: str
) -> jax.Array:
    """Return biases of `shape`: uniform on ±1/√fan_in for "pytorch", else 0."""
    if initialization == "pytorch":
        return _uniform(key, shape, fan_in, dtype)
    return jnp.zeros(shape, dtype)


def _uniform(key: jax.Array, shape: tuple[int, ...], fan_in: int, dtype: str) -> jax.Array:
    bound = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, dtype, -bound, bound)
