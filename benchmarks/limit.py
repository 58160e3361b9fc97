"""The hardware's limit for a compiled engine: the arithmetic that no layer can do without.

For each pixel pair and layer one square root, the two polynomials of the arc-cosine kernels,
and the loads of the four numbers that they depend on; nothing else, in loops of the same kind
on arrays in the cache, on as many threads.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from rescntk.engines.cpu import layers as loops
from rescntk.engines.cpu.vectors import WIDE, load, sqrt, store


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _limit(x: Any, z: Any, d: Any, a: Any, out: Any, p: Any, r: Any, repeats: int) -> None:
    for _ in range(repeats):
        for t in range(0, len(out), WIDE // out.itemsize):
            w = load(d, t)
            s = sqrt(w)
            far = load(x, t) * load(z, t) * (s * w * loops.gap(w, r))
            store(out, t, s * loops.angle(w, p) * load(a, t) + far)


def nanoseconds(dtype: str, threads: int, n: int = 1600, repeats: int = 40_000) -> float:
    """Return ns per pixel pair and layer, all threads together."""
    rng = np.random.default_rng(0)

    def work(_: int) -> None:
        arrays = [rng.random(n).astype(dtype) for _ in range(5)]
        _limit(*arrays, *polynomial, repeats)

    polynomial = loops.coefficients(dtype)
    _limit(*[np.ones(n, dtype) for _ in range(5)], *polynomial, 1)
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(threads)))
        seconds = time.perf_counter() - start
    return 1e9 * seconds / (n * repeats * threads)
