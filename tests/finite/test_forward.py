"""Outputs of finite networks against their definition, and their parameters."""

import jax
import numpy as np
import pytest

import rescntk as rk
from rescntk import finite
from tests import tolerances
from tests.finite.networks import CASES, NETWORKS, draw, output, parameters

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "head", "sides"), CASES)
def test_outputs_are_the_definition(name, head, sides, rng):
    network, X = NETWORKS[name], draw(rng, sides)
    params = parameters(network, head, sides)
    expected = np.array([output(network, params, x, head) for x in X])
    computed = np.asarray(finite.apply(network, params, X, head))
    assert computed.dtype == np.float64 and computed.shape == expected.shape
    # Two float64 routes: roundings of sums of some hundred terms a layer.
    bar = 10 * tolerances.ROUTES * max(1.0, np.abs(expected).max())
    assert np.abs(computed - expected).max() <= bar


def test_parameters():
    """Standard normal, by the key, with biases; what no layer reads is left out."""
    network = rk.Network(2, 3, bias=0.5)
    params, same, other = (finite.init(k, network, 2, 100) for k in (5, jax.random.key(5), 6))
    weights = np.asarray(params.inner[1].weights)
    # 30 000 weights: the variance is known to √(2/30 000), under 1 percent.
    assert abs(weights.var() - 1) <= tolerances.STANDARD_ERRORS * 0.0082
    assert params.outer[0].biases.shape == (100,) and params.input.biases is None
    assert (params.readout == same.readout).all() and (params.readout != other.readout).any()
    assert finite.init(0, rk.Network(2, skip=False), 2, 4).input is None
    assert finite.init(0, rk.Network(2, 1, skip=False, trained="inner"), 2, 4).outer == ()
    for kept in (rk.Network(2, 1, trained="inner"), rk.Network(2, 1, skip=False, bias=0.5)):
        assert len(finite.init(0, kept, 2, 4).outer) == 2


def test_precision_is_the_parameters_and_the_users_settings_stay(rng):
    network, X = rk.Network(2, 3), draw(rng)
    before = jax.config.jax_enable_x64
    single = parameters(network, dtype="float32")
    with jax.enable_x64(True):
        double = jax.tree.map(lambda a: a.astype(np.float64), single)
    f = finite.apply(network, single, X)
    assert f.dtype == np.float32
    error = np.abs(np.asarray(finite.apply(network, double, X)) - f).max()
    assert 0 < error <= 100 * tolerances.EPS["float32"]
    assert jax.config.jax_enable_x64 == before
    # JAX differentiates and compiles the call. f is homogeneous in the readout's weights.
    X = X.astype(np.float32)
    compiled = jax.jit(lambda p, x: finite.apply(network, p, x))(single, X)
    assert np.abs(compiled - f).max() <= 100 * tolerances.EPS["float32"]
    gradient = jax.grad(lambda p: finite.apply(network, p, X).sum())(single)
    along = np.vdot(gradient.readout, single.readout)
    assert abs(along - f.sum()) <= 1000 * tolerances.EPS["float32"]
