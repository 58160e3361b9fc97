"""Tables of single signals, against cases that were worked out by hand."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk import Network
from rescntk.checks.values import DTYPES
from rescntk.engines.compiled.program import operations_of
from rescntk.engines.layer.operations import Operations
from rescntk.engines.request import Request
from rescntk.engines.signals import tables
from rescntk.engines.signals.pixel_1 import seen_by_pixel_1
from tests.helpers import CPU, skip_unless_supported
from tests.strategies import EVERY_FIELD, batches, heads, networks
from tests.tolerances import CONSTANT

ROOT_HALF = np.sqrt(0.5)


def made(network, X, head="gap", dtype="float64"):
    """Return the tables of signals in the order of `Operations`."""
    X = np.array(X, dtype=float)
    request = Request(network, head, ("ntk",), (network.depth,), dtype)
    return tables.signal_tables(Operations(network, network.depth, X.shape[1]), request, X)


def test_rows_of_two_pixels_are_those_of_the_formulas():
    """They are unit vectors, roots, 1/a, and the rows of a skip connection of equal parts."""
    found = made(Network(1, 1), [[[3.0, -4.0]]])
    size = np.sqrt(12.5)  # the mean of 9 and 16
    a = np.array([3.0, 4.0]) / size
    expected = [
        [1.0, -1.0],
        a,
        1 / a,
        a,  # the whole's root
        a * (1 + ROOT_HALF) / np.sqrt(2),  # (a + a_0)/√2
        np.full(2, ROOT_HALF / (1 + ROOT_HALF)),  # the branch's coordinate
    ]
    np.testing.assert_allclose(found.rows[0], expected, rtol=CONSTANT)
    assert found.input.scale[0] == pytest.approx(size, rel=CONSTANT)
    np.testing.assert_allclose(
        found.input.scaled[0, 0], np.array([3.0, -4.0]) / size, rtol=CONSTANT
    )
    assert found.input.means[0, 0] == pytest.approx(-0.5 / size, rel=CONSTANT)


def test_rows_of_a_convolution_are_those_of_the_formulas():
    """Pixels have the energies 1, 4 and 9. The middle tap is first, and the left one second."""
    network = Network(1, 1, outer_filter_size=3, skip=False)
    found = made(network, [[[1.0, 2.0, 3.0]]])
    rows = found.rows[0, 3:]
    size = np.sqrt(14 / 3)
    whole, first = np.sqrt(14 / 3) / size, np.sqrt(1 / 3) * 2.0 / size
    assert rows[0, 1] == pytest.approx(whole, rel=CONSTANT)
    assert rows[1, 1] == pytest.approx((whole + first) / np.sqrt(2), rel=CONSTANT)
    coordinates = np.sqrt(1 / 3) * np.array([1.0, 3.0]) / size / (whole + first)
    np.testing.assert_allclose(rows[2:, 1], coordinates, rtol=CONSTANT)


def test_activations_that_are_not_homogeneous_have_the_roots_of_branches():
    network = Network(1, 1, activation="erf", alpha=0.5, c_v=3.0, c_w=2.0)
    found = made(network, [[[0.3]]])
    variance = 2 / np.pi * np.arcsin(2 * 0.18 / 1.36)  # of erf(u), E[u²] = 2 · 0.3²
    np.testing.assert_allclose(
        found.rows[0, :4, 0],
        [1, 0.3, 1 / 0.3, np.sqrt(0.75 * variance)],
        rtol=CONSTANT,
    )
    assert found.input.scale[0] == 1.0


def test_the_head_equivariant_counts_the_energy_that_reaches_pixel_1():
    """The network has one outer filter of three pixels, which does not reach the third pixel."""
    found = made(Network(1, 1, outer_filter_size=3), [[[1.0, 0.0, 7.0, 2.0]]], "equivariant")
    # F at pixel 1: half of 1, and half of the mean of 2², 1² and 0² over three taps.
    assert found.input.scale[0] ** 2 == pytest.approx(0.5 + 5 / 6, rel=CONSTANT)
    assert found.input.unit[0, 0].tolist() == [1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"alpha": (1.0, 0.0, 1.0)},
        {"filter_size": 1, "input_filter_size": 3, "alpha": (0.0, 0.0, 1.0)},
        {"alpha": (1.0, 0.0, 1.0), "skip": (True, False, True)},
    ],
)
def test_pixel_1_sees_the_pixels_that_give_it_a_kernel(fields):
    """A layer without a branch does not reach further, and without identity path ends it all."""
    network, pixels = Network(**{"depth": 3, "filter_size": 3} | fields), np.eye(16)[:, None]
    found = seen_by_pixel_1(Operations(network, 3, 1), (16,))
    (K,) = rk.gram(network, pixels, kinds="gpk", head="equivariant", engine="textbook")
    assert np.array_equal(found, K.diagonal() > 0)


@pytest.mark.slow
@pytest.mark.parametrize("engine", CPU)
@settings(max_examples=60)
@given(
    networks(EVERY_FIELD, max_depth=9, dilated="freely", layers="of their own"),
    batches(),
    heads,
    st.sampled_from(DTYPES),
)
def test_rows_are_counted_as_they_are_stored(engine, network, batches, head, dtype):
    """The check of memory counts them without a table, and each row is made once."""
    skip_unless_supported(engine, network)
    X, stored = batches[0], []

    def made(operations, request, signals, *pad):
        tables_of = tables.signal_tables(operations, request, signals, *pad)
        numbers = []
        tables.write_rows(
            operations, request, np, tables_of.input, lambda number, row: numbers.append(number)
        )
        assert numbers == [*range(operations.n_channels, tables_of.rows.shape[1])]
        stored.append((operations, tables_of.rows.shape[1]))
        return tables_of

    module = {"cpu": "compiled.tabled_signals", "array": "array.engine"}[engine]
    with mock.patch(f"rescntk.engines.{module}.signal_tables", made):
        head = "gap" if isinstance(X, list) else head
        rk.Kernel(network, "ntk", head)(X, engine=engine, dtype=dtype)
    assert stored and all(operations.n_rows == rows for operations, rows in stored)


def test_joined_layers_are_counted_joined():
    """Two rows come before the layers. A layer has seven, and the last one has one."""
    request = Request(Network(50), "gap", ("ntk",), (50,))
    assert operations_of(request, 1, 1).n_rows == 2 + 49 * 7 + 1
    assert operations_of(replace(request, head="pixels"), 1, 1).n_rows == 2 + 8 + 49 * 12
