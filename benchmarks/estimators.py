"""The estimators on unusual signals: noise, drift; contributions; and the time of a prediction.

    python benchmarks/estimators.py [--part unusual|bursts|latency] [--quick]

unusual: accuracy on simulated signals and on public sets, clean, with noise and with drift. bursts:
whether the largest contribution lies on the burst that tells the classes apart. latency: one
prediction of one signal.
"""

import itertools
import os
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import harness
import numpy as np
import pandas as pd
import simulated
from classification_methods import FAST, OUR_CLASSIFIER, OURS, SETS, signals
from harness import Row

VIEWS = {FAST: "fast", OURS: "default"}
SEEDS = 12
"""Draws of bursts."""

DRAWS = 2
"""Draws of a plant's signals."""

SIZES = (50, 200, 400, 800)
"""Training signals of the predictions that are timed."""


def fitted(method: str, X: Any, y: Any) -> Any:
    options = {"views": VIEWS[method], "n_jobs": 1, "random_state": 0}
    return harness.make(OUR_CLASSIFIER, **options).fit(X, y)


def unusual(quick: bool) -> Iterator[Row]:
    """Yield accuracies on clean test signals, with noise of a tenth, and with drift."""
    problems: dict[str, list[simulated.Problem]] = {
        f"plant {k}": [
            simulated.drawn(partial(simulated.steps, plant=plant), seed, 100, 200)
            for seed in range(1 if quick else DRAWS)
        ]
        for k, plant in enumerate(simulated.PLANTS, 1)
    }
    problems |= {
        make.__name__: [simulated.drawn(make, seed, 90, 200) for seed in range(DRAWS)]
        for make in (simulated.bearing, simulated.process, simulated.onset)
    }
    problems |= {name: [signals(name)] for name in SETS}
    names = ("plant 1", SETS[0]) if quick else problems
    for name, method in itertools.product(names, VIEWS):
        row: dict[str, list[float]] = {"clean": [], "noise": [], "drift": []}
        for seed, problem in enumerate(problems[name]):
            X, y, Z, truth = problem
            model = fitted(method, X, y)
            noise = np.random.default_rng([seed, 2]).standard_normal(Z.shape)
            noisy = Z + 0.1 * X.std(axis=(0, 2))[:, None] * noise
            batches = (Z, noisy, simulated.drifted(problem, seed)[2])
            for kind, batch in zip(row, batches, strict=True):
                row[kind].append(float(model.score(batch, truth)))
        yield {"signals": name, "method": method} | row


def bursts(quick: bool) -> Iterator[Row]:
    """Yield, for each draw, shares of new signals that are right, and "on the burst".

    The largest contribution to the answer, by magnitude, less the usual one, is on the burst.
    """
    names, seeds = ([*simulated.BURSTS], range(SEEDS))
    cases = itertools.product(names[:1] if quick else names, VIEWS, seeds[: 1 if quick else None])
    for name, method, seed in cases:
        burst, rng = simulated.BURSTS[name], np.random.default_rng(seed)
        X, y, places = simulated.bursts(rng, 100, burst)
        model = fitted(method, X[:60], y[:60])
        parts = model.contributions(X[60:]) - model.usual_contributions()
        answers = model.predict(X[60:])
        outputs = answers if parts.shape[1] > 1 else np.zeros(40, int)
        largest = np.abs(parts[np.arange(40), outputs]).argmax(axis=1) - places[60:]
        hits, right = (largest >= 0) & (largest < burst.width), answers == y[60:]
        by_class = [float(hits[y[60:] == k].mean()) for k in np.unique(y)]
        row = {"signals": name, "method": method, "seed": seed, "right": right.mean()}
        yield row | {"on the burst": hits.mean(), "by class": by_class}


def latency(quick: bool) -> Iterator[Row]:
    """Yield milliseconds of a prediction of one signal of 60 points, and the model's megabytes."""

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = rng.standard_normal((n, 1, 60)), np.arange(n) % 2
        X[y == 1, 0] += np.sin(np.arange(60) / 4)
        return X, y

    rng = np.random.default_rng(0)
    new = drawn(20)[0]
    for n in SIZES[: 1 if quick else None]:
        model = fitted(FAST, *drawn(n))
        model.predict(new[:1])
        calls = (
            partial(model.predict, new[k % 20 : k % 20 + 1]) for k in range(3 if quick else 100)
        )
        ms = 1e3 * float(np.median([harness.processor_seconds(call) for call in calls]))
        size = len(pickle.dumps(model)) / 1e6
        yield {"training signals": n, "ms": ms, "MB": size, "load": os.getloadavg()[0]}


# -- tables


def unusual_table(rows: list[Row]) -> list[str]:
    kinds = ("clean", "noise", "drift")
    cases = pd.DataFrame(
        {"signals": row["signals"], "method": row["method"]}
        | {kind: np.mean(row[kind]) for kind in kinds}
        for row in rows
    )
    means = cases.pivot(index="signals", columns="method", values=list(kinds))
    means = means.loc[list(dict.fromkeys(cases["signals"]))]
    columns = [(kind, method) for method in VIEWS for kind in kinds]
    real = means.index.isin(SETS)
    lines = [*means[columns].iterrows()]
    lines += [("**simulated**", means[~real][columns].mean())]
    lines += [("**sets**", means[real][columns].mean())] if real.any() else []
    header = ("accuracy", *(f"{method}: {kind}" for kind, method in columns))
    return harness.table(header, [(name, *harness.decimals(row)) for name, row in lines])


def burst_table(rows: list[Row]) -> list[str]:
    groups = pd.DataFrame(rows).groupby(["signals", "method"], sort=False)
    columns = {
        "right": groups["right"].mean(),
        "on the burst": groups["on the burst"].mean(),
        "worst draw": groups["on the burst"].min(),
    }
    shares = pd.concat(columns, axis=1).unstack()[[(x, m) for m in VIEWS for x in columns]]
    header = ("bursts in noise", *(f"{method}: {part}" for part, method in shares))
    return harness.table(
        header, [(name, *harness.decimals(row)) for name, row in shares.iterrows()]
    )


def text(report: Row) -> str:
    """Return the page of the results."""
    return harness.page(
        "# Noise, drift, contributions and the time of one prediction",
        "## Test signals that are unlike the training signals",
        unusual_table(report["unusual"]),
        "Noise has a tenth of each channel's deviation. With drift, the level of each channel "
        "moves by half a deviation, up or down. Simulated signals: benchmarks/simulated.py.",
        "## Whether the largest contribution lies on the burst",
        burst_table(report["bursts"]),
        f"Shares of 40 new signals after 60 training signals, means of {SEEDS} draws: decisions "
        "that are right, and signals whose largest contribution, by magnitude, less the usual "
        "contribution (of training signals: the mean over classes of medians), lies on the burst.",
        "## One prediction",
        harness.table(
            ("training signals", "ms", "MB", "load"),
            [(row["training signals"], f"{row['ms']:.1f}", f"{row['MB']:.2f}", f"{row['load']:.0f}")
             for row in report["latency"]],
            (),
        ),
        'Median processor time of `predict` of one signal of 60 time points, `views="fast"`, one '
        "thread, and the model's file. “Load”: processes that ran or waited on two cores at the "
        "time; with many, a prediction takes up to twice as long.",
    )  # fmt: skip


if __name__ == "__main__":
    measure, option = harness.measure_parts((unusual, bursts, latency))
    harness.script(__doc__, "estimators.json", measure, text, **option)
