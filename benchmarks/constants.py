"""Accuracy and log loss of the classifier with other values of constants that were chosen.

    python benchmarks/constants.py [--quick]

Powers of views' weights: the four sets of robustness.py with the fewest numbers and its four
plants, clean, with noise and with drift. Fast views. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import harness
import pandas as pd
import robustness
from harness import Row

from rescntk.learn import ResidualKernelClassifier
from rescntk.learn.ensemble import weights as view_weights

SETS = ("GunPoint", "ItalyPowerDemand", "ArrowHead", "BasicMotions", *robustness.PLANTS)
CONDITIONS = ("clean", "noise 0.05", "noise 0.1", "drift")

POWERS = {"_ERROR_POWER": (0.0, 12.0), "_NOVELTY_POWER": (2.0, 4.0), "_LEVEL_POWER": (0.0,)}
"""Powers of `rescntk/learn/ensemble/weights.py`, and values that are compared with those in use."""

IN_USE = "in use"
"""In the place of a power's name, with the value 0: nothing is changed."""


def measure(constant: str, value: float, name: str) -> list[Row]:
    """Return a row for each condition: mean accuracy and log loss over draws."""
    X, y, Z, truth = robustness.problem(name)
    model = ResidualKernelClassifier("fast", random_state=0, n_jobs=1)
    rows = []
    changed = patch.object(view_weights, constant, value) if constant in POWERS else nullcontext()
    with changed:
        model.fit(X, y)
        for condition, of_condition in robustness.conditions(X, y, Z):
            if condition in CONDITIONS:
                proba = model.predict_proba(of_condition)
                right = model.classes_[proba.argmax(axis=1)] == truth
                loss = robustness.log_loss(proba, model.classes_, truth)
                rows.append({"condition": condition, "accuracy": right.mean(), "log_loss": loss})
    means = pd.DataFrame(rows).groupby("condition", sort=False).mean().reset_index()
    return means.to_dict("records")


def table(rows: pd.DataFrame) -> str:
    """Return the page: a line for each constant and value, of means over sets."""
    powers = ", ".join(f"`{name}` {getattr(view_weights, name):g}" for name in POWERS)
    lines = []
    for (constant, value), of_value in rows.groupby(["constant", "value"], sort=False):
        means = of_value.groupby("condition").mean(numeric_only=True)
        measures = [means.loc[c, m] for m in ("accuracy", "log_loss") for c in CONDITIONS]
        text = constant if constant == IN_USE else f"`{constant}` {value:g}"
        lines.append((text, *harness.decimals(measures)))
    header = [f"{m}, {c}" for m in ("accuracy", "log loss") for c in CONDITIONS]
    return harness.page(
        "# Constants of the classifier",
        f"Means over {', '.join(SETS[:4])} and four simulated plants, of fast views, with other "
        f"powers of `rescntk/learn/ensemble/weights.py`. In use are {powers}.",
        harness.table(("value", *header), lines),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    constants = {IN_USE: (0,), **POWERS}
    keys = [(c, value, name) for c in constants for value in constants[c] for name in SETS]
    named = [dict(zip(("constant", "value", "set"), key, strict=True)) for key in keys]
    harness.measure_missing(path, named[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    harness.script(__doc__, "constants.csv", measure_all, table)
