"""Paths and their counts by walking all paths."""

import itertools

import numpy as np
import pytest

import rescntk as rk
import theorem_5_2
from rescntk.theory import locality


def taps_of(network):
    """Return the taps of all convolutions, from the output to the input."""
    steps = network.dilation
    steps = [steps] * network.depth if isinstance(steps, int) else steps

    def taps(size, step=1):
        return [step * k for k in range(-(size // 2), size // 2 + 1)]

    sizes = network.outer_filter_size, network.filter_size
    found = [taps(size, step) for step in steps[:0:-1] for size in sizes]
    return [*found, taps(sizes[0], steps[0]), taps(network.input_filter_size)]


@pytest.mark.parametrize("d", [1, 4, 20])
@pytest.mark.parametrize(
    ("depth", "q", "outer", "first"), [(1, 3, 3, 1), (3, 3, 3, 1), (4, 3, 1, 1), (2, 5, 3, 3)]
)
@pytest.mark.parametrize("dilated", [False, True])
def test_path_counts_by_walking_all_paths(depth, q, outer, first, d, dilated):
    dilation = [layer + 2 for layer in range(depth)] if dilated else 1
    sizes = {"outer_filter_size": outer, "input_filter_size": first, "dilation": dilation}
    network = rk.Network(depth, q, **sizes)
    ends = [sum(path) for path in itertools.product(*taps_of(network))]
    found = locality.path_counts(depth, q, d, **sizes)
    assert found.dtype == object
    assert all(type(count) is int for count in found)
    assert found.tolist() == np.bincount(np.mod(ends, d), minlength=d).tolist()
    pixels = theorem_5_2.path_pixels(network)
    assert pixels.tolist() == ends
    assert abs(pixels).max() == locality.reach(network)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: locality.path_counts(2, 4, 5), "filter_size is 4"),
        (lambda: locality.path_counts(3, 3, 10**12), "n_timepoints is 1000000000000"),
        (
            lambda: theorem_5_2.path_pixels(rk.Network(10)),
            r"network has 10\^9\.1 paths.* 10\^1\.0 GB",
        ),
        (lambda: theorem_5_2.path_pixels(rk.Network(10**4)), r"network has 10\^9541\.9 paths"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
