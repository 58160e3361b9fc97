"""A view fitted to signals: ridge regression on its kernel, novelty and contributions.

Leave-one-out errors have a closed form, from the eigenvectors of the kernel matrix of cases
(case_kernel.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ...lazy import once
from ...regression.decomposition import Decomposition
from ..reading.cases import Cases, unit_sum
from ..reading.signals import Signals
from ..views.kernels import KernelOptions, PreparedLandmarks
from ..views.pipeline import FittedPipeline, ViewPipeline
from .case_kernel import case_kernel
from .settings import Penalties
from .targets import Landmarks, Targets


@dataclass(eq=False)
class ViewRegression:
    """A view with ridge regression and a Gaussian process on its kernel.

    There is one regression for all outputs, or one for each output, and each has a penalty λ. K is
    the kernel matrix of cases, or the part of it that landmarks explain, and μ are its eigenvalues,
    (rank,).
    """

    pipeline: FittedPipeline
    """The view, fitted to the training signals."""
    landmarks: Signals
    """As they were before the view's steps: all views share them."""
    coefficients: np.ndarray
    """Coefficients of the kernels with landmarks in decisions, (n_landmarks, n_outputs)."""
    intercepts: np.ndarray
    """What is added to the sums of these kernels, (n_outputs,)."""
    variance_root: np.ndarray
    """R, (n_landmarks, rank), of the first penalty λ₀: the process has the variance
    K(x, x) − ‖Rᵀk‖² at a signal x with the kernel k with landmarks. R is lower triangular if there
    is one regression."""
    penalty_ratios: np.ndarray | None
    """(μ + λ₀)/(μ + λ), (rank, n_regressions): factors of the squares of Rᵀk for the penalties λ of
    several regressions. None if there is one regression."""
    penalties: np.ndarray
    """The penalty λ of each regression, (n_regressions,)."""
    mean_left_out_variances: np.ndarray
    """The mean variance of an observation at training signals left out, (n_regressions,)."""
    prior_variances: np.ndarray
    """The variance of each output's prior, the unit of other variances, (n_outputs,)."""
    mean_squared_errors: np.ndarray
    """Mean squared errors of cases left out, (n_regressions,)."""
    prepared_landmarks: tuple[KernelOptions, PreparedLandmarks] | None = field(
        default=None, init=False
    )
    """The options of the last call, and the landmarks prepared for them. A call sets this."""

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes without what can be computed again, and without zeros of R."""
        state = vars(self) | {"prepared_landmarks": None}
        state.pop("_seen_landmarks", None)
        if self.penalty_ratios is None:
            root, (rows, columns) = self.variance_root, self.variance_root.shape
            state["variance_root"] = root.shape, root[np.tril_indices(rows, m=columns)]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.penalty_ratios is None:
            (rows, columns), numbers = state["variance_root"]
            self.variance_root = np.zeros((rows, columns))
            self.variance_root[np.tril_indices(rows, m=columns)] = numbers

    def _matrix(self, seen: Signals, options: KernelOptions) -> np.ndarray:
        """Return the kernel matrix, in float64, of signals with the landmarks.

        `seen` are signals as the kernel sees them, after the steps of the pipeline.
        """
        prepared = self.prepared_landmarks  # another thread may replace it later
        if prepared is None or prepared[0] != options:
            landmarks = self._seen_landmarks
            prepared = options.copy(), self.pipeline.kernel.prepare(landmarks, options)
            self.prepared_landmarks = prepared
        return self.pipeline.kernel.matrix(seen, prepared[1], options)

    @once
    def _seen_landmarks(self) -> Signals:
        """The landmarks as the kernel sees them, after the steps of the pipeline."""
        return self.pipeline.transform(self.landmarks)

    def decisions_and_novelties(
        self, X: Signals, options: KernelOptions
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (n_cases, n_outputs) and novelties (n_cases, n_regressions).

        The novelty is the variance of an observation, divided by `mean_left_out_variances`.
        """
        seen = self.pipeline.transform(X)
        K, diagonal = self._matrix(seen, options), self.pipeline.kernel.diag(seen)[:, None]
        squares = (K @ self.variance_root) ** 2
        if self.penalty_ratios is None:
            explained = squares.sum(axis=1, keepdims=True)
        else:
            explained = squares @ self.penalty_ratios
        variance = np.maximum(diagonal - explained, 0.0) + self.penalties
        return K @ self.coefficients + self.intercepts, variance / self.mean_left_out_variances

    def contributions(self, X: Signals, options: KernelOptions) -> list[np.ndarray]:
        """Return contributions of time points to decisions, (n_outputs, d_i) each.

        Their sums are decisions less intercepts.
        """
        seen = self.pipeline.transform(X)
        contributions = self.pipeline.kernel.contributions(
            seen, self._seen_landmarks, self.coefficients, options
        )
        # Rounding errors, which large coefficients magnify, are divided evenly.
        sums = self._matrix(seen, options) @ self.coefficients
        counts = np.array([x.shape[1] for x in seen])
        contributions += ((sums - contributions.sum(axis=2)) / counts[:, None])[..., None]
        return [
            self.pipeline.to_time(part[:, :count], x)
            for part, count, x in zip(contributions, counts, X, strict=True)
        ]

    def channel_contributions(self, X: Signals, options: KernelOptions) -> list[np.ndarray]:
        """Return contributions of channels to decisions, (n_outputs, n_channels) each.

        Their sums are decisions less intercepts. What would be left if signals had no channel in
        common is divided evenly.
        """
        seen, n_channels = self.pipeline.transform(X), len(X[0])
        source_channels = self.pipeline.source_channels(n_channels)
        contributions = self.pipeline.kernel.channel_contributions(
            self.pipeline.separated(seen),
            self.pipeline.separated(self._seen_landmarks),
            [source_channels == k for k in range(n_channels)],
            self.coefficients,
            options,
        )
        sums = self._matrix(seen, options) @ self.coefficients
        rest = sums - contributions.sum(axis=2)
        return list(contributions + rest[..., None] / n_channels)


class ViewFit(NamedTuple):
    """A fitted view, and the results of cases left out."""

    regression: ViewRegression
    residuals: np.ndarray
    """Targets less decisions, (n_cases, n_outputs)."""
    novelties: np.ndarray
    """As `ViewRegression.decisions_and_novelties` returns them, (n_cases, n_regressions)."""


def fit_view(
    pipeline: ViewPipeline,
    cases: Cases,
    targets: Targets,
    landmarks: Landmarks,
    penalties: Penalties,
    options: KernelOptions,
) -> ViewFit:
    r"""Return a view fitted to targets of cases, with residuals and novelty of cases left out.

    Each regression has one of the penalties, chosen by its leave-one-out error. The prior's
    variance :math:`\sigma^2 = y^\top (K + \lambda I)^{-1} (y - b) / n` maximizes the marginal
    likelihood.
    """
    fitted_pipeline, seen = pipeline.fit_and_transform(cases.signals, cases.weights)
    case_matrix = case_kernel(pipeline.kernel, seen, cases.weights, landmarks.indices, options)
    decomposition, Y = case_matrix.decomposition, targets.values
    groups = cases.groups if cases.n_groups < len(Y) else None  # takes less time without groups
    choice = _chosen_penalties(decomposition, groups, targets, penalties)
    beta, intercepts = _coefficients(decomposition, Y, choice.penalties)
    distinct_penalties, penalty_indices = np.unique(choice.penalties, return_inverse=True)
    left_out_variances = [
        decomposition.left_out_variance(penalty, groups) for penalty in distinct_penalties
    ]
    variances = (
        np.stack(left_out_variances, axis=1)[:, penalty_indices] + case_matrix.unexplained[:, None]
    )
    mean_variances = np.array([np.average(column, weights=cases.weights) for column in variances.T])
    penalized_eigenvalues = decomposition.eigenvalues[:, None] + choice.penalties
    penalty_ratios = penalized_eigenvalues[:, :1] / penalized_eigenvalues
    variance_root = case_matrix.root / np.sqrt(penalized_eigenvalues[:, 0])
    has_one_regression = targets.n_regressions == 1
    regression = ViewRegression(
        fitted_pipeline,
        landmarks=landmarks.signals,
        coefficients=case_matrix.at_landmarks(beta),
        intercepts=intercepts,
        variance_root=_lower_triangular(variance_root) if has_one_regression else variance_root,
        penalty_ratios=None if has_one_regression else penalty_ratios,
        penalties=choice.penalties,
        mean_left_out_variances=mean_variances,
        prior_variances=np.mean(beta * Y, axis=0),  # Σβ is 0: the intercept b does not matter
        mean_squared_errors=choice.mean_squared_errors,
    )
    return ViewFit(regression, choice.residuals, variances / mean_variances)


def _coefficients(
    decomposition: Decomposition, Y: np.ndarray, penalties: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of cases, (n_cases, n_outputs), and intercepts, (n_outputs,).

    There is one penalty for all outputs, or one for each output.
    """
    beta, intercepts = np.empty(Y.shape), np.empty(Y.shape[1])
    output_penalties = np.resize(penalties, Y.shape[1])
    for penalty in np.unique(penalties):
        has_penalty = output_penalties == penalty
        outputs = slice(None) if has_penalty.all() else has_penalty
        beta[:, outputs], intercepts[outputs] = decomposition.ridge(
            Y[:, outputs], penalty, intercept=True
        )
    return beta, intercepts


def _lower_triangular(root: np.ndarray) -> np.ndarray:
    """Return the lower triangular matrix L with L Lᵀ = R Rᵀ, in the shape of R."""
    return np.asarray(scipy.linalg.qr(root.T, mode="r")[0].T)


@dataclass(frozen=True, eq=False)
class _PenaltyChoice:
    """The penalty of each regression, and the results of cases left out with these penalties."""

    penalties: np.ndarray
    """The penalties that were chosen, (n_regressions,)."""
    residuals: np.ndarray
    """Targets less decisions, (n_cases, n_outputs)."""
    mean_squared_errors: np.ndarray
    """Mean squared errors of cases left out, (n_regressions,)."""


def _chosen_penalties(
    decomposition: Decomposition, groups: np.ndarray | None, targets: Targets, penalties: Penalties
) -> _PenaltyChoice:
    """Return, for each regression, the first penalty whose error is near the least error.

    Errors are those of cases left out. Near are at most `Penalties.tolerance` times the least one.
    """
    tried = np.asarray(penalties.tried)
    residuals = decomposition.leave_one_out(targets.values, tried, intercept=True, groups=groups)
    unit_weights = unit_sum(targets.error_weights)
    errors = np.array([(part**2).mean(axis=2) @ unit_weights for part in targets.split(residuals)])
    is_near = errors <= penalties.tolerance * errors.min(axis=1, keepdims=True)
    choices = is_near.argmax(axis=1)
    output_choices = np.resize(choices, targets.values.shape[1])
    return _PenaltyChoice(
        tried[choices],
        np.take_along_axis(residuals, output_choices[None, None], axis=0)[0],
        errors[np.arange(len(choices)), choices],
    )
