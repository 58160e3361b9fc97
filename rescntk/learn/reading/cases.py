"""Cases: signals with what is known of them, as fits take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .signals import Signals


class Cases(NamedTuple):
    """Signals with y, weights and groups, each different case once, in a fixed order.

    Copies of a signal with one y and one group are one case. Without groups, the copies of a
    signal, of any y, are a group.
    """

    signals: Signals
    y: np.ndarray
    """Numbers of classes, (n_cases, 1), or targets in their own units, (n_cases, n_targets)."""
    weights: np.ndarray
    """Sums over copies, (n_cases,), of mean 1."""
    groups: np.ndarray
    """The number of each case's group, (n_cases,)."""
    case_indices: np.ndarray
    """The index of the case of each signal that was given; -1 of signals without a case."""

    @property
    def n_groups(self) -> int:
        """Number of groups; of different signals where no groups were given."""
        return int(self.groups.max()) + 1

    def at_signals(self, values: np.ndarray) -> np.ndarray:
        """Return values of cases, (n_cases, …), for each signal given; NaN without a case."""
        of_signals = values[self.case_indices].astype(np.float64)
        of_signals[self.case_indices < 0] = np.nan
        return of_signals


def unit_sum(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their sum; weights of only zeros stay zeros."""
    return weights / (weights.sum() or 1.0)


def squared_sum(deviations: np.ndarray, cases: Cases, weights: np.ndarray) -> float:
    """Return the sum of squares of weighted deviations; cases of a group err together."""
    of_groups = np.bincount(cases.groups, weights * deviations)
    return float(of_groups @ of_groups)
