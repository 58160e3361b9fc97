"""Right to the last digits: engines against the definition in 40-digit arithmetic."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import rescntk as rk
from rescntk.validation import HEADS, KINDS, PARTS
from tests import tolerances
from tests.covering import pairs_meet
from tests.difficult_signals import SIGNALS, UNEVEN, near, profile, uneven
from tests.engine_names import CPU, ENGINES, GROUPS, skip_unless_taken
from tests.engines.bodies.accuracy import NETWORKS, assert_accurate
from tests.oracles import definition
from tests.strategies import ALL_FIELDS, networks, signals


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
@pytest.mark.parametrize(("name", "make", "channels"), pairs_meet(NETWORKS, SIGNALS, [1, 3]))
def test_difficult_signals(engines, name, make, channels, rng):
    network, d = NETWORKS[name]
    X = make(channels, d, rng)
    if network.depth == 50:
        X = X[:4]  # keeps the oracle to seconds
    assert_accurate(engines, network, X)


RELU = [name for name, (network, _) in NETWORKS.items() if network.activation == "relu"]


@pytest.mark.parametrize("engines", GROUPS)
@pytest.mark.parametrize(("name", "make", "channels"), pairs_meet(RELU, UNEVEN, [1, 3]))
def test_uneven_amplitudes(engines, name, make, channels, rng):
    network, d = NETWORKS[name]
    X = make(channels, min(d, 7), rng)
    if network.depth == 50:
        X = X[:2]  # keeps the oracle to seconds
    assert_accurate(engines, network, X)


@pytest.mark.parametrize("closeness", [1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("engines", GROUPS)
def test_nearly_parallel_at_unequal_amplitudes(engines, closeness, q, rng):
    assert_accurate(engines, rk.Network(4, q), uneven(2, 6, rng, closeness))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("engine", ENGINES)
def test_many_signals_of_one_profile_are_semidefinite(engine, head, dtype, rng):
    X = profile(2, 6, rng, cases=100)
    for K in rk.gram(rk.Network(4), X, head=head, engine=engine, dtype=dtype):
        eigenvalues = np.linalg.eigvalsh(np.asarray(K, np.float64))
        slack = tolerances.DEFINITE * tolerances.EPS[dtype] * len(K)
        assert eigenvalues[0] >= -slack * eigenvalues[-1]


WEAK = [
    *({"alpha": alpha} for alpha in (1e-9, 1e-4, 0.1, 1e3)),
    {"c_v": 1e-12},
    {"c_w": 1e-12},
    {"alpha": 0.01, "trained": ("inner",), "filter_size": 5, "input_filter_size": 3},
]


@pytest.mark.parametrize("constants", WEAK, ids=str)
@pytest.mark.parametrize("engines", GROUPS)
def test_gap_of_signals_of_zero_mean(engines, constants, rng):
    """The linear part averages to 0 over pixel pairs, and leaves the branch's digits alone."""
    X = rng.standard_normal((3, 2, 6))
    X -= X.mean(axis=2, keepdims=True)
    with definition.mp.workdps(80):  # the oracle itself cancels α^4 = 1e-36
        assert_accurate(engines, rk.Network(3, **constants), X, heads=("gap",))


@pytest.mark.parametrize("engines", GROUPS)
def test_errors_of_many_layers_add_up(engines):
    """Nearly parallel pixels, found by hill climbing: distances of features lost 200 eps."""
    x = [[0.13639944600497542, 0.09297946935577714], [-3.47821531245275, 1.5098739243333612]]
    z = [[0.1508310156983617, 0.09465435474723757], [-3.6667989527839393, 1.5311546551485646]]
    network = rk.Network(20, 1, alpha=8.4, trained=("input", "inner", "outer", "readout"))
    assert_accurate(engines, network, 1e-3 * np.array([x, z]))


OPPOSITE = [
    ("default", rk.Network(2)),
    ("pixelwise", rk.Network(2, 1, trained=("inner",))),
    ("window", rk.Network(3, 1, input_filter_size=3, trained=("inner",))),
    ("frozen readout", rk.Network(3, outer_filter_size=5, trained=("inner", "outer"))),
]


@pytest.mark.parametrize(("name", "network"), OPPOSITE)
@pytest.mark.parametrize("alpha", [1e-9, 1e-6, 1e-4, 1e-2, 1e3])
@pytest.mark.parametrize("engines", GROUPS)
def test_opposite_windows(engines, alpha, name, network):
    """With small α opposite pixels stay opposite, and κ0 needs the digits of 1 + ρ."""
    x = np.array([[[1.0, -1.0, 2.0, -2.0]]])
    X = np.concatenate([x, -x, np.roll(x, 1, axis=2), [[[1.0, -1.0, 1.0, -1.0]]]])
    with definition.mp.workdps(80):  # the oracle itself cancels α^4 = 1e-36
        assert_accurate(engines, network.replace(alpha=alpha), X)


@pytest.mark.parametrize("network", [rk.literature.huang_resnet(50, 2), rk.Network(50, alpha=1e-3)])
@pytest.mark.parametrize("engines", GROUPS)
def test_deep_networks_of_small_branches(engines, network, rng):
    """Each layer adds little to F⁰: rounded layer by layer, float32 would lose 50 times 6e-8."""
    assert_accurate(engines, network, rng.standard_normal((2, 2, 2)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("trained", [("inner",), ("inner", "outer", "readout")])
@pytest.mark.parametrize("engine", ENGINES)
def test_sign_flips_and_signed_shifts_are_semidefinite(engine, trained, dtype, rng):
    X = rng.standard_normal((6, 2, 6))
    X -= X.mean(axis=2, keepdims=True)
    X = np.concatenate([X, -X, -np.roll(X, 2, axis=2), X * (1 + 1e-9)])
    network = rk.Network(3, 3, alpha=1e-6, trained=trained)
    for head in HEADS:
        K = rk.Kernel(network, "ntk", head, normalized=True)(X, engine=engine, dtype=dtype)
        eigenvalues = np.linalg.eigvalsh(np.asarray(K, np.float64))
        slack = tolerances.DEFINITE * tolerances.EPS[dtype] * len(K)
        assert eigenvalues[0] >= -slack * eigenvalues[-1], head


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "dtype"), [(50, "float32"), (50, "float64"), (5000, "float64")])
@pytest.mark.parametrize("engines", GROUPS)
def test_pixelwise_and_deep(engines, depth, dtype, rng):
    """With filters of one pixel deep features become parallel by themselves."""
    X = rng.standard_normal((2, 3, 2 if depth == 50 else 1))
    network = rk.Network(depth, 1)
    exact = definition.pixel_pairs(X, network)[depth]
    bar = tolerances.KERNEL[dtype] if depth == 50 else tolerances.DEEP_KERNEL
    for engine in engines:
        for head in HEADS if depth == 50 else ("gap",):  # of one pixel, the mean is the pixel
            options = {"head": head, "dtype": dtype, "engine": engine, "normalized": True}
            for K, P in zip(rk.gram(network, X, **options), exact, strict=True):
                P = definition.head(P, head)
                own = P.diagonal()
                for i, k in np.ndindex(K.shape):
                    error = K[i, k] - P[i, k] / definition.mp.sqrt(own[i] * own[k])
                    assert abs(error) <= bar


@pytest.mark.parametrize("engines", GROUPS)
def test_many_channels(engines, rng):
    assert_accurate(engines, rk.Network(1, 1), rng.standard_normal((2, 10_000, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
@given(networks(ALL_FIELDS, max_depth=4, dilated="freely"), signals(max_cases=3, max_length=5))
def test_any_network_on_any_signals(engines, network, X):
    assert_accurate(engines, network, X)


DATA = Path(__file__).parents[1] / "data"
PEERS = [np.load(path) for path in sorted(DATA.glob("neural_tangents*.npz"))]
OF_PEERS = [(peer, k) for peer in PEERS for k in range(len(json.loads(str(peer["meta"]))))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("peer", "index"), OF_PEERS, ids=range(len(OF_PEERS)))
def test_neural_tangents(peer, index, engine):
    """Values of neural-tangents 0.6.5 in float64 for random small networks, of images too."""
    meta = json.loads(str(peer["meta"]))[index]
    head, train_input = meta.pop("head"), meta.pop("train_input", False)
    network = rk.Network(**meta)
    if train_input:
        network = network.replace(trained=PARTS)
    skip_unless_taken(engine, network)
    X, Z = peer[f"X{index}"], peer[f"Z{index}"]
    computed = rk.gram(network, X, Z, head=head, engine=engine)
    for kind, K in zip(KINDS, computed, strict=True):
        kernel = rk.Kernel(network, kind, head)
        own = [kernel.diag(signals, engine="reference") for signals in (X, Z)]
        size = np.sqrt(np.outer(*own))
        error = (np.abs(K - peer[f"{kind}{index}"]) / size).max()
        assert error <= tolerances.PEER[kind]


@pytest.mark.parametrize("dilation", [1, 4])
@pytest.mark.parametrize("engine", CPU)
def test_filters_fold_on_the_ring(engine, dilation, rng):
    """A filter of 6561 taps goes 729 times around 9 pixels, as one of 9 taps goes once."""
    X = rng.standard_normal((3, 2, 9))
    long, short = (rk.Network(3, q, dilation=dilation) for q in (6561, 9))
    for head in HEADS:
        grams = (rk.gram(network, X, head=head, engine=engine) for network in (long, short))
        for K, expected in zip(*grams, strict=True):
            assert np.abs(K - expected).max() <= tolerances.KERNEL["float64"] * expected.max()


@pytest.mark.parametrize("engine", ENGINES)
def test_very_long_filters(engine, rng):
    """A window of a prime number of pixels is one merge of them all, in float32 too."""
    x = rng.standard_normal((1, 300))
    X = np.stack([x, near(x, rng)])
    network = rk.Network(20, 293)
    exact = rk.gram(network, X, head="equivariant", engine="reference")
    for dtype in ("float64", "float32"):
        computed = rk.gram(network, X, head="equivariant", engine=engine, dtype=dtype)
        for K, P in zip(computed, exact, strict=True):
            size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
            assert (np.abs(K - P) / size).max() <= tolerances.KERNEL[dtype]
