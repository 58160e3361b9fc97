r"""Exponents of sequences over depth, by Richardson's extrapolation, with error bars.

A sequence :math:`C L^{-p} (\log L)^k (1 + \dots)` is free of chance. Its extrapolation errs by the
terms that are not removed. No fit knows the predicted p (docs/theory/depth_limits.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

STANDARD_ERRORS = 3.0
"""Standard errors in an error bar. In 2,488 reports on right predictions the largest error was 0.64
of a bar with 3, and 0.97 with 2."""

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
    bar: float
    """`STANDARD_ERRORS` standard errors."""

    def __str__(self) -> str:
        if not math.isfinite(self.bar):
            return "unknown"
        digits = 1 - math.floor(math.log10(self.bar)) if self.bar else 6
        if 0 <= digits <= 6:
            return f"{self.value:.{digits}f} ± {self.bar:.{digits}f}"
        return f"{self.value:.6g} ± {self.bar:.1e}"


def fit_exponent(
    depths: np.ndarray, sizes: np.ndarray, noise: np.ndarray, q: float, k: int, left: float
) -> Estimate:
    """Return p of sizes that fall like L^-p (log L)^k, down to the first that is rounding.

    The law is multiplied by 1 + a L^-q + b L^-2q + …, with one logarithm more where k is 1. `left`
    is the size of the corrections, relative to the law, once L^-q and L^-2q are removed.
    """
    lost = np.flatnonzero(~(sizes > _LEAST_SIGNAL_TO_NOISE * noise))
    end = int(lost[0]) if len(lost) else len(sizes)
    if end < LEAST_DEPTHS - 1:
        return Estimate(math.nan, math.inf)
    depths, sizes, noise = depths[:end], sizes[:end], noise[:end] / sizes[:end]
    logs, middles = np.log(depths), np.sqrt(depths[1:] * depths[:-1])
    exponents = -np.diff(np.log(sizes)) / np.diff(logs)
    if k:
        triples, middles = (slice(i, i + 3) for i in range(end - 2)), depths[2:]
        exponents = np.array([_log_exponent(logs[i], sizes[i]) for i in triples])
    noise = 2.0 * noise[-len(middles) :] / (logs[-1] - logs[-2])
    removed = (*(q,) * (2 + k), *(2.0 * q,) * (2 - k))
    value, error = extrapolate(middles, exponents, noise, removed)
    bar = STANDARD_ERRORS * (error + abs(value) * left)
    if k:  # a beside a log L + b errs by the bar of p
        first, second = sizes[-2:] * np.exp(value * logs[-2:])
        share = (1.0 - first / second) / (logs[-1] - logs[-2])
        bar = bar if share > 2.0 * bar else math.inf  # else a power without a logarithm fits
    return Estimate(value, float(bar) if math.isfinite(bar) else math.inf)


def extrapolate(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, exponents: Iterable[float]
) -> tuple[float, float]:
    """Return the limit of a sequence at infinite depth, and its standard error.

    The terms L^-q are removed one after another, where q occurs twice (a log L + b) L^-q. The
    removal with the least standard error gives the limit.
    """
    best = float(values[-1]), math.inf
    for exponent in exponents:
        last = max(_LEAST_CHANGES, int((_REACH * depths[1:] > depths[-1]).sum()))
        if len(values) <= last:
            break
        r = (depths[:-1] / depths[1:]) ** exponent
        removed = (values[1:] - r * values[:-1]) / (1.0 - r)
        noise = (noise[1:] + r * noise[:-1]) / (1.0 - r)
        changes = (removed - values[1:])[-last:], np.diff(removed[-last:])
        error = float(np.abs(np.concatenate(changes)).max() + noise[-1])
        best = min(best, (float(removed[-1]), error), key=lambda limit: limit[1])
        values, depths = removed, depths[1:]
    return best


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
