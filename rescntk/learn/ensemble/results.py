"""Results of views, each for itself and all together, at signals and at cases left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def averaged(values: np.ndarray, view_weights: np.ndarray) -> np.ndarray:
    """Return the weighted average over views, (n_cases, n_outputs), of values of each view.

    Values are (n_views, n_cases, n_outputs), and the weights as in `ViewResults`.
    """
    return np.asarray((view_weights * values).sum(axis=0))


@dataclass(frozen=True, eq=False)
class ViewResults:
    """Results of views at signals, each for itself, and all together."""

    view_decisions: np.ndarray
    """The decisions of each view, (n_views, n_cases, n_outputs)."""
    view_novelties: np.ndarray
    """The novelty for each view, (n_views, n_cases, n_regressions): the variance of an observation,
    in units of its mean over cases left out."""
    view_weights: np.ndarray
    """The views' weights at the signals, (n_views, n_cases, n_regressions), of sum 1 over views."""
    novelty: np.ndarray
    """The novelty by all views and by sizes, (n_cases,), as `ResidualKernelEstimator.novelty`
    defines it."""

    @property
    def averaged_decisions(self) -> np.ndarray:
        """The weighted average of the decisions over views, (n_cases, n_outputs)."""
        return averaged(self.view_decisions, self.view_weights)


def joined(batches: Sequence[ViewResults]) -> ViewResults:
    """Return the results of batches of signals as those of all signals."""
    return ViewResults(
        np.concatenate([batch.view_decisions for batch in batches], axis=1),
        np.concatenate([batch.view_novelties for batch in batches], axis=1),
        np.concatenate([batch.view_weights for batch in batches], axis=1),
        np.concatenate([batch.novelty for batch in batches]),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class LeftOut:
    """Results of cases, each left out of the views' regressions together with its group."""

    view_residuals: np.ndarray
    """Targets less decisions of each view, (n_views, n_cases, n_outputs)."""
    view_novelties: np.ndarray
    """As in `ViewResults`."""
    view_weights: np.ndarray
    """As in `ViewResults`, by the errors of all cases."""
    novelty: np.ndarray
    """As in `ViewResults`. The training signals with whose levels and sizes a case is compared
    include the case."""
    fold_residuals: np.ndarray
    """Targets less averaged decisions, (n_cases, n_outputs), where the weights of views at a fold
    come from the errors of the other folds."""
    folds: np.ndarray
    """The number of each case's fold, (n_cases,)."""

    @property
    def residuals(self) -> np.ndarray:
        """Targets less averaged decisions, (n_cases, n_outputs), by weights of all cases."""
        return averaged(self.view_residuals, self.view_weights)
