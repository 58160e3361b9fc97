"""Checked signals, an array or a list: copies, lengths, and powers of two as units."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Signals: TypeAlias = np.ndarray | list[np.ndarray]
"""Signals (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints_i)."""


def take(X: Signals, cases: np.ndarray) -> Signals:
    """Return copies of some signals, by their indices."""
    return X[cases] if isinstance(X, np.ndarray) else [X[i].copy() for i in cases]


def arrays(X: Signals) -> list[np.ndarray]:
    """Return a list of arrays, one for all signals or one each; a signal has the last two axes."""
    return [X] if isinstance(X, np.ndarray) else X


def unit_exponent(X: Signals) -> int:
    """Return an even exponent of the largest number where squares leave float64, else 0.

    Even, so that square roots of scaled signals have the same digits.
    """
    exponent = int(np.frexp(max(np.abs(x).max() for x in arrays(X)))[1])
    return exponent // 2 * 2 if abs(exponent) > 300 else 0


def exponents_of(numbers: np.ndarray) -> np.ndarray:
    """Return the exponents of the largest of numbers (n, …) along their first axis.

    Numbers divided by these powers of two have sums and squares in float64, and the same digits.
    """
    return np.frexp(np.abs(numbers).max(axis=0))[1]


def scaled(X: Signals, exponent: int) -> Signals:
    """Return signals divided by a power of two; they become infinite where they leave float64."""
    if not exponent:
        return X
    with np.errstate(over="ignore"):
        parts = [np.ldexp(x, -exponent) for x in arrays(X)]
    return parts[0] if isinstance(X, np.ndarray) else parts


def longest(X: Signals) -> int:
    """Return the number of time points of the longest signal."""
    return max(x.shape[-1] for x in arrays(X))


def map_signals(function: Callable[[np.ndarray], np.ndarray], X: Signals) -> Signals:
    """Apply a function of arrays (n_cases, n_channels, n_timepoints) to signals of any lengths."""
    return function(X) if isinstance(X, np.ndarray) else [function(x[None])[0] for x in X]
