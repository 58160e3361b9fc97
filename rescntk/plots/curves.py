"""Pictures over the number of signals: learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..checks.messages import shown
from .style import add_title_and_legend, axes, check_attributes, display_name, style_cycle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..theory.learning import LearningCurve


def learning_curve(
    predicted: LearningCurve | Mapping[str, LearningCurve],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw learning curves: lines are predicted test errors.

    Errors of 0 and of infinity are left out.

    Parameters
    ----------
    predicted : LearningCurve, or mapping of str to LearningCurve
        From ``learning.curve`` or ``learning.pool_curve``, by name.
    ax : matplotlib Axes, optional
        The default is axes of a new figure.
    title : str, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `predicted` has no learning curve.

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import learning
    >>> curve = learning.curve([1.0, 0.1], [1.0, 1.0], range(1, 9), 0.1, multiplicities=[1, 10])
    >>> ax = plots.learning_curve({"two frequencies": curve})
    """
    lines = predicted if isinstance(predicted, Mapping) else {"predicted": predicted}
    expected = "a result of learning.curve or learning.pool_curve"
    if not lines:
        raise ValueError(
            f"predicted is {shown(lines)}, expected {expected}, or a mapping of names to them"
        )
    for curve in lines.values():
        check_attributes(getattr(curve, "rows", (curve,))[0], "predicted", expected, "test_error")
    ax = axes(ax)
    for (key, curve), colour, _, line in style_cycle(lines.items()):
        errors = curve.column("test_error")  # a logarithmic axis has no place for 0
        errors = np.where((errors > 0) & np.isfinite(errors), errors, np.nan)
        name = display_name(key)
        ax.plot(curve.column("n"), errors, color=colour, linestyle=line, label=name)
    if not np.isfinite(ax.dataLim.intervaly).all():
        ax.set(xlim=(1, 10), ylim=(0.1, 1))  # nothing is drawn, and axes need some numbers
    ax.set(xscale="log", yscale="log", xlabel="signals in training", ylabel="mean squared error")
    add_title_and_legend(ax, 2, title)
    return ax
