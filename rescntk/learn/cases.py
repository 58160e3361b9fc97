"""Cases: signals with their targets and weights, each different pair of signal and target once.

Equal signals with equal targets are one case with the sum of their weights. A case that is left
out therefore leaves no copy behind, and leave-one-out errors stay honest where signals are
repeated. Cases are sorted by digests of the signals, equal signals by their targets: nothing
depends on the order in which signals come.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from ..validation import check_shape
from .batches import Signals, take

_RANGE = 1e12
"""Largest ratio of two weights above 0.

A larger ratio leaves fewer digits to the light signals: their penalties grow as weights fall. At
1e14 leave-one-out errors are of no use, at 1e30 decisions are NaN (16 signals, 12 time points).
"""


class Cases(NamedTuple):
    """The different cases among the signals given to a fit."""

    signals: Signals
    targets: np.ndarray
    """(n_cases, n_outputs)"""
    weights: np.ndarray
    """(n_cases,): positive, with mean 1."""
    places: np.ndarray
    """Place among the cases of each signal given, of weight above 0."""


def find_cases(X: Signals, targets: np.ndarray, weights: np.ndarray) -> Cases:
    """Return the different cases among signals X with targets and positive weights.

    Parameters
    ----------
    X : signals
    targets : ndarray, (n_signals, n_outputs)
    weights : ndarray, (n_signals,)
    """
    digests = np.array([fingerprint(np.asarray(x, dtype=np.float64)) for x in X])
    # Among equal signals the targets decide, so that no unit of the targets changes the order.
    rows = np.column_stack([np.unique(digests, return_inverse=True)[1], targets])
    _, first, places = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    places = places.reshape(-1)
    # Divided by a power of two, so that sums are finite and digits stay.
    sums = np.bincount(places, np.ldexp(weights, -np.frexp(weights.max())[1]))
    return Cases(take(X, first), targets[first], sums / sums.mean(), places)


def of_positive_weight(
    X: Signals, y: np.ndarray, sample_weight: Any
) -> tuple[Signals, np.ndarray, np.ndarray]:
    """Return the signals, targets and weights of positive weight; weights are 1 by default."""
    if sample_weight is None:
        return X, y, np.ones(len(X))
    n = len(X)
    weights = check_shape(sample_weight, "sample_weight", f"({n},)", lambda s: s == (n,))
    if (weights < 0).any() or not weights.any():
        raise ValueError(
            f"sample_weight has values from {weights.min():.3g} to {weights.max():.3g}, expected "
            f"numbers of at least 0, and not all zero"
        )
    kept = np.flatnonzero(weights)
    least = weights[kept].min()
    if weights.max() / _RANGE > least:
        raise ValueError(
            f"sample_weight has values from {least:.3g} to {weights.max():.3g} above 0, expected "
            f"a ratio of at most {_RANGE:.0e} (a weight of 0 leaves a signal out)"
        )
    return take(X, kept), y[kept], weights[kept]


def fingerprint(X: Signals) -> bytes:
    """Return a digest of signals, their shapes included."""
    digest = hashlib.blake2b(digest_size=16)
    for x in [X] if isinstance(X, np.ndarray) else X:
        digest.update(repr((x.shape, x.dtype.str)).encode())
        digest.update(np.ascontiguousarray(x).tobytes())
    return digest.digest()
