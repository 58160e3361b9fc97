r"""Limits, exponents and constants of sequences over depth, by Richardson's extrapolation.

A sequence :math:`r + C L^{-p} (\log L)^k + \dots` is free of chance. Its extrapolation errs by the
terms that are not removed. No fit knows the predicted p or C (docs/theory/depth_checker.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

STANDARD_ERRORS = 3.0
"""Standard errors in an error bar. In 2,488 reports on right predictions the largest error is 0.64
of a bar with 3, and 0.97 with 2 (docs/theory/depth_checker.md)."""

LEAST_DEPTHS = 6
"""Fewest depths of a fit: five slopes, two removals, three changes to compare."""

_LEAST_CHANGES, _REACH = 3, 5.0
"""The last changes, whose largest is the standard error of a removal: 3 at least, and all of the
last factor 5 of depth. A change that passes through 0 is small at one depth, not at all of them."""

_LEAST_SIGNAL_TO_NOISE = 30.0
"""Least value that has an exponent, in units of its rounding error."""


class Estimate(NamedTuple):
    """A number with its error bar; an infinite bar is a number that is not known."""

    value: float
    uncertainty: float
    """The error bar: `STANDARD_ERRORS` standard errors."""

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

    def admits(self, value: float) -> bool:
        """Return whether `value` is within the error bar."""
        return bool(abs(self.value - value) <= self.uncertainty)


UNKNOWN = Estimate(math.nan, math.inf)


def estimate(value: float, error: float) -> Estimate:
    """Return a number with `STANDARD_ERRORS` times its standard error as the bar."""
    if not (math.isfinite(value) and math.isfinite(error)):
        return UNKNOWN
    return Estimate(float(value), STANDARD_ERRORS * float(error))


class Corrections(NamedTuple):
    """The corrections to a law, which is multiplied by 1 + a L^-q + b L^-2q + …"""

    exponent: float
    """q."""
    log_power: int
    """k: a law with a logarithm has corrections with one logarithm more."""
    remaining: float
    """The size that is left relative to the law, once L^-q and L^-2q are removed."""

    def removals(self) -> tuple[float, ...]:
        """Return the exponents to remove from slopes and constants, with their logarithms."""
        q = self.exponent
        return (*(q,) * (2 + self.log_power), *(2.0 * q,) * (2 - self.log_power))


def root_mean_square(values: np.ndarray) -> np.ndarray:
    """Return the root mean square over the last axis, pairs of different signals."""
    return np.sqrt((values * values).mean(axis=-1))


def _above_rounding(sizes: np.ndarray, noise: np.ndarray) -> int:
    """Return the number of depths up to the last whose size is above rounding errors."""
    clear = np.flatnonzero(sizes > _LEAST_SIGNAL_TO_NOISE * noise)
    return int(clear[-1]) + 1 if len(clear) else 0


def extrapolate(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, exponents: Iterable[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of sequences at infinite depth, and their standard errors.

    The terms L^-q are removed one after another (docs/theory/depth_checker.md), where q occurs
    twice (a log L + b) L^-q. The removal with the least standard error gives the limit. `values`
    are (n_depths, n_sequences). Errors are infinite where there are too few depths.
    """
    limits, errors = values[-1].copy(), np.full(values.shape[1], np.inf)
    for exponent in exponents:
        last = max(_LEAST_CHANGES, int((_REACH * depths[1:] > depths[-1]).sum()))
        if len(values) <= last:
            break
        r = (depths[:-1] / depths[1:]) ** exponent
        removed = (values[1:] - r[:, None] * values[:-1]) / (1.0 - r)[:, None]
        noise = (noise[1:] + r * noise[:-1]) / (1.0 - r)
        changes = (removed - values[1:])[-last:], np.diff(removed[-last:], axis=0)
        error = np.abs(np.concatenate(changes)).max(axis=0) + noise[-1]
        better = error < errors
        limits[better], errors[better] = removed[-1][better], error[better]
        values, depths = removed, depths[1:]
    return limits, errors


def fit_exponent(
    depths: np.ndarray, sizes: np.ndarray, noise: np.ndarray, corrections: Corrections
) -> tuple[float, float]:
    """Return p of sizes that fall like L^-p (log L)^k, (n,), and its standard error."""
    end = _above_rounding(sizes, noise)
    if end < LEAST_DEPTHS - 1 or (sizes[:end] <= 0).any():
        return math.nan, math.inf
    depths, sizes, relative = depths[:end], sizes[:end], noise[:end] / sizes[:end]
    logs = np.log(depths)
    if corrections.log_power:
        places = depths[2:]
        triples = (slice(i, i + 3) for i in range(end - 2))
        exponents = np.array([_log_exponent(logs[i], sizes[i]) for i in triples])
    else:
        places = np.sqrt(depths[1:] * depths[:-1])
        exponents = -np.diff(np.log(sizes)) / np.diff(logs)
    slope_noise = 2.0 * relative[-len(places) :] / np.log(depths[-1] / depths[-2])
    limits, errors = extrapolate(places, exponents[:, None], slope_noise, corrections.removals())
    return limits[0], errors[0] + abs(limits[0]) * corrections.remaining


def _log_exponent(logs: np.ndarray, sizes: np.ndarray) -> float:
    """Return the p for which the three sizes are (a log L + b) L^-p, or NaN.

    Sizes times L^p lie on a line over log L: low·exp(−ph) + high·exp(pk) = 1/h + 1/k, p the upper.
    """
    h, k = np.diff(logs)
    low, high = sizes[0] / (sizes[1] * h), sizes[2] / (sizes[1] * k)

    def bend(p: float) -> float:
        return low * math.exp(-p * h) + high * math.exp(p * k) - (1.0 / h + 1.0 / k)

    turn = math.log(low * h / (high * k)) / (h + k)
    if bend(turn) >= 0:
        return math.nan
    return float(brentq(bend, turn, turn + 20.0 / min(h, k)))


def step_rates(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return depths, changes per unit of log depth over pairs, and their rounding errors."""
    rates = np.diff(values, axis=0) / np.diff(np.log(depths))[:, None]
    noise = 2.0 * (noise[1:] + noise[:-1])
    return np.sqrt(depths[1:] * depths[:-1]), root_mean_square(rates), noise


def fit_limits(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, corrections: Corrections
) -> tuple[tuple[float, float], np.ndarray, np.ndarray]:
    """Return p of the steps with its error, and the limits of the pairs with their errors."""
    places, rates, rate_noise = step_rates(depths, values, noise)
    p, error = fit_exponent(places, rates, rate_noise, corrections)
    still = rates[-1] <= rate_noise[-1]
    if math.isinf(corrections.remaining) or not (still or p > STANDARD_ERRORS * error):
        return (p, error), values[-1], np.full(values.shape[1], np.inf)  # steps may not fall
    if still:
        return (p, error), values[-1], np.abs(values[-1] - values[-2]) + noise[-1]
    q = corrections.exponent
    limits, errors = extrapolate(depths, values, noise, (p, p, p + q, p + q))
    slow = p - error
    slower, _ = extrapolate(depths, values, noise, (slow, slow, slow + q, slow + q))
    way = root_mean_square(values[-1] - limits)
    return (p, error), limits, errors + np.abs(slower - limits) + way * corrections.remaining


def fit_constants(
    depths: np.ndarray,
    distances: np.ndarray,
    noise: np.ndarray,
    exponent: float,
    corrections: Corrections,
) -> tuple[float, float]:
    """Return C beside the power L^-p (log L)^k, in root mean square over pairs, and its error.

    With a logarithm C is the slope of the distance times L^p over log L.
    """
    end = _above_rounding(root_mean_square(distances), noise)
    if end < LEAST_DEPTHS:
        return math.nan, math.inf
    depths, distances, noise = depths[:end], distances[:end], noise[:end]
    power = depths**exponent
    values, noise = distances * power[:, None], noise * power
    if corrections.log_power:
        steps = np.diff(np.log(depths))
        values = np.diff(values, axis=0) / steps[:, None]
        noise, depths = (noise[1:] + noise[:-1]) / steps, depths[1:]
    limits, errors = extrapolate(depths, values, noise, corrections.removals())
    constant, error = float(root_mean_square(limits)), float(root_mean_square(errors))
    return constant, error + constant * corrections.remaining
