"""Outputs of finite networks against their definition, parameters, and what is refused."""

from functools import partial

import jax
import numpy as np
import pytest

import rescntk as rk
from rescntk import finite
from tests import tolerances
from tests.finite import definition
from tests.finite.networks import IMAGES, NETWORKS, parameters

pytestmark = pytest.mark.slow

WIDTH, D = 6, 4
make = partial(parameters, WIDTH)


@pytest.fixture
def X(rng):
    return rng.standard_normal((3, 2, D))


def close(here, there):
    """Two float64 routes: roundings of sums of some hundred terms a layer."""
    bar = 10 * tolerances.ROUTES * max(1.0, np.abs(there).max())
    return np.shape(here) == np.shape(there) and np.abs(here - there).max() <= bar


# Every network with the head "gap", which mixes all pixels; one with the other heads.
CASES = [(name, "gap") for name in NETWORKS] + [("resnet", "equivariant"), ("window", "trace")]
CASES = [(*case, (D,)) for case in CASES] + [(*case, (3, 4)) for case in IMAGES]


@pytest.mark.parametrize(("name", "head", "sides"), CASES)
def test_outputs_are_the_definition(name, head, sides, rng):
    network, X = NETWORKS[name], rng.standard_normal((3, 2, *sides))
    params = make(network, head, sides=sides, n_outputs=3 if head == "trace" else None)
    expected = [definition.output(network, params, x, head) for x in X]
    computed = finite.apply(network, params, X, head)
    assert computed.dtype == np.float64
    assert close(np.asarray(computed), np.array(expected))


def test_signals_of_different_lengths(rng):
    network = rk.Network(2, 5, input_filter_size=3)
    params = make(network, "gap", n_outputs=3)
    X = [rng.standard_normal((2, d)) for d in (7, 1, 7, 4)]
    expected = [definition.output(network, params, x, "gap") for x in X]
    assert close(np.asarray(finite.apply(network, params, X)), np.array(expected))


def test_parameters_that_no_layer_reads_are_left_out():
    assert finite.init(0, rk.Network(2, skip=False), 2, 4).input is None
    assert finite.init(0, rk.Network(2, 1, skip=False, trained="inner"), 2, 4).outer is None
    assert finite.init(0, rk.Network(2, 1, trained="inner"), 2, 4).outer is not None
    biased = rk.Network(2, 1, skip=False, trained="inner", bias=0.5)
    assert finite.init(0, biased, 2, 4).outer is not None


def test_practical_initializations_carry_their_scale_and_have_no_factors(X):
    """Dividing by the factors gives parameters of "ntk" with the same outputs."""
    network = rk.Network(2, 3, alpha=0.3, c_v=1.3, c_w=0.7, readout_scale=2.0, input_scale=3.0)
    for initialization in ("pytorch", "xavier"):
        params = make(network, "gap", initialization=initialization)
        plain = network.replace(c_v=1.0, c_w=1.0, readout_scale=1.0, input_scale=None)

        def stretched(weights):
            return weights * np.sqrt(np.prod(weights.shape[:-1] if weights.ndim > 1 else WIDTH))

        with jax.enable_x64(True):
            same = jax.tree.map(stretched, params).replace(initialization="ntk")
        here = finite.apply(network, params, X)
        assert close(np.asarray(here), np.asarray(finite.apply(plain, same, X)))


def test_variances_of_initializations():
    network = rk.Network(2, 3)
    wide = {
        style: finite.init(0, network, 2, 100, initialization=style, extra_biases=True)
        for style in ("ntk", "pytorch", "xavier")
    }
    variances = {"ntk": 1.0, "pytorch": 1 / 900, "xavier": 2 / 600}
    for style, params in wide.items():
        weights = np.asarray(params.inner[1].weights)
        # 30 000 weights: the variance is known to √(2/30 000), under 1 percent.
        assert abs(weights.var() / variances[style] - 1) <= tolerances.STANDARD_ERRORS * 0.0082
        assert params.inner[1].biases.shape == (100,)
    assert np.abs(wide["pytorch"].inner[1].weights).max() <= 300**-0.5
    assert np.abs(wide["pytorch"].inner[1].biases).max() <= 300**-0.5
    assert (np.asarray(wide["xavier"].inner[1].biases) == 0).all()


def test_biases_are_added_in_every_layer(X):
    """A network of biases alone: f⁰ = b⁰, one layer σ(b) on top of it, readout's b last."""
    network = rk.Network(1, 3, alpha=0.5)
    params = make(network, "gap", initialization="pytorch", extra_biases=True, n_outputs=2)
    with jax.enable_x64(True):
        only = jax.tree.map(lambda a: a if a.ndim == 1 else 0 * a, params)
    only = only.replace(readout=params.readout)
    f = np.asarray(only.input.biases) + 0.5 * np.asarray(only.outer[0].biases)
    expected = f @ np.asarray(params.readout.weights) + np.asarray(params.readout.biases)
    assert close(np.asarray(finite.apply(network, only, X)), np.array([expected] * 3))


def test_precision_is_the_parameters_and_the_users_settings_stay(X):
    network = rk.Network(2, 3)
    before = jax.config.jax_enable_x64
    single = make(network, "gap", dtype="float32")
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
    along = np.vdot(gradient.readout.weights, single.readout.weights)
    assert abs(along - f.sum()) <= 1000 * tolerances.EPS["float32"]


def test_seeds_and_keys():
    network = rk.Network(1)
    one, two, other = (finite.init(k, network, 2, 3) for k in (5, jax.random.key(5), 6))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert (a == b).all()
    assert (one.readout.weights != other.readout.weights).any()


def test_init_refuses():
    for change, message in (
        ({"key": "a"}, "key is 'a', expected an integer"),
        ({"key": 2**63}, "key is 9.*, expected an integer of 64 bits"),
        ({"network": 3}, "network is 3, expected a rescntk.Network"),
        ({"width": 0}, "width is 0, expected an integer of at least 1"),
        ({"n_channels": 1.5}, "n_channels is 1.5, expected an integer"),
        ({"initialization": "he"}, "initialization is 'he', expected one of 'ntk', 'pytorch'"),
        (
            {"network": rk.Network(1, bias=0.5), "extra_biases": True},
            "extra_biases is True and network has bias 0.5, expected only one of them",
        ),
        (
            {"network": rk.Network(1, bias=0.5), "initialization": "xavier"},
            "network has bias 0.5, expected 0.0",
        ),
        ({"extra_biases": 1}, "extra_biases is 1, expected True or False"),
        ({"dtype": "int8"}, "dtype is"),
    ):
        arguments = {"key": 0, "network": rk.Network(1), "n_channels": 2, "width": 3} | change
        with pytest.raises(ValueError, match=message):
            finite.init(**arguments)
    with pytest.raises(MemoryError, match=r"width 10000000 with 2.9e\+15 parameters takes .* GB"):
        finite.init(0, rk.Network(4, 3, outer_filter_size=5), 1, 10_000_000)


def test_layers_that_will_not_fit_are_refused_with_the_figure(X, free):
    network = rk.Network(2, 3)
    params = make(network, "gap")
    says = "a network of width 6 on signals of 12 pixels in all takes at least"
    # A forward pass: 2 layers and 3 taps of 12 pixels, 6 channels and 8 bytes; training: 4 and 3.
    free(12 * 6 * 8 * 5 - 1)
    for call in (
        lambda: finite.apply(network, params, X),
        lambda: finite.gpk(0, network, X, WIDTH, 2),
    ):
        with pytest.raises(MemoryError, match=says):
            call()
    free(12 * 6 * 8 * 7 - 1)
    assert finite.apply(network, params, X).shape == (3,)
    with pytest.raises(MemoryError, match=says):
        finite.train(network, params, X, np.ones(3), 0.1, 1)
    assert finite.train(network, params, X, np.ones(3), 0.1, 1, batch_size=1).loss.shape == (2,)


def test_apply_refuses(X):
    network = rk.Network(2, 3)
    params = make(network, "gap")
    deeper, trace = network.replace(depth=3), make(network, "trace")
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"X has shape \(2, 4\), expected"):
        jax.jit(lambda x: finite.apply(network, params, x))(X[0])
    for match, arguments in {
        "params.inner has weights": (deeper, params, X),
        "params is dict, expected Parameters": (network, {}, X),
        "head is 'max', expected one of": (network, params, X, "max"),
        "params has no biases of Network.bias, expected those of network with bias 0.5": (
            network.replace(bias=0.5), params, X),
        "params has biases of Network.bias, expected those of network with bias 0.0": (
            network, make(network.replace(bias=0.5), "gap"), X),
        "expected one with weights for every pixel": (network, params, X, "trace"),
        'expected "trace"': (network, trace, X),
        "X has signals of length 3, expected 4": (network, trace, X[:, :, :3], "trace"),
        "X has signals of 1 channels, expected 2": (network, params, X[:, :1]),
        "X has shape .*, expected": (network, params, X[0]),
        "X has images, expected signals": (network, params, X[..., None]),
        "X has signals, expected images": (network, make(network, "gap", sides=(2, 2)), X),
        "NaN or infinity": (network, params, X * np.nan),
        r"X has signals of lengths \[2, 4\]": (
            network, params, [X[0], X[1, :, :2]], "equivariant"),
        "X is empty": (network, params, []),
        r"X\[1\] has shape": (network, params, [X[0], X[0, 0]]),
        r"X\[1\] has 1 channels, expected 2 as in X\[0\]": (network, params, [X[0], X[0, :1]]),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=match):
            finite.apply(*arguments)


def test_numbers_beyond_the_range_and_masks_are_refused(X):
    network = rk.Network(2, 3)
    params, single = make(network, "gap"), finite.init(0, network, 2, 4, dtype="float32")
    masked = np.ma.masked_array(X, X == X[0, 0, 0])
    huge = np.sign(X) * 1e308
    for call in (
        lambda X: finite.apply(network, params, X),
        lambda X: finite.apply(network, single, X),
        lambda X: finite.ntk(network, params, X),
        lambda X: finite.gpk(0, network, X, 8, 2),
        lambda X: finite.samples(0, network, X, 8, 2),
        lambda X: finite.train(network, params, X, np.ones(3), 0.1, 1),
    ):
        for some in (masked, list(masked)):
            with pytest.raises(ValueError, match="^X is a masked array"):
                call(some)
        with pytest.raises((OverflowError, FloatingPointError), match="exceed float|the loss is"):
            call(huge)
    found = np.asarray(finite.apply(network, params, X))
    assert np.allclose(finite.apply(network, params, X * 2.0**900), found * 2.0**900, rtol=1e-12)
