"""The engine's check of itself: its kernels against the reference engine, on the device.

The first use of a device in a process computes the Grams of CASES, of a few short signals. Each
Gram is compared with the reference engine's, computed by NumPy. A case costs one launch of a
kernel, and the array operations of its tables and of its doubtful pairs. All cases cost about 40
milliseconds of NumPy on a processor of 2 cores. Compiling takes seconds when CuPy has no compiled
kernels on disk.

The check proves the device, the driver and the compiler on a few instances of the kernels, one for
each way through their text. Other filters are other instances of the same text.

An engine that fails is not used: `engines.available()` and the error of a call by name have the
figures, and "auto" takes the reference engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import Array
from ...network import Network
from ...vocabulary import KINDS
from .. import reference
from ..protocol import Request, ScaledKernel, Tick, silent

TOLERANCE = {"float64": 1e-14, "float32": 1e-6}
"""Largest |ΔK|/√(K_ii K_jj) of a check that passes: the test suite's bars against 40-digit
arithmetic (tests/tolerances.py, KERNEL). Rounding errors are a tenth of it; raising it hides
faults."""

OUT_OF_MEMORY = 2
"""The status of CUDA's errors for want of memory: cudaErrorMemoryAllocation and
CUDA_ERROR_OUT_OF_MEMORY (CUDA Runtime and Driver API, "Error Handling")."""

Gram = Callable[[Request, Array, Array | None, Tick], ScaledKernel]
"""The function `gram` of an engine."""


@dataclass(frozen=True)
class Case:
    """A Gram of the check.

    Attributes
    ----------
    rows : str
        Where the kernel keeps rows, or what is special about them, for the message.
    network : Network
        The network, whose filters choose the kernel.
    dtype : str
        The precision.
    """

    rows: str
    network: Network
    dtype: str

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.dtype}, {self.rows}"


_NETWORKS = (
    ("rows in registers", Network(3, 3)),
    ("rows in shared memory", Network(3, 17, outer_filter_size=3)),
    ("dilated filters", Network(3, 3, dilation=(1, 2, 4))),
)

CASES = tuple(
    Case(rows, network, dtype) for rows, network in _NETWORKS for dtype in ("float64", "float32")
)
"""Rows in registers and in shared memory, and dilated filters, both precisions.

The GAP head, both kinds: all offsets, halos and exact sums.
"""


def signals() -> np.ndarray:
    """Return the signals of the check, (6, 2, 26).

    Signals x and z, x times −1/2, and z with pixels of zero; and two steps of one direction, whose
    windows are parallel and differ in amplitude, so that their pairs are doubtful (doubt.py). Rows
    of 26 pixels have several segments, some of them short.
    """
    x, z = 0.4 + 0.5 * np.sin(np.arange(104.0).reshape(2, 2, 26) ** 2)
    pixel = np.arange(26)
    cut = np.where(pixel < 9, 0.0, z)
    steps = [
        np.outer([0.7, 0.3], np.where(pixel < end, 1.0, level))
        for end, level in ((9, 0.3), (15, 2.0))
    ]
    return np.stack([x, z, -0.5 * x, cut, *steps])


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check.

    Attributes
    ----------
    reason : str or None
        Why the engine cannot serve, or None.
    lasting : bool
        False for states that may pass, such as full memory: the next use checks again.
    """

    reason: str | None
    lasting: bool = True


_verdicts: dict[int, Verdict] = {}
_lock = threading.Lock()


def failure(cupy: Any, gram: Gram) -> str | None:
    """Return why the current device fails the check, or None; the check runs once a process.

    Threads that ask for the same device wait for one check.
    """
    device = int(cupy.cuda.runtime.getDevice())
    with _lock:
        verdict = _verdicts.get(device)
        if verdict is None:
            verdict = check(gram)
            if verdict.lasting:
                _verdicts[device] = verdict
    return verdict.reason


def forget() -> None:
    """Forget all verdicts, so that the next use checks again."""
    with _lock:
        _verdicts.clear()


def check(gram: Gram) -> Verdict:
    """Compare the Grams of CASES with the reference engine's. Any exception is a failure."""
    try:
        errors = [found for case in CASES for found in errors_of(case, gram)]
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return Verdict(f"its check on this device failed with {said}", not may_pass(error))
    failed = [found for found in errors if not found.passed]
    if not failed:
        return Verdict(None)
    worst = max(failed, key=lambda found: found.excess)
    return Verdict(
        f"its kernels are wrong on this device: {worst}; "
        f"{len(failed)} of {len(errors)} comparisons with the reference engine failed"
    )


def may_pass(error: Exception) -> bool:
    """Return whether an error may go away: memory or a disk is full, or a file is locked."""
    full = isinstance(error, (MemoryError, OSError))
    return full or getattr(error, "status", None) == OUT_OF_MEMORY


@dataclass(frozen=True)
class Comparison:
    """The largest |ΔK|/√(K_ii K_jj) of one case and kind, and the bar."""

    case: Case
    kind: str
    error: float
    bar: float

    @property
    def passed(self) -> bool:
        """True if the error is a number within the bar; NaN is not."""
        return self.error <= self.bar

    @property
    def excess(self) -> float:
        """The error in units of the bar; NaN is worst."""
        return self.error / self.bar if self.error == self.error else float("inf")

    def __str__(self) -> str:
        return (
            f"error {self.error:.2g} of {self.kind} ({self.case.name}), "
            f"expected at most {self.bar:g} of √(K_ii K_jj)"
        )


def errors_of(case: Case, gram: Gram) -> Iterator[Comparison]:
    """Yield the comparison of each kind of one case."""
    X, depth = signals(), case.network.depth

    def kernels(engine: Gram, dtype: str) -> dict[str, np.ndarray]:
        request = Request(case.network, "gap", KINDS, (depth,), dtype, threads=1)
        scaled = engine(request, X, None, silent)
        size = scaled.left[:, None] * scaled.right * 2.0 ** scaled.exponents[0]
        return {kind: scaled.values[kind][0] * size for kind in KINDS}

    ours, exact = kernels(gram, case.dtype), kernels(reference.gram, "float64")
    for kind in KINDS:
        own = np.sqrt(exact[kind].diagonal())
        with np.errstate(invalid="ignore"):
            error = np.max(np.abs(ours[kind] - exact[kind]) / (own[:, None] * own))
        yield Comparison(case, kind, float(error), TOLERANCE[case.dtype])
