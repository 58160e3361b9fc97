"""Nearly equal, opposite and proportional signals, and sums of small terms, in all their digits."""

from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import Network
from rescntk.checks.values import DTYPES, PARTS
from tests import tolerances
from tests.difficult_signals import profile
from tests.engines.accuracy import assert_accurate
from tests.engines.claims import assert_semidefinite
from tests.helpers import (
    ENGINES,
    GROUPS,
    HEADS,
    assert_within,
)
from tests.oracles import definition, quadruple


@pytest.mark.parametrize("change", [1e-3, 1e-7, 1e-9])
def test_deep_gelu_networks_keep_the_digits_of_nearly_equal_signals(change, rng):
    """Layers enlarge variances, until the slope is a ReLU's: the root of early deficits counts."""
    x, z = rng.standard_normal((2, 2, 1))
    X = np.stack([x, x + change * z, x * (1.0 + change), 1.5 * x])
    with definition.mp.workdps(100):
        assert_accurate(["array"], Network(40, 1, activation="gelu"), X, ["trace"])


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
    """Return a function that makes a signal, a copy changed by 1e-7, and copies of other sizes.

    Errors of the kernels of these two signals are larger than with nine in ten other seeds.
    """

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


def opposite_of_many_channels(rng):
    x = rng.standard_normal((1, 12, 3))
    return np.concatenate([x, -x * (1 + 1e-7 * rng.standard_normal(x.shape)), -3.0 * x])


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
    "opposite pixels of many channels": (
        Network(2, 1, alpha=1e-4, trained=("inner",)), opposite_of_many_channels, HEADS
    ),
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
def test_kernels_of_near_ties_and_small_terms_are_exact(engines, name, rng):
    network, make, heads = CASES[name]
    with definition.mp.workdps(80):  # the oracle itself cancels α^4 = 1e-36
        assert_accurate(engines, network, make(rng), heads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_near_ties_are_semidefinite(engine, dtype, rng):
    """Many signals have one profile, or differ in signs and shifts while branches are weak."""
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
def test_proportional_signals_stay_proportional_at_depth_5000(skip, head, engine):
    kernel = rk.Kernel(Network(5000, skip=skip), "ntk", head, normalized=True)
    X = np.array([[[51.0, 38, 31, 16]], [[153.0, 114, 93, 48]]])
    assert abs(kernel(X, engine=engine) - 1).max() <= tolerances.DEEP_KERNEL


NETWORKS_OF_ONE_PIXEL = {
    "all parts": Network(50, 1),
    "input trained": Network(50, 1, skip=False, trained=("input",)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NETWORKS_OF_ONE_PIXEL)
@pytest.mark.parametrize("q", [3, 5, 7, 9, 13, 31])
@pytest.mark.parametrize("engine", ENGINES)
def test_filters_change_nothing_of_one_pixel(engine, q, name, dtype):
    """Signals are nearly equal, and kernels compared with those of filters of one pixel."""
    angles = tolerances.EPS[dtype] * np.logspace(-0.5, 3, 15)
    X = np.array([[1.0, 0.0]] * 15)[..., None]
    Z = np.stack([np.cos(angles), np.sin(angles)], axis=1)[..., None]
    kernel = rk.Kernel(NETWORKS_OF_ONE_PIXEL[name], "ntk", "trace", normalized=True)
    expected = kernel.paired(X, Z, engine=engine)
    found = kernel.replace(filter_size=q).paired(X, Z, engine=engine, dtype=dtype)
    assert_within(found, expected, tolerances.PROMISED[dtype], 1)


# Found by `benchmarks/accuracy.py --part climbs`, as the signals of the test below were: kernels
# that carried T + F with frozen inner weights erred by 1.1e-5 in float32.
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
def test_deep_networks_with_frozen_inner_weights_are_exact(engine, name, dtype):
    """All layers of nearly equal signals round alike. The exact kernels have 128 bits."""
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
