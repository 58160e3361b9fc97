"""The ensemble of views: `fit_ensemble` fits views, weighs them, and returns an `Ensemble`.

Leave-one-out errors weigh the views (regression.py, weights.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from ..reading.cases import Cases
from ..reading.signals import Signals, longest_length, scaled, take, unit_exponent
from ..views.kernels import KernelOptions
from ..views.pipeline import ViewPipeline
from ..views.suitable import SuitableViews
from ..views.view import View
from .blas import one_blas_thread
from .budget import check_fit, chosen_views, draw_landmarks
from .levels import Distances, LevelsAndSizes
from .regression import ViewRegression, fit_view
from .results import LeftOut, ViewResults, averaged, joined
from .settings import Settings, kernel_options, penalties_of
from .targets import Landmarks, Targets
from .weights import folds_of, mean_novelty, overall_weights, residuals_of_folds, weights_at_signals

_NUMBERS_OF_A_BATCH = 2**22
"""Numbers of signals, or of their kernels, that are computed at once. More take more memory."""

_MOST_EXAMPLES = 40
"""Maximum number of training signals whose contributions are compared with those of others."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Views fitted to training signals, whose decisions are averaged.

    Decisions predict the targets, such as 1 or −1 for a class. Methods take the user's signals,
    checked; `options` say how kernels are computed.
    """

    regressions: tuple[ViewRegression, ...]
    """The fitted views that have a weight above 0."""
    overall_weights: np.ndarray
    """The views' weights at signals that are novel to no view, (n_views, n_regressions), of sum 1
    over views."""
    depends_on_levels: np.ndarray
    """Whether each view depends on the levels of signals, (n_views,)."""
    levels_and_sizes: LevelsAndSizes
    exponent: int
    """Signals are divided by this power of two before views see them."""
    mean_targets: np.ndarray
    """The mean of each output's targets, (n_outputs,)."""
    examples: Signals
    """Up to `_MOST_EXAMPLES` training signals, as they were given."""

    def results(self, X: Signals, options: KernelOptions) -> ViewResults:
        """Return the results of the views at signals."""
        return joined([self._results_of(batch, options) for batch in self._batches(X)])

    def weights_and_novelty(
        self, view_novelties: np.ndarray, distances: Distances
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `view_weights` and `novelty` of `ViewResults` at some signals.

        They follow from the novelties for each view, (n_views, n_cases, n_regressions), and from
        the distances of levels and sizes.
        """
        weights = weights_at_signals(
            self.overall_weights, view_novelties, distances.levels, self.depends_on_levels
        )
        errors = np.array([regression.mean_squared_errors for regression in self.regressions])
        novelty = mean_novelty(view_novelties, errors)
        return weights, np.maximum(novelty, distances.sizes**2)

    def variances(
        self, view_means: np.ndarray, view_novelties: np.ndarray, view_weights: np.ndarray
    ) -> np.ndarray:
        """Return variances of new observations, (n_cases, n_outputs).

        Each view has a mean, (n_views, n_cases, n_outputs): its decision or its residual, of which
        only the differences between views matter. Novelties and weights are as in `ViewResults`.
        """
        units = np.array(
            [
                regression.mean_left_out_variances * regression.prior_variances
                for regression in self.regressions
            ]
        )
        spread = (view_means - averaged(view_means, view_weights)) ** 2
        return averaged(view_novelties * units[:, None] + spread, view_weights)

    def contributions(self, X: Signals, options: KernelOptions, of: str) -> list[np.ndarray]:
        """Return contributions of time points or of channels to decisions.

        Those of a signal are (n_outputs, d_i) if `of` is "time", and (n_outputs, n_channels) if it
        is "channels". Their sums plus `mean_targets` are the averaged decisions.
        """
        parts = []
        for batch in self._batches(X):
            parts += self._contributions_to(batch, options, of)
        return parts

    def _contributions_to(
        self, batch: Signals, options: KernelOptions, of: str
    ) -> list[np.ndarray]:
        """Return the contributions to decisions about a batch of `_batches`."""
        counts = [x.shape[1] if of == "time" else len(x) for x in batch]
        totals = [np.zeros((len(self.mean_targets), count)) for count in counts]
        view_weights = self._results_of(batch, options).view_weights
        for regression, weights in zip(self.regressions, view_weights, strict=True):
            if of == "time":
                method = regression.contributions
            else:
                method = regression.channel_contributions
            with one_blas_thread():
                contributions = method(batch, options)
            for total, contribution, weight in zip(totals, contributions, weights, strict=True):
                constants = (regression.intercepts - self.mean_targets) / contribution.shape[1]
                total += weight[:, None] * (contribution + constants[:, None])
        return totals

    def _results_of(self, batch: Signals, options: KernelOptions) -> ViewResults:
        """Return the results of the views at a batch of `_batches`."""
        with one_blas_thread():
            results = [
                regression.decisions_and_novelties(batch, options)
                for regression in self.regressions
            ]
        decisions, novelties = map(np.array, zip(*results, strict=True))
        distances = self.levels_and_sizes.distances(batch)
        return ViewResults(decisions, novelties, *self.weights_and_novelty(novelties, distances))

    def _batches(self, X: Signals) -> Iterator[Signals]:
        """Yield signals in the units of views, in batches that take little memory.

        A batch begins at a multiple of 64 rows and has at least 64, if X has as many. So products
        by one BLAS thread have the same last bits as the product of all signals.
        """
        n_landmarks = max(len(regression.landmarks) for regression in self.regressions)
        numbers_per_signal = max(n_landmarks, longest_length(X) * len(X[0]))
        batch_size = 64 * max(1, _NUMBERS_OF_A_BATCH // (64 * numbers_per_signal))
        *starts, last = range(0, max(len(X) - 63, 1), batch_size)
        for start in starts:
            yield scaled(X[start : start + batch_size], self.exponent)
        yield scaled(X[last:], self.exponent)


def fit_ensemble(
    cases: Cases,
    targets: Targets,
    settings: Settings,
    *,
    default_views: Mapping[str, Sequence[View]],
    more_penalties: Sequence[float] = (),
) -> tuple[Ensemble, LeftOut, dict[str, np.ndarray]]:
    """Fit views to cases, and weigh them.

    Parameters
    ----------
    cases : Cases
        The training signals.
    targets : Targets
        What is regressed on them.
    settings : Settings
        The parameters of the estimator.
    default_views : mapping from str to sequence of View
        The views that stand for each word of the parameter `views`.
    more_penalties : sequence of float
        Penalties that views of networks try besides the least one, if `settings` have none.

    Returns
    -------
    ensemble : Ensemble
        The views that have a weight.
    left_out : LeftOut
        The results of cases left out.
    table : dict of ndarray
        The attribute `views_` of estimators, with a row for each view.
    """
    rng = check_random_state(settings.random_state)
    # Folds are drawn before landmarks, so that all fits of one seed have the same folds.
    folds = folds_of(cases.groups, rng)
    exponent = unit_exponent(cases.signals)
    scaled_cases = cases._replace(signals=scaled(cases.signals, exponent))
    suitable = chosen_views(settings, default_views, scaled_cases.signals)
    indices = draw_landmarks(settings, suitable.pipelines, scaled_cases.signals, rng)
    landmarks = Landmarks.of(scaled_cases.signals, indices)
    check_fit(suitable.pipelines, scaled_cases.signals, len(landmarks.signals))
    depends_on_levels = np.array([pipeline.depends_on_levels for pipeline in suitable.pipelines])
    with one_blas_thread():
        regressions, residuals, novelties = _fit_views(
            suitable.pipelines, scaled_cases, targets, landmarks, settings, more_penalties
        )
        weights = overall_weights(residuals, targets)
        levels_and_sizes = LevelsAndSizes.of(scaled_cases.signals, cases.weights)
        distances = levels_and_sizes.distances(scaled_cases.signals)
        fold_residuals = residuals_of_folds(
            residuals, targets, folds, novelties, distances.levels, depends_on_levels
        )
    used = np.flatnonzero(weights.any(axis=1))
    ensemble = Ensemble(
        regressions=tuple(regressions[k] for k in used),
        overall_weights=weights[used],
        depends_on_levels=depends_on_levels[used],
        levels_and_sizes=levels_and_sizes,
        exponent=exponent,
        mean_targets=np.average(targets.values, axis=0, weights=cases.weights),
        examples=take(cases.signals, np.sort(rng.permutation(len(cases.weights))[:_MOST_EXAMPLES])),
    )
    view_weights, novelty = ensemble.weights_and_novelty(novelties[used], distances)
    left_out = LeftOut(
        view_residuals=residuals[used],
        view_novelties=novelties[used],
        view_weights=view_weights,
        novelty=novelty,
        fold_residuals=fold_residuals,
        folds=folds,
    )
    return ensemble, left_out, _table(suitable, regressions, weights)


def _fit_views(
    pipelines: Sequence[ViewPipeline],
    cases: Cases,
    targets: Targets,
    landmarks: Landmarks,
    settings: Settings,
    more_penalties: Sequence[float],
) -> tuple[list[ViewRegression], np.ndarray, np.ndarray]:
    """Return a regression for each view, with residuals and novelties of cases left out.

    The residuals are (n_views, n_cases, n_outputs), and the novelties (n_views, n_cases,
    n_regressions). Arguments are as for `fit_ensemble` and `fit_view`.
    """
    options, n_landmarks = kernel_options(settings), len(landmarks.signals)
    fits = []
    for pipeline in pipelines:
        penalties = penalties_of(
            settings, pipeline.kernel, cases.weights, more_penalties, n_landmarks
        )
        fits.append(fit_view(pipeline, cases, targets, landmarks, penalties, options))
    regressions, residuals, novelties = zip(*fits, strict=True)
    return list(regressions), np.array(residuals), np.array(novelties)


def _table(
    suitable: SuitableViews, regressions: Sequence[ViewRegression], weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the attribute `views_`, from overall weights of fitted views."""
    n_views = len(suitable.views)
    errors, mean_weights = np.full(n_views, np.nan), np.zeros(n_views)
    errors[suitable.view_indices] = [
        regression.mean_squared_errors.mean() for regression in regressions
    ]
    mean_weights[suitable.view_indices] = weights.mean(axis=1)
    return {
        "view": np.array(suitable.views, dtype=object),
        "error": errors,
        "weight": mean_weights,
        "note": suitable.notes,
    }
