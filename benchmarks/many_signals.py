"""Our classifier on thousands of signals: time, memory and accuracy, with landmarks and without.

    python benchmarks/many_signals.py [--most N] [--out FOLDER]

The problem is cylinder-bell-funnel with noise (scale_problems.py), its first 100 time points. Each
measurement runs in a process of its own, and is written to many_signals.json at once; a second run
goes on where the first one stopped. A table, many_signals.md, follows.

Seconds are of the processor: half of them pass on two idle cores.

Bars: 20 000 signals in 10 minutes on two cores; with landmarks at least 99 % of the accuracy that
all signals reach with the same passes; fit and predict linear in the number of signals.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scale_parts import megabytes
from scale_problems import cylinder_bell_funnel

RESULTS = Path(__file__).parent / "results"
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

Row = dict[str, Any]


def measure(n: int, landmarks: int | str) -> Row:
    """Fit n signals and predict others; return processor seconds, memory and accuracy."""
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
        "megabytes": megabytes(),
        "accuracy": accuracy,
        "score": model.best_score_,
    }


def report(rows: list[Row]) -> str:
    """Return the measurements and the bars as Markdown."""
    lines = [
        "# Thousands of signals",
        "",
        "| signals | landmarks | fit, processor s | predict 1000, processor s | MB | accuracy |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        lines.append(
            f"| {row['n']} | {row['landmarks']} | {row['fit_seconds']:.0f} | "
            f"{row['predict_seconds']:.0f} | {row['megabytes']:.0f} | {row['accuracy']:.3f} |"
        )
    found = {(row["n"], row["landmarks"]): row for row in rows}
    lines.append("")
    for n in (1000, 2000):
        if {(n, "all"), (n, 500)} <= set(found):
            share = found[n, 500]["accuracy"] / found[n, "all"]["accuracy"]
            verdict = "met" if share >= BAR_SHARE else "missed"
            lines.append(
                f"* {n} signals, landmarks' accuracy over all signals': {share:.3f}, asked "
                f"{BAR_SHARE}: {verdict}."
            )
    if (20_000, 500) in found:
        seconds = found[20_000, 500]["fit_seconds"] / 2
        verdict = "met" if seconds <= BAR_SECONDS else "missed"
        lines.append(
            f"* 20 000 signals on two cores, half the processor seconds: {seconds:.0f} s, asked "
            f"{BAR_SECONDS:.0f} s: {verdict}."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=10**9, metavar="N", help="most signals")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        n, landmarks = (json.loads(word) for word in options.worker)
        print(json.dumps(measure(n, landmarks)))
        return
    path = options.out / "many_signals.json"
    rows: list[Row] = json.loads(path.read_text()) if path.exists() else []
    for spec in PLAN:
        if spec["n"] > options.most or any(spec.items() <= row.items() for row in rows):
            continue
        words = [json.dumps(spec[name]) for name in ("n", "landmarks")]
        run = subprocess.run(
            [sys.executable, __file__, "--worker", *words], stdout=subprocess.PIPE, text=True
        )
        run.check_returncode()
        rows.append(spec | json.loads(run.stdout.splitlines()[-1]))
        rows.sort(key=lambda row: (row["n"], row["landmarks"] != "all"))
        path.write_text(json.dumps(rows, indent=1) + "\n")
        print(rows, file=sys.stderr, flush=True)
    path.with_suffix(".md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
