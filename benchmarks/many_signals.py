"""Our classifier on thousands of signals: time, memory and accuracy, with landmarks and without.

    python benchmarks/many_signals.py [--quick] [--most N] [--out FOLDER]

The problem is cylinder-bell-funnel with noise (scale_problems.py), its first 100 time points. Each
measurement runs in a process of its own, and is written to many_signals.json at once; a second run
goes on where the first one stopped. A table, many_signals.md, follows.

Seconds are of the processor: half of them pass on two idle cores.

Bars: 20 000 signals in 10 minutes on two cores; with landmarks at least 99 % of the accuracy that
all signals reach with the same passes; fit and predict linear in the number of signals.
"""

import time

import harness
import numpy as np
from harness import Row
from scale_problems import cylinder_bell_funnel

LENGTH, TESTED, BAR_SECONDS, BAR_SHARE = 100, 1000, 600.0, 0.99
PLAN = [
    {"n": 1000, "landmarks": "all"},
    {"n": 1000, "landmarks": 500},
    {"n": 2000, "landmarks": "all"},
    {"n": 2000, "landmarks": 500},
    {"n": 5000, "landmarks": 500},
    {"n": 20_000, "landmarks": 500},
]
"""All with the first four passes, which are all that 20 000 signals get by default."""
QUICK = [{"n": 40, "landmarks": landmarks} for landmarks in ("all", 20)]


def measure(n: int, landmarks: int | str) -> Row:
    from rescntk.learn import ResidualKernelClassifier

    (X, y), (Z, truth) = cylinder_bell_funnel(n, seed=0), cylinder_bell_funnel(TESTED, seed=1)
    X, Z = X[:, :, :LENGTH], Z[:, :, :LENGTH]
    ResidualKernelClassifier(effort="fast").fit(X[:20], y[:20]).predict(Z[:20])  # compiled
    start = time.process_time()
    model = ResidualKernelClassifier(effort="fast", landmarks=landmarks).fit(X, y)
    fitted = time.process_time()
    accuracy = float(np.mean(model.predict(Z) == truth))
    return {
        "passes": len(model.passes_["weight"]),
        "fit_seconds": fitted - start,
        "predict_seconds": time.process_time() - fitted,
        "megabytes": harness.peak_megabytes(),
        "accuracy": accuracy,
        "score": model.best_score_,
    }


def report(rows: list[Row]) -> str:
    header = (
        "signals", "landmarks", "fit, processor s", "predict 1000, processor s", "MB", "accuracy",
    )  # fmt: skip
    cells, by_size = [], {(row["n"], row["landmarks"]): row for row in rows}
    for size, row in by_size.items():
        numbers = (f"{row[name]:.0f}" for name in ("fit_seconds", "predict_seconds", "megabytes"))
        cells.append((*size, *numbers, f"{row['accuracy']:.3f}"))
    lines = ["# Thousands of signals", "", *harness.table(header, cells, left=()), ""]
    for n in (1000, 2000):
        if {(n, "all"), (n, 500)} <= set(by_size):
            share = by_size[n, 500]["accuracy"] / by_size[n, "all"]["accuracy"]
            lines.append(
                f"* {n} signals, landmarks' accuracy over all signals': {share:.3f}, asked "
                f"{BAR_SHARE}: {harness.verdict(share >= BAR_SHARE)}."
            )
    if (20_000, 500) in by_size:
        seconds = by_size[20_000, 500]["fit_seconds"] / 2
        lines.append(
            f"* 20 000 signals on two cores, half the processor seconds: {seconds:.0f} s, asked "
            f"{BAR_SECONDS:.0f} s: {harness.verdict(seconds <= BAR_SECONDS)}."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    most = {"type": int, "default": 10**9, "metavar": "N", "help": "most signals"}
    options = harness.options(__doc__, most=most)
    path = options.out / "many_signals.json"
    rows: list[Row] = harness.load(path, [])
    for spec in QUICK if options.quick else PLAN:
        if spec["n"] > options.most or any(spec.items() <= row.items() for row in rows):
            continue
        rows.append(spec | harness.apart(measure, spec))
        rows.sort(key=lambda row: (row["n"], row["landmarks"] != "all"))
        harness.save(path, rows)
        harness.say(rows[-1])
    harness.publish(path, report(rows))


if __name__ == "__main__":
    main()
