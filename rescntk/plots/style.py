"""Size, colours, markers and the plain look of all pictures."""

from __future__ import annotations

from typing import Any

SIZE = (6.4, 5.0)
"""Width and height of a picture, in inches."""

# Colours of Okabe and Ito, distinct for colour-blind readers. In grey, markers and lines differ.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, "#56B4E9", "#E69F00")
MARKERS = "osD^vP"


def finish(ax: Any, columns: int) -> None:
    """Draw a light grid, no frame, and the legend in `columns` columns below the axes."""
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(True, which="major", linewidth=0.4, alpha=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
    ax.legend(fontsize="small", frameon=False, ncols=columns, **place)


def axes(ax: Any = None, size: tuple[float, float] = SIZE) -> Any:
    """Return the axes `ax`, or the axes of a new figure of a size in inches."""
    return figure(size).subplots() if ax is None else ax


def figure(size: tuple[float, float]) -> Any:
    """Return a new figure of a size in inches, without an interactive backend.

    Parameters
    ----------
    size : (float, float)
        Width and height in inches.

    Examples
    --------
    >>> from rescntk import plots
    >>> plots.figure((4, 3)).axes
    []
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ImportError("pictures need matplotlib: pip install 'rescntk[plot]'") from None
    drawn = Figure(figsize=size, layout="constrained", dpi=150)
    FigureCanvasAgg(drawn)
    return drawn
