"""Checked signals, an array or a list: copies, lengths, and powers of two as units."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Signals: TypeAlias = np.ndarray | list[np.ndarray]
"""Signals (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints_i)."""


def take(X: Signals, indices: np.ndarray) -> Signals:
    """Return copies of some signals, by their indices."""
    return X[indices] if isinstance(X, np.ndarray) else [X[i].copy() for i in indices]


def as_arrays(X: Signals) -> list[np.ndarray]:
    """Return a list with one array of all signals, or with an array of each signal of a list.

    The last two axes of each array are channels and time points.
    """
    return [X] if isinstance(X, np.ndarray) else X


def unit_exponent(X: Signals) -> int:
    """Return the binary exponent of the largest number, made even; 0 if it is from −300 to 300.

    Squares of signals whose largest number has such an exponent stay in float64. `scaled` divides
    others by this power of two. It is even, so that its square root changes no digit of square
    roots of signals.
    """
    exponent = int(np.frexp(max(np.abs(x).max() for x in as_arrays(X)))[1])
    return exponent // 2 * 2 if abs(exponent) > 300 else 0


def exponents_of(numbers: np.ndarray) -> np.ndarray:
    """Return the binary exponents, (…), of the largest of numbers (n, …) along the first axis.

    Divided by these powers of two, the numbers have their digits, and sums of their squares are in
    float64.
    """
    return np.frexp(np.abs(numbers).max(axis=0))[1]


def scaled(X: Signals, exponent: int) -> Signals:
    """Return signals divided by 2 to the power `exponent`; numbers above float64 are infinite."""
    if not exponent:
        return X
    with np.errstate(over="ignore"):
        parts = [np.ldexp(x, -exponent) for x in as_arrays(X)]
    return parts[0] if isinstance(X, np.ndarray) else parts


def longest_length(X: Signals) -> int:
    """Return the number of time points of the longest signal."""
    return max(x.shape[-1] for x in as_arrays(X))


def map_signals(function: Callable[[np.ndarray], np.ndarray], X: Signals) -> Signals:
    """Return signals after a function of arrays (n_cases, n_channels, n_timepoints).

    The function is called for all signals, or for each signal of a list.
    """
    return function(X) if isinstance(X, np.ndarray) else [function(x[None])[0] for x in X]
