"""R² of our regressor, with its defaults, beside other regressors.

    python benchmarks/regression.py [--quick]

One setting for all sets. They have official splits, and five random splits in the same proportion,
because test sets of 33 to 61 signals give large standard errors.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import on_flat, pooled, signals
from harness import Row, make

SETS = ("Covid3Month", "CardanoSentiment", "Tecator")
DRAWS = 5

OURS, INSIDE = ("rescntk", "rescntk, fast"), {"inside 68 %": 0.68, "inside 95 %": 0.95}
"""Methods with intervals, and the shares of new targets that are to be inside."""


def splits(n: int, n_train: int, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return indices of training and test signals: the official split, then random ones."""
    orders = [np.arange(n)] + [np.random.default_rng(k).permutation(n) for k in range(draws)]
    return [(order[:n_train], order[n_train:]) for order in orders]


def radial_process() -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    signal = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(10.0, (1e-1, 1e4))
    kernel = signal + WhiteKernel(0.1, (1e-8, 1e2))
    options = {"normalize_y": True, "n_restarts_optimizer": 2, "random_state": 0}
    return on_flat(GaussianProcessRegressor(kernel, **options))


# They fit (X, y) and predict Z.
METHODS: dict[str, Callable[[], Any]] = {
    OURS[0]: lambda: make("rescntk.learn.ResidualKernelRegressor"),
    OURS[1]: lambda: make("rescntk.learn.ResidualKernelRegressor", views="fast"),
    "mean of the targets": lambda: make("sklearn.dummy.DummyRegressor"),
    "ridge, flat": lambda: on_flat(
        make("sklearn.linear_model.RidgeCV", alphas=np.logspace(-4, 4, 17))
    ),
    "GP-RBF, flat": radial_process,
    "MiniRocket": lambda: make(
        "aeon.regression.convolution_based.MiniRocketRegressor", random_state=0
    ),
}


def measure(method: str, name: str) -> list[Row]:
    """Return R², seconds and shares inside of each split; split 0 is the official one."""
    from sklearn.metrics import r2_score

    (X, y), rows = pooled(name), []
    of_splits = splits(len(y), len(signals(name)[1]), DRAWS)
    for number, (train, test) in enumerate(of_splits):
        given = X[train], y[train], X[test]
        model, predicted, seconds = harness.fit_and_predict(METHODS[method], *given)
        row = {"split": number, "r2": float(r2_score(y[test], predicted)), "seconds": seconds}
        rows.append(row | dict.fromkeys(INSIDE))
        for title, share in INSIDE.items() if method in OURS else ():
            mean, deviation = model.predict(X[test], return_std=True)
            far = np.abs(y[test] - mean) / deviation
            rows[-1][title] = float(np.mean(far <= make("scipy.stats.norm.ppf", (1 + share) / 2)))
    return rows


def report(rows: pd.DataFrame) -> str:
    def of(part: pd.DataFrame) -> Any:
        return part.groupby(["set", "method"])["r2"]

    official, random = rows[rows["split"] == 0], rows[rows["split"] > 0]
    firsts, means = (of(part).mean().unstack()[[*METHODS]] for part in (official, random))
    texts = harness.with_errors(of(random)).unstack()[[*METHODS]]
    sets = [name for name in SETS if name in firsts.index]
    inside = rows.groupby(["set", "method"])[[*INSIDE]].mean().stack()
    cells = [(f"{s}, official", *harness.bold(firsts.loc[s])) for s in sets]
    cells += [(f"{s}, random splits", *harness.bold(means.loc[s], texts.loc[s])) for s in sets]
    shares = [
        (s, *(f"{100 * inside[s, m, title]:.0f} %" for m in OURS for title in INSIDE)) for s in sets
    ]
    return harness.page(
        "# Regression",
        harness.table(("R²", *METHODS), cells),
        f"Random splits: means over {DRAWS} splits, ± standard errors.",
        harness.table(("intervals", *(f"{m}: {x}" for m in OURS for x in INSIDE)), shares),
        "Inside: share of the test targets in intervals for this coverage, mean of all splits.",
    )


def measure_all(asked: Namespace, path: Path) -> None:
    sets = SETS[: 1 if asked.quick else None]
    keys = [{"method": method, "set": name} for name in sets for method in METHODS]
    harness.gather(path, keys, partial(harness.apart, measure))


if __name__ == "__main__":
    harness.script(__doc__, "regression.csv", measure_all, report)
