"""When labels before a signal's end are final: rules, and how left-out results choose one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import betainc

_MOST_THRESHOLDS = 200
"""Maximum number of thresholds that `best_rule` compares. More take more time."""

_TESTED_THRESHOLDS = 20
"""Number of thresholds that a bound tests. Each makes the labels of another twentieth early."""

SIGNIFICANCE = 0.1
"""Significance level of these tests: how often a bound may fail, over draws of training signals."""

PrefixProba = Callable[[int, np.ndarray], np.ndarray]
"""A function of the index of a prefix, and of the indices of cases, (n,), that returns the cases'
probabilities at this prefix, (n, n_classes)."""


@dataclass
class Progress:
    """The most probable classes of signals at their last prefixes, and which are final."""

    last: np.ndarray
    """Index of the last prefix that was seen, (n_cases,); -1 before the first."""
    class_indices: np.ndarray
    """Index of the most probable class at this prefix, (n_cases,); -1 before the first."""
    streaks: np.ndarray
    """Number of prefixes in a row, up to this one, at which it is the same class, (n_cases,)."""
    final: np.ndarray
    """Whether the class is final, (n_cases,)."""
    proba: np.ndarray
    """Probabilities at the last prefix, (n_cases, n_classes)."""

    @classmethod
    def begin(cls, n_cases: int, n_classes: int) -> Self:
        """Return the progress of signals before their first prefix."""
        none = np.full(n_cases, -1)
        final, proba = np.zeros(n_cases, dtype=bool), np.zeros((n_cases, n_classes))
        return cls(none, none.copy(), np.zeros(n_cases, dtype=int), final, proba)


@dataclass(frozen=True)
class StoppingRule:
    """A label is final at a probability of `threshold`, after `agreement` equal labels in a row."""

    threshold: float
    agreement: int = 1

    def advance(
        self, progress: Progress, proba_at: PrefixProba, n_prefixes: int, n_seen: int
    ) -> None:
        """Change the progress by the prefixes with an index below `n_seen`.

        At the last of all `n_prefixes` prefixes each label is final.
        """
        for k in range(progress.last.max(initial=-1) + 1, n_seen):
            waiting = np.flatnonzero(~progress.final)
            if not len(waiting):
                break
            proba = proba_at(k, waiting)
            class_indices = proba.argmax(axis=1)
            is_same = class_indices == progress.class_indices[waiting]
            streaks = np.where(is_same, progress.streaks[waiting] + 1, 1)
            sure = (proba.max(axis=1) >= self.threshold) & (streaks >= self.agreement)
            progress.last[waiting], progress.class_indices[waiting] = k, class_indices
            progress.streaks[waiting], progress.proba[waiting] = streaks, proba
            progress.final[waiting] = sure | (k == n_prefixes - 1)

    def simulate(self, proba: np.ndarray) -> Progress:
        """Return the progress at the end, from probabilities (n_prefixes, n_cases, n_classes)."""
        n_prefixes, *sizes = proba.shape
        progress = Progress.begin(*sizes)
        self.advance(progress, lambda k, at: proba[k, at], n_prefixes, n_prefixes)
        return progress


def harmonic_mean(accuracy: float, earliness: float) -> float:
    """Return the harmonic mean of accuracy and 1 − earliness; 0 where a label takes all points."""
    saved = 1.0 - earliness
    return 2.0 * accuracy * saved / (accuracy + saved) if saved else 0.0


def negative_cost(accuracy: float, earliness: float, delay_cost: float) -> float:
    """Return minus the sum of the mean error and `delay_cost` times earliness."""
    return accuracy - 1.0 - delay_cost * earliness


def best_rule(
    proba: np.ndarray,
    class_indices: np.ndarray,
    lengths: np.ndarray,
    objective: Callable[[float, float], float],
    weights: np.ndarray | None = None,
) -> StoppingRule:
    """Return the rule with the largest objective, a function of accuracy and earliness.

    Earliness is the mean share of time points that is seen (Schäfer and Leser 2020). `proba` are
    left-out probabilities, (n_prefixes, n_cases, n_classes), `class_indices` those of the right
    classes, (n_cases,), `lengths` those of the prefixes, (n_prefixes,), and `weights` those of the
    cases. Among rules with the same objective it is the strictest one.
    """

    def objective_of(rule: StoppingRule) -> float:
        end = rule.simulate(proba)
        earliness = np.average(lengths[end.last], weights=weights) / lengths[-1]
        accuracy = np.average(end.class_indices == class_indices, weights=weights)
        return objective(accuracy, earliness)

    chosen = StoppingRule(np.inf)
    best = objective_of(chosen)
    thresholds = np.unique(proba[:-1].max(axis=2))[::-1]
    if len(thresholds) > _MOST_THRESHOLDS:
        levels = np.linspace(1.0, 0.0, _MOST_THRESHOLDS)
        thresholds = np.quantile(thresholds, levels, method="inverted_cdf")
    for rule in (StoppingRule(t, agreement) for agreement in (2, 1) for t in thresholds):
        found = objective_of(rule)
        if found > best:
            best, chosen = found, rule
    return chosen


def rule_with_error_bound(
    proba: np.ndarray, class_indices: np.ndarray, groups: np.ndarray, error: float
) -> StoppingRule:
    """Return the least strict rule whose errors among early labels are at most `error`, by tests.

    Fixed sequence testing (Angelopoulos et al. 2021, "Learn then test"): thresholds go down from
    the strictest one. Each has the null hypothesis that the chance of error among early labels,
    over all prefixes but the last, is above `error`. The exact binomial test of left-out labels
    rejects it, or ends the sequence. Thresholds with too few early labels for any rejection are
    passed over. A group, by its number in `groups`, counts as one signal, with its share of wrong
    labels; the test, which is exact for whole numbers, is then interpolated between them.
    """
    last_prefix, chosen = len(proba) - 1, StoppingRule(np.inf)
    if not last_prefix:
        return chosen
    peaks = proba[:-1].max(axis=(0, 2))
    levels = 1.0 - np.arange(1, _TESTED_THRESHOLDS + 1) / _TESTED_THRESHOLDS
    for threshold in np.unique(np.quantile(peaks, levels, method="inverted_cdf"))[::-1]:
        rule = StoppingRule(threshold)
        end = rule.simulate(proba)
        early = end.last < last_prefix
        counts = np.bincount(groups[early])
        wrong = np.bincount(groups[early], (end.class_indices != class_indices)[early])
        n, n_wrong = np.count_nonzero(counts), float(np.sum(wrong[counts > 0] / counts[counts > 0]))
        if (1.0 - error) ** n > SIGNIFICANCE:
            continue
        # The chance of as few errors: the incomplete beta function interpolates between integers.
        if n_wrong >= n or betainc(n - n_wrong, n_wrong + 1.0, 1.0 - error) > SIGNIFICANCE:
            break
        chosen = rule
    return chosen
