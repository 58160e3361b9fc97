"""Numbers near the ends of float64 divided by a power of two, so that their squares are numbers."""

from __future__ import annotations

import numpy as np

from .batches import Signals, each, time_points

_ORDINARY = 300
"""Largest |exponent| of signals that count as ordinary: numbers from 2^-300 to 2^300.

Raising it divides fewer signals by a power of two, and lets sums of squares leave float64, whose
numbers end at 2^1024. Chosen by reasoning: squares of 2^300 leave room for 2^400 summands.
"""


def common_exponent(X: np.ndarray) -> int:
    """Return the exponent of the power of two by which numbers are divided: 0 for ordinary ones."""
    exponent = int(np.frexp(np.abs(X).max())[1])
    return 0 if abs(exponent) <= _ORDINARY else exponent


def moderate(X: Signals) -> tuple[Signals, int]:
    """Return X divided by a power of two, and the power: X itself and 0 for ordinary numbers.

    ReLU networks are homogeneous, and so are views: a power of two changes no digit. Sums of
    squares of the results stay within float64.
    """
    exponent = common_exponent(X if isinstance(X, np.ndarray) else time_points(X))
    return each(lambda Z: scaled_down(Z, exponent), X), exponent


def scaled_down(X: np.ndarray, exponent: int) -> np.ndarray:
    """Return X / 2**exponent, X itself where the exponent is 0."""
    return np.ldexp(X, -exponent) if exponent else X
