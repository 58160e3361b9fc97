"""The measurements of benchmarks/scale.py: each is a function of its sizes, and returns numbers."""

import tempfile
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from classification_methods import METHODS
from harness import Row, peak_megabytes, timed

import rescntk as rk
from rescntk import regression

RIDGES = np.logspace(-5, 2, 15)
"""Penalties λ, of which the least leave-one-out error chooses; the kernel's diagonal is 1."""

DTYPE = {"dtype": "float32"}
LENGTH = 128  # time points of a signal

NOISE = 2.0
"""Standard deviation of the noise of `cylinder_bell_funnel`, whose events have a height of 6 ± 1;
Saito's is 1. Chosen so that the accuracy still rises from 5 000 signals to 50 000."""


def cylinder_bell_funnel(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n signals (n, 1, 128) of three classes, and their labels (Saito 1994).

    A signal is noise with one event, from a in 16 … 32 to b in a + 32 … a + 96. The event is level
    (cylinder), rises (bell) or falls (funnel).
    """
    rng = np.random.default_rng(seed)
    labels, time = rng.integers(0, 3, n), np.arange(LENGTH)
    start = rng.integers(16, 33, (n, 1))
    end = start + rng.integers(32, 97, (n, 1))
    ramp = (time - start) / (end - start)
    shape = np.choose(labels[:, None], [np.ones(ramp.shape), ramp, 1.0 - ramp])
    height = 6.0 + rng.standard_normal((n, 1))
    event = height * shape * ((time >= start) & (time <= end))
    return (event + NOISE * rng.standard_normal(event.shape))[:, None], labels


def kernel_of(name: str, depth: int, input_filter_size: int) -> rk.Kernel:
    return getattr(rk, name)(depth, input_filter_size=input_filter_size, normalized=True)


def problem(n: int, n_test: int) -> tuple[np.ndarray, ...]:
    """Return n signals with their labels, and n_test other ones with theirs."""
    return *cylinder_bell_funnel(n, seed=0), *cylinder_bell_funnel(n_test, seed=1)


def targets(labels: np.ndarray) -> np.ndarray:
    """Return ±1 for each class, (n, n_classes)."""
    return 2.0 * (labels[:, None] == np.arange(labels.max() + 1)) - 1.0


def ridge(K: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts, with the penalty of the least leave-one-out error."""
    fitted, Y = regression.decompose(K), targets(labels)
    errors = fitted.leave_one_out(Y, RIDGES, intercept=True)
    penalty = float(RIDGES[(errors**2).mean(axis=(1, 2)).argmin()])
    return fitted.ridge(Y, penalty, intercept=True)


def outcome(predicted: np.ndarray, truth: np.ndarray) -> Row:
    return {"megabytes": peak_megabytes(), "accuracy": float((predicted == truth).mean())}


def landmarks(kernel: list[Any], n: int, rank: int, n_test: int) -> Row:
    """Features by landmarks and ridge regression: time, memory, accuracy."""
    k = kernel_of(*kernel)
    X, y, Z, truth = problem(n, n_test)
    k(X[:2], X[:2], **DTYPE)  # compiled before the clock runs

    def fit() -> Any:
        low = regression.pivoted_cholesky(k, X, rank, **DTYPE)
        options = {"intercept": True, "leave_one_out": True, **DTYPE}
        return regression.restricted_ridge(k, X, targets(y), low, RIDGES, **options)

    fitted, seconds = timed(fit)
    best = int((fitted.errors**2).mean(axis=(1, 2)).argmin())
    decisions = fitted.features(Z) @ fitted.weights[best] + fitted.intercepts[best]
    return {"seconds": seconds} | outcome(decisions.argmax(axis=1), truth)


def full(kernel: list[Any], n: int, n_test: int) -> Row:
    """Ridge regression with the full matrix, in float64, which resolves the least penalties."""
    k = kernel_of(*kernel)
    X, y, Z, truth = problem(n, n_test)
    k(X[:2], X[:2])
    (beta, b), seconds = timed(lambda: ridge(k(X), y))
    decisions = k(Z, X, **DTYPE) @ beta + b
    return {"seconds": seconds} | outcome(decisions.argmax(axis=1), truth)


def minirocket(n: int, n_test: int) -> Row:
    X, y, Z, truth = problem(n, n_test)
    METHODS["MiniRocket"](0).fit(X[:50], y[:50])  # compiled before the clock runs
    fitted, seconds = timed(lambda: METHODS["MiniRocket"](0).fit(X, y))
    return {"seconds": seconds} | outcome(fitted.predict(Z), truth)


def classifier(n: int, landmarks: int | str, n_test: int = 1000) -> Row:
    """Our classifier with effort "fast", on 100 time points."""
    from rescntk.learn import ResidualKernelClassifier

    X, y, Z, truth = problem(n, n_test)
    X, Z = X[:, :, :100], Z[:, :, :100]
    ResidualKernelClassifier(effort="fast").fit(X[:20], y[:20]).predict(Z[:20])  # compiled
    model = ResidualKernelClassifier(effort="fast", landmarks=landmarks)
    _, fit = timed(lambda: model.fit(X, y))
    predicted, predict = timed(lambda: model.predict(Z))
    return {"fit_seconds": fit, "predict_seconds": predict} | outcome(predicted, truth)


def conjugate_gradients(
    kernel: list[Any], n: int, rank: int, every: int, ridge: float, block: int, most: int
) -> Row:
    """Iterations to a residual of 1e-6, one time point of `every` kept, with landmarks or not."""
    from rescntk import stored

    X, y = cylinder_bell_funnel(n, seed=0)
    X = X[:, :, ::every]
    k = kernel_of(*kernel)
    k(X[:2], X[:2], **DTYPE)
    described = {"kinds": (k.kind,), "normalized": True, "block": block}
    options = {"intercept": True, "max_iterations": most}
    with tempfile.TemporaryDirectory() as folder:
        K, of_gram = timed(lambda: stored.gram(f"{folder}/K.zarr", k.network, X, **described))
        low, of_landmarks = timed(lambda: regression.pivoted_cholesky(k, X, rank, **DTYPE))
        solve = partial(regression.solve, K, targets(y), ridge, **options)
        fast, of_iterations = timed(lambda: solve(preconditioner=low))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may need more than `most` iterations
            slow = solve()
    return {
        "seconds_of_the_gram": of_gram,
        "seconds_of_landmarks": of_landmarks,
        "seconds_of_iterations": of_iterations,
        "iterations": fast.iterations,
        "residual": float(np.max(fast.residuals)),
        "iterations_without": slow.iterations,
        "residual_without": float(np.max(slow.residuals)),
    }


def overhead(n: int, d: int, depth: int, workers: int, block: int) -> Row:
    """Time of a stored Gram over a Gram in memory, in this process and on workers; memory."""
    from distributed import Client, LocalCluster

    from rescntk import stored

    network, rng = rk.Network(depth), np.random.default_rng(0)
    X = rng.standard_normal((n, 4, d))
    rk.gram(network, X[:2], **DTYPE)

    def clock() -> float:
        """Return processor seconds of this process and of the workers."""
        return time.process_time() + sum(client.run(time.process_time).values())

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        compile_first = rng.standard_normal((workers * 2, 4, d))
        stored.gram(f"{folder}/first.zarr", network, compile_first, block=1, client=client)
        before = client.run(peak_megabytes)
        store = partial(stored.gram, network=network, X=X, block=block)
        _, on_workers = timed(lambda: store(f"{folder}/W.zarr", client=client), clock)
        after = client.run(peak_megabytes)
        _, in_process = timed(lambda: store(f"{folder}/H.zarr"), clock)
        _, in_memory = timed(lambda: rk.gram(network, X, **DTYPE), clock)
    return {
        "seconds_in_memory": in_memory,
        "seconds_stored_here": in_process,
        "seconds_on_workers": on_workers,
        "overhead_here": in_process / in_memory - 1,
        "overhead_on_workers": on_workers / in_memory - 1,
        "megabytes_of_workers": max(after.values()),
        "megabytes_of_workers_before": max(before.values()),
        "megabytes_of_a_block": 2 * 4 * block**2 / 1e6,
    }


PARTS = {
    f.__name__: f for f in (landmarks, full, minirocket, classifier, conjugate_gradients, overhead)
}


def measure(spec: Row) -> Row:
    return PARTS[spec["part"]](**{name: size for name, size in spec.items() if name != "part"})
