"""Properties of every network on all signals, on every engine that can serve here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine_names import ENGINES
from tests.engines.bodies import properties
from tests.strategies import ALL_FIELDS, heads, kinds, networks, signals

pytestmark = [pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow]

test_a_gram_is_symmetric_to_the_bit_and_semidefinite = given(
    networks(ALL_FIELDS, dilated="freely"), signals(), heads
)(properties.a_gram_is_symmetric_to_the_bit_and_semidefinite)

test_one_argument_or_two_and_the_diagonal_agree_to_the_bit = given(
    networks(ALL_FIELDS, dilated="freely"), signals(), heads, kinds
)(properties.one_argument_or_two_and_the_diagonal_agree_to_the_bit)

test_a_pair_depends_on_itself_alone = given(
    networks(ALL_FIELDS, dilated="freely"), signals(batches=2), heads, kinds, st.data()
)(properties.a_pair_depends_on_itself_alone)

test_shifts = given(
    networks(ALL_FIELDS, dilated="freely"),
    signals(batches=2),
    kinds,
    st.integers(-9, 9),
    st.integers(-9, 9),
)(properties.shifts)

test_heads_are_means_of_pixel_pairs = given(
    networks(ALL_FIELDS, dilated="freely"), signals(batches=2), kinds
)(properties.heads_are_means_of_pixel_pairs)

test_orthogonal_mixing_of_channels_changes_nothing = given(
    networks(ALL_FIELDS, dilated="freely"),
    signals(batches=2),
    heads,
    kinds,
    st.integers(0, 2**32 - 1),
)(properties.orthogonal_mixing_of_channels_changes_nothing)

test_relu_kernels_are_homogeneous = given(
    networks(activations=("relu",), dilated="freely"),
    signals(batches=2),
    heads,
    kinds,
    st.sampled_from([1e-150, 0.3, 1.0, 7.7, 1e100]),
    st.sampled_from([1e-100, 0.01, 3.0]),
)(properties.relu_kernels_are_homogeneous)

test_normalized = given(networks(ALL_FIELDS, dilated="freely"), signals(), heads, kinds)(
    properties.normalized
)

test_depths_from_one_pass = given(
    networks(ALL_FIELDS, max_depth=3, dilated="evenly"),
    signals(batches=2),
    heads,
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)(properties.depths_from_one_pass)

test_kinds_may_be_asked_for_one_by_one = given(
    networks(ALL_FIELDS, dilated="freely"), signals(), heads
)(properties.kinds_may_be_asked_for_one_by_one)
