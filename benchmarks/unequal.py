"""Signals of different lengths: what an entry costs, and whether own lengths pay off.

    python benchmarks/unequal.py [--quick]

An entry is a pixel pair of two signals. Costs are processor time on one thread, lists and arrays
in turn. Accuracies on aeon's two sets: own lengths, padded, resampled, and other classifiers.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import harness
import numpy as np
from classification_methods import NEIGHBOUR, OUR_CLASSIFIER, signals
from harness import Row, make
from scipy.signal import resample

import rescntk as rk

DEPTH, ENTRIES, ROUNDS = 5, 6e6, 5
"""Depth of the networks, entries of a Gram whose time is taken, and how often it is taken."""

COSTS = [  # name, lengths of the list, length of the array, filter size, bar
    ("about 18", (7, 29), 18, 3, ""),
    ("about 100", (90, 110), 100, 3, 1.5),
    ("about 200", (180, 220), 200, 3, 1.5),
    ("about 1000", (900, 1100), 1000, 3, 2.5),
    ("about 100", (90, 110), 100, 9, ""),
    ("about 1000", (900, 1100), 1000, 9, ""),
]
RESAMPLED = {"JapaneseVowels": 16, "PickupGestureWiimoteZ": 60}
"""The sets, and the length to which their signals are resampled."""


# -- costs


def costs(quick: bool) -> Iterator[Row]:
    rk.ResCGPK(1)(np.ones((1, 1, 1)), engine="cpu")  # library loaded before any time is taken
    for case, dtype in product(COSTS, ("float64", "float32")):
        yield cost(case, dtype, ENTRIES / (10 if quick else 1))


def cost(case: tuple, dtype: str, total: float) -> Row:
    """Return the nanoseconds of an entry of a list and of an array, and the median of ratios."""
    name, lengths, d, q, bar = case
    rng = np.random.default_rng(0)
    count = max(4, round(np.sqrt(2 * total) / np.mean(lengths)))
    drawn = rng.permutation(np.linspace(*lengths, count).round().astype(int))
    X, network = [rng.standard_normal((4, length)) for length in drawn], rk.Network(DEPTH, q)
    Z = rng.standard_normal((len(X), 4, d))
    gram = partial(rk.gram, network, engine="cpu", dtype=dtype, threads=1)
    ns = harness.entry_costs(gram, (X, Z), ROUNDS)
    of_list, of_array = np.median(ns, axis=1).tolist()
    return {
        "lengths": name, "filter size": q, "dtype": dtype, "list, ns": f"{of_list:.1f}",
        "array, ns": f"{of_array:.1f}", "ratio": f"{harness.median_ratio(*ns):.2f}", "bar": bar,
    }  # fmt: skip


# -- accuracies


def accuracies(quick: bool) -> Iterator[list[Row]]:
    return map(accuracies_of, RESAMPLED)


def accuracies_of(name: str) -> list[Row]:
    """Return the accuracy of each method on a set: of ours in each version of the signals."""
    from aeon.datasets import load_classification

    parts = [load_classification(name, split=s, load_equal_length=False) for s in ("train", "test")]
    length = RESAMPLED[name]
    resampled = [(np.stack([resample(x, length, axis=1) for x in X]), y) for X, y in parts]
    X, y, Z, labels = signals(name)
    versions = {
        "own lengths": parts,
        "padded (aeon)": [(X, y), (Z, labels)],
        f"resampled to {length}": resampled,
    }
    ours = partial(make, OUR_CLASSIFIER, views="fast", random_state=0)
    cases = [(f"rescntk, {version}", ours(), splits) for version, splits in versions.items()]
    aeon = "aeon.classification"
    cases += [
        ("1-NN DTW", make(NEIGHBOUR, distance="dtw"), parts),
        ("RDST", make(f"{aeon}.shapelet_based.RDSTClassifier", random_state=0), parts),
        ("Catch22", make(f"{aeon}.feature_based.Catch22Classifier", random_state=0), parts),
    ]
    ours().fit(parts[0][0][::3], parts[0][1][::3])  # loaded before any time is taken
    rows = []
    for method, model, ((X, y), (Z, labels)) in cases:
        _, predicted, seconds = harness.fit_and_predict(lambda model=model: model, X, y, Z)
        share = float((predicted == labels).mean())
        rows.append({"set": name, "method": method, "accuracy": share, "seconds": seconds})
    return rows


# -- the report


def tables(report: Row) -> str:
    m, accuracies = report["machines"]["costs"], []
    for of_sets in zip(*report["accuracies"], strict=True):
        cells = [of_sets[0]["method"].split(" to ")[0]]
        for row in of_sets:
            cells += [f"{row['accuracy']:.3f}", f"{row['seconds']:.1f}"]
        accuracies.append(cells)
    return harness.page(
        "# Signals of different lengths",
        f"GPK and NTK of a ResNet, depth {DEPTH}, head GAP, one thread. "
        f"{m['processor']}; Python {m['python']}, NumPy {m['numpy']}. Nanoseconds of "
        f"processor time for an entry, a pixel pair of two signals; medians of {ROUNDS} "
        f"interleaved rounds.",
        harness.rows_table(report["costs"], left=(0, 2)),
        f"Accuracy on the test signals, and processor seconds to fit and to predict "
        f"({report['machines']['accuracies']['processor']}). "
        "rescntk: ResidualKernelClassifier with its fast views. Other methods have own lengths.",
        harness.table(
            ("method", *(cell for name in RESAMPLED for cell in (name, "seconds"))), accuracies
        ),
        f"Resampled: to {' and '.join(map(str, RESAMPLED.values()))} time points.",
    )


if __name__ == "__main__":
    measure, option = harness.measure_parts((costs, accuracies))
    harness.script(__doc__, "unequal.json", measure, tables, **option)
