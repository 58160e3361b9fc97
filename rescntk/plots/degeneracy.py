"""Pictures of the tangent kernels of very deep networks (theory/degeneracy.py)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .smoothness import functions_on_circle, turns
from .style import BLUE, COLOURS, MARKERS, SIZE, VERMILION, axes, figure, finish

if TYPE_CHECKING:
    from ..theory.degeneracy import KernelsOverDepth, Regression


def kernels_over_depth(t: np.ndarray, kernels: KernelsOverDepth, axes: Any = None) -> Any:
    """Draw normalized tangent kernels against the correlation, a line for each depth.

    The two pictures of Huang et al. 2020: the FFNet's kernel loses its shape with depth, the
    ResNet's kernel keeps its shape. Thick grey lines are the limits. At correlation 1 the kernel
    is 1. The lower row shows the distances from the limits.

    Parameters
    ----------
    t : ndarray, (n,)
        Correlations of the pairs.
    kernels : KernelsOverDepth
        From ``degeneracy.kernels_over_depth`` on n signals and one other: (n_depths, n, 1).
    axes : ndarray of matplotlib Axes, (2, 2), optional
        Where to draw; the default is a new figure.

    Returns
    -------
    ndarray of matplotlib Axes, (2, 2)
        Columns are FFNet and ResNet. Rows are kernels and absolute distances from the limits.
        Distances of at most 1e-14, rounding errors, are left out: all of the ResNet of one layer.

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
    if axes is None:
        size = (2 * SIZE[0], 1.7 * SIZE[1])
        axes = figure(size).subplots(2, 2, sharex=True, sharey="row")
    inside = np.linspace(-1, 1 - 1e-9, 400)
    limits, distances = kernels.limits(inside), kernels.distances(np.asarray(t)[:, None])
    sides = zip(
        axes.T,
        ("FFNet", "ResNet"),
        (kernels.ffnet, kernels.resnet),
        limits,
        distances,
        ("limit ¼ (1 at correlation 1)", "limit, one layer"),
        strict=True,
    )
    order = np.argsort(t)
    t = np.asarray(t)[order]
    for (ax, below), name, values, limit, distance, label in sides:
        ax.plot(inside, limit, color="0.75", linewidth=6, label=label, zorder=1)
        for k, depth in enumerate(kernels.depths):
            style = {
                "color": COLOURS[k % len(COLOURS)],
                "marker": MARKERS[k % len(MARKERS)],
                "markersize": 3.5,
                "linewidth": 1.3,
                "markevery": (3 * k, max(1, len(t) // 12)),
                "label": f"{depth} layer{'s' if depth > 1 else ''}",
            }
            ax.plot(t, values[k, order, 0], **style)
            height = distance[k, order, 0]
            seen = height > 1e-14  # rounding errors of normalized kernels
            below.plot(t, np.where(seen, height, np.nan), **style)
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
    *,
    ffnet_rate: np.ndarray | None = None,
) -> Any:
    """Draw the distances of normalized tangent kernels from their limits over depth.

    Parameters
    ----------
    depths : ndarray of int, (n_depths,)
    ffnet, resnet : mapping of str to ndarray, (n_depths,)
        Differences from the limit for each label, a pair of signals. Absolute values are drawn,
        with open markers where the kernel is below its limit.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    ffnet_rate : ndarray, (n_depths,), optional
        The predicted distance of the FFNet, ``degeneracy.ffnet_rate(depths)``. The default draws
        no prediction.

    Returns
    -------
    matplotlib Axes
        With a line of the slope of 1/L.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.theory import degeneracy
    >>> depths = np.array([10, 100])
    >>> ffnet, resnet = {"t = 0": 1 / depths}, {"t = 0": 0.1 / depths}
    >>> rate = degeneracy.ffnet_rate(depths)
    >>> ax = plots.distances_from_limits(depths, ffnet, resnet, ffnet_rate=rate)
    """
    ax = axes(ax)
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
    if ffnet_rate is not None:
        ax.plot(depths, ffnet_rate, ":", color="black", label="(3/8) log L / L")
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
    """Draw functions on the circle beside the regression of an infinitely deep FFNet.

    Parameters
    ----------
    functions, angles, targets, ax
        As for `functions_on_circle`.
    limit : Regression
        ``degeneracy.degenerate_regression(targets, ridge)``. Open circles are its predictions at
        the given points, a line its prediction elsewhere.

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
