"""The picture of effective receptive fields (theory/locality.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory import locality
from ..theory.arguments import check_length
from .style import axes, finish, looks

if TYPE_CHECKING:
    from ..network import Network
    from ..theory.locality import Fields

_FAINTEST = 1e-9
"""Lower end of a logarithmic axis, relative to the largest weight. Lowering it shows fainter
weights and presses the others together. Chosen by eye."""

_MARKERS = 24
"""Markers on a line, about. More of them hide the line. Chosen by eye."""

_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5}


def receptive_fields(
    networks: Mapping[str, Network | Fields],
    n_timepoints: int | None = None,
    ax: Any = None,
    title: str | None = None,
    *,
    logarithmic: bool = False,
    explain: bool = True,
) -> Any:
    """Draw effective receptive fields, of both kernels of each network.

    The kernels' half of figure 2 of Barzilai et al. 2022. Lines are Gaussian process kernels,
    markers tangent kernels, both with weights that sum to 1.

    Parameters
    ----------
    networks : mapping of str to Fields or Network
        Names and results of ``locality.fields``, of one length. A network stands for
        ``locality.fields(network, n_timepoints)``.
    n_timepoints : int, optional
        Length of the signals, for networks.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
    logarithmic : bool, default False
        Make the axis of the weights logarithmic.
    explain : bool, default True
        Explain lines and markers in the legend; one panel of a figure is enough.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For networks that are not a mapping or none, and for what
        ``locality.effective_receptive_field`` refuses.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> networks = {
    ...     "CNN": literature.barzilai_cnn(8),
    ...     "ResNet": literature.barzilai_resnet(8),
    ... }
    >>> ax = plots.receptive_fields(networks, 31)
    """
    if not isinstance(networks, Mapping) or not networks:
        raise ValueError(f"networks is {networks!r}, expected a mapping of names to what is drawn")
    ax = axes(ax)
    top = 0.0
    for (name, field), colour, marker, line in looks(networks.items()):
        if not isinstance(field, locality.Fields):
            field = locality.fields(field, check_length(n_timepoints))
        distance, gpk, ntk = field
        every = max(1, len(distance) // _MARKERS)
        shown = (len(distance) // 2 % every, every)  # so that the output pixel has a marker
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
