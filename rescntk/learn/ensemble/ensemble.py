r"""The ensemble of views: `fit_ensemble` fits views, weighs them, and returns an `Ensemble`.

Leave-one-out errors weigh the views (regression.py, weights.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from sklearn.utils import check_random_state

from ..reading.cases import Cases
from ..reading.signals import Signals, longest, scaled, take, unit_exponent
from ..views.kernels import KernelOptions
from ..views.view import View
from .blas import one_blas_thread
from .budget import chosen_views, draw_landmarks, resolve_views
from .left_out import LeftOut, folds_of
from .levels import TrainingLevels
from .regression import ViewRegression, fit_view
from .settings import (
    Settings,
    kernel_options,
    penalties_of,
)
from .weights import ViewResults, average_of_folds, weigh_outputs, weights_at

_NUMBERS_AT_ONCE = 2**22
"""Numbers of signals, or of their kernels, that a view computes at once. More take more memory."""

_EXAMPLES = 40
"""Maximum number of training signals whose contributions are compared with those of others."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Views fitted to training signals, whose decisions are averaged.

    A decision is what is regressed, such as 1 or −1 for a class. Signals are those of the user,
    checked; `options` say how kernels are computed.
    """

    views: tuple[ViewRegression, ...]
    """The views that have a weight above 0."""
    weights: np.ndarray
    """(n_views, n_regressions), of sum 1 over views, at signals like the training signals."""
    levels: TrainingLevels
    exponent: int
    """Signals are divided by this power of two before views see them."""
    mean_target: np.ndarray
    """(n_outputs,), of the training signals."""
    examples: Signals
    """Up to 40 training signals, as they were given."""

    def decide(self, X: Signals, options: KernelOptions) -> ViewResults:
        """Return the decisions of views about signals, their novelties and their weights."""
        parts = []
        for batch in self._batches(scaled(X, self.exponent)):
            with one_blas_thread():
                pairs = [view.decide(batch, options) for view in self.views]
            decisions, novelties = map(np.array, zip(*pairs, strict=True))
            distances = self.levels.distances(batch)[0]
            weights = weights_at(self.weights, novelties, distances, self._depend_on_levels)
            parts.append(ViewResults(decisions, novelties, weights))
        return ViewResults(*(np.concatenate(part, axis=1) for part in zip(*parts, strict=True)))

    def novelty(self, of_views: np.ndarray, X: Signals) -> np.ndarray:
        """Return the novelty of signals, (n_cases,), as `ResidualKernelEstimator.novelty` says.

        `of_views` are the novelties for each view, as `decide` returns them.
        """
        logs = []
        for of_output, errors in zip(
            np.moveaxis(of_views, 2, 0),
            np.transpose([view.mean_squared_errors for view in self.views]),
            strict=True,
        ):
            inverse = 1.0 / np.maximum(errors, np.finfo(np.float64).eps * (errors.max() or 1.0))
            logs.append((inverse / inverse.sum()) @ np.log(of_output))
        sizes = self.levels.distances(scaled(X, self.exponent))[1]
        return np.maximum(np.exp(np.mean(logs, axis=0)), sizes**2)

    def contributions(self, X: Signals, options: KernelOptions) -> list[np.ndarray]:
        """Return contributions of time points to decisions, (n_outputs, d_i) each.

        Sums over time and `mean_target` are the averaged decisions.
        """
        totals = [np.zeros((len(self.mean_target), x.shape[1])) for x in X]
        next_totals = iter(totals)
        for batch in self._batches(X):
            of_batch = list(islice(next_totals, len(batch)))
            weights = self.decide(batch, options).weights
            seen = scaled(batch, self.exponent)
            for view, view_weights in zip(self.views, weights, strict=True):
                with one_blas_thread():
                    parts = view.contributions(seen, options)
                for total, part, weight in zip(of_batch, parts, view_weights, strict=True):
                    constants = (view.intercepts - self.mean_target)[:, None] / part.shape[1]
                    total += weight[:, None] * (part + constants)
        return totals

    @property
    def _depend_on_levels(self) -> list[bool]:
        return [view.pipeline.depends_on_levels for view in self.views]

    def _batches(self, X: Signals) -> Iterator[Signals]:
        """Yield the signals in batches, whose kernels and views take little memory.

        A batch begins at a multiple of 64 rows and has at least 64. So products by one BLAS thread
        have the same last bits as the product of all signals.
        """
        n_landmarks = max(len(view.landmarks) for view in self.views)
        numbers = max(n_landmarks, longest(X) * len(X[0]))
        size = 64 * max(1, _NUMBERS_AT_ONCE // (64 * numbers))
        *starts, last = range(0, max(len(X) - 63, 1), size)
        for start in starts:
            yield X[start : start + size]
        yield X[last:]


def fit_ensemble(
    cases: Cases,
    targets: np.ndarray,
    settings: Settings,
    *,
    default_views: Mapping[str, Sequence[View]],
    error_weights: np.ndarray,
    more_penalties: Sequence[float] = (),
    is_per_output: bool = False,
) -> tuple[Ensemble, LeftOut]:
    """Fit views to cases, weigh them, and return them with the results of cases left out.

    Parameters
    ----------
    cases : Cases
        The training signals.
    targets : ndarray, (n_cases, n_outputs)
        What is regressed.
    settings : Settings
        The parameters of the estimator.
    default_views : mapping from str to sequence of View
        The views that the estimator has by words.
    error_weights : ndarray, (n_cases,)
        Weights of the cases in the errors by which penalties and weights of views are chosen.
    more_penalties : sequence of float
        Penalties that networks try besides the least one, unless `settings` have penalties.
    is_per_output : bool
        Whether a penalty and weights of views are chosen for each output, or one for all.
    """
    n, rng = len(cases.weights), check_random_state(settings.random_state)
    folds = folds_of(cases.groups, rng)  # first: the same for all fits of one seed
    exponent, options = unit_exponent(cases.signals), kernel_options(settings)
    given, cases = cases.signals, cases._replace(signals=scaled(cases.signals, exponent))
    views = chosen_views(settings, default_views, cases.signals)
    resolved, notes = resolve_views(views, cases.signals)
    landmark_indices = draw_landmarks(settings, resolved, cases.signals, rng)
    landmarks = cases.signals if landmark_indices is None else take(cases.signals, landmark_indices)
    n_regressions = targets.shape[1] if is_per_output else 1
    with one_blas_thread():
        fits = [
            fit_view(
                view,
                cases,
                targets,
                landmarks=landmarks,
                landmark_indices=landmark_indices,
                penalties=penalties_of(
                    settings, view.kernel, cases.weights, more_penalties, len(landmarks)
                ),
                error_weights=error_weights,
                n_regressions=n_regressions,
                options=options,
            )
            for view in resolved
        ]
        fitted = [fit.regression for fit in fits]
        residuals = np.array([fit.residuals for fit in fits])
        novelties = np.array([fit.novelty for fit in fits])
        weights = weigh_outputs(residuals, error_weights, n_regressions)
        levels = TrainingLevels.of(cases.signals, cases.weights)
        distances = levels.distances(cases.signals)[0]
        depend_on_levels = np.array([view.depends_on_levels for view in resolved])
        averaged = average_of_folds(
            residuals, error_weights, folds, novelties, distances, depend_on_levels
        )
    used = np.flatnonzero(weights.any(axis=1))
    ensemble = Ensemble(
        views=tuple(fitted[k] for k in used),
        weights=weights[used],
        levels=levels,
        exponent=exponent,
        mean_target=np.average(targets, axis=0, weights=cases.weights),
        examples=take(given, np.sort(rng.permutation(n)[:_EXAMPLES])),
    )
    at_cases = weights_at(weights[used], novelties[used], distances, depend_on_levels[used])
    left_out = LeftOut(
        view_residuals=residuals[used],
        view_novelties=novelties[used],
        view_weights=at_cases,
        novelty=ensemble.novelty(novelties[used], given),
        fold_residuals=averaged,
        folds=folds,
        table=_table(views, [*resolved.values()], fitted, weights, notes),
    )
    return ensemble, left_out


def _table(
    views: Sequence[View],
    view_indices: Sequence[int],
    fitted: Sequence[ViewRegression],
    weights: np.ndarray,
    notes: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the attribute `views_`: views at `view_indices` are fitted, with these weights."""
    errors, means = np.full(len(views), np.nan), np.zeros(len(views))
    errors[view_indices] = [view.mean_squared_errors.mean() for view in fitted]
    means[view_indices] = weights.mean(axis=1)
    columns = np.array(views, dtype=object), errors, means, notes
    return dict(zip(("view", "error", "weight", "note"), columns, strict=True))
