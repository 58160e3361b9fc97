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

    def layer(signal, taps, scale, step=1):
        shape = (taps, width, signal.shape[1])
        weights = rng.standard_normal(shape, dtype=np.float32)
        return np.float32(scale) * convolve(weights, signal, step)

    channels, X = X.shape[1], X.astype(np.float32)
    f = layer(X, 1, channels**-0.5)
    for index in range(network.depth):
        step = network.dilation if isinstance(network.dilation, int) else network.dilation[index]
        if index == 0:
            g = layer(X, 1, (network.c_w / channels) ** 0.5)
        else:
            q = network.filter_size
            g = layer(f, q, (network.c_w / (q * width)) ** 0.5, step)
        q = network.outer_filter_size
        branch = layer(np.maximum(g, 0), q, (network.c_v / (q * width)) ** 0.5, step)
        f = f + np.float32(network.alpha) * branch if network.skip else branch
    return f
