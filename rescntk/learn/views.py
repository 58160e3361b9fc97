"""Views: the signals as a network sees them, which an estimator averages over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .batches import Signals, each, lengths, standard_scale, weighted_points
from .moderate import moderate, scaled_down

ONLY = "only"
"""Value of `first_differences` that drops the signals themselves."""


@dataclass(frozen=True)
class View:
    """Settings by which signals are prepared for the network.

    The defaults leave the signals unchanged.

    Attributes
    ----------
    max_length : int or None
        Longest signal that stays unchanged. Longer signals are replaced by means over blocks of
        time points. The longest training signal decides the length of a block for all signals.
    block_statistics : bool
        Whether each block's standard deviation, minimum and maximum are appended as channels.
        All channels, the means too, are then scaled to a root mean square of 1. Without blocks
        nothing is appended or scaled.
    standardize : bool
        Whether each channel is standardized: the mean and the standard deviation over all
        training signals become 0 and 1. Block statistics have a scale of their own instead.
    first_differences : bool or "only"
        Whether the first differences of each channel are appended as a channel, or take the
        channel's place ("only"). They are scaled to the standard deviation of the channel
        itself. Inside a signal they are central differences.
    constant : bool
        Whether a constant channel is appended, at the signals' root mean square. It gives the
        first layer a bias. Without a bias, ReLU networks see only directions of signals.
    time_scale : float
        s, at least 0: two channels s·r·√C·cos(π j/d) and s·r·√C·sin(π j/d) are appended at time
        point j of d, for C channels of root mean square r. They tell the head "gap" where a
        pattern stands: 0 tells nothing, a large s only compares patterns of one place.
    """

    max_length: int | None = None
    block_statistics: bool = False
    standardize: bool = False
    first_differences: bool | str = False
    constant: bool = False
    time_scale: float = 0.0

    def fit(self, X: Signals, case_weights: np.ndarray | None = None) -> FittedView:
        """Measure the scales of training signals X, whose weights are 1 by default."""
        weights = np.ones(len(X)) if case_weights is None else case_weights
        block = block_size(int(lengths(X).max()), self.max_length)
        X, exponent = moderate(X)
        X = each(lambda Z: shorten(Z, block, self.block_statistics), X)
        channels = len(X[0])
        mean, scale, rise = np.zeros(channels), np.ones(channels), np.zeros(channels)
        if self.block_statistics and block > 1:
            scale = _root_mean_square(X, weights)
        elif self.standardize:
            mean, scale = standard_scale(X, weights)
        scale = np.where(scale > 0, scale, 1.0)
        X = each(lambda Z: (Z - mean[:, None]) / scale[:, None], X)
        if self.first_differences:
            rise = standard_scale(each(_first_differences, X), weights)[1]
        ratio = standard_scale(X, weights)[1] / np.where(rise > 0, rise, 1)
        difference_scale = np.where(rise > 0, ratio, 0.0)
        fitted = FittedView(self, block, exponent, mean, scale, difference_scale, 1.0)
        squares = _root_mean_square(each(fitted.own_channels, X), weights) ** 2
        level = float(np.sqrt(np.mean(squares)))
        return replace(fitted, level=level or 1.0)


@dataclass(frozen=True)
class FittedView:
    """A `View` with the scales of the training signals.

    Attributes
    ----------
    view : View
    block : int
        Number of time points that are averaged; 1 leaves signals unchanged.
    exponent : int
        Signals are divided by 2 to this power first; 0 unless their squares would leave float64.
    mean, scale : ndarray, (n_channels,)
        Subtrahend and divisor of each channel, after shortening.
    difference_scale : ndarray, (n_channels,)
        Factor of each channel's first differences.
    level : float
        Value of the constant channel, and r of the channels of time.
    """

    view: View
    block: int
    exponent: int
    mean: np.ndarray
    scale: np.ndarray
    difference_scale: np.ndarray
    level: float

    def __call__(self, X: Signals) -> Signals:
        """Return the signals as the network sees them: more channels, fewer time points."""
        return each(self._prepare, X)

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        """Return signals of one length, (n_cases, more channels, shorter)."""
        view = self.view
        X = shorten(scaled_down(X, self.exponent), self.block, view.block_statistics)
        X = self.own_channels((X - self.mean[:, None]) / self.scale[:, None])
        parts, (n, channels, length) = [X], X.shape
        if view.constant:
            parts.append(np.full((n, 1, length), self.level))
        if view.time_scale:
            angle = np.pi * np.arange(length) / length
            time = view.time_scale * self.level * np.sqrt(channels) * _circle(angle)
            parts.append(np.broadcast_to(time, (n, 2, length)))
        return np.concatenate(parts, axis=1)

    def own_channels(self, X: np.ndarray) -> np.ndarray:
        """Return scaled signals, their first differences, or both, as channels."""
        how = self.view.first_differences
        if how is False:
            return X
        differences = _first_differences(X) * self.difference_scale[:, None]
        return differences if how == ONLY else np.concatenate([X, differences], axis=1)


def block_size(length: int, max_length: int | None) -> int:
    """Return the number of time points that `shorten` averages; 1 leaves signals unchanged."""
    return 1 if max_length is None else -(-length // max_length)


def shorten(X: np.ndarray, block: int, block_statistics: bool = False) -> np.ndarray:
    """Return means over blocks of time points, (n_cases, n_channels, n_blocks).

    The last block may be smaller. `block_statistics` appends the standard deviations, then the
    minima, then the maxima of the blocks as channels. Blocks of 1 leave the signals unchanged.
    """
    if block == 1:
        return X
    length = X.shape[2]
    starts = np.arange(0, length, block)
    sizes = np.minimum(block, length - starts)
    means = np.add.reduceat(X, starts, axis=2) / sizes
    if not block_statistics:
        return means
    deviations = X - np.repeat(means, sizes, axis=2)
    variances = np.add.reduceat(deviations**2, starts, axis=2) / sizes
    least, most = (f.reduceat(X, starts, axis=2) for f in (np.minimum, np.maximum))
    return np.concatenate([means, np.sqrt(variances), least, most], axis=1)


def _root_mean_square(X: Signals, case_weights: np.ndarray) -> np.ndarray:
    points, weights = weighted_points(X, case_weights)
    return np.sqrt(np.average(points**2, axis=1, weights=weights))


def _circle(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)])


def _first_differences(X: np.ndarray) -> np.ndarray:
    return np.gradient(X, axis=2) if X.shape[2] > 1 else np.zeros(X.shape)
