"""The GAP kernels written the usual way in JAX: jitted, with tensors of all pixel pairs.

As a program it is a worker in a process of its own, for a platform (gpu or cpu). A request is a
line of JSON: {"dtype", "depth", "q", "channels", "d", "n", "calls", "enough"}. Its answer has
{"seconds"} of some calls on compiled code, arrays on the device, and a corner of both kernels,
{"gpk", "ntk"}, to compare; or {"error"}.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def signals(n: int, channels: int, d: int) -> np.ndarray:
    return np.random.default_rng(n + d).standard_normal((n, channels, d))


def gram(depth: int, q: int, dtype: str) -> Callable[[Any, Any], Any]:
    """Return the compiled kernels (GPK, NTK) of all signals of one batch with all of another."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", dtype == "float64")
    half = q // 2

    def box(A: Any) -> Any:
        taps = (jnp.roll(A, (-k, -k), axis=(-2, -1)) for k in range(-half, half + 1))
        return sum(taps) / q

    def window(variance: Any) -> Any:
        return sum(jnp.roll(variance, -k, axis=-1) for k in range(-half, half + 1)) / q

    def diagonals(x: Any) -> Any:
        """Variances of all layers' pre-activations."""
        variance, found = (x * x).sum(axis=-2) / x.shape[-2], []
        for layer in range(depth):
            found.append(window(variance) if layer else variance)
            variance = variance + window(found[-1])
        return jnp.stack(found)

    def activated(one: Any, other: Any, covariance: Any, tangent: Any) -> tuple[Any, Any]:
        size = jnp.sqrt(one[:, None] * other[None, :])
        rho = jnp.clip(covariance / size, -1, 1)
        angle = jnp.pi - jnp.arccos(rho)
        K = size * (jnp.sqrt(1 - rho * rho) + angle * rho) / jnp.pi
        return box(K), box(2 * K + angle / jnp.pi * tangent)

    def layer(carry: Any, own: Any) -> Any:
        F, S = carry
        K, source = activated(*own, box(F), box(S))
        return (F + K, S + source), None

    def pair(x: Any, z: Any) -> Any:
        # Else a GPU multiplies float32 with 10 bits.
        F = jnp.einsum("cj,ck->jk", x, z, precision="highest") / x.shape[0]
        one, other = diagonals(x), diagonals(z)
        K, source = activated(one[0], other[0], F, F)
        (F, S), _ = jax.lax.scan(layer, (F + K, F + source), (one[1:], other[1:]))
        return F.mean(), S.mean()

    return jax.jit(jax.vmap(jax.vmap(pair, in_axes=(None, 0)), in_axes=(0, None)))


def answer(r: dict[str, Any], kernels: dict[Any, Any]) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    key = r["depth"], r["q"], r["dtype"]
    if key not in kernels:
        kernels.clear()
        kernels[key] = gram(*key)
    X = jnp.asarray(signals(r["n"], r["channels"], r["d"]), r["dtype"])
    Z = X[::-1]
    gpk, ntk = jax.block_until_ready(kernels[key](X, Z))
    times: list[float] = []
    while len(times) < r["calls"] and sum(times) < r["enough"]:
        start = time.perf_counter()
        jax.block_until_ready(kernels[key](X, Z))
        times.append(time.perf_counter() - start)
    corner = {"gpk": gpk[:2, :2].tolist(), "ntk": ntk[:2, :2].tolist()}
    return {"seconds": times} | corner


def main(platform: str) -> None:
    import jax

    found = jax.default_backend()
    if found != platform:
        sys.exit(f"JAX {jax.__version__} runs on {found!r} here, expected {platform!r}")
    print(json.dumps({"ready": jax.__version__}), flush=True)
    kernels: dict[Any, Any] = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), kernels)
        except Exception as error:  # out of memory, in JAX's words
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
