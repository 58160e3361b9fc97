r"""Extrapolation of sequences over depth to infinite depth, with uncertainties.

A sequence :math:`v(L) = v_\infty + a L^{-p} + \dots` is free of chance. Its extrapolation errs
by the terms that a fit leaves out, and the residuals of the fit do not show these terms. So the
curve through three neighbouring depths removes the first term exactly, and the next term is
removed from the result in the same way. The change made by the last removal is the uncertainty.
The derivation is in docs/depth_limits.md, section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

LEAST_DEPTHS = 6
"""Fewest depths of a fit, a count: five slopes, three curves through them, two to compare.

Larger: short ladders are undecided. Sweep: of 422 ladders 9 become undecided with 7, and 1 is
decided more with 5."""

# The constants below were chosen by hand. "Sweep" is the measurement of docs/depth_limits.md,
# section 7: each constant alone was changed to 0.5 and to 1.5 times its value.

# Uncertainty of a limit, in units of the change made by the last removal. Larger: more ladders
# are undecided. 1 would do for corrections of one kind. Sweep: of 422 ladders 2 become undecided
# with 1.0, and 5 with 3.0; of 775 limits 2 are outside their uncertainty, 9 with 0.2.
_SAFETY_FACTOR = 2.0

# Most removals of a term, a count. Larger: more terms are removed, and rounding errors grow
# 3-fold. Sweep: 10 ladders become undecided with 2, and 56 with 1. 4 and 5 change no ladder.
_MOST_ACCELERATIONS = 3

# Uncertainty of a sequence that does not converge, in units of the range of its last three
# values. Larger: fewer rates are resolved. Sweep: 2.0 changes no ladder, 6.0 makes 2 undecided.
_RANGE_FACTOR = 4.0

# Least and largest exponent p that a curve through three values is given. Flatter curves have no
# limit; steeper curves end at their last value. Wider: no effect. Sweep: no ladder changes, not
# even with factors 0.1 and 10.
_LEAST_EXPONENT, _LARGEST_EXPONENT = 1e-6, 40.0

# Least remainder that counts as positive, in units of its uncertainty. Larger: fewer limits are
# found to be different ones. Sweep: no ladder changes, not even with factors 0.1 and 10.
_NONZERO_FACTOR = 3.0

# Largest uncertainty of a remainder beside which an exponent counts, in units of the last value.
# Larger: exponents are trusted earlier. Sweep: no ladder changes from 1.5 to 30; 3 become
# undecided with 0.75.
_MOST_VAGUE = 3.0

# Largest ratio of the exponents of neighbouring curves: above it a sequence is at a turn, and is
# not extrapolated. Sweep (of the excess above 1): 1.125 makes 6 ladders undecided; 1.375 and 1.875
# decide 2 more, rightly.
_MOST_EXPONENT_GROWTH = 1.25

# Least value that counts, in units of its rounding error: smaller values have no exponent. Larger:
# more of the deepest values are left out. Sweep: no ladder changes from 3 to 300.
_LEAST_SIGNAL_TO_NOISE = 30.0


class Estimate(NamedTuple):
    """A number with its uncertainty; infinity is an unknown uncertainty."""

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
        """Return whether `value` is within the uncertainty, or within `slack`."""
        return bool(abs(self.value - value) <= max(self.uncertainty, slack))

    def exceeds(self, value: float) -> bool:
        """Return whether the estimate less its uncertainty is above `value`."""
        return bool(self.value - self.uncertainty > value)


UNKNOWN = Estimate(math.nan, math.inf)


class PowerLaw(NamedTuple):
    r"""The fit of :math:`r + C L^{-p} (\log L)^k` to a non-negative sequence over depth."""

    exponent: Estimate
    """p."""
    remainder: Estimate
    """r, the limit of the sequence at infinite depth."""
    constant: Estimate
    """C, for the exponent that was expected."""
    vanished: bool
    """Whether the deepest numbers are rounding errors."""
    last_value: float
    """The deepest number that is no rounding error: the unit of the remainder."""
    fall_factor: float = 1.0
    """The largest number over the last one."""

    def tends_to_zero(self, share: float, fall: float = 1.0) -> bool:
        """Return whether the sequence falls to 0.

        Parameters
        ----------
        share : float
            Largest uncertainty of the remainder, as a share of `last_value`.
        fall : float, default 1.0
            Least `fall_factor`: over a smaller fall a slow decay is not followed to 0.
        """
        if self.vanished:
            return True
        resolved = self.remainder.uncertainty <= share * self.last_value
        falls = self.exponent.exceeds(0.0) and self.fall_factor >= fall
        return falls and resolved and self.remainder.admits(0.0)

    @property
    def stays_positive(self) -> bool:
        """Return whether the sequence tends to a positive number."""
        rest = self.remainder
        return not self.vanished and rest.value > _NONZERO_FACTOR * rest.uncertainty


NO_FIT = PowerLaw(UNKNOWN, UNKNOWN, UNKNOWN, vanished=False, last_value=math.nan)
"""The fit of a sequence that is not there: no prediction, no second pair."""


def fit_power_law(
    depths: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    log_power: int = 0,
    expected: float | None = None,
) -> PowerLaw:
    r"""Fit :math:`r + C L^{-p} (\log L)^k` to a sequence over depth.

    Parameters
    ----------
    depths : ndarray, (n,)
        Increasing.
    values, noise : ndarray, (n,)
        The sequence, not negative, and its rounding errors.
    log_power : {0, 1}, default 0
        k. For 1 the factor of :math:`L^{-p}` is :math:`a \log L + C`.
    expected : float, optional
        The exponent for which `PowerLaw.constant` is fitted.

    Returns
    -------
    PowerLaw

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory.extrapolation import fit_power_law
    >>> depths = 2.0 ** np.arange(3, 13)
    >>> fit = fit_power_law(depths, 1 / depths + depths**-2, 1e-16 / depths)
    >>> print(f"{fit.exponent.value:.6f}")
    1.000000
    """
    depths, values, noise = (np.asarray(a, dtype=np.float64) for a in (depths, values, noise))
    above_noise = np.flatnonzero(values > _LEAST_SIGNAL_TO_NOISE * noise)
    end = above_noise[-1] + 1 if len(above_noise) else 0
    vanished = end < len(depths)
    depths, values, noise = depths[:end], values[:end], noise[:end]
    if end < LEAST_DEPTHS or (values == 0).any():
        rest = Estimate(0.0, float(noise[-1])) if vanished and end else Estimate(0.0, 0.0)
        return PowerLaw(UNKNOWN, rest if vanished else UNKNOWN, UNKNOWN, vanished, 0.0)
    at, exponents = _local_exponents(depths, values, log_power)
    steps = np.diff(np.log(depths))[-len(exponents) :]
    exponent_noise = 2.0 * (noise / values)[-len(exponents) :] / steps
    exponent = _limit_or_range(at, exponents, exponent_noise, exponents)
    constant = UNKNOWN
    if expected is not None:
        scaled = values * depths**expected
        if log_power:
            ratio = np.diff(scaled) / np.diff(np.log(depths))
            constant = _limit_or_range(at, ratio[1:], scaled[2:] * exponent_noise, ratio)
        else:
            constant = extrapolate_limit(depths, scaled, scaled * (noise / values))
    remainder = Estimate(0.0, float(noise[-1]))
    if not vanished:
        remainder = extrapolate_limit(depths, values, noise)
    if remainder.uncertainty > _MOST_VAGUE * values[-1]:
        # The first terms do not yet determine the remainder, nor do they determine the slopes.
        exponent = constant = UNKNOWN
    last = float(values[-1])
    return PowerLaw(exponent, remainder, constant, vanished, last, float(values.max() / last))


def _local_exponents(
    depths: np.ndarray, values: np.ndarray, log_power: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return depths, and exponents p from two (with a logarithm three) neighbours at each."""
    logs = np.log(depths)
    if not log_power:
        return np.sqrt(depths[1:] * depths[:-1]), -np.diff(np.log(values)) / np.diff(logs)
    triples = [slice(i, i + 3) for i in range(len(depths) - 2)]
    return depths[2:], np.array([_log_exponent(logs[i], values[i]) for i in triples])


def _limit_or_range(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, spare: np.ndarray
) -> Estimate:
    """Return the limit of a sequence; where it has none, the last value of `spare`.

    The uncertainty of the last value is `_RANGE_FACTOR` times the range of the last three.
    """
    limit = extrapolate_limit(depths, values, noise)
    if math.isfinite(limit.uncertainty):
        return limit
    if not np.isfinite(spare[-3:]).all():
        return UNKNOWN
    return Estimate(float(spare[-1]), _RANGE_FACTOR * float(np.ptp(spare[-3:])))


def extrapolate_limit(depths: np.ndarray, values: np.ndarray, noise: np.ndarray) -> Estimate:
    """Return the limit of a sequence at infinite depth.

    Parameters
    ----------
    depths : ndarray, (n,)
        Increasing.
    values, noise : ndarray, (n,)
        The sequence and its rounding errors.

    Returns
    -------
    Estimate
        Of infinite uncertainty where neighbouring values do not approach each other, or approach
        each other more slowly than any power of depth.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory.extrapolation import extrapolate_limit
    >>> depths = 2.0 ** np.arange(3, 13)
    >>> limit = extrapolate_limit(depths, 0.25 + depths**-0.5 - 3 / depths, np.full(10, 1e-16))
    >>> print(limit)
    0.2494 ± 0.0048
    """
    logs = np.log(depths)
    best = Estimate(float(values[-1]), math.inf)
    for _ in range(_MOST_ACCELERATIONS):
        limits, exponents = _accelerate(logs, values, noise)
        if len(limits) < 2 or not np.isfinite(limits[-2:]).all():
            break
        if exponents[-1] > _MOST_EXPONENT_GROWTH * exponents[-2]:
            break
        uncertainty = _uncertainty(logs, values, noise, limits, exponents)
        if uncertainty < best.uncertainty:
            best = Estimate(float(limits[-1]), uncertainty)
        # Continue from the last unbroken run of curves; a removal triples rounding errors.
        broken = np.flatnonzero(~np.isfinite(limits))
        start = broken[-1] + 1 if len(broken) else 0
        values, logs, noise = limits[start:], logs[2 + start :], 3.0 * noise[2 + start :]
    return best


def _uncertainty(
    logs: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    limits: np.ndarray,
    exponents: np.ndarray,
) -> float:
    """Return the uncertainty of the last of `limits`, which `_accelerate` made from `values`."""
    # A change that is about to change its sign is small by chance: half of the previous change
    # counts, too.
    previous, change = np.abs(limits[-2:] - values[-2:])
    difference = abs(limits[-1] - limits[-2])
    uncertainty = float(_SAFETY_FACTOR * max(change, 0.5 * previous) + difference + noise[-1])
    # Where depths double, a term that falls as L^-p changes by 1 − 2^-p of itself. So the range
    # of three limits bounds the terms that are left, even two terms that cancel in one limit.
    relative_step = -math.expm1(-exponents[-3:].min() * (logs[-1] - logs[-2]))
    if len(limits) > 2 and relative_step > 0:
        bound = float(np.ptp(limits[-3:]) / relative_step**2 + noise[-1])
        uncertainty = min(uncertainty, _SAFETY_FACTOR * bound)
    return uncertainty


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
            limits[i] = values[i + 2]  # the sequence has stopped, and any p fits
            continue
        r = second / first if first else math.inf

        def surplus(p: float, h: float = h, k: float = k, r: float = r) -> float:
            return -math.expm1(-p * k) / math.expm1(p * h) - r

        if r <= 0 or surplus(_LEAST_EXPONENT) <= 0:
            continue
        p = _LARGEST_EXPONENT
        if surplus(_LARGEST_EXPONENT) < 0:
            p = brentq(surplus, _LEAST_EXPONENT, _LARGEST_EXPONENT)
        limits[i], exponents[i] = values[i + 2] + second / math.expm1(p * k), p
    return limits, exponents


def _log_exponent(logs: np.ndarray, values: np.ndarray) -> float:
    """Return the p for which the three values are (a log L + C) L^-p, or NaN.

    Values times L^p lie on a line over log L: low·exp(−ph) + high·exp(pk) = 1/h + 1/k. The
    upper zero is p; the lower zero belongs to a line that bends back.
    """
    h, k = np.diff(logs)
    low, high = values[0] / (values[1] * h), values[2] / (values[1] * k)

    def bend(p: float) -> float:
        return low * math.exp(-p * h) + high * math.exp(p * k) - (1.0 / h + 1.0 / k)

    turn = math.log(low * h / (high * k)) / (h + k)
    if bend(turn) >= 0:
        return math.nan
    return float(brentq(bend, turn, turn + 20.0 / min(h, k)))
