"""Properties of every network on all signals, on every engine that can serve here, and of JAX."""

from functools import wraps
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.validation import DTYPES, KINDS
from tests import tolerances
from tests.helpers import ENGINES, HEADS, SUBJECTS, gram_of, kernel_of, skip_unless_taken
from tests.oracles import definition
from tests.strategies import ALL_FIELDS, batches, heads, kinds, networks

pytestmark = pytest.mark.slow
engines, subjects = (pytest.mark.parametrize("engine", each) for each in (ENGINES, SUBJECTS))
any_network = networks(ALL_FIELDS, dilated="freely", layers="of their own")


def fewer_of_jax(test):
    """Compare a fourth of the examples for "jax", which compiles each network for seconds."""
    done = []

    @wraps(test)
    def few(engine, *arguments, **named):
        if engine == "jax" and len(done) >= settings.default.max_examples / 4:
            return
        test(engine, *arguments, **named)
        done.extend(["example"] * (engine == "jax"))

    return few


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
    assume(not isinstance(X, list) or engine in ("reference", "cpu"))
    return "gap" if isinstance(X, list) else head


class Batches(NamedTuple):
    """A kernel's matrix of two batches, with what its claims compare it with."""

    kernel: rk.Kernel
    X: list | np.ndarray
    Z: list | np.ndarray
    options: dict
    K: np.ndarray

    @property
    def both(self):
        if isinstance(self.X, list) or isinstance(self.Z, list):
            return [*self.X, *self.Z]
        return np.concatenate([self.X, self.Z])

    def of(self, X, Z=None, **more):
        return self.kernel(X, Z, **self.options, **more)


def turned(case):
    """K(z, x): the signals themselves say which one is left, in compiled engines."""
    found = case.of(case.Z, case.X).T
    if case.options["engine"] != "reference":
        return [(found, case.K)]
    if case.kernel.network.homogeneous:  # an odd function's terms may cancel in GAP
        bar = max(tolerances.ROUTES, 2 * tolerances.KERNEL[case.options["dtype"]])
        assert relative(found, case.K, *map(case.kernel.diag, (case.X, case.Z))) <= bar
    return []


def batches_around(case):
    """Each pair in one matrix of all signals, which is symmetric."""
    n, whole, again = len(case.X), case.of(case.both), case.of(case.both, copied(case.both))
    equal = np.triu if case.options["engine"] == "reference" else np.asarray
    return [(whole, whole.T), (whole[:n, n:], case.K), (equal(again), equal(whole))]


def diagonals_and_pairs(case):
    """K(x, x) and K(x_i, z_i) without the matrix."""
    whole, again = case.of(case.both), case.of(case.both, copied(case.both))
    pairs = case.kernel.paired(case.both, case.both[::-1], **case.options)
    own = case.kernel.diag(case.both, **case.options)
    return [(own, whole.diagonal()), (pairs, again[:, ::-1].diagonal())]


def one_signal(case):
    """Return one signal beside one, or a list beside all: lists of one length are arrays."""
    if isinstance(case.both, list):
        again = case.of(case.both, copied(case.both))
        return [(case.of(case.X[-1:], case.both)[0], again[len(case.X) - 1])]
    return [(case.of(case.X[-1:], case.Z[:1])[0, 0], case.K[-1, 0])]


def prepared_signals(case):
    """Tables are kept: the second call finds the tables of the first."""
    kept = case.kernel.prepare(case.Z, **case.options)
    found = [(kept(case.X, threads=threads), case.K) for threads in (1, 2)]
    return [*found, (kept(case.Z), case.of(case.Z))]


def orders_and_threads(case):
    order = np.arange(len(case.X))[::-1]
    return [(case.of(take(case.X, order), case.Z, threads=2), case.K[order])]


def images_of_one_line(case):
    if isinstance(case.both, list) or case.X.ndim != 3:
        return []
    lines = case.of(case.X[:, :, None], case.Z[:, :, None])
    return [(lines, case.K), (case.of(case.X[..., None], case.Z[..., None]), case.K)]


def kinds_of_grams(case):
    """Both kinds of one pass, in both orders."""
    kernel = case.kernel
    options = {"head": kernel.head, "normalized": kernel.normalized, **case.options}
    grams = [
        rk.gram(kernel.network, case.X, case.Z, kinds=asked, **options)
        for asked in (KINDS, KINDS[::-1])
    ]
    return [(getattr(gram, kernel.kind), case.K) for gram in grams]


CLAIMS = (
    turned, batches_around, diagonals_and_pairs, one_signal, prepared_signals,
    orders_and_threads, images_of_one_line, kinds_of_grams,
)  # fmt: skip


def assert_holds(claim, engine, kernel, dtype, X, Z):
    """Assert that a claim holds to the last bit."""
    options = {"engine": engine, "dtype": dtype}
    for found, expected in claim(Batches(kernel, X, Z, options, kernel(X, Z, **options))):
        assert found.dtype == expected.dtype and (found == expected).all()


@engines
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
@settings(max_examples=10)
@given(any_network, batches(), heads, kinds, st.booleans(), st.sampled_from(DTYPES))
def test_a_pair_has_bits_of_its_own(engine, claim, network, batches, head, kind, normalized, dtype):
    head = served(engine, network, batches[0], head)
    assert_holds(claim, engine, rk.Kernel(network, kind, head, normalized), dtype, *batches)


@engines
@given(any_network, batches(), kinds)
def test_signals_are_left_as_they_are(engine, network, batches, kind):
    before = [copied(batch) for batch in batches]
    rk.Kernel(network, kind, served(engine, network, batches[0], "gap"))(*batches, engine=engine)
    for batch, old in zip(batches, before, strict=True):
        assert all((x == y).all() for x, y in zip(batch, old, strict=True))


@subjects
@settings(max_examples=40)
@given(
    any_network,
    batches(),
    heads,
    kinds,
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-150, 0.3, 1.0, 7.7, 1e100]),
)
@fewer_of_jax
def test_symmetries(engine, network, batches, head, kind, seed, factor):
    """Shifts, orthogonal mixing of channels, factors, exchanged axes, and lists that are arrays."""
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
    size = kernel
    if not network.homogeneous:  # an odd function's terms may cancel in GAP
        assume(not isinstance(X, list))
        size = kernel.replace(head="trace")
    own, other = size.diag(X), size.diag(Z)
    K = kernel_of(engine, kernel, X, Z)
    found = kernel_of(engine, kernel, *moved) / factors[0] / factors[1]
    assert relative(found, K, own, other) <= tolerances.ROUTES
    if isinstance(X, list):
        same = [k for k, z in enumerate(X) if z.shape == X[0].shape]
        one, many = kernel(np.stack(take(X, same)), engine=engine), kernel(X, engine=engine)
        assert relative(one, many[np.ix_(same, same)], own[same], own[same]) <= tolerances.ROUTES
    elif X.ndim == 4 and head != "equivariant":
        turned = kernel_of(engine, kernel, X.swapaxes(2, 3), Z.swapaxes(2, 3))
        assert relative(turned, K, own, other) <= tolerances.ROUTES


@subjects
@given(any_network, batches(("signals", "images")), kinds, st.integers(-9, 9))
@fewer_of_jax
def test_heads_and_shares_are_means_of_pixel_pairs(engine, network, batches, kind, shift):
    """And of the equivariant kernel over shifts (theorem 4.2). Shares move with the signal."""
    served(engine, network, batches[0], "gap")
    X, Z = batches
    sides, axes, cases = X.shape[2:], tuple(range(2, X.ndim)), (len(X), len(Z))
    kernels = {head: rk.Kernel(network, kind, head) for head in HEADS}
    # Pixel pairs are exact relative to the signals' mean energy, so compare with trace.
    own = [kernels["trace"].diag(signals) for signals in (X, Z)]
    d, averaged = int(np.prod(sides)), []
    if engine != "jax":  # which has no pixel pairs
        averaged.append(rk.pixel_pairs(network, X, Z, kind=kind, engine=engine))
        assert averaged[0].shape == (*cases, *sides, *sides)
        averaged[0] = averaged[0].reshape(*cases, d, d)
    # All shifts of Z, as one batch, for each shift of X: (shift, case, shift, case).
    every = np.concatenate([np.roll(Z, -np.array(k), axes) for k in np.ndindex(sides)])
    rolled = (np.roll(X, -np.array(k), axes) for k in np.ndindex(sides))
    grid = np.array([kernel_of(engine, kernels["equivariant"], x, every) for x in rolled])
    averaged.append(grid.reshape(d, len(X), d, len(Z)).transpose(1, 3, 0, 2))
    widths = {"trace": 1, "gap": d} | {head: head for head in HEADS if isinstance(head, int)}
    inside = {head: definition.windows(width, sides) for head, width in widths.items()}
    weights = {head: W.T @ W / d / W[0].sum() ** 2 for head, W in inside.items()}
    for head, kernel in kernels.items():
        K = kernel_of(engine, kernel, X, Z)
        for A in averaged:
            mean = A[..., 0, 0] if head == "equivariant" else (A * weights[head]).sum(axis=(2, 3))
            assert relative(K, mean, *own) <= tolerances.ROUTES
        if head == "equivariant" or engine == "jax":
            continue
        options = {"kind": kind, "head": head, "engine": engine}
        S = rk.pixel_shares(network, X, Z, **options)
        assert S.shape == (*cases, *sides)
        expected = (averaged[0] * weights[head]).sum(axis=3)
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


@subjects
@given(any_network, batches(), heads, kinds)
@fewer_of_jax
def test_grams_are_semidefinite_and_normalized(engine, network, batches, head, kind):
    X = batches[0]
    kernel = rk.Kernel(network, kind, served(engine, network, X, head))
    raw = kernel_of(engine, kernel, X)
    own = raw.diagonal() if engine == "jax" else kernel.diag(X, engine=engine)
    if not (isinstance(X, list) and not network.homogeneous):
        assert_semidefinite(raw)
    normalized = kernel.replace(normalized=True)
    K = kernel_of(engine, normalized, X)
    assert np.isfinite(K).all()
    if engine == "jax":
        assert np.abs(K.diagonal() - (own > 0)).max() <= tolerances.EPS["float64"]
    else:
        assert (K.diagonal() == (own > 0)).all()  # exactly 1; 0 for signals without any energy
        assert (normalized.diag(X, engine=engine) == (own > 0)).all()
    # An odd activation may cancel to a rounding error of either sign; that is no energy.
    size = np.sqrt(np.outer(np.maximum(own, 0), np.maximum(own, 0)))
    expected = np.where(size > 0, raw / np.where(size > 0, size, 1.0), 0.0)
    np.testing.assert_allclose(K, expected, rtol=0, atol=tolerances.ROUTES)


@subjects
def test_degenerate_constants(engine):
    """Branches of 0 leave the input's kernel; without skips nothing is left."""
    X = np.random.default_rng(0).standard_normal((3, 2, 6))
    linear = (X[:, None] * X[None]).mean(axis=2)
    for name in ("alpha", "c_v", "c_w"):
        G = kernel_of(engine, rk.Kernel(rk.Network(2, **{name: 0}), "gpk", "trace"), X)
        np.testing.assert_allclose(G, linear.mean(axis=2), rtol=0, atol=1e-15 * linear.max())
    for name, head, normalized in product(("c_v", "c_w"), HEADS, (False, True)):
        network = rk.Network(2, skip=False, **{name: 0})
        assert not np.any(gram_of(engine, network, X, head=head, normalized=normalized))
