r"""The time to learn an eigenfunction by gradient descent: section 5.1 of Barzilai et al. 2022.

Gradient flow from 0 learns the share :math:`1 - e^{-\lambda t}`, in a time like :math:`1/\lambda`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import resolution
from ..decomposition import Decomposition, decompose, nonnegative
from ..network import Network
from ..validation import check_targets
from . import spectrum
from .report_table import ReportTable

__all__ = ["Clock", "ClockRow", "Learned", "clock", "learned"]


class ClockRow(NamedTuple):
    """Frequencies, one a pixel, λ, its number of eigenfunctions, and 1 − exp(−λt) over time."""

    frequencies: tuple[int, ...]
    eigenvalue: float
    multiplicity: float
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Clock(ReportTable):
    """Shares over time; iterating gives a `ClockRow` for all frequencies, the fastest first."""

    times: tuple[float, ...]

    def __str__(self) -> str:
        """Return the table as text, a column for each time."""
        header = (*ClockRow._fields[:3], *(f"t = {t:.4g}" for t in self.times))
        cells = ReportTable(tuple((*row[:3], *row.shares) for row in self))._cells(header)
        head, *body = map("  ".join, cells)
        return "\n".join([head, "-" * len(head), *body])


def clock(
    network: Network, n_channels: int, n_timepoints: int, max_frequency: Any, times: ArrayLike, *,
    kind: str = "ntk", head: str = "equivariant",
) -> Clock:  # fmt: skip
    r"""Return what gradient flow has learned of each eigenfunction on the multi-sphere over time.

    The flow is :math:`f' = -K(f - y)`, the mean over signals uniform on the multi-sphere: times are
    steps times the learning rate for the mean of :math:`\frac12(f - y)^2`.

    Parameters
    ----------
    network, n_channels, n_timepoints, max_frequency, kind, head
        As for ``spectrum.eigenvalues``, which are not normalized.
    times : array_like, (n_times,)
        At least 0; infinity learns all of positive eigenvalues.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> print(theory.learning.clock(literature.barzilai_resnet(2), 2, 2, 1, times=(1, 10)))
    frequencies  eigenvalue  multiplicity   t = 1  t = 10
    -----------------------------------------------------
            0 0       3.571             1  0.9719       1
            1 0       1.664             2  0.8105       1
            0 1       1.337             2  0.7373       1
            1 1      0.1402             4  0.1308  0.7538
    """
    moments = nonnegative(times, "times", finite=False)
    space = n_channels, n_timepoints, max_frequency
    # Eigenvalues are below 0 by errors of the quadrature.
    values = np.maximum(spectrum.eigenvalues(network, *space, kind, head), 0.0)
    counts = spectrum.multiplicities(*space, head)
    order = np.argsort(-values, axis=None, kind="stable")
    frequencies, falling = np.argwhere(values >= 0)[order], values.flat[order]
    columns = frequencies, falling, counts.flat[order], _shares(falling, moments).T
    rows = zip(*(column.tolist() for column in columns), strict=True)
    table = tuple(ClockRow(tuple(k), value, n, tuple(own)) for k, value, n, own in rows)
    return Clock(table, tuple(moments.tolist()))


class Learned(NamedTuple):
    """Shares of the targets y of some signals that gradient flow has learned over time.

    Of K/n: falling ``eigenvalues`` λ and the ``shares`` of ‖y‖² along their eigenvectors, (n,). At
    each time, (n_times,): ``total`` Σ share · (1 − exp(−λt)), which is ⟨f, y⟩/‖y‖², and ``error``
    Σ share · exp(−2λt), which is ‖f − y‖²/‖y‖².
    """

    eigenvalues: np.ndarray
    shares: np.ndarray
    total: np.ndarray
    error: np.ndarray


def learned(K: np.ndarray, y: np.ndarray, times: ArrayLike) -> Learned:
    r"""Return what the gradient flow :math:`f' = -K(f - y)/n` has learned of targets over time.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix. Eigenvalues below n·eps·λ_max, eps of its dtype, count as 0.
    y : ndarray, (n,) or (n, n_targets)
        Not 0. Several targets have one share, of all their squares.
    times : array_like, (n_times,)
        At least 0; infinity is the end of the flow.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> learning.learned([[3.0, 0.0], [0.0, 1.0]], [3.0, 4.0], times=(0.0, 2.0)).total.round(3)
    array([0.   , 0.747])
    """
    found, moments, n = decompose(K), nonnegative(times, "times", finite=False), len(K)
    smallest = resolution(found.eigenvalues, found.eps)
    values = np.where(found.eigenvalues > smallest, found.eigenvalues, 0.0)[::-1] / n
    squares, each = along_eigenvectors(found, y), _shares(values, moments)
    shares = squares / squares.sum()
    return Learned(values, shares, each @ shares, (1.0 - each) ** 2 @ shares)


def along_eigenvectors(found: Decomposition, y: np.ndarray) -> np.ndarray:
    """Return squares of y along eigenvectors of falling eigenvalues, (n,), up to a factor."""
    vectors = found.eigenvectors
    y = check_targets(y, len(vectors)).reshape(len(vectors), -1)
    if not (largest := np.abs(y).max()):
        raise ValueError("y is 0 for all signals, expected targets that have a direction")
    return np.asarray(np.square(vectors.T @ (y / largest)).sum(axis=1)[::-1])


def _shares(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return 1 − exp(−λt), (n_times, n_values); 0 where λ is 0, at all times."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(values > 0, -np.expm1(-np.multiply.outer(times, values)), 0.0)
