"""Pictures over the number of signals: learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..validation import check_choice
from .style import axes, check_drawn, check_named, finish, looks, shown_name

if TYPE_CHECKING:
    from ..theory.learning import LearningCurve


def learning_curve(
    predicted: LearningCurve | Mapping[str, LearningCurve],
    measured: LearningCurve | Mapping[str, LearningCurve] | None = None,
    ax: Any = None,
    title: str | None = None,
) -> Any:
    """Draw learning curves: lines are predicted test errors, markers are measured ones.

    Bars of the markers are two standard errors long to each side. Errors of 0 and of infinity are
    left out.

    Parameters
    ----------
    predicted : LearningCurve, or mapping of str to LearningCurve
        From ``learning.curve`` or ``learning.from_gram``, by name.
    measured : LearningCurve, or mapping of str to LearningCurve, optional
        From ``learning.measure``, by names that `predicted` has too.
    ax : matplotlib Axes, by default those of a new figure; returned
    title : str, optional

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import learning
    >>> curve = learning.curve([1.0, 0.1], [1.0, 1.0], range(1, 9), 0.1, multiplicities=[1, 10])
    >>> ax = plots.learning_curve({"two frequencies": curve})
    """
    lines = predicted if isinstance(predicted, Mapping) else {"predicted": predicted}
    points: Any = measured if isinstance(measured, Mapping) else {next(iter(lines), ""): measured}
    check_named(lines, "predicted", "results of learning.curve or learning.from_gram")
    expected = "a result of learning.curve or learning.from_gram"
    for curve in lines.values():
        check_drawn(curve, "predicted", expected, "rows", "column", "ridge")
    for name, curve in points.items():
        check_choice(name, "measured", lines)
        if curve is not None and not getattr(curve, "draws", 0):
            raise ValueError(f"measured is {curve!r}, expected a result of learning.measure")
    ax = axes(ax)
    for (key, curve), colour, marker, line in looks(lines.items()):
        name, shown = shown_name(key), {"color": colour, "markerfacecolor": "none", "markersize": 5}
        ax.plot(curve.column("n"), _drawn(curve), color=colour, linestyle=line, label=name)
        dots = points.get(key)
        if dots is not None:
            bars = 2 * dots.column("standard_error")
            label = f"{name}, measured" if len(lines) > 1 else "measured"
            ax.errorbar(
                dots.column("n"), _drawn(dots), bars, fmt=marker, elinewidth=1, label=label, **shown
            )
    if not np.isfinite(ax.dataLim.intervaly).all():
        ax.set(xlim=(1, 10), ylim=(0.1, 1))  # nothing is drawn, and axes need some numbers
    ax.set(xscale="log", yscale="log", xlabel="signals in training", ylabel="mean squared error")
    finish(ax, 2, title)
    return ax


def _drawn(curve: Any) -> np.ndarray:
    """Return test errors, NaN where a logarithmic axis has no place for them."""
    errors = curve.column("test_error")
    return np.where((errors > 0) & np.isfinite(errors), errors, np.nan)
