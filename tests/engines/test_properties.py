"""Properties of every network on all signals, on every engine that can serve here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.validation import HEADS, KINDS
from tests import tolerances
from tests.engine_names import ENGINES, skip_unless_taken
from tests.strategies import ALL_FIELDS, heads, kinds, networks, signals

pytestmark = [pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow]
any_network = networks(ALL_FIELDS, dilated="freely")


def relative(A, B, own, other):
    """Return the largest |A − B| over √(K(x,x) K(z,z)); 0 where A equals B."""
    size = np.sqrt(own[:, None] * other[None, :])
    difference = np.abs(A - B)
    return float(np.where(difference == 0, 0.0, difference / np.where(size > 0, size, 1.0)).max())


@given(any_network, signals(), heads)
def test_a_gram_is_symmetric_to_the_bit_and_semidefinite(engine, network, X, head):
    skip_unless_taken(engine, network)
    for K in rk.gram(network, X, head=head, engine=engine):
        assert (K == K.T).all()
        eigenvalues = np.linalg.eigvalsh(K)
        slack = tolerances.DEFINITE * tolerances.EPS["float64"] * len(K)
        assert eigenvalues[0] >= -slack * max(eigenvalues[-1], 0.0)


@given(any_network, signals(), heads, kinds)
def test_one_argument_or_two_and_the_diagonal_agree_to_the_bit(engine, network, X, head, kind):
    skip_unless_taken(engine, network)
    kernel = rk.Kernel(network, kind, head)
    K = kernel(X, engine=engine)
    assert (kernel(X, X, engine=engine) == K).all()
    again = kernel(X, X.copy(), engine=engine)
    assert (np.triu(again) == np.triu(K)).all()
    assert engine == "reference" or (again == K).all()
    assert (K.diagonal() == kernel.diag(X, engine=engine)).all()
    assert (K.diagonal() == kernel.paired(X, X.copy(), engine=engine)).all()


@given(any_network, signals(batches=2), heads, kinds, st.data())
def test_a_pair_depends_on_itself_alone(engine, network, batches, head, kind, data):
    """A pair's kernel does not depend on its batch. A call does not change its inputs."""
    skip_unless_taken(engine, network)
    X, Z = batches
    before = X.copy(), Z.copy()
    X.flags.writeable = Z.flags.writeable = False
    kernel = rk.Kernel(network, kind, head)
    K = kernel(X, Z, engine=engine)
    turned = kernel(Z, X, engine=engine).T
    if engine == "reference":  # a mean over left pixels of means over right ones
        assert relative(turned, K, kernel.diag(X), kernel.diag(Z)) <= tolerances.ROUTES
    else:  # the signals themselves say which one is left
        assert (turned == K).all()
    pairs = min(len(X), len(Z))
    assert (kernel.paired(X[:pairs], Z[:pairs], engine=engine) == K.diagonal()).all()
    i, k = data.draw(st.integers(0, len(X) - 1)), data.draw(st.integers(0, len(Z) - 1))
    assert kernel(X[i : i + 1], Z[k : k + 1], engine=engine)[0, 0] == K[i, k]
    order = data.draw(st.permutations(range(len(X))))
    assert (kernel(X[order], Z, engine=engine) == K[order]).all()
    both = np.concatenate([X, Z])
    assert (kernel(both, engine=engine)[: len(X), len(X) :] == K).all()
    assert (before[0] == X).all() and (before[1] == Z).all()


@given(any_network, signals(batches=2), kinds, st.integers(-9, 9), st.integers(-9, 9))
def test_shifts(engine, network, batches, kind, one, other):
    """GAP is invariant to any shifts, trace to joint ones."""
    skip_unless_taken(engine, network)
    X, Z = batches
    X1 = np.roll(X, one, 2)
    for head, Z1 in (("gap", np.roll(Z, other, 2)), ("trace", np.roll(Z, one, 2))):
        kernel = rk.Kernel(network, kind, head)
        A, B = kernel(X1, Z1, engine=engine), kernel(X, Z, engine=engine)
        size = kernel.replace(head="trace") if network.activation == "erf" else kernel
        assert relative(A, B, size.diag(X), size.diag(Z)) <= tolerances.ROUTES


@given(any_network, signals(batches=2), kinds)
def test_heads_are_means_of_pixel_pairs(engine, network, batches, kind):
    """Trace and GAP are averages of the equivariant kernel over shifts (theorem 4.2)."""
    skip_unless_taken(engine, network)
    X, Z = batches
    d = X.shape[2]
    kernels = {head: rk.Kernel(network, kind, head) for head in HEADS}
    # Pixel pairs are exact relative to the signals' mean energy, so compare with trace.
    own = [kernels["trace"].diag(signals) for signals in (X, Z)]
    P = rk.pixel_pairs(network, X, Z, kind=kind, engine=engine)
    assert P.shape == (len(X), len(Z), d, d)
    # All shifts of Z, as one batch, for each shift of X: (shift, case, shift, case).
    every = np.concatenate([np.roll(Z, -k, 2) for k in range(d)])
    rows = [kernels["equivariant"](np.roll(X, -j, 2), every, engine=engine) for j in range(d)]
    grid = np.array(rows).reshape(d, len(X), d, len(Z))
    for head, expected in (
        ("equivariant", P[..., 0, 0]),
        ("trace", np.trace(P, axis1=2, axis2=3) / d),
        ("gap", P.mean(axis=(2, 3))),
        ("trace", np.trace(grid, axis1=0, axis2=2) / d),
        ("gap", grid.mean(axis=(0, 2))),
    ):
        K = kernels[head](X, Z, engine=engine)
        assert relative(K, expected, *own) <= tolerances.ROUTES


@given(any_network, signals(batches=2), heads, kinds, st.integers(0, 2**32 - 1))
def test_orthogonal_mixing_of_channels_changes_nothing(engine, network, batches, head, kind, seed):
    skip_unless_taken(engine, network)
    X, Z = batches
    yardstick = "trace" if network.activation == "erf" and head == "gap" else head
    mixer = np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1],) * 2))[0]
    kernel = rk.Kernel(network, kind, head)
    A = kernel(X, Z, engine=engine)
    B = kernel(
        np.einsum("ab,nbj->naj", mixer, X), np.einsum("ab,nbj->naj", mixer, Z), engine=engine
    )
    # Mixing rounds the signals themselves: a change of eps in a pixel's direction moves κ0 by
    # about eps, even where two pixels were exactly parallel.
    size = kernel.replace(head=yardstick)
    assert relative(A, B, size.diag(X), size.diag(Z)) <= tolerances.ROUTES


@given(
    networks(activations=("relu",), dilated="freely"),
    signals(batches=2),
    heads,
    kinds,
    st.sampled_from([1e-150, 0.3, 1.0, 7.7, 1e100]),
    st.sampled_from([1e-100, 0.01, 3.0]),
)
def test_relu_kernels_are_homogeneous(engine, network, batches, head, kind, c, c2):
    skip_unless_taken(engine, network)
    X, Z = batches
    kernel = rk.Kernel(network, kind, head)
    K = kernel(X, Z, engine=engine)
    scaled = kernel(c * X, c2 * Z, engine=engine) / c / c2
    assert relative(K, scaled, kernel.diag(X), kernel.diag(Z)) <= tolerances.ROUTES


@given(any_network, signals(), heads, kinds)
def test_normalized(engine, network, X, head, kind):
    skip_unless_taken(engine, network)
    kernel = rk.Kernel(network, kind, head)
    raw, own = kernel(X, engine=engine), kernel.diag(X, engine=engine)
    normalized = kernel.replace(normalized=True)
    K = normalized(X, engine=engine)
    assert np.isfinite(K).all()
    assert (K.diagonal() == (own > 0)).all()  # exactly 1; 0 for signals without any energy
    assert (normalized.diag(X, engine=engine) == (own > 0)).all()
    again = whole = normalized(X, X.copy(), engine=engine)
    if engine == "reference":  # below the diagonal, sides are exchanged
        again, K = np.triu(again), np.triu(K)
    assert (again == K).all()
    K = normalized(X, engine=engine)
    assert (normalized.paired(X, X[::-1], engine=engine) == whole[:, ::-1].diagonal()).all()
    # An odd activation may cancel to a rounding error of either sign; that is no energy.
    size = np.sqrt(np.outer(np.maximum(own, 0), np.maximum(own, 0)))
    expected = np.where(size > 0, raw / np.where(size > 0, size, 1.0), 0.0)
    np.testing.assert_allclose(K, expected, rtol=0, atol=tolerances.ROUTES)


@given(
    networks(ALL_FIELDS, max_depth=3, dilated="evenly"),
    signals(batches=2),
    heads,
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_depths_from_one_pass(engine, network, batches, head, depths):
    skip_unless_taken(engine, network)
    X, Z = batches
    both = rk.gram(network, X, Z, head=head, depths=depths, engine=engine)
    for t, depth in enumerate(depths):
        alone = rk.gram(network.replace(depth=depth), X, Z, head=head, engine=engine)
        own = rk.gram(network.replace(depth=depth), X, head=head, engine=engine)
        other = rk.gram(network.replace(depth=depth), Z, head=head, engine=engine)
        for one, many, a, b in zip(alone, both, own, other, strict=True):
            assert many.shape == (len(depths), len(X), len(Z))
            assert relative(one, many[t], a.diagonal(), b.diagonal()) <= tolerances.ROUTES


@given(any_network, signals(), heads)
def test_kinds_may_be_asked_for_one_by_one(engine, network, X, head):
    skip_unless_taken(engine, network)
    both = rk.gram(network, X, head=head, engine=engine)
    for kind in KINDS:
        (alone,) = rk.gram(network, X, head=head, kinds=(kind,), engine=engine)
        assert (alone == getattr(both, kind)).all()
    ntk, gpk = rk.gram(network, X, head=head, kinds=KINDS[::-1], engine=engine)
    assert (ntk == both.ntk).all() and (gpk == both.gpk).all()
