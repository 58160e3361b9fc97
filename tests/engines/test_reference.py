"""The reference engine: the memory that it takes."""

import rescntk as rk
from rescntk.engines import reference


def test_memory_stays_small(rng):
    """Nothing of the size of all pixel pairs: 500 x 500 with GAP, d = 100, has 20 GB of them."""
    tracemalloc = __import__("tracemalloc")
    X = rng.standard_normal((24, 2, 100))
    reference.keep_freed_memory()
    tracemalloc.start()
    try:
        rk.gram(rk.Network(2), X, X.copy(), engine="reference")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 24 x 24 x 100 x 100 numbers would be 46 MB; the tiles of all threads are a dozen arrays.
    assert peak <= 16 * 8 * reference._TILE_ENTRIES * reference._THREADS + 8e6
