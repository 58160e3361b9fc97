"""Arrays as they come in: whose they are, and whether they will do."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = Any


def array_module(array: Array) -> Any:
    """Return cupy for CuPy's arrays, else numpy; CuPy is never imported here."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules[name] if name == "cupy" else np


def check_real(values: Any, name: str, expected: str, finite: bool = True) -> Array:
    """Return `values` as a float64 array of real numbers, or say what is wrong with it.

    Parameters
    ----------
    values : array_like
    name : str
        What to call the argument.
    expected : str
        What real numbers, say "(n, n)" or "of at least 0".
    finite : bool, default True
        Whether infinity is refused, too; NaN always is.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    xp = array_module(values)
    try:
        array = xp.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} is not a rectangular array, expected real numbers {expected}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers {expected}")
    array = array.astype(np.float64, copy=False)
    good = xp.isfinite(array) if finite else ~xp.isnan(array)
    if not bool(good.all()):
        first = np.unravel_index(int(xp.argmin(good.reshape(-1))), array.shape)
        what = "NaN or infinity" if finite else "NaN"
        where = f" (first at {[int(k) for k in first]})" if array.ndim else ""
        raise ValueError(
            f"{name} of shape {array.shape} contains {what}{where}, "
            f"expected real numbers {expected}"
        )
    return array


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
    expected = "(n_cases, n_channels, n_timepoints)"
    array = check_real(X, name, expected)
    if array.ndim != 3:
        remedy = f"; for signals of one channel {name}[:, None]" if array.ndim == 2 else ""
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}{remedy}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, expected {expected}")
    return array
