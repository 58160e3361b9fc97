"""Effective receptive fields and their widths (theory/locality.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory import locality
from ..validation import check_length
from .style import COLOURS, MARKERS, SIZE, figure, finish

if TYPE_CHECKING:
    from ..network import Network

# Weights below this share of the largest are not drawn on a logarithmic axis.
_FAINTEST = 1e-9

# About so many markers on a line; through them one sees the line.
_MARKERS = 24
_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5}
_LINES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 3)), (0, (1, 1)))  # told apart in grey


def receptive_fields(
    networks: Mapping[str, Network],
    n_timepoints: int,
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
    networks : mapping of str to Network
        What to draw, and what to call it; with ReLU.
    n_timepoints : int
        Length of the signals.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
    logarithmic : bool, default False
        Whether the weights' axis is.
    explain : bool, default True
        Whether the legend says what lines and markers are; one panel of a figure is enough.

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
    _check_mapping(networks, "networks")
    n_timepoints = check_length(n_timepoints)
    if ax is None:
        ax = figure(SIZE).subplots()
    # The output pixel in the middle; of an even length the farthest pixel is on the left.
    distance = np.arange(n_timepoints) - n_timepoints // 2
    every = max(1, n_timepoints // _MARKERS)
    shown = (n_timepoints // 2 % every, every)  # so that the output pixel has a marker
    top = 0.0
    for (name, network), colour, marker, line in _styles(networks):
        gpk, ntk = (
            np.fft.fftshift(
                locality.effective_receptive_field(network, n_timepoints, kind, normalized=True)
            )
            for kind in ("gpk", "ntk")
        )
        top = max(top, gpk.max(), ntk.max())
        # Nothing is drawn outside the receptive field.
        gpk, ntk = (np.where(field > 0, field, np.nan) for field in (gpk, ntk))
        ax.plot(distance, gpk, color=colour, linestyle=line, linewidth=1.2)
        ax.plot(distance, ntk, marker, color=colour, markevery=shown, **_HOLLOW)
        ax.plot([], [], marker=marker, color=colour, linestyle=line, label=name, **_HOLLOW)
    if logarithmic:
        ax.set(yscale="log", ylim=(_FAINTEST * top, 2 * top))
    else:
        ax.set_ylim(-0.02 * top, 1.05 * top)
    ax.set(xlabel="distance from the output pixel (pixels)", ylabel="weight of a pixel's energy")
    if title:
        ax.set_title(title, fontsize="medium")
    if explain:
        _explain(ax, line="lines: Gaussian process kernels", marker="markers: tangent kernels")
    finish(ax, 2)
    return ax


def receptive_field_widths(
    families: Mapping[str, Network | Callable[[int], Network]],
    depths: Iterable[int],
    ax: Any = None,
    title: str | None = None,
) -> Any:
    """Draw the widths of effective receptive fields over depth, with their law.

    Lines are Gaussian process kernels, markers tangent kernels, broad pale lines below them the
    law for deep networks, dotted ones the distance of the farthest pixel. Both axes are
    logarithmic.

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

    Raises
    ------
    ValueError
        For families that are not a mapping or none, and for what ``locality.widths`` refuses.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> families = {"CNN": literature.barzilai_cnn, "ResNet": literature.barzilai_resnet}
    >>> ax = plots.receptive_field_widths(families, (1, 10, 100))
    """
    _check_mapping(families, "families")
    if ax is None:
        ax = figure(SIZE).subplots()
    depths, reaches = tuple(depths), set()
    for (name, family), colour, marker, line in _styles(families):
        w = locality.widths(family, depths)
        ax.plot(w.depth, w.law, color=colour, linewidth=6, alpha=0.25, solid_capstyle="butt")
        ax.plot(w.depth, w.gpk, color=colour, linestyle=line, linewidth=1.2)
        ax.plot(w.depth, w.ntk, marker, color=colour, **_HOLLOW)
        ax.plot([], [], marker=marker, color=colour, linestyle=line, label=name, **_HOLLOW)
        if tuple(w.reach) not in reaches:
            ax.plot(w.depth, np.where(w.reach > 0, w.reach, np.nan), ":", color="0.3")
            reaches.add(tuple(w.reach))
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="distance (pixels)")
    if title:
        ax.set_title(title, fontsize="medium")
    _explain(ax, line="lines: Gaussian process kernels", marker="markers: tangent kernels")
    ax.plot([], [], color="0.3", linewidth=6, alpha=0.25, label="broad: law for deep networks")
    ax.plot([], [], ":", color="0.3", label="farthest pixel")
    ax.yaxis.set_major_formatter("{x:g}")
    finish(ax, 2)
    return ax


def _styles(named: Mapping[str, Any]) -> Iterable[tuple[tuple[str, Any], str, str, Any]]:
    """Return names and what they name, each with a colour, a marker and a line style."""
    return zip(named.items(), cycle(COLOURS), cycle(MARKERS), cycle(_LINES))


def _check_mapping(named: Any, name: str) -> None:
    if not isinstance(named, Mapping) or not named:
        raise ValueError(f"{name} is {named!r}, expected a mapping of names to what is drawn")


def _explain(ax: Any, line: str, marker: str) -> None:
    """Say in the legend what lines and markers are."""
    ax.plot([], [], color="0.3", linewidth=1.2, label=line)
    ax.plot([], [], "o", color="0.3", label=marker, **_HOLLOW)
