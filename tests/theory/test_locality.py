"""Receptive fields, responses to changed pixels, and paths, against definitions."""

import itertools
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import rescntk as rk
import responses
from rescntk import literature
from rescntk.network import RELU_FIELDS
from rescntk.theory import locality, multisphere, paths, spectrum
from tests import tolerances
from tests.oracles import fields, papers
from tests.strategies import kinds, networks, signals

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]
KINDS = ("gpk", "ntk")


def relu_networks(max_depth=6):
    return networks(RELU_FIELDS, max_depth, dilated="evenly" if max_depth > 9 else "freely")


@given(relu_networks(), st.integers(1, 9), kinds)
@example(rk.Network(3, trained=()), 5, "ntk")
@example(rk.Network(3, readout_scale=0), 5, "gpk")
@example(rk.Network(3, alpha=0), 5, "gpk")
def test_fields_are_the_recursion_run_on_impulses(network, d, kind):
    """Each weight to its last digits, and exactly 0 outside the receptive field."""
    expected = fields.weights(network, d)[KINDS.index(kind)]
    found = locality.effective_receptive_field(network, d, kind)
    assert found.shape == (d,) and found.dtype == np.float64
    bar = tolerances.receptive_field(network.depth, d)
    exact = np.array(expected, dtype=float)
    assert (np.abs(found - exact) <= bar * exact).all()
    if any(expected):
        shape = locality.effective_receptive_field(network, d, kind, normalized=True)
        exact = np.array([weight / sum(expected) for weight in expected], dtype=float)
        assert (np.abs(shape - exact) <= bar * exact).all()


@given(relu_networks(), signals(), kinds)
def test_energies_weighed_by_the_field_are_the_kernel(network, X, kind):
    _, channels, d = X.shape
    scale = 1 / channels if network.input_scale is None else network.input_scale
    weights = locality.effective_receptive_field(network, d, kind)
    expected = scale * (X**2).sum(axis=1) @ weights
    computed = rk.Kernel(network, kind, "equivariant").diag(X)
    bar = (tolerances.KERNEL["float64"] + tolerances.receptive_field(network.depth, d)) * expected
    assert (np.abs(computed - expected) <= bar).all()


@pytest.mark.parametrize("skip", [True, False])
def test_fields_mix_the_cnns_of_all_subsets_of_the_layers(skip):
    """Given the subset, an image's step on one axis does not depend on the other's."""
    network = rk.Network(2, 3, alpha=0.8, skip=skip, readout_scale=4.0)
    d, p, growth = 9, network.branch_share, network.growth
    of_axis, of_image = np.zeros(d), np.zeros((d, d))
    for taken in itertools.product((0, 1), repeat=2):
        walk = np.eye(d)[0]
        for _ in range(sum(taken) + taken[1]):  # the outer step of each, the inner of layer 2
            walk = (np.roll(walk, -1) + walk + np.roll(walk, 1)) / 3
        weight = 4.0 * growth**2 * p ** sum(taken) * (1 - p) ** (2 - sum(taken))
        of_axis += weight * walk
        of_image += weight * np.outer(walk, walk)
    bar = tolerances.ROUTES * of_axis.sum()
    assert np.abs(locality.effective_receptive_field(network, d, "gpk") - of_axis).max() <= bar
    impulses = np.eye(d * d).reshape(d * d, 1, d, d)
    found = rk.Kernel(network, "gpk", "equivariant").diag(impulses).reshape(d, d)
    assert np.abs(found - of_image).max() <= bar


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(("depth", "d"), [(1, 5), (40, 301), (3000, 1000), (10**6, 12)])
def test_fourier_form(depth, d, skip):
    """ŵ = (1 + α²Ĥ)(1 + α²Ĥ²)^(L−1), the tangent kernel's its derivative by log α²."""
    alpha2, q = 0.49 if skip else 1.0, 3
    share = alpha2 / (1 + alpha2) if skip else 1.0
    angle = 2 * np.pi * np.arange(d // 2 + 1) / d
    H = 1 - 4 / q * np.sin(angle / 2) ** 2
    gap = 4 / q * np.sin(angle / 2) ** 2 * (1 + H)  # 1 − Ĥ², with all its digits

    def power(n):  # of 1 − share · gap, which is 0 where Ĥ is 0 and nothing is skipped
        base = np.where(share * gap < 1, share * gap, 0.5)
        return np.where(share * gap < 1, np.exp(n * np.log1p(-base)), 0.0**n)

    others = power(depth - 1)
    fewer = power(depth - 2) if depth > 1 else 0.0
    first = 1 - share + share * H
    network = rk.Network(depth, q, skip=skip, alpha=0.7)
    branches = share * H * others + (depth - 1) * share * H**2 * first * fewer
    ntk = (first * others + 2 * branches) / (1 + 2 * depth * share)
    for kind, transform in (("gpk", first * others), ("ntk", ntk)):
        found = locality.effective_receptive_field(network, d, kind, normalized=True)
        assert np.abs(found - np.fft.irfft(transform, d)).max() <= 100 * EPS


@given(relu_networks(3), kinds)
def test_widths_are_the_second_moments(network, kind):
    if locality.reach(network) > 6:  # exact fractions would take seconds
        network = network.replace(dilation=1)
    d = 2 * locality.reach(network) + 1
    exact = fields.weights(network, d)[KINDS.index(kind)]
    assert exact[d // 2] or not any(exact) or network.alpha == 0  # the farthest pixel counts
    if not any(exact):
        with pytest.raises(ValueError, match="0 for every signal"):
            locality.width(network, kind)
        return
    expected = fields.squared_width(exact)
    assert abs(locality.width(network, kind) ** 2 - expected) <= 32 * EPS * expected


@given(relu_networks(300), kinds)
def test_the_law_of_widths(network, kind):
    """Var = L p (v_o + v_i) up to a bounded term; the tangent kernel's is below 1 branch more."""
    assume(kind == "gpk" or network.trained)
    sizes = network.input_filter_size, network.outer_filter_size, network.filter_size
    steps = np.array([1, network.dilation, network.dilation])
    v0, v_o, v_i = (np.square(sizes) - 1) / 12 * steps**2
    found = locality.width(network, kind)
    law = np.sqrt(network.depth * network.branch_share * (v_o + v_i))
    slack = 32 * EPS * (found**2 + law**2)
    assert abs(found**2 - law**2) <= v0 + v_o + v_i + slack
    gpk = locality.width(network, "gpk")
    assert gpk**2 <= found**2 + slack
    assert found**2 <= gpk**2 + v_o + v_i + slack


def test_random_functions_have_the_kernels_responses(rng):
    """Random features, whose kernel is known; 9 orthogonal readouts stand for random ones."""
    X, Z = rng.standard_normal((2, 3, 2, 4))
    weights = rng.standard_normal((9, 8))

    def features(X):
        return np.maximum(X.reshape(len(X), 8) @ weights.T, 0)

    expected = responses.kernel_responses(lambda X: features(X) @ features(X).T, X, Z)
    parts = [responses.responses(lambda X, k=k: features(X)[:, k], X, Z) for k in range(9)]
    for found, values in zip(np.sum(parts, axis=0), expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-12 * np.nanmax(values))


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_pixels_act_together_within_windows(rng, kind):
    """Depth 2, filters of 3: pre-activations see 5 pixels, no two of them 5 apart."""
    network, d = literature.barzilai_resnet(2), 12
    X, Z = rng.standard_normal((2, 2, 2, d))
    floor = 1e3 * tolerances.KERNEL["float64"]
    for head in ("trace", "gap"):
        found = responses.kernel_responses(rk.Kernel(network, kind, head), X, Z)
        size = found.single.max()
        assert (found.single > 0).all()
        near, far = found.pair[[1, 2, 3, 4]], found.pair[5:-4]
        assert (np.abs(far) <= floor * size).all()
        assert (near > 10 * floor * size).all() and near[0] > near[3]
    found = responses.kernel_responses(rk.Kernel(network, kind, "equivariant"), X, Z)
    inside = locality.effective_receptive_field(network, d) > 0
    assert (found.single[inside] > 0).all() and (found.single[~inside] == 0).all()


def test_deep_fields():
    """Mass one, no negative weight, and tails with all their digits, which an FFT would lose."""
    for depth, kind in product((10**3, 10**9), KINDS):
        field = locality.effective_receptive_field(rk.Network(depth, 5), 501, kind, normalized=True)
        assert (field >= 0).all()
        assert abs(field.sum() - 1) <= 100 * EPS
    with pytest.raises(OverflowError, match="normalized=True"):
        locality.effective_receptive_field(rk.Network(2000), 10)
    # The farthest pixel is reached by one path in q^(2L−1).
    network = literature.barzilai_cnn(100, 3)
    assert locality.reach(network) == 199
    field = locality.effective_receptive_field(network, 401, "gpk")
    assert field[199] == pytest.approx(3.0**-199, rel=1e-13) and field[200] == field[201] == 0


CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet


def taps_of(network):
    """Return the taps of all convolutions, from the output to the input."""
    steps = network.dilation
    steps = [steps] * network.depth if isinstance(steps, int) else steps

    def taps(size, step=1):
        return [step * k for k in range(-(size // 2), size // 2 + 1)]

    sizes = network.outer_filter_size, network.filter_size
    found = [taps(size, step) for step in steps[:0:-1] for size in sizes]
    return [*found, taps(sizes[0], steps[0]), taps(network.input_filter_size)]


@pytest.mark.parametrize(
    ("depth", "q", "outer", "first"), [(1, 3, 3, 1), (3, 3, 3, 1), (4, 3, 1, 1), (2, 5, 3, 3)]
)
@pytest.mark.parametrize("dilated", [False, True])
def test_path_counts_by_walking_all_paths(depth, q, outer, first, dilated):
    dilation = [layer + 2 for layer in range(depth)] if dilated else 1
    sizes = {"outer_filter_size": outer, "input_filter_size": first, "dilation": dilation}
    network = rk.Network(depth, q, **sizes)
    ends = [sum(path) for path in itertools.product(*taps_of(network))]
    for d in (1, 4, 20):
        found = locality.path_counts(depth, q, d, **sizes)
        assert found.tolist() == np.bincount(np.mod(ends, d), minlength=d).tolist()
    pixels = paths.path_pixels(network)
    assert pixels.tolist() == ends
    assert abs(pixels).max() == locality.reach(network)


@pytest.mark.parametrize("exponent", [None, -4.0])
def test_fitted_constants(exponent):
    network, d, top = RESNET(3), 4, 5
    fit = paths.ensemble(network, 2, d, top, exponent=exponent)
    found = spectrum.eigenvalues(network, 2, d, top)
    k = np.argwhere(found > 0)
    model = np.zeros(len(k))
    for depth, constant in zip(fit.depths, fit.constants, strict=True):
        p = locality.path_counts(depth, 3, d, outer_filter_size=1).astype(float)
        term = constant * fit.base ** np.minimum(p, k).sum(axis=1)
        model += np.where(((p > 0) | (k == 0)).all(axis=1), term, 0.0)
    model *= np.maximum(k, 1).prod(axis=1) ** fit.exponent
    values = found[found > 0]
    mean_square = (np.log(values / model) ** 2).mean()
    assert len(values) == (top + 1) ** d and abs(np.sqrt(mean_square) / fit.rms - 1) <= 1e-6
    assert abs(1 - mean_square / np.log(values).var() - fit.r_squared) <= 1e-6
    # The theorem's inequality, with constants that are as large as they may be.
    assert (model * fit.bound_factor <= values * (1 + 1e-9)).all()
    assert (model * fit.bound_factor >= values * (1 - 1e-9)).sum() >= 1
    assert exponent is None or abs(fit.exponent - exponent) <= 1e-8
    # A minimum: no other base does better with the same constants.
    alone = paths.ensemble(network, 2, d, top, exponent=exponent, depths=[3])
    assert fit.rms < alone.rms and alone.base >= 1


WINDOW = rk.Network(1, input_filter_size=3, alpha=0.5, trained=("readout",))


@pytest.mark.parametrize(
    ("network", "kind", "d", "top"),
    [(RESNET(1, alpha=0.5), "gpk", 2, 8), (WINDOW, "gpk", 2, 4), (WINDOW, "ntk", 4, 4)],
)
def test_a_single_layer_is_its_own_ensemble(network, kind, d, top):
    """t + α² κ1(t), weights 1 and α² over their sum; a window longer than the ring sees twice."""
    found = paths.mixture(network, 3, d, top, kind)
    assert np.abs(found.weights - [0.8, 0.2]).max() <= 1e-6
    assert found.rms <= 1e-6
    assert np.abs(found.mixed - found.eigenvalues).max() <= 1e-6
    assert found.rms_alone > 0.5 or network is WINDOW


def test_paths_of_a_fit_are_exact():
    """With the input's filter, and where their number exceeds any float."""
    network = RESNET(2).replace(input_filter_size=3)
    fit = paths.ensemble(network, 2, 5, (3, 3, 0, 0, 3))
    assert fit.paths.tolist() == [[1, 1, 0, 0, 1], [3, 2, 1, 1, 2]]
    # The NTK of one pixel falls like k^-2 and not like k^-4: with the theorem's form a fit tells.
    exponents = [paths.ensemble(CNN(3), 2, 1, 40, kind).exponent for kind in ("gpk", "ntk")]
    assert np.abs(np.subtract(exponents, (-4, -2))).max() <= tolerances.SLOPE
    deep = paths.ensemble(CNN(700), 2, 1, 10)
    assert deep.paths.tolist() == [[3**699]] and np.isfinite(deep.rms)


def by_tuples(t, layer, network, J=()):
    """The appendix's recursion, a scalar a tuple: `t` maps tuples of offsets to numbers."""
    outer, inner, first = (
        range(-(q // 2), q // 2 + 1)
        for q in (network.outer_filter_size, network.filter_size, network.input_filter_size)
    )
    if layer == 0:
        return np.mean([t[(*J, k)] for k in first])

    def below(*offsets):
        return by_tuples(t, layer - 1, network, (*J, *offsets))

    if layer == 1:
        straight, sums = below(0), [below(k) for k in outer]
    else:
        straight, sums = below(0, 0), [np.mean([below(k, m) for m in inner]) for k in outer]
    branch = np.mean([papers.kappa1(value) for value in sums])
    beta = network.alpha**2 * network.c_v * network.c_w / 2
    return (straight + beta * branch) / (1 + beta) if network.skip else branch


STRIDES = [
    rk.Network(1),
    rk.Network(3, alpha=0.6),
    rk.Network(3, skip=False),
    rk.Network(4, outer_filter_size=1, alpha=1.5),
    rk.Network(2, 5, outer_filter_size=3, input_filter_size=3, c_v=1.3, c_w=0.7),
]


@pytest.mark.parametrize("network", STRIDES, ids=repr)
def test_stride_kernels_as_the_appendix_defines_them(network, rng):
    """And if paths share their pixels, they make the ordinary kernel."""
    tuples = list(itertools.product(*taps_of(network)))
    t = rng.uniform(-0.95, 0.95, (2, len(tuples)))
    found = paths.stride_kernel(network, t)
    for row, value in zip(t, found, strict=True):
        of_tuple = dict(zip(tuples, row.tolist(), strict=True))
        expected = by_tuples(of_tuple, network.depth, network)
        assert abs(value - expected) <= tolerances.TRANSCRIPTION
    complement = paths.stride_kernel(network, 1 - t, complement=True)
    assert np.abs(complement - (1 - found)).max() <= tolerances.ROUTES
    for d in (1, 3, 6):
        X, Z = multisphere.sample(3, 3, d, 1), multisphere.sample(2, 3, d, 2)
        shared = multisphere.dot_products(X, Z)[..., paths.path_pixels(network) % d]
        expected = rk.Kernel(network, "gpk", "equivariant", normalized=True)(X, Z)
        assert np.abs(paths.stride_kernel(network, shared) - expected).max() <= tolerances.ROUTES
