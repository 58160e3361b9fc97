"""The compiled recursion of deficits, on all pairs, against the reference engine's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.engines.scaling import Scaling
from rescntk.vocabulary import DTYPES
from tests import tolerances
from tests.difficult_signals import UNEVEN
from tests.engine_names import needs_numba
from tests.strategies import networks, signals

pytestmark = needs_numba

odd = st.integers(0, 20).map(lambda k: 2 * k + 1)


@pytest.fixture(autouse=True, scope="module")
def all_pairs_are_doubtful():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scaling, "most_doubt", -1.0)
        yield


def everything(network, X, engine, dtype="float64"):
    """Yield kernels of all heads, of pixel pairs and on the diagonal."""
    depths = (1, network.depth) if network.depth > 1 else (1,)
    for head in ("equivariant", "trace", "gap"):
        options = {"engine": engine, "dtype": dtype}
        yield from rk.gram(network, X, head=head, depths=depths, **options)
        yield rk.Kernel(network, "ntk", head).diag(X, **options)
        yield rk.Kernel(network, "gpk", head)(X, X[:1], **options)
    yield rk.pixel_pairs(network, X, X[:1], engine=engine, dtype=dtype)


def assert_equal_engines(network, X, dtype):
    exact = everything(network, X, "reference")
    for ours, theirs in zip(everything(network, X, "numba", dtype), exact, strict=True):
        size = np.abs(theirs).max()
        assert np.abs(ours - theirs).max() <= tolerances.KERNEL[dtype] * size


@given(networks(activations=("relu",)), odd, odd, signals())
@settings(max_examples=40)
def test_any_network_on_any_signals(network, inner, outer, X):
    network = network.replace(filter_size=inner, outer_filter_size=outer)
    assert_equal_engines(network, X, "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", UNEVEN)
@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (1, 5), (9, 3), (17, 27), (35, 1)])
def test_uneven_amplitudes(make, sizes, dtype, rng):
    network = rk.Network(3, sizes[0], outer_filter_size=sizes[1])
    assert_equal_engines(network, make(2, 11, rng), dtype)


@given(networks(activations=("relu",)), signals(batches=2), st.integers(-9, 9))
@settings(max_examples=40)
def test_symmetric_and_free_of_shifts(network, batches, shift):
    X, Z = batches
    for head in ("trace", "gap"):
        kernel = rk.Kernel(network, "ntk", head)
        K = kernel(X, Z, engine="numba")
        assert (kernel(Z, X, engine="numba") == K.T).all()
        assert (kernel(np.roll(X, shift, 2), np.roll(Z, shift, 2), engine="numba") == K).all()
        assert (kernel(X, engine="numba").diagonal() == kernel.diag(X, engine="numba")).all()
