"""Receptive fields, responses to changed pixels, and paths, against definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import rescntk as rk
import responses
from rescntk import literature
from rescntk.network.parameters import RELU_FIELDS
from rescntk.theory import locality
from tests import tolerances
from tests.oracles import fields
from tests.strategies import kinds, networks, signals

EPS = tolerances.EPS["float64"]
KINDS = ("gpk", "ntk")


def relu_networks(max_depth=6):
    return networks(RELU_FIELDS, max_depth, dilated="evenly" if max_depth > 9 else "freely")


@pytest.mark.slow
@given(relu_networks(), st.integers(1, 9), kinds)
@example(rk.Network(3, trained=()), 5, "ntk")
@example(rk.Network(3, alpha=0), 5, "gpk")
def test_fields_are_the_recursion_run_on_impulses(network, d, kind):
    """Each weight to its last digits, and exactly 0 outside the receptive field."""
    expected = fields.weights(network, d)[KINDS.index(kind)]
    found = locality.effective_receptive_field(network, d, kind=kind)
    assert found.shape == (d,) and found.dtype == np.float64
    bar = tolerances.receptive_field(network.depth, d)
    exact = np.array(expected, dtype=float)
    assert (np.abs(found - exact) <= bar * exact).all()
    if any(expected):
        shape = locality.effective_receptive_field(network, d, kind=kind, normalized=True)
        exact = np.array([weight / sum(expected) for weight in expected], dtype=float)
        assert (np.abs(shape - exact) <= bar * exact).all()


@given(relu_networks(), signals(), kinds)
def test_energies_weighed_by_the_field_are_the_kernel(network, X, kind):
    _, channels, d = X.shape
    scale = 1 / channels if network.input_scale is None else network.input_scale
    weights = locality.effective_receptive_field(network, d, kind=kind)
    expected = scale * (X**2).sum(axis=1) @ weights
    computed = rk.Kernel(network, kind, "equivariant").diag(X)
    bar = (tolerances.KERNEL["float64"] + tolerances.receptive_field(network.depth, d)) * expected
    assert (np.abs(computed - expected) <= bar).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trained", [("inner", "outer", "readout"), ("input", "outer")])
def test_biases_add_a_constant_to_the_weighed_energies(kind, trained, rng):
    """K(2x, 2x) − K(x, x) is three times the energies, weighed by the field without biases."""
    network, X = rk.Network(3, alpha=0.7, bias=0.4, trained=trained), rng.standard_normal((3, 2, 7))
    field = locality.effective_receptive_field(network, 7, kind=kind)
    plain = locality.effective_receptive_field(network.replace(bias=0.0), 7, kind=kind)
    assert (field == plain).all()
    kernel = rk.Kernel(network, kind, "equivariant")
    found, large = kernel.diag(2 * X) - kernel.diag(X), kernel.diag(2 * X)
    expected = 3 * 0.5 * (X**2).sum(axis=1) @ field
    assert (np.abs(found - expected) <= 4 * tolerances.KERNEL["float64"] * large).all()


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
    assert np.abs(locality.effective_receptive_field(network, d, kind="gpk") - of_axis).max() <= bar
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
        found = locality.effective_receptive_field(network, d, kind=kind, normalized=True)
        assert np.abs(found - np.fft.irfft(transform, d)).max() <= 100 * EPS


@pytest.mark.slow
@given(relu_networks(3), kinds)
def test_widths_are_the_second_moments(network, kind):
    if network.reach() > 6:  # exact fractions would take seconds
        network = network.replace(dilation=1)
    d = 2 * network.reach() + 1
    exact = fields.weights(network, d)[KINDS.index(kind)]
    assert exact[d // 2] or not any(exact) or network.alpha == 0  # the farthest pixel counts
    if not any(exact):
        with pytest.raises(ValueError, match="0 for every signal"):
            locality.width(network, kind=kind)
        return
    expected = fields.squared_width(exact)
    assert abs(locality.width(network, kind=kind) ** 2 - expected) <= 32 * EPS * expected


@given(relu_networks(300), kinds)
def test_the_law_of_widths(network, kind):
    """Var = L p (v_o + v_i) up to a bounded term; the tangent kernel's is below 1 branch more."""
    assume(kind == "gpk" or network.trained)
    sizes = network.input_filter_size, network.outer_filter_size, network.filter_size
    steps = np.array([1, network.dilation, network.dilation])
    v0, v_o, v_i = (np.square(sizes) - 1) / 12 * steps**2
    found = locality.width(network, kind=kind)
    law = np.sqrt(network.depth * network.branch_share * (v_o + v_i))
    slack = 32 * EPS * (found**2 + law**2)
    assert abs(found**2 - law**2) <= v0 + v_o + v_i + slack
    gpk = locality.width(network, kind="gpk")
    assert gpk**2 <= found**2 + slack
    assert found**2 <= gpk**2 + v_o + v_i + slack


def test_random_functions_have_the_kernels_responses(rng):
    """Random features, whose kernel is known; 9 orthogonal readouts stand for random ones."""
    X, Z = rng.standard_normal((2, 3, 2, 4))
    weights, sizes = rng.standard_normal((9, 8)), []

    def features(X):
        return np.maximum(X.reshape(len(X), 8) @ weights.T, 0)

    def kernel(X):
        sizes.append((features(X) ** 2).sum(axis=1).max())
        return features(X) @ features(X).T

    expected = responses.kernel_responses(kernel, X, Z)
    parts = [responses.responses(lambda X, k=k: features(X)[:, k], X, Z) for k in range(9)]
    # A response adds four kernels, but for their signs, with nine roundings each.
    bar = 4 * 9 * EPS / 2 * max(sizes)
    for found, values in zip(np.sum(parts, axis=0), expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=0, atol=bar)


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
    inside = locality.effective_receptive_field(network, d, kind="ntk") > 0
    assert (found.single[inside] > 0).all() and (found.single[~inside] == 0).all()


@pytest.mark.parametrize("depth", [10**3, 10**9])
@pytest.mark.parametrize("kind", KINDS)
def test_deep_fields_have_mass_one_and_no_negative_weight(depth, kind):
    network = rk.Network(depth, 5)
    field = locality.effective_receptive_field(network, 501, kind=kind, normalized=True)
    assert (field >= 0).all()
    assert abs(field.sum() - 1) <= 100 * EPS


def test_a_field_beyond_float64_is_refused():
    with pytest.raises(OverflowError, match="normalized=True"):
        locality.effective_receptive_field(rk.Network(2000), 10, kind="ntk")


def test_tails_of_deep_fields_have_all_their_digits():
    """An FFT would lose them: the farthest pixel is reached by one path in q^(2L−1)."""
    network = literature.barzilai_cnn(100, 3)
    assert network.reach() == 199
    field = locality.effective_receptive_field(network, 401, kind="gpk")
    assert field[199] == pytest.approx(3.0**-199, rel=200 * EPS) and field[200] == field[201] == 0
