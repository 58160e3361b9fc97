"""Kernels on tensor grids against kernels of signals."""

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk import literature
from rescntk.theory import spectrum
from rescntk.theory.spectrum import grid
from tests import tolerances
from tests.strategies import kinds, networks

pytestmark = pytest.mark.slow


def on_grid(network, kind, angles, d, n_channels):
    """Return the equivariant kernel on the tensor grid of `angles`, and K(x, x)."""
    complements = 2 * np.sin(np.asarray(angles) / 2) ** 2
    last = grid.KernelOnGrid(network, kind, complements, d, n_channels, lambda points: None)
    branch = last.branch(tuple(slice(0, length) for length in last.shape))
    taps = grid.taps(network.outer_filter(network.depth), d)
    values = sum(times * grid.rotate(branch, pixel) for pixel, times in taps.items())
    values = values / network.outer_filter_size + (last.carried if network.skip else 0.0)
    scale = math.ldexp(*last.scale)
    return scale * np.broadcast_to(values, (len(angles),) * d), scale * last.own


def signals_on_grid(angles, d, n_channels):
    """Return a signal, and one for each point of the grid, with those angles between pixels."""
    points = np.array(list(product(angles, repeat=d)))
    x, Z = np.zeros((1, n_channels, d)), np.zeros((len(points), n_channels, d))
    x[0, 0], Z[:, 0], Z[:, 1] = 1.0, np.cos(points), np.sin(points)
    return np.sqrt(n_channels) * x, np.sqrt(n_channels) * Z


@given(networks(dilated="freely"), st.integers(1, 4), st.integers(2, 3), kinds)
def test_the_kernel_on_a_grid(network, d, n_channels, kind):
    angles = [0.0, 1e-3, 0.4, 1.9]
    found, own = on_grid(network, kind, angles, d, n_channels)
    kernel, options = rk.Kernel(network, kind, "equivariant"), {"engine": "reference"}
    x, Z = signals_on_grid(angles, d, n_channels)
    diagonal = kernel.diag(x, **options)[0]
    assert abs(own - diagonal) <= tolerances.ROUTES * diagonal
    expected = kernel(x, Z, **options)[0].reshape(found.shape)
    assert np.abs(found - expected).max() <= tolerances.ROUTES * diagonal


def test_blocks_do_not_change_values(monkeypatch):
    case = literature.barzilai_resnet(3), "ntk", np.linspace(0, 3, 5), 4, 2
    expected, _ = on_grid(*case)
    monkeypatch.setattr(grid, "_BLOCK_ENTRIES", 20)
    assert (on_grid(*case)[0] == expected).all()


def test_memory_is_what_was_said(monkeypatch):
    monkeypatch.setattr(grid, "_BLOCK_ENTRIES", 10_000)  # little beside the arrays
    case = literature.barzilai_resnet(3), 2, 4, 2, "ntk"
    bytes_said = spectrum.cost(*case, nodes=17)[1]
    tracemalloc.start()
    spectrum.eigenvalues(*case, nodes=17)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    scratch = 4 * 20 * 8 * grid._BLOCK_ENTRIES  # threads · arrays of a block
    assert peak <= bytes_said + scratch and bytes_said <= 4 * peak
