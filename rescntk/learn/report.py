"""`report`: a page about a model's answers to labelled signals, for those who decide on its use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from .. import plots
from .._version import __version__
from ..arrays import Array
from ..plots.style import BLUE, VERMILION, lines, shown_name, tidy
from ..progress import encodable
from ..validation import check_targets
from .calibration import NOVEL
from .classifier import ResidualKernelClassifier
from .regressor import ResidualKernelRegressor
from .report_sections import (
    LISTED,
    Section,
    expected_score,
    numbers,
    picture_of,
    sections_of_classes,
    sections_of_values,
    share_of,
    short,
)
from .views import take

_SHOWN = 6
"""Signals drawn in a figure. Raising it makes the page longer."""

_WIDTH = 80
"""Characters of a line above a signal. Raising it lets titles run under the colour bar."""


def report(
    model: Any,
    X: Array,
    y: Array,
    title: str | None = None,
    *,
    cases: Array | None = None,
    groups: Array | None = None,
    prevalence: Mapping[Any, float] | None = None,
    costs: Mapping[Any, float] | None = None,
) -> str:
    """Return a page in HTML about a fitted model's answers to labelled signals.

    The page is one file without scripts, which opens in any browser. Scores have 95 % intervals,
    also by class and by group, and the score of one answer for all signals beside them. Then come
    thresholds, calibration, the accuracy of the surest answers, wrong answers, novel signals,
    drift, what the model was fitted to, and its forecast. A regressor has a row and a picture of
    each target. The package jinja2 is required.

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
    cases : array, (n_cases,), optional
        Names of the signals. The default is their places, counted from 0.
    groups : array, (n_cases,), optional
        Labels of persons, machines or days, which get a score each.
    prevalence : mapping, optional
        Share of each class where the classifier is used; shares are divided by their sum.
    costs : mapping, optional
        Cost of a wrong answer to a signal of each class; 1 for classes that are not named.

    Raises
    ------
    ValueError
        If an argument is not as described.

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
    signals: Any = model._read_again(X)
    truth = np.asarray(y)
    answers: Any
    if isinstance(model, ResidualKernelClassifier):
        decisions, novelty = model._decide(signals, watch=True)
        places, chances = model._labels(decisions), model._probabilities(decisions, novelty)
        answers = model.classes_[places], chances[np.arange(len(places)), places], novelty
    else:
        answers = model._answers(signals)
    if truth.shape != answers[0].shape:
        raise ValueError(
            f"y has shape {truth.shape}, expected {answers[0].shape}: one for each signal"
        )
    n = len(truth)
    shown = _each(np.arange(n) if cases is None else cases, "cases", n)
    of_groups = None if groups is None else _each(groups, "groups", n)
    if isinstance(model, ResidualKernelRegressor):
        if prevalence or costs:
            raise ValueError("prevalence and costs are of classes, expected a classifier")
        truth = check_targets(truth, n)
        sections, worst = sections_of_values(model, truth, answers, of_groups)
    else:
        sections, worst = sections_of_classes(
            model, truth, answers, chances, of_groups, prevalence=prevalence, costs=costs
        )
    sections.append(_shares(model, signals, truth, answers, worst, shown))
    sections += [_novel(signals, answers[2], shown), _drift(model, signals), *_channels(model)]
    sections += [_training(model), _passes(model), *_forecast(model)]
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


def _each(values: Any, name: str, n: int) -> np.ndarray:
    texts = np.asarray(values).astype(str)
    if texts.shape != (n,):
        raise ValueError(f"{name} has shape {texts.shape}, expected ({n},): one for each signal")
    return texts


def _shares(
    model: Any, X: Any, y: np.ndarray, answers: Any, worst: np.ndarray, names: np.ndarray
) -> Section:
    """Return the worst answers, with the shares of their time points."""
    of_classes = isinstance(model, ResidualKernelClassifier)
    title = "Wrong answers" if of_classes else "Largest errors"
    if not len(worst):
        return Section(title, "No answer is wrong.")
    uncertainty = "probability" if of_classes else "deviation"
    head = "case", "true", "answered", uncertainty, "novelty"
    columns = names, y, *answers
    rows = tuple(tuple(numbers(each[k]) for each in columns) for k in worst[:LISTED])
    text = "The surest come first." if of_classes else "The largest in deviations come first."
    text += f" The first {LISTED} of {len(worst)}." * (len(worst) > LISTED)
    if isinstance(model.n_timepoints_, tuple):  # images, whose shares are no lines
        return Section(title, text, head, rows)
    text += " Orange time points raise the decision more than usual, blue ones lower it."
    worst = worst[:_SHOWN]
    panels = plots.contributions(model, take(X, worst))
    for ax, case in zip(panels, worst, strict=True):
        truth = f"class {shown_name(y[case])}" if of_classes else f"target {numbers(y[case])}"
        words = f"case {shown_name(names[case])} of {truth}; {ax.get_title()}"
        ax.set_title("")
        ax.set_title(lines(words, _WIDTH), fontsize="small", loc="left")
    return Section(title, text, head, rows, picture_of(panels[0].figure), wide=True)


def _novel(X: Any, novelty: np.ndarray, names: np.ndarray) -> Section:
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
        ax.set_title(
            f"case {shown_name(names[case])}: novelty {novelty[case]:.2f}", fontsize="small"
        )
        tidy(ax)
    text = "About 1 for signals like the training signals. Right of the dashed line, above "
    text += f"{NOVEL:g}, answers should be checked. Below it: the most novel signals."
    above = [k for k in np.argsort(-novelty, kind="stable")[:LISTED] if novelty[k] > NOVEL]
    table = tuple((short(names[k]), f"{novelty[k]:.2f}") for k in above)
    return Section("Novelty", text, ("case", "novelty"), table, picture_of(figure), wide=True)


def _drift(model: Any, X: Any) -> Section:
    text = (
        "Level: mean less the training signals' mean, in their standard deviations. Size: a "
        "signal's deviation from its mean, divided by theirs. Named: above four standard errors, "
        "and from 0.2, or from a factor of 1.25, on."
    )
    table: list[tuple[Any, ...]] = []
    names = _channel_names(model)
    for channel, values in enumerate(zip(*model._fitted.usual.compare(X), strict=True)):
        offset, gain, moved, scaled, dead = values
        marks = {"level": moved, "size": scaled, f"constant now in {dead} of {len(X)}": dead}
        level = "–" if np.isnan(offset) else f"{offset:+.2f}".replace("-", "−")
        size = "–" if np.isnan(gain) else f"{gain:.2f}"
        named = ", ".join(name for name, mark in marks.items() if mark)
        table.append((names[channel], level, size, named))
    return Section("Drift", text, ("channel", "level", "size", "differs"), tuple(table))


def _channel_names(model: Any) -> list[Any]:
    return model.channel_names_ or list(range(model.n_channels_))


def _channels(model: Any) -> list[Section]:
    if (model.channel_relevance_ == 1).all():  # unchanged, or a single channel
        return []
    text = (
        "How much the answers depend on each channel; the mean is 1. Channels that hold the same "
        "information share the relevance. Colours are signs in the leading combination."
    )
    return [Section("Channels", text, picture=picture_of(plots.channels(model).figure))]


def _training(model: Any) -> Section:
    """Return what the model was fitted to."""
    n, different = model._fitted.counts
    length = model.n_timepoints_
    if length is None:
        words = f"{model._shortest} to {model._longest}"
    else:
        words = f"{length[0]} × {length[1]} pixels" if isinstance(length, tuple) else str(length)
    channels = ", ".join(map(str, _channel_names(model)[:LISTED]))
    rows: list[tuple[Any, ...]] = [("signals", f"{n}, of which {different} differ")]
    text = ""
    if isinstance(model, ResidualKernelClassifier):
        rows.append(("classes", len(model.classes_)))
        if model._rare:
            text = f"Rare classes: {', '.join(map(short, model._rare[:LISTED]))}. A fit with "
            text += "class_weight='balanced' gives all classes equal weight, and finds them more."
        parts = zip(model.classes_, model._shares, model.class_scores_, strict=True)
        rows += [
            (f"class {short(c)}", f"weight {a:.1%}, {share_of(b)} found in leave-one-out")
            for c, a, b in parts
        ]
    else:
        of_targets = zip(model.target_mean_, model.target_scale_, strict=True)
        rows += [(f"target {k}", f"{a:.4g} ± {b:.4g}") for k, (a, b) in enumerate(of_targets, 1)]
    file = getattr(model, "file_", {"dates": None, "missing": ""})
    filled = f"{file['missing']} filled in along time".strip()
    if file["dates"]:
        rows.append(("dates", " to ".join(file["dates"])))
    rows += [
        ("channels", f"{model.n_channels_}: {channels}"),
        ("time points", words),
        ("missing values", "none" if model.missing == "refuse" else filled),
        ("leave-one-out score", expected_score(model)),
        ("score, each tenth of the file left out", share_of(model.blocked_score_)),
    ]
    return Section("Training signals", text, ("quantity", "value"), tuple(rows))


def _passes(model: Any) -> Section:
    text = "The model is a mean over views of the signals, each with a network of its own. A view "
    text += "has the signals or their differences from one time to the next, or spectra: how much "
    text += "of each frequency there is. Blocks of time points are averaged to the points named."
    heads = {"gap": "patterns at any time", "trace": "patterns at their own times"}
    pairs, rows = zip(model._fitted.passes, model._fitted.weights, strict=True), []
    for fitted, weight in sorted(pairs, key=lambda pair: -pair[1]):
        settings, _, head = fitted.source.describe().rpartition(", ")
        view = f"{settings}; {heads.get(head, 'patterns about the first time')}"
        rows.append((f"{weight:.1%}", view, f"{fitted.error:.3g}"))
    return Section("Views", text, ("weight", "view", "leave-one-out squared error"), tuple(rows))


def _forecast(model: Any) -> list[Section]:
    if not np.isfinite(model.best_score_):
        return []
    n = model._fitted.counts[0]
    table = model.forecast([n, 2 * n, 4 * n])
    rows = tuple((row.n, *(f"{each:.3f}" for each in row[1:])) for row in table)
    text = f"The {table.quantity} to expect after a fit to more signals, with 80 % intervals."
    return [Section("Forecast", text, ("signals", "expected", "from", "to"), rows)]
