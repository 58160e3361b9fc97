"""Accuracy and time of our classifier, with its defaults, beside other classifiers.

    python benchmarks/classification.py [--curves] [--quick]

Eight sets of equal length that aeon brings along, with their official splits; one setting for all.
Methods that draw random numbers run with three seeds. MultiRocketHydra needs torch.

Seconds are of fitting and predicting. warm: the second time in a process. cold: in a new process,
imports included, with numba's compiled code on disk. first: cold with an empty cache, on two small
sets. Reading signals does not count.

--curves: accuracy with few training signals. Rows that a file has are kept.
"""

import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import CURVE_SETS, METHODS, SEEDS, SETS, ceilings, curve, load, signals
from classification_report import curve_table, draw, draw_curves, table
from harness import Row, read, write

FIRST_SETS = ("ItalyPowerDemand", "BasicMotions")


# -- one method on one set, in a process of its own; aeon is imported for aeon's methods alone


def cold(method: str, path: str) -> float:
    """Return the seconds of fitting and predicting for the first time in this process."""
    begin, (X, y, Z, _) = time.time(), load(path)
    reading = time.time() - begin
    METHODS[method](0).fit(X, y).predict(Z)
    return time.time() - float(os.environ["BENCHMARK_START"]) - reading


def accuracy(method: str, path: str) -> Row:
    """Return accuracies and seconds, cold and then warm."""
    cold_seconds, (X, y, Z, truth) = cold(method, path), load(path)
    accuracies, seconds = [], []
    for seed in SEEDS.get(method, (0,)):
        begin = time.perf_counter()
        predicted = METHODS[method](seed).fit(X, y).predict(Z)
        seconds.append(time.perf_counter() - begin)
        accuracies.append(float(np.mean(predicted == truth)))
    return {
        "accuracy": float(np.mean(accuracies)),
        "warm_seconds": float(np.mean(seconds)),
        "cold_seconds": cold_seconds,
    }


# -- the process that starts the others


def measured(method: str, name: str, path: str) -> Row:
    """Return accuracies and seconds. The first process compiles; the second, if cold, does not."""
    with tempfile.TemporaryDirectory() as cache:

        def ask(work: Callable[[str, str], Any]) -> Any:
            environment = {"NUMBA_CACHE_DIR": cache, "BENCHMARK_START": str(time.time())}
            return harness.apart(work, {"method": method, "path": path}, **environment)

        first, answer = ask(cold), ask(accuracy)
    return answer | {"first_seconds": first if name in FIRST_SETS else None}


def gather(
    folder: str, path: Path, curves: bool, methods: Sequence[str], sets: Sequence[str]
) -> list[Row]:
    """Run what the file lacks; return all its rows. Arrays are in the folder: nobody reads sets."""
    rows = read(path)
    place = {key: i for i, key in enumerate([*SETS, *METHODS])}
    for name in sets:
        arrays_of = f"{folder}/{name}.npz"
        np.savez(arrays_of, *signals(name))
        for method in methods:
            key = {"method": method, "set": name}
            if any(key.items() <= row.items() for row in rows):
                continue
            if curves:
                found = harness.apart(curve, {"method": method, "path": arrays_of})
            else:
                found = [measured(method, name, arrays_of)]
            new = [key | row for row in found]
            rows += new
            harness.say(f"{name}, {method}: {np.mean([row['accuracy'] for row in new]):.3f}")
            rows.sort(key=lambda row: (place[row["set"]], place[row["method"]]))  # stable
            write(path, rows)
    return rows


def main() -> None:
    options = harness.options(__doc__, curves={"action": "store_true", "help": "learning curves"})
    sets = (CURVE_SETS if options.curves else SETS)[: 2 if options.quick else None]
    methods = list(METHODS)
    if importlib.util.find_spec("torch") is None:
        harness.say("MultiRocketHydra left out: needs torch: pip install 'rescntk[benchmark]'")
        methods.remove("MultiRocketHydra")
    path = options.out / f"classification{'_curves' * options.curves}.csv"
    with tempfile.TemporaryDirectory() as folder:
        rows = gather(folder, path, options.curves, methods, sets)
    if options.curves:
        bounds = {name: ceilings(name) for name in CURVE_SETS}
        harness.publish(path, curve_table(rows, bounds), draw_curves(rows, bounds))
    else:
        harness.publish(path, table(rows), draw(rows))


if __name__ == "__main__":
    main()
