"""Tables and pictures of the classification benchmark."""

from collections.abc import Collection, Sequence
from typing import Any

import harness
import numpy as np
from classification_methods import CURVE_DRAWS, CURVE_SIZES, METHODS, OURS, SETS, ceilings
from harness import Row

# Of Okabe and Ito.
PALETTE = (
    "#D55E00", "#8C510A", "0.55", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#CC79A7", "0.3",
    "#F0E442",
)  # fmt: skip
MARKS = {
    method: {"color": colour, "marker": marker}
    for method, colour, marker in zip(METHODS, PALETTE, "X*osD^vP<>", strict=True)
}


SIDES = {
    "MiniRocket": (-7, 0, "right"), "rescntk, fast": (0, -12, "center"),
    "rescntk": (0, 12, "center"),
}  # fmt: skip
"""Where the name of a method with close neighbours stands, in points, and its alignment."""


# -- accuracies on the official splits


def accuracies(rows: list[Row], corner: str, methods: Sequence[str], *last: Sequence[str]) -> list:
    """Return the table of accuracies by set, their means, and other rows."""
    value = {(row["method"], row["set"]): row["accuracy"] for row in rows}
    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    found = [[value.get((m, s)) for m in methods] for s in sets]
    texts = [["–" if x is None else f"{x:.3f}" for x in of_set] for of_set in found]
    cells = [(s, *harness.bold(*row)) for s, *row in zip(sets, found, texts, strict=True)]
    columns = zip(*found, strict=True)
    means = ["–" if None in column else f"{np.mean(column):.3f}" for column in columns]
    return harness.table((corner, *methods), [*cells, ("**mean**", *means), *last])


def noise_tables(rows: list[Row]) -> str:
    tables, methods = [], complete(rows, {row["set"] for row in rows})
    for level in sorted({row["noise"] for row in rows}):
        own = [row for row in rows if row["noise"] == level]
        tables.append(accuracies(own, f"noise {level:g}", methods))
    return harness.page(
        "# Accuracy of classifiers with noise in the test signals",
        *tables,
        "Noise is in units of the training signals' deviation, of each channel; training signals "
        "have none. Means of three draws.",
    )


def table(rows: list[Row]) -> str:
    methods, seconds = [m for m in METHODS if any(row["method"] == m for row in rows)], []
    for m in methods:
        own = [row["seconds"] for row in rows if row["method"] == m]
        seconds.append(f"{sum(own):.3g} s" if m in complete(rows, SETS) else "–")
    return harness.page(
        "# Accuracy of classifiers on data sets that aeon brings along",
        accuracies(rows, "set", methods, ("all sets", *seconds)),
        "Seconds of fitting and predicting on two cores of an AMD EPYC; of MiniRocket and rescntk, "
        "half the processor seconds there, of one run; of global alignment and signature, half the "
        "processor seconds on an Intel Xeon.",
        "Kernels of global alignments and of signatures, with the time as a channel: standardized "
        "signals, ridge regression; scale and penalty of the least leave-one-out error. The 1460 "
        "points of ACSF1 are averaged over blocks of 3 for them.",
    )


def complete(rows: list[Row], sets: Collection[str]) -> list[str]:
    """Return the methods with results on all these sets, ours first."""
    return [m for m in METHODS if {row["set"] for row in rows if row["method"] == m} >= set(sets)]


def draw(rows: list[Row]) -> Any:
    """Return a figure of mean accuracy against time."""
    from rescntk import plots
    from rescntk.plots.style import tidy

    figure = plots.figure((6.4, 4.4))
    ax = figure.subplots()
    for method in complete(rows, SETS):
        own = [row for row in rows if row["method"] == method]
        accuracy, seconds = (np.array([row[x] for row in own]) for x in ("accuracy", "seconds"))
        place = seconds.sum(), accuracy.mean()
        ax.plot(*place, linestyle="", **MARKS[method])
        x, y, side = SIDES.get(method, (7, 0, "left"))
        beside = {"textcoords": "offset points", "va": "center", "fontsize": "small", "ha": side}
        ax.annotate(method, place, (x, y), **beside)
    ax.set(xscale="log", xlabel="seconds for all sets, fit and predict", ylabel="mean accuracy")
    ax.xaxis.set_major_formatter("{x:g}")
    tidy(ax, "y")
    ax.set_xlim(right=4 * ax.get_xlim()[1])  # for the names
    return figure


# -- learning curves


def summaries(rows: list[Row], method: str, name: str) -> list[tuple[float, float]]:
    """Return mean and standard error of a method's accuracies over the draws, for each size."""
    own = [row for row in rows if (row["method"], row["set"]) == (method, name)]
    by_size = [[row["accuracy"] for row in own if row["size"] == size] for size in CURVE_SIZES]
    return [harness.mean_and_error(accuracies) for accuracies in by_size]


def draw_curves(rows: list[Row], sets: Sequence[str]) -> Any:
    """Return a figure of accuracy against training signals. A bar marks a ceiling below 1."""
    from rescntk import plots
    from rescntk.plots.style import tidy

    figure = plots.figure((6.4, 0.9 + 2.7 * ((len(sets) + 1) // 2)))
    axes = figure.subplots((len(sets) + 1) // 2, 2, sharex=True, sharey=True).ravel()
    axes[0].set(ylabel="accuracy", xscale="log", xticks=CURVE_SIZES)
    for ax, name in zip(axes, sets, strict=True):
        methods = complete(rows, [name])
        for k, method in enumerate(methods):
            means, errors = zip(*summaries(rows, method, name), strict=True)
            sizes = np.array(CURVE_SIZES) * 1.025 ** (k - (len(methods) - 1) / 2)
            line = {"linewidth": 2.0, "linestyle": "-", "zorder": 3}
            if method != OURS:
                line = {"linewidth": 1.0, "linestyle": "--"}
            label = method if ax is axes[0] else None
            ax.errorbar(sizes, means, errors, markersize=5, label=label, **line, **MARKS[method])
        for size, bound in ceilings(name).items():
            if bound < 1:
                ax.hlines(bound, size / 1.25, size * 1.25, color="black", linewidth=1.4)
                ax.text(size / 1.25, bound + 0.008, "at most", fontsize="small")
        ax.set_title(name, fontsize="medium")
        ax.set_xlabel("training signals" if ax in axes[-2:] else "")
        ax.xaxis.set(major_formatter="{x:g}", minor_formatter="")
        ax.tick_params(axis="x", which="minor", length=0)
        tidy(ax)
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    return figure


def curve_table(rows: list[Row], sets: Sequence[str]) -> str:
    tables = []
    for name in sets:
        cells, methods, bounds = [], complete(rows, [name]), ceilings(name)
        columns = [summaries(rows, method, name) for method in methods]
        for size, *pairs in zip(CURVE_SIZES, *columns, strict=True):
            texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in pairs]
            cells.append((size, *texts, f"{bounds[size]:.3f}"))
        header = (f"{name}, training signals", *methods, "ceiling")
        tables.append(harness.table(header, cells, left=()))
    return harness.page(
        "# Accuracy of classifiers by number of training signals",
        *tables,
        f"Means of {CURVE_DRAWS} draws from training and test signals together, the same for all "
        "methods, ± standard errors. Ceiling: the share of test signals whose class was among the "
        "training signals; nobody can be right more often.",
    )
