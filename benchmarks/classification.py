"""Accuracy and time of our classifier, with its defaults, beside other classifiers.

    python benchmarks/classification.py [--curves | --noise] [--quick]

Eight sets of equal length that aeon brings along, with their official splits; one setting for all.
Methods that draw random numbers run with three seeds. Seconds are of fitting and predicting for the
second time in a process: imports do not count, nor compiling.

--curves: accuracy with few training signals; --noise: with noise in the test signals. Rows that a
file has are kept. Passes were chosen on these sets; ucr.py has sets that had no part in it.
"""

import sys
from argparse import Namespace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import harness
from classification_methods import CURVE_SETS, METHODS, ROBUST, SETS, accuracy, curve, noisy
from classification_report import curve_table, draw, draw_curves, noise_tables, table

KINDS = {
    "": (accuracy, METHODS, SETS, table, draw),
    "curves": (curve, METHODS, CURVE_SETS, curve_table, draw_curves),
    "noise": (noisy, ROBUST, SETS, noise_tables, None),
}
"""What is measured: a function of a method and a set, the methods, the sets, page and picture."""


def main(kind: str) -> None:
    function, methods, sets, page, picture = KINDS[kind]

    def measure(asked: Namespace, path: Path) -> None:
        able = [m for m in methods if m != "MultiRocketHydra" or find_spec("torch")]
        if len(able) < len(methods):
            harness.say("MultiRocketHydra left out: needs torch: pip install 'rescntk[benchmark]'")
        names = sets[: 2 if asked.quick else None]
        keys = [{"method": method, "set": name} for name in names for method in able]
        harness.gather(path, keys, partial(harness.apart, function))

    flags = {name: {"action": "store_true"} for name in KINDS if name}
    file = "_".join(filter(None, ("classification", kind)))
    harness.script(__doc__, f"{file}.csv", measure, page, picture, **flags)


if __name__ == "__main__":
    main(next((name for name in KINDS if name and f"--{name}" in sys.argv), ""))
