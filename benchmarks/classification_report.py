"""Tables and pictures of the classification benchmark."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import harness
import numpy as np
from classification_methods import CURVE_DRAWS, CURVE_SIZES, METHODS, OURS, SETS
from harness import Row

# Of Okabe and Ito.
PALETTE = ("0.55", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#8C510A", "#D55E00")
MARKS = {
    method: {"color": colour, "marker": marker}
    for method, colour, marker in zip(METHODS, PALETTE, "osD^vP*X", strict=True)
}


# -- accuracies on the official splits


def table(rows: list[Row]) -> str:
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    value = {(row["method"], row["set"]): row for row in rows}
    cells = []
    for s in sets:
        accuracies = [value[m, s]["accuracy"] if (m, s) in value else None for m in methods]
        texts = ["–" if x is None else f"{x:.3f}" for x in accuracies]
        cells.append((s, *harness.bold(accuracies, texts)))
    last = {}  # rows of the table: texts by method
    for m in complete(rows, sets):
        own = [value[m, s] for s in sets]
        mean = np.mean([row["accuracy"] for row in own])
        first = [row for row in own if row["first_seconds"] is not None]
        more = max((row["first_seconds"] - row["cold_seconds"] for row in first), default=0.0)
        warm, cold = (sum(row[f"{kind}_seconds"] for row in own) for kind in ("warm", "cold"))
        last[m] = (f"{mean:.3f}", *map(duration, (warm, cold, max(more, 0.0))))
    titles = ("**mean**", "warm, all sets", "cold, all sets", "compiling, once on a machine")
    for k, title in enumerate(titles):
        cells.append((title, *(last[m][k] if m in last else "–" for m in methods)))
    return harness.page(
        "# Accuracy of classifiers on data sets that aeon brings along",
        harness.table(("set", *methods), cells),
        f"Seconds of fitting and predicting on {os.cpu_count()} cores: warm, the second time in a "
        "process; cold, in a new process. Compiling: how much longer without numba's cache. "
        "rescntk: half the processor seconds, on an Intel Xeon; cold and compiling with the "
        "start-up of an earlier version. Others: AMD EPYC.",
    )


def complete(rows: list[Row], sets: Sequence[str]) -> list[str]:
    """Return the methods with results on all these sets, ours last."""
    return [m for m in METHODS if {row["set"] for row in rows if row["method"] == m} >= set(sets)]


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.2g} s"


def draw(rows: list[Row]) -> Any:
    """Return a figure of accuracy against time: means over the sets, and each set by itself."""
    from rescntk import plots
    from rescntk.plots.style import tidy

    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    methods = complete(rows, sets)
    figure = plots.figure((9.6, 4.4))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for k, method in enumerate(methods):
        own = [row for row in rows if row["method"] == method]  # in the order of the sets
        warm, cold = (sum(row[f"{kind}_seconds"] for row in own) for kind in ("warm", "cold"))
        accuracy, mark = [row["accuracy"] for row in own], MARKS[method]
        mean = float(np.mean(accuracy))
        left.plot([warm, cold], [mean, mean], linewidth=0.8, color=mark["color"])
        left.plot(warm, mean, markersize=8, linestyle="", label=method, **mark)
        left.plot(cold, mean, markersize=8, linestyle="", markerfacecolor="white", **mark)
        place = np.arange(len(sets)) + 0.11 * (k - (len(methods) - 1) / 2)
        right.plot(place, accuracy, markersize=5, linestyle="", **mark)
    left.set(xscale="log", xlabel="seconds for all sets, fit and predict", ylabel="mean accuracy")
    left.xaxis.set_major_formatter("{x:g}")
    left.set_title("full: warm, open: cold (new process)", fontsize="medium")
    right.set(xticks=range(len(sets)), ylabel="accuracy", xlim=(-0.5, len(sets) - 0.5))
    right.set_xticklabels([short_name(s) for s in sets], rotation=35, ha="right")
    right.tick_params(axis="x", length=0)
    right.set_title("each set", fontsize="medium")
    for ax in (left, right):
        tidy(ax, "y")
    for edge in np.arange(len(sets) - 1) + 0.5:
        right.axvline(edge, linewidth=0.4, color="0.85")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    return figure


def short_name(name: str) -> str:
    return name.replace("PickupGestureWiimoteZ", "PickupGesture…")


# -- learning curves


def summaries(rows: list[Row], method: str, name: str) -> list[tuple[float, float]]:
    """Return mean and standard error of a method's accuracies over the draws, for each size."""
    own = [row for row in rows if (row["method"], row["set"]) == (method, name)]
    by_size = [[row["accuracy"] for row in own if row["size"] == size] for size in CURVE_SIZES]
    return [harness.mean_and_error(accuracies) for accuracies in by_size]


def draw_curves(rows: list[Row], ceilings: Mapping[str, Mapping[int, float]]) -> Any:
    """Return a figure of accuracy against training signals. A bar marks a ceiling below 1."""
    from rescntk import plots
    from rescntk.plots.style import tidy

    sets = [s for s in ceilings if any(row["set"] == s for row in rows)]
    figure = plots.figure((2.6 * len(sets) + 1.6, 4.2))
    axes = np.atleast_1d(figure.subplots(1, len(sets), sharey=True))
    for ax, name in zip(axes, sets, strict=True):
        methods = complete(rows, [name])
        for k, method in enumerate(methods):
            means, errors = zip(*summaries(rows, method, name), strict=True)
            sizes = np.array(CURVE_SIZES) * 1.025 ** (k - (len(methods) - 1) / 2)
            line = {"linewidth": 2.0, "linestyle": "-"}
            if method != OURS:
                line = {"linewidth": 1.0, "linestyle": "--"}
            label = method if ax is axes[0] else None
            ax.errorbar(sizes, means, errors, markersize=5, label=label, **line, **MARKS[method])
        for size, bound in ceilings[name].items():
            if bound < 1:
                ax.hlines(bound, size / 1.25, size * 1.25, color="black", linewidth=1.4)
                ax.text(size / 1.25, bound + 0.008, "ceiling", fontsize="small")
        ax.set(xscale="log", xlabel="training signals", title=short_name(name), xticks=CURVE_SIZES)
        ax.xaxis.set(major_formatter="{x:g}", minor_formatter="")
        ax.tick_params(axis="x", which="minor", length=0)
        tidy(ax)
    axes[0].set_ylabel(f"accuracy, mean of {CURVE_DRAWS} draws")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    return figure


def curve_table(rows: list[Row], ceilings: Mapping[str, Mapping[int, float]]) -> str:
    tables = []
    for name in ceilings:
        methods = complete(rows, [name])
        if not methods:
            continue
        cells = []
        columns = [summaries(rows, method, name) for method in methods]
        for size, *pairs in zip(CURVE_SIZES, *columns, strict=True):
            texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in pairs]
            cells.append((size, *texts, f"{ceilings[name][size]:.3f}"))
        header = (f"{name}, training signals", *methods, "ceiling")
        tables.append(harness.table(header, cells, left=()))
    return harness.page(
        "# Accuracy of classifiers by number of training signals",
        *tables,
        f"Means of {CURVE_DRAWS} draws from training and test signals together, the same for all "
        "methods, ± standard errors. Ceiling: the share of test signals whose class was among the "
        "training signals; nobody can be right more often.",
    )
