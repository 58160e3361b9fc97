"""Variances of sampled kernels over depth and width, against sampled networks and known laws."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.checks.values import PARTS
from rescntk.theory.depth import relative_variance
from tests import tolerances

OF_LAYERS = 1e-12  # sums of positive numbers over up to 10,000 layers
NETWORKS = {
    "without outer weights": literature.geifman_cnn(4, 1),
    "leaky": literature.geifman_cnn(3, 1).replace(negative_slope=0.3),
    "skip connections": rk.Network(3, 1, alpha=0.7),
    "biases": rk.Network(3, 1, skip=False, c_v=1.5, bias=0.8),
    "several kinds of layers": rk.Network(
        3, 1, skip=(True, False, True), alpha=(0.5, 1.0, 2.0), bias=0.5, trained=PARTS
    ),
    "normalized": rk.Network(3, 1, norm=True, bias=0.5, negative_slope=0.2),
    "normalized, plain": rk.Network(2, 1, norm=True, skip=False, bias=0.1),
}


def sampled(network, input_variance, n, number):
    """Return K̂(x, x) of networks of width n without their readout, drawn as their definition."""
    rng, slope = np.random.default_rng(0), network.negative_slope

    def normal(*shape):
        return rng.standard_normal((number, *shape))

    size = np.sqrt(input_variance)
    f, trained_input = size * normal(n), "input" in network.trained
    plain = not any(network.values_of("skip")) and not network.has_bias
    without_outer = plain and "outer" not in network.trained
    for k in range(1, network.depth + 1):
        layer = network.layer(k)
        read = f
        if network.norm:
            read = f / np.sqrt((f**2).mean(axis=1, keepdims=True))
        if k == 1 and not network.norm and not trained_input:
            g = size * normal(n)
        else:
            g = np.einsum("sij,sj->si", normal(n, n), read) / np.sqrt(n)
        g = np.sqrt(layer.c_w) * g + layer.bias * normal(n)
        branch = np.where(g > 0, g, slope * g)
        if without_outer:
            branch = np.sqrt(layer.c_v) * branch
        else:
            branch = np.einsum("sij,sj->si", normal(n, n), branch) * np.sqrt(layer.c_v / n)
            branch = layer.alpha * (branch + layer.bias * normal(n))
        f = f + branch if layer.skip else branch
    return (f**2).mean(axis=1)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_few_units(name):
    """No order of 1/width is left out."""
    network, width, number = NETWORKS[name], 6, 60_000
    K = sampled(network, 1.7, width, number)
    squares = (K / K.mean() - 1) ** 2
    error = squares.std() / np.sqrt(number)
    (found,) = relative_variance(network, widths=(width,), input_variance=1.7)[0]
    # Numbers are nearly log-normal, so that the standard error is uncertain itself.
    of_tails, teeth = 0.02 * found, 0.2 * found
    assert abs(squares.mean() - found) <= tolerances.STANDARD_ERRORS * error + of_tails
    assert error <= teeth


def test_layers_without_outer_weights_are_factors():
    """(1 + 5/n)^L − 1; linear layers have 2 in place of 5."""
    widths = np.array([1, 10, 1000])
    network = literature.geifman_cnn(1, 1)
    for depth, found in zip((1, 7), relative_variance(network, (1, 7), widths), strict=True):
        assert np.allclose(found, (1 + 5 / widths) ** depth - 1, rtol=OF_LAYERS, atol=0)
    linear = network.replace(negative_slope=1.0)
    assert np.allclose(
        relative_variance(linear, (7,), widths)[0],
        (1 + 2 / widths) ** 7 - 1,
        rtol=OF_LAYERS,
        atol=0,
    )


def test_residual_layers_are_factors_behind_the_first():
    """Of 1 + 2β + 4β/n + β²(1 + 2/n)(1 + 5/n), and layer 1 has 2/n more."""
    widths, alpha = np.array([1.0, 10.0, 1000.0]), 0.7
    beta = alpha**2
    factor = 1 + 2 * beta + 4 * beta / widths + beta**2 * (1 + 2 / widths) * (1 + 5 / widths)
    expected = (factor + 2 / widths) * factor**4 / (1 + beta) ** 10 - 1
    found = relative_variance(rk.Network(1, alpha=alpha), (5,), (1, 10, 1000))[0]
    assert np.allclose(found, expected, rtol=OF_LAYERS, atol=0)


def test_the_variance_of_normalized_networks_tends_to_two_over_the_width():
    """Whatever the depth; it never exceeds its value in the first layers by much."""
    found = relative_variance(rk.Network(1, norm=True), (10, 3000), (100,))[:, 0]
    of_depth = 2e-3  # log(L)/L of the sum over layers that is left
    assert found[0] > found[1] and abs(100 * found[1] / 2 - 1) <= of_depth


def test_families_of_networks_at_great_depth():
    """2.75 L/n of α = 1, 6/n of α = L^−½ and, with ordinary layers, 7 L/n, to first order."""
    width, depth, of_depth = 10**9, 3000, 1e-3  # the first layer's part
    for network, law in (
        (rk.Network(1), 2.75 * depth),
        (rk.Network(1, alpha=depth**-0.5), 6.0),
        (rk.Network(1, skip=False), 7.0 * depth),
    ):
        found = relative_variance(network, (depth,), (width,))[0, 0] * width
        assert abs(found / law - 1) <= of_depth


def test_constants_of_each_layer_are_those_of_like_layers():
    like, n = rk.Network(4, alpha=0.5, bias=0.2, norm=True), (5, 50)
    own = like.replace(alpha=(0.5,) * 4)
    asked = relative_variance(own, (2, 4), n, input_variance=3.0)
    assert (asked == relative_variance(like, (2, 4), n, input_variance=3.0)).all()


@pytest.mark.parametrize("size", [1e-140, 1e140])
@pytest.mark.parametrize("norm", [False, True])
def test_units_of_signals_and_constants_do_not_matter(size, norm):
    """Those of the input and biases; and, with normalized features, of the branch's variance."""
    network, widths = rk.Network(3, bias=0.3, norm=norm), (5, 50)
    scales = {"c_v": 2.0 * size} if norm else {"bias": 0.3 * size}
    changed = network.replace(bias=0.0, **scales) if norm else network.replace(**scales)
    own = network.replace(bias=0.0) if norm else network
    unit = size if norm else size**2
    found = relative_variance(changed, (1, 3), widths, input_variance=unit)
    assert np.allclose(found, relative_variance(own, (1, 3), widths), rtol=OF_LAYERS, atol=0)


def test_a_mean_beyond_float64_is_known_where_it_comes_back():
    """c_v multiplies it by 1e400 and divides it again; then a bias counts again."""
    n, bias_variance = np.array([5, 50]), 0.09
    e = (1 + bias_variance) / 16  # of the branch: layer 1 reads the signal and its bias
    network = rk.Network(4, 1, skip=False, c_v=(1e200, 1e200, 1e-200, 1e-200), bias=0.3)
    squares = ((1 + 2 / n) * (1 + 5 / n)) ** 3 * (1 + 5 / n) * e**2
    squares = (1 + 2 / n) * (squares + 2 * e * bias_variance + bias_variance**2)
    expected = squares / (e + bias_variance) ** 2 - 1
    assert np.allclose(relative_variance(network, widths=n)[0], expected, rtol=OF_LAYERS, atol=0)


@pytest.mark.parametrize("alpha", [1e-150, 1e150])
@pytest.mark.parametrize("norm", [False, True])
def test_extreme_branches_alone(alpha, norm):
    """A branch of weight 0 leaves the input's 2/n; of a great one nothing else is seen."""
    found = relative_variance(rk.Network(1, alpha=alpha, norm=norm), widths=(5,))[0, 0]
    expected = 2 / 5 if alpha < 1 else (1 + 2 / 5) * (1 + 5 / 5) - 1
    assert abs(found / expected - 1) <= OF_LAYERS


def test_variances_beyond_float64_are_refused():
    with pytest.raises(OverflowError, match="relative variance behind layer 246 exceeds float64"):
        relative_variance(rk.Network(1, skip=False), (1000,), (1,))


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (rk.Network(2, activation="erf"), {}, "activation 'erf', expected one of 'relu'"),
        (rk.Network(2, alpha=(1, 2)), {"depths": (3,)}, "depths has 3, expected at most 2"),
        (rk.Network(2, skip=False, c_w=0.0), {}, "network has a kernel of 0 behind layer 1"),
        (rk.Network(2), {"widths": (0,)}, "widths is 0, expected an integer of at least 1"),
        (rk.Network(2), {"input_variance": 0}, "input_variance is 0, expected a positive"),
    ],
)
def test_what_is_refused(network, options, message):
    with pytest.raises(ValueError, match=message):
        relative_variance(network, **options)
