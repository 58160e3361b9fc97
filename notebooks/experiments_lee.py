"""Ensembles of trained networks beside their mean and covariance in the limit (Lee et al. 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np

import rescntk as rk
from rescntk import finite, literature, regression
from rescntk.finite.sampling import draws
from rescntk.theory import smoothness


def ensemble(
    theta_train: np.ndarray,
    theta_new: np.ndarray,
    gpk_train: np.ndarray,
    gpk_new: np.ndarray,
    gpk_new_new: np.ndarray,
    y: np.ndarray,
    time: float,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return mean (m,) and covariance (m, m) of infinitely wide networks after gradient flow.

    A network starts as a random function f_0 with the covariance K, the Gaussian process kernel.
    After a time t it is :math:`f_0 + P (y - f_0(X))` with :math:`P = \Theta(Z, X)\, \Theta^{-1}
    (I - e^{-\Theta t})`. So the mean is P y, and the covariance

    .. math:: K(Z, Z) + P K P^\top - P K(X, Z) - K(Z, X) P^\top

    (Lee et al. 2019). Matrices are ``kernel(X)``, ``kernel(Z, X)`` and ``kernel(Z)``, not
    normalized.
    """
    P = theta_new @ regression.flow(theta_train, np.eye(len(y)), time)
    covariance = gpk_new_new + P @ gpk_train @ P.T - P @ gpk_new.T - gpk_new @ P.T
    return P @ y, 0.5 * (covariance + covariance.T)


def trained_ensemble(width: int, n_networks: int, steps: list[int]) -> dict[str, Any]:
    """Measure mean and variance over networks after some steps of gradient descent.

    A fully connected ResNet sees six points of the circle; all layers are trained (tangent
    kernel), or the readout only (Gaussian process kernel). "mean" and "variance" are the networks',
    "expected_mean" and "expected_variance" come from `ensemble`.
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
        given = theta(X), theta(Z, X), gpk(X), gpk(Z, X), gpk(Z)
        rate = 0.5 * regression.decompose(given[0]).learning_rate_bound()
        every = int(np.gcd.reduce(steps))
        outputs = []
        for params in draws(5, network, X, width, n_networks, "gap", "float32"):
            run = finite.train(network, params, X, y, rate, max(steps), Z=Z, every=every)
            assert run.test_outputs is not None
            outputs.append(run.test_outputs)
        for step in steps:
            here = np.array(outputs)[:, step // every]
            mean, covariance = ensemble(*given, y, rate * step)
            rows.append(
                {
                    "kind": kind,
                    "steps": step,
                    "mean": here.mean(axis=0),
                    "variance": here.var(axis=0, ddof=1),
                    "expected_mean": mean,
                    "expected_variance": covariance.diagonal(),
                }
            )
    return {"angles": angles, "targets": y, "fine": fine, "rows": rows}
