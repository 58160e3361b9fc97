"""R² of our regressor, with its defaults, beside other regressors, and 23 methods' published RMSE.

    python benchmarks/regression.py [--quick]

One setting for all sets. They have official splits, and 29 random splits of the same sizes, because
test sets of 33 to 61 signals give large standard errors. The splits are aeon's, and so tsml-eval's.
It published root mean squared errors for two of the sets (time-series-machine-learning, August
2026). regression_peers.csv has them, of official splits, and medians of all 30.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import on_all_points, pooled, signals
from harness import Row, call_by_name

SETS = ("Covid3Month", "CardanoSentiment", "Tecator")
DRAWS = 29

SHOWN = ("FreshPRINCE", "DrCIF", "RIST", "RDST", "ROCKET", "TSF", "RandF", "InceptionT", "5NN-DTW")
"""Peers with a column."""

OURS, INSIDE = ("rescntk", "rescntk, fast"), {"inside 68 %": 0.68, "inside 95 %": 0.95}
"""Methods with intervals, and the shares of new targets that are to be inside."""


def splits(n: int, n_train: int, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return indices of training and test signals: the official split, then random ones."""
    path = "aeon.benchmarking.resampling.resample_data_indices"
    parts = np.split(np.arange(n), [n_train])
    return [tuple(parts)] + [call_by_name(path, *parts, random_state=k + 1) for k in range(draws)]


def peers() -> pd.DataFrame:
    """Return the published RMSE of each method, by "official" or "median of 30", and set."""
    return pd.read_csv(Path(__file__).with_name("regression_peers.csv"), index_col=[0, 1])


def radial_process() -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    signal = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(10.0, (1e-1, 1e4))
    kernel = signal + WhiteKernel(0.1, (1e-8, 1e2))
    options = {"normalize_y": True, "n_restarts_optimizer": 2, "random_state": 0}
    return on_all_points(GaussianProcessRegressor(kernel, **options))


# They fit (X, y) and predict Z.
METHODS: dict[str, Callable[[], Any]] = {
    OURS[0]: lambda: call_by_name("rescntk.learn.ResidualKernelRegressor"),
    OURS[1]: lambda: call_by_name("rescntk.learn.ResidualKernelRegressor", views="fast"),
    "mean of the targets": lambda: call_by_name("sklearn.dummy.DummyRegressor"),
    "ridge, flat": lambda: on_all_points(
        call_by_name("sklearn.linear_model.RidgeCV", alphas=np.logspace(-4, 4, 17))
    ),
    "GP-RBF, flat": radial_process,
    "MiniRocket": lambda: call_by_name(
        "aeon.regression.convolution_based.MiniRocketRegressor", random_state=0
    ),
}


def measure(method: str, name: str) -> list[Row]:
    """Return R², seconds and shares inside of each split; split 0 is the official one."""
    from sklearn.metrics import r2_score, root_mean_squared_error

    (X, y), rows = pooled(name), []
    of_splits = splits(len(y), len(signals(name)[1]), DRAWS)
    for number, (train, test) in enumerate(of_splits):
        given = X[train], y[train], X[test]
        model, predicted, seconds = harness.fit_and_predict(METHODS[method], *given)
        row = {"split": number, "r2": float(r2_score(y[test], predicted))}
        row |= {"rmse": float(root_mean_squared_error(y[test], predicted)), "seconds": seconds}
        rows.append(row | dict.fromkeys(INSIDE))
        for title, share in INSIDE.items() if method in OURS else ():
            low, high = model.predict_interval(X[test], share)
            rows[-1][title] = float(np.mean((low <= y[test]) & (y[test] <= high)))
    return rows


def quartiles(values: pd.Series) -> str:
    """Return a text with the median, and the first and third quartile."""
    low, middle, high = values.quantile([0.25, 0.5, 0.75])
    return f"{middle:.3f} ({low:.2f} to {high:.2f})"


def report(rows: pd.DataFrame) -> str:
    def of(part: pd.DataFrame) -> Any:
        return part.groupby(["set", "method"])["r2"]

    official, random = rows[rows["split"] == 0], rows[rows["split"] > 0]
    firsts, medians = (of(part).median().unstack()[[*METHODS]] for part in (official, random))
    texts = of(random).agg(quartiles).unstack()[[*METHODS]]
    sets = [name for name in SETS if name in firsts.index]
    inside = rows.groupby(["set", "method"])[[*INSIDE]].mean().stack()
    cells = [(f"{s}, official", *harness.bold(firsts.loc[s])) for s in sets]
    cells += [(f"{s}, random splits", *harness.bold(medians.loc[s], texts.loc[s])) for s in sets]
    shares = [
        (s, *(f"{100 * inside[s, m, title]:.0f} %" for m in OURS for title in INSIDE)) for s in sets
    ]
    return harness.page(
        "# Regression",
        harness.table(("R²", *METHODS), cells),
        f"Random splits: medians over {DRAWS} splits, and quartiles. Means would be those of a few "
        "splits: Covid3Month has signals up to 700 times as large as the median one.",
        harness.table(("intervals", *(f"{m}: {x}" for m in OURS for x in INSIDE)), shares),
        "Inside: share of the test targets in intervals for this coverage, mean of all splits.",
        *beside_peers(rows),
    )


def beside_peers(rows: pd.DataFrame) -> list[Any]:
    """Return the section of root mean squared errors, ours beside published ones."""
    lines, none = [], "mean of the targets"
    for (splits, name), published in peers().iterrows():
        of_set = rows[(rows["set"] == name) & ((rows["split"] == 0) | (splits != "official"))]
        if of_set.empty:
            continue
        ours = of_set.groupby("method")["rmse"].median()
        errors = published.dropna()
        ranks = [1 + int((errors < ours[method]).sum()) for method in OURS]
        values = harness.decimals([*ours[[*OURS, none]], *published[[*SHOWN]]], 4)
        best = f"{errors.idxmin()} {errors.min():.4f}"
        few = [text if text != "nan" else "–" for text in values]
        lines.append((f"{name}, {splits}", *few, best, *ranks, len(errors) + 1))
    header = "RMSE", *OURS, none, *SHOWN, "best of the peers", "our rank", "our rank, fast", "of"
    return [
        "## Beside published errors",
        harness.table(header, lines, (0, len(header) - 4)),
        "Root mean squared errors in the units of the targets, of official splits, and medians of "
        "30 splits, the official one included. Those of peers are as published by tsml-eval, of "
        "the same signals in the same splits; RIST and RDST have five splits. A rank is one more "
        "than the number of peers with a lesser error. Splits share signals, and two sets are few: "
        "no difference is tested. On CardanoSentiment no method is much better than the mean of "
        "the targets.",
    ]


def measure_all(asked: Namespace, path: Path) -> None:
    sets = SETS[: 1 if asked.quick else None]
    keys = [{"method": method, "set": name} for name in sets for method in METHODS]
    harness.measure_missing(path, keys, partial(harness.in_own_process, measure))


if __name__ == "__main__":
    harness.script(__doc__, "regression.csv", measure_all, report)
