"""Missing values of signals: refused with their place, or interpolated in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .views import Signals, moderate_exponent

S = TypeVar("S", bound=Signals)

Levels = Callable[[Any, str], np.ndarray] | np.ndarray | None
"""The levels of channels, or a function of signals and their name that returns them."""

INTERPOLATE = "interpolate"
"""Value of `missing` that fills missing values in."""

MISSING = ("refuse", INTERPOLATE)
"""Allowed values of `missing`."""

IMPUTE = "numpy.interp, aeon's collection.SimpleImputer or sktime's Imputer"
"""Tools that fill in missing values, for messages."""

OPTION = "missing='interpolate' (rescntk fit --missing interpolate) fills them in along time"
"""The option that fills missing values in, for messages."""


def complete(X: S, name: str, missing: str | None = None, levels: Levels = None) -> S:
    """Return signals without NaN, or raise a ValueError that names the first place without a value.

    With `missing` "interpolate", values are interpolated between the nearest time points of the
    channel that have values, linearly in the number of the time point; before the first and after
    the last of these points values are constant. A channel of a signal without any value is dead:
    it gets its level, by default of the other signals (`channel_levels`). Images are refused, and
    so is infinity.
    Without `missing` messages do not name the option. Signals that are not of floats are returned
    as given.
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
    if not isinstance(levels, np.ndarray):
        dead = any(bad.all(axis=1).any() for _, bad in incomplete)
        levels = (levels or channel_levels)(X, name) if dead else None
    for case, bad in incomplete:
        filled[case] = _interpolated(X[case], bad, levels)
    return filled


def _place(case: int, bad: np.ndarray) -> str:
    """Return the words for the first place of a case, (n_channels, n_timepoints) or an image."""
    channel, *axes = np.argwhere(bad)[0].tolist()
    where = f"time point {axes[0]}" if len(axes) == 1 else f"pixel {tuple(axes)}"
    return f"case {case}, channel {channel}, {where}"


def channel_levels(X: Signals, name: str, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean of each channel's values, (n_channels,), or raise a ValueError for none.

    The `weights` are of signals, (n_cases,).
    """
    exponent = moderate_exponent([np.nan_to_num(x) for x in X])
    points = np.concatenate([np.ldexp(x, -exponent).reshape(len(x), -1) for x in X], axis=1)
    known = ~np.isnan(points)
    empty = np.flatnonzero(~known.any(axis=1))
    if len(empty):
        raise ValueError(
            f"{name} has no value in channel {empty[0]} of any case, expected at least one: leave "
            f"out the channel"
        )
    shares = np.repeat(np.ones(len(X)) if weights is None else weights, [x[0].size for x in X])
    levels = np.sum(points * shares, axis=1, where=known) / np.sum(shares * known, axis=1)
    # Rounded to 40 bits: sums over copies of signals round otherwise than weights do.
    return np.ldexp(np.round(np.ldexp(levels, 40)), exponent - 40)


def _interpolated(x: np.ndarray, bad: np.ndarray, levels: np.ndarray | None) -> np.ndarray:
    """Return a signal (n_channels, n_timepoints) with numbers in the place of the `bad` ones."""
    exponent = moderate_exponent(np.where(bad, 0.0, x))  # differences of large values stay finite
    x, times = np.ldexp(x, -exponent), np.arange(x.shape[1])
    for channel, (values, gone) in enumerate(zip(x, bad, strict=True)):
        if levels is not None and gone.all():
            values[:] = np.ldexp(levels[channel], -exponent)
            continue
        values[gone] = np.interp(times[gone], times[~gone], values[~gone])
    return np.ldexp(x, exponent)
