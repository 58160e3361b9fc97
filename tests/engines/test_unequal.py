"""Signals of different lengths: right, as arrays where these are, and what is refused."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.derivative import alpha_derivative
from rescntk.validation import DTYPES
from tests import tolerances
from tests.engine_names import CPU, skip_unless_taken, takes
from tests.oracles import definition
from tests.strategies import ALL_FIELDS, kinds, networks, signal_lists

pytestmark = pytest.mark.slow

DILATED = rk.Network(3, 3, dilation=(1, 2, 4))
NETWORKS = {
    "default": rk.Network(3),
    "wraps several times": rk.Network(2, 9, outer_filter_size=7),
    "dilated": rk.Network(3, 3, alpha=0.5, dilation=5),
    "growing dilations": rk.Network(3, 5, outer_filter_size=3, dilation=(1, 2, 4)),
    "huge dilations": rk.Network(3, 3, dilation=(10**9, 7, 10**12 + 1)),
    "no skip": rk.Network(3, 3, skip=False, input_filter_size=3, c_w=0.7),
    "frozen": rk.Network(2, 5, trained=("inner",), alpha=0.3),
    "zero mean": rk.Network(3, alpha=1e-3),
    "biases": rk.Network(
        2, 5, outer_filter_size=3, alpha=0.6, bias=0.7, negative_slope=0.2, trained=("inner",)
    ),
    "erf": rk.Network(2, 3, activation="erf", trained=("input", "inner", "outer", "readout")),
}
LENGTHS = [(5, 7), (6, 4), (1, 4), (5, 5)]


def assert_right(network, x, z):
    """Compare every engine with the definition, in both orders of the signals."""
    expected = definition.gap_of_lengths(network, x, z)
    engines = [engine for engine in CPU if takes(engine, network)]
    for engine, (dtype, bar) in product(engines, tolerances.KERNEL.items()):
        options = {"engine": engine, "dtype": dtype}
        computed = rk.gram(network, [x], [z], **options)
        turned = rk.gram(network, [z], [x], **options)
        for K, L, (exact, own, size) in zip(computed, turned, expected, strict=True):
            yardstick = size if network.activation == "erf" else own
            for value in (K, L):
                error = abs(definition.mp.mpf(float(value[0, 0])) - exact)
                assert error <= bar * yardstick
            assert engine == "reference" or K == L


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_against_the_definition(name, lengths, rng):
    x, z = (rng.standard_normal((2, d)) for d in lengths)
    if name == "zero mean":  # F⁰ averages to 0, and the digits of the branch stay
        x, z = (signal - signal.mean(axis=1, keepdims=True) for signal in (x, z))
    assert_right(NETWORKS[name], x, z)


def test_dilations_count_modulo_the_least_common_multiple(rng):
    """The same pixels in the same order: bits stay, beside signals of other lengths too."""
    X = [rng.standard_normal((2, d)) for d in (4, 6, 12)]
    far = rk.Network(3, 3, dilation=(12 * 10**12 + 5, 1, 12 * 10**9 + 7))
    for engine in CPU:
        near = rk.gram(far.replace(dilation=(5, 1, 7)), X, engine=engine)
        alone = rk.gram(far, X[:1], X[1:2], engine=engine)
        for K, L, k in zip(rk.gram(far, X, engine=engine), near, alone, strict=True):
            assert (K == L).all() and K[0, 1] == k[0, 0]


@pytest.mark.parametrize("lengths", [(7, 9), (10, 8)], ids=str)
@pytest.mark.parametrize("network", [NETWORKS["default"], DILATED], ids=repr)
def test_near_parallel_signals_of_different_lengths(network, lengths, rng):
    """Windows of exponentials are nearly parallel, and differ in amplitude."""
    direction = rng.standard_normal((2, 1))
    x, z = (
        1.5 ** np.arange(d) * direction * (1 + 1e-7 * rng.standard_normal((2, d))) for d in lengths
    )
    assert_right(network, x, z)


relu_networks = networks(ALL_FIELDS, max_depth=3, activations=("relu",), dilated="freely")


@given(relu_networks, signal_lists(max_cases=2, max_length=4))
def test_any_network_on_any_signals(network, X):
    assert_right(network, X[0], X[-1])


@pytest.mark.parametrize("engine", CPU)
@given(
    networks(ALL_FIELDS, max_depth=3, dilated="freely"),
    signal_lists(max_cases=5),
    kinds,
    st.sampled_from(DTYPES),
)
def test_rules(engine, network, X, kind, dtype):
    """Container, batch and order do not change a bit; sides and shifts change roundings."""
    skip_unless_taken(engine, network)
    kernel, options = rk.Kernel(network, kind), {"dtype": dtype, "engine": engine}
    K = kernel(X, **options)
    assert (K == K.T).all()
    eigenvalues = np.linalg.eigvalsh(K.astype(np.float64))
    slack = tolerances.DEFINITE * tolerances.EPS[dtype] * len(K)
    assert network.activation == "erf" or eigenvalues[0] >= -slack * max(eigenvalues[-1], 0.0)
    assert (kernel.diag(X, **options) == K.diagonal()).all()
    again = kernel(X, [x.copy() for x in X], **options)
    assert (np.triu(again) == np.triu(K)).all()
    assert engine == "reference" or (again == K).all()
    assert (kernel.paired(X, X[::-1], **options) == again[:, ::-1].diagonal()).all()
    order = np.arange(len(X))[::-1]
    assert (kernel([X[k] for k in order], X, **options) == again[order]).all()
    for i, x in enumerate(X):
        same = [k for k, z in enumerate(X) if z.shape == x.shape]
        of_array = kernel(np.stack([X[k] for k in same]), **options)
        size = np.sqrt(np.outer(of_array.diagonal(), of_array.diagonal()))
        if network.activation == "relu":
            close = np.abs(of_array - K[np.ix_(same, same)]) <= tolerances.KERNEL[dtype] * size
            assert close.all()
        assert (kernel([x], X, **options)[0] == again[i]).all()
    if network.activation == "relu":
        shifted = kernel([np.roll(x, 3 * k + 1, axis=1) for k, x in enumerate(X)], X, **options)
        size = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
        assert (np.abs(shifted - K) <= tolerances.KERNEL[dtype] * size).all()


def test_depths_normalization_and_derivative(rng):
    X = [rng.standard_normal((2, d)) for d in (5, 3, 8, 5)]
    for both, alone in zip(
        rk.gram(DILATED, X, depths=(3, 1)), rk.gram(DILATED.replace(depth=1), X), strict=True
    ):
        assert (both[1] == alone).all()
    kernel = rk.Kernel(DILATED, "ntk", normalized=True)
    K = kernel(X)
    assert (K.diagonal() == 1).all() and (kernel.diag(X) == 1).all()
    size = np.sqrt(rk.Kernel(DILATED, "ntk").diag(X))
    expected = rk.Kernel(DILATED, "ntk")(X) / np.outer(size, size)
    np.testing.assert_allclose(K, expected, atol=tolerances.ROUTES)
    K, slope = alpha_derivative(kernel, X, X[:2])
    one, other = (kernel.replace(alpha=1.0 + s)(X, X[:2]) for s in (1e-4, -1e-4))
    np.testing.assert_allclose(slope, (one - other) / 2e-4, atol=1e-6)


X, Y = np.ones((2, 5)), np.ones((2, 7))


@pytest.mark.parametrize("head", ["trace", "equivariant"])
def test_other_heads_say_why_not(head):
    with pytest.raises(
        ValueError,
        match=f"head is '{head}', which takes signals of one length, "
        "and X has signals of 2 channels and 5 to 7 timepoints",
    ):
        rk.Kernel(rk.Network(2), "gpk", head)([X, Y])
    with pytest.raises(ValueError, match="Z has shape .* expected 5 timepoints"):
        rk.Kernel(rk.Network(2), "gpk", head)([X, X], [Y])
    assert rk.Kernel(rk.Network(2), "gpk", head)([X, X]).shape == (2, 2)
    with pytest.raises(ValueError, match="pixel_pairs takes signals of one length"):
        rk.pixel_pairs(rk.Network(2), [X, Y])
    assert rk.pixel_pairs(rk.Network(2), [X, X]).shape == (2, 2, 5, 5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "X is empty, expected at least one signal"),
        ((), "X is empty"),
        (
            [X, np.ones(7)],
            r"X\[1\] has shape \(7,\), expected \(n_channels, n_timepoints\); a "
            r"signal of one channel is X\[1\]\[None\]",
        ),
        ([X, np.ones((3, 7))], r"X\[1\] has 3 channels, expected 2 as in X\[0\]"),
        ([X, Y * np.nan], r"X\[1\] of shape \(2, 7\) contains NaN"),
        ([X, np.ones((2, 0))], r"X\[1\] has shape \(2, 0\)"),
        ([X, Y * 1j], r"X\[1\] has dtype complex128"),
        ([X, Y[None]], r"X\[1\] has shape \(1, 2, 7\)"),
        ([X, np.ma.masked_array(Y)], "X is a masked array"),
    ],
)
def test_bad_lists(given, message):
    with pytest.raises(ValueError, match=message):
        rk.ResCGPK(2)(given)
    with pytest.raises(ValueError, match=message.replace("X", "Z")):
        rk.ResCGPK(2)([X, Y], given)
    with pytest.raises(ValueError, match=message):
        rk.ResCGPK(2).diag(given)


def test_arrays_of_different_lengths_are_taken_as_lists_alone():
    one, other = np.ones((2, 1, 5)), np.ones((3, 1, 7))
    with pytest.raises(ValueError, match="expected 5 timepoints as in X .*list"):
        rk.ResCGPK(2)(one, other)
    assert rk.ResCGPK(2)(list(one), other).shape == (2, 3)
    assert rk.ResCGPK(2)(one, list(other)).shape == (2, 3)


def test_inputs_stay_as_they_are_and_any_dtype_is_taken():
    given = [np.arange(10).reshape(2, 5), Y.astype(np.float32)[:, ::-1], np.asfortranarray(X)]
    before = [x.copy() for x in given]
    K = rk.ResCNTK(2)(given)
    assert K.dtype == np.float64
    assert (K == rk.ResCNTK(2)([x.astype(float) for x in given])).all()
    assert all((x == y).all() for x, y in zip(given, before, strict=True))
