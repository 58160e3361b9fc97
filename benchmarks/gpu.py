"""The engine "cuda" on one GPU: errors, equal bits, times, and others beside it.

    python benchmarks/gpu.py [--quick] [--limit SECONDS] [--out FOLDER]

GPK and NTK are computed in one call, from CuPy's arrays to CuPy's if a part says nothing else. Each
row, or its error, is written to gpu.json at once. After the limit no row is begun. The next run
goes on from there; it also repeats rows that failed, after all others.
"""

import argparse
import datetime
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from itertools import product, takewhile
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any
from unittest import mock

import harness
import numpy as np
import peers
from classification_methods import OUR_CLASSIFIER
from harness import Row, timed

import rescntk as rk
from rescntk.engines.cuda import selfcheck

DTYPES, DEPTH, CHANNELS, FILTERS, ROUNDS = ("float32", "float64"), 9, 4, (1, 3, 9), 5
SIZES = ("n", "d", "q", "dtype")
Values = dict[str, float]
HERE = Path(__file__).parent
PEER = [sys.executable, "-P", str(HERE / "peers.py"), "jax", "gpu"]
PEER_SECONDS = 150.0  # of a call, several times what JAX takes to compile
AGREE = {"float32": 1e-4, "float64": 1e-10}  # largest relative difference of JAX's kernels

GOALS: dict[str, tuple[Row, float, float]] = {
    "largest error in √(K_ii K_jj), at most": ({"part": "errors"}, 1e-6, 1e-14),
    "numbers that other batches change, at most": ({"part": "bits"}, 0, 0),
    "seconds of 10 signals, at most": ({"part": "times", "n": 10}, 0.003, 0.003),
    "seconds of 100 signals, at most": ({"part": "times", "n": 100}, 0.005, 0.005),
    "seconds of 10,000 signals, at most": ({"part": "large"}, 30, 70),
    "seconds of the first use, at most": ({"part": "first_use"}, 20, 20),
    "times faster than JAX, at least": ({"part": "peer"}, 10, 10),
}
"""Rows, and bars of their worst value in float32 and float64, on an H100 or H200."""


def plan(quick: bool) -> list[Row]:
    """Return the rows, the most telling first."""
    d, n, few, many = (12, 4, 4, 5) if quick else (128, 500, 20, 10_000)
    lengths = {6: 4, 30: 2} if quick else {32: 2000, 128: 500, 512: 125, 1000: 64, 4096: 16}
    images = {"n": 3, "d": 4**2} if quick else {"n": 64, "d": 16**2}
    batches = {6: 4} if quick else {32: 512, 128: 128}  # 2**28 pixel pairs are JAX's best

    def times(n: int, d: int = d, **more: Any) -> Row:
        return {"part": "times", "head": "gap", "n": n, "d": d, "q": 3, "signals": "random"} | more

    def both(*rows: Row) -> list[Row]:
        return [row | {"dtype": dtype} for row in rows for dtype in DTYPES]

    return [
        *both({"part": "errors", "n": few, "d": d}, {"part": "bits", "n": few, "d": d}),
        *both(*(times(n, q=q, signals="all kinds") for q in FILTERS)),
        *both(*(times(m) for m in ((3,) if quick else (10, 100)))),
        *both({"part": "large", "n": many, "d": d}),
        *both(*(times(m, length) for length, m in lengths.items())),
        *both(times(n * 10, head="trace")),
        {"part": "first_use"},
        *both({"part": "classifier", "n": 12 if quick else 800, "d": 10 if quick else 100}),
        *both(*({"part": "beyond", "case": x, **images} for x in ("images", "biases", "shares"))),
        *both(*({"part": "peer", "d": m, "n": lengths[m], "batch": batches[m]} for m in batches)),
    ]


def kinds_of_signals(n: int, d: int) -> dict[str, np.ndarray]:
    """Return n signals of each kind that people have, (n, channels, d)."""
    rng, t = np.random.default_rng(0), np.arange(d) / d
    random, noise = rng.standard_normal((2, n, CHANNELS, d))
    cycles, phase = rng.uniform(1, 9, (n, 1, 1)), rng.uniform(size=(n, 1, 1))
    start, end = rng.uniform(0.2, 0.4, (n, 1, 1)), rng.uniform(0.6, 0.8, (n, 1, 1))
    return {
        "random": random,
        "sines of one channel": np.sin(2 * np.pi * (cycles * t + phase)),
        "random walks": noise.cumsum(axis=2),
        "smooth bumps": np.tanh((t - start) / 0.05) - np.tanh((t - end) / 0.05) - 0.8,
        "near copies": random[:1] * (1 + 1e-6 * noise),
        "proportional": random[:1] * rng.lognormal(size=(n, 1, 1)),
    }


def gram(X: Any, Z: Any = None, q: int = 3, **options: Any) -> Any:
    return rk.gram(rk.Network(DEPTH, q), X, Z, **{"engine": "cuda"} | options)


def on_device(X: np.ndarray) -> Any:
    return import_module("cupy").asarray(X)


def clock(call: Callable[[], Any]) -> float:
    """Return the seconds of a call, until the GPU is idle."""
    idle = import_module("cupy").cuda.get_current_stream().synchronize
    return timed(lambda: (call(), idle()), perf_counter)[1]


def medians(calls: dict[str, Callable[[], Any]]) -> Values:
    """Return median seconds of calls in turn; first calls, which may compile, do not count."""
    clocks = {name: partial(clock, call) for name, call in calls.items()}
    taken = harness.interleaved(clocks, 1 + ROUNDS)
    return {name: float(np.median(seconds[1:])) for name, seconds in taken.items()}


# -- the parts: each is a function of a row's sizes, and returns named values


def errors(n: int, d: int, dtype: str) -> Values:
    """Largest |ΔK| / √(K_ii K_jj) of each kind of signals, against another engine in float64."""
    engine = "cpu" if rk.engines.available()["cpu"] is True else "array"
    worst = dict.fromkeys(kinds_of_signals(1, 1), 0.0)
    for (name, X), q in product(kinds_of_signals(n, d).items(), FILTERS):
        exact = np.array(gram(X, q=q, engine=engine))
        root = np.sqrt(exact.diagonal(axis1=1, axis2=2))
        relative = np.abs(gram(X, q=q, dtype=dtype) - exact) / (root[:, None] * root[:, :, None])
        worst[name] = float(np.maximum(worst[name], relative.max()))  # NaN stays
    return worst


def bits(n: int, d: int, dtype: str) -> Values:
    """Numbers of K(X)[:3] that differ in K(X[:3], X), normalized and not."""
    differ = dict.fromkeys(kinds_of_signals(1, 1), 0.0)
    for (name, X), normalized in product(kinds_of_signals(n, d).items(), (False, True)):
        call = partial(gram, normalized=normalized, dtype=dtype)
        differ[name] += int((np.array(call(X))[:, :3] != call(X[:3], X)).sum())
    return differ


def times(head: str, n: int, d: int, q: int, signals: str, dtype: str) -> Values:
    """Seconds of Grams of each kind of signals."""
    call, kinds = partial(gram, q=q, head=head, dtype=dtype), kinds_of_signals(n, d)
    batches = {x: on_device(kinds[x]) for x in kinds if signals in (x, "all kinds")}
    return medians({name: partial(call, X) for name, X in batches.items()})


def large(n: int, d: int, dtype: str) -> Values:
    """Seconds from NumPy's arrays to NumPy's, once."""
    X = peers.signals(n, CHANNELS, d)[0]
    gram(X[:64], dtype=dtype)  # compiled before the clock runs
    return {"cuda": clock(partial(gram, X, dtype=dtype))}


def available() -> float:
    """Return the seconds until this process knows its engines; without a GPU it ends."""
    engines, seconds = timed(rk.engines.available, perf_counter)
    if engines["cuda"] is not True:
        sys.exit(f"not measured: {engines['cuda']}")
    return seconds


def first_use() -> Values:
    """Seconds of a process for which nothing was compiled, and of the next process."""
    with tempfile.TemporaryDirectory() as path, mock.patch.dict(os.environ, CUPY_CACHE_DIR=path):
        return {
            name: harness.in_own_process(available) for name in ("first process", "next process")
        }


def classifier(n: int, d: int, dtype: str) -> Values:
    """Seconds to fit a classifier."""
    X = kinds_of_signals(n, d)["random walks"]
    y, taken = X[:, 0, -1] > 0, {}
    for engine in ("cuda", "cpu"):
        model = harness.call_by_name(OUR_CLASSIFIER, engine=engine, dtype=dtype, random_state=0)
        model.fit(X[:40], y[:40])  # compiled before the clock runs
        taken[engine] = clock(partial(model.fit, X, y))
    return taken


def beyond(case: str, n: int, d: int, dtype: str) -> Values:
    """Seconds of images, biases or shares of pixels, and of the engine "array" on the GPU."""
    shape = (round(d**0.5),) * 2 if case == "images" else d
    X = on_device(peers.signals(n, CHANNELS, shape)[0])
    network = rk.Network(DEPTH, 3, bias=0.1 if case == "biases" else 0.0)
    call = partial(rk.pixel_shares if case == "shares" else rk.gram, network, X, dtype=dtype)
    return medians({engine: partial(call, engine=engine) for engine in ("cuda", "array")})


def peer(d: int, n: int, batch: int, dtype: str) -> Values:
    """Seconds of a pair of X and Z: ours of n signals with n, JAX's of a batch with a batch."""
    request = {
        "dtype": dtype,
        "head": "gap",
        "depth": DEPTH,
        "q": 3,
        "channels": CHANNELS,
        "d": d,
        "n": batch,
        "seed": 0,
        "calls": ROUNDS,
        "enough": 2.0,
    }
    # Else JAX would take most of the GPU's memory at once.
    options = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    with closing(harness.Worker(PEER, PEER_SECONDS, **options)) as worker:
        reply = worker.ask(request, PEER_SECONDS)
    X, Z = peers.signals(batch, CHANNELS, d)
    corner = gram(X[:2], Z[:2], dtype=dtype)
    if not np.allclose(corner, [reply["gpk"], reply["ntk"]], rtol=AGREE[dtype], atol=0):
        raise ArithmeticError(f"JAX has other kernels: {reply}, expected {corner}")
    X, Z = map(on_device, peers.signals(n, CHANNELS, d))
    seconds = medians({"cuda": partial(gram, X, Z, dtype=dtype)})["cuda"]
    return {"cuda": seconds / n**2, "JAX": float(np.median(reply["seconds"])) / batch**2}


FUNCTIONS = (errors, bits, times, large, first_use, classifier, beyond, peer)
PARTS: dict[str, Callable[..., Values]] = {part.__name__: part for part in FUNCTIONS}


# -- the run and its page


def machine(cupy: Any, quick: bool) -> Row:
    runtime, engines = cupy.cuda.runtime, sorted((HERE.parent / "rescntk/engines").rglob("*"))
    text = b"".join(path.read_bytes() for path in engines if path.suffix in (".py", ".h", ".cu"))
    return harness.machine() | {
        "hardware": runtime.getDeviceProperties(runtime.getDevice())["name"].decode(),
        "cupy": cupy.__version__,
        "engines_sha256": hashlib.sha256(text).hexdigest()[:16],
        "date": datetime.date.today().isoformat(),
        "sizes": "toy" if quick else "full",
    }


def measured(spec: Row) -> Row:
    """Return the values of a row, or its error and whether the GPU is lost to this process."""
    import_module("cupy").get_default_memory_pool().free_all_blocks()  # for other processes
    start, (_, *sizes) = monotonic(), spec
    try:
        outcome: Row = {"values": PARTS[spec["part"]](**{name: spec[name] for name in sizes})}
    except Exception as error:
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
        outcome = {"error": words, "lost": selfcheck.loses_device(error)}
    return outcome | {"wall": monotonic() - start}


def measure(asked: argparse.Namespace, path: Path) -> None:
    """Measure what the file lacks, while there is time and the GPU is not lost."""
    end = monotonic() + asked.limit
    available()
    about = machine(import_module("cupy"), asked.quick)
    report = harness.load_or_begin(path, about, ("hardware", "engines_sha256", "sizes"))
    failed = [row for row in report["rows"] if "error" in row]
    rows = report["rows"] = [row for row in report["rows"] if "error" not in row]
    specs = sorted(plan(asked.quick), key=lambda spec: bool(harness.row_of(failed, spec)))
    todo = takewhile(lambda _: monotonic() < end and not (rows and rows[-1].get("lost")), specs)
    harness.measure_specs(path, report, rows, todo, measured)


def goals(report: Row) -> Iterator[tuple[Any, ...]]:
    """Yield each goal with the worst value of each row that it is about."""
    specs = plan(report["machine"]["sizes"] == "toy")
    for (name, (like, *bars)), spec in product(GOALS.items(), specs):
        if like.items() <= spec.items():
            bar, value, verdict = bars[spec.get("dtype") == "float64"], "", "not measured"
            if values := harness.row_of(report["rows"], spec).get("values"):
                faster = like["part"] == "peer"
                worst = values["JAX"] / values["cuda"] if faster else np.max([*values.values()])
                met = worst >= bar if faster else worst <= bar
                value, verdict = f"{worst:.3g}", "met" if met else "missed"
            yield name, spec.get("d", ""), spec.get("dtype", ""), value, bar, verdict


def picoseconds(row: Row, seconds: float) -> str:
    """Return picoseconds of a pixel pair, or of a pixel (trace), and layer of a Gram."""
    if axes := {"gap": 2, "trace": 1}.get(row.get("head", "")):
        entries = row["n"] * (row["n"] + 1) / 2 * row["d"] ** axes * DEPTH
        return f"{1e12 * seconds / entries:.2f}"
    return ""


def page(report: Row) -> str:
    about, rows = report["machine"], [row for row in report["rows"] if "values" in row]
    taken = [
        (
            row.get("case", row.get("head", row["part"])),
            *(row.get(x, "") for x in SIZES),
            name,
            f"{s:.3g}",
            f"{s / next(iter(row['values'].values())):.2f}",
            picoseconds(row, s),
        )
        for row in rows
        if row["part"] not in ("errors", "bits")
        for name, s in row["values"].items()
    ]
    missing = [
        f"* {', '.join(map(str, spec.values()))}: {row.get('error', 'not begun')}"
        for spec in plan(about["sizes"] == "toy")
        if "values" not in (row := harness.row_of(report["rows"], spec))
    ]
    return harness.page(
        "# Speed on a GPU",
        f"GPK and NTK of a ResNet of depth {DEPTH}. {about['hardware']}, CuPy {about['cupy']}, "
        f"{about['date']}, {about['sizes']} sizes. Goals are of one H100 or H200, full sizes.",
        harness.table(("measure", "d", "dtype", "value", "goal", ""), goals(report), (0, 2, 5)),
        "Seconds of symmetric Grams (gap, trace), of a pair of signals (peer), and of other work. "
        "Ratios are to the first line of a group. Picoseconds (ps) are of a pixel pair and layer, "
        "for trace of a pixel and layer.",
        harness.table(("", *SIZES, "", "seconds", "ratio", "ps"), taken, (0, 4, 5)),
        ["Not measured:", "", *missing] if missing else "",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    limit = {"type": float, "default": 480.0, "help": "seconds after which no row is begun"}
    harness.script(__doc__, "gpu.json", measure, page, arguments=arguments, limit=limit)


if __name__ == "__main__":
    main()
