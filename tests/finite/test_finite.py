"""Finite networks against their definition in NumPy, the exact kernels, and steps written out."""

import math
from functools import partial

import jax
import numpy as np
import optax
import pytest
import scipy.stats

import rescntk as rk
from rescntk import finite, literature
from rescntk.checks.values import PARTS
from rescntk.finite.kernels import _products
from rescntk.finite.parameters import shapes
from tests import tolerances
from tests.helpers import nightly
from tests.oracles import finite_width

SUMS = 10 * tolerances.ROUTES
"""Of networks: sums over a hundred weights, and products of Jacobians over as many parameters."""

CASES = [
    (rk.Network(3, 3, alpha=0.7), "gap", (4,)),
    (rk.Network(3, skip=False, outer_filter_size=5, dilation=(2, 1, 4)), "gap", (4,)),
    (rk.Network(2, 3, activation="erf", c_w=1.5), "gap", (4,)),
    (rk.Network(2, 3, activation="gelu", bias=0.4), "gap", (4,)),
    (rk.Network(2, 13, outer_filter_size=5), "gap", (4,)),  # longer than the signal
    (rk.Network(2, 3, input_filter_size=3, trained=PARTS), "gap", (4,)),
    (rk.Network(2, 3, trained=("inner", "readout"), readout_scale=0.5), "gap", (4,)),
    (rk.Network(2, negative_slope=0.2, c_v=1.9, trained="readout"), "gap", (4,)),
    (rk.Network(2, 3, skip=False, trained=("input", "inner"), bias=0.3), "gap", (4,)),
    (
        rk.Network(3, (3, 1, 5), skip=(False, True, True), alpha=0.7, bias=(0.0, 0.3, 0.0)),
        "gap",
        (4,),
    ),
    (rk.Network(2, 3, norm=True, c_w=(1.0, 0.7), c_v=(2.0, 1.4)), "gap", (4,)),
    (literature.one_convolution_resnet(2, alpha=0.8), "gap", (4,)),
    (rk.Network(3, 3, alpha=0.7), "equivariant", (3, 4)),
    (rk.Network(2, 3, bias=0.6, alpha=0.7, c_v=1.4), "trace", (3, 4)),
    (rk.Network(2, 3, input_filter_size=5, input_scale=0.3), "trace", (4,)),
    (rk.Network(2, 3, input_filter_size=5, input_scale=0.3), "gap", [7, 1, 7, 4]),
]


def draw(rng, sides=(4,)):
    """Return 3 signals or images of 2 channels; for a list of lengths one signal of each."""
    if isinstance(sides, list):
        return [rng.standard_normal((2, d)) for d in sides]
    return rng.standard_normal((3, 2, *sides))


def parameters(network, head="gap", sides=(4,), width=5, key=1, **options):
    """Return parameters for what `draw` returns."""
    pixels = math.prod(sides) if head == "trace" or isinstance(head, int) else None
    options |= {"n_timepoints": pixels, "images": isinstance(sides, tuple) and len(sides) == 2}
    return finite.init(key, network, 2, width, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "head", "sides"), CASES)
def test_networks_are_the_definition(network, head, sides, rng):
    X, params = draw(rng, sides), parameters(network, head, sides)
    expected = np.array([finite_width.output(network, params, x, head) for x in X])
    computed = np.asarray(finite.apply(network, params, X, head))
    assert computed.dtype == np.float64 and computed.shape == expected.shape
    assert np.abs(computed - expected).max() <= SUMS * max(1.0, np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(("network", "head", "sides"), CASES)
def test_tangent_kernels_are_products_of_jacobians(network, head, sides, rng):
    X, Z = draw(rng, sides), draw(rng, sides)
    params, n = parameters(network, head, sides), len(X)

    def outputs(trained):
        both = [*X, *Z] if isinstance(X, list) else np.r_[X, Z]
        return finite.apply(network, params._replace(**trained), both, head)

    with jax.enable_x64(True):
        parts = {part: getattr(params, part) for part in network.trained}
        leaves = jax.tree.leaves(jax.jit(jax.jacrev(outputs))(parts))
    J = np.concatenate([np.reshape(leaf, (2 * n, -1)) for leaf in leaves], axis=1)
    K, cross = (finite.ntk(network, params, X, other, head) for other in (None, Z))
    for found, exact in ((K, J[:n] @ J[:n].T), (cross, J[:n] @ J[n:].T)):
        assert np.abs(found - exact).max() <= SUMS * np.abs(exact).max()
    assert (K == K.T).all()


@pytest.mark.slow
def test_parameters_are_standard_normal():
    params = finite.init(5, rk.Network(2, 3, bias=0.5), 2, 100)
    weights = np.asarray(params.inner[1].weights)
    assert abs(weights.var() - 1) <= tolerances.STANDARD_ERRORS * math.sqrt(2 / weights.size)
    assert params.outer[0].biases.shape == (100,) and params.input.biases is None


def test_parameters_are_those_of_the_key():
    keys = 5, jax.random.key(5), 6
    params, same, other = (finite.init(key, rk.Network(1), 2, 4) for key in keys)
    assert (params.readout == same.readout).all() and (params.readout != other.readout).any()


def test_parameters_that_no_layer_reads_are_left_out():
    parts = partial(shapes, n_channels=2, width=4, n_timepoints=None, axes=1)
    assert finite.init(0, rk.Network(2, skip=False), 2, 4).input is None
    assert parts(rk.Network(2, 1, skip=False, trained="inner")).outer == ()
    networks = (
        rk.Network(2, 1, trained="inner"),
        rk.Network(2, 1, skip=False, bias=0.5),
        rk.Network(2, 1, skip=False, outer_filter_size=3, trained="inner"),
        rk.Network(2, 1, skip=False, outer_filter_size=(1, 3), trained="inner"),
        rk.Network(2, 1, skip=(False, True), trained="inner"),
        rk.Network(2, 1, skip=False, bias=(0.5, 0.0), trained="inner"),
    )
    for kept in networks:
        assert len(parts(kept).outer) == 2


@pytest.mark.parametrize(
    "function", [finite.apply, lambda *given: _products(given[0], "gap", *given[1:])]
)
def test_products_of_matrices_ask_for_full_precision(function):
    """By default accelerators round their factors to fewer digits than float32 has."""
    network, X = rk.Network(2, 3), np.ones((2, 2, 4), np.float32)
    params = finite.init(0, network, 2, 4, dtype="float32")
    text = str(jax.make_jaxpr(partial(function, network))(params, X))
    products, full = (
        text.count(word) for word in ("dot_general[", "(Precision.HIGHEST, Precision.HIGHEST)")
    )
    assert products == full > 0


@pytest.mark.slow
def test_precision_is_the_parameters_and_the_users_settings_stay(rng):
    network, X = rk.Network(2, 3), draw(rng).astype(np.float32)
    before, bar = jax.config.jax_enable_x64, tolerances.EPS["float32"]
    single = parameters(network, dtype="float32")
    with jax.enable_x64(True):
        double = jax.tree.map(lambda a: a.astype(np.float64), single)
    f = finite.apply(network, single, X)
    assert f.dtype == np.float32
    assert 0 < np.abs(np.asarray(finite.apply(network, double, X)) - f).max() <= 100 * bar
    assert jax.config.jax_enable_x64 == before
    # JAX differentiates and compiles the call. f is homogeneous in the readout's weights.
    gradient = jax.jit(jax.grad(lambda p: finite.apply(network, p, X).sum()))(single)
    assert abs(np.vdot(gradient.readout, single.readout) - f.sum()) <= 1000 * bar


# Systems of the papers, heads and kinds: the strongest independent check of the exact kernels.
# Every other one is nightly; of both kinds there is one that is not.
EXACT = {
    "ResCNTK, dilated": (rk.Network(2, 3, alpha=0.8, dilation=(2, 3)), "ntk", "trace", (4,)),
    "CNTK, one convolution": (literature.geifman_cnn(2), "ntk", "equivariant", (4,)),
    "ResCGPK, of several lengths": (rk.Network(2, 5, readout_scale=0.5), "gpk", "gap", [4, 2, 4]),
    "erf, window": (rk.Network(2, activation="erf", input_filter_size=3), "ntk", "gap", (4,)),
    "gelu, biases": (rk.Network(2, activation="gelu", bias=0.5), "ntk", "trace", (4,)),
    "all parts, vectors": (literature.tirer_resnet(2, 0.5), "ntk", "gap", (1,)),
    "biases": (rk.Network(2, 3, bias=0.8, alpha=0.7), "ntk", "gap", (4,)),
    "images": (rk.Network(2, 3, outer_filter_size=1, input_filter_size=3), "ntk", "gap", (2, 3)),
    "layers": (
        rk.Network(3, 3, alpha=(1.0, 0.5, 1.0), skip=(True, True, False)),
        "ntk",
        "gap",
        (4,),
    ),
    "normalized": (rk.Network(2, 3, bias=0.4, norm=True, c_w=(1.5, 0.7)), "ntk", "gap", (4,)),
    "pooled": (rk.Network(2, 3, bias=0.4), "ntk", 3, (5,)),
    "pooled images": (rk.Network(2, 3), "gpk", 2, (3, 4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXACT][::2] + nightly(*[*EXACT][1::2]))
def test_finite_networks_concentrate_on_the_exact_kernels(name, rng):
    network, kind, head, sides = EXACT[name]
    X, spreads = draw(rng, sides), []
    exact = rk.gram(network, X, head=head, kinds=(kind,))[0]
    # Mean tangent kernels of width 16 may be biased.
    for width in (16, 128) if kind == "gpk" else (128,):
        if kind == "gpk":
            mean, deviation = finite.mean_gpk(width, network, X, width, 36, head)
        else:
            keys = jax.random.split(jax.random.key(width), 36)
            drawn = (parameters(network, head, sides, width, key) for key in keys)
            kernels = np.array([finite.ntk(network, params, X, head=head) for params in drawn])
            mean, deviation = kernels.mean(axis=0), scipy.stats.sem(kernels)
        spreads.append(np.linalg.norm(deviation))
        assert (np.abs(mean - exact) <= tolerances.STANDARD_ERRORS * deviation).all()
    # Spreads fall like width^-½: 8^-½ = .35, known to some 20 percent. The test has teeth.
    assert kind == "ntk" or 0.2 <= spreads[1] / spreads[0] <= 0.6
    assert deviation.max() <= 0.1 * np.abs(exact).max()


NETWORK = rk.Network(1, 3, alpha=0.5)
BAR = 10 * SUMS  # of gradient steps, which add up errors
assert_same = partial(jax.tree.map, partial(np.testing.assert_allclose, rtol=0, atol=BAR))


@pytest.fixture
def task(rng):
    """Parameters, signals and targets."""
    X, y = rng.standard_normal((3, 2, 4)), rng.standard_normal(3)
    return finite.init(0, NETWORK, 2, 6), X, y


@pytest.mark.slow
def test_tangent_kernels_are_traced(task):
    """By jit, vmap and grad, in signals and in parameters."""
    params, X, _ = task
    K, Z = finite.ntk(NETWORK, params, X), [X[0], X[1, :, :3]]

    def kernel(X, params, Z=None):
        return finite.ntk(NETWORK, params, X, Z)

    with jax.enable_x64(True):
        assert_same(jax.jit(kernel)(X, params), K)
        assert_same(jax.vmap(lambda x: kernel(x[None], params, X)[0])(X), K)
        assert_same(jax.jit(kernel)(Z, params), kernel(Z, params))
        rows = jax.jacfwd(lambda c: kernel(c * X, params, X))(2.0)
        assert_same(rows, K)  # tangent kernels are homogeneous in either signal


@pytest.mark.slow
def test_gradient_descent(task):
    """Steps on ½ Σ (f − y)², written out; of images, where parts are frozen."""
    X, y = task[1].reshape(3, 2, 2, 2), task[2]
    network = NETWORK.replace(trained=("inner", "outer"), bias=0.5)
    params = expected = finite.init(0, network, 2, 6, images=True)

    def loss(p):
        return 0.5 * ((finite.apply(network, p, X) - y) ** 2).sum()

    with jax.enable_x64(True):
        for _ in range(3):
            slopes = jax.grad(loss)(expected)
            stepped = jax.tree.map(lambda a, g: a - 0.1 * g, expected, slopes)
            expected = params._replace(inner=stepped.inner, outer=stepped.outer)
    found = finite.train(network, params, X, y, 0.1, 3)
    assert_same(found.params, expected)
    assert found.params.input is params.input and found.params.readout is params.readout
    assert_same(finite.train(network, params, X, y, optax.sgd(0.1), 3, every=2).params, expected)


@pytest.fixture
def recorded(task):
    """A training of six steps of Adam with outputs and kernel, and its new signals."""
    params, X, y = task
    Z, record = X[:2] + 1, ("outputs", "kernel")
    run = finite.train(NETWORK, params, X, y, optax.adam(0.01), 6, Z=Z, record=record, every=4)
    return run, Z


@pytest.mark.slow
def test_recorded_steps_have_the_first_and_the_last(recorded):
    assert recorded[0].steps.tolist() == [0, 4, 6]


def test_recorded_outputs_are_those_of_the_networks(task, recorded):
    (params, X, _), (run, Z) = task, recorded
    assert_same(run.outputs[0], finite.apply(NETWORK, params, X))
    assert_same(run.test_outputs[-1], finite.apply(NETWORK, run.params, Z))


def test_recorded_losses_are_half_the_squared_errors(task, recorded):
    run, _ = recorded
    assert np.abs(run.loss - 0.5 * ((run.outputs - task[2]) ** 2).sum(axis=1)).max() <= BAR


def test_recorded_change_is_the_distance_of_tangent_kernels(task, recorded):
    (params, X, _), (run, _) = task, recorded
    change = finite.ntk(NETWORK, run.params, X) - finite.ntk(NETWORK, params, X)
    assert abs(run.kernel_change[-1] - np.linalg.norm(change)) <= BAR


def test_nothing_is_recorded_unasked(task):
    params, X, y = task
    bare = finite.train(NETWORK, params, X, y, 0.1, 2, record=())
    assert bare.outputs is None and bare.kernel_change is None and bare.path_length is None


def test_a_network_whose_readout_is_trained_is_its_own_linearization(task):
    params, X, y = task
    network = NETWORK.replace(trained="readout")
    run = finite.train(network, params, X, y, 0.2, 20, record=("outputs", "kernel"))
    assert_same(run.outputs, linearized(network, params, X, y, X, 0.2, run.steps))
    assert run.kernel_change.max() <= BAR


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "apart"), [(50, 1), (51, 2), (100, 2), (101, 3)])
def test_records_by_default_are_at_most_fifty_apart_from_the_last(steps, apart, task):
    params, X, y = task
    found = finite.train(NETWORK.replace(trained="readout"), params, X, y, 0.01, steps, record=())
    assert found.steps.tolist() == [*range(0, steps, apart), steps]


@pytest.mark.slow
def test_records_may_be_of_one_name(task):
    """A float of NumPy is a learning rate."""
    params, X, y = task
    found = finite.train(NETWORK, params, X, y, np.float32(0.01), 75, record="path")
    assert found.steps.tolist() == [*range(0, 75, 2), 75]
    assert found.outputs is None and found.path_length[-1] > 0


@pytest.mark.slow
def test_lengths_of_paths(task):
    """Of Adam from the weights themselves; of a linear model from its errors and kernel."""
    params, X, y = task
    options = {"record": ("path",), "every": 2}
    found = finite.train(NETWORK, params, X, y, optax.adam(0.01), 3, **options)
    weights = [
        flat(finite.train(NETWORK, params, X, y, optax.adam(0.01), steps).params)
        for steps in (1, 2, 3)
    ]
    steps = np.linalg.norm(np.diff([flat(params), *weights], axis=0), axis=1)
    assert found.steps.tolist() == [0, 2, 3]
    assert np.abs(found.path_length - [0, *np.cumsum(steps)[1:]]).max() <= BAR
    network, rate = NETWORK.replace(trained="readout"), 0.2
    found = finite.train(network, params, X, y, rate, 20, record=("outputs", "path"), every=1)
    errors, kernel = found.outputs - y, finite.ntk(network, params, X)
    steps = rate * np.sqrt(np.einsum("ti,ij,tj->t", errors, kernel, errors))
    assert np.abs(found.path_length[1:] - np.cumsum(steps[:-1])).max() <= BAR


def flat(params):
    """Return all weights of a network as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])


def linearized(network, params, X, y, Z, rate, steps):
    """Return outputs at Z of the linearized network: a step multiplies errors by I − η Θ̂_0."""
    values, vectors = np.linalg.eigh(finite.ntk(network, params, X))
    learned = (1 - (1 - rate * values) ** steps[:, None]) / values
    f_X, f_Z = (np.asarray(finite.apply(network, params, signals)) for signals in (X, Z))
    moved = (learned * (vectors.T @ (y - f_X))) @ vectors.T
    return f_Z + moved @ finite.ntk(network, params, X, Z)


@pytest.mark.slow
def test_wide_networks_follow_the_kernels_gradient_flow():
    """Figure 1b of Tirer et al. in small: a wide network, its linearization and the kernel."""
    network = literature.tirer_resnet(2, alpha=0.5)
    circle = 2 * np.exp(2j * np.pi * np.arange(7) / 7).view(float).reshape(7, 2, 1)
    X, Z, y = circle[[0, 2, 4]], circle[[1, 3, 5, 6]], np.array([1.0, -1, 0])
    distances, kernel = [], rk.Kernel(network, "ntk")
    rate, record = 0.1, ("outputs", "kernel", "path")
    for width in (16, 128):
        params = finite.init(1, network, 2, width)
        found = finite.train(network, params, X, y, rate, 100, Z=Z, record=record, every=25)
        beta = rk.regression.flow(kernel(X), y - found.outputs[0], rate * found.steps)
        flow = found.test_outputs[0] + beta @ kernel(X, Z)
        linear = linearized(network, params, X, y, Z, rate, found.steps)
        far, away = (np.abs(found.test_outputs - outputs).max() for outputs in (flow, linear))
        values, vectors = np.linalg.eigh(found.initial_kernel)
        left = (1 - rate * values) ** np.arange(100)[:, None] * (vectors.T @ (found.outputs[0] - y))
        path = rate * np.sqrt((values * left**2).sum(axis=1)).sum()  # steps of the linearization
        off = abs(found.path_length[-1] / path - 1)
        distances.append([far, away, found.kernel_change.max(), off])
        assert found.loss[-1] < 1e-2 * found.loss[0]
    # Linearization and kernel: at eight times the width 8^(-1/2) = 0.35 of the distance at most.
    assert (np.array(distances[1][1:]) <= 0.35 * np.array(distances[0][1:])).all()
    # The drawn kernel itself is some 128^(-1/2) = 9 percent away at the start, and f with it.
    assert distances[1][0] <= 0.2


DEEPER, X = rk.Network(2, 3), np.random.default_rng(0).standard_normal((3, 2, 4))
TRACE, SQUARES = parameters(DEEPER, "trace"), parameters(DEEPER, sides=(2, 2))
GIVEN = {"network": DEEPER, "params": parameters(DEEPER), "X": X}
VALID = {
    finite.init: {"key": 0, "network": DEEPER, "n_channels": 2, "width": 3},
    finite.apply: GIVEN,
    finite.ntk: GIVEN,
    finite.mean_gpk: {"key": 0, "network": DEEPER, "X": X, "width": 3, "n_samples": 2},
    finite.train: GIVEN | {"y": np.ones(3), "optimizer": 0.1, "steps": 2},
}


@pytest.mark.parametrize(
    ("function", "change", "message"),
    [
        (finite.init, {"width": 0}, "width is 0, expected an integer of at least 1"),
        (finite.init, {"n_channels": 1.5}, "n_channels is 1.5, expected an integer"),
        (finite.apply, {"network": DEEPER.replace(depth=3)}, "params has inner .*: call fin"),
        (finite.apply, {"params": {}}, "params is dict, expected Parameters"),
        (finite.apply, {"head": "max"}, "head is 'max', expected one of"),
        (finite.apply, {"head": "trace"}, r"n_timepoints=None\), which the head \"trace\" needs"),
        (finite.apply, {"params": TRACE}, "head is 'gap' and X has 4 pixels, expected what params"),
        (finite.apply, {"params": TRACE, "X": X[..., :3], "head": "trace"}, "n_timepoints=4"),
        (finite.apply, {"X": X[:, :1]}, r"X has shape \(3, 1, 4\), expected \(n_cases, 2, n_time"),
        (finite.apply, {"params": SQUARES}, r"expected \(n_cases, 2, height, width\)"),
        (finite.apply, {"X": [X[0], X[1, :, :2]], "head": "equivariant"}, "X is a list of signals"),
        (finite.mean_gpk, {"n_samples": 1}, "n_samples is 1, expected an integer of at least 2"),
        (finite.train, {"optimizer": "adam"}, "optimizer is 'adam', expected a learning rate"),
        (finite.train, {"y": np.ones((3, 2))}, r"y has shape \(3, 2\), expected \(3,\)"),
        (finite.train, {"record": ("weights",)}, "record is 'weights', expected one of"),
        (finite.train, {"every": 0}, "every is 0"),
    ],
)
def test_arguments(function, change, message):
    with pytest.raises(ValueError, match=message):
        function(**VALID[function] | change)


@pytest.mark.slow
@pytest.mark.parametrize("function", [finite.apply, finite.ntk])
def test_signals_beyond_float32_are_beyond_networks_in_float32(function):
    params = parameters(rk.Network(1), dtype="float32")
    with pytest.raises(OverflowError, match="exceed float32, expected smaller signals or param"):
        function(rk.Network(1), params, 1e300 * X)


@pytest.mark.slow
@pytest.mark.parametrize("function", [finite.apply, finite.ntk, finite.mean_gpk, finite.train])
def test_numbers_beyond_the_range(function):
    with pytest.raises((OverflowError, FloatingPointError), match="exceed float|the loss is"):
        function(**VALID[function] | {"X": np.sign(X) * 1e308})


def test_parameters_beyond_the_memory_are_refused():
    with pytest.raises(
        MemoryError, match=r"with 2.9e\+15 parameters takes .* 23,\d{3},\d{3}.\d GB"
    ):
        finite.init(0, rk.Network(4, 3, outer_filter_size=5), 1, 10_000_000)


@pytest.mark.slow
def test_training_that_diverges_says_at_which_step():
    with pytest.raises(FloatingPointError, match=r"the loss is (inf|nan) after step \d+, expected"):
        finite.train(**VALID[finite.train] | {"optimizer": 1e6, "steps": 100})


@pytest.mark.slow
def test_mean_kernels_and_their_errors_are_of_the_networks_that_are_drawn():
    """Of two networks, whose kernels are the mean less and plus the standard error."""
    kernels, width = [], len(X) + 2
    for key in jax.random.split(jax.random.key(5), 2):
        params = finite.init(key, DEEPER, 2, width)
        readouts = [params._replace(readout=unit) for unit in np.eye(width)]
        outputs = np.array([finite.apply(DEEPER, each, X) for each in readouts])
        kernels.append(outputs.T @ outputs)  # the mean over independent weights of the readout
    mean, error = finite.mean_gpk(5, DEEPER, X, width, 2)
    assert_same(mean, (kernels[0] + kernels[1]) / 2)
    assert_same(error, np.abs(kernels[0] - kernels[1]) / 2)


@pytest.mark.slow
def test_signals_of_zeros_have_kernels_of_normalized_networks():
    """Features of 0 stay 0, and so do their slopes."""
    network = DEEPER.replace(norm=True)
    signals, params = X * [[[1.0]], [[0.0]], [[1.0]]], parameters(network)
    assert float(finite.apply(network, params, signals)[1]) == 0
    assert np.isfinite(finite.ntk(network, params, signals)).all()


def test_pools_may_be_integers_of_numpy():
    network, params = rk.Network(1), finite.init(0, rk.Network(1), 1, 3, n_timepoints=4)
    signals = np.arange(8.0).reshape(2, 1, 4)
    found, expected = (finite.apply(network, params, signals, k) for k in (np.int64(2), 2))
    assert np.array_equal(found, expected)
