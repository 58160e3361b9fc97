r"""Richardson extrapolation of sequences over depth to infinite depth, with standard errors.

A sequence :math:`v(L) = v_\infty + a L^{-q} + \dots` is free of chance. Its extrapolation errs by
the terms that are not removed, and a removal shows by its change how large they may be. The
derivation is in docs/theory/depth_checker.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

STANDARD_ERRORS = 3.0
"""Standard errors in an error bar. Larger: fewer predictions are contradicted, more are open.

Measured (docs/theory/depth_checker.md): no bar of a right prediction misses it with 3; with 2,
some do."""

_WINDOWS = 3
"""Last depths whose largest change is the standard error of a removal. Larger: larger errors.

Chosen by hand: a change that is about to change its sign is small at one depth, not at three."""


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


def extrapolate(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, exponents: Iterable[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of sequences at infinite depth, and their standard errors.

    The terms L^-q are removed one after another: neighbouring depths L < M give
    (v(M) − r v(L))/(1 − r) with r = (L/M)^q. The standard error of a removal is the largest
    change that it makes at the last three depths, and the rounding error. The removal with the
    least standard error gives the limit.

    `values` are (n_depths, n_sequences). An exponent that occurs twice removes (a log L + b) L^-q.
    Errors are infinite where there are too few depths.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory.extrapolation import extrapolate
    >>> depths = 2.0 ** np.arange(3, 13)
    >>> pairs = np.array([0.25, 0.5]) + 1 / depths[:, None] - 3 / depths[:, None] ** 2
    >>> limits, errors = extrapolate(depths, pairs, np.full(10, 1e-16), (1, 1, 2, 2))
    >>> limits.round(9), bool((errors < 1e-4).all())
    (array([0.25, 0.5 ]), True)
    """
    values, noise = np.asarray(values, np.float64), np.asarray(noise, np.float64)
    limits, errors = values[-1].copy(), np.full(values.shape[1], np.inf)
    for exponent in exponents:
        if len(values) <= _WINDOWS:
            break
        r = (depths[:-1] / depths[1:]) ** exponent
        removed = (values[1:] - r[:, None] * values[:-1]) / (1.0 - r)[:, None]
        noise = (noise[1:] + r * noise[:-1]) / (1.0 - r)
        error = np.abs(removed - values[1:])[-_WINDOWS:].max(axis=0) + noise[-1]
        better = error < errors
        limits[better], errors[better] = removed[-1][better], error[better]
        values, depths = removed, depths[1:]
    return limits, errors
