"""Right to the last digits: engines against the definition in 40-digit arithmetic."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import rescntk as rk
from tests import tolerances
from tests.engine_names import ENGINES, GROUPS, serves
from tests.oracles import definition
from tests.strategies import networks, signals

HEADS = ("equivariant", "trace", "gap")


def near(x, rng, relative=1e-3):
    """Return x with each value changed by about `relative` of itself."""
    return x * (1 + relative * rng.standard_normal(x.shape))


def duplicates(channels, d, rng):
    """One signal, again, scaled, changed by 1e-3 and by 1e-7, and another one."""
    x, z = rng.standard_normal((2, channels, d))
    return np.stack([x, x.copy(), 3.7 * x, near(x, rng), near(x, rng, 1e-7), z])


def opposites(channels, d, rng):
    """A signal and its negative, scaled, changed by 1e-3."""
    x = rng.standard_normal((channels, d))
    return np.stack([x, -x, -0.3 * x, -near(x, rng)])


def constants(channels, d, rng):
    """Signals that do not change, of all sizes, one of them zero."""
    levels = np.array([1.0, 3.0, -2.0, 0.1, 0.0])
    return np.broadcast_to(levels[:, None, None], (5, channels, d)).copy()


def zero_pixels(channels, d, rng):
    """Small integers; half, two thirds and a single pixel of the signals zero."""
    X = rng.integers(-1, 3, (4, channels, d)).astype(float)
    X[0, :, : d // 2] = 0
    X[1, :, d // 3 :] = 0
    X[2, :, d // 2] = 0
    return X


def steps(channels, d, rng):
    """Two levels each, in two directions: windows exactly parallel and unequally long."""
    one, other = rng.standard_normal((2, channels, 1))
    factors = np.array([[1.0, 1.0], [2.0, 0.3], [0.5, 0.7], [3.0, 5.0]])
    first = np.arange(d) < d // 2
    return np.stack([np.where(first, a * one, b * other) for a, b in factors])


def smooth(channels, d, rng):
    """Slow waves: neighbouring pixels, and windows of different signals, nearly parallel."""
    phase = rng.uniform(0, 2 * np.pi, (4, channels, 1))
    return 1.5 + np.sin(np.arange(d) / d * np.pi * np.arange(1, 5)[:, None, None] / 2 + phase)


def spikes(channels, d, rng):
    """One large pixel on a small rest."""
    X = 0.01 * rng.standard_normal((4, channels, d))
    X[np.arange(4), :, np.arange(4) % d] += 10
    return X


SIGNALS = (duplicates, opposites, constants, zero_pixels, steps, smooth, spikes)

NETWORKS = {
    "depth 50": (rk.Network(50), 4),
    "depth 50, no skip": (rk.Network(50, skip=False), 4),
    "small alpha": (rk.Network(12, 5, alpha=0.1), 7),
    "frozen": (rk.Network(6, outer_filter_size=1, skip=False, c_v=1.7, trained=("inner",)), 6),
    "all trained": (
        rk.Network(5, 3, outer_filter_size=5, input_filter_size=3, alpha=1.3, c_w=0.6,
                   trained=("input", "inner", "outer", "readout")),
        8,
    ),
    "pixelwise": (rk.Network(5, 1), 3),
    "erf": (rk.Network(6, 3, activation="erf", c_v=1.3), 5),
    "long filter": (rk.Network(3, 9), 4),
    "one pixel": (rk.Network(7, 3), 1),
}  # fmt: skip


def assert_accurate(engines, network, X):
    """Compare engines in every precision, head and kind with the definition."""
    depths = definition.pixel_pairs(X, network)
    exact = depths[network.depth]
    spread = 1.0
    if network.activation == "erf":  # the largest pre-activations may be those of any layer
        scale = 1 / X.shape[1] if network.input_scale is None else network.input_scale
        entering = scale * (X**2).sum(axis=1).max()
        features = [gpk.diagonal(axis1=2, axis2=3).max() for gpk, _ in depths.values()]
        variance = max(entering, float(max(features)) / network.readout_scale)
        spread = tolerances.erf_spread(network.c_w * variance)
    for engine in (name for name in engines if serves(name, network)):
        for dtype, bar in tolerances.KERNEL.items():
            for head in HEADS:
                # An odd activation has terms of both signs, which GAP may cancel altogether;
                # its errors are relative to the terms.
                yardstick = "trace" if network.activation == "erf" and head == "gap" else head
                computed = rk.gram(network, X, head=head, dtype=dtype, engine=engine)
                for kind, K, P in zip(("gpk", "ntk"), computed, exact, strict=True):
                    own = definition.head(P, yardstick).diagonal()
                    error = definition.errors(K, definition.head(P, head), own)
                    assert error <= bar * spread, (engine, dtype, head, kind, error)


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
    if not serves(engine, network):
        pytest.skip("numba takes ReLU alone")
    X, Z = PEER[f"X{index}"], PEER[f"Z{index}"]
    computed = rk.gram(network, X, Z, head=head, engine=engine)
    for kind, K in zip(("gpk", "ntk"), computed, strict=True):
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
