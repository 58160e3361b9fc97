"""Measure estimators under drift, the places of contributions, and the time of a prediction.

    python benchmarks/estimators.py [--part PART …] [--quick]

drift: the level of each channel of new signals moves by half a deviation, up or down. The signals
are simulated plants, and the test parts of the eight sets. bursts: whether the largest contribution
to a decision, less the usual one, lies on the burst that decides. occlusion: the same question to
signals that nobody made: each window in turn becomes a straight line. latency: one prediction of
one signal. All take half an hour of a core.
"""

import itertools
import os
import pickle
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import harness
import numpy as np
import pandas as pd
import simulated
from classification_methods import FAST, OUR_CLASSIFIER, OURS, SETS, signals
from harness import Row

EFFORTS = {FAST: "fast", OURS: "default"}
SEEDS = 12
"""Draws of bursts."""

DRAWS = 2
"""Draws of a plant's signals."""

DIRECTIONS = 3
"""Draws of the directions in which levels drift, for each draw of signals."""

WINDOWS = {"GunPoint": 15, "ItalyPowerDemand": 3}
"""Sets of two classes, and the time points of a window that becomes a straight line."""

SIZES = (50, 200, 800)
"""Training signals of the predictions that are timed."""


def fitted(method: str, X: Any, y: Any) -> Any:
    return harness.make(OUR_CLASSIFIER, effort=EFFORTS[method], n_jobs=1).fit(X, y)


def judged(model: Any, Z: np.ndarray, truth: np.ndarray) -> Row:
    """Return the accuracy, with the weights of errors only in addition, and whether it warns."""
    from rescntk.learn import DriftWarning

    with warnings.catch_warnings(record=True) as warned_of:
        warnings.simplefilter("always")
        right = float(model.score(Z, truth))
    decisions = np.tensordot(model._average.weights, model._at(Z).decisions, 1)
    places = decisions.argmax(axis=1) if decisions.shape[1] > 1 else (decisions[:, 0] > 0) * 1
    warned = any(issubclass(each.category, DriftWarning) for each in warned_of)
    errors_only = float(np.mean(model.classes_[places] == truth))
    return {"accuracy": right, "errors only": errors_only, "warned": float(warned)}


def drift(quick: bool) -> Iterator[Row]:
    """Yield accuracies without and with drift, means over the draws."""
    problems: dict[str, list[simulated.Problem]] = {
        f"plant {k}": [
            simulated.drawn(partial(simulated.steps, plant=plant), seed, 100, 200)
            for seed in range(1 if quick else DRAWS)
        ]
        for k, plant in enumerate(simulated.PLANTS, 1)
    }
    problems |= {name: [signals(name)] for name in SETS}
    names = ("plant 1", SETS[0]) if quick else problems
    for name, method in itertools.product(names, EFFORTS):
        clean, moved = [], []
        for seed, problem in enumerate(problems[name]):
            model = fitted(method, *problem[:2])
            clean.append(judged(model, *problem[2:]))
            for k in range(DIRECTIONS):
                shifted = simulated.drifted(problem, DIRECTIONS * seed + k)
                moved.append(judged(model, *shifted[2:]))
        yield {"problem": name, "method": method, "clean": clean, "drift": moved}


def bursts(quick: bool) -> Iterator[Row]:
    """Yield, for each draw, shares of new signals that are right, and "on the burst".

    The largest contribution to the answer, by magnitude, less the usual one, is on the burst.
    """
    names, seeds = ([*simulated.BURSTS], range(SEEDS))
    cases = itertools.product(names[:1] if quick else names, EFFORTS, seeds[: 1 if quick else None])
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


def occlusion(quick: bool) -> Iterator[Row]:
    """Yield how often the loss of the window of the largest contribution costs most.

    Contributions are less the usual ones, or whole. Correlations, over the windows of a signal, are
    of a window's sum of contributions for the class answered, and its loss.
    """
    for name, method in itertools.product(WINDOWS, EFFORTS):
        width, (X, y, Z, truth) = WINDOWS[name], signals(name)
        Z, truth = Z[: 6 if quick else 60], truth[: 6 if quick else 60]
        model = fitted(method, X, y)
        decisions = model.decision_function(Z)
        losses = []
        for start in range(0, Z.shape[2], width):
            changed, end = Z.copy(), start + width
            ends = Z[:, :, [max(start - 1, 0), min(end, Z.shape[2] - 1)]]
            ramp = np.linspace(0, 1, width)
            changed[:, :, start:end] = ends[:, :, :1] * (1 - ramp) + ends[:, :, 1:] * ramp
            losses.append((decisions - model.decision_function(changed)) * np.sign(decisions))
        order = np.argsort(-np.array(losses), axis=0)
        row = {"set": name, "method": method, "signals": len(Z), "windows": len(losses)}
        row |= {"right": float(np.mean(model.predict(Z) == truth))}
        whole = model.contributions(Z)[:, 0]
        for kind, parts in (("", whole - model.usual_contributions()[0]), ("whole: ", whole)):
            window = np.abs(parts).argmax(axis=1) // width
            for label, k in (("costs most", 1), ("among three", 3)):
                row[kind + label] = float(np.mean((order[:k] == window).any(axis=0)))
            sums = parts.reshape(len(Z), -1, width).sum(axis=2) * np.sign(decisions)[:, None]
            pairs = zip(sums, np.transpose(losses), strict=True)
            row[kind + "correlation"] = float(np.median([np.corrcoef(*p)[0, 1] for p in pairs]))
        yield row


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


def drift_parts(rows: list[Row]) -> list[Any]:
    """Return a table, and what it does not show."""
    cases = pd.DataFrame(
        {"problem": row["problem"], "method": row["method"], "drift": when} | case
        for row in rows
        for when in ("clean", "drift")
        for case in row[when]
    )
    means = cases.groupby(["problem", "method", "drift"], sort=False).mean().unstack([1, 2])
    columns = [
        (what, method, when)
        for method in EFFORTS
        for what, when in (("accuracy", "clean"), ("accuracy", "drift"), ("errors only", "drift"))
    ]
    of_sets = means.index.isin(SETS)
    average = means[of_sets].mean()
    fast, ours = (average["errors only", method, "clean"] for method in EFFORTS)
    lines = [*means[columns].iterrows(), ("**eight sets**", average[columns])]
    moved, real = cases["drift"] == "drift", cases["problem"].isin(SETS)
    parts, worst = cases[real & ~moved]["warned"], cases[moved & ~real]["accuracy"].min()
    heads = {"accuracy": "", "errors only": ", weights by errors"}
    return [
        harness.table(
            ("signals", *(f"{m}: {when}{heads[what]}" for what, m, when in columns)),
            [(name, *harness.decimals(numbers)) for name, numbers in lines],
        ),
        "Accuracies. With drift, the level of each channel moves by half a deviation, up or down: "
        f"{DIRECTIONS} draws of directions. Plants: benchmarks/simulated.py, eight sensors, 100 "
        f"training and 200 new signals, {DRAWS} draws. Eight sets: their test parts. “Weights by "
        "errors”: passes keep the weights of their leave-one-out errors at all signals. With such "
        f"weights the eight sets have {fast:.3f} (fast) and {ours:.3f} without drift.",
        f"The worst draw of a plant has {worst:.3f}. A warning "
        f"of drift was given for {parts.sum():.0f} of {len(parts)} test parts without drift, and "
        f"for {cases[moved]['warned'].mean():.0%} of the batches with drift.",
    ]


def burst_table(rows: list[Row]) -> list[str]:
    groups = pd.DataFrame(rows).groupby(["signals", "method"], sort=False)
    columns = {
        "right": groups["right"].mean(),
        "on the burst": groups["on the burst"].mean(),
        "worst draw": groups["on the burst"].min(),
    }
    shares = pd.concat(columns, axis=1).unstack()[[(x, m) for m in EFFORTS for x in columns]]
    header = ("bursts in noise", *(f"{method}: {part}" for part, method in shares))
    return harness.table(
        header, [(name, *harness.decimals(row)) for name, row in shares.iterrows()]
    )


def occlusion_row(row: Row) -> Row:
    """Return a row of the table, with what chance finds beside what contributions find."""
    shown = {k: f"{x:.2f}" if isinstance(x, float) else x for k, x in row.items()}
    for label, k in (("costs most", 1), ("among three", 3)):
        shown[label] += f" (chance {k / row['windows']:.2f})"
    return shown


def text(report: Row) -> str:
    """Return the page of the results."""
    return harness.page(
        "# Drift, contributions and the time of one prediction",
        "## Drift",
        *drift_parts(report["drift"]),
        "## Whether the largest contribution lies on the burst",
        burst_table(report["bursts"]),
        f"Shares of 40 new signals after 60 training signals, means of {SEEDS} draws: decisions "
        "that are right, and signals whose largest contribution, by magnitude, less the usual "
        "contribution (of training signals: the mean over classes of medians), lies on the burst.",
        "## Whether contributions tell what occlusion costs",
        harness.rows_table([occlusion_row(row) for row in report["occlusion"]], (0, 1)),
        f"Test signals, of which each window (of {WINDOWS['GunPoint']} time points of GunPoint, "
        f"{WINDOWS['ItalyPowerDemand']} of ItalyPowerDemand) was replaced by a straight line. "
        "“Costs most”: the window of the largest contribution, by magnitude, is the window whose "
        "loss costs the decision most. “Among three”: or second or third. “Correlation”: median "
        "over signals of the correlation, over windows, of contributions to the class answered and "
        "costs. Contributions are less the usual ones; “whole”: not.",
        "## One prediction",
        harness.table(
            ("training signals", "ms", "MB", "load"),
            [(row["training signals"], f"{row['ms']:.1f}", f"{row['MB']:.2f}", f"{row['load']:.0f}")
             for row in report["latency"]],
            (),
        ),
        'Median processor time of `predict` of one signal of 60 time points, `effort="fast"`, one '
        "thread, and the model's file. “Load”: processes that ran or waited on two cores at the "
        "time; with many, a prediction takes up to twice as long.",
    )  # fmt: skip


if __name__ == "__main__":
    measure, option = harness.measure_parts((drift, bursts, occlusion, latency))
    harness.script(__doc__, "estimators.json", measure, text, **option)
