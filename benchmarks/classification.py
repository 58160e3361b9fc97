"""Accuracy and time of our classifier, with its defaults, beside other classifiers.

    python benchmarks/classification.py [--sets GunPoint,…] [--methods "MiniRocket;…"]
    python benchmarks/classification.py --curves
    python benchmarks/classification.py --design

The eight classification sets of equal length that aeon brings along, with their official
splits. One setting for all sets; all choices are made on training signals. Methods that draw
random numbers run with three seeds; their mean accuracy counts. MultiRocketHydra needs torch
(pip install 'rescntk[benchmark]') and is left out, with a line that says so, where that is missing.

Seconds are the time to fit to the training signals and to predict the test signals:

* warm: the second time in a process.
* cold: in a new process, from its start. Imports count. Reading the signals does not count:
  workers get a file of arrays. Compiled code of earlier processes is on disk, in numba's cache.
* first: cold with an empty cache, so that compiling counts. It is paid once on a machine, and
  measured on two small sets: one channel, many channels.

Files in benchmarks/results/:

* classification.csv, .md (a table for the README) and .png (accuracy against time);
* classification_passes.csv: the passes that our classifier averaged, with errors and weights;
* classification_curves.csv, .md and .png, with --curves: accuracy with 5, 10, 20 and 50 training
  signals, ten draws each;
* classification_design.md, with --design: what our classifier's plan of passes rests on, measured
  on parts of the training sets.

Results that are already in a file are kept, so that a run can be continued. --again replaces them;
--cold replaces the cold and first seconds alone.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import (
    CURVE_DRAWS,
    CURVE_SETS,
    CURVE_SIZES,
    METHODS,
    OURS,
    QUICK_SETS,
    SEEDS,
    SETS,
    ceilings,
    draw_signals,
    missing,
    signals,
)
from classification_report import curve_table, draw, draw_curves, table
from harness import RESULTS, Row, read, write

FIRST_SETS = {"one": "ItalyPowerDemand", "many": "BasicMotions"}
SECONDS = ("warm_seconds", "cold_seconds", "first_seconds")
COLUMNS = ("method", "set", "accuracy", "lowest", "highest", *SECONDS, "load")


# -- a worker: one method on one set, in its own process; aeon is imported for aeon's methods alone


def arrays(path: str | Path) -> tuple[np.ndarray, ...]:
    """Return training signals and labels, test signals and labels."""
    with np.load(path) as file:
        return tuple(file.values())


def once(method: str, path: str) -> tuple[Row, Any]:
    """Fit and predict for the first time in this process, and return results and model.

    The results are accuracy, cold seconds, and the number of functions that numba compiled.
    """
    begin = time.time()
    X, y, Z, truth = arrays(path)
    reading = time.time() - begin
    before = compiled()
    model = METHODS[method](0)
    predicted = model.fit(X, y).predict(Z)
    seconds = time.time() - float(os.environ["BENCHMARK_START"]) - reading
    accuracy = float(np.mean(predicted == truth))
    return {
        "accuracy": accuracy,
        "cold_seconds": seconds,
        "compiled": compiled() - before,
    }, model


def compiled() -> int:
    return sum(1 for _ in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))


def work(method: str, path: str) -> Row:
    """Return accuracies and seconds, cold and then warm; of our classifier the passes too."""
    answer, model = once(method, path)
    X, y, Z, truth = arrays(path)
    accuracies, seconds = [], []
    for seed in SEEDS.get(method, (0,)):
        begin = time.perf_counter()
        predicted = METHODS[method](seed).fit(X, y).predict(Z)
        seconds.append(time.perf_counter() - begin)
        accuracies.append(float(np.mean(predicted == truth)))
    answer |= {
        "accuracy": float(np.mean(accuracies)),
        "lowest": min(accuracies),
        "highest": max(accuracies),
        "warm_seconds": float(np.mean(seconds)),
        "load": os.getloadavg()[0],
    }
    if method == OURS:
        answer["passes"] = {k: v.tolist() for k, v in model.passes_.items()}
    return answer


def curve(method: str, path: str) -> list[Row]:
    """Return accuracies with few training signals, drawn from training and test set together."""
    X, y, Z, truth = arrays(path)
    X, y = np.concatenate([X, Z]), np.concatenate([y, truth])
    rows = []
    for size in CURVE_SIZES:
        for number in range(CURVE_DRAWS):
            train, test = draw_signals(y, size, number)
            model = METHODS[method](number)
            predicted = model.fit(X[train], y[train]).predict(X[test])
            rows.append(
                {"size": size, "draw": number, "accuracy": float(np.mean(predicted == y[test]))}
            )
    return rows


WORK = {
    "accuracy": work,
    "cold": lambda method, path: once(method, path)[0],
    "curve": curve,
}


# -- the process that starts the workers


class Workers:
    """Starts workers, with signals in files and numba caches of their own.

    Each method has two caches, empty at first: for signals of one channel, and of many channels.
    So the first worker with a cache compiles, and no later worker does.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[tuple[str, str], float] = {}

    def measure(self, method: str, name: str, kind: str) -> Row:
        """Return the answer of a worker whose cold seconds contain no compiling."""
        channels = "one" if arrays(self.signals(name))[0].shape[1] == 1 else "many"
        cache = self.folder / "caches" / f"{list(METHODS).index(method)} {channels}"
        if not cache.exists():
            cache.mkdir(parents=True)
            first = self.ask(method, FIRST_SETS[channels], "cold", cache)
            self.first[method, FIRST_SETS[channels]] = first["cold_seconds"]
        answer = self.ask(method, name, kind, cache)
        if answer["compiled"]:  # code that the small set did not need
            again = self.ask(method, name, "cold", cache)
            if again["compiled"]:
                raise RuntimeError(f"{method} on {name} compiles the same code every time")
            answer["cold_seconds"] = again["cold_seconds"]
        return answer | {"first_seconds": self.first.get((method, name))}

    def ask(self, method: str, name: str, kind: str, cache: Path | None = None) -> Any:
        """Start a worker of this kind, and return its answer."""
        words = ("--worker", kind, method, str(self.signals(name)))
        environment = {"NUMBA_CACHE_DIR": str(cache)} if cache else {}
        start = str(time.time())
        return harness.apart(__file__, *words, BENCHMARK_START=start, **environment)

    def signals(self, name: str) -> Path:
        """Return the file with a set's arrays, written at the first call."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            np.savez(path, *signals(name))
        return path


def gather(
    workers: Workers, path: Path, kind: str, methods: list[str], sets: tuple[str, ...], again: bool
) -> list[Row]:
    """Run the methods whose results are not in the file yet, and return all rows of the file.

    `kind` is the kind of worker; "cold" measures the rows that are in the file again.
    """
    rows = read(path)
    place = {key: i for i, key in enumerate([*SETS, *METHODS])}
    for name in sets:
        for method in methods:
            there = [row for row in rows if (row["method"], row["set"]) == (method, name)]
            if bool(there) != (kind == "cold") and not (there and again):
                continue
            key = {"method": method, "set": name}
            if kind == "curve":
                new = [key | row for row in workers.ask(method, name, kind)]
            else:
                answer = workers.measure(method, name, kind)
                if "passes" in answer:
                    save_passes(path, name, answer["passes"])
                if kind == "cold":
                    answer = {k: v for k, v in answer.items() if k.endswith("_seconds")}
                new = [(there[0] if kind == "cold" else key) | answer]
            rows = [row for row in rows if row not in there] + new
            harness.say(f"{name}, {method}: {np.mean([row['accuracy'] for row in new]):.3f}")
            rows.sort(key=lambda row: (place[row["set"]], place[row["method"]]))  # stable
            write(path, rows, () if kind == "curve" else COLUMNS)
    return rows


def save_passes(path: Path, name: str, passes: dict[str, list]) -> None:
    """Write the passes averaged on a set to a file beside the results."""
    path = path.with_name(f"{path.stem}_passes.csv")
    made = [
        {"set": name} | dict(zip(passes, values, strict=True))
        for values in zip(*passes.values(), strict=True)
    ]
    rows = [row for row in read(path) if row["set"] != name] + made
    rows.sort(key=lambda row: SETS.index(row["set"]))
    write(path, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", help="some of the sets, by name, with commas")
    parser.add_argument("--methods", help="some of the methods, by name, with semicolons")
    parser.add_argument("--quick", action="store_true", help="three small sets, no files written")
    parser.add_argument("--curves", action="store_true", help="learning curves instead")
    parser.add_argument("--design", action="store_true", help="what our plan rests on instead")
    parser.add_argument("--again", action="store_true", help="replace results in the file")
    parser.add_argument("--cold", action="store_true", help="replace cold and first seconds")
    parser.add_argument("--worker", nargs=3, metavar=("KIND", "METHOD", "FILE"),
                        help=argparse.SUPPRESS)  # fmt: skip
    options = parser.parse_args()
    if options.worker:
        warnings.filterwarnings("ignore")
        kind, method, path = options.worker
        print(json.dumps(WORK[kind](method, path)))
        return
    methods = options.methods.split(";") if options.methods else list(METHODS)
    known = CURVE_SETS if options.curves else SETS
    sets = tuple(options.sets.split(",")) if options.sets else known
    if not set(sets) <= set(known) or not set(methods) <= set(METHODS):
        parser.error(f"sets are {', '.join(known)}; methods are {'; '.join(METHODS)}")
    for method in [m for m in methods if missing(m)]:
        harness.say(f"{method} left out: {missing(method)}")
        methods.remove(method)
    if options.design:
        import classification_design

        print(classification_design.main(RESULTS, sets))
        return
    with tempfile.TemporaryDirectory() as folder:
        workers = Workers(Path(folder))
        if options.quick:
            rows = gather(workers, Path(folder) / "quick.csv", "accuracy", methods,
                          QUICK_SETS, False)  # fmt: skip
            print(table(rows))
        elif options.curves:
            path = RESULTS / "classification_curves.csv"
            rows = gather(workers, path, "curve", methods, sets, options.again)
            bounds = {name: ceilings(name) for name in CURVE_SETS}
            path.with_suffix(".md").write_text(curve_table(rows, bounds), encoding="utf-8")
            draw_curves(rows, bounds).savefig(path.with_suffix(".png"))
            print(curve_table(rows, bounds))
        else:
            path = RESULTS / "classification.csv"
            kind = "cold" if options.cold else "accuracy"
            rows = gather(workers, path, kind, methods, sets, options.again)
            path.with_suffix(".md").write_text(table(rows), encoding="utf-8")
            draw(rows).savefig(path.with_suffix(".png"))
            print(table(rows))


if __name__ == "__main__":
    main()
