"""Effective receptive fields and their widths (theory/locality.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory import locality
from .style import COLOURS, MARKERS, SIZE, figure, finish

if TYPE_CHECKING:
    from ..network import Network

# Weights below this share of the largest are not drawn on a logarithmic axis.
_FAINTEST = 1e-9

# About so many markers on a line; through them one sees the line.
_MARKERS = 24
_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5, "linestyle": "none"}


def receptive_fields(
    networks: Mapping[str, Network],
    n_timepoints: int,
    ax: Any = None,
    title: str | None = None,
    *,
    logarithmic: bool = False,
) -> Any:
    """Draw effective receptive fields, of both kernels of each network.

    The kernels' half of figure 2 of Barzilai et al. 2022. Lines are Gaussian process kernels,
    markers tangent kernels, both with weights that sum to 1.

    Parameters
    ----------
    networks : mapping of str to Network
        What to draw, and what to call it; with ReLU.
    n_timepoints : int
        Length of the signals.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
    logarithmic : bool, default False
        Whether the weights' axis is.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> networks = {
    ...     "CNN": literature.barzilai_cnn(8),
    ...     "ResNet": literature.barzilai_resnet(8),
    ... }
    >>> ax = plots.receptive_fields(networks, 31)
    """
    if ax is None:
        ax = figure(SIZE).subplots()
    # The output pixel in the middle; of an even length the farthest pixel is on the left.
    distance = np.arange(n_timepoints) - n_timepoints // 2
    every = max(1, n_timepoints // _MARKERS)
    shown = (n_timepoints // 2 % every, every)  # so that the output pixel has a marker
    top = 0.0
    for (name, network), colour, marker in zip(networks.items(), cycle(COLOURS), cycle(MARKERS)):
        gpk, ntk = (
            np.fft.fftshift(
                locality.effective_receptive_field(network, n_timepoints, kind, normalized=True)
            )
            for kind in ("gpk", "ntk")
        )
        top = max(top, gpk.max(), ntk.max())
        # Nothing is drawn outside the receptive field.
        gpk, ntk = (np.where(field > 0, field, np.nan) for field in (gpk, ntk))
        ax.plot(distance, gpk, color=colour, linewidth=1.2)
        style = {"color": colour, "label": name, "markevery": shown}
        ax.plot(distance, ntk, marker, **_HOLLOW, **style)
    if logarithmic:
        ax.set(yscale="log", ylim=(_FAINTEST * top, 2 * top))
    else:
        ax.set_ylim(-0.02 * top, 1.05 * top)
    ax.set(xlabel="distance from the output pixel (pixels)", ylabel="weight of a pixel's energy")
    if title:
        ax.set_title(title, fontsize="medium")
    _explain(ax, line="Gaussian process kernels", marker="tangent kernels")
    finish(ax, 2)
    return ax


def receptive_field_widths(
    families: Mapping[str, Network | Callable[[int], Network]],
    depths: Iterable[int],
    ax: Any = None,
    title: str | None = None,
) -> Any:
    """Draw the widths of effective receptive fields over depth, with their law.

    Lines are Gaussian process kernels, markers tangent kernels, dotted lines the law for deep
    networks, dashed ones the distance of the farthest pixel. Both axes are logarithmic.

    Parameters
    ----------
    families : mapping of str to what ``locality.widths`` takes
        What to draw, and what to call it.
    depths : iterable of int
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> families = {"CNN": literature.barzilai_cnn, "ResNet": literature.barzilai_resnet}
    >>> ax = plots.receptive_field_widths(families, (1, 10, 100))
    """
    if ax is None:
        ax = figure(SIZE).subplots()
    depths, reaches = tuple(depths), set()
    for (name, family), colour, marker in zip(families.items(), cycle(COLOURS), cycle(MARKERS)):
        w = locality.widths(family, depths)
        ax.plot(w.depth, w.law, ":", color=colour, linewidth=1.6)
        ax.plot(w.depth, w.gpk, color=colour, linewidth=1.2)
        ax.plot(w.depth, w.ntk, marker, color=colour, label=name, **_HOLLOW)
        if tuple(w.reach) not in reaches:
            ax.plot(w.depth, np.where(w.reach > 0, w.reach, np.nan), "--", color="0.5")
            reaches.add(tuple(w.reach))
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="distance (pixels)")
    if title:
        ax.set_title(title, fontsize="medium")
    _explain(ax, line="width, Gaussian process kernels", marker="width, tangent kernels")
    ax.plot([], [], ":", color="0.3", linewidth=1.6, label="law for deep networks")
    ax.plot([], [], "--", color="0.5", label="farthest pixel")
    ax.yaxis.set_major_formatter("{x:g}")
    finish(ax, 2)
    return ax


def _explain(ax: Any, line: str, marker: str) -> None:
    """Say in the legend what lines and markers are."""
    ax.plot([], [], color="0.3", linewidth=1.2, label=line)
    ax.plot([], [], "o", color="0.3", label=marker, **_HOLLOW)
