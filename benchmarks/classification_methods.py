"""The sets, the methods and the measurements of the classification benchmark."""

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from harness import Row, fit_and_predict, make

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


LONGEST = 500
"""Most points of a signal for the kernels below, means of blocks as in the passes of rescntk.
Raising it takes time with its square: half an hour for all 1460 points of ACSF1."""


class KernelRidge:
    """Ridge regression on a kernel; its scale and the penalty by leave-one-out errors."""

    def __init__(self, gram: Callable, *scales: float) -> None:
        self.gram, self.scales = gram, scales

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        from sklearn.linear_model import RidgeClassifierCV

        self.mean, self.deviation = (f(X, axis=(0, 2), keepdims=True) for f in (np.mean, np.std))
        self.X, self.model = self._points(X), None
        for scale in self.scales:
            K = self.gram(self.X, self.X, scale)
            values, vectors = np.linalg.eigh(K)
            kept = values > 1e-10 * values.max()
            root = vectors[:, kept] / np.sqrt(values[kept])
            model = RidgeClassifierCV(np.logspace(-4, 1, 6)).fit(K @ root, y)
            if self.model is None or model.best_score_ > self.model.best_score_:
                self.model, self.scale, self.root = model, scale, root
        return self

    def predict(self, Z: np.ndarray) -> np.ndarray:
        return self.model.predict(self.gram(self._points(Z), self.X, self.scale) @ self.root)

    def _points(self, X: np.ndarray) -> np.ndarray:
        """Return standardized signals, (n_cases, n_timepoints, n_channels), of LONGEST points."""
        k = -(-X.shape[2] // LONGEST)
        X = X[:, :, : X.shape[2] // k * k].reshape(*X.shape[:2], -1, k).mean(axis=3)
        return np.ascontiguousarray(((X - self.mean) / self.deviation).transpose(0, 2, 1))


def global_alignment(X: np.ndarray, Z: np.ndarray, scale: float) -> np.ndarray:
    """Return the normalized kernel of Cuturi (2011), its width in units of tslearn's rule."""
    points = np.random.default_rng(0).choice(Z.reshape(-1, Z.shape[2]), 1000)
    width = scale * np.median(make("scipy.spatial.distance.pdist", X=points)) * Z.shape[1] ** 0.5
    K, *squares = pairs(alignment_logarithm, lambda x: x / width, X, Z)
    return np.exp(K - np.add.outer(*squares) / 2)


def alignment_logarithm(x: np.ndarray, z: np.ndarray) -> float:
    """Return the logarithm of the sum over all alignments of the products of local kernels."""
    row, logarithm = np.zeros(len(z) + 1), 0.0
    row[0] = 1.0
    for i in range(len(x)):
        local = np.exp(np.dot(z, x[i]) - ((x[i] ** 2).sum() + (z**2).sum(axis=1)) / 2)
        local /= 2 - local
        corner, left, row[0] = row[0], 0.0, 0.0
        for j in range(len(z)):
            left = (row[j + 1] + left + corner) * local[j]
            corner, row[j + 1] = row[j + 1], left
        largest = row.max()
        row /= largest
        logarithm += np.log(largest)
    return logarithm + np.log(row[-1])


COARSE = 0.125
"""Longest step along a path in a cell of the PDE. With longer ones, norms come out negative."""


def signature(X: np.ndarray, Z: np.ndarray, scale: float) -> np.ndarray:
    """Return the normalized signature kernel; `scale` is the root of the squared variation."""

    def path(x: np.ndarray) -> np.ndarray:
        x = scale * x / np.sqrt((np.diff(x, axis=0) ** 2).sum())
        steps = np.diff(np.column_stack([x, np.linspace(0, 1, len(x))]), axis=0)
        parts = np.ceil(np.linalg.norm(steps, axis=1) / COARSE).astype(int)
        return np.repeat(steps / parts[:, None], parts, axis=0)

    K, *squares = pairs(signature_kernel, path, X, Z)
    return K / np.sqrt(np.multiply.outer(*squares))


def signature_kernel(x: np.ndarray, z: np.ndarray) -> float:
    """Return the solution of the PDE of Salvi et al. (2021), one cell for two increments."""
    row = np.ones(len(z) + 1)
    for i in range(len(x)):
        corner, left, products = 1.0, 1.0, np.dot(z, x[i])
        for j in range(len(z)):
            a = products[j]
            left = (row[j + 1] + left) * (1 + a / 2 + a * a / 12) - corner * (1 - a * a / 12)
            corner, row[j + 1] = row[j + 1], left
    return row[-1]


def pairs(
    function: Callable, prepare: Callable, X: np.ndarray, Z: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return a function, compiled, of all pairs of prepared signals, and of each with itself."""
    compiled = make("numba.njit", signature_or_function=function, cache=True)
    ready = [[prepare(x) for x in batch] for batch in (X, Z)]
    K, squares = np.empty((len(X), len(Z))), (np.array([compiled(x, x) for x in b]) for b in ready)
    for i, j in np.ndindex(K.shape):
        K[i, j] = K[j, i] if X is Z and j < i else compiled(ready[0][i], ready[1][j])
    return K, *squares


OURS, FAST = "rescntk", "rescntk, fast"
OUR_CLASSIFIER = "rescntk.learn.ResidualKernelClassifier"
NEIGHBOUR = "aeon.classification.distance_based.KNeighborsTimeSeriesClassifier"
ROCKET = "aeon.classification.convolution_based.{}Classifier"
ROCKETS = ("MiniRocket", "MultiRocketHydra")

# Of a seed, which those use that draw random numbers. Methods fit (X, y) and predict Z.
METHODS: dict[str, Callable[[int], Any]] = {
    OURS: lambda seed: make(OUR_CLASSIFIER),
    FAST: lambda seed: make(OUR_CLASSIFIER, views="fast"),
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
    "global alignment": lambda seed: KernelRidge(global_alignment, 0.1, 0.2, 0.3, 1.0, 3.0),
    "signature": lambda seed: KernelRidge(signature, 0.5, 1.0, 2.0, 4.0),
}
SEEDS = dict.fromkeys(ROCKETS, (0, 1, 2))

ROBUST, LEVELS = (OURS, FAST, "MiniRocket"), (0.0, 0.02, 0.05, 0.1)
"""Methods that see noisy test signals; the noise in units of the training signals' deviations."""


def signals(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from rescntk import datasets

    return (*datasets.load_labelled(name), *datasets.load_labelled(name, "test"))


def accuracy(method: str, name: str) -> list[Row]:
    """Return a row with the mean accuracy over the seeds, and the mean of the seconds."""
    X, y, Z, truth = signals(name)
    METHODS[method](0).fit(X, y).predict(Z)  # imported and compiled
    shares, all_seconds = [], []
    for seed in SEEDS.get(method, (0,)):
        make_one = partial(METHODS[method], seed)
        _, predicted, seconds = fit_and_predict(make_one, X, y, Z, time.perf_counter)
        shares.append(np.mean(predicted == truth))
        all_seconds.append(seconds)
    return [{"accuracy": float(np.mean(shares)), "seconds": float(np.mean(all_seconds))}]


def noisy(method: str, name: str) -> list[Row]:
    """Return the accuracy at each level of noise in the test signals, mean of three draws.

    Training signals have no noise. A channel's deviation is over all of them.
    """
    X, y, Z, truth = signals(name)
    deviations, shares = X.std(axis=(0, 2), keepdims=True), np.zeros(len(LEVELS))
    for seed in range(3):
        model = METHODS[method](seed).fit(X, y)
        noise = deviations * np.random.default_rng(seed).standard_normal(Z.shape)
        shares += [np.mean(model.predict(Z + level * noise) == truth) / 3 for level in LEVELS]
    pairs = zip(LEVELS, shares.tolist(), strict=True)
    return [{"noise": level, "accuracy": share} for level, share in pairs]


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
    left = np.setdiff1d(order, train)
    return np.array(train), rng.permutation(left)[:CURVE_TEST]


def pooled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test signals together, and their labels or targets."""
    X, y, Z, truth = signals(name)
    return np.concatenate([X, Z]), np.concatenate([y, truth])


def ceilings(name: str) -> dict[int, float]:
    """Return the share of test signals whose class was drawn, by size: nobody can be better."""
    y, shares = pooled(name)[1], {}
    for size in CURVE_SIZES:
        drawn = [draw_signals(y, size, draw) for draw in range(CURVE_DRAWS)]
        shares[size] = float(np.mean([np.isin(y[test], y[train]).mean() for train, test in drawn]))
    return shares


def curve(method: str, name: str) -> list[Row]:
    (X, y), rows = pooled(name), []
    for size, number in product(CURVE_SIZES, range(CURVE_DRAWS)):
        train, test = draw_signals(y, size, number)
        predicted = METHODS[method](number).fit(X[train], y[train]).predict(X[test])
        share = float(np.mean(predicted == y[test]))
        rows.append({"size": size, "draw": number, "accuracy": share})
    return rows
