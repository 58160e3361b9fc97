"""The engine's check of itself: its kernels against the reference engine, on the device.

The first use of a device in a process computes the Grams of CASES, of a few short signals, and
compares them with the reference engine's, which take NumPy about 40 milliseconds. Compiling takes
seconds when CuPy has no compiled kernels on disk. The check proves the device, the driver and the
compiler on a few instances of the kernels, one for each way through their text.

An engine that fails is not used: `engines.available()` and the error of a call by name have the
figures, and "auto" takes the reference engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import Array
from ...network import Network
from ...validation import KINDS
from .. import reference
from ..protocol import Request, ScaledKernel, Tick, silent

TOLERANCE = {"float64": 1e-14, "float32": 1e-6}
"""Largest |ΔK|/√(K_ii K_jj) of a check that passes: the test suite's bars against 40-digit
arithmetic (tests/tolerances.py, KERNEL). Rounding errors are a tenth of it; raising it hides
faults."""

OUT_OF_MEMORY, LOST = 2, frozenset((700, 702, 710, *range(714, 720)))
"""The status of CUDA's errors for want of memory, and of errors after which CUDA does no more work
in a process: illegal addresses and instructions, time-outs and failures of a launch (CUDA Runtime
and Driver API, "Error Handling")."""

RESTART = "the device is lost to this process: restart the process"

Gram = Callable[[Request, Array, Array | None, Tick], ScaledKernel]
"""The function `gram` of an engine."""


CASES = tuple(
    (f"{dtype}, {rows}", network, dtype)
    for rows, network in (
        ("rows in registers", Network(3, 3)),
        ("rows in shared memory", Network(3, 17, outer_filter_size=3)),
        ("dilated filters", Network(3, 3, dilation=(1, 2, 4))),
    )
    for dtype in ("float64", "float32")
)
"""Name, network and precision of each Gram. Filters choose the kernel. The head is GAP, for both
kinds: all offsets, halos and exact sums."""


def signals() -> np.ndarray:
    """Return x, z, −x/2, z with pixels of zero, and two steps of one direction, (6, 2, 26).

    Windows of the steps are parallel and differ in amplitude, so that their pairs are doubtful.
    Rows of 26 pixels have several segments, some of them short.
    """
    x, z = 0.4 + 0.5 * np.sin(np.arange(104.0).reshape(2, 2, 26) ** 2)
    pixel = np.arange(26)
    cut = np.where(pixel < 9, 0.0, z)
    steps = [
        np.outer([0.7, 0.3], np.where(pixel < end, 1.0, level))
        for end, level in ((9, 0.3), (15, 2.0))
    ]
    return np.stack([x, z, -0.5 * x, cut, *steps])


_reasons: dict[int, str | None] = {}
_lock = threading.Lock()


def failure(cupy: Any, gram: Gram) -> str | None:
    """Return why the current device fails the check, or None; the check runs once a process.

    Threads wait for one check. After a failure that may pass, the next use checks again.
    """
    device = int(cupy.cuda.runtime.getDevice())
    with _lock:
        if device in _reasons:
            return _reasons[device]
        reason, lasting = check(gram)
        if lasting:
            _reasons[device] = reason
    return reason


def check(gram: Gram) -> tuple[str | None, bool]:
    """Return why the engine cannot serve, or None; and False for a failure that may pass.

    Any exception is a failure. Full memory, a full disk and a locked file may pass.
    """
    try:
        compared = [
            (error / TOLERANCE[dtype], f"error {error:.2g} of {kind} ({name}), expected at most "
             f"{TOLERANCE[dtype]:g} of √(K_ii K_jj)")
            for name, network, dtype in CASES
            for kind, error in errors_of(network, dtype, gram).items()
        ]  # fmt: skip
    except Exception as error:
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        remedy = f"; {RESTART}" * loses_device(error)
        full = getattr(error, "status", None) == OUT_OF_MEMORY
        lasting = not (full or isinstance(error, (MemoryError, OSError)))
        return f"its check on this device failed with {words}{remedy}", lasting
    failed = [found for found in compared if not found[0] <= 1.0]
    if not failed:
        return None, True
    _, worst = max(failed, key=lambda found: np.nan_to_num(found[0], nan=np.inf))
    return (
        f"its kernels are wrong on this device: {worst}; "
        f"{len(failed)} of {len(compared)} comparisons with the reference engine failed"
    ), True


def loses_device(error: Exception) -> bool:
    """Return whether CUDA does no more work in this process after an error."""
    return getattr(error, "status", None) in LOST


def errors_of(network: Network, dtype: str, gram: Gram) -> dict[str, float]:
    """Return the largest |ΔK|/√(K_ii K_jj) of each kind."""
    X, depth = signals(), network.depth

    def kernels(engine: Gram, dtype: str) -> dict[str, np.ndarray]:
        request = Request(network, "gap", KINDS, (depth,), dtype, threads=1)
        scaled = engine(request, X, None, silent)
        size = scaled.left[:, None] * scaled.right * 2.0 ** scaled.exponents[0]
        return {kind: scaled.values[kind][0] * size for kind in KINDS}

    def error(K: np.ndarray, exact: np.ndarray) -> float:
        root = np.sqrt(exact.diagonal())
        with np.errstate(invalid="ignore"):
            return float(np.max(np.abs(K - exact) / (root[:, None] * root)))

    computed, exact = kernels(gram, dtype), kernels(reference.gram, "float64")
    return {kind: error(computed[kind], exact[kind]) for kind in KINDS}
