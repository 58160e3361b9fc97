"""Signals, parameters and plain re-computations that several tests of this folder share."""

from typing import NamedTuple

import numpy as np

import rescntk as rk
from rescntk.learn import calibration

ONE = {
    "depth": (1, 2),
    "filter_size": 3,
    "input_filter_size": 1,
    "head": "gap",
    "constant": False,
    "standardize": False,
    "first_differences": False,
    "time_scale": 0.0,
    "dtype": "float64",
}
"""Parameters of an average over one pass."""

QUICK = ONE | {"head": ("trace", "gap"), "input_filter_size": (1, 5)}
"""Parameters of an average over four passes."""


def waves(rng, n, classes, length=24, channels=1):
    """Return sines with one frequency for each class, random phases and noise; and labels."""
    labels = np.arange(n) % classes
    frequency = 0.4 + 0.5 * labels[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (n, channels, 1))
    X = np.sin(np.arange(length) * frequency + phase)
    return X + 0.1 * rng.standard_normal(X.shape), labels


def bordered(K, Y, penalty):
    """Return coefficients and intercepts of ridge regression, from the normal equations."""
    n = len(K)
    ridge = penalty * np.mean(K.diagonal())
    system = np.block(
        [[K + ridge * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]
    )
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return solution[:-1], solution[-1]


def mean_of_kernels(model, X, Z):
    """Return the mean kernel of each pass of `QUICK`, in the order of a model's table."""
    table = model.passes_
    matrices = []
    for head, q, window in zip(
        table["head"], table["filter_size"], table["input_filter_size"], strict=True
    ):
        kernels = [
            rk.Kernel(rk.Network(depth, int(q), input_filter_size=int(window)), kind, head, True)
            for depth in (1, 2)
            for kind in ("gpk", "ntk")
        ]
        matrices.append(np.mean([kernel(X, Z) for kernel in kernels], axis=0))
    return matrices


def first_places(model):
    """Return the indices, among the signals of `fit`, of the cases in the model's own order."""
    return np.unique(model._places, return_index=True)[1]


def refitted(K, Y, penalty):
    """Return leave-one-out decisions by refitting; the unit of the penalty is the mean over all."""
    decisions = np.empty(Y.shape)
    for i in range(len(K)):
        rest = np.delete(np.arange(len(K)), i)
        part = K[np.ix_(rest, rest)]
        own = penalty * K.diagonal().mean() / part.diagonal().mean()
        coefficients, intercepts = bordered(part, Y[rest], own)
        decisions[i] = K[i, rest] @ coefficients + intercepts
    return decisions


def targets_of(labels):
    """Return targets ±1 of labels 0, 1, …"""
    return calibration.one_against_rest(labels, labels.max() + 1)


class Call(NamedTuple):
    """A call of a `rescntk.Kernel`."""

    is_cross: bool
    options: dict


def kernel_calls(monkeypatch):
    """Return a list that grows with each call of a `rescntk.Kernel`."""
    calls, original = [], rk.Kernel.__call__

    def counted(self, X, Z=None, **options):
        calls.append(Call(Z is not None, options))
        return original(self, X, Z, **options)

    monkeypatch.setattr(rk.Kernel, "__call__", counted)
    return calls
