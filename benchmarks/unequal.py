"""Signals of different lengths: what an entry costs, and whether own lengths pay off.

    python benchmarks/unequal.py [--quick]

An entry is a pixel pair of two signals. Costs are processor time on one thread, lists and arrays
in turn, with the median of the ratios. Accuracies are of aeon's two bundled sets of signals of
different lengths: own lengths beside padded and resampled ones, and beside classifiers that take
lists.

The script writes to benchmarks/results/: unequal.json; unequal.md, the tables.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from harness import Row
from scipy.signal import resample

import rescntk as rk
from rescntk import datasets
from rescntk.engines.cpu import run

Signals = Any

DEPTH, ENTRIES = 5, 6e6
"""Depth of the networks, and entries of a Gram whose time is taken."""

COSTS = [  # name, lengths of the list, length of the array, filter size, bar
    ("about 18", (7, 29), 18, 3, None),
    ("about 100", (90, 110), 100, 3, 1.5),
    ("about 200", (180, 220), 200, 3, 1.5),
    ("about 1000", (900, 1100), 1000, 3, 2.5),
    ("about 100", (90, 110), 100, 9, None),
    ("about 1000", (900, 1100), 1000, 9, None),
]
SPREAD = (29, 361)  # the lengths of PickupGestureWiimoteZ
MANY = (500, 400, 2, 0.1)
"""Signals, different lengths 1, 2, …, depth, and the bar of the share outside compiled code."""

SETS = ("JapaneseVowels", "PickupGestureWiimoteZ")
RESAMPLED = {"JapaneseVowels": 16, "PickupGestureWiimoteZ": 60}

# -- costs


def entries(X: Signals) -> int:
    """Return the entries of a symmetric Gram, of which half are computed."""
    lengths = np.array([x.shape[1] for x in X])
    return int((lengths.sum() ** 2 + (lengths**2).sum()) // 2)


def draw(lengths: tuple[int, int], total: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Return signals of lengths spread evenly over a range, with about `total` entries."""
    count = max(4, round(np.sqrt(2 * total) / np.mean(lengths)))
    drawn = rng.permutation(np.linspace(*lengths, count).round().astype(int))
    return [rng.standard_normal((4, d)) for d in drawn]


def seconds(network: rk.Network, signals: Signals, dtype: str = "float64") -> float:
    """Return the processor time of a Gram."""
    options = {"engine": "numba", "dtype": dtype, "threads": 1}
    return harness.processor_seconds(lambda: rk.gram(network, signals, **options))


def in_turn(
    network: rk.Network, signals: list[Signals], rounds: int, dtype: str = "float64"
) -> np.ndarray:
    """Return the nanoseconds of an entry, (signals, rounds)."""
    calls = {str(k): lambda X=X: seconds(network, X, dtype) for k, X in enumerate(signals)}
    taken = np.array(list(harness.interleaved(calls, rounds).values()))
    return 1e9 * taken / np.array([[entries(X)] for X in signals])


def cost(case: tuple, dtype: str, rounds: int, total: float) -> Row:
    """Return the nanoseconds of an entry of a list and of an array, and the median of ratios."""
    name, lengths, d, q, bar = case
    rng = np.random.default_rng(0)
    X = draw(lengths, total, rng)
    Z = rng.standard_normal((len(X), 4, d))
    ns = in_turn(rk.Network(DEPTH, q), [X, Z], rounds, dtype)
    of_list, of_array = np.median(ns, axis=1).tolist()
    return {
        "lengths": name, "filter_size": q, "dtype": dtype, "list_ns": of_list,
        "array_ns": of_array, "ratio": float(np.median(ns[0] / ns[1])), "bar": bar,
    }  # fmt: skip


def against_padding(rounds: int, total: float) -> Row:
    """Return the time of a Gram of own lengths as a share of the time of padded signals."""
    X = draw(SPREAD, total, np.random.default_rng(1))
    longest = max(x.shape[1] for x in X)
    Z = np.stack([np.pad(x, ((0, 0), (0, longest - x.shape[1]))) for x in X])
    share = entries(X) / entries(Z)
    of_list, of_padded = in_turn(rk.Network(DEPTH), [X, Z], rounds)
    time_share = share * float(np.median(of_list / of_padded))
    return {"lengths": SPREAD, "entries": share, "time": time_share}


def outside_compiled_code(count: int, lengths: int, depth: int) -> Row:
    """Return the share of the processor time outside compiled code, for many lengths."""
    rng, network = np.random.default_rng(2), rk.Network(depth)
    drawn = 1 + np.concatenate([np.arange(lengths), rng.integers(0, lengths, count - lengths)])
    X = [rng.standard_normal((1, d)) for d in drawn]
    inside, loops = [], ("compute", "compute_in_deficits")
    kept = {name: getattr(run, name) for name in loops}

    def timed(loop: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            start = time.thread_time()
            loop(*arguments)
            inside.append(time.thread_time() - start)

        return call

    try:
        for name, loop in kept.items():
            setattr(run, name, timed(loop))
        whole = seconds(network, X)
    finally:
        for name, loop in kept.items():
            setattr(run, name, loop)
    return {
        "signals": count, "lengths": lengths, "depth": depth, "mean": float(drawn.mean()),
        "calls": len(inside), "share": 1 - sum(inside) / whole, "seconds": whole,
    }  # fmt: skip


# -- accuracies


def versions(name: str) -> dict[str, list[tuple[Signals, np.ndarray]]]:
    """Return the (signals, labels) of both splits in each version of a set."""
    from aeon.datasets import load_classification

    own = [load_classification(name, split=s, load_equal_length=False) for s in ("train", "test")]
    length = RESAMPLED[name]
    return {
        "own lengths": own,
        "padded (aeon)": [datasets.load_labelled(name, split) for split in ("train", "test")],
        f"resampled to {length}": [
            (np.stack([resample(x, length, axis=1) for x in X]), y) for X, y in own
        ],
    }


def ours() -> Any:
    """Return a classifier whose kernels have the head GAP, weighted by leave-one-out errors."""
    from rescntk.learn import ResidualKernelClassifier

    return ResidualKernelClassifier(effort="fast", head="gap", engine="numba")


def peers() -> dict[str, Callable[[], Any]]:
    """Return makers of aeon's classifiers that take lists."""
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier
    from aeon.classification.feature_based import Catch22Classifier
    from aeon.classification.shapelet_based import RDSTClassifier

    return {
        "1-NN DTW": lambda: KNeighborsTimeSeriesClassifier(distance="dtw"),
        "RDST": lambda: RDSTClassifier(random_state=0),
        "Catch22": lambda: Catch22Classifier(random_state=0),
    }


def accuracies(name: str) -> list[Row]:
    """Return the accuracy of each method on a set."""
    splits = versions(name)
    cases = [(f"rescntk, {version}", ours, version) for version in splits]
    cases += [(method, make, "own lengths") for method, make in peers().items()]
    rows = []
    for method, make, version in cases:
        (X, y), (Z, labels) = splits[version]
        model = make()
        start = time.process_time()
        model.fit(X, y)
        accuracy = float((model.predict(Z) == labels).mean())
        taken = time.process_time() - start
        rows.append({"set": name, "method": method, "accuracy": accuracy, "seconds": taken})
        harness.say(rows[-1])
    return rows


# -- the report


def tables(report: Row) -> str:
    """Return the report as Markdown."""
    m, padding, many = report["machine"], report["padding"], report["many"]
    low, high = padding["lengths"]
    costs = [
        (
            *(row[name] for name in ("lengths", "filter_size", "dtype")),
            f"{row['list_ns']:.1f}",
            f"{row['array_ns']:.1f}",
            f"{row['ratio']:.2f}",
            row["bar"] or "",
        )
        for row in report["costs"]
    ]
    accuracies = []
    for of_sets in zip(*report["accuracies"], strict=True):
        method = of_sets[0]["method"].replace(f" to {RESAMPLED[SETS[0]]}", "")
        cells = [(f"{row['accuracy']:.3f}", f"{row['seconds']:.1f}") for row in of_sets]
        accuracies.append((method, *sum(cells, ())))
    lines = [
        "# Signals of different lengths",
        "",
        f'GPK and NTK of a ResNet, depth {DEPTH}, head GAP, engine "numba", one thread. '
        f"{m['processor']}; Python {m['python']}, NumPy {m['numpy']}; {m['date']}. Nanoseconds "
        f"of processor time for an entry, a pixel pair of two signals; medians of "
        f"{report['rounds']} interleaved rounds.",
        "",
        *harness.table(
            ("lengths", "filter size", "dtype", "list, ns", "array, ns", "ratio", "bar"),
            costs,
            left=(0, 2),
        ),
        "",
        f"Lengths from {low} to {high}: the list has {padding['entries']:.0%} of the entries of "
        f"padded signals, and takes {padding['time']:.0%} of the time.",
        "",
        f"{many['signals']} signals of {many['lengths']} different lengths, {many['mean']:.0f} "
        f"time points on average: {many['share']:.1%} of the processor time is outside compiled "
        f"code at depth {many['depth']} (bar {MANY[3]:.0%}), in {many['calls']} calls of it.",
        "",
        "Accuracy on the test signals, and seconds of processor time to fit and to predict. "
        'rescntk: ResidualKernelClassifier(effort="fast", head="gap"), whose kernels leave-one-out '
        "errors weight. Other methods have own lengths.",
        "",
        *harness.table(
            ("method", *(cell for name in SETS for cell in (name, "seconds"))), accuracies
        ),
        "",
        f"Resampled: to {' and '.join(map(str, RESAMPLED.values()))} time points.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less work, no files written")
    options = parser.parse_args()
    rounds, total = (2, ENTRIES / 10) if options.quick else (5, ENTRIES)
    rk.ResCGPK(1)(np.ones((1, 1, 1)), engine="numba")  # compiled before any time is taken
    machine = harness.machine() | {"date": datetime.date.today().isoformat()}
    report: Row = {"machine": machine, "rounds": rounds, "costs": []}
    for case in COSTS:
        for dtype in ("float64", "float32"):
            report["costs"].append(cost(case, dtype, rounds, total))
            harness.say(report["costs"][-1])
    report["padding"] = against_padding(rounds, total)
    report["many"] = outside_compiled_code(*((50, 40, 2) if options.quick else MANY[:3]))
    harness.say(report["padding"], report["many"])
    report["accuracies"] = [accuracies(name) for name in SETS]
    print(tables(report))
    if not options.quick:
        harness.save(harness.RESULTS / "unequal.json", report)
        (harness.RESULTS / "unequal.md").write_text(tables(report))


if __name__ == "__main__":
    main()
