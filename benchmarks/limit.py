"""The hardware's limit for a compiled engine: the arithmetic that no layer can do without.

For each pixel pair and layer one square root, the two polynomials of the arc-cosine kernels,
and the loads of the four numbers that they depend on; nothing else, in loops of the same kind
on arrays in the cache, on as many threads.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from rescntk.engines.numba_loops import _angle, _gap


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _limit(x: Any, z: Any, d: Any, a: Any, out: Any, repeats: int) -> None:
    for _ in range(repeats):
        for t in range(len(out)):
            w = d[t]
            s = math.sqrt(w)
            out[t] = s * _angle(w) * a[t] + x[t] * z[t] * (s * w * _gap(w))


def nanoseconds(dtype: str, threads: int, n: int = 1600, repeats: int = 4000) -> float:
    """Return ns per pixel pair and layer, all threads together."""
    rng = np.random.default_rng(0)

    def work(_: int) -> None:
        arrays = [rng.random(n).astype(dtype) for _ in range(5)]
        _limit(*arrays, repeats)

    _limit(*[np.ones(n, dtype) for _ in range(5)], 1)
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(threads)))
        seconds = time.perf_counter() - start
    return 1e9 * seconds / (n * repeats * threads)
