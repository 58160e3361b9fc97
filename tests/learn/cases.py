"""Signals, parameters and plain re-computations that several tests of this folder share."""

import numpy as np
from scipy.optimize import minimize

import rescntk as rk
from rescntk.learn import classifier

ONE = {
    "depth": (1, 2),
    "filter_size": 3,
    "input_filter_size": 1,
    "head": "gap",
    "constant": False,
    "standardize": False,
    "first_differences": False,
    "time_scale": 0.0,
    "spectra": False,
    "max_length": 128,
    "dtype": "float64",
    "channel_metric": False,
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


def bordered(K, Y, ridge):
    """Return coefficients and intercepts from the normal equations; ridges may differ by case."""
    n = len(K)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = K + np.diag(np.broadcast_to(ridge, n)), 0.0
    solution = np.linalg.solve(system, np.vstack([Y, 0.0 * Y[:1]]))
    return solution[:-1], solution[-1]


def refitted(K, Y, ridge):
    """Return leave-one-out decisions by refitting."""
    decisions, ridge = np.empty(Y.shape), np.broadcast_to(ridge, len(K))
    for i in range(len(K)):
        rest = np.delete(np.arange(len(K)), i)
        coefficients, intercepts = bordered(K[np.ix_(rest, rest)], Y[rest], ridge[rest])
        decisions[i] = K[i, rest] @ coefficients + intercepts
    return decisions


def novelties(K, k, penalty):
    """Return variances over their mean leave-one-out value, of new and of left-out signals."""
    inverse = np.linalg.inv(K + penalty * np.eye(len(K)))
    left_out = 1 / np.diag(inverse)
    new = 1 - np.einsum("ij,jk,ik->i", k, inverse, k) + penalty
    return new / left_out.mean(), left_out / left_out.mean()


def best_weights(residuals):
    """Return weights of passes from residuals (n_passes, n_cases, n_outputs), by a general solver.

    They minimize the mean squared residual and the least one times the squared distance from
    weights proportional to e^-4. Least weights are 0 as long as their sum is below .02.
    """
    rows = residuals.reshape(len(residuals), -1)
    G = rows @ rows.T / rows.shape[1]
    least, near = G.diagonal().min(), G.diagonal() ** -4.0
    near = near / near.sum()
    solution = minimize(
        lambda w: w @ G @ w / least + ((w - near) ** 2).sum(),
        near,
        method="SLSQP",
        bounds=[(0, 1)] * len(G),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    weights = solution.x
    rising = np.argsort(weights)
    weights[rising[np.cumsum(weights[rising]) < 0.02]] = 0.0
    return weights / weights.sum()


def weights_at(weights, novelties, usual):
    """Return weights (n_passes,) of passes at signals, changed by each pass' novelties.

    `usual` are novelties of the training signals when left out, (n_passes, n_cases).
    """
    weights = weights[:, None] / np.maximum(1, novelties) ** 2
    line = np.sort(usual)[:, [int(np.ceil(0.95 * usual.shape[1])) - 1]]
    if usual.shape[1] >= 20:  # fewer signals do not tell what is usual
        weights = weights / np.maximum(1, novelties / line) ** 8
    return weights / weights.sum(axis=0)


def mean_of_kernels(model, X, Z):
    """Return the mean kernel of each pass of `QUICK`, in the order of a model's table."""
    columns = (model.passes_[name] for name in ("head", "filter_size", "input_filter_size"))
    matrices = []
    for head, q, window in zip(*columns, strict=True):
        networks = [rk.Network(depth, int(q), input_filter_size=int(window)) for depth in (1, 2)]
        kernels = [rk.Kernel(net, kind, head, True) for net in networks for kind in ("gpk", "ntk")]
        matrices.append(np.mean([kernel(X, Z) for kernel in kernels], axis=0))
    return matrices


def first_places(model):
    """Return the indices, among the signals of `fit`, of the cases in the model's own order."""
    return np.unique(model._average.places, return_index=True)[1]


def targets_of(labels):
    """Return targets ±1 of labels 0, 1, …"""
    return classifier.one_against_rest(labels, labels.max() + 1)


def kernel_calls(monkeypatch):
    """Return a list that grows with each call of a `rescntk.Kernel`: is it symmetric, options."""
    calls, original = [], rk.Kernel.__call__

    def counted(self, X, Z=None, **options):
        calls.append((Z is None or Z is X, options))
        return original(self, X, Z, **options)

    monkeypatch.setattr(rk.Kernel, "__call__", counted)
    return calls
