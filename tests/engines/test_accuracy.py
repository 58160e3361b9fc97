"""Right to the last digits: engines against the definition in 40 digits and in 128 bits."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings

import rescntk as rk
from rescntk import Network
from rescntk.validation import DTYPES, KINDS, PARTS
from tests import tolerances
from tests.difficult_signals import SIGNALS, UNEVEN, near, profile
from tests.engines.claims import assert_semidefinite
from tests.helpers import (
    CPU,
    ENGINES,
    GROUPS,
    HEADS,
    NOT_RELU,
    pairs_meet,
    rarely,
    skip_unless_taken,
    takes,
)
from tests.oracles import definition, quadruple
from tests.strategies import EVERY_FIELD, batches, networks

NETWORKS = {
    "depth 50": (Network(50), 4),
    "depth 50, no skip": (Network(50, skip=False), 4),
    "small alpha": (Network(12, 5, alpha=0.1), 7),
    "frozen": (Network(6, outer_filter_size=1, skip=False, c_v=1.7, trained=("inner",)), 6),
    "all trained": (
        Network(5, outer_filter_size=5, input_filter_size=3, alpha=1.3, c_w=0.6, trained=PARTS), 8
    ),
    "pixelwise": (Network(50, 1), 2),
    "erf": (Network(6, 3, activation="erf", c_v=1.3), 5),
    "erf, biases": (Network(4, 3, activation="erf", bias=0.7, skip=False, trained=PARTS), 5),
    "gelu": (Network(6, 3, activation="gelu", c_v=1.3, trained=PARTS), 5),
    "gelu, no skip": (Network(12, 3, activation="gelu", skip=False, bias=0.2), 4),
    "gelu, small alpha": (Network(5, 3, activation="gelu", alpha=0.05, c_w=3.0), 5),
    "leaky": (Network(6, 3, outer_filter_size=5, negative_slope=0.3, alpha=0.8, c_v=1.9), 5),
    "linear": (Network(4, 3, negative_slope=1.0, c_v=1.0), 5),
    "long filter": (Network(3, 9), 4),
    "one pixel": (Network(7, 3), 1),
    "dilated": (Network(4, 3, outer_filter_size=5, dilation=2, input_filter_size=3), 6),
    "growing dilations": (Network(4, 3, alpha=0.7, dilation=(1, 2, 4, 8)), 7),
    "biases": (
        Network(4, 5, outer_filter_size=3, input_filter_size=3, alpha=0.6, c_v=1.4, bias=0.7,
                negative_slope=0.2, dilation=2, trained=("input", "outer", "readout")),
        5,
    ),
    "biases, no skip": (
        Network(50, skip=False, negative_slope=0.1, bias=0.3, trained=("inner",)), 4
    ),
}  # fmt: skip
"""Networks, and lengths of signals that let the oracle take a second."""


def assert_accurate(engines, network, X, heads=HEADS):
    """Compare engines in every precision, head and kind with the definition; of lists in GAP."""
    taking = [engine for engine in engines if takes(engine, network)]
    if not taking:  # before the oracle's work
        skip_unless_taken(engines[0], network)
    if isinstance(X, list):
        assert_accurate_of_lengths(taking, network, X)
        return
    depths = definition.pixel_pairs(X, network)
    for engine, (dtype, bar), head in product(taking, tolerances.KERNEL.items(), heads):
        # Errors of odd activations, and nearly odd ones, are relative to terms that GAP may cancel.
        odd = not network.homogeneous or network.negative_slope == 1.0
        yardstick = "trace" if odd and head != "equivariant" else head
        options = {"head": head, "dtype": dtype, "engine": engine}
        computed = rk.gram(network, X, depths=(network.depth, 1), **options)
        for kind, several in enumerate(computed):
            for K, depth in zip(several, (network.depth, 1), strict=True):
                P = depths[depth][kind]
                exact, own = (definition.head(P, name, X.shape[2:]) for name in (head, yardstick))
                error = definition.errors(K, exact, own.diagonal())
                assert error <= bar, (options, depth, KINDS[kind], error)


def assert_accurate_of_lengths(engines, network, X):
    """Compare kernels of the first and the last signal, in both orders."""
    x, z = X[0], X[-1]
    expected = definition.gap_of_lengths(network, x, z)
    for engine, (dtype, bar) in product(engines, tolerances.KERNEL.items()):
        options = {"engine": engine, "dtype": dtype}
        orders = (rk.gram(network, [a], [b], **options) for a, b in ((x, z), (z, x)))
        for K, turned, (exact, own, trace) in zip(*orders, expected, strict=True):
            for value in (K, turned):
                error = abs(definition.mp.mpf(float(value[0, 0])) - exact)
                assert error <= bar * (trace if not network.homogeneous else own)
            assert engine == "reference" or K == turned


@pytest.mark.parametrize("change", [1e-3, 1e-7, 1e-9])
def test_deep_gelu_networks_of_nearly_equal_signals(change, rng):
    """Layers enlarge variances, until the slope is a ReLU's: the root of early deficits counts."""
    x, z = rng.standard_normal((2, 2, 1))
    X = np.stack([x, x + change * z, x * (1.0 + change), 1.5 * x])
    with definition.mp.workdps(100):
        assert_accurate(["reference"], Network(40, 1, activation="gelu"), X, ["trace"])


@pytest.mark.parametrize("activation", NOT_RELU)
@pytest.mark.parametrize("skip", [True, False])
def test_large_signals_beside_biases(activation, skip, rng):
    """Pre-activations of 1e7 in the first layer, and of 1 in the next ones of erf."""
    network = Network(4, 3, activation=activation, skip=skip, bias=0.3, trained=PARTS)
    assert_accurate(["reference"], network, 3e3 * rng.standard_normal((3, 2, 4)))


RELU = [name for name, (network, _) in NETWORKS.items() if network.homogeneous]
DIFFICULT = pairs_meet(NETWORKS, SIGNALS, [1, 3])[::2] + pairs_meet(RELU, UNEVEN, [1, 3])[::2]


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
@pytest.mark.parametrize(("name", "make", "channels"), DIFFICULT)
def test_difficult_signals(engines, name, make, channels, rng):
    network, d = NETWORKS[name]
    most = (2 if make in UNEVEN else 4) if network.depth == 50 else None
    assert_accurate(engines, network, make(channels, d, rng)[:most])


ALTERNATING = np.array([[[1.0, -1.0, 2.0, -2.0]]])
OPPOSITE = np.concatenate(
    [ALTERNATING, -ALTERNATING, np.roll(ALTERNATING, 1, axis=2), [[[1.0, -1.0, 1.0, -1.0]]]]
)
# Nearly parallel pixels, found by hill climbing: distances of features lost 200 eps.
CLIMBED = 1e-3 * np.array(
    [
        [[0.13639944600497542, 0.09297946935577714], [-3.47821531245275, 1.5098739243333612]],
        [[0.1508310156983617, 0.09465435474723757], [-3.6667989527839393, 1.5311546651485646]],
    ]
)
CNN = rk.CNTK(50, 5).network


def close(*sizes):
    """Return a function that makes a signal, a copy changed by 1e-7, and copies of other sizes."""

    def make(rng):
        x, change = np.random.default_rng(976188).standard_normal((2, 3, 5))
        return np.stack([x, x * (1 + 1e-7 * change), *(size * x for size in sizes)])

    return make


def zero_mean(*shape):
    def make(rng):
        X = rng.standard_normal(shape)
        return X - X.mean(axis=tuple(range(2, X.ndim)), keepdims=True)

    return make


def small_mean(size):
    """Return a function that makes signals of two channels whose means are `size`."""

    def make(rng):
        X = rng.standard_normal((2, 2, 7))
        return X - X.mean(axis=2, keepdims=True) + size

    return make


def small_windows(size, rng):
    """Return signals of two channels whose windows of two or four pixels have the mean `size`."""
    return rng.standard_normal((3, 2, 1)) * (-1.0) ** np.arange(6) + size


SMALL = {"depth": 2, "filter_size": 5, "bias": 1.0}
CASES = {
    # GAP's linear part averages to 0 over pixel pairs, and leaves the branch's digits alone.
    **{
        f"zero mean, {fields}": (Network(3, **fields), zero_mean(3, 2, 6), ("gap", 5))
        for fields in (
            {"alpha": 1e-9}, {"alpha": 1e3}, {"c_v": 1e-12}, {"c_w": 1e-12},
            {"alpha": 0.01, "trained": ("inner",), "filter_size": 5, "input_filter_size": 3},
        )
    },
    # GAP adds products of means, which are sums of larger terms, to α² times the branch.
    **{
        f"mean of size alpha {alpha}": (Network(3, alpha=alpha), small_mean(alpha), ("gap", 6))
        for alpha in (1e-2, 1e-4, 1e-6, 1e-9, 1e-13)
    },
    **{
        f"windows of mean {size}": (
            Network(3, alpha=1e-6), lambda rng, size=size: small_windows(size, rng), (2, 4)
        )
        for size in (1e-6, 0.0)
    },
    # With small α opposite pixels stay opposite, and κ0 needs the digits of 1 + ρ.
    **{
        f"opposite windows {k}, alpha {alpha}": (
            network.replace(alpha=alpha), lambda rng: OPPOSITE, HEADS
        )
        for alpha in (1e-9, 1e-4, 1e3)
        for k, network in enumerate((
            Network(2), Network(2, 1, trained=("inner",)),
            Network(3, 1, input_filter_size=3, trained=("inner",)),
            Network(3, outer_filter_size=5, trained=("inner", "outer")),
        ))
    },
    "layers whose errors add up": (
        Network(20, 1, alpha=8.4, trained=PARTS), lambda rng: CLIMBED, HEADS
    ),
    # Each layer adds little to F⁰: rounded layer by layer, float32 would lose 50 times 6e-8.
    "small branches": (
        Network(50, alpha=1e-3), lambda rng: rng.standard_normal((2, 2, 2)), HEADS
    ),
    "many channels": (Network(1, 1), lambda rng: rng.standard_normal((2, 10_000, 1)), HEADS),
    "copies, depth 50": (CNN, close(), ["trace"]),
    "parallel pixels of other amplitudes": (
        Network(50, 1, alpha=2.034, negative_slope=0.5, readout_scale=1e-10),
        lambda rng: np.array([[[1.0, 0.5]], [[1.0, 0.3]]]), ["trace"],
    ),
    # K(x, a x) = a K(x, x); errors of layers have one sign.
    "proportional, padded": (
        rk.CNTK(50, 7).network, lambda rng: np.array([[[0, 0, 0, a, 0, 0]] for a in (43.0, 903)]),
        ["trace"],
    ),
    "proportional": (
        CNN.replace(trained=("input",)),
        lambda rng: np.array([[[22, 7, 50, 26, 51], [30, 40, 51, 3, 2.0]]]) * [[[1]], [[13]]],
        HEADS,
    ),
    # Proportional signals have windows that biases make different.
    **{
        f"copies, bias {bias}, skip {skip}": (
            Network(depth, 5 if skip and depth < 50 else 3, skip=skip, bias=bias),
            close(1e3, 1e-4), ["trace"],
        )
        for bias, depth, skip in ((1e-3, 20, True), (0.3, 50, False), (30.0, 20, True))
    },
    **{
        f"small beside biases, {fields}": (
            Network(**SMALL | fields),
            lambda rng: rng.standard_normal((3, 1, 3)) * [[[1.0]], [[1e-8]], [[0.0]]],
            ["trace", "gap"],
        )
        for fields in (
            {"alpha": 1e-8}, {"alpha": 1e-5, "bias": 1e6}, {"alpha": 0.003, "bias": 300.0},
            {"c_w": 1e-6, "filter_size": 1, "outer_filter_size": 5},
        )
    },
}  # fmt: skip
"""A network, a function that makes signals, and heads."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engines", GROUPS)
def test_near_ties_and_small_terms(engines, name, rng):
    network, make, heads = CASES[name]
    with definition.mp.workdps(80):  # the oracle itself cancels α^4 = 1e-36
        assert_accurate(engines, network, make(rng), heads)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long filter", "growing dilations", "all trained", "biases"])
@pytest.mark.parametrize("lengths", [(5, 7), (6, 4), (1, 4)], ids=str)
def test_different_lengths(name, lengths, rng):
    """Also of exponentials, whose windows are nearly parallel and differ in amplitude."""
    X, network = [rng.standard_normal((2, d)) for d in lengths], NETWORKS[name][0]
    direction = rng.standard_normal((2, 1))
    powers = [1.5 ** np.arange(len(x[0])) * direction * (1 + 1e-7 * x) for x in X]
    assert_accurate(CPU, network, X)
    assert_accurate(CPU, network, powers)


@pytest.mark.slow
@pytest.mark.parametrize("engines", GROUPS)
@settings(max_examples=24)
@given(networks(EVERY_FIELD, max_depth=4, dilated="freely", layers="of their own"), batches())
def test_any_network_on_any_signals(engines, network, batches):
    X = batches[0]
    if isinstance(X, list):  # erf's kernels may cancel in GAP
        assume(engines == CPU and network.homogeneous)
        X = [x[:, :4] for x in X]
    assert_accurate(engines, network, X[:3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_near_ties_are_semidefinite(engine, dtype, rng):
    """Many signals of one profile; sign flips and signed shifts with weak branches."""
    X = zero_mean(6, 2, 6)(rng)
    flips = np.concatenate([X, -X, -np.roll(X, 2, axis=2), X * (1 + 1e-9)])
    cases = [(Network(4), profile(2, 6, rng, cases=100), False)]
    for trained in (("inner",), ("inner", "outer", "readout")):
        cases.append((Network(3, 3, alpha=1e-6, trained=trained), flips, True))
    for (network, X, normalized), head in product(cases, HEADS):
        for K in rk.gram(network, X, head=head, normalized=normalized, engine=engine, dtype=dtype):
            assert_semidefinite(K, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("skip", "head"), [(False, "gap"), (True, "trace")])
def test_proportional_signals_at_depth_5000(skip, head, engine):
    kernel = rk.Kernel(Network(5000, skip=skip), "ntk", head, normalized=True)
    X = np.array([[[51.0, 38, 31, 16]], [[153.0, 114, 93, 48]]])
    assert abs(kernel(X, engine=engine) - 1).max() <= tolerances.DEEP_KERNEL


RELATIONS = "random", "parallel", "proportional", "opposite", "near", "walks"
SHARE_LEFT = 0.2
"""Least √(K_gap / K_trace) of cases that count for GAP. Its terms have both signs, whose errors are
relative to the terms: where they nearly cancel, no sum of rounded terms is accurate."""


def drawn(seed):
    """Return a network and two signals."""
    rng = np.random.default_rng(seed)
    skip, channels, d = bool(rng.random() < 0.7), int(rng.choice([1, 1, 2, 3])), rng.integers(1, 10)
    some = [part for part in PARTS if rng.random() < 0.6]
    depth = int(rng.choice([1, 2, 3, 5, 10, 20, 50]))
    network = Network(
        depth=depth,
        filter_size=int(rng.choice([1, 3, 5, 9, 15, 31 if depth < 20 else 15])),
        outer_filter_size=int(rng.choice([1, 3, 5, 9])),
        input_filter_size=int(rng.choice([1, 1, 3])),
        skip=skip,
        alpha=10 ** rng.uniform(-3, 2) if skip else 1.0,
        c_v=float(rng.choice([2, 2, 0.7])),
        c_w=float(rng.choice([1, 1, 1.9])),
        bias=10 ** rng.uniform(-2, 1) if rng.random() < 0.3 else 0.0,
        negative_slope=float(rng.choice([0, 0, 0.01, 0.3])),
        dilation=int(rng.choice([1, 1, 2, 4])),
        trained=tuple(some or ["inner"]),
    )

    def noise(low, high, *shape):
        return 10 ** rng.uniform(low, high) * rng.standard_normal((channels, *shape))

    def amplitudes():
        return 10 ** rng.uniform(-2, 2, d)

    x = noise(0, 0, d) * amplitudes()
    relation = RELATIONS[seed % len(RELATIONS)]
    if relation == "walks":
        return network, np.cumsum(rng.standard_normal((2, channels, d)), axis=-1)
    z = {
        "random": noise(0, 0, d),
        "parallel": x * amplitudes() * (1 + noise(-14, -1, d)),
        "proportional": 3.7 * x,
        "opposite": -x * amplitudes(),
        "near": x * (1 + noise(-16, -3, d)),
    }[relation]
    return network, np.array([x, z])


def assert_accurate_in_128_bits(engine, seed):
    network, X = drawn(seed)
    exact = quadruple.Grams(network, X)
    cases = product(tolerances.KERNEL.items(), quadruple.HEADS, (False, True))
    for (dtype, bar), head, normalized in cases:
        options = {"head": head, "dtype": dtype, "normalized": normalized, "engine": engine}
        try:
            grams = rk.gram(network, X, **options)
        except OverflowError:
            assert not normalized
            continue
        for kind, K in zip(KINDS, grams, strict=True):
            if head != "gap" or exact.share_left(kind) >= SHARE_LEFT:
                error = exact.error(K, kind, head, normalized)
                assert error <= bar, (seed, network, options, kind, error)


@pytest.mark.parametrize("part", [0, *rarely(*range(1, 7))])
@pytest.mark.parametrize("engine", ENGINES)
def test_random_networks(engine, part):
    """615 of them; for the engine "reference", which takes longest, a third."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    step = 3 if engine == "reference" else 1
    for seed in range(100 * part, 100 * part + (100 if part else 15), step):
        assert_accurate_in_128_bits(engine, seed)


DATA = Path(__file__).parents[1] / "data"
PEERS = [np.load(path) for path in sorted(DATA.glob("neural_tangents*.npz"))]
OF_PEERS = [(peer, k) for peer in PEERS for k in range(len(json.loads(str(peer["meta"]))))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("peer", "index"), OF_PEERS, ids=range(len(OF_PEERS)))
def test_neural_tangents(peer, index, engine):
    """Values of neural-tangents 0.6.5 in float64 for random small networks, of images too."""
    meta = json.loads(str(peer["meta"]))[index]
    head, train_input = meta.pop("head"), meta.pop("train_input", False)
    network = Network(**meta)
    if train_input:
        network = network.replace(trained=PARTS)
    skip_unless_taken(engine, network)
    X, Z = peer[f"X{index}"], peer[f"Z{index}"]
    for kind, K in rk.gram(network, X, Z, head=head, engine=engine)._asdict().items():
        kernel = rk.Kernel(network, kind, head)
        size = np.sqrt(np.outer(*(kernel.diag(S, engine="reference") for S in (X, Z))))
        assert (np.abs(K - peer[f"{kind}{index}"]) / size).max() <= tolerances.PEER[kind]


NETWORKS_OF_ONE_PIXEL = {
    "all parts": Network(50, 1),
    "input trained": Network(50, 1, skip=False, trained=("input",)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NETWORKS_OF_ONE_PIXEL)
@pytest.mark.parametrize("q", [3, 5, 7, 9, 13, 31])
@pytest.mark.parametrize("engine", ENGINES)
def test_filters_change_nothing_of_one_pixel(engine, q, name, dtype):
    """Of nearly equal signals, beside filters of one pixel in float64."""
    network, eps = NETWORKS_OF_ONE_PIXEL[name], tolerances.EPS[dtype]
    for angle in eps * np.logspace(-0.5, 3, 15):
        X = np.array([[[1.0], [0.0]], [[np.cos(angle)], [np.sin(angle)]]])
        options = {"head": "trace", "kinds": ("ntk",), "normalized": True, "engine": engine}
        expected = rk.gram(network, X, **options).ntk
        found = rk.gram(network.replace(filter_size=q), X, dtype=dtype, **options).ntk
        assert np.abs(found - expected).max() <= tolerances.PROMISED[dtype]


DEEP = {
    "filters of 3": Network(50, 3, skip=False, trained=("input", "readout")),
    "filters of 15, bias": Network(
        50, 15, skip=False, trained=("input", "readout"), bias=0.0005124656070446065
    ),
    "filters of 5 and 31, bias": Network(
        50, 5, outer_filter_size=31, skip=False, trained=("readout",), bias=0.004589335145724039
    ),
    "filters of 1 and 3, tiny bias": Network(
        50, 1, outer_filter_size=3, skip=False, trained=("readout",), bias=4.2673742122325255e-08
    ),
    "outer and readout": Network(50, 3, skip=False, trained=("outer", "readout"), bias=1e-3),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("engine", ENGINES)
def test_deep_networks_with_frozen_inner_weights(engine, name, dtype):
    """Nearly equal signals, whose layers all round alike, against 128-bit arithmetic."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    angles = np.append(0.0, np.logspace(-8, -2.5, 8))
    angles = 2.6379220537557195 + angles
    X = 2.9989818653107037 * np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]
    X = X.astype(dtype).astype(float)
    exact = quadruple.Grams(DEEP[name], X)
    grams = rk.gram(DEEP[name], X, head="trace", dtype=dtype, engine=engine)
    for kind, K in grams._asdict().items():
        assert exact.error(K, kind, "trace", normalized=False) <= tolerances.PROMISED[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_tangent_kernel_of_the_readout_alone_is_the_gpk(engine, skip, dtype, rng):
    """To the last bit, at every pixel pair and with every head."""
    network = Network(50, 3, skip=skip, trained=("readout",), bias=0.01, alpha=0.3)
    X = rng.standard_normal((1, 2, 4)) * (1 + 1e-6 * rng.standard_normal((3, 1, 4)))
    options = {"normalized": True, "dtype": dtype, "engine": engine}
    for head in (*HEADS, 2):
        gpk, ntk = rk.gram(network, X, head=head, **options)
        assert np.array_equal(ntk, gpk)
    gpk, ntk = (rk.pixel_pairs(network, X, kind=kind, dtype=dtype, engine=engine) for kind in KINDS)
    assert np.array_equal(ntk, gpk)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("head", "d"), [("gap", 1000), ("trace", 100_000)])
def test_constant_signals_have_the_kernel_of_one_point(head, d, dtype, rng):
    """Sums of equal terms are rounded alike."""
    network, x = Network(1, alpha=0.7), rng.standard_normal((2, 2, 1))
    long, short = (
        rk.gram(network, np.repeat(x, n, axis=2), head=head, dtype=dtype) for n in (d, 1)
    )
    for K, expected in zip(long, short, strict=True):
        size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
        assert (np.abs(K - expected) / size).max() <= tolerances.KERNEL[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_very_long_filters(engine, rng):
    """A window of a prime number of pixels is one merge of them all, in float32 too."""
    x = rng.standard_normal((1, 300))
    X, network = np.stack([x, near(x, rng)]), Network(20, 293)
    exact = rk.gram(network, X, head="equivariant", engine="reference")
    for dtype, bar in tolerances.KERNEL.items():
        computed = rk.gram(network, X, head="equivariant", engine=engine, dtype=dtype)
        for K, P in zip(computed, exact, strict=True):
            size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
            assert (np.abs(K - P) / size).max() <= bar


@pytest.mark.parametrize("engine", CPU)
def test_filters_and_dilations_fold_on_the_ring(engine, rng):
    """6561 taps go 729 times around 9 pixels, as 9 taps go once. Dilations count modulo lengths."""
    X, lists = rng.standard_normal((3, 2, 9)), [rng.standard_normal((2, d)) for d in (4, 6, 12)]
    long, short = (rk.gram(Network(3, q, dilation=4), X, engine=engine) for q in (6561, 9))
    for K, expected in zip(long, short, strict=True):
        assert np.abs(K - expected).max() <= tolerances.KERNEL["float64"] * expected.max()
    far = Network(3, 3, dilation=(12 * 10**12 + 5, 1, 12 * 10**9 + 7))
    folded = rk.gram(far.replace(dilation=(5, 1, 7)), lists, engine=engine)
    assert np.array_equal(rk.gram(far, lists, engine=engine), folded)
    far, lists = Network(4, 5, dilation=2**57 + 5), [rng.standard_normal((2, d)) for d in (5, 9, 4)]
    folded = rk.gram(far.replace(dilation=(2**57 + 5) % 180), lists, engine=engine)
    for K, expected in zip(rk.gram(far, lists, engine=engine), folded, strict=True):
        assert np.abs(K - expected).max() <= tolerances.KERNEL["float64"] * expected.max()


@pytest.mark.parametrize("fields", [{}, {"filter_size": 9}, {"outer_filter_size": 1}], ids=str)
@pytest.mark.parametrize("dilation", [29, 61, 700])
def test_dilations_beyond_the_length_of_a_list(dilation, fields, rng):
    """Compiled strips have rows only where windows read; arrays are rolled."""
    lists = [rng.standard_normal((2, d)) for d in (29, 31, 7, 30)]
    network = Network(3, dilation=dilation, **fields)
    for K, expected in zip(
        *(rk.gram(network, lists, engine=engine) for engine in CPU), strict=True
    ):
        assert np.abs(K - expected).max() <= 2 * tolerances.KERNEL["float64"] * expected.max()
