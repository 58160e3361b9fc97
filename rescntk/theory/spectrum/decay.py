r"""How fast eigenvalues fall with frequency: theorem 5.1 of Barzilai et al. 2022, and sharper.

The theorem bounds the eigenvalue of frequency k on p pixels, 0 on the others, by
:math:`k^{-p(C_0+2\nu_a-3)}` from below and :math:`k^{-p(C_0+2\nu_b-3)}` from above, with
:math:`\nu_a = 5/2` and, for R pixels in the receptive field, :math:`\nu_b = 1 + 3/(2R)` for a
Gaussian process kernel and :math:`1 + 1/(2R)` for a tangent kernel.

*The law* between the two (not in the paper). As a function of the angles
:math:`\theta_i = \arccos t_i` a ReLU kernel is analytic except where some pre-activations
agree, :math:`\rho = 1`; those of layer l do where :math:`\theta_i = 0` on their whole window of
:math:`w_l` pixels (1 for the first layer, q for the second …). There :math:`\kappa_1` has a term
:math:`(1-\rho)^{3/2}`, the cube of the distance from a point in :math:`w_l(C_0-1)` dimensions, and
its Fourier transform falls like :math:`|k|^{-3-w_l(C_0-1)}` in *every* direction, however many of
the window's pixels the frequency is spread over. A frequency that no single window covers
takes a product of such terms. :math:`\kappa_0`, of which each path of a tangent kernel has
one at every layer, brings the distance itself, 2 powers less, once. Hence the exponent is the
least of

.. math:: \sum_{\text{windows}} \bigl(3 + w(C_0 - 1)\bigr) - 2\,[\text{tangent kernel}]

over all sets of windows that together cover the p pixels. For one pixel it is :math:`C_0 + 2`
or :math:`C_0`, and for all pixels of one window it is the theorem's upper bound. All of
this is asymptotic: frequencies must be large against the number of channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...calls import check_network
from ...engines.request import HEADS, KINDS
from ...network import Network, check_choice, check_integer
from .dot_grid import check_pixels, taps, windows
from .funk_hecke import eigenvalues
from .quadrature import check_channels

# Below so many errors an eigenvalue does not enter a fit.
_RESOLVED = 10.0


class Decay(NamedTuple):
    """Eigenvalues of frequency k on some pixels at once, and 0 on the others."""

    pixels: tuple[int, ...]
    """Relative to the output's."""
    frequencies: np.ndarray
    """k = 1 … K."""
    eigenvalues: np.ndarray
    errors: np.ndarray
    exponent: float
    """The slope in logarithms over the upper half of the frequencies, with a constant of its own
    for even and for odd ones; NaN where too few eigenvalues exceed their errors or are not 0."""
    drift: float
    """How far that of the quarter below differs: about as much is left to the asymptote."""
    lowest: float
    """Theorem 5.1: eigenvalues fall no faster than with this exponent …"""
    highest: float
    """… and no slower than with this one."""
    law: float
    """The exponent that the singularities have."""


@dataclass(frozen=True)
class DecayExponents:
    """Decays on several sets of pixels of one kernel; iterating gives each `Decay`."""

    decays: tuple[Decay, ...]
    network: Network
    n_channels: int
    n_timepoints: int
    kind: str
    head: str

    def __iter__(self) -> Iterator[Decay]:
        return iter(self.decays)

    def __len__(self) -> int:
        return len(self.decays)

    def __str__(self) -> str:
        """Return the table as text."""
        head = f"{'pixels':>12}  {'exponent':>8}  {'drift':>6}  {'law':>6}  theorem 5.1"
        rows = [head, "-" * len(head)]
        for d in self.decays:
            pixels = ",".join(map(str, d.pixels))
            bounds = f"[{d.lowest:.4g}, {d.highest:.4g}]"
            rows.append(f"{pixels:>12}  {d.exponent:8.3f}  {d.drift:6.3f}  {d.law:6.3g}  {bounds}")
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
    nodes: int | None = None,
    max_memory: float = 4e9,
) -> DecayExponents:
    """Return how eigenvalues fall with a frequency spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022, with what theorem 5.1 says beside it.

    Parameters
    ----------
    network : Network
        With ReLU, and ``input_filter_size`` 1, as in the theorem.
    n_channels, n_timepoints, kind, head, nodes, max_memory
        As for `eigenvalues`.
    max_frequency : int
        At least 8. Slopes are those of its upper half.
    pixels : iterable of sets of pixels, optional
        Over which to spread the frequency, in the receptive field. The default is pixel 0; 0 and
        1; −1, 0 and 1, as far as they are in it.

    Returns
    -------
    DecayExponents

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> found = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=24)
    >>> [decay.law for decay in found]
    [-4.0, -6.0, -6.0]
    >>> print(found)
          pixels  exponent   drift     law  theorem 5.1
    ---------------------------------------------------
               0    -4.063   0.155      -4  [-4, -2]
             0,1    -5.988   0.080      -6  [-8, -4]
          -1,0,1    -5.931   0.080      -6  [-12, -6]
    """
    check_network(network)
    check_choice(head, "head", HEADS)
    n_channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    if network.activation != "relu" or network.input_filter_size != 1:
        raise ValueError(
            f"network has activation {network.activation!r} and input_filter_size "
            f"{network.input_filter_size}: theorem 5.1 is about ReLU and an input_filter_size of 1"
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
        nodes=nodes,
        max_memory=max_memory,
        return_error=True,
    )
    frequency = np.arange(1, highest + 1)
    powers = {"gpk": 3, "ntk": 1}[kind]
    decays = []
    for chosen in sets:
        index = tuple(frequency if pixel in chosen else 0 for pixel in range(d))
        values, errors = found.eigenvalues[index], found.errors[index]
        exponent = _slope(frequency, values, errors, highest // 2, highest)
        below = _slope(frequency, values, errors, highest // 4, highest // 2)
        count = len(chosen)
        decays.append(
            Decay(
                tuple(sorted(pixel if 2 * pixel <= d else pixel - d for pixel in chosen)),
                frequency,
                values,
                errors,
                exponent,
                abs(exponent - below),
                -count * (n_channels + 2.0),
                -count * (n_channels - 1.0 + powers / len(field)),
                singularity_exponent(network, n_channels, d, chosen, kind, head),
            )
        )
    return DecayExponents(tuple(decays), network, n_channels, d, kind, head)


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
    network, n_channels, n_timepoints, kind, head
        As for `eigenvalues`.
    pixels : iterable of int
        Those that have the frequency; all others have frequency 0.

    Returns
    -------
    float
        Negative; −inf if a pixel is outside of the receptive field.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> network = literature.barzilai_resnet(depth=3, filter_size=5)
    >>> [spectrum.singularity_exponent(network, 3, 12, range(p), "ntk") for p in (1, 2, 3)]
    [-3.0, -8.0, -13.0]
    """
    check_network(network)
    check_choice(kind, "kind", KINDS)
    check_choice(head, "head", HEADS)
    n_channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    chosen = frozenset(check_integer(pixel, "pixels") % d for pixel in pixels)
    shifts = range(1 if head == "equivariant" else d)
    singular = list(_singular_windows(network, d))
    first = _first_slope(network) if kind == "ntk" else network.depth + 1

    def least(left: frozenset[int], steep: bool) -> float:
        """Return the least cost of covering `left`; `steep` if κ0 has still to be spent."""
        if not left:
            return 0.0
        pixel = min(left)
        costs = [np.inf]
        for layer, window in singular:
            if pixel in window:
                cost = 3.0 + len(window) * (n_channels - 1.0)
                rest = left - window
                costs.append(cost + least(rest, steep))
                if steep and layer >= first:
                    costs.append(cost - 2.0 + least(rest, False))
        return min(costs)

    moved = (frozenset((pixel + shift) % d for pixel in chosen) for shift in shifts)
    return -min(least(pixels, first <= network.depth) for pixels in moved)


def _first_slope(network: Network) -> int:
    """Return the first layer whose κ0 the tangent kernel has: it multiplies what is trained."""
    if {"input", "inner"} & set(network.trained):
        return 1
    return 2 if "outer" in network.trained else network.depth + 1


def _singular_windows(network: Network, d: int) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield the windows of all pre-activations that the output depends on, with their layer."""
    seen = windows(network, d).before
    features = {0}  # where the features of the layer are needed
    found = set()
    for layer in range(network.depth, 0, -1):
        reached = {(p + k) % d for p in features for k in taps(network.outer_filter_size, d)}
        window = seen[layer - 1].pixels
        found |= {(layer, frozenset((p + k) % d for k in window)) for p in reached}
        size = 1 if layer == 1 else network.filter_size
        inner = {(p + k) % d for p in reached for k in taps(size, d)}
        features = features | inner if network.skip else inner
    yield from found


def _slope(
    frequency: np.ndarray, values: np.ndarray, errors: np.ndarray, first: int, last: int
) -> float:
    """Return the slope of log values over log frequency, even and odd with constants apart."""
    fit = (frequency >= first) & (frequency <= last) & (values > _RESOLVED * errors)
    constants = [fit & (frequency % 2 == parity) for parity in (0, 1)]
    constants = [some for some in constants if some.any()]
    if fit.sum() < len(constants) + 2:
        return float("nan")
    design = np.stack([np.log(frequency), *(some.astype(float) for some in constants)], axis=1)
    return float(np.linalg.lstsq(design[fit], np.log(values[fit]), rcond=None)[0][0])


def _default_pixels(field: frozenset[int], d: int) -> list[frozenset[int]]:
    sets: list[frozenset[int]] = []
    for some in ((0,), (0, 1), (-1, 0, 1)):
        chosen = frozenset(pixel % d for pixel in some)
        if len(chosen) == len(some) and chosen <= field:
            sets.append(chosen)
    return sets


def _check_sets(pixels: Any, field: frozenset[int], d: int, head: str) -> list[frozenset[int]]:
    shifts = range(1 if head == "equivariant" else d)
    sets = []
    for some in pixels:
        try:
            chosen = frozenset(check_integer(pixel, "pixels") % d for pixel in some)
        except TypeError:
            raise ValueError(f"pixels is {pixels!r}, expected sets of integers") from None
        seen = any({(pixel + shift) % d for pixel in chosen} <= field for shift in shifts)
        if not chosen or not seen:
            raise ValueError(
                f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                f"{sorted(field)}: elsewhere eigenvalues are 0"
            )
        sets.append(chosen)
    if not sets:
        raise ValueError("pixels is empty, expected at least one set of pixels")
    return sets
