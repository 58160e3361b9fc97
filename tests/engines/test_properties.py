"""Properties of every network on all signals, on every engine that can serve here, and of JAX."""

from functools import partial, wraps

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.checks.values import DTYPES
from tests import tolerances
from tests.engines.claims import (
    CLAIMS,
    applies,
    assert_holds,
    assert_semidefinite,
    copied,
    relative,
    take,
)
from tests.helpers import (
    ENGINES,
    HEADS,
    IMPLEMENTATIONS,
    gram_of,
    kernel_of,
    pairs_meet,
    skip_unless_supported,
)
from tests.oracles import definition
from tests.strategies import EVERY_FIELD, batches, heads, kinds, networks

pytestmark = pytest.mark.slow
engines, implementations = (
    pytest.mark.parametrize("engine", each) for each in (ENGINES, IMPLEMENTATIONS)
)
any_network = networks(EVERY_FIELD, dilated="freely", layers="of their own")


def fewer_of_jax(test):
    """Compare a sixteenth of the examples for "jax", which compiles each layer for a second.

    These have two layers, and signals of several pixels, none of them zero: hypothesis begins with
    the simplest examples, of which most claims are true.
    """
    done = []

    @wraps(test)
    def few(engine, *arguments, **named):
        if engine == "jax":
            if len(done) >= settings.default.max_examples / 16:
                return
            X = named["batches"][0]
            assume(named["network"].depth == 2)
            assume(all(x[0].size > 1 and np.any(x) for x in X))
        test(engine, *arguments, **named)
        done.extend(["example"] * (engine == "jax"))

    return few


def served(engine, network, X, head):
    """Leave out what the engine does not support, and return the head, which is "gap" for lists."""
    skip_unless_supported(engine, network)
    assume(not isinstance(X, list) or engine in ("array", "cpu"))
    return "gap" if isinstance(X, list) else head


@engines
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
@settings(max_examples=10)
@given(any_network, batches(), heads, kinds, st.booleans(), st.sampled_from(DTYPES))
def test_a_pair_has_bits_of_its_own(engine, claim, network, batches, head, kind, normalized, dtype):
    head = served(engine, network, batches[0], head)
    assume(applies(claim, *batches))
    assert_holds(claim, engine, rk.Kernel(network, kind, head, normalized), dtype, *batches)


@engines
@given(any_network, batches(), kinds)
def test_signals_are_left_as_they_are(engine, network, batches, kind):
    before = [copied(batch) for batch in batches]
    rk.Kernel(network, kind, served(engine, network, batches[0], "gap"))(*batches, engine=engine)
    for batch, old in zip(batches, before, strict=True):
        assert all((x == y).all() for x, y in zip(batch, old, strict=True))


@implementations
@settings(max_examples=24)
@given(
    any_network,
    batches(),
    heads,
    kinds,
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-150, 0.3, 1.0, 7.7, 1e100]),
)
@fewer_of_jax
def test_kernels_do_not_see_shifts_or_orthogonal_mixing_of_channels(
    engine, network, batches, head, kind, seed, factor
):
    head, (X, Z) = served(engine, network, batches[0], head), batches
    kernel, rng = rk.Kernel(network, kind, head), np.random.default_rng(seed)
    axes = tuple(range(1, X[0].ndim))
    mixer = np.linalg.qr(rng.standard_normal((len(X[0]),) * 2))[0]
    common = rng.integers(-9, 9, len(axes))
    homogeneous = network.homogeneous and not (network.has_bias or network.norm)
    factors = (factor, rng.choice([1e-100, 0.01, 3.0])) if homogeneous else (1.0, 1.0)

    def changed(x, factor):
        alone = {"gap": rng.integers(-9, 9, len(axes)), "equivariant": 0 * common}
        move = alone.get(head, common)
        return factor * np.roll(np.einsum("ab,b...->a...", mixer, x), move, axes)

    moved = []
    for batch, factor in zip((X, Z), factors, strict=True):
        new = [changed(x, factor) for x in batch]
        moved.append(new if isinstance(batch, list) else np.array(new))
    # Mixing rounds the signals themselves, which moves κ0 by about eps, also at parallel pixels.
    K = kernel_of(engine, kernel, X, Z)
    found = kernel_of(engine, kernel, *moved) / factors[0] / factors[1]
    assert relative(found, K, *sizes(kernel, X, Z)) <= tolerances.ROUTES


def sizes(kernel, X, Z):
    """Return K(x, x) and K(z, z), to which errors are relative."""
    if not kernel.network.homogeneous:  # an odd function's terms may cancel in GAP
        assume(not isinstance(X, list))
        kernel = kernel.replace(head="trace")
    return kernel.diag(X), kernel.diag(Z)


@engines
@given(any_network, batches(("lists",)), kinds)
def test_lists_of_one_length_are_arrays(engine, network, batches, kind):
    kernel, X = rk.Kernel(network, kind, served(engine, network, batches[0], "gap")), batches[0]
    assume(network.homogeneous)  # an odd function's terms may cancel in GAP
    same = [k for k, x in enumerate(X) if x.shape == X[0].shape]
    one, many = kernel(np.stack(take(X, same)), engine=engine), kernel(X, engine=engine)
    own = kernel.diag(X)[same]
    assert relative(one, many[np.ix_(same, same)], own, own) <= tolerances.ROUTES


@engines
@given(any_network, batches(("images",)), heads, kinds)
def test_images_may_be_turned(engine, network, batches, head, kind):
    kernel, (X, Z) = rk.Kernel(network, kind, served(engine, network, batches[0], head)), batches
    assume(head != "equivariant")
    turned = kernel(X.swapaxes(2, 3), Z.swapaxes(2, 3), engine=engine)
    K = kernel(X, Z, engine=engine)
    assert relative(turned, K, *sizes(kernel, X, Z)) <= tolerances.ROUTES


def weights_of_pixel_pairs(axes):
    """Return the weights of pixel pairs in the heads that average, (d, d) by head."""
    d = int(np.prod(axes))
    widths = {"trace": 1, "gap": d} | {head: head for head in HEADS if isinstance(head, int)}
    inside = {head: definition.pools(width, axes) for head, width in widths.items()}
    return {head: W.T @ W / d / W[0].sum() ** 2 for head, W in inside.items()}


def pairs_of_pixels(engine, network, X, Z, kind):
    """Return `rk.pixel_pairs` with one axis for the pixels of each signal, and sizes of signals."""
    d = int(np.prod(X.shape[2:]))
    P = rk.pixel_pairs(network, X, Z, kind=kind, engine=engine)
    assert P.shape == (len(X), len(Z), *X.shape[2:], *X.shape[2:])
    # Pixel pairs are exact relative to the signals' mean energy, so compare with trace.
    return P.reshape(len(X), len(Z), d, d), sizes(rk.Kernel(network, kind, "trace"), X, Z)


@engines
@given(any_network, batches(("signals", "images")), kinds)
def test_heads_are_means_of_pixel_pairs(engine, network, batches, kind):
    served(engine, network, batches[0], "gap")
    X, Z = batches
    P, own = pairs_of_pixels(engine, network, X, Z, kind)
    means = {
        head: (P * w).sum(axis=(2, 3)) for head, w in weights_of_pixel_pairs(X.shape[2:]).items()
    }
    for head, mean in (means | {"equivariant": P[..., 0, 0]}).items():
        K = rk.Kernel(network, kind, head)(X, Z, engine=engine)
        assert relative(K, mean, *own) <= tolerances.ROUTES


@implementations
@given(any_network, batches(("signals", "images")), kinds)
@fewer_of_jax
def test_heads_are_means_of_the_equivariant_kernel_over_shifts(engine, network, batches, kind):
    """This is theorem 4.2 of Barzilai et al. 2022."""
    served(engine, network, batches[0], "gap")
    X, Z = batches
    sides, axes = X.shape[2:], tuple(range(2, X.ndim))
    d, trace = int(np.prod(sides)), rk.Kernel(network, kind, "trace")
    # All shifts of Z, as one batch, for each shift of X: (shift, case, shift, case).
    every = np.concatenate([np.roll(Z, -np.array(k), axes) for k in np.ndindex(sides)])
    rolled = (np.roll(X, -np.array(k), axes) for k in np.ndindex(sides))
    equivariant = trace.replace(head="equivariant")
    grid = np.array([kernel_of(engine, equivariant, x, every) for x in rolled])
    P = grid.reshape(d, len(X), d, len(Z)).transpose(1, 3, 0, 2)
    for head, weights in weights_of_pixel_pairs(sides).items():
        K = kernel_of(engine, trace.replace(head=head), X, Z)
        mean = (P * weights).sum(axis=(2, 3))
        assert relative(K, mean, *sizes(trace, X, Z)) <= tolerances.ROUTES


@engines
@given(any_network, batches(("signals", "images")), kinds)
def test_shares_are_sums_of_pixel_pairs(engine, network, batches, kind):
    """They are sums over the right pixels."""
    served(engine, network, batches[0], "gap")
    X, Z = batches
    P, own = pairs_of_pixels(engine, network, X, Z, kind)
    for head, weights in weights_of_pixel_pairs(X.shape[2:]).items():
        options = {"kind": kind, "head": head, "engine": engine}
        S = rk.pixel_shares(network, X, Z, **options)
        assert S.shape == (len(X), len(Z), *X.shape[2:])
        expected = (P * weights).sum(axis=3)
        error = np.abs(S.reshape(expected.shape) - expected).max(axis=2)
        assert relative(error, 0.0, *own) <= tolerances.ROUTES


@engines
@given(any_network, batches(("signals", "images")), heads, kinds)
def test_shares_with_a_signal_do_not_depend_on_other_signals(engine, network, batches, head, kind):
    assume(served(engine, network, batches[0], head) != "equivariant")
    X, Z = batches
    shares = partial(rk.pixel_shares, network, kind=kind, head=head, engine=engine)
    expected = shares(X, Z)
    assert (shares(X[:1], Z[:1]) == expected[:1, :1]).all()
    assert (shares(X, Z[::-1]) == expected[:, ::-1]).all()


@engines
@given(any_network, batches(("signals", "images")), kinds)
def test_shares_add_up_to_kernels(engine, network, batches, kind):
    served(engine, network, batches[0], "gap")
    X, Z = batches
    axes, trace = tuple(range(2, X.ndim)), rk.Kernel(network, kind, "trace")
    own = sizes(trace, X, Z)
    for head in weights_of_pixel_pairs(X.shape[2:]):
        kernel, options = trace.replace(head=head), {"kind": kind, "head": head, "engine": engine}
        S = rk.pixel_shares(network, X, Z, **options).sum(axis=axes)
        assert relative(S, kernel(X, Z, engine=engine), *own) <= tolerances.ROUTES
        if network.homogeneous:  # others need not have a resolved K(x, x)
            S = rk.pixel_shares(network, X, Z, normalized=True, **options)
            K = kernel.replace(normalized=True)(X, Z, engine=engine)
            np.testing.assert_allclose(S.sum(axis=axes), K, rtol=0, atol=tolerances.ROUTES)


@engines
@given(any_network, batches(("signals", "images")), kinds, st.integers(-9, 9))
def test_shares_move_with_the_signal(engine, network, batches, kind, shift):
    served(engine, network, batches[0], "gap")
    X, Z = batches
    axes, trace = tuple(range(2, X.ndim)), rk.Kernel(network, kind, "trace")
    own = sizes(trace, X, Z)
    for head in weights_of_pixel_pairs(X.shape[2:]):
        shares = partial(rk.pixel_shares, network, kind=kind, head=head, engine=engine)
        moved = np.roll(X, shift, 2), Z if head == "gap" else np.roll(Z, shift, 2)
        error = np.abs(shares(*moved) - np.roll(shares(X, Z), shift, 2))
        assert relative(error.max(axis=axes), 0.0, *own) <= tolerances.ROUTES


@implementations
@given(any_network, batches(), heads, kinds)
@fewer_of_jax
def test_grams_are_semidefinite(engine, network, batches, head, kind):
    """Odd activations on lists are left out, because their terms may cancel to rounding errors."""
    X = batches[0]
    assume(network.homogeneous or not isinstance(X, list))
    kernel = rk.Kernel(network, kind, served(engine, network, X, head))
    assert_semidefinite(kernel_of(engine, kernel, X))


@implementations
@given(any_network, batches(), heads, kinds)
@fewer_of_jax
def test_diagonals_of_normalized_grams_are_one(engine, network, batches, head, kind):
    """They are 0 for signals without energy. Both are exact in engines, and rounded in JAX."""
    X = batches[0]
    kernel = rk.Kernel(network, kind, served(engine, network, X, head))
    has_energy = kernel.diag(X, engine="array" if engine == "jax" else engine) > 0
    diagonal = kernel_of(engine, kernel.replace(normalized=True), X).diagonal()
    bar = tolerances.EPS["float64"] if engine == "jax" else 0
    assert np.abs(diagonal - has_energy).max() <= bar


@engines
@given(any_network, batches(), heads, kinds)
def test_normalized_kernels_of_signals_with_themselves_are_one(
    engine, network, batches, head, kind
):
    """They are exactly 1 without the matrix too, and 0 for signals without energy."""
    X = batches[0]
    kernel = rk.Kernel(network, kind, served(engine, network, X, head))
    has_energy = kernel.diag(X, engine=engine) > 0
    assert (kernel.replace(normalized=True).diag(X, engine=engine) == has_energy).all()


@implementations
@given(any_network, batches(), heads, kinds)
@fewer_of_jax
def test_normalized_grams_are_quotients(engine, network, batches, head, kind):
    """The divisor is √(K(x, x) K(z, z)), which is 0 for signals without energy."""
    X = batches[0]
    kernel = rk.Kernel(network, kind, served(engine, network, X, head))
    K = kernel_of(engine, kernel, X)
    # An odd activation may cancel to a rounding error of either sign; that is no energy.
    energy = K.diagonal() if engine == "jax" else kernel.diag(X, engine=engine)
    size = np.sqrt(np.outer(np.maximum(energy, 0), np.maximum(energy, 0)))
    expected = np.where(size > 0, K / np.where(size > 0, size, 1.0), 0.0)
    found = kernel_of(engine, kernel.replace(normalized=True), X)
    assert np.abs(found - expected).max() <= tolerances.ROUTES


@implementations
def test_branches_of_0_leave_the_kernel_of_the_input(engine):
    X = np.random.default_rng(0).standard_normal((3, 2, 6))
    linear = (X[:, None] * X[None]).mean(axis=2)
    # On either side twelve roundings to eps/2, of means that are a third of the largest product.
    bar = 24 * tolerances.EPS["float64"] / 2 / 3 * linear.max()
    for name in ("alpha", "c_v", "c_w"):
        G = kernel_of(engine, rk.Kernel(rk.Network(2, **{name: 0}), "gpk", "trace"), X)
        np.testing.assert_allclose(G, linear.mean(axis=2), rtol=0, atol=bar)


@implementations
def test_branches_of_0_without_skip_connections_leave_nothing(engine):
    X = np.random.default_rng(0).standard_normal((3, 2, 6))
    seen = HEADS[:1] if engine == "jax" else HEADS  # which compiles each for seconds
    for name, head, normalized in pairs_meet(("c_v", "c_w"), seen, (False, True)):
        network = rk.Network(2, skip=False, **{name: 0})
        assert not np.any(gram_of(engine, network, X, head=head, normalized=normalized))
