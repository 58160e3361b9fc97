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
    params = make(network, head, sides=sides)
    expected = [definition.output(network, params, x, head) for x in X]
    computed = finite.apply(network, params, X, head)
    assert computed.dtype == np.float64
    assert close(np.asarray(computed), np.array(expected))


def test_signals_of_different_lengths(rng):
    network = rk.Network(2, 5, input_filter_size=3)
    params = make(network, "gap")
    X = [rng.standard_normal((2, d)) for d in (7, 1, 7, 4)]
    expected = [definition.output(network, params, x, "gap") for x in X]
    assert close(np.asarray(finite.apply(network, params, X)), np.array(expected))


def test_parameters_that_no_layer_reads_are_left_out():
    assert finite.init(0, rk.Network(2, skip=False), 2, 4).input is None
    assert finite.init(0, rk.Network(2, 1, skip=False, trained="inner"), 2, 4).outer == ()
    for kept in (rk.Network(2, 1, trained="inner"), rk.Network(2, 1, skip=False, bias=0.5)):
        assert len(finite.init(0, kept, 2, 4).outer) == 2


def test_parameters_are_standard_normal():
    params = finite.init(0, rk.Network(2, 3, bias=0.5), 2, 100)
    # 30 000 weights: the variance is known to √(2/30 000), under 1 percent.
    weights = np.asarray(params.inner[1].weights)
    assert abs(weights.var() - 1) <= tolerances.STANDARD_ERRORS * 0.0082
    assert params.outer[0].biases.shape == (100,) and params.input.biases is None


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
    along = np.vdot(gradient.readout, single.readout)
    assert abs(along - f.sum()) <= 1000 * tolerances.EPS["float32"]


def test_seeds_and_keys():
    network = rk.Network(1)
    one, two, other = (finite.init(k, network, 2, 3) for k in (5, jax.random.key(5), 6))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert (a == b).all()
    assert (one.readout != other.readout).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "a"}, "key is 'a', expected an integer"),
        ({"network": 3}, "network is 3, expected a rescntk.Network"),
        ({"width": 0}, "width is 0, expected an integer of at least 1"),
        ({"n_channels": 1.5}, "n_channels is 1.5, expected an integer"),
        ({"n_timepoints": 0}, "n_timepoints is 0, expected"),
        ({"images": 2}, "images is 2, expected True or False"),
        ({"dtype": "int8"}, "dtype is"),
    ],
)
def test_init_refuses(change, message):
    arguments = {"key": 0, "network": rk.Network(1), "n_channels": 2, "width": 3} | change
    with pytest.raises(ValueError, match=message):
        finite.init(**arguments)


def test_parameters_that_will_not_fit_are_refused_with_the_figure():
    with pytest.raises(MemoryError, match=r"width 10000000 with 2.9e\+15 parameters takes .* GB"):
        finite.init(0, rk.Network(4, 3, outer_filter_size=5), 1, 10_000_000)


def test_apply_refuses(X):
    network = rk.Network(2, 3)
    params, trace = make(network, "gap"), make(network, "trace")
    biased, deeper = network.replace(bias=0.5), network.replace(depth=3)
    for match, arguments in {
        "params has inner of shapes": (deeper, params, X),
        "params has inner .*: call finite.init with the network": (biased, params, X),
        "params is dict, expected Parameters": (network, {}, X),
        "head is 'max', expected one of": (network, params, X, "max"),
        r"n_timepoints=None\), which the head \"trace\" needs": (network, params, X, "trace"),
        "head is 'gap' and X has 4 pixels, expected what params": (network, trace, X),
        r"X has 3 pixels, .* n_timepoints=4": (network, trace, X[:, :, :3], "trace"),
        "X has 1 channels, expected 2": (network, params, X[:, :1]),
        "X has shape .*, expected": (network, params, X[0]),
        "X has images, expected signals": (network, params, X[..., None]),
        "X has signals, expected images": (network, make(network, sides=(2, 2)), X),
        "NaN or infinity": (network, params, X * np.nan),
        "X is a list of signals, expected one array": (
            network, params, [X[0], X[1, :, :2]], "equivariant"),
        "X is empty": (network, params, []),
        "X is a masked array": (network, params, np.ma.masked_array(X, X > 0)),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=match):
            finite.apply(*arguments)


def test_numbers_beyond_the_range_are_refused(X):
    network = rk.Network(2, 3)
    params, huge = make(network, "gap"), np.sign(X) * 1e308
    for call in (
        lambda: finite.apply(network, params, huge),
        lambda: finite.ntk(network, params, huge),
        lambda: finite.gpk(0, network, huge, 8, 2),
        lambda: finite.train(network, params, huge, np.ones(3), 0.1, 1),
    ):
        with pytest.raises((OverflowError, FloatingPointError), match="exceed float|the loss is"):
            call()
