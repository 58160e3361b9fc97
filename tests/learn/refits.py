"""Ridge regressions that are fitted again without some cases, from kernels of one view."""

import numpy as np

import rescntk as rk
from rescntk.learn import View, ViewTransformer

CHANNEL = View(standardize="channel", filter_size=3)
NET = rk.Network(2, 3)


def mean_kernel(X, Z, view=CHANNEL):
    """Return the mean of both normalized kernels of seen signals."""
    kernels = (rk.Kernel(NET, kind, "gap", normalized=True) for kind in ("gpk", "ntk"))
    fitted = ViewTransformer(view).fit(X)
    return np.mean([kernel(fitted.transform(Z), fitted.transform(X)) for kernel in kernels], axis=0)


def signs(y):
    """Return targets of classes 0, 1, …, (n_cases, n_classes): 1 for the class, −1 for others."""
    return 2.0 * np.eye(max(y) + 1)[y] - 1.0


def bordered(K, Y, penalty):
    """Return coefficients and intercepts from the normal equations; penalties may differ."""
    n = len(K)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = K + np.diag(np.broadcast_to(penalty, n)), 0.0
    solution = np.linalg.solve(system, np.vstack([Y, 0.0 * Y[:1]]))
    return solution[:-1], solution[-1]


def refits(K, Y, penalties, members):
    """Return errors of cases, each predicted from the cases of other groups."""
    errors = np.empty(Y.shape)
    for i in range(len(Y)):
        rest = np.flatnonzero(members != members[i])
        part, c = bordered(K[np.ix_(rest, rest)], Y[rest], penalties[rest])
        errors[i] = Y[i] - K[i, rest] @ part - c
    return errors
