"""Tables of single signals, against cases that were worked out by hand."""

import numpy as np
import pytest

from rescntk import Network
from rescntk.engines import tables
from rescntk.engines.request import Request
from rescntk.engines.windows import Operations
from tests import tolerances

ROOT_HALF = np.sqrt(0.5)


def made(network, X, head="gap", dtype="float64"):
    """Return the tables of signals in the order of `Operations`."""
    X = np.array(X, dtype=float)
    request = Request(network, head, ("ntk",), (network.depth,), dtype)
    return tables.signal_tables(Operations(network, network.depth, X.shape[1]), request, X)


def test_rows_of_two_pixels():
    """Units, roots, 1/a, and a skip connection of equal parts."""
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
    np.testing.assert_allclose(found.rows[0], expected, rtol=4 * tolerances.EPS["float64"])
    assert found.input.scale[0] == pytest.approx(size)
    np.testing.assert_allclose(found.input.parts[0, 0], np.array([3.0, -4.0]) / size)
    assert found.input.means[0, 0] == pytest.approx(-0.5 / size)


def test_coordinates_of_a_window():
    """Energies 1, 4, 9 around pixel 1: the middle tap is first, then the left and the right one."""
    network = Network(1, 1, outer_filter_size=3, skip=False)
    found = made(network, [[[1.0, 2.0, 3.0]]])
    window = found.rows[0, 3:]
    size = np.sqrt(14 / 3)
    whole, first = np.sqrt(14 / 3) / size, np.sqrt(1 / 3) * 2.0 / size
    assert window[0, 1] == pytest.approx(whole)
    assert window[1, 1] == pytest.approx((whole + first) / np.sqrt(2))
    coordinates = np.sqrt(1 / 3) * np.array([1.0, 3.0]) / size / (whole + first)
    np.testing.assert_allclose(window[2:, 1], coordinates)


def test_activations_that_are_not_homogeneous_have_the_roots_of_branches():
    network = Network(1, 1, activation="erf", alpha=0.5, c_v=3.0, c_w=2.0)
    found = made(network, [[[0.3]]])
    variance = 2 / np.pi * np.arcsin(2 * 0.18 / 1.36)  # of erf(u), E[u²] = 2 · 0.3²
    np.testing.assert_allclose(found.rows[0, :4, 0], [1, 0.3, 1 / 0.3, np.sqrt(0.75 * variance)])
    assert found.input.scale[0] == 1.0


def test_the_head_equivariant_counts_the_energy_that_reaches_pixel_1():
    """With one outer filter of three pixels: the fourth one is out of reach."""
    found = made(Network(1, 1, outer_filter_size=3), [[[1.0, 0.0, 7.0, 2.0]]], "equivariant")
    # F at pixel 1: half of 1, and half of the mean of 2², 1² and 0² over three taps.
    assert found.input.scale[0] ** 2 == pytest.approx(0.5 + 5 / 6)
    assert found.input.unit[0, 0].tolist() == [1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("network", [Network(7, 9), Network(5, 3, bias=0.1, activation="gelu")])
def test_bytes_of_tables(network):
    request = Request(network, "gap", ("gpk",), (network.depth,), "float64")
    operations = Operations(network, network.depth, 3)
    assert tables.table_bytes(request, 3, 10, 20) == operations.n_rows * 30 * 8
