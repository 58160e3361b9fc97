"""Experiments of the papers with finite networks: functions of settings, which return numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
import optax

import circle
import rescntk as rk
import responses
from practical_networks import practical_layers, practical_network, train_on_single_points
from rescntk import finite, literature, regression
from rescntk.theory import locality, multisphere, smoothness, spectrum

Result = dict[str, Any]
SYSTEMS = {"CNN": literature.barzilai_cnn, "ResNet": literature.barzilai_resnet}
MODELS = {"MLP": None, "ResNet, α = 1": 1.0, "ResNet, α = 0.1": 0.1}  # α; all of depth 5
WIDE = literature.tirer_resnet(5, 0.1)
SGD, ADAM, SLOW_ADAM = optax.sgd(0.01), optax.adam(1e-3), optax.adam(1e-4)


def draws(
    key: int, network: Any, X: Any, width: int, number: int, head: str = "gap"
) -> Iterator[Any]:
    """Yield the parameters of random networks of a width, in float32, for the signals X."""
    pixels = X.shape[2] if head == "trace" else None
    for one_key in jax.random.split(jax.random.key(key), number):
        yield finite.init(one_key, network, X.shape[1], width, n_timepoints=pixels, dtype="float32")


def half_the_bound(K: np.ndarray) -> float:
    """Return 1/(λ_min + λ_max), half of the largest rate of theorem 5 of Tirer et al."""
    return regression.decompose(K).learning_rate_bound() / 2


def of_kind(network: rk.Network, kind: str) -> rk.Network:
    """Return a network whose tangent kernel is of a kind: GPK if the readout alone is trained."""
    return network.replace(trained=("readout",)) if kind == "gpk" else network


def outputs(network: rk.Network, params: Any, X: np.ndarray, head: str = "gap") -> np.ndarray:
    """Return the outputs of a network as NumPy's."""
    return np.asarray(finite.apply(network, params, X, head))


def recorded(values: np.ndarray | None) -> np.ndarray:
    """Return records of a training that was asked for them."""
    assert values is not None
    return values


# ---------------------------------------------------------------- Barzilai et al.


def trained_fields(width: int, n_networks: int, steps: int) -> Result:
    """Measure over pixels the gradient energy that training adds: figure 2's network half.

    One output pixel; all layers trained, or the readout alone. Beside it the same energy of the
    kernel's interpolant, and the effective receptive field.
    """
    n, channels, d, rng, rows = 12, 2, 15, np.random.default_rng(0), []
    for name, kind in product(SYSTEMS, ("gpk", "ntk")):
        network = of_kind(SYSTEMS[name](3), kind)
        kernel, measured, predicted = rk.Kernel(network, "ntk", "equivariant"), [], []
        for key in jax.random.split(jax.random.key(2), n_networks):
            X, Z = _near_signals(n, channels, d, rng)
            y = rng.choice([-1.0, 1.0], n)
            params = finite.init(key, network, channels, width, dtype="float32")
            trained = _train_from_start(network, params, X, y, kernel, steps, "equivariant")
            measured.append(_gradient_energy(network, params, trained, Z))
            predicted.append(_interpolant_energy(kernel, X, y, Z))
        field = _fold(locality.effective_receptive_field(network, d, kind=kind, normalized=True))
        row = {"system": name, "kind": kind, "field": field}
        rows.append(row | _shares(measured, predicted))
    return {"rows": rows}


def trained_responses(width: int, n_networks: int, steps: int) -> Result:
    """Measure the pairs' responses J_δ that training adds, for the heads "trace" and "gap"."""
    n, channels, d, rng, rows = 10, 2, 15, np.random.default_rng(1), []
    for kind, name, head in product(("ntk", "gpk"), SYSTEMS, ("trace", "gap")):
        network = of_kind(SYSTEMS[name](3), kind)
        kernel, measured, predicted, of_kernel = rk.Kernel(network, "ntk", head), [], [], []
        for key in jax.random.split(jax.random.key(3), n_networks):
            X, Z = _near_signals(n, channels, d, rng)
            W = multisphere.sample(n, channels, d, rng)
            y, pixels = rng.choice([-1.0, 1.0], n), d if head == "trace" else None
            options: dict[str, Any] = {"n_timepoints": pixels, "dtype": "float32"}
            params = finite.init(key, network, channels, width, **options)
            trained = _train_from_start(network, params, X, y, kernel, steps, head)
            start, end = (
                partial(outputs, network, weights, head=head) for weights in (params, trained)
            )
            beta = np.linalg.solve(kernel(X), y)
            measured.append(responses.responses(lambda S: end(S) - start(S), Z, W).pair)
            predicted.append(responses.responses(lambda S: kernel(S, X) @ beta, Z, W).pair)
            of_kernel.append(responses.kernel_responses(kernel, Z[:3], W[:3]).pair)
        pair = _fold(np.mean(of_kernel, axis=0))[1:]
        row = {"system": name, "kind": kind, "head": head, "kernel": pair / pair.sum()}
        rows.append(row | _shares(measured, predicted))
    return {"rows": rows}


def training_speed(width: int, depths: list[int], n_networks: int) -> Result:
    """Count the steps of gradient descent to 1 % of the first loss, beside condition numbers.

    Trace head, random targets, the rate 1/λ_max of the exact kernel.
    """
    n, channels, d, rng = 6, 4, 6, np.random.default_rng(5)
    X, y, rows = multisphere.sample(n, channels, d, rng), rng.standard_normal(n), []
    for name, kind, depth in product(SYSTEMS, ("gpk", "ntk"), depths):
        network = of_kind(SYSTEMS[name](depth), kind)
        K = rk.Kernel(network, "ntk", "trace")(X)
        values, counts = np.linalg.eigvalsh(K), []
        rate, condition = 1 / values[-1], float(values[-1] / values[0])
        horizon = int(6 * condition) + 50
        options: dict[str, Any] = {"head": "trace", "record": (), "every": 1}
        for params in draws(depth, network, X, width, n_networks, "trace"):
            goal = y + outputs(network, params, X, "trace")
            loss = finite.train(network, params, X, goal, rate, horizon, **options).loss
            reached = loss < 0.01 * loss[0]
            counts.append(int(reached.argmax()) if reached.any() else horizon)
        residuals = y - regression.flow(K, y, rate * np.arange(horizon)) @ K
        followed = int(((residuals**2).sum(axis=1) < 0.01 * (y**2).sum()).argmax())
        row = {"system": name, "kind": kind, "depth": depth, "steps": counts}
        rows.append(row | {"condition_number": condition, "flow": followed})
    return {"rows": rows}


def half_times(widths: Any, n_networks: int, steps: int, systems: Any = tuple(SYSTEMS)) -> Result:
    """Measure when networks have learned half of waves on one pixel, near and far: section 5.1.

    Five pixels of two channels, depth 2, output pixel 0. A wave has the frequency k on the pixel
    at a distance. Networks learn all waves at once, each with the amplitude 0.1, on top of f_0.
    At most 12 steps see a lattice of 251 signals, moved at random, before new ones come. "shares"
    are the shares of the waves at new signals.
    """
    n, d, waves = 251, 5, [(distance, k) for k in (1, 2, 3) for distance in (0, 1, 2)]
    lattice = np.outer(np.arange(n), [pow(20, pixel, n) for pixel in range(d)]) % n / n
    rows = []
    for name, width in product(systems, widths):
        network, rng = SYSTEMS[name](2), np.random.default_rng(0)
        values = spectrum.eigenvalues(network, 2, d, 3, kind="ntk", head="equivariant").eigenvalues
        counts = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 9, *[12] * (steps // 12)]
        ladder = [(0.1 / values.max(), 3)] * 10 + [(1.4 / values.max(), count) for count in counts]
        every = []
        for params in draws(6, network, np.zeros((1, 2, d)), width, n_networks):
            start, shares = params, []
            for rate, steps_at_rate in ladder:
                angles = 2 * np.pi * (lattice + rng.random(d))
                X = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
                y = np.sqrt(2) * np.cos([k * angles[:, distance] for distance, k in waves])
                f_0 = outputs(network, start, X, "equivariant")
                options: dict[str, Any] = {"head": "equivariant", "every": steps_at_rate}
                goal = 0.1 * y.sum(axis=0) + f_0
                run = finite.train(network, params, X, goal, rate / n, steps_at_rate, **options)
                shares.append(10 * y @ (recorded(run.outputs)[0] - f_0) / n)
                params = run.params
            every.append(np.transpose(shares))
        at = np.cumsum([(0.0, 0), *[(rate * count, count) for rate, count in ladder[:-1]]], axis=0)
        index = np.array([np.eye(d, dtype=int)[distance] * k for distance, k in waves])
        row = {"system": name, "width": width, "times": at[:, 0], "steps": at[:, 1].astype(int)}
        row |= {"shares": every, "waves": waves}
        rows.append(row | {"eigenvalues": values[tuple(index.T)]})
    return {"rows": rows}


def _near_signals(n: int, channels: int, d: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return n random training signals, and a test signal near each of them."""
    X, noise = multisphere.sample(2 * n, channels, d, rng).reshape(2, n, channels, d)
    return X, multisphere.project(X + 0.3 * noise)


def _train_from_start(
    network: rk.Network,
    params: Any,
    X: np.ndarray,
    y: np.ndarray,
    kernel: rk.Kernel,
    steps: int,
    head: str,
) -> finite.Parameters:
    """Return the parameters after training to y + f_0."""
    rate, goal = half_the_bound(kernel(X)), y + outputs(network, params, X, head)
    return finite.train(network, params, X, goal, rate, steps, head=head, every=steps).params


def _gradient_energy(network: rk.Network, start: Any, end: Any, Z: np.ndarray) -> np.ndarray:
    """Return the energy (d,) of the gradient of f − f_0, summed over channels, mean over Z."""

    def total(x: jax.Array) -> jax.Array:
        after, before = (finite.apply(network, params, x, "equivariant") for params in (end, start))
        return (after - before).sum()

    gradient = np.asarray(jax.grad(total)(Z.astype(np.float32)), float)
    return (gradient**2).sum(axis=1).mean(axis=0)


def _interpolant_energy(kernel: Any, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the gradient's energy of the kernel's interpolant, by central differences."""
    n, channels, d = Z.shape
    moves = 1e-4 * np.eye(channels * d).reshape(-1, channels, d)
    both = (Z[:, None, None] + np.stack([moves, -moves])).reshape(-1, channels, d)
    values = (kernel(both, X) @ np.linalg.solve(kernel(X), y)).reshape(n, 2, channels, d)
    return (((values[:, 0] - values[:, 1]) / 2e-4) ** 2).sum(axis=1).mean(axis=0)


def _shares(measured: Any, predicted: Any) -> Result:
    """Return shares of the total by distance from pixel 0, of pairs from 1: means over networks."""
    drawn, exact = (_fold(np.asarray(values)) for values in (measured, predicted))
    first = int(np.isnan(drawn).any())
    drawn, exact = (v[:, first:] / v[:, first:].sum(axis=1, keepdims=True) for v in (drawn, exact))
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    return {"measured": drawn.mean(axis=0), "error": error, "predicted": exact.mean(axis=0)}


def _fold(values: np.ndarray) -> np.ndarray:
    """Return sums over pixels at equal distance from pixel 0, (..., d // 2 + 1) of an odd d."""
    half = values.shape[-1] // 2
    both = values[..., 1 : half + 1] + values[..., :half:-1]
    return np.concatenate([values[..., :1], both], axis=-1)


# ---------------------------------------------------------------- Huang et al.


def theorem_4(widths: list[int], depths: list[int], n_samples: int) -> Result:
    """Measure ε of theorems 4 and 5: the kernel's error over 2Lα² (ResNet) and over L (FFNet).

    The root mean square over samples and over pairs of three points of the circle.
    """
    X, rows = smoothness.circle([0.0, 1.0, 2.5]), []
    systems: dict[str, Callable[[int], rk.Network]] = {
        "ResNet, γ = 1": partial(literature.huang_resnet, gamma=1.0),
        "ResNet, γ = ½": partial(literature.huang_resnet, gamma=0.5),
        "FFNet": literature.huang_ffnet,
    }
    for name, depth, width in product(systems, depths, widths):
        network = systems[name](depth)
        alpha = network.layer(1).alpha  # of all layers
        unit = 2 * depth * alpha**2 if network.skip else depth
        networks = draws(width, network, X, width, n_samples)
        drawn = np.array([finite.ntk(network, params, X) for params in networks])
        squares = ((drawn - rk.Kernel(network, "ntk")(X)) ** 2).mean(axis=(1, 2)) / unit**2
        epsilon = float(np.sqrt(squares.mean()))
        error = float(squares.std(ddof=1) / np.sqrt(n_samples) / (2 * epsilon))
        row = {"system": name, "depth": depth, "width": width}
        rows.append(row | {"epsilon": epsilon, "error": error})
    return {"rows": rows}


def deep_regression(depth: int, width: int, n_networks: int, steps: int) -> Result:
    """Train a deep FFNet and a ResNet on eight samples of a cosine; ask between the samples.

    Networks learn the cosine on top of their start f_0, so that f − f_0 is what training adds.
    """
    given, fine = smoothness.grid(8), smoothness.grid(64)
    X, Z, y, rows = smoothness.circle(given), smoothness.circle(fine), np.cos(given), []
    systems = {"FFNet": literature.huang_ffnet(depth), "ResNet": literature.huang_resnet(depth)}
    for name, network in systems.items():
        kernel = rk.Kernel(network, "ntk")
        rate, added, losses = half_the_bound(kernel(X)), [], []
        for params in draws(1, network, X, width, n_networks):
            start, before = (outputs(network, params, S) for S in (X, Z))
            run = finite.train(network, params, X, y + start, rate, steps, every=steps, Z=Z)
            added.append(recorded(run.test_outputs)[-1] - before)
            losses.append(run.loss[-1])
        exact = kernel(Z, X) @ np.linalg.solve(kernel(X), y)
        rows.append({"system": name, "added": added, "kernel": exact, "loss": losses})
    return {"given": given, "targets": y, "fine": fine, "rows": rows}


# ---------------------------------------------------------------- Tirer et al., Lee et al.


def sampled(n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return angles, equally spaced, and the paper's function there (eq. C.1)."""
    angles = smoothness.grid(n_points) + np.pi / n_points
    return angles, circle.target(angles)


def figure_1a(width: int, n_samples: int) -> Result:
    """Sample tangent kernels between angle 0 and all others, beside the exact kernel."""
    angles = np.linspace(-np.pi, np.pi, 61)
    X, Z = smoothness.circle(angles), smoothness.circle([0.0])
    networks = draws(0, WIDE, X, width, n_samples)
    drawn = [finite.ntk(WIDE, params, X, Z)[:, 0] for params in networks]
    exact = rk.Kernel(WIDE, "ntk")(X, Z)[:, 0]
    relative = np.linalg.norm(drawn - exact, axis=1) / np.linalg.norm(exact)
    error = np.sqrt((relative**2).mean())
    return {"angles": angles, "kernels": drawn, "exact": exact, "relative_error": error}


def kernel_regime(n_points: int, rate: float, width: int, n_networks: int, steps: int) -> Result:
    """Train wide networks by gradient descent, beside kernel interpolation: figures 1b and 1c.

    "kernel" is the interpolant. "distance_to_flow" is the largest distance from the kernel's
    gradient flow from f_0, after the last step.
    """
    angles, y = sampled(n_points)
    fine = np.append(smoothness.grid(128), np.pi)
    X, Z, kernel = smoothness.circle(angles), smoothness.circle(fine), rk.Kernel(WIDE, "ntk")
    K, cross, every = kernel(X), kernel(Z, X), -(-steps // 50)
    curves, distances, losses = [], [], []
    for params in draws(1, WIDE, X, width, n_networks):
        run = finite.train(WIDE, params, X, y, rate, steps, Z=Z, every=every)
        moved = regression.flow(K, y - recorded(run.outputs)[0], rate * steps)
        first, *_, last = recorded(run.test_outputs)
        curves.append(last)
        distances.append(np.abs(last - first - cross @ moved).max())
        losses.append(run.loss)
    interpolant = cross @ np.linalg.solve(K, y)
    result: Result = {"angles": angles, "targets": y, "fine": fine, "kernel": interpolant}
    result |= {"stable_rate": 2 / np.linalg.eigvalsh(K)[-1], "curves": curves}
    return result | {"distance_to_flow": distances, "losses": losses}


def theorem_5(widths: list[int], n_networks: int, steps: int) -> Result:
    """Measure the largest change of the tangent kernel while a network trains, over widths.

    Five points, so that none is another's antipode: networks with erf are odd functions. Depth
    3, α = ½, half of the theorem's bound as the rate. Networks learn the targets on top of f_0.
    "curve" is the error ‖e_t‖ of the last network, "bound" the factor 1 − η λ_min/3 of one step.
    """
    (angles, y), rows = sampled(5), []
    X = smoothness.circle(angles)
    for activation, width in product(("relu", "erf"), widths):
        network = literature.tirer_resnet(3, 0.5).replace(activation=activation)
        K, changes = rk.Kernel(network, "ntk")(X), []
        rate = half_the_bound(K)
        options: dict[str, Any] = {"record": ("kernel",), "every": 10}
        for params in draws(width, network, X, width, n_networks):
            goal = y + outputs(network, params, X)
            run = finite.train(network, params, X, goal, rate, steps, **options)
            changes.append(recorded(run.kernel_change).max())
        row = {"activation": activation, "width": width, "change": np.mean(changes)}
        row |= {"error": np.std(changes, ddof=1) / np.sqrt(n_networks), "steps": run.steps}
        bound = 1 - rate * np.linalg.eigvalsh(K)[0] / 3
        rows.append(row | {"curve": np.sqrt(2 * run.loss), "bound": bound})
    return {"rows": rows}


def practical(
    rule: Any, n_points: int, width: int, n_networks: int, steps: int, scalar: bool = False
) -> Result:
    """Train MLP and ResNets outside the kernel regime: figures 3, 8 and 9, one model a row.

    Batches of one signal. Xavier's initialization; for scalar inputs PyTorch's, with biases.
    """
    angles, y = sampled(n_points)
    fine = np.linspace(angles[0], angles[-1], 512) if scalar else smoothness.grid(512)
    X, Z = ((t[:, None] if scalar else smoothness.circle(t)[..., 0]) for t in (angles, fine))
    rows = []
    for name, alpha in MODELS.items():
        network, n_layers = practical_network(alpha), 6 if alpha is None else 12
        curves, losses = [], []
        for seed, key in enumerate(jax.random.split(jax.random.key(4), n_networks)):
            layers = practical_layers(key, n_layers, X.shape[1], width, biases=scalar)
            best, loss = train_on_single_points(network, layers, X, y, rule, steps, seed)
            curves.append(np.asarray(network(best, Z.astype("float32")), float))
            losses.append(loss)
        curve = np.array(curves)
        if scalar:
            second = np.diff(curve, 2, axis=1) / (fine[1] - fine[0]) ** 2
            curvature, mu = np.sqrt((second**2).mean(axis=1) / (curve**2).mean(axis=1)), None
        else:
            curvature = smoothness.curvature(curve)
            mu = [float(smoothness.gaussian_rkhs_ratio(values, angles, y)) for values in curve]
        row = {"model": name, "loss": losses, "curvature": curvature, "mu": mu}
        rows.append(row | {"curves": curve[:, ::4]})
    return {"angles": angles, "targets": y, "fine": fine[::4], "rows": rows}


def trained_ensemble(width: int, n_networks: int, steps: list[int]) -> Result:
    """Measure mean and variance over networks after some steps of gradient descent (Lee et al.).

    A fully connected ResNet sees six points of the circle; all layers are trained, or the readout.
    "expected_mean" and "expected_variance" are in the limit of infinite width.
    """
    angles = 2 * np.pi * np.array([0.02, 0.2, 0.38, 0.5, 0.71, 0.85])
    y, fine = np.array([0.6, -0.5, 0.3, 0.9, -0.6, 0.1]), 2 * np.pi * np.arange(48) / 48
    X, Z, rows = smoothness.circle(angles), smoothness.circle(fine), []
    for kind in ("ntk", "gpk"):
        network = of_kind(literature.tirer_resnet(depth=2, alpha=0.5), kind)
        theta, gpk = rk.Kernel(network, "ntk"), rk.Kernel(network, "gpk")
        rate, every, trained = half_the_bound(theta(X)), int(np.gcd.reduce(steps)), []
        for params in draws(5, network, X, width, n_networks):
            run = finite.train(network, params, X, y, rate, max(steps), Z=Z, every=every)
            trained.append(run.test_outputs)
        for step in steps:
            here = np.array(trained)[:, step // every]
            gpks = gpk(X), gpk(Z, X), gpk.diag(Z)
            limit = regression.ensemble((theta(X), theta(Z, X)), gpks, y, rate * step)
            row = {"kind": kind, "steps": step, "mean": here.mean(axis=0)}
            row |= {"variance": here.var(axis=0, ddof=1), "expected_mean": limit.mean}
            rows.append(row | {"expected_variance": limit.variance})
    return {"angles": angles, "targets": y, "fine": fine, "rows": rows}


figure_1b, figure_1c = partial(kernel_regime, 6, 0.5), partial(kernel_regime, 10, 0.05)
figure_1b_other_rate = partial(kernel_regime, 6, 0.05)
figure_1c_other_rate = partial(kernel_regime, 10, 0.5)
figure_3a, figure_3b = partial(practical, ADAM, 6), partial(practical, SGD, 6)
figure_3c, figure_8 = partial(practical, SGD, 10), partial(practical, SLOW_ADAM, 20)
figure_8_epochs, half_times_wide = figure_8, half_times
figure_9 = partial(practical, SLOW_ADAM, 20, scalar=True)
