"""Networks as practitioners train them: Xavier's or PyTorch's start, steps on single points.

Tirer et al. 2022, figures 3, 8 and 9: these networks are outside the kernel regime.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


def practical_network(alpha: float | None) -> Callable[[Any, Any], jax.Array]:
    """Return the fully connected ReLU network of practitioners, a ResNet, or an MLP without α.

    A function of layers and inputs (n, n_inputs). A layer is an array (inputs, outputs), without
    a factor; its biases are one row more.
    """

    def dense(W: jax.Array, f: jax.Array) -> jax.Array:
        n = f.shape[1]
        return f @ W[:n] + W[n:].sum(axis=0)

    def network(layers: Any, x: Any) -> jax.Array:
        first, *rest, last = layers
        f = dense(first, x)
        if alpha is None:
            for W in (*rest, last):
                f = dense(W, jax.nn.relu(f))
            return f[:, 0]
        for W, V in zip(rest[::2], rest[1::2], strict=True):
            f = f + alpha * dense(V, jax.nn.relu(dense(W, f)))
        return dense(last, f)[:, 0]

    return network


def practical_layers(key: Any, n_layers: int, n_inputs: int, width: int, biases: bool) -> Any:
    """Return Xavier's layers, N(0, 2/(inputs + outputs)), or PyTorch's, uniform on ±1/√inputs."""

    def layer(layer_key: Any, n: int, m: int) -> jax.Array:
        if biases:
            return jax.random.uniform(layer_key, (n + 1, m), "float32", -1, 1) / n**0.5
        return jax.random.normal(layer_key, (n, m), "float32") * (2 / (n + m)) ** 0.5

    sizes = [n_inputs, *[width] * (n_layers - 1), 1]
    return list(map(layer, jax.random.split(key, n_layers), sizes[:-1], sizes[1:]))


def train_on_single_points(
    model: Any, params: Any, X: np.ndarray, y: np.ndarray, rule: Any, steps: int, seed: int
) -> tuple[Any, float]:
    """Return the parameters and the loss of the record with the least loss, every 20 steps.

    Each step sees one point; all points take turns in random order.
    """
    rng, state, best = np.random.default_rng(seed), (params, rule.init(params)), (params, np.inf)
    order = np.concatenate([rng.permutation(len(X)) for _ in range(-(-steps // len(X)))])[:steps]
    X, y = X.astype("float32"), y.astype("float32")
    for start in range(0, steps + 20, 20):
        loss = 0.5 * float(((model(state[0], X) - y) ** 2).sum())
        best = (state[0], loss) if loss < best[1] else best
        state = _advance(model, rule.update, state, X, y, order[start : start + 20, None])
    return best


@partial(jax.jit, static_argnums=(0, 1))
def _advance(model: Any, update: Any, state: Any, X: Any, y: Any, order: Any) -> Any:
    def step(state: Any, chosen: jax.Array) -> Any:
        def loss(params: Any) -> jax.Array:
            return 0.5 * jnp.sum((model(params, X[chosen]) - y[chosen]) ** 2)

        updates, memory = update(jax.grad(loss)(state[0]), state[1], state[0])
        return (optax.apply_updates(state[0], updates), memory), None

    return jax.lax.scan(step, state, order)[0]
