"""Experiments with finite networks: the papers' figures, at the papers' size or a fast one.

    python notebooks/finite_experiments.py --paper theorem_4 figure_8
    python notebooks/finite_experiments.py --fast

Each experiment is a function of its settings, and returns numbers and lists. The notebooks
finite_networks and beyond_the_kernel_regime run the fast settings. This script writes results to
finite_experiments.json beside it, with settings and seconds, for the experiments named or all.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import rescntk as rk
from rescntk import finite, literature, regression
from rescntk.finite.sampling import draws
from rescntk.theory import locality, multisphere, smoothness

RESULTS = Path(__file__).with_suffix(".json")
MODELS = {
    "MLP": literature.tirer_mlp(5),
    "ResNet, α = 1": literature.tirer_resnet(5, 1.0),
    "ResNet, α = 0.1": literature.tirer_resnet(5, 0.1),
}
CONVOLUTIONAL = {"CNN": literature.barzilai_cnn(3), "ResNet": literature.barzilai_resnet(3)}


# ------------------------------------------------------------------ Tirer et al. 2022


def figure_1a(width: int, n_samples: int) -> dict[str, Any]:
    """Sample tangent kernels between angle 0 and all others, beside the exact kernel."""
    network, angles = literature.tirer_resnet(5, 0.1), np.linspace(-np.pi, np.pi, 61)
    X, Z = smoothness.circle(angles), smoothness.circle([0.0])
    drawn = [
        finite.ntk(network, params, X, Z)[:, 0]
        for params in draws(0, network, X, width, n_samples, "gap", "float32")
    ]
    exact = rk.Kernel(network, "ntk")(X, Z)[:, 0]
    relative = np.linalg.norm(drawn - exact, axis=1) / np.linalg.norm(exact)
    return {
        "angles": angles,
        "kernels": drawn,
        "exact": exact,
        "relative_error": np.sqrt((relative**2).mean()),
    }


def practical(
    figure: str, width: int, n_networks: int, steps: int, n_points: int = 20
) -> dict[str, Any]:
    """Train MLP and ResNets outside the kernel regime: figures 3, 8 and 9, one model a row.

    Batches of one signal; the parameters of the record with the least training loss count.
    """
    scalar = figure == "figure 9"
    rule = _SGD if figure == "figure 3, SGD" else _ADAM if "3" in figure else _SLOW_ADAM
    initialization = "pytorch" if scalar else "xavier"
    angles = smoothness.grid(n_points) + np.pi / n_points
    y = smoothness.target(angles)
    fine = np.linspace(angles[0], angles[-1], 512) if scalar else smoothness.grid(512)
    signals: Callable[[Any], Any] = (lambda t: t[:, None, None]) if scalar else smoothness.circle
    rows = []
    for name, model in MODELS.items():
        curves, losses = [], []
        for key in jax.random.split(jax.random.key(4), n_networks):
            params = finite.init(
                key,
                model,
                1 if scalar else 2,
                width,
                initialization=initialization,
                biases=scalar,
                dtype="float32",
            )
            run = finite.train(
                model, params, signals(angles), y, rule, steps, batch_size=1, key=key, every=20
            )
            curves.append(np.asarray(finite.apply(model, run.best, signals(fine)), float))
            losses.append(run.loss.min())
        curve = np.array(curves)
        if scalar:
            second = np.diff(curve, 2, axis=1) / (fine[1] - fine[0]) ** 2
            curvature, mu = np.sqrt((second**2).mean(axis=1) / (curve**2).mean(axis=1)), None
        else:
            curvature = smoothness.curvature(curve)
            mu = [float(smoothness.gaussian_rkhs_ratio(own, angles, y)) for own in curve]
        rows.append(
            {
                "model": name,
                "loss": losses,
                "curvature": curvature,
                "mu": mu,
                "curves": curve[:, ::4],
            }
        )
    return {"angles": angles, "targets": y, "fine": fine[::4], "rows": rows}


_SGD, _ADAM, _SLOW_ADAM = optax.sgd(0.01), optax.adam(1e-3), optax.adam(1e-4)


# ------------------------------------------------------------------ Huang et al. 2020


def theorem_4(widths: list[int], depths: list[int], n_samples: int) -> dict[str, Any]:
    """Measure ε of theorems 4 and 5: the kernel's error over 2Lα² (ResNet) and over L (FFNet).

    The root mean square over samples and over pairs of three points of the circle.
    """
    X = smoothness.circle([0.0, 1.0, 2.5])
    systems: dict[str, Callable[[int], rk.Network]] = {
        "ResNet, γ = 1": lambda depth: literature.huang_resnet(depth, 1.0),
        "ResNet, γ = ½": lambda depth: literature.huang_resnet(depth, 0.5),
        "FFNet": literature.huang_ffnet,
    }
    rows = []
    for name, system in systems.items():
        for depth in depths:
            network = system(depth)
            unit = 2 * depth * network.alpha**2 if network.skip else depth
            exact = rk.gram(network, X, kinds=("ntk",)).ntk
            for width in widths:
                drawn = finite.samples(width, network, X, width, n_samples, dtype="float32")
                squares = ((drawn - exact) ** 2).mean(axis=(1, 2)) / unit**2
                epsilon = float(np.sqrt(squares.mean()))
                spread = float(squares.std(ddof=1) / np.sqrt(n_samples) / (2 * epsilon))
                rows.append(
                    {
                        "system": name,
                        "depth": depth,
                        "width": width,
                        "epsilon": epsilon,
                        "error": spread,
                    }
                )
    return {"rows": rows}


def deep_regression(depth: int, width: int, n_networks: int, steps: int) -> dict[str, Any]:
    """Train a deep FFNet and a ResNet on eight samples of a cosine; ask between the samples.

    Networks learn the cosine on top of their start f_0, so that f − f_0 is what training adds.
    """
    given, fine = smoothness.grid(8), smoothness.grid(64)
    X, Z, y = smoothness.circle(given), smoothness.circle(fine), np.cos(given)
    rows = []
    for name, network in (
        ("FFNet", literature.huang_ffnet(depth)),
        ("ResNet", literature.huang_resnet(depth, 1.0)),
    ):
        kernel = rk.Kernel(network, "ntk")
        rate = regression.decompose(kernel(X)).learning_rate_bound() / 2
        added, losses = [], []
        for params in draws(1, network, X, width, n_networks, "gap", "float32"):
            start, before = (np.asarray(finite.apply(network, params, S)) for S in (X, Z))
            run = finite.train(network, params, X, y + start, rate, steps, every=steps, Z=Z)
            assert run.test_outputs is not None
            added.append(run.test_outputs[-1] - before)
            losses.append(run.loss[-1])
        exact = regression.interpolate(kernel, X, y, Z)
        rows.append({"system": name, "added": added, "kernel": exact, "loss": losses})
    return {"given": given, "targets": y, "fine": fine, "rows": rows}


# ------------------------------------------------------------------ Barzilai et al. 2022


def trained_fields(width: int, n_networks: int, steps: int) -> dict[str, Any]:
    """Measure the gradient energy over pixels of what training adds: figure 2's network half.

    One output pixel; all layers trained (tangent kernel) or the readout alone (Gaussian process
    kernel). Beside it the same energy of the kernel's interpolant, and the effective receptive
    field.
    """
    n, channels, d = 12, 2, 15
    rng = np.random.default_rng(0)
    rows = []
    for name, network in (
        ("CNN", literature.barzilai_cnn(3)),
        ("ResNet", literature.barzilai_resnet(3)),
    ):
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
    """Measure the pairs' responses J_δ of what training adds, for the heads "trace" and "gap"."""
    n, channels, d = 10, 2, 15
    rng = np.random.default_rng(1)
    rows = []
    for name, network in (
        ("CNN", literature.barzilai_cnn(3)),
        ("ResNet", literature.barzilai_resnet(3)),
    ):
        for head in ("trace", "gap"):
            kernel = rk.Kernel(network, "ntk", head)
            measured, predicted, of_kernel = [], [], []
            for key in jax.random.split(jax.random.key(3), n_networks):
                (X, Z), W = (
                    _near_signals(n, channels, d, rng),
                    multisphere.sample(n, channels, d, rng),
                )
                y = rng.choice([-1.0, 1.0], n)
                pixels = d if head == "trace" else None
                params = finite.init(
                    key, network, channels, width, n_timepoints=pixels, dtype="float32"
                )
                _, added = _train_from_start(network, params, X, y, kernel, steps, head)
                measured.append(locality.responses(added, Z, W).pair)
                coefficients = regression.solve(kernel(X), y)
                predicted.append(
                    locality.responses(
                        lambda S, c=coefficients, X=X, k=kernel: k(S, X) @ c, Z, W
                    ).pair
                )
                of_kernel.append(locality.kernel_responses(kernel, Z[:3], W[:3]).pair)
            pair = _fold(np.mean(of_kernel, axis=0))[1:]
            shares = _shares(measured, predicted)
            rows.append({"system": name, "head": head, "kernel": pair / pair.sum(), **shares})
    return {"rows": rows}


def training_speed(width: int, depths: list[int], n_networks: int) -> dict[str, Any]:
    """Count the steps of gradient descent to 1 % of the first loss, beside condition numbers.

    Trace head, random targets, the rate 1/λ_max of the exact kernel; the readout alone is
    trained (Gaussian process kernel), or all layers (tangent kernel).
    """
    n, channels, d, rng = 6, 4, 6, np.random.default_rng(5)
    X, y = multisphere.sample(n, channels, d, rng), rng.standard_normal(n)
    rows = []
    for name, system in (("CNN", literature.barzilai_cnn), ("ResNet", literature.barzilai_resnet)):
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
    coefficients = regression.solve(kernel(X), y)
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


# ------------------------------------------------------------------ settings and results

EXPERIMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "figure_1a": figure_1a,
    "figure_3_sgd": partial(practical, "figure 3, SGD", n_points=10),
    "figure_3_adam": partial(practical, "figure 3, Adam", n_points=10),
    "figure_8": partial(practical, "figure 8"),
    "figure_8_epochs": partial(practical, "figure 8"),
    "figure_9": partial(practical, "figure 9"),
    "theorem_4": theorem_4,
    "deep_regression": deep_regression,
    "trained_fields": trained_fields,
    "trained_responses": trained_responses,
    "training_speed": training_speed,
}
FAST: dict[str, dict[str, Any]] = {
    "figure_1a": {"width": 512, "n_samples": 10},
    "figure_3_sgd": {"width": 64, "n_networks": 2, "steps": 500},
    "figure_3_adam": {"width": 64, "n_networks": 2, "steps": 500},
    "figure_8": {"width": 64, "n_networks": 2, "steps": 1000},
    "figure_8_epochs": {"width": 64, "n_networks": 2, "steps": 5000},
    "figure_9": {"width": 64, "n_networks": 2, "steps": 1000},
    "theorem_4": {"widths": [32, 128], "depths": [2, 12], "n_samples": 24},
    "deep_regression": {"depth": 20, "width": 128, "n_networks": 3, "steps": 300},
    "trained_fields": {"width": 128, "n_networks": 2, "steps": 150},
    "trained_responses": {"width": 64, "n_networks": 2, "steps": 150},
    "training_speed": {"width": 128, "depths": [4], "n_networks": 2},
}
"""Settings of the notebooks: seconds each."""

PAPER: dict[str, dict[str, Any]] = {
    "figure_1a": {"width": 2000, "n_samples": 30},
    "figure_3_sgd": {"width": 500, "n_networks": 30, "steps": 1000},
    "figure_3_adam": {"width": 500, "n_networks": 30, "steps": 1000},
    "figure_8": {"width": 500, "n_networks": 5, "steps": 1000},
    "figure_8_epochs": {"width": 128, "n_networks": 5, "steps": 20000},
    "figure_9": {"width": 500, "n_networks": 5, "steps": 1000},
    "theorem_4": {"widths": [32, 64, 128, 256], "depths": [2, 8, 32], "n_samples": 32},
    "deep_regression": {"depth": 50, "width": 256, "n_networks": 4, "steps": 300},
    "trained_fields": {"width": 256, "n_networks": 8, "steps": 200},
    "trained_responses": {"width": 128, "n_networks": 10, "steps": 200},
    "training_speed": {"width": 256, "depths": [2, 4, 8, 16], "n_networks": 3},
}
"""Settings of the papers where they name them (figures 1a, 3, 8, 9), larger ones elsewhere."""


def fast(name: str) -> Any:
    """Return the result of an experiment with its fast settings."""
    return EXPERIMENTS[name](**FAST[name])


def stored(name: str) -> dict[str, Any]:
    """Return the stored run of an experiment: "settings", "seconds", "result"."""
    return dict(json.loads(RESULTS.read_text())[name])


def main() -> None:
    """Run experiments, and write each result when it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--paper", action="store_true", help="the papers' sizes: minutes to hours")
    size.add_argument("--fast", action="store_true", help="the notebooks' sizes, not written")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(FAST)}; all by default")
    arguments = parser.parse_args()
    for name in arguments.names or FAST:
        settings = (PAPER if arguments.paper else FAST)[name]
        start = time.process_time()
        result = EXPERIMENTS[name](**settings)
        seconds = time.process_time() - start
        print(f"{name}: {seconds:.0f} s of processor time", flush=True)
        if arguments.paper:
            entry = {"settings": settings, "seconds": round(seconds), "result": _rounded(result)}
            found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            temporary = RESULTS.with_suffix(".tmp")
            temporary.write_text(json.dumps(found | {name: entry}, indent=None) + "\n")
            os.replace(temporary, RESULTS)


def _rounded(value: Any) -> Any:
    """Return a result as JSON has it, numbers with four digits."""
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(own) for own in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}")
    return value


if __name__ == "__main__":
    main()
