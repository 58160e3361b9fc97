"""Batches of signals: an array for signals of one length, a list for signals of several lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Signals: TypeAlias = np.ndarray | list[np.ndarray]
"""Signals of one length, (n_cases, n_channels, n_timepoints), or a list of signals of different
lengths, (n_channels, n_timepoints) each."""

_ROUNDING = 10
"""Largest standard deviation that counts as 0, in units of eps times the channel's largest value.
Raising it leaves more channels undivided. Chosen as a margin over rounding errors, not measured."""


def each(function: Callable[[np.ndarray], np.ndarray], X: Signals) -> Signals:
    """Apply a function of arrays (n_cases, n_channels, n_timepoints) to signals of any lengths."""
    return function(X) if isinstance(X, np.ndarray) else [function(x[None])[0] for x in X]


def take(X: Signals, cases: np.ndarray) -> Signals:
    """Return copies of some signals, by their indices."""
    return X[cases] if isinstance(X, np.ndarray) else [X[i].copy() for i in cases]


def lengths(X: Signals) -> np.ndarray:
    """Return the number of time points of each signal, (n_cases,)."""
    if isinstance(X, np.ndarray):
        return np.full(len(X), X.shape[2])
    return np.array([x.shape[1] for x in X])


def time_points(X: Signals) -> np.ndarray:
    """Return the time points of all signals, (n_channels, total number)."""
    if isinstance(X, np.ndarray):
        return X.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return np.concatenate(X, axis=1)


def weighted_points(X: Signals, case_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the time points of all signals, (n_channels, total number), and their weights."""
    return time_points(X), np.repeat(case_weights, lengths(X))


def standard_scale(
    X: Signals, case_weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of each channel, (n_channels,) each.

    They are taken over all cases, with their weights, and time points. A constant channel gets
    the deviation 0.
    """
    given = np.ones(len(X)) if case_weights is None else case_weights
    points, weights = weighted_points(X, given)
    mean = np.average(points, axis=1, weights=weights)
    deviation = np.sqrt(np.average((points - mean[:, None]) ** 2, axis=1, weights=weights))
    # The deviation of a constant channel is a rounding error of its mean.
    rounding = _ROUNDING * np.finfo(np.float64).eps * np.abs(points).max(axis=1)
    return mean, np.where(deviation > rounding, deviation, 0.0)
