"""Signals, parameters and plain re-computations that several tests of this folder share."""

from dataclasses import fields

import numpy as np

import rescntk as rk
from rescntk.learn import views

QUICK = {
    "depth": (1, 2),
    "filter_size": 3,
    "input_filter_size": (1, 5),
    "constant": False,
    "first_differences": False,
}
"""Parameters of a search with few passes."""


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


def rows(model):
    """Return the candidates of a fitted model, each as a dictionary."""
    table = model.search_results_
    return [
        {name: column[i].item() for name, column in table.items() if column.dtype != object}
        | {name: column[i] for name, column in table.items() if column.dtype == object}
        for i in range(len(table["error"]))
    ]


def gram_of(row, X, alpha=1.0):
    """Return a candidate's kernel matrix from its parameters."""
    signals = views.View(**{field.name: row[field.name] for field in fields(views.View)}).fit(X)(X)
    network = rk.Network(
        row["depth"], row["filter_size"], input_filter_size=row["input_filter_size"], alpha=alpha
    )
    return rk.Kernel(network, row["kind"], row["head"], row["normalized"])(signals)


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
