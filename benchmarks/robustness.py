"""Accuracy of our classifier beside others: on clean signals, with noise, and with drift.

    python benchmarks/robustness.py [--quick]

Eight sets of equal length that aeon brings along, with their official splits, and four simulated
plants; one setting for all. Training signals are clean. Noise is in units of the training signals'
deviations; with drift, the level of each channel moves by half a deviation. Seconds are of fitting
and predicting for the second time in a process. White noise has the means and deviations of the
training signals' channels. Rows that the file has are kept. Views were chosen on these sets; ucr.py
has sets that had no part in it.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import harness
import numpy as np
import pandas as pd
import simulated
from classification_methods import METHODS, OURS, SETS, signals
from harness import Row

from rescntk.learn.calibration import probabilities

LEVELS, DRAWS = (0.02, 0.05, 0.1), 3
"""Deviations of the noise; draws of noise, and of the directions of drift."""

PLANTS = {f"plant {k}": plant for k, plant in enumerate(simulated.PLANTS, 1)}


OF_PROBABILITY = ("clean", "noise 0.1")
"""Conditions whose log losses are measured with novelty and without."""

NOVELTY = ("novelty used", "novelty unused")
"""Probabilities of our classifier, and without the novelty that makes them less certain."""

OF_NOVELTY = [name for name in SETS if name not in ("JapaneseVowels", "PickupGestureWiimoteZ")]


def problem(name: str) -> simulated.Problem:
    """Return training signals and labels, test signals and labels."""
    if name in PLANTS:
        return simulated.drawn(partial(simulated.steps, plant=PLANTS[name]), 0, 100, 200)
    return signals(name)


def conditions(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield test signals: clean, with each level of noise, with drift."""
    yield "clean", Z
    deviations = X.std(axis=(0, 2), keepdims=True)
    for seed in range(DRAWS):
        noise = deviations * np.random.default_rng(seed).standard_normal(Z.shape)
        for level in LEVELS:
            yield f"noise {level:g}", Z + level * noise
        yield "drift", simulated.drifted((X, y, Z, y), seed)[2]


def measure(method: str, name: str) -> list[Row]:
    """Return a row for each condition: mean accuracy and log loss over draws, and seconds."""
    X, y, Z, truth = problem(name)
    METHODS[method](0).fit(X, y).predict(Z)  # imported and compiled
    model, _, seconds = harness.fit_and_predict(partial(METHODS[method], 0), X, y, Z)
    rows = []
    for condition, seen in conditions(X, y, Z):
        row = {"condition": condition, "accuracy": float(np.mean(model.predict(seen) == truth))}
        if method.startswith("rescntk"):
            chances = model.predict_proba(seen)[
                np.arange(len(Z)), np.searchsorted(model.classes_, truth)
            ]
            row["log_loss"] = float(-np.log(np.maximum(chances, 1e-15)).mean())
        rows.append(row)
    means = pd.DataFrame(rows).groupby("condition", sort=False).mean().reset_index()
    return [row | {"seconds": seconds} for row in means.to_dict("records")]


def measure_novelty(method: str, name: str) -> list[Row]:
    """Return a row for each condition, with the novelty of signals and without."""
    X, y, Z, truth = problem(name)
    model = METHODS[OURS](0).fit(X, y)
    means, deviations = X.mean(axis=(0, 2), keepdims=True), X.std(axis=(0, 2), keepdims=True)
    noise = np.random.default_rng(DRAWS).standard_normal(Z.shape)
    seen = {"white noise": means + deviations * noise}  # and the first draw of the others
    for condition, of_condition in conditions(X, y, Z):
        if condition in OF_PROBABILITY:
            seen.setdefault(condition, of_condition)
    rows = []
    for condition, shown in seen.items():
        decisions = model.decision_function(shown).reshape(len(shown), -1)
        one = np.full((len(shown), 1), model.inverse_temperature_)
        without = probabilities(decisions, one)
        of_novelty = zip(NOVELTY, (model.predict_proba(shown), without), strict=True)
        for kind, chances in of_novelty:
            row = {"method": kind, "condition": condition}
            row["certainty"] = float(chances.max(axis=1).mean())
            if condition != "white noise":
                of_truth = chances[np.arange(len(Z)), np.searchsorted(model.classes_, truth)]
                row["log_loss"] = float(-np.log(np.maximum(of_truth, 1e-15)).mean())
            rows.append(row)
    return rows


def of_novelty(rows: pd.DataFrame) -> list:
    """Return the section of probabilities with the novelty of signals, and without."""
    rows = rows[rows["method"].isin(NOVELTY)]
    if rows.empty:
        return []
    means = rows.groupby(["condition", "method"])[["certainty", "log_loss"]].mean()
    columns = [(column, method) for column in means for method in NOVELTY]
    lines = [
        (condition, *harness.decimals(means.unstack().loc[condition, columns], 4))
        for condition in dict.fromkeys(rows["condition"])
    ]
    names = {"certainty": "mean largest probability", "log_loss": "log loss"}
    header = [f"{names[column]}, {method}" for column, method in columns]
    count = rows["set"].nunique()
    return [
        f"The novelty of signals makes classes less certain. Means over {count} of the eight sets:",
        harness.table((f"{count} sets", *header), lines),
    ]


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    novelty = of_novelty(rows)
    rows = rows[~rows["method"].isin(NOVELTY)]
    names = dict.fromkeys(rows["set"])
    methods = [m for m in METHODS if set(rows["set"][rows["method"] == m]) == {*names}]
    values = rows.pivot(index="set", columns=["condition", "method"], values="accuracy")
    means = {
        part: values.loc[[name for name in names if (name in PLANTS) == simulated]].mean()
        for part, simulated in (("eight sets", False), ("plants", True))
    }
    of_means = [
        (f"{part}, {condition}", *harness.bold(mean[condition][methods]))
        for part, mean in means.items()
        for condition in dict.fromkeys(rows["condition"])
    ]
    losses = rows[rows["set"].isin(SETS)].groupby("condition", sort=False)
    clean = rows[rows["condition"] == "clean"].groupby("method")["seconds"].sum()
    seconds = ("processor seconds, all sets", *(f"{clean[m]:.3g}" for m in methods))
    each = [(name, *harness.bold(values["clean"].loc[name][methods])) for name in names]
    ours = [m for m in methods if m.startswith("rescntk")]
    log_losses = [
        (condition, *harness.decimals(part.groupby("method")["log_loss"].mean()[ours]))
        for condition, part in losses
    ]
    return harness.page(
        "# Accuracy of classifiers on clean signals, with noise and with drift",
        harness.table(("mean accuracy", *methods), [*of_means, seconds]),
        f"Means of {DRAWS} draws of noise and of the directions of drift.",
        harness.table(("log loss, eight sets", *ours), log_losses),
        *novelty,
        harness.table(("set, clean", *methods), each),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    able = [m for m in METHODS if m != "MultiRocketHydra" or find_spec("torch")]
    if len(able) < len(METHODS):
        harness.say("MultiRocketHydra left out: needs torch: pip install 'rescntk[benchmark]'")
    names = (SETS[0], "plant 1") if asked.quick else (*SETS, *PLANTS)
    keys = [{"method": method, "set": name} for name in names for method in able]
    harness.gather(path, keys, partial(harness.apart, measure))
    keys = [{"method": NOVELTY[0], "set": s} for s in OF_NOVELTY[: 1 if asked.quick else None]]
    harness.gather(path, keys, partial(harness.apart, measure_novelty))


if __name__ == "__main__":
    harness.script(__doc__, "robustness.csv", measure_all, table)
