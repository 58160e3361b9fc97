"""Measure errors of kernels against 40-digit arithmetic, on signals that a search makes worse.

    python benchmarks/accuracy.py [--quick]

Ten minutes of one core. The tests use the same arithmetic (tests/oracles). Each search changes
two signals at random, and keeps the change where the error has grown.
"""

import sys
from argparse import Namespace
from itertools import product
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

ENGINES = ("cpu", "reference")
FAMILIES = ("duplicates", "opposites", "uneven", "profile", "spikes")


def network(q: int, alpha: float = 1.0, **fields: Any) -> rk.Network:
    """Return a network whose kernels stay near 1 at any α."""
    scale = (1 + alpha**2) ** -DEPTH if fields.get("skip", True) else 1.0
    return rk.Network(DEPTH, q, alpha=alpha, readout_scale=scale, **fields)


def leaky(slope: float) -> list[rk.Network]:
    fields: dict[str, Any] = {"negative_slope": slope, "c_v": 2 / (1 + slope**2)}
    plain = network(5, skip=False, outer_filter_size=1, **fields)
    return [network(3, **fields), network(3, 8, **fields), plain]


NETWORKS = {
    "ReLU": [network(3), network(1, 0.05), network(3, 57), network(7, skip=False)],
    "ReLU, only the input trained": [
        network(q, a, trained=("input",)) for q, a in ((3, 1), (1, 57))
    ],
    **{f"leaky ReLU, slope {slope}": leaky(slope) for slope in (0.5, 0.9, 0.99)},
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
    errors = [error(net, X, dtype)]
    for _ in range(steps):
        change = 10.0 ** rng.uniform(-17, 0) * rng.standard_normal(X.shape)
        new = (X * (1 + change)).astype(dtype)
        reached = error(net, new, dtype)
        if reached > errors[-1]:
            X = new
        errors.append(max(reached, errors[-1]))
    return errors


def searched(networks: list[rk.Network], dtype: str, starts: int, steps: int) -> Row:
    """Return the median error of pairs of signals, and the largest after all searches."""
    cases = product(networks, FAMILIES, range(starts))
    runs = [search(net, family, dtype, seed, steps) for net, family, seed in cases]
    first, last = np.array(runs)[:, [0, -1]].T
    return {"median": float(np.median(first)), "largest": float(last.max())}


def table(report: Row) -> str:
    def cells(row: Row) -> list[Any]:
        return [f"{row[d][what]:.1e}" for d in ("float64", "float32") for what in row[d]]

    count = len(FAMILIES) * STARTS
    return harness.page(
        "# Errors against 40-digit arithmetic",
        f"Written by `python benchmarks/accuracy.py`. |ΔK| / √(K(x, x) K(z, z)) at depth {DEPTH}, "
        f"of two signals of {CHANNELS} channels and {PIXELS} pixels: the largest of both kinds, "
        f"the heads gap and trace, and the engines {' and '.join(report['engines'])}. "
        "Leaky ReLU with gap: relative to the kernel's trace.",
        harness.table(
            ("network", "float64, median", "float64, largest", "float32, median",
             "float32, largest"),
            [(name, *cells(row)) for name, row in report["networks"].items()],
        ),
        f"Medians are of {count} pairs for each network, from the families "
        f"{', '.join(FAMILIES)} of `tests/difficult_signals.py`. A search of {STEPS} steps from "
        "each pair, with relative changes of 1e-17 to 1, led to the largest.",
    )  # fmt: skip


def measure(asked: Namespace, path: Path) -> None:
    sizes = (1, 1) if asked.quick else (STARTS, STEPS)
    report: Row = {"machine": harness.machine(), "engines": ENGINES, "networks": {}}
    for name, networks in NETWORKS.items():
        row = {dtype: searched(networks, dtype, *sizes) for dtype in ("float64", "float32")}
        report["networks"][name] = row
        harness.say(name, row)
    harness.save(path, report)


if __name__ == "__main__":
    harness.script(__doc__, "accuracy.json", measure, table)
