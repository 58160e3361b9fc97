"""The comparison of engines with the definition in 40-digit arithmetic."""

import rescntk as rk
from rescntk.validation import HEADS, KINDS
from tests import tolerances
from tests.engine_names import skip_unless_taken, takes
from tests.oracles import definition

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
    "leaky": (rk.Network(6, 3, outer_filter_size=5, negative_slope=0.3, alpha=0.8, c_v=1.9), 5),
    "leaky, no skip": (rk.Network(4, 3, skip=False, negative_slope=0.1), 5),
    "linear": (rk.Network(4, 3, negative_slope=1.0, c_v=1.0), 5),
    "long filter": (rk.Network(3, 9), 4),
    "one pixel": (rk.Network(7, 3), 1),
    "dilated": (rk.Network(4, 3, outer_filter_size=5, dilation=2, input_filter_size=3), 6),
    "growing dilations": (rk.Network(4, 3, alpha=0.7, dilation=(1, 2, 4, 8)), 7),
    "biases": (
        rk.Network(4, 5, outer_filter_size=3, input_filter_size=3, alpha=0.6, c_v=1.4, bias=0.7,
                   negative_slope=0.2, dilation=2, trained=("input", "outer", "readout")),
        5,
    ),
    "biases, no skip": (
        rk.Network(50, skip=False, negative_slope=0.1, bias=0.3, trained=("inner",)), 4
    ),
}  # fmt: skip


def assert_accurate(engines, network, X, heads=HEADS):
    """Compare engines in every precision, head and kind with the definition."""
    taking = [engine for engine in engines if takes(engine, network)]
    if not taking:  # before the oracle's work
        skip_unless_taken(engines[0], network)
    depths = definition.pixel_pairs(X, network)
    exact = depths[network.depth]
    spread = 1.0
    if network.activation == "erf":  # any layer may have the largest pre-activations
        scale = 1 / X.shape[1] if network.input_scale is None else network.input_scale
        entering = scale * (X**2).sum(axis=1).max()
        features = [gpk.diagonal(axis1=2, axis2=3).max() for gpk, _ in depths.values()]
        variance = max(entering, float(max(features)) / network.readout_scale)
        spread = tolerances.erf_spread(network.c_w * variance)
    for engine in taking:
        for dtype, bar in tolerances.KERNEL.items():
            for head in heads:
                # An odd activation has terms of both signs, which GAP may cancel altogether;
                # its errors are relative to the terms.
                odd = network.activation == "erf" or network.negative_slope == 1.0
                yardstick = "trace" if odd and head == "gap" else head
                computed = rk.gram(network, X, head=head, dtype=dtype, engine=engine)
                for kind, K, P in zip(KINDS, computed, exact, strict=True):
                    own = definition.head(P, yardstick).diagonal()
                    error = definition.errors(K, definition.head(P, head), own)
                    assert error <= bar * spread, (engine, dtype, head, kind, error)
