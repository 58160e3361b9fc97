"""Engines for the CPU against neural-tangents, side by side in one run on the same inputs.

    python benchmarks/cpu.py [--quick] [--part races|avx2|sweeps|real|vectors]

The peer lives in an environment of its own, which the script makes: neural-tangents does not run
on later versions of JAX. For each case every contestant first looks for the batch at which it is
fastest per pair. Then all contestants take turns, and medians over the turns are compared. Results
of a second processor, of another --out, are kept as cpu_intel.json.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Row, Worker
from peers import signals

import rescntk as rk
from rescntk.checks.values import KINDS, PARTS
from rescntk.datasets import load_labelled
from rescntk.engines.cpu import build, library

PEER = ["neural-tangents==0.6.5", "jax==0.4.35", "jaxlib==0.4.35", "tf2jax==0.3.6"]
DEPTH, CHANNELS, DTYPES = 5, 4, ("float64", "float32")
CASES = [(head, 100, q) for head in ("trace", "gap") for q in (3, 9)]
BATCHES = {"gap": (1, 2, 4, 8, 16, 32), "trace": (16, 64, 128, 256)}
OUR_BATCHES = {"gap": (16, 32, 96, 256), "trace": (128, 512, 1024)}
ROUNDS = 3
LONGEST_CALL = 4.0
"""Longest expected seconds of a call. Chosen: larger batches are no faster per pair."""

PEER_SECONDS = 3600.0  # of a call, compilation included, before it counts as failed
Contestant = Callable[[Row], Row]  # answers a request as peers.py does
Case = tuple[str, int, int]  # head, time points, filter size


def peers() -> dict[str, Worker]:
    """Return the peer for each dtype. Its environment is made if it is not there."""
    scripts = Path(__file__).parent
    folder, python = scripts / ".peer", scripts / ".peer/bin/python"
    if not (folder / "installed").exists():
        harness.log("making the peer's environment …")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEER], check=True)
        (folder / "installed").touch()
    words = [python, scripts / "peers.py", "neural-tangents", "cpu"]
    environment = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {dtype: Worker(words, PEER_SECONDS, **environment) for dtype in DTYPES}


def contestants(workers: dict[str, Worker], engines: Sequence[str]) -> dict[str, Contestant]:
    answers: dict[str, Contestant] = {
        f"peer {dtype}": partial(worker.ask, timeout=PEER_SECONDS)
        for dtype, worker in workers.items()
    }
    for engine, dtype in product(engines, DTYPES):
        answers[f"{engine} {dtype}"] = partial(our_answer, engine, trained=PARTS)
    return answers


def our_answer(engine: str, r: Row, **trained: Any) -> Row:
    X, Z = signals(r["n"], r["channels"], r["d"], r["seed"])
    network = rk.Network(r["depth"], r["q"], **trained)
    options = {"head": r["head"], "engine": engine, "dtype": r["dtype"]}
    call, times = partial(rk.gram, network, X, Z, **options), []
    for _ in range(1 + r["calls"]):
        (gpk, ntk), seconds = harness.timed(call, time.perf_counter)
        times.append(seconds)
    return {"seconds": times[1:], "gpk": gpk[:2, :2], "ntk": ntk[:2, :2]}


def ask(who: Contestant, dtype: str, case: Case, n: int, calls: int = 1, seed: int = 0) -> Row:
    """Return a contestant's answer for n signals with n; its first call is not timed."""
    head, d, q = case
    sizes = {"depth": DEPTH, "q": q, "channels": CHANNELS, "d": d, "n": n}
    request = {"dtype": dtype, "head": head, "seed": seed, "calls": calls, "enough": PEER_SECONDS}
    return who(request | sizes)


def best_batch(who: Contestant, dtype: str, case: Case, batches: tuple[int, ...]) -> int:
    seconds: dict[int, float] = {}
    for n in batches:
        if seconds and min(seconds.values()) * n**2 > LONGEST_CALL:
            break
        try:
            seconds[n] = min(ask(who, dtype, case, n, calls=2)["seconds"]) / n**2
        except ChildProcessError:  # out of memory
            break
    return min(seconds, key=seconds.__getitem__)


def race(contestants: dict[str, Contestant], case: Case, rounds: int) -> Row:
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


# -- cost of a pixel pair and layer

LENGTHS = (16, 32, 64, 128, 256)
BASE: Row = {"head": "gap", "d": 100, "n": 40, "depth": DEPTH, "filter_size": 3}
SWEEPS: dict[str, list[Row]] = {
    "d": [
        *({"head": "gap", "d": d, "n": max(2, 4000 // d)} for d in (*LENGTHS, 1000, 2000, 5000)),
        *({"head": "trace", "d": d, "n": 160} for d in (*LENGTHS, 1024, 4096)),
    ],
    "n": [{"n": n} for n in (5, 10, 20, 40, 80)],
    "depth": [{"depth": depth} for depth in (1, 2, 5, 10, 20, 50)],
    "filter_size": [{"filter_size": q} for q in (1, 3, 5, 7, 9, 15, 31, 63)],
}


def sweeps(quick: bool) -> Iterator[Row]:
    """Yield nanoseconds of a pixel pair and layer of Grams on one thread, the best of four."""
    for dtype, (name, sizes) in product(DTYPES, SWEEPS.items()):
        for s in [BASE | size for size in (sizes[:2] if quick else sizes)]:
            yield {"dtype": dtype, "sweep": name, **s, "ns": nanoseconds(s, dtype)}


def nanoseconds(s: Row, dtype: str) -> float:
    """Return the cost of a pixel pair and layer of a Gram of some sizes."""
    network = rk.Network(s["depth"], s["filter_size"])
    batches = signals(s["n"], CHANNELS, s["d"], 0)
    options = {"head": s["head"], "dtype": dtype, "engine": "cpu", "threads": 1}
    gram = partial(rk.gram, network, *batches, **options)
    seconds = min(harness.processor_seconds(gram) for _ in range(4))
    entries = s["n"] ** 2 * s["d"] ** (2 if s["head"] == "gap" else 1) * s["depth"]
    return 1e9 * seconds / entries


VECTORS = {2: "SSE4.2" if build.machine() == "x86_64" else "NEON", 3: "AVX2", 4: "AVX-512"}
"""Instruction sets by their level (rescntk/engines/cpu/build.py)."""


def vectors(quick: bool) -> Iterator[Row]:
    """Yield costs with each instruction set that this processor has, as `sweeps`."""
    levels = [level for level in VECTORS if level <= library.level()]
    for level, filter_size in product(levels, (3,) if quick else (3, 9)):
        costs = harness.in_own_process(
            costs_at_level, level, filter_size, 4 if quick else BASE["n"]
        )
        yield {"vectors": VECTORS[level], "filters": filter_size, **costs}


def costs_at_level(level: int, filter_size: int, n: int) -> Row:
    """Return the costs with one instruction set: in a process of its own, which has one alone."""
    os.environ["RESCNTK_ISA"] = str(level)
    sizes = BASE | {"filter_size": filter_size, "n": n}
    return {dtype: f"{nanoseconds(sizes, dtype):.1f} ns" for dtype in DTYPES}


def real(quick: bool) -> Iterator[Row]:
    """Yield costs of an entry of real signals, raw, in entries of random ones of their shape."""
    X = load_labelled("GunPoint")[0]
    random = np.random.default_rng(0).standard_normal(X.shape)
    networks = [(1, 0.0), (9, 0.0), *((3, bias) for bias in (0.0, 1e-6, 0.01, 1.0, 1e3))]
    for dtype, (q, bias) in product(DTYPES, networks):
        network = rk.Network(DEPTH, q, bias=bias)
        gram = partial(rk.gram, network, dtype=dtype, threads=1)
        costs = harness.entry_costs(gram, (X, random), 1 if quick else 7)
        ratio = f"{harness.median_ratio(*costs):.2f}"
        yield {"dtype": dtype, "q": q, "bias": f"{bias:g}", "kernels": ratio}


HEADS = {"gap": "-", "trace": "--"}  # and how lines look


def draw(report: Row) -> Any:
    """Return a figure of ns per pixel pair and layer against each size; flat lines are the goal."""
    from rescntk import plots
    from rescntk.plots import style

    figure = plots.figure((9.0, 6.8))
    axes = figure.subplots(2, 2, sharey=True)
    names = {"d": "length d", "n": "signals n", "depth": "depth", "filter_size": "filter size q"}
    for ax, (sweep, label) in zip(axes.flat, names.items(), strict=True):
        colours = list(style.style_cycle(DTYPES))
        for (dtype, colour, marker, _), (head, line) in product(colours, HEADS.items()):
            points = [
                (p[sweep], p["ns"])
                for p in report["sweeps"]
                if (p["dtype"], p["sweep"], p["head"]) == (dtype, sweep, head)
            ]
            if points:
                ax.plot(
                    *zip(*points, strict=True),
                    line,
                    color=colour,
                    marker=marker,
                    markersize=4,
                    label=f"{head}, {dtype}",
                )
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.xaxis.set(major_formatter="{x:g}", minor_formatter="")
        ax.yaxis.set_major_formatter("{x:g}")
        style.style_axes(ax)
    for ax in axes[:, 0]:
        ax.set_ylabel("ns per pixel pair and layer")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    base = ", ".join(f"{key} = {value}" for key, value in BASE.items() if key != "head")
    title = "Time of a pixel pair and layer: GPK and NTK in one call, one thread"
    figure.suptitle(f"{title}\nWhere the axis does not say otherwise, {base}", fontsize="medium")
    return figure


# -- the report


def race_table(races: Sequence[Row]) -> list[str]:
    """Return a table of microseconds, and of gains over the better peer."""
    engines = dict.fromkeys(who.split()[0] for who in races[0]["batch"])
    rows = []
    for row in races:
        ns = row["ns_per_pair"]
        peers = [ns[f"peer {dtype}"] for dtype in DTYPES]
        for engine in [name for name in engines if name != "peer"]:
            times = [ns[f"{engine} {dtype}"] for dtype in DTYPES]
            microseconds = [[f"{value / 1e3:.4g}" for value in who] for who in (peers, times)]
            gains = (f"{min(peers) / value:.2f}" for value in times)
            head, d, q = row["case"].values()
            size = " × ".join(map(str, np.atleast_1d(d)))
            rows.append((head, size, q, *microseconds[0], engine, *microseconds[1], *gains))
    header = (
        "head",
        "d",
        "q",
        "baseline float64",
        "baseline float32",
        "engine",
        *DTYPES,
        "gain float64",
        "gain float32",
    )
    return harness.table(header, rows, left=(0, 5))


def base_cost(report: Row) -> str:
    """Return the nanoseconds of a pixel pair and layer of the base case in both precisions."""
    rows = [row for row in report["sweeps"] if row["sweep"] == "n" and row["n"] == BASE["n"]]
    return " and ".join(f"{row['ns']:.1f} ns in {row['dtype']}" for row in rows)


def table(report: Row) -> str:
    m = report["machines"]["races"]
    return harness.page(
        f"# Speed on the CPU against neural-tangents: {m['processor'].replace('(R)', '')}",
        f"GPK and NTK of a ResNet, depth {DEPTH}, {CHANNELS} channels, per pair of `gram(X, Z)`. "
        f"{harness.machine_in_words(m)}; "
        f"neural-tangents 0.6.5 on JAX 0.4.35. Medians of {ROUNDS} interleaved rounds, each at "
        "its best batch.",
        "Columns: microseconds; gain: how many times faster than the baseline's better time.",
        race_table(report["races"]),
        "The same where both have AVX2 alone:" if report["avx2"] else "",
        race_table(report["avx2"]) if report["avx2"] else "",
        f"A pixel pair and layer, on one thread, takes {base_cost(report)}; GAP, "
        f"{BASE['d']} time points, filters of {BASE['filter_size']}.",
        "The same with each instruction set of this processor:",
        harness.rows_table(report["vectors"], left=(0,)),
        "Kernels of the 50 training signals of GunPoint, raw, in times of random signals of their "
        f"shape, with the same bias; GAP, depth {DEPTH}, one thread, processor time:",
        harness.rows_table(report["real"], left=(0,)),
    )


def races(quick: bool) -> Iterator[Row]:
    """Yield the races of all engines."""
    engines = [name for name, state in rk.engines.available().items() if state is True]
    return races_of(engines, quick)


def races_of(engines: Sequence[str], quick: bool) -> Iterator[Row]:
    """Yield the races of some engines with the peer."""
    all_of_them = contestants(peers(), engines)
    for case in CASES[:1] if quick else CASES:
        yield race(all_of_them, case, 2 if quick else ROUNDS)


def avx2(quick: bool) -> list[Row]:
    """Return races where both sides have AVX2 alone; none on a processor without it."""
    return harness.in_own_process(with_avx2, quick) if library.level() >= 3 else []


def with_avx2(quick: bool) -> list[Row]:
    """Return the races of this process, which limits both sides."""
    os.environ |= {"RESCNTK_ISA": "3", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    return list(races_of(["cpu"], quick))


if __name__ == "__main__":
    measure, option = harness.measure_parts((races, avx2, sweeps, real, vectors))
    harness.script(__doc__, "cpu.json", measure, table, draw, **option)
