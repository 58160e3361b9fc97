"""Many signals: landmarks, stored Grams and conjugate gradients, measured against their bars.

    python benchmarks/scale.py [--quick] [--out FOLDER]

The signals are cylinder-bell-funnel with noise. Each measurement runs in a process of its own, and
is kept in scale.json, or in many_signals.json if it is of our classifier. A second run goes on from
there; tables follow. All take three hours of a core. Times are processor times.
"""

from collections.abc import Sequence

import harness
import scale_parts
import scale_report
from harness import Row

LADDER = (500, 1000, 2000, 5000, 10_000, 50_000)

KERNEL, SHORT_KERNEL = ["ResCGPK", 3, 33], ["ResCGPK", 3, 9]
"""Name, depth and input filter size, also for signals of 32 time points. Chosen from a few trials
on 700 signals: the full kernel's accuracy is .979, and .948 with the NTK and filters of 9."""

# Most signals: the full kernel matrix takes half an hour at 5000, MiniRocket 16 GB at 50 000.
FULL, MINIROCKET = 5000, 10_000
LANDMARKS, TESTED = 500, 2000

CLASSIFIER = [(1000, "all"), (1000, 500), (1500, 500), (2000, "all"), (2000, 500)]
CLASSIFIER += [(5000, 500), (10_000, 500)]
"""Signals and landmarks of our classifier."""


def plan() -> list[Row]:
    """Return the measurements, from few signals to many."""
    found: list[Row] = []
    for n in LADDER:
        sizes = {"n": n, "n_test": TESTED}
        if n <= MINIROCKET:
            found.append({"part": "minirocket", **sizes})
        sizes["kernel"], rank = KERNEL, min(LANDMARKS, n // 2)
        found.append({"part": "landmarks", **sizes, "rank": rank})
        if n <= FULL:
            found.append({"part": "full", **sizes})
    for n in (2000, 10_000):
        sizes = {"rank": LANDMARKS, "every": 4, "ridge": 1e-3, "block": 1024, "most": 300}
        found.append({"part": "conjugate_gradients", "kernel": SHORT_KERNEL, "n": n, **sizes})
    for n in (1000, 5000):
        sizes = {"d": 100, "depth": 1, "workers": 2, "block": 512}
        found.append({"part": "overhead", "n": n, **sizes})
    return sorted(found, key=lambda spec: spec["n"])


def quick_plan() -> list[Row]:
    sizes = {"n": 40, "n_test": 20}
    equations = {"n": 40, "rank": 10, "every": 2, "ridge": 1e-2, "block": 16, "most": 100}
    return [
        {"part": "landmarks", "kernel": KERNEL, **sizes, "rank": 8},
        {"part": "full", "kernel": KERNEL, **sizes},
        {"part": "minirocket", **sizes},
        {"part": "conjugate_gradients", "kernel": SHORT_KERNEL, **equations},
        {"part": "overhead", "n": 12, "d": 16, "depth": 1, "workers": 1, "block": 8},
    ]


def main(arguments: Sequence[str] | None = None) -> Row:
    options = harness.options(__doc__, arguments)
    path, machine = options.out / "scale.json", harness.machine()
    report = harness.begun(path, machine, tuple(machine))

    def measure(spec: Row) -> Row:
        part = scale_parts.measure
        return part(spec) if options.quick else harness.apart(part, {"spec": spec})

    specs = quick_plan() if options.quick else plan()
    harness.resume(path, report, report["rows"], specs, measure)
    harness.publish(path, scale_report.text(report))
    path = options.out / "many_signals.json"
    rows = harness.load(path, [])
    specs = [{"part": "classifier", "n": n, "landmarks": some} for n, some in CLASSIFIER]
    if options.quick:
        specs = [{"part": "classifier", "n": 40, "landmarks": 20, "n_test": 20}]
    harness.resume(path, rows, rows, specs, measure)
    harness.publish(path, scale_report.thousands(rows))
    return report


if __name__ == "__main__":
    main()
