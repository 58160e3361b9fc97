"""Circular sums against sums in exact arithmetic."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescntk import rings
from tests import tolerances


@given(
    st.integers(1, 12),
    st.sampled_from([1, 3, 5, 7, 9, 11, 15, 31]),
    st.integers(1, 20),
    st.integers(0, 2),
)
def test_circular_sums(d, size, step, extra_halo):
    pixels = np.random.default_rng(d * size).standard_normal((d, 2))
    taps = range(-step * (size // 2), step * (size // 2) + 1, step)
    expected = [[math.fsum(pixels[(j + k) % d, c] for k in taps) for c in (0, 1)] for j in range(d)]
    bar = size * tolerances.EPS["float64"] * np.abs(pixels).sum()
    assert np.abs(rings.circular_sum(np, pixels, size, step) - expected).max() <= bar
    halo = step * (size // 2) + extra_halo
    ring = np.full((d + 2 * halo, 2), np.nan)
    ring[halo : halo + d] = pixels
    rings.fill_halo(ring, halo)
    before = ring.copy()
    spare = np.empty_like(ring), np.empty_like(ring)
    sums = rings.moving_sum(np, ring, size, halo, np.empty_like(pixels), spare, step)
    assert (sums == rings.circular_sum(np, pixels, size, step)).all()
    assert (ring == before).all()
