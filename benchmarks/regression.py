"""R² of our regressor, with its defaults, beside other regressors.

    python benchmarks/regression.py [--quick]

One setting for all sets. They have official splits, and five random splits in the same proportion,
because test sets of 33 to 61 signals say little.
"""

import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from classification import gather
from classification_methods import on_flat
from harness import Row, make

SETS = ("Covid3Month", "CardanoSentiment", "Tecator")
DRAWS = 5


def signals(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the signals of a set, training signals first, their targets, and their number."""
    from rescntk.datasets import load_labelled

    parts = [load_labelled(name, split) for split in ("train", "test")]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, y, len(parts[0][1])


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
    "mean of the targets": lambda: make("sklearn.dummy.DummyRegressor"),
    "ridge, flat": lambda: on_flat(
        make("sklearn.linear_model.RidgeCV", alphas=np.logspace(-4, 4, 17))
    ),
    "GP-RBF, flat": radial_process,
    "MiniRocket": lambda: make(
        "aeon.regression.convolution_based.MiniRocketRegressor", random_state=0
    ),
    "rescntk, fast": lambda: make("rescntk.learn.ResidualKernelRegressor", effort="fast"),
    "rescntk": lambda: make("rescntk.learn.ResidualKernelRegressor"),
}


def measure(method: str, name: str) -> list[Row]:
    """Return R² and processor seconds of each split; split 0 is the official one."""
    from sklearn.metrics import r2_score

    X, y, n_train = signals(name)
    rows = []
    for number, (train, test) in enumerate(splits(len(y), n_train, DRAWS)):
        start = time.process_time()
        predicted = METHODS[method]().fit(X[train], y[train]).predict(X[test])
        seconds = time.process_time() - start
        r2 = float(r2_score(y[test], predicted))
        rows.append({"split": number, "r2": r2, "seconds": seconds})
    return rows


def report(rows: list[Row]) -> str:
    official, random = [], []
    for s in SETS:
        found = [
            [row["r2"] for row in rows if (row["method"], row["set"]) == (m, s)] for m in METHODS
        ]
        values = [of_splits[0] for of_splits in found]
        texts = [f"{value:.3f}" for value in values]
        official.append((f"{s}, official", *harness.bold(values, texts)))
        means, errors = zip(*(harness.mean_and_error(x[1:]) for x in found), strict=True)
        texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)]
        random.append((f"{s}, random splits", *harness.bold(means, texts)))
    return harness.page(
        "# Regression",
        harness.table(("R²", *METHODS), official + random),
        f"Random splits: means over {DRAWS} splits, ± standard errors.",
    )


def main() -> None:
    options = harness.options(__doc__)
    path = options.out / "regression.csv"
    rows = gather(path, measure, list(METHODS), SETS[: 1 if options.quick else None])
    harness.publish(path, report(rows))


if __name__ == "__main__":
    main()
