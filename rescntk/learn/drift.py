"""Drift: what the signals of fit had in common, and how a batch of new signals differs from it."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .channels import levels_and_sizes
from .views import Signals, constant_channels, moderate_exponent

_BATCH = 20
"""Least signals of a batch that is judged as a whole, and least training signals that tell what is
usual. Raising it warns of larger batches only. Chosen: one of 20 signals is beyond the line, and
the median of 20 signals like the training signals hardly ever."""

_SHIFT = 0.2
"""Least shift of a channel's level that is named, in units of its deviation over signals and time.
Raising it names fewer channels. Chosen: a third of the drift that costs accuracy in the guide."""

_GAIN = 1.25
"""Least ratio of deviations within signals, or its inverse, that is named as another gain. Raising
it names fewer channels. Chosen, not measured."""

_NAMED = 8
"""Most channels that a message names. Raising it makes longer messages. Chosen, not measured."""

_PACKAGE = str(Path(__file__).parents[1])


class DriftWarning(UserWarning):
    """Warning that signals to predict are unlike the signals of `fit`."""


@dataclass(frozen=True)
class UsualSignals:
    """Usual numbers of the training signals' channels; made by `usual_signals`."""

    exponent: int
    """Of the power of two by which signals are divided: squares of their numbers are finite."""
    level: np.ndarray
    """Median over signals of their means, (n_channels,)."""
    gain: np.ndarray
    """Median over signals of their standard deviations, (n_channels,)."""
    deviation: np.ndarray
    """Standard deviation over signals and time, (n_channels,)."""
    varies: np.ndarray
    """Whether no training signal is constant in the channel, (n_channels,)."""
    line: float
    """Novelty that one of twenty training signals exceeds when it is left out."""

    def warn(self, X: Signals, novelties: np.ndarray) -> None:
        """Warn of dead channels, and of a batch of 20 signals or more that has drifted."""
        dead = constant_channels(X) & self.varies
        messages = [
            f"channel {channel} is constant in {count} of {len(X)} signals, and was not in fit"
            for channel, count in enumerate(dead.sum(axis=0).tolist())
            if count
        ]
        typical = float(np.median(novelties))
        if len(X) >= _BATCH and typical > self.line:
            causes = self._causes(X, dead.any(axis=0)) or ["neither levels nor gains changed"]
            messages.append(
                f"the {len(X)} signals are unlike the signals of fit: half of them have a novelty "
                f"above {typical:.2g}, where 95 % of the training signals, left out, are below "
                f"{self.line:.2g} ({'; '.join([*causes])})"
            )
        if messages:
            text = "; ".join(messages) + '; the guide\'s page "When signals drift" has remedies'
            warnings.warn(text, DriftWarning, stacklevel=_stack_level())

    def _causes(self, X: Signals, dead: np.ndarray) -> list[str]:
        """Return which channels' levels and gains changed, in words."""
        level, gain, _ = _measure(X, self.exponent)
        unit = np.where(self.deviation > 0, self.deviation, 1.0)
        shifts = np.where(dead, 0.0, (level - self.level) / unit)
        usual = np.where(self.gain > 0, self.gain, 1.0)
        ratios = np.where((self.gain > 0) & ~dead, gain / usual, 1.0)
        moved = np.flatnonzero(abs(shifts) >= _SHIFT)
        other = np.flatnonzero((ratios >= _GAIN) | (ratios <= 1 / _GAIN))
        parts = []
        if len(moved):
            each = [f"{shifts[c]:+.2g} in channel {c}" for c in moved[:_NAMED]]
            parts.append(f"levels moved, in deviations: {_listed(each, len(moved))}")
        if len(other):
            each = [f"{ratios[c]:.2g} in channel {c}" for c in other[:_NAMED]]
            parts.append(f"gains changed, by the factors: {_listed(each, len(other))}")
        return parts


def usual_signals(X: Signals, novelties: np.ndarray, weights: np.ndarray) -> UsualSignals:
    """Return what is usual for signals X, from novelties of some of them, left out, and weights."""
    exponent = moderate_exponent(X)
    level, gain, deviation = _measure(X, exponent)
    return UsualSignals(
        exponent,
        level,
        gain,
        deviation,
        constant_channels(X).sum(axis=0) == 0,
        usual_line(novelties, weights),
    )


def usual_line(novelties: np.ndarray, weights: np.ndarray) -> float:
    """Return the .95 quantile of novelties; a case of weight 2 counts as two equal cases.

    Fewer than 20 novelties do not tell what is usual: the line is infinite.
    """
    if len(novelties) < _BATCH:
        return float("inf")
    return float(np.quantile(novelties, 0.95, weights=weights, method="inverted_cdf"))


def _measure(X: Signals, exponent: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each channel's usual mean, usual deviation, and deviation over all signals.

    Signals are divided by two to the power `exponent`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # signals far larger than in fit
        means, deviations = levels_and_sizes(X, exponent)
        total = np.sqrt((deviations**2).mean(axis=0) + means.var(axis=0))
    return np.median(means, axis=0), np.median(deviations, axis=0), total


def _listed(names: list[str], count: int) -> str:
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(names) + more


def _stack_level() -> int:
    """Return the level of the first caller outside of this package, for `warnings.warn`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
