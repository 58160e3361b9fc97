"""`OrderedSignals`: one side of a Gram, from the longest signal to the shortest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array, Batch, SignalList, library
from .scaling import Scaling


class OrderedSignals:
    """Signals of X or of Z, from the longest to the shortest, equal lengths together.

    The order of a list may be given: of the partners of paired signals.

    Attributes
    ----------
    order, lengths : array, (cases,), int
        The signals' places in the batch, and their lengths.
    begins : array, (cases + 1,), int
        The places of their first pixels, one signal after the other.
    scale : array, (cases,)
        The number by which each signal was divided, by its place in the batch; known where tables
        were made.
    """

    def __init__(self, batch: Batch, order: np.ndarray | None = None) -> None:
        self.batch = batch
        if isinstance(batch, SignalList):
            self.order = batch.order if order is None else order
            self.lengths = batch.lengths[self.order]
        else:
            self.order, self.lengths = np.arange(len(batch)), np.full(len(batch), batch.shape[2])
        self.begins = np.concatenate([[0], np.cumsum(self.lengths)])
        self.scale: Array = library(batch).empty(len(batch))

    def some(self, cases: Any) -> Any:
        """Return some of the signals, by their places in order: a slice or an array."""
        if isinstance(self.batch, SignalList):
            return self.batch[self.order[cases]]
        return self.batch[cases if isinstance(cases, slice) else library(self.batch).asarray(cases)]

    def of_each_length(
        self, cases: Any, scaling: Callable[[int], Scaling]
    ) -> list[tuple[Scaling, Array]]:
        """Return some signals of each length, (cases, channels, d), and the layers' constants.

        The longest come first.
        """
        some = self.some(cases)
        arrays = some.of_each_length() if isinstance(some, SignalList) else [some]
        return [(scaling(signals.shape[2]), signals) for signals in arrays]
