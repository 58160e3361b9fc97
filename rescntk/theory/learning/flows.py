r"""Gradient flow over time: learned fractions of eigenfunctions, and of the targets of a data set.

Barzilai et al. 2022, section 5.1: it learns the fraction :math:`1 - e^{-\lambda t}` of an
eigenfunction (``docs/theory/sample_complexity.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ...arrays import resolution
from ...checks.values import check_nonnegative_vector, check_targets
from ...network import Network
from ...regression.decomposition import decompose
from .. import spectrum
from ..spectrum.funk_hecke import Quadrature, check_quadrature
from ..tools.report_table import ReportTable, aligned_cells


class FrequencyRow(NamedTuple):
    """A row of a `LearnedByFrequency`, which documents the columns."""

    frequencies: tuple[int, ...]
    eigenvalue: float
    multiplicity: float
    learned: tuple[float, ...]


@dataclass(frozen=True)
class LearnedByFrequency(ReportTable[FrequencyRow]):
    """Fractions learned over time; iterating gives a row for each frequency, the fastest first.

    - ``frequencies``: one a pixel.
    - ``eigenvalue``: λ.
    - ``multiplicity``: number of eigenfunctions.
    - ``learned``: 1 − exp(−λt), the fraction learned at each of the ``times``.
    """

    times: tuple[float, ...]

    def _names(self, field: str, count: int) -> list[str]:
        if field == "learned":
            return [f"learned_at_{time!r}" for time in self.times]
        return super()._names(field, count)

    def __str__(self) -> str:
        """Return the table as text, a column for each time."""
        header = (*FrequencyRow._fields[:3], *(f"t = {t:.4g}" for t in self.times))
        head, *body = map(
            "  ".join, aligned_cells(header, ((*row[:3], *row.learned) for row in self))
        )
        return "\n".join([head, "-" * len(head), *body])


def learned_by_frequency(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    times: ArrayLike,
    *,
    kind: str,
    head: str,
    normalized: bool = False,
    **options: Unpack[Quadrature],
) -> LearnedByFrequency:
    r"""Return the fractions of eigenfunctions on the multi-sphere that gradient flow has learned.

    The flow is :math:`\frac{df(x)}{dt} = -\mathrm{mean}_z K(x, z) (f(z) - y(z))`, z uniform on the
    multi-sphere: times are steps times the learning rate for the mean of :math:`\frac12(f - y)^2`.
    On n signals, whose squares are added, `learned_fractions` and ``regression.flow`` need the n-th
    part of a time.

    Parameters
    ----------
    network : Network
        Without biases.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_frequency : int or d ints
        Highest frequency, of all pixels or of each.
    times : array_like, (n_times,)
        At least 0; infinity learns all of positive eigenvalues.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
    normalized : bool, default False
        As for ``spectrum.eigenvalues``.
    **options
        Of the quadrature, as of ``spectrum.eigenvalues``.

    Returns
    -------
    `LearnedByFrequency`
        A row for each combination of frequencies, the fastest first. Eigenvalues that do not
        exceed their errors are 0.

    Raises
    ------
    ValueError
        If an argument is out of range, or the work exceeds what the options allow.
    OverflowError
        If eigenvalues exceed float64, or variances the activation's range.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import learning
    >>> resnet, options = literature.barzilai_resnet(2), {"kind": "ntk", "head": "equivariant"}
    >>> print(learning.learned_by_frequency(resnet, 2, 2, 1, (1, 10), **options))
    frequencies  eigenvalue  multiplicity   t = 1  t = 10
    -----------------------------------------------------
            0 0       3.571             1  0.9719       1
            1 0       1.664             2  0.8105       1
            0 1       1.337             2  0.7373       1
            1 1      0.1402             4  0.1308  0.7538
    """
    moments = check_nonnegative_vector(times, "times", finite=False)
    check_quadrature(options)
    computed = spectrum.eigenvalues(
        network,
        n_channels,
        n_timepoints,
        max_frequency,
        kind=kind,
        head=head,
        normalized=normalized,
        errors=True,
        **options,
    )
    values = computed.significant
    order = np.argsort(-values, axis=None, kind="stable")
    frequencies, falling = np.argwhere(values >= 0)[order], values.flat[order]
    columns = frequencies, falling, computed.counts.flat[order], _learned(falling, moments).T
    rows = zip(*(column.tolist() for column in columns), strict=True)
    table = (FrequencyRow(tuple(k), value, n, tuple(learned)) for k, value, n, learned in rows)
    return LearnedByFrequency(tuple(table), tuple(moments.tolist()))


class LearnedFractions(NamedTuple):
    """Falling ``eigenvalues`` Λ of K, and ``power``, the parts of ‖y‖² along eigenvectors, (n,).

    At each time, (n_times,): ``learned`` Σ power · (1 − exp(−Λt)), which is ⟨f, y⟩/‖y‖², and
    ``error`` Σ power · exp(−2Λt), which is ‖f − y‖²/‖y‖².
    """

    eigenvalues: np.ndarray
    power: np.ndarray
    learned: np.ndarray
    error: np.ndarray


def learned_fractions(K: np.ndarray, y: np.ndarray, times: ArrayLike) -> LearnedFractions:
    r"""Return what the gradient flow :math:`\frac{df}{dt} = -K(f - y)` has learned over time.

    It is the flow of ``regression.flow``, on :math:`\frac12 \sum_i (f_i - y_i)^2`: times are steps
    times the learning rate.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix. Eigenvalues below n·eps·Λ_max, eps of its dtype, count as 0.
    y : ndarray, (n,) or (n, n_targets)
        Not 0. The power of several targets is that of all their squares.
    times : array_like, (n_times,)
        At least 0; infinity is the end of the flow.

    Returns
    -------
    `LearnedFractions`

    Raises
    ------
    ValueError
        If K is not symmetric and positive semidefinite, or y is 0.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> flow = learning.learned_fractions([[3.0, 0.0], [0.0, 1.0]], [3.0, 4.0], times=(0.0, 2.0))
    >>> flow.learned.round(3)
    array([0.   , 0.912])
    """
    decomposition, n = decompose(K), len(K)
    moments = check_nonnegative_vector(times, "times", finite=False)
    smallest = resolution(decomposition.eigenvalues, decomposition.eps)
    values = np.where(decomposition.eigenvalues > smallest, decomposition.eigenvalues, 0.0)[::-1]
    y = check_targets(y, n).reshape(n, -1)
    if not (largest := np.abs(y).max()):
        raise ValueError("y is 0 for all signals, expected targets that have a direction")
    squares = np.square(decomposition.eigenvectors.T @ (y / largest)).sum(axis=1)[::-1]
    power, learned = squares / squares.sum(), _learned(values, moments)
    return LearnedFractions(values, power, learned @ power, (1.0 - learned) ** 2 @ power)


def _learned(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return 1 − exp(−λt), (n_times, n_values); 0 where λ is 0, at all times."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(values > 0, -np.expm1(-np.multiply.outer(times, values)), 0.0)
