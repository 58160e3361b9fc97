"""Many signals: landmarks, stored Grams and conjugate gradients, measured against their bars.

    python benchmarks/scale.py [--quick] [--out FOLDER]

The signals are cylinder-bell-funnel with noise. Each measurement runs in a process of its own, and
is kept in scale.json, or in many_signals.json if it is of our classifier. A second run goes on from
there; tables follow. All take three hours of a core. Times are processor times.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import harness
import scale_parts
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
    specs: list[Row] = []
    for n in LADDER:
        sizes = {"n": n, "n_test": TESTED}
        if n <= MINIROCKET:
            specs.append({"part": "minirocket", **sizes})
        sizes["kernel"], rank = KERNEL, min(LANDMARKS, n // 2)
        specs.append({"part": "landmarks", **sizes, "rank": rank})
        if n <= FULL:
            specs.append({"part": "full", **sizes})
    for n in (2000, 10_000):
        sizes = {"rank": LANDMARKS, "every": 4, "ridge": 1e-3, "block": 1024, "most": 300}
        specs.append({"part": "conjugate_gradients", "kernel": SHORT_KERNEL, "n": n, **sizes})
    for n in (1000, 5000):
        sizes = {"d": 100, "depth": 1, "workers": 2, "block": 512}
        specs.append({"part": "overhead", "n": n, **sizes})
    return sorted(specs, key=lambda spec: spec["n"])


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


def measured(asked: Namespace) -> Callable[[Row], Row]:
    """Return what measures a row: in a process of its own, but for toy sizes."""
    if asked.quick:
        return scale_parts.measure
    return lambda spec: harness.apart(scale_parts.measure, spec)


def measure(asked: Namespace, path: Path) -> None:
    machine = harness.machine()
    report = harness.begun(path, machine, tuple(machine))
    specs = quick_plan() if asked.quick else plan()
    harness.resume(path, report, report["rows"], specs, measured(asked))


def measure_classifier(asked: Namespace, path: Path) -> None:
    rows = harness.load(path, [])
    specs = [{"part": "classifier", "n": n, "landmarks": rank} for n, rank in CLASSIFIER]
    if asked.quick:
        specs = [{"part": "classifier", "n": 40, "landmarks": 20, "n_test": 20}]
    harness.resume(path, rows, rows, specs, measured(asked))


# -- the reports

NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}


def rows(report: Row, part: str) -> list[Row]:
    """Return the measurements of a part, by their number of signals."""
    return sorted((row for row in report["rows"] if row["part"] == part), key=lambda r: r["n"])


def text(report: Row) -> str:
    methods = ("method", "n", "landmarks", "seconds", "MB", "accuracy")
    cells = [
        (
            name,
            row["n"],
            row.get("rank", ""),
            f"{row['seconds']:.3g}",
            f"{row['megabytes']:.0f}",
            f"{row['accuracy']:.3f}",
        )
        for part, name in NAMES.items()
        for row in rows(report, part)
    ]
    return harness.page(
        "# Large Grams",
        f"{harness.described(report['machine'])}. "
        "Seconds (s) are processor seconds of all threads.",
        harness.table(methods, cells),
        list(sentences(report)),
    )


def sentences(report: Row) -> Iterator[str]:
    for row in rows(report, "landmarks")[:1]:
        name, depth, size = row["kernel"]
        kernel = f"normalized {name}({depth}, input_filter_size={size})"
        yield f"* Kernel on cylinder-bell-funnel: {kernel}."
    for row in rows(report, "conjugate_gradients"):
        yield (
            f"* {row['n']} equations, {row['rank']} landmarks, λ = "
            f"{row['ridge']:g}: {row['iterations']} iterations in "
            f"{row['seconds_of_iterations']:.3g} s, {row['iterations_without']} without landmarks "
            f"(residual {row['residual_without']:.1g}); the Gram took "
            f"{row['seconds_of_the_gram']:.3g} s, the landmarks "
            f"{row['seconds_of_landmarks']:.3g} s."
        )
    for row in rows(report, "overhead"):
        worker = row["megabytes_of_workers"] - row["megabytes_of_workers_before"]
        yield (
            f"* Stored Gram, {row['n']} signals: "
            f"{row['seconds_in_memory']:.3g} s in memory, "
            f"{100 * row['overhead_here']:+.1f} % stored in this process, "
            f"{100 * row['overhead_on_workers']:+.1f} % on {row['workers']} workers, each "
            f"with {worker:.0f} MB more than at rest (a block has "
            f"{row['megabytes_of_a_block']:.0f} MB)."
        )


def thousands(rows: list[Row]) -> str:
    header = (
        "signals", "landmarks", "fit, processor s", "predict 1000, processor s", "MB", "accuracy",
    )  # fmt: skip
    cells = []
    for row in sorted(rows, key=lambda row: row["n"]):
        numbers = (f"{row[name]:.0f}" for name in ("fit_seconds", "predict_seconds", "megabytes"))
        cells.append((row["n"], row["landmarks"], *numbers, f"{row['accuracy']:.3f}"))
    return harness.page("# Thousands of signals", harness.table(header, cells, left=()))


def main(arguments: Sequence[str] | None = None) -> None:
    harness.script(__doc__, "scale.json", measure, text, arguments=arguments)
    harness.script(__doc__, "many_signals.json", measure_classifier, thousands, arguments=arguments)


if __name__ == "__main__":
    main()
