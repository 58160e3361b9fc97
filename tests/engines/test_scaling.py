"""Bounds of kernels that hold at every pixel and depth."""

import numpy as np
from hypothesis import given

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
    scaled = reference.paired(Request(network, "trace", KINDS, depths), X, None, silent)
    pairs = reference.gram(request, X, None, silent)
    for k, kind in enumerate(KINDS):
        for t in range(len(depths)):
            bound = tables.bounds[k, t] ** 2
            own = pairs.values[kind][t].diagonal(axis1=0, axis2=1).diagonal(axis1=0, axis2=1)
            assert (own.max(axis=1) <= bound * (1 + 1e-12)).all()
            trace = scaled.values[kind][t]
            assert (np.abs(own.mean(axis=1) - trace) <= tolerances.ROUTES * bound).all()
