"""Constants of layers: bounds that hold, and powers of two that keep values in range."""

import numpy as np
from hypothesis import given

import rescntk as rk
from rescntk.engines import reference
from rescntk.engines.protocol import Request, silent
from rescntk.engines.scaling import Scaling
from rescntk.engines.signal_tables import signal_tables
from rescntk.validation import KINDS
from tests import tolerances
from tests.strategies import networks, signals


@given(networks(dilated="freely"), signals())
def test_bounds_hold_at_every_pixel_and_depth(network, X):
    """√(kernel at a pixel) is at most the bound, on which exact sums rely up to a factor 2."""
    depths = tuple(range(1, network.depth + 1))
    request = Request(network, "pixels", KINDS, depths)
    tables = signal_tables(Scaling(request, *X.shape[1:]), X)
    scaled = reference.diagonal(Request(network, "trace", KINDS, depths), X, silent)
    pairs = reference.gram(request, X, None, silent)
    for k, kind in enumerate(KINDS):
        for t in range(len(depths)):
            bound = tables.bounds[k, t] ** 2
            own = pairs.values[kind][t].diagonal(axis1=0, axis2=1).diagonal(axis1=0, axis2=1)
            assert (own.max(axis=1) <= bound * (1 + 1e-12)).all()
            trace = scaled.values[kind][t]
            assert (np.abs(own.mean(axis=1) - trace) <= tolerances.ROUTES * bound).all()


def test_powers_of_two_keep_values_near_one():
    for network in (rk.Network(5000), rk.Network(300, alpha=1e10), rk.Network(900, c_w=1e-3)):
        request = Request(network, "trace", KINDS, (network.depth,), "float32")
        scaling = Scaling(request, 3, 7)
        total = network.depth * np.log2(network.growth)
        assert abs(total - scaling.exponents[-1]) <= 32
        assert all(np.log2(scaling.step(layer)) % 32 == 0 for layer in (1, 2, network.depth))
        bound = scaling.common_bounds[0, 0] ** 2 / 7
        assert 2.0**-33 <= bound <= 2.0**33


def test_correction_takes_rounded_constants_out():
    """One third is rounded to float32 in each of 50 layers; the trace is known exactly."""
    network = rk.Network(50, 3, outer_filter_size=3, alpha=0.7)
    request = Request(network, "trace", ("gpk",), (50,), "float32")
    scaling = Scaling(request, 1, 1)
    last = scaling.common_bounds[0, 0] ** 2 * 2.0 ** scaling.exponents[50]
    exact = network.growth**50
    assert abs(last * scaling.correction(50) / exact - 1) <= 200 * tolerances.EPS["float64"]
    assert abs(last / exact - 1) > 1e-8
