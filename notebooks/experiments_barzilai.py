"""Experiments of Barzilai et al. (2022): receptive fields of trained networks, training time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import responses

import rescntk as rk
from rescntk import finite, literature, regression
from rescntk.finite.sampling import draws
from rescntk.theory import locality, multisphere

SYSTEMS = {"CNN": literature.barzilai_cnn, "ResNet": literature.barzilai_resnet}


def trained_fields(width: int, n_networks: int, steps: int) -> dict[str, Any]:
    """Measure over pixels the gradient energy that training adds: figure 2's network half.

    One output pixel; all layers trained (tangent kernel) or the readout alone (Gaussian process
    kernel). Beside it the same energy of the kernel's interpolant, and the effective receptive
    field.
    """
    n, channels, d = 12, 2, 15
    rng = np.random.default_rng(0)
    rows = []
    for name, system in SYSTEMS.items():
        network = system(3)
        for kind in ("gpk", "ntk"):
            own = network.replace(trained=("readout",)) if kind == "gpk" else network
            kernel = rk.Kernel(own, "ntk", "equivariant")
            measured, predicted = [], []
            for key in jax.random.split(jax.random.key(2), n_networks):
                X, Z = _near_signals(n, channels, d, rng)
                y = rng.choice([-1.0, 1.0], n)
                params = finite.init(key, own, channels, width, dtype="float32")
                trained, _ = _train_from_start(own, params, X, y, kernel, steps, "equivariant")
                measured.append(_gradient_energy(own, params, trained, Z))
                predicted.append(_interpolant_energy(kernel, X, y, Z))
            field = _fold(locality.effective_receptive_field(own, d, kind, normalized=True))
            rows.append(
                {"system": name, "kind": kind, "field": field, **_shares(measured, predicted)}
            )
    return {"rows": rows}


def trained_responses(width: int, n_networks: int, steps: int) -> dict[str, Any]:
    """Measure the pairs' responses J_δ that training adds, for the heads "trace" and "gap".

    All layers trained (tangent kernel) or the readout alone (Gaussian process kernel).
    """
    rng, rows = np.random.default_rng(1), []
    for kind in ("ntk", "gpk"):
        for name, system in SYSTEMS.items():
            network = system(3).replace(trained=("readout",)) if kind == "gpk" else system(3)
            for head in ("trace", "gap"):
                found = _responses(network, head, width, n_networks, steps, rng)
                rows.append({"system": name, "kind": kind, "head": head, **found})
    return {"rows": rows}


def _responses(
    network: rk.Network,
    head: str,
    width: int,
    n_networks: int,
    steps: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the responses of trained networks, of interpolants and of random functions."""
    n, channels, d = 10, 2, 15
    kernel = rk.Kernel(network, "ntk", head)
    measured, predicted, of_kernel = [], [], []
    for key in jax.random.split(jax.random.key(3), n_networks):
        X, Z = _near_signals(n, channels, d, rng)
        W = multisphere.sample(n, channels, d, rng)
        y = rng.choice([-1.0, 1.0], n)
        pixels = d if head == "trace" else None
        params = finite.init(key, network, channels, width, n_timepoints=pixels, dtype="float32")
        _, added = _train_from_start(network, params, X, y, kernel, steps, head)
        measured.append(responses.responses(added, Z, W).pair)
        coefficients = regression.interpolate(kernel(X), y)
        predicted.append(
            responses.responses(lambda S, c=coefficients, X=X: kernel(S, X) @ c, Z, W).pair
        )
        of_kernel.append(responses.kernel_responses(kernel, Z[:3], W[:3]).pair)
    pair = _fold(np.mean(of_kernel, axis=0))[1:]
    return {"kernel": pair / pair.sum(), **_shares(measured, predicted)}


def training_speed(width: int, depths: list[int], n_networks: int) -> dict[str, Any]:
    """Count the steps of gradient descent to 1 % of the first loss, beside condition numbers.

    Trace head, random targets, the rate 1/λ_max of the exact kernel; the readout alone is
    trained (Gaussian process kernel), or all layers (tangent kernel).
    """
    n, channels, d, rng = 6, 4, 6, np.random.default_rng(5)
    X, y = multisphere.sample(n, channels, d, rng), rng.standard_normal(n)
    rows = []
    for name, system in SYSTEMS.items():
        for kind in ("gpk", "ntk"):
            for depth in depths:
                network = system(depth)
                network = network.replace(trained=("readout",)) if kind == "gpk" else network
                K = rk.Kernel(network, "ntk", "trace")(X)
                ladder, counts = regression.decompose(K), []
                rate = 1 / ladder.eigenvalues[-1]
                condition = float(ladder.eigenvalues[-1] / ladder.eigenvalues[0])
                horizon = int(6 * condition) + 50
                for params in draws(depth, network, X, width, n_networks, "trace", "float32"):
                    goal = y + np.asarray(finite.apply(network, params, X, "trace"))
                    run = finite.train(
                        network, params, X, goal, rate, horizon, head="trace", every=horizon
                    )
                    reached = run.batch_losses < 0.01 * run.batch_losses[0]
                    counts.append(int(reached.argmax()) if reached.any() else horizon)
                times = np.arange(horizon)
                residuals = y - ladder.flow(y, times, rate) @ K
                flow = int(((residuals**2).sum(axis=1) < 0.01 * (y**2).sum()).argmax())
                rows.append(
                    {
                        "system": name,
                        "kind": kind,
                        "depth": depth,
                        "condition_number": condition,
                        "steps": counts,
                        "flow": flow,
                    }
                )
    return {"rows": rows}


def _near_signals(
    n: int, channels: int, d: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return n random training signals, and a test signal near each of them."""
    X, noise = multisphere.sample(2 * n, channels, d, rng).reshape(2, n, channels, d)
    return X, multisphere.project(X + 0.3 * noise)


def _train_from_start(
    network: rk.Network,
    params: finite.Parameters,
    X: np.ndarray,
    y: np.ndarray,
    kernel: rk.Kernel,
    steps: int,
    head: str,
) -> tuple[finite.Parameters, Callable[[np.ndarray], np.ndarray]]:
    """Train to y + f_0 by gradient descent; return the parameters and the function f − f_0."""
    rate = regression.decompose(kernel(X)).learning_rate_bound() / 2
    goal = y + np.asarray(finite.apply(network, params, X, head))
    run = finite.train(network, params, X, goal, rate, steps, head=head, every=steps)

    def added(S: np.ndarray) -> np.ndarray:
        after, before = (finite.apply(network, own, S, head) for own in (run.params, params))
        return np.asarray(after) - np.asarray(before)

    return run.params, added


def _gradient_energy(
    network: rk.Network, start: finite.Parameters, end: finite.Parameters, Z: np.ndarray
) -> np.ndarray:
    """Return the energy (d,) of the gradient of f − f_0, summed over channels, mean over Z."""

    def total(x: jax.Array) -> jax.Array:
        after, before = (finite.apply(network, own, x, "equivariant") for own in (end, start))
        return (after - before).sum()

    gradient = np.asarray(jax.grad(total)(Z.astype(np.float32)), float)
    return (gradient**2).sum(axis=1).mean(axis=0)


def _interpolant_energy(
    kernel: rk.Kernel, X: np.ndarray, y: np.ndarray, Z: np.ndarray, step: float = 1e-4
) -> np.ndarray:
    """Return the gradient's energy of the kernel's interpolant, by central differences."""
    coefficients = regression.interpolate(kernel(X), y)
    n, channels, d = Z.shape
    moves = step * np.eye(channels * d).reshape(-1, channels, d)
    both = (Z[:, None, None] + np.stack([moves, -moves])).reshape(-1, channels, d)
    up, down = (kernel(both, X) @ coefficients).reshape(n, 2, channels, d).swapaxes(0, 1)
    return (((up - down) / (2 * step)) ** 2).sum(axis=1).mean(axis=0)


def _shares(measured: Any, predicted: Any) -> dict[str, Any]:
    """Return shares of the total by distance from pixel 0, means over networks.

    Pixels have the distances 0, 1, …; pairs 1, 2, ….
    """
    found, exact = (_fold(np.asarray(values)) for values in (measured, predicted))
    first = int(np.isnan(found).any())
    found, exact = (v[:, first:] / v[:, first:].sum(axis=1, keepdims=True) for v in (found, exact))
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return {"measured": found.mean(axis=0), "error": error, "predicted": exact.mean(axis=0)}


def _fold(values: np.ndarray) -> np.ndarray:
    """Return sums over pixels at equal distance from pixel 0, (..., d // 2 + 1) of an odd d."""
    half = values.shape[-1] // 2
    both = values[..., 1 : half + 1] + values[..., :half:-1]
    return np.concatenate([values[..., :1], both], axis=-1)
