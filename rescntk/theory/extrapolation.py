r"""Sequences over depth, taken to infinite depth, with an uncertainty that can be trusted.

A quantity that converges along depth, :math:`v(L) = v_\infty + a L^{-p} + \dots`, is free of
chance: what is wrong with a fit of its first term is bias, from all the other terms, and the
residuals of the fit tell nothing of that. So the first term is taken away *exactly*, by the
curve through three neighbouring depths, then the next one from what is left, and so on; how
much such a step still changes is the uncertainty.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

LEAST_DEPTHS = 6
"""Depths that a fit needs: five slopes, three curves through them, the last two compared."""

# After a step is left at most what the step took away, and of a logarithmic correction, 1/log L,
# just as much; the second factor is for corrections of two kinds that nearly cancel.
_SAFETY = 2.0
_MOST_STEPS = 3
# Values that do not approach each other are known to so many times their range.
_RANGES = 4.0
# Exponents that are told apart from 0, and from infinity.
_FLATTEST, _STEEPEST = 1e-6, 40.0
# Uncertainties are estimates, too: what is so many times as large as its own is not 0.
_CERTAIN = 3.0
# A remainder that may be more than so many times the last value is not known at all.
_VAGUE = 3.0
# Where exponents of neighbouring curves grow by more than this, the sequence is at a turn.
_TURN = 1.25
# Values that exceed their rounding error by less tell nothing about an exponent.
_ABOVE_NOISE = 30.0


class Estimate(NamedTuple):
    """A number, and how far off it may be (infinity: nobody knows)."""

    value: float
    uncertainty: float

    def __str__(self) -> str:
        value, uncertainty = self
        if not math.isfinite(value) or not math.isfinite(uncertainty):
            return "unknown"
        if uncertainty == 0:
            return f"{value:.6g}"
        digits = 1 - math.floor(math.log10(uncertainty))
        if 0 <= digits <= 6 and abs(value) < 1e4:
            return f"{value:.{digits}f} ± {uncertainty:.{digits}f}"
        shown = math.floor(math.log10(abs(value) / uncertainty)) + 2 if value else 1
        return f"{value:.{min(max(shown, 1), 12)}g} ± {uncertainty:.1e}"

    def admits(self, value: float, slack: float = 0.0) -> bool:
        """Return whether it may be `value`: no further off than the uncertainty, or `slack`."""
        return bool(abs(self.value - value) <= max(self.uncertainty, slack))

    def exceeds(self, value: float) -> bool:
        """Return whether it is more than `value` by more than the uncertainty."""
        return bool(self.value - self.uncertainty > value)


UNKNOWN = Estimate(math.nan, math.inf)


class Decay(NamedTuple):
    """How a sequence of numbers over depth, none of them negative, goes on."""

    exponent: Estimate
    """p, where the numbers fall as L^-p (log L)^k."""
    remainder: Estimate
    """Where they tend to."""
    constant: Estimate
    """Of L^-p (log L)^k, for the exponent that was expected."""
    vanished: bool
    """Whether the deepest are rounding errors."""
    scale: float
    """The last of them that is not, what a remainder is to be compared with."""
    fallen: float = 1.0
    """How many times the largest is as much."""

    def vanishes(self, share: float, fall: float = 1.0) -> bool:
        """Return whether they tend to 0: they fall, and what is left at the end may be nothing.

        What is left is to be known to `share` of the last value, and that to be the largest one
        over `fall` or less: a slow decay seen over a small part of its way is not followed to 0.
        """
        resolved = self.remainder.uncertainty <= share * self.scale and self.fallen >= fall
        falls = self.exponent.exceeds(0.0) and resolved and self.remainder.admits(0.0)
        return self.vanished or falls

    @property
    def stays(self) -> bool:
        """Whether they tend to something that is not 0."""
        rest = self.remainder
        return not self.vanished and rest.value > _CERTAIN * rest.uncertainty


def decay(
    depths: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    log_power: int = 0,
    expected: float | None = None,
) -> Decay:
    """Fit how a sequence over depth decays.

    Parameters
    ----------
    depths : ndarray, (n,)
        Increasing.
    values, noise : ndarray, (n,)
        Not negative, and their rounding errors.
    log_power : {0, 1}
        Whether the power of depth comes with a factor (a log L + C) or a constant.
    expected : float, optional
        The exponent for which `Decay.constant` is fitted.

    Returns
    -------
    Decay
    """
    depths, values, noise = (np.asarray(a, dtype=np.float64) for a in (depths, values, noise))
    loud = np.flatnonzero(values > _ABOVE_NOISE * noise)
    end = loud[-1] + 1 if len(loud) else 0
    vanished = end < len(depths)
    depths, values, noise = depths[:end], values[:end], noise[:end]
    if end < LEAST_DEPTHS or (values == 0).any():
        rest = Estimate(0.0, float(noise[-1])) if vanished and end else Estimate(0.0, 0.0)
        return Decay(UNKNOWN, rest if vanished else UNKNOWN, UNKNOWN, vanished, 0.0)
    logs, relative = np.log(depths), noise / values
    if log_power:
        at = depths[2:]
        slopes = np.array(
            [_log_exponent(logs[i : i + 3], values[i : i + 3]) for i in range(end - 2)]
        )
    else:
        at = np.sqrt(depths[1:] * depths[:-1])
        slopes = -np.diff(np.log(values)) / np.diff(logs)
    shake = 2.0 * relative[-len(slopes) :] / np.diff(logs)[-len(slopes) :]
    exponent = settle(at, slopes, shake)
    exponent = exponent if math.isfinite(exponent.uncertainty) else _range(slopes)
    constant = UNKNOWN
    if expected is not None:
        scaled = values * depths**expected
        if log_power:
            ratio = np.diff(scaled) / np.diff(logs)
            constant = settle(at, ratio[1:], scaled[2:] * shake)
            constant = constant if math.isfinite(constant.uncertainty) else _range(ratio)
        else:
            constant = settle(depths, scaled, scaled * relative)
    remainder = Estimate(0.0, float(noise[-1])) if vanished else settle(depths, values, noise)
    if remainder.uncertainty > _VAGUE * values[-1]:
        # Not yet where the first terms tell the rest: then neither do the slopes.
        exponent = constant = UNKNOWN
    fallen = float(values.max() / values[-1])
    return Decay(exponent, remainder, constant, vanished, float(values[-1]), fallen)


def _range(values: np.ndarray) -> Estimate:
    """Return the last of some values that do not approach each other, give or take their range."""
    if not np.isfinite(values[-3:]).all():
        return UNKNOWN
    return Estimate(float(values[-1]), _RANGES * float(np.ptp(values[-3:])))


def settle(depths: np.ndarray, values: np.ndarray, noise: np.ndarray) -> Estimate:
    """Return where a sequence over depth tends to.

    Parameters
    ----------
    depths : ndarray, (n,)
        Increasing.
    values, noise : ndarray, (n,)
        The sequence and its rounding errors.

    Returns
    -------
    Estimate
        Of infinite uncertainty where neighbouring values do not approach each other, or do it
        more slowly than any power of depth.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory.extrapolation import settle
    >>> depths = 2.0 ** np.arange(3, 13)
    >>> limit = settle(depths, 0.25 + depths**-0.5 - 3 / depths, np.full(10, 1e-16))
    >>> print(limit)
    0.2494 ± 0.0048
    """
    logs = np.log(depths)
    best = Estimate(float(values[-1]), math.inf)
    for _ in range(_MOST_STEPS):
        further, exponents = _accelerate(logs, values, noise)
        if len(further) < 2 or not np.isfinite(further[-2:]).all():
            break
        if exponents[-1] > _TURN * exponents[-2]:
            break
        # A change may happen to be small where it changes its sign: the one before tells, too.
        before, change = np.abs(further[-2:] - values[-2:])
        drift = abs(further[-1] - further[-2])
        uncertainty = float(_SAFETY * max(change, 0.5 * before) + drift + noise[-1])
        # What is left falls with exponents above p. Two such terms may cancel in a difference,
        # (1 − 2^-p) of a term where depths double; in that of the differences they do not.
        fade = -math.expm1(-exponents[-3:].min() * (logs[-1] - logs[-2]))
        if len(further) > 2 and fade > 0:
            wander = float(np.ptp(further[-3:]) / fade**2 + noise[-1])
            uncertainty = min(uncertainty, _SAFETY * wander)
        if uncertainty < best.uncertainty:
            best = Estimate(float(further[-1]), uncertainty)
        # On with the last run of curves that exist; a step triples rounding errors, about.
        broken = np.flatnonzero(~np.isfinite(further))
        start = broken[-1] + 1 if len(broken) else 0
        values, logs, noise = further[start:], logs[2 + start :], 3.0 * noise[2 + start :]
    return best


def _accelerate(
    logs: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return c and p of the curves c + a·L^-p, p > 0, through three neighbours each, or NaN.

    With steps h, k of log L and r the ratio of the two differences of values, p solves
    (1 − exp(−pk))/(exp(ph) − 1) = r; the left side falls from k/h to 0.
    """
    limits, exponents = np.full((2, max(len(values) - 2, 0)), np.nan)
    for i in range(len(limits)):
        h, k = np.diff(logs[i : i + 3])
        first, second = np.diff(values[i : i + 3])
        if abs(second) <= noise[i + 1] + noise[i + 2]:
            limits[i] = values[i + 2]  # and p is anything
            continue
        r = second / first if first else math.inf

        def surplus(p: float, h: float = h, k: float = k, r: float = r) -> float:
            return -math.expm1(-p * k) / math.expm1(p * h) - r

        if r <= 0 or surplus(_FLATTEST) <= 0:
            continue
        p = brentq(surplus, _FLATTEST, _STEEPEST) if surplus(_STEEPEST) < 0 else _STEEPEST
        limits[i], exponents[i] = values[i + 2] + second / math.expm1(p * k), p
    return limits, exponents


def _log_exponent(logs: np.ndarray, values: np.ndarray) -> float:
    """Return the p for which the three values are (a log L + C) L^-p, or NaN.

    Values times L^p are on a line over log L: a sum of three exponentials in p vanishes, with
    signs +, −, +. Of its two zeros the upper one is p; the other belongs to a line that bends
    back.
    """
    h, k = np.diff(logs)
    low, high = values[0] / (values[1] * h), values[2] / (values[1] * k)

    def bend(p: float) -> float:
        return low * math.exp(-p * h) + high * math.exp(p * k) - (1.0 / h + 1.0 / k)

    turn = math.log(low * h / (high * k)) / (h + k)
    if bend(turn) >= 0:
        return math.nan
    return float(brentq(bend, turn, turn + 20.0 / min(h, k)))
