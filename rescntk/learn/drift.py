"""Drift: what the signals of fit had in common, and how new signals differ from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..progress import warn
from .views import Signals, constant_channels, moderate_exponent

_BATCH = 20
"""Least signals of a batch that is judged as a whole, and least training signals that tell what is
usual. Raising it warns of larger batches only. Chosen: one of 20 signals is beyond the line, and
the median of 20 signals like the training signals hardly ever."""

_LEAST_SPREAD = 0.1
"""Least spread of a channel's levels, in units of its deviation over signals and time. Raising it
lets levels move farther before passes step back. Measured (classification_tried.md): 0.05 to 0.2
are alike; without it, noise moves levels of signals that are all centred."""

_FARTHEST = 1e6
"""Largest distance of levels, in units of the usual one. Raising it lets weights underflow, and
changes no other result. Chosen: its eighth power is far from the ends of float64."""

_ERRORS = 4.0
"""Standard errors above which a difference is named. Raising it names fewer channels. Chosen: by
chance one channel of 8000 is named."""

_SHIFT = 0.2
"""Least shift of a channel's level that is named, in units of its deviation over signals and time.
Raising it names fewer channels. Chosen: a third of the drift that costs accuracy in the guide."""

_GAIN = 1.25
"""Least ratio of deviations within signals, or its inverse, that is named as another gain. Raising
it names fewer channels. Chosen, not measured."""

_NAMED = 8
"""Most channels that a message names. Raising it makes longer messages. Chosen, not measured."""


class DriftWarning(UserWarning):
    """Warning that signals to predict are unlike the signals of `fit`."""


class Channels(NamedTuple):
    """Levels and sizes of the channels of some signals, (n_channels,) each.

    A signal's level is its mean, and its size the standard deviation from its level.
    """

    level: np.ndarray
    """Mean over signals."""
    level_error: np.ndarray
    """Its standard error."""
    size: np.ndarray
    """Mean logarithm to base 2 over signals that are not constant; nan if all are."""
    size_error: np.ndarray
    """Its standard error."""
    deviation: np.ndarray
    """Standard deviation over signals and time."""
    constant: np.ndarray
    """Number of signals that are constant."""


class Drift(NamedTuple):
    """Differences of channels between given and training signals, (n_channels,) each."""

    offsets: np.ndarray
    """Level less the training signals', in their deviations; infinite where these are 0."""
    gains: np.ndarray
    """Size divided by the training signals'; nan where these are 0; 0 where all are constant."""
    moved: np.ndarray
    """Whether the offset exceeds .2 and four standard errors."""
    scaled: np.ndarray
    """Whether the gain, or its inverse, exceeds 1.25 and four standard errors."""
    dead: np.ndarray
    """Number of signals that are constant, where no training signal is; else 0."""


@dataclass(frozen=True)
class UsualSignals:
    """Levels, gains and novelty of the training signals; made by `usual_signals`."""

    exponent: int
    """Of the power of two by which signals are divided: squares of their numbers are finite."""
    channels: Channels
    spread: np.ndarray
    """Standard deviation of the channels' levels between signals, at least a tenth of their
    deviation over signals and time, (n_channels,)."""
    farthest: float
    """Distance of levels from their mean, in spreads, that one of twenty training signals exceeds
    when it is left out: the root mean square over channels, at least 1."""
    line: float = float("inf")
    """Novelty that one of twenty training signals exceeds when it is left out."""

    def distances(self, X: Signals) -> np.ndarray:
        """Return the distances of levels from their mean, in units of `farthest`, (n_cases,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            shifts = _levels(X, self.exponent) - self.channels.level
            return np.fmin(_distances(shifts, self.spread) / self.farthest, _FARTHEST)

    def distance_slopes(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return derivatives by signals X from derivatives by their `distances`, (n_cases,)."""
        distances = self.distances(X)
        factors = slopes / np.where(distances > 0, distances, np.inf) / self.farthest**2
        shifts = factors[:, None] * (_levels(X, self.exponent) - self.channels.level)
        by_level = _in_units(shifts, self.spread**2) / X[0].size
        axes = tuple(range(2, X.ndim))
        return np.broadcast_to(np.expand_dims(np.ldexp(by_level, -self.exponent), axes), X.shape)

    def compare(self, X: Signals) -> Drift:
        """Return the drift of signals X."""
        old, new = self.channels, _measure(X, self.exponent)
        shift, growth = new.level - old.level, new.size - old.size
        alive = (new.constant < len(X)) | np.isnan(old.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            offsets = shift / old.deviation
            moved = np.abs(shift) > _ERRORS * np.hypot(old.level_error, new.level_error)
            scaled = np.abs(growth) > _ERRORS * np.hypot(old.size_error, new.size_error)
            return Drift(
                offsets,
                np.where(alive, 2.0**growth, 0.0),
                alive & moved & (np.abs(offsets) >= _SHIFT),
                scaled & (np.abs(growth) >= np.log2(_GAIN)),
                np.where(old.constant == 0, new.constant, 0),
            )

    def warn(self, X: Signals, novelties: np.ndarray, names: Sequence[str] | None = None) -> None:
        """Warn of dead channels, and of a batch of 20 signals or more that has drifted.

        `names` are the channels' names; numbers take their place.
        """
        names = names or [str(channel) for channel in range(len(self.spread))]
        dead = np.where(self.channels.constant == 0, constant_channels(X).sum(axis=0), 0)
        messages = [
            f"channel {name} is constant in {count} of {len(X)} signals, and was not in fit"
            for name, count in zip(names, dead.tolist(), strict=True)
            if count
        ]
        typical, distance = float(np.median(novelties)), float(np.median(self.distances(X)))
        if len(X) >= _BATCH and (typical > self.line or distance > 1):
            drift = self.compare(X)
            causes = []
            for what, named, values, form in (
                ("levels moved, in deviations", drift.moved, drift.offsets, "+.2g"),
                ("gains changed, by the factors", drift.scaled, drift.gains, ".2g"),
            ):
                places = np.flatnonzero(named)
                parts = [f"{values[c]:{form}} in channel {names[c]}" for c in places[:_NAMED]]
                more = f" and {len(places) - _NAMED} more" * (len(places) > _NAMED)
                causes += [f"{what}: {', '.join(parts)}{more}"] * bool(parts)
            usual = "95 % of the training signals"
            half = f"median distance from the mean level {distance:.2g} times that of {usual}"
            if typical > self.line:
                half = f"median novelty {typical:.2g}; {usual} had less than {self.line:.2g}"
            messages.append(
                f"the {len(X)} signals are unlike the signals of fit: {half} "
                f"({'; '.join(causes) or 'neither levels nor gains changed'})"
            )
        if messages:
            text = "; ".join(messages) + '; the guide\'s page "When signals drift" has remedies'
            warn(text, DriftWarning)


def usual_signals(
    X: Signals, weights: np.ndarray, groups: np.ndarray | None = None
) -> tuple[UsualSignals, np.ndarray]:
    """Return what is usual for signals X but the `line`, and the `distances` of signals left out.

    With `groups`, whole groups are left out.
    """
    exponent = moderate_exponent(X)
    channels = _measure(X, exponent)
    shifts = _levels(X, exponent) - channels.level
    least = (_LEAST_SPREAD * channels.deviation) ** 2
    group_of = np.arange(len(X)) if groups is None else groups
    powers = np.hstack([shifts, shifts**2])
    sums = np.zeros((group_of.max() + 1, powers.shape[1]))
    np.add.at(sums, group_of, powers)
    sizes = np.bincount(group_of)[group_of]
    without_group = (powers.sum(axis=0) - sums[group_of]) / (len(X) - sizes)[:, None]
    mean, squares = np.split(without_group, 2, axis=1)
    spreads = np.sqrt(np.maximum(squares - mean**2, 0.0) + least)
    left_out = _distances(shifts - mean, spreads)
    farthest = max(1.0, usual_line(left_out, weights))
    spread = np.sqrt((shifts**2).mean(axis=0) + least)
    return UsualSignals(exponent, channels, spread, farthest), left_out / farthest


def usual_line(novelties: np.ndarray, weights: np.ndarray) -> float:
    """Return the .95 quantile of novelties; a case of weight 2 counts as two equal cases.

    Fewer than 20 novelties do not tell what is usual: the line is infinite.
    """
    if len(novelties) < _BATCH:
        return float("inf")
    return float(np.quantile(novelties, 0.95, weights=weights, method="inverted_cdf"))


def _distances(shifts: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return root mean squares over channels of levels in spreads, (n_cases,)."""
    return np.sqrt((_in_units(shifts, spread) ** 2).mean(axis=1))


def _in_units(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return values by their units, and 0 where a unit is 0."""
    return np.divide(values, units, out=np.zeros_like(values), where=units > 0)


def _levels(X: Signals, exponent: int) -> np.ndarray:
    """Return means over time of signals divided by two to the power `exponent`."""
    return np.array([np.ldexp(x, -exponent).reshape(len(x), -1).mean(axis=1) for x in X])


def _measure(X: Signals, exponent: int) -> Channels:
    """Return levels and sizes of signals that are divided by two to the power `exponent`."""
    unit = moderate_exponent(X)  # signals may be far larger than in fit
    points, more = [np.ldexp(x.reshape(len(x), -1), -unit) for x in X], unit - exponent
    constant = constant_channels(X)
    levels = _levels(X, unit)
    sizes = np.where(constant, 0.0, [x.std(axis=1) for x in points])
    total = np.sqrt((sizes**2).mean(axis=0) + levels.var(axis=0))
    logs, error = _mean_and_error(np.log2(np.where(sizes > 0, sizes, np.nan)))
    with np.errstate(over="ignore"):
        level, of_level, total = (np.ldexp(x, more) for x in (*_mean_and_error(levels), total))
    return Channels(level, of_level, logs + more, error, total, constant.sum(axis=0))


def _mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each column, (n_channels,), and its standard error; nan is left out."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=0) / count
        squares = np.where(known, values - mean, 0.0) ** 2
        return mean, np.sqrt(squares.sum(axis=0) / np.maximum(count - 1, 1) / count)
