"""A finite network from its definition, in NumPy: pixel by pixel, tap by tap."""

import math

import numpy as np
import scipy.special


def convolve(weights, signal, step=1):
    """Return y[:, j] = Σ_k W_k x[:, j + step·k]; j and k are pairs for an image (in, h, w)."""
    *taps, _, outputs = weights.shape
    q, sides = taps[0], np.array(signal.shape[1:])
    result = np.zeros((outputs, *sides))
    for j in np.ndindex(*sides):
        for index in np.ndindex(*taps):
            k = step * (np.array(index) - q // 2)
            result[:, *j] += weights[index].T @ signal[:, *(j + k) % sides]
    return result


def output(network, params, x, head):
    """Return f(x) of one signal (n_channels, d), eq. 1-3 of Barzilai et al. 2022."""
    f = features(network, params, x)
    f = f.reshape(len(f), -1)
    (width, d), r = f.shape, network.readout_scale
    w = np.asarray(params.readout)
    if head == "equivariant":
        return math.sqrt(r / width) * w @ f[:, 0]
    if head == "gap":
        return math.sqrt(r / width) * w @ f.mean(axis=1)
    return math.sqrt(r / (d * width)) * sum(w[j] @ f[:, j] for j in range(d))


def features(network, params, x):
    """Return f^L, (width, d), or (width, h, w) of an image."""
    channels = len(x)
    scale = 1 / channels if network.input_scale is None else network.input_scale
    window = network.input_filter_size ** (x.ndim - 1)
    leaky = lambda g: np.where(g > 0, g, network.negative_slope * g)  # noqa: E731
    activation = {"relu": leaky, "erf": scipy.special.erf}[network.activation]

    steps = network.dilation
    steps = (steps,) * network.depth if isinstance(steps, int) else steps

    def biased(g, layer):
        if network.bias == 0:
            return g
        return g + network.bias * np.expand_dims(layer.biases, tuple(range(1, g.ndim)))

    def layer(weights, signal, variance, step):
        fan_in = math.prod(weights.shape[:-1])
        return math.sqrt(variance / fan_in) * convolve(np.asarray(weights), signal, step)

    f = None
    if params.input is not None:
        f = math.sqrt(scale / window) * convolve(np.asarray(params.input.weights), x)
    for index in range(network.depth):
        W = np.asarray(params.inner[index].weights)
        if index > 0 or "input" in network.trained:
            g = layer(W, f, network.c_w, steps[index])
        else:
            g = math.sqrt(network.c_w * scale / window) * convolve(W, x)
        branch = activation(biased(g, params.inner[index]))
        if not params.outer:
            branch = math.sqrt(network.c_v) * branch
        else:
            V = params.outer[index]
            branch = biased(layer(V.weights, branch, network.c_v, steps[index]), V)
        f = f + network.alpha * branch if network.skip else branch
    return f
