"""`report`: a page about a model's answers to labelled signals, for those who decide on its use."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import ConfusionMatrixDisplay, precision_recall_curve, r2_score
from sklearn.utils.validation import check_is_fitted

from .. import plots
from .._version import __version__
from ..arrays import Array
from ..plots.style import BLUE, VERMILION, looks, shown_name, tidy
from ..progress import encodable
from ..validation import check_constant, check_targets
from .calibration import NOVEL
from .classifier import ResidualKernelClassifier
from .inputs import read_signals
from .regressor import ResidualKernelRegressor
from .views import take

_SHOWN = 6
"""Signals drawn in a figure. Raising it makes the page longer."""

_LISTED = 50
"""Rows of a table of cases, groups or channels. Raising it makes the page longer."""

_BINS = 20
"""Bins of a calibration curve. More bins show more detail, and have fewer signals each."""

_LEAST_IN_BIN = 10
"""Signals that a bin has at least. Raising it makes fewer bins, with shorter error bars."""

_NUMBERED = 40
"""Most classes whose confusion matrix has numbers in its cells. Raising it takes time with its
square, and numbers of more classes overlap."""

_WIDTH = 80
"""Characters of a line above a signal. Raising it lets titles run under the colour bar."""

_OFF = 0.01
"""Chance below which a coverage is called off. Raising it calls more coverages off."""

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

    The page is one file without scripts, which opens in any browser. It has scores beside those of
    one answer for all signals, with 95 % intervals, also by class and by group. Then come
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
    check_is_fitted(model)
    truth = np.asarray(y)
    X = read_signals(model, X, reset=False, n_channels=model.n_channels, images=True)
    answers: Any = model._answers(X)
    if truth.shape != answers[0].shape:
        raise ValueError(
            f"y has shape {truth.shape}, expected {answers[0].shape}: one for each signal"
        )
    n = len(truth)
    names, of_groups = (
        None if given is None else _each(given, what, n)
        for given, what in ((cases, "cases"), (groups, "groups"))
    )
    shown = np.arange(n).astype(str) if names is None else names
    if isinstance(model, ResidualKernelRegressor):
        if prevalence or costs:
            raise ValueError("prevalence and costs are of classes, expected a classifier")
        truth = check_targets(truth, n)
        sections, worst = _values(model, truth, answers, of_groups)
    else:
        sections, worst = _classes(model, X, truth, answers, of_groups, prevalence, costs)
    sections += [_shares(model, X, truth, answers, worst, shown), _novel(X, answers[2], shown)]
    sections += [_drift(model, X), *_channels(model), _training(model), _passes(model)]
    sections += _forecast(model)
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


def _each(values: Any, name: str, n: int) -> np.ndarray:
    texts = np.asarray(values).astype(str)
    if texts.shape != (n,):
        raise ValueError(f"{name} has shape {texts.shape}, expected ({n},): one for each signal")
    return texts


def _interval(count: int, n: int) -> str:
    """Return a share with its 95 % interval (Wilson 1927)."""
    if not n:
        return "–"
    low, high = binomtest(count, n).proportion_ci(method="wilson")
    return f"{count / n:.3f} ({low:.3f} to {high:.3f})"


# -- a classifier


def _classes(
    model: Any,
    X: Any,
    y: np.ndarray,
    answers: tuple[np.ndarray, ...],
    groups: np.ndarray | None,
    prevalence: Mapping[Any, float] | None,
    costs: Mapping[Any, float] | None,
) -> tuple[list[Section], np.ndarray]:
    """Return the sections about classes, and the wrong answers, the most certain first."""
    labels, chance, novelty = answers
    known = model.classes_
    if y.dtype.kind != labels.dtype.kind and {y.dtype.kind, labels.dtype.kind} & set("UO"):
        y, labels, known = (each.astype(str) for each in (y, labels, known))  # "1" is the label 1
    right, n = labels == y, len(y)
    classes = np.union1d(known, y)
    counts, found, given = (
        np.array([int(part.sum()) for part in parts])
        for parts in zip(*((y == c, right & (y == c), labels == c) for c in classes), strict=True)
    )
    with np.errstate(invalid="ignore"):
        recalls = found / counts
    usual = known[int(np.argmax(model._shares))]
    text = f"One answer for all: always {shown_name(usual)}, the largest class when fitted."
    summary: list[tuple[Any, ...]] = [
        ("accuracy", _interval(int(right.sum()), n), f"{np.mean(y == usual):.3f}"),
        ("balanced accuracy", f"{np.nanmean(recalls):.3f}", f"{1 / np.sum(counts > 0):.3f}"),
    ]
    if prevalence is not None:
        shares = _by_class(prevalence, "prevalence", classes, 0.0)
        shares = shares / (shares.sum() or 1.0)
        if not shares.any() or np.isnan(recalls[shares > 0]).any():
            raise ValueError("prevalence has no share, or classes that y has not: no recall")
        spread = np.sum((shares**2 * recalls * (1 - recalls) / counts)[shares > 0]) ** 0.5
        value = f"{shares[shares > 0] @ recalls[shares > 0]:.3f} ± {spread:.3f}"
        baseline = f"{shares[classes == usual].sum():.3f}"
        summary.append(("accuracy at the given prevalence", value, baseline))
    by_class = _by_class(costs or {}, "costs", classes, 1.0)
    cost = by_class[np.searchsorted(classes, y)]
    if costs is not None:
        summary.append(
            ("cost of a signal", f"{cost @ ~right / n:.4g}", f"{cost @ (y != usual) / n:.4g}")
        )
    summary += [
        ("accuracy expected when fitted", _plus_minus(model), "–"),
        ("mean probability of the answers", f"{chance.mean():.3f}", "–"),
        _novelty_row(novelty),
    ]
    head = "quantity", "value (95 % interval)", "one answer for all"
    sections = [Section("Summary", text, head, tuple(summary))]
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
    text = "Rows are true classes, columns are answers."
    sections.append(Section("Confusion", text, picture=_picture(figure)))
    rows = tuple(
        (c, int(m), _interval(int(hits), int(m)), _interval(int(hits), int(k)))
        for c, m, hits, k in zip(classes, counts, found, given, strict=True)
    )
    head = "class", "signals", "found (recall)", "right when answered (precision)"
    sections.append(Section("Classes", "With 95 % intervals.", head, rows))
    if groups is not None:
        rows = tuple(
            (
                g,
                int((groups == g).sum()),
                _interval(int(right[groups == g].sum()), int((groups == g).sum())),
            )
            for g in sorted(set(groups), key=lambda g: right[groups == g].mean())[:_LISTED]
        )
        sections.append(
            Section("Groups", "The least accuracy first.", ("group", "signals", "accuracy"), rows)
        )
    decided = model._decide(X)
    sections += _thresholds(
        known, y, model._probabilities(*decided), cost, by_class[np.isin(classes, known)]
    )
    sections += [_calibration(right, chance), _withheld(right, chance)]
    wrong = np.flatnonzero(~right)
    return sections, wrong[np.argsort(-chance[wrong], kind="stable")]


def _by_class(
    given: Mapping[Any, float], name: str, classes: np.ndarray, default: float
) -> np.ndarray:
    """Return a number of at least 0 for each class, from a mapping by labels or their texts."""
    values, texts = {str(k): v for k, v in given.items()}, [str(c) for c in classes]
    if unknown := [k for k in values if k not in texts]:
        raise ValueError(
            f"{name} has {unknown[0]!r:.80}, expected some of {', '.join(texts)[:200]}"
        )
    return np.array([check_constant(values.get(c, default), f"{name} of {c!r:.80}") for c in texts])


def _thresholds(
    known: np.ndarray, y: np.ndarray, chances: np.ndarray, cost: np.ndarray, by_class: np.ndarray
) -> list[Section]:
    """Return precision over recall of the rarest classes, and what thresholds cost."""
    sizes = np.array([(y == c).sum() for c in known])
    rarest = [k for k in np.argsort(sizes, kind="stable") if 0 < sizes[k] < len(y)]
    rarest = rarest[: min(3, len(known) - 1)]
    if not rarest:
        return []
    figure, rows = plots.figure((5.6, 4.4)), []
    ax = figure.subplots()
    for k, colour, _, line in looks(rarest):
        mine = y == known[k]
        precision, recall, _ = precision_recall_curve(mine, chances[:, k])
        ax.step(
            recall,
            precision,
            where="post",
            color=colour,
            linestyle=line,
            label=shown_name(known[k]),
        )
        ax.axhline(mine.mean(), color=colour, linewidth=0.6)
        limits = np.unique(chances[:, k])
        spent = [
            cost @ (mine & (chances[:, k] < t)) + cost @ (~mine & (chances[:, k] >= t))
            for t in limits
        ]
        for t in sorted({0.1, 0.3, 0.5, 0.7, 0.9, limits[int(np.argmin(spent))]}):
            said = chances[:, k] >= t
            least = " (least cost)" * bool(t == limits[int(np.argmin(spent))])
            hits, paid = int((said & mine).sum()), cost @ (said != mine) / len(y)
            of_class = _interval(hits, int(mine.sum())), _interval(hits, int(said.sum()))
            rows.append((known[k], f"{t:.3f}{least}", *of_class, f"{paid:.4g}"))
    ax.set(
        xlabel="found (recall)",
        ylabel="right when answered (precision)",
        xlim=(0, 1.02),
        ylim=(0, 1.05),
    )
    ax.legend(fontsize="small", frameon=False)
    tidy(ax)
    text = "The rarest classes, if a class is answered from a probability on. A higher threshold "
    text += "finds fewer signals, and raises fewer false alarms. Thin lines: always answered. The "
    text += "cost is the mean of a signal; a wrong answer costs 1, or as given for its true class."
    head = "class", "threshold", "found (recall)", "right when answered (precision)", "cost"
    return [Section("Thresholds", text, head, tuple(rows), _picture(figure))]


def _withheld(right: np.ndarray, chance: np.ndarray) -> Section:
    """Return the accuracy over the share of signals that are answered, the surest first."""
    order, counts = np.argsort(-chance, kind="stable"), np.arange(1, len(right) + 1)
    accuracy = right[order].cumsum() / counts
    figure = plots.figure((5.6, 4.0))
    ax = figure.subplots()
    ax.plot(counts / len(right), accuracy, color=BLUE)
    ax.set(xlabel="share of signals answered", ylabel="accuracy of the answers", xlim=(0, 1.02))
    tidy(ax)
    rows = []
    for share in (1.0, 0.95, 0.9, 0.8, 0.5):
        m = max(1, round(share * len(right)))
        rows.append(
            (
                f"{share:.0%}",
                f"{chance[order[m - 1]]:.3f}",
                _interval(int(right[order[:m]].sum()), m),
            )
        )
    text = "If a person answers the signals of least probability, the model's other answers have:"
    head = "answered", "from the probability", "accuracy"
    return Section("Abstention", text, head, tuple(rows), _picture(figure))


def _share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _plus_minus(model: Any) -> str:
    return f"{model.best_score_:.3f} ± {model.best_score_error_:.3f}"


def _novelty_row(novelty: np.ndarray) -> tuple[str, str, str]:
    unlike = np.mean(novelty > NOVEL)
    note = f"1 is usual; {unlike:.0%} above {NOVEL:g}"
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
    model: Any, y: np.ndarray, answers: tuple[np.ndarray, ...], groups: np.ndarray | None
) -> tuple[list[Section], np.ndarray]:
    """Return the sections about targets, and the signals of the largest errors first."""
    predicted, deviation, novelty = answers
    low, high = model._interval(predicted, deviation, _COVERAGE)
    truth, mean, low, high, spread = (
        np.asarray(each, dtype=np.float64).reshape(len(y), -1)
        for each in (y, predicted, low, high, deviation)
    )
    (n, count), error = truth.shape, mean - truth
    inside = (low <= truth) & (truth <= high)
    rows, marks = [], list[str]()
    columns = min(count, 3)
    drawn = plots.figure((4.2 * columns + 0.8, 4.0 * -(-count // columns)))
    panels = drawn.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for k, ax in enumerate(panels[:count]):
        t, root = truth[:, k], np.sqrt(np.mean(error[:, k] ** 2))
        uncertain = np.std(error[:, k] ** 2) / np.sqrt(n) / (2 * root) if root else 0.0
        usual = np.sqrt(np.mean((t - model.target_mean_[k]) ** 2))
        score = r2_score(t, mean[:, k]) if n > 1 else np.nan
        covered = int(inside[:, k].sum())
        chance = binomtest(covered, n, _COVERAGE).pvalue
        mark = f" – off: chance {chance:.2g} if right" * bool(chance < _OFF)
        marks.append(mark)
        absolute = f"{np.abs(error[:, k]).mean():.4g}"
        stated = f"{np.sqrt(np.mean(spread[:, k] ** 2)):.4g}"
        values = _share(score), f"{root:.4g} ± {uncertain:.2g}", f"{usual:.4g}", absolute, stated
        rows.append((f"target {k + 1}", *values, f"{covered / n:.1%}{mark}"))
        ends = [t.min(), t.max()]
        ax.plot(ends, ends, "--", color="0.5")
        bars = [mean[:, k] - low[:, k], high[:, k] - mean[:, k]]
        style = {"fmt": "o", "color": BLUE, "markersize": 3, "elinewidth": 0.7, "alpha": 0.7}
        ax.errorbar(t, mean[:, k], bars, **style)
        ax.set(xlabel=f"target {k + 1}", ylabel="prediction")
        tidy(ax)
    for ax in panels[count:]:
        ax.remove()
    score = r2_score(truth, mean) if n > 1 else np.nan
    flagged = f"off for {sum(map(bool, marks))} of {count} targets" if any(marks) else "not off"
    summary = (
        ("R²", _share(score), f"{_plus_minus(model)} expected when fitted; the mean has 0"),
        (f"targets inside the {_COVERAGE:.0%} intervals", f"{inside.mean():.1%}", flagged),
        _novelty_row(novelty),
    )
    text = "Errors are in each target's unit. The error of the mean is that of one answer for all: "
    text += f"the mean of fit. A coverage is off if chance moves it as far from {_COVERAGE:.0%} "
    text += f"less than once in {1 / _OFF:g} times."
    head = "", "R²", "root mean squared error", "of the mean", "mean absolute", "stated", "covered"
    bars_text = f"Bars are the {_COVERAGE:.0%} intervals; on the dashed line predictions are right."
    sections = [
        Section("Summary", "", ("quantity", "value", "note"), summary),
        Section("Targets", text, head, tuple(rows)),
        Section("Predictions", bars_text, picture=_picture(drawn), wide=count > 1),
    ]
    if groups is not None:
        by_group = {
            g: np.sqrt(np.mean(error[groups == g] ** 2, axis=0)) for g in sorted(set(groups))
        }
        table = tuple(
            (g, int((groups == g).sum()), *(f"{value:.4g}" for value in by_group[g]))
            for g in sorted(by_group, key=lambda g: -np.max(by_group[g] / model.target_scale_))[
                :_LISTED
            ]
        )
        names = "group", "signals", *(f"target {k + 1}" for k in range(count))
        sections.append(
            Section("Groups", "Root mean squared errors, the largest first.", names, table)
        )
    return sections, np.argsort(-np.abs(error / np.maximum(spread, 1e-300)).max(axis=1))


# -- both


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
    told = [answers[0], *(np.round(each, 3) for each in answers[1:])]
    rows = tuple((names[k], y[k], *(each[k] for each in told)) for k in worst[:_LISTED])
    text = "The surest come first." if of_classes else "The largest in deviations come first."
    text += f" The first {_LISTED} of {len(worst)}." * (len(worst) > _LISTED)
    if isinstance(model.n_timepoints_, tuple):  # images, whose shares are no lines
        return Section(title, text, head, rows)
    text += " Orange time points raise the decision, blue ones lower it."
    worst = worst[:_SHOWN]
    panels = plots.contributions(model, take(X, worst))
    for ax, case in zip(panels, worst, strict=True):
        truth = f"class {shown_name(y[case])}" if of_classes else f"target {np.round(y[case], 4)}"
        words = f"case {shown_name(names[case])} of {truth}; {ax.get_title()}"
        ax.set_title("")
        ax.set_title(textwrap.fill(words, _WIDTH), fontsize="small", loc="left")
    return Section(title, text, head, rows, _picture(panels[0].figure), wide=True)


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
    rows = tuple((names[k], f"{novelty[k]:.2f}") for k in np.argsort(-novelty)[:_LISTED])
    rows = tuple(row for row in rows if float(row[1]) > NOVEL)
    return Section("Novelty", text, ("case", "novelty"), rows, _picture(figure), wide=True)


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
    names = getattr(model, "channel_names_", None)
    return list(range(model.n_channels_) if names is None else names)


def _channels(model: Any) -> list[Section]:
    relevance = getattr(model, "channel_relevance_", None)
    if relevance is None:
        return []
    names = _channel_names(model)
    rows = tuple((names[k], f"{relevance[k]:.2f}") for k in np.argsort(-relevance)[:_LISTED])
    text = "How much the answers depend on each channel; the mean is 1."
    return [Section("Channels", text, ("channel", "relevance"), rows)]


def _training(model: Any) -> Section:
    """Return what the model was fitted to."""
    n, different = model._fitted.counts
    length = model.n_timepoints_
    if length is None:
        words = "of different lengths"
    else:
        words = f"{length[0]} × {length[1]} pixels" if isinstance(length, tuple) else str(length)
    channels = ", ".join(map(str, _channel_names(model)[:_LISTED]))
    rows: list[tuple[Any, ...]] = [("signals", f"{n}, of which {different} differ")]
    if isinstance(model, ResidualKernelClassifier):
        rows.append(("classes", len(model.classes_)))
        parts = zip(model.classes_, model._shares, model.class_scores_, strict=True)
        rows += [(f"class {c}", f"weight {a:.1%}, {_share(b)} found left out") for c, a, b in parts]
    else:
        parts = zip(model.target_mean_, model.target_scale_, strict=True)
        rows += [(f"target {k}", f"{a:.4g} ± {b:.4g}") for k, (a, b) in enumerate(parts, start=1)]
    rows += [
        ("channels", f"{model.n_channels_}: {channels}"),
        ("time points", words),
        ("missing values", {"refuse": "none"}.get(model.missing, "filled in along time")),
        ("score, signals left out", _plus_minus(model)),
        ("score, tenths of the file left out", _share(model.blocked_score_)),
    ]
    return Section("Training signals", "", ("quantity", "value"), tuple(rows))


def _passes(model: Any) -> Section:
    text = "The model is a mean over views of the signals, each with a network of its own. A view "
    text += "has the signals or their differences from one time to the next, or spectra: how much "
    text += "of each frequency there is. Blocks of time points are averaged to the points named."
    pairs = zip(model._fitted.passes, model._fitted.weights, strict=True)
    rows = tuple(
        (f"{weight:.1%}", _in_words(fitted.source.describe()), f"{fitted.error:.3g}")
        for fitted, weight in sorted(pairs, key=lambda pair: -pair[1])
    )
    return Section("Passes", text, ("weight", "view", "squared error, left out"), rows)


def _in_words(view: str) -> str:
    """Return a pass' description with its head in plain words."""
    settings, _, head = view.rpartition(", ")
    heads = {"gap": "patterns at any time", "trace": "patterns at their own times"}
    return f"{settings}; {heads.get(head, 'patterns about the first time')}"


def _forecast(model: Any) -> list[Section]:
    if not np.isfinite(model.best_score_):
        return []
    n = model._fitted.counts[0]
    table = model.forecast([n, 2 * n, 4 * n])
    rows = tuple((row.n, *(f"{each:.3f}" for each in row[1:])) for row in table)
    text = f"The {table.quantity} to expect after a fit to more signals, with 80 % intervals."
    return [Section("Forecast", text, ("signals", "expected", "from", "to"), rows)]
