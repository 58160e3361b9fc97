"""The engine "cuda" against the hardware, the reference engine on CuPy arrays, and JAX.

    python benchmarks/gpu.py [--limit SECONDS] [--part PART ...] [--to FOLDER] [--small] [--draw]

Four parts, on one GPU:

* layer: picoseconds of a pixel pair and layer, GPK and NTK, q = 3, against the bound of the issue
  slots: warps' instructions of a layer as counted in the compiled kernel (tests/nvrtc.py), at the
  clock that the GPU has meanwhile.
* large: the Gram of 10 000 signals, from NumPy's arrays to NumPy's.
* grams: Grams of n signals of d time points and filters q, from CuPy's arrays to CuPy's. A star:
  every d and q for n = 1000, every n for d = 128 and q = 3.
* peers: seconds of a pair of signals for the reference engine on CuPy arrays, with tiles of a size
  for a GPU, and for the kernel written the usual way in JAX (jax_peer.py). Each tries larger and
  larger batches, until they are no faster or do not fit. What they compute is compared with ours.

Every row is written to gpu.json (in benchmarks/results, or the folder said) as soon as it is
measured, or with its error; the next run goes on from there. With a limit, a row is not begun if
it is likely to take longer than what is left. Nothing is written without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gpu_report
import numpy as np
from gpu_rows import (
    CALLS,
    CHANNELS,
    DEPTH,
    ENOUGH,
    ENOUGH_ROUNDS,
    FULL,
    JAX,
    PARTS,
    REFERENCE,
    ROUNDS,
    SMALL,
    Row,
    Sizes,
    estimate,
    plan,
)
from jax_peer import signals

import rescntk as rk
from rescntk.engines import reference
from rescntk.engines.cuda import launch as launches

BEGUN = time.monotonic()
HERE = Path(__file__).parent
RESULTS = HERE / "results"
BOTH = ("gpk", "ntk")

LANES_PER_CLOCK = 4 * 32  # of a multiprocessor: what its four schedulers issue
HALF_AS_MANY_FP64 = ("80", "90", "100")  # compute capabilities; others have far fewer units

# What a peer may differ by from our kernels of a few random signals, relatively. JAX's float32
# takes 1 − ρ² from a rounded ρ, layer by layer; measured on a processor: 5e-7, and 1e-15.
AGREE = {"float32": 1e-4, "float64": 1e-10}

PEER_SECONDS = 150.0
"""What a peer's call may take with all that it compiles, before it counts as failed."""


# ---------------------------------------------------------------- measuring


def times_of(cupy: Any, call: Callable[[], object]) -> list[float]:
    """Return the seconds of some calls, each from an idle GPU to an idle GPU."""
    device, times = cupy.cuda.Device(), []
    while len(times) < CALLS and sum(times) < ENOUGH:
        device.synchronize()
        start = time.perf_counter()
        call()
        device.synchronize()
        times.append(time.perf_counter() - start)
    return times


class Clock:
    """The median clock of the GPU's multiprocessors in MHz, from entering to leaving a block."""

    def __init__(self, bus: str) -> None:
        self.bus, self.seen, self.why = bus.lower()[-7:], [], ""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        fields = "--query-gpu=pci.bus_id,clocks.sm"
        command = ["nvidia-smi", fields, "--format=csv,noheader,nounits"]
        while not self.over.is_set():
            try:
                answer = subprocess.run(
                    command, check=True, capture_output=True, text=True, timeout=30
                ).stdout
                clocks = dict(re.findall(r"(\S{7}), *(\d+)", answer.lower()))
                if len(clocks) == 1:  # whatever its number is in here
                    clocks = {self.bus: next(iter(clocks.values()))}
                if self.bus not in clocks:
                    raise LookupError(f"no clock of {self.bus} in {answer!r}")
                now = float(clocks[self.bus])
            except (OSError, subprocess.SubprocessError, LookupError) as error:
                self.why = f"nvidia-smi: {describe(error)}"
                return
            if not self.over.is_set():  # the GPU has been busy all the while
                self.seen.append(now)

    def __enter__(self) -> Clock:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(5.0)  # nothing runs beside what is measured next

    @property
    def mhz(self) -> float | None:
        if not self.seen:
            self.why = self.why or "nvidia-smi took longer than the measurement"
            return None
        return statistics.median(self.seen)


def slots(dtype: str, capability: str, d: int, q: int) -> dict[str, float]:
    """Return issue slots, and slots of the FP64 units, of a pixel pair and layer."""
    if capability not in HALF_AS_MANY_FP64:
        raise LookupError(f"the rate of sm_{capability}'s FP64 units is not known here")
    if str(HERE.parent) not in sys.path:
        sys.path.insert(0, str(HERE.parent))
    from tests import nvrtc

    if nvrtc.LIBRARY is None or nvrtc.DISASSEMBLER is None:
        raise LookupError(nvrtc.MISSING)
    launch = launches.plan(d, (q, q), dtype, BOTH, "gap")
    with tempfile.TemporaryDirectory() as folder:
        layer = nvrtc.layer(launch, dtype, f"sm_{capability}", Path(folder))
    return nvrtc.slots(layer, launch.pixels)


def bound(counted: dict[str, float], multiprocessors: int, mhz: float) -> float:
    """Return the picoseconds of a pixel pair and layer if no issue slot were left empty."""
    return 1e6 * max(counted.values()) / (multiprocessors * LANES_PER_CLOCK * mhz)


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


class OutOfTime(Exception):
    """A row took longer than what was left: it has not failed."""


class Bench:
    """The measurements: call it with a row and the seconds that are left."""

    def __init__(self, cupy: Any, sizes: Sizes, jax: Sequence[str]) -> None:
        self.cupy, self.sizes, self.jax = cupy, sizes, jax
        self.worker: Worker | None = None

    def __call__(self, row: Row, left: float) -> dict[str, Any]:
        if row.who != JAX:
            self.close()
        # The two libraries keep what they had of the GPU's memory.
        self.cupy.get_default_memory_pool().free_all_blocks()
        if row.part == "peers":
            return self.peer(row, left)
        return {"layer": self.layer, "large": self.gram, "grams": self.gram}[row.part](row)

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
        self.worker = None

    def ours(self, row: Row, X: Any, Z: Any = None, depth: int = DEPTH) -> Any:
        return rk.gram(rk.Network(depth, row.q), X, Z, engine="cuda", dtype=row.dtype)

    def gram(self, row: Row) -> dict[str, Any]:
        """Time one Gram, after a small one that has its kernel compiled."""
        X = signals(row.n, CHANNELS, row.d)
        if row.part == "grams":
            X = self.cupy.asarray(X)
        self.ours(row, X[:64])
        times = times_of(self.cupy, lambda: self.ours(row, X))
        seconds = statistics.median(times)
        return {"seconds": seconds, "times": times, "entries": row.entries}

    def layer(self, row: Row) -> dict[str, Any]:
        """Time an entry and layer: of whole calls, and of layers alone.

        These are the difference of two depths, in which tables, the input's layer and launches
        cancel; the bound is of layers.
        """
        device = self.cupy.cuda.Device()
        X = self.cupy.asarray(signals(row.n, CHANNELS, row.d))
        Z = X[row.n // 2 :]

        def seconds(depth: int) -> float:
            device.synchronize()
            start = time.perf_counter()
            self.ours(row, X, Z, depth)
            device.synchronize()
            return time.perf_counter() - start

        self.ours(row, X[:64], Z[:64])
        begun, rounds = time.perf_counter(), []
        with Clock(device.pci_bus_id) as clock:
            while len(rounds) < ROUNDS and (
                len(rounds) < 3 or time.perf_counter() - begun < ENOUGH_ROUNDS
            ):
                rounds.append((seconds(DEPTH), seconds(2 * DEPTH)))
        whole = statistics.median(shallow for shallow, _ in rounds)
        added = statistics.median(deep - shallow for shallow, deep in rounds)
        found: dict[str, Any] = {
            "seconds": whole,
            "rounds": rounds,
            "entries": row.entries,
            "picoseconds": 1e12 * whole / row.entries,
            "picoseconds_of_layers_alone": 1e12 * added / row.entries,
            "clock_mhz": clock.mhz,
            "clocks_seen": len(clock.seen),
            "slots": None,
            "bound_picoseconds": None,
            "share_of_bound": None,
            "missing": [clock.why] if clock.mhz is None else [],
        }
        try:
            found["slots"] = slots(row.dtype, device.compute_capability, row.d, row.q)
        except Exception as error:  # whatever ails NVIDIA's tools, the times stand
            found["missing"].append(f"slots: {describe(error)}")
        if not found["missing"]:
            multiprocessors = device.attributes["MultiProcessorCount"]
            found["bound_picoseconds"] = bound(found["slots"], multiprocessors, clock.mhz)
            found["share_of_bound"] = (
                found["bound_picoseconds"] / found["picoseconds_of_layers_alone"]
            )
        return found

    # -- peers

    def peer(self, row: Row, left: float) -> dict[str, Any]:
        """Return the seconds of a pair of signals, at the best batch."""
        call = self.by_reference if row.who == REFERENCE else self.by_jax
        end = time.monotonic() + left
        checked: list[float] = []

        def measure(n: int) -> float:
            remaining = end - time.monotonic()
            if remaining <= 0:
                raise OutOfTime
            seconds, theirs = call(row, n, remaining)
            if not checked:  # the first two signals of the smallest batch
                X = self.cupy.asarray(signals(n, CHANNELS, row.d))
                ours = self.ours(row, X[:2], X[::-1][:2])
                checked.append(difference([self.cupy.asnumpy(K) for K in ours], theirs))
                if not checked[0] <= AGREE[row.dtype]:
                    raise ArithmeticError(f"differs from our kernels by {checked[0]:.1e}")
            return seconds

        found = climb(self.sizes.batch_sizes(row.d), measure)
        found["difference"] = checked[0]
        if self.worker is not None:
            found["jax"] = self.worker.version
        return found

    def by_reference(self, row: Row, n: int, left: float) -> tuple[float, list[np.ndarray]]:
        X = self.cupy.asarray(signals(n, CHANNELS, row.d))
        network, found = rk.Network(DEPTH, row.q), []

        def call() -> None:
            found[:] = rk.gram(network, X, X[::-1], engine="reference", dtype=row.dtype)

        with one_tile((n * row.d) ** 2):
            call()
            times = times_of(self.cupy, call)
        return statistics.median(times), [self.cupy.asnumpy(K[:2, :2]) for K in found]

    def by_jax(self, row: Row, n: int, left: float) -> tuple[float, list[np.ndarray]]:
        timeout = min(left, PEER_SECONDS)
        request = {
            "dtype": row.dtype, "depth": DEPTH, "q": row.q, "channels": CHANNELS, "d": row.d,
            "n": n, "calls": CALLS, "enough": ENOUGH,
        }  # fmt: skip
        try:
            if self.worker is None:
                self.worker = Worker(self.jax, timeout)
            reply = self.worker.ask(request, timeout)
        except (RuntimeError, TimeoutError) as error:
            self.close()
            if isinstance(error, TimeoutError) and timeout < PEER_SECONDS:
                raise OutOfTime from None
            raise
        return statistics.median(reply["seconds"]), [np.array(reply[kind]) for kind in BOTH]


@contextmanager
def one_tile(entries: int) -> Iterator[None]:
    """Have the reference engine take that many pixel pairs through its layers together.

    Its own tiles fit a processor's cache, and a GPU would do nothing but launch. It has no such
    option for users.
    """
    kept = reference._TILE_ENTRIES, reference._TABLE_BYTES
    reference._TILE_ENTRIES, reference._TABLE_BYTES = max(entries, kept[0]), 2**33
    try:
        yield
    finally:
        reference._TILE_ENTRIES, reference._TABLE_BYTES = kept


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """Return the largest relative difference; NaN if there is one."""
    apart = [np.abs(A - B).max() / np.abs(A).max() for A, B in zip(ours, theirs, strict=True)]
    return float(np.max(apart))


def climb(batches: Sequence[int], measure: Callable[[int], float]) -> dict[str, Any]:
    """Try batches of n with n signals until they get no faster, long, or do not fit.

    Running out of memory ends the climb, or taking too long; any other error is the peer's.
    """
    best, tried, stopped = float("inf"), [], "no larger batch was planned"
    for n in batches:
        try:
            seconds = measure(n)
        except Exception as error:
            stopped = f"n = {n}: {describe(error)}"
            full = re.search("out ?of ?memory|RESOURCE_EXHAUSTED", stopped, re.IGNORECASE)
            if tried and (full or type(error) is TimeoutError):
                break
            raise
        tried.append({"n": n, "seconds": seconds})
        pair = seconds / n**2
        if pair > 0.98 * best:
            stopped = f"n = {n} is no faster"
            break
        best = pair
        if seconds > 0.5:  # the next takes four times as long
            stopped = f"n = {n} takes {seconds:.2g} s"
            break
    best = min(one["seconds"] / one["n"] ** 2 for one in tried)
    return {"seconds_of_a_pair": best, "batches": tried, "stopped": stopped}


class Worker:
    """A peer in a process of its own, that may fail or hang without taking us along."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115, open as long as the worker
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0,
            # Most of the GPU's memory would be taken at once, and ours with it.
            env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        )  # fmt: skip
        try:
            self.version = self._answer(timeout)["ready"]
        except BaseException:
            self.close()
            raise

    def _answer(self, timeout: float) -> dict[str, Any]:
        line, end = b"", time.monotonic() + timeout
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError(f"no answer within {timeout:.0f} s")
            some = self.process.stdout.read(2**16)
            if not some:
                raise RuntimeError(f"the worker ended with {self.process.wait()}: {self.said()}")
            line += some
        return json.loads(line)

    def said(self) -> str:
        """Return the end of what the worker wrote on stderr."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-500:]

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise RuntimeError(f"the worker is gone: {self.said()}") from None
        reply = self._answer(timeout)
        if "error" in reply:
            raise ChildProcessError(reply["error"])
        return reply

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


# ---------------------------------------------------------------- running


def machine(cupy: Any, sizes: Sizes) -> dict[str, Any]:
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    engines = sorted((HERE.parent / "rescntk" / "engines").glob("*.*"))
    text = b"".join(path.read_bytes() for path in engines if path.is_file())
    return {
        "hardware": properties["name"].decode(),
        "multiprocessors": cupy.cuda.Device().attributes["MultiProcessorCount"],
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "rescntk": rk.__version__,
        "engines_sha256": hashlib.sha256(text).hexdigest()[:16],
        "date": datetime.date.today().isoformat(),
        "depth": DEPTH,
        "channels": CHANNELS,
        "sizes": "full" if sizes == FULL else "small",
    }


def resumed(folder: Path, name: str, here: dict[str, Any]) -> dict[str, Any]:
    """Return the report to go on with; one of another machine or engine is kept aside."""
    for path in (folder / name, RESULTS / name):
        if not path.exists():
            continue
        report = json.loads(path.read_text())
        if report["machine"]["hardware"] == "not measured":
            continue
        differ = [
            k for k in ("hardware", "engines_sha256", "sizes") if report["machine"][k] != here[k]
        ]
        if not differ:
            print(f"going on from {path}: {len(report['rows'])} rows", flush=True)
            return report
        aside = folder / f"{path.stem}-{report['machine']['engines_sha256']}.json"
        folder.mkdir(parents=True, exist_ok=True)
        aside.write_text(path.read_text())
        print(f"{path} is of other {', '.join(differ)}: kept as {aside}, begun anew", flush=True)
        break
    return {"machine": here, "rows": []}


def save(report: dict[str, Any], path: Path) -> None:
    report["verdicts"] = gpu_report.verdicts(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report, indent=1) + "\n")
    new.replace(path)  # never half a file


def run(
    rows: Sequence[Row],
    report: dict[str, Any],
    measure: Callable[[Row, float], dict[str, Any]],
    keep: Callable[[], None],
    limit: float,
    spent: Callable[[], float],
    retry: bool = False,
) -> list[Row]:
    """Measure what is not in the report yet, and return what there was no time for."""
    late = []
    for row in rows:
        old = next((r for r in report["rows"] if row.of(r)), None)
        if old is not None and not (retry and "error" in old):
            continue
        start = spent()
        expected = estimate(row, report["rows"])
        print(f"{row}: about {expected:.0f} s, {limit - start:.0f} s left", flush=True)
        if expected > limit - start:
            print("  left for another run", flush=True)
            late.append(row)
            continue
        try:
            found = measure(row, limit - start)
        except OutOfTime:
            print("  took longer: left for another run", flush=True)
            late.append(row)
            continue
        except Exception as error:
            found = {"error": describe(error)}
        if old is not None:
            report["rows"].remove(old)
        report["rows"].append(vars(row) | found | {"wall": spent() - start})
        keep()
        print(f"  {gpu_report.brief(report['rows'][-1])}", flush=True)
    return late


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds, all in all")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this (and this …)")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder for gpu.json and gpu.png")
    parser.add_argument("--small", action="store_true", help="toy sizes, to gpu-small.json")
    parser.add_argument("--retry", action="store_true", help="repeat the rows that failed")
    parser.add_argument("--draw", action="store_true", help="only draw gpu.png from gpu.json")
    parser.add_argument("--jax-python", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--jax-platform", default="gpu", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    name = "gpu-small.json" if options.small else "gpu.json"
    path = options.to / name
    if options.draw:
        gpu_report.draw(json.loads(path.read_text()), path.with_suffix(".png"))
        return
    state = rk.engines.available()["cuda"]
    if state is not True:
        sys.exit(f"not measured: {state}")
    import cupy

    sizes = SMALL if options.small else FULL
    here = machine(cupy, sizes)
    print(json.dumps(here), flush=True)
    report = resumed(options.to, name, here)
    # -P: nothing here is to be taken for a module of JAX's.
    worker = [options.jax_python, "-P", str(HERE / "jax_peer.py"), options.jax_platform]
    bench = Bench(cupy, sizes, worker)

    def keep() -> None:
        save(report, path)
        try:
            cupy.zeros(1)
            cupy.cuda.Device().synchronize()
        except Exception as error:
            sys.exit(f"the GPU is lost to this process, run again to go on: {describe(error)}")

    try:
        late = run(
            [row for row in plan(sizes) if row.part in (options.part or PARTS)],
            report, bench, keep, options.limit, lambda: time.monotonic() - BEGUN, options.retry,
        )  # fmt: skip
    finally:
        bench.close()
    save(report, path)
    print(gpu_report.table(report))
    if late:
        print(f"left for another run: {len(late)} rows")
    try:
        gpu_report.draw(report, path.with_suffix(".png"))
    except ImportError as error:
        print(f"not drawn, python benchmarks/gpu.py --draw will: {error}")


if __name__ == "__main__":
    main()
