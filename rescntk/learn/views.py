"""Views: the signals as a network sees them, which an estimator averages over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .steps import (
    ChannelMix,
    energy_of_bands,
    first_differences,
    first_differences_adjoint,
    hann_window,
    short_time_spectra,
    short_time_spectra_adjoint,
    whole_spectra,
    whole_spectra_adjoint,
)

Signals: TypeAlias = np.ndarray | list[np.ndarray]
"""Signals of one length, (n_cases, n_channels, n_timepoints), or a list of signals of different
lengths, (n_channels, n_timepoints) each. Or images, (n_cases, n_channels, height, width)."""

ONLY = "only"
"""Value of `first_differences` that drops the signals themselves."""

EACH = "each"
"""Value of `standardize` that first standardizes each signal by itself."""

POINT = "point"
"""Value of `standardize` that also standardizes each channel at each time point, differences too,
over the training signals. It needs signals of one length."""

WHOLE = "whole"
"""Value of `spectra` that puts the spectrum of the whole signal in the signal's place."""

_LEAST_OF_POINT = 0.1
"""Least deviation of a channel at a time point, in units of its root mean square over time points.
Raising it amplifies less where training signals hardly differ. Measured on the sets for choosing of
`benchmarks/ucr.py`, mean accuracy of the default passes: .8581 with 0, .8565 with .1. A tenth keeps
the noise of time points that hardly vary below ten times the others'."""

_ROUNDING = 10
"""Largest standard deviation that counts as 0, in units of eps times the channel's largest value.
Raising it leaves more channels undivided. Chosen as a margin over rounding errors, not measured."""

_ORDINARY = 300
"""Largest |exponent| of ordinary numbers, from 2^-300 to 2^300. Raising it divides fewer numbers by
a power of two, and lets sums of squares leave float64, whose numbers end at 2^1024. Chosen by
reasoning: squares of 2^300 leave room for 2^400 summands."""


def each(function: Callable[[np.ndarray], np.ndarray], X: Signals) -> Signals:
    """Apply a function of arrays (n_cases, n_channels, n_timepoints) to signals of any lengths."""
    return function(X) if isinstance(X, np.ndarray) else [function(x[None])[0] for x in X]


def take(X: Signals, cases: np.ndarray) -> Signals:
    """Return copies of some signals, by their indices."""
    return X[cases] if isinstance(X, np.ndarray) else [X[i].copy() for i in cases]


def lengths(X: Signals) -> np.ndarray:
    """Return the number of time points of each signal, or of an image's pixels, (n_cases,)."""
    if isinstance(X, np.ndarray):
        return np.full(len(X), math.prod(X.shape[2:]))
    return np.array([x.shape[1] for x in X])


def longest_side(X: Signals) -> int:
    """Return the number of time points of the longest signal, or of pixels on an image's side."""
    return max(max(x.shape[1:]) for x in X)


def moderate_exponent(X: Signals) -> int:
    """Return the exponent of the power of two that numbers are divided by; 0 for ordinary numbers.

    ReLU networks and views are homogeneous: powers of two change no digit, and squares are finite.
    """
    largest = np.abs(X).max() if isinstance(X, np.ndarray) else max(np.abs(x).max() for x in X)
    exponent = int(np.frexp(largest)[1])
    return 0 if abs(exponent) <= _ORDINARY else exponent


def standard_scale(X: Signals, case_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of each channel, (n_channels,) each.

    They are over all cases, with weights, and time points. A constant channel has deviation 0.
    """
    points, weights = _weighted_points(X, case_weights)
    largest = np.abs(points).max(axis=1)
    exponent = moderate_exponent(largest)
    points = np.ldexp(points, -exponent)
    mean = np.average(points, axis=1, weights=weights)
    deviation = np.sqrt(np.average((points - mean[:, None]) ** 2, axis=1, weights=weights))
    # The deviation of a constant channel is a rounding error of its mean.
    rounding = _ROUNDING * np.finfo(np.float64).eps * np.ldexp(largest, -exponent)
    deviation = np.where(deviation > rounding, deviation, 0.0)
    return np.ldexp(mean, exponent), np.ldexp(deviation, exponent)


def _scale_of_points(X: np.ndarray, case_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and divisor of each channel at each point, (n_channels, n_timepoints) each."""
    mean = np.average(X, axis=0, weights=case_weights)
    variance = np.average((X - mean) ** 2, axis=0, weights=case_weights)
    of_channel = variance.mean(axis=tuple(range(1, variance.ndim)), keepdims=True)
    scale = np.sqrt(np.maximum(variance, _LEAST_OF_POINT**2 * of_channel))
    # The deviation of equal signals is a rounding error of their mean.
    rounding = _ROUNDING * np.finfo(np.float64).eps * np.abs(X).max()
    return mean, np.where(scale > rounding, scale, 1.0)


@dataclass(frozen=True)
class View:
    """Settings by which signals are prepared for the network, and the scales that `fit` measures.

    `ResidualKernelClassifier` documents the settings; their defaults leave the signals unchanged.
    Steps in order: each signal by itself, blocks, scales, differences, scales of time points, more
    channels. Only blocks change the number of points: a point of the view belongs to the time
    points of its block. The longest training signal decides the length of a block. First
    differences, central inside a signal, are scaled to the standard deviation of their channel.
    The constant channel has the root mean square r of the signals. The channels of time are
    s·r·√C·cos(π j/d) and s·r·√C·sin(π j/d) at time point j of d, for C channels and the
    `time_scale` s. Images have blocks, differences and channels of place on both axes, and neither
    block statistics nor spectra.
    """

    max_length: int | None = None
    block_statistics: bool = False
    standardize: bool | str = False
    first_differences: bool | str = False
    constant: bool = False
    time_scale: float = 0.0
    spectra: bool | str = False
    transform: np.ndarray | None = field(default=None, compare=False, repr=False)
    """A metric S of the channels. Its `mix` of channels comes first of all steps."""
    mix: ChannelMix | None = field(default=None, compare=False, repr=False)
    block: int = field(default=1, compare=False)
    """Number of time points that are averaged; 1 leaves signals unchanged."""
    exponent: int = field(default=0, compare=False)
    """Signals are divided by 2 to this power first (`moderate_exponent`)."""
    mean: np.ndarray = field(default_factory=lambda: np.zeros(1), compare=False)
    """Subtrahend of each channel, after shortening; 0 of block statistics."""
    scale: np.ndarray = field(default_factory=lambda: np.ones(1), compare=False)
    """Divisor of each channel. Block statistics, the means too, get a root mean square of 1."""
    difference_scale: np.ndarray = field(default_factory=lambda: np.ones(1), compare=False)
    """Factor of each channel's first differences."""
    point_mean: np.ndarray = field(default_factory=lambda: np.zeros(1), compare=False)
    """Subtrahend of each channel at each point, after differences, or 0."""
    point_scale: np.ndarray = field(default_factory=lambda: np.ones(1), compare=False)
    """Divisor of each channel at each point, or 1."""
    level: float = field(default=1.0, compare=False)
    """Value r of the constant channel."""

    @property
    def sees_levels(self) -> bool:
        """True if the view changes when a constant is added to a channel of a signal."""
        standardized = self.standardize == EACH or self.spectra == WHOLE
        return not standardized and self.first_differences != ONLY

    @property
    def _short_time(self) -> bool:
        return self.spectra is True and self.block > 1

    def fit(self, X: Signals, case_weights: np.ndarray | None = None) -> View:
        """Return the view with the scales of training signals X, whose weights are 1 by default."""
        weights = np.ones(len(X)) if case_weights is None else case_weights
        block = block_size(seen_length(longest_side(X), self.spectra), self.max_length)
        view = replace(self, block=block, exponent=moderate_exponent(X))
        if self.transform is not None:
            unmixed = each(view._mixed, X)
            mean, scale = standard_scale(unmixed, weights)
            S = self.transform / np.where(scale > 0, scale, np.inf)
            mix = ChannelMix(mean, S, np.ones(len(S)))
            view = replace(
                view, mix=mix.in_units(standard_scale(each(mix.__call__, unmixed), weights)[1])
            )
        shortened = each(view._scaled, X)
        mean, scale = np.zeros(len(shortened[0])), np.ones(len(shortened[0]))
        if view._short_time:
            scale[:] = np.sqrt(np.mean(_root_mean_square(shortened, weights) ** 2))
        elif block > 1 and self.block_statistics:
            scale = _root_mean_square(shortened, weights)
        elif self.standardize:
            mean, scale = standard_scale(shortened, weights)
        scale = np.where(scale > 0, scale, 1.0) / view._mix_weights(len(scale))
        view = replace(view, mean=mean, scale=scale)
        scaled, rise = each(view._scaled, X), np.zeros(len(mean))
        if self.first_differences:
            rise = standard_scale(each(first_differences, scaled), weights)[1]
        deviation = standard_scale(scaled, weights)[1]
        ratio = np.resize(deviation, len(rise)) / np.where(rise > 0, rise, 1)  # for each axis
        view = replace(view, difference_scale=np.where(rise > 0, ratio, 0.0))
        if self.standardize == POINT:
            mean, scale = _scale_of_points(view._with_differences(np.asarray(scaled)), weights)
            scale = scale / by_channel(view._mix_weights(len(scale)), scale[None])
            view = replace(view, point_mean=mean, point_scale=scale)
        squares = _root_mean_square(each(view._with_differences, scaled), weights) ** 2
        return replace(view, level=float(np.sqrt(np.mean(squares))) or 1.0)

    def __call__(self, X: Signals) -> Signals:
        """Return the signals as the network sees them: more channels, fewer points."""
        with np.errstate(over="ignore", invalid="ignore"):
            views = each(self._prepare, X)
        if not all(np.isfinite(view).all() for view in views):
            largest = max(np.abs(x).max() for x in X)
            raise ValueError(
                f"X has values up to {largest:.3g}, expected smaller ones: divided by the "
                "deviations of the signals of fit they exceed float64"
            )
        return views

    def adjoint(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return derivatives by signals X from derivatives by the view's signals, ``view(X)``.

        Each step has its adjoint beside it, with its name.
        """
        X = self._mixed(X)
        each_signal = _standardized(X) if self.standardize == EACH else X
        c, n_axes = len(self.mean), X.ndim - 2
        first = 0 if self.first_differences == ONLY else c
        seen = first + n_axes * c * bool(self.first_differences)
        slopes = slopes[:, :seen] / self.point_scale  # channels of constants and time come after
        gradient = np.zeros(1) if self.first_differences == ONLY else slopes[:, :c]
        if self.first_differences:
            rises = slopes[:, first:]
            rises = rises * by_channel(self.difference_scale, X)
            gradient = gradient + first_differences_adjoint(rises, n_axes)
        gradient = gradient / by_channel(self.scale, X)
        if self._short_time:
            gradient = short_time_spectra_adjoint(each_signal, gradient, self.block)
        else:
            whole = self.spectra == WHOLE
            points = whole_spectra(each_signal) if whole else each_signal
            gradient = shorten_adjoint(points, gradient, self.block, self.block_statistics)
            gradient = whole_spectra_adjoint(each_signal, gradient) if whole else gradient
        if self.standardize == EACH:
            gradient = _standardized_adjoint(X, gradient)
        gradient = gradient if self.mix is None else self.mix.adjoint(gradient)
        return np.ldexp(gradient, -self.exponent)

    def to_time(self, shares: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return shares of time points, (…, length), from shares of the view's points.

        `x` is the signal, (n_channels, length), or image. A block's share goes to its time points
        in equal parts, the share of a spectrum by the weights of its window. The share of
        frequencies of a whole spectrum goes by `energy_of_bands`.
        """
        axes = x.shape[1:]
        if self.spectra == WHOLE:
            return shares @ energy_of_bands(self._mixed(x[None])[0], self.block)
        if not self._short_time:
            shares = shares.reshape(*shares.shape[:-1], *(-(-d // self.block) for d in axes))
            for length in reversed(axes):  # the last axis; it becomes the first one of pixels
                sizes = _block_sizes(length, self.block)
                parts = np.repeat(shares / sizes, sizes, axis=-1)
                shares = np.moveaxis(parts, -1, -len(axes))
            return shares
        (length,) = axes
        starts = np.arange(0, length, self.block)
        place = np.arange(length) - starts[:, None] + self.block // 2  # in the block's window
        inside = (place >= 0) & (place < 2 * self.block)
        weights = np.where(inside, hann_window(self.block)[place * inside], 0.0)
        return shares @ (weights / weights.sum(axis=1, keepdims=True))

    def _mix_weights(self, n_channels: int) -> np.ndarray:
        """Return the weight of the mixed channel that each of the view's channels is made of."""
        if self.mix is None:
            return np.ones(n_channels)
        count = n_channels // len(self.mix.weights)
        return (np.repeat if self._short_time else np.tile)(self.mix.weights, count)

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        X = self._with_differences(self._scaled(X))
        parts, (n, channels, *axes) = [X], X.shape
        if self.constant:
            parts.append(np.full((n, 1, *axes), self.level))
        for axis, length in enumerate(axes if self.time_scale else ()):
            time = self.time_scale * self.level * np.sqrt(channels) * _half_circle(length)
            time = time.reshape(2, *(length if k == axis else 1 for k in range(len(axes))))
            parts.append(np.broadcast_to(time, (n, 2, *axes)))
        return np.concatenate(parts, axis=1)

    def _mixed(self, X: np.ndarray) -> np.ndarray:
        X = np.ldexp(X, -self.exponent)
        return X if self.mix is None else self.mix(X)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        X = self._mixed(X)
        if self.standardize == EACH:
            X = _standardized(X)
        if self._short_time:
            X = short_time_spectra(X, self.block)
        else:
            X = whole_spectra(X) if self.spectra == WHOLE else X
            X = shorten(X, self.block, self.block_statistics)
        return (X - by_channel(self.mean, X)) / by_channel(self.scale, X)

    def _with_differences(self, X: np.ndarray) -> np.ndarray:
        if self.first_differences:
            rises = first_differences(X)
            rises = rises * by_channel(self.difference_scale, X)
            only = self.first_differences == ONLY
            X = rises if only else np.concatenate([X, rises], axis=1)
        return (X - self.point_mean) / self.point_scale


def block_size(length: int, max_length: int | None) -> int:
    """Return the number of time points that `shorten` averages; 1 leaves signals unchanged."""
    return 1 if max_length is None else -(-length // max_length)


def seen_length(length: int, spectra: bool | str) -> int:
    """Return the number of points that blocks are made of: frequencies of a whole spectrum."""
    return max(1, length // 2) if spectra == WHOLE else length


def by_channel(values: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return a number for each channel with the axes of the signals or images X of a case."""
    return values.reshape(-1, *[1] * (X.ndim - 2))


def _block_sizes(length: int, block: int) -> np.ndarray:
    return np.minimum(block, length - np.arange(0, length, block))


def shorten(X: np.ndarray, block: int, block_statistics: bool = False) -> np.ndarray:
    """Return means over blocks of time points, (n_cases, n_channels, n_blocks).

    Blocks of images have two axes. The last block may be smaller. `block_statistics` appends the
    standard deviations, then minima, then maxima as channels. Blocks of 1 leave signals unchanged.
    """
    if block == 1:
        return X
    means = X
    for length in reversed(X.shape[2:]):  # the last axis; it becomes the first one of pixels
        sums = np.add.reduceat(means, np.arange(0, length, block), axis=-1)
        means = np.moveaxis(sums / _block_sizes(length, block), -1, 2)
    if not block_statistics:
        return means
    starts, sizes = np.arange(0, X.shape[2], block), _block_sizes(X.shape[2], block)
    deviations = X - np.repeat(means, sizes, axis=2)
    variances = np.add.reduceat(deviations**2, starts, axis=2) / sizes
    least, most = (f.reduceat(X, starts, axis=2) for f in (np.minimum, np.maximum))
    return np.concatenate([means, np.sqrt(variances), least, most], axis=1)


def shorten_adjoint(
    X: np.ndarray, slopes: np.ndarray, block: int, block_statistics: bool = False
) -> np.ndarray:
    """Return derivatives by X from derivatives by `shorten` of X, (n_cases, ·, n_blocks).

    Points that share a minimum or maximum have equal parts. A block of equal points has slope 0.
    """
    if block == 1:
        return slopes
    c, axes = X.shape[1], X.shape[2:]
    gradient = slopes[:, :c]
    for length in reversed(axes):
        sizes = _block_sizes(length, block)
        gradient = np.moveaxis(np.repeat(gradient / sizes, sizes, axis=-1), -1, 2)
    if not block_statistics:
        return gradient
    (length,) = axes
    sizes = _block_sizes(length, block)
    starts = np.arange(0, length, block)
    over_blocks = shorten(X, block, block_statistics)
    wide, by_block = (np.repeat(each, sizes, axis=2) for each in (over_blocks, slopes))
    deviation = wide[:, c : 2 * c] * np.repeat(sizes, sizes)
    gradient = gradient + by_block[:, c : 2 * c] * np.divide(
        X - wide[:, :c], deviation, out=np.zeros(X.shape), where=deviation > 0
    )
    for k in (2, 3):
        at = wide[:, k * c : (k + 1) * c] == X
        shared = np.repeat(np.add.reduceat(at, starts, axis=2, dtype=float), sizes, axis=2)
        gradient = gradient + by_block[:, k * c : (k + 1) * c] * at / shared
    return gradient


@lru_cache(maxsize=32)
def _half_circle(length: int) -> np.ndarray:
    """Return cosine and sine of the relative time, (2, length)."""
    angle = np.pi * np.arange(length) / length
    return np.stack([np.cos(angle), np.sin(angle)])


def constant_channels(X: Signals) -> np.ndarray:
    """Return whether a signal is constant in a channel, (n_cases, n_channels)."""
    flat = [x.reshape(len(x), -1) for x in X]
    rounding = _ROUNDING * np.finfo(np.float64).eps
    return np.array([np.ptp(x, axis=1) <= rounding * np.abs(x).max(axis=1) for x in flat])


def _standardized(X: np.ndarray) -> np.ndarray:
    """Return signals less their own means, divided by their own deviations, channel by channel."""
    mean, deviation = _own_scale(X)
    return (X - mean) / np.where(deviation > 0, deviation, 1.0)


def _standardized_adjoint(X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return derivatives by X from derivatives by `_standardized` of X."""
    over: Any = {"axis": tuple(range(2, X.ndim)), "keepdims": True}
    deviation = _own_scale(X)[1]
    Z = np.where(deviation > 0, _standardized(X), 0.0)  # a constant channel is divided by 1
    along = slopes.mean(**over) + Z * (slopes * Z).mean(**over)
    return (slopes - along) / np.where(deviation > 0, deviation, 1.0)


def _own_scale(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each channel of each signal; 0 for a constant channel."""
    over: Any = {"axis": tuple(range(2, X.ndim)), "keepdims": True}
    deviation = X.std(**over)
    rounding = _ROUNDING * np.finfo(np.float64).eps * np.abs(X).max(**over)
    return X.mean(**over), np.where(deviation > rounding, deviation, 0.0)


def _weighted_points(X: Signals, case_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the time points of all signals, (n_channels, total number), and their weights."""
    if isinstance(X, np.ndarray):
        points = X.swapaxes(0, 1).reshape(X.shape[1], -1)
    else:
        points = np.concatenate(X, axis=1)
    return points, np.repeat(case_weights, lengths(X))


def _root_mean_square(X: Signals, case_weights: np.ndarray) -> np.ndarray:
    points, weights = _weighted_points(X, case_weights)
    return np.sqrt(np.average(points**2, axis=1, weights=weights))
