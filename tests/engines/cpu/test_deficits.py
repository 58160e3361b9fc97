"""The compiled recursion of deficits, on all pairs, against the reference engine's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.engines.scaling import Scaling
from rescntk.vocabulary import DTYPES, HEADS, KINDS
from tests import tolerances
from tests.difficult_signals import UNEVEN
from tests.engine_names import needs_numba
from tests.strategies import networks, signals

pytestmark = needs_numba

odd = st.integers(0, 20).map(lambda k: 2 * k + 1)


@pytest.fixture(autouse=True, scope="module")
def all_pairs_are_doubtful():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scaling, "allowed_doubt", lambda self, pixel_pairs: -1.0 + 0 * pixel_pairs)
        yield


def assert_equal_engines(network, X, dtype):
    """Compare Grams, diagonals and pixel pairs with the reference engine's."""
    depths = (1, network.depth) if network.depth > 1 else (1,)
    bar, options = tolerances.KERNEL[dtype], {"engine": "numba", "dtype": dtype}
    for head in HEADS:
        exact = rk.gram(network, X, head=head, depths=depths, engine="reference")
        computed = rk.gram(network, X, head=head, depths=depths, **options)
        for kind, ours, theirs in zip(KINDS, computed, exact, strict=True):
            for K, P in zip(ours, theirs, strict=True):
                size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
                assert (np.abs(K - P) <= bar * size).all()
            kernel = rk.Kernel(network, kind, head)
            assert (kernel(X, X[:1], **options) == ours[-1][:, :1]).all()
            assert (kernel.diag(X, **options) == ours[-1].diagonal()).all()
    ours = rk.pixel_pairs(network, X, X[:1], **options)
    theirs = rk.pixel_pairs(network, X, X[:1], engine="reference")
    own = rk.pixel_pairs(network, X, engine="reference")
    largest = np.sqrt([own[i, i].max() for i in range(len(X))])
    error = np.abs(ours - theirs)[:, 0].max(axis=(1, 2))
    assert (error <= bar * largest * largest[0]).all()


@pytest.mark.slow
@given(networks(activations=("relu",)), odd, odd, signals())
def test_any_network_on_any_signals(network, inner, outer, X):
    network = network.replace(filter_size=inner, outer_filter_size=outer)
    assert_equal_engines(network, X, "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", UNEVEN)
@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (1, 5), (9, 3), (17, 27), (35, 1)])
def test_uneven_amplitudes(make, sizes, dtype, rng):
    network = rk.Network(3, sizes[0], outer_filter_size=sizes[1])
    assert_equal_engines(network, make(2, 11, rng), dtype)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 1), (1, 3)])
def test_windows_without_pieces(sizes, depth, rng):
    """Filters of one pixel have no pieces, nor has an inner filter at depth 1."""
    network = rk.Network(depth, sizes[0], outer_filter_size=sizes[1])
    assert_equal_engines(network, rng.standard_normal((3, 2, 5)), "float64")


@given(networks(activations=("relu",)), signals(batches=2), st.integers(-9, 9))
def test_symmetric_and_free_of_shifts(network, batches, shift):
    X, Z = batches
    for head in ("trace", "gap"):
        kernel = rk.Kernel(network, "ntk", head)
        K = kernel(X, Z, engine="numba")
        assert (kernel(Z, X, engine="numba") == K.T).all()
        assert (kernel(np.roll(X, shift, 2), np.roll(Z, shift, 2), engine="numba") == K).all()
        assert (kernel(X, engine="numba").diagonal() == kernel.diag(X, engine="numba")).all()
