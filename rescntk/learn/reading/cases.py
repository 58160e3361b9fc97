"""Cases: the different signals of a fit, with their labels or targets, weights and groups."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .signals import Signals, take


class Cases(NamedTuple):
    """Different cases of a fit: signals with y, weights and groups, sorted by their contents.

    Copies of a signal with one y and one group are one case. If no groups are given, the copies of
    a signal, of any y, are a group.
    """

    signals: Signals
    y: np.ndarray
    """Indices of labels, (n_cases, 1), or targets in their own units, (n_cases, n_targets)."""
    weights: np.ndarray
    """The sum of the weights of all copies of each case, (n_cases,), in units of their mean."""
    groups: np.ndarray
    """The number of each case's group, (n_cases,), from 0."""
    case_indices: np.ndarray
    """The index of the case of each signal that was given, (n_signals,); -1 if it has no case."""

    @property
    def n_groups(self) -> int:
        """Number of groups; number of different signals if no groups were given."""
        return int(self.groups.max()) + 1

    def at_signals(self, values: np.ndarray) -> np.ndarray:
        """Return the value of each given signal's case, from values of cases, (n_cases, …).

        Copies each have the whole value of their case, and signals without a case have NaN.
        """
        signal_values = values[self.case_indices].astype(np.float64)
        signal_values[self.case_indices < 0] = np.nan
        return signal_values


def different_cases(
    signals: Signals, y: np.ndarray, weights: np.ndarray, groups: np.ndarray | None
) -> Cases:
    """Return the different cases of signals with a weight above 0: copies are one case.

    `groups` are numbers of groups, (n_signals,). Cases are sorted by their contents, so that the
    order of the signals plays no part.
    """
    counted = np.flatnonzero(weights)
    given_groups = np.zeros(len(weights), dtype=np.intp) if groups is None else groups
    # + 0.0 makes 0.0 of -0.0: both are one signal.
    contents = (((signals[k] + 0.0).tobytes(), *y[k], given_groups[k]) for k in counted)
    rows = np.fromiter(contents, dtype=object, count=len(counted))
    different, first_rows, case_of = np.unique(rows, return_index=True, return_inverse=True)
    first = counted[first_rows]
    case_indices = np.full(len(weights), -1)
    case_indices[counted] = case_of
    sums = np.bincount(case_of, weights[counted])
    if groups is None:  # copies of a signal are neighbours, whatever their y
        case_groups = np.cumsum([False, *(a[0] != b[0] for a, b in pairwise(different))])
    else:
        case_groups = groups[first]
    return Cases(take(signals, first), y[first], sums / sums.mean(), case_groups, case_indices)


def unit_sum(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their sum; weights of only zeros stay zeros."""
    return weights / (weights.sum() or 1.0)


def variance_of_sum(deviations: np.ndarray, cases: Cases, weights: np.ndarray) -> float:
    """Return an estimate of the variance of a weighted sum over cases, from their deviations.

    It is the sum over groups of the squares of their sums: deviations, (n_cases,), of one group may
    depend on each other, and groups are independent.
    """
    group_sums = np.bincount(cases.groups, weights * deviations)
    return float(group_sums @ group_sums)
