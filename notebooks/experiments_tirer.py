"""Experiments of Tirer et al. (2022): networks in the kernel regime (figure 1) and outside it.

All networks have five layers and see points on the circle, or angles as scalar inputs (figure 9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

import rescntk as rk
from rescntk import finite, literature, regression
from rescntk.finite.sampling import draws
from rescntk.theory import smoothness

MODELS = {
    "MLP": literature.tirer_mlp(5),
    "ResNet, α = 1": literature.tirer_resnet(5, 1.0),
    "ResNet, α = 0.1": literature.tirer_resnet(5, 0.1),
}
WIDE = MODELS["ResNet, α = 0.1"]
SGD, ADAM, SLOW_ADAM = optax.sgd(0.01), optax.adam(1e-3), optax.adam(1e-4)


def sampled(n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return angles, equally spaced, and the paper's function there (eq. C.1)."""
    angles = smoothness.grid(n_points) + np.pi / n_points
    return angles, smoothness.target(angles)


def figure_1a(width: int, n_samples: int) -> dict[str, Any]:
    """Sample tangent kernels between angle 0 and all others, beside the exact kernel."""
    angles = np.linspace(-np.pi, np.pi, 61)
    X, Z = smoothness.circle(angles), smoothness.circle([0.0])
    drawn = [
        finite.ntk(WIDE, params, X, Z)[:, 0]
        for params in draws(0, WIDE, X, width, n_samples, "gap", "float32")
    ]
    exact = rk.Kernel(WIDE, "ntk")(X, Z)[:, 0]
    relative = np.linalg.norm(drawn - exact, axis=1) / np.linalg.norm(exact)
    return {
        "angles": angles,
        "kernels": drawn,
        "exact": exact,
        "relative_error": np.sqrt((relative**2).mean()),
    }


def kernel_regime(
    n_points: int, rate: float, width: int, n_networks: int, steps: int
) -> dict[str, Any]:
    """Train wide networks by gradient descent, beside kernel interpolation: figures 1b and 1c.

    "kernel" is the interpolant of the targets. "distance_to_flow" is the largest distance from
    the kernel's gradient flow that starts from the network's random function, after the last
    step. A network whose loss becomes infinite has NaN everywhere.
    """
    angles, y = sampled(n_points)
    fine = np.append(smoothness.grid(128), np.pi)
    X, Z = smoothness.circle(angles), smoothness.circle(fine)
    kernel = rk.Kernel(WIDE, "ntk")
    ladder = regression.decompose(kernel(X))
    every = -(-steps // 50)
    curves, distances, losses = [], [], []
    for params in draws(1, WIDE, X, width, n_networks, "gap", "float32"):
        try:
            run = finite.train(WIDE, params, X, y, rate, steps, Z=Z, every=every)
        except FloatingPointError:
            curves.append(np.full(len(fine), np.nan))
            distances.append(np.nan)
            losses.append(np.full(-(-steps // every) + 1, np.nan))
            continue
        assert run.outputs is not None and run.test_outputs is not None
        moved = ladder.flow(y - run.outputs[0], rate * steps)
        flow = run.test_outputs[0] + kernel(Z, X) @ moved
        curves.append(run.test_outputs[-1])
        distances.append(np.abs(run.test_outputs[-1] - flow).max())
        losses.append(run.loss)
    return {
        "angles": angles,
        "targets": y,
        "fine": fine,
        "kernel": kernel(Z, X) @ regression.interpolate(kernel(X), y),
        "stable_rate": 2 / ladder.eigenvalues[-1],
        "curves": curves,
        "distance_to_flow": distances,
        "losses": losses,
    }


def theorem_5(widths: list[int], n_networks: int, steps: int) -> dict[str, Any]:
    """Measure the largest change of the tangent kernel while a network trains, over widths.

    Five points, so that none is another's antipode: networks with erf are odd functions. Depth
    3, α = ½, half of the theorem's bound as the rate. Networks learn the targets on top of their
    start f_0, so that all start with the same error. "curve" is the error ‖e_t‖ of the last
    network, "bound" the theorem's factor 1 − η λ_min / 3 of one step.
    """
    angles, y = sampled(5)
    X, rows = smoothness.circle(angles), []
    for activation in ("relu", "erf"):
        network = literature.tirer_resnet(3, 0.5).replace(activation=activation)
        ladder = regression.decompose(rk.Kernel(network, "ntk")(X))
        rate = ladder.learning_rate_bound() / 2
        for width in widths:
            changes = []
            for params in draws(width, network, X, width, n_networks, "gap", "float32"):
                goal = y + np.asarray(finite.apply(network, params, X))
                run = finite.train(
                    network, params, X, goal, rate, steps, record=("kernel",), every=10
                )
                assert run.kernel_change is not None
                changes.append(run.kernel_change.max())
            rows.append(
                {
                    "activation": activation,
                    "width": width,
                    "change": np.mean(changes),
                    "error": np.std(changes, ddof=1) / np.sqrt(n_networks),
                    "steps": run.steps,
                    "curve": np.sqrt(2 * run.loss),
                    "bound": 1 - rate * ladder.eigenvalues[0] / 3,
                }
            )
    return {"rows": rows}


def practical(
    rule: optax.GradientTransformation,
    n_points: int,
    width: int,
    n_networks: int,
    steps: int,
    scalar: bool = False,
) -> dict[str, Any]:
    """Train MLP and ResNets outside the kernel regime: figures 3, 8 and 9, one model a row.

    Batches of one signal; the parameters of the record with the least training loss count.
    Xavier's initialization; for scalar inputs PyTorch's, with biases.
    """
    angles, y = sampled(n_points)
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
                initialization="pytorch" if scalar else "xavier",
                extra_biases=scalar,
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
