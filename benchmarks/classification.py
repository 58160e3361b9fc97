"""Accuracy and time of our classifier, with its defaults, beside other classifiers.

    python benchmarks/classification.py [--curves] [--quick]

Eight sets of equal length that aeon brings along, with their official splits; one setting for all.
Methods that draw random numbers run with three seeds. Seconds are of fitting and predicting for the
second time in a process: imports do not count, nor compiling.

--curves: accuracy with few training signals. Rows that a file has are kept.
"""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import harness
import numpy as np
from classification_methods import CURVE_SETS, METHODS, SEEDS, SETS, ceilings, curve, signals
from classification_report import curve_table, draw, draw_curves, table
from harness import Row, read, write


def accuracy(method: str, name: str) -> list[Row]:
    """Return a row with the mean accuracy over the seeds, and the mean of the seconds."""
    X, y, Z, truth = signals(name)
    METHODS[method](0).fit(X, y).predict(Z)  # imported and compiled
    accuracies, seconds = [], []
    for seed in SEEDS.get(method, (0,)):
        begin = time.perf_counter()
        predicted = METHODS[method](seed).fit(X, y).predict(Z)
        seconds.append(time.perf_counter() - begin)
        accuracies.append(float(np.mean(predicted == truth)))
    return [{"accuracy": float(np.mean(accuracies)), "seconds": float(np.mean(seconds))}]


def gather(path: Path, work: Callable, methods: Sequence[str], sets: Sequence[str]) -> list[Row]:
    """Do the work that the file lacks, each in a process of its own; return all its rows."""
    rows = read(path)
    place = {key: i for i, key in enumerate([*SETS, *METHODS])}
    for name in sets:
        for method in methods:
            key = {"method": method, "set": name}
            if any(key.items() <= row.items() for row in rows):
                continue
            new = [key | row for row in harness.apart(work, {"method": method, "name": name})]
            rows += new
            harness.say(f"{name}, {method}: {np.mean([row['accuracy'] for row in new]):.3f}")
            rows.sort(key=lambda row: (place[row["set"]], place[row["method"]]))  # stable
            write(path, rows)
    return rows


def main() -> None:
    options = harness.options(__doc__, curves={"action": "store_true", "help": "learning curves"})
    sets = (CURVE_SETS if options.curves else SETS)[: 2 if options.quick else None]
    methods = list(METHODS)
    if find_spec("torch") is None:
        harness.say("MultiRocketHydra left out: needs torch: pip install 'rescntk[benchmark]'")
        methods.remove("MultiRocketHydra")
    path = options.out / f"classification{'_curves' * options.curves}.csv"
    rows = gather(path, curve if options.curves else accuracy, methods, sets)
    if options.curves:
        bounds = {name: ceilings(name) for name in CURVE_SETS}
        harness.publish(path, curve_table(rows, bounds), draw_curves(rows, bounds))
    else:
        harness.publish(path, table(rows), draw(rows))


if __name__ == "__main__":
    main()
