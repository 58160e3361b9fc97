"""Missing values of signals: refused with their place, or interpolated in time."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from .views import Signals, moderate_exponent

S = TypeVar("S", bound=Signals)

INTERPOLATE = "interpolate"
"""Value of `missing` that fills missing values in."""

MISSING = ("refuse", INTERPOLATE)
"""Allowed values of `missing`."""

IMPUTE = "numpy.interp, aeon's collection.SimpleImputer or sktime's Imputer"
"""Tools that fill in missing values, for messages."""

OPTION = "missing='interpolate' (rescntk fit --missing interpolate) fills them in along time"
"""The option that fills missing values in, for messages."""


def complete(X: S, name: str, missing: str | None = None) -> S:
    """Return signals without NaN, or raise a ValueError that names the first place without a value.

    With `missing` "interpolate", values are interpolated between the nearest time points of the
    channel that have values, linearly in the number of the time point; before the first and after
    the last of these points values are constant. Images are refused, and so is infinity. Without
    `missing` messages do not name the option. Signals that are not of floats are returned as given.
    """
    incomplete, gaps = [], 0
    for case, x in enumerate(X if any(x.dtype.kind == "f" for x in X) else ()):
        bad = ~np.isfinite(x)
        if not bad.any():
            continue
        gaps += int(np.isnan(x).sum())
        infinite = np.isinf(x)
        if infinite.any():
            where = _place(case, infinite)
            raise ValueError(
                f"{name} contains infinity (first in {where}), expected finite numbers"
            )
        incomplete.append((case, bad))
    if not incomplete:
        return X
    case, bad = incomplete[0]
    if missing != INTERPOLATE or bad.ndim > 2:
        option = f"{OPTION}; or " if missing is not None and bad.ndim == 2 else ""
        values = "value" if gaps == 1 else "values"
        raise ValueError(
            f"{name} has {gaps} missing {values}, NaN (first in {_place(case, bad)}), expected "
            f"finite numbers: {option}fill them in first ({IMPUTE})"
        )
    filled: Any = X.copy() if isinstance(X, np.ndarray) else list(X)
    for case, bad in incomplete:
        filled[case] = _interpolated(X[case], bad, name, case)
    return filled


def _place(case: int, bad: np.ndarray) -> str:
    """Return the words for the first place of a case, (n_channels, n_timepoints) or an image."""
    channel, *axes = np.argwhere(bad)[0].tolist()
    where = f"time point {axes[0]}" if len(axes) == 1 else f"pixel {tuple(axes)}"
    return f"case {case}, channel {channel}, {where}"


def _interpolated(x: np.ndarray, bad: np.ndarray, name: str, case: int) -> np.ndarray:
    """Return a signal (n_channels, n_timepoints) with numbers in the place of the `bad` ones."""
    exponent = moderate_exponent(np.where(bad, 0.0, x))  # differences of large values stay finite
    x, times = np.ldexp(x, -exponent), np.arange(x.shape[1])
    for channel, (values, gone) in enumerate(zip(x, bad, strict=True)):
        if gone.all():
            raise ValueError(
                f"{name} has no value in channel {channel} of case {case}, expected at least one "
                f"to interpolate from: leave out the case or the channel"
            )
        values[gone] = np.interp(times[gone], times[~gone], values[~gone])
    return np.ldexp(x, exponent)
