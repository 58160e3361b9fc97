"""Jacobian bounds against their formulas, and against sampled networks."""

import numpy as np
import pytest

from rescntk import literature
from rescntk.theory import smoothness
from tests import tolerances

EPS = tolerances.EPS["float64"]


def ratio(resnet):
    """Return B_ResNet/B_MLP of networks of one depth and σ_w."""
    mlp = literature.tirer_mlp(resnet.depth, np.sqrt(resnet.c_w))
    mlp = mlp.replace(activation=resnet.activation)
    return smoothness.jacobian_bound(resnet, 10, 2) / smoothness.jacobian_bound(mlp, 10, 2)


@pytest.mark.parametrize(("activation", "c_phi"), [("relu", 1.0), ("erf", 2 / np.sqrt(np.pi))])
def test_bounds_are_those_of_the_paper(rng, activation, c_phi):
    for depth in (1, 2, 7):
        alpha, sigma_v, sigma_w = rng.uniform(0.05, 2, 3)
        n, d = (int(v) for v in rng.integers(1, 500, 2))
        resnet = literature.tirer_resnet(depth, alpha, sigma_v, sigma_w)
        mlp = literature.tirer_mlp(depth, sigma_w)
        resnet, mlp = (net.replace(activation=activation) for net in (resnet, mlp))
        first = 2 * sigma_w * (1 + 2 * np.sqrt(n / d))
        b_resnet = first * (1 + 9 * alpha * c_phi * sigma_v * sigma_w) ** depth
        b_mlp = first * c_phi * sigma_w * (3 * c_phi * sigma_w) ** (depth - 1)
        bounds = [smoothness.jacobian_bound(net, n, d) for net in (resnet, mlp)]
        assert abs(bounds[0] / b_resnet - 1) <= 100 * EPS
        assert abs(bounds[1] / b_mlp - 1) <= 100 * EPS


def test_threshold_is_where_the_bounds_meet():
    for depth in (2, 3, 15, 300):
        at = smoothness.alpha_threshold(depth)
        assert abs(at - (3 ** (1 - 1 / depth) - 1) / 9) <= 8 * EPS
    for depth, v, w in ((2, 1, 1), (300, 1, 1), (2, 0.5, 1.3), (7, 2.0, 0.9)):
        for activation in ("relu", "erf"):
            at = smoothness.alpha_threshold(depth, sigma_v=v, sigma_w=w, activation=activation)
            network = literature.tirer_resnet(depth, at, v, w).replace(activation=activation)
            assert at > 0 and abs(ratio(network) - 1) <= 20 * depth * EPS
    # The paper: α = 0.1 implies B_ResNet ≤ B_MLP for any L ≥ 3; it does from there on only.
    assert smoothness.alpha_threshold(2) < 0.1 < smoothness.alpha_threshold(3)
    thresholds = [smoothness.alpha_threshold(depth) for depth in range(1, 100)]
    assert thresholds[0] == 0 and (np.diff(thresholds) > 0).all() and thresholds[-1] < 2 / 9
    # Beyond float64 it is infinite; 3^(1−1/L)/(9 σ_v) for σ_w → ∞ is not.
    for v, w, sign in ((1e-320, 1.0, 1), (1.0, 1e-320, -1), (1e-320, 1e-320, -1)):
        assert smoothness.alpha_threshold(5, sigma_v=v, sigma_w=w) == sign * np.inf
    assert abs(smoothness.alpha_threshold(5, sigma_w=1e308) / (3**0.8 / 9) - 1) <= 8 * EPS
    assert smoothness.jacobian_bound(literature.tirer_resnet(10**6, 1.0), 10, 2) == np.inf
    # No α: the ResNet's bound is larger already without branches.
    assert smoothness.alpha_threshold(5, sigma_w=0.3) < 0
    assert ratio(literature.tirer_resnet(5, 0.0, 1.0, 0.3)) > 1


def test_refusals():
    mlp, resnet = literature.tirer_mlp(3), literature.tirer_resnet(3, 0.1)
    frozen = resnet.replace(trained=("inner", "outer", "readout"))
    wrong = literature.huang_ffnet(3), mlp.replace(c_v=2.0), mlp.replace(readout_scale=2.0), frozen
    for network in (*wrong, resnet.replace(filter_size=3), "mlp"):
        with pytest.raises(ValueError, match="network is "):
            smoothness.jacobian_bound(network, 10, 2)
    with pytest.raises(ValueError, match="width is 0"):
        smoothness.jacobian_bound(mlp, 0, 2)
