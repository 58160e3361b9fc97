r"""Fits of a power law :math:`r + C L^{-p} (\log L)^k` to sequences over depth.

The sequences are the pairs of signals. The limit r and the constant C are extrapolated pair by
pair (theory/extrapolation.py): a wrong entry among many is not averaged away. The exponent p is
the exponent of the root mean square over pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from .extrapolation import UNKNOWN, Estimate, extrapolate_limits

LEAST_DEPTHS = 6
"""Fewest depths of a fit, a count: five slopes, three curves through them, two to compare.

Larger: short ladders are undecided. Sweep: of 422 ladders 9 become undecided with 7, and 1 is
decided more with 5."""

# The constants below were chosen by hand. "Sweep" is the measurement of
# docs/theory/depth_checker.md: each constant alone was changed to 0.5 and to 1.5 times its value.

# Uncertainty of a sequence that does not converge, in units of the range of its last three
# values. Larger: fewer rates are resolved. Sweep: 2.0 changes no ladder, 6.0 makes 2 undecided.
_RANGE_FACTOR = 4.0

# Least remainder that counts as positive, in units of its uncertainty. Larger: fewer limits are
# found to be different ones. Sweep: no ladder changes, not even with factors 0.1 and 10.
_NONZERO_FACTOR = 3.0

# Largest uncertainty of a remainder beside which an exponent counts, in units of the last value.
# Larger: exponents are trusted earlier. Sweep: no ladder changes from 1.5 to 30; 3 become
# undecided with 0.75.
_MOST_VAGUE = 3.0

# Uncertainty of an exponent, in units of the uncertainty of the limit of slopes. Larger: fewer
# exponents are resolved. Chosen by hand: with 1 the exponent 1.5 at γ = 1/8 is 1.532 ± 0.026.
_SLOPE_FACTOR = 2.0

# Most removals of an expected term L^-p, L^-2p, …, a count. Larger: slower rates are followed, and
# rounding errors grow. Chosen by hand: γ = 0.6 wants two (tests).
_MOST_REMOVALS = 3

# Least error of a limit without its expected terms, as a power of the share (first depth / last
# depth)^p. Terms of higher powers than 4 are never removed. Larger: slow rates look more certain.
# Chosen by reasoning: a removal of L^-p, and three removals of any power.
_UNSEEN_POWER = 4

# Least value that counts, in units of its rounding error: smaller values have no exponent. Larger:
# more of the deepest values are left out. Sweep: no ladder changes from 3 to 300.
_LEAST_SIGNAL_TO_NOISE = 30.0


class PowerLaw(NamedTuple):
    r"""The fit of :math:`r + C L^{-p} (\log L)^k` to the pairs, each a sequence over depth."""

    exponent: Estimate
    """p, of the root mean square over pairs."""
    remainder: Estimate
    """r, the absolute limit at infinite depth, of the pair that is the `worst`."""
    constant: Estimate
    """C in root mean square over pairs, for the exponent that was expected."""
    vanished: bool
    """Whether the deepest numbers are rounding errors."""
    last_value: float
    """The deepest root mean square that is no rounding error: the unit of the remainder."""
    fall_factor: float = 1.0
    """The largest root mean square over the last one."""
    worst: int = 0
    """The pair whose limit is surely not 0, by most; if none is, the most uncertain pair."""
    worst_last: float = math.nan
    """The absolute deepest number of the `worst` pair."""

    def tends_to_zero(self, share: float, fall: float = 1.0) -> bool:
        """Return whether all pairs fall to 0.

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
        """Return whether a pair tends to another number than 0."""
        rest = self.remainder
        return not self.vanished and rest.value > _NONZERO_FACTOR * rest.uncertainty

    @property
    def levels_off(self) -> bool:
        """Return whether a constant other than 0 is resolved, for the exponent expected."""
        constant = self.constant
        return constant.value > _NONZERO_FACTOR * constant.uncertainty


NO_FIT = PowerLaw(UNKNOWN, UNKNOWN, UNKNOWN, vanished=False, last_value=math.nan)
"""The fit of a sequence that is not there: no prediction, no second pair."""


def root_mean_square(values: np.ndarray) -> np.ndarray:
    """Return the root mean square over the last axis, pairs of different signals."""
    return np.sqrt((values * values).mean(axis=-1))


def fit_power_law(
    depths: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    log_power: int = 0,
    expected: float | None = None,
    correction: float | None = None,
) -> PowerLaw:
    r"""Fit :math:`r + C L^{-p} (\log L)^k` to sequences over depth.

    Parameters
    ----------
    depths : ndarray, (n,)
        Increasing.
    values : ndarray, (n,) or (n, n_pairs)
        A sequence for each pair, of any sign.
    noise : ndarray, (n,)
        Rounding errors of `values`.
    log_power : {0, 1}, default 0
        k. For 1 the factor of :math:`L^{-p}` is :math:`a \log L + C`.
    expected : float, optional
        The exponent for which `PowerLaw.constant` is fitted.
    correction : float, optional
        q of corrections of relative size L^-q, L^-2q, …. The default is `expected`.

    Returns
    -------
    PowerLaw

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory.power_law import fit_power_law
    >>> depths = 2.0 ** np.arange(3, 13)
    >>> fit = fit_power_law(depths, 1 / depths + depths**-2, 1e-16 / depths)
    >>> print(f"{fit.exponent.value:.6f}")
    1.000000
    """
    depths, values, noise = (np.asarray(a, dtype=np.float64) for a in (depths, values, noise))
    pairs = values.reshape(len(depths), -1)
    size = root_mean_square(pairs)
    above_noise = np.flatnonzero(size > _LEAST_SIGNAL_TO_NOISE * noise)
    end = above_noise[-1] + 1 if len(above_noise) else 0
    vanished = end < len(depths)
    depths, pairs, size, noise = depths[:end], pairs[:end], size[:end], noise[:end]
    if end < LEAST_DEPTHS or (size == 0).any():
        rest = Estimate(0.0, float(noise[-1])) if vanished and end else Estimate(0.0, 0.0)
        rest = rest if vanished else UNKNOWN
        fall = float(size.max() / size[-1]) if end and size[-1] > 0 else 1.0
        return PowerLaw(UNKNOWN, rest, UNKNOWN, vanished, 0.0, fall)
    at, exponents = _local_exponents(depths, size, log_power)
    steps = np.diff(np.log(depths))[-len(exponents) :]
    exponent_noise = 2.0 * (noise / size)[-len(exponents) :] / steps
    step = expected if correction is None else correction
    known = None if log_power else step
    exponent = _limit_or_range(at, exponents, exponent_noise, known, log_power)
    constant = UNKNOWN
    if expected is not None:
        constant = _constant(depths, pairs, noise, log_power, expected, known)
    remainder, worst = Estimate(0.0, float(noise[-1])), 0
    if not vanished:
        remainder, worst = _worst_limit(*_limits(depths, pairs, noise, expected, step, log_power))
    if remainder.uncertainty > _MOST_VAGUE * size[-1]:
        # The first terms do not yet determine the remainder, nor do they determine the slopes.
        exponent = constant = UNKNOWN
    last = float(size[-1])
    return PowerLaw(
        exponent,
        remainder,
        constant,
        vanished,
        last,
        float(size.max() / last),
        worst,
        float(np.abs(pairs[-1, worst])),
    )


def _limits(
    depths: np.ndarray,
    pairs: np.ndarray,
    noise: np.ndarray,
    expected: float | None,
    step: float | None,
    log_power: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of the pairs and their uncertainties.

    Sequences are extrapolated with and without the expected terms L^-p, L^-(p+q), …, where q is
    `step`. The least uncertain limit of a pair is taken. Where the next limit differs by more than
    both uncertainties, the difference of the two limits is the uncertainty.
    """
    found = [extrapolate_limits(depths, pairs, noise)]
    if not expected or not step:
        return found[0]
    removals = [(expected, log_power)]
    if not log_power:
        removals += [(expected + k * step, 0) for k in range(1, _MOST_REMOVALS)]
    share = (depths[0] / depths[-1]) ** step
    unseen = root_mean_square(pairs[-1]) * share**_UNSEEN_POWER
    for exponent, power in removals:
        depths, pairs, noise = _without(depths, pairs, noise, exponent, power)
        if len(depths) < LEAST_DEPTHS - 1:
            break
        limits, uncertainties = extrapolate_limits(depths, pairs, noise)
        found.append((limits, uncertainties + unseen))
    if len(found) == 1:
        return found[0]
    limits, uncertainties = (np.array(part) for part in zip(*found, strict=True))
    order = np.argsort(uncertainties, axis=0)
    (limit, other, *_), (least, more, *_) = (
        np.take_along_axis(part, order, axis=0) for part in (limits, uncertainties)
    )
    apart = np.abs(limit - other)
    contradicted = np.isfinite(more) & (apart > least + more)
    return limit, np.where(contradicted, apart, least)


def _without(
    depths: np.ndarray, pairs: np.ndarray, noise: np.ndarray, exponent: float, log_power: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sequences of the same limits without their terms a L^-p, and (a log L + b) L^-p.

    Times L^p the sequences are r L^p + a log L + b. Divided differences over log L leave r
    alone: one difference removes b, two differences remove a log L, too.
    """
    logs, scale = np.log(depths), depths**exponent
    above, below, error = pairs * scale[:, None], scale, noise * scale
    for order in range(1, 2 + log_power):
        steps = logs[order:] - logs[:-order]
        above, below = np.diff(above, axis=0) / steps[:, None], np.diff(below) / steps
        error = (error[1:] + error[:-1]) / steps
    return depths[1 + log_power :], above / below[:, None], error / below


def _worst_limit(limits: np.ndarray, uncertainties: np.ndarray) -> tuple[Estimate, int]:
    """Return the limit that is surely not 0, by most; if none is, the most uncertain limit."""
    sizes = np.abs(limits)
    for factor in (_NONZERO_FACTOR, 1.0):
        excess = sizes - factor * uncertainties
        worst = int(np.argmax(excess))
        if excess[worst] > 0:
            break
    else:
        worst = int(np.argmax(uncertainties))
    return Estimate(float(sizes[worst]), float(uncertainties[worst])), worst


def _constant(
    depths: np.ndarray,
    pairs: np.ndarray,
    noise: np.ndarray,
    log_power: int,
    expected: float,
    correction: float | None,
) -> Estimate:
    """Return C in root mean square over pairs.

    The constants of the pairs are limits of values times L^p. With a logarithm the limits are
    limits of slopes over log L. Where a pair has no limit, it is the last value, as in
    `_limit_or_range`. By the triangle inequality the uncertainty is at most the root
    mean square of the uncertainties.
    """
    power = depths**expected
    scaled, error = pairs * power[:, None], noise * power
    if not log_power:
        sequences = scaled
    else:
        steps = np.diff(np.log(depths))
        sequences, error = (
            np.diff(scaled, axis=0) / steps[:, None],
            (error[1:] + error[:-1]) / steps,
        )
    limits, uncertainties = _limits(depths[log_power:], sequences, error, correction, correction)
    vague = ~np.isfinite(uncertainties)
    limits[vague] = sequences[-1, vague]
    uncertainties[vague] = _RANGE_FACTOR * np.ptp(sequences[-3:, vague], axis=0)
    return Estimate(float(root_mean_square(limits)), float(root_mean_square(uncertainties)))


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
    depths: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    correction: float | None,
    log_power: int,
) -> Estimate:
    """Return the limit of a sequence; where it has none, the last value.

    The uncertainty of the last value is `_RANGE_FACTOR` times the range of the last three.
    Slopes vary little, and smoothly. Without logarithms their uncertainty is `_SLOPE_FACTOR`
    times the uncertainty of a limit.
    """
    slack = 1.0 if log_power else _SLOPE_FACTOR
    limits, uncertainties = _limits(depths, values[:, None], noise, correction, correction)
    if math.isfinite(uncertainties[0]):
        return Estimate(float(limits[0]), slack * float(uncertainties[0]))
    if not np.isfinite(values[-3:]).all():
        return UNKNOWN
    return Estimate(float(values[-1]), _RANGE_FACTOR * float(np.ptp(values[-3:])))


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
