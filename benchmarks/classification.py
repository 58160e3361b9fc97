"""Our classifier, with its defaults, beside what people use for time series.

    python benchmarks/classification.py [--sets GunPoint,…] [--methods …] [--quick]
    python benchmarks/classification.py --curves

The eight classification sets of equal length that aeon brings along, with their official
splits. One setting for all sets; all choices are made on training signals. Every method runs in
a process of its own, and there fits and predicts twice: *cold* is the first time, imports and
compilation included, *warm* the second. Methods that draw random numbers run warm with three
seeds; their mean accuracy counts. MultiRocketHydra needs torch (pip install
'rescntk[benchmark]') and is left out, with a line that says so, where that is missing.

Written to benchmarks/results/: classification.csv, .md (a table for the README), .png (accuracy
against time); with --curves, classification_curves.csv and .png: accuracy with 5, 10, 20 and 50
training signals, ten draws each. Results of a method on a set that are already in the file are
kept unless --again is given, so that a run can be taken up.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"

SETS = (
    "GunPoint",
    "ItalyPowerDemand",
    "ArrowHead",
    "BasicMotions",
    "JapaneseVowels",
    "PickupGestureWiimoteZ",
    "OSULeaf",
    "ACSF1",
)
QUICK_SETS = ("GunPoint", "ItalyPowerDemand", "BasicMotions")
SEEDS = (0, 1, 2)
JOBS = int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))

CURVE_SETS = ("GunPoint", "BasicMotions", "JapaneseVowels")
CURVE_SIZES = (5, 10, 20, 50)
CURVE_DRAWS = 10
CURVE_TEST = 200  # at most so many of the rest are predicted


# -- the methods: fit on (X, y), predict Z; a seed for those that draw random numbers


def flat(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


def ridge(seed: int) -> Any:
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    return make_pipeline(
        FunctionTransformer(flat), StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 10))
    )


class RadialSVM:
    """C and γ by cross-validation in as many folds, at most 5, as the smallest class has cases."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> RadialSVM:
        from sklearn.model_selection import GridSearchCV, StratifiedKFold
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        model = make_pipeline(StandardScaler(), SVC(C=10.0))
        folds = min(5, np.unique(y, return_counts=True)[1].min())
        if folds > 1:
            scale = 1.0 / flat(X).shape[1]
            grid = {
                "svc__C": np.logspace(-1, 3, 5),
                "svc__gamma": scale * np.logspace(-2, 2, 5),
            }
            splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
            model = GridSearchCV(model, grid, cv=splitter, n_jobs=JOBS)
        self.model = model.fit(flat(X), y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(flat(X))


def neighbour(distance: str) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

        return KNeighborsTimeSeriesClassifier(distance=distance, n_jobs=JOBS)

    return make


def mini_rocket(seed: int) -> Any:
    from aeon.classification.convolution_based import MiniRocketClassifier

    return MiniRocketClassifier(random_state=seed, n_jobs=JOBS)


def multi_rocket_hydra(seed: int) -> Any:
    from aeon.classification.convolution_based import MultiRocketHydraClassifier

    return MultiRocketHydraClassifier(random_state=seed, n_jobs=JOBS)


def ours(seed: int) -> Any:
    from rescntk.learn import ResidualKernelClassifier

    return ResidualKernelClassifier()


METHODS: dict[str, Callable[[int], Any]] = {
    "ridge, flat": ridge,
    "SVM-RBF, flat": lambda seed: RadialSVM(),
    "1-NN DTW": neighbour("dtw"),
    "1-NN MSM": neighbour("msm"),
    "MiniRocket": mini_rocket,
    "MultiRocketHydra": multi_rocket_hydra,
    "rescntk": ours,
}
RANDOM = ("MiniRocket", "MultiRocketHydra")
ROCKETS = RANDOM


def missing(method: str) -> str | None:
    """Return why a method cannot run here, or None."""
    if method == "MultiRocketHydra" and importlib.util.find_spec("torch") is None:
        return "needs torch: pip install 'rescntk[benchmark]'"
    return None


def signals(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from rescntk import datasets

    return (*datasets.load_labelled(name), *datasets.load_labelled(name, "test"))


# -- a worker: one method on one set, in a process of its own


def work(method: str, name: str) -> dict[str, Any]:
    """Return the accuracy and the seconds of one method on one set."""
    start = float(os.environ.get("BENCHMARK_START", time.time()))
    X, y, Z, truth = signals(name)
    loading = time.time() - start

    def run(seed: int) -> tuple[float, float, Any]:
        begin = time.perf_counter()
        model = METHODS[method](seed)
        predicted = model.fit(X, y).predict(Z)
        return float(np.mean(predicted == truth)), time.perf_counter() - begin, model

    # The process and imports are part of a cold start, reading the data is not.
    from rescntk import datasets

    begin = time.perf_counter()
    datasets.load_labelled(name), datasets.load_labelled(name, "test")
    reading = time.perf_counter() - begin
    first, seconds, model = run(SEEDS[0])
    cold = max(loading - reading, 0.0) + seconds
    accuracies, warm = [first], []
    for seed in SEEDS if method in RANDOM else SEEDS[:1]:
        accuracy, seconds, _ = run(seed)
        warm.append(seconds)
        if seed != SEEDS[0]:
            accuracies.append(accuracy)
    chosen = getattr(model, "best_params_", None)
    return {
        "method": method,
        "set": name,
        "accuracy": float(np.mean(accuracies)),
        "lowest": min(accuracies),
        "highest": max(accuracies),
        "warm_seconds": float(np.mean(warm)),
        "cold_seconds": cold,
        "chosen": "" if chosen is None else json.dumps(chosen),
    }


def curve(method: str, name: str) -> list[dict[str, Any]]:
    """Return accuracies with few training signals, drawn from training and test set together."""
    X, y, Z, truth = signals(name)
    X, y = np.concatenate([X, Z]), np.concatenate([y, truth])
    rows = []
    for size in CURVE_SIZES:
        for draw in range(CURVE_DRAWS):
            train, test = draw_signals(y, size, draw)
            model = METHODS[method](draw)
            predicted = model.fit(X[train], y[train]).predict(X[test])
            accuracy = float(np.mean(predicted == y[test]))
            rows.append(
                {"method": method, "set": name, "size": size, "draw": draw, "accuracy": accuracy}
            )
    return rows


def draw_signals(y: np.ndarray, size: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of `size` training signals and of test signals, the same for all methods.

    Classes take turns, in random order, so that all are there as soon as there is room.
    """
    rng = np.random.default_rng([size, draw])
    order = rng.permutation(len(y))
    classes = rng.permutation(np.unique(y))
    queues = [list(order[y[order] == label]) for label in classes]
    train: list[int] = []
    while len(train) < size:
        for queue in queues:
            if queue and len(train) < size:
                train.append(queue.pop(0))
    rest = np.setdiff1d(order, train)
    return np.array(train), rng.permutation(rest)[:CURVE_TEST]


def in_process(method: str, name: str, kind: str) -> Any:
    """Return what a worker says."""
    run = subprocess.run(
        [sys.executable, __file__, "--worker", kind, method, name],
        capture_output=True,
        text=True,
        env=os.environ | {"BENCHMARK_START": str(time.time())},
    )
    if run.returncode:
        raise RuntimeError(f"{method} on {name}:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


# -- results


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = ("method", "set", "chosen")
    return [{k: v if k in texts else float(v) for k, v in row.items()} for row in rows]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )


def gather(path: Path, kind: str, methods: list[str], sets: tuple[str, ...], again: bool) -> list:
    """Run what is not in the file yet, and return all rows."""
    rows = read(path)
    for name in sets:
        for method in methods:
            there = [row for row in rows if (row["method"], row["set"]) == (method, name)]
            if there and not again:
                continue
            rows = [row for row in rows if row not in there]
            answer = in_process(method, name, kind)
            rows += answer if isinstance(answer, list) else [answer]
            mean = (
                np.mean([row["accuracy"] for row in rows[-len(answer) :]])
                if isinstance(answer, list)
                else answer["accuracy"]
            )
            print(f"{name}, {method}: accuracy {mean:.3f}", file=sys.stderr, flush=True)
            place = {key: i for i, key in enumerate([*SETS, *METHODS])}
            rows.sort(key=lambda row: (place[row["set"]], place[row["method"]]))
            write(path, rows)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return accuracies as Markdown, the best of each set in bold, with bars and seconds."""
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    value = {(row["method"], row["set"]): row for row in rows}
    complete = [m for m in methods if all((m, s) in value for s in sets)]
    lines = [
        "| set | " + " | ".join(methods) + " |",
        "|---|" + "--:|" * len(methods),
    ]
    for s in sets:
        best = max(round(value[m, s]["accuracy"], 3) for m in methods if (m, s) in value)
        cells = []
        for m in methods:
            if (m, s) not in value:
                cells.append("–")
                continue
            accuracy = round(value[m, s]["accuracy"], 3)
            cells.append(f"**{accuracy:.3f}**" if accuracy == best else f"{accuracy:.3f}")
        lines.append(f"| {s} | " + " | ".join(cells) + " |")
    mean = {m: np.mean([value[m, s]["accuracy"] for s in sets]) for m in complete}

    def row(title: str, cell: Callable[[str], str]) -> str:
        cells = [cell(m) if m in complete else "–" for m in methods]
        return f"| {title} | " + " | ".join(cells) + " |"

    lines.append(row("**mean**", lambda m: f"{mean[m]:.3f}"))
    for kind in ("warm", "cold"):
        total = {m: sum(value[m, s][f"{kind}_seconds"] for s in sets) for m in complete}
        lines.append(row(f"{kind}, all sets", lambda m, t=total: f"{t[m]:.0f} s"))
    lines += ["", *bars(mean, value, sets)]
    return "\n".join(lines) + "\n"


def bars(mean: dict[str, float], value: dict, sets: list[str]) -> list[str]:
    """Return how our classifier does against what was asked of it."""
    if "rescntk" not in mean or len(sets) < len(SETS):
        return []
    own = mean["rescntk"]
    lines = [f"* Mean accuracy {own:.3f} (asked: above 0.90): {verdict(own > 0.9)}."]
    others = {m: v for m, v in mean.items() if m not in (*ROCKETS, "rescntk")}
    if others:
        best = max(others, key=others.__getitem__)
        text = f"* Best other method that is no ROCKET: {best}, {others[best]:.3f} (asked: below)"
        lines.append(f"{text}: {verdict(own > others[best])}.")
    if "MiniRocket" in mean:
        wins = [
            s for s in sets if value["rescntk", s]["accuracy"] >= value["MiniRocket", s]["accuracy"]
        ]
        text = f"* At least as good as MiniRocket on {len(wins)} of {len(sets)} sets"
        lines.append(f"{text} (asked: half): {verdict(len(wins) >= len(sets) / 2)}.")
    seconds = sum(value["rescntk", s]["warm_seconds"] for s in sets)
    minutes = seconds / 60
    text = f"* Ours on all sets, {os.cpu_count()} cores: {minutes:.1f} minutes (asked: 15)"
    lines.append(f"{text}: {verdict(minutes < 15)}.")
    return lines


def verdict(passed: bool) -> str:
    return "met" if passed else "missed"


MARKS = dict(zip(METHODS, "osD^vPX", strict=True))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw accuracy against time: means over the sets, and each set by itself."""
    from rescntk import plots
    from rescntk.plots import style

    sets = [s for s in SETS if any(row["set"] == s for row in rows)]
    methods = [m for m in METHODS if sum(row["method"] == m for row in rows) == len(sets)]
    figure = plots.figure((9.0, 4.2))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    colours = dict(zip(METHODS, (*style.COLOURS, "black"), strict=False))
    for method in methods:
        own = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: sets.index(row["set"])
        )
        accuracy = [row["accuracy"] for row in own]
        mark = {"marker": MARKS[method], "color": colours[method], "linestyle": ""}
        for kind, fill in (("warm", "full"), ("cold", "none")):
            left.plot(
                sum(row[f"{kind}_seconds"] for row in own),
                np.mean(accuracy),
                fillstyle=fill,
                markersize=8,
                label=method if kind == "warm" else None,
                **mark,
            )
        place = np.arange(len(sets)) + 0.09 * (methods.index(method) - (len(methods) - 1) / 2)
        right.plot(place, accuracy, markersize=5, **mark)
    left.set(xscale="log", xlabel="seconds for all sets, fit and predict", ylabel="mean accuracy")
    left.xaxis.set_major_formatter("{x:g}")
    left.set_title("full: warm, open: cold", fontsize="medium")
    right.set(xticks=range(len(sets)), ylabel="accuracy")
    right.set_xticklabels([s.replace("PickupGestureWiimoteZ", "Pickup…Z") for s in sets],
                          rotation=35, ha="right")  # fmt: skip
    for ax in (left, right):
        ax.grid(True, axis="y", linewidth=0.4, alpha=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    for edge in np.arange(len(sets) - 1) + 0.5:
        right.axvline(edge, linewidth=0.4, color="0.85")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    figure.savefig(path)


def draw_curves(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw accuracy against the number of training signals, with standard errors."""
    from rescntk import plots
    from rescntk.plots import style

    sets = [s for s in CURVE_SETS if any(row["set"] == s for row in rows)]
    figure = plots.figure((9.0, 4.0))
    axes = np.atleast_1d(figure.subplots(1, len(sets), sharey=True))
    colours = dict(zip(METHODS, (*style.COLOURS, "black"), strict=False))
    for ax, name in zip(axes, sets, strict=True):
        methods = [m for m in METHODS if any(r["method"] == m and r["set"] == name for r in rows)]
        for k, method in enumerate(methods):
            means, errors = [], []
            for size in CURVE_SIZES:
                values = [
                    row["accuracy"]
                    for row in rows
                    if (row["method"], row["set"], row["size"]) == (method, name, size)
                ]
                means.append(np.mean(values))
                errors.append(np.std(values, ddof=1) / np.sqrt(len(values)))
            shift = 1.012 ** (k - len(methods) / 2)
            ax.errorbar(
                np.array(CURVE_SIZES) * shift,
                means,
                errors,
                marker=MARKS[method],
                color=colours[method],
                linewidth=2.0 if method == "rescntk" else 1.0,
                linestyle="-" if method == "rescntk" else "--",
                markersize=5,
                label=method if ax is axes[0] else None,
            )
        ax.set(xscale="log", xlabel="training signals", title=name, xticks=CURVE_SIZES)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")
        ax.grid(True, linewidth=0.4, alpha=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"accuracy, mean of {CURVE_DRAWS} draws")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    figure.savefig(path)


def curve_table(rows: list[dict[str, Any]]) -> str:
    """Return mean accuracies of the learning curves as Markdown."""
    lines = []
    for name in CURVE_SETS:
        methods = [m for m in METHODS if any(r["method"] == m and r["set"] == name for r in rows)]
        if not methods:
            continue
        lines += [
            f"| {name}, training signals | " + " | ".join(methods) + " |",
            "|--:|" + "--:|" * len(methods),
        ]
        for size in CURVE_SIZES:
            cells = []
            for method in methods:
                values = [
                    r["accuracy"]
                    for r in rows
                    if (r["method"], r["set"], r["size"]) == (method, name, size)
                ]
                cells.append(
                    f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"
                )
            lines.append(f"| {size} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="some of the sets, by name, with commas")
    parser.add_argument("--methods", help="some of the methods, by name, with semicolons")
    parser.add_argument("--quick", action="store_true", help="three small sets, no files written")
    parser.add_argument("--curves", action="store_true", help="learning curves instead")
    parser.add_argument("--again", action="store_true", help="run what is in the file already")
    parser.add_argument("--worker", nargs=3, metavar=("KIND", "METHOD", "SET"),
                        help=argparse.SUPPRESS)  # fmt: skip
    options = parser.parse_args()
    if options.worker:
        warnings.filterwarnings("ignore")
        kind, method, name = options.worker
        print(json.dumps((work if kind == "accuracy" else curve)(method, name)))
        return
    methods = options.methods.split(";") if options.methods else list(METHODS)
    for method in [m for m in methods if missing(m)]:
        print(f"{method} left out: {missing(method)}", file=sys.stderr)
        methods.remove(method)
    known = CURVE_SETS if options.curves else SETS
    chosen = QUICK_SETS if options.quick else known
    sets = tuple(options.sets.split(",")) if options.sets else tuple(chosen)
    if not set(sets) <= set(known) or not set(methods) <= set(METHODS):
        parser.error(f"sets are {', '.join(known)}; methods are {'; '.join(METHODS)}")
    if options.quick:
        print(table([in_process(method, name, "accuracy") for name in sets for method in methods]))
        return
    if options.curves:
        path = RESULTS / "classification_curves.csv"
        rows = gather(path, "curve", methods, sets, options.again)
        path.with_suffix(".md").write_text(curve_table(rows), encoding="utf-8")
        draw_curves(rows, path.with_suffix(".png"))
        print(curve_table(rows))
        return
    path = RESULTS / "classification.csv"
    rows = gather(path, "accuracy", methods, sets, options.again)
    path.with_suffix(".md").write_text(table(rows), encoding="utf-8")
    draw(rows, path.with_suffix(".png"))
    print(table(rows))


if __name__ == "__main__":
    main()
