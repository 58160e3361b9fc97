r"""Extrapolation of sequences over depth to infinite depth, with uncertainties.

A sequence :math:`v(L) = v_\infty + a L^{-p} + \dots` is free of chance. Its extrapolation errs
by the terms that a fit leaves out, and the residuals of the fit do not show these terms. So the
curve through three neighbouring depths removes the first term exactly, and the next term is
removed from the result in the same way. The change made by the last removal is the uncertainty.
The derivation is in docs/theory/depth_checker.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

# The constants below were chosen by hand. "Sweep" is the measurement of
# docs/theory/depth_checker.md: each constant alone was changed to 0.5 and to 1.5 times its value.

# Uncertainty of a limit, in units of the change made by the last removal. Larger: more ladders
# are undecided. 1 would do for corrections of one kind. Sweep: of 422 ladders 2 become undecided
# with 1.0, and 5 with 3.0; of 775 limits 2 are outside their uncertainty, 9 with 0.2.
_SAFETY_FACTOR = 2.0

# Most removals of a term, a count. Larger: more terms are removed, and rounding errors grow
# 3-fold. Sweep: 10 ladders become undecided with 2, and 56 with 1. 4 and 5 change no ladder.
_MOST_ACCELERATIONS = 3

# Least and largest exponent p that a curve through three values is given. Flatter curves have no
# limit; steeper curves end at their last value. Wider: no effect. Sweep: no ladder changes, not
# even with factors 0.1 and 10.
_LEAST_EXPONENT, _LARGEST_EXPONENT = 1e-6, 40.0

# Largest ratio of the exponents of neighbouring curves: above it a sequence is at a turn, and is
# not extrapolated. Sweep (of the excess above 1): 1.125 makes 6 ladders undecided; 1.375 and 1.875
# decide 2 more, rightly.
_MOST_EXPONENT_GROWTH = 1.25


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
    0.249 ± 0.013
    """
    limits, uncertainties = extrapolate_limits(depths, np.asarray(values)[:, None], noise)
    return Estimate(float(limits[0]), float(uncertainties[0]))


def extrapolate_limits(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of many sequences at infinite depth, and their uncertainties.

    Parameters
    ----------
    depths : ndarray, (n,)
        Increasing.
    values : ndarray, (n, n_sequences)
    noise : ndarray, (n,)
        Rounding errors of all sequences.

    Returns
    -------
    limits, uncertainties : ndarray, (n_sequences,)
        As from `extrapolate_limit`, for each sequence on its own.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory.extrapolation import extrapolate_limits
    >>> depths = 2.0 ** np.arange(3, 13)
    >>> pairs = np.array([0.25, 0.5]) + 1 / depths[:, None]
    >>> extrapolate_limits(depths, pairs, np.full(10, 1e-16))[0].round(9)
    array([0.25, 0.5 ])
    """
    logs = np.log(depths)
    start = np.array(values, dtype=np.float64)
    noise = np.repeat(np.asarray(noise, dtype=np.float64)[:, None], start.shape[1], axis=1)
    best, least = start[-1].copy(), np.full(start.shape[1], np.inf)
    active = np.ones(start.shape[1], dtype=bool)
    values = start
    for _ in range(_MOST_ACCELERATIONS):
        limits, exponents = _accelerate(logs, values, noise)
        if len(limits) < 2:
            break
        active &= np.isfinite(limits[-2:]).all(axis=0)
        active &= ~(exponents[-1] > _MOST_EXPONENT_GROWTH * exponents[-2])
        uncertainty = _uncertainty(logs, values, noise, limits, exponents)
        uncertainty += _unseen(start, limits[-1])
        better = active & (uncertainty < least)
        best[better], least[better] = limits[-1][better], uncertainty[better]
        # A removal triples rounding errors. Curves that are broken spoil the next removal alone.
        values, logs, noise = limits, logs[2:], 3.0 * noise[2:]
    return best, least


def _unseen(values: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the error from terms that a ladder does not show.

    A sequence has covered the share 1 − w of its way. Corrections of relative size w, whose
    square is left after two removals, are w² of the way to go.
    """
    first, last = np.abs(values[0] - limits), np.abs(values[-1] - limits)
    share = np.divide(last, first, out=np.ones_like(last), where=first > last)
    return last * share * share


def _uncertainty(
    logs: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    limits: np.ndarray,
    exponents: np.ndarray,
) -> np.ndarray:
    """Return the uncertainties of the last `limits`, which `_accelerate` made from `values`."""
    # A change that is about to change its sign is small by chance: half of the previous change
    # counts, too.
    previous, change = np.abs(limits[-2:] - values[-2:])
    difference = np.abs(limits[-1] - limits[-2])
    uncertainty = _SAFETY_FACTOR * np.maximum(change, 0.5 * previous) + difference + noise[-1]
    if len(limits) < 3:
        return uncertainty
    # Where depths double, a term that falls as L^-p changes by 1 − 2^-p of itself. So the range
    # of three limits bounds the terms that are left, even two terms that cancel in one limit.
    relative_step = -np.expm1(-exponents[-3:].min(axis=0) * (logs[-1] - logs[-2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.ptp(limits[-3:], axis=0) / relative_step**2 + noise[-1]
    known = (relative_step > 0) & np.isfinite(bound)
    return np.where(known, np.minimum(uncertainty, _SAFETY_FACTOR * bound), uncertainty)


def _accelerate(
    logs: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return c and p of the curves c + a·L^-p, p > 0, through three neighbours each, or NaN.

    With steps h, k of log L and r the ratio of the two differences of values, p solves
    (1 − exp(−pk))/(exp(ph) − 1) = r; the left side falls from k/h to 0.
    """
    steps, changes = np.diff(logs), np.diff(values, axis=0)
    h, k = (part[:, None] for part in (steps[:-1], steps[1:]))
    first, second = changes[:-1], changes[1:]
    last = values[2:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stopped = np.abs(second) <= noise[1:-1] + noise[2:]  # any p fits
        r = np.where(first != 0, second / first, np.inf)
        p = _exponents(h, k, r)
        limits = last + second / np.expm1(p * k)
    limits[stopped], p[stopped] = last[stopped], np.nan
    return limits, p


def _exponents(h: np.ndarray, k: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return the p that solves (1 − exp(−pk))/(exp(ph) − 1) = r, by bisection; NaN: no p."""

    def surplus(p: np.ndarray) -> np.ndarray:
        return -np.expm1(-p * k) / np.expm1(p * h) - r

    low, high = np.full(r.shape, _LEAST_EXPONENT), np.full(r.shape, _LARGEST_EXPONENT)
    solvable = (r > 0) & (surplus(low) > 0)
    steep = surplus(high) >= 0
    for _ in range(56):
        middle = 0.5 * (low + high)
        above = surplus(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(solvable, np.where(steep, _LARGEST_EXPONENT, 0.5 * (low + high)), np.nan)
