"""Signals of different lengths: right, bitwise rules, and what is refused."""

from importlib import import_module
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.derivative import alpha_derivative
from rescntk.engines import reference
from rescntk.validation import DTYPES, KINDS
from tests import tolerances
from tests.difficult_signals import SIGNALS, UNEVEN
from tests.engine_names import CPU, needs_numba, takes
from tests.engines.bodies.deficits import all_pairs_in_deficits
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
    """Compare every engine with the definition, and both orders of the signals to the bit."""
    expected = definition.gap_of_lengths(network, x, z)
    engines = [engine for engine in CPU if takes(engine, network)]
    for engine, (dtype, bar) in product(engines, tolerances.KERNEL.items()):
        options = {"engine": engine, "dtype": dtype}
        computed = rk.gram(network, [x], [z], **options)
        turned = rk.gram(network, [z], [x], **options)
        for K, L, (exact, own, size) in zip(computed, turned, expected, strict=True):
            yardstick = size if network.activation == "erf" else own
            error = abs(definition.mp.mpf(float(K[0, 0])) - exact)
            assert error <= bar * yardstick
            assert K == L


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


def count_calls(monkeypatch, owner, name):
    """Return a list that grows with each result of a method."""
    results, method = [], getattr(owner, name)

    def counting(*arguments):
        results.append(method(*arguments))
        return results[-1]

    monkeypatch.setattr(owner, name, counting)
    return results


@pytest.mark.parametrize("lengths", [(7, 9), (10, 8)], ids=str)
@pytest.mark.parametrize("network", [NETWORKS["default"], DILATED], ids=repr)
def test_near_parallel_signals_of_different_lengths(network, lengths, rng, monkeypatch):
    """Doubtful pairs are computed again in deficits, across seams too."""
    direction = rng.standard_normal((2, 1))
    again = [count_calls(monkeypatch, reference.ReferenceGram, "repeat")]
    if "numba" in CPU:
        again.append(count_calls(monkeypatch, numba_run(), "in_deficits"))
    # Windows of exponentials are nearly parallel, and differ in amplitude.
    x, z = (
        1.5 ** np.arange(d) * direction * (1 + 1e-7 * rng.standard_normal((2, d))) for d in lengths
    )
    assert_right(network, x, z)
    assert all(again)
    # Doubtful and other pairs of several lengths in one Gram: a pair's bits stay.
    X = [x, z, rng.standard_normal((2, 4)), 0.3 * x[:, 1:], 2 * z, 7 * x]
    for engine in CPU:
        options = {"engine": engine}
        whole = rk.gram(network, X, **options)
        for K, alone in zip(whole, rk.gram(network, [x], [z], **options), strict=True):
            assert (K == K.T).all()
            assert K[0, 1] == alone[0, 0]
        for K, alone in zip(rk.gram(network, X[3:], X[:4], **options), whole, strict=True):
            assert (K == alone[3:, :4]).all()


def numba_run():
    """Return the class of a request on the engine "numba"."""
    return import_module("rescntk.engines.cpu.run").NumbaRun


@needs_numba
@given(
    networks(ALL_FIELDS, activations=("relu",), max_depth=3, dilated="freely"),
    st.integers(0, 8).map(lambda k: 2 * k + 1),
    signal_lists(max_length=9),
)
def test_all_pairs_in_deficits(network, outer, X):
    """The compiled recursion of deficits, on any pairs, against the reference engine."""
    network = network.replace(outer_filter_size=outer)
    exact = rk.gram(network, X, engine="reference")
    with all_pairs_in_deficits():
        computed = rk.gram(network, X, engine="numba")
        turned = rk.gram(network, X[::-1], [np.roll(x, 2, axis=1) for x in X], engine="numba")
    for K, shifted, P in zip(computed, turned, exact, strict=True):
        size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
        assert (np.abs(K - P) <= tolerances.KERNEL["float64"] * size).all()
        assert (shifted == K[::-1]).all()


relu_networks = networks(ALL_FIELDS, max_depth=3, activations=("relu",), dilated="freely")


@given(relu_networks, signal_lists(max_cases=2, max_length=4))
def test_any_network_on_any_signals(network, X):
    assert_right(network, X[0], X[-1])


@given(relu_networks, signal_lists(max_cases=6), kinds, st.sampled_from(DTYPES))
def test_bitwise_rules(network, X, kind, dtype):
    for engine in CPU:
        follows_the_bitwise_rules(engine, network, X, kind, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_bitwise_rules_of_erf(kind, rng):
    X = [rng.standard_normal((2, d)) for d in (5, 3, 7, 5)]
    erf = NETWORKS["erf"].replace(dilation=2)
    follows_the_bitwise_rules("reference", erf, X, kind, "float64")


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_bitwise_rules_of_many_channels_and_windows(dtype, rng):
    """Squared distances of several left signals together, and windows as moving sums."""
    for channels, window in ((9, 1), (33, 1), (20, 3)):
        X = [rng.standard_normal((channels, d)) for d in (40, 5, 37, 12, 5, 36)]
        network = rk.Network(2, 3, input_filter_size=window)
        follows_the_bitwise_rules("numba", network, X, "ntk", dtype)
        ours, theirs = (rk.gram(network, X, engine=e, dtype=dtype) for e in CPU)
        for K, L in zip(ours, theirs, strict=True):
            size = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
            assert (np.abs(K - L) <= tolerances.KERNEL[dtype] * size).all()


def follows_the_bitwise_rules(engine, network, X, kind, dtype):
    """Container, batch, order, sides, shifts: none of them changes a bit; and semidefinite."""
    kernel = rk.Kernel(network, kind)
    options = {"dtype": dtype, "engine": engine}
    K = kernel(X, **options)
    assert (K == K.T).all()
    eigenvalues = np.linalg.eigvalsh(K.astype(np.float64))
    slack = tolerances.DEFINITE * tolerances.EPS[dtype] * len(K)
    assert eigenvalues[0] >= -slack * max(eigenvalues[-1], 0.0)
    assert (kernel(X, list(X), **options) == K).all()
    assert (kernel(tuple(X), tuple(x.copy() for x in X), **options) == K).all()
    assert (kernel.diag(X, **options) == K.diagonal()).all()
    assert (kernel.paired(X, X[::-1], **options) == K[:, ::-1].diagonal()).all()
    shifted = [np.roll(x, 3 * k + 1, axis=1) for k, x in enumerate(X)]
    assert (kernel(shifted, X, **options) == K).all()
    order = np.arange(len(X))[::-1]
    assert (kernel([X[k] for k in order], X, **options) == K[order]).all()
    for i, x in enumerate(X):
        same = [k for k, z in enumerate(X) if z.shape == x.shape]
        of_array = kernel(np.stack([X[k] for k in same]), **options)
        assert (of_array == K[np.ix_(same, same)]).all()
        assert (kernel(x[None], X, **options)[0] == K[i]).all()
        assert (kernel(X, x[None], **options)[:, 0] == K[i]).all()


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [*SIGNALS, *UNEVEN])
def test_bitwise_rules_of_pairs_that_lose_digits(make, dtype, rng):
    """Deficits repeat rows of two signals of one length, and whole pairs of other signals."""
    X = make(1, 19, rng)
    follows_the_bitwise_rules("numba", rk.Network(3), [*X, X[0][:, 1:], X[1][:, :4]], "ntk", dtype)


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_parallel_windows_have_the_same_bits_beside_any_pairs(dtype, rng):
    """The pairs beside a pair do not decide how many digits its root masses have."""
    x = 1.02 ** np.arange(103) * rng.standard_normal((2, 1))
    z, other = 0.7 * x, rng.standard_normal((2, 103))
    for depth in (11, 30, 36):

        def kernels(*Z, depth=depth):
            options = {"engine": "numba", "dtype": dtype}
            return np.array(rk.gram(rk.Network(depth), x[None], np.array(Z), **options))[:, 0]

        for Z, place in (((z, other), 0), ((other, z), 1), ((other, z, other), 1)):
            assert (kernels(*Z)[:, place] == kernels(z)[:, 0]).all()


@needs_numba
def test_sums_of_three_grids_among_sums_of_two(rng):
    """More than 2^16 pixel pairs take a third grid, beside pairs that take two."""
    X = [rng.standard_normal((1, d)) for d in (300, 215, 4)]
    K = rk.ResCNTK(2)(X, engine="numba")
    for i, x in enumerate(X):
        for k, z in enumerate(X):
            assert rk.ResCNTK(2)([x], [z], engine="numba")[0, 0] == K[i, k]
    size = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    exact = rk.ResCNTK(2)(X, engine="reference")
    assert (np.abs(K - exact) <= tolerances.KERNEL["float64"] * size).all()


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


def test_few_calls_for_many_lengths(rng, monkeypatch):
    """Signals of different lengths share tiles, and tasks of compiled code; half of the pairs."""
    X = [rng.standard_normal((1, 8 + k)) for k in range(60)]
    tiles = count_calls(monkeypatch, reference.ReferenceGram, "fill_tile")
    rk.ResCGPK(2)(X, engine="reference")
    entries = sum(len(x[0]) * len(z[0]) for i, x in enumerate(X) for z in X[i:])
    assert len(tiles) <= 60 + entries / 48_000
    assert sum(tiles) <= 60 * 61 / 2 + 60
    if "numba" in CPU:
        tasks = count_calls(monkeypatch, numba_run(), "fill")
        rk.ResCGPK(2)(X, engine="numba", threads=2)
        assert len(tasks) <= 60


@needs_numba
def test_progress_counts_every_pair(capsys, rng):
    X = [rng.standard_normal((1, 1 + k)) for k in range(20)]
    rk.ResCGPK(2)(X, progress=True, engine="numba")
    assert "210/210" in capsys.readouterr().err


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
