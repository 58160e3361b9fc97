r"""Concentration: finite networks' kernels approach the infinite network's like 1/√width.

The relative error of one sampled network is :math:`\|\hat K - K\|_F / \|K\|_F`, with K from
``rescntk.gram``. Its root mean square over networks falls like :math:`C^{-1/2}`: kernels are
means over C channels, or sums of such means (Huang et al. 2020, theorem 4; Tirer et al. 2022,
figure 1a).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from ..kernels import gram
from ..network import Network
from ..validation import check_choice, check_depth
from ..vocabulary import KINDS
from .precision import as_key
from .sampling import Estimate, check_samples, estimate, samples


class ConcentrationRow(NamedTuple):
    """Distance of sampled kernels from the exact one at one width."""

    width: int
    relative_error: float
    """Root mean square over networks of ‖K̂ − K‖_F / ‖K‖_F."""
    standard_error: float
    """Standard error of `relative_error`."""


@dataclass(frozen=True)
class Concentration:
    """Errors over widths, the power law through them, and the kernels behind them."""

    rows: tuple[ConcentrationRow, ...]
    slope: float
    """Fitted exponent of the relative error over the width; the theory says −½."""
    slope_error: float
    """Standard error of `slope`."""
    exact: np.ndarray
    """(n_cases, n_cases), from ``rescntk.gram``."""
    widest: Estimate
    """Mean kernel of the widest networks, with its standard error."""

    def __iter__(self) -> Iterator[ConcentrationRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> np.ndarray:
        """Return one field of all rows as an array (n_widths,)."""
        check_choice(name, "column", ConcentrationRow._fields)
        return np.array([getattr(row, name) for row in self.rows])

    @property
    def deviations(self) -> np.ndarray:
        """(mean − exact) / standard error of the widest networks, (n_cases, n_cases).

        Where both the difference and its standard error are 0, the deviation is 0.
        """
        difference = self.widest.mean - self.exact
        error = self.widest.standard_error
        nothing = (difference == 0) & (error == 0)
        with np.errstate(divide="ignore"):
            return np.where(nothing, 0.0, difference / np.where(nothing, 1.0, error))

    def __str__(self) -> str:
        lines = [f"{'width':>8} {'relative error':>20}"]
        lines += [
            f"{row.width:8} {row.relative_error:11.5f} ± {row.standard_error:.5f}" for row in self
        ]
        return "\n".join(
            [*lines, f"slope {self.slope:.3f} ± {self.slope_error:.3f} (theory: −1/2)"]
        )


def concentration(
    key: Any,
    network: Network,
    X: Any,
    widths: Iterable[int],
    n_samples: int,
    head: str = "gap",
    kind: str = "ntk",
    *,
    dtype: str = "float64",
) -> Concentration:
    """Return the distance of sampled networks' kernels from the exact kernel, over widths.

    Parameters
    ----------
    key : key of ``jax.random``, or int
    network : Network
    X : array, (n_cases, n_channels, n_timepoints)
        Signals; for the head "gap" also a list of arrays of different lengths.
    widths : iterable of int
        At least two, rising.
    n_samples : int
        Networks of each width, at least 2.
    head : {"equivariant", "trace", "gap"}, default "gap"
    kind : {"gpk", "ntk"}, default "ntk"
    dtype : {"float64", "float32"}, default "float64"
        Precision of the finite networks; the exact kernel is of float64.

    Returns
    -------
    Concentration
        A row for each width, the fitted slope with its error, the mean at the largest width.

    Raises
    ------
    ValueError
        For arguments that are not as described, or if the exact kernel is 0.
    MemoryError
        If a network takes more than the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> X = np.random.default_rng(0).standard_normal((3, 2, 8))
    >>> table = finite.concentration(0, rk.Network(depth=2), X, (8, 32, 128), n_samples=8)
    >>> bool(-0.8 < table.slope < -0.2)
    True
    """
    widths = _check_widths(widths)
    check_samples(n_samples)
    check_choice(kind, "kind", KINDS)
    exact = np.asarray(gram(network, X, head=head, kinds=(kind,))[0])
    keys = jax.random.split(as_key(key), len(widths))
    return summarize(
        exact,
        {
            width: samples(own, network, X, width, n_samples, head, kind, dtype=dtype)
            for own, width in zip(keys, widths, strict=True)
        },
    )


def summarize(exact: np.ndarray, sampled: Mapping[int, np.ndarray]) -> Concentration:
    """Return the distance of sampled kernels from the exact kernel, over widths.

    Parameters
    ----------
    exact : ndarray, (n_cases, n_cases)
        From ``rescntk.gram``.
    sampled : mapping of width to ndarray, (n_samples, n_cases, n_cases)
        From ``finite.samples``, the widths rising.

    Raises
    ------
    ValueError
        If the exact kernel is 0.
    """
    size = np.linalg.norm(exact)
    if size == 0:
        raise ValueError("the exact kernel of X is 0, expected a kernel to be relative to")
    rows = []
    for width, kernels in sampled.items():
        squares = ((kernels.astype(np.float64) - exact) ** 2).sum(axis=(1, 2)) / size**2
        root = float(np.sqrt(squares.mean()))
        error = float(squares.std(ddof=1) / np.sqrt(len(kernels)) / (2 * root)) if root else 0.0
        rows.append(ConcentrationRow(width, root, error))
    slope, slope_error = fit_power_law(rows)
    widest = estimate(sampled[rows[-1].width].astype(np.float64))
    return Concentration(tuple(rows), slope, slope_error, exact, widest)


def fit_power_law(rows: Iterable[ConcentrationRow]) -> tuple[float, float]:
    """Return the exponent of error over width, and its standard error, by weighted least squares.

    Logarithms of the errors have the standard errors `standard_error` / `relative_error`.
    NaN where an error is 0.
    """
    width, error, spread = np.array(list(rows), dtype=float).T
    if (error <= 0).any() or (spread <= 0).any():
        return float("nan"), float("nan")
    weights = (error / spread) ** 2
    x = np.log(width)
    x = x - (weights * x).sum() / weights.sum()
    information = (weights * x**2).sum()
    return float((weights * x * np.log(error)).sum() / information), float(information**-0.5)


def _check_widths(widths: Iterable[int]) -> tuple[int, ...]:
    try:
        given = tuple(check_depth(width, "widths") for width in widths)
    except TypeError:
        raise ValueError(f"widths is {widths!r}, expected a sequence of integers") from None
    if len(given) < 2 or any(b <= a for a, b in pairwise(given)):
        raise ValueError(f"widths is {given!r}, expected at least two rising integers")
    return given
