"""∂K/∂α against differences in 40 digits, and against K itself."""

from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES, HEADS, KINDS, PARTS
from rescntk.derivative import alpha_derivative, has_alpha_derivative
from tests import tolerances
from tests.difficult_signals import SIGNALS
from tests.helpers import GROUPS
from tests.oracles import definition

# Step of the oracle's differences, relative to α: a power of two, so that α (1 + k·STEP) is a
# float64 number. Five points leave STEP⁴/30 of the fifth derivative, which for growth along depth
# is (2L)⁵: 9e-14 for L = 30. At ρ = ±1 the oracle's 40 digits leave 1e-20 in κ0, 1e-15 in the
# difference.
STEP = 2.0**-17


def normalize(K):
    own = K.diagonal()
    found = np.full(K.shape, definition.mp.mpf(0), dtype=object)
    for a, b in np.ndindex(K.shape):
        if own[a] > 0 and own[b] > 0:
            found[a, b] = K[a, b] / definition.mp.sqrt(own[a] * own[b])
    return found


def exact_sensitivities(network, X, heads=HEADS):
    """Yield kernels with K and α ∂K/∂α in 40 digits, by five-point differences."""
    at = {
        k: definition.pixel_pairs(X, network.replace(alpha=network.alpha * (1 + k * STEP)))
        for k in (-2, -1, 0, 1, 2)
    }
    for i, kind in enumerate(("gpk", "ntk")):
        for head in heads:
            values = {k: definition.head(pairs[network.depth][i], head) for k, pairs in at.items()}
            for normalized in (False, True):
                if normalized:
                    values = {k: normalize(K) for k, K in values.items()}
                slope = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * STEP)
                yield rk.Kernel(network, kind, head, normalized), values[0], slope


def assert_exact(network, X, heads=HEADS, engines=("auto",), dtypes=DTYPES):
    for kernel, K, slope in exact_sensitivities(network, X, heads):
        for dtype, engine in product(dtypes, engines):
            options = {"dtype": dtype, "engine": engine}
            matrix, found = alpha_derivative(kernel, X, **options)
            assert (matrix == kernel(X, **options)).all()
            assert (found == found.T).all()
            error = definition.errors(network.alpha * found, slope, K.diagonal())
            assert error <= tolerances.derivative(dtype), (kernel, options)


NETWORKS = {
    "residual": rk.Network(5, alpha=0.75),
    "filters, frozen": rk.Network(
        3, 5, outer_filter_size=1, input_filter_size=3, alpha=0.5, c_v=1.7, trained=("inner",)
    ),
    "all trained": rk.Network(3, 5, alpha=0.75, bias=0.6, readout_scale=0.25, trained=PARTS),
    **{f"alpha 2^{k}": rk.Network(3, alpha=2.0**k) for k in (-20, -4, 5)},
    "depth 30, large alpha": rk.Network(30, alpha=30.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make"), list(product(NETWORKS, SIGNALS))[::2])
def test_exact(name, make, rng):
    network = NETWORKS[name]
    X = make(2, 4, rng)[:4] if network.depth < 30 else make(2, 3, rng)[[0, 2, 3]]
    # (1 + 30²)³⁰ exceeds float32
    dtypes = ("float64",) if name == "depth 30, large alpha" else DTYPES
    assert_exact(network, X, dtypes=dtypes)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.75, 2.0])
@pytest.mark.parametrize("make", SIGNALS)
def test_exact_for_erf(make, alpha, rng):
    """Relative to the trace head's kernel: means over pixel pairs of an odd function may cancel."""
    X, network = make(2, 4, rng)[:3], rk.Network(4, alpha=alpha, activation="erf")
    sensitivities = exact_sensitivities(network, X, ("trace", "gap"))
    exact = {kernel: (K, slope) for kernel, K, slope in sensitivities if not kernel.normalized}
    for kernel, (_, slope) in exact.items():
        own = exact[rk.Kernel(network, kernel.kind, "trace")][0].diagonal()
        error = definition.errors(alpha * alpha_derivative(kernel, X)[1], slope, own)
        assert error <= tolerances.derivative("float64"), kernel


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
def test_exact_on_every_engine(engines, rng):
    X = rng.standard_normal((3, 2, 5))
    assert_exact(NETWORKS["residual"], X, heads=("gap",), engines=engines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalized", [False, True])
def test_two_sets_of_signals(normalized, kind, rng):
    """The derivative of a pair depends on the two signals alone, not on the number of threads."""
    X = rng.standard_normal((5, 2, 6))
    kernel = rk.Kernel(rk.Network(3, alpha=0.5), kind, "gap", normalized)
    lists = [x[:, : 6 - k] for k, x in enumerate(X)]
    slope = alpha_derivative(kernel, lists, X[:2])[1]
    step = 1e-4  # central differences leave its square, times a sixth of the third derivative
    one, other = (kernel.replace(alpha=0.5 + s)(lists, X[:2]) for s in (step, -step))
    difference = (one - other) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=0, atol=100 * step**2)
    whole, part = alpha_derivative(kernel, X), alpha_derivative(kernel, X, X[:2].copy())
    assert (alpha_derivative(kernel, X, threads=3)[1] == whole[1]).all()
    assert (part[0] == whole[0][:, :2]).all()
    size = np.sqrt(np.outer(kernel.diag(X), kernel.diag(X[:2])))
    error = np.abs(part[1] - whole[1][:, :2]) / size
    assert error.max() <= 2 * tolerances.derivative("float64") / kernel.network.alpha


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", [rk.Network(4, alpha=0.0), rk.Network(4, skip=False)], ids=repr)
def test_networks_whose_derivative_is_zero(network, kind, rng):
    X, kernel = rng.standard_normal((4, 2, 6)), rk.Kernel(network, kind)
    K, dK = alpha_derivative(kernel, X)
    assert (K == kernel(X)).all() and not dK.any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_diagonal_of_normalized_kernels_is_constant(kind, rng):
    """And the row of a signal of zeros."""
    X = rng.standard_normal((4, 2, 6))
    X[1] = 0.0
    dK = alpha_derivative(rk.Kernel(rk.Network(3), kind, normalized=True), X)[1]
    assert not dK.diagonal().any() and not dK[1].any()


@pytest.mark.parametrize(
    ("options", "has_one"),
    [
        ({"filter_size": (1, 3), "bias": 0.3}, True),
        ({"activation": "erf"}, True),
        ({"activation": "gelu"}, False),
        ({"alpha": (1.0, 0.5)}, False),
        ({"norm": True}, False),
    ],
)
def test_networks_tell_whether_they_have_a_derivative(options, has_one, rng):
    network, X = rk.Network(2, **options), rng.standard_normal((2, 1, 4))
    assert has_alpha_derivative(network) == has_one
    if has_one:
        alpha_derivative(rk.Kernel(network, "gpk"), X)
    else:
        with pytest.raises(ValueError, match="network has"):
            alpha_derivative(rk.Kernel(network, "gpk"), X)


def test_growth_along_depth_costs_no_digits(rng):
    """K(x, x) of trace grows like (1 + α²)^L, whose logarithmic derivative is 2Lα²/(1 + α²)."""
    X, kernel = rng.standard_normal((3, 2, 4)), rk.ResCGPK(300, head="trace", alpha=0.75)
    K, dK = (values.diagonal() for values in alpha_derivative(kernel, X))
    rate = 2 * 300 * 0.75**2 / (1 + 0.75**2)
    error = np.abs(0.75 * dK / K - rate)
    assert (error <= tolerances.derivative("float64") + tolerances.EPS["float64"] * rate).all()
    with pytest.raises(OverflowError, match="normalized=True"):
        alpha_derivative(kernel.replace(depth=2000), X)
