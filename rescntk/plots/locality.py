"""Effective receptive fields and their widths (theory/locality.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory import locality
from ..validation import check_length
from .style import COLOURS, MARKERS, axes, finish

if TYPE_CHECKING:
    from ..network import Network
    from ..theory.locality import Fields, Widths

_FAINTEST = 1e-9
"""Lower end of a logarithmic axis, relative to the largest weight. Lowering it shows fainter
weights and presses the others together. Chosen by eye."""

_MARKERS = 24
"""Markers on a line, about. More of them hide the line. Chosen by eye."""

_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5}

_LINES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 3)), (0, (1, 1)))  # told apart in grey


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
    _check_named(networks, "networks")
    ax = axes(ax)
    top = 0.0
    for (name, given), colour, marker, line in _styles(networks):
        found = given
        if not isinstance(given, locality.Fields):
            found = locality.fields(given, check_length(n_timepoints))
        distance, gpk, ntk = found
        every = max(1, len(distance) // _MARKERS)
        shown = (len(distance) // 2 % every, every)  # so that the output pixel has a marker
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
    families: Mapping[str, Network | Callable[[int], Network] | Widths],
    depths: Iterable[int] = (),
    ax: Any = None,
    title: str | None = None,
) -> Any:
    """Draw the widths of effective receptive fields over depth, with their law.

    Lines are Gaussian process kernels, markers tangent kernels, broad pale lines below them the
    law for deep networks, dotted ones the distance of the farthest pixel. Both axes are
    logarithmic.

    Parameters
    ----------
    families : mapping of str to Widths or family
        Names and results of ``locality.widths``. A network, or a function from depth to network,
        stands for ``locality.widths(family, depths)``.
    depths : iterable of int, optional
        Depths, for families.
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
    _check_named(families, "families")
    ax = axes(ax)
    depths, reaches = tuple(depths), set()
    for (name, family), colour, marker, line in _styles(families):
        w = family if isinstance(family, locality.Widths) else locality.widths(family, depths)
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
    """Return the items of a mapping, each with a colour, a marker and a line style."""
    return zip(named.items(), cycle(COLOURS), cycle(MARKERS), cycle(_LINES))


def _explain(ax: Any, line: str, marker: str) -> None:
    """Explain lines and markers in the legend."""
    ax.plot([], [], color="0.3", linewidth=1.2, label=line)
    ax.plot([], [], "o", color="0.3", label=marker, **_HOLLOW)


def _check_named(named: Any, name: str) -> None:
    """Raise a ValueError if `named` is not a mapping of names to the objects of a picture."""
    if not isinstance(named, Mapping) or not named:
        raise ValueError(f"{name} is {named!r}, expected a mapping of names to what is drawn")
