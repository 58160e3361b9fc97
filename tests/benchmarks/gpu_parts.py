"""Parts of the GPU benchmark's tests: made-up rows, machines and reports; a program to be run.

Importing this module puts the folder of the benchmarks on the path.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu_rows
from gpu_rows import FULL, JAX, OURS, Row

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
CENTRE = Row("grams", OURS, "float32", 1000, 128, 3)
OWN = [row for row in gpu_rows.plan(FULL) if row.who == OURS]


MACHINE = {
    "hardware": "NVIDIA H200",
    "multiprocessors": 132,
    "engines_sha256": "new",
    "depth": 9,
    "channels": 4,
    "sizes": "full",
}


def done(row, rate=1e-12, wall=3.0, **more):
    """Return what a row of ours might have found, at a rate of seconds an entry."""
    return vars(row) | {"seconds": rate * row.entries, "entries": row.entries, "wall": wall} | more


def full_report(rate=None, faster=10.0):
    """Return a report of everything, at these picoseconds an entry; peers so much slower."""
    rate = rate or {"float32": 2.0, "float64": 6.0}
    rows = []
    for row in gpu_rows.plan(FULL):
        ps = rate[row.dtype]
        if row.who == OURS:
            found = done(row, 1e-12 * ps)
            if row.part == "layer":
                found |= {"picoseconds": ps, "bound_picoseconds": 0.6 * ps, "share_of_bound": 0.6}
        else:
            slower = faster * (1.0 if row.who == JAX else 1.5)
            # 1 − 1/n of a pair's entries, as in a Gram with its diagonal counted.
            pair = slower * 1e-12 * ps * row.d**2 * 9
            found = vars(row) | {"seconds_of_a_pair": pair, "wall": 20.0}
        rows.append(found)
    return {"machine": MACHINE, "rows": rows}


def program(path, text):
    """Put something to be run in place: a file that is being written cannot be run."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o755)
    return new.replace(path)
