"""Finite networks, sampled from their definition (Barzilai et al. 2022, eq. 1-3)."""

import numpy as np


def convolve(weights, signal, step=1):
    """Circular convolution: weights (taps, out, in), signal (cases, in, d)."""
    half = len(weights) // 2
    return sum(
        np.einsum("oi,nij->noj", w, np.roll(signal, -k * step, axis=2), optimize=True)
        for k, w in zip(range(-half, half + 1), weights, strict=True)
    )


def features(X, network, width, rng):
    """Return f^L of one random network of this width, (cases, width, d)."""

    def layer(signal, taps, scale):
        shape = (taps, width, signal.shape[1])
        weights = rng.standard_normal(shape, dtype=np.float32)
        return np.float32(scale) * convolve(weights, signal)

    channels, X = X.shape[1], X.astype(np.float32)
    f = layer(X, 1, channels**-0.5)
    for index in range(network.depth):
        if index == 0:
            g = layer(X, 1, (network.c_w / channels) ** 0.5)
        else:
            q = network.filter_size
            g = layer(f, q, (network.c_w / (q * width)) ** 0.5)
        q = network.outer_filter_size
        branch = layer(np.maximum(g, 0), q, (network.c_v / (q * width)) ** 0.5)
        f = f + np.float32(network.alpha) * branch if network.skip else branch
    return f


def squared_gradients(network, X, width, n_outputs, rng):
    """Return the mean of |∂f_Eq/∂x_ci|² over channels c and outputs of one random network."""
    channels, d = X.shape

    def weights(taps, inputs, scale):
        return np.sqrt(scale / (taps * inputs)) * rng.standard_normal((taps, width, inputs))

    def back(weights, gradient):
        return convolve(weights[::-1].transpose(0, 2, 1), gradient)

    V0 = weights(1, channels, 1.0)
    features, layers = convolve(V0, X[None]), []
    for layer in range(1, network.depth + 1):
        below = X[None] if layer == 1 else features
        W = weights(1 if layer == 1 else network.filter_size, below.shape[1], network.c_w)
        V = network.alpha * weights(network.outer_filter_size, width, network.c_v)
        g = convolve(W, below)
        features = network.skip * features + convolve(V, np.maximum(g, 0))
        layers.append((W, V, g > 0))
    gradient = np.zeros((n_outputs, width, d))
    gradient[:, :, 0] = rng.standard_normal((n_outputs, width)) / np.sqrt(width)
    for W, V, active in layers[:0:-1]:
        gradient = network.skip * gradient + back(W, active * back(V, gradient))
    W, V, active = layers[0]
    by_input = network.skip * back(V0, gradient) + back(W, active * back(V, gradient))
    return (by_input**2).mean(axis=(0, 1))
