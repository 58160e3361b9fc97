"""A wide finite network, sampled from the definition (Barzilai et al. 2022, eq. 1-3)."""

import numpy as np
import pytest

import rescntk as rk
from tests import tolerances
from tests.oracles import finite

pytestmark = pytest.mark.slow

# Standard errors go like (WIDTH · NETWORKS)^(-1/2), the time like WIDTH² · NETWORKS.
WIDTH, NETWORKS = 700, 36


@pytest.mark.parametrize("skip", [True, False])
def test_gaussian_process_kernel_of_a_wide_network(skip, rng):
    """The mean over channels of f^L_j(x) f^L_j'(z) estimates the kernel at every pixel pair."""
    X = rng.standard_normal((2, 3, 4))
    network = rk.Network(2, 3, skip=skip, alpha=0.8)
    estimates = []
    for _ in range(NETWORKS):
        f = finite.features(X, network, WIDTH, rng)
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


def test_gap_of_dilated_networks_on_signals_of_different_lengths(rng):
    """One network sees all signals: the mean of its features is a vector, whatever the length."""
    X = [rng.standard_normal((3, d)) for d in (4, 7, 6)]
    X[1][:, :4] = X[0]
    network, width = rk.Network(3, 3, alpha=0.8, dilation=(1, 2, 3)), 300
    estimates = []
    for seed in range(NETWORKS):
        means = [
            finite.features(x[None], network, width, np.random.default_rng(seed))[0].mean(axis=1)
            for x in X
        ]
        estimates.append(np.stack(means) @ np.stack(means).T / width)
    estimates = np.array(estimates, dtype=np.float64)
    exact = rk.Kernel(network, "gpk")(X)
    error = estimates.std(axis=0, ddof=1) / NETWORKS**0.5
    size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    bar = tolerances.STANDARD_ERRORS * error + network.depth / width * size
    assert (np.abs(estimates.mean(axis=0) - exact) <= bar).all()
    # The test has teeth: padded to one length, signals have another kernel.
    assert (bar <= 0.15 * size).all()
    padded = np.stack([np.pad(x, ((0, 0), (0, 7 - x.shape[1]))) for x in X])
    assert (np.abs(estimates.mean(axis=0) - rk.Kernel(network, "gpk")(padded)) > bar).any()
