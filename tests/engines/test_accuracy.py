"""Right to the last digits: engines against the definition in 40-digit arithmetic."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import rescntk as rk
from rescntk.vocabulary import HEADS, KINDS
from tests import tolerances
from tests.difficult_signals import SIGNALS, near
from tests.engine_names import ENGINES, GROUPS, skip_unless_taken
from tests.engines.bodies.accuracy import NETWORKS, assert_accurate
from tests.oracles import definition
from tests.strategies import networks, signals


@pytest.mark.parametrize("engines", GROUPS)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("make", SIGNALS)
@pytest.mark.parametrize("channels", [1, 3])
def test_difficult_signals(engines, name, make, channels, rng):
    network, d = NETWORKS[name]
    X = make(channels, d, rng)
    if network.depth == 50:
        X = X[:4]  # keeps the oracle to seconds
    assert_accurate(engines, network, X)


@pytest.mark.parametrize("closeness", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("engines", GROUPS)
def test_nearly_parallel_at_unequal_amplitudes(engines, closeness, q, rng):
    """The hardest signals there are for distances: the README states what is lost on them."""
    x = rng.standard_normal((2, 4))
    amplitude = np.array([1.0, 1.0, 0.05, 0.05])
    X = np.stack([x * amplitude, near(x, rng, closeness) * amplitude[::-1]])
    network = rk.Network(4, q)
    exact = definition.pixel_pairs(X, network)[network.depth]
    for engine in engines:
        for dtype in ("float64", "float32"):
            bar = max(tolerances.KERNEL[dtype], tolerances.nearly_tied(dtype, ratio=20.0))
            for head in HEADS:
                for kind, K in zip(
                    (0, 1), rk.gram(network, X, head=head, dtype=dtype, engine=engine), strict=True
                ):
                    P = definition.head(exact[kind], head)
                    assert definition.errors(K, P, P.diagonal()) <= bar


@pytest.mark.parametrize("engines", GROUPS)
@settings(max_examples=40)
@given(networks(max_depth=4), signals(max_cases=3, max_length=5))
def test_any_network_on_any_signals(engines, network, X):
    assert_accurate(engines, network, X)


PEER = np.load(Path(__file__).parents[1] / "data" / "neural_tangents.npz")
PEER_META = json.loads(str(PEER["meta"]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", range(len(PEER_META)))
def test_neural_tangents(index, engine):
    """Values of neural-tangents 0.6.5 in float64 for random small networks."""
    meta = dict(PEER_META[index])
    head, train_input = meta.pop("head"), meta.pop("train_input")
    trained = (
        ("inner", "outer", "readout", "input") if train_input else ("inner", "outer", "readout")
    )
    network = rk.Network(**meta, trained=trained)
    skip_unless_taken(engine, network)
    X, Z = PEER[f"X{index}"], PEER[f"Z{index}"]
    computed = rk.gram(network, X, Z, head=head, engine=engine)
    for kind, K in zip(KINDS, computed, strict=True):
        kernel = rk.Kernel(network, kind, head)
        size = np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z)))
        error = (np.abs(K - PEER[f"{kind}{index}"]) / size).max()
        assert error <= tolerances.PEER[kind]


@pytest.mark.parametrize("engine", ENGINES)
def test_very_long_filters(engine, rng):
    """Windows of hundreds of pixels add up hundreds of numbers, in float32 too."""
    x = rng.standard_normal((1, 600))
    X = np.stack([x, near(x, rng)])
    network = rk.Network(40, 599)
    exact = rk.gram(network, X, head="equivariant", engine="reference")
    for dtype in ("float64", "float32"):
        computed = rk.gram(network, X, head="equivariant", engine=engine, dtype=dtype)
        for K, P in zip(computed, exact, strict=True):
            size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
            assert (np.abs(K - P) / size).max() <= tolerances.KERNEL[dtype]
