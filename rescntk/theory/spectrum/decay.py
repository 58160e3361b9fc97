r"""How fast eigenvalues fall with frequency: theorem 5.1 of Barzilai et al. 2022, and sharper.

The theorem bounds the eigenvalue of frequency k on p pixels, 0 on the others, by
:math:`k^{-p(C_0+2\nu_a-3)}` from below and :math:`k^{-p(C_0+2\nu_b-3)}` from above, with
:math:`\nu_a = 5/2` and :math:`\nu_b = 1 + 3/(2R)` for a Gaussian process kernel or
:math:`1 + 1/(2R)` for a tangent kernel. The theorem has the number of pixels for R; here it is
that of the receptive field, which is a sharper bound: on a ring just as long as its receptive
field a kernel has the same eigenvalues.

*Where eigenvalues are 0.* The branches of the last layer only add up, and each depends on the
window of its pre-activation. A frequency on pixels of which no such window has all does not
occur, though all of them may be in the receptive field, which is wider by the outer filter (two
convolutions a layer: one layer has windows of 1 pixel and a receptive field of q). So the
theorem's lower bound, positive for all pixels of the receptive field, cannot hold as it stands;
it does within a window of the last layer.

*The law* between the two bounds (not in the paper). As a function of the angles
:math:`\theta_i = \arccos t_i` a ReLU kernel is analytic except where some pre-activations
agree, :math:`\rho = 1`; those of layer l do where :math:`\theta_i = 0` on their whole window of
:math:`w_l` pixels (1 for the first layer, q for the second …). There :math:`\kappa_1` has a term
:math:`(1-\rho)^{3/2}`, the cube of the distance from a point in :math:`w_l(C_0-1)` dimensions, and
its Fourier transform falls like :math:`|k|^{-3-w_l(C_0-1)}` in *every* direction, however many of
the window's pixels the frequency is spread over. The activation of a last layer's window also
multiplies what the windows of earlier layers inside it bring. :math:`\kappa_0`, of which each path
of a tangent kernel has one at every layer, brings the distance itself, 2 powers less, once.
Hence the exponent is the least of

.. math:: \sum_{\text{windows}} \bigl(3 + w(C_0 - 1)\bigr) - 2\,[\text{tangent kernel}]

over all sets of windows that together cover the p pixels and that one window of the last layer
contains (which may be all of the set). For one pixel it is :math:`C_0 + 2` or :math:`C_0`. It is
the theorem's lower bound for one pixel of a Gaussian process kernel, and its upper bound for all
pixels of a window that is the receptive field. All of this is asymptotic: frequencies must be
large against the number of channels, and larger where several sets of windows have exponents
that are close to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...network import Network
from ...validation import check_channels, check_choice, check_integer, check_network, check_pixels
from ...vocabulary import HEADS, KINDS
from .funk_hecke import eigenvalues
from .windows import Window, shifts, taps, windows


class Decay(NamedTuple):
    """Eigenvalues of frequency k on some pixels at once, and 0 on the others."""

    pixels: tuple[int, ...]
    """Relative to the output's."""
    frequencies: np.ndarray
    """k = 1 … K, (K,)."""
    eigenvalues: np.ndarray
    """(K,); all 0 where no window of the last layer has all of the pixels."""
    errors: np.ndarray
    """Of the eigenvalues, (K,)."""
    exponent: float
    """The slope in logarithms over the upper half of the frequencies, with a constant of its own
    for even and for odd ones; NaN where too few eigenvalues exceed their errors or are not 0. It
    is over the centred frequency k + C0/2 − 1, whose square is the Laplacian's k(k + C0 − 2) up to
    a constant: the next term is smaller so."""
    uncertainty: float
    """Of the exponent as the asymptote's: twice its difference from that of the quarter of the
    frequencies below, and 1/K. What falls like 1/k leaves as much as that difference. It cannot
    know of a power that takes over at higher frequencies."""
    lowest: float
    """Theorem 5.1: eigenvalues fall no faster than with this exponent (unless they are 0) …"""
    highest: float
    """… and no slower than with this one."""
    law: float
    """The exponent that the singularities have; −inf where eigenvalues are 0."""


@dataclass(frozen=True)
class DecayExponents:
    """Decays on several sets of pixels of one kernel; iterating gives each `Decay`."""

    decays: tuple[Decay, ...]
    network: Network
    n_channels: int
    n_timepoints: int
    kind: str
    head: str
    nu_a: float
    """ν_a of theorem 5.1, 5/2."""
    nu_b: float
    """ν_b, with the number of the receptive field's pixels."""

    def __iter__(self) -> Iterator[Decay]:
        return iter(self.decays)

    def __len__(self) -> int:
        return len(self.decays)

    def __str__(self) -> str:
        """Return the table as text."""
        head = f"{'pixels':>12}  {'exponent':>8}  {'±':>5}  {'law':>6}  theorem 5.1"
        rows = [head, "-" * len(head)]
        for d in self.decays:
            pixels = ",".join(map(str, d.pixels))
            bounds = f"[{d.lowest:.4g}, {d.highest:.4g}]"
            fit = f"{d.exponent:8.3f}  {d.uncertainty:5.2f}  {d.law:6.3g}"
            if d.law == -math.inf:
                fit = f"{'λ = 0':>8}  {'':5}  {'':6}"
            rows.append(f"{pixels:>12}  {fit}  {bounds}")
        return "\n".join(rows)


def decay_exponents(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int,
    kind: str = "gpk",
    head: str = "equivariant",
    *,
    pixels: Iterable[Iterable[int]] | None = None,
    **options: Any,
) -> DecayExponents:
    """Return how eigenvalues fall with a frequency spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022, with what theorem 5.1 says beside it.

    Parameters
    ----------
    network : Network
        With ReLU, and ``input_filter_size`` 1, as in the theorem.
    n_channels, n_timepoints, kind, head
        As for `eigenvalues`.
    max_frequency : int
        At least 8. Slopes are those of its upper half.
    pixels : iterable of sets of pixels, optional
        Over which to spread the frequency, in the receptive field. The default is pixel 0; 0 and
        1; −1, 0 and 1, as far as they are in it.
    **options
        ``method``, ``nodes``, ``max_memory``, ``max_points``, ``progress`` of `eigenvalues`.

    Returns
    -------
    DecayExponents

    Raises
    ------
    ValueError
        For arguments that are not as above, or that `eigenvalues` refuses.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> found = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=24)
    >>> [decay.law for decay in found]
    [-4.0, -6.0, -6.0]
    >>> print(found)
          pixels  exponent      ±     law  theorem 5.1
    --------------------------------------------------
               0    -4.063   0.35      -4  [-4, -2]
             0,1    -5.988   0.20      -6  [-8, -4]
          -1,0,1    -5.931   0.20      -6  [-12, -6]
    """
    _check_relu(network)
    check_choice(head, "head", HEADS)
    n_channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    if network.input_filter_size != 1:
        raise ValueError(
            f"network has input_filter_size {network.input_filter_size}: theorem 5.1 is about 1"
        )
    highest = check_integer(max_frequency, "max_frequency")
    if highest < 8:
        raise ValueError(f"max_frequency is {max_frequency!r}, expected at least 8 to fit slopes")
    field = windows(network, d).features[-1].pixels
    sets = _default_pixels(field, d) if pixels is None else _check_sets(pixels, field, d, head)
    used = frozenset().union(*sets)
    check_choice(kind, "kind", KINDS)
    found = eigenvalues(
        network,
        n_channels,
        d,
        [highest if pixel in used else 0 for pixel in range(d)],
        kind,
        head,
        return_error=True,
        **options,
    )
    frequency = np.arange(1, highest + 1)
    centred = frequency + (n_channels - 2) / 2
    share = {"gpk": 3, "ntk": 1}[kind] / len(field)  # 2ν_b − 2
    decays = []
    for chosen in sets:
        index = tuple(frequency if pixel in chosen else 0 for pixel in range(d))
        values, resolved = found.eigenvalues[index], found.resolved[index]

        def slope(
            first: int, last: int, values: np.ndarray = values, resolved: np.ndarray = resolved
        ) -> float:
            fit = resolved & (frequency >= first) & (frequency <= last)
            return _slope(centred[fit], values[fit], frequency[fit] % 2)

        exponent = slope(highest // 2, highest)
        drift = abs(exponent - slope(highest // 4, highest // 2))
        decays.append(
            Decay(
                tuple(sorted(pixel if 2 * pixel <= d else pixel - d for pixel in chosen)),
                frequency,
                values,
                found.errors[index],
                exponent,
                2 * drift + 1 / highest,
                -len(chosen) * (n_channels + 2.0),
                -len(chosen) * (n_channels - 1.0 + share),
                singularity_exponent(network, n_channels, d, chosen, kind, head),
            )
        )
    return DecayExponents(tuple(decays), network, n_channels, d, kind, head, 2.5, 1 + share / 2)


def singularity_exponent(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    pixels: Iterable[int],
    kind: str = "gpk",
    head: str = "equivariant",
) -> float:
    """Return the exponent with which eigenvalues fall, from the kernel's singularities.

    The law that this module's docstring derives: asymptotic, for ReLU.

    Parameters
    ----------
    network : Network
        With ReLU: kernels of erf networks have no singularities.
    n_channels, n_timepoints, kind, head
        As for `eigenvalues`.
    pixels : iterable of int
        Those that have the frequency, at least one; all others have frequency 0.

    Returns
    -------
    float
        Negative; −inf if eigenvalues are 0, because no window of the last layer has all pixels
        (or the network no branch).

    Raises
    ------
    ValueError
        For arguments that are not as above.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> network = literature.barzilai_resnet(depth=3, filter_size=5)
    >>> [spectrum.singularity_exponent(network, 3, 12, range(p), "ntk") for p in (1, 2, 3)]
    [-3.0, -8.0, -13.0]
    """
    _check_relu(network)
    check_choice(kind, "kind", KINDS)
    check_choice(head, "head", HEADS)
    n_channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    chosen = _check_set(pixels, pixels, d)
    if kind == "ntk" and not network.trained:
        return -math.inf
    if not all((network.alpha, network.c_v, network.c_w, network.readout_scale)):
        return -math.inf
    first = _first_slope(network) if kind == "ntk" else network.depth + 1
    below = _windows_below(network, d)

    @cache
    def least(left: frozenset[int], steep: bool) -> float:
        """Return the least cost of covering `left`; `steep` if κ0 has still to be spent."""
        if not left:
            return 0.0
        pixel = min(left)
        costs = [math.inf]
        for window, layer in below.items():
            if pixel in window:
                cost = 3.0 + len(window) * (n_channels - 1.0)
                costs.append(cost + least(left - window, steep))
                if steep and layer >= first:
                    costs.append(cost - 2.0 + least(left - window, False))
        return min(costs)

    last = windows(network, d).before[-1].pixels
    # Seen from a unit of the last layer, at each pixel to which the outer filter reaches.
    moved = {
        frozenset((pixel + shift - tap) % d for pixel in chosen)
        for shift in shifts(head, d)
        for tap in taps(network.outer_filter_size, d)
    }
    costs = (least(pixels, first <= network.depth) for pixels in moved if pixels <= last)
    return -min(costs, default=math.inf)


def _first_slope(network: Network) -> int:
    """Return the first layer whose κ0 the tangent kernel has: it multiplies what is trained."""
    if {"input", "inner"} & set(network.trained):
        return 1
    return 2 if "outer" in network.trained else network.depth + 1


def _windows_below(network: Network, d: int) -> dict[frozenset[int], int]:
    """Return the windows that make up a last layer's at pixel 0, itself included.

    Those of all pre-activations that it depends on, each with the last layer that has it.
    """
    seen = windows(network, d).before
    reached, features = frozenset({0}), frozenset[int]()  # pixels of units, and what they take
    found: dict[frozenset[int], int] = {}
    for layer in range(network.depth, 0, -1):
        for p in reached:
            window = frozenset((p + k) % d for k in seen[layer - 1].pixels)
            found.setdefault(window, layer)
        inner = Window(reached, d).widen(1 if layer == 1 else network.filter_size).pixels
        features = features | inner if network.skip else inner
        reached = Window(features, d).widen(network.outer_filter_size).pixels
    return found


def _slope(frequency: np.ndarray, values: np.ndarray, parity: np.ndarray) -> float:
    """Return the slope of log values over log frequency, even and odd with constants apart."""
    constants = [parity == some for some in (0, 1) if (parity == some).any()]
    if len(values) < len(constants) + 2:
        return math.nan
    design = np.stack([np.log(frequency), *(some.astype(float) for some in constants)], axis=1)
    return float(np.linalg.lstsq(design, np.log(values), rcond=None)[0][0])


def _default_pixels(field: frozenset[int], d: int) -> list[frozenset[int]]:
    sets: list[frozenset[int]] = []
    for some in ((0,), (0, 1), (-1, 0, 1)):
        chosen = frozenset(pixel % d for pixel in some)
        if len(chosen) == len(some) and chosen <= field:
            sets.append(chosen)
    return sets


def _check_relu(network: Any) -> None:
    check_network(network)
    if network.activation != "relu":
        raise ValueError(
            f"network has activation {network.activation!r}: theorem 5.1 is about ReLU, whose "
            f"singularities make eigenvalues fall like powers"
        )


def _check_set(some: Any, given: Any, d: int) -> frozenset[int]:
    """Return one set of pixels; `given` is what an error names."""
    try:
        chosen = frozenset(check_integer(pixel, "pixels") % d for pixel in some)
    except TypeError:
        raise ValueError(f"pixels is {given!r}, expected sets of integers") from None
    if not chosen:
        raise ValueError(f"pixels is {given!r}, expected at least one pixel")
    return chosen


def _check_sets(pixels: Any, field: frozenset[int], d: int, head: str) -> list[frozenset[int]]:
    try:
        sets = [_check_set(some, pixels, d) for some in pixels]
    except TypeError:
        raise ValueError(f"pixels is {pixels!r}, expected sets of integers") from None
    for chosen in sets:
        if not any({(p + shift) % d for p in chosen} <= field for shift in shifts(head, d)):
            raise ValueError(
                f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                f"{sorted(field)}: the kernel does not depend on others"
            )
    if not sets:
        raise ValueError("pixels is empty, expected at least one set of pixels")
    return sets
