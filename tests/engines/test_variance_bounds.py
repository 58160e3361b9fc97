"""Bounds of variances in networks, against recursions of variances and cases by hand."""

import math

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.layer.operations import Operations
from tests.tolerances import CONSTANT, ROUTES


def bounds(network):
    return Operations(network, network.depth, 1).bounds


LINEAR = {
    "with skip connections": rk.Network(3, 1, activation="erf", alpha=0.7, c_v=1.3, c_w=0.9),
    "layers of their own": rk.Network(3, 1, activation="erf", alpha=(0.7, 2.0, 0.1), c_v=1.3),
}


@pytest.mark.parametrize("network", LINEAR.values(), ids=LINEAR)
def test_linear_growth_is_that_of_tiny_signals(network):
    tiny = np.full((1, 1, 1), 1e-20)
    (K,) = rk.gram(network, tiny, kinds="gpk", engine="array")
    assert abs(2.0 ** bounds(network).linear_growth_bits / (K[0, 0] / 1e-40) - 1) <= ROUTES


def test_layers_without_skip_connections_are_assumed_to_grow():
    """A later layer may read what an earlier one has made smaller."""
    falling = rk.Network(3, activation="erf", skip=False, c_v=1e-3)
    assert bounds(falling).linear_growth_bits > 0


@pytest.mark.parametrize("bias", [1e-3, 1.0, 30.0])
def test_linear_growth_bounds_variances_together_with_those_of_biases(bias):
    """Let s be erf's slope at 0. Then v becomes v + α² (c_v s² (c_w v + σ²) + σ²)."""
    alpha, c_v, c_w, slope = 0.7, 1.3, 0.9, 2.0 / math.sqrt(math.pi)
    network = rk.Network(4, activation="erf", alpha=alpha, c_v=c_v, c_w=c_w, bias=bias)
    variance = 1.0
    for _ in range(network.depth):
        pre_activation = c_w * variance + bias**2
        variance += alpha**2 * (c_v * slope**2 * pre_activation + bias**2)
    beside = bias**2 / c_w
    assert (variance + beside) / (1.0 + beside) <= 2.0 ** bounds(network).linear_growth_bits


def test_linear_growth_of_huge_weights_is_finite():
    huge = rk.Network(2, activation="gelu", c_v=1e300, c_w=1e-10)
    assert math.isfinite(bounds(huge).linear_growth_bits)


@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-9])
def test_shares_of_weak_branches_keep_their_digits(alpha):
    """With β = α², branches have the share 3 β / (1 + 3 β) after layer 3."""
    found = bounds(rk.Network(3, norm=True, alpha=alpha)).total_branch_share(3)
    expected = 3.0 * alpha**2 / (1.0 + 3.0 * alpha**2)
    assert abs(found / expected - 1) <= CONSTANT


def test_branches_have_no_share_before_layer_1():
    assert bounds(rk.Network(3, norm=True)).total_branch_share(0) == 0


def test_branches_without_skip_connections_are_everything():
    assert bounds(rk.Network(3, norm=True, skip=False)).total_branch_share(1) == 1


def test_shares_of_the_weakest_branches_are_not_0():
    assert 0 < bounds(rk.Network(1, norm=True, alpha=1e-180)).total_branch_share(1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"bias": 0.0}, 0.0),
        ({"bias": 0.3}, 2.0),  # as much before the activation as after it
        ({"bias": 0.3, "c_v": 4.0, "c_w": 2.0}, 3 / 4),  # (1 + 1/2)/2
        ({"bias": (0.3, 0.6)}, 2.0),
        ({"bias": (0.3, 0.6), "c_w": (0.1, 1.0)}, 5.0),  # 1/4 of 2/0.1
    ],
)
def test_the_largest_variance_of_biases(fields, expected):
    """It is that of the layer whose biases add most to a signal, in units of the largest σ²."""
    found = bounds(rk.Network(2, **fields)).bias_variance_ratio
    assert found == pytest.approx(expected, rel=CONSTANT)


def test_normalized_features_are_measured_together_with_biases():
    """Their variance is 1, and that of biases is 2 · 0.3²."""
    found = bounds(rk.Network(2, norm=True, bias=0.3)).common_std
    assert found == pytest.approx(math.sqrt(1.18), rel=CONSTANT)


def test_the_smallest_biases_are_those_of_any_layer():
    assert bounds(rk.Network(3, bias=(0.3, 0.1, 0.2))).least_bias == 0.1


def test_inner_weights_add_the_variances_of_the_largest_branch():
    """β = α² has the weight β/(1 + β). Biases count less after layers that divide by their growth,
    which for the first layer is nothing."""
    found = bounds(rk.Network(2, alpha=(0.5, 1.0), bias=0.3)).largest_inner_variances
    assert found.signal == pytest.approx(1 / 2, rel=CONSTANT)
    assert found.bias == pytest.approx(1 / 2 / 1.25, rel=CONSTANT)
