"""Exponents of the decay of eigenvalues with frequency: fitted, and of a law of singularities.

Figure 1 of Barzilai et al. 2022. ``docs/theory/decay.md`` derives the law.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, Unpack

import numpy as np

from ...checks.messages import shown
from ...checks.values import check_integer, is_sequence
from ...network import Network
from ..tools.report_table import ReportTable
from .constants import NU, check_pixel_set, check_ring
from .funk_hecke import Quadrature, check_quadrature, eigenvalues
from .grid import shifts, taps, widen, windows


class DecayRow(NamedTuple):
    """A row of a `DecayTable`, which documents the columns."""

    pixels: tuple[int, ...]
    exponent: float
    error: float
    law: float
    exponent_of_upper_bound: float
    exponent_of_lower_bound: float


@dataclass(frozen=True, eq=False)
class DecayTable(ReportTable[DecayRow]):
    """Exponents of the decay of eigenvalues; iterating gives a row for each set of pixels.

    Eigenvalues λ_k of the frequency k on some pixels, and 0 on all others, fall like k^−exponent.

    - ``pixels``: those with the frequency, relative to the output pixel.
    - ``exponent``: minus the slope of log λ over log(k + C0/2 − 1) in the upper half of the
      frequencies; NaN where too few λ exceed their errors.
    - ``error``: its error bar: twice the difference from the exponent of the quarter of the
      frequencies below, plus 1/max_frequency.
    - ``law``: the exponent of `decay_law`; infinite where eigenvalues are 0.
    - ``exponent_of_upper_bound``: of theorem 5.1's upper bound on λ, the least that ``exponent``
      can be. It counts the receptive field's pixels for the signal's: that of `DecayConstants`
      is sharper still.
    - ``exponent_of_lower_bound``: of its lower bound on λ, the greatest that ``exponent`` can be.
      It fails at depth 1, and where no window of the last layer holds the pixels
      (docs/theory/decay.md).
    """

    frequencies: np.ndarray
    """k = 1 … max_frequency."""
    eigenvalues: np.ndarray
    """Of K/K(x, x), (n_sets, max_frequency)."""
    errors: np.ndarray
    """Error bars of the eigenvalues, (n_sets, max_frequency)."""


def decay_exponents(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int,
    *,
    kind: str,
    pixels: Iterable[Iterable[int]] | None = None,
    **options: Unpack[Quadrature],
) -> DecayTable:
    """Return exponents of eigenvalues over a frequency that is spread over one, two, three pixels.

    Figure 1 of Barzilai et al. 2022 (equivariant kernel), with theorem 5.1's bounds, sharper: only
    pixels in the receptive field count.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with ``input_filter_size`` 1, as in the theorem.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_frequency : int
        At least 8. Slopes are fitted to the frequencies from its half on.
    kind : {"gpk", "ntk"}
    pixels : iterable of sets of pixels, optional
        By default 0; 0 and 1; −1, 0 and 1, as far as the receptive field has them.
    **options
        Of the quadrature, as of `eigenvalues`.

    Returns
    -------
    `DecayTable`
        A row for each set of pixels.

    Raises
    ------
    ValueError
        If the network is another one, or a set has pixels outside the receptive field.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> network = literature.geifman_cnn(2)
    >>> print(theory.spectrum.decay_exponents(network, 2, 3, max_frequency=24, kind="gpk"))
    pixels  exponent   error  law  exponent_of_upper_bound  exponent_of_lower_bound
    -------------------------------------------------------------------------------
         0     4.063  0.3507    4                        2                        4
       0 1     5.988   0.201    6                        4                        8
    -1 0 1     5.931  0.2018    6                        6                       12
    """
    check_quadrature(options)
    C, d = check_ring(network, n_channels, n_timepoints, kind, "equivariant", {"input_filter_size"})
    highest, field = check_integer(max_frequency, "max_frequency", 8), windows(network, d)[1][-1]
    if pixels is None:
        spreads = [(0,), (0, 1), (-1, 0, 1)][:d]
        pixels = [spread for spread in spreads if field.issuperset(p % d for p in spread)]
    sets = [check_pixel_set(chosen, d, field) for chosen in pixels] if is_sequence(pixels) else []
    if not sets:
        raise ValueError(f"pixels is {shown(pixels)}, expected sets of one or more integers")
    top = [highest if pixel in frozenset().union(*sets) else 0 for pixel in range(d)]
    computed = eigenvalues(
        network, C, d, top, kind=kind, head="equivariant", normalized=True, errors=True, **options
    )
    k, rows, columns = np.arange(1, highest + 1), [], []
    for chosen in sets:
        at = tuple(k if pixel in chosen else 0 for pixel in range(d))
        columns.append([computed.eigenvalues[at], computed.errors[at]])
        known = np.where(computed.resolved[at], columns[-1][0], 0.0)
        halves = slice(highest // 2 - 1, None), slice(highest // 4 - 1, highest // 2)
        upper, lower = (_exponent(k[half], known[half], C) for half in halves)
        bounds = len(chosen) * np.array([C - 1 + 2 * (NU[kind] - 1) / len(field), C + 2])
        near = tuple(sorted(p if 2 * p <= d else p - d for p in chosen))
        error = 2 * abs(upper - lower) + 1 / highest
        expected = decay_law(network, C, d, chosen, kind=kind, head="equivariant")
        rows.append(DecayRow(near, upper, error, expected, *bounds.tolist()))
    return DecayTable(tuple(rows), k, *np.array(columns).swapaxes(0, 1))


def decay_law(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    pixels: Iterable[int],
    *,
    kind: str,
    head: str,
) -> float:
    """Return the exponent of the law by which eigenvalues fall, from the kernel's singularities.

    A conjecture about large frequencies k: λ_k is of the order of k^−exponent.

    Parameters
    ----------
    network : Network
        Of ReLU without biases.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    pixels : iterable of int
        Pixels that have the frequency, at least one. All others have frequency 0.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}

    Returns
    -------
    float
        Positive; infinite if eigenvalues are 0: no window of the last layer has all pixels, or the
        network has no branch, or (NTK) nothing is trained.

    Raises
    ------
    ValueError
        If the network is another one, or an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory.spectrum import decay_law
    >>> decay_law(literature.geifman_cnn(3), 2, 5, (-1, 1, 2), kind="gpk", head="equivariant")
    8.0
    """
    C, d = check_ring(network, n_channels, n_timepoints, kind, head)
    chosen = check_pixel_set(pixels, d)
    parts = network.parts
    if not network.layer(1).has_branch or (kind == "ntk" and not network.trained):
        return math.inf
    # κ0 multiplies the derivatives by the parts trained below its layer: the first such layer.
    first = 1 if parts.input or parts.inner else 2 if parts.outer else network.depth + 1
    first = network.depth + 1 if kind == "gpk" else first
    # The windows of the last pre-activation at pixel 0 and of all below it, and their last layers.
    seen, below = windows(network, d)[0], dict[frozenset[int], int]()
    reached = frozenset({0})  # pixels of units
    for layer in range(network.depth, 0, -1):
        for p in reached:
            below.setdefault(frozenset((p + k) % d for k in seen[layer - 1]), layer)
        features = widen(reached, network.inner_filter(layer), d)  # skip connections take no more
        reached = widen(features, network.outer_filter(max(layer - 1, 1)), d)

    # Seen from a unit of the last layer, at each pixel to which the outer filter reaches.
    moved = {
        frozenset((pixel + shift - tap) % d for pixel in chosen)
        for shift in shifts(head, d)
        for tap in taps(network.outer_filter(network.depth), d)
    }
    return _least_cost(
        [_bits(pixels) for pixels in moved if pixels <= seen[-1]],
        [(_bits(window), layer >= first) for window, layer in below.items()],
        C - 1.0,
        first <= network.depth,
    )


_State: TypeAlias = tuple[float, float, int, int, bool]
"""A lower bound of the cost of all windows, the cost of those so far, the pixels left, those in
windows, and whether 2 have still to be taken off."""


def _least_cost(
    sets: list[int], of_windows: list[tuple[int, bool]], of_pixel: float, steep: bool
) -> float:
    """Return the least cost of windows that cover one of several sets; infinity without a set.

    A window costs 3, and each pixel in any window `of_pixel`. If `steep`, 2 are taken off if there
    is a window whose second entry is true. Sets of pixels are the bits of integers. The search goes
    on with the windows so far whose cost may become the least, since each pixel that is left costs
    `of_pixel` at least, and all of them one window more.
    """

    def state(cost: float, left: int, used: int, steep: bool) -> _State:
        more = 3.0 + left.bit_count() * of_pixel - 2.0 * steep if left else 0.0
        return cost + more, cost, left, used, steep

    queue, known = [state(0.0, left, 0, steep) for left in sets], set[tuple[int, int, bool]]()
    heapq.heapify(queue)
    while queue:
        _, cost, left, used, steep = heapq.heappop(queue)
        if not left:
            return cost
        if (left, used, steep) in known:
            continue
        known.add((left, used, steep))
        for window, can_spend in of_windows:
            if left & -left & window:
                dearer = cost + 3.0 + (window & ~used).bit_count() * of_pixel
                after = left & ~window, used | window
                heapq.heappush(queue, state(dearer, *after, steep))
                if steep and can_spend:
                    heapq.heappush(queue, state(dearer - 2.0, *after, False))
    return math.inf


def _bits(pixels: Iterable[int]) -> int:
    """Return the integer whose bits of these numbers are set."""
    return sum(1 << pixel for pixel in pixels)


def _exponent(frequency: np.ndarray, values: np.ndarray, n_channels: int) -> float:
    """Return minus the slope of log values > 0 over log centred frequency, of each parity."""
    frequency, values = frequency[values > 0], values[values > 0]
    offsets = [frequency % 2 == parity for parity in np.unique(frequency % 2)]
    if len(values) < len(offsets) + 2:
        return math.nan
    # The Laplacian's k(k + C0 − 2) is the square of k + C0/2 − 1 up to a constant.
    design = np.stack([np.log(frequency + (n_channels - 2) / 2), *offsets], axis=1)
    return -float(np.linalg.lstsq(design, np.log(values), rcond=None)[0][0])
