"""The check that the engine "cuda" computes right kernels on the current device.

When a process uses a device for the first time, the engine computes the kernels of CASES for a few
signals. They are compared with those of the engine "array", which NumPy computes in half a second.
For each case, CuPy compiles an instance of the GPU kernel, in a second or two; it also compiles its
own kernels for array operations. From 14.2 on it keeps them on disk. The check tests the device,
the driver and the compiler; there is a case for each way through the source text.

If the check fails, the engine is not used. `engines.available()`, and the error of a call that
names the engine, contain the errors that were found; "auto" chooses the engine "array".
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
from ..engine import AnyEngine
from ..request import Request, ScaledKernel

TOLERANCE = {"float64": 1e-14, "float32": 1e-6}
"""The largest |ΔK|/√(K_ii K_jj) with which the check passes. It is the tolerance of the test suite
against 40-digit arithmetic (tests/tolerances.py, KERNEL). Rounding errors are a tenth of it; a
larger tolerance would hide faults."""

OUT_OF_MEMORY, LOST = 2, frozenset((700, 702, 710, *range(714, 720)))
"""The status of CUDA's error for full memory, and those of errors after which CUDA does no more
work in a process: illegal addresses and instructions, time-outs and failures of a launch (CUDA
Runtime and Driver API, "Error Handling")."""

_ANNOUNCEMENT = (
    "rescntk: compiling and checking loops on the GPU, about a minute; later processes read them "
    "from disk"
)
_ANNOUNCE_AFTER = 1.0
"""Seconds after which the check is announced, chosen by taste. If the compiled kernels are on disk,
the check takes less time."""

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
"""For each case, by its name: the network, the head, the length and the number of signals. Each is
computed in both precisions. Network, head and length determine the instance of the GPU kernel, its
shared memory, and the pixels of a thread."""


def signals(d: int) -> np.ndarray:
    """Return six signals of two channels, (6, 2, d).

    They are x, z, −x/2, z with some pixels set to 0, and two step functions in the same direction
    of channel space. The features of the steps are parallel but have different sizes, so that their
    deficits are 0.
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


def failure(cupy: ModuleType, engine: AnyEngine) -> str | None:
    """Return why the check fails on the current device, or None if it passes.

    The check runs once for each device, even if several threads ask. After a failure that may be
    temporary, it runs again at the next use.
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


def check(engine: AnyEngine) -> tuple[str | None, bool]:
    """Return why the check fails, or None if it passes, and whether this result is permanent.

    Any exception is a failure. Failures by full memory, a full disk or a locked file are temporary.
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
    """Return whether, after this error, CUDA does no more work in the process."""
    return getattr(error, "status", None) in LOST


def errors_of(name: str, dtype: str, engine: AnyEngine) -> dict[str, float]:
    """Return the largest |ΔK|/√(K_ii K_jj) of each kind for a case.

    It is the largest over a symmetric kernel matrix, a matrix of two batches and paired signals, at
    depth 1 and at the depth of the network.
    """
    network, head, d, n = CASES[name]
    X, cases, all_cases = signals(d)[:n], np.arange(n), slice(None)
    depths = tuple(sorted({1, network.depth}))
    request = Request(network, head, KINDS, depths, "float64", threads=1)
    exact = with_scales(ArrayEngine().plan(request, X).compute())
    request = replace(request, dtype=dtype)
    pairs = engine.plan(request, X, X[::-1], paired=True).compute()
    computed = (
        (all_cases, all_cases, with_scales(engine.plan(request, X).compute())),
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
    """Return the kernels multiplied by their scales, since engines scale signals differently."""
    sizes = scaled.left * scaled.right if paired else np.multiply.outer(scaled.left, scaled.right)
    scale = [np.ldexp(sizes, exponent) for exponent in scaled.exponents]
    axes = next(iter(scaled.values.values())).ndim - np.ndim(scale)
    factors = np.reshape(scale, (*np.shape(scale), *[1] * axes))
    return {kind: values * factors for kind, values in scaled.values.items()}
