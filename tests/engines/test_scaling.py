"""Bounds of kernels that hold at every pixel and depth."""

import numpy as np
import pytest
from hypothesis import given
from rescntk.engines.scaling import Scaling
from rescntk.engines.signal_tables import signal_tables

import rescntk as rk
from rescntk.engines import reference
from rescntk.engines.protocol import Request, silent
from rescntk.validation import HEADS, KINDS
from tests import tolerances
from tests.strategies import ALL_FIELDS, networks, signals


@given(networks(ALL_FIELDS, dilated="freely"), signals())
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


@pytest.mark.parametrize(
    "network",
    [
        rk.Network(5),
        rk.Network(10, skip=False),
        rk.Network(6, negative_slope=0.3, trained=("input", "inner"), alpha=2.0),
    ],
)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", tolerances.ROUTES), ("float32", tolerances.KERNEL["float32"])],
)
def test_homogeneous_networks_may_be_treated_as_others(network, dtype, tolerance, monkeypatch, rng):
    """The reference engine gives the same kernels without scales taken out."""
    X = rng.standard_normal((4, 2, 9))

    def kernels(head, dtype):
        grams = rk.gram(network, X, head=head, engine="reference", dtype=dtype)
        return [*grams, rk.Kernel(network, "ntk", head).diag(X, engine="reference", dtype=dtype)]

    usual = {head: kernels(head, "float64") for head in HEADS}
    monkeypatch.setattr(rk.Network, "homogeneous", property(lambda network: False))
    for head, expected in usual.items():
        for K, K_usual in zip(kernels(head, dtype), expected, strict=True):
            assert np.abs(K - K_usual).max() <= tolerance * np.abs(K_usual).max()
