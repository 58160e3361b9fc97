"""Choice of the readout: support vector machines or ridge regression."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .readouts import Readout, calibrate, held_out, ridge, support_vectors
from .search import Finalist, Found

READOUTS = ("ridge", "svm")
"""Readouts among which a classifier chooses."""

Folds = list[tuple[np.ndarray, np.ndarray]]
"""For each fold, the indices of the other cases and of the fold's cases."""


class Choice(NamedTuple):
    """A fitted readout of the kernel that suits it best."""

    finalist: Finalist
    readout: Readout
    parameters: dict[str, Any]
    """The readout's name and its penalty or C."""
    decisions: np.ndarray
    """Decisions (n_cases, n_outputs) at cases that had no part in the choice."""


def choose_ridge(found: Found) -> Choice:
    """Return ridge regression of the best kernel, fitted."""
    best = found.finalists[0]
    penalty = best.candidate.penalty
    parameters = {"readout": "ridge", "penalty": penalty}
    return Choice(best, best.path.fit(penalty), parameters, found.decisions)


def choose_machines(
    found: Found,
    Y: np.ndarray,
    labels: np.ndarray,
    costs: tuple[float, ...],
    folds: Folds,
    *,
    or_ridge: bool,
    verbose: int = 0,
) -> Choice | None:
    """Return the best support vector machines, or None if ridge regression will do.

    Machines with every C are fitted on every finalist; ridge regression on the best finalist.
    Both are compared by the cross-entropy of calibrated decisions in the same folds. With
    `or_ridge`, machines must be better by more than a standard error of the difference. The
    decisions in a fold are by the machines that are best on the other folds.
    """
    pairs = list(product(found.finalists, costs))
    decisions = [held_out(e.K, Y, folds, partial(support_vectors, C=C)) for e, C in pairs]
    losses = np.stack([calibrate(values, labels)[1] for values in decisions])
    out_of_fold = np.empty(Y.shape)
    for rest, fold in folds:
        out_of_fold[fold] = decisions[losses[:, rest].mean(axis=1).argmin()][fold]
    own_losses = calibrate(out_of_fold, labels)[1]
    finalist, C = pairs[losses.mean(axis=1).argmin()]
    if verbose:
        print(f"svm: cross-entropy {own_losses.mean():.4g}", flush=True)
    if or_ridge:
        best = found.finalists[0]
        fit = partial(ridge, penalty=best.candidate.penalty)
        ridge_losses = calibrate(held_out(best.K, Y, folds, fit), labels)[1]
        if verbose:
            print(f"ridge: cross-entropy {ridge_losses.mean():.4g}", flush=True)
        gain = ridge_losses - own_losses
        if gain.mean() <= gain.std() / np.sqrt(len(gain)):
            return None
    readout = support_vectors(finalist.K, Y, C)
    return Choice(finalist, readout, {"readout": "svm", "C": C}, out_of_fold)
