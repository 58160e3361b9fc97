r"""Numbers of signals of the multi-sphere that a network needs for a frequency or a locality.

The closed-form eigenvalues λ_k and their multiplicities m_k give κ and n of a learning curve. A
mode of eigenvalue λ is half learned where κ is λ, at :math:`n = \sum_k m_k
\lambda_k/(\lambda_k+\lambda) + \delta/\lambda` (``docs/theory/learning_curves.md``, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...network import BASIC_FIELDS, Network, check_network
from ...report_table import ReportTable
from ...validation import check_constant, check_positive, is_sequence
from ..argument_checks import check_grid
from ..spectrum import eigenvalues, harmonics, multiplicities
from .curves import shares


class ComplexityRow(NamedTuple):
    """The number of signals at which functions of some frequencies are learned to a share."""

    frequencies: tuple[int, ...]
    """Of each pixel, (d,)."""
    eigenvalue: float
    """In units of K(x, x) of the equivariant kernel."""
    n: float
    """Number of signals, between `least` and `most`; infinite for eigenvalue 0."""
    least: float
    """Lower bound on n."""
    most: float
    """Upper bound. The two differ by what frequencies above `max_frequency` may add."""


@dataclass(frozen=True)
class SampleComplexity(ReportTable):
    """Numbers of signals; iterating gives a `ComplexityRow` for each set of frequencies."""

    tail: float
    """Part of the kernel's trace in frequencies above `max_frequency`, from 0 to 1."""

    header = ("frequencies", "eigenvalue", "n", "least", "most")


def sample_complexity(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int,
    kind: str = "gpk",
    head: str = "equivariant",
    *,
    frequencies: Iterable[Iterable[int]] | None = None,
    share: float = 0.5,
    ridge: float = 0.0,
    **options: Any,
) -> SampleComplexity:
    r"""Return at how many signals of the multi-sphere each frequency is half learned.

    Signals are drawn uniformly. The part of the kernel in frequencies above `max_frequency` acts
    like a ridge. Its eigenvalues are taken to be at most the largest of the last two frequencies,
    which gives the bounds on n.

    Parameters
    ----------
    network, n_channels, n_timepoints, kind, head
        As for ``spectrum.eigenvalues``.
    max_frequency : int
        Highest frequency whose eigenvalues are computed, at least 1. Raising it narrows the bounds.
    frequencies : iterable of d integers each, optional
        Frequencies of the pixels, from 0 to `max_frequency`. The default has 1, 2, … on pixel 0
        only, 1 on pixels 0 and p for all distances p, and with the equivariant head 1 on each
        other pixel only.
    share : float, default 0.5
        Learnability L that counts as learned, above 0 and below 1.
    ridge : float, default 0.0
        δ, in units of K(x, x) of the equivariant kernel.
    **options
        ``method``, ``nodes``, ``max_memory``, ``max_points``, ``progress`` of
        ``spectrum.eigenvalues``.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import learning
    >>> for system in (literature.barzilai_cnn, literature.barzilai_resnet):
    ...     table = learning.sample_complexity(system(3), 2, 3, 6, frequencies=[(1, 0, 0)])
    ...     print(f"{table.rows[0].n:.1f}")
    7.0
    4.0
    """
    check_network(network, BASIC_FIELDS)
    d, highest = check_grid(n_channels, n_timepoints, max_frequency, head)[1:3]
    if is_sequence(max_frequency) or highest[0] < 1:
        raise ValueError(f"max_frequency is {max_frequency!r}, expected an integer of at least 1")
    if not 0 < check_positive(share, "share") < 1:
        raise ValueError(f"share is {share!r}, expected a number between 0 and 1")
    ridge, top = check_constant(ridge, "ridge"), highest[0]
    if frequencies is not None:
        chosen = _check_frequencies(frequencies, d, top)
    for name in ("normalized", "return_error"):
        if name in options:
            raise ValueError(f"{name} is given, expected options of spectrum.eigenvalues beside it")
    space = n_channels, d, top
    values = eigenvalues(network, *space, kind, head, normalized=True, **options)
    values = np.maximum(values, 0.0)  # below 0 by errors of the quadrature
    if frequencies is None:  # only now it is known that there is memory for them
        chosen = _usual_frequencies(d, top, head)
    counts = multiplicities(*space, head)
    all_counts = counts if head != "gap" else multiplicities(*space)
    tail = max(1.0 - float((all_counts * values).sum()), 0.0)
    # Each mode of the equivariant head is 1/d of a mode of GAP. It is more where a shift keeps its
    # frequencies. Then d/c pixels of a cycle have the frequency above max_frequency.
    tail_least = tail_most = tail
    if head == "gap":
        cycles, kept = np.gcd(np.arange(1, d), d), float(harmonics(n_channels, top + 1))
        tail_least = tail / d
        tail_most = tail_least * (1.0 + float((kept ** (1.0 - d / cycles)).sum()))
    outer = values.copy()
    outer[(slice(0, max(top - 1, 1)),) * d] = 0.0
    edge = float(outer.max())
    rows = []
    for place in chosen:
        value = float(values[place])
        kappa = value * (1.0 - share) / share
        if kappa == 0:
            rows.append(ComplexityRow(place, value, np.inf, np.inf, np.inf))
            continue
        known = float((counts * shares(values, kappa)[0]).sum()) + ridge / kappa
        least, most = known + tail_least / (kappa + edge), known + tail_most / kappa
        rows.append(ComplexityRow(place, value, 0.5 * (least + most), least, most))
    return SampleComplexity(tuple(rows), tail)


def _usual_frequencies(d: int, top: int, head: str) -> list[tuple[int, ...]]:
    """Return the default frequencies of the table."""

    def on(pixels: Iterable[int], frequency: int = 1) -> tuple[int, ...]:
        return tuple(frequency if pixel in pixels else 0 for pixel in range(d))

    alone = [on([0], k) for k in range(1, top + 1)]
    if head == "equivariant":
        alone += [on([p]) for p in range(1, d // 2 + 1)]
    return alone + [on([0, p]) for p in range(1, d // 2 + 1)]


def _check_frequencies(given: Any, d: int, top: int) -> list[tuple[int, ...]]:
    """Return frequencies as tuples of d integers up to `top`."""
    sets = given if is_sequence(given) else [()]
    chosen = [tuple(each) if is_sequence(each) else () for each in sets]
    for each in chosen or [()]:
        right = (isinstance(k, int | np.integer) and 0 <= k <= top for k in each)
        if len(each) != d or not all(right):
            raise ValueError(
                f"frequencies is {given!r}, expected sets of {d} integers from 0 to {top}"
            )
    return [tuple(map(int, each)) for each in chosen]
