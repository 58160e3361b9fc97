"""Tables and pictures of the classification benchmark."""

from collections.abc import Iterable, Sequence
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import (
    CURVE_DRAWS,
    CURVE_SETS,
    CURVE_SIZES,
    METHODS,
    OURS,
    SETS,
    ceilings,
)

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


def accuracies(
    rows: pd.DataFrame, corner: str, methods: Sequence[str], *last: Sequence[str]
) -> list:
    """Return the table of accuracies by set, their means, and other rows."""
    values = rows.pivot(index="set", columns="method", values="accuracy")
    values = values.reindex(index=[s for s in SETS if s in values.index], columns=methods)
    cells = [(name, *harness.bold(of_set)) for name, of_set in values.iterrows()]
    means = harness.decimals(values.mean(skipna=False))
    return harness.table((corner, *methods), [*cells, ("**mean**", *means), *last])


def noise_tables(rows: pd.DataFrame) -> str:
    methods = complete(rows, rows["set"])
    tables = [
        accuracies(of_level, f"noise {level:g}", methods)
        for level, of_level in rows.groupby("noise")
    ]
    return harness.page(
        "# Accuracy of classifiers with noise in the test signals",
        *tables,
        "Noise is in units of the training signals' deviation, of each channel; training signals "
        "have none. Means of three draws.",
    )


def table(rows: pd.DataFrame) -> str:
    methods, seconds = complete(rows, ()), rows.groupby("method")["seconds"].sum()
    texts = [f"{seconds[m]:.3g} s" if m in complete(rows, SETS) else "–" for m in methods]
    return harness.page(
        "# Accuracy of classifiers on data sets that aeon brings along",
        accuracies(rows, "set", methods, ("all sets", *texts)),
        "Seconds of fitting and predicting on two cores of an AMD EPYC; of MiniRocket and rescntk, "
        "half the processor seconds there, of one run; of global alignment and signature, half the "
        "processor seconds on an Intel Xeon.",
        "Kernels of global alignments and of signatures, with the time as a channel: standardized "
        "signals, ridge regression; scale and penalty of the least leave-one-out error. The 1460 "
        "points of ACSF1 are averaged over blocks of 3 for them.",
    )


def complete(rows: pd.DataFrame, sets: Iterable[str]) -> list[str]:
    """Return the methods with results, on all these sets, ours first."""
    measured = rows.groupby("method")["set"].agg(set)
    return [m for m in METHODS if m in measured and measured[m] >= set(sets)]


def draw(rows: pd.DataFrame) -> Any:
    """Return a figure of mean accuracy against time."""
    from rescntk import plots
    from rescntk.plots.style import tidy

    figure = plots.figure((6.4, 4.4))
    ax = figure.subplots()
    points = rows.groupby("method").agg({"seconds": "sum", "accuracy": "mean"})
    for method in complete(rows, SETS):
        point = points.loc[method]
        ax.plot(*point, linestyle="", **MARKS[method])
        x, y, side = SIDES.get(method, (7, 0, "left"))
        beside = {"textcoords": "offset points", "va": "center", "fontsize": "small", "ha": side}
        ax.annotate(method, tuple(point), (x, y), **beside)
    ax.set(xscale="log", xlabel="seconds for all sets, fit and predict", ylabel="mean accuracy")
    ax.xaxis.set_major_formatter("{x:g}")
    tidy(ax, "y")
    ax.set_xlim(right=4 * ax.get_xlim()[1])  # for the names
    return figure


# -- learning curves


def draw_curves(rows: pd.DataFrame, sets: Sequence[str] = CURVE_SETS) -> Any:
    """Return a figure of accuracy against training signals. A bar marks a ceiling below 1."""
    from rescntk import plots
    from rescntk.plots.style import tidy

    sets = [name for name in sets if name in set(rows["set"])]
    figure = plots.figure((6.4, 0.9 + 2.7 * ((len(sets) + 1) // 2)))
    axes = figure.subplots((len(sets) + 1) // 2, 2, sharex=True, sharey=True).ravel()
    axes[0].set(ylabel="accuracy", xscale="log", xticks=CURVE_SIZES)
    for ax, name in zip(axes, sets, strict=True):
        methods = complete(rows, [name])
        of_set = rows[rows["set"] == name].groupby(["method", "size"])["accuracy"]
        means, errors = of_set.mean(), of_set.sem()
        for k, method in enumerate(methods):
            sizes = np.array(CURVE_SIZES) * 1.025 ** (k - (len(methods) - 1) / 2)
            line = {"linewidth": 2.0, "linestyle": "-", "zorder": 3}
            if method != OURS:
                line = {"linewidth": 1.0, "linestyle": "--"}
            label = method if ax is axes[0] else None
            looks = line | MARKS[method]
            ax.errorbar(sizes, means[method], errors[method], markersize=5, label=label, **looks)
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


def curve_table(rows: pd.DataFrame) -> str:
    tables = []
    for name in [name for name in CURVE_SETS if name in set(rows["set"])]:
        methods, bounds = complete(rows, [name]), pd.Series(ceilings(name))
        groups = rows[rows["set"] == name].groupby(["size", "method"])["accuracy"]
        cells = harness.with_errors(groups).unstack()[methods]
        cells["ceiling"] = harness.decimals(bounds[cells.index])
        header = (f"{name}, training signals", *cells)
        tables.append(harness.table(header, cells.itertuples(), left=()))
    return harness.page(
        "# Accuracy of classifiers by number of training signals",
        *tables,
        f"Means of {CURVE_DRAWS} draws from training and test signals together, the same for all "
        "methods, ± standard errors. Ceiling: the share of test signals whose class was among the "
        "training signals; nobody can be right more often.",
    )
