"""Accuracy and log loss of the classifier with other values of constants that were chosen.

    python benchmarks/constants.py [--quick]

Powers of views' weights: the four sets of robustness.py with the fewest numbers and its four
plants, clean, with noise and with drift. Landmarks: the plants with 1,200 training signals. Fast
views. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import harness
import pandas as pd
import robustness
import simulated
from harness import Row

from rescntk.learn import ResidualKernelClassifier, estimator, view_weights

SETS = ("GunPoint", "ItalyPowerDemand", "ArrowHead", "BasicMotions", *robustness.PLANTS)
CONDITIONS = ("clean", "noise 0.05", "noise 0.1", "drift")

CONSTANTS: dict[str, tuple[ModuleType, tuple[float, ...]]] = {
    "_ERROR_POWER": (view_weights, (0.0, 4.0, 12.0)),
    "_NOVELTY_POWER": (view_weights, (0.0, 2.0, 3.0, 4.0)),
    "_LEVEL_POWER": (view_weights, (0.0, 4.0, 8.0)),
    "_LANDMARKS_OF_MANY": (estimator, (100, 200, 400)),
}
"""Modules of constants, and values that are compared; one of each is in use."""

MANY = 1200
"""Training signals where landmarks are compared, more than `default_views.MANY_SIGNALS`."""


def problem(constant: str, name: str) -> simulated.Problem:
    """Return training signals and labels, test signals and labels."""
    if constant != "_LANDMARKS_OF_MANY":
        return robustness.problem(name)
    responses = partial(simulated.step_responses, plant=robustness.PLANTS[name])
    return simulated.draw_problem(responses, 0, MANY, MANY)


def measure(constant: str, value: float, name: str) -> list[Row]:
    """Return a row for each condition: mean accuracy and log loss over draws."""
    module, _ = CONSTANTS[constant]
    X, y, Z, truth = problem(constant, name)
    rows = []
    with patch.object(module, constant, value):
        model = ResidualKernelClassifier("fast", random_state=0, n_jobs=1).fit(X, y)
        for condition, of_condition in robustness.conditions(X, y, Z):
            if condition in CONDITIONS and (condition == "clean" or len(X) < MANY):
                proba = model.predict_proba(of_condition)
                right = model.classes_[proba.argmax(axis=1)] == truth
                loss = robustness.log_loss(proba, model.classes_, truth)
                rows.append({"condition": condition, "accuracy": right.mean(), "log_loss": loss})
    means = pd.DataFrame(rows).groupby("condition", sort=False).mean().reset_index()
    return means.to_dict("records")


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    parts: list[str | list[str]] = []
    for constant, (module, values) in CONSTANTS.items():
        of_constant = rows[rows["constant"] == constant]
        conditions = [c for c in CONDITIONS if c in set(of_constant["condition"])]
        measures = [(m, c) for m in ("accuracy", "log_loss") for c in conditions]
        lines = []
        for value in values:
            means = (
                of_constant[of_constant["value"] == value]
                .groupby("condition")
                .mean(numeric_only=True)
            )
            in_use = value == getattr(module, constant)
            found = harness.decimals([means.loc[c, m] for m, c in measures])
            lines.append((f"{value:g}{', in use' * in_use}", *found))
        header = [f"{m.replace('_', ' ')}, {c}" for m, c in measures]
        n_sets = of_constant["set"].nunique()
        parts += [
            f"## {constant}",
            f"Means over {n_sets} sets.",
            harness.table(("value", *header), lines),
        ]
    return harness.page(
        "# Constants of the classifier",
        "Accuracy and log loss with other values of constants of `rescntk/learn`, of fast views: "
        f"with {', '.join(SETS[:4])} and four simulated plants; landmarks with the plants and "
        f"{MANY:,} training signals.",
        *parts,
    )


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    keys = [
        {"constant": constant, "value": value, "set": name}
        for constant, (_, values) in CONSTANTS.items()
        for value in values
        for name in (robustness.PLANTS if constant == "_LANDMARKS_OF_MANY" else SETS)
    ]
    harness.measure_missing(path, keys[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    harness.script(__doc__, "constants.csv", measure_all, table)
