"""The verdict on kernels over a ladder of depths: fits beside predictions, in one table.

A prediction outside the error bar of its fit is contradicted. A prediction inside agrees if the bar
is short enough to tell, and is open otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..report_table import ReportTable
from . import extrapolation
from .extrapolation import UNKNOWN, Corrections, Estimate, estimate, root_mean_square
from .prediction import Prediction

AGREES, CONTRADICTS, OPEN = "agrees", "contradicts", "open"
VERDICTS = {
    AGREES: "each prediction is inside its error bar ±, and each bar is short enough to tell",
    CONTRADICTS: "a prediction is outside its error bar ±",
    OPEN: "a bar is too long to tell, or nothing is predicted; deeper networks shorten bars",
}
"""Verdicts with their meanings."""

TOLERANCE = 0.1
"""Longest error bar that tells an exponent or a constant, relative to the prediction."""

_ROUNDING_BAR = 30.0
"""Longest error bar of a limit that tells nothing but rounding errors, in rounding errors."""


class Finding(NamedTuple):
    """A fitted number beside the predicted number."""

    quantity: str
    found: Estimate
    predicted: float
    resolution: float
    """Longest error bar that tells."""

    @property
    def verdict(self) -> str:
        """A key of `VERDICTS`."""
        if not self.found.admits(self.predicted) and math.isfinite(self.found.uncertainty):
            return CONTRADICTS
        return AGREES if self.found.uncertainty <= self.resolution else OPEN

    @property
    def largest_error(self) -> float:
        """The largest error of a prediction that the fit would not have contradicted."""
        return abs(self.found.value - self.predicted) + self.found.uncertainty

    def __str__(self) -> str:
        text = f"{self.quantity} {self.found}, predicted {self.predicted:.6g}: {self.verdict}"
        if self.verdict == CONTRADICTS or not math.isfinite(self.largest_error):
            return text
        return f"{text}; an error of up to {self.largest_error:.2g} passes"


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
class Report(ReportTable):
    """The result of ``depth.check``: a verdict, fits and a `Row` for each depth, by iterating."""

    prediction: Prediction | None
    predicted_exponent: float
    """NaN where no exponent is predicted, and so is `predicted_constant` without a constant."""
    predicted_constant: float
    step_exponent: Estimate
    """Exponent of the change per unit of log depth: the kernels converge where it is positive."""
    remainder: Estimate
    """The distance of the worst pair from its predicted limit, at infinite depth."""
    exponent: Estimate
    """p of the distance, L^-p (log L)^k."""
    constant: Estimate
    """The constant beside the predicted rate."""
    spread_remainder: Estimate
    """The deviation of the worst pair from the mean over pairs, at infinite depth."""
    forgets: bool | None
    """Whether all pairs of different signals have the same limit; None where it is open."""
    findings: tuple[Finding, ...]
    """Limit, exponent and constant, as far as they are predicted."""
    family: str = ""
    kind: str = ""
    head: str = ""
    shape: tuple[int, ...] = ()
    """Signals: (n_cases, n_channels, n_timepoints)."""
    route: str = ""
    """The computation: complements on the multi-sphere, or normalized kernel matrices."""

    @property
    def verdict(self) -> str:
        """Contradicts if any finding does, agrees if all findings do, is open otherwise."""
        verdicts = {finding.verdict for finding in self.findings}
        if CONTRADICTS in verdicts:
            return CONTRADICTS
        return AGREES if verdicts == {AGREES} else OPEN

    @property
    def reason(self) -> str:
        """The findings, or why there are none, in words."""
        if self.prediction is None:
            return "nothing is predicted"
        if self.prediction.undefined:
            return f"the prediction is undefined: {self.prediction.undefined}"
        if self.prediction.onset >= self.rows[-1].depth:
            return f"the law sets in at depth {self.prediction.onset:.1e}, deeper than this ladder"
        return "\n".join(map(str, self.findings))

    @property
    def predicted_rate(self) -> str:
        """The predicted rate in words, such as "log(L) L^-1"."""
        return "unknown" if self.prediction is None else self.prediction.rate

    def __str__(self) -> str:
        """Return the whole report as text."""
        header = [name.replace("_", "-") for name in Row._fields]
        table = ["  ".join(line) for line in self._cells(header)]
        n_cases, n_channels, n_timepoints = self.shape
        predicted = "none" if self.prediction is None else self.prediction.source
        if not math.isnan(self.predicted_exponent):
            known = not math.isnan(self.predicted_constant)
            constant = f"{self.predicted_constant:.4g} " if known else ""
            predicted += f"; distance ~ {constant}{self.predicted_rate}"
        forgets = {True: "yes", False: "no", None: "open"}[self.forgets]
        return "\n".join(
            [
                f"{self.family}: {self.kind.upper()}, {self.head} head; {n_cases} signals, "
                f"{n_channels} channels × {n_timepoints} pixels; {self.route}",
                f"prediction: {predicted}",
                table[0],
                "-" * len(table[0]),
                *table[1:],
                f"steps: exponent {self.step_exponent}; above 0 the kernels converge",
                f"spread: {self.spread_remainder} left; all pairs have the same limit: {forgets}",
                "fits of the distance: its limit, and exponent and constant of its rate",
                self.reason,
                f"verdict: {self.verdict}: {VERDICTS[self.verdict]}",
            ]
        )


def judge(
    depths: tuple[int, ...],
    values: np.ndarray,
    noise: np.ndarray,
    prediction: Prediction | None = None,
    limit: np.ndarray | None = None,
    constant: float | None = None,
    tolerance: float = TOLERANCE,
) -> Report:
    """Judge whether kernels over a ladder of depths converge as predicted.

    `values` are complements, (n_depths, n_pairs), with rounding errors `noise`, (n_depths,). The
    prediction comes with its complements, `limit`, and its constant for these signals.
    """
    L = np.array(depths, dtype=np.float64)
    corrections = _corrections(prediction, L, values, noise)
    step, limits, errors = extrapolation.fit_limits(L, values, noise, corrections)
    spread = _worst(limits - limits.mean(), errors + errors.mean())
    forgets = None
    if values.shape[1] > 1:
        told = Finding("spread", spread, 0.0, TOLERANCE * float(values[0].std())).verdict
        forgets = {AGREES: True, CONTRADICTS: False, OPEN: None}[told]
    distance = largest = law = np.full(len(L), np.nan)
    remainder, exponent, fitted_constant, findings = UNKNOWN, UNKNOWN, UNKNOWN, []
    p = None if prediction is None or limit is None else prediction.exponent
    if prediction is not None and limit is not None:
        distances = values - limit
        distance, largest = root_mean_square(distances), np.abs(distances).max(axis=1)
        remainder = _worst(limits - limit, errors)
        longest = max(tolerance * distance[0], distance[-1], _ROUNDING_BAR * noise[-1])
        findings.append(Finding("limit", remainder, 0.0, float(longest)))
        exponent = estimate(*extrapolation.fit_exponent(L, distance, noise, corrections))
    if prediction is not None and p is not None:
        findings.append(Finding("exponent", exponent, p, tolerance * exponent.value))
        # Beside another power than the distance's own a constant means nothing.
        if findings[-1].verdict == AGREES:
            fitted_constant = estimate(
                *extrapolation.fit_constants(L, distances, noise, p, corrections)
            )
        if constant is not None:
            law = constant * prediction.power(L)
            resolution = tolerance * fitted_constant.value
            findings.append(Finding("constant", fitted_constant, constant, resolution))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.append(np.nan, -np.diff(np.log(distance)) / np.diff(np.log(L)))
    slope[~np.isfinite(slope)] = np.nan
    mean = values.mean(axis=1)
    steps = np.append(np.nan, root_mean_square(np.diff(values, axis=0)))
    columns = (1.0 - mean, mean, values.std(axis=1), steps, distance, largest, law, slope)
    rows = zip(depths, *(column.tolist() for column in columns), strict=True)
    return Report(
        rows=tuple(Row._make(row) for row in rows),
        prediction=prediction,
        predicted_exponent=math.nan if p is None else p,
        predicted_constant=math.nan if constant is None else float(constant),
        step_exponent=estimate(*step),
        remainder=remainder,
        exponent=exponent,
        constant=fitted_constant,
        spread_remainder=spread,
        forgets=forgets,
        findings=tuple(findings),
    )


def _corrections(
    prediction: Prediction | None, depths: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> Corrections:
    """Return the predicted corrections, or q = p of the last steps, 1 at most."""
    onset, log_power = (prediction.onset, prediction.log_power) if prediction else (1.0, 0)
    q = prediction.correction if prediction else None
    if q is None:
        places, rates, _ = extrapolation.step_rates(depths, values, noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(rates[-2] / rates[-1]) / np.log(places[-1] / places[-2])
        q = min(float(slope), 1.0) if slope > 0 else 1.0
    first = (onset / float(depths[-1])) ** q  # relative size of the first correction
    if first >= 1.0:
        return Corrections(q, log_power, math.inf)
    # Beside a logarithm the second correction has powers of logarithms that no removal takes away.
    left = (first * (1.0 - math.log(first))) ** 2 if log_power else first**3
    return Corrections(q, log_power, left)


def _worst(values: np.ndarray, errors: np.ndarray) -> Estimate:
    """Return the absolute value that is outside its bar by most, or else the largest with it."""
    sizes, bars = np.abs(values), extrapolation.STANDARD_ERRORS * errors
    outside = sizes - bars
    worst = int(np.argmax(outside)) if outside.max() > 0 else int(np.argmax(sizes + bars))
    return estimate(float(sizes[worst]), float(errors[worst]))
