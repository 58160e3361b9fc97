"""Images: learning curves on digits, and costs beside signals and neural-tangents.

    python benchmarks/images.py [--part PART ...] [--quick]

Results of parts that do not run stay as images.json has them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import cpu
import harness
import numpy as np
import pandas as pd
from classification_methods import RadialSVM, draw_signals, on_flat
from harness import Row, make
from scale import ridge

import rescntk as rk
from rescntk.validation import DTYPES

DRAWS = {10: 20, 30: 20, 100: 10, 300: 5, 1000: 2}
"""Training images, and how many times they are drawn."""

TEST = 500
"""The last images test. The first 898 chose NETWORK."""

NETWORK = rk.Network(5, 3)
"""Of the depths 1, 2, 3 and 5, the one with the largest mean accuracy of all kernels."""

COSTS = [("gap", 10, 3, 1.3), ("gap", 10, 5, 1.3), ("trace", 32, 3, 1.2)]
"""Head, side, filter size, and what an entry should cost at most, in entries of signals."""

ENTRIES = 3e7  # of a Gram whose time is taken
RACES = [("gap", (8, 8), 3), ("gap", (12, 12), 3), ("trace", (32, 32), 3)]


# -- learning curves on scikit-learn's digits

# Of a draw, which those use that draw random numbers. They fit (X, y) and predict Z.
METHODS: dict[str, Callable[[int], Any]] = {
    "SVM-RBF": lambda draw: RadialSVM(standardize=False),
    "nearest neighbour": lambda draw: on_flat(
        make("sklearn.neighbors.KNeighborsClassifier", n_neighbors=1), standardize=False
    ),
    "random forest": lambda draw: on_flat(
        make("sklearn.ensemble.RandomForestClassifier", n_estimators=500, random_state=draw)
    ),
}


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images, (1797, 1, 8, 8), and their digits. Their mean square is 1."""
    digits = make("sklearn.datasets.load_digits")
    return digits.images[:, None] / np.sqrt(np.mean(digits.images**2)), digits.target


def by_kernel(K: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return the digits that ridge regression predicts for the test images."""
    coefficients, intercepts = ridge(rk.regression.decompose(K[np.ix_(train, train)]), y[train])
    return (K[-TEST:, train] @ coefficients + intercepts).argmax(axis=1)


def curves(quick: bool) -> Iterator[Row]:
    """Yield the accuracies of all methods on the test images, draw by draw."""
    X, y = (part[-600:] if quick else part for part in digits())
    matrices: dict[str, np.ndarray] = {}
    for head, skip in product(("trace", "gap"), (False, True)):
        grams = rk.gram(NETWORK.replace(skip=skip), X, head=head, normalized=True)._asdict()
        matrices |= {f"{'Res' * skip}C{kind.upper()}, {head}": K for kind, K in grams.items()}
    for size, draw in [(size, k) for size, draws in DRAWS.items() for k in range(draws)]:
        if quick and size > 10:
            break
        train, _ = draw_signals(y[:-TEST], size, draw)
        answers = {name: by_kernel(K, y, train) for name, K in matrices.items()}
        for name, model in METHODS.items():
            answers[name] = model(draw).fit(X[train], y[train]).predict(X[-TEST:])
        for name, predicted in answers.items():
            share = float(np.mean(predicted == y[-TEST:]))
            yield {"method": name, "size": size, "draw": draw, "accuracy": share}


# -- costs


def entries(quick: bool) -> Iterator[Row]:
    """Yield nanoseconds of an entry of images, of signals, and the median of their ratios."""
    rng = np.random.default_rng(0)
    for head, side, q, most in COSTS:
        of_pair = side ** (2 if head == "trace" else 4)
        n = 4 if quick else round(np.sqrt(2 * ENTRIES / of_pair))
        X = rng.standard_normal((n, 4, side, side))
        for dtype in DTYPES:
            gram = partial(rk.gram, rk.Network(5, q), dtype=dtype, threads=1)
            ns = harness.entry_costs(gram, (X, X.reshape(n, 4, -1)), 7, head)
            image, signal = (f"{x:.1f}" for x in np.median(ns, axis=1))
            yield {
                "head": head, "image": f"{side} × {side}", "filter": q, "dtype": dtype,
                "image, ns": image, "signal, ns": signal,
                "ratio": f"{harness.median_ratio(*ns):.2f}", "most": most,
            }  # fmt: skip


def peers(quick: bool) -> Iterator[Row]:
    contestants = cpu.contestants(cpu.peers(), ["cpu"])
    for case in RACES[: 1 if quick else None]:
        yield cpu.race(contestants, case, 2 if quick else 5)


def large(quick: bool) -> Iterator[Row]:
    """Yield core hours of the 1.25e9 pairs of 50 000 images, from the pairs of two batches."""
    n = 8 if quick else 512
    X, Z = np.random.default_rng(0).standard_normal((2, n, 3, 32, 32))
    for dtype in DTYPES:
        gram = partial(rk.gram, rk.Network(5), X, Z, head="trace", dtype=dtype, threads=1)
        us = 1e6 * min(harness.processor_seconds(gram) for _ in range(7)) / n**2
        hours = us * 50_000 * 50_001 / 2 / 3.6e9
        yield {"dtype": dtype, "µs of a pair": f"{us:.2f}", "core hours": f"{hours:.1f}"}


# -- the report


def text(report: dict[str, Any]) -> str:
    rows = pd.DataFrame(report["curves"])
    groups = rows.groupby(["method", "size"], sort=False)["accuracy"]
    curves = harness.with_errors(groups).unstack().loc[rows["method"].unique()]
    costs, hours = (
        harness.rows_table(report[part], left=(0, 1, 3)) for part in ("entries", "large")
    )
    above = sum(float(row["ratio"]) > row["most"] for row in report["entries"])
    return harness.page(
        "# Images",
        f"{harness.described(report['machines']['curves'])}. "
        "Other work of the machine changes times: look at ratios.",
        f"Accuracies on the last {TEST} of scikit-learn's digits (8 × 8), by the number of images "
        f"that train, drawn from all others; means of {', '.join(map(str, DRAWS.values()))} draws "
        f"± standard errors. Kernels: normalized, depth {NETWORK.depth}, filters of "
        f"{NETWORK.filter_size}, ridge regression. SVM: C and γ by cross-validation.",
        harness.table(("method", *curves), curves.itertuples()),
        "Costs are of GPK and NTK of a ResNet of depth 5. Nanoseconds of processor time for an "
        "entry, a pixel pair, of images and of signals with as many pixels; 4 channels, one "
        "thread, medians of 7 interleaved rounds. Most: what was asked of the ratio, before it was "
        f"measured; {above} of {len(report['entries'])} ratios are above.",
        costs,
        "Microseconds for a pair of images of 4 channels, as in [the table of signals](cpu.md).",
        cpu.race_table(report["peers"]),
        "All pairs of 50 000 images of 32 × 32 × 3, filters of 3, head trace, calculated from "
        "512² pairs on one thread, the fastest of 7 times.",
        hours,
    )


if __name__ == "__main__":
    measure, option = harness.measure_parts((curves, entries, peers, large))
    harness.script(__doc__, "images.json", measure, text, **option)
