"""Kernels of finite networks: against Jacobians written out, and against the exact kernels."""

import jax
import numpy as np
import pytest
import scipy.stats

import rescntk as rk
from rescntk import finite, literature
from tests import tolerances
from tests.finite.networks import CASES, NETWORKS, draw, parameters

pytestmark = pytest.mark.slow


def jacobian(network, params, X, head):
    """Return ∂f/∂θ of the trained parts, (n, n_parameters)."""
    with jax.enable_x64(True):
        parts = {part: getattr(params, part) for part in network.trained}
        outputs = jax.jit(
            jax.jacrev(lambda trained: finite.apply(network, params._replace(**trained), X, head))
        )
        leaves = jax.tree.leaves(outputs(parts))
    return np.concatenate([np.reshape(leaf, (len(X), -1)) for leaf in leaves], axis=1)


# Other networks differ forwards alone.
SOME = {"resnet", "dilated", "longer filter than signal", "input trained", "outer frozen", "biases"}
BACKWARDS = [case for case in CASES if case[0] in SOME or case[1:] != ("gap", (4,))]


@pytest.mark.parametrize(("name", "head", "sides"), BACKWARDS)
def test_tangent_kernels_are_products_of_jacobians(name, head, sides, rng):
    network, X, Z = NETWORKS[name], draw(rng, sides), draw(rng, sides)
    params, n = parameters(network, head, sides), len(X)
    J = jacobian(network, params, [*X, *Z] if isinstance(X, list) else np.r_[X, Z], head)
    K, cross = (finite.ntk(network, params, X, other, head) for other in (None, Z))
    for found, exact in ((K, J[:n] @ J[:n].T), (cross, J[:n] @ J[n:].T)):
        assert np.abs(found - exact).max() <= 10 * tolerances.ROUTES * np.abs(exact).max()
    assert (K == K.T).all()
    if (name, head) == ("resnet", "gap"):
        assert (finite.ntk(network.replace(trained=()), params, X) == 0).all()


# Systems of the papers, heads and kinds: the strongest independent check of the exact kernels.
EXACT = {
    "ResCNTK, dilated": (rk.Network(2, 3, alpha=0.8, dilation=(2, 3)), "ntk", "trace", (4,)),
    "ResCGPK, of several lengths": (rk.Network(2, 5, readout_scale=0.5), "gpk", "gap", [4, 2, 4]),
    "CNTK, one convolution": (literature.geifman_cnn(2), "ntk", "equivariant", (4,)),
    "erf, window": (rk.Network(2, activation="erf", input_filter_size=3), "ntk", "gap", (4,)),
    "all parts, vectors": (literature.tirer_resnet(2, 0.5), "ntk", "gap", (1,)),
    "biases": (rk.Network(2, 3, bias=0.8, alpha=0.7), "ntk", "gap", (4,)),
    "images": (rk.Network(2, 3, outer_filter_size=1, input_filter_size=3), "ntk", "gap", (2, 3)),
}
N_NETWORKS = 36


@pytest.mark.parametrize("name", EXACT)
def test_finite_networks_concentrate_on_the_exact_kernels(name, rng):
    network, kind, head, sides = EXACT[name]
    X = draw(rng, sides)
    exact = rk.gram(network, X, head=head, kinds=(kind,))[0]
    spreads = []
    for width in (16, 128):
        if kind == "gpk":
            mean, deviation = finite.gpk(width, network, X, width, N_NETWORKS, head)
        else:
            keys = jax.random.split(jax.random.key(width), N_NETWORKS)
            drawn = (parameters(network, head, sides, width, key) for key in keys)
            kernels = np.array([finite.ntk(network, params, X, head=head) for params in drawn])
            mean, deviation = kernels.mean(axis=0), scipy.stats.sem(kernels)
        spreads.append(np.linalg.norm(deviation))
        # Mean tangent kernels of width 16 may be biased.
        if width == 128 or kind == "gpk":
            assert (np.abs(mean - exact) <= tolerances.STANDARD_ERRORS * deviation).all()
    # Spreads fall like width^-½: 8^-½ = .35, known to some 20 percent. The test has teeth.
    assert 0.2 <= spreads[1] / spreads[0] <= 0.6
    assert deviation.max() <= 0.1 * np.abs(exact).max()
