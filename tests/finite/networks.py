"""Networks that the tests of finite networks go through, and their definition in NumPy."""

import math

import numpy as np
import scipy.special

import rescntk as rk
from rescntk import finite, literature
from rescntk.validation import PARTS

NETWORKS = {
    "resnet": rk.Network(3, 3, alpha=0.7),
    "dilated, no skip": rk.Network(3, 3, skip=False, outer_filter_size=5, dilation=(2, 1, 4)),
    "erf": rk.Network(2, 3, activation="erf", c_w=1.5),
    "longer filter than signal": rk.Network(2, 13, outer_filter_size=5),
    "window": rk.Network(2, 3, input_filter_size=5, input_scale=0.3),
    "input trained": rk.Network(2, 3, input_filter_size=3, trained=PARTS),
    "outer frozen": rk.Network(2, 3, trained=("inner", "readout"), readout_scale=0.5),
    "inner frozen": rk.Network(2, 3, trained="outer", c_v=1.3),
    "leaky, readout alone": rk.Network(2, 3, negative_slope=0.2, c_v=1.9, trained="readout"),
    "biases": rk.Network(2, 3, bias=0.6, alpha=0.7, c_v=1.4),
    "input trained, no skip": rk.Network(2, 3, skip=False, trained=("input", "inner"), bias=0.3),
    "one convolution and skips": literature.one_convolution_resnet(2, alpha=0.8),
}

CASES = [
    *((name, "gap", (4,)) for name in NETWORKS),
    ("resnet", "equivariant", (4,)),
    ("window", "trace", (4,)),
    ("resnet", "equivariant", (3, 4)),
    ("biases", "trace", (3, 4)),
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
    options |= {"n_timepoints": pixels, "images": isinstance(sides, tuple) and len(sides) == 2}
    return finite.init(key, network, 2, width, **options)


def convolve(weights, signal, step=1):
    """Return y[:, j] = Σ_k W_k x[:, j + step·k]; j and k are pairs for an image (in, h, w)."""
    *taps, _, outputs = weights.shape
    result = np.zeros((outputs, *signal.shape[1:]))
    for index in np.ndindex(*taps):
        k = step * (np.array(index) - taps[0] // 2)
        shifted = np.roll(signal, tuple(-k), axis=tuple(range(1, signal.ndim)))
        result += np.tensordot(weights[index], shifted, axes=(0, 0))
    return result


def output(network, params, x, head):
    """Return f(x) of one signal (n_channels, d), eq. 1-3 of Barzilai et al. 2022."""
    w = np.asarray(params.readout)
    f = features(network, params, x).reshape(w.shape[-1], -1)
    (width, d), r = f.shape, network.readout_scale
    if head == "trace":
        return math.sqrt(r / (d * width)) * sum(w[j] @ f[:, j] for j in range(d))
    return math.sqrt(r / width) * w @ (f[:, 0] if head == "equivariant" else f.mean(axis=1))


def features(network, params, x):
    """Return f^L, (width, d), or (width, h, w) of an image."""
    leaky = lambda g: np.where(g > 0, g, network.negative_slope * g)  # noqa: E731
    activation = {"relu": leaky, "erf": scipy.special.erf}[network.activation]
    steps = np.broadcast_to(network.dilation, network.depth)

    def layer(part, signal, variance, step=1):
        fan_in = math.prod(part.weights.shape[:-1])
        g = math.sqrt(variance / fan_in) * convolve(np.asarray(part.weights), signal, step)
        if part.biases is None:
            return g
        return g + network.bias * np.expand_dims(part.biases, tuple(range(1, g.ndim)))

    scale = 1.0 if network.input_scale is None else len(x) * network.input_scale
    f = None if params.input is None else layer(params.input, x, scale)
    for index, W in enumerate(params.inner):
        reads_f = index > 0 or "input" in network.trained
        inputs = (f, network.c_w, steps[index]) if reads_f else (x, network.c_w * scale)
        branch = activation(layer(W, *inputs))
        if params.outer:
            branch = layer(params.outer[index], branch, network.c_v, steps[index])
        else:
            branch = math.sqrt(network.c_v) * branch
        f = f + network.alpha * branch if network.skip else branch
    return f
