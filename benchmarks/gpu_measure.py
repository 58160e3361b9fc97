"""Measurements of benchmarks/gpu.py: seconds of calls, the clock, the bound of issue slots."""

from __future__ import annotations

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

import numpy as np
from gpu_peers import (
    AGREE,
    PEER_SECONDS,
    OutOfTime,
    Worker,
    climb,
    describe,
    difference,
    one_tile,
)
from gpu_rows import (
    BOTH,
    CALLS,
    CHANNELS,
    DEPTH,
    ENOUGH,
    ENOUGH_ROUNDS,
    JAX,
    REFERENCE,
    ROUNDS,
    Row,
    Sizes,
)
from jax_peer import signals

import rescntk as rk
from rescntk.engines.cuda import launch as launches

THREADS_PER_CLOCK = 4 * 32
"""Threads whose instructions a multiprocessor issues in a clock: four schedulers, a warp each (CUDA
C++ Programming Guide, "Compute Capabilities")."""

HALF_AS_MANY_FP64 = ("80", "90", "100")
"""Compute capabilities with half as many FP64 as FP32 units (NVIDIA's tuning guides); others have
far fewer."""


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
    """The median clock of the GPU's multiprocessors in MHz while a `with` block runs."""

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
    """Return issue slots, and slots of the FP64 units, of a pixel pair and layer, on average."""
    if capability not in HALF_AS_MANY_FP64:
        raise LookupError(f"the rate of sm_{capability}'s FP64 units is not known here")
    root = str(Path(__file__).parents[1])
    if root not in sys.path:
        sys.path.insert(0, root)
    from tests.engines.cuda import nvrtc

    if nvrtc.LIBRARY is None or nvrtc.DISASSEMBLER is None:
        raise LookupError(nvrtc.MISSING)
    rows = launches.Rows(
        d=d, filter_size=q, outer_filter_size=q, dtype=dtype, kinds=BOTH, head="gap"
    )
    launch = launches.plan(rows)
    with tempfile.TemporaryDirectory() as folder:
        cubin = nvrtc.compile_kernels([launch.name], f"sm_{capability}")
        found = nvrtc.disassemble(cubin, Path(folder))
        return nvrtc.mean_slots(found, launch, dtype, DEPTH)


def bound(counted: dict[str, float], multiprocessors: int, mhz: float) -> float:
    """Return the picoseconds of a pixel pair and layer if no issue slot were left empty."""
    return 1e6 * max(counted.values()) / (multiprocessors * THREADS_PER_CLOCK * mhz)


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

        Seconds of layers alone are the difference of two depths: the input's layer and the row
        kernel's launch cancel. The tables' array operations of a layer do not cancel; they are
        work for n·d pixels beside n²·d² of the rows. The bound is of layers.
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
