"""Forecasts: the expected error of an estimator that is fitted to more signals than there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta, norm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ..report_table import ReportTable
from ..validation import check_depths, check_positive

_FARTHEST = 4
"""Largest number of signals, relative to today's, that is forecast. Raising it gives forecasts that
nobody has compared with measurements."""


_EXPONENT = 0.8
"""Exponent of the fall of errors with the number n of signals, e(m) = e(n) (m/n)^−exponent. Raising
it forecasts smaller errors. Measured on 1750 draws of eight classification sets, with the passes of
whole sets: it has the least interval score of 80 % intervals."""

_SPREAD = 0.5
"""Standard deviation of the exponent between data sets. Raising it widens intervals. Raised from .3
until intervals of estimators cover the errors measured in benchmarks/forecast.py."""

_DOUBT = 2.0
"""Divisor of a classifier's number of signals: left-out errors depend on each other, as their
training signals are the same. Raising it widens intervals. It was raised from 1.7 with the
spread."""

_QUANTILES = 201
"""Quantiles of today's error, and of the exponent, that are combined. Raising it takes time
with its square. Measured: ten times as many change the ends of 80 % intervals by less than 1 %."""


class ForecastRow(NamedTuple):
    """The error that is expected with one number of signals."""

    n: int
    error: float
    """The median of what is expected."""
    lower: float
    """The lower end of the interval; 0 where no signal is wrong today."""
    upper: float


@dataclass(frozen=True)
class Forecast(ReportTable):
    """Errors at more signals; iterating gives a `ForecastRow` for each number of signals.

    Errors are shares of wrong answers of a classifier, 1 − R² of a regressor.
    """

    n: int
    """Number of signals of the fit."""
    error: float
    """Error today, of signals left out: 1 − ``best_score_``."""
    coverage: float
    quantity: str
    """What an error is, in words."""

    def __str__(self) -> str:
        """Return the table as text."""
        ends = f"{self.coverage:.0%} interval"
        lines = [f"{self.quantity}: {self.error:.3g} with {self.n} signals, leave-one-out"]
        lines.append(f"{'signals':>7}  {'error':>6}  {ends:>16}")
        lines += [f"{n:7}  {e:6.3f}  {a:7.3f} – {b:6.3f}" for n, e, a, b in self.rows]
        return "\n".join(lines)


def forecast(model: Any, sizes: Iterable[int], coverage: float = 0.8) -> Forecast:
    """Return the errors of a fitted estimator that are expected at more signals."""
    check_is_fitted(model)
    (n, n_different), share = model._fitted.counts, check_positive(coverage, "coverage")
    if not share < 1:
        raise ValueError(f"coverage is {coverage!r}, expected a number between 0 and 1")
    ladder = check_depths(sizes, "sizes")
    for size in ladder:
        if not n <= size <= _FARTHEST * n:
            raise ValueError(
                f"sizes has {size}, expected {n} to {_FARTHEST * n}: at least the {n} signals "
                f"of the fit, and at most {_FARTHEST} times as many, as far as forecasts were "
                f"compared with measurements"
            )
    error = 1.0 - model.best_score_
    if not np.isfinite(error):
        raise ValueError("best_score_ is nan, expected signals whose left-out errors count")
    classes = is_classifier(model)
    chances = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if classes:
        # The share of wrong answers has a beta distribution: left-out signals, and Jeffreys' prior.
        trials = n_different / _DOUBT
        levels = np.log(beta.ppf(chances, error * trials + 0.5, (1 - error) * trials + 0.5))
    else:
        tiny = np.finfo(np.float64).tiny
        deviation = model.best_score_error_ / max(error, tiny)
        levels = np.log(max(error, tiny)) + deviation * norm.ppf(chances)
    tail, rows = 0.5 * (1.0 - share), []
    for size in ladder:
        falls = (_EXPONENT + _SPREAD * norm.ppf(chances)) * np.log(size / n)
        logs = levels if size == n else np.subtract.outer(levels, falls)
        ends = np.quantile(logs, (tail, 0.5, 1.0 - tail), method="hazen")
        lower, middle, upper = np.minimum(np.exp(ends), 1.0 if classes else np.inf).tolist()
        rows.append(ForecastRow(size, middle, 0.0 if error == 0 else lower, upper))
    quantity = "share of wrong answers" if classes else "1 − R²"
    return Forecast(tuple(rows), n, float(error), share, quantity)
