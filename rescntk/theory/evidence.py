"""The evidence for a verdict: fits of a ladder of depths, and quantities derived from the fits.

The agreement of a fitted rate with the predicted rate is looked up in the table `_RATES`: the
first row whose condition holds counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from .limits import Prediction
from .power_law import NO_FIT, PowerLaw

TOLERANCE = 0.01
"""Largest relative difference of two exponents, or constants, that count as equal, beside their
uncertainty. Larger: fewer rates are refuted. Chosen by hand: fits of the default ladder resolve
a thousandth of most rates, and every predicted constant is exact."""

# The constants below were chosen by hand. "Sweep" is the measurement of
# docs/theory/depth_checker.md: each constant alone was changed to 0.5 and to 1.5 times its value.

# Least relative difference that refutes an exponent, beside its uncertainty and the tolerance.
# A smaller difference shows in the constant, which does not level off. Larger: fewer rates are
# refuted. Chosen by hand: at γ = 1/8 the exponent 1.5 of the GPK is fitted as 1.532 ± 0.026.
_EQUAL_WITHIN = 0.05

# Largest relative uncertainty of an exponent, or constant, that is compared: 0.3 tells p from p/2
# and 2p. Larger: vaguer rates are confirmed. Sweep: 4 ladders become undecided with 0.15; 0.45
# changes none.
_RESOLVED_WITHIN = 0.3

# Largest uncertainty of a remainder that counts as 0, as a share of the last distance. A limit that
# is off by less passes for the right limit. Larger: more limits are confirmed, and with 0.2 the
# first 2 of 800 sequences wrongly. Sweep: 2 ladders become undecided with 0.01, and 4 are decided
# with 0.03.
_LARGEST_REMAINDER = 0.02

# Least fall of the distances over the ladder, largest over last, for a remainder to count as 0.
# Larger: slow decays are undecided. Sweep: no ladder of a test changes; of 800 sequences 97 are
# undecided with 1.5, 115 with 3.0 and 127 with 4.5, and no verdict is wrong.
_LEAST_FALL = 3.0

# Largest relative error of an exponent, or relative uncertainty of a constant beside the predicted
# power, that alone shows a remainder of 0. A remainder of a share r of the distance makes an
# exponent p appear as (1 − r) p. Larger: more limits are confirmed, and with 0.1 the first 2 of
# 800 sequences wrongly. Sweep: 3 ladders become undecided with 0.0125; 0.0375 changes none.
_EXACT_EXPONENT_WITHIN = 0.025

# Largest uncertainty of a remainder, as a share of the last distance, where the constant is the
# predicted one, too. A remainder of a share r makes the constant larger by r. Larger: more limits
# are confirmed. Sweep: 4 ladders become undecided with 0.125; 0.375 changes none.
_LARGEST_REMAINDER_AT_LAW = 0.25

# Least L^p of the deepest network at which a different rate refutes the predicted rate L^-p.
# Corrections have the relative size L^-p, or L^(-p/2): a tenth. Larger: fewer rates are refuted.
# Sweep: no ladder changes.
_LEAST_POWER = 100.0

# Least distance from the predicted limit that the kernels cannot get over, in units of the way
# that they may still move. Larger: fewer limits are refuted. Sweep: with 1.0, 49 more ladders are
# decided, all rightly; with 3.0, 14 become undecided.
_OUT_OF_REACH_FACTOR = 2.0

# Least remainder that is out of reach wherever the kernels still move, in units of its
# uncertainty, and least fall of the steps over the ladder. Larger: fewer limits are refuted that
# are off by less than the kernels still move. Chosen by hand (docs/theory/depth_checker.md).
_SURE_FACTOR, _SURE_FALL = 30.0, 100.0

# Least fall of the steps over a ladder, largest over last, beside which fits that decide nothing
# are printed. Larger: fewer numbers are printed. Chosen by hand: of 300 random sequences, 15
# remainders are outside their uncertainty with 1, and 0 with 2 (docs/theory/depth_checker.md).
_LEAST_STEP_FALL = 2.0

# Largest change per unit of log depth that counts as none, relative to the values, where values
# end in rounding errors. Larger: convergence that is faster than any power ends earlier. Sweep: no
# ladder changes.
_STOPPED_BELOW = 1e-6


@dataclass(frozen=True)
class Evidence:
    """The fits of a ladder and the quantities derived from them, by name."""

    distance_fit: PowerLaw
    """The fit of the distances from the predicted limit."""
    logarithm_fit: PowerLaw
    """The same with a factor log L, where the predicted rate has none."""
    step_fit: PowerLaw
    """The fit of the change per unit of log depth."""
    spread_fit: PowerLaw
    """The fit of the deviations of the pairs from their mean."""
    last_step_rate: float
    """The change per unit of log depth between the two deepest networks."""
    distance_rate: float
    """The same of the pair that is the worst of `distance_fit`."""
    spread_rate: float
    """The same of the pair that is the worst of `spread_fit`."""
    last_size: float
    """The root mean square of the complements at the deepest network."""
    prediction: Prediction | None
    constant: float | None
    """The predicted constant of the distance."""
    limit_forgets: bool
    """Whether the predicted limit is the same for all pairs of different signals."""
    deepest: float
    """The depth of the deepest network."""
    needed: float
    """The least depth at which the signals can refute a prediction."""
    tolerance: float
    """Largest relative difference of exponents, or constants, that counts as none."""

    def without_fits(self) -> Evidence:
        """Return the evidence of a ladder that is too shallow for its fits to mean anything."""
        return replace(
            self, distance_fit=NO_FIT, logarithm_fit=NO_FIT, step_fit=NO_FIT, spread_fit=NO_FIT
        )

    @property
    def is_too_shallow(self) -> bool:
        """Return whether uncertainties of the fits tell nothing, as most of the way is ahead."""
        slow = not self.stopped and self.step_fit.fall_factor < _LEAST_STEP_FALL
        onset = 0.0 if self.prediction is None else self.prediction.onset
        return slow or self.deepest < max(self.needed, onset)

    # ---- the rate

    @property
    def predicted(self) -> bool:
        """Return whether a limit is predicted to be reached."""
        return self.prediction is not None and self.prediction.exponent != 0

    @property
    def expected(self) -> float | None:
        """The predicted exponent."""
        return None if self.prediction is None else self.prediction.exponent

    @property
    def _rate(self) -> _Rate:
        return next(rate for rate in _RATES if rate.applies(self))

    @property
    def agrees(self) -> bool | None:
        """Return whether rate and constant agree with the prediction; None: not resolved."""
        return self._rate.agrees(self)

    @property
    def objection(self) -> str:
        """The observation that speaks against the predicted rate."""
        return self._rate.objection.format(e=self)

    @property
    def rate_depth(self) -> float:
        """The least depth at which a different rate refutes the prediction."""
        if self.prediction is None or self.expected is None:
            return 0.0
        depth = max(_depth_of_power(self.expected), self.prediction.onset)
        if not self.exponent_is_resolved:
            return depth
        return max(depth, _depth_of_power(min(self.expected, self.distance_fit.exponent.value)))

    @property
    def exponent_is_resolved(self) -> bool:
        """Return whether the exponent is known well enough to compare."""
        expected = self.expected or 0.0
        return self.distance_fit.exponent.uncertainty <= _RESOLVED_WITHIN * expected

    @property
    def constant_is_resolved(self) -> bool:
        """Return whether a constant is predicted, and fitted well enough to be compared with it."""
        fitted = self.distance_fit.constant.uncertainty
        return self.constant is not None and fitted <= _RESOLVED_WITHIN * self.constant

    @property
    def constant_is_exact(self) -> bool:
        """Return whether distances over the predicted rate tend to a well-known constant.

        A remainder would make them grow.
        """
        fitted = self.distance_fit.constant
        return fitted.uncertainty <= _EXACT_EXPONENT_WITHIN * fitted.value

    @property
    def law_is_found(self) -> bool:
        """Return whether exponent and constant of the distance are the predicted ones."""
        fit, constant = self.distance_fit, self.constant or 0.0
        found = self.constant_is_resolved and not self.constants_differ
        return found and constant > 0 and fit.exponent.admits(self.expected or 0.0)

    @property
    def exponents_differ(self) -> bool:
        """Return whether the exponent is not the predicted one."""
        slack = max(self.tolerance, _EQUAL_WITHIN) * (self.expected or 0.0)
        return not self.distance_fit.exponent.admits(self.expected or 0.0, slack)

    @property
    def decays_faster(self) -> bool:
        """Return whether the exponent is above the predicted one, and no constant is predicted.

        Theorems bound distances from above: a faster decay agrees with a bound.
        """
        return self.constant is None and self.distance_fit.exponent.value > (self.expected or 0.0)

    @property
    def constants_differ(self) -> bool:
        """Return whether the constant is not the predicted one."""
        constant = self.constant or 0.0
        return not self.distance_fit.constant.admits(constant, self.tolerance * constant)

    @property
    def levels_off(self) -> bool:
        """Return whether distances over the predicted rate tend to a constant."""
        return self.distance_fit.levels_off

    @property
    def hides_logarithm(self) -> bool:
        """Return whether distances have a factor log L that is not predicted."""
        fit, expected = self.logarithm_fit, self.expected or 0.0
        exponent = fit.exponent
        error = abs(exponent.value - expected) + exponent.uncertainty
        return fit.levels_off and error <= _EXACT_EXPONENT_WITHIN * expected

    # ---- the limit

    @property
    def reaches_prediction(self) -> bool:
        """Return whether the distance from a predicted limit falls to 0."""
        share, fall = _LARGEST_REMAINDER, _LEAST_FALL
        if self.predicted and self.agrees and self.expected is not None:
            exponent = self.distance_fit.exponent
            if self.constant_is_resolved:
                share, fall = _LARGEST_REMAINDER_AT_LAW, 1.0
            elif (
                abs(exponent.value - self.expected) + exponent.uncertainty
                <= _EXACT_EXPONENT_WITHIN * self.expected
                or self.constant_is_exact
            ):
                share = math.inf
        return self.predicted and self.distance_fit.tends_to_zero(share, fall)

    @property
    def stopped(self) -> bool:
        """Return whether the kernels no longer move.

        Differences end in rounding errors where convergence is faster than any power of depth.
        """
        ended = self.spread_fit.vanished or self.distance_fit.vanished
        still = ended and self.last_step_rate <= _STOPPED_BELOW * self.last_size
        return still or self.step_fit.vanished

    @property
    def converges(self) -> bool:
        """Return whether the kernels converge to some limit."""
        return self.stopped or self.step_fit.exponent.exceeds(0.0)

    @property
    def way_to_go(self) -> float:
        """The largest distance that the worst pair of `distance_fit` may still move."""
        return self._way_to_go(self.distance_rate)

    def _way_to_go(self, rate: float) -> float:
        """Return the largest distance that a pair may still move, from its last step rate.

        Steps fall as L^-p, and so their sum is at most the last step rate over p.
        """
        if self.stopped:
            return 0.0
        if not self.converges:
            return math.inf
        exponent = self.step_fit.exponent
        return rate / (exponent.value - exponent.uncertainty)

    @property
    def misses_prediction(self) -> bool:
        """Return whether the distance stays positive, and the kernels cannot get over it."""
        return self._is_out_of_reach(self.distance_fit, self.distance_rate)

    @property
    def spread_stays(self) -> bool:
        """Return whether the spread stays positive: the limit remembers the signals."""
        return self._is_out_of_reach(self.spread_fit, self.spread_rate)

    @property
    def spread_is_unknown(self) -> bool:
        """Return whether there is a single pair, and so no spread."""
        return math.isnan(self.spread_fit.last_value)

    @property
    def spread_falls(self) -> bool:
        """Return whether the kernels converge, and all pairs to the same value."""
        return self.converges and self.spread_fit.tends_to_zero(_LARGEST_REMAINDER, _LEAST_FALL)

    def _is_out_of_reach(self, fit: PowerLaw, rate: float) -> bool:
        deep_enough = self.deepest >= self.needed
        far = fit.worst_last > _OUT_OF_REACH_FACTOR * self._way_to_go(rate)
        sure = fit.remainder.value > _SURE_FACTOR * fit.remainder.uncertainty
        followed = sure and self.converges and self.step_fit.fall_factor >= _SURE_FALL
        return fit.stays_positive and (far or followed) and deep_enough

    # ---- the parts of sentences

    @property
    def reached(self) -> str:
        """The sentence for a distance that falls to 0."""
        if self.distance_fit.vanished:
            return "the deepest networks agree with the predicted limit to rounding"
        rate = ""
        if self.prediction is not None and self.expected is not None:
            rate = f" (predicted: {self.prediction.rate})"
        return (
            f"the distance from the predicted limit falls with exponent "
            f"{self.distance_fit.exponent}{rate}, and {self.distance_fit.remainder} of it is "
            f"left at infinite depth of any pair"
        )

    @property
    def missed(self) -> str:
        """The sentence for a distance that stays positive."""
        return (
            f"{self.distance_fit.remainder} of the distance from the predicted limit is left at "
            f"infinite depth, of the worst pair, and it moves by no more than "
            f"{self.way_to_go:.2g} from here on"
        )

    @property
    def fades(self) -> str:
        """The sentence for a spread that falls to 0."""
        if self.spread_fit.vanished:
            return "the spread of the pairs has become a rounding error"
        return f"the spread of the pairs falls, exponent {self.spread_fit.exponent}"

    @property
    def fits(self) -> str:
        """The sentence for fits that decide nothing."""
        words = f"steps have exponent {self.step_fit.exponent}"
        if self.prediction is not None:
            words += (
                f", the distance exponent {self.distance_fit.exponent}; "
                f"{self.distance_fit.remainder} of it is left at infinite depth"
            )
        return words

    @property
    def rate_needs(self) -> str:
        """The depth, in words, at which a different rate refutes the prediction, or ""."""
        return _deeper(self.deepest, max(self.needed, self.rate_depth))

    @property
    def needs(self) -> str:
        """The depth, in words, at which a verdict is to be expected, or ""."""
        needed = self.needed
        if self.prediction is not None and self.expected:
            # A law with a logarithm is seen ten times as deep; so is a law overdue at this depth.
            needed = max(needed * 10.0**self.prediction.log_power, _depth_of_power(self.expected))
            needed = max(needed, 10.0 * self.deepest if needed <= self.deepest else 0.0)
        return _deeper(self.deepest, needed)


def _depth_of_power(exponent: float) -> float:
    """Return the depth L where L^exponent is `_LEAST_POWER`."""
    if exponent <= math.log(_LEAST_POWER) / 700.0:
        return math.inf  # beyond float64
    return _LEAST_POWER ** (1.0 / exponent)


def _deeper(deepest: float, needed: float) -> str:
    """Return the depth that is needed in words; "" where the ladder reaches it."""
    return "" if deepest >= needed else f"; networks of depth {needed:.1e}, about, would tell"


class _Rate(NamedTuple):
    """A row of the table of rates."""

    applies: Callable[[Evidence], bool]
    agrees: Callable[[Evidence], bool | None]
    objection: str


def always(value: bool | None) -> Callable[[Evidence], bool | None]:
    """Return a function of the evidence that is the same for any evidence."""
    return lambda e: value


_OTHER_EXPONENT = "the exponent predicted is {e.expected:g}"
_LOGARITHM = (
    "there is a factor log(L), of constant {e.logarithm_fit.constant}, which is not predicted"
)
_DRIFTS = "over the predicted rate it does not yet tend to a constant"
_OTHER_CONSTANT = "the constant is {e.distance_fit.constant}, where {e.constant:.4g} is predicted"

# The rate of the distance against the predicted rate: the first row that applies counts.
_RATES = (
    _Rate(lambda e: e.expected is None, always(True), ""),
    _Rate(lambda e: e.hides_logarithm and not e.levels_off, always(False), _LOGARITHM),
    _Rate(lambda e: e.law_is_found, always(True), ""),
    _Rate(
        lambda e: not e.exponent_is_resolved,
        always(None),
        "too vague for the {e.expected:g} that is predicted",
    ),
    _Rate(lambda e: e.exponents_differ, lambda e: e.decays_faster, _OTHER_EXPONENT),
    _Rate(lambda e: not e.levels_off, always(None), _DRIFTS),
    _Rate(lambda e: e.constant is None, always(True), ""),
    _Rate(lambda e: e.constants_differ, always(False), _OTHER_CONSTANT),
    _Rate(
        lambda e: True,
        always(None),
        "too vague, constant {e.distance_fit.constant}, for the {e.constant:.4g} that is predicted",
    ),
)
