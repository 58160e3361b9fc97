"""Findings on a family of kernels over a ladder of depths: fits, verdict and a table of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .evidence import TOLERANCE, Evidence
from .extrapolation import Estimate
from .limits import ROUNDING, Prediction
from .power_law import NO_FIT, fit_power_law, root_mean_square
from .report_table import ReportTable
from .verdict import UNDECIDED, decide


class Row(NamedTuple):
    """Statistics of the pairs of different signals at one depth of a `Report`."""

    depth: int
    off_diagonal: float
    """The mean of the normalized kernel over pairs."""
    complement: float
    """1 − off_diagonal, with all its digits."""
    spread: float
    """The standard deviation of the normalized kernel over pairs."""
    step: float
    """The change since the previous depth, in root mean square over pairs."""
    distance: float
    """The distance from the predicted limit, in root mean square over pairs."""
    largest: float
    """The largest distance of a pair."""
    predicted: float
    """The predicted distance; NaN where its constant is not predicted."""
    slope: float
    """Minus the slope of log distance over log depth since the previous depth."""


@dataclass(frozen=True)
class Findings(ReportTable[Row]):
    """The verdict on a ladder of depths, with the fits behind it."""

    verdict: str
    """One of `verdict.VERDICTS`."""
    as_predicted: bool | None
    """Whether limit, rate and constant are the predicted ones, as far as they are predicted.
    None: not predicted, or not decided. A limit that forgets the signals can be predicted, too:
    then the verdict is that the family degenerates, and this is True."""
    reason: str
    """The numbers that led to the verdict, in a sentence."""
    prediction: str
    """Whose prediction, in a few words; "none" where there is none."""
    predicted_rate: str
    """The predicted rate in words, such as "log(L) L^-1"."""
    predicted_exponent: float
    """NaN where none is predicted, as for the constant."""
    predicted_constant: float
    predicted_log_power: int
    """k of the predicted rate L^-p (log L)^k."""
    exponent: Estimate
    """p of the distance, L^-p (log L)^k."""
    constant: Estimate
    """The constant of the predicted rate."""
    remainder: Estimate
    """The distance at infinite depth, of the pair that is the worst."""
    step_exponent: Estimate
    """Exponent of the change per unit of log depth: the kernels converge where it is positive."""
    spread_exponent: Estimate
    """Exponent of the spread of the pairs."""
    spread_remainder: Estimate
    """The deviation from the pairs' mean at infinite depth, of the pair that is the worst: 0
    where the limit forgets the signals."""
    tolerance: float
    """Largest relative difference of a constant from the predicted constant."""

    @property
    def law(self) -> np.ndarray:
        """The predicted distance at each depth, (n_depths,).

        Where the constant is not predicted, the law passes through the deepest distance. NaN
        where no rate is predicted.
        """
        predicted, depths = self.column("predicted"), self.column("depth")
        if np.isfinite(predicted).any() or not self.predicted_exponent > 0:
            return predicted
        law = self.rows[-1].distance * (depths / depths[-1]) ** -self.predicted_exponent
        if self.predicted_log_power:
            law *= np.log(depths) / np.log(depths[-1])
        return law


def judge(
    depths: tuple[int, ...],
    values: np.ndarray,
    noise: np.ndarray,
    limit: np.ndarray | None = None,
    prediction: Prediction | None = None,
    constant: float | None = None,
    needed: float = 0.0,
    tolerance: float = TOLERANCE,
) -> Findings:
    """Judge whether kernels over a ladder of depths converge, and to what.

    Parameters
    ----------
    depths : tuple of int, (n_depths,)
    values : ndarray, (n_depths, n_pairs)
        Complements, 1 − (normalized kernel), of pairs of different signals.
    noise : ndarray, (n_depths,)
        Rounding errors of `values`.
    limit : ndarray, (n_pairs,), optional
        Complements of the predicted limit.
    prediction : Prediction, optional
        Given with `limit`.
    constant : float, optional
        The predicted constant of the distance, for these signals.
    needed : float, default 0
        The least depth at which these signals can refute a prediction. Fits of a shallower
        ladder that decide nothing are unknown: nothing tells how uncertain they are.
    tolerance : float
        Largest relative difference of constants that counts as none.

    Returns
    -------
    Findings
    """
    L = np.array(depths, dtype=np.float64)
    nan = np.full(len(L), np.nan)
    deviations = values - values.mean(axis=1, keepdims=True)
    rates = np.diff(values, axis=0) / np.diff(np.log(L))[:, None]
    # The spread of one pair is 0 at every depth, and tells nothing.
    spread_fit = fit_power_law(L, deviations, noise) if values.shape[1] > 1 else NO_FIT
    distance, largest, law, slope = nan, nan, nan, nan
    distance_fit, logarithm_fit = NO_FIT, NO_FIT
    if limit is not None and prediction is not None:
        errors = values - limit
        distance, largest = root_mean_square(errors), np.abs(errors).max(axis=1)
        slope = np.append(np.nan, _log_slopes(L, distance))
        log_power, exponent = prediction.log_power, prediction.exponent
        correction = prediction.correction
        distance_fit = fit_power_law(L, errors, noise, log_power, exponent, correction)
        if exponent and not log_power:
            logarithm_fit = fit_power_law(L, errors, noise, 1, exponent)
        if constant is not None and exponent is not None:
            law = constant * L**-exponent * np.log(L) ** log_power
    evidence = Evidence(
        distance_fit=distance_fit,
        logarithm_fit=logarithm_fit,
        step_fit=fit_power_law(
            np.sqrt(L[1:] * L[:-1]), root_mean_square(rates), 2.0 * (noise[1:] + noise[:-1])
        ),
        spread_fit=spread_fit,
        last_step_rate=float(root_mean_square(rates[-1])),
        distance_rate=_last_rate(rates, distance_fit.worst),
        spread_rate=_last_rate(rates, spread_fit.worst),
        last_size=float(root_mean_square(values[-1])),
        prediction=prediction,
        constant=constant,
        limit_forgets=_forgets(limit, prediction),
        deepest=float(L[-1]),
        needed=needed,
        tolerance=tolerance,
    )
    decision = decide(evidence)
    if decision.verdict == UNDECIDED and evidence.is_too_shallow:
        evidence = evidence.without_fits()
        decision = decide(evidence)
        distance_fit, spread_fit = evidence.distance_fit, evidence.spread_fit
    mean = values.mean(axis=1)
    step = np.append(np.nan, root_mean_square(np.diff(values, axis=0)))
    columns = (1.0 - mean, mean, values.std(axis=1), step, distance, largest, law, slope)
    rows = zip(depths, *(column.tolist() for column in columns), strict=True)
    exponent = None if prediction is None else prediction.exponent
    return Findings(
        rows=tuple(Row._make(row) for row in rows),
        **decision._asdict(),
        prediction="none" if prediction is None else prediction.source,
        predicted_rate="unknown" if prediction is None else prediction.rate,
        predicted_exponent=math.nan if exponent is None else float(exponent),
        predicted_constant=math.nan if constant is None else float(constant),
        predicted_log_power=0 if prediction is None else prediction.log_power,
        exponent=distance_fit.exponent,
        constant=distance_fit.constant,
        remainder=distance_fit.remainder,
        step_exponent=evidence.step_fit.exponent,
        spread_exponent=spread_fit.exponent,
        spread_remainder=spread_fit.remainder,
        tolerance=tolerance,
    )


def _last_rate(rates: np.ndarray, pair: int) -> float:
    """Return the change of a pair per unit of log depth at the end of the ladder.

    A change that is about to change its sign is small by chance. So half of the previous change
    counts, too, and the root mean square over pairs.
    """
    previous, last = np.abs(rates[-2:, pair])
    return float(max(last, 0.5 * previous, root_mean_square(rates[-1])))


def _log_slopes(depths: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return −Δ log values / Δ log depths, (n_depths − 1,); NaN where it is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = -np.diff(np.log(values)) / np.diff(np.log(depths))
    return np.where(np.isfinite(slopes), slopes, np.nan)


def _forgets(limit: np.ndarray | None, prediction: Prediction | None) -> bool:
    """Return whether the predicted limit is the same for all pairs of different signals."""
    if prediction is not None and prediction.degenerate:
        return True
    return limit is not None and len(limit) > 1 and bool(np.ptp(limit) <= ROUNDING)
