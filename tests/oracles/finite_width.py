"""Networks of finite width from their definition (Barzilai et al. 2022, eq. 1-3), in NumPy."""

import math

import numpy as np
import scipy.special

from . import definition


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
    if isinstance(head, int):
        inside = definition.pools(head, x.shape[1:])
        f, head = f @ inside.T / inside[0].sum(), "trace"
    if head == "trace":
        return math.sqrt(r / (d * width)) * sum(w[j] @ f[:, j] for j in range(d))
    return math.sqrt(r / width) * w @ {"equivariant": f[:, 0], "gap": f.mean(axis=1)}[head]


def features(network, params, x):
    """Return f^L, (width, d), or (width, h, w) of an image; L is the number of inner weights."""
    name = "the definition of a finite width"
    definition.refuse_other_fields(network, definition.KNOWN_FIELDS, name)
    leaky = lambda g: np.where(g > 0, g, network.negative_slope * g)  # noqa: E731
    gelu = lambda g: g * scipy.special.ndtr(g)  # noqa: E731
    activation = {"relu": leaky, "erf": scipy.special.erf, "gelu": gelu}[network.activation]

    def layer(part, signal, variance, bias=0.0, step=1):
        fan_in = math.prod(part.weights.shape[:-1])
        g = math.sqrt(variance / fan_in) * convolve(np.asarray(part.weights), signal, step)
        if part.biases is None:
            return g
        return g + bias * np.expand_dims(part.biases, tuple(range(1, g.ndim)))

    scale = 1.0 if network.input_scale is None else len(x) * network.input_scale
    f = None if params.input is None else layer(params.input, x, scale)
    for index, W in enumerate(params.inner):
        names = "alpha", "skip", "c_v", "c_w", "bias", "dilation"
        alpha, skip, c_v, c_w, bias, step = (
            definition.layer_value(network, index + 1, name) for name in names
        )
        reads_f = index > 0 or "input" in network.trained or network.norm
        read = f
        if network.norm:
            sizes = np.sqrt((f**2).mean(axis=0))
            read = np.divide(f, sizes, out=np.zeros_like(f), where=sizes > 0)
        inputs = (read, c_w, bias, step) if reads_f else (x, c_w * scale, bias)
        branch = activation(layer(W, *inputs))
        if params.outer:
            branch = layer(params.outer[index], branch, c_v, bias, step)
        else:
            branch = math.sqrt(c_v) * branch
        f = f + alpha * branch if skip else branch
    return f
