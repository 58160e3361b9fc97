"""`SignalList`: signals of different lengths, as calls hand them to engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from .arrays import Array, array_module


class Run(NamedTuple):
    """Signals of one length, which follow one another in `SignalList.order`."""

    start: int
    """The place of the first signal in the order."""

    signals: Array
    """(n_cases, n_channels, n_timepoints)."""

    @property
    def stop(self) -> int:
        """The place after the last signal."""
        return self.start + len(self.signals)

    @property
    def length(self) -> int:
        """Number of time points d."""
        return self.signals.shape[2]


class SignalList(Sequence[Any]):
    """Signals of different lengths, checked: arrays (n_channels, n_timepoints_i) in float64.

    An index gives one array. A slice, or an array of indices, gives another list.

    Parameters
    ----------
    signals : sequence of arrays
        All of NumPy or all of CuPy, with the same number of channels. At least one.
    """

    def __init__(self, signals: Sequence[Array]) -> None:
        self._signals = list(signals)
        self.lengths = np.array([signal.shape[1] for signal in self._signals])

    @classmethod
    def of(cls, X: Array | SignalList) -> SignalList:
        """Return a batch as a list of its signals."""
        return X if isinstance(X, SignalList) else cls(list(X))

    @property
    def n_channels(self) -> int:
        """Number of channels of each signal."""
        return self._signals[0].shape[0]

    @property
    def longest(self) -> int:
        """Number of time points of the longest signal."""
        return int(self.lengths.max())

    def __len__(self) -> int:
        return len(self._signals)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._signals)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> SignalList: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return SignalList(self._signals[index])
        if np.ndim(index) == 0:
            return self._signals[index]
        return SignalList([self._signals[int(k)] for k in np.arange(len(self))[index]])

    @property
    def xp(self) -> Any:
        """The module of the arrays, numpy or cupy."""
        return array_module(self._signals[0])

    @property
    def order(self) -> np.ndarray:
        """(n_cases,), indices of the signals from the longest to the shortest."""
        return np.argsort(-self.lengths, kind="stable")

    def runs(self) -> list[Run]:
        """Return the signals in the order of `order`, equal lengths together in one array."""
        order = self.order
        ends = np.flatnonzero(np.diff(self.lengths[order])) + 1
        return [
            Run(int(cases[0]), self.xp.stack([self._signals[order[k]] for k in cases]))
            for cases in np.split(np.arange(len(order)), ends)
        ]


Batch: TypeAlias = Array | SignalList
"""Checked signals: an array (n_cases, n_channels, n_timepoints), or a list of any lengths."""


def channels_and_length(X: Batch) -> tuple[int, int]:
    """Return the number of channels, and the number of time points of the longest signal."""
    if isinstance(X, SignalList):
        return X.n_channels, X.longest
    return X.shape[1], X.shape[2]


def library(X: Batch) -> Any:
    """Return the module of a batch's arrays, numpy or cupy."""
    return X.xp if isinstance(X, SignalList) else array_module(X)
