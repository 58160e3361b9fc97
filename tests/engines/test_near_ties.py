"""Deep kernels of proportional signals, and of signals that nearly agree.

Rounding errors of layers have one sign there, or all layers have the same ones: they add up.
"""

import numpy as np
import pytest

import rescntk as rk
from tests import tolerances
from tests.engine_names import ENGINES
from tests.engines.bodies import accuracy
from tests.oracles import definition

CNN = rk.CNTK(50, 5).network
INPUT = CNN.replace(trained=("input",))
RAMP = [[4, 17, 30]]

PROPORTIONAL = {
    "short": (CNN, "equivariant", RAMP, 17),
    "input": (INPUT, "equivariant", RAMP, 17),
    "gap": (INPUT, "gap", [[22, 7, 50, 26, 51], [30, 40, 51, 3, 2]], 13),
    "large alpha": (
        rk.Network(50, 5, alpha=56.7, trained=("input",)),
        "equivariant",
        [[12, 16], [35, 25], [27, 18]],
        12,
    ),
    "long filter": (rk.Network(50, 9, alpha=14.6), "equivariant", RAMP, 17),
    "padded": (rk.CNTK(50, 7).network, "trace", [[0, 0, 0, 43, 0, 0]], 21),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROPORTIONAL)
def test_proportional_signals(name, engine):
    """K(x, a x) = a K(x, x), and K(x, x) is the definition's."""
    network, head, x, factor = PROPORTIONAL[name]
    X = np.array([x], dtype=float)
    exact = definition.head(definition.pixel_pairs(X, network)[50][1], head)[0, 0]
    kernel = rk.Kernel(network, "ntk", head)
    for dtype, bar in tolerances.KERNEL.items():
        options = {"engine": engine, "dtype": dtype}
        own = kernel.replace(normalized=True)(X, factor * X, **options)
        assert abs(own - 1).max() <= bar
        if float(exact) < float(np.finfo(dtype).max) / factor:
            for K, a in ((kernel(X, factor * X, **options), factor), (kernel(X, **options), 1)):
                assert abs(definition.mp.mpf(float(K[0, 0])) / (a * exact) - 1) <= bar


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("skip", "head"), [(False, "gap"), (True, "trace")])
def test_proportional_signals_at_depth_5000(skip, head, engine):
    kernel = rk.Kernel(rk.Network(5000, skip=skip), "ntk", head, normalized=True)
    X = np.array([[[51.0, 38, 31, 16]], [[153.0, 114, 93, 48]]])  # one Gram: a single pass
    assert abs(kernel(X, engine=engine) - 1).max() <= tolerances.DEEP_KERNEL


@pytest.mark.parametrize("engine", ENGINES)
def test_signals_that_nearly_agree(engine):
    """Copies changed by 1e-7, and parallel pixels of other amplitudes, at depth 50."""
    x, change = np.random.default_rng(976188).standard_normal((2, 3, 5))
    accuracy.assert_accurate([engine], CNN, np.stack([x, x * (1 + 1e-7 * change)]), ["trace"])
    pair = np.array([[[1.0, 0.5]], [[1.0, 0.3]]])
    for slope in (0.0, 0.5):
        network = rk.Network(50, 1, alpha=2.034, negative_slope=slope, readout_scale=1e-10)
        accuracy.assert_accurate([engine], network, pair, ["trace"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("bias", "depth"), [(1e-3, 20), (0.3, 50), (30.0, 20)])
def test_biases_of_signals_that_nearly_agree(bias, depth, engine):
    """Copies changed by 1e-7, and proportional signals, whose windows biases make different."""
    x, change = np.random.default_rng(976188).standard_normal((2, 3, 5))
    X = np.stack([x, x * (1 + 1e-7 * change), 1e3 * x, 1e-4 * x])
    for skip in (True, False):
        network = rk.Network(depth, 5 if skip and depth < 50 else 3, skip=skip, bias=bias)
        accuracy.assert_accurate([engine], network, X, ["trace"])


SMALL_BESIDE_BIASES = {
    "weak branches": {"alpha": 1e-5},
    "weaker branches": {"alpha": 1e-8},
    "large biases": {"alpha": 1e-5, "bias": 1e6},
    "small c_w": {"c_w": 1e-6, "filter_size": 1, "outer_filter_size": 5},
    "far sizes": {"alpha": 0.003, "bias": 300.0},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SMALL_BESIDE_BIASES)
def test_signals_that_are_small_beside_biases(name, engine, rng):
    network = rk.Network(**{"depth": 2, "filter_size": 5, "bias": 1.0} | SMALL_BESIDE_BIASES[name])
    x, z = rng.standard_normal((2, 1, 3))
    X = np.stack([x, 1e-8 * z, 0 * x])
    accuracy.assert_accurate([engine], network, X, ["trace", "gap"])
