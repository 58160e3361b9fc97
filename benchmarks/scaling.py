"""Cost of a pixel pair and layer: against the limit, of one kind and both, at any size."""

from __future__ import annotations

import time
from functools import partial
from itertools import product
from pathlib import Path

import harness
import numpy as np

import rescntk as rk

DTYPES = ("float64", "float32")
BASE = {"head": "gap", "d": 100, "n": 40, "depth": 5, "filter_size": 3}
SWEEPS = {
    "d": [
        *({"head": "gap", "d": d, "n": max(6, 4000 // d)} for d in (16, 32, 64, 128, 256)),
        *({"head": "trace", "d": d, "n": 400} for d in (16, 32, 64, 128, 256, 1024)),
    ],
    "n": [{"n": n} for n in (5, 10, 20, 40, 80)],
    "depth": [{"depth": depth} for depth in (1, 2, 5, 10, 20, 50)],
    "filter_size": [{"filter_size": q} for q in (1, 3, 5, 7, 9, 15, 31, 63)],
}


def seconds(
    engine: str, dtype: str, symmetric: bool = False, kinds=("gpk", "ntk"), **sizes
) -> float:
    """Return the time of one Gram of random signals, the better of two."""
    s = BASE | sizes
    rng = np.random.default_rng(0)
    X, Z = (rng.standard_normal((s["n"], 4, s["d"])) for _ in range(2))
    network = rk.Network(s["depth"], s["filter_size"])
    options = {"head": s["head"], "kinds": kinds, "engine": engine, "dtype": dtype}
    times = []
    for _ in range(3):
        start = time.perf_counter()
        rk.gram(network, X, None if symmetric else Z, **options)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def entries(**sizes) -> int:
    """Return the number of pixel pairs and layers of a full Gram."""
    s = BASE | sizes
    return s["n"] ** 2 * s["d"] ** (2 if s["head"] == "gap" else 1) * s["depth"]


def per_entry(engines: list[str], rounds: int = 7) -> dict:
    """Return ns per pixel pair and layer, and times the limit: medians of interleaved rounds."""
    report: dict = {"limit_ns": {}, "per_entry": {}, "times_limit": {}}
    for engine, dtype, (head, n) in product(engines, DTYPES, (("gap", 40), ("trace", 512))):
        name, size = f"{engine} {dtype} {head}", {"head": head, "d": 100, "n": n}
        calls = {"spent": partial(seconds, engine, dtype, **size)}
        if engine == "numba":
            import limit
            import numba

            threads = numba.config.NUMBA_NUM_THREADS
            calls["least"] = partial(limit.nanoseconds, dtype, threads)
        ns = harness.interleaved(calls, rounds)
        ns["spent"] = [1e9 * spent / entries(**size) for spent in ns["spent"]]
        report["per_entry"][name] = float(np.median(ns["spent"]))
        if engine == "numba":
            report["limit_ns"][dtype] = float(np.median(ns["least"]))
            report["times_limit"][name] = harness.median_ratio(ns["spent"], ns["least"])
    return report


def ratios(engine: str, dtype: str) -> dict[str, float]:
    """Return times over times of a symmetric Gram, and of one kind."""
    base = {"engine": engine, "dtype": dtype}
    wide, many = base | {"n": 80}, base | {"head": "trace", "n": 1024}
    pairs = {
        "full / symmetric, GAP": (wide, wide | {"symmetric": True}),
        "full / symmetric, trace": (many, many | {"symmetric": True}),
        "both kinds / GPK alone": (base, base | {"kinds": ("gpk",)}),
    }
    medians = {}
    for name, (above, below) in pairs.items():
        calls = {"above": partial(seconds, **above), "below": partial(seconds, **below)}
        medians[name] = harness.median_ratio(*harness.interleaved(calls, 5).values())
    return medians


def measure(engines: list[str]) -> dict:
    """Return ns per entry, ratios, and the sweeps, for each engine."""
    found = {f"{e} {dtype}": ratios(e, dtype) for e, dtype in product(engines, DTYPES)}
    report: dict = per_entry(engines) | {"ratios": found, "sweeps": []}
    for engine in engines:
        for name, sizes in SWEEPS.items():
            for size in sizes:
                spent = 1e9 * seconds(engine, "float64", **size) / entries(**size)
                point = {"engine": engine, "sweep": name, **(BASE | size), "ns": spent}
                report["sweeps"].append(point)
    return report


def lines(report: dict) -> list[str]:
    """Return the report's sentences, as Markdown."""
    out = ["Nanoseconds per pixel pair and layer, all threads together, d = 100, q = 3:", ""]
    for name, value in report["per_entry"].items():
        engine, dtype, head = name.split()
        text = f"* {engine}, {dtype}, {head}: {value:.2f}"
        if engine == "numba":
            bound, times = report["limit_ns"][dtype], report["times_limit"][name]
            text += f"; {times:.1f} times the limit of {bound:.2f}"
        out.append(text)
    out.append("")
    for name, ratios in report["ratios"].items():
        parts = ", ".join(f"{what}: {value:.2f}" for what, value in ratios.items())
        out.append(f"* {name}: {parts}")
    return out


def draw(report: dict, path: Path) -> None:
    """Draw ns per pixel pair and layer against each size: flat lines are what is wanted."""
    from rescntk import plots

    figure = plots.figure((9.0, 6.4))
    axes = figure.subplots(2, 2, sharey=True)
    names = {"d": "length d", "n": "signals n", "depth": "depth", "filter_size": "filter size q"}
    styles = {"reference": ("#0072B2", "o"), "numba": ("#D55E00", "s")}
    for ax, (sweep, label) in zip(axes.flat, names.items(), strict=True):
        for engine in report["engines"]:
            for head, line in (("gap", "-"), ("trace", "--")):
                points = [
                    (p[sweep], p["ns"])
                    for p in report["sweeps"]
                    if (p["engine"], p["sweep"], p["head"]) == (engine, sweep, head)
                ]
                if points:
                    colour, marker = styles[engine]
                    ax.plot(*zip(*points, strict=True), line, color=colour, marker=marker,
                            markersize=4, label=f"{engine}, {head}")  # fmt: skip
        if report["limit_ns"]:
            ax.axhline(report["limit_ns"]["float64"], linestyle=":", color="black", label="limit")
        ax.set(xscale="log", yscale="log", xlabel=label)
        harness.plain_ticks(ax.xaxis)
        ax.yaxis.set_major_formatter("{x:g}")
        harness.tidy(ax)
    for ax in axes[:, 0]:
        ax.set_ylabel("ns per pixel pair and layer")
    place = {"loc": "center", "bbox_to_anchor": (0.5, 0.6), "ncols": 2}  # between the curves
    axes[0, 0].legend(fontsize="small", frameon=False, **place)
    base = ", ".join(f"{key} = {value}" for key, value in BASE.items() if key != "head")
    figure.suptitle(
        f"GPK and NTK, float64, {report['machine']['cores']} cores; else GAP, {base}",
        fontsize="medium",
    )
    figure.savefig(path)
