"""Coverage of the intervals of `model.forecast`: their share with the measured error inside.

    python benchmarks/forecast.py [--quick]

A classifier ("fast") is fitted to some signals of a set, with two or more of each class. It
forecasts its error at two and four times the signals. Classifiers are fitted to these signals and
others, drawn twice; their mean error at the signals left is the measured error. Tecator has a
regressor. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import SETS, pooled
from harness import Row

SIZES, DRAWS, TIMES = (16, 24, 48, 96), 8, (2, 4)
MOST_TESTED = 150  # signals at which errors are measured
LEAST_TESTED = 30


def draw(y: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray | None:
    """Return a random order of signals that begins with two of each class, if `size` has them."""
    order = rng.permutation(len(y))
    if y.dtype.kind == "f":
        return order
    first = np.array([np.sum(y[order[:k]] == y[order[k]]) < 2 for k in range(len(y))])
    if first.sum() > size:
        return None
    others = order[~first]
    head = np.concatenate([order[first], others[: size - first.sum()]])
    return np.concatenate([head, others[size - first.sum() :]])


def fitted(X: np.ndarray, y: np.ndarray) -> Any:
    from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor

    kind = ResidualKernelRegressor if y.dtype.kind == "f" else ResidualKernelClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(effort="fast").fit(X, y)


def compare(name: str, size: int, number: int) -> list[Row]:
    """Return a row for each number of times the signals: forecast, interval, measured error."""
    X, y = pooled(name)
    rng = np.random.default_rng([size, number])
    order = draw(y, size, rng)
    times = [k for k in TIMES if len(y) - k * size >= LEAST_TESTED]
    if order is None or not times:
        return []
    inside, others = order[:size], order[size:]
    forecasts = fitted(X[inside], y[inside]).forecast([k * size for k in times])
    rows = []
    for row, k in zip(forecasts, times, strict=True):
        errors = []
        for _ in range(2):
            more = rng.permutation(others)
            train = np.concatenate([inside, more[: (k - 1) * size]])
            test = more[(k - 1) * size :][:MOST_TESTED]
            model = fitted(X[train], y[train])
            score = model.score(X[test], y[test])
            if y.dtype.kind == "f":  # of the variance of all targets, not of those in the test
                score = 1 - (1 - score) * y[test].var() / y.var()
            errors.append(1 - score)
        rows.append(
            {"times": k, "today": forecasts.error}
            | {"forecast": row.error, "lower": row.lower, "upper": row.upper}
            | {"measured": float(np.mean(errors))}
        )
    return rows


def line(name: str, rows: pd.DataFrame) -> list[str]:
    """Return a row of the table: means at each number of times the signals."""
    cells = [name]
    for k in TIMES:
        of_times = rows[rows["times"] == k]
        if of_times.empty:
            cells += ["–"] * 5
            continue
        covered = of_times["measured"].between(of_times["lower"], of_times["upper"])
        means = of_times[["today", "forecast", "measured"]].mean()
        cells += [f"{len(of_times)}", *harness.decimals(means), f"{covered.mean():.0%}"]
    return cells


def report(rows: pd.DataFrame) -> str:
    """Return the page: how many intervals cover what was measured, and how wide they are."""
    header = ["set"]
    for k in TIMES:
        header += [f"draws, {k} ×", "left out today", "forecast", "measured", "inside"]
    of_classes = rows["set"].isin(SETS)
    classes = rows[of_classes]
    lines = [line(name, of_set) for name, of_set in classes.groupby("set", sort=False)]
    lines.append(line("**all eight**", classes))
    lines += [line(f"{n} signals", classes[classes["size"] == n]) for n in SIZES]
    if not of_classes.all():
        lines.append(line("Tecator, 1 − R²", rows[~of_classes]))
    wrong = classes[classes["lower"] > 0]
    ratios = (wrong["upper"] / wrong["lower"]).groupby(wrong["times"]).median()
    widths = [f"{ratios[k]:.1f} at {k} times the signals" for k in TIMES]
    return harness.page(
        "# Forecasts and measured errors",
        harness.table(header, lines),
        f"Means over draws of {', '.join(map(str, SIZES))} signals: share of wrong answers, and "
        "how often the 80 % interval covers the measured error. Upper over lower ends of "
        f"intervals, in the median where a signal was wrong: {' and '.join(widths)}. Measured "
        f"errors are means of two fits at up to {MOST_TESTED} other signals, and have errors "
        "themselves.",
    )


def measure(asked: Namespace, path: Path) -> None:
    sets, few = (*SETS, "Tecator")[: 2 if asked.quick else None], 1 if asked.quick else None
    keys = harness.grid(set=sets, size=SIZES[:few], draw=range(DRAWS)[:few])
    harness.gather(path, keys, compare)


if __name__ == "__main__":
    harness.script(__doc__, "forecast.csv", measure, report)
