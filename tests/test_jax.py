"""Kernels as JAX functions: values beside `gram`, derivatives beside 80-digit differences."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings

import rescntk as rk
from rescntk.checks.values import PARTS
from rescntk.network import PER_LAYER_FIELDS
from tests import tolerances
from tests.difficult_signals import SIGNALS, UNEVEN
from tests.helpers import nightly
from tests.oracles import definition
from tests.strategies import EVERY_FIELD, batches, heads, networks

jax = pytest.importorskip("jax")
jnp, rj = jax.numpy, rk.jax

CASES = {
    "no skips": (rk.Network(2, 5, skip=False, outer_filter_size=1, c_w=0.7), "equivariant"),
    "biases": (rk.Network(2, bias=0.3, negative_slope=0.2, readout_scale=0.25), "trace"),
    "small alpha": (rk.Network(2, alpha=0.01, input_scale=1.0, trained=("inner",)), "gap"),
    "windows": (rk.Network(2, dilation=(1, 2), input_filter_size=3, trained=PARTS), "gap"),
    "pooled": (rk.Network(2, alpha=0.01, input_filter_size=3), 3),
    "normalized features": (rk.Network(3, norm=True, bias=0.3, c_v=1.3, alpha=0.5), "trace"),
    "layers of their own": (
        rk.Network(
            3,
            filter_size=(3, 1, 5),
            outer_filter_size=(1, 3, 3),
            skip=(True, False, True),
            alpha=(0.5, 1.0, 1.7),
            c_v=(2.0, 1.3, 0.7),
            c_w=(1.0, 0.7, 1.9),
            bias=(0.3, 0.0, 0.1),
        ),
        "gap",
    ),
    "normalized layers of their own": (
        rk.Network(3, norm=True, skip=(True, False, True), c_w=(1.0, 0.7, 1.9), trained=("outer",)),
        "equivariant",
    ),
}
"""A network with a head."""


def test_cases_have_each_field():
    """Of each field another value than its default; of each number of layers several values."""
    networks = [network for network, _ in CASES.values()]
    for field in fields(rk.Network):
        values = [getattr(network, field.name) for network in networks]
        if field.name in rj.KNOWN_FIELDS - {"depth"}:
            assert any(value != field.default for value in values), field.name
        if field.name in PER_LAYER_FIELDS:
            assert any(isinstance(value, tuple) for value in values), field.name


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def assert_close(network, X, Z, head, dtype="float64"):
    """Compare kernels of both kinds with the engine "array"'s, by √(K(x,x) K(z,z))."""
    computed = jax.jit(lambda X, Z: tuple(rj.gram(network, X, Z, head=head)))(X, Z)
    exact = rk.gram(network, X, Z, head=head, engine="array")
    size = head if head == "equivariant" else "trace"
    sizes = [rk.gram(network, S, head=size, engine="array") for S in (X, Z)]
    for K, right, x, z in zip(computed, exact, *sizes, strict=True):
        assert K.dtype == dtype
        own = np.sqrt(np.outer(x.diagonal(), z.diagonal()))
        assert (np.abs(np.asarray(K) - right) <= tolerances.KERNEL[dtype] * own).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_values(name, rng):
    network, head = CASES[name]
    X = np.concatenate([family(2, 7, rng) for family in SIGNALS + UNEVEN])
    assert_close(network, X, X[::5], head)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_definition(name, rng):
    network, head = CASES[name]
    X = np.concatenate(signals(rng))[[0, 1, 7, 9, 10]]
    exact = definition.pixel_pairs(X, network)[network.depth]
    size = head if head == "equivariant" else "trace"
    for K, P in zip(rj.gram(network, X, head=head), exact, strict=True):
        right, own = (definition.head(P, of) for of in (head, size))
        error = definition.errors(np.asarray(K), right, own.diagonal())
        assert error <= tolerances.KERNEL["float64"]


@pytest.mark.slow
@settings(max_examples=4)
@given(networks(EVERY_FIELD, 2, ("relu",), "freely", "of their own"), batches(("signals",)), heads)
def test_random_networks_are_those_of_the_definition(network, batches, head):
    X = batches[0][:3]
    exact = definition.pixel_pairs(X, network)[network.depth]
    size = head if head == "equivariant" else "trace"
    with jax.enable_x64(True):
        kernels = rj.gram(network, X, head=head)
    for K, P in zip(kernels, exact, strict=True):
        right, own = (definition.head(P, of, X.shape[2:]) for of in (head, size))
        error = definition.errors(np.asarray(K), right, own.diagonal())
        assert error <= tolerances.KERNEL["float64"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "alpha"), [("gap", 1e-2), ("gap", 1e-6), (7, 1e-6), ("gap", 1e-9)]
)
def test_means_of_size_alpha(head, alpha, rng):
    """Relative to the head's own kernel: means are added up in twice the precision."""
    X = rng.standard_normal((2, 1, 8))
    X += alpha - X.mean(axis=2, keepdims=True)
    network = rk.Network(1, alpha=alpha)
    K, exact = (of(network, X, head=head).gpk for of in (rj.gram, rk.gram))
    size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert (np.abs(np.asarray(K) - exact) <= tolerances.KERNEL["float64"] * size).all()


@pytest.mark.slow
@pytest.mark.parametrize("q", [13, 31])
def test_filters_change_nothing_of_one_pixel(q):
    angle = 3e-15
    X = np.array([[[1.0], [0.0]], [[np.cos(angle)], [np.sin(angle)]]])
    network = rk.Network(20, skip=False, trained=("input",))
    options = {"head": "trace", "kinds": ("ntk",), "normalized": True}
    expected = rk.gram(network.replace(filter_size=1), X, engine="array", **options).ntk
    found = rj.gram(network.replace(filter_size=q), X, **options).ntk
    assert np.abs(np.asarray(found) - expected).max() <= tolerances.PROMISED["float64"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_of_tiny_images(dtype, rng):
    X = 1e-15 * rng.standard_normal((3, 2, 4, 5))
    X[1] = -2 * X[0]
    with jax.enable_x64(dtype == "float64"):
        assert_close(rk.Network(2), X, X, "gap", dtype)


@pytest.mark.slow
def test_deep_normalized_kernels(rng):
    X = rng.standard_normal((4, 2, 6))
    X[3] = 0
    kernel = rk.ResCNTK(400, normalized=True)
    K = jax.jit(rj.kernel(kernel))(X)
    assert np.abs(K - kernel(X)).max() <= 8 * tolerances.KERNEL["float64"]
    assert (K[3] == 0).all()


SIZES = {"float32": (-149, -130, -120, 120), "float64": (-1074, -1060, -1015, 1015)}
"""Powers of two: the smallest number, a subnormal one, one beside subnormal ones, a large one."""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SIZES)
def test_signals_of_any_size(dtype, rng):
    """Signals times a power of two have NumPy's kernels of the signals, and slopes over it."""
    kernel, largest = rk.ResCNTK(2, normalized=True), SIZES[dtype][-1]
    slopes = jax.jit(
        jax.vmap(jax.grad(lambda x, Z: rj.kernel(kernel)(x[None], Z).sum()), (0, None))
    )
    for power in SIZES[dtype]:
        powers = power, min(-power, largest)
        with jax.enable_x64(dtype == "float64"), np.errstate(under="ignore"):
            sides = [np.ldexp(rng.standard_normal((4, 2, 6)), p).astype(dtype) for p in powers]
            sides[0][0], sides[0][1, 0, 0] = 0, np.ldexp(1, power)
            X, Z = (np.ldexp(S.astype("float64"), -p) for S, p in zip(sides, powers, strict=True))
            for options in ({}, {"head": "trace", "normalized": True}):
                exact = rk.gram(NETWORK, X, Z, engine="array", **options)
                for K, right in zip(rj.gram(NETWORK, *sides, **options), exact, strict=True):
                    values = np.ldexp(np.asarray(K, "float64"), 0 if options else -sum(powers))
                    assert np.abs(values - right).max() <= tolerances.KERNEL[dtype] * right.max()
            if dtype == "float64" and abs(power) == largest:
                error = np.ldexp(slopes(*sides), power) - slopes(X, Z)
                assert np.abs(error).max() <= tolerances.GRADIENT[dtype]


def signals(rng):
    """Return pairs of signals: others, nearly equal, equal, opposite; some pixels are 0."""
    x, z = rng.standard_normal((2, 2, 3))
    gap = np.array([1.0, 0.0, 1.0])
    pairs = [(x, z), (x, x + 1e-6 * z), (x, x), (x, -0.5 * x), (x * gap, z), (x * gap, x)]
    return [np.stack(side) for side in zip(*pairs, strict=True)]


def exact_kernels(network, head, shifted, z):
    """Return K(x, z) of both kinds, normalized, for each x of `shifted`: numbers of 80 digits."""
    X, n = np.array([*shifted, z], dtype=object), len(shifted)
    left, right = np.r_[: n + 1, :n], np.r_[: n + 1, [n] * n]
    kernels = definition.of_pairs(X, network, left, right)[network.depth]
    for values in (definition.head(P, head) for P in kernels):
        own, K = values[: n + 1], values[n + 1 :]
        yield [K[i] / definition.mp.sqrt(own[i] * own[n]) for i in range(n)]


def differences(network, head, x, z, step):
    """Return the central differences of both kernels by each number of x."""
    mp = definition.mp
    x = np.vectorize(mp.mpf, otypes=[object])(x)
    units = [np.where(np.arange(x.size) == k, 1, 0).reshape(x.shape) for k in range(x.size)]
    shifted = [x + sign * step * unit for unit in units for sign in (1, -1)]
    kernels = exact_kernels(network, head, shifted, z)
    for K in kernels:
        slopes = [(a - b) / (2 * step) for a, b in zip(K[::2], K[1::2], strict=True)]
        yield np.array(slopes, dtype=float).reshape(x.shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "no skips",
        "biases",
        "normalized features",
        *nightly("small alpha", "layers of their own", "normalized layers of their own"),
    ],
)
def test_gradients(name, rng):
    """By both modes; windows are linear. Slopes are the mean of both sides', as at equal signals.

    Normalized features of a pixel jump where it is 0.
    """
    network, head = CASES[name]
    X, Z = (side[: 4 if network.norm else 6] for side in signals(rng))

    def kernels(x, z):
        return jnp.stack(rj.gram(network, x[None], z[None], head=head, normalized=True))[:, 0, 0]

    mode = jax.jacrev if name == "no skips" else jax.jacfwd
    derivative = jax.jit(jax.vmap(mode(kernels)))
    slopes, one = derivative(X, Z), np.zeros_like(X)
    one[:, 0, 2] = 1.0
    for zero in (0 * X, one):  # signals and pixels of zeros
        assert np.isfinite(derivative(zero, Z)).all()
    with definition.mp.workdps(80):
        step = definition.mp.mpf(10) ** -16
        exact = [list(differences(network, head, x, z, step)) for x, z in zip(X, Z, strict=True)]
    errors = np.abs(slopes - np.array(exact)).max(axis=(2, 3))
    bars = np.full(errors.shape, tolerances.GRADIENT["float64"])
    bars[1, 1] = tolerances.GRADIENT_NEAR_EQUAL  # the tangent kernel of nearly equal signals
    assert (errors <= bars).all()


@pytest.fixture(scope="module")
def of_block():
    """Return by block, None or 4, the bytes of a call, its slopes and kernels.

    The last blocks are not full.
    """
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((13, 2, 6)), rng.standard_normal((9, 2, 6))

    def of(block):
        def loss(X, Z):
            kernels = rj.gram(rk.Network(1), X, Z, normalized=True, block=block)
            return sum((K**2).sum() for K in kernels), kernels

        slopes = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True)).lower(X, Z).compile()
        return slopes.memory_analysis().temp_size_in_bytes, slopes(X, Z)

    with jax.enable_x64(True):
        return {block: of(block) for block in (None, 4)}


@pytest.mark.slow
def test_blocks_need_a_part_of_the_memory(of_block):
    assert of_block[4][0] <= of_block[None][0] / 4


@pytest.mark.slow
def test_blocks_keep_values_and_slopes(of_block):
    (slopes, kernels), (expected, exact) = of_block[4][1], of_block[None][1]
    for found, right in zip((*slopes, *kernels), (*expected, *exact), strict=True):
        bar = tolerances.GRADIENT["float64"] * np.abs(right).max()
        assert np.abs(found - right).max() <= bar


@pytest.mark.slow
def test_blocks_of_one_side(rng):
    X, kernel = rng.standard_normal((13, 2, 6)), rk.ResCNTK(1, normalized=True)
    assert np.abs(rj.kernel(kernel, block=5)(X) - kernel(X)).max() <= tolerances.KERNEL["float64"]


X, NETWORK = np.ones((2, 3, 5)), rk.Network(3)
TOO_DEEP = "leaves float64 at depth 2000.*normalized=True"
REFUSALS = [
    (lambda: rj.kernel(rk.ResCNTK(3, activation="erf")), "activation 'erf', expected 'relu'"),
    (lambda: rj.gram(NETWORK, [X[0], X[1, :, :2]]), "X is a list, expected one array"),
    (lambda: rj.gram(NETWORK, X[0]), r"X has shape \(3, 5\), expected \(n_cases"),
    (lambda: rj.gram(NETWORK, X[:0]), r"X has shape \(0, 3, 5\), expected \(n_cases"),
    (lambda: rj.gram(NETWORK, X[None, None]), r"X has shape \(1, 1, 2, 3, 5\), expected \(n_cases"),
    (lambda: rj.gram(NETWORK, 1j * X), "X has dtype complex128, expected real numbers"),
    (lambda: rj.gram(NETWORK, X, X[:, :2]), "expected the same channels, pixels"),
    (lambda: rj.gram(NETWORK, X, np.float32(X)), "and dtype"),
    (lambda: rj.gram(NETWORK, X, block=0), "block is 0, expected an integer of at least 1"),
    (lambda: rj.kernel(rk.ResCNTK(2000)), TOO_DEEP),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS)
def test_refusals(call, message):
    with pytest.raises(OverflowError if message == TOO_DEEP else ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("skip", "depth", "is_taken"),
    [(True, 1022, True), (True, 1023, False), (False, 1021, True), (False, 1022, False)],
)
def test_layers_multiply_kernels_by_normal_numbers(skip, depth, is_taken):
    """By 2 a layer, or by ½: the least normal number of float64 is 2^-1022, the largest 2^1023."""
    kernel = rk.ResCGPK(depth, 1, c_v=2.0 if skip else 1.0).replace(skip=skip)
    if is_taken:
        rj.kernel(kernel)
    else:
        with pytest.raises(OverflowError, match=f"leaves float64 at depth {depth}"):
            rj.kernel(kernel)


@pytest.mark.slow
def test_integers_are_signals_of_the_default_precision():
    found = rj.gram(rk.Network(1), np.arange(12).reshape(2, 2, 3), kinds="gpk").gpk
    expected = rk.gram(rk.Network(1), np.arange(12.0).reshape(2, 2, 3), kinds="gpk").gpk
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() <= tolerances.KERNEL["float64"] * expected.max()
