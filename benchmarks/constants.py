"""Accuracy and log loss of the classifier with other values of constants that were chosen.

    python benchmarks/constants.py [--quick]

Powers of views' weights: the four sets of robustness.py with the fewest numbers and its four
plants, clean, with noise and with drift. Landmarks: the plants with 1,200 training signals. Fast
views. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import patch

import harness
import pandas as pd
import robustness
import simulated
from harness import Row

from rescntk.learn import ResidualKernelClassifier
from rescntk.learn.ensemble import weights as view_weights

SETS = ("GunPoint", "ItalyPowerDemand", "ArrowHead", "BasicMotions", *robustness.PLANTS)
CONDITIONS = ("clean", "noise 0.05", "noise 0.1", "drift")

POWERS = {"_ERROR_POWER": (0.0, 12.0), "_NOVELTY_POWER": (2.0, 4.0), "_LEVEL_POWER": (0.0,)}
"""Powers of `rescntk/learn/ensemble/weights.py`, and values that are compared with those in use."""

IN_USE, LANDMARKS = "in use", "n_landmarks"
"""Other names in the place of a power's: nothing is changed, with the value 0; landmarks."""

LANDMARK_NUMBERS, MANY = (100, 200, 400), 1200
"""Numbers of landmarks, and of training and of test signals."""


def problem(constant: str, name: str) -> simulated.Problem:
    """Return training signals and labels, test signals and labels."""
    if constant != LANDMARKS:
        return robustness.problem(name)
    responses = partial(simulated.step_responses, plant=robustness.PLANTS[name])
    return simulated.draw_problem(responses, 0, MANY, MANY)


def measure(constant: str, value: float, name: str) -> list[Row]:
    """Return a row for each condition: mean accuracy and log loss over draws."""
    X, y, Z, truth = problem(constant, name)
    n_landmarks = int(value) if constant == LANDMARKS else None
    model = ResidualKernelClassifier("fast", n_landmarks=n_landmarks, random_state=0, n_jobs=1)
    rows = []
    changed = patch.object(view_weights, constant, value) if constant in POWERS else nullcontext()
    with changed:
        model.fit(X, y)
        for condition, of_condition in robustness.conditions(X, y, Z):
            if condition == "clean" or (condition in CONDITIONS and constant != LANDMARKS):
                proba = model.predict_proba(of_condition)
                right = model.classes_[proba.argmax(axis=1)] == truth
                loss = robustness.log_loss(proba, model.classes_, truth)
                rows.append({"condition": condition, "accuracy": right.mean(), "log_loss": loss})
    means = pd.DataFrame(rows).groupby("condition", sort=False).mean().reset_index()
    return means.to_dict("records")


def lines_of(rows: pd.DataFrame, conditions: Sequence[str]) -> list[str]:
    """Return a table with a line for each constant and value, of means over sets."""
    lines = []
    for (constant, value), of_value in rows.groupby(["constant", "value"], sort=False):
        means = of_value.groupby("condition").mean(numeric_only=True)
        measures = [means.loc[c, m] for m in ("accuracy", "log_loss") for c in conditions]
        text = constant if constant == IN_USE else f"`{constant}` {value:g}"
        lines.append((text, *harness.decimals(measures)))
    header = [f"{m}, {c}" for m in ("accuracy", "log loss") for c in conditions]
    return harness.table(("value", *header), lines)


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    of_landmarks = rows["constant"] == LANDMARKS
    powers = ", ".join(f"`{name}` {getattr(view_weights, name):g}" for name in POWERS)
    return harness.page(
        "# Constants of the classifier",
        f"Means over {', '.join(SETS[:4])} and four simulated plants, of fast views, with other "
        f"powers of `rescntk/learn/ensemble/weights.py`. In use are {powers}.",
        lines_of(rows[~of_landmarks], CONDITIONS),
        f"Means over the four plants with {MANY:,} training signals, by the number of landmarks.",
        lines_of(rows[of_landmarks], CONDITIONS[:1]),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    constants = {IN_USE: (0,), **POWERS}
    keys = [(c, value, name) for c in constants for value in constants[c] for name in SETS]
    keys += [(LANDMARKS, n, name) for n in LANDMARK_NUMBERS for name in robustness.PLANTS]
    named = [dict(zip(("constant", "value", "set"), key, strict=True)) for key in keys]
    harness.measure_missing(path, named[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    harness.script(__doc__, "constants.csv", measure_all, table)
