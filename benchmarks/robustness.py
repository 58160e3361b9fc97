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

from rescntk.learn.ensemble.calibration import Calibration

LEVELS, DRAWS = (0.02, 0.05, 0.1), 3
"""Deviations of the noise; draws of noise, and of the directions of drift."""

PLANTS = {f"plant {k}": plant for k, plant in enumerate(simulated.PLANTS, 1)}

CONDITIONS_OF_NOVELTY = ("clean", "noise 0.1")
"""Conditions whose log losses are measured with novelty and without."""

NOVELTY = ("novelty used", "novelty unused")
"""Methods: our classifier, and the same without the novelty that makes classes less certain."""

SETS_OF_NOVELTY = [name for name in SETS if name not in ("JapaneseVowels", "PickupGestureWiimoteZ")]


def problem(name: str) -> simulated.Problem:
    """Return training signals and labels, test signals and labels."""
    if name in PLANTS:
        return simulated.draw_problem(
            partial(simulated.step_responses, plant=PLANTS[name]), 0, 100, 200
        )
    return signals(name)


def conditions(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield test signals: clean, with each level of noise, with drift."""
    yield "clean", Z
    deviations = X.std(axis=(0, 2), keepdims=True)
    for seed in range(DRAWS):
        noise = deviations * np.random.default_rng(seed).standard_normal(Z.shape)
        for level in LEVELS:
            yield f"noise {level:g}", Z + level * noise
        yield "drift", simulated.with_drift((X, y, Z, y), seed)[2]


def log_loss(proba: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean natural log loss of probabilities, which count as 1e-15 at least."""
    of_truth = proba[np.arange(len(truth)), np.searchsorted(classes, truth)]
    return float(-np.log(np.maximum(of_truth, 1e-15)).mean())


def measure(method: str, name: str) -> list[Row]:
    """Return a row for each condition: mean accuracy and log loss over draws, and seconds."""
    X, y, Z, truth = problem(name)
    METHODS[method](0).fit(X, y).predict(Z)  # imported and compiled
    model, _, seconds = harness.fit_and_predict(partial(METHODS[method], 0), X, y, Z)
    rows = []
    for condition, of_condition in conditions(X, y, Z):
        predicted = model.predict(of_condition)
        row = {"condition": condition, "accuracy": float(np.mean(predicted == truth))}
        if method.startswith("rescntk"):
            row["log_loss"] = log_loss(model.predict_proba(of_condition), model.classes_, truth)
        rows.append(row)
    means = pd.DataFrame(rows).groupby("condition", sort=False).mean().reset_index()
    return [row | {"seconds": seconds} for row in means.to_dict("records")]


def measure_novelty(method: str, name: str) -> list[Row]:
    """Return a row for each condition: certainty and log loss with novelty or without, by `method`.

    Conditions are white noise, and the first draw of `CONDITIONS_OF_NOVELTY`.
    """
    X, y, Z, truth = problem(name)
    model = METHODS[OURS](0).fit(X, y)
    means, deviations = X.mean(axis=(0, 2), keepdims=True), X.std(axis=(0, 2), keepdims=True)
    noise = np.random.default_rng(DRAWS).standard_normal(Z.shape)
    signals_of = {"white noise": means + deviations * noise}
    for condition, of_draw in conditions(X, y, Z):
        if condition in CONDITIONS_OF_NOVELTY:
            signals_of.setdefault(condition, of_draw)
    rows = []
    for condition, of_condition in signals_of.items():
        if method == NOVELTY[0]:
            proba = model.predict_proba(of_condition)
        else:
            decisions = model.decision_function(of_condition).reshape(len(Z), -1)
            calibration = Calibration(
                model.inverse_temperature_, np.zeros(1)
            )  # offsets are in them
            proba = calibration.probabilities(decisions, np.ones((len(Z), 1)))
        row = {"condition": condition, "certainty": float(proba.max(axis=1).mean())}
        if condition != "white noise":
            row["log_loss"] = log_loss(proba, model.classes_, truth)
        rows.append(row)
    return rows


def novelty_section(rows: pd.DataFrame) -> list[str | list[str]]:
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
    novelty = novelty_section(rows)
    rows = rows[~rows["method"].isin(NOVELTY)]
    names = dict.fromkeys(rows["set"])
    methods = [m for m in METHODS if set(rows["set"][rows["method"] == m]) == {*names}]
    values = rows.pivot(index="set", columns=["condition", "method"], values="accuracy")
    means = {
        part: values.loc[[name for name in names if (name in PLANTS) == are_plants]].mean()
        for part, are_plants in (("eight sets", False), ("plants", True))
    }
    of_means = [
        (f"{part}, {condition}", *harness.bold(mean[condition][methods]))
        for part, mean in means.items()
        for condition in dict.fromkeys(rows["condition"])
    ]
    losses = rows[rows["set"].isin(SETS)].groupby("condition", sort=False)
    clean = rows[rows["condition"] == "clean"].groupby("method")["seconds"].sum()
    seconds = ("processor seconds, all sets", *(f"{clean[m]:.3g}" for m in methods))
    of_sets = [(name, *harness.bold(values["clean"].loc[name][methods])) for name in names]
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
        harness.table(("set, clean", *methods), of_sets),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    able = [m for m in METHODS if m != "MultiRocketHydra" or find_spec("torch")]
    if len(able) < len(METHODS):
        harness.log("MultiRocketHydra left out: needs torch: pip install 'rescntk[benchmark]'")
    names = [SETS[0], "plant 1"] if asked.quick else [*SETS, *PLANTS]
    keys = [{"method": method, "set": name} for name in names for method in able]
    harness.measure_missing(path, keys, partial(harness.in_own_process, measure))
    names = SETS_OF_NOVELTY[: 1 if asked.quick else None]
    keys = [{"method": method, "set": name} for name in names for method in NOVELTY]
    harness.measure_missing(path, keys, partial(harness.in_own_process, measure_novelty))


if __name__ == "__main__":
    harness.script(__doc__, "robustness.csv", measure_all, table)
