"""A view of signals of known lengths: its steps, before and after their fit, and its kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..reading.signals import Signals, as_arrays, map_signals
from .kernels import ViewKernel
from .steps import Step


@dataclass(frozen=True)
class _Pipeline:
    """Steps that signals go through, and the kernel of the result."""

    kernel: ViewKernel
    n_points: int
    """Number of points of the longest signal after the steps."""
    steps: tuple[Step, ...]

    @property
    def work(self) -> int:
        """Pixel pairs of two signals, times layers."""
        return self.kernel.work(self.n_points)

    @property
    def depends_on_levels(self) -> bool:
        """True if a constant, added to a channel of a signal, changes what the network sees."""
        return all(step.depends_on_levels for step in self.steps)


class ViewPipeline(_Pipeline):
    """The steps that signals of known lengths are to go through, before they are fitted."""

    def fit_and_transform(self, X: Signals, weights: np.ndarray) -> tuple[FittedPipeline, Signals]:
        """Return the pipeline fitted to signals X with weights, (n_cases,); and X after its steps.

        The squares of X are in float64.
        """
        steps: list[Step] = []
        for step in self.steps:
            steps.append(step.fit(X, weights))
            X = map_signals(steps[-1].transform, X)
        return FittedPipeline(self.kernel, self.n_points, tuple(steps)), X


class FittedPipeline(_Pipeline):
    """Steps that were fitted to training signals, with their means and scales."""

    def transform(self, X: Signals) -> Signals:
        """Return signals as the kernel sees them."""
        with np.errstate(over="ignore", invalid="ignore"):
            for step in self.steps:
                X = map_signals(step.transform, X)
        largest = self.kernel.largest_magnitude
        if not all((np.isfinite(x) & (np.abs(x) <= largest)).all() for x in as_arrays(X)):
            raise ValueError("X has values above float64 in units of fit, expected smaller ones")
        return X

    def source_channels(self, n_channels: int) -> np.ndarray:
        """Return the channel of the signal from which each one of `separated` comes; −1 is none."""
        source_channels = np.arange(n_channels)
        for step in self.steps:
            source_channels = step.source_channels_after(source_channels)
        return source_channels

    def separated(self, seen: Signals) -> Signals:
        """Return what the kernel sees, with channels that come from one channel each, or from none.

        Inner products of points are as before.
        """
        for step in self.steps:
            seen = map_signals(step.separated, seen)
        return seen

    def to_time(self, contributions: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return contributions of the time points of x from those of the points that are seen.

        They are (…, n_timepoints) and (…, n_points). x is a signal, (n_channels, n_timepoints).
        """
        signals_before = [x[None]]
        for step in self.steps[:-1]:
            signals_before.append(step.transform(signals_before[-1]))
        reach = self.kernel.reach
        for step, signal in zip(reversed(self.steps), reversed(signals_before), strict=True):
            contributions = step.contributions_before(contributions, signal[0], reach)
            reach = step.reach_before(reach)
        return contributions
