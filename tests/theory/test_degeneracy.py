"""Huang et al. 2020: limits and rates of infinite depth, and the regression that learns nothing."""

from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import degeneracy, smoothness
from tests import tolerances

pytestmark = pytest.mark.slow

ANGLES = np.array([0.3, 1.0, 2.0, 2.8])
T = np.cos(ANGLES)


def pairs(depths, gamma=1.0, angles=ANGLES):
    """Return both kernels of the pairs with these angles, (n_depths, n_angles)."""
    X, Z = smoothness.circle(angles), smoothness.circle([0.0])
    ntk = partial(rk.gram, X=X, Z=Z, head="trace", kinds=("ntk",), normalized=True)
    ffnet = ntk(literature.huang_ffnet(1), depths=depths)[0][..., 0]
    return ffnet, np.stack([ntk(literature.huang_resnet(L, gamma))[0][:, 0] for L in depths])


def test_the_ffnet_tends_to_a_quarter_with_the_rate_three_eighths_log_l_over_l():
    """Theorem 6; L(Ω̄ − ¼) − (3/8) log L tends to a constant for each pair."""
    depths = (500, 2000)
    ffnet, _ = pairs(depths)
    distance = ffnet - degeneracy.ffnet_limit(T)
    assert (np.abs(distance[1]) < np.abs(distance[0]) / 3).all()
    rest = [L * (d - degeneracy.ffnet_rate(L)) for L, d in zip(depths, distance, strict=True)]
    bar = tolerances.next_of_the_ffnet(depths[0])
    assert np.abs(rest[1] - rest[0]).max() <= bar
    # Without the logarithm it would drift by (3/8) log 4 = 0.52 …
    drift = depths[1] * distance[1] - depths[0] * distance[0]
    assert np.abs(drift - 0.375 * np.log(4)).max() <= bar
    assert (degeneracy.ffnet_limit([1.0, 0.999999, -1.0]) == [1, 0.25, 0.25]).all()


@pytest.mark.parametrize("gamma", [1.0, 0.75])
def test_the_resnet_tends_to_one_layer_with_the_predicted_rate(gamma):
    """Theorem 7: distance c(t) Lα², with c(t) to within a multiple of Lα²; 1 is depth 1 itself."""
    depths = (1, 50, 200, 800)
    _, resnet = pairs(depths, gamma)
    assert np.abs(resnet[0] - degeneracy.resnet_limit(T)).max() <= tolerances.ROUTES
    relative = []
    for L, values in zip(depths[1:], resnet[1:], strict=True):
        small = L ** (1 - 2 * gamma)
        error = (values - degeneracy.resnet_limit(T)) / small - degeneracy.resnet_rate(T)
        assert (np.abs(error) <= tolerances.next_of_the_resnet(T, small)).all()
        relative.append(np.abs(error).max() / small)
    assert relative[1] < 2 * relative[0] and relative[2] < 2 * relative[1]  # it falls like Lα²


def test_opposite_vectors_converge_like_a_square_root():
    """Theorem 7 claims O(1/L) for |1 − t| ≥ δ; at t = −1 it is −√2/(3π) L^(−1/2)."""
    depths = np.array([50, 200, 800])
    found = pairs(depths.tolist(), angles=[np.pi])[1][:, 0]
    scaled = found * np.sqrt(depths) / (-np.sqrt(2) / (3 * np.pi))
    assert (np.abs(scaled - 1) <= tolerances.next_of_opposites(depths)).all()
    assert degeneracy.resnet_rate(1.0) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: degeneracy.ffnet_rate([2, 0]), "depth is 0, expected an integer of at least 1"),
        (lambda: degeneracy.resnet_rate([-1.0]), "t has the value -1"),
        (lambda: degeneracy.resnet_limit([1.1]), "t has values from 1.1 .*expected dot products"),
        (lambda: degeneracy.ffnet_limit(np.nan), r"^t .*expected real numbers in \[-1, 1\]"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
