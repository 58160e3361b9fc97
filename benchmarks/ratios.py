"""Measure what choices cost: processor time of Grams over the time of one Gram. Two minutes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import harness
import numpy as np

import rescntk as rk

ROUNDS = 5
N, M, LENGTH = 40, 24, 100
"""Signals of both sides, and their time points."""


def cases() -> dict[str, Callable[[], object]]:
    """Return the Grams by what is changed; the first is the base."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N + M, 4, LENGTH))
    walk = rng.standard_normal((N + M, 1, LENGTH)).cumsum(axis=2)
    smooth = (walk - walk.mean(axis=2, keepdims=True)) / walk.std(axis=2, keepdims=True)

    def gram(
        signals: Any = X, options: dict[str, Any] | None = None, **changes: Any
    ) -> Callable[[], object]:
        network = rk.Network(5).replace(**changes)
        call = partial(rk.gram, network, signals[:N], signals[N:])
        return partial(call, **{"threads": 1} | (options or {}))

    ragged = [x[:, : LENGTH - k % 3] for k, x in enumerate(X)]
    return {
        "base: depth 5, filters of 3, GAP, both kinds, float64": gram(),
        "only the Gaussian process kernel": gram(options={"kinds": ("gpk",)}),
        "only the neural tangent kernel": gram(options={"kinds": ("ntk",)}),
        "float32": gram(options={"dtype": "float32"}),
        "depth 20": gram(depth=20),
        "depths 1, 2, 3, 4 and 5": gram(options={"depths": (1, 2, 3, 4, 5)}),
        "without skip connections": gram(skip=False),
        "filters of 9": gram(filter_size=9),
        "filters of 31": gram(filter_size=31),
        "dilation 1, 2, 4, 8, 16": gram(dilation=(1, 2, 4, 8, 16)),
        "input filter of 9": gram(input_filter_size=9),
        "smooth signals of one channel, input filter of 9": gram(smooth, input_filter_size=9),
        "smooth signals of one channel, filters of 1": gram(smooth, filter_size=1),
        "NumPy": gram(options={"engine": "array"}),
        "signals of different lengths": gram(ragged),
        "images of 10 × 10 pixels": gram(X.reshape(N + M, 4, 10, 10)),
        "erf (NumPy)": gram(activation="erf"),
    }


def main() -> None:
    asked, grams = harness.options(__doc__), cases()
    for call in grams.values():
        call()  # compiled code is loaded
    clocks = {name: partial(harness.processor_seconds, call) for name, call in grams.items()}
    seconds = harness.interleaved(clocks, 1 if asked.quick else ROUNDS)
    medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
    unit = next(iter(medians.values()))
    text = harness.page(
        "# What a choice costs",
        f"Processor time of `gram(X, Z)` of {N} × {M} signals of 4 channels and {LENGTH} time "
        f"points, relative to the first row; the engine cpu. Medians of {ROUNDS} "
        f"interleaved rounds, one thread.",
        harness.table(("Gram", "time"), [(k, f"{x / unit:.2g}") for k, x in medians.items()]),
    )
    harness.publish(asked.out / "ratios.md", text)


if __name__ == "__main__":
    main()
