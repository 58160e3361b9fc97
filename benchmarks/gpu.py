"""The engine "cuda" against the hardware, the reference engine on CuPy arrays, and JAX.

    python benchmarks/gpu.py [--quick]

Three parts, on one GPU. (1) Picoseconds of a pixel pair and layer, GPK and NTK, q = 3, against the
bound of the issue slots: warps' instructions of a layer as counted in the compiled kernel
(tests/nvrtc.py), at the clock that was measured. (2) Milliseconds of a Gram for n signals of d
time points and filters q, against the reference engine on the same CuPy arrays, and against the
kernel written the usual way in JAX: jitted, float32 and float64, with tensors of all pixel pairs.
Both peers run on as many signals as they manage within memory and time, and are compared by the
time of a pair. (3) The Gram of 10 000 signals.

Written to benchmarks/results/gpu.json with the hardware's name. Nothing is written without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rescntk as rk
from rescntk.engines import cuda

HERE = Path(__file__).parent
DEPTH, CHANNELS = 9, 4
BOTH = ("gpk", "ntk")
DTYPES = ("float32", "float64")
LANES_PER_CLOCK = 4 * 32  # of a multiprocessor: what its four schedulers issue

TARGETS = {
    "picoseconds": {"float32": 3.0, "float64": 8.0},
    "share_of_bound": {"float32": 0.5, "float64": 0.5},
    "times_the_better_peer": {"float32": 8.0, "float64": 5.0},
    "seconds_of_10000": {"float32": 25.0, "float64": 60.0},
}


def median_seconds(cupy: Any, call: Callable[[], object], repeats: int) -> float:
    """Return the median time of calls, by the GPU's own clock; the first is not counted."""
    call()
    times = []
    for _ in range(repeats):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return statistics.median(times)


def clock(index: int) -> float:
    """Return the multiprocessors' clock in Hz, as it is now: to be asked under load."""
    query = ["nvidia-smi", f"--id={index}", "--query-gpu=clocks.sm", "--format=csv,noheader"]
    answer = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    return 1e6 * float(re.search(r"\d+", answer)[0])


def slots(dtype: str, architecture: str) -> dict[str, float]:
    """Return issue slots, and slots of the FP64 units, of a pixel pair and layer."""
    sys.path.insert(0, str(HERE.parent))
    from tests import nvrtc

    launch = cuda.plan(128, (3, 3), dtype, BOTH, "gap")
    cubin = nvrtc.compile_kernels([launch.name], architecture)
    mark = {"float32": "MUFU.SQRT", "float64": "MUFU.RSQ64H"}[dtype]
    with tempfile.TemporaryDirectory() as folder:
        layer = nvrtc.shortest_round(*nvrtc.disassemble(cubin, Path(folder)), mark)
    double = sum(one.startswith(("DADD", "DMUL", "DFMA", "DSETP")) for one in layer)
    return {"issued": len(layer) / launch.pixels, "fp64": 2 * double / launch.pixels}


def signals(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(n + d).standard_normal((n, CHANNELS, d))


def arithmetic(cupy: Any, repeats: int) -> list[dict]:
    """Part 1: time of an entry and layer, from Grams of two depths (tables and launch cancel)."""
    rows = []
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    architecture = f"sm_{properties['major']}{properties['minor']}"
    for dtype in DTYPES:
        n, d = 1024, 128
        X, Z = (cupy.asarray(signals(n, d)[k:]) for k in (0, n // 2))

        def seconds(depth: int, X: Any = X, Z: Any = Z, dtype: str = dtype) -> float:
            network = rk.Network(depth)
            return median_seconds(
                cupy, lambda: rk.gram(network, X, Z, engine="cuda", dtype=dtype), repeats
            )

        shallow, deep = seconds(DEPTH), seconds(2 * DEPTH)
        # While the GPU is busy, not after it.
        queued = [rk.gram(rk.Network(DEPTH), X, Z, engine="cuda", dtype=dtype) for _ in range(3)]
        hertz = clock(0)
        cupy.cuda.Device().synchronize()
        del queued
        entries = len(X) * len(Z) * d * d * DEPTH
        counted = slots(dtype, architecture)
        per_second = properties["multiProcessorCount"] * LANES_PER_CLOCK * hertz
        bound = max(counted.values()) / per_second
        taken = (deep - shallow) / entries
        rows.append(
            {
                "dtype": dtype,
                "picoseconds": 1e12 * taken,
                "with_tables_and_launch": 1e12 * shallow / entries,
                "slots": counted,
                "clock_mhz": hertz / 1e6,
                "bound_picoseconds": 1e12 * bound,
                "share_of_bound": bound / taken,
            }
        )
    return rows


def jax_gram(depth: int, q: int, dtype: str) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Return the GAP kernels as one would write them: covariances, all pixel pairs at once."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", dtype == "float64")
    half = q // 2

    def box(A: Any) -> Any:
        taps = (jnp.roll(A, (-k, -k), axis=(-2, -1)) for k in range(-half, half + 1))
        return sum(taps) / q

    def diagonals(x: Any) -> list[Any]:
        q1, found = (x * x).sum(axis=-2) / x.shape[-2], []
        for layer in range(depth):
            taps = [jnp.roll(q1, -k, axis=-1) for k in range(-half, half + 1)]
            window = sum(taps) / q if layer else q1
            found.append(window)
            again = [jnp.roll(window, -k, axis=-1) for k in range(-half, half + 1)]
            q1 = q1 + sum(again) / q
        return found

    def activated(one: Any, other: Any, window: Any, tangent: Any) -> tuple[Any, Any]:
        size = jnp.sqrt(one[:, None] * other[None, :])
        rho = jnp.clip(window / size, -1, 1)
        angle = jnp.pi - jnp.arccos(rho)
        K = size * (jnp.sqrt(1 - rho * rho) + angle * rho) / jnp.pi
        return box(K), box(2 * K + angle / jnp.pi * tangent)

    def layer(carry: Any, own: Any) -> Any:
        F, S = carry
        K, source = activated(*own, box(F), box(S))
        return (F + K, S + source), None

    def pair(x: Any, z: Any) -> Any:
        F = jnp.einsum("cj,ck->jk", x, z) / x.shape[0]
        one, other = (jnp.stack(diagonals(signal)) for signal in (x, z))
        K, source = activated(one[0], other[0], F, F)
        (F, S), _ = jax.lax.scan(layer, (F + K, F + source), (one[1:], other[1:]))
        return F.mean(), S.mean()

    one_row = jax.vmap(pair, in_axes=(None, 0))
    rows = jax.jit(jax.vmap(one_row, in_axes=(0, None)))

    def call(X: np.ndarray, Z: np.ndarray) -> Any:
        return rows(jnp.asarray(X, dtype), jnp.asarray(Z, dtype))

    return call


def jax_seconds(n: int, d: int, q: int, dtype: str) -> float | None:
    """Return JAX's seconds of a pair at its best batch: measured in a process of its own."""
    code = f"""
import json, sys, time, numpy as np
sys.path.insert(0, {str(HERE)!r})
import jax, gpu
call = gpu.jax_gram({DEPTH}, {q}, {dtype!r})
found, batch = [], 4
while batch <= {n}:
    X = gpu.signals(batch, {d})
    try:
        jax.block_until_ready(call(X, X[::-1]))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(call(X, X[::-1]))
            times.append(time.perf_counter() - start)
    except Exception as error:  # out of memory, in JAX's words
        break
    found.append(sorted(times)[1] / batch**2)
    if sorted(times)[1] > 5:
        break
    batch *= 2
print(json.dumps(min(found)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return float(json.loads(run.stdout.splitlines()[-1])) if run.returncode == 0 else None


def reference_seconds(cupy: Any, n: int, d: int, q: int, dtype: str) -> float:
    """Return the reference engine's seconds of a pair, on as many pairs as take a few seconds."""
    best, batch = float("inf"), 8
    while batch <= n:
        X = cupy.asarray(signals(batch, d))

        def call(X: Any = X) -> object:
            return rk.gram(rk.Network(DEPTH, q), X, X[::-1], engine="reference", dtype=dtype)

        seconds = median_seconds(cupy, call, 3)
        best = min(best, seconds / batch**2)
        if seconds > 5:
            break
        batch *= 2
    return best


def grams(cupy: Any, quick: bool) -> list[dict]:
    """Part 2: Grams of all sizes, and the peers."""
    rows = []
    sizes = (1000,) if quick else (1000, 2000, 5000, 10000)
    for dtype in DTYPES:
        for d in (32, 64, 128, 256):
            for q in (3, 9):
                peers = {"reference on CuPy": reference_seconds(cupy, 1000, d, q, dtype)}
                by_jax = jax_seconds(1000, d, q, dtype)
                if by_jax is not None:
                    peers["JAX"] = by_jax
                for n in sizes:
                    X = cupy.asarray(signals(n, d))

                    def call(X: Any = X, q: int = q, dtype: str = dtype) -> object:
                        return rk.gram(rk.Network(DEPTH, q), X, engine="cuda", dtype=dtype)

                    seconds = median_seconds(cupy, call, 1 if n > 2000 else 3)
                    pairs = n * (n + 1) / 2
                    row = {
                        "dtype": dtype, "n": n, "d": d, "q": q,
                        "milliseconds": 1e3 * seconds,
                        "peers_milliseconds": {k: 1e3 * v * pairs for k, v in peers.items()},
                        "times_the_better_peer": min(peers.values()) * pairs / seconds,
                        "peers_missing": [] if "JAX" in peers else ["JAX"],
                    }  # fmt: skip
                    rows.append(row)
                    print(json.dumps(row), file=sys.stderr, flush=True)
    return rows


def large(cupy: Any) -> dict[str, float]:
    """Part 3: n = 10 000, d = 128, 9 ReLU layers, GAP, both kernels, from NumPy to NumPy."""
    seconds = {}
    X = signals(10_000, 128)
    for dtype in DTYPES:
        rk.gram(rk.Network(DEPTH), X[:64], engine="cuda", dtype=dtype)
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        rk.gram(rk.Network(DEPTH), X, engine="cuda", dtype=dtype)
        end.record()
        end.synchronize()
        seconds[dtype] = cupy.cuda.get_elapsed_time(start, end) / 1e3
    return seconds


def verdicts(report: dict) -> dict[str, bool]:
    """Return which of the issue's targets, for an H200, are met here."""
    met = {}
    for row in report["arithmetic"]:
        dtype = row["dtype"]
        met[f"picoseconds {dtype}"] = row["picoseconds"] <= TARGETS["picoseconds"][dtype]
        met[f"bound {dtype}"] = row["share_of_bound"] >= TARGETS["share_of_bound"][dtype]
    for dtype in DTYPES:
        least = min(r["times_the_better_peer"] for r in report["grams"] if r["dtype"] == dtype)
        met[f"peers {dtype}"] = least >= TARGETS["times_the_better_peer"][dtype]
        met[f"10000 {dtype}"] = report["large"][dtype] <= TARGETS["seconds_of_10000"][dtype]
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few sizes, no file written")
    options = parser.parse_args()
    state = rk.engines.available()["cuda"]
    if state is not True:
        sys.exit(f"not measured: {state}")
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    report = {
        "hardware": properties["name"].decode(),
        "multiprocessors": properties["multiProcessorCount"],
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "cupy": cupy.__version__,
        "python": platform.python_version(),
        "rescntk": rk.__version__,
        "date": datetime.date.today().isoformat(),
        "depth": DEPTH,
        "channels": CHANNELS,
        "arithmetic": arithmetic(cupy, 3 if options.quick else 9),
        "grams": grams(cupy, options.quick),
        "large": large(cupy),
    }
    report["targets_met"] = verdicts(report)
    text = json.dumps(report, indent=1) + "\n"
    print(text)
    if not options.quick:
        (HERE / "results" / "gpu.json").write_text(text)


if __name__ == "__main__":
    main()
