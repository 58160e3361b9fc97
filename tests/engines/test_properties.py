"""Properties of every network on all signals, on every engine that can serve here."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.validation import DTYPES, HEADS, KINDS
from tests import tolerances
from tests.helpers import ENGINES, skip_unless_taken
from tests.strategies import ALL_FIELDS, batches, heads, kinds, networks

pytestmark = [pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow]
any_network = networks(ALL_FIELDS, dilated="freely")


def relative(A, B, own, other):
    """Return the largest |A − B| over √(K(x,x) K(z,z)); 0 where A equals B."""
    size = np.sqrt(own[:, None] * other[None, :])
    difference = np.abs(A - B)
    return float(np.where(difference == 0, 0.0, difference / np.where(size > 0, size, 1.0)).max())


def assert_semidefinite(K, dtype="float64"):
    eigenvalues = np.linalg.eigvalsh(np.asarray(K, np.float64))
    slack = tolerances.DEFINITE * tolerances.EPS[dtype] * len(K)
    assert eigenvalues[0] >= -slack * max(eigenvalues[-1], 0.0)


def take(X, places):
    return [X[k] for k in places] if isinstance(X, list) else X[list(places)]


def copied(X):
    return [x.copy() for x in X] if isinstance(X, list) else X.copy()


def served(engine, network, X, head):
    """Leave out what the engine does not take, and return the head: of lists it is GAP."""
    skip_unless_taken(engine, network)
    assume(not isinstance(X, list) or engine != "cuda")
    return "gap" if isinstance(X, list) else head


def assert_bits(engine, kernel, dtype, X, Z):
    """Assert that a pair's bits are its own, in every batch and by every call."""
    options = {"engine": engine, "dtype": dtype}
    before = copied(X), copied(Z)
    K, turned = kernel(X, Z, **options), kernel(Z, X, **options).T
    network, head, n = kernel.network, kernel.head, len(X)
    if engine == "reference":  # a mean over left pixels of means over right ones
        if network.homogeneous:  # an odd function's terms may cancel in GAP
            bar = max(tolerances.ROUTES, 2 * tolerances.KERNEL[dtype])
            assert relative(turned, K, kernel.diag(X), kernel.diag(Z)) <= bar
    else:  # the signals themselves say which one is left
        assert (turned == K).all()
    lists = isinstance(X, list) or isinstance(Z, list)
    both = [*X, *Z] if lists else np.concatenate([X, Z])
    whole, again = kernel(both, **options), kernel(both, copied(both), **options)
    assert (whole == whole.T).all() and (whole[:n, n:] == K).all()
    assert (np.triu(again) == np.triu(whole)).all()
    assert engine == "reference" or (again == whole).all()
    assert (kernel.diag(both, **options) == whole.diagonal()).all()
    assert (kernel.paired(both, both[::-1], **options) == again[:, ::-1].diagonal()).all()
    alone = both if lists else both[n : n + 1]  # lists of one length are arrays, of other bits
    assert (kernel(X[-1:], alone, **options) == (again[n - 1] if lists else K[-1, 0])).all()
    prepared = kernel.prepare(Z, **options)
    for threads in (1, 2):  # the second call finds tables of the first
        found = prepared(X, threads=threads)
        assert found.dtype == K.dtype and (found == K).all()
    assert (prepared(Z) == kernel(Z, **options)).all()
    order = np.arange(n)[::-1]
    assert (kernel(take(X, order), Z, threads=2, **options) == K[order]).all()
    if not lists and X.ndim == 3:  # an image of one line is a signal
        assert (kernel(X[:, :, None], Z[:, :, None], **options) == K).all()
        assert (kernel(X[..., None], Z[..., None], **options) == K).all()
    options |= {"head": head, "normalized": kernel.normalized}
    for asked in (KINDS, KINDS[::-1]):
        grams = rk.gram(network, X, Z, kinds=asked, **options)
        assert (getattr(grams, kernel.kind) == K).all()
    for batch, old in zip((X, Z), before, strict=True):
        assert all((x == y).all() for x, y in zip(batch, old, strict=True))


@settings(max_examples=24)
@given(any_network, batches(), heads, kinds, st.booleans(), st.sampled_from(DTYPES))
def test_bits(engine, network, batches, head, kind, normalized, dtype):
    head = served(engine, network, batches[0], head)
    assert_bits(engine, rk.Kernel(network, kind, head, normalized), dtype, *batches)


@settings(max_examples=40)
@given(
    any_network,
    batches(),
    heads,
    kinds,
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-150, 0.3, 1.0, 7.7, 1e100]),
)
def test_symmetries(engine, network, batches, head, kind, seed, factor):
    """Shifts, orthogonal mixing of channels, factors, exchanged axes, and lists that are arrays."""
    head, (X, Z) = served(engine, network, batches[0], head), batches
    kernel, rng = rk.Kernel(network, kind, head), np.random.default_rng(seed)
    axes = tuple(range(1, X[0].ndim))
    mixer = np.linalg.qr(rng.standard_normal((len(X[0]),) * 2))[0]
    common = rng.integers(-9, 9, len(axes))
    homogeneous = network.homogeneous and not network.bias
    factors = (factor, rng.choice([1e-100, 0.01, 3.0])) if homogeneous else (1.0, 1.0)

    def changed(x, factor):
        move = {"gap": rng.integers(-9, 9, len(axes)), "trace": common}.get(head, 0 * common)
        return factor * np.roll(np.einsum("ab,b...->a...", mixer, x), move, axes)

    moved = []
    for batch, factor in zip((X, Z), factors, strict=True):
        new = [changed(x, factor) for x in batch]
        moved.append(new if isinstance(batch, list) else np.array(new))
    # Mixing rounds the signals themselves, which moves κ0 by about eps, also at parallel pixels.
    size = kernel
    if not network.homogeneous:  # an odd function's terms may cancel in GAP
        assume(not isinstance(X, list))
        size = kernel.replace(head="trace")
    own, other = size.diag(X), size.diag(Z)
    K = kernel(X, Z, engine=engine)
    found = kernel(*moved, engine=engine) / factors[0] / factors[1]
    assert relative(found, K, own, other) <= tolerances.ROUTES
    if isinstance(X, list):
        same = [k for k, z in enumerate(X) if z.shape == X[0].shape]
        one, many = kernel(np.stack(take(X, same)), engine=engine), kernel(X, engine=engine)
        assert relative(one, many[np.ix_(same, same)], own[same], own[same]) <= tolerances.ROUTES
    elif X.ndim == 4 and head != "equivariant":
        turned = kernel(X.swapaxes(2, 3), Z.swapaxes(2, 3), engine=engine)
        assert relative(turned, K, own, other) <= tolerances.ROUTES


@given(any_network, batches(("signals", "images")), kinds, st.integers(-9, 9))
def test_heads_and_shares_are_means_of_pixel_pairs(engine, network, batches, kind, shift):
    """And of the equivariant kernel over shifts (theorem 4.2). Shares move with the signal."""
    served(engine, network, batches[0], "gap")
    X, Z = batches
    sides, axes, cases = X.shape[2:], tuple(range(2, X.ndim)), (len(X), len(Z))
    kernels = {head: rk.Kernel(network, kind, head) for head in HEADS}
    # Pixel pairs are exact relative to the signals' mean energy, so compare with trace.
    own = [kernels["trace"].diag(signals) for signals in (X, Z)]
    P = rk.pixel_pairs(network, X, Z, kind=kind, engine=engine)
    assert P.shape == (*cases, *sides, *sides)
    d = int(np.prod(sides))
    P = P.reshape(*cases, d, d)
    # All shifts of Z, as one batch, for each shift of X: (shift, case, shift, case).
    every = np.concatenate([np.roll(Z, -np.array(k), axes) for k in np.ndindex(sides)])
    rolled = (np.roll(X, -np.array(k), axes) for k in np.ndindex(sides))
    grid = np.array([kernels["equivariant"](x, every, engine=engine) for x in rolled])
    grid = grid.reshape(d, len(X), d, len(Z)).transpose(1, 3, 0, 2)
    for head, kernel in kernels.items():
        K = kernel(X, Z, engine=engine)
        for A in (P, grid):
            means = {"equivariant": A[..., 0, 0], "trace": np.trace(A, axis1=2, axis2=3) / d}
            assert relative(K, means.get(head, A.mean(axis=(2, 3))), *own) <= tolerances.ROUTES
        if head == "equivariant":
            continue
        options = {"kind": kind, "head": head, "engine": engine}
        S = rk.pixel_shares(network, X, Z, **options)
        assert S.shape == (*cases, *sides)
        expected = (P.mean(axis=3) if head == "gap" else P.diagonal(axis1=2, axis2=3)) / d
        error = np.abs(S.reshape(expected.shape) - expected).max(axis=2)
        assert relative(error, 0.0, *own) <= tolerances.ROUTES
        assert relative(S.sum(axis=axes), K, *own) <= tolerances.ROUTES
        assert (rk.pixel_shares(network, X, Z[::-1], **options) == S[:, ::-1]).all()
        moved = np.roll(X, shift, 2), Z if head == "gap" else np.roll(Z, shift, 2)
        error = np.abs(rk.pixel_shares(network, *moved, **options) - np.roll(S, shift, 2))
        assert relative(error.max(axis=axes), 0.0, *own) <= tolerances.ROUTES
        if network.homogeneous:  # others need not have a resolved K(x, x)
            S = rk.pixel_shares(network, X, Z, normalized=True, **options)
            K = kernel.replace(normalized=True)(X, Z, engine=engine)
            np.testing.assert_allclose(S.sum(axis=axes), K, rtol=0, atol=tolerances.ROUTES)


@given(any_network, batches(), heads, kinds)
def test_grams_are_semidefinite_and_normalized(engine, network, batches, head, kind):
    X = batches[0]
    kernel = rk.Kernel(network, kind, served(engine, network, X, head))
    raw, own = kernel(X, engine=engine), kernel.diag(X, engine=engine)
    if not (isinstance(X, list) and not network.homogeneous):
        assert_semidefinite(raw)
    normalized = kernel.replace(normalized=True)
    K = normalized(X, engine=engine)
    assert np.isfinite(K).all()
    assert (K.diagonal() == (own > 0)).all()  # exactly 1; 0 for signals without any energy
    assert (normalized.diag(X, engine=engine) == (own > 0)).all()
    # An odd activation may cancel to a rounding error of either sign; that is no energy.
    size = np.sqrt(np.outer(np.maximum(own, 0), np.maximum(own, 0)))
    expected = np.where(size > 0, raw / np.where(size > 0, size, 1.0), 0.0)
    np.testing.assert_allclose(K, expected, rtol=0, atol=tolerances.ROUTES)
