"""Ensembles of trained networks beside their mean and covariance in the limit (Lee et al. 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
from networks import draws, flow, half_the_bound

import rescntk as rk
from rescntk import finite, literature
from rescntk.theory import smoothness


def trained_ensemble(width: int, n_networks: int, steps: list[int]) -> dict[str, Any]:
    """Measure mean and variance over networks after some steps of gradient descent.

    A fully connected ResNet sees six points of the circle; all layers are trained (tangent
    kernel), or the readout only (Gaussian process kernel). "mean" and "variance" are the networks',
    "expected_mean" and "expected_variance" are in the limit of infinite width.
    """
    angles = 2 * np.pi * np.array([0.02, 0.2, 0.38, 0.5, 0.71, 0.85])
    y = np.array([0.6, -0.5, 0.3, 0.9, -0.6, 0.1])
    fine = 2 * np.pi * np.arange(48) / 48
    X, Z = smoothness.circle(angles), smoothness.circle(fine)
    rows = []
    for kind in ("ntk", "gpk"):
        network = literature.tirer_resnet(depth=2, alpha=0.5)
        network = network.replace(trained=("readout",)) if kind == "gpk" else network
        theta, gpk = rk.Kernel(network, "ntk"), rk.Kernel(network, "gpk")
        rate, every = half_the_bound(theta(X)), int(np.gcd.reduce(steps))
        outputs = []
        for params in draws(5, network, X, width, n_networks):
            run = finite.train(network, params, X, y, rate, max(steps), Z=Z, every=every)
            assert run.test_outputs is not None
            outputs.append(run.test_outputs)
        for step in steps:
            here = np.array(outputs)[:, step // every]
            mean, covariance = ensemble(theta, gpk, X, Z, y, rate * step)
            row = {"kind": kind, "steps": step, "mean": here.mean(axis=0)}
            row |= {"variance": here.var(axis=0, ddof=1), "expected_mean": mean}
            rows.append(row | {"expected_variance": covariance.diagonal()})
    return {"angles": angles, "targets": y, "fine": fine, "rows": rows}


def ensemble(
    theta: rk.Kernel, gpk: rk.Kernel, X: np.ndarray, Z: np.ndarray, y: np.ndarray, time: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance at Z of networks after gradient flow from random functions.

    f_t = f_0 + P (y − f_0(X)) with P = Θ(Z, X) Θ⁻¹ (I − e^(−Θt)); f_0 has the covariance K.
    """
    P = theta(Z, X) @ flow(theta(X), np.eye(len(X)), time).T
    cross = P @ gpk(X, Z)
    return P @ y, gpk(Z) + P @ gpk(X) @ P.T - cross - cross.T
