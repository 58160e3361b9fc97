"""Pictures over pixels and angles: receptive fields, and functions on the circle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory.argument_checks import check_length, check_points
from ..theory.locality import effective_receptive_field
from ..validation import KINDS, check_flag
from .style import COLOURS, axes, check_named, finish, looks

if TYPE_CHECKING:
    from ..network import Network

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
