"""Images: learning curves of kernels and of other methods on scikit-learn's digits.

    python benchmarks/images.py [--quick]

The notebook images.ipynb draws them.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import RadialSVM, draw_signals, on_all_points
from harness import Row, call_by_name
from scale import ridge

import rescntk as rk
from rescntk.checks.values import KINDS

DRAWS = {10: 20, 30: 20, 100: 10, 300: 5, 1000: 2}
"""Training images, and how many times they are drawn."""

TEST = 500
"""The last images test. The first 898 chose NETWORK."""

NETWORK = rk.Network(5, 3)
"""Of the depths 1, 2, 3 and 5, the one with the largest mean accuracy of all kernels."""


# -- learning curves on scikit-learn's digits

# Of a draw, which those use that draw random numbers. They fit (X, y) and predict Z.
METHODS: dict[str, Callable[[int], Any]] = {
    "SVM-RBF": lambda draw: RadialSVM(standardize=False),
    "nearest neighbour": lambda draw: on_all_points(
        call_by_name("sklearn.neighbors.KNeighborsClassifier", n_neighbors=1), standardize=False
    ),
    "random forest": lambda draw: on_all_points(
        call_by_name("sklearn.ensemble.RandomForestClassifier", n_estimators=500, random_state=draw)
    ),
}


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images, (1797, 1, 8, 8), and their digits. Their mean square is 1."""
    digits = call_by_name("sklearn.datasets.load_digits")
    return digits.images[:, None] / np.sqrt(np.mean(digits.images**2)), digits.target


def predict_by_kernel(K: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return the digits that ridge regression predicts for the test images."""
    coefficients, intercepts = ridge(rk.regression.decompose(K[np.ix_(train, train)]), y[train])
    return (K[-TEST:, train] @ coefficients + intercepts).argmax(axis=1)


def curves(quick: bool) -> Iterator[Row]:
    """Yield the accuracies of all methods on the test images, draw by draw."""
    X, y = (part[-600:] if quick else part for part in digits())
    matrices: dict[str, np.ndarray] = {}
    for head, skip in product(("trace", "gap"), (False, True)):
        grams = rk.gram(NETWORK.replace(skip=skip), X, head=head, normalized=True)
        names = (f"{'Res' * skip}C{kind.upper()}, {head}" for kind in KINDS)
        matrices |= dict(zip(names, grams, strict=True))
    for size, draw in [(size, k) for size, draws in DRAWS.items() for k in range(draws)]:
        if quick and size > 10:
            break
        train, _ = draw_signals(y[:-TEST], size, draw)
        answers = {name: predict_by_kernel(K, y, train) for name, K in matrices.items()}
        for name, model in METHODS.items():
            answers[name] = model(draw).fit(X[train], y[train]).predict(X[-TEST:])
        for name, predicted in answers.items():
            share = float(np.mean(predicted == y[-TEST:]))
            yield {"method": name, "size": size, "draw": draw, "accuracy": share}


# -- the report


def text(report: dict[str, Any]) -> str:
    rows = pd.DataFrame(report["curves"])
    groups = rows.groupby(["method", "size"], sort=False)["accuracy"]
    curves = harness.with_errors(groups).unstack().loc[rows["method"].unique()]
    return harness.page(
        "# Images",
        f"Accuracies on the last {TEST} of scikit-learn's digits (8 × 8), by the number of images "
        f"that train, drawn from all others; means of {', '.join(map(str, DRAWS.values()))} draws "
        f"± standard errors. Kernels: normalized, depth {NETWORK.depth}, filters of "
        f"{NETWORK.filter_size}, ridge regression. SVM: C and γ by cross-validation.",
        harness.table(("method", *curves), curves.itertuples()),
    )


if __name__ == "__main__":
    measure, option = harness.measure_parts((curves,))
    harness.script(__doc__, "images.json", measure, text, **option)
