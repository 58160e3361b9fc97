"""Ways of looking at signals before a kernel sees them, which the search chooses from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .scaler import SignalScaler


@dataclass(frozen=True)
class View:
    """How signals enter the network.

    Attributes
    ----------
    max_length : int or None
        Signals longer than this are averaged over blocks of time points first.
    spread : bool
        Whether standard deviation, minimum and maximum within these blocks are appended as
        channels, all (and the averages) scaled to a root mean square of 1. Where there are
        no blocks it changes nothing.
    standardize : bool
        Whether each channel is standardized (`SignalScaler`).
    slopes : bool
        Whether each channel's change from point to point is appended as a channel, scaled to
        the channel's own standard deviation.
    constant : bool
        Whether a constant channel is appended, as large as the signals' root mean square: it
        gives the first layer a bias. Without it ReLU networks see directions alone.
    """

    max_length: int | None = None
    spread: bool = False
    standardize: bool = False
    slopes: bool = False
    constant: bool = False

    def fit(self, X: np.ndarray) -> FittedView:
        """Take from training signals (n, channels, length) what they are scaled by."""
        blocks = block_size(X.shape[2], self.max_length) > 1
        X = shorten(X, self.max_length, self.spread)
        size = np.ones(X.shape[1])
        if self.spread and blocks:
            size = np.sqrt(np.mean(X**2, axis=(0, 2)))
            size = np.where(size > 0, size, 1.0)
            X = X / size[:, None]
        scaler = SignalScaler().fit(X) if self.standardize else None
        if scaler is not None:
            X = scaler.transform(X)
        steepness = np.zeros(X.shape[1])
        if self.slopes and X.shape[2] > 1:
            rise = _slopes(X).std(axis=(0, 2))
            steepness = np.where(rise > 0, X.std(axis=(0, 2)) / np.where(rise > 0, rise, 1), 0)
        level = float(np.sqrt(np.mean(X**2))) or 1.0
        return FittedView(self, size, scaler, steepness, level)


@dataclass(frozen=True)
class FittedView:
    """A `View` with the scales taken from training signals."""

    view: View
    size: np.ndarray
    scaler: SignalScaler | None
    steepness: np.ndarray
    level: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the signals as the network is to see them."""
        X = shorten(X, self.view.max_length, self.view.spread) / self.size[:, None]
        if self.scaler is not None:
            X = self.scaler.transform(X)
        parts = [X]
        if self.view.slopes and X.shape[2] > 1:
            parts.append(_slopes(X) * self.steepness[:, None])
        if self.view.constant:
            parts.append(np.full((len(X), 1, X.shape[2]), self.level))
        return np.concatenate(parts, axis=1)


def block_size(length: int, max_length: int | None) -> int:
    """Return over how many time points `shorten` averages; 1: the signals stay as they are."""
    return 1 if max_length is None else -(-length // max_length)


def shorten(X: np.ndarray, max_length: int | None, spread: bool = False) -> np.ndarray:
    """Return means over blocks of so many time points that at most `max_length` remain.

    The last block may be smaller. With `spread`, the blocks' standard deviations, minima and
    maxima follow as channels. Signals that are short enough stay as they are.
    """
    length = X.shape[2]
    block = block_size(length, max_length)
    if block == 1:
        return X
    starts = np.arange(0, length, block)
    sizes = np.minimum(block, length - starts)
    means = np.add.reduceat(X, starts, axis=2) / sizes
    if not spread:
        return means
    deviations = X - np.repeat(means, sizes, axis=2)
    variances = np.add.reduceat(deviations**2, starts, axis=2) / sizes
    least, most = (f.reduceat(X, starts, axis=2) for f in (np.minimum, np.maximum))
    return np.concatenate([means, np.sqrt(variances), least, most], axis=1)


def is_standard(X: np.ndarray) -> bool:
    """Whether standardizing channels would change next to nothing.

    That is: means within 5 % of the standard deviations, and these within 5 % of each other,
    since the networks do not mind a common factor.
    """
    mean, spread = X.mean(axis=(0, 2)), X.std(axis=(0, 2))
    return bool((np.abs(mean) <= 0.05 * spread).all() and spread.max() <= 1.05 * spread.min())


def _slopes(X: np.ndarray) -> np.ndarray:
    return np.gradient(X, axis=2)
