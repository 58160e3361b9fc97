"""Experiments of Huang et al. (2020): how much width depth needs, and what a deep FFNet learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rescntk as rk
from rescntk import finite, literature, regression
from rescntk.finite.sampling import draws
from rescntk.theory import smoothness


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
        exact = kernel(Z, X) @ regression.interpolate(kernel(X), y)
        rows.append({"system": name, "added": added, "kernel": exact, "loss": losses})
    return {"given": given, "targets": y, "fine": fine, "rows": rows}
