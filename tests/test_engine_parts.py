"""The pieces that engines are made of: circular sums, sums without an order, tiles."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.engines import exact_sum, reference, rings

from . import tolerances


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


@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
def test_results_do_not_depend_on_tiles(head, monkeypatch, rng):
    """To the bit: not on their size, nor on how signals and offsets are cut up."""
    X, Z = rng.standard_normal((7, 2, 9)), rng.standard_normal((5, 2, 9))
    network = rk.Network(4, 5)
    whole = rk.gram(network, X, Z, head=head), rk.gram(network, X, head=head)
    for entries, shortest, table_bytes, threads in (
        (1, 1, 1, 1),
        (50, 2, 10_000, 3),
        (200, 1, 3_000, 2),
        (10**6, 32, 2**20, 1),
    ):
        monkeypatch.setattr(reference, "_TILE_ENTRIES", entries)
        monkeypatch.setattr(reference, "_SHORTEST_RUN", shortest)
        monkeypatch.setattr(reference, "_TABLE_BYTES", table_bytes)
        monkeypatch.setattr(reference, "_THREADS", threads)
        parts = rk.gram(network, X, Z, head=head), rk.gram(network, X, head=head)
        for many, one in zip(parts, whole, strict=True):
            assert all((a == b).all() for a, b in zip(many, one, strict=True))
        pixels = rk.pixel_pairs(network, X, Z)
        assert np.isfinite(pixels).all()


def test_a_symmetric_gram_computes_half_of_its_pairs(monkeypatch, rng):
    done = []
    original = reference._Run.cases

    def counting(self, *arguments):
        pairs = original(self, *arguments)
        done.append(pairs)
        return pairs

    monkeypatch.setattr(reference._Run, "cases", counting)
    X = rng.standard_normal((200, 1, 40))
    rk.ResCGPK(2, head="trace")(X)
    symmetric = sum(done)
    done.clear()
    rk.ResCGPK(2, head="trace")(X, X.copy())
    assert sum(done) == 200**2
    assert symmetric <= 0.6 * 200**2


def test_memory_stays_small(rng):
    """Nothing of the size of all pixel pairs: 500 x 500 with GAP, d = 100, has 20 GB of them."""
    tracemalloc = __import__("tracemalloc")
    X = rng.standard_normal((40, 2, 100))
    tracemalloc.start()
    try:
        rk.gram(rk.Network(2), X, X.copy())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 40 x 40 x 100 x 100 numbers would be 128 MB; the tiles of all threads are a dozen arrays.
    assert peak <= 16 * 8 * reference._TILE_ENTRIES * reference._THREADS + 8e6
