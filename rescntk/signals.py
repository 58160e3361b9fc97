"""Batches of signals as they come in: whose arrays they are, and whether they will do."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = Any


def array_module(array: Array) -> Any:
    """Return cupy for CuPy's arrays, else numpy; CuPy is never imported here."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules[name] if name == "cupy" else np


def check_signals(X: Array, name: str) -> Array:
    """Return `X` as a floating-point array of signals, or say what is wrong with it.

    Parameters
    ----------
    X : array
        Signals (n_cases, n_channels, n_timepoints), real and finite.
    name : str
        What to call the argument.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    expected = "expected (n_cases, n_channels, n_timepoints)"
    xp = array_module(X)
    try:
        array = xp.asarray(X)
    except ValueError:
        raise ValueError(f"{name} is not a rectangular array, {expected}") from None
    if array.ndim != 3:
        raise ValueError(f"{name} has shape {array.shape}, {expected}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, {expected}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers")
    array = array.astype(np.float64, copy=False)
    finite = xp.isfinite(array)
    if not bool(finite.all()):
        case = int(xp.argmin(finite.reshape(len(array), -1).all(axis=1)))
        raise ValueError(
            f"{name} of shape {array.shape} contains NaN or infinity "
            f"(first in case {case}), expected finite numbers"
        )
    return array
