"""Findings on a family of kernels over a ladder of depths: fits, verdict and a table of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .extrapolation import NO_FIT, Estimate, fit_power_law
from .limits import ROUNDING, Prediction, root_mean_square
from .report_table import ReportTable
from .verdict import Evidence, decide


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
    """The distance at infinite depth."""
    step_exponent: Estimate
    """Exponent of the change per unit of log depth: the kernels converge where it is positive."""
    spread_exponent: Estimate
    """Exponent of the spread of the pairs."""
    spread_remainder: Estimate
    """The spread at infinite depth: 0 where the limit forgets the signals."""

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
        The least depth at which these signals can refute a prediction.

    Returns
    -------
    Findings
    """
    L = np.array(depths, dtype=np.float64)
    nan = np.full(len(L), np.nan)
    spread = values.std(axis=1)
    steps = root_mean_square(np.diff(values, axis=0))
    step_rates = steps / np.diff(np.log(L))
    step_noise = 2.0 * (noise[1:] + noise[:-1])
    # The spread of one pair is 0 at every depth, and tells nothing.
    spread_fit = fit_power_law(L, spread, noise) if values.shape[1] > 1 else NO_FIT
    distance, largest, law, slope, distance_fit = nan, nan, nan, nan, NO_FIT
    if limit is not None and prediction is not None:
        distance = root_mean_square(values - limit)
        largest = np.abs(values - limit).max(axis=1)
        slope = np.append(np.nan, _log_slopes(L, distance))
        log_power, exponent = prediction.log_power, prediction.exponent
        distance_fit = fit_power_law(L, distance, noise, log_power, exponent)
        if constant is not None and exponent is not None:
            law = constant * L**-exponent * np.log(L) ** log_power
    evidence = Evidence(
        distance_fit=distance_fit,
        step_fit=fit_power_law(np.sqrt(L[1:] * L[:-1]), step_rates, step_noise),
        spread_fit=spread_fit,
        last_step_rate=float(step_rates[-1]),
        last_size=float(root_mean_square(values[-1])),
        prediction=prediction,
        constant=constant,
        limit_forgets=_forgets(limit, prediction),
        deepest=float(L[-1]),
        needed=needed,
    )
    decision = decide(evidence)
    mean = values.mean(axis=1)
    step = np.append(np.nan, steps)
    columns = (1.0 - mean, mean, spread, step, distance, largest, law, slope)
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
    )


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
