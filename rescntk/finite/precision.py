"""Working precision of finite networks: float64 without touching the user's JAX settings."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..validation import check_integer


def precision(dtype: Any) -> AbstractContextManager[Any]:
    """Return a context in which JAX computes in `dtype`.

    JAX makes float32 of every float64 unless its option ``jax_enable_x64`` is set. The context
    sets this option for the calling thread alone, and only for float64.
    """
    if np.dtype(dtype) == np.float64:
        return jax.enable_x64(True)
    return nullcontext()


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
    return jax.random.key(check_integer(key, "key"))
