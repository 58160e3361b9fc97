"""Numbers of signals at which functions of some frequencies are learned."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np

from ...checks.messages import shown
from ...checks.values import (
    check_integer,
    check_nonnegative,
    check_rectangular,
    is_sequence,
)
from ...network import Network
from .. import spectrum
from ..spectrum.funk_hecke import Quadrature, check_quadrature
from ..tools.argument_checks import check_grid
from ..tools.report_table import ReportTable
from .curves import fractions


class ComplexityRow(NamedTuple):
    """A row of a `SampleComplexity`, which documents the columns."""

    frequencies: tuple[int, ...]
    eigenvalue: float
    n: float
    lower: float
    upper: float


@dataclass(frozen=True)
class SampleComplexity(ReportTable[ComplexityRow]):
    """Numbers of signals to learn functions; iterating gives a row for each set of frequencies.

    - ``frequencies``: one a pixel.
    - ``eigenvalue``: in units of K(x, x) of the equivariant kernel; 0 where it does not exceed its
      error.
    - ``n``: signals at which the fraction asked for is learned, the middle of ``lower``
      and ``upper``; infinite for eigenvalue 0.
    - ``lower``, ``upper``: bounds. They differ by what frequencies above `max_frequency` may add.
    """

    tail: float
    """``Spectrum.tail``: part of the trace in frequencies above `max_frequency`, from 0 to 1."""


def sample_complexity(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int,
    *,
    kind: str,
    head: str,
    frequencies: Iterable[Iterable[int]] | None = None,
    fraction: float = 0.5,
    penalty: float = 0.0,
    **options: Unpack[Quadrature],
) -> SampleComplexity:
    r"""Return at how many signals, drawn from the multi-sphere, each frequency is half learned.

    Frequencies above `max_frequency` act like a penalty. It is assumed, not proven, that their
    eigenvalues are at most the largest of the last two frequencies: this bounds n
    (``docs/theory/sample_complexity.md``).

    Parameters
    ----------
    network : Network
        Without biases.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_frequency : int
        Highest frequency of each pixel, at least 1. A higher one narrows the bounds.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
    frequencies : iterable of d integers each, optional
        From 0 to `max_frequency`. The default has 1, 2, … on pixel 0 only, 1 on pixels 0 and j,
        and with the equivariant head 1 on pixel j only: j is up to d/2, others are mirror images.
    fraction : float, default 0.5
        ℓ from which a frequency counts as learned, above 0 and below 1.
    penalty : float, default 0.0
        δ, in units of K(x, x) of the equivariant kernel.
    **options
        Of the quadrature, as of ``spectrum.eigenvalues``.

    Returns
    -------
    `SampleComplexity`
        A row for each set of frequencies.

    Raises
    ------
    ValueError
        If an argument is out of range, or the work exceeds what the options allow.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import learning
    >>> resnet, options = literature.barzilai_resnet(3), {"kind": "gpk", "head": "equivariant"}
    >>> found = learning.sample_complexity(resnet, 2, 3, 6, frequencies=[(1, 0, 0)], **options)
    >>> found.column("n").round(1)
    array([4.])
    """
    top = check_integer(max_frequency, "max_frequency", at_least=1)
    d = check_grid(n_channels, n_timepoints, top, head)[1]
    if not 0 < check_nonnegative(fraction, "fraction") < 1:
        raise ValueError(f"fraction is {shown(fraction)}, expected a number between 0 and 1")
    penalty, space = check_nonnegative(penalty, "penalty"), (n_channels, d, top)
    chosen = None if frequencies is None else _check_frequencies(frequencies, d, top)
    check_quadrature(options)
    computed = spectrum.eigenvalues(
        network, *space, kind=kind, head=head, normalized=True, errors=True, **options
    )
    values, counts, single = computed.estimates, computed.counts, computed.significant
    if chosen is None:  # only now it is known that there is memory for them
        one = np.eye(d, dtype=int)
        other_pixels = one[1 : d // 2 + 1]
        chosen = np.concatenate([np.arange(1, top + 1)[:, None] * one[0], one[0] + other_pixels])
        chosen = np.insert(chosen, top, other_pixels, axis=0) if head == "equivariant" else chosen
    outer = values.copy()
    outer[(slice(0, max(top - 1, 1)),) * d] = 0.0
    edge, rows = float(outer.max()), []
    tail_lower, tail_upper = computed.tail_bounds
    for place in map(tuple, chosen.tolist()):
        value, lower, upper = float(single[place]), math.inf, math.inf
        kappa = value * (1.0 - fraction) / fraction
        if kappa > 0:
            with np.errstate(invalid="ignore"):  # κ beyond float64, for the tiniest fractions
                known = float((counts * fractions(values, kappa)[0]).sum()) + penalty / kappa
            lower, upper = known + tail_lower / (kappa + edge), known + tail_upper / kappa
        rows.append(ComplexityRow(place, value, 0.5 * (lower + upper), lower, upper))
    return SampleComplexity(tuple(rows), computed.tail)


def _check_frequencies(frequencies: Iterable[Iterable[int]], d: int, top: int) -> np.ndarray:
    """Return sets of a frequency for each of d pixels, from 0 to `top`, (n_sets, d)."""
    right = f"sets of {d} integers from 0 to {top}"
    text = f"expected {right}"
    sets = list(frequencies) if is_sequence(frequencies) else []
    if not sets or not all(is_sequence(row) for row in sets):
        raise ValueError(f"frequencies is {shown(frequencies)}, {text}")
    chosen = check_rectangular([tuple(row) for row in sets], "frequencies", right)
    valid = chosen.dtype.kind in "iu" and chosen.shape[1:] == (d,)
    if not valid or chosen.min() < 0 or chosen.max() > top:
        raise ValueError(f"frequencies is {shown(frequencies)}, {text}")
    return np.asarray(chosen)
