"""Measure what choices cost: processor time of Grams, relative to one Gram, in interleaved rounds.

``python benchmarks/ratios.py`` takes some two minutes on one core, and writes results/ratios.md.
"""

from collections.abc import Callable

import harness
import numpy as np

import rescntk as rk

PATH = harness.RESULTS / "ratios.md"

ROUNDS = 5
"""Rounds over all cases; medians count. Raising it takes more time and steadies the ratios."""

N, M, LENGTH = 40, 24, 100
"""Signals of both sides, and their time points."""


def cases() -> dict[str, Callable[[], object]]:
    """Return the Grams by what is changed; the first is the base."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N + M, 4, LENGTH))
    walk = rng.standard_normal((N + M, 1, LENGTH)).cumsum(axis=2)
    smooth = (walk - walk.mean(axis=2, keepdims=True)) / walk.std(axis=2, keepdims=True)
    base = rk.Network(5)

    def gram(network: rk.Network = base, signals: object = X, **options: object) -> Callable:
        Z = signals[N:]
        return lambda: rk.gram(network, signals[:N], Z, **({"threads": 1} | options))

    ragged = [x[:, : LENGTH - k % 3] for k, x in enumerate(X)]
    return {
        "base: depth 5, filters of 3, GAP, both kinds, float64": gram(),
        "Gaussian process kernel alone": gram(kinds=("gpk",)),
        "neural tangent kernel alone": gram(kinds=("ntk",)),
        "float32": gram(dtype="float32"),
        "depth 20": gram(base.replace(depth=20)),
        "depths 1, 2, 3, 4 and 5": gram(depths=(1, 2, 3, 4, 5)),
        "without skip connections": gram(base.replace(skip=False)),
        "filters of 9": gram(base.replace(filter_size=9)),
        "filters of 31": gram(base.replace(filter_size=31)),
        "dilation 1, 2, 4, 8, 16": gram(base.replace(dilation=(1, 2, 4, 8, 16))),
        "input filter of 9": gram(base.replace(input_filter_size=9)),
        "smooth signals of one channel, input filter of 9": gram(
            base.replace(input_filter_size=9), smooth
        ),
        "smooth signals of one channel, filters of 1": gram(base.replace(filter_size=1), smooth),
        "NumPy": gram(engine="reference"),
        "signals of different lengths": gram(signals=ragged),
        "erf (NumPy)": gram(base.replace(activation="erf")),
    }


def main() -> None:
    grams = cases()
    for call in grams.values():
        call()  # compiled code is loaded
    timed = {
        name: lambda call=call: harness.processor_seconds(call) for name, call in grams.items()
    }
    seconds = harness.interleaved(timed, ROUNDS)
    medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
    unit = next(iter(medians.values()))
    lines = [
        "# What a choice costs",
        "",
        f"Processor time of `gram(X, Z)` of {N} × {M} signals of 4 channels and {LENGTH} time "
        f"points, relative to the first row; numba where it serves. Medians of {ROUNDS} "
        f"interleaved rounds, one thread.",
        "",
        *harness.table(("Gram", "time"), [(k, f"{x / unit:.2g}") for k, x in medians.items()]),
        "",
    ]
    PATH.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
