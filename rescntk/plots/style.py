"""Size, colours, markers, lines and the plain look of all pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from ..checks.messages import shown
from .colours import BLUE, COLOURS, GREEN, PURPLE, VERMILION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "COLOURS",
    "GREEN",
    "LINES",
    "MARKERS",
    "PURPLE",
    "FIGURE_SIZE",
    "TITLE_WIDTH",
    "VERMILION",
    "axes",
    "check_attributes",
    "figure",
    "add_title_and_legend",
    "style_cycle",
    "label_curves",
    "display_name",
    "style_axes",
    "wrap_words",
]

T = TypeVar("T")

LineStyle: TypeAlias = str | tuple[int, tuple[int, ...]]

FIGURE_SIZE = (6.4, 5.0)
"""Width and height of a picture, in inches."""

_NAME_ENDS = 18, 9
"""Characters at both ends of a long name that a picture keeps. Raising them takes room: a figure's
memory grows with the square of the longest label of an axis."""

MARKERS = "osD^vP"  # in grey, markers and lines differ
LINES: tuple[LineStyle, ...] = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 3)), (0, (1, 1)))


def style_cycle(items: Iterable[T]) -> Iterator[tuple[T, str, str, LineStyle]]:
    """Yield each item with a colour, a marker and a line style."""
    yield from zip(items, cycle(COLOURS), cycle(MARKERS), cycle(LINES))


def add_title_and_legend(
    ax: Axes, columns: int, title: str | None = None, entries: Sequence[Artist] | None = None
) -> None:
    """Draw a title, a light grid, no frame, and the legend in `columns` columns below the axes.

    `entries` are artists of the legend, by default all with a label.
    """
    if title is not None:
        ax.set_title(title, fontsize="medium")
    ax.xaxis.set_major_formatter("{x:g}")
    style_axes(ax)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
    ax.legend(handles=entries, fontsize="small", frameon=False, ncols=columns, **place)


def style_axes(ax: Axes) -> None:
    """Draw a light grid, and no frame above and to the right."""
    ax.grid(True, linewidth=0.4, alpha=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def label_curves(
    ax: Axes, names: Iterable[tuple[np.ndarray, np.ndarray, str, str]], gap: float
) -> None:
    """Write names at the right of the axes, each with a line to the end (x, y) of its curve.

    `names` have x, y, text and colour; x and y are empty where a curve has no point. Texts are a
    share `gap` of the axes' height apart.
    """
    to_axes = ax.transData + ax.transAxes.inverted()
    ends = [
        (to_axes.transform(np.c_[x, y])[:, 1], x, y, text, colour) for x, y, text, colour in names
    ]
    ends.sort(key=lambda end: -end[0].sum())
    places = np.array([end[0].sum() for end in ends])
    for k in range(1, len(places)):
        places[k] = min(places[k], places[k - 1] - gap)
    for k in range(len(places) - 1, -1, -1):
        places[k] = max(places[k], places[k + 1] + gap if k + 1 < len(places) else 0.04)
    for (_, x, y, text, colour), place in zip(ends, places, strict=True):
        ax.text(
            1.06,
            place,
            text,
            transform=ax.transAxes,
            color=colour,
            fontsize="small",
            va="center",
            linespacing=1.2,
        )
        for end in zip(x, y, strict=True):
            line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.7}
            ax.annotate("", (1.05, place), end, "axes fraction", "data", arrowprops=line)


TITLE_WIDTH = 92
"""Maximum number of characters of a line above a panel of 7 inches. Raising it cuts titles at the
edges."""


def display_name(name: object) -> str:
    r"""Return the name of a class or a file for a picture: one short line, and no formula.

    Names may have any characters. `$` becomes `\$`, which matplotlib draws as `$`.
    """
    text = " ".join(str(name).encode("utf-8", "backslashreplace").decode().split())
    first, last = _NAME_ENDS
    if len(text) > first + last + 1:
        text = f"{text[:first].rstrip()}…{text[-last:].lstrip()}"
    return text.replace("$", r"\$")


def wrap_words(words: str, width: int) -> str:
    """Return words in lines of at most `width` characters, where words are no longer."""
    return textwrap.fill(words, width, break_on_hyphens=False)


def axes(ax: Axes | None = None, size: tuple[float, float] = FIGURE_SIZE) -> Axes:
    """Return the axes `ax`, or the axes of a new figure of a size in inches."""
    if ax is None:
        return figure(size).subplots()
    return check_attributes(ax, "ax", "matplotlib Axes, or None for a new figure", "transAxes")


def check_attributes(value: T, name: str, expected: str, *attributes: str) -> T:
    """Return an argument that has the expected `attributes`."""
    if not all(hasattr(value, attribute) for attribute in attributes):
        raise ValueError(f"{name} is {shown(value)}, expected {expected}")
    return value


def figure(size: tuple[float, float]) -> Figure:
    """Return a new figure, without an interactive backend.

    Its axes have the colours of `rescntk.plots`, and no frame above and to the right.

    Parameters
    ----------
    size : tuple of float
        Width and height in inches.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from rescntk import plots
    >>> plots.figure((4, 3)).axes
    []
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        from .styled import StyledFigure
    except ModuleNotFoundError:
        raise ImportError("pictures need matplotlib: pip install 'rescntk[plot]'") from None
    drawn = StyledFigure(figsize=size, layout="constrained", dpi=150)
    FigureCanvasAgg(drawn)
    return drawn
