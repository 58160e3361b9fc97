"""Choose a metric of the channels by errors at folds that the metric has not seen.

After a metric is learned from all signals, leave-one-out errors are too small. Each candidate is
therefore learned without a fold, and judged on the fold.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..arrays import SignalList
from ..network import Network
from ..regression.channels import PENALTIES, next_metric, ridge_of_matrix, weights_of_errors
from .inputs import DistinctCases
from .passes import Pass
from .views import WHOLE, Signals, View, each, take

AUTO = "auto"
"""Value of `channel_metric` that takes a metric where it lowers errors surely."""

_FOLDS = 3
"""Folds. Raising it learns each metric from more signals, and fits all passes once more for each.
Chosen for the time: a fit with a metric takes as many fits, and one more."""

_CASES = 200
"""Most signals from which a metric is learned, and by which it is judged. Raising it takes more
time, in proportion to the square. Measured (benchmarks/channels.py): with 400 accuracies are the
same within .01, and log losses hardly differ."""

_GRADIENTS = 32
"""Signals at which gradients are taken. Raising it finds the metric more exactly, in more time.
Chosen for the time."""

_SURE = 2.0
"""Least gain of a metric, in its standard errors. Raising it keeps the channels as they are more
often. Measured: with 1, the best of three candidates is taken by chance on FingerMovements, and
its log loss grows from .66 to .69."""

_IDENTITY = 0.3
"""Share of the identity in a metric by gradients, as for `channel_metric`."""

_POINTS, _FREQUENCIES = 32, 32
"""Most time points, and bands of frequencies, of the two views that judge a metric. Raising them
takes more time, in proportion to the square of the points. Measured on simulated sensors and EEG:
16 points miss fast changes."""


class ChannelChoice(NamedTuple):
    """A metric of the channels, and metrics that have not seen a fold."""

    transform: np.ndarray
    """S, (n_channels, n_channels), which acts on standardized channels"""
    of_folds: list[np.ndarray]
    """The same learned without each fold"""
    folds: np.ndarray
    """Number of each case's fold, (n_cases,)"""


def choose_channels(
    cases: DistinctCases,
    folds: np.ndarray,
    wanted: Any,
    generator: np.random.RandomState,
    options: dict[str, Any],
) -> ChannelChoice | None:
    """Return the metric of least error at folds left out; None for unchanged channels.

    Candidates are weights of channels, the metric of gradients, and the metric of weighted
    channels. The folds are three parts of the numbered `folds`, (n_cases,). With `wanted` "auto",
    the gain over unchanged channels must exceed two standard errors. True takes the best
    candidate, False none. One channel has no metric.
    """
    if wanted not in (AUTO, True, False):
        raise ValueError(f"channel_metric is {wanted!r}, expected {AUTO!r}, True or False")
    folds = folds * _FOLDS // (folds.max() + 1)
    if not wanted or len(cases.signals[0]) == 1 or len(np.unique(folds)) < _FOLDS:
        return None
    drawn = np.sort(generator.permutation(len(folds))[:_CASES])
    judge = _Judge(cases, drawn, options)
    parts = [judge.candidates(folds[drawn] != k) for k in range(_FOLDS)]
    shares = cases.error_weights[drawn] / (cases.error_weights[drawn].sum() or 1.0)
    unchanged = judge.errors([np.eye(len(cases.signals[0]))] * _FOLDS, folds[drawn], shares)
    best, least = None, np.inf
    for name in parts[0]:
        errors = judge.errors([part[name] for part in parts], folds[drawn], shares)
        gains = unchanged - errors
        gain = float(shares @ gains)
        spread = float(np.sqrt((shares**2) @ (gains - gain) ** 2))
        if (wanted != AUTO or gain > _SURE * spread) and shares @ errors < least:
            best, least = name, float(shares @ errors)
    if best is None:
        return None
    everything = judge.candidates(np.ones(len(drawn), bool), best)[best]
    return ChannelChoice(everything, [part[best] for part in parts], folds)


class _Judge:
    """Two cheap views of some cases: signals, and whole spectra; candidates and their errors."""

    def __init__(self, cases: DistinctCases, drawn: np.ndarray, options: dict[str, Any]) -> None:
        self.X, self.options = take(cases.signals, drawn), options
        self.Y, self.weights = cases.targets[drawn], cases.weights[drawn]
        self.groups = drawn if cases.groups is None else cases.groups[drawn]
        X, network = self.X, Network(2)
        self.signals = Pass(
            View(_POINTS if X[0].ndim == 2 else 8, standardize=True), network, "gap", ("ntk",), (2,)
        )
        self.views = [self.signals]
        if isinstance(X, np.ndarray) and X.ndim == 3 and X.shape[2] > 2:
            spectra = View(_FREQUENCIES, standardize=True, spectra=WHOLE)
            self.views.append(Pass(spectra, network, "trace", ("ntk",), (2,)))
        channels = [each(itemgetter(np.s_[:, c : c + 1]), X) for c in range(len(X[0]))]
        self.of_channels = [self._matrix(channel) for channel in channels]

    def _matrix(self, X: Signals, transform: np.ndarray | None = None) -> np.ndarray:
        """Return the mean kernel matrix of both views of signals X, (n_cases, n_cases)."""
        total = np.zeros((len(X), len(X)))
        for each_pass in self.views:
            view = replace(each_pass.view, transform=transform).fit(X, self.weights)
            total += each_pass(view(X), **self.options)
        return total / len(self.views)

    def candidates(self, inside: np.ndarray, only: str | None = None) -> dict[str, np.ndarray]:
        """Return the candidates learned from some cases, or one of them, by name."""
        weights, groups = self.weights[inside], self.groups[inside]
        Y = self.Y[inside] - np.average(self.Y[inside], axis=0, weights=weights)
        errors = np.ones(len(self.of_channels))
        for c, K in enumerate(self.of_channels):
            if K.any() and Y.any():  # else the channel, or the target, is constant
                errors[c] = ridge_of_matrix(K[np.ix_(inside, inside)], Y, weights, groups)[1]
        W = np.diag(weights_of_errors(errors))
        start, X = np.eye(len(W)), take(self.X, np.flatnonzero(inside))
        learned = {"weights": W}
        if only in (None, "metric"):
            learned["metric"] = self._metric(X, Y, weights, start)
        if only in (None, "both"):
            learned["both"] = self._metric(X, Y, weights, W)
        return learned

    def _metric(
        self, X: Signals, Y: np.ndarray, weights: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        """Return the metric of gradients of a ridge regression on the signals, from a start."""
        seen = self.signals.view.fit(X, weights)(X)
        batch = seen if isinstance(seen, np.ndarray) else SignalList(seen)
        return next_metric(
            self.signals, batch, Y, start, _IDENTITY, _GRADIENTS, seed=0, options=self.options,
            case_weights=weights, signs=True,
        )[0]  # fmt: skip

    def errors(
        self, of_folds: list[np.ndarray], folds: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Return squared errors of cases, (n_cases,), left out, by the metric of their fold."""
        residuals = np.zeros((len(PENALTIES), *self.Y.shape))
        for k, transform in enumerate(of_folds):
            if k == 0 or transform is not of_folds[k - 1]:
                K = self._matrix(self.X, transform)
                ridge = ridge_of_matrix(K, self.Y, self.weights, self.groups)
            residuals[:, folds == k] = ridge[2][:, folds == k]
        squares = (residuals**2).sum(axis=2)
        return squares[(squares @ shares).argmin()]
