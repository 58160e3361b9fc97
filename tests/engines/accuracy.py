"""Networks of many kinds, and the comparison of engines with the definition in 40 digits."""

from itertools import product

import rescntk as rk
from rescntk import Network
from rescntk.checks.values import KINDS, PARTS
from tests import tolerances
from tests.helpers import (
    HEADS,
    skip_unless_supported,
    supports,
)
from tests.oracles import definition

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
    taking = [engine for engine in engines if supports(engine, network)]
    if not taking:  # before the oracle's work
        skip_unless_supported(engines[0], network)
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
            assert K == turned
