"""R² of our regressor, with its defaults, beside other regressors.

    python benchmarks/regression.py [--quick]

One setting for all sets. They have official splits, and five random splits in the same proportion,
because test sets of 33 to 61 signals give large standard errors.
"""

import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from classification import gather
from classification_methods import on_flat, signals
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
    OURS[1]: lambda: make("rescntk.learn.ResidualKernelRegressor", effort="fast"),
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

    X, y, Z, targets = signals(name)
    of_splits, rows = splits(len(y) + len(targets), len(y), DRAWS), []
    X, y = np.concatenate([X, Z]), np.concatenate([y, targets])
    for number, (train, test) in enumerate(of_splits):
        start = time.process_time()
        model = METHODS[method]().fit(X[train], y[train])
        predicted = model.predict(X[test])
        seconds = time.process_time() - start
        row = {"split": number, "r2": float(r2_score(y[test], predicted)), "seconds": seconds}
        rows.append(row | dict.fromkeys(INSIDE))
        for title, share in INSIDE.items() if method in OURS else ():
            low, high = model.predict_interval(X[test], share)
            rows[-1][title] = float(np.mean((low <= y[test]) & (y[test] <= high)))
    return rows


def report(rows: list[Row]) -> str:
    official, random, inside = [], [], []
    for s in SETS:
        found = {m: [r for r in rows if (r["method"], r["set"]) == (m, s)] for m in METHODS}
        r2 = [[row["r2"] for row in own] for own in found.values()]
        first = [values[0] for values in r2]
        official.append((f"{s}, official", *harness.bold(first, [f"{x:.3f}" for x in first])))
        means, errors = zip(*(harness.mean_and_error(values[1:]) for values in r2), strict=True)
        texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)]
        random.append((f"{s}, random splits", *harness.bold(means, texts)))
        shares = [np.mean([row[x] for row in found[m]]) for m in OURS for x in INSIDE]
        inside.append((s, *(f"{100 * share:.0f} %" for share in shares)))
    return harness.page(
        "# Regression",
        harness.table(("R²", *METHODS), official + random),
        f"Random splits: means over {DRAWS} splits, ± standard errors.",
        harness.table(("intervals", *(f"{m}: {x}" for m in OURS for x in INSIDE)), inside),
        "Inside: share of the test targets in intervals for this coverage, mean of all splits.",
    )


def main() -> None:
    options = harness.options(__doc__)
    path = options.out / "regression.csv"
    rows = gather(path, measure, list(METHODS), SETS[: 1 if options.quick else None])
    harness.publish(path, report(rows))


if __name__ == "__main__":
    main()
