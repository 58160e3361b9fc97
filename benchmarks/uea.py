"""Accuracy and log loss on sets of several channels of the UEA archive, beside twenty methods.

    python benchmarks/uea.py --archive FOLDER [--quick]

FOLDER has the archive's files as aeon's load_classification(NAME, extract_path=FOLDER) writes them
there: NAME/NAME_TRAIN.ts and NAME/NAME_TEST.ts. Official splits only. uea_peers.csv has the
accuracies that tsml-eval published (Multivariate, fold 0). Our classifier has its defaults and one
thread. No choice was made by eleven of the thirteen sets. They ran twice: before the defaults saw
covariances of channels (run 1), and after that choice was fixed (run 2). Rows of the file are kept.
"""

import warnings
from argparse import Namespace
from functools import partial
from pathlib import Path

import harness
import numpy as np
import pandas as pd
import ucr
from classification_methods import FAST, OURS
from harness import Row, call_by_name
from simulated import Problem

SHOWN = ("HC2", "ROCKET", "DrCIF", "MUSE", "InceptionT", "TDE", "1NN-DTW-D")
"""Peers with a column."""

RUN = 2
"""The run of today's defaults."""


def peers() -> pd.DataFrame:
    """Return the published accuracies, a row for each set."""
    return pd.read_csv(Path(__file__).with_name("uea_peers.csv"), index_col="set")


def signals(archive: Path, name: str) -> Problem:
    """Return training signals and labels, test signals and labels, of the official split."""
    files = (archive / name / f"{name}_{part}.ts" for part in ("TRAIN", "TEST"))
    (X, y), (Z, truth) = (call_by_name("aeon.datasets.load_from_ts_file", str(f)) for f in files)
    return X, y, Z, truth


def measure(archive: Path, name: str, run: int) -> list[Row]:
    """Return a row for each of our sets of views."""
    X, y, Z, truth = signals(archive, name)
    few = np.append(np.unique(y, return_index=True)[1], len(X) - 1)
    rows = []
    for method, views in ((OURS, "default"), (FAST, "fast")):
        ucr.fit_and_predict_proba(views, X[few], y[few], Z[:2])  # compiles
        model, proba, (fit, predict) = ucr.fit_and_predict_proba(views, X, y, Z)
        sizes = {"n": len(X), "channels": X.shape[1], "points": X.shape[2]}
        row: Row = {"method": method, **sizes, "classes": len(model.classes_)}
        row |= ucr.scores(model, proba, truth) | {"left_out": model.left_out_score_}
        rows.append(row | {"fit_seconds": fit, "predict_seconds": predict})
    return rows


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    published = peers()
    first, second = (rows[rows["run"] == run].set_index(["set", "method"]) for run in (1, RUN))
    columns = {
        "run 1": first["accuracy"].xs(OURS, level="method"),
        OURS: second["accuracy"].xs(OURS, level="method"),
        FAST: second["accuracy"].xs(FAST, level="method"),
    }
    accuracy = published.join(pd.DataFrame(columns), how="inner")
    shown = [*columns, *SHOWN]
    lines = [
        (name, *sizes(second.loc[(name, OURS)]), *harness.bold(row[shown]))
        for name, row in accuracy.iterrows()
    ]
    means = accuracy.mean()
    lines.append((f"**mean** ({len(accuracy)} sets)", "", "", "", "", *harness.bold(means[shown])))
    ranks = [rank_among(accuracy[[*published, name]], name) for name in columns]
    mean_ranks = accuracy[[*published, OURS]].rank(axis=1, ascending=False).mean()
    texts = ", ".join(f"{name}: {rank:g}" for name, rank in zip(columns, ranks, strict=True))
    by_set = ", ".join(f"{name} {mean_ranks[name]:.2f}" for name in mean_ranks.nsmallest(4).index)
    return harness.page(
        "# Accuracy on thirteen sets of the UEA archive, beside twenty published methods",
        "Sets of several channels, official splits. No choice was made by eleven of them; "
        "BasicMotions had a part in choosing the view of covariances, HandMovementDirection in "
        "earlier choices. All ran twice: run 1 before the default views saw covariances of "
        "channels, run 2 after that choice was fixed. Peers are as published by tsml-eval.",
        "## Accuracy",
        harness.table(("set", "n", "channels", "points", "classes", *shown), lines),
        f"Ranks of the means, each among {len(published.columns) + 1} methods: {texts}. Least mean "
        f"ranks over sets, with run 2 of ours: {by_set}.",
        "## Log loss, and time",
        "tsml-eval published accuracies alone. Processor seconds of one thread of an Intel Xeon "
        "with AMX, run 2.",
        losses_table(first, second),
    )


def sizes(row: pd.Series) -> list[str]:
    """Return the numbers of signals, channels, points and classes."""
    return [f"{row[name]:.0f}" for name in ("n", "channels", "points", "classes")]


def rank_among(accuracy: pd.DataFrame, name: str) -> float:
    """Return the rank of a method's mean; methods that are level count half."""
    others, ours = accuracy.mean().drop(name), accuracy[name].mean()
    return 1 + sum(others > ours) + sum(others == ours) / 2


def losses_table(first: pd.DataFrame, second: pd.DataFrame) -> list[str]:
    """Return log losses of both runs, and seconds."""
    names = second.index.unique("set").sort_values()
    columns = ["log_loss", "left_out", "fit_seconds", "predict_seconds"]
    rows = {
        name: [first.loc[(name, OURS), "log_loss"]]
        + [second.loc[(name, method), column] for column in columns for method in (OURS, FAST)]
        for name in names
    }
    rows["**mean**"] = np.mean([*rows.values()], axis=0)
    lines = [
        (name, *harness.decimals(values[:5]), *(f"{seconds:.1f}" for seconds in values[5:]))
        for name, values in rows.items()
    ]
    header = ("log loss: run 1", OURS, FAST, f"left out: {OURS}", FAST)
    seconds = (f"fit, s: {OURS}", FAST, f"all predictions, s: {OURS}", FAST)
    return harness.table(("set", *header, *seconds), lines)


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    if asked.archive is None:
        raise SystemExit("give --archive FOLDER, with NAME/NAME_TRAIN.ts and NAME/NAME_TEST.ts")
    keys = [{"set": name, "run": RUN} for name in peers().index]
    harness.measure_missing(
        path, keys[: 1 if asked.quick else None], partial(measure, asked.archive)
    )


if __name__ == "__main__":
    folder = {"type": Path, "metavar": "FOLDER", "help": "the archive's files"}
    harness.script(__doc__, "uea.csv", measure_all, table, archive=folder)
