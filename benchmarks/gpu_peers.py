"""Peers of benchmarks/gpu.py: batches of the best size, and a worker that may fail."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rescntk.engines import reference

AGREE = {"float32": 1e-4, "float64": 1e-10}
"""Largest relative difference of a peer from our kernels of a few random signals. JAX's float32
takes 1 − ρ² from a rounded ρ, layer by layer: 5e-7 measured on a processor, 1e-15 in float64.
Raising it lets a wrong peer pass."""

PEER_SECONDS = 150.0
"""Seconds of a peer's call, compilation included, before it counts as failed. Chosen: several
times what JAX takes to compile for a processor."""


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


class OutOfTime(Exception):
    """A row took longer than the time that was left: it has not failed."""


@contextmanager
def one_tile(entries: int) -> Iterator[None]:
    """Have the reference engine take `entries` pixel pairs through its layers together.

    Its own tiles fit a processor's cache; a GPU would do nothing but launch. Users have no such
    option.
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
    """Try batches of n with n signals until a batch is no faster, takes long, or does not fit.

    Full memory and a timeout end the climb; any other error is the peer's.
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
    """A peer in a process of its own, which may fail or hang."""

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
        """Return the last words of the worker on stderr."""
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
