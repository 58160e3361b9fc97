"""Pictures of the estimators of rescntk.learn: weights of views, contributions to decisions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..checks.messages import shown
from ..checks.values import check_flag, check_integer, check_real
from .style import (
    BLUE,
    TITLE_WIDTH,
    VERMILION,
    axes,
    check_attributes,
    display_name,
    figure,
    style_axes,
    wrap_words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection


class HasViews(Protocol):
    """A fitted classifier or regressor of `rescntk.learn`, or another with its table of views."""

    views_: dict[str, np.ndarray]


class HasContributions(Protocol):
    """A fitted classifier or regressor of `rescntk.learn`, or another with contributions.

    It may have `classes_` and ``median_contributions`` too.
    """

    intercept_: np.ndarray

    def contributions(self, X: Any) -> Iterable[np.ndarray]:
        """Return contributions of time points, (n_outputs, n_timepoints) of each signal."""


_TICK_CHARACTERS = 80
"""Characters of a time axis of 7 inches that names of time points may take."""

_FITTED = "a fitted ResidualKernelClassifier or ResidualKernelRegressor"


def view_weights(model: HasViews, ax: Axes | None = None) -> Axes:
    """Draw the weight of each view as a bar, the largest on top, with its leave-one-out error.

    Parameters
    ----------
    model : ResidualKernelClassifier or ResidualKernelRegressor
        Fitted. Views of weight 0 are not drawn.
    ax : matplotlib Axes, optional
        The default is those of a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For a model that is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.learn import ResidualKernelRegressor, View
    >>> X = np.random.default_rng(0).standard_normal((20, 1, 16))
    >>> model = ResidualKernelRegressor([View(time=1.0)]).fit(X, X[:, 0, :4].sum(axis=1))
    >>> [label.get_text() for label in plots.view_weights(model).get_yticklabels()]
    ['View(time=1.0)']
    """
    table = check_attributes(model, "model", _FITTED, "views_").views_
    order = np.argsort(-table["weight"], kind="stable")[: np.count_nonzero(table["weight"])]
    places, weights = np.arange(len(order)), table["weight"][order]
    ax = axes(ax, (6.4, 0.8 + 0.5 * len(order)))
    bars = ax.barh(places, weights, color=BLUE, height=0.4)
    ax.bar_label(bars, [f"error {error:.3g}" for error in table["error"][order]], padding=4)
    ax.set(xlabel="weight of a view", xlim=(0, 1.3 * weights.max()), ylim=(len(order) - 0.6, -0.8))
    names = [" ".join(repr(view).split()) for view in table["view"][order]]
    ax.set_yticks(places - 0.4, names, ha="left")  # a view's name is above its bar
    ax.tick_params(axis="y", length=0, pad=-4)
    return ax


def contributions(
    model: HasContributions,
    X: ArrayLike,
    output: Hashable = None,
    y: ArrayLike | None = None,
    subtract_median: bool = True,
) -> np.ndarray:
    """Draw signals, coloured by the contribution of each time point to a decision.

    Median contributions are subtracted, where the model knows them (``median_contributions``): 0,
    in grey, is the median. Orange time points speak for the class or raise the prediction, more
    than the median does; blue ones speak against it, or lower it. The colours of
    all signals have one scale. Each channel has axes of its own, all with the signal's colours.
    Titles have the predicted class, the decision, the sum of the drawn contributions, and
    "usual": the sum of the intercept and of the median contributions.

    Parameters
    ----------
    model : ResidualKernelClassifier or ResidualKernelRegressor
        Fitted.
    X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), or a list
        Signals, as for the model; or pandas' tables with names of channels: a list of tables
        (n_timepoints, n_channels), or one whose columns have two levels, channel and time point.
        Tables name the time points of the axis.
    output : label or int, optional
        The class, by its label, or the index of a target. The default is the class with the
        greatest decision, of two classes the second one, or the first target.
    y : array-like, (n_cases,) or (n_cases, n_targets), optional
        True classes or targets, which the titles have too.
    subtract_median : bool, default True
        Whether ``median_contributions`` are subtracted.

    Returns
    -------
    ndarray of matplotlib Axes, (n_cases,)
        Of several channels (n_cases, n_channels).

    Raises
    ------
    ValueError
        For a model that is not fitted, signals that it refuses, an output that it does not have,
        and `y` of another shape.

    See Also
    --------
    rescntk.pixel_shares : Contributions of time points to a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.learn import ResidualKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((20, 1, 16))
    >>> model = ResidualKernelRegressor(views="fast").fit(X, X[:, 0, :4].mean(axis=1))
    >>> plots.contributions(model, X[:3]).shape
    (3,)
    """
    check_attributes(model, "model", _FITTED, "contributions")
    check_flag(subtract_median, "subtract_median")
    data, channels, times = _signals_and_names(X)
    intercepts = np.asarray(model.intercept_)
    outputs = len(intercepts)
    classes = getattr(model, "classes_", None)
    names = None if classes is None else [display_name(label) for label in classes]
    column, sign = _column_of(output, classes, outputs)
    truths = None if y is None else _check_truths(y, len(data), names, outputs)
    all_contributions = [sign * of_signal for of_signal in model.contributions(data)]
    intercepts = sign * intercepts
    if names is not None and sign < 0:
        names = names[::-1]
    decisions = [of_signal.sum(axis=1) + intercepts for of_signal in all_contributions]
    centre = getattr(model, "median_contributions", lambda: None)() if subtract_median else None
    if centre is not None:
        all_contributions = [of_signal - sign * centre for of_signal in all_contributions]
        intercepts = intercepts + sign * centre.sum(axis=1)
    single = names is None or outputs == 1
    columns = [(0 if single else int(d.argmax())) if column is None else column for d in decisions]
    output_contributions = [
        of_signal[k] for of_signal, k in zip(all_contributions, columns, strict=True)
    ]
    most = max(abs(contribution).max() for contribution in output_contributions)
    rows = np.asarray(data) if hasattr(data, "columns") else data  # rows of a table are signals
    signals = [np.atleast_2d(np.asarray(x)) for x in rows]
    n_channels = len(signals[0])
    height = len(signals) * (1.5 if n_channels == 1 else 0.3 + 0.7 * n_channels)
    drawing = figure((7.0, max(2.6, 0.6 + height)))
    panels = drawing.subplots(len(signals) * n_channels, squeeze=False).reshape(-1, n_channels)
    _name_channels(panels, channels)
    drawn = zip(panels, signals, output_contributions, columns, decisions, strict=True)
    width = TITLE_WIDTH if n_channels == 1 else TITLE_WIDTH - 16  # names of channels take room
    begin = "intercept" if centre is None else "usual"
    for case, (row, x, contribution, k, decision) in enumerate(drawn):
        coloured = [
            _draw_coloured_line(*pair, contribution, most) for pair in zip(row, x, strict=True)
        ]
        start = intercepts[k] if abs(intercepts[k]) > 5e-4 * abs(decision[k]) else 0.0
        terms = f"{_three_digits(decision[k])} = contributions {_three_digits(contribution.sum())}"
        words = f"{_title_start(names, decision, k)} {terms} + {begin} {_three_digits(start)}"
        if truths is not None:
            words = f"true {_truth(truths[case], names, k)}, {words}"
        row[0].set_title(wrap_words(words, width), fontsize="small")
    _name_time_points(panels, times)
    label = _colour_bar_label(names, single, centre is not None, 13 + int(17 * height / 1.5))
    everywhere = list(panels.ravel())
    drawing.colorbar(coloured[-1], ax=everywhere, label=label, fraction=0.04, aspect=10 * height)
    drawing.align_ylabels(panels.ravel())
    return panels[:, 0] if n_channels == 1 else panels


def _column_of(
    output: Hashable, classes: Sequence[Hashable] | None, outputs: int
) -> tuple[int | None, int]:
    """Return the column of a label or of a target, None for the default; and the decisions' sign.

    Two classes have one column, which speaks for the second class.
    """
    if output is None:
        return None, 1
    if classes is None:
        if not -outputs <= check_integer(output, "output") < outputs:
            raise ValueError(f"output is {shown(output)}, expected an integer below {outputs}")
        return int(output), 1  # type: ignore[call-overload]
    places = [
        k for k, label in enumerate(classes) if isinstance(output, Hashable) and label == output
    ]
    if not places:
        labels = np.asarray(list(classes)).tolist()
        raise ValueError(f"output is {shown(output)}, expected one of {shown(labels)}")
    return (places[0], 1) if outputs > 1 else (0, 2 * places[0] - 1)


def _check_truths(y: ArrayLike, n: int, names: list[str] | None, outputs: int) -> np.ndarray:
    """Return true labels, (n, 1), or targets, (n, outputs)."""
    targets = outputs if names is None else 1
    shape = f"({n}, {targets})" if targets > 1 else f"({n},)"
    y = check_real(y, "y", shape) if names is None else np.asarray(y)
    if y.shape not in [(n, targets), *[(n,)] * (targets == 1)]:
        raise ValueError(f"y has shape {y.shape}, expected {shape}: one for each signal")
    return np.asarray(y.reshape(n, targets))


def _name_channels(panels: np.ndarray, channels: list[Hashable] | None) -> None:
    """Name the channels of axes (n_cases, n_channels), if there are several or they have names."""
    n_channels = panels.shape[1]
    if channels is None and n_channels > 1:
        channels = [f"channel {k}" for k in range(n_channels)]
    style = {"rotation": 0, "ha": "right", "va": "center", "fontsize": "small"}
    for row in panels:
        for ax, name in zip(row, channels or (), strict=channels is not None):
            ax.set_ylabel(wrap_words(display_name(name), 12), **style)
        for ax in row[:-1]:
            ax.tick_params(labelbottom=False)


def _draw_coloured_line(
    ax: Axes, channel: np.ndarray, contribution: np.ndarray, most: float
) -> LineCollection:
    """Draw a channel, (n_timepoints,), and return the line with its colours, from -most to most.

    The colour of a time point reaches half of the way to its neighbours.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("contribution", [BLUE, "#B8B8B8", VERMILION])
    n = len(contribution)
    places = np.repeat(np.arange(2 * n - 1) / 2, 2)[1:-1].reshape(-1, 2)
    heights = np.interp(places, np.arange(n), channel)
    segments = list(np.stack([places, heights], axis=2))
    line = LineCollection(segments, cmap=colours, linewidth=2.0, capstyle="round")
    line.set_array(contribution[np.round(places.mean(axis=1)).astype(int)])
    line.set_clim(-most, most)
    ax.add_collection(line)
    ax.autoscale_view()
    style_axes(ax)
    return line


def _title_start(names: list[str] | None, decision: np.ndarray, k: int) -> str:
    """Return the start of a title: the predicted class, and which decision follows."""
    if names is None:
        return "prediction"
    single = len(decision) == 1
    best = int(decision[0] > 0) if single else int(decision.argmax())
    return f"predicted {names[best]}: decision for class {names[-1 if single else k]}:"


def _truth(truths: np.ndarray, names: list[str] | None, k: int) -> str:
    """Return a signal's class, or its target `k`, as titles have it."""
    return _three_digits(truths[k]) if names is None else display_name(truths[0])


def _three_digits(number: float) -> str:
    """Return a number as titles have it."""
    return f"{number:.3g}".replace("-", "−")


def _colour_bar_label(
    names: list[str] | None, single: bool, subtract_median: bool, width: int
) -> str:
    """Return the text beside the colours, in lines of a width."""
    absolute = f"contribution to the {'prediction' if names is None else 'decision'}"
    label = "contribution minus a usual signal's" if subtract_median else absolute
    label = wrap_words(label, width)
    if names is not None and single:
        label += "\n" + wrap_words(f"blue: class {names[0]}, orange: class {names[1]}", width)
    return label


def _signals_and_names(X: Any) -> tuple[Any, list[Hashable] | None, list[Any] | None]:
    """Return signals, and the names of their channels and time points where tables have some.

    Names of time points are a list or an index of pandas for each signal.
    """
    columns: Any = getattr(X, "columns", None)
    if getattr(columns, "nlevels", 1) == 2:
        names = list(dict.fromkeys(columns.get_level_values(0)))
        flat, n_timepoints = X.to_numpy(), len(columns) // len(names)
        if list(columns.get_level_values(0)) != [
            name for name in names for _ in range(n_timepoints)
        ]:
            raise ValueError(
                "X has columns of channels of different lengths or in turn, expected one channel "
                "after the other: give X.sort_index(axis=1)"
            )
        parts = [
            columns.get_level_values(1)[k : k + n_timepoints]
            for k in range(0, len(columns), n_timepoints)
        ]
        times = [parts[0]] * len(flat) if all(list(t) == list(parts[0]) for t in parts) else None
        return flat.reshape(len(flat), len(names), n_timepoints), names, times
    if isinstance(X, (list, tuple)) and X and all(hasattr(x, "columns") for x in X):
        names = list(X[0].columns)
        if any(list(x.columns) != names for x in X):
            raise ValueError("X has tables of different columns, expected the same channels in all")
        times = [x.index for x in X] if all(hasattr(x, "index") for x in X) else None
        return [x.to_numpy().T for x in X], names, times
    return X, None, None if columns is None else [columns] * len(X)


def _name_time_points(panels: np.ndarray, times: list[Any] | None) -> None:
    """Name the time axes of panels (n_cases, n_channels); each signal has names of its own."""
    from matplotlib.ticker import MaxNLocator

    for row, names in zip(panels, times or (), strict=times is not None):
        texts = [display_name(f"{t:.12g}" if isinstance(t, float) else t) for t in names]
        at_most = max(2, min(9, _TICK_CHARACTERS // (2 + max(map(len, texts)))))
        for ax in row:
            ax.xaxis.set_major_locator(MaxNLocator(at_most, integer=True))
            ax.xaxis.set_major_formatter(partial(_tick_label, texts))
    label = getattr(times[-1], "name", None) if times else None
    panels[-1, -1].set_xlabel("time point" if label is None else display_name(label))


def _tick_label(texts: list[str], place: float, _: int) -> str:
    """Return the name of a time point, and nothing beyond the ends."""
    k = round(place)
    return texts[k] if 0 <= k < len(texts) and abs(k - place) < 1e-9 else ""
