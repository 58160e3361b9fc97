"""Engines for the CPU against neural-tangents, side by side in one run on the same inputs.

    python benchmarks/cpu.py [--quick]

The peer lives in an environment of its own, which the script makes: neural-tangents does not run
on later versions of JAX. For each case every contestant first looks for the batch at which it is
fastest per pair. Then all contestants take turns, and medians over the turns are compared.
"""

import datetime
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Row
from peers import signals

import rescntk as rk
from rescntk.validation import KINDS, PARTS

PEER = ["neural-tangents==0.6.5", "jax==0.4.35", "jaxlib==0.4.35", "tf2jax==0.3.6"]
DEPTH, CHANNELS, DTYPES = 5, 4, ("float64", "float32")
CASES = [(head, d, q) for head in ("gap", "trace") for d in (32, 100, 200) for q in (3, 9)]
BATCHES = {"gap": (1, 2, 4, 8, 16, 32), "trace": (16, 64, 128, 256)}
OUR_BATCHES = {"gap": (16, 32, 96, 256), "trace": (128, 512, 1024)}
LONGEST_CALL = 4.0
"""Longest expected seconds of a call. Chosen: larger batches are no faster per pair."""

PEER_SECONDS = 3600.0  # of a call, compilation included, before it counts as failed
Contestant = Callable[[Row], Row]  # answers a request as peers.py does


def peers() -> dict[str, harness.Worker]:
    """Return the peer for each dtype. Its environment is made if it is not there."""
    here = Path(__file__).parent
    folder, python = here / ".peer", here / ".peer/bin/python"
    if not (folder / "installed").exists():
        harness.say("making the peer's environment …")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEER], check=True)
        (folder / "installed").touch()
    words = [python, here / "peers.py", "neural-tangents", "cpu"]
    environment = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {dtype: harness.Worker(words, PEER_SECONDS, **environment) for dtype in DTYPES}


def contestants(
    workers: dict[str, harness.Worker], engines: Sequence[str]
) -> dict[str, Contestant]:
    found: dict[str, Contestant] = {
        f"peer {dtype}": partial(worker.ask, timeout=PEER_SECONDS)
        for dtype, worker in workers.items()
    }
    pairs = product(engines, DTYPES)
    return found | {f"{e} {dtype}": partial(ours, e, trained=PARTS) for e, dtype in pairs}


def ours(engine: str, r: Row, **trained: Any) -> Row:
    X, Z = signals(r["n"], r["channels"], r["d"], r["seed"])
    network = rk.Network(r["depth"], r["q"], **trained)
    options = {"head": r["head"], "engine": engine, "dtype": r["dtype"]}
    times = []
    for _ in range(1 + r["calls"]):
        start = time.perf_counter()
        gpk, ntk = rk.gram(network, X, Z, **options)
        times.append(time.perf_counter() - start)
    return {"seconds": times[1:], "gpk": gpk[:2, :2], "ntk": ntk[:2, :2]}


def ask(who: Contestant, dtype: str, case: tuple, n: int, calls: int = 1, seed: int = 0) -> Row:
    """Return a contestant's answer for n signals with n; its first call is not timed."""
    head, d, q = case
    sizes = {"depth": DEPTH, "q": q, "channels": CHANNELS, "d": d, "n": n}
    request = {"dtype": dtype, "head": head, "seed": seed, "calls": calls, "enough": PEER_SECONDS}
    return who(request | sizes)


def best_batch(who: Contestant, dtype: str, case: tuple, batches: tuple[int, ...]) -> int:
    found: dict[int, float] = {}
    for n in batches:
        if found and min(found.values()) * n**2 > LONGEST_CALL:
            break
        try:
            found[n] = min(ask(who, dtype, case, n, calls=2)["seconds"]) / n**2
        except ChildProcessError:  # out of memory
            break
    return min(found, key=found.__getitem__)


def race(contestants: dict[str, Contestant], case: tuple, rounds: int) -> Row:
    """Return median nanoseconds a pair, batches and the largest disagreement in one case."""
    batches, turns, corners = {}, {}, {}
    for name, who in contestants.items():
        dtype = name.split()[1]
        sizes = (BATCHES if name.startswith("peer") else OUR_BATCHES)[case[0]]
        n = batches[name] = best_batch(who, dtype, case, sizes)
        # A turn's first call is not timed: other contestants have cooled the caches.
        turns[name] = lambda who=who, dtype=dtype, n=n: (
            ask(who, dtype, case, n)["seconds"][0] / n**2
        )
        corners[name] = ask(who, dtype, case, 2, seed=1)
    times = harness.interleaved(turns, rounds)
    first = next(iter(corners.values()))
    worst = {
        name: max(float(np.abs(np.divide(K[kind], first[kind]) - 1).max()) for kind in KINDS)
        for name, K in corners.items()
    }
    return {
        "case": dict(zip(("head", "d", "filter_size"), case, strict=True)),
        "batch": batches,
        "ns_per_pair": {name: 1e9 * float(np.median(t)) for name, t in times.items()},
        "relative_difference": worst,
    }


# -- cost of a pixel pair and layer: against the limit, and at any size

BASE = {"head": "gap", "d": 100, "n": 40, "depth": DEPTH, "filter_size": 3}
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
    request = {"q": s["filter_size"], "channels": CHANNELS, "dtype": dtype, "seed": 0, "calls": 2}
    entries = s["n"] ** 2 * s["d"] ** (2 if s["head"] == "gap" else 1) * s["depth"]
    return 1e9 * min(ours(engine, s | request)["seconds"]) / entries


def costs(engines: list[str], quick: bool) -> Row:
    """Return costs of an entry, medians of 7 rounds; times the limit; and the sweeps."""
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


def cost_lines(report: Row) -> list[str]:
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


# -- the report


def race_table(races: Sequence[Row], engines: Sequence[str]) -> list[str]:
    """Return a table of microseconds, and of gains over the better peer."""
    rows = []
    for row in races:
        ns = row["ns_per_pair"]
        peers = [ns[f"peer {dtype}"] for dtype in DTYPES]
        for engine in engines:
            times = [ns[f"{engine} {dtype}"] for dtype in DTYPES]
            microseconds = [[f"{value / 1e3:.4g}" for value in who] for who in (peers, times)]
            gains = (f"{min(peers) / value:.2f}" for value in times)
            head, d, q = row["case"].values()
            size = " × ".join(map(str, np.atleast_1d(d)))
            rows.append((head, size, q, *microseconds[0], engine, *microseconds[1], *gains))
    header = (
        "head", "d", "q", "peer float64", "peer float32", "engine", *DTYPES,
        "gain float64", "gain float32",
    )  # fmt: skip
    return harness.table(header, rows, left=(0, 5))


def table(report: Row) -> str:
    m = report["machine"]
    return harness.page(
        "# Speed on the CPU against neural-tangents",
        f"GPK and NTK of a ResNet, depth {DEPTH}, {CHANNELS} channels, per pair of `gram(X, Z)`. "
        f"{m['processor']}, {m['cores']} cores; Python {m['python']}, NumPy {m['numpy']}; "
        f"neural-tangents 0.6.5 on JAX {report['jax']}. Medians of {report['rounds']} interleaved "
        f"rounds, each at its best batch; {m['date']}.",
        "Columns: microseconds; gain: how many times faster than the better peer.",
        race_table(report["cases"], report["engines"]),
        cost_lines(report),
    )


def main() -> None:
    options = harness.options(__doc__)
    rounds = 2 if options.quick else 5
    engines = [name for name, state in rk.engines.available().items() if state is True]
    workers = peers()
    all_of_them = contestants(workers, engines)
    today = {"system": platform.system(), "date": datetime.date.today().isoformat()}
    report = {
        "machine": harness.machine() | today,
        "jax": workers["float64"].version,
        "engines": engines,
        "depth": DEPTH,
        "channels": CHANNELS,
        "rounds": rounds,
        "cases": [],
    }
    for case in CASES[:1] if options.quick else CASES:
        report["cases"].append(race(all_of_them, case, rounds))
        harness.say(report["cases"][-1])
    report |= costs(engines, options.quick)
    harness.save(options.out / "cpu.json", report)
    harness.publish(options.out / "cpu.md", table(report), draw(report))


if __name__ == "__main__":
    main()
