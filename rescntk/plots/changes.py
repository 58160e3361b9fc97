"""Pictures of signals that are not training signals: learned signals, and changed signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..validation import check_integer
from .style import (
    BLUE,
    COLOURS,
    TITLE,
    VERMILION,
    check_drawn,
    figure,
    lines,
    read_by,
    shown_answer,
    shown_name,
    tidy,
)

_GREY = "#8C8C8C"


def learned_signals(learned: Any, classes: Any = None, columns: int = 3) -> Any:
    """Draw learned signals, each with its weight.

    Each signal has a panel. The title names the output of largest coefficient: the class for which
    the signal speaks most. The weight is this coefficient, divided by the largest magnitude of all:
    kernels of most signals are nearly equal, so that coefficients are large and nearly cancel.

    Parameters
    ----------
    learned : LearnedSignals
        The result of `rescntk.regression.learn_signals`.
    classes : array-like, (n_outputs,), optional
        Names of the outputs; the panels are sorted by them. For one output of targets ±1, the
        names of the targets −1 and 1, (2,).
    columns : int, default 3
        Panels side by side.

    Returns
    -------
    ndarray of matplotlib Axes, (n_signals,)

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import plots
    >>> X, y = np.random.default_rng(0).standard_normal((20, 1, 8)), np.arange(20) % 2 * 2.0 - 1
    >>> kernel = rk.ResCNTK(2, normalized=True)
    >>> learned = rk.regression.learn_signals(kernel, X, y, 4, max_iterations=2)
    >>> plots.learned_signals(learned, classes=["even", "odd"]).shape
    (4,)
    """
    check_drawn(learned, "learned", "the result of learn_signals", "signals", "coefficients")
    width = check_integer(columns, "columns", at_least=1)
    signals, W = list(learned.signals), np.asarray(learned.coefficients)
    W = W.reshape(len(signals), -1)
    names = None if classes is None else [shown_name(name) for name in classes]
    signed = W.shape[1] == 1
    if names is not None and len(names) != (2 if signed else W.shape[1]):
        raise ValueError(
            f"classes has {len(names)} names, expected {2 if signed else W.shape[1]} for "
            f"coefficients of shape {learned.coefficients.shape}"
        )
    top = (W[:, 0] > 0).astype(int) if signed else W.argmax(axis=1)
    order = np.arange(len(W)) if names is None else np.argsort(top, kind="stable")
    rows = -(-len(signals) // width)
    panels = figure((2.6 * width, 0.4 + 1.7 * rows)).subplots(rows, width, squeeze=False).ravel()
    for place, (ax, k) in enumerate(zip(panels, order, strict=False)):
        output = 0 if signed else top[k]
        weight = W[k, output] / (np.abs(W).max() or 1.0)
        words = f"weight {weight:.2f}".replace("-", "−")
        if names is not None:
            words = f"for class {names[top[k]]}, weight {abs(weight):.2f}"
        ax.set_title(lines(words, TITLE * 2 // 5), fontsize="small")
        _draw(ax, signals[k], COLOURS[top[k] % len(COLOURS)])
        ax.set_xlabel("time point" if place + width >= len(signals) else None)
        ax.set_ylabel("value" if place % width == 0 else None)
    for ax in panels[len(signals) :]:
        ax.remove()
    return panels[: len(signals)]


def counterfactual(model: Any, X: Any, target: Any = None, **options: Any) -> Any:
    """Draw signals, the nearest signals found of another class, and where they differ.

    A signal is grey, its changed signal orange, and the area between them is shaded. Where none was
    found, only the signal is drawn, and the title says so.

    Parameters
    ----------
    model : ResidualKernelClassifier or ResidualKernelRegressor
        Fitted.
    X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), or a list
        Signals, as for the model. Each has a panel for each channel.
    target, **options
        As for ``model.counterfactual``; a regressor needs a target.

    Returns
    -------
    ndarray of matplotlib Axes, (n_cases, n_channels)

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.learn import ResidualKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((20, 1, 16))
    >>> model = ResidualKernelRegressor(effort="fast", kind="gpk").fit(X, X[:, 0, :4].mean(axis=1))
    >>> plots.counterfactual(model, X[:2], X[2:4, 0, :4].mean(axis=1)).shape
    (2, 1)
    """
    if isinstance(getattr(model, "n_timepoints_", None), tuple):
        raise ValueError("X has images, expected signals: model.counterfactual changes images")
    expected = "a fitted ResidualKernelClassifier or ResidualKernelRegressor"
    check_drawn(model, "model", expected, "counterfactual")
    X = read_by(model, X)
    arguments = (X,) if target is None else (X, target)
    changed, before = model.counterfactual(*arguments, **options), model.predict(X)
    signals = [np.atleast_2d(np.asarray(x)) for x in X]
    n_channels = len(signals[0])
    drawn = figure((1.5 + 4.0 * n_channels, 0.6 + 1.7 * len(signals)))
    panels = drawn.subplots(len(signals), n_channels, squeeze=False)
    is_classifier = hasattr(model, "classes_")
    for k, (row, x) in enumerate(zip(panels, signals, strict=True)):
        for channel, ax in enumerate(row):
            points = np.arange(x.shape[1])
            ax.plot(points, x[channel], color=_GREY, linewidth=1.4, label="signal")
            if changed.found[k]:
                values = np.atleast_2d(changed.signals[k])[channel]
                ax.fill_between(points, x[channel], values, color=VERMILION, alpha=0.2, linewidth=0)
                ax.plot(points, values, color=VERMILION, linewidth=1.4, label="changed signal")
            tidy(ax)
        old, new = np.ravel(before[k])[0], changed.targets[k]
        names = [shown_answer(answer, is_classifier) for answer in (old, new)]
        words = f"{'class ' * is_classifier}{' → '.join(names)}"
        end = f"distance {changed.distances[k]:.2g}" if changed.found[k] else "none found"
        if is_classifier and changed.found[k]:
            end = f"probability {changed.answers[k]:.2f}, {end}"
        title = lines(f"{words}: {end.replace('-', '−')}", TITLE * 2 // 3 * n_channels)
        row[0].set_title(title, fontsize="small", loc="left")
    for ax in panels[-1]:
        ax.set_xlabel("time point")
    panels[0, -1].legend(fontsize="small", frameon=False)
    return panels


def _draw(ax: Any, signal: np.ndarray, colour: str = BLUE) -> None:
    """Draw the channels of a signal as lines of one colour, or the first channel of an image."""
    if signal.ndim == 3:
        ax.imshow(signal[0], cmap="gray")
        ax.set_axis_off()
        return
    shades = np.linspace(1.0, 0.35, len(signal))
    for channel, shade in zip(signal, shades, strict=True):
        ax.plot(channel, color=colour, alpha=shade, linewidth=1.2)
    tidy(ax)
