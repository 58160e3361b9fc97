"""Predictions of limits over depth, for any signals and for given ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernels import Kernel
from ..validation import check_constant, check_positive, check_real, check_shape

_ROUNDINGS = 20 * float(np.finfo(np.float64).eps)
"""Rounding error of the kernel of one layer, relative to its pixel pairs (tests/tolerances.py)."""


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""A predicted limit and rate of a family of kernels.

    Distances from the limit, in root mean square over pairs of signals, are predicted to be
    :math:`C L^{-p} (\log L)^k`, asymptotically.

    Parameters
    ----------
    limit : Kernel, float, ndarray (n, n), or callable
        The normalized kernel at infinite depth, or its value for all pairs of different signals. A
        callable takes signals and a head and returns *complements*, 1 − limit.
    exponent, log_power : float, optional, and {0, 1}, default 0
        p, positive, and k.
    constant : float or callable, optional
        C, or a function of signals and head that returns it.
    source : str
        Whose prediction it is, in a few words.
    requires_multisphere : bool, default False
        Whether signals must be on the multi-sphere.
    correction : float, optional
        q of the corrections to the law: the first has the relative size
        :math:`(\text{onset}/L)^q`. The default is the fitted p, 1 at most.
    onset : float, default 1
        The depth at which the law sets in.
    law_at : callable, optional
        A function of prediction, signals and head, which returns the prediction for these signals.
    error : float, default 0
        Largest error of an entry of the limit.
    undefined : str, optional
        Why there is no limit. `at` says so where it depends on the signals.
    reach : float, default infinity
        The greatest depth at which float64 tells the limit.
    """

    limit: Kernel | float | np.ndarray | Callable[[np.ndarray, str], np.ndarray]
    exponent: float | None = None
    log_power: int = 0
    constant: float | Callable[[np.ndarray, str], float | None] | None = None
    source: str = "handed in"
    requires_multisphere: bool = False
    correction: float | None = None
    onset: float = 1.0
    law_at: Callable[[Prediction, np.ndarray, str], Prediction] | None = None
    error: float = 0.0
    undefined: str = ""
    reach: float = math.inf

    def __post_init__(self) -> None:
        if self.exponent is not None and check_constant(self.exponent, "exponent") == 0:
            raise ValueError("exponent is 0, expected a positive number, or None for no rate")
        if self.log_power not in (0, 1):
            raise ValueError(f"log_power is {self.log_power!r}, expected 0 or 1")
        check_positive(self.onset, "onset")
        check_constant(self.error, "error")
        if self.correction is not None:
            check_positive(self.correction, "correction")
        if not (self.constant is None or callable(self.constant)):
            check_constant(self.constant, "constant")
        if callable(self.limit):
            return
        expected = "(n, n), a number, a Kernel or a function of signals and head"
        values = check_real(self.limit, "limit", expected)
        if isinstance(self.limit, bool) or (values.ndim == 0 and abs(values) > 1.0):
            raise ValueError(f"limit is {self.limit!r}, expected a correlation from -1 to 1")

    def complements(self, X: np.ndarray, head: str) -> np.ndarray:
        """Return 1 − limit for all pairs of signals, (n, n), 0 on the diagonal."""
        n = len(X)
        if isinstance(self.limit, Kernel):
            values = 1.0 - self.limit.replace(head=head, normalized=True)(X)
        elif callable(self.limit):
            values = np.array(self.limit(X, head), dtype=np.float64)
        else:
            values = 1.0 - np.array(self.limit, dtype=np.float64)
            values = np.full((n, n), float(values)) if values.ndim == 0 else values
        values = check_shape(values, "the predicted limit", (n, n))
        np.fill_diagonal(values, 0.0)
        if np.abs(values - values.T).max() > 1e-8:
            raise ValueError("the predicted limit is not symmetric, expected a kernel matrix")
        return values

    def distance_constant(self, X: np.ndarray, head: str) -> float | None:
        return self.constant(X, head) if callable(self.constant) else self.constant

    def at(self, X: np.ndarray, head: str) -> Prediction:
        """Return the prediction for these signals."""
        told = self if self.law_at is None else self.law_at(self, X, head)
        if isinstance(self.limit, Kernel):
            cases = unresolved(self.limit.replace(head=head), X)
            if len(cases):
                text = f"the predicted kernel of X[{cases[0]}] with itself is 0 up to rounding"
                told = replace(told, undefined=text)
        return replace(told, law_at=None)

    def scaled(self, exponent: float = 1.0, correction: float = 1.0, **fields: Any) -> Prediction:
        """Return the prediction with factors of p and q, and with other values of `fields`."""
        if self.exponent is not None:
            fields["exponent"] = exponent * self.exponent
        if self.correction is not None:
            fields["correction"] = correction * self.correction
        return replace(self, **fields)

    @property
    def rate(self) -> str:
        """The predicted rate in words, such as "log(L) L^-1"."""
        if self.exponent is None:
            return "unknown"
        return ("log(L) " if self.log_power else "") + f"L^-{self.exponent:g}"

    def power(self, depths: np.ndarray) -> np.ndarray:
        """Return L^-p (log L)^k."""
        return depths ** -(self.exponent or 0.0) * np.log(depths) ** self.log_power


def unresolved(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Return the cases whose kernel with itself is 0 up to rounding, of a kernel of one layer.

    GAP's mean over pixel pairs may cancel. Each pair errs by some roundings of √(K_jj K_j'j').
    The mean errs by the same number of roundings of the trace kernel, the mean of K_jj.
    """
    lost = kernel.replace(normalized=True).diag(X) == 0
    if kernel.head == "gap":
        own, terms = (
            kernel.replace(head=head, normalized=False).diag(X) for head in ("gap", "trace")
        )
        lost |= own < _ROUNDINGS * terms
    return np.flatnonzero(lost)
