"""The hardware's limit for a compiled engine: the arithmetic that no layer can do without.

For each pixel pair and layer the limit counts one square root, two polynomials of the arc-cosine
kernels, and four loads. The loops are of the engine's kind, over arrays in the cache.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from rescntk.activations import arc
from rescntk.engines.cpu.references import addresses
from rescntk.engines.cpu.substitutes import coefficients_in
from rescntk.engines.cpu.vectors import load, sqrt, store


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _limit(
    arrays: tuple[np.ndarray, ...], polynomials: tuple[np.ndarray, ...], repeats: int
) -> None:
    size = len(arrays[0])
    (root1, root2, w, tangent, out), polynomials = addresses(arrays), addresses(polynomials)
    for _ in range(repeats):
        for at in range(0, size, out.per_vector):
            a = load(w, at)
            k0, k1 = arc(a, sqrt(a), polynomials)
            store(out, at, k0 * load(tangent, at) + load(root1, at) * load(root2, at) * k1)


def nanoseconds(dtype: str, threads: int, n: int = 1600, repeats: int = 40_000) -> float:
    """Return ns per pixel pair and layer, all threads together."""
    rng = np.random.default_rng(0)

    def work(_: int) -> None:
        arrays = tuple(rng.random(n).astype(dtype) for _ in range(5))
        _limit(arrays, polynomials, repeats)

    polynomials = coefficients_in(dtype)
    _limit((np.ones(n, dtype),) * 5, polynomials, 1)
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(threads)))
        seconds = time.perf_counter() - start
    return 1e9 * seconds / (n * repeats * threads)
