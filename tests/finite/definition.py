"""A finite network from its definition, in NumPy: tap by tap, layer by layer."""

import math

import numpy as np
import scipy.special


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
    f = features(network, params, x)
    f, w = f.reshape(len(f), -1), np.asarray(params.readout)
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
