"""A pass fitted to signals: ridge regression, a Gaussian process, and the kernel matrix of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ..engines.protocol import blocks
from ..regression import Decomposition, decompose, restricted_ridge
from .drift import usual_line
from .inputs import DistinctCases
from .passes import Pass
from .process import Process
from .views import Signals, View, lengths, take

_SHARES = 2**20
"""Shares of kernels that are held at once, for each kind and depth of a pass.

Raising it takes more memory. With fewer shares, norms of signals are computed more often: for 20
signals of 2000 points in a tenth of the time. Chosen so that two kinds take about 100 MB."""


_MOST_KEPT = 2**26
"""Most bytes of a pass' tables that are kept between predictions. Raising it takes more memory, in
all passes; beyond it each prediction makes the tables again. Chosen: 1000 signals of 128 points and
two channels have half of it."""


class Training:
    """The training signals, or the landmarks among them: one object that all passes share."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals

    def seen(self, view: View, kept: np.ndarray | slice) -> Signals:
        """Return the training signals, or the landmarks kept among them, in a view."""
        return view(self.signals if isinstance(kept, slice) else take(self.signals, kept))


@dataclass(eq=False, kw_only=True)
class FittedPass:
    """A pass with the scales of its view, and ridge regression on its matrix."""

    source: Pass
    """With the fitted view."""
    training: Training
    kept: np.ndarray | slice
    """Places of the pass' signals among the training signals: all, or independent landmarks."""
    penalty: float
    coefficients: np.ndarray
    """(n_signals, n_outputs)"""
    intercepts: np.ndarray
    """(n_outputs,)"""
    process: Process
    """The Gaussian process at the signals."""
    variance_scale: np.ndarray
    """σ² of the Gaussian process, (n_outputs,)."""
    error: float
    """Least mean squared residual of cases left out."""
    usual_variance: float
    """Mean variance of new observations at signals left out, in units of σ²."""
    novelties: np.ndarray
    """`novelty` of the cases, each left out, (n_cases,); 1 for landmarks."""
    line: float
    """Novelty that one of twenty cases exceeds when it is left out; landmarks do not count."""
    seconds: float
    """Time of view, matrix and regression."""

    tables: tuple[Any, Any] | None = field(default=None, init=False, repr=False)
    """Options of the last kernel matrix, and its signals with the engine's tables; not in files."""

    @property
    def signals(self) -> Signals:
        """The training signals, landmarks or learned signals, in the view."""
        return self.training.seen(self.source.view, self.kept)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"tables": None}

    def matrix(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the kernel matrix of X with the pass' signals, in float64."""
        wanted = options["engine"], options["dtype"], options["threads"]
        tables = self.tables
        if tables is None or tables[0] != wanted:
            signals = self.signals
            prepared = self.source.prepare(signals, **options)
            tables = wanted, prepared if prepared.nbytes <= _MOST_KEPT else signals
            self.tables = tables
        K = self.source(self.source.view(X), tables[1], **options)
        return K.astype(np.float64, copy=False)

    def decide(self, K: np.ndarray) -> np.ndarray:
        """Return decisions (m_cases, n_outputs) from the `matrix` K, (m_cases, n_signals)."""
        return K @ self.coefficients + self.intercepts

    def novelty(self, K: np.ndarray) -> np.ndarray:
        """Return the variance of new observations by its usual value, (m_cases,), from K."""
        return (self.process.variance(K) + self.penalty) / self.usual_variance

    def novelty_slopes(self, K: np.ndarray) -> np.ndarray:
        """Return the derivatives of `novelty` by the entries of K, (m_cases, n_signals)."""
        return self.process.variance_slopes(K) / self.usual_variance

    def matrix_slopes(
        self, X: np.ndarray, by_matrix: np.ndarray, options: dict[str, Any]
    ) -> np.ndarray:
        """Return derivatives by X from derivatives by `matrix`, (m_cases, n_signals)."""
        view, points = self.source.view, cast(Any, self.source.view(X))
        slopes = self.source.vjp(points, self.signals, weights=by_matrix, fixed_Z=True, **options)
        return view.adjoint(X, np.asarray(slopes.X, np.float64))

    def variance(self, novelties: np.ndarray) -> np.ndarray:
        """Return the variance of new observations, (m_cases, n_outputs), from the `novelty`."""
        return novelties[:, None] * (self.usual_variance * self.variance_scale)

    def contributions(
        self, X: Signals, K: np.ndarray, intercepts: np.ndarray, options: dict[str, Any]
    ) -> list[np.ndarray]:
        """Return the shares of time points in decisions, (n_outputs, n_timepoints) for each signal.

        The sum of shares and `intercepts` is the decision from the `matrix` K. The rest is
        divided evenly: the difference of `intercepts` from the pass' own, and rounding errors,
        which large coefficients magnify to 1e-4 in float32.
        """
        view, coefficients, signals = self.source.view, self.coefficients.T, self.signals
        points = view(X)
        sums = self.decide(K) - intercepts
        longest, n = int(lengths(points).max()), len(X)
        pairs = max(1, _SHARES // longest)
        cases = min(n, max(1, int(np.sqrt(pairs))))
        parts = np.zeros((n, len(coefficients), longest))
        for columns in blocks(0, len(signals), max(1, pairs // cases)):
            for rows in blocks(0, n, cases):
                shares = self.source.shares(points[rows], signals[columns], options)
                parts[rows, :, : shares.shape[2]] += coefficients[:, columns] @ shares
        counts = lengths(points)
        parts += ((sums - parts.sum(axis=2)) / counts[:, None])[..., None]
        triples = zip(parts, counts, X, strict=True)
        return [view.to_time(part[:, :count], x) for part, count, x in triples]


def fit_pass(
    source: Pass,
    cases: DistinctCases,
    penalties: Sequence[float],
    options: dict[str, Any],
    training: Training,
    *,
    landmarks: np.ndarray | None = None,
    judged_by: np.ndarray | None = None,
) -> tuple[FittedPass, np.ndarray, np.ndarray]:
    r"""Return the fitted pass, and residuals at cases left out.

    Leave-one-out residuals are (n_penalties, n_cases, n_outputs). Residuals of whole blocks left
    out (`DistinctCases.blocks`), (n_cases, n_outputs), are of the pass' penalty. Penalties are in
    units of the kernel's diagonal, which is 1. `landmarks` are indices of the signals to which the
    solution is restricted, and which `training` has. Where a metric of the channels has seen all
    cases, `judged_by` are other residuals, by which the penalty is chosen. The scale
    :math:`\sigma^2 = y^\top (K + \lambda I)^{-1} (y - b) / n` of the Gaussian process maximizes
    the marginal likelihood; cases of weights w have I/w for I.
    """
    start = time.perf_counter()
    source = replace(source, view=source.view.fit(cases.signals, cases.weights))
    signals: Any = source.view(cases.signals)
    Y, weights, groups = cases.targets, cases.weights, cases.groups
    novelties = np.ones(len(Y))
    kept: np.ndarray | slice = slice(None)
    judged = np.arange(len(Y))  # cases that tell which novelty is usual
    if landmarks is None:
        K = source(signals, **options)
        spectrum = spectrum_of(K, weights)
        residuals = judged_by
        if residuals is None:
            residuals = spectrum.leave_one_out(Y, penalties, intercept=True, groups=groups)
        choice, error = least_error(residuals, cases.error_weights)
        penalty = penalties[choice]
        of_blocks = spectrum.leave_one_out(Y, penalty, intercept=True, groups=cases.blocks)
        coefficients, intercepts = spectrum.with_intercept(Y, penalty)
        scale = np.mean(coefficients * (Y - intercepts), axis=0)
        variances = spectrum.left_out_variance(penalty, groups)
        usual = float(np.average(variances, weights=weights))
        novelties = variances / usual
        process = Process(K, penalty, weights)
    else:
        ridge = restricted_ridge(
            source,
            signals,
            Y,
            landmarks,
            penalties,
            intercept=True,
            leave_one_out=True,
            case_weights=weights,
            groups=groups,
            **options,
        )
        residuals = cast(np.ndarray, ridge.errors if judged_by is None else judged_by)
        choice, error = least_error(residuals, cases.error_weights)
        penalty, rows = penalties[choice], cast(np.ndarray, ridge.rows)
        of_blocks = ridge.regression.leave_one_out(
            rows, Y, penalty, intercept=True, case_weights=weights, groups=cases.blocks
        )
        coefficients, intercepts = ridge.coefficients[choice], ridge.intercepts[choice]
        # The process is conditioned on the landmarks only. The mean variance at the other signals
        # is set to their mean squared leave-one-out residual.
        L, chosen = ridge.features.factor, ridge.features.landmarks
        K = (L @ L.T).astype(options["dtype"])
        process = Process(K, penalty, weights[chosen])
        judged = np.setdiff1d(judged, chosen)
        cross = rows[judged] @ L.T
        variances = process.variance(cross) + penalty
        if groups is not None:
            spectrum, of_chosen = spectrum_of(K, weights[chosen]), groups[chosen]
            variances += variance_of_groups(spectrum, penalty, cross, groups[judged], of_chosen)
        usual = float(np.average(variances, weights=weights[judged]))
        novelties[judged] = variances / usual
        squares = residuals[choice, judged] ** 2
        scale = np.average(squares, axis=0, weights=weights[judged]) / usual
        kept = np.searchsorted(landmarks, chosen)
    fitted = FittedPass(
        source=source,
        training=training,
        kept=kept,
        penalty=penalty,
        coefficients=coefficients,
        intercepts=intercepts,
        process=process,
        variance_scale=scale,
        error=error,
        usual_variance=usual,
        novelties=novelties,
        line=usual_line(novelties[judged], weights[judged]),
        seconds=time.perf_counter() - start,
    )
    return fitted, residuals, of_blocks


def variance_of_groups(
    spectrum: Decomposition,
    penalty: float,
    cross: np.ndarray,
    groups: np.ndarray,
    of_landmarks: np.ndarray,
) -> np.ndarray:
    r"""Return by how much variances grow without the landmarks of the signal's group, (m_cases,).

    With :math:`G = (K + \lambda W^{-1})^{-1}` of the landmarks, g the landmarks of the group, and
    k the signal's kernels with all of them, :math:`(G k)_g^\top G_{gg}^{-1} (G k)_g`.
    """
    scaled = spectrum.eigenvectors / (spectrum.eigenvalues + penalty)
    G, growth = scaled @ spectrum.eigenvectors.T, np.zeros(len(cross))
    for group in np.intersect1d(groups, of_landmarks):
        rows, g = groups == group, of_landmarks == group
        parts = G[g] @ cross[rows].T
        growth[rows] = (parts * np.linalg.solve(G[np.ix_(g, g)], parts)).sum(axis=0)
    return growth


def spectrum_of(K: np.ndarray, case_weights: np.ndarray | None = None) -> Decomposition:
    """Return K decomposed, in float64, without K; eigenvalues below 0 are taken as 0."""
    return replace(decompose(K.astype(np.float64), case_weights, clip=True), matrix=None)


def least_error(residuals: np.ndarray, error_weights: np.ndarray) -> tuple[int, float]:
    """Return the place of the penalty of least mean squared residual, and this least.

    Residuals are (n_penalties, n_cases, n_outputs); cases count with `error_weights`.
    """
    shares = error_weights / (error_weights.sum() or 1.0)
    means = (residuals**2).mean(axis=2) @ shares
    choice = int(means.argmin())
    return choice, float(means[choice])
