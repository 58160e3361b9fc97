"""Kernels on tensor grids of dot products, against kernels of signals."""

import tracemalloc
from functools import partial
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.literature import barzilai_resnet
from rescntk.theory import spectrum
from rescntk.theory.spectrum import grid
from tests import tolerances
from tests.strategies import kinds, networks


def on_grid(network, kind, angles, d, n_channels):
    """Return the equivariant kernel on the tensor grid of `angles`, and K(x, x)."""
    complements = 2 * np.sin(np.asarray(angles) / 2) ** 2
    last = grid.KernelOnGrid(network, kind, complements, d, n_channels, lambda points: None)
    branch = np.empty(last.shape)
    last.for_each_block(branch.__setitem__)
    taps = grid.taps(network.outer_filter(network.depth), d)
    values = sum(times * grid.rotate(branch, pixel) for pixel, times in taps.items())
    values = values / network.outer_filter_size + (last.carried if network.skip else 0.0)
    return last.scale * np.broadcast_to(values, (len(angles),) * d), last.scale * last.diagonal


@given(networks(dilated="freely"), st.integers(1, 4), st.integers(2, 3), kinds)
def test_the_kernel_on_a_grid(network, d, n_channels, kind):
    """Against signals with those angles between their pixels."""
    angles = [0.0, 1e-3, 0.4, 1.9]
    points = np.array(list(product(angles, repeat=d)))
    x, Z = np.zeros((1, n_channels, d)), np.zeros((len(points), n_channels, d))
    x[0, 0], Z[:, 0], Z[:, 1] = 1.0, np.cos(points), np.sin(points)
    x, Z = np.sqrt(n_channels) * x, np.sqrt(n_channels) * Z
    found, own = on_grid(network, kind, angles, d, n_channels)
    kernel, options = rk.Kernel(network, kind, "equivariant"), {"engine": "array"}
    diagonal = kernel.diag(x, **options)[0]
    assert abs(own - diagonal) <= tolerances.ROUTES * diagonal
    expected = kernel(x, Z, **options)[0].reshape(found.shape)
    assert np.abs(found - expected).max() <= tolerances.ROUTES * diagonal


def test_memory_is_what_was_said(monkeypatch):
    monkeypatch.setattr(grid, "_BLOCK_ENTRIES", 10_000)  # little beside the arrays
    case, options = (barzilai_resnet(3), 2, 4, 2), {"kind": "ntk", "nodes": 17}
    bytes_said = spectrum.cost(*case, **options)[1]
    tracemalloc.start()
    spectrum.eigenvalues(*case, head="equivariant", **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    scratch = 4 * 20 * 8 * grid._BLOCK_ENTRIES  # threads · arrays of a block
    assert peak <= bytes_said + scratch and bytes_said <= 4 * peak


def test_blocks_do_not_change_eigenvalues(monkeypatch, capsys):
    network, methods = barzilai_resnet(2), ({"nodes": 24}, {"method": "gegenbauer", "nodes": 16})
    case = partial(spectrum.eigenvalues, network, 2, 4, 4, kind="ntk", head="equivariant")
    whole = [case(**method).eigenvalues for method in methods]
    monkeypatch.setattr(grid, "_BLOCK_ENTRIES", 2000)
    for method, expected in zip(methods, whole, strict=True):
        found = case(**method, progress=True).eigenvalues
        assert np.abs(found - expected).max() <= tolerances.ROUTES * expected.max()
        assert "100%" in capsys.readouterr().err
