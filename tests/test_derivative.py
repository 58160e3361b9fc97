"""∂K/∂α against central differences in 40 digits, and against its limits."""

import numpy as np
import pytest
from hypothesis import given

import rescntk as rk
from rescntk.derivative import alpha_derivative
from rescntk.engines import slopes
from rescntk.theory import multisphere
from rescntk.vocabulary import HEADS
from tests import strategies, tolerances
from tests.difficult_signals import SIGNALS
from tests.oracles import definition

# In powers of two, so that α ± h are float64 numbers. Five points leave h⁴ ~ 1e-17; at ρ = ±1
# the oracle's 40 digits leave 1e-20 in κ0, 1e-16 in the difference.
STEP = 2.0**-14


def exact_derivative(network, X):
    """Return {kind: ∂/∂α of all pixel pairs} by five-point differences in 40 digits."""
    at = {
        k: definition.pixel_pairs(X, network.replace(alpha=network.alpha + k * STEP))
        for k in (-2, -1, 1, 2)
    }
    result = {}
    for i, kind in enumerate(("gpk", "ntk")):
        values = {k: pairs[network.depth][i] for k, pairs in at.items()}
        result[kind] = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * STEP)
    return result


NETWORKS = {
    "residual": rk.Network(5, alpha=0.75),
    "erf": rk.Network(4, alpha=1.25, activation="erf", c_w=1.3),
    "filters, frozen": rk.Network(
        3, 5, outer_filter_size=1, input_filter_size=3, alpha=0.5, c_v=1.7, trained=("inner",)
    ),
    "all trained": rk.Network(
        3, readout_scale=0.25, trained=("input", "inner", "outer", "readout")
    ),
}


@pytest.mark.parametrize("make", SIGNALS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", NETWORKS)
def test_exact(name, make, rng):
    network = NETWORKS[name]
    X = make(2, 5, rng)
    values = definition.pixel_pairs(X, network)[network.depth]
    slopes = exact_derivative(network, X)
    for i, kind in enumerate(("gpk", "ntk")):
        for head in HEADS:
            K, dK = alpha_derivative(rk.Kernel(network, kind, head), X)
            exact = definition.head(values[i], head)
            slope = network.alpha * definition.head(slopes[kind], head)
            own = exact.diagonal()
            assert definition.errors(K, exact, own) <= tolerances.KERNEL["float64"]
            bar = tolerances.sensitivity(network.depth)
            assert definition.errors(network.alpha * dK, slope, own) <= bar


@pytest.mark.parametrize("make", SIGNALS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_exact_when_normalized(kind, make, rng):
    network = NETWORKS["residual"]
    X = make(2, 5, rng)
    i = ("gpk", "ntk").index(kind)
    K = definition.head(definition.pixel_pairs(X, network)[network.depth][i], "gap")
    dK = definition.head(exact_derivative(network, X)[kind], "gap")
    own, d_own, n = K.diagonal(), dK.diagonal(), len(X)
    exact = np.zeros_like(K)
    for a, b in np.ndindex(n, n):
        if own[a] > 0 and own[b] > 0:
            rate = d_own[a] / own[a] + d_own[b] / own[b]
            exact[a, b] = (dK[a, b] - K[a, b] * rate / 2) / definition.mp.sqrt(own[a] * own[b])
    normalized = rk.Kernel(network, kind, "gap", normalized=True)
    values, slopes = alpha_derivative(normalized, X)
    ones = np.where(own > 0, 1, 0)
    assert np.abs(values - normalized(X)).max() <= 2 * tolerances.KERNEL["float64"]
    assert (values.diagonal() == ones).all()
    bar = 2 * tolerances.sensitivity(network.depth)  # numerator and denominator
    assert definition.errors(network.alpha * slopes, network.alpha * exact, ones) <= bar


@given(strategies.networks(), strategies.signals(), strategies.heads, strategies.kinds)
def test_kernel_by_this_route_is_the_kernel(network, X, head, kind):
    kernel = rk.Kernel(network.replace(skip=True), kind, head)
    K, dK = alpha_derivative(kernel, X)
    other = kernel(X)
    size = np.sqrt(np.outer(other.diagonal(), other.diagonal()))
    spread = 1.0
    if network.activation == "erf":  # layers square the variances, layer by layer
        spread = tolerances.erf_spread(float((X**2).sum(axis=1).max()) * network.c_w * 50)
    assert (np.abs(K - other) <= spread * tolerances.KERNEL["float64"] * size).all()
    assert np.isfinite(dK).all()
    assert (K == K.T).all() and (dK == dK.T).all()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_compiled_or_not(name, kind, rng, monkeypatch):
    """Without numba the same formulas are computed by the array."""
    X = rng.standard_normal((4, 2, 9))
    kernel = rk.Kernel(NETWORKS[name], kind)
    results = [alpha_derivative(kernel, X)]
    monkeypatch.setattr(slopes, "fill", slopes.by_arrays)
    results.append(alpha_derivative(kernel, X))
    size = np.sqrt(np.outer(results[0].kernel.diagonal(), results[0].kernel.diagonal()))
    for one, other in zip(*results, strict=True):
        bar = 2 * tolerances.sensitivity(NETWORKS[name].depth)
        assert (np.abs(one - other) <= bar * size).all()


def test_zero_at_alpha_zero(rng):
    X = rng.standard_normal((4, 2, 6))
    for kind in ("gpk", "ntk"):
        assert not alpha_derivative(rk.Kernel(rk.Network(4, alpha=0.0), kind), X).derivative.any()


def test_the_law_of_great_depth(rng):
    """1 − K ~ s²/L² with s = (1+α²)/α², so ∂K/∂α ~ 4 (1 − K)/(α (1+α²)); nothing overflows."""
    depth, alpha = 2000, 0.75
    X = multisphere.sample(3, 2, 4, rng)
    kernel = rk.ResCGPK(depth, head="trace", alpha=alpha, normalized=True)
    K, dK = alpha_derivative(kernel, X)
    others = ~np.eye(3, dtype=bool)
    ratio = dK[others] / (4 * (1 - K[others]) / (alpha * (1 + alpha**2)))
    start = float((1 - kernel.replace(depth=1)(X))[others].min())
    slowdown = (1 + alpha**2) / alpha**2
    assert np.abs(ratio - 1).max() <= 2 * tolerances.asymptote(depth, slowdown, start)
    with pytest.raises(OverflowError, match="normalized=True"):
        alpha_derivative(rk.ResCGPK(2000, head="trace"), X)


def test_does_not_depend_on_threads(rng):
    X = rng.standard_normal((5, 2, 7))
    kernel = rk.ResCNTK(3)
    one, many = (alpha_derivative(kernel, X, threads=t) for t in (1, 3))
    assert (one.derivative == many.derivative).all()


def test_refusals(rng):
    X = rng.standard_normal((2, 1, 4))
    with pytest.raises(ValueError, match="skip=False"):
        alpha_derivative(rk.CGPK(2), X)
    with pytest.raises(ValueError, match="X has shape"):
        alpha_derivative(rk.ResCGPK(2), X[0])
    with pytest.raises(ValueError, match="threads"):
        alpha_derivative(rk.ResCGPK(2), X, threads=0)
    for other in ("ntk", rk.Network(2), rk.ResCGPK):
        with pytest.raises(ValueError, match=r"expected a rescntk\.Kernel"):
            alpha_derivative(other, X)
