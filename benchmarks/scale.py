"""Many signals: landmarks, stored Grams and conjugate gradients, measured against their bars.

    python benchmarks/scale.py [--quick] [--most N] [--out FOLDER]

Problems: cylinder-bell-funnel with noise, and windows of the recording ElectricDevices. Each
measurement runs in a process of its own, and is written to scale.json at once: a second run goes
on where the first one stopped. A table with the bars, scale.md, follows.
All take about two hours of a core; times are processor times.
"""

from collections.abc import Sequence

import harness
import scale_parts
import scale_report
from harness import Row

CBF, DEVICES = "cylinder-bell-funnel", "ElectricDevices"
LADDER = {
    CBF: (500, 1000, 2000, 5000, 10_000, 50_000),
    DEVICES: (250, 500, 1000, 2000, 5000),
}
KERNELS = {CBF: ["ResCGPK", 3, 33], DEVICES: ["ResCNTK", 3, 9]}
"""Name, depth and input filter size of each problem's kernel.

Chosen from a few trials on 700 signals, with signals for testing of their own. On
cylinder-bell-funnel the full kernel's accuracy is .979 with the GPK and 33 time points, .948 with
the NTK and 9. On ElectricDevices the order is the other one: .806 and .892 at 500 signals.
"""

SHORT_KERNEL = ["ResCGPK", 3, 9]
"""The kernel of `conjugate_gradients`, whose signals have 32 time points."""

FULL = {CBF: 5000, DEVICES: 2000}
"""Most signals for the full kernel matrix, whose time rises with n²: half an hour at 5000."""

MINIROCKET = 10_000
"""Most signals for MiniRocket: the SVD of its 9996 features takes 16 GB at 50 000 signals."""

LANDMARKS, TESTED = 500, 2000


def plan(most: int) -> list[Row]:
    """Return the measurements with at most `most` signals, the quick ones first."""
    found: list[Row] = []
    for name, ladder in LADDER.items():
        sizes = {"problem_name": name, "n_test": TESTED}
        for n in ladder:
            if n <= MINIROCKET:
                found.append({"part": "minirocket", **sizes, "n": n})
        sizes["kernel"] = KERNELS[name]
        for n in ladder:
            rank = min(LANDMARKS, n // 2)
            found.append({"part": "landmarks", **sizes, "n": n, "rank": rank, "rate": 5.0})
            if n <= FULL[name]:
                found.append({"part": "full", **sizes, "n": n})
    for n in (2000, 10_000):
        sizes = {"rank": LANDMARKS, "every": 4, "ridge": 1e-3, "block": 1024, "most": 300}
        found.append({"part": "conjugate_gradients", "kernel": SHORT_KERNEL, "n": n, **sizes})
    for n in (1000, 5000):
        sizes = {"d": 100, "depth": 1, "workers": 2, "block": 512}
        found.append({"part": "overhead", "n": n, **sizes})
    return sorted((spec for spec in found if spec["n"] <= most), key=lambda spec: spec["n"])


def quick_plan() -> list[Row]:
    sizes = {"n": 40, "n_test": 20}
    signals = {"problem_name": CBF, "kernel": KERNELS[CBF], **sizes}
    windows = {"problem_name": DEVICES, "kernel": KERNELS[DEVICES], **sizes}
    equations = {"n": 40, "rank": 10, "every": 2, "ridge": 1e-2, "block": 16, "most": 100}
    return [
        {"part": "landmarks", **signals, "rank": 8, "rate": 0.0},
        {"part": "landmarks", **windows, "rank": 8, "rate": 0.0},
        {"part": "full", **signals},
        {"part": "minirocket", "problem_name": CBF, **sizes},
        {"part": "conjugate_gradients", "kernel": SHORT_KERNEL, **equations},
        {"part": "overhead", "n": 12, "d": 16, "depth": 1, "workers": 1, "block": 8},
    ]


def main(arguments: Sequence[str] | None = None) -> Row:
    most = {"type": int, "default": 10**9, "metavar": "N", "help": "most signals"}
    options = harness.options(__doc__, arguments, most=most)
    path, machine = options.out / "scale.json", harness.machine()
    report = harness.load(path, {"rows": [], "machine": machine})
    if report["machine"] != machine:
        raise SystemExit(f"{path} has measurements of another machine or version: move it away")
    report["rows"] = [row for row in report["rows"] if "error" not in row]
    for spec in quick_plan() if options.quick else plan(options.most):
        if any(row["spec"] == spec for row in report["rows"]):
            continue
        harness.say(spec)
        try:
            if options.quick:
                numbers = scale_parts.measure(spec)
            else:
                numbers = harness.apart(scale_parts.measure, {"spec": spec})
        except RuntimeError as error:
            numbers = {"error": str(error)}
        report["rows"].append({"spec": spec} | numbers)
        harness.save(path, report)
    harness.publish(path, scale_report.text(report))
    return report


if __name__ == "__main__":
    main()
