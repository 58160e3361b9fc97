"""Random networks for experiments, the gradient flow of their kernel, and practical networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import rescntk as rk
from rescntk import finite


def draws(
    key: int, network: rk.Network, X: np.ndarray, width: int, number: int, head: str = "gap"
) -> Iterator[finite.Parameters]:
    """Yield the parameters of random networks of a width, in float32, for the signals X."""
    pixels = X.shape[2] if head == "trace" else None
    for own in jax.random.split(jax.random.key(key), number):
        yield finite.init(own, network, X.shape[1], width, n_timepoints=pixels, dtype="float32")


def flow(K: np.ndarray, y: np.ndarray, times: Any) -> np.ndarray:
    """Return the coefficients K⁻¹ (I − e^(−Kt)) y of kernel gradient flow, times in front."""
    values, vectors = np.linalg.eigh(K)
    learned = -np.expm1(-np.multiply.outer(times, values)) / values
    return (learned * (vectors.T @ y)) @ vectors.T


def half_the_bound(K: np.ndarray) -> float:
    """Return 1/(λ_min + λ_max), half of the largest rate of theorem 5 of Tirer et al."""
    values = np.linalg.eigvalsh(K)
    return float(1 / (values[0] + values[-1]))


def concentration(
    network: rk.Network, X: np.ndarray, widths: tuple[int, ...], number: int, kind: str
) -> dict[str, Any]:
    """Return root mean squares over networks of ‖K̂ − K‖ / ‖K‖, and their exponent over width.

    Head "gap". The tangent kernel of the readout alone is the Gaussian process kernel.
    """
    network = network.replace(trained=("readout",)) if kind == "gpk" else network
    exact = rk.Kernel(network, "ntk")(X)
    errors, spreads = [], []
    for width in widths:
        drawn = [finite.ntk(network, own, X) for own in draws(width, network, X, width, number)]
        squares = ((np.array(drawn) - exact) ** 2).sum(axis=(1, 2)) / (exact**2).sum()
        errors.append(np.sqrt(squares.mean()))
        spreads.append(squares.std(ddof=1) / np.sqrt(number) / (2 * errors[-1]))
    weights = np.array(errors) / spreads
    fit, covariance = np.polyfit(np.log(widths), np.log(errors), 1, w=weights, cov="unscaled")
    error = float(covariance[0, 0] ** 0.5)
    return {"errors": errors, "spreads": spreads, "slope": float(fit[0]), "slope_error": error}


Model = Callable[[Any, Any], jax.Array]
"""From the layers of a practical network, and inputs (n, n_inputs), to its outputs (n,)."""


def practical_network(alpha: float | None, depth: int = 5) -> Model:
    """Return the fully connected ReLU network of practitioners, a ResNet, or an MLP without α.

    A layer is an array (inputs, outputs), without a factor; its biases are one row more.
    """

    def dense(W: jax.Array, f: jax.Array) -> jax.Array:
        n = f.shape[1]
        return f @ W[:n] + W[n:].sum(axis=0)

    def outputs(layers: Any, x: Any) -> jax.Array:
        first, *rest, last = layers
        f = dense(first, x)
        if alpha is None:
            for W in rest:
                f = dense(W, jax.nn.relu(f))
            return dense(last, jax.nn.relu(f))[:, 0]
        for W, V in zip(rest[::2], rest[1::2], strict=True):
            f = f + alpha * dense(V, jax.nn.relu(dense(W, f)))
        return dense(last, f)[:, 0]

    return outputs


def practical_layers(key: Any, n_layers: int, n_inputs: int, width: int, biases: bool) -> Any:
    """Return layers of Xavier's initialization, or of PyTorch's, with biases.

    Xavier's is N(0, 2/(inputs + outputs)), PyTorch's uniform on ±1/√inputs.
    """
    keys, sizes = jax.random.split(key, n_layers), [n_inputs, *[width] * (n_layers - 1), 1]
    layers = []
    for own, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True):
        if biases:
            layers.append(jax.random.uniform(own, (n + 1, m), "float32", -1, 1) / n**0.5)
        else:
            layers.append(jax.random.normal(own, (n, m), "float32") * (2 / (n + m)) ** 0.5)
    return layers


def train_on_single_points(
    model: Model, params: Any, X: np.ndarray, y: np.ndarray, rule: Any, steps: int, seed: int
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
def _advance(model: Model, update: Any, state: Any, X: Any, y: Any, order: Any) -> Any:
    def step(state: Any, chosen: jax.Array) -> Any:
        params, memory = state

        def loss(own: Any) -> jax.Array:
            return 0.5 * ((model(own, X[chosen]) - y[chosen]) ** 2).sum()

        updates, memory = update(jax.grad(loss)(params), memory, params)
        return (optax.apply_updates(params, updates), memory), None

    return jax.lax.scan(step, state, order)[0]
