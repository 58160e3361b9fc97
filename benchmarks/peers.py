"""Peers as workers in a process of their own: the kernels in neural-tangents, and in plain JAX.

    python peers.py NAME PLATFORM

A request is a line of JSON: {"dtype", "head", "depth", "q", "channels", "d", "n", "seed", "calls",
"enough"}. Its answer has {"seconds"} of some calls on compiled code, arrays on the device, and a
corner of both kernels, {"gpk", "ntk"}, to compare; or {"error"}. Calls end after `enough` seconds.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

Kernels = Callable[[Any, Any], tuple[Any, Any]]


def signals(n: int, channels: int, d: int | tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Return two batches of n random signals, or images of d = (height, width): X and Z."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, channels, *np.atleast_1d(d))) for _ in range(2)]


def neural_tangents(head: str, depth: int, q: int) -> Kernels:
    """Return the kernels of Barzilai et al.'s ResNet with α = 1, all layers trained."""
    import jax
    from neural_tangents import stax

    def kernels(X: Any, Z: Any) -> tuple[Any, Any]:
        axes = X.ndim - 2

        def conv(size: int, std: float) -> Any:
            return stax.Conv(1, (size,) * axes, padding="CIRCULAR", W_std=std, b_std=None)

        layers = [conv(1, 1.0)]
        for layer in range(depth):
            branch = stax.serial(conv(q if layer else 1, 1.0), stax.Relu(), conv(q, 2**0.5))
            layers += [stax.FanOut(2), stax.parallel(stax.Identity(), branch), stax.FanInSum()]
        layers.append(stax.GlobalAvgPool() if head == "gap" else stax.Flatten())
        layers.append(stax.Dense(1, W_std=1.0, b_std=None))
        kernel = stax.serial(*layers)[2]
        return kernel(*(jax.numpy.moveaxis(A, 1, -1) for A in (X, Z)), get=("nngp", "ntk"))

    return jax.jit(kernels)


def plain_jax(head: str, depth: int, q: int) -> Kernels:
    """Return the GAP kernels written the usual way: jitted, with tensors of all pixel pairs."""
    import jax
    import jax.numpy as jnp

    half = q // 2

    def box(A: Any) -> Any:
        taps = (jnp.roll(A, (-k, -k), axis=(-2, -1)) for k in range(-half, half + 1))
        return sum(taps) / q

    def window(variance: Any) -> Any:
        return sum(jnp.roll(variance, -k, axis=-1) for k in range(-half, half + 1)) / q

    def diagonals(x: Any) -> Any:
        """Variances of all layers' pre-activations."""
        variance, variances = (x * x).sum(axis=-2) / x.shape[-2], []
        for layer in range(depth):
            variances.append(window(variance) if layer else variance)
            variance = variance + window(variances[-1])
        return jnp.stack(variances)

    def activated(of_x: Any, of_z: Any, covariance: Any, tangent: Any) -> tuple[Any, Any]:
        size = jnp.sqrt(of_x[:, None] * of_z[None, :])
        rho = jnp.clip(covariance / size, -1, 1)
        angle = jnp.pi - jnp.arccos(rho)
        K = size * (jnp.sqrt(1 - rho * rho) + angle * rho) / jnp.pi
        return box(K), box(2 * K + angle / jnp.pi * tangent)

    def layer(carry: Any, variances: Any) -> Any:
        F, S = carry
        of_x, of_z = variances
        K, source = activated(of_x, of_z, box(F), box(S))
        return (F + K, S + source), None

    def pair(x: Any, z: Any) -> Any:
        # Else a GPU multiplies float32 with 10 bits.
        F = jnp.einsum("cj,ck->jk", x, z, precision="highest") / x.shape[0]
        of_x, of_z = diagonals(x), diagonals(z)
        K, source = activated(of_x[0], of_z[0], F, F)
        (F, S), _ = jax.lax.scan(layer, (F + K, F + source), (of_x[1:], of_z[1:]))
        return F.mean(), S.mean()

    return jax.jit(jax.vmap(jax.vmap(pair, in_axes=(None, 0)), in_axes=(0, None)))


# Only the latest kernels stay compiled.
PEERS = {"neural-tangents": lru_cache(1)(neural_tangents), "jax": lru_cache(1)(plain_jax)}


def answer(name: str, r: dict[str, Any]) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", r["dtype"] == "float64")
    kernels = PEERS[name](r["head"], r["depth"], r["q"])
    batches = signals(r["n"], r["channels"], r["d"], r["seed"])
    X, Z = (jnp.asarray(batch, r["dtype"]) for batch in batches)
    gpk, ntk = jax.block_until_ready(kernels(X, Z))
    times: list[float] = []
    while len(times) < r["calls"] and sum(times) < r["enough"]:
        start = time.perf_counter()
        jax.block_until_ready(kernels(X, Z))
        times.append(time.perf_counter() - start)
    return {"seconds": times, "gpk": gpk[:2, :2].tolist(), "ntk": ntk[:2, :2].tolist()}


def main(name: str, platform: str) -> None:
    warnings.filterwarnings("ignore")
    import jax

    backend = jax.default_backend()
    if backend != platform:
        sys.exit(f"JAX {jax.__version__} runs on {backend!r} here, expected {platform!r}")
    print(json.dumps({"ready": jax.__version__}), flush=True)
    for line in sys.stdin:
        try:
            reply = answer(name, json.loads(line))
        except Exception as error:  # out of memory, in JAX's words
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
