"""Tangent kernels of very deep networks (theory/degeneracy.py)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .smoothness import functions_on_circle, turns
from .style import BLUE, COLOURS, MARKERS, SIZE, VERMILION, figure, finish

if TYPE_CHECKING:
    from ..theory.degeneracy import KernelsOverDepth, Regression


def kernels_over_depth(t: np.ndarray, kernels: KernelsOverDepth, axes: Any = None) -> Any:
    """Draw normalized tangent kernels against the correlation, a line for each depth.

    The two pictures of Huang et al. 2020: the FFNet's kernel loses its shape, the ResNet's has one
    from the start. Thick grey lines are the limits; where the correlation is 1, so is the kernel.
    Below them the distances from the limits, which tell the ResNet's lines apart.

    Parameters
    ----------
    t : ndarray, (n,)
        Correlations of the pairs.
    kernels : KernelsOverDepth
        From ``degeneracy.kernels_over_depth`` on n signals and one other, (n_depths, n, 1).
    axes : ndarray of matplotlib Axes, (2, 2), optional
        Where to draw; the default is a new figure.

    Returns
    -------
    ndarray of matplotlib Axes, (2, 2)
        FFNet and ResNet: kernels, and absolute distances from the limits, where these are above
        rounding errors (the ResNet of one layer is the limit).

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.theory import degeneracy, smoothness
    >>> angles = np.linspace(0, np.pi, 20)
    >>> X, x = smoothness.circle(angles), smoothness.circle([0.0])
    >>> found = degeneracy.kernels_over_depth(X, x, depths=(1, 10))
    >>> axes = plots.kernels_over_depth(np.cos(angles), found)
    """
    from ..theory.degeneracy import ffnet_limit, resnet_limit

    if axes is None:
        size = (2 * SIZE[0], 1.7 * SIZE[1])
        axes = figure(size).subplots(2, 2, sharex=True, sharey="row")
    sides = (
        (axes[:, 0], "FFNet", kernels.ffnet, ffnet_limit, "limit ¼ (1 at correlation 1)"),
        (axes[:, 1], "ResNet", kernels.resnet, resnet_limit, "limit, one layer"),
    )
    order = np.argsort(t)
    t = np.asarray(t)[order]
    for (ax, below), name, values, limit, label in sides:
        inside = np.linspace(-1, 1 - 1e-9, 400)
        ax.plot(inside, limit(inside), color="0.75", linewidth=6, label=label, zorder=1)
        for k, depth in enumerate(kernels.depths):
            style = {
                "color": COLOURS[k % len(COLOURS)],
                "marker": MARKERS[k % len(MARKERS)],
                "markersize": 3.5,
                "linewidth": 1.3,
                "markevery": (3 * k, max(1, len(t) // 12)),
                "label": f"{depth} layer{'s' if depth > 1 else ''}",
            }
            line = values[k, order, 0]
            ax.plot(t, line, **style)
            distance = np.abs(line - limit(t))
            seen = distance > 1e-14  # rounding errors of normalized kernels
            below.plot(t, np.where(seen, distance, np.nan), **style)
        below.plot([], [], color="0.75", linewidth=6, label=label)  # for the legend of both
        ax.set_title(name)
        below.set(xlabel="correlation of the inputs", yscale="log")
        for panel in (ax, below):
            finish(panel, 3)
        ax.get_legend().remove()
    axes[0, 0].set_ylabel("normalized tangent kernel")
    axes[1, 0].set_ylabel("distance from the limit")
    return axes


def distances_from_limits(
    depths: np.ndarray,
    ffnet: Mapping[str, np.ndarray],
    resnet: Mapping[str, np.ndarray],
    ax: Any = None,
) -> Any:
    """Draw how far normalized tangent kernels are from their limits over depth.

    Parameters
    ----------
    depths : ndarray of int, (n_depths,)
    ffnet, resnet : mapping of str to ndarray, (n_depths,)
        A label and differences from the limit, for some pairs. Absolute values are drawn, with
        open markers where the kernel is below its limit.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib Axes
        With the predictions (3/8) log L/L and, for the slope only, 1/L.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> depths = np.array([10, 100])
    >>> ax = plots.distances_from_limits(depths, {"t = 0": 1 / depths}, {"t = 0": 0.1 / depths})
    """
    from ..theory.degeneracy import ffnet_rate

    if ax is None:
        ax = figure(SIZE).subplots()
    depths = np.asarray(depths)
    for name, sides, colour, line in (
        ("FFNet", ffnet, BLUE, "-"),
        ("ResNet", resnet, VERMILION, "--"),
    ):
        for (label, values), marker in zip(sides.items(), cycle(MARKERS), strict=False):
            style = {"color": colour, "marker": marker, "markersize": 5}
            height, below = np.abs(values), np.asarray(values) < 0
            label = f"{name}, {label}"
            ax.plot(depths, height, label=label, linestyle=line, linewidth=1.2, **style)
            open_style = style | {"linestyle": "none", "markerfacecolor": "white"}
            ax.plot(depths[below], height[below], **open_style)
    ax.plot([], [], "o", color="0.3", markerfacecolor="white", label="open: below the limit")
    ax.plot(depths, ffnet_rate(depths), ":", color="black", label="(3/8) log L / L")
    ax.plot(depths, 0.1 / depths, "-.", color="black", linewidth=1, label="slope of 1/L")
    ax.set(xscale="log", yscale="log", xlabel="depth L (layers)", ylabel="distance from the limit")
    finish(ax, 2)
    return ax


def degenerate_regression(
    functions: Mapping[str, np.ndarray],
    limit: Regression,
    angles: np.ndarray,
    targets: np.ndarray,
    ax: Any = None,
) -> Any:
    """Draw functions on the circle beside what an infinitely deep FFNet makes of the points.

    Parameters
    ----------
    functions, angles, targets, ax
        As for `functions_on_circle`.
    limit : Regression
        ``degeneracy.degenerate_regression(targets, ridge)``: a line at its value elsewhere, open
        circles at those it has at the given points.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.theory import degeneracy, smoothness
    >>> angles = smoothness.grid(6)
    >>> limit = degeneracy.degenerate_regression(np.cos(angles), ridge=0.1)
    >>> ax = plots.degenerate_regression({}, limit, angles, np.cos(angles))
    """
    ax = functions_on_circle(functions, angles, targets, ax)
    label = "FFNet, infinitely deep"
    ax.axhline(float(limit.elsewhere), color="0.5", linewidth=1, label=f"{label}: elsewhere")
    circles = {"color": "0.3", "linestyle": "none", "markerfacecolor": "none", "markersize": 10}
    ax.plot(turns(angles), limit.at_points, "o", label=f"{label}: at the points", **circles)
    finish(ax, 2)
    return ax
