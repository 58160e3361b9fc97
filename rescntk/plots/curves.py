"""Pictures over pixels, angles and frequencies: receptive fields, functions, spectra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory.argument_checks import check_length, check_points
from ..theory.locality import effective_receptive_field
from ..validation import KINDS, check_flag
from .style import COLOURS, axes, check_drawn, check_named, finish, looks

if TYPE_CHECKING:
    from ..network import Network
    from ..theory.spectrum import DecayExponents

_COLOURS = ("black", *COLOURS)

_FAINTEST = 1e-9
"""Lower end of a logarithmic axis, relative to the largest weight. Chosen by eye."""

_MARKERS = 24
"""Markers on a line of receptive fields, about. Chosen by eye."""

_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5}


def receptive_fields(
    networks: Mapping[str, Network],
    n_timepoints: int,
    ax: Any = None,
    title: str | None = None,
    *,
    logarithmic: bool = False,
    explain: bool = True,
) -> Any:
    """Draw effective receptive fields, of both kernels of each network; weights sum to 1.

    The kernels' half of figure 2 of Barzilai et al. 2022.

    Parameters
    ----------
    networks : mapping of str to Network
    n_timepoints : int
        Length of the signals.
    ax : matplotlib Axes, by default those of a new figure; returned
    title : str, optional
    logarithmic : bool, default False
        Make the axis of the weights logarithmic.
    explain : bool, default True
        Explain lines and markers in the legend; one panel of a figure is enough.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> ax = plots.receptive_fields({"CNN": literature.barzilai_cnn(8)}, 31)
    """
    check_named(networks, "networks")
    d = check_length(n_timepoints)
    logarithmic, explain = check_flag(logarithmic, "logarithmic"), check_flag(explain, "explain")
    ax = axes(ax)
    top = 0.0
    distance, every = np.arange(d) - d // 2, max(1, d // _MARKERS)
    shown = (d // 2 % every, every)  # so that the output pixel has a marker
    for (name, network), colour, marker, line in looks(networks.items()):
        gpk, ntk = (
            np.fft.fftshift(effective_receptive_field(network, d, kind, normalized=True))
            for kind in KINDS
        )
        top = max(top, gpk.max(), ntk.max())
        # Nothing is drawn outside the receptive field.
        gpk, ntk = (np.where(weights > 0, weights, np.nan) for weights in (gpk, ntk))
        ax.plot(distance, gpk, color=colour, linestyle=line, linewidth=1.2)
        ax.plot(distance, ntk, marker, color=colour, markevery=shown, **_HOLLOW)
        ax.plot([], [], marker=marker, color=colour, linestyle=line, label=name, **_HOLLOW)
    if logarithmic:
        ax.set(yscale="log", ylim=(_FAINTEST * top, 2 * top))
    else:
        ax.set_ylim(-0.02 * top, 1.05 * top)
    ax.set(xlabel="distance from the output pixel (pixels)", ylabel="weight of a pixel's energy")
    if explain:
        ax.plot([], [], color="0.3", linewidth=1.2, label="lines: Gaussian process kernels")
        ax.plot([], [], "o", color="0.3", label="markers: tangent kernels", **_HOLLOW)
    finish(ax, 2, title)
    return ax


def eigenvalue_decay(decays: DecayExponents, ax: Any = None, title: str | None = None) -> Any:
    """Draw eigenvalues over a frequency that is spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022. Markers are eigenvalues above their errors, filled for even
    frequencies. Dotted lines have the slopes of ``spectrum.singularity_exponent``.

    Parameters
    ----------
    decays : DecayExponents
        From ``spectrum.decay_exponents``.
    ax : matplotlib Axes, by default those of a new figure; returned
    title : str, optional
        The default tells the settings.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> decays = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=12)
    >>> ax = plots.eigenvalue_decay(decays)
    """
    check_drawn(decays, "decays", "a result of spectrum.decay_exponents", "decays", "network")
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
    if title is None:
        name = {"gpk": "Gaussian process kernel", "ntk": "tangent kernel"}[decays.kind]
        net = decays.network
        skip = f"skips, α = {net.alpha:g}" if net.skip else "no skips"
        layers = f"{net.depth} layer{'s' if net.depth > 1 else ''}"
        title = (
            f"{name}, {layers}, {skip}\n"
            f"{decays.n_channels} channels × {decays.n_timepoints} pixels, filter size "
            f"{net.filter_size}, {decays.head} head"
        )
    finish(ax, 2, title)
    return ax


def functions_on_circle(
    functions: Mapping[str, np.ndarray],
    angles: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    ax: Any = None,
) -> Any:
    """Draw functions once around the circle, from -π to π, and given points.

    Parameters
    ----------
    functions : mapping of str to ndarray, (n_samples,)
        A label and values on ``smoothness.grid(n_samples)`` for each function.
    angles, targets : ndarray, (n,), optional
        The given points, and the values there.
    ax : matplotlib Axes, by default those of a new figure; returned

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> angles, wave = smoothness.grid(6), smoothness.target(smoothness.grid())
    >>> ax = plots.functions_on_circle({"target": wave}, angles, smoothness.target(angles))
    """
    check_named(functions, "functions", "values on smoothness.grid")
    if angles is not None:
        angles, targets = check_points(angles, targets)
    ax = axes(ax)
    for (label, values), colour, _, line in looks(functions.items(), _COLOURS):
        turns = np.linspace(-1, 1, len(values) + 1)  # both ends
        ax.plot(turns, np.append(values, values[0]), color=colour, linestyle=line, label=label)
    if angles is not None:
        turns = (angles / np.pi + 1) % 2 - 1
        ax.plot(turns, targets, "ko", markersize=5, label="given", zorder=5)
    ax.set(xlabel="angle / π", ylabel="value")
    finish(ax, 2)
    return ax
