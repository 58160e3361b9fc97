"""Learned signals: accuracies of chosen, pivoted and learned signals, of models, and changes.

    python benchmarks/learned_signals.py [--part PART ...] [--quick]

Results of parts that do not run stay as learned_signals.json has them. Seconds are processor time.
"""

import pickle
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import SETS
from classification_methods import signals as official
from harness import Row
from images import digits
from rescntk.regression.learned_signals import of_each_label

import rescntk as rk
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
    X, y, Z, expected = official(name)
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


def learn(
    kernel: rk.Kernel, X: np.ndarray, Y: np.ndarray, Z: np.ndarray, m: int, **options: Any
) -> tuple[np.ndarray, float]:
    """Return decisions at Z of m learned signals, and the processor seconds of learning."""
    options = {"penalty": PENALTY, "max_iterations": ITERATIONS} | options
    learned, seconds = harness.timed(
        lambda: rk.regression.learn_signals(kernel, X, Y, m, **options)
    )
    numbers = {"dtype": options["dtype"]} if "dtype" in options else {}
    return kernel(Z, learned.signals, **numbers) @ learned.coefficients, seconds


def restrict(X: np.ndarray, Y: np.ndarray, landmarks: Any) -> rk.regression.RestrictedRidge:
    return rk.regression.restricted_ridge(KERNEL, X, Y, landmarks, PENALTY, **OPTIONS)


def signals(quick: bool) -> Iterator[Row]:
    """Yield accuracies with m signals: chosen of each class, pivoted, learned; and with all."""
    for name, m, draws in CASES[:1] if quick else CASES:
        X, y, Z, expected = parts_of(name)
        classes, Y = targets(y)
        right = partial(accuracy, classes=classes, expected=expected)
        K, runs = KERNEL(X, **OPTIONS).astype(np.float64), []
        full = KERNEL(Z, X, **OPTIONS) @ rk.regression.solve(K, Y, PENALTY)
        for seed in range(1 if quick else draws):
            chosen = of_each_label(y, m, np.random.default_rng(seed))
            pivots = rk.regression.pivoted_cholesky(KERNEL, X, m, seed=seed, **OPTIONS).landmarks
            options = {"random_state": seed, "max_iterations": 5 if quick else ITERATIONS}
            decisions, seconds = learn(KERNEL, X, Y, Z, m, **options, **OPTIONS)
            runs.append({
                "chosen": right(restrict(X, Y, chosen).predict(Z)),
                "pivoted": right(restrict(X, Y, pivots).predict(Z)),
                "learned": right(decisions),
                "seconds": seconds,
            })  # fmt: skip
        table = pd.DataFrame(runs)
        row = {"set": name, "n": len(X), "m": m, "draws": draws, "all": right(full)}
        yield row | table.mean().to_dict() | {"spread": float(np.ptp(table["learned"]))}


def landmarks(quick: bool) -> Iterator[Row]:
    """Yield accuracies on digits, and times of a fit, with chosen and with learned landmarks."""
    X, y, Z, expected = parts_of("digits")
    classes, Y = targets(y)
    for kind, m in LANDMARKS[:1] if quick else LANDMARKS:
        if kind == "learned":
            decisions, seconds = learn(KERNEL, X, Y, Z, m, **OPTIONS)
        else:
            ridge, seconds = harness.timed(
                lambda m=m: restrict(X, Y, of_each_label(y, m, np.random.default_rng(0)))
            )
            decisions = ridge.predict(Z)
        row = {"landmarks": kind, "m": m, "seconds": seconds}
        yield row | {"accuracy": accuracy(decisions, classes, expected)}


def model_parts() -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Yield names, training signals, labels, test signals and labels of condensed models."""
    for name in SETS:
        yield name, official(name)
    X, y, Z, expected = official("JapaneseVowels")
    yield "JapaneseVowels, parts exchanged", (Z, expected, X, y)
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
        m = max(2 * len(full.classes_), -(-len(X) // 10))
        small, seconds = harness.timed(
            lambda full=full, m=m: full.condense(m, max_iterations=2 if quick else 30)
        )
        times = [_seconds(model, Z[:50]) for model in (full, small)]
        sizes = [len(pickle.dumps(model)) for model in (full, small)]
        yield {
            "set": name, "n": len(X), "m": m, "full": full.score(Z, expected),
            "condensed": small.score(Z, expected), "faster": times[0] / times[1],
            "file": sizes[1] / sizes[0], "seconds": seconds,
        }  # fmt: skip


def _seconds(model: Any, X: np.ndarray) -> float:
    """Return the processor time of a prediction, the median of five after a first."""
    times = [harness.processor_seconds(partial(model.predict, X)) for _ in range(6)]
    return float(np.median(times[1:]))


def changes(quick: bool) -> Iterator[Row]:
    """Yield how many signals get another answer, and distances by the nearest signal that has it.

    A regressor is to predict the upper or lower quartile of the targets, whichever is farther.
    """
    for name in CHANGED[:1] if quick else CHANGED:
        X, y, Z, _ = official(name)
        Z = Z[:: len(Z) // (2 if quick else 12)][:12]
        numbers = name == CHANGED[-1]
        kind: Any = ResidualKernelRegressor if numbers else ResidualKernelClassifier
        model = kind(effort="fast").fit(X, y)
        before, wanted, have = model.predict(Z), (), y != model.predict(Z)[:, None]
        if numbers:
            low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
            rising = (before < middle)[:, None]
            wanted = (np.where(rising[:, 0], high, low),)
            have = np.where(rising, y >= high, y <= low)
        ask = partial(model.counterfactual, Z, *wanted, max_iterations=3 if quick else 25)
        changed, seconds = harness.timed(ask)
        scale = X.std(axis=(0, 2))[:, None]
        nearest = [
            np.sqrt((((X[others] - z) / scale) ** 2).sum(axis=(1, 2)).min())
            for z, others in zip(Z, have, strict=True)
        ]
        yield {
            "set": name, "cases": len(Z), "found": float(changed.found.mean()),
            "distance": float(np.nanmedian(changed.distances / nearest)), "seconds": seconds,
        }  # fmt: skip


def kernels(quick: bool) -> Iterator[Row]:
    """Yield accuracies on ItalyPowerDemand with m learned signals, by kernel and depth."""
    X, y, Z, expected = parts_of("ItalyPowerDemand")
    classes, Y = targets(y)
    options = {"penalty": OF_KERNELS, "max_iterations": 2 if quick else ITERATIONS}
    few = 1 if quick else None
    for (name, family), depth in product(FAMILIES.items(), DEPTHS[:few]):
        kernel = family(depth, normalized=True)
        full = kernel(Z, X) @ rk.regression.solve(kernel(X), Y, OF_KERNELS)
        for m in SIZES[:few]:
            shares = []
            for seed in range(2 if quick else DRAWS):
                decisions, _ = learn(kernel, X, Y, Z, m, random_state=seed, **options)
                shares.append(accuracy(decisions, classes, expected))
            yield {
                "kernel": name, "depth": depth, "m": m, "all": accuracy(full, classes, expected),
                "learned": float(np.mean(shares)), "deviation": float(np.std(shares, ddof=1)),
            }  # fmt: skip


def picture(report: Row) -> Any:
    """Return a figure of the accuracies of `kernels`: a panel for each, a curve for each depth."""
    drawn = rk.plots.figure((8.4, 5.2))
    axes = drawn.subplots(2, 2, sharex=True, sharey=True)
    groups = pd.DataFrame(report["kernels"]).groupby(["kernel", "depth"])
    for ax, name in zip(axes.ravel(), FAMILIES, strict=True):
        for number, depth in enumerate(DEPTHS):
            if (name, depth) not in groups.groups:
                continue
            rows = groups.get_group((name, depth))
            points = rows["m"] * 1.04 ** (number - 1.5), rows["learned"], rows["deviation"]
            line = ax.errorbar(*points, marker="o", ms=3, capsize=2, label=f"{depth} layers")
            ax.axhline(rows["all"].iloc[0], color=line[0].get_color(), lw=0.8, ls=":")
        ax.set(title=name, xscale="log", xticks=SIZES, xticklabels=SIZES)
        ax.minorticks_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy")
    for ax in axes[1]:
        ax.set_xlabel("learned signals m")
    axes[0, 0].legend()
    return drawn


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
    """Return the page of the results."""
    parts: list[Any] = [
        "# Learned signals",
        f"{harness.described(report['machines']['signals'])}. Seconds are processor time.",
    ]
    for part, header in HEADERS.items():
        rows = [
            {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}
            for row in report[part]
        ]
        parts += [header, harness.rows_table(rows, left=(0,))]
    return harness.page(*parts)


if __name__ == "__main__":
    measure, option = harness.measure_parts((signals, landmarks, models, changes, kernels))
    harness.script(__doc__, "learned_signals.json", measure, text, picture, **option)
