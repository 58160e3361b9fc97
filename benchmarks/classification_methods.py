"""The sets and the methods of the classification benchmark."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

SETS = (
    "GunPoint",
    "ItalyPowerDemand",
    "ArrowHead",
    "BasicMotions",
    "JapaneseVowels",
    "PickupGestureWiimoteZ",
    "OSULeaf",
    "ACSF1",
)
QUICK_SETS = ("GunPoint", "ItalyPowerDemand", "BasicMotions")
CURVE_SETS = ("GunPoint", "BasicMotions", "JapaneseVowels", "PickupGestureWiimoteZ")
CURVE_SIZES = (5, 10, 20, 50)
CURVE_DRAWS = 10
CURVE_TEST = 200  # most test signals of a draw

JOBS = int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))


# -- the methods: fit on (X, y), predict Z; a seed for those that draw random numbers


def on_flat(model: Any) -> Any:
    """Return a model of standardized time points, whatever their channel."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    return make_pipeline(FunctionTransformer(_flat), StandardScaler(), model)


def _flat(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


def ridge(seed: int) -> Any:
    from sklearn.linear_model import RidgeClassifierCV

    return on_flat(RidgeClassifierCV(np.logspace(-3, 3, 10)))


class RadialSVM:
    """Support vector machine; C and γ by cross-validation in 5 folds, fewer for small classes."""

    def __init__(self, seed: int) -> None:
        pass

    def fit(self, X: np.ndarray, y: np.ndarray) -> RadialSVM:
        from sklearn.model_selection import GridSearchCV, StratifiedKFold
        from sklearn.svm import SVC

        self.model = on_flat(SVC(C=10.0))
        folds = min(5, np.unique(y, return_counts=True)[1].min())
        if folds > 1:
            gamma = np.logspace(-2, 2, 5) / X[0].size
            grid = {"svc__C": np.logspace(-1, 3, 5), "svc__gamma": gamma}
            splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
            self.model = GridSearchCV(self.model, grid, cv=splitter, n_jobs=JOBS)
        self.model.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


def neighbour(distance: str, seed: int) -> Any:
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    return KNeighborsTimeSeriesClassifier(distance=distance, n_jobs=JOBS)


def rocket(name: str, seed: int) -> Any:
    from aeon.classification import convolution_based

    return getattr(convolution_based, name)(random_state=seed, n_jobs=JOBS)


def ours(effort: str, seed: int) -> Any:
    from rescntk.learn import ResidualKernelClassifier

    return ResidualKernelClassifier(effort=effort)


OURS, FAST = "rescntk", "rescntk, fast"
METHODS: dict[str, Callable[[int], Any]] = {
    "ridge, flat": ridge,
    "SVM-RBF, flat": RadialSVM,
    "1-NN DTW": partial(neighbour, "dtw"),
    "1-NN MSM": partial(neighbour, "msm"),
    "MiniRocket": partial(rocket, "MiniRocketClassifier"),
    "MultiRocketHydra": partial(rocket, "MultiRocketHydraClassifier"),
    FAST: partial(ours, "fast"),
    OURS: partial(ours, "default"),
}
ROCKETS = ("MiniRocket", "MultiRocketHydra")
SEEDS = dict.fromkeys(ROCKETS, (0, 1, 2))  # of the methods that draw random numbers


def missing(method: str) -> str | None:
    """Return why a method cannot run here, or None."""
    if method == "MultiRocketHydra" and importlib.util.find_spec("torch") is None:
        return "needs torch: pip install 'rescntk[benchmark]'"
    return None


def signals(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training signals and labels, test signals and labels."""
    from rescntk import datasets

    return (*datasets.load_labelled(name), *datasets.load_labelled(name, "test"))


def draw_signals(y: np.ndarray, size: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of `size` training signals and of test signals, the same for all methods.

    Classes take turns, in random order, so that every class is drawn if `size` allows.
    """
    rng = np.random.default_rng([size, draw])
    order = rng.permutation(len(y))
    classes = rng.permutation(np.unique(y))
    queues = [list(order[y[order] == label]) for label in classes]
    train: list[int] = []
    while len(train) < size:
        for queue in queues:
            if queue and len(train) < size:
                train.append(queue.pop(0))
    rest = np.setdiff1d(order, train)
    return np.array(train), rng.permutation(rest)[:CURVE_TEST]


def ceilings(name: str) -> dict[int, float]:
    """Return, for each size, the share of test signals whose class was drawn for training.

    No method can be more accurate: from five signals it knows at most five of nine speakers.
    """
    _, y, _, truth = signals(name)
    y = np.concatenate([y, truth])
    shares = {}
    for size in CURVE_SIZES:
        drawn = [draw_signals(y, size, draw) for draw in range(CURVE_DRAWS)]
        shares[size] = float(np.mean([np.isin(y[test], y[train]).mean() for train, test in drawn]))
    return shares
