"""Rows and seams against the torus of pixel pairs, pair by pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rescntk.engines.geometry import Rows, longest_reach, receptive_reach

import rescntk as rk
from rescntk.engines import boxes

lengths = st.integers(1, 12)


shifts = st.integers(-40, 40) | st.integers(-(10**15), 10**15)


@given(lengths, st.lists(lengths, min_size=1, max_size=4), st.integers(0, 30), shifts)
def test_halos_and_shifts_follow_the_seam(d, others, halo, shift):
    """An array of pixel pairs' own names, with a halo, has the right names in its halo."""
    rows, halo = Rows.of(d, others), min(halo, d)
    seam = rows.seam(np)
    assert (seam is None) == rows.closed == all(d % other == 0 for other in others)

    def names(pixel):
        """Name the pixel pair at a place of each row, which may lie before or behind the row."""
        return [
            (case, pixel % d, (pixel + offset) % others[case])
            for case, offset in zip(rows.case, rows.offset, strict=True)
        ]

    code = np.array([[1000 * c + 30 * j + k for c, j, k in names(p)] for p in range(d)])
    expected = np.array(
        [[1000 * c + 30 * j + k for c, j, k in names(p)] for p in range(-halo, d + halo)]
    )
    assert (boxes.with_halo(code[:, None], halo, seam)[:, 0] == expected).all()
    moved = [[1000 * c + 30 * j + k for c, j, k in names(p + shift)] for p in range(d)]
    assert (boxes.shifted(code[:, None], shift, seam)[:, 0] == np.array(moved)).all()
    flat = np.concatenate([1000 * c + np.arange(other) for c, other in enumerate(others)])
    assert (flat[rows.pixels()] == code - 30 * np.arange(d)[:, None]).all()
    assert rows.pixel_pairs.tolist() == [d * other for other in others]


@pytest.mark.parametrize(
    ("network", "halo", "reach"),
    [
        (rk.Network(3, 3), 1, 5),
        (rk.Network(1, 5, outer_filter_size=3), 1, 1),
        (rk.Network(3, 3, outer_filter_size=7, dilation=2), 6, 22),
        (rk.Network(4, 3, dilation=(1, 2, 4, 8)), 8, 29),
        (rk.Network(4, 5, outer_filter_size=1, dilation=(9, 1, 2, 3)), 6, 12),
    ],
)
def test_reach_of_filters(network, halo, reach):
    assert longest_reach(network, network.depth) == halo
    assert receptive_reach(network, network.depth) == reach
    assert receptive_reach(network, 1) == network.outer_filter(1).reach
