"""Measurements of benchmarks/gpu.py: seconds of calls, the bound of issue slots, peers."""

import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from gpu_report import CHANNELS, DEPTH, JAX, REFERENCE, Row, Sizes
from harness import Worker
from peers import signals

import rescntk as rk
from rescntk.engines import reference
from rescntk.engines.cuda import launch_plan
from rescntk.engines.cuda.launch_plan import LaunchPlan
from rescntk.engines.protocol import Request
from rescntk.validation import KINDS

# Most calls of a measurement, and the seconds after which none is added. ROUNDS are pairs of calls
# at two depths. Larger numbers steady the median and cost time on a borrowed device. Chosen.
CALLS, ENOUGH = 5, 2.0
ROUNDS, ENOUGH_ROUNDS = 9, 4.0

AGREE = {"float32": 1e-4, "float64": 1e-10}
"""Largest relative difference of a peer from our kernels of a few random signals. JAX differs by
5e-7 on a processor, in float64 by 1e-15. Raising it lets a wrong peer pass."""

PEER_SECONDS = 150.0
"""Seconds of a peer's call before it counts as failed: several times what JAX takes to compile."""

THREADS_PER_CLOCK = 4 * 32
"""Of a multiprocessor: four schedulers, a warp each (CUDA C++ Programming Guide)."""

HALF_AS_MANY_FP64 = ("80", "90", "100")
"""Compute capabilities with half as many FP64 as FP32 units (NVIDIA's tuning guides)."""


class OutOfTime(Exception):
    """A row took longer than the time that was left: it has not failed."""


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


class Clock:
    """The median clock of the GPU's multiprocessors in MHz while a `with` block runs."""

    def __init__(self, bus: str) -> None:
        self.bus, self.seen = bus.lower()[-7:], list[float]()
        self.why = "nvidia-smi took longer than the measurement"
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
                # A single GPU is this one, whatever its number is in here.
                bus = self.bus if len(clocks) != 1 else next(iter(clocks))
                now = float(clocks[bus])
            except (OSError, subprocess.SubprocessError, LookupError) as error:
                self.why = f"nvidia-smi: {describe(error)}"
                return
            if not self.over.is_set():  # the GPU has been busy all the while
                self.seen.append(now)

    def __enter__(self) -> Any:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(5.0)  # nothing runs beside what is measured next

    @property
    def mhz(self) -> float:
        if not self.seen:
            raise LookupError(self.why)
        return statistics.median(self.seen)


def slots(dtype: str, capability: str, d: int, q: int) -> dict[str, float]:
    """Return issue slots, and slots of the FP64 units, of a pixel pair and layer, on average."""
    if capability not in HALF_AS_MANY_FP64:
        raise LookupError(f"the rate of sm_{capability}'s FP64 units is not known here")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.engines.cuda import nvrtc

    if nvrtc.LIBRARY is None or nvrtc.DISASSEMBLER is None:
        raise LookupError(nvrtc.MISSING)
    request = Request(rk.Network(DEPTH, q), "gap", KINDS, (DEPTH,), dtype)
    launch = LaunchPlan(request, CHANNELS, d)
    with tempfile.TemporaryDirectory() as folder:
        cubin, _ = nvrtc.compile_kernels([launch.name], f"sm_{capability}")
        instructions = nvrtc.disassemble(cubin, Path(folder))
        return nvrtc.mean_slots(instructions, launch.pixels, dtype, DEPTH)


def climb(batches: Sequence[int], measure: Callable[[int], float]) -> dict[str, Any]:
    """Try batches of n with n signals until one is no faster, takes long, or does not fit."""
    tried: list[dict[str, Any]] = []
    stopped = "no larger batch was planned"
    for n in batches:
        try:
            seconds = measure(n)
        except Exception as error:
            stopped = f"n = {n}: {describe(error)}"
            full = re.search("out ?of ?memory|RESOURCE_EXHAUSTED", stopped, re.IGNORECASE)
            if tried and (full or type(error) is TimeoutError):
                break
            raise  # any other error is the peer's
        best = min((batch["pair"] for batch in tried), default=float("inf"))
        tried.append({"n": n, "seconds": seconds, "pair": seconds / n**2})
        if seconds / n**2 > 0.98 * best:
            stopped = f"n = {n} is no faster"
            break
        if seconds > 0.5:  # the next takes four times as long
            stopped = f"n = {n} takes {seconds:.2g} s"
            break
    best = min(batch["pair"] for batch in tried)
    return {"seconds_of_a_pair": best, "batches": tried, "stopped": stopped}


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
        return {"layer": self.layer, "sweep": self.sweep}.get(row.part, self.gram)(row)

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
        self.worker = None

    def signals(self, row: Row, n: int) -> list[Any]:
        return [self.cupy.asarray(X) for X in signals(n, CHANNELS, row.d)]

    def ours(self, row: Row, X: Any, Z: Any = None, depth: int = DEPTH) -> Any:
        return rk.gram(rk.Network(depth, row.q), X, Z, engine="cuda", dtype=row.dtype)

    def seconds(self, call: Callable[[], object]) -> float:
        """Return the seconds of a call, from an idle GPU to an idle GPU."""
        device = self.cupy.cuda.Device()
        device.synchronize()
        start = time.perf_counter()
        call()
        device.synchronize()
        return time.perf_counter() - start

    def times_of(self, call: Callable[[], object]) -> list[float]:
        times: list[float] = []
        while len(times) < CALLS and sum(times) < ENOUGH:
            times.append(self.seconds(call))
        return times

    def gram(self, row: Row) -> dict[str, Any]:
        """Time one Gram, after a small one that has its kernel compiled."""
        X = signals(row.n, CHANNELS, row.d)[0]
        if row.part != "large":
            X = self.cupy.asarray(X)
        self.ours(row, X[:64])
        times = self.times_of(lambda: self.ours(row, X))
        return {"seconds": statistics.median(times), "times": times, "entries": row.entries}

    def sweep(self, row: Row) -> dict[str, Any]:
        """Time one Gram with blocks of some threads; 0: as the plan has them."""
        threads = int(row.who.split()[0])
        blocks = {"WARPS": threads // 32, "_long_block": lambda *_: (1, threads)}
        with mock.patch.dict(vars(launch_plan), blocks if threads else {}):
            return self.gram(row)

    def layer(self, row: Row) -> dict[str, Any]:
        """Time an entry and layer: of whole calls, and of only the layers, between two depths."""
        device, X = self.cupy.cuda.Device(), self.signals(row, row.n)[0]
        Z = X[row.n // 2 :]
        self.ours(row, X[:64], Z[:64])
        begun, rounds = time.perf_counter(), []
        with Clock(device.pci_bus_id) as clock:
            while len(rounds) < ROUNDS and (
                len(rounds) < 3 or time.perf_counter() - begun < ENOUGH_ROUNDS
            ):
                depths = (DEPTH, 2 * DEPTH)
                rounds.append([self.seconds(lambda: self.ours(row, X, Z, L)) for L in depths])  # noqa: B023
        whole = statistics.median(shallow for shallow, _ in rounds)
        alone = 1e12 * statistics.median(deep - shallow for shallow, deep in rounds) / row.entries
        result: dict[str, Any] = {
            "seconds": whole,
            "rounds": rounds,
            "entries": row.entries,
            "picoseconds": 1e12 * whole / row.entries,
            "picoseconds_of_layers_alone": alone,
        }
        try:  # whatever ails NVIDIA's tools, the times stand
            result["clock_mhz"] = clock.mhz
            result["slots"] = slots(row.dtype, device.compute_capability, row.d, row.q)
            threads = device.attributes["MultiProcessorCount"] * THREADS_PER_CLOCK
            # No issue slot is left empty.
            result["bound_picoseconds"] = (
                1e6 * max(result["slots"].values()) / (threads * clock.mhz)
            )
            result["share_of_bound"] = result["bound_picoseconds"] / alone
        except Exception as error:
            result["missing"] = describe(error)
        return result

    # -- peers

    def peer(self, row: Row, left: float) -> dict[str, Any]:
        call = self.by_reference if row.who == REFERENCE else self.by_jax
        end = time.monotonic() + left
        checked: list[float] = []

        def measure(n: int) -> float:
            remaining = end - time.monotonic()
            if remaining <= 0:
                raise OutOfTime
            times, theirs = call(row, n, remaining)
            if not checked:  # the first two signals of the smallest batch
                ours = self.ours(row, *(batch[:2] for batch in self.signals(row, n)))
                ours = [self.cupy.asnumpy(K) for K in ours]
                apart = [abs(A - B).max() / abs(A).max() for A, B in zip(ours, theirs, strict=True)]
                checked.append(float(np.max(apart)))
                if not checked[0] <= AGREE[row.dtype]:
                    raise ArithmeticError(f"differs from our kernels by {checked[0]:.1e}")
            return statistics.median(times)

        climbed = climb(self.sizes.batch_sizes(row.d), measure)
        climbed["difference"] = checked[0]
        if self.worker is not None:
            climbed["jax"] = self.worker.version
        return climbed

    def by_reference(self, row: Row, n: int, left: float) -> tuple[list[float], list[np.ndarray]]:
        X, Z = self.signals(row, n)
        network, kernels = rk.Network(DEPTH, row.q), []

        def call() -> None:
            kernels[:] = rk.gram(network, X, Z, engine="reference", dtype=row.dtype)

        # The engine's own batches would leave a large GPU waiting for launches.
        entries = max((n * row.d) ** 2, reference._ENTRIES)
        with mock.patch.multiple(reference, _ENTRIES=entries, _TABLE_BYTES=2**33):
            call()
            times = self.times_of(call)
        return times, [self.cupy.asnumpy(K[:2, :2]) for K in kernels]

    def by_jax(self, row: Row, n: int, left: float) -> tuple[list[float], list[np.ndarray]]:
        timeout = min(left, PEER_SECONDS)
        request = {
            "dtype": row.dtype, "head": "gap", "depth": DEPTH, "q": row.q, "channels": CHANNELS,
            "d": row.d, "n": n, "seed": 0, "calls": CALLS, "enough": ENOUGH,
        }  # fmt: skip
        try:
            if self.worker is None:
                # Most of the GPU's memory would be taken at once, and ours with it.
                part = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
                self.worker = Worker(self.jax, timeout, **part)
            reply = self.worker.ask(request, timeout)
        except (RuntimeError, TimeoutError, BrokenPipeError) as error:
            self.close()
            if isinstance(error, TimeoutError) and timeout < PEER_SECONDS:
                raise OutOfTime from None
            raise
        return reply["seconds"], [np.array(reply[kind]) for kind in KINDS]
