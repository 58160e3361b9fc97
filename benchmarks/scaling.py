"""Cost of a pixel pair and layer: against the limit, and at any size."""

import time
from functools import partial
from itertools import product
from typing import Any

import harness
import numpy as np
from harness import Row

import rescntk as rk

BOTH, DTYPES = ("gpk", "ntk"), ("float64", "float32")
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


def nanoseconds(engine: str, dtype: str, **sizes: Any) -> float:
    """Return the nanoseconds of a pixel pair and layer of a full Gram, the better of two."""
    s = BASE | sizes
    rng = np.random.default_rng(0)
    X, Z = (rng.standard_normal((s["n"], 4, s["d"])) for _ in range(2))
    network = rk.Network(s["depth"], s["filter_size"])
    options = {"head": s["head"], "kinds": BOTH, "engine": engine, "dtype": dtype}
    times = []
    for _ in range(3):
        start = time.perf_counter()
        rk.gram(network, X, Z, **options)
        times.append(time.perf_counter() - start)
    entries = s["n"] ** 2 * s["d"] ** (2 if s["head"] == "gap" else 1) * s["depth"]
    return 1e9 * min(times[1:]) / entries


def measure(engines: list[str], quick: bool = False) -> Row:
    """Return costs of an entry, times the limit, and the sweeps.

    Costs are medians of 7 interleaved rounds.
    """
    report: Row = {"limit_ns": {}, "per_entry": {}, "times_limit": {}, "sweeps": []}
    for engine, dtype, (head, n) in product(engines, DTYPES, (("gap", 40), ("trace", 512))):
        name = f"{engine} {dtype} {head}"
        calls = {"spent": partial(nanoseconds, engine, dtype, head=head, n=n)}
        if engine == "numba":
            import limit
            import numba

            threads = numba.config.NUMBA_NUM_THREADS
            calls["least"] = partial(limit.nanoseconds, dtype, threads)
        ns = harness.interleaved(calls, 1 if quick else 7)
        report["per_entry"][name] = float(np.median(ns["spent"]))
        if engine == "numba":
            report["limit_ns"][dtype] = float(np.median(ns["least"]))
            report["times_limit"][name] = harness.median_ratio(ns["spent"], ns["least"])
    for engine, (name, sizes) in product(engines, SWEEPS.items()):
        for size in sizes[:2] if quick else sizes:
            ns = nanoseconds(engine, "float64", **size)
            report["sweeps"].append({"engine": engine, "sweep": name, **(BASE | size), "ns": ns})
    return report


def lines(report: Row) -> list[str]:
    out = ["Nanoseconds per pixel pair and layer, all threads together, d = 100, q = 3:", ""]
    for name, value in report["per_entry"].items():
        engine, dtype, head = name.split()
        text = f"* {engine}, {dtype}, {head}: {value:.2f}"
        if engine == "numba":
            bound, times = report["limit_ns"][dtype], report["times_limit"][name]
            text += f"; {times:.1f} times the limit of {bound:.2f}"
        out.append(text)
    return out


def draw(report: Row) -> Any:
    """Return a figure of ns per pixel pair and layer against each size: flat lines are wanted."""
    from rescntk import plots
    from rescntk.plots import style

    figure = plots.figure((9.0, 6.4))
    axes = figure.subplots(2, 2, sharey=True)
    names = {"d": "length d", "n": "signals n", "depth": "depth", "filter_size": "filter size q"}
    for ax, (sweep, label) in zip(axes.flat, names.items(), strict=True):
        looks = style.looks(report["engines"])
        for (engine, colour, marker, _), (head, line) in product(
            looks, (("gap", "-"), ("trace", "--"))
        ):
            points = [
                (p[sweep], p["ns"])
                for p in report["sweeps"]
                if (p["engine"], p["sweep"], p["head"]) == (engine, sweep, head)
            ]
            if points:
                ax.plot(*zip(*points, strict=True), line, color=colour, marker=marker,
                        markersize=4, label=f"{engine}, {head}")  # fmt: skip
        if report["limit_ns"]:
            ax.axhline(report["limit_ns"]["float64"], linestyle=":", color="black", label="limit")
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.xaxis.set(major_formatter="{x:g}", minor_formatter="")
        ax.yaxis.set_major_formatter("{x:g}")
        style.tidy(ax)
    for ax in axes[:, 0]:
        ax.set_ylabel("ns per pixel pair and layer")
    place = {"loc": "center", "bbox_to_anchor": (0.5, 0.6), "ncols": 2}  # between the curves
    axes[0, 0].legend(fontsize="small", frameon=False, **place)
    base = ", ".join(f"{key} = {value}" for key, value in BASE.items() if key != "head")
    figure.suptitle(
        f"GPK and NTK, float64, {report['machine']['cores']} cores; else GAP, {base}",
        fontsize="medium",
    )
    return figure
