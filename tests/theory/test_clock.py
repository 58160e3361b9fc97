"""The clock of eigenfunctions against Gram matrices on grids of angles, and flows integrated."""

import numpy as np
import pytest
from scipy.linalg import expm

import rescntk as rk
from rescntk.theory import spectrum
from rescntk.theory.learning import clock, learned
from tests import tolerances

ON_CIRCLES = (rk.Network(2, alpha=0.7), rk.Network(3, skip=False, trained=("readout",)))

ALIASES = {3: 5e-3, 1: 2e-4}
"""Relative size of λ_(24 − k) at low k: it falls like k^-2, or k^-4 if the readout is trained."""


def on_grid(n):
    """Return all pairs of n equally spaced angles as signals of two pixels: exact quadrature."""
    turns = 2 * np.pi * np.arange(n) / n
    angles = np.stack(np.meshgrid(turns, turns, indexing="ij"), axis=-1).reshape(-1, 2)
    return angles, np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
@pytest.mark.parametrize("network", ON_CIRCLES, ids=repr)
def test_eigenvalues_are_those_of_a_gram_matrix(network, head):
    """As often as the multiplicities say, up to the frequencies that the grid confuses."""
    _, X = on_grid(24)
    table = clock(network, 2, 2, 4, 1.0, head=head)
    values, counts = table.column("eigenvalue"), table.column("multiplicity")
    assert (np.diff(values) <= 0).all() and len(table) == 25
    expected = np.repeat(values, counts.astype(int))[:8]
    found = np.linalg.eigvalsh(rk.Kernel(network, "ntk", head)(X) / len(X))[::-1][:8]
    assert np.abs(found / expected - 1).max() <= ALIASES[len(network.trained)]


@pytest.mark.parametrize("network", ON_CIRCLES, ids=repr)
def test_eigenfunctions_are_learned_as_the_clock_says(network):
    angles, X = on_grid(24)
    y, K = np.cos(angles[:, 0]) * np.cos(2 * angles[:, 1]), rk.Kernel(network, "ntk", "trace")(X)
    slow = spectrum.eigenvalues(network, 2, 2, 2, "ntk", "trace")[1, 2]
    times = np.array([0.0, 0.1, 0.7, 3.0]) / slow
    (row,) = (r for r in clock(network, 2, 2, 2, times, head="trace") if r.frequencies == (1, 2))
    assert np.abs(np.array(row.shares) - learned(K, y, times).total).max() <= 5e-3


def test_flows_of_data(rng):
    """f' = −K(f − y)/n by the matrix exponential, two targets, and a kernel of lower rank."""
    features, y = rng.standard_normal((8, 5)), rng.standard_normal((8, 2))
    K, times = features @ features.T, [0.0, 0.3, 2.0, np.inf]
    found = learned(K, y, times)
    assert (np.diff(found.eigenvalues) <= 0).all() and (found.eigenvalues[5:] == 0).all()
    assert abs(found.shares.sum() - 1) <= tolerances.ROUTES
    for t, total, error in zip(times, found.total, found.error, strict=True):
        f = y - expm(-K * min(t, 1e3) / 8) @ y
        assert abs(total - (f * y).sum() / (y**2).sum()) <= 1e-12
        assert abs(error - ((f - y) ** 2).sum() / (y**2).sum()) <= 1e-12
    rows = {row.frequencies: row for row in clock(rk.Network(1, 1), 3, 2, 1, np.inf)}
    assert rows[0, 1].shares == (0.0,) and rows[1, 0].shares == (1.0,)  # of single pixels


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clock(rk.Network(2), 2, 2, 2, -1.0), "times is -1.0, expected real numbers of at"),
        (lambda: clock(rk.Network(2), 2, 2, 2, []), r"times is \[\], expected"),
        (lambda: clock(rk.Network(2), 1, 2, 2, 1.0), "n_channels is 1"),
        (lambda: learned(np.eye(2), [1.0, 2.0], [np.nan]), "times of shape .* contains NaN"),
        (lambda: learned(np.eye(2), [0.0, 0.0], [1.0]), "y is 0 for all signals"),
        (lambda: learned(np.eye(2), [1.0], [1.0]), r"y has shape \(1,\)"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
