"""R² of our regressor, with its defaults, beside other regressors.

    python benchmarks/regression.py [--methods "rescntk;…"] [--draws N] [--quick]

Three sets that libraries bring along: Covid3Month and CardanoSentiment (aeon), Tecator (sktime),
whose official splits are measured; and N random splits of all signals in the same proportion, the
same for all methods, because test sets of 33 to 61 signals say little. One setting for all sets.

results/regression.csv has R² of each split, the official one first, and the seconds of the
processor; results/regression.md is a table for the README. Results of other methods are kept.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import on_flat
from harness import Row

SETS = {"Covid3Month": "aeon", "CardanoSentiment": "aeon", "Tecator": "sktime"}
DRAWS = 5
OURS, RIDGE = "rescntk", "ridge, flat"


def signals(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the signals of a set, training signals first, their targets, and their number."""
    from rescntk.datasets import read_labelled

    library = find_spec(SETS[name])
    if library is None or library.origin is None:
        raise SystemExit(f"{name} comes with {SETS[name]}, which is not installed")
    folder = Path(library.origin).parent / "datasets" / "data" / name
    parts = [read_labelled(folder / f"{name}_{split}.ts") for split in ("TRAIN", "TEST")]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, y.astype(float), len(parts[0][1])


def splits(n: int, n_train: int, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return indices of training and test signals: the official split, then random ones."""
    orders = [np.arange(n)] + [np.random.default_rng(k).permutation(n) for k in range(draws)]
    return [(order[:n_train], order[n_train:]) for order in orders]


# -- the methods: fit on (X, y), predict Z


def mean() -> Any:
    from sklearn.dummy import DummyRegressor

    return DummyRegressor()


def ridge() -> Any:
    from sklearn.linear_model import RidgeCV

    return on_flat(RidgeCV(np.logspace(-4, 4, 17)))


def radial_process() -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    signal = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(10.0, (1e-1, 1e4))
    kernel = signal + WhiteKernel(0.1, (1e-8, 1e2))
    options = {"normalize_y": True, "n_restarts_optimizer": 2, "random_state": 0}
    return on_flat(GaussianProcessRegressor(kernel, **options))


def mini_rocket() -> Any:
    from aeon.regression.convolution_based import MiniRocketRegressor

    return MiniRocketRegressor(random_state=0)


def ours(effort: str) -> Any:
    from rescntk.learn import ResidualKernelRegressor

    return ResidualKernelRegressor(effort=effort)


METHODS: dict[str, Callable[[], Any]] = {
    "mean of the targets": mean,
    RIDGE: ridge,
    "GP-RBF, flat": radial_process,
    "MiniRocket": mini_rocket,
    f"{OURS}, fast": partial(ours, "fast"),
    OURS: partial(ours, "default"),
}


def measure(method: str, name: str, draws: int) -> list[Row]:
    """Return R² and processor seconds of each split; split 0 is the official one."""
    from sklearn.metrics import r2_score

    X, y, n_train = signals(name)
    rows = []
    for number, (train, test) in enumerate(splits(len(y), n_train, draws)):
        start = time.process_time()
        predicted = METHODS[method]().fit(X[train], y[train]).predict(X[test])
        seconds = time.process_time() - start
        rows.append({"method": method, "set": name, "split": number,
                     "r2": float(r2_score(y[test], predicted)), "seconds": seconds})  # fmt: skip
    return rows


# -- the table


def report(rows: list[Row]) -> str:
    """Return R² of the official splits, mean R² of random splits, and verdicts, as Markdown."""
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    names = [s for s in SETS if any(row["set"] == s for row in rows)]
    found = {
        (m, s): np.array([row["r2"] for row in rows if (row["method"], row["set"]) == (m, s)])
        for m in methods
        for s in names
    }
    cells = []
    for s in names:
        official = [float(found[m, s][0]) for m in methods]
        texts = [f"{value:.3f}" for value in official]
        cells.append((f"{s}, official", *harness.bold(official, texts)))
    for s in names:
        means = [float(found[m, s][1:].mean()) for m in methods]
        errors = [_error(found[m, s][1:]) for m in methods]
        texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)]
        cells.append((f"{s}, random splits", *harness.bold(means, texts)))
    draws = min(len(values) for values in found.values()) - 1
    lines = ["# Regression", "", *harness.table(("R²", *methods), cells)]
    lines += ["", f"Random splits: means over {draws} splits, ± standard errors."]
    if OURS in methods and RIDGE in methods:
        lines.append("")
        for s in names:
            ahead = found[OURS, s] - found[RIDGE, s]
            lines.append(
                f"* {s}: {OURS} less ridge {ahead[0]:+.3f} on the official split, "
                f"{ahead[1:].mean():+.3f} ± {_error(ahead[1:]):.3f} on random splits."
            )
    return "\n".join(lines) + "\n"


def _error(values: np.ndarray) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def main(arguments: list[str] | None = None) -> str:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", help="some of the methods, by name, with semicolons")
    parser.add_argument("--draws", type=int, default=DRAWS, help="random splits of each set")
    parser.add_argument("--quick", action="store_true", help="two splits, no files written")
    options = parser.parse_args(arguments)
    methods = options.methods.split(";") if options.methods else list(METHODS)
    if not set(methods) <= set(METHODS):
        parser.error(f"methods are {'; '.join(METHODS)}")
    warnings.filterwarnings("ignore")
    path = harness.RESULTS / "regression.csv"
    rows = [] if options.quick else harness.read(path)
    rows = [row for row in rows if row["method"] not in methods]
    for method in methods:
        for name in SETS:
            new = measure(method, name, 2 if options.quick else options.draws)
            harness.say(f"{name}, {method}: R² {new[0]['r2']:.3f}")
            rows += new
        if not options.quick:
            rows.sort(key=lambda row: ([*SETS].index(row["set"]), [*METHODS].index(row["method"])))
            harness.write(path, rows)
            path.with_suffix(".md").write_text(report(rows), encoding="utf-8")
    print(report(rows))
    return report(rows)


if __name__ == "__main__":
    main()
