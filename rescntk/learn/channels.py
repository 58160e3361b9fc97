"""Levels and sizes of channels, of given signals beside the training signals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .views import Signals, moderate_exponent

_ERRORS = 4.0
"""Standard errors of a difference above which a channel is named. Raising it names fewer channels.
Chosen: by chance one channel of 8000 is named."""


class Drift(NamedTuple):
    """Differences of channels between given and training signals, (n_channels,) each."""

    offsets: np.ndarray
    """Mean level of the given signals less the training signals', in units of the standard
    deviation of all training values; nan where these are constant."""
    gains: np.ndarray
    """Typical deviation of a given signal from its level, divided by a training signal's."""
    moved: np.ndarray
    """Whether the offset exceeds four standard errors."""
    scaled: np.ndarray
    """Whether the gain differs from 1 by more than four standard errors of its logarithm."""
    dead: np.ndarray
    """Whether all given signals are constant, and not all training signals are."""


def levels_and_sizes(X: Signals, exponent: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and the standard deviations of signals, (n_cases, n_channels) each.

    Signals are divided by two to the power `exponent`.
    """
    points = [np.ldexp(x.reshape(len(x), -1), -exponent) for x in X]
    return np.array([x.mean(axis=1) for x in points]), np.array([x.std(axis=1) for x in points])


def compare(training: Signals, X: Signals) -> Drift:
    """Return the drift of signals X, of the training signals' channels.

    A signal's level is its mean, and its size the standard deviation from its level. Typical is a
    geometric mean over the signals that are not constant.
    """
    exponent = moderate_exponent(training)
    levels, sizes, means, roots = [], [], [], []
    with np.errstate(over="ignore"):  # of given signals far larger than training signals
        for signals in (training, X):
            level, size = levels_and_sizes(signals, exponent)
            rounding = 10 * np.finfo(np.float64).eps
            largest = np.array([np.abs(x.reshape(len(x), -1)).max(axis=1) for x in signals])
            size = np.where(size > rounding * np.ldexp(largest, -exponent), size, 0.0)
            levels.append(level)
            sizes.append(size)
            means.append(level.mean(axis=0))
            roots.append(np.sqrt((size**2).mean(axis=0) + level.var(axis=0)))
    unit = np.where(roots[0] > 0, roots[0], np.nan)
    logs = [np.log2(np.where(size > 0, size, np.nan)) for size in sizes]
    typical, errors = zip(*(_mean_and_error(values) for values in logs), strict=True)
    difference = typical[1] - typical[0]
    offset = means[1] - means[0]
    error = np.hypot(*(_mean_and_error(level)[1] for level in levels))
    alive = [(size > 0).any(axis=0) for size in sizes]
    with np.errstate(invalid="ignore"):
        return Drift(
            offset / unit,
            np.where(alive[1], 2.0**difference, np.where(alive[0], 0.0, np.nan)),
            np.abs(offset) > _ERRORS * error,
            np.abs(difference) > _ERRORS * np.hypot(*errors),
            np.asarray(alive[0] & ~alive[1]),
        )


def _mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each column, (n_channels,), and its standard error; nan is left out."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=0) / count
        squares = np.where(known, values - mean, 0.0) ** 2
        return mean, np.sqrt(squares.sum(axis=0) / np.maximum(count - 1, 1) / count)


def rows(drift: Drift) -> tuple[tuple[str, ...], ...]:
    """Return a row of a table for each channel: its number, offset, gain, and what differs."""
    found = []
    for channel, (offset, gain, moved, scaled, dead) in enumerate(zip(*drift, strict=True)):
        marks = {"level": moved and not dead, "constant now": dead, "size": scaled and not dead}
        level = "–" if np.isnan(offset) else f"{offset:+.2f}".replace("-", "−")
        size = "–" if np.isnan(gain) else f"{gain:.2f}"
        found.append((str(channel), level, size, ", ".join(k for k, mark in marks.items() if mark)))
    return tuple(found)
