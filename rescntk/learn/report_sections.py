"""Sections of a report about a model's answers, and how they write numbers, names and pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import ConfusionMatrixDisplay, precision_recall_curve, r2_score

from .. import plots
from ..plots.style import BLUE, looks, shown_name, tidy
from ..validation import check_constant
from .calibration import NOVEL

LISTED = 50
"""Rows of a table of cases, groups or channels. Raising it makes the page longer."""

_BINS = 20
"""Bins of a calibration curve. More bins show more detail, and have fewer signals each."""

_LEAST_IN_BIN = 10
"""Signals that a bin has at least. Raising it makes fewer bins, with shorter error bars."""

_NUMBERED = 40
"""Most classes whose confusion matrix has numbers in its cells. Raising it takes time with its
square, and numbers of more classes overlap."""

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


def picture_of(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return base64.b64encode(file.getvalue()).decode()


def short(name: Any) -> str:
    return shown_name(name).replace(r"\$", "$")


def numbers(value: Any) -> str:
    """Return a name, short, or one or several numbers."""
    values = np.atleast_1d(value)
    return ", ".join(f"{each:.4g}" if values.dtype.kind == "f" else short(each) for each in values)


def interval(count: int, n: int) -> str:
    """Return a share with its 95 % interval (Wilson 1927)."""
    if not n:
        return "–"
    low, high = binomtest(count, n).proportion_ci(method="wilson")
    return f"{count / n:.3f} ({low:.3f} to {high:.3f})"


def share_of(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def expected_score(model: Any) -> str:
    return f"{model.best_score_:.3f} ± {model.best_score_error_:.3f}"


def novelty_row(novelty: np.ndarray) -> tuple[str, str, str]:
    unlike = np.mean(novelty > NOVEL)
    note = f"1 is usual; {unlike:.0%} above {NOVEL:g}"
    return "median novelty", f"{np.median(novelty):.2f}", note


def sections_of_values(
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
        values = share_of(score), f"{root:.4g} ± {uncertain:.2g}", f"{usual:.4g}", absolute, stated
        rows.append((f"target {k + 1}", *values, f"{covered / n:.1%}{mark}"))
        ends = [t.min(), t.max()]
        ax.plot(ends, ends, "--", color="0.5")
        bars = np.array([mean[:, k] - low[:, k], high[:, k] - mean[:, k]])
        style = {"fmt": "o", "color": BLUE, "markersize": 3, "elinewidth": 0.7, "alpha": 0.7}
        ax.errorbar(t, mean[:, k], bars, **style)
        ax.set(xlabel=f"target {k + 1}", ylabel="prediction")
        tidy(ax)
    for ax in panels[count:]:
        ax.remove()
    score = r2_score(truth, mean) if n > 1 else np.nan
    flagged = f"off for {sum(map(bool, marks))} of {count} targets" if any(marks) else "not off"
    summary = (
        ("R²", share_of(score), f"{expected_score(model)} expected when fitted; the mean has 0"),
        (f"targets inside the {_COVERAGE:.0%} intervals", f"{inside.mean():.1%}", flagged),
        novelty_row(novelty),
    )
    text = "Errors are in each target's unit. The error of the mean is that of one answer for all: "
    text += f"the mean of fit. A coverage is off if chance moves it as far from {_COVERAGE:.0%} "
    text += f"less than once in {1 / _OFF:g} times."
    head = "", "R²", "root mean squared error", "of the mean", "mean absolute", "stated", "covered"
    bars_text = f"Bars are the {_COVERAGE:.0%} intervals; on the dashed line predictions are right."
    sections = [
        Section("Summary", "", ("quantity", "value", "note"), summary),
        Section("Targets", text, head, tuple(rows)),
        Section("Predictions", bars_text, picture=picture_of(drawn), wide=count > 1),
    ]
    if groups is not None:
        errors = {g: np.sqrt(np.mean(error[groups == g] ** 2, axis=0)) for g in set(groups)}
        largest = sorted(errors, key=lambda g: (-np.max(errors[g] / model.target_scale_), g))
        table = tuple(
            (short(g), int((groups == g).sum()), *(f"{value:.4g}" for value in errors[g]))
            for g in largest[:LISTED]
        )
        names = "group", "signals", *(f"target {k + 1}" for k in range(count))
        text = "Root mean squared errors, the largest first."
        sections.append(Section("Groups", text, names, table))
    return sections, np.argsort(-np.abs(error / np.maximum(spread, 1e-300)).max(axis=1))


def sections_of_classes(
    model: Any,
    y: np.ndarray,
    answers: tuple[np.ndarray, ...],
    chances: np.ndarray,
    groups: np.ndarray | None,
    prevalence: Mapping[Any, float] | None,
    costs: Mapping[Any, float] | None,
) -> tuple[list[Section], np.ndarray]:
    """Return the sections about classes, and the wrong answers, the most certain first."""
    labels, chance, novelty = answers
    known = model.classes_
    y = in_form_of(known, y)
    if y.dtype.kind != labels.dtype.kind and {y.dtype.kind, labels.dtype.kind} & set("UO"):
        y, labels, known = (each.astype(str) for each in (y, labels, known))
    right, n = labels == y, len(y)
    classes = np.union1d(known, y)
    counts, found, given = (
        np.array([np.sum(values == c) for c in classes]) for values in (y, y[right], labels)
    )
    with np.errstate(invalid="ignore"):
        recalls = found / counts
    usual = known[int(np.argmax(model._shares))]
    text = f"One answer for all: always {short(usual)}, the largest class when fitted."
    summary: list[tuple[Any, ...]] = [
        ("accuracy", interval(int(right.sum()), n), f"{np.mean(y == usual):.3f}"),
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
        ("accuracy expected when fitted", expected_score(model), "–"),
        ("mean probability of the answers", f"{chance.mean():.3f}", "–"),
        novelty_row(novelty),
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
        cmap="Blues",
        xticks_rotation="vertical",
        ax=figure.subplots(),
        include_values=len(classes) <= _NUMBERED,
    )
    text = "Rows are true classes, columns are answers."
    sections.append(Section("Confusion", text, picture=picture_of(figure)))
    rows = tuple(
        (c, int(m), interval(int(hits), int(m)), interval(int(hits), int(k)))
        for c, m, hits, k in zip(classes, counts, found, given, strict=True)
    )
    columns = "class", "signals", "found (recall)", "right when answered (precision)"
    sections.append(Section("Classes", "With 95 % intervals.", columns, rows))
    if groups is not None:
        of_groups = sorted((right[groups == g].mean(), g) for g in set(groups))[:LISTED]
        parts = [(short(g), right[groups == g]) for _, g in of_groups]
        table = tuple((g, len(part), interval(int(part.sum()), len(part))) for g, part in parts)
        head_of_groups = "group", "signals", "accuracy"
        sections.append(Section("Groups", "The least accuracy first.", head_of_groups, table))
    sections += _thresholds(known, y, chances, cost)
    sections += [_calibration(right, chance), _withheld(right, chance)]
    wrong = np.flatnonzero(~right)
    return sections, wrong[np.argsort(-chance[wrong], kind="stable")]


def in_form_of(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return labels as the classes write them: 1, 1.0, "1" and "1.0" are one label.

    Labels that are no class stay; beside classes of another kind all labels are then texts.
    """
    of_class = {_plain(label): label for label in classes.tolist()}
    if len(of_class) < len(classes):
        return labels
    plain = [_plain(label) for label in labels.tolist()]
    if all(text in of_class for text in plain):
        return np.array([of_class[text] for text in plain], dtype=classes.dtype)
    if labels.dtype.kind not in "UO" and classes.dtype.kind not in "UO":
        return labels
    pairs = zip(plain, labels.tolist(), strict=True)
    return np.array([str(of_class.get(text, label)) for text, label in pairs])


def _plain(label: Any) -> str:
    """Return a label as a text, whole numbers without a decimal point."""
    with suppress(TypeError, ValueError, OverflowError):
        number = float(label)
        if number.is_integer() and abs(number) < 2**53:
            return str(int(number))
    return str(label)


def _by_class(
    given: Mapping[Any, float], name: str, classes: np.ndarray, default: float
) -> np.ndarray:
    """Return a number of at least 0 for each class, from a mapping by labels or their texts."""
    values, texts = {str(k): v for k, v in given.items()}, [str(c) for c in classes]
    if unknown := [k for k in values if k not in texts]:
        raise ValueError(
            f"{name} has {unknown[0]!r:.80}, expected some of {', '.join(texts)[:200]}"
        )
    checked = [check_constant(values.get(c, default), f"{name} of {c!r:.80}") for c in texts]
    if max(checked) > 1e100:
        raise ValueError(f"{name} has {max(checked):.3g}, expected at most 1e100")  # sums overflow
    return np.array(checked)


def _thresholds(
    known: np.ndarray, y: np.ndarray, chances: np.ndarray, cost: np.ndarray
) -> list[Section]:
    """Return precision over recall of the rarest classes, and what thresholds cost."""
    sizes = np.array([(y == c).sum() for c in known])
    rarest = [k for k in np.argsort(sizes, kind="stable") if 0 < sizes[k] < len(y)]
    rarest = rarest[: min(3, len(known) - 1)]
    if not rarest:
        return []
    ax, rows = plots.figure((5.6, 4.4)).subplots(), []
    for k, colour, _, line in looks(rarest):
        is_class = y == known[k]
        precision, recall, _ = precision_recall_curve(is_class, chances[:, k])
        ax.step(
            recall,
            precision,
            where="post",
            color=colour,
            linestyle=line,
            label=shown_name(known[k]),
        )
        ax.axhline(is_class.mean(), color=colour, linewidth=0.6)
        limits = np.unique(chances[:, k])
        best = limits[int(np.argmin([cost @ ((chances[:, k] >= t) != is_class) for t in limits]))]
        for t in sorted({0.1, 0.3, 0.5, 0.7, 0.9, best}):
            answered = chances[:, k] >= t
            least = " (least cost)" * bool(t == best)
            hits, paid = int((answered & is_class).sum()), cost @ (answered != is_class) / len(y)
            of_class = interval(hits, int(is_class.sum())), interval(hits, int(answered.sum()))
            rows.append((short(known[k]), f"{t:.3f}{least}", *of_class, f"{paid:.4g}"))
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
    return [Section("Thresholds", text, head, tuple(rows), picture_of(ax.figure))]


def _withheld(right: np.ndarray, chance: np.ndarray) -> Section:
    """Return the accuracy over the share of signals that are answered, the surest first."""
    order, counts = np.argsort(-chance, kind="stable"), np.arange(1, len(right) + 1)
    accuracy = right[order].cumsum() / counts
    ax = plots.figure((5.6, 4.0)).subplots()
    ax.plot(counts / len(right), accuracy, color=BLUE)
    ax.set(xlabel="share of signals answered", ylabel="accuracy of the answers", xlim=(0, 1.02))
    tidy(ax)
    rows = []
    for share in (1.0, 0.95, 0.9, 0.8, 0.5):
        m = max(1, round(share * len(right)))
        accuracy_of_answered = interval(int(right[order[:m]].sum()), m)
        rows.append((f"{share:.0%}", f"{chance[order[m - 1]]:.3f}", accuracy_of_answered))
    text = "If a person answers the signals of least probability, the model's other answers have:"
    head = "answered", "from the probability", "accuracy"
    return Section("Abstention", text, head, tuple(rows), picture_of(ax.figure))


def _calibration(right: np.ndarray, chance: np.ndarray) -> Section:
    """Return the observed accuracy over the probability of the answer, in bins of equal counts."""
    n_bins = int(np.clip(len(right) // _LEAST_IN_BIN, 1, _BINS))
    bins = np.array_split(np.argsort(chance, kind="stable"), n_bins)
    means = [chance[cases].mean() for cases in bins]
    shares = np.array([right[cases].mean() for cases in bins])
    counts = [(int(right[cases].sum()), len(cases)) for cases in bins]
    ends = np.array([binomtest(*pair).proportion_ci(method="wilson") for pair in counts])
    ax = plots.figure((5.2, 4.4)).subplots()
    ax.plot([0, 1], [0, 1], "--", color="0.5")
    bars = np.abs(ends.T - shares)
    ax.errorbar(means, shares, bars, fmt="o", color=BLUE, capsize=3)
    ax.set(xlabel="probability of the answer", ylabel="share of right answers", xlim=(0, 1.02))
    tidy(ax)
    text = "Points near the dashed line: probabilities are calibrated. Bars are 95 % intervals."
    return Section("Calibration", text, picture=picture_of(ax.figure))
