"""The picture of the tangent kernels of very deep networks (theory/degeneracy.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .style import SIZE, figure, finish, looks

if TYPE_CHECKING:
    from ..theory.degeneracy import KernelsOverDepth


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
        for (k, depth), colour, marker, _ in looks(enumerate(kernels.depths)):
            style = {
                "color": colour,
                "marker": marker,
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
