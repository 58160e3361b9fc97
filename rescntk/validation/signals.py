"""Checks of signals (n_cases, n_channels, n_timepoints), and of signals on the multi-sphere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, ArrayT, array_module
from .arrays import check_real


def check_signals(X: ArrayT, name: str) -> ArrayT:
    """Return signals `X`, real and finite, as a float64 array.

    Parameters
    ----------
    X : array
        Signals (n_cases, n_channels, n_timepoints).
    name : str
        The argument's name in messages.
    """
    expected = "(n_cases, n_channels, n_timepoints)"
    array = check_real(X, name, expected)
    if array.ndim != 3:
        remedy = f"; for signals of one channel {name}[:, None]" if array.ndim == 2 else ""
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}{remedy}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, expected {expected}")
    return array


def check_match(X: Array, Z: Array) -> None:
    """Raise a ValueError if signals X and Z differ in library, channels or length."""
    if array_module(X) is not array_module(Z):
        raise ValueError(
            "X and Z are of different array libraries, expected both NumPy or both CuPy"
        )
    for axis, what in ((1, "channels"), (2, "timepoints")):
        if X.shape[axis] != Z.shape[axis]:
            raise ValueError(
                f"Z has shape {Z.shape}, expected {X.shape[axis]} {what} as in X of shape {X.shape}"
            )


def check_cases(X: np.ndarray, least: int, reason: str) -> None:
    """Refuse fewer than `least` signals."""
    n = len(X)
    if n < least:
        raise ValueError(
            f"X has {n} case{'s' if n > 1 else ''}, expected at least {least}: {reason}"
        )


def check_distinct(X: np.ndarray, reason: str) -> None:
    """Refuse signals that are there twice."""
    for i in range(len(X)):
        same = np.flatnonzero((X[i + 1 :] == X[i]).all(axis=(1, 2)))
        if len(same):
            raise ValueError(
                f"X has the same signal as cases {i} and {i + 1 + same[0]}, expected different "
                f"ones: {reason}"
            )


MULTISPHERE_TOLERANCE = 2e-6
"""Largest | ‖x_j‖²/C0 − 1 | of a pixel that counts as on the multi-sphere.

Relative, of the squared norm. Raising it admits signals whose kernels theorem 4.1 misses by as
large a relative error. Chosen by rounding: pixels projected in float32 and given in float64
have errors of a few units of 1.2e-7."""


def multisphere_error(X: np.ndarray) -> float:
    """Return the largest | ‖x_j‖²/C0 − 1 | over the pixels of signals."""
    return float(np.abs((X * X).mean(axis=1) - 1.0).max())


def check_on_multisphere(X: Any, name: str) -> np.ndarray:
    """Return `X` as an array of signals on the multi-sphere, or say by how much it is off."""
    X = check_signals(X, name)
    worst = multisphere_error(X)
    if worst > MULTISPHERE_TOLERANCE:
        raise ValueError(
            f"{name} of shape {X.shape} is not on the multi-sphere: a pixel's squared norm is off "
            f"by {worst:.2g} of n_channels, expected none (multisphere.project makes it so)"
        )
    return X
