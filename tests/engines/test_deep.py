"""Deep networks: no overflow where there need be none, a clear one where there must."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import multisphere
from rescntk.validation import DTYPES, HEADS
from tests import tolerances
from tests.engine_names import ENGINES, takes

pytestmark = [pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow]


@pytest.mark.parametrize(("alpha", "dtype"), list(zip([1.0, 0.3], DTYPES, strict=True)))
def test_normalized_at_depth_5000(engine, alpha, dtype, rng):
    X = multisphere.sample(4, 3, 6, rng)
    G, T = rk.gram(
        rk.Network(5000, alpha=alpha), X, head="trace", normalized=True, engine=engine, dtype=dtype
    )
    t = multisphere.dot_products(X)
    exact = multisphere.normalized_gpk(t, 5000, alpha=alpha).mean(axis=2)
    # D keeps the error of a sum over 5000 layers, relative to itself; it is about 1e-6 here.
    slack = 5000 * tolerances.EPS[dtype] * (1 - exact).max() + 4 * tolerances.EPS[dtype]
    assert np.abs(G - exact).max() <= slack
    assert np.isfinite(T).all()
    assert (T.diagonal() == 1).all()
    assert (G.diagonal() == 1).all()


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_normalized_signals_of_any_size(engine, head, rng):
    """The product of two kernels may leave the range of numbers where its root does not."""
    X = rng.standard_normal((5, 2, 6))
    sizes = np.array([1.0, 1e-90, 1e-75, 1e75, 1e60])[:, None, None]
    kernel = rk.ResCNTK(3, head=head, normalized=True)
    K = kernel(X * sizes, engine=engine)
    assert (K.diagonal() == 1).all()
    assert np.abs(K - kernel(X, engine=engine)).max() <= tolerances.ROUTES
    if not takes(engine, rk.Network(3, activation="erf")):
        return
    # erf is linear for tiny signals, and its kernels are as small as the signals' products.
    kernel = rk.ResCNTK(3, head=head, normalized=True, activation="erf")
    K = kernel(X * 1e-90, engine=engine)
    assert (K.diagonal() == 1).all()
    difference = np.abs(K - kernel(X * 1e-40, engine=engine))
    if head == "gap":  # an odd activation's terms cancel: as shares of the trace head's kernel
        share = kernel.replace(normalized=False).diag(X * 1e-40)
        share /= kernel.replace(normalized=False, head="trace").diag(X * 1e-40)
        difference *= np.sqrt(np.outer(share, share))
    assert difference.max() <= tolerances.ROUTES


def test_the_diagonal_on_the_multisphere_is_known(engine, rng):
    """Section 6: Σ = (1+α²)^(l−1), so K = (1+α²)^L and Θ = K + 2Lα²(1+α²)^(L−1)."""
    X = multisphere.sample(3, 4, 5, rng)
    for depth, alpha in ((1, 1.0), (30, 0.4), (500, 1.0)):
        for head in ("equivariant", "trace"):
            network = rk.Network(depth, alpha=alpha)
            growth = 1 + alpha**2
            gpk = growth**depth
            ntk = gpk + 2 * depth * alpha**2 * growth ** (depth - 1)
            G = rk.Kernel(network, "gpk", head).diag(X, engine=engine)
            T = rk.Kernel(network, "ntk", head).diag(X, engine=engine)
            bar = depth * tolerances.EPS["float64"] + tolerances.KERNEL["float64"]
            assert np.abs(G / gpk - 1).max() <= bar
            assert np.abs(T / ntk - 1).max() <= bar
            frozen = network.replace(filter_size=5, trained=("inner", "outer"))
            T = rk.Kernel(frozen, "ntk", head).diag(X, engine=engine)
            assert np.abs(T / (ntk - gpk) - 1).max() <= bar


def test_unnormalized_and_too_deep(engine):
    X = np.ones((2, 1, 3))
    kernel = rk.ResCGPK(1023, head="trace")
    error = kernel(X, engine=engine)[0, 0] / 2.0**1023 - 1
    assert abs(error) <= 1023 * tolerances.EPS["float64"]
    for call in (kernel.replace(depth=1024), kernel.replace(depth=1500).diag):
        with pytest.raises(OverflowError, match=r"exceeds float64 at depth .*normalized=True"):
            call(X, engine=engine)
    with pytest.raises(OverflowError, match="exceeds float32 at depth 200"):
        kernel.replace(depth=200)(X, engine=engine, dtype="float32")
    assert rk.ResCGPK(1500, head="trace", normalized=True)(X, engine=engine)[0, 1] == 1


def test_networks_that_shrink_and_that_explode(engine, rng):
    """c_v = c_w = 0.01 without skips is 5e-5 a layer; α = 1e10 is 1e20 a layer."""
    X = rng.standard_normal((4, 2, 5))
    for network in (
        rk.Network(1000, skip=False, c_v=0.01, c_w=0.01),
        rk.Network(300, alpha=1e10),
        rk.Network(300, skip=False, c_v=1e9, c_w=1e9),
    ):
        for dtype in ("float64", "float32"):
            for K in rk.gram(network, X, normalized=True, engine=engine, dtype=dtype):
                assert np.isfinite(K).all()
                assert (K.diagonal() == 1).all()


def test_degenerate_constants(engine, rng):
    X = rng.standard_normal((3, 2, 5))
    linear = (X[:, None] * X[None]).mean(axis=2)
    for network in (rk.Network(4, alpha=0), rk.Network(4, c_v=0), rk.Network(4, c_w=0)):
        G = rk.Kernel(network, "gpk", "trace")(X, engine=engine)
        np.testing.assert_allclose(G, linear.mean(axis=2), rtol=0, atol=1e-15 * linear.max())
    for network in (rk.Network(4, skip=False, c_v=0), rk.Network(4, skip=False, c_w=0)):
        for head in HEADS:
            for K in rk.gram(network, X, head=head, engine=engine):
                assert (K == 0).all()
            for K in rk.gram(network, X, head=head, normalized=True, engine=engine):
                assert (K == 0).all()
