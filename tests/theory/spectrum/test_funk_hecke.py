"""Eigenvalues against closed forms, other methods and Gram matrices."""

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk import literature
from rescntk.theory import multisphere, spectrum
from rescntk.theory.spectrum import grid, quadrature
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


@pytest.mark.parametrize(
    ("network", "n_channels", "d", "top"),
    [
        (TWO(3, 1, alpha=0.5), 2, 1, 6),
        (CNN(3), 2, 4, 6),
        (RESNET(2, alpha=0.5), 3, 3, 10),
        (rk.Network(2, 3, activation="erf", trained=("input", "outer")), 3, 3, 6),
        (rk.Network(2, 1, skip=False, activation="erf"), 6, 1, 6),
        (rk.Network(3, 3, input_filter_size=3, outer_filter_size=5, c_w=0.8), 2, 3, 6),
    ],
)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_errors_hold_and_methods_agree(network, n_channels, d, top, kind):
    nodes = {1: 200, 3: 72, 4: 34}[d]
    case = network, n_channels, d, top, kind
    exact = spectrum.eigenvalues(*case, nodes=nodes, method="angles")
    own = spectrum.eigenvalues(*case, return_error=True)
    gegenbauer = spectrum.eigenvalues(*case, method="gegenbauer", return_error=True)
    for found in (own, gegenbauer):
        assert (np.abs(found.eigenvalues - exact) <= found.errors).all()
    assert (own.errors <= tolerances.SPECTRUM * exact + tolerances.ROUTES * own.trace).all()
    assert own.errors.min() > 0


@pytest.mark.parametrize("method", quadrature.METHODS)
@pytest.mark.parametrize("n_channels", [2, 3, 7])
@pytest.mark.parametrize("network", [
    TWO(3), CNN(1, 1), TWO(2, alpha=1e-4), rk.Network(2, activation="erf", input_scale=100.0),
    rk.Network(2, activation="gelu"),
])  # fmt: skip
def test_errors_hold_for_any_number_of_nodes(network, n_channels, method):
    """Against 400 nodes; too few are refused."""
    for top, kind in product((0, 1, 3, 9), ("gpk", "ntk")):
        case = network, n_channels, 1, top, kind
        exact = spectrum.eigenvalues(*case, nodes=400, method="angles")
        refused = 0
        for nodes in (*range(top + 2, 35), 64):
            try:
                found = spectrum.eigenvalues(*case, nodes=nodes, method=method, return_error=True)
            except ValueError:
                refused += 1
                continue
            bar = found.errors + 2 * EPS * found.trace  # the exact values have rounding errors
            assert (np.abs(found.eigenvalues - exact) <= bar).all()
        assert refused <= 21


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
    """On pixels that are multiples of 2π/m, a Gram's are sums over frequencies equal modulo m."""
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
    whole = spectrum.eigenvalues(TWO(2), 3, 4, 5, "ntk", "trace")
    some = spectrum.eigenvalues(TWO(2), 3, 4, (5, 0, 2, 4), "ntk", "trace")
    assert np.abs(some - whole[:, :1, :3, :5]).max() <= tolerances.ROUTES * whole.max()


@pytest.mark.parametrize(
    ("network", "kind"), [(TWO(2), "gpk"), (rk.Network(2, 5, input_filter_size=3), "ntk")]
)
def test_trace_and_gap_average_over_shifts(network, kind):
    one = spectrum.eigenvalues(network, 2, 4, 5, kind)
    shifts = [one.transpose([(axis + s) % 4 for axis in range(4)]) for s in range(4)]
    for head in ("trace", "gap"):
        found = spectrum.eigenvalues(network, 2, 4, 5, kind, head)
        assert np.abs(found - np.mean(shifts, axis=0)).max() <= tolerances.ROUTES * one.max()


def test_deep_networks():
    deep = TWO(1100, alpha=1.0)
    # Of a tangent kernel a quarter is left between different signals: T/q ← T/q (1 − 3/L) + 1.
    found = spectrum.eigenvalues(deep, 2, 2, 1, "ntk", normalized=True)
    assert abs(found[0, 0] - 0.25) <= np.log(1100) / 1100
    with pytest.raises(OverflowError, match="exceed float64 at depth 1100; normalized=True"):
        spectrum.eigenvalues(deep, 2, 1, 2)
    plain = spectrum.eigenvalues(TWO(5), 2, 3, 4, "ntk", return_error=True)
    scaled = spectrum.eigenvalues(TWO(5), 2, 3, 4, "ntk", normalized=True)
    assert np.abs(scaled * plain.trace / plain.eigenvalues - 1).max() <= tolerances.ROUTES


@pytest.mark.parametrize("method", quadrature.METHODS)
@pytest.mark.parametrize("n_channels", [2, 3, 4, 7, 30])
def test_rules_are_orthogonal(method, n_channels):
    """∫ P_j P_k w dt = 1/N(C0, k) where j = k, and 0 elsewhere; P_k(1) = 1."""
    top = 8
    # A product of two zonal functions has twice the frequency.
    nodes = quadrature.default_nodes(method, n_channels, 2 * top)
    complements, matrix = quadrature.rule(method, n_channels, top, nodes)
    assert (np.diff([0.0, *complements, 2.0]) > 0).all()
    angles = 2 * np.arcsin(np.sqrt(complements / 2))
    found = quadrature.integrate(matrix, quadrature.zonal(angles, n_channels, top), {1: top})
    expected = np.diag([1 / spectrum.harmonics(n_channels, k) for k in range(top + 1)])
    assert np.abs(found - expected).max() <= 100 * EPS
    ends = quadrature.zonal(np.array([0.0, np.pi]), n_channels, top)
    assert np.abs(ends.T - [np.ones(9), (-1.0) ** np.arange(9)]).max() <= 100 * EPS


def test_multiplicities():
    # Polynomials of degree k on the sphere: harmonics of degrees k, k − 2, …
    for n_channels, k in product((2, 3, 5), range(6)):
        dimension = sum(spectrum.harmonics(n_channels, j) for j in range(k, -1, -2))
        assert dimension == math.comb(k + n_channels - 1, n_channels - 1)
    assert (spectrum.multiplicities(3, 2, (2, 1), "trace") == [[1, 3], [3, 9], [5, 15]]).all()


@pytest.mark.parametrize("d", [1, 3, 4, 6])
def test_multiplicities_of_gap_count_orbits(d):
    """By enumeration: products of harmonics (frequency, which), up to shifts."""
    top, n_channels = (2, 3) if d < 4 else (1, 3)
    each = [(k, m) for k in range(top + 1) for m in range(spectrum.harmonics(n_channels, k))]
    counts = {}
    for functions in product(each, repeat=d):
        orbit = {functions[i:] + functions[:i] for i in range(d)}
        if functions == min(orbit):
            frequency = min(tuple(k for k, _ in some) for some in orbit)
            counts[frequency] = counts.get(frequency, 0) + 1
    found = spectrum.multiplicities(n_channels, d, top, "gap")
    for frequency, count in counts.items():
        shifts = {frequency[i:] + frequency[:i] for i in range(d)}
        assert abs(sum(found[k] for k in shifts) - count) <= 100 * EPS * count
    assert abs(found.sum() - sum(counts.values())) <= 1e3 * EPS * found.sum()


def on_grid(network, kind, angles, d, n_channels):
    """Return the equivariant kernel on the tensor grid of `angles`, and K(x, x)."""
    complements = 2 * np.sin(np.asarray(angles) / 2) ** 2
    last = grid.KernelOnGrid(network, kind, complements, d, n_channels, lambda points: None)
    branch = np.empty(last.shape)
    last.each_block(branch.__setitem__)
    taps = grid.taps(network.outer_filter(network.depth), d)
    values = sum(times * grid.rotate(branch, pixel) for pixel, times in taps.items())
    values = values / network.outer_filter_size + (last.carried if network.skip else 0.0)
    return last.scale * np.broadcast_to(values, (len(angles),) * d), last.scale * last.own


@given(networks(dilated="freely"), st.integers(1, 4), st.integers(2, 3), kinds)
def test_the_kernel_on_a_grid(network, d, n_channels, kind):
    """Against signals with those angles between their pixels."""
    angles = [0.0, 1e-3, 0.4, 1.9]
    points = np.array(list(product(angles, repeat=d)))
    x, Z = np.zeros((1, n_channels, d)), np.zeros((len(points), n_channels, d))
    x[0, 0], Z[:, 0], Z[:, 1] = 1.0, np.cos(points), np.sin(points)
    x, Z = np.sqrt(n_channels) * x, np.sqrt(n_channels) * Z
    found, own = on_grid(network, kind, angles, d, n_channels)
    kernel, options = rk.Kernel(network, kind, "equivariant"), {"engine": "reference"}
    diagonal = kernel.diag(x, **options)[0]
    assert abs(own - diagonal) <= tolerances.ROUTES * diagonal
    expected = kernel(x, Z, **options)[0].reshape(found.shape)
    assert np.abs(found - expected).max() <= tolerances.ROUTES * diagonal


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


def test_blocks_do_not_change_eigenvalues(monkeypatch, capsys):
    case, methods = (TWO(2), 2, 4, 4, "ntk"), ({"nodes": 24}, {"method": "gegenbauer", "nodes": 16})
    whole = [spectrum.eigenvalues(*case, **method) for method in methods]
    monkeypatch.setattr(grid, "_BLOCK_ENTRIES", 2000)
    for method, expected in zip(methods, whole, strict=True):
        found = spectrum.eigenvalues(*case, **method, progress=True)
        assert np.abs(found - expected).max() <= tolerances.ROUTES * expected.max()
        assert "100%" in capsys.readouterr().err
