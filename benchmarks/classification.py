"""Accuracy and time of our classifier, with its defaults, beside other classifiers.

    python benchmarks/classification.py [--curves | --noise] [--quick]

Eight sets of equal length that aeon brings along, with their official splits; one setting for all.
Methods that draw random numbers run with three seeds. Seconds are of fitting and predicting for the
second time in a process: imports do not count, nor compiling.

--curves: accuracy with few training signals; --noise: with noise in the test signals. Rows that a
file has are kept. Passes were chosen on these sets; ucr.py has sets that had no part in it.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import harness
from classification_methods import (
    CURVE_SETS,
    METHODS,
    ROBUST,
    SETS,
    accuracy,
    curve,
    noisy,
)
from classification_report import (
    curve_table,
    draw,
    draw_curves,
    noise_tables,
    table,
)
from harness import Row, read, write


def gather(path: Path, work: Callable, methods: Sequence[str], sets: Sequence[str]) -> list[Row]:
    """Do the work that the file lacks, each in a process of its own; return all its rows."""
    rows = read(path)
    for name in sets:
        for method in methods:
            key = {"method": method, "set": name}
            if any(key.items() <= row.items() for row in rows):
                continue
            new = [key | row for row in harness.apart(work, {"method": method, "name": name})]
            rows += new
            harness.say(new[0])
            write(path, rows)
    return rows


def main() -> None:
    flags = {name: {"action": "store_true"} for name in ("curves", "noise")}
    options = harness.options(__doc__, **flags)
    sets = (CURVE_SETS if options.curves else SETS)[: 2 if options.quick else None]
    if options.noise:
        path = options.out / "classification_noise.csv"
        return harness.publish(path, noise_tables(gather(path, noisy, ROBUST, sets)))
    methods = list(METHODS)
    if find_spec("torch") is None:
        harness.say("MultiRocketHydra left out: needs torch: pip install 'rescntk[benchmark]'")
        methods.remove("MultiRocketHydra")
    path = options.out / f"classification{'_curves' * options.curves}.csv"
    rows = gather(path, curve if options.curves else accuracy, methods, sets)
    if options.curves:
        harness.publish(path, curve_table(rows, sets), draw_curves(rows, sets))
    else:
        harness.publish(path, table(rows), draw(rows))


if __name__ == "__main__":
    main()
