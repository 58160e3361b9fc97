"""Signals of different lengths: right, bitwise rules, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.derivative import alpha_derivative
from rescntk.engines import unequal
from rescntk.vocabulary import KINDS
from tests import tolerances
from tests.difficult_signals import uneven
from tests.oracles import torus
from tests.strategies import kinds, networks, signal_lists

DILATED = rk.Network(3, 3, dilation=(1, 2, 4))
NETWORKS = {
    "default": rk.Network(3),
    "wraps several times": rk.Network(2, 9, outer_filter_size=7),
    "dilated": rk.Network(3, 3, alpha=0.5, dilation=5),
    "growing dilations": rk.Network(3, 5, outer_filter_size=3, dilation=(1, 2, 4)),
    "no skip": rk.Network(3, 3, skip=False, input_filter_size=3, c_w=0.7),
    "frozen": rk.Network(2, 3, trained=("inner",), alpha=0.3),
    "erf": rk.Network(2, 3, activation="erf", trained=("input", "inner", "outer", "readout")),
}
LENGTHS = [(5, 7), (4, 6), (3, 6), (6, 3), (1, 4), (4, 1), (5, 5), (1, 1)]


def assert_right(network, x, z):
    for dtype, bar in tolerances.KERNEL.items():
        computed = rk.gram(network, [x], [z], dtype=dtype)
        for K, (exact, own, size) in zip(computed, torus.gap(network, x, z), strict=True):
            yardstick = size if network.activation == "erf" else own
            error = abs(torus.mp.mpf(float(K[0, 0])) - exact)
            assert error <= bar * yardstick


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_against_the_definition(name, lengths, rng):
    x, z = (rng.standard_normal((2, d)) for d in lengths)
    assert_right(NETWORKS[name], x, z)


@pytest.mark.parametrize("lengths", [(5, 7), (6, 4)], ids=str)
@pytest.mark.parametrize("network", [NETWORKS["default"], DILATED], ids=repr)
def test_near_parallel_signals_of_different_lengths(network, lengths, rng):
    """Doubtful pairs are computed again in deficits, across seams too."""
    longest = max(lengths)
    X = uneven(2, longest, rng, closeness=1e-7, cases=2)
    profile = X[0][:, :1]  # every pixel nearly parallel to every other
    x, z = (
        profile * np.exp(rng.standard_normal(d)) * (1 + 1e-7 * rng.standard_normal((2, d)))
        for d in lengths
    )
    assert_right(network, x, z)


def test_signals_of_zero_mean_keep_the_digits_of_the_branch(rng):
    x, z = (rng.standard_normal((2, d)) for d in (5, 7))
    x, z = (signal - signal.mean(axis=1, keepdims=True) for signal in (x, z))
    assert_right(rk.Network(3, alpha=1e-3), x, z)


@settings(max_examples=40)
@given(networks(max_depth=3), signal_lists(max_cases=2, max_length=4))
def test_any_network_on_any_signals(network, X):
    if network.activation == "erf":
        network = network.replace(c_v=1.0, c_w=0.7)
        X = [x / 4 for x in X]
    assert_right(network, X[0], X[-1])


@settings(max_examples=40)
@given(networks(max_depth=4), signal_lists(), kinds, st.sampled_from(["float64", "float32"]))
def test_bitwise_rules(network, X, kind, dtype):
    """Container, batch, order, sides, shifts: none of them changes a bit."""
    kernel = rk.Kernel(network, kind)
    options = {"dtype": dtype, "engine": "reference"}
    K = kernel(X, **options)
    assert (K == K.T).all()
    assert (kernel(X, list(X), **options) == K).all()
    assert (kernel(tuple(X), tuple(x.copy() for x in X), **options) == K).all()
    assert (kernel.diag(X, **options) == K.diagonal()).all()
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


@given(networks(max_depth=3), signal_lists(max_cases=6))
def test_semidefinite_over_mixed_lengths(network, X):
    for K in rk.gram(network, X):
        eigenvalues = np.linalg.eigvalsh(K)
        slack = tolerances.DEFINITE * tolerances.EPS["float64"] * len(K)
        assert eigenvalues[0] >= -slack * max(eigenvalues[-1], 0.0)


@pytest.mark.parametrize("cut", [(1, 1), (40, 3_000), (300, 10**9), (10**6, 10**9)])
def test_results_do_not_depend_on_how_the_work_is_cut(cut, rng, monkeypatch):
    X = [rng.standard_normal((2, d)) for d in (5, 3, 7, 5, 2, 7, 7, 1)]
    X[3] = X[0] * (1 + 1e-9 * rng.standard_normal(X[0].shape)) * np.exp(np.arange(5.0))
    Z = [rng.standard_normal((2, d)) for d in (6, 7, 2)]
    expected = [*rk.gram(DILATED, X), *rk.gram(DILATED, X, Z, normalized=True)]
    for name, value in zip(("_TILE_ENTRIES", "_TABLE_BYTES"), cut, strict=True):
        monkeypatch.setattr(f"rescntk.engines.reference.{name}", value)
    for threads in (1, 3):
        computed = [
            *rk.gram(DILATED, X, threads=threads),
            *rk.gram(DILATED, X, Z, normalized=True, threads=threads),
        ]
        for A, B in zip(expected, computed, strict=True):
            assert (A == B).all()


def test_depths_normalization_and_derivative(rng):
    X = [rng.standard_normal((2, d)) for d in (5, 3, 8, 5)]
    depths = (3, 1)
    both = rk.gram(DILATED, X, depths=depths)
    for t, depth in enumerate(depths):
        alone = rk.gram(DILATED.replace(depth=depth), X)
        for kind in KINDS:
            assert (getattr(both, kind)[t] == getattr(alone, kind)).all()
    kernel = rk.Kernel(DILATED, "ntk", normalized=True)
    K = kernel(X)
    assert (K.diagonal() == 1).all() and (kernel.diag(X) == 1).all()
    size = np.sqrt(rk.Kernel(DILATED, "ntk").diag(X))
    np.testing.assert_allclose(
        K, rk.Kernel(DILATED, "ntk")(X) / np.outer(size, size), atol=tolerances.ROUTES
    )
    K, slope = alpha_derivative(kernel, X, X[:2])
    one, other = (kernel.replace(alpha=1.0 + s)(X, X[:2]) for s in (1e-4, -1e-4))
    np.testing.assert_allclose(slope, (one - other) / 2e-4, atol=1e-6)


def test_half_of_a_symmetric_gram_is_computed(rng, monkeypatch):
    X = [rng.standard_normal((1, 2 + k // 2)) for k in range(40)]
    done = []
    fill = unequal.UnequalGram.fill_tile

    def counting(self, tile):
        done.append(fill(self, tile))
        return done[-1]

    monkeypatch.setattr(unequal.UnequalGram, "fill_tile", counting)
    rk.ResCGPK(2)(X, engine="reference")
    assert sum(done) <= 40 * 41 / 2 + 40


def test_few_calls_for_many_lengths(rng, monkeypatch):
    """Signals of different lengths share tiles."""
    X = [rng.standard_normal((1, 8 + k)) for k in range(60)]
    tiles = []
    fill = unequal.UnequalGram.fill_tile
    monkeypatch.setattr(
        unequal.UnequalGram, "fill_tile", lambda self, tile: tiles.append(1) or fill(self, tile)
    )
    rk.ResCGPK(2)(X, engine="reference")
    entries = sum(len(x[0]) * len(z[0]) for i, x in enumerate(X) for z in X[i:])
    assert len(tiles) <= 60 + entries / 48_000


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


def test_pixel_pairs_say_why_not():
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
        ([X, np.ma.masked_array(Y)], r"X\[1\] is a masked array"),
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
