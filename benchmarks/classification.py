"""Accuracy and time of our classifier, with its defaults, beside other classifiers.

    python benchmarks/classification.py [--sets GunPoint,…] [--methods "MiniRocket;…"]
    python benchmarks/classification.py --curves
    python benchmarks/classification.py --design

Eight sets of equal length that aeon brings along, with their official splits; one setting for all.
Methods that draw random numbers run with three seeds. MultiRocketHydra needs torch.

Seconds are of fitting and predicting. warm: the second time in a process. cold: in a new process,
imports included, with numba's compiled code on disk; workers read signals from a file of arrays,
which does not count. first: cold with an empty cache, on one small set of one channel and one of
many.

Files: classification.csv, .md (a table for the README), .png; with --curves
classification_curves.*, accuracy with few training signals; with --design
classification_design.md, what the plan of our passes rests on. Rows that a file has are kept.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import (
    CURVE_DRAWS,
    CURVE_SETS,
    CURVE_SIZES,
    METHODS,
    QUICK_SETS,
    SEEDS,
    SETS,
    ceilings,
    draw_signals,
    missing,
    signals,
)
from classification_report import curve_table, draw, draw_curves, table
from harness import Row, read, write

FIRST_SETS = {"one": "ItalyPowerDemand", "many": "BasicMotions"}
SECONDS = ("warm_seconds", "cold_seconds", "first_seconds")
COLUMNS = ("method", "set", "accuracy", "lowest", "highest", *SECONDS, "load")


# -- one method on one set, in a process of its own; aeon is imported for aeon's methods alone


def arrays(path: str | Path) -> tuple[np.ndarray, ...]:
    with np.load(path) as file:
        return tuple(file.values())


def compiled() -> int:
    return sum(1 for _ in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))


def cold(method: str, path: str) -> Row:
    """Fit and predict for the first time in this process; count functions that numba compiles."""
    begin, (X, y, Z, _) = time.time(), arrays(path)
    reading, before = time.time() - begin, compiled()
    METHODS[method](0).fit(X, y).predict(Z)
    seconds = time.time() - float(os.environ["BENCHMARK_START"]) - reading
    return {"cold_seconds": seconds, "compiled": compiled() - before}


def accuracy(method: str, path: str) -> Row:
    """Return accuracies and seconds, cold and then warm."""
    answer = cold(method, path)
    X, y, Z, truth = arrays(path)
    accuracies, seconds = [], []
    for seed in SEEDS.get(method, (0,)):
        begin = time.perf_counter()
        predicted = METHODS[method](seed).fit(X, y).predict(Z)
        seconds.append(time.perf_counter() - begin)
        accuracies.append(float(np.mean(predicted == truth)))
    return answer | {
        "accuracy": float(np.mean(accuracies)),
        "lowest": min(accuracies),
        "highest": max(accuracies),
        "warm_seconds": float(np.mean(seconds)),
        "load": os.getloadavg()[0],
    }


def curve(method: str, path: str) -> list[Row]:
    X, y, Z, truth = arrays(path)
    X, y = np.concatenate([X, Z]), np.concatenate([y, truth])
    rows = []
    for size in CURVE_SIZES:
        for number in range(CURVE_DRAWS):
            train, test = draw_signals(y, size, number)
            predicted = METHODS[method](number).fit(X[train], y[train]).predict(X[test])
            share = float(np.mean(predicted == y[test]))
            rows.append({"size": size, "draw": number, "accuracy": share})
    return rows


# -- the process that starts the others


class Workers:
    """Starts processes, with signals in files and numba caches of their own.

    Each method has two caches, empty at first: for signals of one channel, and of many channels.
    So the first process with a cache compiles, and no later process does.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[tuple[str, str], float] = {}

    def measure(self, method: str, name: str) -> Row:
        """Return accuracies and seconds; the cold seconds contain no compiling."""
        channels = "one" if arrays(self.signals(name))[0].shape[1] == 1 else "many"
        cache = self.folder / "caches" / f"{list(METHODS).index(method)} {channels}"
        if not cache.exists():
            cache.mkdir(parents=True)
            small = FIRST_SETS[channels]
            self.first[method, small] = self.ask(cold, method, small, cache)["cold_seconds"]
        answer = self.ask(accuracy, method, name, cache)
        if answer["compiled"]:  # code that the small set did not need
            again = self.ask(cold, method, name, cache)
            if again["compiled"]:
                raise RuntimeError(f"{method} on {name} compiles the same code every time")
            answer["cold_seconds"] = again["cold_seconds"]
        return answer | {"first_seconds": self.first.get((method, name))}

    def ask(self, work: Any, method: str, name: str, cache: Path | None = None) -> Any:
        options = {"method": method, "path": str(self.signals(name))}
        environment = {"NUMBA_CACHE_DIR": str(cache)} if cache else {}
        return harness.apart(work, options, BENCHMARK_START=str(time.time()), **environment)

    def signals(self, name: str) -> Path:
        """Return the file with a set's arrays, written at the first call."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            np.savez(path, *signals(name))
        return path


def gather(
    workers: Workers, path: Path, curves: bool, methods: Iterable[str], sets: Sequence[str]
) -> list[Row]:
    """Run the methods whose results are not in the file yet, and return all rows of the file."""
    rows = read(path)
    place = {key: i for i, key in enumerate([*SETS, *METHODS])}
    for name in sets:
        for method in methods:
            key = {"method": method, "set": name}
            if any(key.items() <= row.items() for row in rows):
                continue
            found = workers.ask(curve, method, name) if curves else [workers.measure(method, name)]
            new = [key | row for row in found]
            rows += new
            harness.say(f"{name}, {method}: {np.mean([row['accuracy'] for row in new]):.3f}")
            rows.sort(key=lambda row: (place[row["set"]], place[row["method"]]))  # stable
            write(path, rows, () if curves else COLUMNS)
    return rows


def main() -> None:
    options = harness.options(
        __doc__,
        sets={"help": "some of the sets, by name, with commas"},
        methods={"help": "some of the methods, by name, with semicolons"},
        curves={"action": "store_true", "help": "learning curves instead"},
        design={"action": "store_true", "help": "what our plan rests on instead"},
    )
    sets = harness.chosen(options.sets, CURVE_SETS if options.curves else SETS)
    if options.quick:
        sets = [name for name in sets if name in QUICK_SETS]
    if options.design:
        import classification_design

        classification_design.main(options.out, sets)
        return
    methods = harness.chosen(options.methods, METHODS, ";")
    for method in [m for m in methods if missing(m)]:
        harness.say(f"{method} left out: {missing(method)}")
        methods.remove(method)
    path = options.out / f"classification{'_curves' * options.curves}.csv"
    with tempfile.TemporaryDirectory() as folder:
        rows = gather(Workers(Path(folder)), path, options.curves, methods, sets)
    if options.curves:
        bounds = {name: ceilings(name) for name in CURVE_SETS}
        harness.publish(path, curve_table(rows, bounds), draw_curves(rows, bounds))
    else:
        harness.publish(path, table(rows), draw(rows))


if __name__ == "__main__":
    main()
