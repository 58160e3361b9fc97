"""Views: the signals as the network sees them, which the search chooses among."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .moderate import moderate, scaled_down
from .scaler import SignalScaler

_STANDARD_TOLERANCE = 0.05
"""Deviation from standardized channels that counts as none, relative to standard deviations.
Raising it skips the standardized views of more data sets. Chosen by the authors, not measured."""


@dataclass(frozen=True)
class View:
    """Settings by which signals are prepared for the network.

    The defaults leave the signals unchanged.

    Attributes
    ----------
    max_length : int or None
        Longest signal that stays unchanged. Longer signals are replaced by means over blocks of
        time points.
    block_statistics : bool
        Whether each block's standard deviation, minimum and maximum are appended as channels.
        All channels, the means too, are then scaled to a root mean square of 1. Without blocks
        nothing is appended or scaled.
    standardize : bool
        Whether each channel is standardized (`SignalScaler`).
    first_differences : bool
        Whether the first differences of each channel are appended as a channel, scaled to the
        standard deviation of the channel itself. Inside a signal they are central differences.
    constant : bool
        Whether a constant channel is appended, at the signals' root mean square. It gives the
        first layer a bias. Without a bias, ReLU networks see only directions of signals.
    """

    max_length: int | None = None
    block_statistics: bool = False
    standardize: bool = False
    first_differences: bool = False
    constant: bool = False

    def fit(self, X: np.ndarray) -> FittedView:
        """Measure the scales of training signals X (n_cases, n_channels, n_timepoints)."""
        blocks = block_size(X.shape[2], self.max_length) > 1
        X, exponent = moderate(X)
        X = shorten(X, self.max_length, self.block_statistics)
        channel_scale = np.ones(X.shape[1])
        if self.block_statistics and blocks:
            channel_scale = np.sqrt(np.mean(X**2, axis=(0, 2)))
            channel_scale = np.where(channel_scale > 0, channel_scale, 1.0)
            X = X / channel_scale[:, None]
        scaler = SignalScaler().fit(X) if self.standardize else None
        if scaler is not None:
            X = scaler.transform(X)
        difference_scale = np.zeros(X.shape[1])
        if self.first_differences and X.shape[2] > 1:
            rise = _first_differences(X).std(axis=(0, 2))
            ratio = X.std(axis=(0, 2)) / np.where(rise > 0, rise, 1)
            difference_scale = np.where(rise > 0, ratio, 0)
        level = float(np.sqrt(np.mean(X**2))) or 1.0
        return FittedView(self, exponent, channel_scale, scaler, difference_scale, level)


@dataclass(frozen=True)
class FittedView:
    """A `View` with the scales of the training signals.

    Attributes
    ----------
    view : View
    exponent : int
        Signals are divided by 2 to this power first; 0 unless their squares would leave float64.
    channel_scale : ndarray, (n_channels,)
        Divisor of each channel, after shortening.
    scaler : SignalScaler or None
        None where channels are not standardized.
    difference_scale : ndarray, (n_channels,)
        Factor of each channel's first differences.
    level : float
        Value of the constant channel.
    """

    view: View
    exponent: int
    channel_scale: np.ndarray
    scaler: SignalScaler | None
    difference_scale: np.ndarray
    level: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the signals as the network sees them, (n_cases, more channels, shorter)."""
        view = self.view
        X = scaled_down(X, self.exponent)
        X = shorten(X, view.max_length, view.block_statistics) / self.channel_scale[:, None]
        if self.scaler is not None:
            X = self.scaler.transform(X)
        parts = [X]
        if view.first_differences and X.shape[2] > 1:
            parts.append(_first_differences(X) * self.difference_scale[:, None])
        if view.constant:
            parts.append(np.full((len(X), 1, X.shape[2]), self.level))
        return np.concatenate(parts, axis=1)


def block_size(length: int, max_length: int | None) -> int:
    """Return the number of time points that `shorten` averages; 1 leaves signals unchanged."""
    return 1 if max_length is None else -(-length // max_length)


def shorten(X: np.ndarray, max_length: int | None, block_statistics: bool = False) -> np.ndarray:
    """Return means over blocks of time points, at most `max_length` blocks.

    The last block may be smaller. `block_statistics` appends the standard deviations, then the
    minima, then the maxima of the blocks as channels. Signals of at most `max_length` time points
    are returned unchanged.
    """
    length = X.shape[2]
    block = block_size(length, max_length)
    if block == 1:
        return X
    starts = np.arange(0, length, block)
    sizes = np.minimum(block, length - starts)
    means = np.add.reduceat(X, starts, axis=2) / sizes
    if not block_statistics:
        return means
    deviations = X - np.repeat(means, sizes, axis=2)
    variances = np.add.reduceat(deviations**2, starts, axis=2) / sizes
    least, most = (f.reduceat(X, starts, axis=2) for f in (np.minimum, np.maximum))
    return np.concatenate([means, np.sqrt(variances), least, most], axis=1)


def is_standard(X: np.ndarray) -> bool:
    """Return whether standardizing the channels of X would change next to nothing.

    Two conditions: means within 5 % of the standard deviations, and standard deviations within
    5 % of each other. A factor common to all channels does not count, because ReLU networks are
    homogeneous.
    """
    mean, deviation = X.mean(axis=(0, 2)), X.std(axis=(0, 2))
    centred = (np.abs(mean) <= _STANDARD_TOLERANCE * deviation).all()
    return bool(centred and deviation.max() <= (1 + _STANDARD_TOLERANCE) * deviation.min())


def _first_differences(X: np.ndarray) -> np.ndarray:
    return np.gradient(X, axis=2)
