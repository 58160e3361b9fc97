"""`report`: a page about a model's answers to labelled signals, for those who decide on its use."""

from __future__ import annotations

import base64
import io
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import ConfusionMatrixDisplay, precision_recall_fscore_support, r2_score
from sklearn.utils.validation import check_is_fitted

from .. import plots
from .._version import __version__
from ..arrays import Array
from ..plots.style import BLUE, GREEN, VERMILION, shown_name, tidy
from ..progress import encodable
from ..validation import check_targets
from .calibration import NOVEL
from .classifier import ResidualKernelClassifier
from .inputs import read_signals
from .regressor import ResidualKernelRegressor
from .views import take

_SHOWN = 6
"""Signals drawn in a figure. Raising it makes the page longer."""

_BINS = 10
"""Bins of a calibration curve. More bins show more detail, and have fewer signals each."""

_LEAST_IN_BIN = 5
"""Signals that a bin has at least. Raising it makes fewer bins, with shorter error bars."""

_NUMBERED = 40
"""Most classes whose confusion matrix has numbers in its cells. Raising it takes time with its
square, and numbers of more classes overlap."""

_COVERAGE = 0.9
"""The coverage of the intervals that are drawn and checked."""


class Section(NamedTuple):
    """A part of the page: a heading, a text, and a table or a picture."""

    title: str
    text: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    picture: str = ""
    """A PNG file in base64."""
    wide: bool = False
    """Whether a narrow screen scrolls the picture, and does not shrink it."""


def report(model: Any, X: Array, y: Array, title: str | None = None) -> str:
    """Return a page in HTML about a fitted model's answers to labelled signals.

    The page is one file without scripts, which opens in any browser. It has the accuracy with its
    uncertainty, the confusion matrix and the calibration. Wrong answers have the shares of their
    time points. Then come the most novel signals, the drift of channels, and the passes. For a
    regressor it has errors, predictions with intervals and their coverage. The package jinja2 is
    required.

    Parameters
    ----------
    model : ResidualKernelClassifier or ResidualKernelRegressor
        Fitted.
    X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), or a list
        Signals that the model was not fitted to, as for ``model.predict``.
    y : array, (n_cases,)
        Their labels; for a regressor their targets, (n_cases,) or (n_cases, n_targets).
    title : str, optional
        Heading of the page. The default is the name of the model's class.

    Raises
    ------
    ValueError
        If X or y are not as described.

    Examples
    --------
    >>> from rescntk.datasets import load_labelled
    >>> from rescntk.learn import ResidualKernelClassifier, report
    >>> X, y = load_labelled("GunPoint")
    >>> model = ResidualKernelClassifier(effort="fast").fit(X[::2], y[::2])
    >>> report(model, X[1::2], y[1::2]).startswith("<!doctype html>")
    True
    """
    template = _template()
    if not isinstance(model, ResidualKernelClassifier | ResidualKernelRegressor):
        raise ValueError(
            f"model is {type(model).__name__}, expected a fitted ResidualKernelClassifier or "
            "ResidualKernelRegressor"
        )
    check_is_fitted(model)
    truth = np.asarray(y)
    X = read_signals(model, X, reset=False, n_channels=model.n_channels, images=True)
    answers: Any = model._answers(X)
    tell = _classes
    if truth.shape != answers[0].shape:
        raise ValueError(
            f"y has shape {truth.shape}, expected {answers[0].shape}: one for each signal"
        )
    if isinstance(model, ResidualKernelRegressor):
        truth, tell = check_targets(truth, len(X)), _values
    sections, worst = tell(model, truth, answers)
    sections += [_shares(model, X, truth, worst[:_SHOWN]), _novel(X, answers[2])]
    sections += [_drift(model, X), _passes(model)]
    name = type(model).__name__
    about = {"title": title or name, "model": name, "version": __version__, "n": len(truth)}
    return encodable(template.render(about, sections=sections))


def _template() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError:
        raise ImportError("reports need jinja2: pip install 'rescntk[report]'") from None
    text = files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(text)


def _picture(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return base64.b64encode(file.getvalue()).decode()


# -- a classifier


def _classes(
    model: Any, y: np.ndarray, answers: tuple[np.ndarray, ...]
) -> tuple[list[Section], np.ndarray]:
    """Return the sections about classes, and the wrong answers, the most certain first."""
    labels, chance, novelty = answers
    if y.dtype.kind != labels.dtype.kind and {y.dtype.kind, labels.dtype.kind} & set("UO"):
        y, labels = y.astype(str), labels.astype(str)  # the text "1" is the label 1
    right = labels == y
    low, high = binomtest(int(right.sum()), len(y)).proportion_ci(method="wilson")
    classes = np.union1d(model.classes_.astype(labels.dtype), y)
    measures = precision_recall_fscore_support(y, labels, labels=classes, zero_division=np.nan)
    summary = (
        ("accuracy", f"{right.mean():.3f}", f"95 % interval {low:.3f} to {high:.3f}"),
        ("balanced accuracy", f"{np.nanmean(measures[1]):.3f}", "mean over classes"),
        ("accuracy expected when fitted", _plus_minus(model), "signals left out"),
        ("mean probability of the answers", f"{chance.mean():.3f}", "the accuracy, if calibrated"),
        _novelty_row(novelty),
    )
    sections = [Section("Summary", "", ("quantity", "value", "note"), summary)]
    size = min(2.5 + 0.45 * len(classes), 9.0)
    figure = plots.figure((size + 1.0, size))
    ConfusionMatrixDisplay.from_predictions(
        y,
        labels,
        labels=classes,
        display_labels=[shown_name(name) for name in classes],
        include_values=len(classes) <= _NUMBERED,
        ax=figure.subplots(),
        cmap="Blues",
        xticks_rotation="vertical",
    )
    rows = tuple(
        (label, int(count), _share(recall), _share(precision))
        for label, precision, recall, _, count in zip(classes, *measures, strict=True)
    )
    text = "Rows are true classes, columns are answers."
    sections.append(Section("Confusion", text, picture=_picture(figure)))
    head = "class", "signals", "found (recall)", "right when answered (precision)"
    sections += [Section("Classes", "", head, rows), _calibration(right, chance)]
    wrong = np.flatnonzero(~right)
    return sections, wrong[np.argsort(-chance[wrong], kind="stable")]


def _share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _plus_minus(model: Any) -> str:
    return f"{model.best_score_:.3f} ± {model.best_score_error_:.3f}"


def _novelty_row(novelty: np.ndarray) -> tuple[str, str, str]:
    unlike = np.mean(novelty > NOVEL)
    note = f"1 is usual; {unlike:.0%} of the signals are above {NOVEL:g}"
    return "median novelty", f"{np.median(novelty):.2f}", note


def _calibration(right: np.ndarray, chance: np.ndarray) -> Section:
    """Return the observed accuracy over the probability of the answer, in bins of equal counts."""
    n_bins = int(np.clip(len(right) // _LEAST_IN_BIN, 1, _BINS))
    bins = np.array_split(np.argsort(chance, kind="stable"), n_bins)
    means = [chance[cases].mean() for cases in bins]
    shares = np.array([right[cases].mean() for cases in bins])
    counts = [(int(right[cases].sum()), len(cases)) for cases in bins]
    ends = np.array([binomtest(*pair).proportion_ci(method="wilson") for pair in counts])
    figure = plots.figure((5.2, 4.4))
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], "--", color="0.5")
    bars = np.abs(ends.T - shares)
    ax.errorbar(means, shares, bars, fmt="o", color=BLUE, capsize=3)
    ax.set(xlabel="probability of the answer", ylabel="share of right answers", xlim=(0, 1.02))
    tidy(ax)
    text = "Points near the dashed line: probabilities are calibrated. Bars are 95 % intervals."
    return Section("Calibration", text, picture=_picture(figure))


# -- a regressor


def _values(
    model: Any, y: np.ndarray, answers: tuple[np.ndarray, ...]
) -> tuple[list[Section], np.ndarray]:
    """Return the sections about targets, and the signals of the largest errors first."""
    predicted, deviation, novelty = answers
    low, high = model._interval(predicted, deviation, _COVERAGE)
    truth, mean, low, high, spread = (
        np.asarray(each, dtype=np.float64).reshape(len(y), -1)
        for each in (y, predicted, low, high, deviation)
    )
    error = mean - truth
    root, stated = (np.sqrt(np.mean(each**2)) for each in (error, spread))
    uncertain = np.std((error**2).mean(axis=1)) / np.sqrt(len(y)) / (2 * root) if root else 0.0
    score = r2_score(truth, mean) if len(y) > 1 else np.nan
    inside = np.mean((low <= truth) & (truth <= high))
    summary = (
        ("R²", _share(score), f"{_plus_minus(model)} expected when fitted"),
        ("root mean squared error", f"{root:.4g}", f"± {uncertain:.2g}"),
        ("mean absolute error", f"{np.abs(error).mean():.4g}", ""),
        (f"targets inside the {_COVERAGE:.0%} intervals", f"{inside:.1%}", "calibrated if equal"),
        ("mean deviation stated", f"{stated:.4g}", f"error {root:.4g}"),
        _novelty_row(novelty),
    )
    figure = plots.figure((5.6, 4.8))
    ax = figure.subplots()
    ends = [truth.min(), truth.max()]
    ax.plot(ends, ends, "--", color="0.5")
    for k, colour in zip(range(truth.shape[1]), (BLUE, VERMILION, GREEN), strict=False):
        bars = [mean[:, k] - low[:, k], high[:, k] - mean[:, k]]
        style = {"fmt": "o", "color": colour, "markersize": 3, "elinewidth": 0.7, "alpha": 0.7}
        ax.errorbar(truth[:, k], mean[:, k], bars, **style)
    ax.set(xlabel="target", ylabel="prediction")
    tidy(ax)
    text = f"Bars are the {_COVERAGE:.0%} intervals; on the dashed line predictions are right."
    sections = [
        Section("Summary", "", ("quantity", "value", "note"), summary),
        Section("Predictions", text, picture=_picture(figure)),
    ]
    return sections, np.argsort(-np.abs(error / np.maximum(spread, 1e-300)).max(axis=1))


# -- both


def _shares(model: Any, X: Any, y: np.ndarray, worst: np.ndarray) -> Section:
    """Return the worst answers, with the shares of their time points."""
    of_classes = isinstance(model, ResidualKernelClassifier)
    title = "Wrong answers" if of_classes else "Largest errors"
    if not len(worst):
        return Section(title, "No answer is wrong.")
    text = f"Cases {', '.join(map(str, worst))}, counted from 0."
    text += " The surest come first." if of_classes else " Errors are in units of the deviation."
    if isinstance(model.n_timepoints_, tuple):  # images, whose shares are no lines
        return Section(title, text)
    text += " Orange time points raise the decision, blue ones lower it."
    panels = plots.contributions(model, take(X, worst))
    for ax, case in zip(panels, worst, strict=True):
        truth = f"class {shown_name(y[case])}" if of_classes else f"target {np.round(y[case], 4)}"
        ax.set_title(f"case {case} of {truth}; {ax.get_title()}", fontsize="small")
    return Section(title, text, picture=_picture(panels[0].figure), wide=True)


def _novel(X: Any, novelty: np.ndarray) -> Section:
    """Return the distribution of the novelty, and the most novel signals."""
    from matplotlib.ticker import MaxNLocator

    order = np.argsort(-novelty, kind="stable")[:_SHOWN]
    rows = 1 + -(-len(order) // 3)
    figure = plots.figure((8.4, 1.6 * rows))
    grid = figure.add_gridspec(rows, 3)
    ax = figure.add_subplot(grid[0, :])
    ax.hist(np.log2(np.maximum(novelty, 2.0**-6)), bins=30, color=BLUE)
    ax.axvline(np.log2(NOVEL), linestyle="--", color=VERMILION)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.xaxis.set_major_formatter(lambda x, place: f"{2.0**x:g}")
    ax.set(xlabel="novelty", ylabel="signals")
    tidy(ax)
    for place, case in enumerate(order):
        ax = figure.add_subplot(grid[1 + place // 3, place % 3])
        if X[case].ndim == 3:
            ax.imshow(X[case].mean(axis=0), cmap="gray")
        else:
            ax.plot(X[case].T, linewidth=0.8)
        ax.set_title(f"case {case}: novelty {novelty[case]:.2f}", fontsize="small")
        tidy(ax)
    text = "About 1 for signals like the training signals. Right of the dashed line, above "
    text += f"{NOVEL:g}, answers should be checked. Below it: the most novel signals."
    return Section("Novelty", text, picture=_picture(figure), wide=True)


def _drift(model: Any, X: Any) -> Section:
    text = (
        "Level: mean less the training signals' mean, in their standard deviations. Size: a "
        "signal's deviation from its mean, divided by theirs. Named: above four standard errors, "
        "and from 0.2, or from a factor of 1.25, on."
    )
    table: list[tuple[Any, ...]] = []
    for channel, values in enumerate(zip(*model._fitted.usual.compare(X), strict=True)):
        offset, gain, moved, scaled, dead = values
        marks = {"level": moved, "size": scaled, f"constant now in {dead} of {len(X)}": dead}
        level = "–" if np.isnan(offset) else f"{offset:+.2f}".replace("-", "−")
        size = "–" if np.isnan(gain) else f"{gain:.2f}"
        named = ", ".join(name for name, mark in marks.items() if mark)
        table.append((channel, level, size, named))
    return Section("Drift", text, ("channel", "level", "size", "differs"), tuple(table))


def _passes(model: Any) -> Section:
    text = "The model is a mean over passes, each a view of the signals with a network of its own."
    picture = _picture(plots.pass_weights(model.passes_).figure)
    return Section("Passes", text, picture=picture, wide=True)
