"""Networks that the tests of finite networks go through: every part of the description once."""

import math

import rescntk as rk
from rescntk import finite, literature
from rescntk.validation import PARTS

NETWORKS = {
    "resnet": rk.Network(3, 3, alpha=0.7),
    "no skip": rk.Network(3, 3, skip=False),
    "dilated": rk.Network(3, 3, outer_filter_size=5, dilation=(2, 1, 4)),
    "leaky": rk.Network(2, 3, negative_slope=0.2, c_v=1.9),
    "erf": rk.Network(2, 3, activation="erf", c_w=1.5),
    "longer filter than signal": rk.Network(2, 13, outer_filter_size=5),
    "window": rk.Network(2, 3, input_filter_size=5, input_scale=0.3),
    "input trained": rk.Network(2, 3, input_filter_size=3, trained=PARTS),
    "input trained, no skip": rk.Network(2, 3, skip=False, trained=("input", "inner")),
    "outer frozen": rk.Network(2, 3, trained=("inner", "readout"), readout_scale=0.5),
    "inner frozen": rk.Network(2, 3, trained="outer", c_v=1.3),
    "readout alone": rk.Network(2, 3, trained="readout"),
    "biases": rk.Network(2, 3, bias=0.6, alpha=0.7, c_v=1.4),
    "biases, no skip": rk.Network(2, 1, skip=False, bias=0.6, trained=("inner", "readout")),
    "one convolution": literature.geifman_cnn(3),
    "one convolution and skips": literature.one_convolution_resnet(2, alpha=0.8),
}

CASES = [
    *((name, "gap", (4,)) for name in NETWORKS),
    ("resnet", "equivariant", (4,)),
    ("window", "trace", (4,)),
    ("resnet", "equivariant", (3, 4)),
    ("biases", "trace", (3, 4)),
    ("longer filter than signal", "gap", (3, 4)),
    ("window", "trace", (3, 4)),
    ("window", "gap", [7, 1, 7, 4]),
]
"""Every network with the head "gap", which mixes all pixels; other heads, images, lists."""


def draw(rng, sides=(4,)):
    """Return 3 signals or images of 2 channels; for a list of lengths one signal of each."""
    if isinstance(sides, list):
        return [rng.standard_normal((2, d)) for d in sides]
    return rng.standard_normal((3, 2, *sides))


def parameters(network, head="gap", sides=(4,), width=5, key=1, **options):
    """Return parameters for what `draw` returns."""
    pixels = math.prod(sides) if head == "trace" else None
    images = isinstance(sides, tuple) and len(sides) == 2
    return finite.init(key, network, 2, width, n_timepoints=pixels, images=images, **options)
