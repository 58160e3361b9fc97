"""Measure errors of kernels against exact arithmetic, on signals that a search makes worse.

    python benchmarks/accuracy.py [--quick] [--part networks|climbs] [--engine ENGINE] [--seed SEED]

"networks" takes ten minutes of one core: fixed networks, against 40 digits. "climbs" takes ten
minutes: random networks of up to 31 taps, against 128 bits; RESCNTK_ISA in the environment takes
another instruction set. The tests use the same arithmetic (tests/oracles). Each search changes two
signals at random, and keeps the change where the error has grown.
"""

import os
import sys
import time
from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Row

import rescntk as rk

sys.path.append(str(Path(__file__).parents[1]))
from rescntk.checks.values import HEADS, KINDS, PARTS
from tests import difficult_signals
from tests.oracles import definition, quadruple

CHANNELS, PIXELS, DEPTH = 2, 3, 50
STARTS, STEPS = 4, 12
"""Searches of each network, family of signals and precision, and their steps."""

ENGINES = ("cpu", "array")
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
        sizes = [
            definition.head(P, "trace" if head == "gap" and net.negative_slope else head)
            for P in exact
        ]
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


CLIMB_MINUTES, CLIMB_STEPS = 10.0, 25
"""Minutes of a run over random networks, and the steps from each of its starts."""


def random_network(rng: np.random.Generator) -> rk.Network:
    """Return a network of the domain that docs/guide/accuracy.md writes down for ReLU."""
    skip = bool(rng.random() < 0.5)
    slope = float(rng.choice([0, 0, 0, 0.01, 0.3, 0.5]))
    trained = [part for part in PARTS if rng.random() < 0.5] or ["inner"]
    return rk.Network(
        depth=int(rng.choice([5, 20, 50, 50])),
        filter_size=int(rng.choice([1, 3, 3, 5, 7, 9, 11, 13, 15, 17, 23, 31])),
        outer_filter_size=int(rng.choice([1, 3, 3, 5, 7, 9, 13, 31])),
        input_filter_size=int(rng.choice([1, 1, 3])),
        skip=skip,
        alpha=10 ** rng.uniform(-3, 2) if skip and rng.random() < 0.7 else 1.0,
        c_v=float(rng.choice([2 / (1 + slope**2), 2 / (1 + slope**2), 2, 0.7])),
        c_w=float(rng.choice([1, 1, 1.9])),
        bias=10 ** rng.uniform(-9, 1) if rng.random() < 0.5 else 0.0,
        negative_slope=slope,
        dilation=int(rng.choice([1, 1, 2])),
        trained=("input",) if rng.random() < 0.25 else tuple(trained),
    )


def random_pair(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return two signals: constant, smooth or random; equal but for a tiny change in most cases."""
    shape = int(rng.choice([1, 2, 2, 3])), int(rng.choice([1, 1, 2, 3, 4]))
    x, kind = rng.standard_normal(shape), rng.integers(8)
    if kind < 3:
        x = np.repeat(x[:, :1], shape[1], axis=1)
    elif kind == 3:
        x = np.cumsum(x, axis=1)
    elif kind < 6:
        x = x * 10 ** rng.uniform(-2, 2, shape[1])
    tiny = 10 ** rng.uniform(np.log10(np.finfo(dtype).eps), -2)
    near = 1 + tiny * rng.standard_normal((shape[0], int(rng.choice([1, shape[1]]))))
    partners = [x * near, x * near, 3.7 * x * near, -x * near, rng.standard_normal(shape)]
    return np.array([x, partners[rng.integers(len(partners))]])


def error_in_128_bits(net: rk.Network, X: np.ndarray, dtype: str, engine: str) -> float:
    """Return the largest error of both kinds and all heads, normalized and not."""
    exact, worst = quadruple.Grams(net, X), 0.0
    for head, normalized in product(HEADS, (True, False)):
        options: Any = {"head": head, "normalized": normalized, "dtype": dtype, "engine": engine}
        try:
            grams = rk.gram(net, X, **options)
        except OverflowError:
            continue
        for kind, K in zip(KINDS, grams, strict=True):
            if exact.resolves(kind, head):
                worst = max(worst, float(exact.error(K, kind, head, normalized)))
    return worst


def climb(engine: str, seed: int, minutes: float) -> Row:
    """Return the largest errors that a search over networks and signals finds in some minutes."""
    rng, end, starts = np.random.default_rng(seed), time.monotonic() + 60 * minutes, 0
    found: Row = {"float64": 0.0, "float32": 0.0}
    while time.monotonic() < end:
        dtype = ("float64", "float32")[starts % 2]
        starts += 1
        net, X = random_network(rng), random_pair(dtype, rng).astype(dtype).astype(float)
        worst = error_in_128_bits(net, X, dtype, engine)
        for _ in range(CLIMB_STEPS):
            if time.monotonic() > end:
                break
            sizes = [1, len(X)][rng.integers(2)], X.shape[1], [1, X.shape[2]][rng.integers(2)]
            change = 10.0 ** rng.uniform(-17, 0) * rng.standard_normal(sizes)
            new = (X * (1 + change)).astype(dtype).astype(float)
            reached = error_in_128_bits(net, new, dtype, engine)
            if reached > worst:
                X, worst = new, reached
        if worst > found[dtype]:
            found[dtype] = worst
            harness.log(dtype, f"{worst:.2e}", net, X.tolist())
    return {"starts": starts, **found}


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
            (
                "network",
                "float64, median",
                "float64, largest",
                "float32, median",
                "float32, largest",
            ),
            [(name, *cells(row)) for name, row in report["networks"].items()],
        ),
        f"Medians are of {count} pairs for each network, from the families "
        f"{', '.join(FAMILIES)} of `tests/difficult_signals.py`. A search of {STEPS} steps from "
        "each pair, with relative changes of 1e-17 to 1, led to the largest.",
        *climbs_text(report["climbs"]),
    )


def climbs_text(climbs: list[Row]) -> list[str | list[str]]:
    """Return the table of the searches over random networks; levels are instruction sets."""
    rows = [
        (
            c["engine"],
            c["level"],
            c["seed"],
            c["starts"],
            f"{c['float64']:.1e}",
            f"{c['float32']:.1e}",
        )
        for c in sorted(climbs, key=lambda c: (c["engine"], c["level"], c["seed"]))
    ]
    return [
        f"Searches of {CLIMB_MINUTES:g} minutes each (`--part climbs`), over ReLU and leaky ReLU "
        "networks of up to 50 layers and 31 taps, with any trained parts, biases and dilations, "
        "against 128-bit arithmetic. Starts are constant, smooth and random signals of 1 to 4 "
        "pixels, most pairs nearly equal. All heads count; GAP where its kernels are at least "
        f"{quadruple.SHARE_LEFT**2:g} of the trace kernels. Level 2 has no fused products, 3 is "
        "AVX2, 4 is AVX-512.",
        harness.table(("engine", "level", "seed", "starts", "float64", "float32"), rows),
    ]


def measure(asked: Namespace, path: Path) -> None:
    report: Row = harness.load(path, {"climbs": [], "networks": {}})
    if asked.part == "climbs":
        level = os.environ.get("RESCNTK_ISA", "") if asked.engine == "cpu" else ""
        key = {"engine": asked.engine, "level": level, "seed": asked.seed}
        row = key | climb(asked.engine, asked.seed, 0.05 if asked.quick else CLIMB_MINUTES)
        report = harness.load(path, report)  # other searches may have ended
        other_climbs = [c for c in report["climbs"] if any(c[name] != key[name] for name in key)]
        report["climbs"] = [*other_climbs, row]
        harness.save(path, report)
        if not report["networks"]:
            sys.exit(f"{path} still lacks networks: no page is written")
        return
    sizes = (1, 1) if asked.quick else (STARTS, STEPS)
    report |= {"machine": harness.machine(), "engines": ENGINES}
    for name, networks in NETWORKS.items():
        row = {dtype: searched(networks, dtype, *sizes) for dtype in ("float64", "float32")}
        report["networks"][name] = row
        harness.log(name, row)
    harness.save(path, report)


if __name__ == "__main__":
    harness.script(
        __doc__,
        "accuracy.json",
        measure,
        table,
        part={"choices": ("networks", "climbs"), "default": "networks"},
        engine={"choices": ENGINES, "default": "cpu", "help": "of climbs"},
        seed={"type": int, "default": 0, "help": "of climbs"},
    )
