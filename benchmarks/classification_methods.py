"""The sets and the methods of the classification benchmark."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Row, make

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
CURVE_SETS = ("GunPoint", "BasicMotions", "JapaneseVowels", "PickupGestureWiimoteZ")
CURVE_SIZES = (5, 10, 20, 50)
CURVE_DRAWS = 10
CURVE_TEST = 200  # most test signals of a draw

JOBS = int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))


def on_flat(model: Any, standardize: bool = True) -> Any:
    """Return a model of all time points, or pixels, standardized each by itself or left alone."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    flat = FunctionTransformer(lambda X: X.reshape(len(X), -1))
    return make_pipeline(flat, StandardScaler() if standardize else None, model)


class RadialSVM:
    """Support vector machine; C and γ by cross-validation in 5 folds, fewer for small classes."""

    def __init__(self, standardize: bool = True) -> None:
        self.standardize = standardize

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        from sklearn.model_selection import GridSearchCV, StratifiedKFold
        from sklearn.svm import SVC

        self.model = on_flat(SVC(C=10.0), self.standardize)
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


OURS, FAST = "rescntk", "rescntk, fast"
OUR_CLASSIFIER = "rescntk.learn.ResidualKernelClassifier"
NEIGHBOUR = "aeon.classification.distance_based.KNeighborsTimeSeriesClassifier"
ROCKET = "aeon.classification.convolution_based.{}Classifier"
ROCKETS = ("MiniRocket", "MultiRocketHydra")

# Of a seed, which those use that draw random numbers. Methods fit (X, y) and predict Z.
METHODS: dict[str, Callable[[int], Any]] = {
    "ridge, flat": lambda seed: on_flat(
        make("sklearn.linear_model.RidgeClassifierCV", alphas=np.logspace(-3, 3, 10))
    ),
    "SVM-RBF, flat": lambda seed: RadialSVM(),
    "1-NN DTW": lambda seed: make(NEIGHBOUR, distance="dtw", n_jobs=JOBS),
    "1-NN MSM": lambda seed: make(NEIGHBOUR, distance="msm", n_jobs=JOBS),
    **{
        name: lambda seed, name=name: make(ROCKET.format(name), random_state=seed, n_jobs=JOBS)
        for name in ROCKETS
    },
    FAST: lambda seed: make(OUR_CLASSIFIER, effort="fast"),
    OURS: lambda seed: make(OUR_CLASSIFIER),
}
SEEDS = dict.fromkeys(ROCKETS, (0, 1, 2))


def signals(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from rescntk import datasets

    return (*datasets.load_labelled(name), *datasets.load_labelled(name, "test"))


def load(path: str) -> tuple[np.ndarray, ...]:
    with np.load(path) as file:
        return tuple(file.values())


# -- learning curves


def draw_signals(y: np.ndarray, size: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of training signals and of test signals; classes take turns in training."""
    rng = np.random.default_rng([size, draw])
    order = rng.permutation(len(y))
    queues = [list(order[y[order] == label]) for label in rng.permutation(np.unique(y))]
    train: list[int] = []
    while len(train) < size:
        for queue in queues:
            if queue and len(train) < size:
                train.append(queue.pop(0))
    rest = np.setdiff1d(order, train)
    return np.array(train), rng.permutation(rest)[:CURVE_TEST]


def ceilings(name: str) -> dict[int, float]:
    """Return the share of test signals whose class was drawn, by size: nobody can be better."""
    _, y, _, truth = signals(name)
    y = np.concatenate([y, truth])
    shares = {}
    for size in CURVE_SIZES:
        drawn = [draw_signals(y, size, draw) for draw in range(CURVE_DRAWS)]
        shares[size] = float(np.mean([np.isin(y[test], y[train]).mean() for train, test in drawn]))
    return shares


def curve(method: str, path: str) -> list[Row]:
    X, y, Z, truth = load(path)
    X, y = np.concatenate([X, Z]), np.concatenate([y, truth])
    rows = []
    for size in CURVE_SIZES:
        for number in range(CURVE_DRAWS):
            train, test = draw_signals(y, size, number)
            predicted = METHODS[method](number).fit(X[train], y[train]).predict(X[test])
            share = float(np.mean(predicted == y[test]))
            rows.append({"size": size, "draw": number, "accuracy": share})
    return rows
