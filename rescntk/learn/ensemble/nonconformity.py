"""Scores of cases left out, of which sets and intervals take a quantile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...checks.messages import shown, warn
from ...checks.values import check_positive

_ROUNDING_OF_LEVELS = 1e-12
"""What rounding errors may add to a level, which could make its rank one too large."""

COVERAGE = 0.9
"""Default share of sets and intervals that contain the truth. Nine signals are needed for it."""


@dataclass(frozen=True, eq=False)
class Nonconformity:
    """Scores of cases left out, of which sets and intervals take a quantile.

    A score says how far a case is from its prediction, in a unit of its own.
    """

    scores: np.ndarray
    """The scores of cases, of one target or of several, (n_cases, …)."""
    weights: np.ndarray
    """The weights of the cases in the quantile, (n_cases,)."""
    n_groups: int
    """Number of groups that were left out, or of different signals if no groups were given."""

    def quantile(self, coverage: float) -> np.ndarray:
        """Return a quantile of scores, (…), which the share `coverage` of new cases do not exceed.

        If a new signal or group is drawn like the n that were left out, its score has each rank
        among all n + 1 with the same probability. So the level among the n is `coverage` times
        (n + 1)/n.
        """
        if not 0 < check_positive(coverage, "coverage") < 1:
            raise ValueError(f"coverage is {shown(coverage)}, expected a number between 0 and 1")
        n = self.n_groups
        if coverage * (n + 1) > n:
            warn(
                f"coverage is {coverage}, but {n} training signals or groups support at most "
                f"{n / (n + 1):.3g}",
            )
        level = min(1.0, max(0.0, coverage * (n + 1) / n - _ROUNDING_OF_LEVELS))
        return np.quantile(self.scores, level, axis=0, weights=self.weights, method="inverted_cdf")
