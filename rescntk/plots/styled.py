"""The figure of all pictures: it needs matplotlib, so that style.py imports it when it draws."""

from __future__ import annotations

from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from .colours import COLOURS

AXES_STYLE = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
}
"""Settings of matplotlib for axes. Axes read them when they are made."""


class StyledFigure(Figure):
    """A figure whose axes have the colours of `rescntk.plots`, whatever matplotlib is set to."""

    def add_subplot(self, *args: Any, **options: Any) -> Axes:
        """Add axes as matplotlib does, with `AXES_STYLE`."""
        with rc_context(AXES_STYLE):
            return super().add_subplot(*args, **options)
