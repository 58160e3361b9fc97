"""Many signals: landmarks, stored Grams and conjugate gradients, in processor seconds.

    python benchmarks/scale.py [--quick] [--out FOLDER]

The signals are cylinder-bell-funnel with noise. Each measurement runs in a process of its own, and
is kept in scale.json. A second run goes on from there. All take three hours of a core.
"""

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import METHODS
from harness import Row, peak_megabytes, timed

import rescntk as rk
from rescntk import regression

KERNEL, SHORT_KERNEL = ["ResCGPK", 3, 33], ["ResCGPK", 3, 9]
"""Name, depth and input filter size, also for signals of 32 time points. Chosen from a few trials
on 700 signals: the full kernel's accuracy is .979, and .948 with the NTK and filters of 9."""

# Most signals: the full kernel matrix takes half an hour at 5000, MiniRocket 16 GB at 50 000.
LADDER, FULL, MINIROCKET = (500, 1000, 2000, 5000, 10_000, 50_000), 5000, 10_000
LANDMARKS, TESTED = 500, 2000

RIDGES = np.logspace(-5, 2, 15)
"""Penalties λ, of which the least leave-one-out error chooses; the kernel's diagonal is 1."""

DTYPE: Row = {"dtype": "float32"}
LENGTH = 128  # time points of a signal

NOISE = 2.0
"""Standard deviation of the noise of `cylinder_bell_funnel`, whose events have a height of 6 ± 1;
Saito's is 1. Chosen so that the accuracy still rises from 5 000 signals to 50 000."""


def plan(quick: bool) -> list[Row]:
    """Return the measurements, from few signals to many."""
    equations = {"part": "conjugate_gradients", "kernel": SHORT_KERNEL, "most": 300}
    specs: list[Row] = []
    for n in (40,) if quick else LADDER:
        sizes: Row = {"n": n, "n_test": 20 if quick else TESTED}
        if n <= MINIROCKET:
            specs.append({"part": "minirocket", **sizes})
        sizes |= {"kernel": KERNEL}
        specs.append({"part": "landmarks", **sizes, "rank": 8 if quick else min(LANDMARKS, n // 2)})
        if n <= FULL:
            specs.append({"part": "full", **sizes})
    if quick:
        specs.append(equations | {"n": 40, "rank": 10, "every": 2, "penalty": 1e-2, "block": 16})
        specs.append({"part": "overhead", "n": 12, "d": 16, "depth": 1, "workers": 1, "block": 8})
        return specs
    for n in (2000, 10_000):
        sizes = {"rank": LANDMARKS, "every": 4, "penalty": 1e-3, "block": 1024}
        specs.append(equations | {"n": n, **sizes})
    sizes = {"d": 100, "depth": 1, "workers": 2, "block": 512}
    specs.append({"part": "overhead", "n": 1000, **sizes})
    return sorted(specs, key=lambda spec: spec["n"])


# -- the signals


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


# -- the parts: each is a function of its sizes, and returns numbers


def ridge(fitted: regression.Decomposition, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts, with the penalty of the least leave-one-out error."""
    Y = targets(labels)
    errors = fitted.leave_one_out(Y, RIDGES, intercept=True)
    penalty = float(RIDGES[(errors**2).mean(axis=(1, 2)).argmin()])
    return fitted.ridge(Y, penalty, intercept=True)


def memory_and_accuracy(predicted: np.ndarray, truth: np.ndarray) -> Row:
    return {"megabytes": peak_megabytes(), "accuracy": float((predicted == truth).mean())}


def landmarks(kernel: list[Any], n: int, rank: int, n_test: int) -> Row:
    """Features by landmarks and ridge regression: time, memory, accuracy."""
    k = kernel_of(*kernel)
    X, y, Z, truth = problem(n, n_test)
    k(X[:2], X[:2], **DTYPE)  # loaded before the clock runs

    def fit() -> tuple[np.ndarray, ...]:
        places, F, _ = regression.pivoted_cholesky(k, X, rank, **DTYPE)
        beta, b = ridge(regression.decompose_features(F), y)
        return places, np.linalg.solve(F[places].T, F.T @ beta), b

    (places, weights, b), seconds = timed(fit)
    decisions = k(Z, X[places], **DTYPE) @ weights + b
    return {"seconds": seconds} | memory_and_accuracy(decisions.argmax(axis=1), truth)


def full(kernel: list[Any], n: int, n_test: int) -> Row:
    """Ridge regression with the full matrix, in float64, which resolves the least penalties."""
    k = kernel_of(*kernel)
    X, y, Z, truth = problem(n, n_test)
    k(X[:2], X[:2])
    (beta, b), seconds = timed(lambda: ridge(regression.decompose(k(X)), y))
    decisions = k(Z, X, **DTYPE) @ beta + b
    return {"seconds": seconds} | memory_and_accuracy(decisions.argmax(axis=1), truth)


def minirocket(n: int, n_test: int) -> Row:
    X, y, Z, truth = problem(n, n_test)
    METHODS["MiniRocket"](0).fit(X[:50], y[:50])  # compiled before the clock runs
    fitted, seconds = timed(lambda: METHODS["MiniRocket"](0).fit(X, y))
    return {"seconds": seconds} | memory_and_accuracy(fitted.predict(Z), truth)


class CountingMatrix:
    """A matrix that counts its products."""

    def __init__(self, K: Any) -> None:
        self.K, self.shape, self.products = K, K.shape, 0

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.K @ v


def conjugate_gradients(
    kernel: list[Any], n: int, rank: int, every: int, penalty: float, block: int, most: int
) -> Row:
    """Products to a residual of 1e-6, one time point of `every` kept, with landmarks or not."""
    from rescntk import stored

    X, y = cylinder_bell_funnel(n, seed=0)
    X = X[:, :, ::every]
    k = kernel_of(*kernel)
    k(X[:2], X[:2], **DTYPE)
    described: Row = {"kinds": (k.kind,), "normalized": True, "block": block, "progress": False}
    options: Row = {"penalty": penalty, "max_iterations": most}
    with tempfile.TemporaryDirectory() as folder:
        K, of_gram = timed(lambda: stored.gram(f"{folder}/K.zarr", k.network, X, **described))
        low, of_landmarks = timed(lambda: regression.pivoted_cholesky(k, X, rank, **DTYPE))
        fast, slow, Y = CountingMatrix(K), CountingMatrix(K), targets(y)
        solve = partial(regression.solve, fast, Y, preconditioner=low, **options)
        A, of_products = timed(solve)
        regression.solve(slow, Y, **options)
        residual = np.linalg.norm(Y - K @ A - penalty * A, axis=0) / np.linalg.norm(Y, axis=0)
    return {
        "seconds_of_the_gram": of_gram,
        "seconds_of_landmarks": of_landmarks,
        "seconds_of_products": of_products,
        "products": fast.products,
        "residual": float(residual.max()),
        "products_without": slow.products,
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
        store = partial(stored.gram, network=network, progress=False)
        small = rng.standard_normal((workers * 2, 4, d))
        store(f"{folder}/first.zarr", X=small, block=1, client=client)
        before = client.run(peak_megabytes)
        store = partial(store, X=X, block=block)
        _, on_workers = timed(lambda: store(f"{folder}/W.zarr", client=client), clock)
        after = client.run(peak_megabytes)
        _, in_process = timed(lambda: store(f"{folder}/H.zarr"), clock)
        _, in_memory = timed(lambda: rk.gram(network, X, **DTYPE), clock)
    return {
        "seconds_in_memory": in_memory,
        "overhead_here": in_process / in_memory - 1,
        "overhead_on_workers": on_workers / in_memory - 1,
        "megabytes_of_workers": max(after.values()),
        "megabytes_of_workers_before": max(before.values()),
        "megabytes_of_a_block": 2 * 4 * block**2 / 1e6,
    }


PARTS = {f.__name__: f for f in (landmarks, full, minirocket, conjugate_gradients, overhead)}


def measured(spec: Row) -> Row:
    return PARTS[spec["part"]](**{name: size for name, size in spec.items() if name != "part"})


def measure(asked: Namespace, path: Path) -> None:
    """Measure what the file lacks, each row in a process of its own but for toy sizes."""
    machine = harness.machine()
    report = harness.load_or_begin(path, machine, tuple(machine))
    measure_row = measured if asked.quick else partial(harness.in_own_process, measured)
    harness.measure_specs(path, report, report["rows"], plan(asked.quick), measure_row)


# -- the report

NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}


def rows(report: Row, part: str) -> list[Row]:
    """Return the measurements of a part, by their number of signals."""
    return sorted((row for row in report["rows"] if row["part"] == part), key=lambda r: r["n"])


def text(report: Row) -> str:
    cells = [
        (
            name,
            row["n"],
            row.get("rank", ""),
            f"{row['seconds']:.3g}",
            f"{row['megabytes']:.0f}",
            f"{row['accuracy']:.3f}",
        )
        for part, name in NAMES.items()
        for row in rows(report, part)
    ]
    return harness.page(
        "# Large Grams",
        f"{harness.machine_in_words(report['machine'])}. "
        "Seconds (s) are processor seconds of all threads.",
        harness.table(("method", "n", "landmarks", "seconds", "MB", "accuracy"), cells),
        list(sentences(report)),
    )


def sentences(report: Row) -> Iterator[str]:
    for row in rows(report, "landmarks")[:1]:
        name, depth, size = row["kernel"]
        kernel = f"normalized {name}({depth}, input_filter_size={size})"
        yield f"* Kernel on cylinder-bell-funnel: {kernel}."
    for row in rows(report, "conjugate_gradients"):
        count, most = row["products_without"], row["most"]
        without = count if count <= most else f"more than {most}"
        yield (
            f"* {row['n']} equations, {row['rank']} landmarks, λ = {row['penalty']:g}: "
            f"{row['products']} products in {row['seconds_of_products']:.3g} s, "
            f"{without} without landmarks; the Gram took "
            f"{row['seconds_of_the_gram']:.3g} s, the landmarks "
            f"{row['seconds_of_landmarks']:.3g} s."
        )
    for row in rows(report, "overhead"):
        worker = row["megabytes_of_workers"] - row["megabytes_of_workers_before"]
        yield (
            f"* Stored Gram, {row['n']} signals: {row['seconds_in_memory']:.3g} s in memory, "
            f"{100 * row['overhead_here']:+.1f} % stored in this process, "
            f"{100 * row['overhead_on_workers']:+.1f} % on {row['workers']} workers, each "
            f"with {worker:.0f} MB more than at rest (a block has "
            f"{row['megabytes_of_a_block']:.0f} MB)."
        )


def main(arguments: Sequence[str] | None = None) -> None:
    harness.script(__doc__, "scale.json", measure, text, arguments=arguments)


if __name__ == "__main__":
    main()
