"""Spectra on the multi-sphere against kernels, closed forms, high precision and Gram matrices."""

import itertools
import math
import tracemalloc
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
import scipy.sparse.linalg
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk import literature
from rescntk.theory import locality, multisphere, spectrum
from rescntk.theory.spectrum import blocks, dot_grid, quadrature, windows
from tests import tolerances
from tests.oracles import definition
from tests.strategies import kinds, networks

EPS = tolerances.EPS["float64"]
CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet
TWO, TWO_CNN = literature.barzilai_resnet, literature.barzilai_cnn


# ---------------------------------------------------------------- the kernel on a grid


def on_grid(network, kind, angles, d, n_channels):
    """Return the equivariant kernel on the tensor grid of `angles`, and K(x, x)."""
    gaps = 2 * np.sin(np.asarray(angles) / 2) ** 2
    last = dot_grid.LastLayer(network, kind, gaps, d, n_channels, 1)
    branch = last.branch(blocks.whole(last.shape))
    taps = windows.taps(network.outer_filter_size, d)
    values = sum(times * windows.rotate(branch, pixel) for pixel, times in taps.items())
    values = values / network.outer_filter_size + (last.carried if network.skip else 0.0)
    scale = math.ldexp(*last.scale)
    return scale * np.broadcast_to(values, (len(angles),) * d), scale * last.own


def signals_on_grid(angles, d, n_channels):
    """Return a signal, and one for each point of the grid, with those angles between pixels."""
    points = np.array(list(product(angles, repeat=d)))
    x, Z = np.zeros((1, n_channels, d)), np.zeros((len(points), n_channels, d))
    x[0, 0] = 1.0
    Z[:, 0], Z[:, 1] = np.cos(points), np.sin(points)
    return np.sqrt(n_channels) * x, np.sqrt(n_channels) * Z


@given(networks(), st.integers(1, 4), st.integers(2, 3), kinds)
def test_the_kernel_on_a_grid(network, d, n_channels, kind):
    angles = [0.0, 1e-3, 0.4, 1.9]
    found, own = on_grid(network, kind, angles, d, n_channels)
    kernel = rk.Kernel(network, kind, "equivariant")
    x, Z = signals_on_grid(angles, d, n_channels)
    expected = kernel(x, Z, engine="reference")[0].reshape(found.shape)
    bar = tolerances.ROUTES * float(kernel.diag(x, engine="reference")[0])
    assert np.abs(found - expected).max() <= bar
    assert abs(own - kernel.diag(x, engine="reference")[0]) <= bar


def test_opposite_pixels():
    """θ = π exactly, where cos and sin of the signals would not be."""
    found, own = on_grid(CNN(3), "ntk", [0.0, np.pi], 3, 2)
    x, Z = signals_on_grid([0.0, np.pi], 3, 2)
    Z[:, 1] = 0.0
    expected = rk.Kernel(CNN(3), "ntk", "equivariant")(x, Z)[0].reshape(2, 2, 2)
    assert np.abs(found - expected).max() <= tolerances.ROUTES * own


@pytest.mark.parametrize("skip", [True, False])
def test_theorem_4_1_on_a_grid(skip):
    angles = np.array([0.1, 1.0, 2.5])
    found, own = on_grid(rk.Network(3, 3, skip=skip, alpha=0.7), "gpk", angles, 4, 5)
    t = np.cos(np.stack(np.meshgrid(*[angles] * 4, indexing="ij"), axis=-1))
    expected = multisphere.normalized_gpk(t, 3, 3, 0.7, skip)[..., 0]
    assert np.abs(found / own - expected).max() <= tolerances.ROUTES


def test_blocks_do_not_change_values(monkeypatch):
    network = TWO(3)
    expected, _ = on_grid(network, "ntk", np.linspace(0, 3, 7), 4, 2)
    monkeypatch.setattr(dot_grid, "BLOCK_ENTRIES", 20)
    found, _ = on_grid(network, "ntk", np.linspace(0, 3, 7), 4, 2)
    assert (found == expected).all()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 40))
def test_blocks_cover_an_array_once(shape, entries):
    counts = np.zeros(shape)
    for block in blocks.blocks(tuple(shape), entries):
        counts[block] += 1
        assert counts[block].size <= entries
    assert (counts == 1).all()


def test_memory_is_what_was_said():
    for network, d in ((CNN(4), 5), (TWO(3), 4)):
        for kind in ("gpk", "ntk"):
            bytes_said = spectrum.cost(network, 2, d, 2, kind, nodes=24).bytes
            tracemalloc.start()
            spectrum.eigenvalues(network, 2, d, 2, kind, nodes=24)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            scratch = 4 * 20 * 8 * dot_grid.BLOCK_ENTRIES  # threads · arrays of a block
            assert peak <= bytes_said + scratch
            assert bytes_said <= 4 * peak


# ---------------------------------------------------------------- quadrature


@pytest.mark.parametrize("n_channels", [2, 3, 4, 7, 30])
def test_zonal_functions(n_channels):
    t = np.linspace(-1, 1, 41)
    found = spectrum.zonal(t, n_channels, 12)
    assert np.abs(found[:, -1] - 1).max() <= 100 * EPS
    index = (n_channels - 2) / 2
    for k in range(13):
        if n_channels == 2:
            expected = np.cos(k * np.arccos(t))
        else:
            scale = scipy.special.eval_gegenbauer(k, index, 1.0)
            expected = scipy.special.eval_gegenbauer(k, index, t) / scale
        assert np.abs(found[k] - expected).max() <= 1e3 * EPS


@pytest.mark.parametrize("n_channels", [2, 3, 4, 7, 30])
@pytest.mark.parametrize("method", ["angles", "gegenbauer", "cosine"])
def test_rules_are_orthogonal(method, n_channels):
    """∫ P_j P_k w dt = 1/N(C0, k) where j = k, and 0 elsewhere."""
    if method == "cosine" and n_channels > 2:
        return
    top = 8
    # A product of two zonal functions has twice the frequency.
    nodes = quadrature.default_nodes(method, n_channels, 2 * top)
    rule = quadrature.rule(method, n_channels, top, nodes)
    assert (np.diff(rule.angles) > 0).all()
    assert rule.angles[0] > 0
    assert rule.angles[-1] < np.pi
    values = spectrum.zonal(1 - rule.complements, n_channels, top)
    found = rule.transform(values, {1: top})
    expected = np.diag([1 / spectrum.harmonics(n_channels, k) for k in range(top + 1)])
    assert np.abs(found - expected).max() <= 100 * EPS


@pytest.mark.parametrize("n", [5, 31, 64])
def test_gauss_legendre_to_the_last_digits(n):
    mp = mpmath.mp.clone()
    mp.dps = 40
    x, weights = quadrature._gauss_legendre(n)
    for node, weight in zip(x, weights, strict=True):
        root = mp.findroot(lambda t: mp.legendre(n, t), mp.mpf(float(node)), tol=1e-60)
        slope = n * (root * mp.legendre(n, root) - mp.legendre(n - 1, root)) / (root**2 - 1)
        assert abs(float(mp.mpf(float(node)) - root)) <= EPS
        if np.finfo(np.longdouble).eps < EPS:
            assert abs(float(weight * (1 - root**2) * slope**2 / 2) - 1) <= 4 * EPS


def test_multiplicities():
    for n_channels in (2, 3, 5):
        # Polynomials of degree k on the sphere: harmonics of degrees k, k − 2, …
        for k in range(6):
            dimension = sum(spectrum.harmonics(n_channels, j) for j in range(k, -1, -2))
            assert dimension == math.comb(k + n_channels - 1, n_channels - 1)
    found = spectrum.multiplicities(3, 2, (2, 1), "trace")
    assert (found == [[1, 3], [3, 9], [5, 15]]).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
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


# ---------------------------------------------------------------- eigenvalues of one pixel


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


@pytest.mark.parametrize("n_channels", [2, 3, 6, 40])
@pytest.mark.parametrize(
    "network",
    [CNN(1, 1), TWO(3, 1, alpha=0.5), rk.Network(2, 1, skip=False, activation="erf")],
    ids=["shallow", "resnet", "erf"],
)
def test_one_pixel_in_high_precision(network, n_channels):
    """The definition of kernels and of eigenvalues, in 40 digits; tanh-sinh in θ."""
    mp = definition.mp
    kernels = {}

    def kernel(theta):
        if theta not in kernels:
            # Entries of an object array stay mpf: the signals are exact too.
            X = np.array([[[mp.mpf(1)], [mp.mpf(0)]], [[mp.cos(theta)], [mp.sin(theta)]]])
            padded = np.full((2, n_channels, 1), mp.mpf(0))
            padded[:, :2] = X * mp.sqrt(n_channels)
            gpk, ntk = definition.pixel_pairs(padded, network)[network.depth]
            kernels[theta] = {"gpk": gpk[0, 1, 0, 0], "ntk": ntk[0, 1, 0, 0]}
        return kernels[theta]

    def zonal(k, theta):
        if n_channels == 2:
            return mp.cos(k * theta)
        index = mp.mpf(n_channels - 2) / 2
        return mp.gegenbauer(k, index, mp.cos(theta)) / mp.gegenbauer(k, index, 1)

    half = mp.mpf(n_channels) / 2
    norm = mp.gamma(half) / mp.sqrt(mp.pi) / mp.gamma(half - mp.mpf(1) / 2)
    mp_dps, mp.dps = mp.dps, 30
    try:
        for kind in ("gpk", "ntk"):
            found = spectrum.eigenvalues(network, n_channels, 1, 6, kind, return_error=True)
            for k in (0, 1, 2, 5, 6):
                exact = norm * mp.quad(
                    lambda theta, k=k, kind=kind: (
                        kernel(theta)[kind] * zonal(k, theta) * mp.sin(theta) ** (n_channels - 2)
                    ),
                    [0, mp.pi],
                )
                assert abs(found.eigenvalues[k] - float(exact)) <= found.errors[k]
            own = float(kernel(mp.mpf(0))[kind])
            assert abs(found.trace / own - 1) <= tolerances.ROUTES
            assert found.errors.max() <= tolerances.SPECTRUM * own
    finally:
        mp.dps = mp_dps


# ---------------------------------------------------------------- eigenvalues of several pixels

CASES = [
    (CNN(3), 2, 4, 10),
    (RESNET(2, alpha=0.5), 3, 3, 10),
    (TWO(2), 2, 3, 12),
    (TWO_CNN(2, 5), 4, 3, 8),
    (TWO(4), 2, 2, 16),
    (rk.Network(2, 3, activation="erf", trained=("input", "outer")), 3, 3, 6),
    (rk.Network(3, 3, input_filter_size=3, outer_filter_size=5, c_w=0.8), 2, 4, 6),
]


@pytest.mark.parametrize(("network", "n_channels", "d", "top"), CASES)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_errors_hold_and_methods_agree(network, n_channels, d, top, kind):
    nodes = {2: 120, 3: 80, 4: 48}[d]
    exact = spectrum.eigenvalues(network, n_channels, d, top, kind, nodes=nodes, method="angles")
    own = spectrum.eigenvalues(network, n_channels, d, top, kind, return_error=True)
    assert (np.abs(own.eigenvalues - exact) <= own.errors).all()
    assert (own.errors <= tolerances.SPECTRUM * exact + tolerances.ROUTES * own.trace).all()
    assert (own.eigenvalues >= -own.errors).all()
    assert own.errors.min() > 0
    gegenbauer = spectrum.eigenvalues(
        network, n_channels, d, top, kind, method="gegenbauer", return_error=True
    )
    assert (np.abs(gegenbauer.eigenvalues - exact) <= gegenbauer.errors).all()
    if n_channels == 2:
        cosine = spectrum.eigenvalues(
            network, n_channels, d, top, kind, method="cosine", nodes=gegenbauer.nodes
        )
        difference = np.abs(cosine - gegenbauer.eigenvalues).max()
        assert difference <= tolerances.ROUTES * gegenbauer.trace


@settings(max_examples=40)
@given(networks(max_depth=4), st.integers(1, 3), st.integers(2, 5), kinds)
def test_no_eigenvalue_is_negative(network, d, n_channels, kind):
    found = spectrum.eigenvalues(network, n_channels, d, 4, kind, return_error=True)
    assert (found.eigenvalues >= -found.errors).all()
    count = spectrum.multiplicities(n_channels, d, 4)
    assert (found.eigenvalues * count).sum() <= found.trace + (found.errors * count).sum()


@pytest.mark.parametrize(("network", "n_channels", "d"), [c[:3] for c in CASES[:5]])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_eigenvalues_add_up_to_the_trace(network, n_channels, d, kind):
    """Σ λ_k Π N(C0, k_i) → K(1, …, 1); what lies beyond frequency K falls like a power of it.

    One pixel's share beyond K is Σ k^(C0−2) k^(−C0−2) ~ K^−3 for a Gaussian process kernel, and
    K^−1 for a tangent kernel, whose slope is two powers less; others fall no more slowly.
    """
    top = {2: 48, 3: 32, 4: 20}[d]
    power = {"gpk": 3, "ntk": 1}[kind]
    found = spectrum.eigenvalues(network, n_channels, d, top, kind, return_error=True)
    own = rk.Kernel(network, kind, "equivariant").diag(multisphere.sample(1, n_channels, d, 0))
    assert abs(found.trace / own[0] - 1) <= tolerances.ROUTES
    parts = found.eigenvalues * spectrum.multiplicities(n_channels, d, top)
    sums = [parts[(slice(K + 1),) * d].sum() for K in (top // 4, top // 2, top)]
    rest = found.trace - np.array(sums)
    assert (rest > 0).all()
    # N(C0, k) ~ (k + C0/2 − 1)^(C0−2), summed from K + 1 on: an integral from K + 1/2 on.
    half = (n_channels - 1) / 2
    ratio = ((top + half) / (top // 2 + half)) ** power
    extrapolated = sums[2] + (sums[2] - sums[1]) / (ratio - 1)
    assert abs(extrapolated - found.trace) <= tolerances.TAIL * rest[2]
    assert rest[0] > rest[1] > 1.5 * rest[2]


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_eigenvalues_of_a_group_of_signals(kind):
    """On all signals whose pixels are multiples of 2π/m the Gram matrix is a convolution.

    Its eigenvalues over the number of signals are the sums of λ over all frequencies that are
    equal modulo m; those beyond K, all that is left of the trace together, are not negative.
    """
    network, d, m, top = RESNET(2), 2, 12, 60
    angles = 2 * np.pi * np.array(list(product(range(m), repeat=d))) / m
    X = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    computed = np.linalg.eigvalsh(rk.Kernel(network, kind, "equivariant")(X)) / len(X)
    found = spectrum.eigenvalues(network, 2, d, top, kind, return_error=True)
    frequency = np.arange(-top, top + 1)
    expected, errors = np.zeros((m, m)), 0.0
    for k in product(frequency, repeat=d):
        expected[k[0] % m, k[1] % m] += found.eigenvalues[abs(k[0]), abs(k[1])]
    count = spectrum.multiplicities(2, d, top)
    rest = found.trace - (found.eigenvalues * count).sum()
    errors = (found.errors * count).sum()
    difference = computed - np.sort(expected.ravel())
    assert (difference >= -errors - 1e3 * EPS * found.trace).all()
    assert (difference <= rest + errors + 1e3 * EPS * found.trace).all()
    assert rest <= {"gpk": 1e-5, "ntk": 0.02}[kind] * found.trace


@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_spectrum_of_a_sampled_gram_matrix(head, kind):
    """The largest eigenvalues of Gram matrices of independent signals, over their number.

    First-order perturbation theory says that the mean over the copies of an eigenvalue is right
    on average; second order, that it is too large by λ/n Σ λ'/(λ − λ') over the others, times
    the mean of Y²Y'², which for products of harmonics is 1 or a little more.
    """
    network, n_channels, d, n, copies = RESNET(2), 3, 4, 1200, 6
    values = spectrum.eigenvalues(network, n_channels, d, 6, kind, head).ravel()
    count = spectrum.multiplicities(n_channels, d, 6, head).ravel()
    order = np.argsort(-values)
    values, count = values[order], count[order]
    edges = np.flatnonzero(np.diff(values) < -1e-6 * values[:-1]) + 1
    levels = np.array([group[0] for group in np.split(values, edges)])
    total = np.array([group.sum() for group in np.split(count, edges)])
    assert np.abs(total - total.round()).max() <= 1e-9
    starts = np.cumsum(np.r_[0, total[:3]]).round().astype(int)

    sampled, traces = [], []
    for seed in range(copies):
        X = multisphere.sample(n, n_channels, d, seed)
        K = rk.Kernel(network, kind, head)(X) / n
        first = np.sort(scipy.sparse.linalg.eigsh(K, k=starts[3], v0=np.ones(n))[0])[::-1]
        sampled.append([first[i:j].mean() for i, j in pairwise(starts)])
        traces.append(np.trace(K))
    sampled = np.array(sampled)
    beyond = np.mean(traces) - (levels * total).sum()  # frequencies above 6: small eigenvalues
    checked = 0
    for i in range(3):
        gaps = levels[i] - np.delete(levels, i)
        others, m = np.delete(levels, i), np.delete(total, i)
        if np.sqrt(others * levels[i] * m / n).max() > 0.2 * np.abs(gaps).min():
            continue  # levels that mix at this number of signals
        bias = (levels[i] * (others * m / gaps).sum() + beyond) / n
        spread = sampled[:, i].std(ddof=1) / np.sqrt(copies)
        error = abs(sampled[:, i].mean() - levels[i] - bias)
        # Third order: again by the ratio of the perturbation to the gaps.
        order = np.sqrt(others * levels[i] * m / n).max() / np.abs(gaps).min()
        assert error <= tolerances.STANDARD_ERRORS * spread + order * abs(bias)
        assert spread <= 0.02 * levels[i]
        checked += 1
    assert checked >= 2


def test_frequencies_outside_the_receptive_field_have_eigenvalue_0():
    found = spectrum.eigenvalues(CNN(2), 2, 6, 3, "ntk")
    inside = np.zeros_like(found, dtype=bool)
    inside[:, :, 0, 0, 0, :] = True
    assert (found[~inside] == 0).all()
    assert (found[inside] != 0).all()
    # A ring just as long as the field has the same spectrum as a longer one: no pixel twice.
    small, large = (spectrum.eigenvalues(CNN(2), 2, d, 3) for d in (3, 6))
    assert (small.transpose(0, 1, 2) == large[:, :, 0, 0, 0, :]).all()


@pytest.mark.parametrize("network", [CNN(3), TWO(2), rk.Network(2, 5, input_filter_size=3)])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_trace_and_gap_average_over_shifts(network, kind):
    one = spectrum.eigenvalues(network, 2, 4, 5, kind)
    shifts = [one.transpose([(axis + s) % 4 for axis in range(4)]) for s in range(4)]
    expected = np.mean(shifts, axis=0)
    for head in ("trace", "gap"):
        found = spectrum.eigenvalues(network, 2, 4, 5, kind, head)
        assert np.abs(found - expected).max() <= tolerances.ROUTES * one.max()
        assert np.abs(found - found.transpose(1, 2, 3, 0)).max() <= tolerances.ROUTES * one.max()


@pytest.mark.parametrize("head", ["equivariant", "trace"])
def test_some_frequencies_are_part_of_all(head):
    for network in (CNN(2), TWO(2)):
        whole = spectrum.eigenvalues(network, 3, 4, 5, "ntk", head)
        some = spectrum.eigenvalues(network, 3, 4, (5, 0, 2, 4), "ntk", head)
        assert some.shape == (6, 1, 3, 5)
        bar = tolerances.ROUTES * whole.max()
        assert np.abs(some - whole[:6, :1, :3, :5]).max() <= bar


def test_slabs_do_not_change_eigenvalues(monkeypatch):
    whole = spectrum.eigenvalues(TWO(2), 2, 4, 4, "ntk")
    monkeypatch.setattr(spectrum.funk_hecke, "_SLAB_ENTRIES", 5000)
    for method in ("angles", "cosine"):
        nodes = 80 if method == "cosine" else None
        found = spectrum.eigenvalues(TWO(2), 2, 4, 4, "ntk", method=method, nodes=nodes)
        bar = tolerances.ROUTES if method == "angles" else 1e-4
        assert np.abs(found - whole).max() <= bar * whole.max()


@pytest.mark.parametrize("method", ["angles", "gegenbauer", "cosine"])
def test_errors_of_too_few_nodes_are_large(method):
    """Even where the coarser grid has fewer nodes than frequencies."""
    network = TWO(2)
    exact = spectrum.eigenvalues(network, 2, 4, 8)
    found = spectrum.eigenvalues(network, 2, 4, 8, method=method, nodes=9, return_error=True)
    assert (np.abs(found.eigenvalues - exact) <= found.errors).mean() > 0.99
    assert found.errors[8, 0, 0, 0] > exact[8, 0, 0, 0]


def test_many_pixels_cost_what_their_field_does():
    frequency = [8, 8, *[0] * 29, 8]
    found = spectrum.eigenvalues(CNN(2), 2, 32, frequency, "ntk", return_error=True)
    short = spectrum.eigenvalues(CNN(2), 2, 3, 8, "ntk", return_error=True)
    assert np.abs(found.eigenvalues.reshape(9, 9, 9) - short.eigenvalues).max() <= 1e-15
    assert (found.errors > 0).all()


def test_deep_networks():
    deep = TWO(2000, alpha=1.0)
    found = spectrum.eigenvalues(deep, 2, 2, 2, "ntk", normalized=True)
    # Of a tangent kernel a quarter is left between different signals: T/q ← T/q (1 − 3/L) + 1.
    assert abs(found[0, 0] - 0.25) <= np.log(2000) / 2000
    gpk = spectrum.eigenvalues(deep, 2, 2, 2, normalized=True)
    assert abs((1 - gpk[0, 0]) / (18 * np.pi**2 / 2000**2) - 1) <= 0.05
    with pytest.raises(OverflowError, match="exceed float64 at depth 2000; normalized=True"):
        spectrum.eigenvalues(deep, 2, 2, 2)
    for kind in ("gpk", "ntk"):
        plain = spectrum.eigenvalues(TWO(5), 2, 3, 4, kind, return_error=True)
        scaled = spectrum.eigenvalues(TWO(5), 2, 3, 4, kind, normalized=True)
        assert np.abs(scaled * plain.trace / plain.eigenvalues - 1).max() <= tolerances.ROUTES


def test_a_kernel_of_0():
    network = rk.Network(2, c_v=0.0, skip=False)
    for normalized in (True, False):
        assert (spectrum.eigenvalues(network, 2, 3, 2, normalized=normalized) == 0).all()


# ---------------------------------------------------------------- decay


@pytest.mark.parametrize(
    ("network", "n_channels", "d", "top", "expected"),
    [
        (CNN(1, 1), 2, 1, 40, {"gpk": [-4], "ntk": [-2]}),
        (TWO(3), 3, 1, 40, {"gpk": [-5], "ntk": [-3]}),
        (CNN(2), 2, 3, 48, {"gpk": [-4, -6, -6], "ntk": [-2, -4, -4]}),
        (RESNET(3), 2, 4, 24, {"gpk": [-4, -6, -6], "ntk": [-2, -4, -4]}),
        (TWO(2), 3, 3, 40, {"gpk": [-5, -9, -9], "ntk": [-3, -7, -7]}),
        (CNN(2, 5), 2, 5, 16, {"gpk": [-4, -8, -8], "ntk": [-2, -6, -6]}),
    ],
)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_decay_exponents(network, n_channels, d, top, expected, kind):
    """Theorem 5.1's bounds, and the law of the singularities, approached with frequency."""
    found = spectrum.decay_exponents(network, n_channels, d, top, kind)
    assert [decay.law for decay in found] == expected[kind]
    for decay in found:
        p, powers = len(decay.pixels), {"gpk": 3, "ntk": 1}[kind]
        nu_a, nu_b = 5 / 2, 1 + powers / (2 * d)
        assert (found.nu_a, found.nu_b) == (nu_a, nu_b)
        assert abs(decay.lowest + p * (n_channels + 2 * nu_a - 3)) <= 1e-12
        assert abs(decay.highest + p * (n_channels + 2 * nu_b - 3)) <= 1e-12
        assert decay.lowest <= decay.law <= decay.highest
        assert abs(decay.exponent - decay.law) <= min(decay.uncertainty, tolerances.SLOPE)
        assert (decay.errors <= 1e-2 * decay.eigenvalues)[decay.eigenvalues > 1e-9].all()
    assert len(str(found).splitlines()) == 2 + len(found)


def test_the_law_where_no_window_covers_all_pixels():
    """Pixels 1, 2 and −1 of a five-pixel ring: a window of the third layer, or two smaller ones."""
    sets = [(0, 2), (1, 2, -1), (0, 1, 2, 3, 4)]
    found = spectrum.decay_exponents(CNN(3), 2, 5, 14, pixels=sets)
    assert [decay.law for decay in found] == [-6, -8, -8]
    for decay in found:
        assert abs(decay.exponent - decay.law) <= tolerances.SLOPE
    law = spectrum.singularity_exponent
    # Seven pixels, two of them far apart: windows of 1 cost 4 each, one of 7 costs 10.
    assert law(CNN(4), 2, 9, (-3, 3)) == -8
    assert law(CNN(4), 2, 9, (-3, -2, 2, 3)) == -10
    assert law(CNN(4), 2, 9, (-3, 3), "ntk") == -6
    assert law(CNN(2), 2, 9, (3,)) == -np.inf
    assert law(CNN(2), 2, 9, (3,), head="trace") == -4
    # Tangent kernels of which nothing below the readout is trained are Gaussian process kernels.
    frozen = CNN(2).replace(trained=("readout",))
    assert law(frozen, 2, 3, (0,), "ntk") == -4
    # Outer weights see the slopes of later layers, whose windows are wider.
    outer = CNN(2).replace(trained=("outer",))
    assert law(outer, 2, 3, (0,), "ntk") == -4
    assert law(outer, 2, 3, (0, 1), "ntk") == -4


def test_kernels_of_partly_trained_networks_follow_the_law():
    network = CNN(2).replace(trained=("outer",))
    found = spectrum.decay_exponents(network, 2, 3, 40, "ntk")
    assert [decay.law for decay in found] == [-4, -4, -4]
    for decay in found:
        assert abs(decay.exponent - decay.law) <= min(decay.uncertainty, tolerances.SLOPE)


@pytest.mark.parametrize(("kind", "law"), [("gpk", -10), ("ntk", -8)])
def test_the_law_of_products_of_windows(kind, law):
    """Two windows of 1 pixel, 2 · 5, are cheaper than the window of 5 that has both, 3 + 5 · 2."""
    (decay,) = spectrum.decay_exponents(CNN(2, 5), 3, 5, 20, kind, pixels=[(0, 1)])
    assert decay.law == law
    assert abs(decay.exponent - law) <= tolerances.COMPETITION


@pytest.mark.parametrize(
    "network",
    [
        TWO(1),
        TWO_CNN(1),
        TWO(2),
        TWO_CNN(2),
        CNN(2),
        rk.Network(3, 1, outer_filter_size=3, skip=False),
        rk.Network(1, input_filter_size=3),
    ],
)
@pytest.mark.parametrize("head", ["equivariant", "trace"])
def test_where_eigenvalues_are_0(network, head):
    """Exactly where the law says so: outside of all windows of the last layer."""
    d = 8
    field = windows.windows(network, d).features[-1].pixels
    top = [2 if head == "trace" or pixel in field else 0 for pixel in range(d)]
    found = spectrum.eigenvalues(network, 2, d, top, "ntk", head)
    for pixels in itertools.chain.from_iterable(
        itertools.combinations(range(d), count) for count in (1, 2, 3)
    ):
        law = spectrum.singularity_exponent(network, 2, d, pixels, "ntk", head)
        k = tuple(2 * (pixel in pixels) for pixel in range(d))
        value = found[k] if all(np.less_equal(k, top)) else 0.0
        assert (value == 0) == (law == -np.inf), pixels


def test_eigenvalues_of_0_have_no_slope():
    """Pixels 3 and −3 are in the receptive field, but in none of the last layer's windows of 5."""
    network = TWO_CNN(2)
    found = spectrum.decay_exponents(network, 2, 8, 12, pixels=[(3, -3), (3,), (1, 3)])
    none, one, two = found
    assert (none.eigenvalues == 0).all() and (one.eigenvalues > 0).all()
    assert [decay.law for decay in found] == [-np.inf, -4, -8]
    assert np.isnan(none.exponent)
    assert "λ = 0" in str(found).splitlines()[2]
    assert abs(two.exponent + 8) <= two.uncertainty
    # A network without its branches is linear.
    assert spectrum.singularity_exponent(TWO(2, alpha=0.0), 2, 3, (0,)) == -np.inf
    # One layer adds up functions of single pixels.
    shallow = spectrum.decay_exponents(TWO(1), 2, 3, 16)
    assert [decay.law for decay in shallow] == [-4, -np.inf, -np.inf]


def test_the_law_of_deep_networks_is_quick():
    """Exponential in the pixels, it would not end."""
    law = spectrum.singularity_exponent
    assert law(CNN(20), 2, 32, range(6)) == -10
    assert law(CNN(20), 2, 32, range(0, 32, 2), "ntk") == -32  # a window of 31


def test_decay_of_trace_kernels():
    found = spectrum.decay_exponents(CNN(2), 2, 4, 24, head="trace", pixels=[(0,), (2, 3)])
    assert [decay.law for decay in found] == [-4, -6]
    one = spectrum.decay_exponents(CNN(2), 2, 4, 24)
    ratio = found.decays[0].eigenvalues / one.decays[0].eigenvalues
    assert (ratio < 1).all()


# ---------------------------------------------------------------- ensembles


@pytest.mark.parametrize("exponent", [None, 4.0])
def test_fitted_constants(exponent):
    network, d, top = RESNET(3), 4, 6
    fit = spectrum.fit_ensemble(network, 2, d, top, exponent=exponent)
    found = spectrum.eigenvalues(network, 2, d, top)
    k = np.argwhere(found > 0)
    model = np.zeros(len(k))
    for depth, constant in zip(fit.depths, fit.constants, strict=True):
        outer = network.outer_filter_size
        paths = locality.path_counts(depth, network.filter_size, d, outer_filter_size=outer)
        paths = paths.astype(float)
        term = constant * fit.base ** np.minimum(paths, k).sum(axis=1)
        model += np.where(((paths > 0) | (k == 0)).all(axis=1), term, 0.0)
    model *= np.maximum(k, 1).prod(axis=1) ** fit.exponent
    values = found[found > 0]
    assert fit.n_eigenvalues == len(values) == (top + 1) ** d
    left = np.log(values / model)
    assert abs(np.sqrt((left**2).mean()) / fit.rms - 1) <= 1e-6
    assert abs(1 - (left**2).mean() / np.log(values).var() - fit.r_squared) <= 1e-6
    # The theorem's inequality, with constants that are as large as they may be.
    assert (model * fit.bound_factor <= values * (1 + 1e-9)).all()
    assert (model * fit.bound_factor >= values * (1 - 1e-9)).sum() >= 1
    if exponent is not None:
        assert abs(fit.exponent + exponent) <= 1e-8
    # A minimum: no other base does better with the same constants.
    alone = spectrum.fit_ensemble(network, 2, d, top, exponent=exponent, depths=[3])
    assert fit.rms < alone.rms
    assert alone.base >= 1


def test_a_single_layer_is_its_own_ensemble():
    """t + α² κ1(t): the dot product and a CNN, with weights 1 and α² over their sum."""
    found = spectrum.mixture(RESNET(1, alpha=0.5), 3, 2, 8)
    assert np.abs(found.weights - [0.8, 0.2]).max() <= 1e-6
    assert found.rms <= 1e-6
    assert np.abs(found.mixed - found.eigenvalues).max() <= 1e-6
    assert found.rms_alone > 0.5


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("d", [2, 4])
def test_the_dot_product_sees_the_input_filters_window(kind, d):
    """Where the window is longer than the ring, too: a pixel then counts twice."""
    network = rk.Network(1, input_filter_size=3, alpha=0.5, trained=("readout",))
    found = spectrum.mixture(network, 3, d, 4, kind)
    assert np.abs(found.weights - [0.8, 0.2]).max() <= 1e-6
    assert found.rms <= 1e-6


def test_paths_of_a_fit_are_exact():
    """With the input's filter, and where their number exceeds any float."""
    network = RESNET(2).replace(input_filter_size=3)
    fit = spectrum.fit_ensemble(network, 2, 5, (3, 3, 0, 0, 3))
    assert fit.paths.tolist() == [[1, 1, 0, 0, 1], [3, 2, 1, 1, 2]]
    deep = spectrum.fit_ensemble(CNN(700), 2, 1, 10)
    assert deep.paths.tolist() == [[3**699]]
    assert np.isfinite(deep.rms)


def test_progress_tells_all_points(capsys):
    pytest.importorskip("tqdm")
    spectrum.eigenvalues(TWO(2), 2, 3, 4, "ntk", return_error=True, progress=True)
    assert "100%" in capsys.readouterr().err


def test_mixtures_explain_more_than_the_deepest_network():
    for kind in ("gpk", "ntk"):
        found = spectrum.mixture(TWO(2), 2, 3, 8, kind)
        assert found.depths == (0, 1, 2)
        assert (found.weights >= 0).all()
        assert found.rms < found.rms_alone


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_channels": 1}, "n_channels is 1, expected at least 2: on the multi-sphere"),
        ({"n_channels": 2.5}, "n_channels is 2.5, expected an integer"),
        ({"n_timepoints": 0}, "n_timepoints is 0, expected an integer of at least 1"),
        ({"n_timepoints": 33}, "n_timepoints is 33, expected at most 32"),
        ({"max_frequency": -1}, "max_frequency is -1, expected an integer of at least 0"),
        ({"max_frequency": (1, 2)}, r"max_frequency is \(1, 2\), expected .* each of 3 pixels"),
        ({"max_frequency": 1.5}, "max_frequency is 1.5, expected an integer"),
        ({"kind": "nngp"}, "kind is 'nngp', expected one of 'gpk', 'ntk'"),
        ({"head": "mean"}, "head is 'mean', expected one of 'equivariant', 'trace', 'gap'"),
        ({"method": "simpson"}, "method is 'simpson', expected one of 'auto', 'angles'"),
        ({"n_channels": 3, "method": "cosine"}, "cosine transform is for n_channels 2"),
        ({"nodes": 3}, "nodes is 3, expected at least 4 for a max_frequency of 4 by 'angles'"),
        (
            {"nodes": 4, "method": "cosine"},
            "nodes is 4, expected at least 5 for a max_frequency of 4 by 'cosine'",
        ),
        ({"nodes": 1, "max_frequency": 0}, "nodes is 1, expected at least 2"),
        ({"max_points": 1e4}, r"has 1\.38e\+04 points, 0 hours of one core, expected max_points"),
        (
            {"network": CNN(2, 9), "n_timepoints": 9, "max_frequency": [8, *[0] * 8]},
            r"has 1\.97e\+13 points, 164 hours of one core",
        ),
        ({"max_points": "many"}, "max_points is 'many', expected a finite number"),
        ({"progress": 1}, "progress is 1, expected True or False"),
        ({"nodes": 10**9}, r"a grid of 1000000000 nodes a pixel.* takes [\d,]+\.\d GB"),
        ({"normalized": 1}, "normalized is 1, expected True or False"),
        ({"return_error": "yes"}, "return_error is 'yes', expected True or False"),
        ({"max_memory": -1}, "max_memory is -1, expected a finite number"),
        ({"network": "resnet"}, "network is 'resnet', expected a rescntk.Network"),
        (
            {"n_timepoints": 12, "network": CNN(6), "max_frequency": 2},
            r"11 of 12 pixels in the receptive field, takes \d\d,\d{3}\.\d GB",
        ),
        ({"n_timepoints": 20, "max_frequency": 8}, "expected max_memory, 4.0 GB, at most"),
    ],
)
def test_refusals(arguments, message):
    given = {"network": CNN(2), "n_channels": 2, "n_timepoints": 3, "max_frequency": 4}
    with pytest.raises(ValueError, match=message):
        spectrum.eigenvalues(**{**given, **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: spectrum.decay_exponents(CNN(2).replace(activation="erf"), 2, 3, 20),
            "theorem 5.1 is about ReLU",
        ),
        (lambda: spectrum.decay_exponents(CNN(2), 2, 3, 7), "is 7, expected at least 8"),
        (
            lambda: spectrum.decay_exponents(CNN(2), 2, 6, 9, pixels=[(0, 3)]),
            r"pixels has \[0, 3\], expected some of the receptive field's, \[0, 1, 5\]",
        ),
        (lambda: spectrum.decay_exponents(CNN(2), 2, 3, 9, pixels=[]), "pixels is empty"),
        (lambda: spectrum.decay_exponents(CNN(2), 2, 3, 9, pixels=[0]), "expected sets of int"),
        (lambda: spectrum.decay_exponents(CNN(2), 2, 3, 9, pixels=0), "expected sets of int"),
        (lambda: spectrum.decay_exponents(CNN(2), 2, 3, 9, pixels=[()]), "at least one pixel"),
        (
            lambda: spectrum.decay_exponents(CNN(2).replace(input_filter_size=3), 2, 3, 20),
            "input_filter_size 3: theorem 5.1 is about 1",
        ),
        (
            lambda: spectrum.singularity_exponent(CNN(2).replace(activation="erf"), 2, 3, (0,)),
            "theorem 5.1 is about ReLU",
        ),
        (lambda: spectrum.singularity_exponent(CNN(2), 2, 3, []), "expected at least one pixel"),
        (lambda: spectrum.singularity_exponent(CNN(2), 2, 3, 0), "pixels is 0, expected sets"),
        (lambda: spectrum.mixture(CNN(2), 2, 3, 4), "expected a ResNet"),
        (lambda: spectrum.fit_ensemble(RESNET(2), 2, 1, 2), "too few for 4 constants"),
        (lambda: spectrum.fit_ensemble(CNN(2), 2, 3, 4, depths=[0]), "depths is 0"),
        (
            lambda: spectrum.fit_ensemble(RESNET(2), 2, 3, 4, depths=[2, 2]),
            r"depths is \(2, 2\), expected different ones of at most the network's, 2",
        ),
        (lambda: spectrum.fit_ensemble(RESNET(2), 2, 3, 4, depths=[3]), r"depths is \(3,\)"),
        (lambda: spectrum.multiplicities(3, 12, 20), r"117,693,240\.2 GB, expected max_memory"),
        (lambda: spectrum.multiplicities(3, 30, 1, "gap"), r"takes 17\.2 GB, expected max_mem"),
        (lambda: spectrum.zonal(2.0, 3, 3), r"t has values from 2\.0 to 2\.0, expected dot"),
        (lambda: spectrum.zonal([0.0, np.nan], 3, 3), "t of shape .* contains NaN"),
        (lambda: spectrum.zonal(1j, 3, 3), "t has dtype complex128, expected real numbers"),
        (lambda: spectrum.harmonics(3, -1), "frequency is -1, expected an integer of at least 0"),
        (lambda: spectrum.zonal(0.5, 1, 3), "n_channels is 1, expected at least 2"),
    ],
)
def test_refusals_of_fits(call, message):
    with pytest.raises(ValueError, match=message):
        call()
