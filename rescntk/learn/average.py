"""Averages of decisions: each pass gets ridge regression of its own, and a weight by its evidence.

A pass with mean squared leave-one-out error e gets a weight proportional to e^-4: with few signals
the errors are alike, and so are the weights; with many signals the better passes prevail. Where
noise is expected, e is a mean of the errors at the signals and at noisy copies of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ..engines.protocol import blocks
from ..regression import Decomposition, decompose, restricted_ridge
from .inputs import DistinctCases
from .passes import Pass
from .views import Signals, lengths, take

_POWER = 4.0
"""Exponent of leave-one-out errors in weights; a pure number. Raising it comes closer to choosing
one pass. Measured by benchmarks/classification.py --design (classification_design.md), mean
accuracy: .863 with 0, .877 with 2, .880 with 4, .879 with 6, .876 with 8, .872 with 12."""

_OTHERS = 100
"""Most signals beside the landmarks that tell the usual variance. Raising it tells it better and
takes as many pairs with all landmarks. Chosen: a mean of 100 errs by a tenth of the deviation."""

_NOISY = 0.05
"""Share of the errors at noisy copies in the errors that weigh passes. Raising it costs accuracy
where there is no noise. Measured by leave-one-out decisions on eight training sets, passes of the
default, mean accuracies without noise and with .1 of it: .939 and .697 with 0, .936 and .794 with
.05, .931 and .814 with .1, .921 and .844 with a third."""

_SHARES = 2**20
"""Shares of kernels that are held at once, for each kind and depth of a pass.

Raising it takes more memory; with fewer, norms of signals are computed more often, for 20 signals
of 2000 points in a tenth of the time. Chosen so that two kinds take about 100 MB."""


@dataclass(frozen=True)
class FittedPass:
    """A pass with the scales of its view, and ridge regression on its matrix."""

    source: Pass
    """With the fitted view."""
    signals: Signals
    """The training signals, or the landmarks among them, in the view."""
    penalty: float
    coefficients: np.ndarray
    """(n_signals, n_outputs)"""
    intercepts: np.ndarray
    """(n_outputs,)"""
    spectrum: Decomposition
    """Of the signals' kernel matrix."""
    variance_scale: np.ndarray
    """σ² of the Gaussian process, (n_outputs,)."""
    usual_variance: float
    """Mean variance of new observations at signals left out, in units of σ²."""
    novelties: np.ndarray
    """`novelty` of the cases, each left out, (n_cases,); 1 with landmarks."""
    growth: float = 1.0
    """Mean squared leave-one-out error at noisy copies, as a multiple of the signals' own."""
    seconds: float = 0.0
    """Time of view, matrix, regression and noisy copies."""

    def matrix(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the kernel matrix of X with the pass' signals, in float64."""
        K = self.source.kernel(self.source.view(X), self.signals, **options)
        return K.astype(np.float64, copy=False)

    def decide(self, K: np.ndarray) -> np.ndarray:
        """Return decisions (m_cases, n_outputs) from the `matrix` K, (m_cases, n_signals)."""
        return K @ self.coefficients + self.intercepts

    def novelty(self, K: np.ndarray) -> np.ndarray:
        """Return the variance of new observations by its usual value, (m_cases,), from K."""
        return (self.spectrum.variance(K, 1.0, self.penalty) + self.penalty) / self.usual_variance

    def variance(self, novelties: np.ndarray) -> np.ndarray:
        """Return the variance of new observations, (m_cases, n_outputs), from the `novelty`."""
        return novelties[:, None] * (self.usual_variance * self.variance_scale)

    def contributions(self, X: Signals, options: dict[str, Any]) -> list[np.ndarray]:
        """Return the shares of time points in decisions, (n_outputs, n_timepoints) for each signal.

        Shares of kernels are added up block by block: at most `_SHARES` are held. Coefficients are
        large, and magnify the kernels' rounding errors, to 1e-4 in float32. The errors of decisions
        are shared out evenly.
        """
        view, coefficients = self.source.view, self.coefficients.T
        points = view(X)
        sums = self.decide(self.matrix(X, options)) - self.intercepts
        longest, n = int(lengths(points).max()), len(X)
        pairs = max(1, _SHARES // longest)
        cases = min(n, max(1, int(np.sqrt(pairs))))
        found = np.zeros((n, len(coefficients), longest))
        for columns in blocks(0, len(self.signals), max(1, pairs // cases)):
            for rows in blocks(0, n, cases):
                shares = self.source.shares(points[rows], self.signals[columns], options)
                found[rows, :, : shares.shape[2]] += coefficients[:, columns] @ shares
        counts = lengths(points)
        found += ((sums - found.sum(axis=2)) / counts[:, None])[..., None]
        parts = zip(found, counts, lengths(X), strict=True)
        return [view.to_time(part[:, :count], length) for part, count, length in parts]


def fit_pass(
    source: Pass,
    cases: DistinctCases,
    penalties: Sequence[float],
    error_weights: np.ndarray,
    options: dict[str, Any],
    *,
    landmarks: np.ndarray | None = None,
    copies: tuple[np.ndarray, Signals] | None = None,
) -> tuple[FittedPass, np.ndarray]:
    r"""Return the fitted pass, and leave-one-out residuals (n_penalties, n_cases, n_outputs).

    Penalties are in units of the kernel's diagonal, which is 1. `landmarks` are indices of the
    signals to which the solution is restricted. The pass keeps the eigenvectors of its matrix, n²
    numbers. The scale :math:`\sigma^2 = y^\top (K + \lambda I)^{-1} (y - b) / n`
    of the Gaussian process maximizes the marginal likelihood of the targets; I/w takes the place
    of I for cases of weights w. `copies` are indices of some cases, and the noisy signals.
    """
    start = time.perf_counter()
    source = replace(source, view=source.view.fit(cases.signals, cases.weights))
    signals, Y, weights = source.view(cases.signals), cases.targets, cases.weights
    smoother, novelties = None, np.ones(len(Y))
    if landmarks is None:
        unit, spectrum = decompose_in_units(source.kernel(signals, **options), weights)
        residuals = spectrum.leave_one_out(Y, penalties, intercept=True)
        choice = weigh([residuals], error_weights)[0][0]
        coefficients, intercepts = spectrum.with_intercept(Y, penalties[choice])
        coefficients = coefficients / unit
        if copies is not None:
            own = np.eye(len(Y))[:, copies[0]]
            columns, constants = spectrum.with_intercept(own, penalties[choice])
            smoother = columns / unit, constants
        scale = np.mean(coefficients * (Y - intercepts), axis=0)
        inverses = 1.0 / (spectrum.eigenvalues + penalties[choice])
        variances = 1.0 / (spectrum.eigenvectors**2 @ inverses)
        usual = float(np.average(variances, weights=weights))
        novelties = variances / usual
    else:
        found = restricted_ridge(
            source.kernel,
            cast(Any, signals),
            Y,
            landmarks,
            penalties,
            intercept=True,
            leave_one_out=True,
            case_weights=weights,
            **options,
        )
        residuals = cast(np.ndarray, found.errors)
        choice = weigh([residuals], error_weights)[0][0]
        coefficients, intercepts = found.coefficients[choice], found.intercepts[choice]
        # The process knows the landmarks alone. The mean variance at some other signals is made
        # their mean squared leave-one-out residual.
        L = found.features.factor
        spectrum = replace(decompose(L @ L.T, weights[found.features.landmarks]), matrix=None)
        others = np.setdiff1d(np.arange(len(Y)), landmarks)[:_OTHERS]
        K = source.kernel(take(signals, others), found.features.signals, **options)
        variances = spectrum.variance(K, 1.0, penalties[choice]) + penalties[choice]
        usual = float(np.average(variances, weights=weights[others]))
        squares = residuals[choice, others] ** 2
        scale = np.average(squares, axis=0, weights=weights[others]) / usual
        signals = found.features.signals
    fitted = FittedPass(
        source=source,
        signals=signals,
        penalty=penalties[choice],
        coefficients=coefficients,
        intercepts=intercepts,
        spectrum=spectrum,
        variance_scale=scale,
        usual_variance=usual,
        novelties=novelties,
    )
    growth = 1.0
    if copies is not None:
        clean, counts = residuals[choice, copies[0]], error_weights[copies[0]]
        noisy = _noisy_residuals(fitted, cases, clean, copies, smoother, options)
        errors = [counts @ np.mean(left_out**2, axis=1) for left_out in (clean, noisy)]
        growth = errors[1] / max(errors[0], np.finfo(np.float64).tiny) if errors[1] else 1.0
    return replace(fitted, growth=growth, seconds=time.perf_counter() - start), residuals


def _noisy_residuals(
    fitted: FittedPass,
    cases: DistinctCases,
    clean: np.ndarray,
    copies: tuple[np.ndarray, Signals],
    smoother: tuple[np.ndarray, np.ndarray] | None,
    options: dict[str, Any],
) -> np.ndarray:
    """Return residuals at noisy copies, (m, n_outputs), of the fit without the case copied.

    Decisions are linear in the targets. To leave a case out is to take its target less its
    residual: coefficients and intercepts of the target alone, the `smoother`, tell what changes.
    With landmarks a case changes the decisions at itself and at its copy equally little.
    """
    places, noisy = copies
    K, targets = fitted.matrix(noisy, options), cases.targets[places]
    if smoother is None:
        near = fitted.matrix(take(cases.signals, places), options)
        return clean + fitted.decide(near) - fitted.decide(K)
    shares = np.einsum("ij,ji->i", K, smoother[0]) + smoother[1]
    return targets - fitted.decide(K) + shares[:, None] * clean


def decompose_in_units(
    K: np.ndarray, case_weights: np.ndarray | None = None
) -> tuple[float, Decomposition]:
    """Return the mean m of K's diagonal, the unit of penalties, and K/m decomposed.

    Eigenvalues that rounding errors took below 0 are taken as 0.
    """
    unit = float(np.mean(np.diagonal(K), dtype=np.float64)) or 1.0
    found = decompose(K / unit, case_weights)
    values, eps = np.maximum(found.eigenvalues, 0.0), float(np.finfo(np.float64).eps)
    return unit, replace(found, eigenvalues=values, eps=eps, matrix=None)


def weigh(
    residuals: Sequence[np.ndarray], error_weights: np.ndarray, growths: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each pass' choice of a penalty, its error e and its weight, (n_passes,) each.

    Leave-one-out residuals (n_penalties, n_cases, n_outputs) of a pass are targets minus decisions
    of the fit without each case. The choice is the place of the penalty with the least mean square
    e, where cases count with `error_weights`. The weight is proportional to the power -4 of the
    mean of e and of the error with noise, e times the growth; the sum is 1.
    """
    shares = error_weights / (error_weights.sum() or 1.0)
    means = np.array([(left_out**2).mean(axis=2) @ shares for left_out in residuals])
    choices, errors = means.argmin(axis=1), means.min(axis=1)
    floor = np.maximum(errors, np.finfo(np.float64).tiny)
    if len(growths):
        floor = floor * (1 + _NOISY * (np.array(growths) - 1))
    weights = (floor / floor.min()) ** -_POWER
    return choices, errors, weights / weights.sum()


def out_of_fold(
    residuals: Sequence[np.ndarray],
    Y: np.ndarray,
    error_weights: np.ndarray,
    folds: np.ndarray,
    growths: Sequence[float] = (),
) -> np.ndarray:
    """Return decisions (n_cases, n_outputs) at each fold by an average without the fold's part.

    At a case of a fold, the decision is the mean of the passes' leave-one-out decisions, with
    the penalties and the weights that the other folds give (`weigh`).
    """
    decisions = Y.copy()
    for fold in np.unique(folds):
        inside = folds == fold
        choices, _, weights = weigh(residuals, np.where(inside, 0.0, error_weights), growths)
        for left_out, choice, weight in zip(residuals, choices, weights, strict=True):
            decisions[inside] -= weight * left_out[choice, inside]
    return decisions
