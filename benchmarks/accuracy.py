"""Measure errors of kernels against 40-digit arithmetic, on signals that a search makes worse.

    python benchmarks/accuracy.py [--quick]

Ten minutes of one core. The tests use the same arithmetic (tests/oracles). Each search changes
two signals at random, and keeps the change where the error has grown.
"""

import sys
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Row

import rescntk as rk

sys.path.append(str(Path(__file__).parents[1]))
from tests import difficult_signals
from tests.oracles import definition

CHANNELS, PIXELS, DEPTH = 2, 3, 50
STARTS, STEPS = 4, 12
"""Searches of each network, family of signals and precision, and their steps."""

ENGINES = ("numba", "reference")
FAMILIES = ("duplicates", "opposites", "uneven", "profile", "spikes")


def network(q: int, alpha: float = 1.0, **fields: Any) -> rk.Network:
    """Return a network whose kernels stay near 1 at any α."""
    scale = (1 + alpha**2) ** -DEPTH if fields.get("skip", True) else 1.0
    return rk.Network(DEPTH, q, alpha=alpha, readout_scale=scale, **fields)


NETWORKS = {
    "ReLU": [network(3), network(1, 0.05), network(3, 57), network(7, skip=False)],
    "ReLU, only the input trained": [
        network(q, a, trained=("input",)) for q, a in ((3, 1), (1, 57))
    ],
    **{
        f"leaky ReLU, slope {s}": [
            network(q, alpha, negative_slope=s, c_v=2 / (1 + s**2), **fields)
            for q, alpha, fields in (
                (3, 1, {}),
                (3, 8, {}),
                (5, 1, {"skip": False, "outer_filter_size": 1}),
            )
        ]
        for s in (0.5, 0.9, 0.99)
    },
}


def error(net: rk.Network, X: np.ndarray, dtype: str) -> float:
    """Return the largest |ΔK| / √(K(x, x) K(z, z)) of all engines, kinds and heads."""
    exact = definition.pixel_pairs(X, net)[DEPTH]
    worst = 0.0
    for head in ("gap", "trace"):
        truth = [definition.head(P, head) for P in exact]
        sizes = [definition.head(P, "trace" if head == "gap" and net.negative_slope else head)
                 for P in exact]  # fmt: skip
        for engine in ENGINES:
            computed = rk.gram(net, X, head=head, dtype=dtype, engine=engine)
            for K, P, size in zip(computed, truth, sizes, strict=True):
                worst = max(worst, definition.errors(K, P, size.diagonal()))
    return worst


def search(net: rk.Network, family: str, dtype: str, seed: int, steps: int) -> list[float]:
    """Return the error of two signals of a family, and of those that `steps` changes lead to."""
    rng = np.random.default_rng(seed)
    X = getattr(difficult_signals, family)(CHANNELS, PIXELS, rng)
    X = X[rng.choice(len(X), 2, replace=False)].astype(dtype)
    found = [error(net, X, dtype)]
    for _ in range(steps):
        change = 10.0 ** rng.uniform(-17, 0) * rng.standard_normal(X.shape)
        new = (X * (1 + change)).astype(dtype)
        reached = error(net, new, dtype)
        if reached > found[-1]:
            X = new
        found.append(max(reached, found[-1]))
    return found


def measure(networks: list[rk.Network], starts: int, steps: int) -> Row:
    found: Row = {}
    for dtype in ("float64", "float32"):
        runs = [
            search(net, family, dtype, seed, steps)
            for net in networks
            for family in FAMILIES
            for seed in range(starts)
        ]
        first, last = np.array(runs)[:, [0, -1]].T
        found[dtype] = {"median": float(np.median(first)), "largest": float(last.max())}
    return found


def table(report: Row) -> str:
    def cells(row: Row) -> list[Any]:
        return [f"{row[d][what]:.1e}" for d in ("float64", "float32") for what in row[d]]

    count = len(FAMILIES) * STARTS
    return harness.page(
        "# Errors against 40-digit arithmetic",
        f"Written by `python benchmarks/accuracy.py`. |ΔK| / √(K(x, x) K(z, z)) at depth {DEPTH}, "
        f"of two signals of {CHANNELS} channels and {PIXELS} pixels: the largest of both kinds, "
        f"the heads gap and trace, and the engines {' and '.join(ENGINES)}. Leaky ReLU with gap: "
        "relative to the kernel's trace.",
        harness.table(
            ("network", "float64, median", "float64, largest", "float32, median",
             "float32, largest"),
            [(name, *cells(row)) for name, row in report["networks"].items()],
        ),
        f"Medians are of {count} pairs for each network, from the families "
        f"{', '.join(FAMILIES)} of `tests/difficult_signals.py`. A search of {STEPS} steps from "
        "each pair, with relative changes of 1e-17 to 1, led to the largest.",
    )  # fmt: skip


def main() -> None:
    options = harness.options(__doc__)
    starts, steps = (1, 1) if options.quick else (STARTS, STEPS)
    report: Row = {"machine": harness.machine(), "networks": {}}
    for name, networks in NETWORKS.items():
        report["networks"][name] = measure(networks, starts, steps)
        harness.say(name, report["networks"][name])
    harness.save(options.out / "accuracy.json", report)
    harness.publish(options.out / "accuracy.md", table(report))


if __name__ == "__main__":
    main()
