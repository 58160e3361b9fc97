"""Kernels of finite networks: against Jacobians written out, and against the exact kernels."""

import jax
import numpy as np
import pytest

import rescntk as rk
from rescntk import finite, literature
from tests import tolerances
from tests.finite.networks import IMAGES, NETWORKS, parameters

pytestmark = pytest.mark.slow

WIDTH, D = 5, 4


def jacobian(network, params, X, head):
    """Return ∂f/∂θ of the trained parts, (n, n_parameters)."""

    def outputs(trained):
        return finite.apply(network, params._replace(**trained), X, head)

    with jax.enable_x64(True):
        parts = {part: getattr(params, part) for part in network.trained}
        leaves = jax.tree.leaves(jax.jit(jax.jacrev(outputs))(parts))
    return np.concatenate([np.reshape(leaf, (len(X), -1)) for leaf in leaves], axis=1)


def error(computed, exact):
    return np.abs(computed - exact).max() / np.abs(exact).max()


# The head "gap" mixes all pixels. Networks that differ forwards alone are left out.
FORWARDS = {"no skip", "input trained, no skip", "one convolution and skips", "window", "erf"}
CASES = [(name, "gap", (D,)) for name in NETWORKS if name not in FORWARDS]
CASES += [("resnet", "equivariant", (D,)), ("window", "trace", (D,))]
CASES += [(*case, (3, 4)) for case in IMAGES]


@pytest.mark.parametrize(("name", "head", "sides"), CASES)
def test_tangent_kernels_are_products_of_jacobians(name, head, sides, rng):
    network = NETWORKS[name]
    X, Z = rng.standard_normal((2, 3, 2, *sides))
    params = parameters(WIDTH, network, head, sides)
    J = jacobian(network, params, np.concatenate([X, Z]), head)
    exact = J[:3] @ J.T
    assert error(finite.ntk(network, params, X, Z, head), exact[:, 3:]) <= 10 * tolerances.ROUTES
    K = finite.ntk(network, params, X, head=head)
    assert error(K, exact[:, :3]) <= 10 * tolerances.ROUTES and (K == K.T).all()


def test_tangent_kernels_of_different_lengths(rng):
    network = rk.Network(2, 3, input_filter_size=3)
    params = finite.init(1, network, 2, WIDTH)
    X = [rng.standard_normal((2, d)) for d in (5, 2, 5)]
    J = np.concatenate([jacobian(network, params, x[None], "gap") for x in X])
    for Z, rows in ((None, J), (X[::2], J[::2])):
        assert error(finite.ntk(network, params, X, Z), J @ rows.T) <= 10 * tolerances.ROUTES


def test_frozen_networks_and_refusals(rng):
    network = rk.Network(2, 3)
    params, X = finite.init(0, network, 2, 3), rng.standard_normal((2, 2, 4))
    assert (finite.ntk(network.replace(trained=()), params, X) == 0).all()
    with pytest.raises(ValueError, match="Z has 1 channels, expected 2"):
        finite.ntk(network, params, X, X[:, :1])
    with pytest.raises(ValueError, match="n_samples is 1, expected an integer of at least 2"):
        finite.gpk(0, network, X, 3, 1)


# Systems of the papers, heads and kinds: the strongest independent check of the exact kernels.
EXACT = {
    "ResCNTK, dilated": (rk.Network(2, 3, alpha=0.8, dilation=(2, 3)), "ntk", "trace", 4),
    "ResCGPK, of several lengths": (rk.Network(2, 5, readout_scale=0.5), "gpk", "gap", [4, 2, 4]),
    "CNTK, one convolution": (literature.geifman_cnn(2), "ntk", "equivariant", 4),
    "erf, window, frozen readout": (
        rk.Network(2, 3, activation="erf", input_filter_size=3, trained=("inner", "outer")),
        "ntk",
        "gap",
        4,
    ),
    "all parts, vectors": (literature.tirer_resnet(2, 0.5), "ntk", "gap", 1),
    "biases": (rk.Network(2, 3, bias=0.8, alpha=0.7), "ntk", "gap", 4),
    "images": (rk.Network(2, 3, outer_filter_size=5, input_filter_size=3), "ntk", "gap", (2, 3)),
}
N_NETWORKS = 36


def sampled(kind, network, X, width, head):
    """Return the mean kernel of random networks and its standard error."""
    if kind == "gpk":
        return finite.gpk(width, network, X, width, N_NETWORKS, head)
    sides = np.shape(X[0])[1:]
    keys = jax.random.split(jax.random.key(width), N_NETWORKS)
    drawn = (parameters(width, network, head, sides, key=key) for key in keys)
    kernels = np.array([finite.ntk(network, params, X, head=head) for params in drawn])
    return kernels.mean(axis=0), kernels.std(axis=0, ddof=1) / np.sqrt(N_NETWORKS)


@pytest.mark.parametrize("name", EXACT)
def test_finite_networks_concentrate_on_the_exact_kernels(name, rng):
    network, kind, head, d = EXACT[name]
    lists, sides = isinstance(d, list), np.atleast_1d(d)
    X = [rng.standard_normal((2, n)) for n in d] if lists else rng.standard_normal((3, 2, *sides))
    exact = rk.gram(network, X, head=head, kinds=(kind,))[0]
    spreads = []
    for width in (16, 128):
        mean, deviation = sampled(kind, network, X, width, head)
        spreads.append(np.linalg.norm(deviation))
        # Mean tangent kernels of width 16 may be biased.
        if width == 128 or kind == "gpk":
            assert (np.abs(mean - exact) <= tolerances.STANDARD_ERRORS * deviation).all()
    # Spreads fall like width^-½: 8^-½ = .35, known to some 20 percent. The test has teeth.
    assert 0.2 <= spreads[1] / spreads[0] <= 0.6
    assert deviation.max() <= 0.1 * np.abs(exact).max()
