"""Tangent kernels of very deep networks (theory/degeneracy.py)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLUE, COLOURS, MARKERS, SIZE, VERMILION, figure, finish

if TYPE_CHECKING:
    from ..theory.degeneracy import Kernels


def kernels_over_depth(t: np.ndarray, kernels: Kernels, axes: Any = None) -> Any:
    """Draw normalized tangent kernels against the correlation, a line for each depth.

    The two pictures of Huang et al. 2020: the FFNet's kernel loses its shape, the ResNet's has one
    from the start. Thick grey lines are the limits; where the correlation is 1, so is the kernel.

    Parameters
    ----------
    t : ndarray, (n,)
        Correlations of the pairs.
    kernels : Kernels
        From ``degeneracy.kernels`` on n signals and one other, (n_depths, n, 1).
    axes : two matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    two matplotlib Axes
        FFNet and ResNet.

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
    >>> found = degeneracy.kernels(X, x, depths=(1, 10))
    >>> axes = plots.kernels_over_depth(np.cos(angles), found)
    """
    from ..theory.degeneracy import ffnet_limit, resnet_limit

    if axes is None:
        axes = figure((2 * SIZE[0], SIZE[1])).subplots(1, 2, sharey=True)
    sides = (
        (axes[0], "FFNet", kernels.ffnet, ffnet_limit, "limit ¼ (1 at correlation 1)"),
        (axes[1], "ResNet", kernels.resnet, resnet_limit, "limit, one layer"),
    )
    t = np.asarray(t)
    order = np.argsort(t)
    for ax, name, values, limit, label in sides:
        inside = np.linspace(-1, 1 - 1e-9, 400)
        ax.plot(inside, limit(inside), color="0.75", linewidth=6, label=label, zorder=1)
        for k, depth in enumerate(kernels.depths):
            style = {
                "color": COLOURS[k % len(COLOURS)],
                "marker": MARKERS[k % len(MARKERS)],
                "markersize": 3.5,
                "linewidth": 1.3,
                "markevery": (3 * k, max(1, len(t) // 12)),
            }
            ax.plot(
                t[order],
                values[k, order, 0],
                label=f"{depth} layer{'s' if depth > 1 else ''}",
                **style,
            )
        ax.set(xlabel="correlation of the inputs", title=name)
        finish(ax, 3)
    axes[0].set_ylabel("normalized tangent kernel")
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
        A label and distances from the limit, for some pairs. Absolute values are drawn.
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
    for name, sides, colour, line in (
        ("FFNet", ffnet, BLUE, "-"),
        ("ResNet", resnet, VERMILION, "--"),
    ):
        for (label, values), marker in zip(sides.items(), cycle(MARKERS), strict=False):
            style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
            ax.plot(depths, np.abs(values), label=f"{name}, {label}", linewidth=1.2, **style)
    ax.plot(depths, ffnet_rate(depths), ":", color="black", label="(3/8) log L / L")
    ax.plot(depths, 0.1 / depths, "-.", color="black", linewidth=1, label="slope of 1/L")
    ax.set(xscale="log", yscale="log", xlabel="depth L (layers)", ylabel="distance from the limit")
    finish(ax, 2)
    return ax
