"""Right to the last digits: engines against the definition in 40 digits, and against peers."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings

import rescntk as rk
from rescntk import Network
from rescntk.checks.values import DTYPES, KINDS, PARTS
from rescntk.network.activations import activation_of
from tests import tolerances
from tests.difficult_signals import SIGNALS, UNEVEN
from tests.engines.accuracy import NETWORKS, assert_accurate
from tests.helpers import (
    CPU,
    ENGINES,
    GROUPS,
    HEADS,
    IMPLEMENTATIONS,
    NOT_HOMOGENEOUS,
    assert_within,
    gram_of,
    pairs_meet,
    skip_unless_supported,
)
from tests.strategies import EVERY_FIELD, batches, networks


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
@pytest.mark.parametrize("skip", [True, False])
def test_large_signals_beside_biases_have_exact_kernels(activation, skip, rng):
    """Variances are some 1e7 in the first layer, and with erf they are some 1 in the next ones."""
    network = Network(4, 3, activation=activation, skip=skip, bias=0.3, trained=PARTS)
    size = min(3e3, 0.1 * activation_of(network).largest_variance ** 0.5)
    assert_accurate(["array"], network, size * rng.standard_normal((3, 2, 4)))


@pytest.mark.parametrize("engine", IMPLEMENTATIONS)
@pytest.mark.parametrize("activation", ["relu", *NOT_HOMOGENEOUS])
@pytest.mark.parametrize("head", HEADS)
def test_copies_of_a_channel_have_the_kernel_of_one(engine, activation, head, rng):
    """Sums over channels do not err more with their number, as sums of equal terms would."""
    network, x = Network(1, activation=activation), rng.standard_normal((3, 1, 5))
    skip_unless_supported(engine, network)
    one, many = (gram_of(engine, network, np.repeat(x, n, axis=1), head=head) for n in (1, 12_000))
    for K, expected in zip(many, one, strict=True):
        size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
        assert np.abs((K - expected) / size).max() <= tolerances.KERNEL["float64"]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_channels_keep_their_digits_in_float32(engine):
    """Half of 40,000 channels have the opposite sign, so that the correlation is 0."""
    x = np.ones((2, 40_000, 2))
    x[1, ::2] = -1.0
    K = rk.gram(Network(1, 1), x, head="trace", engine=engine, dtype="float32").gpk
    assert abs(K[0, 1] - 1 / np.pi) / K[0, 0] <= tolerances.KERNEL["float32"]


RELU = [name for name, (network, _) in NETWORKS.items() if network.homogeneous]

DIFFICULT = pairs_meet(NETWORKS, SIGNALS, [1, 3])[::2] + pairs_meet(RELU, UNEVEN, [1, 3])[::2]


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
@pytest.mark.parametrize(("name", "make", "channels"), DIFFICULT)
def test_kernels_of_difficult_signals_are_exact(engines, name, make, channels, rng):
    network, d = NETWORKS[name]
    most = (2 if make in UNEVEN else 4) if network.depth == 50 else None
    assert_accurate(engines, network, make(channels, d, rng)[:most])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long filter", "growing dilations", "all trained", "biases"])
@pytest.mark.parametrize("lengths", [(5, 7), (6, 4), (1, 4)], ids=str)
def test_kernels_of_different_lengths_are_exact(name, lengths, rng):
    """Some signals are exponentials, whose neighbouring pixels are nearly parallel."""
    X, network = [rng.standard_normal((2, d)) for d in lengths], NETWORKS[name][0]
    direction = rng.standard_normal((2, 1))
    powers = [1.5 ** np.arange(len(x[0])) * direction * (1 + 1e-7 * x) for x in X]
    assert_accurate(CPU, network, X)
    assert_accurate(CPU, network, powers)


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
@settings(max_examples=24)
@given(networks(EVERY_FIELD, max_depth=4, dilated="freely", layers="of their own"), batches())
def test_kernels_of_any_network_on_any_signals_are_exact(engines, network, batches):
    X = batches[0]
    if isinstance(X, list):  # erf's kernels may cancel in GAP
        assume(engines == CPU and network.homogeneous)
        X = [x[:, :4] for x in X]
    assert_accurate(engines, network, X[:3])


DATA = Path(__file__).parents[1] / "data"

PEERS = [np.load(path) for path in sorted(DATA.glob("neural_tangents*.npz"))]

OF_PEERS = [(peer, k) for peer in PEERS for k in range(len(json.loads(str(peer["meta"]))))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("peer", "index"), OF_PEERS, ids=range(len(OF_PEERS)))
def test_kernels_are_those_of_neural_tangents(peer, index, engine):
    """They have the values of neural-tangents 0.6.5, for small random networks and images."""
    meta = json.loads(str(peer["meta"]))[index]
    head, train_input = meta.pop("head"), meta.pop("train_input", False)
    network = Network(**meta)
    if train_input:
        network = network.replace(trained=PARTS)
    skip_unless_supported(engine, network)
    X, Z = peer[f"X{index}"], peer[f"Z{index}"]
    for kind, K in rk.gram(network, X, Z, head=head, engine=engine)._asdict().items():
        kernel = rk.Kernel(network, kind, head)
        size = np.sqrt(np.outer(*(kernel.diag(S, engine="array") for S in (X, Z))))
        assert (np.abs(K - peer[f"{kind}{index}"]) / size).max() <= tolerances.PEER[kind]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_tangent_kernel_of_the_readout_alone_is_the_gpk(engine, skip, dtype, rng):
    """They are equal to the last bit, at every pixel pair and with every head."""
    network = Network(50, 3, skip=skip, trained=("readout",), bias=0.01, alpha=0.3)
    X = rng.standard_normal((1, 2, 4)) * (1 + 1e-6 * rng.standard_normal((3, 1, 4)))
    options = {"normalized": True, "dtype": dtype, "engine": engine}
    for head in (*HEADS, 2):
        gpk, ntk = rk.gram(network, X, head=head, **options)
        assert np.array_equal(ntk, gpk)
    gpk, ntk = (rk.pixel_pairs(network, X, kind=kind, dtype=dtype, engine=engine) for kind in KINDS)
    assert np.array_equal(ntk, gpk)


SHORT_CUTS = (
    *({}, {"filter_size": 9}, {"filter_size": 15}, {"filter_size": 1}, {"filter_size": (3, 9, 3)}),
    *({"dilation": 2}, {"outer_filter_size": 1}, {"input_filter_size": 3}, {"bias": 0.3}),
    *({"norm": True}, {"negative_slope": 0.3}, {"alpha": 1e-3}, {"skip": (True, False, True)}),
    *({"trained": parts} for parts in (("inner",), ("outer",), ("input",), ("input", "readout"))),
)
"""Fields of networks whose layers compiled engines may take at once, or in fewer steps, or not."""


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("fields", SHORT_CUTS, ids=str)
def test_compiled_engines_have_the_values_of_the_engine_array(engine, fields, skip, rng):
    """They are compared at several depths, for signals and images."""
    network, X = Network(3, **{"skip": skip} | fields), rng.standard_normal((3, 2, 4, 3))
    x, z = X[:, :, 0], X[:, :, :, 0]
    for signals, head in ((x, "gap"), (z, "trace"), (x, "equivariant"), (X, "gap"), (X, 2)):
        options = {"head": head, "depths": (1, 2, 3)}
        found, expected = (rk.gram(network, signals, engine=e, **options) for e in (engine, CPU[0]))
        for K, right in zip(found, expected, strict=True):
            own = np.sqrt(np.diagonal(right, axis1=1, axis2=2))
            error = np.abs(K - right) / (own[:, None] * own[:, :, None])
            assert error.max() <= 2 * tolerances.KERNEL["float64"]


@pytest.mark.parametrize("engine", CPU[1:])
@pytest.mark.parametrize("fields", SHORT_CUTS, ids=str)
def test_shares_have_the_values_of_the_engine_array(engine, fields, rng):
    network, X = Network(3, **fields), rng.standard_normal((2, 2, 3, 5))
    for signals, head in ((X[:, :, 0], "gap"), (X[:, :, 0], 3), (X, "trace"), (X, 2)):
        found, right = (
            rk.pixel_shares(network, signals, head=head, engine=e) for e in (engine, CPU[0])
        )
        assert_within(found, right, 2 * tolerances.KERNEL["float64"])
