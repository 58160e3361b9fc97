"""Networks that the tests of finite networks go through: every part of the description once."""

import math

import rescntk as rk
from rescntk import finite, literature

NETWORKS = {
    "resnet": rk.Network(3, 3, alpha=0.7),
    "no skip": rk.Network(3, 3, skip=False),
    "dilated": rk.Network(3, 3, outer_filter_size=5, dilation=(2, 1, 4)),
    "leaky": rk.Network(2, 3, negative_slope=0.2, c_v=1.9),
    "erf": rk.Network(2, 3, activation="erf", c_w=1.5),
    "longer filter than signal": rk.Network(2, 13, outer_filter_size=5),
    "window": rk.Network(2, 3, input_filter_size=5, input_scale=0.3),
    "input trained": rk.Network(
        2, 3, input_filter_size=3, trained=("input", "inner", "outer", "readout")
    ),
    "input trained, no skip": rk.Network(2, 3, skip=False, trained=("input", "inner")),
    "outer frozen": rk.Network(2, 3, trained=("inner", "readout"), readout_scale=0.5),
    "inner frozen": rk.Network(2, 3, trained="outer", c_v=1.3),
    "readout alone": rk.Network(2, 3, trained="readout"),
    "biases": rk.Network(2, 3, bias=0.6, alpha=0.7, c_v=1.4),
    "biases, no skip": rk.Network(2, 1, skip=False, bias=0.6, trained=("inner", "readout")),
    "one convolution": literature.geifman_cnn(3),
    "one convolution and skips": literature.one_convolution_resnet(2, alpha=0.8),
}

IMAGES = [
    ("resnet", "equivariant"),
    ("biases", "trace"),
    ("longer filter than signal", "gap"),
    ("window", "trace"),
]
"""Networks and heads that go through images, of 3 × 4 pixels."""


def parameters(width, network, head="gap", sides=(4,), key=1, **options):
    """Return parameters for signals or images of 2 channels, with pixels (d,) or (h, w)."""
    pixels = math.prod(sides) if head == "trace" else None
    images = len(sides) == 2
    return finite.init(key, network, 2, width, n_timepoints=pixels, images=images, **options)
