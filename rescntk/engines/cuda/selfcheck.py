"""The engine's check of itself: its kernels against the engine "array", on the device.

The first use of a device in a process computes the kernels of CASES, of a few signals. They are
compared with the engine "array"'s, which take NumPy half a second. CuPy compiles an instance of
the kernel for each, a second or two, and its own of array operations, and keeps all on disk. The
check proves the device, the driver and the compiler, one case for each way through the text.

An engine that fails is not used: `engines.available()` and the error of a call by name have the
figures, and "auto" takes the engine "array".
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import product
from types import ModuleType

import numpy as np

from ...checks.values import KINDS
from ...network import Network
from ..array.engine import ArrayEngine
from ..engine import Engine
from ..request import Request, ScaledKernel

TOLERANCE = {"float64": 1e-14, "float32": 1e-6}
"""Largest |ΔK|/√(K_ii K_jj) of a check that passes: the test suite's bars against 40-digit
arithmetic (tests/tolerances.py, KERNEL). Rounding errors are a tenth of it; raising it hides
faults."""

OUT_OF_MEMORY, LOST = 2, frozenset((700, 702, 710, *range(714, 720)))
"""The status of CUDA's errors for lack of memory, and of errors after which CUDA does no more work
in a process: illegal addresses and instructions, time-outs and failures of a launch (CUDA Runtime
and Driver API, "Error Handling")."""

_ANNOUNCEMENT = (
    "rescntk: compiling and checking loops on the GPU, about a minute; later processes read them "
    "from disk"
)
_ANNOUNCE_AFTER = 1.0
"""Seconds after which the check is announced. Loops on disk are read in less. Chosen by taste."""

RESTART = "the device is lost to this process: restart the process"

CASES: dict[str, tuple[Network, str | int, int, int]] = {
    "joined layers": (Network(3, 3), "gap", 26, 6),
    "few pixels, small branches": (Network(3, 17, alpha=1e-3, dilation=2), "gap", 26, 6),
    "biases and leaks": (Network(3, 3, bias=0.5, negative_slope=0.2), "trace", 26, 6),
    "more than 48 KB": (Network(2, 17), "trace", 2100, 3),
    "pooled pixels": (Network(3, 3), 5, 26, 6),
    "the first pair": (Network(2, 3), "equivariant", 26, 6),
    "every pair": (Network(2, 3), "pixels", 26, 2),
}
"""Name -> network, head, length and number of signals, each in both precisions. Networks, heads and
lengths choose the kernel, its shared memory, and the pixels of a thread."""


def signals(d: int) -> np.ndarray:
    """Return x, z, −x/2, z with pixels of zero, and two steps of one direction, (6, 2, d).

    Convolutions of the steps are parallel and differ in amplitude: their distances are 0.
    """
    x, z = 0.4 + 0.5 * np.sin(np.arange(4.0 * d).reshape(2, 2, d) ** 2)
    pixel = np.arange(d)
    cut = np.where(pixel < 9, 0.0, z)
    steps = [
        np.outer([0.7, 0.3], np.where(pixel < end, 1.0, level))
        for end, level in ((9, 0.3), (15, 2.0))
    ]
    return np.stack([x, z, -0.5 * x, cut, *steps])


_reasons: dict[int, str | None] = {}
_lock = threading.Lock()


def failure(cupy: ModuleType, engine: Engine) -> str | None:
    """Return why the current device fails the check, or None; it runs once for each device.

    Threads wait for one check. After a failure that may pass, the next use checks again.
    """
    device = int(cupy.cuda.runtime.getDevice())
    with _lock:
        if device in _reasons:
            return _reasons[device]
        timer = threading.Timer(_ANNOUNCE_AFTER, print, [_ANNOUNCEMENT], {"file": sys.stderr})
        timer.daemon = True
        timer.start()
        try:
            reason, lasting = check(engine)
        finally:
            timer.cancel()
        if lasting:
            _reasons[device] = reason
    return reason


def check(engine: Engine) -> tuple[str | None, bool]:
    """Return why the engine cannot serve, or None; and False for a failure that may pass.

    Any exception is a failure. Full memory, a full disk and a locked file may pass.
    """
    try:
        compared = [
            (
                error / TOLERANCE[dtype],
                f"error {error:.2g} of {kind} ({dtype}, {name}), expected "
                f"at most {TOLERANCE[dtype]:g} of √(K_ii K_jj)",
            )
            for name, dtype in product(CASES, TOLERANCE)
            for kind, error in errors_of(name, dtype, engine).items()
        ]
    except Exception as error:
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        remedy = f"; {RESTART}" * loses_device(error)
        full = getattr(error, "status", None) == OUT_OF_MEMORY
        lasting = not (full or isinstance(error, (MemoryError, OSError)))
        return f"its check on this device failed with {words}{remedy}", lasting
    failed = [comparison for comparison in compared if not comparison[0] <= 1.0]
    if not failed:
        return None, True
    _, worst = max(failed, key=lambda comparison: np.nan_to_num(comparison[0], nan=np.inf))
    return (
        f"its kernels are wrong on this device: {worst}; "
        f"{len(failed)} of {len(compared)} comparisons with engine 'array' failed"
    ), True


def loses_device(error: Exception) -> bool:
    """Return whether CUDA does no more work in this process after an error."""
    return getattr(error, "status", None) in LOST


def errors_of(name: str, dtype: str, engine: Engine) -> dict[str, float]:
    """Return the largest |ΔK|/√(K_ii K_jj) of each kind, at depth 1 and the network's.

    A symmetric Gram, a Gram of two batches and pairs are compared.
    """
    network, head, d, n = CASES[name]
    X, cases, every = signals(d)[:n], np.arange(n), slice(None)
    depths = tuple(sorted({1, network.depth}))
    request = Request(network, head, KINDS, depths, "float64", threads=1)
    exact = with_scales(ArrayEngine().plan(request, X).compute())
    request = replace(request, dtype=dtype)
    pairs = engine.plan(request, X, X[::-1], paired=True).compute()
    computed = (
        (every, every, with_scales(engine.plan(request, X).compute())),
        (slice(1), slice(1, None), with_scales(engine.plan(request, X[:1], X[1:]).compute())),
        (cases, cases[::-1], with_scales(pairs, paired=True)),
    )
    errors = {}
    for kind, K in exact.items():
        root = np.sqrt(K[:, cases, cases].reshape(len(K), n, -1).max(axis=2))
        size = (root[:, :, None] * root[:, None]).reshape(len(K), n, n, *[1] * (K.ndim - 3))
        parts = [
            np.abs((kernels[kind] - K[:, rows, columns]) / size[:, rows, columns]).max()
            for rows, columns, kernels in computed
        ]
        errors[kind] = float(np.max(parts))
    return errors


def with_scales(scaled: ScaledKernel, paired: bool = False) -> dict[str, np.ndarray]:
    """Return kernels with their scales: engines take out sizes of their own."""
    sizes = scaled.left * scaled.right if paired else np.multiply.outer(scaled.left, scaled.right)
    scale = [np.ldexp(sizes, exponent) for exponent in scaled.exponents]
    axes = next(iter(scaled.values.values())).ndim - np.ndim(scale)
    factors = np.reshape(scale, (*np.shape(scale), *[1] * axes))
    return {kind: values * factors for kind, values in scaled.values.items()}
