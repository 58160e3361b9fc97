"""The verdict on a family of kernels over depth, from numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .extrapolation import UNKNOWN, Decay, Estimate, decay
from .limits import Prediction
from .report_table import ReportTable

AS_PREDICTED = "converges as predicted"
ELSEWHERE = "converges to something else"
DEGENERATES = "degenerates"
UNDECIDED = "undecided"
VERDICTS = (AS_PREDICTED, ELSEWHERE, DEGENERATES, UNDECIDED)

# Exponents and constants that differ by less, relatively, are taken for the same.
_ALIKE = 0.05
# An exponent is resolved where it is known to this part of itself: p is told from p/2 and 2p.
_RESOLVED = 0.3
# What is left has to be nothing, give or take this part of the last distance, which has to be the
# first over so many: a limit that is off by less cannot be told from the right one.
_LEFT, _FALL = 0.02, 3.0
# What is left of that size makes an exponent p appear as (1 − part) p, and the constant larger by
# as much. So an exponent found to this part of the one predicted tells by itself that nothing
# is; and a law found with the constant predicted, for as much as these are resolved to.
_EXACT, _LEFT_AT_LAW = 0.025, 0.25
# A rate L^-p comes with corrections of relative size L^-p, or its root: where the deepest network
# has L^p less than this, another rate is not evidence against the predicted one.
_FAR = 100.0
# The distance has to be so many times the way that the kernels may still go.
_OUT_OF_REACH = 2.0
# Where differences are rounding errors, a change of the values by this part is the end of one.
_STILL = 1e-6


class Row(NamedTuple):
    """One depth of a `Report`: what the kernel does to the pairs of different signals."""

    depth: int
    off_diagonal: float
    """The mean of the normalized kernel over pairs."""
    complement: float
    """1 − that, with its digits."""
    spread: float
    """The standard deviation over pairs: what is left of the differences between signals."""
    step: float
    """The change since the depth before, in root mean square over pairs."""
    distance: float
    """From the predicted limit, in root mean square over pairs."""
    largest: float
    """The largest distance of a pair."""
    predicted: float
    """The distance predicted, where its constant is."""
    slope: float
    """Of the distance since the depth before: −Δ log distance / Δ log depth."""


@dataclass(frozen=True)
class Findings(ReportTable[Row]):
    """What a ladder of depths says about the limit."""

    verdict: str
    """One of `VERDICTS`."""
    as_predicted: bool | None
    """Whether limit, rate and constant are the predicted ones, as far as they are predicted.
    None: not predicted, or not decided. A limit that forgets the signals can be predicted, too:
    then the verdict is that the family degenerates, and this is True."""
    reason: str
    """The numbers that led to the verdict, in a sentence."""
    prediction: str
    """Whose prediction, in a few words; "none" where there is none."""
    predicted_rate: str
    predicted_exponent: float
    """NaN where none is predicted, as for the constant."""
    predicted_constant: float
    exponent: Estimate
    """p of the distance, L^-p (or log(L) L^-p where so predicted)."""
    constant: Estimate
    """The constant of the predicted rate."""
    remainder: Estimate
    """What is left of the distance at infinite depth."""
    step_exponent: Estimate
    """Of the change per unit of log depth: the kernels converge where it is positive."""
    spread_exponent: Estimate
    spread_remainder: Estimate
    """What is left of the spread: 0 where the limit forgets the signals."""


def judge(
    depths: tuple[int, ...],
    values: np.ndarray,
    noise: np.ndarray,
    limit: np.ndarray | None = None,
    prediction: Prediction | None = None,
    constant: float | None = None,
    needed: float = 0.0,
) -> Findings:
    """Return what kernels over a ladder of depths say about their limit.

    Parameters
    ----------
    depths : tuple of int, (n_depths,)
    values : ndarray, (n_depths, n_pairs)
        Complements, 1 − (normalized kernel), of pairs of different signals.
    noise : ndarray, (n_depths,)
        Their rounding errors.
    limit : ndarray, (n_pairs,), optional
        The predicted one, likewise.
    prediction : Prediction, optional
        Given with `limit`.
    constant : float, optional
        That of the prediction, for these signals.
    needed : float, default 0
        The depth without which nothing that these signals do tells against a prediction.
    """
    L = np.array(depths, dtype=np.float64)
    nan = np.full(len(L), np.nan)
    spread = values.std(axis=1)
    steps = np.append(np.nan, _rms(np.diff(values, axis=0)))
    paces = steps[1:] / np.diff(np.log(L))
    moving = decay(np.sqrt(L[1:] * L[:-1]), paces, 2.0 * (noise[1:] + noise[:-1]))
    spreading = decay(L, spread, noise)
    if values.shape[1] == 1:
        spreading = Decay(UNKNOWN, UNKNOWN, UNKNOWN, False, math.nan)  # one pair has no spread
    distance = largest = law = slope = nan
    coming = Decay(UNKNOWN, UNKNOWN, UNKNOWN, False, math.nan)
    if limit is not None and prediction is not None:
        distance, largest = _rms(values - limit), np.abs(values - limit).max(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.append(np.nan, -np.diff(np.log(distance)) / np.diff(np.log(L)))
        slope = np.where(np.isfinite(slope), slope, np.nan)
        coming = decay(L, distance, noise, prediction.log_power, prediction.exponent)
        if constant is not None and prediction.exponent is not None:
            law = constant * L**-prediction.exponent * np.log(L) ** prediction.log_power
    forgets = prediction is not None and prediction.degenerate
    if limit is not None and len(limit) > 1:
        forgets = forgets or bool(np.ptp(limit) <= 64 * np.finfo(np.float64).eps)
    # Differences end in rounding errors where convergence is faster than any power of depth.
    over = (spreading.vanished or coming.vanished) and paces[-1] <= _STILL * _rms(values[-1:])[0]
    verdict, as_predicted, reason = _verdict(
        coming, spreading, moving, paces, over, prediction, constant, forgets, L[-1], needed
    )
    mean = values.mean(axis=1)
    columns = (1.0 - mean, mean, spread, steps, distance, largest, law, slope)
    rows = zip(depths, *(column.tolist() for column in columns), strict=True)
    exponent = None if prediction is None else prediction.exponent
    return Findings(
        rows=tuple(Row._make(row) for row in rows),
        verdict=verdict,
        as_predicted=as_predicted,
        reason=reason,
        prediction="none" if prediction is None else prediction.source,
        predicted_rate="unknown" if prediction is None else prediction.rate,
        predicted_exponent=math.nan if exponent is None else float(exponent),
        predicted_constant=math.nan if constant is None else float(constant),
        exponent=coming.exponent,
        constant=coming.constant,
        remainder=coming.remainder,
        step_exponent=moving.exponent,
        spread_exponent=spreading.exponent,
        spread_remainder=spreading.remainder,
    )


def _verdict(
    coming: Decay,
    spreading: Decay,
    moving: Decay,
    paces: np.ndarray,
    over: bool,
    prediction: Prediction | None,
    constant: float | None,
    forgets: bool,
    deepest: float,
    needed: float,
) -> tuple[str, bool | None, str]:
    """Return the verdict, whether all is as predicted, and why."""
    if prediction is not None and prediction.exponent != 0:
        agrees, objection, rate_depth = _rate(coming, prediction, constant, deepest)
        share, fall = _LEFT, _FALL
        if agrees and prediction.exponent is not None:
            off = abs(coming.exponent.value - prediction.exponent) + coming.exponent.uncertainty
            if _knows(coming, constant):
                share, fall = _LEFT_AT_LAW, 1.0
            elif off <= _EXACT * prediction.exponent:
                share = math.inf
        if coming.vanishes(share, fall):
            reason = f"the distance from the predicted limit falls with exponent {coming.exponent}"
            if prediction.exponent is not None:
                reason += f" (predicted: {prediction.rate})"
            reason += f", and {coming.remainder} of it is left at infinite depth"
            if coming.vanished:
                reason = "the deepest networks agree with the predicted limit to rounding"
            verdict = DEGENERATES if forgets else AS_PREDICTED
            if agrees:
                return verdict, True, reason
            if coming.vanished and agrees is None:
                return verdict, None, f"{reason}; {objection}"
            verdict = DEGENERATES if forgets else UNDECIDED
            short = _short(deepest, max(needed, rate_depth))
            if agrees is None or short:
                return verdict, None, f"{reason}; {objection}{short}"
            return verdict, False, f"{reason}; but {objection}"
    converges = over or moving.vanished or moving.exponent.exceeds(0.0)
    to_go = math.inf
    if over or moving.vanished:
        to_go = 0.0
    elif converges:
        # Steps fall as L^-p, so the way still to go is at most their last pace over p.
        to_go = float(paces[-1]) / (moving.exponent.value - moving.exponent.uncertainty)
    short = _short(deepest, needed)
    away = coming.stays and coming.scale > _OUT_OF_REACH * to_go and not short
    refuted = False if prediction is not None and prediction.exponent != 0 else None
    elsewhere = (
        f"{coming.remainder} of the distance from the predicted limit is left at infinite depth, "
        f"and the kernels move by no more than {to_go:.2g} from here on"
    )
    if converges and spreading.vanishes(_LEFT, _FALL):
        fades = f"the spread of the pairs falls, exponent {spreading.exponent}"
        if spreading.vanished:
            fades = "the spread of the pairs has become a rounding error"
        return DEGENERATES, refuted if away else None, f"{fades}; {elsewhere}" if away else fades
    differ = spreading.stays and spreading.scale > _OUT_OF_REACH * to_go and not short
    if converges and away:
        if differ or math.isnan(spreading.scale):
            return ELSEWHERE, refuted, elsewhere
        doubt = f"{elsewhere}; whether the limit forgets the signals is open: of the spread is left"
        return UNDECIDED, refuted, f"{doubt} {spreading.remainder}"
    if converges and prediction is None and differ:
        return (
            ELSEWHERE,
            None,
            f"without a prediction to compare with: steps fall, exponent {moving.exponent}, and "
            f"a spread of {spreading.remainder} is left",
        )
    doubt = f"steps have exponent {moving.exponent}"
    if prediction is not None:
        doubt += f", the distance exponent {coming.exponent}"
        doubt += f"; {coming.remainder} of it is left at infinite depth"
        if prediction.exponent:
            # A law with a logarithm is ten times as far away; one that should be there is not.
            needed = max(needed * 10.0**prediction.log_power, _far(prediction.exponent))
            short = _short(deepest, max(needed, 10.0 * deepest if needed <= deepest else 0.0))
    return UNDECIDED, None, doubt + short


def _rate(
    coming: Decay, prediction: Prediction, constant: float | None, deepest: float
) -> tuple[bool | None, str, float]:
    """Return whether rate and constant are the predicted ones (None: not resolved), what speaks
    against, and the depth that is needed for that to count.
    """
    expected, fitted = prediction.exponent, coming.exponent
    if expected is None:
        return True, "", 0.0
    far = max(_far(expected), prediction.onset)
    found = _knows(coming, constant) and coming.constant.admits(constant or 0.0)
    if found and fitted.admits(expected):
        return True, "", far
    if not fitted.uncertainty <= _RESOLVED * expected:
        return None, f"too vague for the {expected:g} that is predicted", far
    far = max(far, _far(min(expected, fitted.value)))
    if not fitted.admits(expected, _ALIKE * expected):
        if fitted.value > expected and constant is None:
            return True, "", far  # theorems are about upper bounds
        return False, f"the exponent predicted is {expected:g}", far
    # A constant means something where the exponent is known.
    vague = not fitted.uncertainty <= 2.0 * _ALIKE * expected
    fitted = coming.constant
    if constant is None or vague or not math.isfinite(fitted.uncertainty):
        return True, "", far
    # Beside a log L is a constant; in root mean square it leaves 1/log L behind.
    slack = max(_ALIKE, 1.0 / math.log(deepest)) if prediction.log_power else _ALIKE
    if fitted.admits(constant, slack * constant):
        return True, "", far
    # Nor is it seen at all while the constants differ from pair to pair by more than that.
    doubt = None if prediction.log_power else False
    return doubt, f"the constant is {fitted}, where {constant:.4g} is predicted", far


def _knows(coming: Decay, constant: float | None) -> bool:
    """Return whether a constant is predicted, and one fitted well enough to compare."""
    return constant is not None and coming.constant.uncertainty <= _RESOLVED * constant


def _far(exponent: float) -> float:
    """Return the depth where L^p is _FAR."""
    return _FAR ** (1.0 / exponent) if exponent > math.log(_FAR) / 700.0 else math.inf


def _short(deepest: float, needed: float) -> str:
    """Return in words by how much the networks are not deep enough, or nothing."""
    if deepest >= needed:
        return ""
    return f"; networks of depth {needed:.1e}, about, would tell"


def _rms(values: np.ndarray) -> np.ndarray:
    return np.sqrt((values * values).mean(axis=1))
