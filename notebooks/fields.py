"""Pictures of effective receptive fields: the kernels' half of figure 2 of Barzilai et al. (2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rescntk import Network
from rescntk.plots.style import axes, finish, looks
from rescntk.theory.argument_checks import check_length
from rescntk.theory.locality import effective_receptive_field
from rescntk.validation import KINDS

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
    """
    d = check_length(n_timepoints)
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
