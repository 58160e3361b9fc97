"""The sets and the classifiers of several benchmarks."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import call_by_name

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
JOBS = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))


def on_all_points(model: Any, standardize: bool = True) -> Any:
    """Return a model of all time points, or pixels, standardized each by itself or unchanged."""
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

        self.model = on_all_points(SVC(C=10.0), self.standardize)
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
ROCKET = "aeon.classification.convolution_based.{}Classifier"


def rocket(name: str, seed: int) -> Any:
    return call_by_name(ROCKET.format(name), random_state=seed, n_jobs=JOBS)


# Of a seed, which those use that draw random numbers. Methods fit (X, y) and predict Z.
METHODS: dict[str, Callable[[int], Any]] = {
    OURS: lambda seed: call_by_name(OUR_CLASSIFIER),
    FAST: lambda seed: call_by_name(OUR_CLASSIFIER, views="fast"),
    "ridge, flat": lambda seed: on_all_points(
        call_by_name("sklearn.linear_model.RidgeClassifierCV", alphas=np.logspace(-3, 3, 10))
    ),
    "SVM-RBF, flat": lambda seed: RadialSVM(),
    "MiniRocket": partial(rocket, "MiniRocket"),
    "MultiRocketHydra": partial(rocket, "MultiRocketHydra"),
}


def signals(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from rescntk import datasets

    return (*datasets.load_labelled(name), *datasets.load_labelled(name, "test"))


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
    left = np.setdiff1d(order, train)
    return np.array(train), rng.permutation(left)[:200]


def pooled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test signals together, and their labels or targets."""
    X, y, Z, truth = signals(name)
    return np.concatenate([X, Z]), np.concatenate([y, truth])
