"""The pieces that engines are made of: circular sums, sums without an order, tiles."""

import math
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk import rings
from rescntk.engines import exact_sum, reference
from tests import tolerances
from tests.engine_names import ENGINES


@given(st.integers(1, 12), st.sampled_from([1, 3, 5, 7, 9, 11, 15, 31]), st.integers(0, 2))
def test_circular_sums(d, size, extra_halo):
    pixels = np.random.default_rng(d * size).standard_normal((d, 2))
    taps = range(-(size // 2), size // 2 + 1)
    expected = [[math.fsum(pixels[(j + k) % d, c] for k in taps) for c in (0, 1)] for j in range(d)]
    bar = size * tolerances.EPS["float64"] * np.abs(pixels).sum()
    assert np.abs(rings.circular_sum(np, pixels, size) - expected).max() <= bar
    halo = size // 2 + extra_halo
    ring = np.full((d + 2 * halo, 2), np.nan)
    ring[halo : halo + d] = pixels
    rings.fill_halo(ring, halo)
    before = ring.copy()
    spare = np.empty_like(ring), np.empty_like(ring)
    sums = rings.moving_sum(np, ring, size, halo, np.empty_like(pixels), spare)
    assert (sums == rings.circular_sum(np, pixels, size)).all()
    assert (ring == before).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=300), st.randoms(), st.integers(-80, 80))
def test_sums_have_no_order(terms, random, exponent):
    def total(values):
        values = np.array(values) * 2.0**exponent
        coarse, fine = exact_sum.grids(np, 2.0**exponent, len(values))
        high, low = np.empty_like(values), np.empty_like(values)
        exact_sum.split(np, values, coarse, fine, high, low)
        assert math.fsum(high) == np.add.accumulate(high)[-1] == high[::-1].sum()
        return high.sum() + low.sum()

    shuffled = list(terms)
    random.shuffle(shuffled)
    assert total(terms) == total(shuffled)
    exact = float(sum(map(Fraction, terms)) * Fraction(2) ** exponent)
    # One rounding of the result, and what both grids drop: 2^-105 n² of the bound, a term.
    dropped = 2.0 ** (exponent - 100) * len(terms) ** 3
    assert abs(total(terms) - exact) <= tolerances.EPS["float64"] * abs(exact) + dropped


# Module constants of each engine that cut the work up, and values that cut it otherwise.
CUTS = {
    "reference": [
        {"_TILE_ENTRIES": 1, "_SHORTEST_RUN": 1, "_TABLE_BYTES": 1},
        {"_TILE_ENTRIES": 50, "_SHORTEST_RUN": 2, "_TABLE_BYTES": 10_000},
        {"_TILE_ENTRIES": 200, "_SHORTEST_RUN": 1, "_TABLE_BYTES": 3_000},
        {"_TILE_ENTRIES": 10**6},
    ],
    "numba": [
        {"_GROUP_BYTES": 1, "_TASK_PAIRS": 1, "_TABLE_BYTES": 1},
        {"_GROUP_BYTES": 100, "_TASK_PAIRS": 300, "_TABLE_BYTES": 10_000},
        {"_GROUP_BYTES": 10**5, "_TASK_PAIRS": 10**9},
    ],
    # Devices with so much memory free, whatever they have.
    "cuda": [
        {"free_bytes": lambda cupy: 1},
        {"free_bytes": lambda cupy: 1_500},
        {"free_bytes": lambda cupy: 40_000},
    ],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results_do_not_depend_on_how_the_work_is_cut(engine, head, dtype, monkeypatch, rng):
    """To the bit: not on tiles, blocks of signals and offsets, tasks, or threads."""
    X, Z = rng.standard_normal((7, 2, 9)), rng.standard_normal((5, 2, 9))
    network = rk.Network(4, 5)
    options = {"engine": engine, "dtype": dtype}

    def everything(threads):
        return [
            *rk.gram(network, X, Z, head=head, threads=threads, **options),
            *rk.gram(network, X, head=head, threads=threads, **options),
            rk.Kernel(network, "ntk", head).diag(X, threads=threads, **options),
            rk.pixel_pairs(network, X, Z, threads=threads, **options),
            rk.pixel_pairs(network, X, threads=threads, **options),
        ]

    whole = everything(1)
    module = {"numba": "cpu.engine", "cuda": "cuda.engine"}.get(engine, engine)
    module = import_module(f"rescntk.engines.{module}")
    for cut, threads in zip(CUTS[engine] + [{}], (1, 3, 2, 7, None), strict=False):
        with monkeypatch.context() as patch:
            for name, value in cut.items():
                patch.setattr(module, name, value)
            for part, one in zip(everything(threads), whole, strict=True):
                assert (part == one).all()


def test_a_symmetric_gram_computes_half_of_its_pairs(monkeypatch, rng):
    done = []
    original = reference._Run.cases

    def counting(self, *arguments):
        pairs = original(self, *arguments)
        done.append(pairs)
        return pairs

    monkeypatch.setattr(reference._Run, "cases", counting)
    X = rng.standard_normal((200, 1, 40))
    rk.ResCGPK(2, head="trace")(X, engine="reference")
    symmetric = sum(done)
    done.clear()
    rk.ResCGPK(2, head="trace")(X, X.copy(), engine="reference")
    assert sum(done) == 200**2
    assert symmetric <= 0.6 * 200**2


def test_memory_stays_small(rng):
    """Nothing of the size of all pixel pairs: 500 x 500 with GAP, d = 100, has 20 GB of them."""
    tracemalloc = __import__("tracemalloc")
    X = rng.standard_normal((40, 2, 100))
    tracemalloc.start()
    try:
        rk.gram(rk.Network(2), X, X.copy(), engine="reference")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 40 x 40 x 100 x 100 numbers would be 128 MB; the tiles of all threads are a dozen arrays.
    assert peak <= 16 * 8 * reference._TILE_ENTRIES * reference._THREADS + 8e6
