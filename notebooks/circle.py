"""Functions on the circle, drawn; one colour and line for each system of Tirer et al. (2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rescntk.plots.style import BLUE, GREEN, PURPLE, VERMILION, add_title_and_legend, axes

STYLES: dict[str, tuple[str, Any]] = {
    "MLP": (VERMILION, "--"),
    "ResNet, α = 1": (GREEN, "-."),
    "ResNet, α = 0.1": (BLUE, "-"),
    "ResNet, α = 0.01": (PURPLE, (0, (3, 1, 1, 1, 1, 1))),
    "Gaussian": ("black", ":"),
}


def target(angles: np.ndarray) -> np.ndarray:
    """Return the function that the paper samples, ½ cos β + sin 4β (C.1), at angles in radians."""
    return 0.5 * np.cos(angles) + np.sin(4.0 * np.asarray(angles))


def functions_on_circle(
    functions: Mapping[str, np.ndarray],
    angles: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    ax: Any = None,
    styles: Mapping[str, tuple[str, Any]] = STYLES,
) -> Any:
    """Draw functions, samples on ``smoothness.grid``, once around the circle, and given points.

    Labels begin with a name in `styles`, of colours and lines; a colon may follow.
    """
    ax = axes(ax)
    for label, values in functions.items():
        colour, line = styles[label.partition(":")[0]]
        turns = np.linspace(-1, 1, len(values) + 1)  # both ends
        ax.plot(turns, np.append(values, values[0]), color=colour, linestyle=line, label=label)
    if angles is not None and targets is not None:
        turns = (np.asarray(angles) / np.pi + 1) % 2 - 1
        ax.plot(turns, targets, "ko", markersize=5, label="given", zorder=5)
    ax.set(xlabel="angle / π", ylabel="value")
    add_title_and_legend(ax, 2)
    return ax
