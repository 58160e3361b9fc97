"""A wide finite network, sampled from the definition (Barzilai et al. 2022, eq. 1-3)."""

import numpy as np
import pytest

import rescntk as rk
from tests import tolerances
from tests.oracles import finite

pytestmark = pytest.mark.slow

# Standard errors go like (WIDTH · NETWORKS)^(-1/2), the time like WIDTH² · NETWORKS.
WIDTH, NETWORKS = 300, 84


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
