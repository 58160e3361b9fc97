"""Steps of views: what happens to signals, one step after the other, before a network sees them.

Other steps are in bands.py and covariances.py. "A step of a view" in docs/project/contributing.md
says where a new one is entered.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from ..reading.signals import Signals, map_signals

ROUNDING = 10 * float(np.finfo(np.float64).eps)
"""Largest deviation that counts as 0, as a part of the largest magnitude."""


class Step(ABC):
    """A step of a view, which changes signals.

    `fit` and `transform` are as in scikit-learn, but `fit` returns another step: subclasses are
    frozen dataclasses. Steps of the same settings are equal, whatever they were fitted to. No step
    magnifies rounding errors: a deviation that `ROUNDING` counts as 0 becomes 0.
    """

    @property
    @abstractmethod
    def stage(self) -> str:
        """The item of the list in the docstring of `View` to which the step belongs."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest distance at which a point before the step changes a point after it.

        The unit is a point after the step. Changes by a signal's mean and deviation do not count.
        """

    @property
    @abstractmethod
    def depends_on_levels(self) -> bool:
        """True if a constant, added to a channel of a signal, changes the step's result."""

    @property
    def reason_against_one_point(self) -> str:
        """Why signals of a single point before the step cannot have it; empty if they can."""
        return ""

    @property
    def reason_against_lists(self) -> str:
        """Why signals of different lengths cannot have the step; empty if they can."""
        return ""

    @abstractmethod
    def n_points_after(self, n_points: int) -> int:
        """Return the number of points of a signal after the step, from that before it."""

    def reach_before(self, reach: float) -> float:
        """Return how many points are seen on each side of one, counted before the step.

        `reach` is their number counted after the step.
        """
        return reach + self.reach

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        """Return the channel of the signal from which each channel after the step comes.

        `source_channels` has it for the channels before the step; −1 stands for none. A step that
        adds, removes or reorders channels overrides this. One that mixes them answers for the
        channels of `separated`.
        """
        return source_channels

    def separated(self, seen: np.ndarray) -> np.ndarray:
        """Return signals after all steps, in which each channel comes from one channel at most.

        Inner products of points are as before. Only a step that mixes channels changes `seen`.
        """
        return seen

    def fit(self, X: Signals, weights: np.ndarray) -> Self:
        """Return the step, fitted to training signals X with weights (n_cases,)."""
        return self

    @abstractmethod
    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return signals after the step from signals before it, (n_cases, n_channels, n_points)."""

    @abstractmethod
    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        """Return contributions of points before the step, (…, n_points), from those after it.

        The signal before the step is x, (n_channels, n_points). The steps and the kernel behind
        this step together see `reach` points around a point; the points are those after the step.
        """


class LengthKeepingStep(Step):
    """A step that keeps the number of points, and the contribution of each point."""

    def n_points_after(self, n_points: int) -> int:
        return n_points

    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        return contributions


@dataclass(frozen=True)
class SignalScale(LengthKeepingStep):
    """Give each channel of each signal mean 0 and deviation 1; constant ones are 0."""

    stage = "each signal's own scale"
    reach = 0
    depends_on_levels = False
    reason_against_one_point = "one time point has no deviation"

    def transform(self, X: np.ndarray) -> np.ndarray:
        mean, deviation = X.mean(axis=2, keepdims=True), X.std(axis=2, keepdims=True)
        constant = deviation <= ROUNDING * np.abs(X).max(axis=2, keepdims=True)
        return (X - mean) / np.where(constant, np.inf, deviation)


class BlockStep(Step):
    """A step from time points to blocks of points, or of frequencies.

    The last block may be shorter.
    """

    stage = "spectra, bands, covariances or blocks"
    block_length: int
    """Number of points, or of frequencies, of a block."""

    def n_points_after(self, n_points: int) -> int:
        return -(-n_points // self.block_length)

    def reach_before(self, reach: float) -> float:
        return (reach + self.reach + 1) * self.block_length - 1

    @abstractmethod
    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        """Return the step that scales channels.

        No channel is divided by less than `least_ratio` times the largest scale.
        """


@dataclass(frozen=True)
class Blocks(BlockStep):
    """Average the points of each block; the last one may be shorter."""

    block_length: int
    reach = 0
    depends_on_levels = True

    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        return ChannelScale(least_ratio)

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self.means(X)

    def means(self, X: np.ndarray) -> np.ndarray:
        """Return the mean of each block."""
        return self.over_blocks(np.add, X) / self.sizes(X.shape[2])

    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        """Divide the contribution of each block into equal parts."""
        sizes = self.sizes(x.shape[1])
        return np.repeat(contributions / sizes, sizes, axis=-1)

    def over_blocks(self, function: np.ufunc, X: np.ndarray) -> np.ndarray:
        """Return what a function makes of each block's points, such as their sum for `np.add`."""
        return np.asarray(function.reduceat(X, np.arange(0, X.shape[2], self.block_length), axis=2))

    def sizes(self, n_points: int) -> np.ndarray:
        """Return the number of points of each block."""
        return np.minimum(self.block_length, n_points - np.arange(0, n_points, self.block_length))


@dataclass(frozen=True)
class Statistics(Blocks):
    """Take statistics of each block: a channel for each statistic of each channel."""

    NAMES: ClassVar = ("mean", "deviation", "minimum", "maximum")

    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        return StatisticsScale(least_ratio)

    def transform(self, X: np.ndarray) -> np.ndarray:
        means, sizes = self.means(X), self.sizes(X.shape[2])
        squares = (X - np.repeat(means, sizes, axis=2)) ** 2
        deviations = np.sqrt(self.over_blocks(np.add, squares) / sizes)
        statistics = {
            "mean": means,
            "deviation": deviations,
            "minimum": self.over_blocks(np.minimum, X),
            "maximum": self.over_blocks(np.maximum, X),
        }
        return np.concatenate([statistics[name] for name in self.NAMES], axis=1)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        return np.tile(source_channels, len(self.NAMES))


@dataclass(frozen=True)
class ShortTimeSpectra(BlockStep):
    """Take square roots of short-time spectra; blocks of b points have b + 1 frequencies.

    A Hann window of two blocks is centred at each block, and the signal has zeros around it. The
    result has a channel for each frequency of each channel: those of the first channel by rising
    frequency, then those of the second, and so on.
    """

    block_length: int
    reach = 1
    depends_on_levels = True

    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        """Return one scale of all channels, which magnifies none."""
        return CommonScale(least_ratio)

    def transform(self, X: np.ndarray) -> np.ndarray:
        n, n_channels, length = X.shape
        b = self.block_length
        padded = np.zeros((n, n_channels, (-(-length // b) + 1) * b))
        padded[:, :, b // 2 : b // 2 + length] = X
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * b, axis=2)[:, :, ::b]
        roots = np.sqrt(np.abs(np.fft.rfft(windows * np.hanning(2 * b + 1)[:-1], axis=3)))
        return roots.transpose(0, 1, 3, 2).reshape(n, n_channels * (b + 1), -1)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        return np.repeat(source_channels, self.block_length + 1)

    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        """Divide the contribution of each spectrum by the weights of its window."""
        length, b = x.shape[1], self.block_length
        # The place of each time point in each window.
        place = np.arange(length) - np.arange(0, length, b)[:, None] + b // 2
        weights = np.hanning(2 * b + 1)[np.clip(place, 0, 2 * b)]  # 0 at both ends
        return np.asarray(contributions @ (weights / weights.sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class WholeSpectrum(BlockStep):
    """Take square roots of the magnitudes of the spectrum, and apply `blocks` to them.

    Signals of d time points have the frequencies from 1/d to 1/2.
    """

    blocks: Blocks
    reach = math.inf
    depends_on_levels = False
    reason_against_one_point = "one time point has no spectrum"

    @property
    def block_length(self) -> int:  # type: ignore[override]
        return self.blocks.block_length

    @staticmethod
    def n_frequencies_of(length: int) -> int:
        """Return the number of frequencies of signals of this length, at least 1."""
        return max(1, length // 2)

    def n_points_after(self, n_points: int) -> int:
        return self.blocks.n_points_after(self.n_frequencies_of(n_points))

    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        return self.blocks.channel_scale(least_ratio)

    def transform(self, X: np.ndarray) -> np.ndarray:
        roots = np.sqrt(np.abs(np.fft.rfft(X, axis=2, norm="ortho")[:, :, 1:]))
        if not roots.shape[2]:  # a single time point has no frequencies, and counts as constant
            roots = np.zeros((*X.shape[:2], 1))
        return self.blocks.transform(roots)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        return self.blocks.source_channels_after(source_channels)

    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        """Divide the contribution of each block of frequencies by its energy over time.

        The energy at a time is the squared envelope, summed over channels in their own units. A
        cosine bell weighs the frequencies that are seen around the block. A block without energy
        has equal contributions.
        """
        length = x.shape[1]
        spectrum = np.fft.rfft(SignalScale().transform(x[None])[0], axis=1)
        blocks = (np.arange(spectrum.shape[1]) - 1) // self.block_length
        is_frequency = blocks >= 0  # `rfft` returns the mean first
        distances = np.abs(blocks - np.arange(contributions.shape[-1])[:, None])
        inside = (distances <= reach) & is_frequency
        bell = np.where(inside, 1 + np.cos(np.pi * distances / (reach + 1)), 0.0)
        # Without negative frequencies the magnitude over time is the envelope.
        envelopes = (np.abs(np.fft.ifft(bell * channel, length, axis=1)) for channel in spectrum)
        energy = sum((envelope**2 for envelope in envelopes), np.zeros(1))
        sums = energy.sum(axis=1, keepdims=True)
        has_energy = sums > ROUNDING**2 * sums.sum()
        parts = np.divide(energy, sums, out=np.full(energy.shape, 1.0 / length), where=has_energy)
        return np.asarray(contributions @ parts)


class Scale(NamedTuple):
    """What a step subtracts from signals, and by what it divides the difference.

    Each is one number, or has one for each channel, or for each time point of each channel.
    """

    subtracted: np.ndarray
    divisor: np.ndarray
    """It is 0 where all training signals have one value."""
    size: np.ndarray
    """The size of the training signals' values; rounding errors are at most `ROUNDING` of it."""


@dataclass(frozen=True)
class ChannelScale(LengthKeepingStep):
    """Give each channel mean 0 and deviation 1 over all signals; constant ones become 0.

    No channel is divided by less than `least_ratio` times the largest deviation, so that the noise
    of weak channels is not magnified. If a channel is constant in `fit`, differences from its value
    that may be rounding errors become 0, and others keep their unit.
    """

    least_ratio: float = 0.0
    subtracted: float | np.ndarray = field(default=0.0, compare=False, kw_only=True)
    divisor: float | np.ndarray = field(default=1.0, compare=False, kw_only=True)
    rounding: float | np.ndarray = field(default=0.0, compare=False, kw_only=True)
    """The largest difference that counts as a rounding error."""
    stage = "the scale of channels"
    reach = 0
    depends_on_levels = True

    def fit(self, X: Signals, weights: np.ndarray) -> Self:
        scale = self.scale_of(X, weights)
        is_constant = scale.divisor <= 0
        return replace(
            self,
            subtracted=scale.subtracted,
            divisor=np.where(is_constant, 1.0, scale.divisor),
            rounding=np.where(is_constant, ROUNDING * scale.size, 0.0),
        )

    def transform(self, X: np.ndarray) -> np.ndarray:
        centred = X - self.subtracted
        if np.any(self.rounding):
            centred = np.where(np.abs(centred) <= self.rounding, 0.0, centred)
        return np.asarray(centred / self.divisor)

    def scale_of(self, X: Signals, weights: np.ndarray) -> Scale:
        """Return the scale of training signals X with weights, (n_cases,)."""
        mean, deviation, root_mean_square = moments(X, weights)
        divisor = np.maximum(deviation, self.least_ratio * deviation.max())
        return Scale(mean[:, None], divisor[:, None], root_mean_square[:, None])


@dataclass(frozen=True)
class CommonScale(ChannelScale):
    """Divide all channels by their common root mean square; no mean is subtracted."""

    def scale_of(self, X: Signals, weights: np.ndarray) -> Scale:
        size = np.sqrt(np.mean(moments(X, weights).root_mean_square ** 2))
        return Scale(np.zeros(()), size, size)


@dataclass(frozen=True)
class StatisticsScale(ChannelScale):
    """Divide each channel of `Statistics` by its root mean square; no mean is subtracted.

    No channel is divided by less than `least_ratio` times the largest root mean square of the same
    statistic.
    """

    def scale_of(self, X: Signals, weights: np.ndarray) -> Scale:
        sizes = moments(X, weights).root_mean_square.reshape(len(Statistics.NAMES), -1)
        # Smaller sizes are rounding errors of constant channels.
        large = sizes > ROUNDING * sizes.max(axis=0)
        least = self.least_ratio * sizes.max(axis=1, keepdims=True)
        divisor = np.maximum(np.where(large, sizes, 0.0), least)
        largest = np.broadcast_to(sizes.max(axis=0), sizes.shape)
        return Scale(np.zeros(()), divisor.reshape(-1, 1), largest.reshape(-1, 1))


@dataclass(frozen=True)
class PointScale(ChannelScale):
    """Give each time point of each channel mean 0 and deviation 1 over all signals.

    No point is divided by less than `least_ratio` times the root mean square of the deviations of
    its channel's points.
    """

    least_ratio: float = 0.1
    stage = "the scale of time points"
    reason_against_lists = "signals of different lengths have no time points in common"

    def scale_of(self, X: Signals, weights: np.ndarray) -> Scale:
        X = np.asarray(X)
        points = moments(X.reshape(len(X), -1, 1), weights)  # each point as a channel
        mean, deviation = (part.reshape(X.shape[1:]) for part in (points.mean, points.deviation))
        sizes = np.broadcast_to(np.abs(mean).max(axis=1, keepdims=True), mean.shape)
        deviation = np.where(deviation > ROUNDING * sizes, deviation, 0.0)
        least = self.least_ratio * np.sqrt(np.mean(deviation**2, axis=1, keepdims=True))
        return Scale(mean, np.maximum(deviation, least), sizes)


@dataclass(frozen=True)
class Differences(LengthKeepingStep):
    """Add central differences, which have the deviation of their channel, as channels.

    With `only` they take the place of the channels.
    """

    only: bool = False
    factor: float | np.ndarray = field(default=1.0, compare=False)
    """By what the differences of each channel are multiplied; 0 for a channel without any."""
    stage = "differences"
    reach = 1

    @property
    def depends_on_levels(self) -> bool:
        """False with `only`: differences lose the levels of channels."""
        return not self.only

    @property
    def reason_against_one_point(self) -> str:
        """With `only`, signals of a single point would have no channel left."""
        return "one point has no differences" if self.only else ""

    def fit(self, X: Signals, weights: np.ndarray) -> Self:
        slopes = moments(map_signals(self.central_differences, X), weights).deviation
        channels = moments(X, weights)
        has_slopes = slopes > ROUNDING * channels.root_mean_square
        factor = np.divide(channels.deviation, slopes, out=np.zeros(slopes.shape), where=has_slopes)
        return replace(self, factor=factor[:, None])

    def transform(self, X: np.ndarray) -> np.ndarray:
        slopes = self.central_differences(X) * self.factor
        return slopes if self.only else np.concatenate([X, slopes], axis=1)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        return source_channels if self.only else np.tile(source_channels, 2)

    def central_differences(self, X: np.ndarray) -> np.ndarray:
        """Return central differences along time, one-sided at the ends; 0 for a single point."""
        return np.gradient(X, axis=2) if X.shape[2] > 1 else np.zeros(X.shape)


@dataclass(frozen=True)
class ConstantChannel(LengthKeepingStep):
    """Add a constant channel, whose value is the root mean square of all others."""

    value: float = field(default=1.0, compare=False)
    stage = "a constant channel"
    reach = 0
    depends_on_levels = True

    def fit(self, X: Signals, weights: np.ndarray) -> Self:
        value = float(np.sqrt(np.mean(moments(X, weights).root_mean_square ** 2)))
        return replace(self, value=value or 1.0)

    def transform(self, X: np.ndarray) -> np.ndarray:
        n, _, length = X.shape
        return np.concatenate([X, np.full((n, 1, length), self.value)], axis=1)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        return np.append(source_channels, -1)


@dataclass(frozen=True)
class ConstantAndTime(ConstantChannel):
    """Add a constant channel, and two channels with the relative time on a half circle.

    The radius of the circle is `radius_factor` times the square root of the sum of the mean squares
    of all channels before the step.
    """

    radius_factor: float = field(kw_only=True)
    radius: float = field(default=1.0, compare=False)

    def fit(self, X: Signals, weights: np.ndarray) -> Self:
        fitted = super().fit(X, weights)
        radius = self.radius_factor * fitted.value * np.sqrt(len(X[0]))
        return replace(fitted, radius=radius)

    def transform(self, X: np.ndarray) -> np.ndarray:
        n, _, length = X.shape
        angle = np.pi * np.arange(length) / length
        circle = self.radius * np.stack([np.cos(angle), np.sin(angle)])
        times = np.broadcast_to(circle, (n, 2, length))
        return np.concatenate([super().transform(X), times], axis=1)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        return np.append(source_channels, [-1, -1, -1])


class Moments(NamedTuple):
    """Moments of each channel, (n_channels,) each, over time points of weighted signals."""

    mean: np.ndarray
    deviation: np.ndarray
    """The root mean square difference from the mean; 0 for a constant channel."""
    root_mean_square: np.ndarray


def moments(X: Signals, weights: np.ndarray) -> Moments:
    """Return the moments of signals; their weights, (n_cases,), are those of all their points."""
    points, weights = np.concatenate(list(X), axis=1), weights.repeat([x.shape[1] for x in X])
    weights = weights / weights.sum()
    mean = points @ weights
    mean = mean + (points - mean[:, None]) @ weights  # the first sum errs by a unit a point
    deviation = np.sqrt((points - mean[:, None]) ** 2 @ weights)
    deviation = np.where(deviation > ROUNDING * np.abs(points).max(axis=1), deviation, 0.0)
    return Moments(mean, deviation, np.sqrt(points**2 @ weights))
