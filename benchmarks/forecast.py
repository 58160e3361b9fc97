"""Coverage of the intervals of `model.forecast`: their share with the measured error inside.

    python benchmarks/forecast.py [--quick]

A classifier ("fast") is fitted to some signals of a set, with two or more of each class. It
forecasts its error at two and four times the signals. Classifiers are fitted to these signals and
others, drawn twice; their mean error at the signals left is the measured error. Tecator has a
regressor. Rows that the file has are kept.
"""

import warnings
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import SETS, signals
from harness import Row, page, read, table, write

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
    parts = signals(name)
    X, y = np.concatenate([parts[0], parts[2]]), np.concatenate([parts[1], parts[3]])
    rng = np.random.default_rng([size, number])
    order = draw(y, size, rng)
    if order is None:
        return []
    inside, others = order[:size], order[size:]
    times = [k for k in TIMES if len(y) - k * size >= LEAST_TESTED]
    if not times:
        return []
    found = fitted(X[inside], y[inside]).forecast([k * size for k in times])
    rows = []
    for row, k in zip(found, times, strict=True):
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
            {"set": name, "size": size, "draw": number, "times": k, "today": found.error}
            | {"forecast": row.error, "lower": row.lower, "upper": row.upper}
            | {"measured": float(np.mean(errors))}
        )
    return rows


def report(rows: list[Row]) -> str:
    """Return the page: how many intervals cover what was measured, and how wide they are."""

    def line(name: str, own: list[Row]) -> list[str]:
        cells = [name]
        for k in TIMES:
            some = [row for row in own if row["times"] == k]
            if not some:
                cells += ["–"] * 5
                continue
            today, guess, low, high, true = (
                np.array([row[column] for row in some], dtype=float)
                for column in ("today", "forecast", "lower", "upper", "measured")
            )
            inside = (low <= true) & (true <= high)
            cells += [f"{len(some)}", f"{today.mean():.3f}", f"{guess.mean():.3f}"]
            cells += [f"{true.mean():.3f}", f"{inside.mean():.0%}"]
        return cells

    header = ["set"]
    for k in TIMES:
        header += [f"draws, {k} ×", "left out today", "forecast", "measured", "inside"]
    classes = [row for row in rows if row["set"] in SETS]
    names = dict.fromkeys(row["set"] for row in classes)
    lines = [line(name, [row for row in rows if row["set"] == name]) for name in names]
    lines.append(line("**all eight**", classes))
    by_size = [line(f"{n} signals", [r for r in classes if r["size"] == n]) for n in SIZES]
    other = [row for row in rows if row["set"] not in SETS]
    lines += by_size + ([line("Tecator, 1 − R²", other)] if other else [])
    widths = []
    for k in TIMES:
        some = [row for row in classes if row["times"] == k and row["lower"] > 0]
        ratio = [row["upper"] / row["lower"] for row in some]
        widths.append(f"{np.median(ratio):.1f} at {k} times the signals")
    return page(
        "# Forecasts and measured errors",
        table(header, lines),
        f"Means over draws of {', '.join(map(str, SIZES))} signals: share of wrong answers, and "
        "how often the 80 % interval covers the measured error. Upper over lower ends of "
        f"intervals, in the median where a signal was wrong: {' and '.join(widths)}. Measured "
        f"errors are means of two fits at up to {MOST_TESTED} other signals, and have errors "
        "themselves.",
    )


def main() -> None:
    options = harness.options(__doc__)
    path: Path = options.out / "forecast.csv"
    rows = read(path)
    for name in (*SETS, "Tecator")[: 2 if options.quick else None]:
        for size in SIZES[: 1 if options.quick else None]:
            for number in range(1 if options.quick else DRAWS):
                key = {"set": name, "size": size, "draw": number}
                if not any(key.items() <= row.items() for row in rows):
                    rows += compare(name, size, number)
                    write(path, rows)
        harness.say(name)
    harness.publish(path, report(rows))


if __name__ == "__main__":
    main()
