r"""Fits of a power law :math:`r + C L^{-p} (\log L)^k` to sequences over depth.

The limit r and the constant C are fitted pair by pair of signals, so that a wrong entry among many
is not averaged away. The exponent p is the exponent of the root mean square over pairs. No fit
knows the predicted p or C: the constant alone is fitted beside the predicted power.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from .extrapolation import STANDARD_ERRORS, extrapolate

LEAST_DEPTHS = 6
"""Fewest depths of a fit: five slopes, two removals, three changes to compare."""

_LEAST_SIGNAL_TO_NOISE = 30.0
"""Least value that has an exponent, in units of its rounding error. Larger: more of the deepest
values are left out."""


class Corrections(NamedTuple):
    """The corrections to a law that are removed, and the error that is left."""

    exponent: float
    """q: the law is multiplied by 1 + a L^-q + b L^-2q + …, with logarithms."""
    remaining: float
    """The size that is left, relative to the law: (onset/L)^3q at the deepest L, as L^-q and
    L^-2q are removed. Infinite where the ladder ends before the onset."""

    @classmethod
    def of(cls, exponent: float, onset: float, deepest: float, log_power: int = 0) -> Corrections:
        """Return the corrections of relative size (onset/L)^q."""
        first = (onset / deepest) ** exponent
        return cls(exponent, first**3 if first < 1.0 else math.inf, log_power)

    log_power: int = 0
    """k: a law with a logarithm has corrections with one logarithm more."""

    def removals(self) -> tuple[float, ...]:
        """Return the exponents to remove from slopes and constants, with their logarithms."""
        q = self.exponent
        return (*(q,) * (2 + self.log_power), *(2.0 * q,) * (2 - self.log_power))


def root_mean_square(values: np.ndarray) -> np.ndarray:
    """Return the root mean square over the last axis, pairs of different signals."""
    return np.sqrt((values * values).mean(axis=-1))


def above_rounding(sizes: np.ndarray, noise: np.ndarray) -> int:
    """Return the number of depths up to the last whose size is no rounding error."""
    clear = np.flatnonzero(sizes > _LEAST_SIGNAL_TO_NOISE * noise)
    return int(clear[-1]) + 1 if len(clear) else 0


def fit_exponent(
    depths: np.ndarray, sizes: np.ndarray, noise: np.ndarray, corrections: Corrections
) -> tuple[float, float]:
    """Return p of sizes that fall like L^-p (log L)^k, (n,), and its standard error."""
    end = above_rounding(sizes, noise)
    if end < LEAST_DEPTHS - 1 or (sizes[:end] <= 0).any():
        return math.nan, math.inf
    depths, sizes, relative = depths[:end], sizes[:end], noise[:end] / sizes[:end]
    places, exponents = local_exponents(depths, sizes, corrections.log_power)
    slope_noise = 2.0 * relative[-len(places) :] / np.log(depths[-1] / depths[-2])
    limits, errors = extrapolate(places, exponents[:, None], slope_noise, corrections.removals())
    return limits[0], errors[0] + abs(limits[0]) * corrections.remaining


def fit_limits(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, corrections: Corrections
) -> tuple[tuple[float, float], np.ndarray, np.ndarray]:
    """Return p of the steps with its error, and the limits of the pairs with their errors.

    The errors are infinite where the steps may not fall.
    """
    places, rates, rate_noise = step_rates(depths, values, noise)
    step = p, error = fit_exponent(places, rates, rate_noise, corrections)
    if rates[-1] <= rate_noise[-1]:  # nothing moves
        return step, values[-1], np.abs(values[-1] - values[-2]) + noise[-1]
    if not p > STANDARD_ERRORS * error:
        return step, values[-1], np.full(values.shape[1], np.inf)
    q = corrections.exponent
    limits, errors = extrapolate(depths, values, noise, (p, p, p + q, p + q))
    slow = p - error
    slower, _ = extrapolate(depths, values, noise, (slow, slow, slow + q, slow + q))
    way = root_mean_square(values[-1] - limits)
    return step, limits, errors + np.abs(slower - limits) + way * corrections.remaining


def step_rates(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return depths, changes per unit of log depth over pairs, and their rounding errors."""
    rates = np.diff(values, axis=0) / np.diff(np.log(depths))[:, None]
    noise = 2.0 * (noise[1:] + noise[:-1])
    return np.sqrt(depths[1:] * depths[:-1]), root_mean_square(rates), noise


def fit_constants(
    depths: np.ndarray,
    distances: np.ndarray,
    noise: np.ndarray,
    exponent: float,
    corrections: Corrections,
) -> tuple[float, float]:
    """Return C beside the power L^-p (log L)^k, in root mean square over pairs, and its error.

    With a logarithm C is the slope of the distance times L^p over log L. By the triangle
    inequality the error is at most the root mean square of the errors.
    """
    power = depths**exponent
    values, noise = distances * power[:, None], noise * power
    if corrections.log_power:
        steps = np.diff(np.log(depths))
        values = np.diff(values, axis=0) / steps[:, None]
        noise, depths = (noise[1:] + noise[:-1]) / steps, depths[1:]
    limits, errors = extrapolate(depths, values, noise, corrections.removals())
    constant, error = float(root_mean_square(limits)), float(root_mean_square(errors))
    return constant, error + constant * corrections.remaining


def local_exponents(
    depths: np.ndarray, sizes: np.ndarray, log_power: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return depths, and the p of two (with a logarithm three) neighbours at each."""
    logs = np.log(depths)
    if not log_power:
        return np.sqrt(depths[1:] * depths[:-1]), -np.diff(np.log(sizes)) / np.diff(logs)
    triples = [slice(i, i + 3) for i in range(len(depths) - 2)]
    return depths[2:], np.array([_log_exponent(logs[i], sizes[i]) for i in triples])


def _log_exponent(logs: np.ndarray, sizes: np.ndarray) -> float:
    """Return the p for which the three sizes are (a log L + b) L^-p, or NaN.

    Sizes times L^p lie on a line over log L: low·exp(−ph) + high·exp(pk) = 1/h + 1/k. The
    upper zero is p; the lower zero belongs to a line that bends back.
    """
    h, k = np.diff(logs)
    low, high = sizes[0] / (sizes[1] * h), sizes[2] / (sizes[1] * k)

    def bend(p: float) -> float:
        return low * math.exp(-p * h) + high * math.exp(p * k) - (1.0 / h + 1.0 / k)

    turn = math.log(low * h / (high * k)) / (h + k)
    if bend(turn) >= 0:
        return math.nan
    return float(brentq(bend, turn, turn + 20.0 / min(h, k)))
