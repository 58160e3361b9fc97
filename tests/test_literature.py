"""Each system of the literature against its own paper's recursion (tests/oracles/papers.py)."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from tests import tolerances
from tests.helpers import CPU, supports
from tests.oracles import papers


def pairs(rng, channels=4, d=1, count=6):
    """Yield random pairs of signals (channels, d) as float64."""
    for _ in range(count):
        yield rng.standard_normal((2, channels, d)) * rng.uniform(0.3, 3, (2, 1, 1))


def assert_close(network, x, z, expected, head="trace"):
    """Compare GPK and NTK of one pair, on each engine, with what a paper's recursion gives."""
    names = [name for name in CPU if supports(name, network)]
    results = [rk.gram(network, np.stack([x, z]), head=head, engine=name) for name in names]
    for kinds in results:
        for K, reference, value in zip(kinds, results[0], expected, strict=True):
            assert np.abs(K - reference).max() <= tolerances.ROUTES * reference.max()
            size = np.sqrt(K[0, 0] * K[1, 1])
            assert abs(K[0, 1] - value) <= tolerances.TRANSCRIPTION * size


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_networks_of_vectors(rng, depth):
    """Of Tirer et al. with both activations, and of Huang et al."""
    for x, z in pairs(rng):
        (alpha, sigma_v, sigma_w), vectors = rng.uniform(0.1, 1.5, 3), (x[:, 0], z[:, 0])
        for kind in ("relu", "erf"):
            mlp = literature.tirer_mlp(depth, sigma_w).replace(activation=kind)
            assert_close(mlp, x, z, papers.tirer_mlp(*vectors, depth, sigma_w, kind))
            resnet = literature.tirer_resnet(depth, alpha, sigma_v, sigma_w)
            expected = papers.tirer_resnet(*vectors, depth, alpha, sigma_v, sigma_w, kind)
            assert_close(resnet.replace(activation=kind), x, z, expected)
        assert_close(literature.huang_ffnet(depth), x, z, papers.huang_ffnet(*vectors, depth))
        for gamma in (0.5, 0.8, 1.0):
            expected = papers.huang_resnet(*vectors, depth, gamma)
            assert_close(literature.huang_resnet(depth, gamma), x, z, expected)


@pytest.mark.parametrize(("depth", "q", "alpha"), [(1, 3, 1.0), (4, 5, 0.4), (6, 1, 1.3)])
def test_barzilai_resnet_in_the_backward_form_of_theorem_4_2(rng, depth, q, alpha):
    for x, z in pairs(rng, channels=3, d=8):
        c_v, c_w = rng.uniform(0.5, 2, 2)
        network = literature.barzilai_resnet(depth, q, alpha).replace(c_v=c_v, c_w=c_w)
        expected = papers.theorem_4_2(x, z, depth, q, alpha, c_v, c_w)
        assert_close(network, x, z, expected, head="equivariant")


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(("depth", "q", "alpha"), [(1, 3, 1.0), (5, 5, 0.4), (8, 9, 1.3)])
def test_barzilai_networks_on_the_multisphere_are_theorem_4_1(rng, depth, q, alpha, skip):
    X = rk.theory.multisphere.sample(4, 3, 7, rng)
    network = literature.barzilai_resnet(depth, q, alpha).replace(skip=skip)
    assert skip or network == literature.barzilai_cnn(depth, q)
    trace = rk.Kernel(network, "gpk", "trace", normalized=True)(X)
    for i, k in zip(*np.tril_indices(len(X), -1), strict=True):
        expected = papers.theorem_4_1((X[i] * X[k]).mean(0), depth, q, alpha, skip)
        assert abs(trace[i, k] - expected.mean()) <= tolerances.TRANSCRIPTION


@pytest.mark.parametrize(("depth", "q"), [(1, 3), (5, 3), (4, 7)])
def test_one_convolution_networks_are_those_of_appendix_g(rng, depth, q):
    """All but the outer weights are trained: they are the identity."""
    X = rk.theory.multisphere.sample(2, 3, 6, rng)
    t, alpha = (X[0] * X[1]).mean(0), 0.7
    resnet = literature.one_convolution_resnet(depth, q, alpha)
    for network, expected in (
        (literature.geifman_cnn(depth, q), papers.geifman_cgpk(t, depth, q)),
        (resnet, papers.one_convolution_rescgpk(t, depth, q, alpha)),
    ):
        assert network.trained == ("inner", "readout") and network.outer_filter_size == 1
        P = rk.pixel_pairs(network, X, kind="gpk")
        size = np.sqrt(P[0, 0].diagonal() * P[1, 1].diagonal())
        assert np.abs(P[0, 1].diagonal() - expected).max() <= tolerances.TRANSCRIPTION * size.max()


def test_filters_are_of_3_pixels_and_all_other_numbers_are_1_by_default():
    for system in (literature.barzilai_resnet, literature.one_convolution_resnet):
        assert system(4) == system(4, filter_size=3, alpha=1.0)
    for system in (literature.barzilai_cnn, literature.geifman_cnn):
        assert system(4) == system(4, filter_size=3)
    resnet = literature.tirer_resnet
    assert resnet(4, 0.5) == resnet(4, 0.5, sigma_v=1.0, sigma_w=1.0)
    assert literature.tirer_mlp(4) == literature.tirer_mlp(4, sigma_w=1.0)
    assert literature.huang_resnet(4) == literature.huang_resnet(4, gamma=1.0)


@pytest.mark.parametrize("name", ["sigma_v", "sigma_w"])
def test_deviations_whose_squares_exceed_float64_are_refused(name):
    assert getattr(literature.tirer_resnet(1, 0.5, **{name: 1e153}), f"c_{name[-1]}") == 1e153**2
    with pytest.raises(ValueError, match=rf"{name} is 1e\+155, expected a number whose square"):
        literature.tirer_resnet(1, 0.5, **{name: 1e155})
