"""Decay of eigenvalues with frequency: theorem 5.1 of Barzilai et al. 2022, and a sharper law.

``docs/theory/spectrum.md`` derives the law. As a script it prints both for two kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rescntk import literature
from rescntk.network import RELU_FIELDS, Network, check_network
from rescntk.plots.style import axes, finish, looks
from rescntk.theory.argument_checks import check_channels, check_head, check_kind, check_pixels
from rescntk.theory.spectrum import eigenvalues
from rescntk.theory.spectrum.grid import shifts, taps, widen, windows
from rescntk.validation import check_integer, is_sequence

RELU_ALONE = ": theorem 5.1 is about ReLU, whose singularities make eigenvalues fall like powers"

_SPREADS = ((0,), (0, 1), (-1, 0, 1))
"""Sets of pixels over which a frequency is spread by default."""


class FrequencyDecay(NamedTuple):
    """Eigenvalues of frequency k on some pixels at once, and 0 on the others."""

    pixels: tuple[int, ...]
    """Pixels that have the frequency, relative to the output pixel."""
    frequencies: np.ndarray
    """k = 1 … K, (K,)."""
    eigenvalues: np.ndarray
    """(K,); all 0 where no window of the last layer has all of the pixels."""
    errors: np.ndarray
    """Errors of the eigenvalues, (K,)."""
    exponent: float
    """Slope of log eigenvalue over log(k + C0/2 − 1), upper half of the frequencies. NaN where too
    few eigenvalues exceed errors."""
    uncertainty: float
    """Twice its difference from the slope over the quarter of the frequencies below, plus 1/K."""
    lowest: float
    """Lower bound on the exponent (theorem 5.1), unless eigenvalues are 0."""
    highest: float
    """Upper bound on the exponent (theorem 5.1)."""
    law: float
    """Exponent by `singularity_exponent`; −inf where eigenvalues are 0."""


def table(decays: Iterable[FrequencyDecay]) -> str:
    """Return exponents, laws and bounds as text, a line for each set of pixels."""
    head = f"{'pixels':>12}  {'exponent':>8}  {'±':>5}  {'law':>6}  theorem 5.1"
    rows = [head, "-" * len(head)]
    for decay in decays:
        pixels = ",".join(map(str, decay.pixels))
        bounds = f"[{decay.lowest:.4g}, {decay.highest:.4g}]"
        fit = f"{decay.exponent:8.3f}  {decay.uncertainty:5.2f}  {decay.law:6.3g}"
        if decay.law == -math.inf:
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
) -> list[FrequencyDecay]:
    """Return the decay of eigenvalues with a frequency spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022, with the bounds of theorem 5.1.

    Parameters
    ----------
    network : Network
        With ReLU, and ``input_filter_size`` 1, as in the theorem.
    n_channels, n_timepoints, kind, head
        As for `eigenvalues`.
    max_frequency : int
        At least 8. Slopes are fitted to the frequencies from its half on.
    pixels : iterable of sets of pixels, optional
        Sets within the receptive field. The default is pixel 0; 0 and 1; −1, 0 and 1, as far as
        the receptive field has them.
    **options
        ``method``, ``nodes``, ``max_memory``, ``max_points``, ``progress`` of `eigenvalues`.
    """
    check_network(network, RELU_FIELDS, RELU_ALONE)
    check_input_window(network)
    highest, d = check_integer(max_frequency, "max_frequency", 8), check_pixels(n_timepoints)
    field = windows(network, d)[1][-1]
    if pixels is None:
        sets = [s for s in (frozenset(p % d for p in s) for s in _SPREADS[:d]) if s <= field]
    else:
        sets = check_pixel_sets(pixels, field, shifts(head, d), d)
    used = frozenset().union(*sets)
    top = [highest if pixel in used else 0 for pixel in range(d)]
    computed = eigenvalues(network, n_channels, d, top, kind, head, return_error=True, **options)
    frequency = np.arange(1, highest + 1)
    above = {"gpk": 3, "ntk": 1}[kind] / len(field)  # 2ν_b − 2
    decays = []
    for chosen in sets:
        index = tuple(frequency if pixel in chosen else 0 for pixel in range(d))
        values = np.where(computed.resolved[index], computed.eigenvalues[index], 0.0)
        below = slice(highest // 4 - 1, highest // 2)
        upper = _slope(frequency[highest // 2 - 1 :], values[highest // 2 - 1 :], n_channels)
        lower = _slope(frequency[below], values[below], n_channels)
        decays.append(
            FrequencyDecay(
                relative_pixels(chosen, d),
                frequency,
                computed.eigenvalues[index],
                computed.errors[index],
                exponent=upper,
                uncertainty=2 * abs(upper - lower) + 1 / highest,
                lowest=-len(chosen) * (n_channels + 2.0),
                highest=-len(chosen) * (n_channels - 1.0 + above),
                law=singularity_exponent(network, n_channels, d, chosen, kind, head),
            )
        )
    return decays


def singularity_exponent(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    pixels: Iterable[int],
    kind: str = "gpk",
    head: str = "equivariant",
) -> float:
    """Return the exponent with which eigenvalues fall, from the kernel's singularities.

    A conjecture, supported by computed eigenvalues (``docs/theory/spectrum.md``), about large
    frequencies. −inf if eigenvalues are 0: no window of the last
    layer has all pixels.

    Parameters
    ----------
    network : Network
        With ReLU: kernels of erf networks have no singularities.
    n_channels, n_timepoints, kind, head
        As for `eigenvalues`.
    pixels : iterable of int
        Pixels that have the frequency, at least one. All others have frequency 0.
    """
    n_channels, d, chosen = check_theorem(network, n_channels, n_timepoints, pixels, kind, head)
    parts = network.parts
    factors = network.alpha, network.c_v, network.c_w, network.readout_scale
    if not all(factors) or (kind == "ntk" and not network.trained):
        return -math.inf
    # The first layer whose κ0 the tangent kernel has: κ0 multiplies the derivatives by the parts
    # trained below its layer.
    first = network.depth + 1
    if kind == "ntk" and (parts.input or parts.inner or parts.outer):
        first = 1 if parts.input or parts.inner else 2
    # The windows of the last layer's pre-activation at pixel 0 and of all pre-activations below it.
    # `below` has the last layer in which each window occurs.
    seen, below = windows(network, d)[0], dict[frozenset[int], int]()
    reached, features = frozenset({0}), frozenset[int]()  # pixels of units, and what they take
    for layer in range(network.depth, 0, -1):
        for p in reached:
            below.setdefault(frozenset((p + k) % d for k in seen[layer - 1]), layer)
        inner = widen(reached, network.inner_filter(layer), d)
        features = features | inner if network.skip else inner
        reached = widen(features, network.outer_filter(layer), d)

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

    # Seen from a unit of the last layer, at each pixel to which the outer filter reaches.
    moved = {
        frozenset((pixel + shift - tap) % d for pixel in chosen)
        for shift in shifts(head, d)
        for tap in taps(network.outer_filter(network.depth), d)
    }
    costs = (least(pixels, first <= network.depth) for pixels in moved if pixels <= seen[-1])
    return -min(costs, default=math.inf)


def _slope(frequency: np.ndarray, values: np.ndarray, n_channels: int) -> float:
    """Return the slope of log values > 0 over log centred frequency, even and odd ones apart."""
    frequency, values = frequency[values > 0], values[values > 0]
    parity = frequency % 2
    constants = [parity == some for some in np.unique(parity)]
    if len(values) < len(constants) + 2:
        return math.nan
    # The Laplacian's k(k + C0 − 2) is the square of k + C0/2 − 1 up to a constant.
    design = np.stack([np.log(frequency + (n_channels - 2) / 2), *constants], axis=1)
    return float(np.linalg.lstsq(design, np.log(values), rcond=None)[0][0])


def relative_pixels(pixels: frozenset[int], d: int) -> tuple[int, ...]:
    """Return pixels of a ring relative to the output pixel, the nearer way round."""
    return tuple(sorted(p if 2 * p <= d else p - d for p in pixels))


def check_input_window(network: Network) -> None:
    """Raise ValueError unless the network reads single pixels, as in theorem 5.1."""
    size = network.input_filter_size
    if size != 1:
        raise ValueError(
            f"network has input_filter_size {size}, expected 1: theorem 5.1 is about networks "
            "that read single pixels"
        )


def draw(decays: Iterable[FrequencyDecay], ax: Any = None, title: str | None = None) -> Any:
    """Draw eigenvalues over a frequency that is spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022. Markers are eigenvalues above their errors, filled for even
    frequencies. Dotted lines have the slopes of `singularity_exponent`.
    """
    ax = axes(ax)
    for decay, colour, marker, _ in looks(decays):
        count = len(decay.pixels)
        label = f"{count} pixel{'s' if count > 1 else ''} ({', '.join(map(str, decay.pixels))}): "
        if np.isfinite(decay.law):
            label += f"slope {decay.exponent:.2f} ± {decay.uncertainty:.2f}, law {decay.law:g}"
        else:
            label += "λ = 0"
        k, seen = decay.frequencies, decay.eigenvalues > decay.errors
        for parity, fill in ((0, colour), (1, "white")):
            some = seen & (k % 2 == parity)
            values, errors = decay.eigenvalues[some], decay.errors[some]
            points = {"color": colour, "markerfacecolor": fill, "markersize": 4.5}
            name = label.replace("-", "−") if parity == 0 else None
            ax.plot(k[some], values, marker, label=name, **points)
            ax.errorbar(k[some], values, errors, fmt="none", color=colour, elinewidth=1)
        even = seen & (k % 2 == 0)
        if even.any() and np.isfinite(decay.law):
            last = np.flatnonzero(even)[-1]
            tail = k >= k[last] / 6
            law = decay.eigenvalues[last] * (k[tail] / k[last]) ** decay.law
            ax.plot(k[tail], law, ":", color=colour)
    grey = {"color": "0.3", "markersize": 4.5}
    ax.plot([], [], "o", label="even k", **grey)
    ax.plot([], [], "o", markerfacecolor="white", label="odd k", **grey)
    ax.plot([], [], ":", label="law", **grey)
    ax.set(xscale="log", yscale="log", xlabel="frequency k", ylabel="eigenvalue λ")
    ax.xaxis.set_minor_formatter("")
    finish(ax, 2, title)
    return ax


def check_pixel_set(pixels: Any, given: Any, d: int) -> frozenset[int]:
    """Return one set of pixels of a ring of `d`; an error names `given`."""
    if not is_sequence(pixels):
        raise ValueError(f"pixels is {given!r}, expected sets of integers")
    chosen = frozenset(check_integer(pixel, "pixels") % d for pixel in pixels)
    if not chosen:
        raise ValueError(f"pixels is {given!r}, expected at least one pixel")
    return chosen


def check_theorem(
    network: Any, n_channels: Any, n_timepoints: Any, pixels: Any, kind: Any, head: Any
) -> tuple[int, int, frozenset[int]]:
    """Return the channels, the ring's pixels and the pixels with a frequency, for theorem 5.1."""
    check_network(network, RELU_FIELDS, RELU_ALONE)
    check_kind(kind)
    check_head(head)
    d = check_pixels(n_timepoints)
    return check_channels(n_channels), d, check_pixel_set(pixels, pixels, d)


def check_pixel_sets(
    pixels: Any, field: frozenset[int], shifts: Iterable[int], d: int
) -> list[frozenset[int]]:
    """Return sets of pixels, each in the receptive field `field` after one of the `shifts`."""
    if not is_sequence(pixels):
        raise ValueError(f"pixels is {pixels!r}, expected sets of integers")
    sets, shifts = [check_pixel_set(some, pixels, d) for some in pixels], tuple(shifts)
    if not sets:
        raise ValueError("pixels is empty, expected at least one set of pixels")
    for chosen in sets:
        if not any({(p + shift) % d for p in chosen} <= field for shift in shifts):
            raise ValueError(
                f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                f"{sorted(field)}: the kernel does not depend on others"
            )
    return sets


def main() -> None:
    """Print fitted exponents, the law and the bounds of theorem 5.1."""
    for kind in ("gpk", "ntk"):
        decays = decay_exponents(literature.geifman_cnn(3), 2, 4, 24, kind)
        print(kind, table(decays), sep="\n")


if __name__ == "__main__":
    main()
