"""What is regressed on signals, and on the kernels of which signals decisions depend."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..reading.signals import Signals, take


class Targets(NamedTuple):
    """What is regressed on the signals of cases, and how errors count.

    There is one regression for all outputs, or one for each output.
    """

    values: np.ndarray
    """The targets, (n_cases, n_outputs)."""
    error_weights: np.ndarray
    """The weights of cases in the errors by which penalties and weights of views are chosen,
    (n_cases,)."""
    n_regressions: int = 1
    """1, or the number of outputs. Each regression has its own penalty and weights of views."""

    def split(self, residuals: np.ndarray) -> list[np.ndarray]:
        """Return the residuals of each regression, from those of all outputs, (…, n_outputs)."""
        return np.split(residuals, self.n_regressions, axis=-1)


class Landmarks(NamedTuple):
    """The signals on whose kernels decisions depend: all cases, or some of them."""

    signals: Signals
    """The signals before the steps of views, which share them."""
    indices: np.ndarray | None
    """Their indices among the cases; None if they are all cases."""

    @classmethod
    def of(cls, X: Signals, indices: np.ndarray | None) -> Self:
        """Return the landmarks of cases with signals X."""
        return cls(X if indices is None else take(X, indices), indices)
