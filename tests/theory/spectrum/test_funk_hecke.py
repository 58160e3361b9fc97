"""Eigenvalues against closed forms, other methods and Gram matrices."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk import literature
from rescntk.theory import multisphere, spectrum
from tests import tolerances
from tests.strategies import kinds, networks

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]
CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet
TWO = literature.barzilai_resnet


def test_arc_cosine_kernels_on_the_circle():
    """κ1 and κ1 + ρ κ0 of one layer: Fourier series in closed form."""
    k = np.arange(301.0)
    even = np.where((k > 1) & (k % 2 == 0), 1 / np.where(k == 1, np.inf, k**2 - 1) ** 2, 0.0)
    both, slope = 4 / np.pi**2 * even, 2 / np.pi**2 * (k**2 + 1) * even
    both[:2], slope[:2] = (4 / np.pi**2, 1 / 4), (2 / np.pi**2, 1 / 4)
    for kind, expected in (("gpk", both), ("ntk", both + slope)):
        found = spectrum.eigenvalues(CNN(1, 1), 2, 1, 300, kind, return_error=True)
        assert (np.abs(found.eigenvalues - expected) <= found.errors).all()
        assert (found.errors <= tolerances.SPECTRUM * expected)[expected > 0].all()


CASES = [
    (TWO(3, 1, alpha=0.5), 2, 1, 6),
    (CNN(3), 2, 4, 6),
    (RESNET(2, alpha=0.5), 3, 3, 10),
    (rk.Network(2, 3, activation="erf", trained=("input", "outer")), 3, 3, 6),
    (rk.Network(2, 1, skip=False, activation="erf"), 6, 1, 6),
    (rk.Network(3, 3, input_filter_size=3, outer_filter_size=5, c_w=0.8), 2, 3, 6),
]


@pytest.mark.parametrize(("network", "n_channels", "d", "top"), CASES)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_errors_hold_and_methods_agree(network, n_channels, d, top, kind):
    nodes = {1: 200, 2: 120, 3: 72, 4: 34}[d]
    exact = spectrum.eigenvalues(network, n_channels, d, top, kind, nodes=nodes, method="angles")
    own = spectrum.eigenvalues(network, n_channels, d, top, kind, return_error=True)
    assert (np.abs(own.eigenvalues - exact) <= own.errors).all()
    assert (own.errors <= tolerances.SPECTRUM * exact + tolerances.ROUTES * own.trace).all()
    assert (own.eigenvalues >= -own.errors).all()
    assert own.errors.min() > 0
    papers = {"method": "gegenbauer", "return_error": True}
    gegenbauer = spectrum.eigenvalues(network, n_channels, d, top, kind, **papers)
    assert (np.abs(gegenbauer.eigenvalues - exact) <= gegenbauer.errors).all()


@given(networks(max_depth=4, dilated="freely"), st.integers(1, 3), st.integers(2, 5), kinds)
def test_no_eigenvalue_is_negative(network, d, n_channels, kind):
    found = spectrum.eigenvalues(network, n_channels, d, 4, kind, return_error=True)
    assert (found.eigenvalues >= -found.errors).all()
    x, kernel = multisphere.sample(1, n_channels, d, 0), rk.Kernel(network, kind, "equivariant")
    own = kernel.diag(x, engine="reference")[0]
    assert abs(found.trace - own) <= tolerances.ROUTES * own
    count = spectrum.multiplicities(n_channels, d, 4)
    assert (found.eigenvalues * count).sum() <= found.trace + (found.errors * count).sum()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_eigenvalues_of_a_group_of_signals(kind):
    """On all signals whose pixels are multiples of 2π/m the Gram matrix is a convolution.

    Its eigenvalues over the number of signals are sums of λ over frequencies equal modulo m; those
    beyond K, all that is left of the trace together, are not negative.
    """
    network, d, m, top = RESNET(2), 2, 10, 60
    angles = 2 * np.pi * np.array(list(product(range(m), repeat=d))) / m
    X = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    computed = np.linalg.eigvalsh(rk.Kernel(network, kind, "equivariant")(X)) / len(X)
    found = spectrum.eigenvalues(network, 2, d, top, kind, return_error=True)
    expected = np.zeros((m, m))
    for k in product(range(-top, top + 1), repeat=d):
        expected[k[0] % m, k[1] % m] += found.eigenvalues[abs(k[0]), abs(k[1])]
    count = spectrum.multiplicities(2, d, top)
    rest = found.trace - (found.eigenvalues * count).sum()
    errors = (found.errors * count).sum() + 1e3 * EPS * found.trace
    difference = computed - np.sort(expected.ravel())
    assert (difference >= -errors).all() and (difference <= rest + errors).all()
    assert rest <= {"gpk": 1e-5, "ntk": 0.02}[kind] * found.trace


def test_some_frequencies_are_part_of_all():
    found = spectrum.eigenvalues(CNN(2), 2, 6, 3, "ntk")
    inside = np.zeros_like(found, dtype=bool)
    inside[:, :, 0, 0, 0, :] = True  # the receptive field
    assert ((found != 0) == inside).all()
    # A ring just as long as the field has the same spectrum as a longer one: no pixel twice.
    assert (spectrum.eigenvalues(CNN(2), 2, 3, 3, "ntk") == found[:, :, 0, 0, 0, :]).all()
    for head in ("equivariant", "trace"):
        whole = spectrum.eigenvalues(TWO(2), 3, 4, 5, "ntk", head)
        some = spectrum.eigenvalues(TWO(2), 3, 4, (5, 0, 2, 4), "ntk", head)
        assert some.shape == (6, 1, 3, 5)
        assert np.abs(some - whole[:6, :1, :3, :5]).max() <= tolerances.ROUTES * whole.max()


@pytest.mark.parametrize(
    ("network", "kind"), [(TWO(2), "gpk"), (rk.Network(2, 5, input_filter_size=3), "ntk")]
)
def test_trace_and_gap_average_over_shifts(network, kind):
    one = spectrum.eigenvalues(network, 2, 4, 5, kind)
    shifts = [one.transpose([(axis + s) % 4 for axis in range(4)]) for s in range(4)]
    for head in ("trace", "gap"):
        found = spectrum.eigenvalues(network, 2, 4, 5, kind, head)
        assert np.abs(found - np.mean(shifts, axis=0)).max() <= tolerances.ROUTES * one.max()


def test_slabs_do_not_change_eigenvalues(monkeypatch, capsys):
    case, methods = (TWO(2), 2, 4, 4, "ntk"), ({"nodes": 24}, {"method": "gegenbauer", "nodes": 16})
    whole = [spectrum.eigenvalues(*case, **method) for method in methods]
    monkeypatch.setattr(spectrum.funk_hecke, "_SLAB_ENTRIES", 5000)
    for method, expected in zip(methods, whole, strict=True):
        found = spectrum.eigenvalues(*case, **method, progress=True)
        assert np.abs(found - expected).max() <= tolerances.ROUTES * expected.max()
        assert "100%" in capsys.readouterr().err


def test_deep_networks():
    deep = TWO(1100, alpha=1.0)
    # Of a tangent kernel a quarter is left between different signals: T/q ← T/q (1 − 3/L) + 1.
    found = spectrum.eigenvalues(deep, 2, 2, 1, "ntk", normalized=True)
    assert abs(found[0, 0] - 0.25) <= np.log(1100) / 1100
    with pytest.raises(OverflowError, match="exceed float64 at depth 1100; normalized=True"):
        spectrum.eigenvalues(deep, 2, 1, 2)
    for kind in ("gpk", "ntk"):
        plain = spectrum.eigenvalues(TWO(5), 2, 3, 4, kind, return_error=True)
        scaled = spectrum.eigenvalues(TWO(5), 2, 3, 4, kind, normalized=True)
        assert np.abs(scaled * plain.trace / plain.eigenvalues - 1).max() <= tolerances.ROUTES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_channels": 1}, "n_channels is 1, expected at least 2: on the multi-sphere"),
        ({"n_timepoints": 33}, "n_timepoints is 33, expected at most 32"),
        ({"max_frequency": (1, 2)}, r"max_frequency is \(1, 2\), expected .* each of 3 pixels"),
        ({"head": "mean"}, "head is 'mean', expected one of 'equivariant', 'trace', 'gap'"),
        ({"method": "cosine"}, "method is 'cosine', expected one of 'auto', 'angles', 'gegenb"),
        ({"nodes": 3}, "nodes is 3, expected at least 4 for a max_frequency of 4 by 'angles'"),
        ({"max_points": 1e4}, r"has 1\.38e\+04 points, 0 hours of one core, expected max_points"),
        ({"nodes": 10**9}, r"a grid of 1000000000 nodes a pixel.* takes [\d,]+\.\d GB"),
        ({"n_timepoints": 20, "max_frequency": 8}, "expected max_memory, 4.0 GB, at most"),
    ],
)
def test_refusals(arguments, message):
    valid = {"network": CNN(2), "n_channels": 2, "n_timepoints": 3, "max_frequency": 4}
    with pytest.raises(ValueError, match=message):
        spectrum.eigenvalues(**{**valid, **arguments})
