"""Networks are values, whose fields may be replaced; and the numbers computed from them."""

import numpy as np
import pytest

import rescntk as rk
from tests.helpers import NOT_HOMOGENEOUS
from tests.tolerances import CONSTANT

NETWORK, GROWING = rk.Network(5, alpha=0.5), rk.Network(3, dilation=(1, 2, 4))


def test_defaults_are_the_papers():
    parts = ("inner", "outer", "readout")
    fields = {"skip": True, "alpha": 1.0, "c_v": 2.0, "c_w": 1.0, "input_scale": None}
    sizes = {"filter_size": 3, "outer_filter_size": 3, "input_filter_size": 1}
    assert rk.Network(5) == rk.Network(5, **sizes, **fields, trained=parts)


def test_parameters_after_the_filter_size_are_given_by_name():
    with pytest.raises(TypeError):
        rk.Network(5, 3, 3)


ORDINARY = rk.Network(2, skip=(False, True), alpha=(7.0, 0.5))


@pytest.mark.parametrize(
    ("network", "same"),
    [
        (rk.Network(3, alpha=(0.5, 0.5, 0.5)), rk.Network(3, alpha=0.5)),
        (rk.Network(2, (5, 3), outer_filter_size=1), rk.Network(2, 3, outer_filter_size=1)),
        (rk.Network(2, (5, 3)), rk.Network(2, 3, outer_filter_size=(5, 3))),
        (ORDINARY, ORDINARY.replace(alpha=0.5)),
    ],
)
def test_networks_whose_layers_read_equal_values_are_equal(network, same):
    assert network == same


def test_layers_without_skip_connections_have_the_default_alpha():
    assert ORDINARY.alpha == (1.0, 0.5)


def test_values_of_layers_may_be_an_array():
    assert rk.Network(2, alpha=np.array([0.5, 1.0])).alpha == (0.5, 1.0)


def test_the_text_of_a_network_is_code_that_makes_it():
    assert eval(repr(ORDINARY), {"Network": rk.Network}) == ORDINARY


def test_a_replaced_field_changes_a_copy():
    assert NETWORK.replace(filter_size=5) == rk.Network(5, 5, alpha=0.5)
    assert NETWORK == rk.Network(5, alpha=0.5)


def test_a_replaced_filter_size_keeps_the_outer_one():
    assert rk.Network(5, outer_filter_size=1).replace(filter_size=5).outer_filter_size == 1
    assert NETWORK.replace(filter_size=5, outer_filter_size=3).outer_filter_size == 3


def test_a_smaller_depth_keeps_the_first_values_of_layers():
    assert GROWING.replace(depth=2).dilation == (1, 2)


def test_a_larger_depth_needs_values_of_its_layers():
    assert GROWING.replace(depth=4, dilation=3) == rk.Network(4, dilation=3)
    with pytest.raises(ValueError, match=r"dilation is \(1, 2, 4\), expected .* 5 of them"):
        GROWING.replace(depth=5)


def test_outer_filters_change_with_inner_ones_where_they_are_equal():
    network = rk.Network(5, 3)
    assert network.replace(filter_size=7) == rk.Network(5, 7)
    assert network.replace(filter_size=7, outer_filter_size=5) == rk.Network(
        5, 7, outer_filter_size=5
    )
    other = rk.Network(5, 3, outer_filter_size=5)
    assert other.replace(filter_size=7) == rk.Network(5, 7, outer_filter_size=5)


@pytest.mark.parametrize("sizes", [5, (5, 5, 7), (3, 5, 7)])
def test_outer_filters_follow_the_sizes_that_gave_them(sizes):
    assert rk.Network(3, sizes).replace(filter_size=9) == rk.Network(3, 9)


@pytest.mark.parametrize("outer", [3, (9, 5, 3), (5, 7, 7)])
def test_outer_filters_of_other_sizes_stay(outer):
    network = rk.Network(3, 5, outer_filter_size=outer)
    assert network.replace(filter_size=9).outer_filter_size == outer


NUMBERS = rk.Network(2, alpha=0.7, c_v=1.3, c_w=1.9)


def test_the_gain_of_a_branch_is_a_product_of_its_numbers():
    """It is α² c_v c_w/2."""
    expected = 0.7**2 * 1.3 * 1.9 / 2
    assert abs(NUMBERS.branch_gain / expected - 1) <= CONSTANT


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
def test_gains_of_other_activations_are_those_of_relu(activation):
    """Theory counts layers by these numbers."""
    assert NUMBERS.replace(activation=activation).branch_gain == NUMBERS.branch_gain


def test_the_gain_of_a_leaky_relu_grows_with_its_slope():
    """It is 1 + s² times that of ReLU."""
    leaky = NUMBERS.replace(negative_slope=0.4).branch_gain
    assert abs(leaky / NUMBERS.branch_gain - (1 + 0.4**2)) <= CONSTANT


def test_the_gain_may_be_the_largest_number():
    most = np.finfo(np.float64).max
    assert rk.Network(2, c_v=most, c_w=2.0).branch_gain == most
