"""Learned signals: accuracies of chosen, pivoted and learned signals, of models, and changes.

    python benchmarks/learned_signals.py [--part PART ...] [--quick]

Results of parts that do not run stay as learned_signals.json has them. Seconds are processor time.
"""

import pickle
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import harness
import numpy as np
from classification_methods import SETS
from harness import Row
from images import digits

import rescntk as rk
from rescntk.datasets import load_labelled
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor

KERNEL = rk.ResCNTK(4, normalized=True)
CASES = (
    ("ItalyPowerDemand", 4, 3),
    ("JapaneseVowels", 9, 3),
    ("BasicMotions", 8, 3),
    ("OSULeaf", 18, 1),
    ("digits", 10, 3),
    ("digits", 100, 1),
)
"""Sets, numbers of signals, and draws of the start, those that take least time first."""
PENALTY, ITERATIONS = 1e-3, 60
LANDMARKS = (("chosen", 100), ("chosen", 300), ("chosen", 1000), ("learned", 100))
FAMILIES = {"CGPK": rk.CGPK, "CNTK": rk.CNTK, "ResCGPK": rk.ResCGPK, "ResCNTK": rk.ResCNTK}
DEPTHS, SIZES, DRAWS = (2, 5, 10, 20), (2, 4, 8, 16), 4
OF_KERNELS = 1e-4
"""Penalty in the comparison of kernels. Chosen: the least leave-one-out error of GPKs from depth 5
on, in powers of ten. NTKs have it at 1e-9, where learned signals fit noise of training signals."""
OPTIONS = {"dtype": "float32"}
CHANGED = ("GunPoint", "ArrowHead", "JapaneseVowels", "Tecator")


def parts_of(name: str) -> tuple[np.ndarray, ...]:
    """Return training signals, labels, test signals and labels; standardized by channel."""
    if name == "digits":
        X, y = digits()
        return X[:1000], y[:1000], X[1000:], y[1000:]
    (X, y), (Z, expected) = load_labelled(name), load_labelled(name, "test")
    if X.shape[2] > 200:  # as the passes of the estimators do
        block = -(-X.shape[2] // 48)
        X, Z = (np.add.reduceat(x, range(0, x.shape[2], block), axis=2) / block for x in (X, Z))
    mean, deviation = X.mean(axis=(0, 2), keepdims=True), X.std(axis=(0, 2), keepdims=True)
    return (X - mean) / deviation, y, (Z - mean) / deviation, expected


def targets(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of labels, and targets: a column for each class, (n, classes)."""
    classes = np.unique(y)
    return classes, 1.0 * (y[:, None] == classes) - 1 / len(classes)


def accuracy(decisions: np.ndarray, classes: np.ndarray, expected: np.ndarray) -> float:
    """Return the share of signals whose largest decision is the expected class."""
    return float(np.mean(classes[decisions.argmax(axis=1)] == expected))


def signals(quick: bool) -> Iterator[Row]:
    """Yield accuracies with m signals: chosen of each class, pivoted, learned; and with all."""
    for name, m, draws in CASES[:1] if quick else CASES:
        X, y, Z, expected = parts_of(name)
        classes, Y = targets(y)
        across = KERNEL(Z, X, **OPTIONS)
        right = partial(accuracy, classes=classes, expected=expected)

        full = across @ rk.regression.solve(KERNEL(X, **OPTIONS).astype(np.float64), Y, PENALTY)
        found: dict[str, list[float]] = {"chosen": [], "pivoted": [], "learned": [], "seconds": []}
        for seed in range(1 if quick else draws):
            rng = np.random.default_rng(seed)
            places = rk.regression.learned_signals.of_each_label(y, m, rng)
            pivots = rk.regression.pivoted_cholesky(KERNEL, X, m, seed=seed, **OPTIONS).landmarks
            for way, landmarks in (("chosen", places), ("pivoted", pivots)):
                ridge = rk.regression.restricted_ridge(KERNEL, X, Y, landmarks, PENALTY, **OPTIONS)
                found[way].append(right(ridge.predict(Z)))
            start = time.process_time()
            learned = rk.regression.learn_signals(
                KERNEL, X, Y, m, penalty=PENALTY, random_state=seed,
                max_iterations=5 if quick else ITERATIONS, **OPTIONS,
            )  # fmt: skip
            found["seconds"].append(time.process_time() - start)
            decisions = KERNEL(Z, learned.signals, **OPTIONS) @ learned.coefficients
            found["learned"].append(right(decisions))
        row = {key: float(np.mean(values)) for key, values in found.items()}
        spread = float(np.ptp(found["learned"]))
        yield {
            "set": name,
            "n": len(X),
            "m": m,
            "draws": draws,
            "all": right(full),
            **row,
            "spread": spread,
        }


def landmarks(quick: bool) -> Iterator[Row]:
    """Yield accuracies on digits, and times of a fit, with chosen and with learned landmarks."""
    X, y, Z, expected = parts_of("digits")
    classes, Y = targets(y)
    for way, m in LANDMARKS[:1] if quick else LANDMARKS:
        start = time.process_time()
        if way == "learned":
            found: Any = rk.regression.learn_signals(
                KERNEL, X, Y, m, penalty=PENALTY, max_iterations=ITERATIONS, **OPTIONS
            )
            seconds = time.process_time() - start
            decisions = KERNEL(Z, found.signals, **OPTIONS) @ found.coefficients
        else:
            places = rk.regression.learned_signals.of_each_label(y, m, np.random.default_rng(0))
            found = rk.regression.restricted_ridge(KERNEL, X, Y, places, PENALTY, **OPTIONS)
            seconds, decisions = time.process_time() - start, found.predict(Z)
        yield {
            "landmarks": way, "m": m, "seconds": seconds,
            "accuracy": accuracy(decisions, classes, expected),
        }  # fmt: skip


def model_parts() -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Yield names, training signals, labels, test signals and labels of condensed models."""
    for name in SETS:
        yield name, (*load_labelled(name), *load_labelled(name, "test"))
    yield "JapaneseVowels, parts exchanged", (
        *load_labelled("JapaneseVowels", "test"), *load_labelled("JapaneseVowels"),
    )  # fmt: skip
    yield "simulated, 4 × 510", simulated(500, 200)


def simulated(n: int, n_test: int) -> tuple[np.ndarray, ...]:
    """Return parts of four classes: a wave of another frequency in noise and a random walk."""
    rng, time, total = np.random.default_rng(0), np.arange(510) / 510, n + n_test
    y, sizes = np.arange(total) % 4, np.array([0.7, 0.35, 0.14, 0.07])
    waves = np.sin(2 * np.pi * (3 + 2 * y[:, None]) * time + 0.5 * y[:, None])
    noise = rng.standard_normal((2, total, 4, 510))
    X = 0.1 * noise[0].cumsum(axis=2) + noise[1] + sizes[:, None] * waves[:, None]
    return X[:n], y[:n], X[n:], y[n:]


def models(quick: bool) -> Iterator[Row]:
    """Yield accuracies of full and condensed models, and ratios of time and file."""
    for name, (X, y, Z, expected) in list(model_parts())[: 1 if quick else None]:
        full = ResidualKernelClassifier(effort="fast").fit(X, y)
        m, start = max(2 * len(full.classes_), -(-len(X) // 10)), time.process_time()
        small = full.condense(m, max_iterations=2 if quick else 30)
        seconds = time.process_time() - start
        times = [_seconds(model, Z[:50]) for model in (full, small)]
        sizes = [len(pickle.dumps(model)) for model in (full, small)]
        yield {
            "set": name, "n": len(X), "m": m, "full": full.score(Z, expected),
            "condensed": small.score(Z, expected), "faster": times[0] / times[1],
            "file": sizes[1] / sizes[0], "seconds": seconds,
        }  # fmt: skip


def _seconds(model: Any, X: np.ndarray) -> float:
    """Return the processor time of a prediction, the median of five after a first."""
    times = []
    for _ in range(6):
        start = time.process_time()
        model.predict(X)
        times.append(time.process_time() - start)
    return float(np.median(times[1:]))


def changes(quick: bool) -> Iterator[Row]:
    """Yield how many signals get another answer, and distances by the nearest signal that has it.

    A regressor is to predict the upper or lower quartile of the targets, whichever is farther.
    """
    for name in CHANGED[:1] if quick else CHANGED:
        (X, y), (Z, _) = load_labelled(name), load_labelled(name, "test")
        Z = Z[:: len(Z) // (2 if quick else 12)][:12]
        numbers = name == CHANGED[-1]
        if numbers:
            y = y.astype(float)
        model: Any = (ResidualKernelRegressor if numbers else ResidualKernelClassifier)(
            effort="fast"
        ).fit(X, y)
        before, wanted, have = model.predict(Z), (), y != model.predict(Z)[:, None]
        if numbers:
            low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
            rising = (before < middle)[:, None]
            wanted = (np.where(rising[:, 0], high, low),)
            have = np.where(rising, y >= high, y <= low)
        start = time.process_time()
        found = model.counterfactual(Z, *wanted, max_iterations=3 if quick else 25)
        seconds = time.process_time() - start
        scale = X.std(axis=(0, 2))[:, None]
        nearest = [
            np.sqrt((((X[others] - z) / scale) ** 2).sum(axis=(1, 2)).min())
            for z, others in zip(Z, have, strict=True)
        ]
        yield {
            "set": name, "cases": len(Z), "found": float(found.found.mean()),
            "distance": float(np.nanmedian(found.distances / nearest)), "seconds": seconds,
        }  # fmt: skip


def kernels(quick: bool) -> Iterator[Row]:
    """Yield accuracies on ItalyPowerDemand with m learned signals, by kernel and depth."""
    X, y, Z, expected = parts_of("ItalyPowerDemand")
    classes, Y = targets(y)
    right = partial(accuracy, classes=classes, expected=expected)
    for name, family in FAMILIES.items():
        for depth in DEPTHS[:1] if quick else DEPTHS:
            kernel = family(depth, normalized=True)
            K, across = kernel(X), kernel(Z, X)
            full = right(across @ rk.regression.solve(K, Y, OF_KERNELS))
            for m in SIZES[:1] if quick else SIZES:
                found = []
                for seed in range(2 if quick else DRAWS):
                    learned = rk.regression.learn_signals(
                        kernel, X, Y, m, penalty=OF_KERNELS, random_state=seed,
                        max_iterations=2 if quick else ITERATIONS,
                    )  # fmt: skip
                    found.append(right(kernel(Z, learned.signals) @ learned.coefficients))
                yield {
                    "kernel": name, "depth": depth, "m": m, "all": full,
                    "learned": float(np.mean(found)), "deviation": float(np.std(found, ddof=1)),
                }  # fmt: skip


def picture(rows: list[Row]) -> Any:
    """Return a figure of the accuracies of `kernels`: a panel for each, a curve for each depth."""
    drawn = rk.plots.figure((8.4, 5.2))
    axes = drawn.subplots(2, 2, sharex=True, sharey=True)
    for ax, name in zip(axes.ravel(), FAMILIES, strict=True):
        for place, depth in enumerate(DEPTHS):
            some = [row for row in rows if (row["kernel"], row["depth"]) == (name, depth)]
            if not some:
                continue
            sizes = np.array([row["m"] for row in some]) * 1.04 ** (place - 1.5)
            values = [[row[key] for row in some] for key in ("learned", "deviation")]
            line = ax.errorbar(sizes, *values, marker="o", ms=3, capsize=2, label=f"{depth} layers")
            ax.axhline(some[0]["all"], color=line[0].get_color(), lw=0.8, ls=":")
        ax.set(title=name, xscale="log", xticks=SIZES, xticklabels=SIZES)
        ax.minorticks_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy")
    for ax in axes[1]:
        ax.set_xlabel("learned signals m")
    axes[0, 0].legend()
    return drawn


PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "signals": signals,
    "landmarks": landmarks,
    "models": models,
    "changes": changes,
    "kernels": kernels,
}


HEADERS = {
    "signals": (
        "Accuracies on the test part of ridge regression with the normalized ResCNTK of depth 4, "
        "GAP, penalty .001: with all n signals, and restricted to m signals. Chosen of each class, "
        "by randomly pivoted Cholesky, and learned (60 iterations from chosen ones); means of "
        "the draws. Spread: largest less least accuracy of learned signals."
    ),
    "landmarks": (
        "Landmarks of 1000 digits, the same kernel and penalty: chosen of each class, or learned, "
        "by their accuracy on the other 797 and the processor seconds of a fit."
    ),
    "models": (
        'Accuracies of `ResidualKernelClassifier(effort="fast")`, and of `condense(m)`; '
        "m is a tenth of the signals, at least two for each class. Faster: "
        "processor time of predicting 50 signals, full by condensed. File: condensed by full."
    ),
    "changes": (
        "`counterfactual` of test signals: the share found, with a probability of at least .8, and "
        "the median distance by the distance to the nearest training signal of another class. For "
        "Tecator, to predict the farther quartile of the targets; by the nearest beyond it."
    ),
    "kernels": (
        f"Accuracies on ItalyPowerDemand (67 training signals) of m learned signals, {ITERATIONS} "
        "iterations, by kernel (GAP, normalized) and depth: mean and standard deviation over "
        f"{DRAWS} draws of the start. The penalty is {OF_KERNELS}."
    ),
}


def text(report: Row) -> str:
    """Return the page of the parts that have been measured."""
    machine = report["machine"]
    parts: list[Any] = [
        "# Learned signals",
        f"{machine['processor']}, {machine['cores']} cores; Python {machine['python']}, NumPy "
        f"{machine['numpy']}. Seconds are processor time.",
    ]
    for part in PARTS:
        rows = [
            {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}
            for row in report.get(part, ())
        ]
        parts += [HEADERS[part], harness.rows_table(rows, left=(0,))] if rows else []
    return harness.page(*parts)


def main() -> None:
    several = {"action": "append", "choices": PARTS, "help": "only this (and this …)"}
    options = harness.options(__doc__, part=several)
    path = options.out / "learned_signals.json"
    report = harness.load(path, {}) | {"machine": harness.machine()}
    for part in options.part or PARTS:
        report[part] = []
        for row in PARTS[part](options.quick):
            report[part].append(row)
            harness.save(path, report)
            harness.say(row)
    rows = report.get("kernels")
    harness.publish(path, text(report), picture(rows) if rows else None)


if __name__ == "__main__":
    main()
