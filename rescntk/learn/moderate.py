"""Numbers near the ends of float64 divided by a power of two, so that their squares are numbers."""

from __future__ import annotations

import numpy as np

_ORDINARY = 300
"""Largest |exponent| of signals that count as ordinary: numbers from 2^-300 to 2^300.

Raising it divides fewer signals by a power of two, and lets sums of squares leave float64, whose
numbers end at 2^1024. Chosen by reasoning: squares of 2^300 leave room for 2^400 summands.
"""


def moderate(X: np.ndarray) -> tuple[np.ndarray, int]:
    """Return X divided by a power of two, and the power: X itself and 0 for ordinary numbers.

    ReLU networks are homogeneous, and so are views: a power of two changes no digit. Sums of
    squares of the results stay within float64.
    """
    exponent = int(np.frexp(np.abs(X).max())[1])
    exponent = 0 if abs(exponent) <= _ORDINARY else exponent
    return scaled_down(X, exponent), exponent


def scaled_down(X: np.ndarray, exponent: int) -> np.ndarray:
    """Return X / 2**exponent, X itself where the exponent is 0."""
    return np.ldexp(X, -exponent) if exponent else X
