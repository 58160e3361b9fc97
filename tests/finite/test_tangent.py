"""Empirical tangent kernels against Jacobians, written out."""

import jax
import numpy as np
import pytest

import rescntk as rk
from rescntk import finite
from rescntk.finite import tangent
from rescntk.finite.forward import as_batch
from tests import tolerances
from tests.finite.networks import IMAGES, NETWORKS, parameters

pytestmark = pytest.mark.slow

WIDTH, D = 5, 4


def jacobian(network, params, X, head):
    """Return ∂f/∂θ of the trained parts, (n, n_outputs, n_parameters)."""
    parts = {part: getattr(params, part) for part in network.trained}

    def outputs(trained):
        changed = {name: getattr(params, name) for name in ("input", "inner", "outer", "readout")}
        changed |= trained
        own = finite.Parameters(**changed, n_timepoints=params.n_timepoints)
        return finite.apply(network, own, X, head)

    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.jit(jax.jacrev(outputs))(parts))
    n, k = len(X), params.n_outputs or 1
    return np.concatenate([np.reshape(leaf, (n, k, -1)) for leaf in leaves], axis=2)


def error(computed, exact):
    return np.abs(computed - exact).max() / np.abs(exact).max()


# The head "gap" mixes all pixels. Networks that differ forwards alone are left out.
FORWARDS = {"no skip", "input trained, no skip", "one convolution and skips", "window", "erf"}
CASES = [(name, "gap") for name in NETWORKS if name not in FORWARDS]
CASES += [("resnet", "equivariant"), ("window", "trace")]
CASES = [(*case, (D,)) for case in CASES] + [(*case, (3, 4)) for case in IMAGES]


@pytest.mark.parametrize(("name", "head", "sides"), CASES)
def test_the_contraction_is_exact(name, head, sides, rng):
    network = NETWORKS[name]
    X, Z = rng.standard_normal((2, 3, 2, *sides))  # of one shape: JAX compiles once for each
    several = {"n_outputs": 2, "extra_biases": not network.bias} if head == "trace" else {}
    params = parameters(WIDTH, network, head, sides, **several)
    of_both = jacobian(network, params, np.concatenate([X, Z]), head)
    for here, there in ((X, Z), (X, None)):
        of_Z = of_both[:3] if there is None else of_both[3:]
        exact = np.einsum("nap,mbp->nmab", of_both[:3], of_Z)
        K = finite.ntk(network, params, here, there, head)
        assert error(K, exact if several else exact[..., 0, 0]) <= 10 * tolerances.ROUTES
    assert (K == (K.transpose(1, 0, 3, 2) if several else K.T)).all()


def test_blocks_and_lengths_do_not_matter(rng):
    """Signals of several lengths, in blocks as small as the bound makes them."""
    network = rk.Network(2, 3, input_filter_size=3)
    params = finite.init(1, network, 2, WIDTH)
    X = [rng.standard_normal((2, d)) for d in (5, 2, 5, 2, 5)]
    of_length = [jacobian(network, params, np.array(x), "gap") for x in (X[::2], X[1::2])]
    one = np.array([of_length[k % 2][k // 2, 0] for k in range(5)])
    sizes = []
    for max_memory in (20_000, 60_000):
        batch = as_batch(X, "X", params.dtype)
        sizes.append(tangent._block_size(network, params, batch, batch, max_memory))
        K = finite.ntk(network, params, X, max_memory=max_memory)
        assert error(K, one @ one.T) <= 10 * tolerances.ROUTES
        assert (K == K.T).all()
        K = finite.ntk(network, params, X, X[::2], max_memory=max_memory)
        assert error(K, one @ one[::2].T) <= 10 * tolerances.ROUTES
    assert sizes[0] == 1 < sizes[1] < 5


@pytest.fixture
def optimized():
    """XLA optimizes, as users have it, and as the root's conftest.py switches off."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("optimized")
def test_the_stated_bound_of_memory_holds(rng):
    """XLA counts the bytes that it allocates for two blocks of signals."""
    network, limit = rk.Network(2, 3, activation="erf"), 2e6
    params = finite.init(1, network, 2, 16, n_outputs=2)
    batch = as_batch(rng.standard_normal((50, 2, 24)), "X", params.dtype)
    size = tangent._block_size(network, params, batch, batch, limit)
    signals = batch.arrays[0][:size]
    assert 1 < size < 50

    def taken(compiled):
        found = compiled.memory_analysis()
        return found.temp_size_in_bytes + found.output_size_in_bytes

    with jax.enable_x64(True):
        notes = jax.eval_shape(lambda s: tangent._take_notes(network, "gap", params, s), signals)
        held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(notes))
        first = tangent._take_notes.lower(network, "gap", params, signals).compile()
        u, du = notes[0][-1], notes[1][-1]
        conv, _ = tangent._trained(network, params)[-1]
        second = tangent._contract_layer.lower(conv, False, u, u, du, du).compile()
    assert limit / 10 < taken(first) + held <= limit
    assert limit / 10 < taken(second) + 2 * held <= limit


def test_refusals(rng):
    network = rk.Network(2, 3)
    params, X = finite.init(0, network, 2, 3), rng.standard_normal((2, 2, 4))
    assert (finite.ntk(network.replace(trained=()), params, X) == 0).all()
    says = r"of two signals of 4 and 4 pixels at width 3 takes .* max_memory, 0\.001 MB"
    with pytest.raises(ValueError, match=says):
        finite.ntk(network, params, X, max_memory=1000)
    with pytest.raises(ValueError, match="Z has signals of 1 channels, expected 2"):
        finite.ntk(network, params, X, X[:, :1])
