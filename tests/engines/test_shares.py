"""Shares of time points in kernels: right, exact in their bits, and what is refused."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.validation import DTYPES
from tests import tolerances
from tests.engine_names import CPU, skip_unless_taken
from tests.engines.test_properties import relative
from tests.strategies import ALL_FIELDS, kinds, networks, signals

HEADS = ("gap", "trace")


@pytest.mark.slow
@pytest.mark.parametrize("engine", CPU)
@given(
    networks(ALL_FIELDS, dilated="freely"),
    signals(batches=2),
    kinds,
    st.sampled_from(HEADS),
    st.integers(-9, 9),
    st.randoms(use_true_random=False),
)
def test_shares_of_every_network(engine, network, batches, kind, head, shift, random):
    """Shares are means of pixel pairs, add up to the kernel, and are shifted with the signal."""
    skip_unless_taken(engine, network)
    X, Z = batches
    d, options = X.shape[2], {"kind": kind, "head": head, "engine": engine}
    S, kernel = rk.pixel_shares(network, X, Z, **options), rk.Kernel(network, kind, head)
    assert S.shape == (len(X), len(Z), d)
    P = rk.pixel_pairs(network, X, Z, kind=kind, engine=engine)
    expected = P.mean(axis=3) if head == "gap" else P.diagonal(axis1=2, axis2=3)
    own = [kernel.replace(head="trace").diag(signals) for signals in (X, Z)]
    assert relative(np.abs(S - expected / d).max(axis=2), 0.0, *own) <= tolerances.ROUTES
    assert relative(S.sum(axis=2), kernel(X, Z, engine=engine), *own) <= tolerances.ROUTES
    order = random.sample(range(len(Z)), len(Z))
    assert (rk.pixel_shares(network, X, Z[order], **options) == S[:, order]).all()
    moved = np.roll(X, shift, 2), Z if head == "gap" else np.roll(Z, shift, 2)
    error = np.abs(rk.pixel_shares(network, *moved, **options) - np.roll(S, shift, 2))
    assert relative(error.max(axis=2), 0.0, *own) <= tolerances.ROUTES
    if network.activation == "relu":  # others need not have a resolved K(x, x)
        S = rk.pixel_shares(network, X, Z, normalized=True, **options)
        K = kernel.replace(normalized=True)(X, Z, engine=engine)
        np.testing.assert_allclose(S.sum(axis=2), K, rtol=0, atol=tolerances.ROUTES)


@pytest.mark.parametrize(
    "network", [rk.Network(3, 5, dilation=(1, 2, 4)), rk.Network(2, skip=False)]
)
def test_a_share_depends_on_its_pair_alone(network, rng):
    """To the bit: lists of all lengths, on each side of the longer signal."""
    X = [rng.standard_normal((2, d)) for d in (9, 12, 1, 40)]
    Z = [rng.standard_normal((2, d)) for d in (7, 12, 3)]
    for engine, dtype, kind in product(CPU, DTYPES, ("gpk", "ntk")):
        options = {"kind": kind, "engine": engine, "dtype": dtype}
        S, K = rk.pixel_shares(network, X, Z, **options), rk.Kernel(network, kind)
        exact = rk.pixel_shares(network, X, Z, kind=kind, engine="reference")
        size = np.sqrt(np.outer(K.diag(X), K.diag(Z)))
        sums = np.array([share.sum(axis=1) for share in S])
        error = np.abs(sums - K(X, Z, engine=engine, dtype=dtype)) / size
        assert error.max() <= tolerances.KERNEL[dtype]
        for (i, x), (k, z) in product(enumerate(X), enumerate(Z)):
            (alone,) = rk.pixel_shares(network, [x], [z], **options)
            assert alone.shape == (1, x.shape[1]) and alone.dtype == dtype
            assert (alone[0] == S[i][k]).all()
            assert np.abs(alone - exact[i][k]).max() <= tolerances.KERNEL[dtype] * size[i, k]


def test_long_and_constant_signals(rng):
    network, x, z = rk.Network(2), rng.standard_normal((1, 1, 400)), np.ones((1, 1, 400))
    for engine, kind in product(CPU, ("gpk", "ntk")):
        kernel = rk.Kernel(network, kind, normalized=True)
        S = rk.pixel_shares(network, x, z, kind=kind, normalized=True, engine=engine)
        assert abs(S.sum() - kernel(x, z)[0, 0]) <= tolerances.ROUTES
        S = rk.pixel_shares(network, z, x, kind=kind, normalized=True, engine=engine)
        assert np.ptp(S) <= tolerances.ROUTES * S.max()  # every time point is the same
        S = rk.pixel_shares(network, z, 0.0 * x, kind=kind, normalized=True, engine=engine)
        assert (S == 0).all()


def test_refusals(rng):
    X, network = rng.standard_normal((3, 2, 6)), rk.Network(2)
    lists = [X[0], X[1, :, :4]]
    for wrong, message in (
        ({"head": "equivariant"}, "head is 'equivariant', expected one of 'gap', 'trace'"),
        ({"kind": "cntk"}, "kind is 'cntk'"),
        ({"normalized": 1}, "normalized is 1"),
        ({"Z": X[:, :1]}, "Z has shape"),
        ({"Z": lists, "head": "trace"}, "head is 'trace', which takes signals of one length"),
    ):
        with pytest.raises(ValueError, match=message):
            rk.pixel_shares(network, X, **wrong)
