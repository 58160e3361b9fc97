"""Tables and pictures of the classification benchmark, and the files with its results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import harness
import numpy as np
from classification_methods import (
    CURVE_DRAWS,
    CURVE_SETS,
    CURVE_SIZES,
    FAST,
    METHODS,
    OURS,
    ROCKETS,
    SETS,
)
from harness import Row

# -- accuracies on the official splits


def table(rows: list[Row]) -> str:
    """Return accuracies as Markdown, the best of each set in bold, with seconds and verdicts."""
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    value = {(row["method"], row["set"]): row for row in rows}
    complete = [m for m in methods if all((m, s) in value for s in sets)]
    cells = []
    for s in sets:
        accuracies = [value[m, s]["accuracy"] if (m, s) in value else None for m in methods]
        texts = ["–" if x is None else f"{x:.3f}" for x in accuracies]
        cells.append((s, *harness.bold(accuracies, texts)))
    mean = {m: float(np.mean([value[m, s]["accuracy"] for s in sets])) for m in complete}
    lines = {"**mean**": {m: f"{mean[m]:.3f}" for m in complete}}
    for kind in ("warm", "cold"):
        lines[f"{kind}, all sets"] = {
            m: duration(sum(value[m, s][f"{kind}_seconds"] for s in sets)) for m in complete
        }
    compiling = lines["compiling, once on a machine"] = {}
    for m in complete:
        first = [value[m, s] for s in sets if value[m, s].get("first_seconds") is not None]
        if first:
            more = max(row["first_seconds"] - row["cold_seconds"] for row in first)
            compiling[m] = duration(max(more, 0.0))
    cells += [(title, *(line.get(m, "–") for m in methods)) for title, line in lines.items()]
    return "\n".join(
        [
            "# Accuracy of classifiers on data sets that aeon brings along",
            "",
            *harness.table(("set", *methods), cells),
            "",
            f"Seconds of fitting and predicting on {os.cpu_count()} cores: warm, the second time "
            "in a process; cold, in a new process, imports included. Compiling: how much longer "
            "the first process of all takes, whose code is not in numba's cache yet.",
            "",
            *busy(value),
            *verdicts(mean, value, sets),
            "",
        ]
    )


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.2g} s"


def busy(value: Mapping[tuple[str, str], Row]) -> list[str]:
    """Return a line about methods whose seconds were measured while other work was running."""
    cores = os.cpu_count() or 1
    loads = {
        m: row["load"] for (m, _), row in value.items() if (row.get("load") or 0) > 1.5 * cores
    }
    if not loads:
        return []
    return [
        f"Seconds of {', '.join(loads)} were measured while other work was running (load averages "
        f"up to {max(loads.values()):.1f} on {cores} cores) and are not comparable.",
        "",
    ]


BARS = {OURS: (0.95, 60.0), FAST: (0.93, 10.0)}
"""The mean accuracy and the warm seconds on all sets that are asked of our classifier."""


def verdicts(mean: Mapping[str, float], value: Mapping, sets: Sequence[str]) -> list[str]:
    """Return whether our classifier met its bars, and the sets where MiniRocket is better."""
    if OURS not in mean or len(sets) < len(SETS):
        return []
    lines = []
    for method, (accuracy, seconds) in BARS.items():
        if method in mean:
            warm = sum(value[method, s]["warm_seconds"] for s in sets)
            lines += [
                f"* {method}: mean accuracy {mean[method]:.3f}, asked {accuracy:.3f}: "
                f"{_verdict(round(mean[method], 3) - accuracy, '{:.3f}')}; {duration(warm)}, asked "
                f"{seconds:.0f} s: {_verdict(seconds - warm, '{:.0f} s')}."
            ]
    others = {m: v for m, v in mean.items() if m not in (*ROCKETS, OURS, FAST)}
    if others:
        best = max(others, key=others.__getitem__)
        margin = mean[OURS] - others[best]
        text = (
            f"* Best other method that is no ROCKET: {best}, {others[best]:.3f}, asked below ours"
        )
        lines.append(f"{text}: {_verdict(margin, '{:.3f}')}.")
    rocket = "MiniRocket"
    if rocket in mean:
        ahead = {s: value[OURS, s]["accuracy"] - value[rocket, s]["accuracy"] for s in sets}
        # Files have six digits, of which a tie loses the last; a test signal is far more.
        wins = sum(gain > -1e-5 for gain in ahead.values())
        text = f"* At least as good as {rocket} on {wins} of {len(sets)} sets, asked 7"
        lines.append(f"{text}: {_verdict(wins - 7, '{:g}')}.")
        behind = {s: -gain for s, gain in ahead.items() if gain < -0.01}
        if behind:
            names = ", ".join(f"{s} by {gap:.3f}" for s, gap in behind.items())
            lines.append(f"* Behind {rocket} by more than 0.01, so take that one: {names}.")
    return lines


def _verdict(margin: float, form: str) -> str:
    return "met" if margin > -1e-9 else f"missed by {form.format(-margin)}"


PALETTE = ("0.55", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#8C510A", "#D55E00")
"""Of Okabe and Ito."""
COLOURS = dict(zip(METHODS, PALETTE, strict=True))
MARKS = dict(zip(METHODS, "osD^vP*X", strict=True))


def _drawn(rows: list[Row], sets: Sequence[str]) -> list[str]:
    """Return the methods with results on all these sets, ours last, so that ours is on top."""
    return [m for m in METHODS if {row["set"] for row in rows if row["method"] == m} >= set(sets)]


def draw(rows: list[Row]) -> Any:
    """Return a figure of accuracy against time: means over the sets, and each set by itself."""
    from rescntk import plots

    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    methods = _drawn(rows, sets)
    value = {(row["method"], row["set"]): row for row in rows}
    figure = plots.figure((9.6, 4.4))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for k, method in enumerate(methods):
        accuracy = [value[method, s]["accuracy"] for s in sets]
        warm, cold = (
            sum(value[method, s][f"{kind}_seconds"] for s in sets) for kind in ("warm", "cold")
        )
        mark = {"marker": MARKS[method], "color": COLOURS[method]}
        mean = float(np.mean(accuracy))
        left.plot([warm, cold], [mean, mean], linewidth=0.8, color=COLOURS[method])
        left.plot(warm, mean, markersize=8, linestyle="", label=method, **mark)
        left.plot(cold, mean, markersize=8, linestyle="", markerfacecolor="white", **mark)
        place = np.arange(len(sets)) + 0.11 * (k - (len(methods) - 1) / 2)
        right.plot(place, accuracy, markersize=5, linestyle="", **mark)
    left.set(xscale="log", xlabel="seconds for all sets, fit and predict", ylabel="mean accuracy")
    left.xaxis.set_major_formatter("{x:g}")
    left.set_title("full: warm, open: cold (new process)", fontsize="medium")
    right.set(xticks=range(len(sets)), ylabel="accuracy", xlim=(-0.5, len(sets) - 0.5))
    right.set_xticklabels([short_name(s) for s in sets],
                          rotation=35, ha="right")  # fmt: skip
    right.tick_params(axis="x", length=0)
    right.set_title("each set", fontsize="medium")
    for ax in (left, right):
        harness.tidy(ax, "y")
    for edge in np.arange(len(sets) - 1) + 0.5:
        right.axvline(edge, linewidth=0.4, color="0.85")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    return figure


def short_name(name: str) -> str:
    return name.replace("PickupGestureWiimoteZ", "PickupGesture…")


# -- learning curves


def summary(rows: list[Row], method: str, name: str, size: int) -> tuple[float, float]:
    """Return mean and standard error of a method's accuracies over the draws."""
    values = [
        row["accuracy"]
        for row in rows
        if (row["method"], row["set"], row["size"]) == (method, name, size)
    ]
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def draw_curves(rows: list[Row], ceilings: Mapping[str, Mapping[int, float]]) -> Any:
    """Return a figure of accuracy against training signals, with standard errors.

    A bar marks a ceiling below 1: few signals cannot show all classes.
    """
    from rescntk import plots

    sets = [s for s in CURVE_SETS if any(row["set"] == s for row in rows)]
    figure = plots.figure((2.6 * len(sets) + 1.6, 4.2))
    axes = np.atleast_1d(figure.subplots(1, len(sets), sharey=True))
    for ax, name in zip(axes, sets, strict=True):
        methods = _drawn(rows, [name])
        for k, method in enumerate(methods):
            means, errors = zip(*(summary(rows, method, name, n) for n in CURVE_SIZES), strict=True)
            ax.errorbar(
                np.array(CURVE_SIZES) * 1.025 ** (k - (len(methods) - 1) / 2),
                means,
                errors,
                marker=MARKS[method],
                color=COLOURS[method],
                linewidth=2.0 if method == OURS else 1.0,
                linestyle="-" if method == OURS else "--",
                markersize=5,
                label=method if ax is axes[0] else None,
            )
        for size, bound in ceilings[name].items():
            if bound < 1:
                ax.hlines(bound, size / 1.25, size * 1.25, color="black", linewidth=1.4)
                ax.text(size / 1.25, bound + 0.008, "ceiling", fontsize="small")
        ax.set(xscale="log", xlabel="training signals", title=short_name(name), xticks=CURVE_SIZES)
        harness.plain_ticks(ax.xaxis)
        ax.tick_params(axis="x", which="minor", length=0)
        harness.tidy(ax)
    axes[0].set_ylabel(f"accuracy, mean of {CURVE_DRAWS} draws")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    return figure


def curve_table(rows: list[Row], ceilings: Mapping[str, Mapping[int, float]]) -> str:
    """Return mean accuracies of the learning curves as Markdown."""
    lines = ["# Accuracy of classifiers by number of training signals", ""]
    for name in CURVE_SETS:
        methods = _drawn(rows, [name])
        if not methods:
            continue
        cells = []
        for size in CURVE_SIZES:
            pairs = [summary(rows, method, name, size) for method in methods]
            texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in pairs]
            cells.append((size, *texts, f"{ceilings[name][size]:.3f}"))
        header = (f"{name}, training signals", *methods, "ceiling")
        lines += [*harness.table(header, cells, left=()), ""]
    lines.append(
        f"Means of {CURVE_DRAWS} draws from training and test signals together, the same for all "
        "methods, ± standard errors. Ceiling: the share of test signals whose class was among the "
        "training signals; nobody can be right more often."
    )
    return "\n".join(lines) + "\n"
