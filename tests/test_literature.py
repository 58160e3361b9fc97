"""Each system of the literature against its own paper's recursion (tests/oracles/papers.py)."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from tests import tolerances
from tests.engine_names import CPU, serves
from tests.oracles import papers


def pairs(rng, channels=4, d=1, count=6):
    """Yield random pairs of signals (channels, d) as float64."""
    for _ in range(count):
        yield rng.standard_normal((2, channels, d)) * rng.uniform(0.3, 3, (2, 1, 1))


def both_kinds(network, x, z, head="trace"):
    """Return (gpk, ntk, their sizes √(K(x,x) K(z,z))) of one pair."""
    names = [name for name in CPU if serves(name, network)]
    results = [rk.gram(network, np.stack([x, z]), head=head, engine=name) for name in names]
    G, T = results[0]
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            assert np.abs(one - other).max() <= tolerances.ROUTES * one.max()
    return (G[0, 1], T[0, 1]), (np.sqrt(G[0, 0] * G[1, 1]), np.sqrt(T[0, 0] * T[1, 1]))


def assert_close(computed, expected, sizes):
    for a, b, size in zip(computed, expected, sizes, strict=True):
        assert abs(a - b) <= tolerances.TRANSCRIPTION * size


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("depth", [1, 2, 7])
def test_tirer_mlp(rng, depth, activation):
    for x, z in pairs(rng):
        sigma_w = rng.uniform(0.5, 2)
        network = literature.tirer_mlp(depth, sigma_w).replace(activation=activation)
        computed, sizes = both_kinds(network, x, z)
        expected = papers.tirer_mlp(x[:, 0], z[:, 0], depth, sigma_w, activation)
        assert_close(computed, expected, sizes)


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("depth", [1, 2, 7])
def test_tirer_resnet(rng, depth, activation):
    for x, z in pairs(rng):
        alpha, sigma_v, sigma_w = rng.uniform(0.1, 1.5, 3)
        network = literature.tirer_resnet(depth, alpha, sigma_v, sigma_w)
        computed, sizes = both_kinds(network.replace(activation=activation), x, z)
        vectors = x[:, 0], z[:, 0]
        expected = papers.tirer_resnet(*vectors, depth, alpha, sigma_v, sigma_w, activation)
        assert_close(computed, expected, sizes)


@pytest.mark.parametrize("depth", [1, 2, 9])
def test_huang_ffnet(rng, depth):
    for x, z in pairs(rng):
        computed, sizes = both_kinds(literature.huang_ffnet(depth), x, z)
        assert_close(computed, papers.huang_ffnet(x[:, 0], z[:, 0], depth), sizes)


@pytest.mark.parametrize("gamma", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("depth", [1, 2, 9])
def test_huang_resnet(rng, depth, gamma):
    for x, z in pairs(rng):
        computed, sizes = both_kinds(literature.huang_resnet(depth, gamma), x, z)
        assert_close(computed, papers.huang_resnet(x[:, 0], z[:, 0], depth, gamma), sizes)


@pytest.mark.parametrize(("depth", "q", "alpha"), [(1, 3, 1.0), (4, 5, 0.4), (6, 1, 1.3)])
def test_barzilai_resnet_in_the_backward_form_of_theorem_4_2(rng, depth, q, alpha):
    for x, z in pairs(rng, channels=3, d=8):
        c_v, c_w = rng.uniform(0.5, 2, 2)
        network = literature.barzilai_resnet(depth, q, alpha).replace(c_v=c_v, c_w=c_w)
        computed, sizes = both_kinds(network, x, z, head="equivariant")
        assert_close(computed, papers.theorem_4_2(x, z, depth, q, alpha, c_v, c_w), sizes)


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(("depth", "q", "alpha"), [(1, 3, 1.0), (5, 5, 0.4), (8, 9, 1.3)])
def test_barzilai_networks_on_the_multisphere_are_theorem_4_1(rng, depth, q, alpha, skip):
    X = rk.theory.multisphere.sample(4, 3, 7, rng)
    network = (
        literature.barzilai_resnet(depth, q, alpha) if skip else literature.barzilai_cnn(depth, q)
    )
    trace = rk.Kernel(network, "gpk", "trace", normalized=True)(X)
    for i, x in enumerate(X):
        for k, z in enumerate(X[:i]):
            t = (x * z).mean(0)
            expected = papers.theorem_4_1(t, depth, q, alpha, skip)
            assert abs(trace[i, k] - expected.mean()) <= tolerances.TRANSCRIPTION


@pytest.mark.parametrize(("depth", "q"), [(1, 3), (5, 3), (4, 7)])
def test_one_convolution_networks_are_those_of_appendix_g(rng, depth, q):
    X = rk.theory.multisphere.sample(2, 3, 6, rng)
    t, alpha = (X[0] * X[1]).mean(0), 0.7
    for network, expected in (
        (literature.geifman_cnn(depth, q), papers.geifman_cgpk(t, depth, q)),
        (
            literature.one_convolution_resnet(depth, q, alpha),
            papers.one_convolution_rescgpk(t, depth, q, alpha),
        ),
    ):
        P = rk.pixel_pairs(network, X, kind="gpk")
        size = np.sqrt(P[0, 0].diagonal() * P[1, 1].diagonal())
        assert np.abs(P[0, 1].diagonal() - expected).max() <= tolerances.TRANSCRIPTION * size.max()


def test_the_table_of_the_literature():
    """Filter sizes, constants and trained parts, row by row."""
    rows = {
        literature.barzilai_resnet(4, 5, 0.5): (True, 5, 5, 2, 1, 1, None, "inner outer readout"),
        literature.barzilai_cnn(4, 5): (False, 5, 5, 2, 1, 1, None, "inner outer readout"),
        literature.geifman_cnn(4, 5): (False, 5, 1, 2, 1, 1, None, "inner readout"),
        literature.one_convolution_resnet(4, 5): (True, 5, 1, 2, 1, 1, None, "inner readout"),
        literature.tirer_resnet(4, 0.1, 2, 3): (True, 1, 1, 4, 9, 9, None,
                                                "input inner outer readout"),
        literature.tirer_mlp(4, 3): (False, 1, 1, 1, 9, 9, None, "inner readout"),
        literature.huang_resnet(4): (True, 1, 1, 2, 1, 1, 1, "inner outer"),
        literature.huang_ffnet(4): (False, 1, 1, 2, 1, 1, 1, "inner"),
    }  # fmt: skip
    for n, expected in rows.items():
        found = (n.skip, n.filter_size, n.outer_filter_size, n.c_v, n.c_w, n.readout_scale,
                 n.input_scale, " ".join(n.trained))  # fmt: skip
        assert found == expected
        assert n.depth == 4 and n.input_filter_size == 1 and n.activation == "relu"
    assert literature.huang_resnet(4, 0.5).alpha == 0.5
    assert literature.tirer_resnet(4, 0.1).alpha == 0.1


def test_deviations_whose_square_is_infinite():
    with pytest.raises(ValueError, match=r"sigma_v is 1e\+200, expected a number whose square"):
        literature.tirer_resnet(3, 0.1, sigma_v=1e200)
    with pytest.raises(ValueError, match=r"sigma_w is 1e\+200, expected a number whose square"):
        literature.tirer_mlp(3, sigma_w=1e200)
