"""A wide finite network, sampled from the definition (Barzilai et al. 2022, eq. 1-3)."""

import numpy as np
import pytest

import rescntk as rk
from tests import tolerances

WIDTH, NETWORKS = 2000, 12


def convolve(weights, signal):
    """Circular convolution: weights (taps, out, in), signal (cases, in, d)."""
    half = len(weights) // 2
    return sum(
        np.einsum("oi,nij->noj", w, np.roll(signal, -k, axis=2), optimize=True)
        for k, w in zip(range(-half, half + 1), weights, strict=True)
    )


def features(X, network, rng):
    """Return f^L of one random network of width WIDTH, (cases, WIDTH, d)."""

    def layer(signal, taps, scale):
        shape = (taps, WIDTH, signal.shape[1])
        weights = rng.standard_normal(shape, dtype=np.float32)
        return np.float32(scale) * convolve(weights, signal)

    channels, X = X.shape[1], X.astype(np.float32)
    f = layer(X, 1, channels**-0.5)
    for index in range(network.depth):
        if index == 0:
            g = layer(X, 1, (network.c_w / channels) ** 0.5)
        else:
            q = network.filter_size
            g = layer(f, q, (network.c_w / (q * WIDTH)) ** 0.5)
        q = network.outer_filter_size
        branch = layer(np.maximum(g, 0), q, (network.c_v / (q * WIDTH)) ** 0.5)
        f = f + np.float32(network.alpha) * branch if network.skip else branch
    return f


@pytest.mark.parametrize("skip", [True, False])
def test_gaussian_process_kernel_of_a_wide_network(skip, rng):
    """The mean over channels of f^L_j(x) f^L_j'(z) estimates the kernel at every pixel pair."""
    X = rng.standard_normal((2, 3, 4))
    network = rk.Network(2, 3, skip=skip, alpha=0.8)
    estimates = []
    for _ in range(NETWORKS):
        f = features(X, network, rng)
        estimates.append(np.einsum("ncj,mck->nmjk", f, f, optimize=True) / WIDTH)
    estimates = np.array(estimates, dtype=np.float64)
    mean = estimates.mean(axis=0)
    error = estimates.std(axis=0, ddof=1) / NETWORKS**0.5
    exact = rk.pixel_pairs(network, X, kind="gpk")
    own = np.array([exact[i, i].diagonal() for i in range(2)])
    # Finite width moves the mean itself by a relative depth/width.
    bias = network.depth / WIDTH * np.sqrt(own[:, None, :, None] * own[None, :, None, :])
    assert (np.abs(mean - exact) <= tolerances.STANDARD_ERRORS * error + bias).all()
    # The test has teeth: the bound is a few percent of the kernel.
    assert (tolerances.STANDARD_ERRORS * error + bias).max() <= 0.15 * own.max()
