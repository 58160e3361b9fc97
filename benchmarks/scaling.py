"""Cost of a pixel pair and layer: against the limit, of one kind and both, at any size."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

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


def median_ratio(above: dict, below: dict, rounds: int = 5) -> float:
    """Return the time of `above` over the time of `below`, the median of interleaved rounds."""
    return statistics.median(seconds(**above) / seconds(**below) for _ in range(rounds))


def per_entry(engines: list[str], rounds: int = 7) -> dict:
    """Return ns per pixel pair and layer, and times the limit: medians of interleaved rounds."""
    report: dict = {"limit_ns": {}, "per_entry": {}, "times_limit": {}}
    for engine in engines:
        for dtype in DTYPES:
            for head, n in (("gap", 40), ("trace", 512)):
                size = {"head": head, "d": 100, "n": n}
                spent, least = [], []
                for _ in range(rounds):
                    spent.append(1e9 * seconds(engine, dtype, **size) / entries(**size))
                    if engine == "numba":
                        import limit
                        import numba

                        least.append(limit.nanoseconds(dtype, numba.config.NUMBA_NUM_THREADS))
                name = f"{engine} {dtype} {head}"
                report["per_entry"][name] = statistics.median(spent)
                if least:
                    ratios = [a / b for a, b in zip(spent, least, strict=True)]
                    report["limit_ns"][dtype] = statistics.median(least)
                    report["times_limit"][name] = statistics.median(ratios)
    return report


def measure(engines: list[str]) -> dict:
    """Return ns per entry, ratios, and the sweeps, for each engine."""
    report: dict = per_entry(engines) | {"ratios": {}, "sweeps": []}
    for engine in engines:
        for dtype in DTYPES:
            base = {"engine": engine, "dtype": dtype}
            wide = base | {"n": 80}
            many = base | {"head": "trace", "n": 1024}
            report["ratios"][f"{engine} {dtype}"] = {
                "full / symmetric, GAP": median_ratio(wide, wide | {"symmetric": True}),
                "full / symmetric, trace": median_ratio(many, many | {"symmetric": True}),
                "both kinds / GPK alone": median_ratio(base, base | {"kinds": ("gpk",)}),
            }
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
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True, linewidth=0.4, alpha=0.6)
        ax.spines[["top", "right"]].set_visible(False)
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
