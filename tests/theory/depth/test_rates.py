"""Rates and limits in closed form, against deep networks."""

from functools import partial

import mpmath
import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import multisphere, smoothness
from rescntk.theory.depth import (
    asymptotic_complement,
    huang_ffnet_distance,
    huang_ffnet_limit,
    huang_resnet_constant,
    huang_resnet_limit,
)
from tests import tolerances

ANGLES = np.array([0.3, 1.0, 2.0, 2.8])
T = np.cos(ANGLES)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("depth", [500, 3000])
def test_the_asymptotic_law(alpha, skip, depth):
    """δ_L → (9π²/2)/(pL)² from any start, from below, with the next term known."""
    network, start = rk.Network(depth, alpha=alpha, skip=skip), [1.0, 0.3, 1.5, 0.01]
    complement = multisphere.normalized_gpk(network, start, complement=True)
    law = asymptotic_complement(network)
    assert (complement < law).all()
    bar = tolerances.asymptote(depth, 1 / network.branch_share, np.mean(start))
    assert np.abs(complement / law - 1).max() <= bar


@pytest.mark.parametrize(("skip", "rest"), [(False, 119), (True, 245)])
def test_the_next_term_of_close_signals(skip, rest):
    """The difference comes near to 3√2π/(p √δ_0), from below."""
    network, start = rk.Network(8000, 1, skip=skip), 0.01
    complement = multisphere.normalized_gpk(network, [start], complement=True)[0]
    found = 8000 * (1 - complement / asymptotic_complement(network)) - 3 * np.log(8000)
    limit = 3 * np.pi * np.sqrt(2 / start) / network.branch_share
    assert round(found) == rest and 0.85 * limit < found < limit


@pytest.mark.parametrize("skip", [True, False])
def test_the_asymptotic_law_of_leaky_networks(skip):
    """s/(1 − λ) for s, where the gain in s has the factor 1 + slope²."""
    depth, alpha, slope = 4000, 0.5, 0.5
    network = rk.Network(depth, 1, alpha=alpha, skip=skip, negative_slope=slope)
    gain = alpha**2 * (1 + slope**2)
    s = ((1 + gain) / gain if skip else 1.0) / (1 - 2 * slope / (1 + slope**2))
    complement = 1 - rk.Kernel(network, "gpk", normalized=True)(np.eye(2)[:, :, None])[0, 1]
    error = complement / (4.5 * np.pi**2 * (s / depth) ** 2) - 1
    assert abs(error) <= tolerances.asymptote(depth, s, 1.0) < 0.12


def huang(depths, gamma=1.0, angles=ANGLES):
    """Return both kernels of pairs with these angles, (n_depths, n_angles)."""
    X, Z = smoothness.circle(angles), smoothness.circle([0.0])
    ntk = partial(rk.gram, X=X, Z=Z, head="trace", kinds=("ntk",), normalized=True)
    ffnet = ntk(literature.huang_ffnet(1), depths=depths)[0][..., 0]
    return ffnet, np.stack([ntk(literature.huang_resnet(L, gamma))[0][:, 0] for L in depths])


def test_the_ffnet_tends_to_a_quarter_with_the_rate_three_eighths_log_l_over_l():
    """Theorem 6; L(Ω̄ − ¼) − (3/8) log L tends to a constant for each pair."""
    depths = (500, 2000)
    ffnet, _ = huang(depths)
    distance = ffnet - huang_ffnet_limit(T)
    assert (np.abs(distance[1]) < np.abs(distance[0]) / 3).all()
    rest = [L * (d - huang_ffnet_distance(L)) for L, d in zip(depths, distance, strict=True)]
    bar = tolerances.next_of_the_ffnet(depths[0])
    assert np.abs(rest[1] - rest[0]).max() <= bar
    # Without the logarithm it would drift by (3/8) log 4 = 0.52 …
    drift = depths[1] * distance[1] - depths[0] * distance[0]
    assert np.abs(drift - 0.375 * np.log(4)).max() <= bar
    leading = np.diff([L * huang_ffnet_distance(L) for L in depths])
    assert abs(leading - 0.375 * np.log(4)) <= tolerances.ROUTES
    assert (huang_ffnet_limit([1.0, np.nextafter(1.0, 0.0), -1.0]) == [1, 0.25, 0.25]).all()


@pytest.mark.parametrize("gamma", [1.0, 0.75])
def test_the_resnet_tends_to_one_layer_with_the_predicted_rate(gamma):
    """Theorem 7: distance R(ρ) Lα², with R to within a multiple of Lα²; 1 is depth 1 itself."""
    depths = (1, 50, 200, 800)
    _, resnet = huang(depths, gamma)
    assert np.abs(resnet[0] - huang_resnet_limit(T)).max() <= tolerances.ROUTES
    relative = []
    for L, values in zip(depths[1:], resnet[1:], strict=True):
        small = L ** (1 - 2 * gamma)
        error = (values - huang_resnet_limit(T)) / small - huang_resnet_constant(T)
        assert (np.abs(error) <= tolerances.next_of_the_resnet(T, small)).all()
        relative.append(np.abs(error).max() / small)
    assert relative[1] < 2 * relative[0] and relative[2] < 2 * relative[1]  # it falls like Lα²


def test_opposite_vectors_converge_like_a_square_root():
    """Theorem 7 claims O(1/L) for |1 − t| ≥ δ; at t = −1 it is −√2/(3π) L^(−1/2)."""
    depths = np.array([50, 200, 800])
    found = huang(depths.tolist(), angles=[np.pi])[1][:, 0]
    scaled = found * np.sqrt(depths) / (-np.sqrt(2) / (3 * np.pi))
    assert (np.abs(scaled - 1) <= tolerances.next_of_opposites(depths)).all()
    assert huang_resnet_constant(1.0) == 0


@pytest.mark.parametrize("rho", [-1 + 2.0**-30, -0.5, 0.0, 0.7, 1 - 2.0**-30])
def test_the_constant_of_the_resnet_has_all_its_digits(rho):
    """Half of ½(κ1 + ρκ0)(κ0 − 1) + (κ1 − ρ)(κ0 + ρκ0'/2), in 50 digits."""
    with mpmath.workdps(50):
        t = mpmath.mpf(rho)
        k0 = 1 - mpmath.acos(t) / mpmath.pi
        k1 = t * k0 + mpmath.sqrt(1 - t * t) / mpmath.pi
        slope = 1 / (mpmath.pi * mpmath.sqrt(1 - t * t))
        exact = ((k1 + t * k0) * (k0 - 1) / 2 + (k1 - t) * (k0 + t * slope / 2)) / 2
    assert abs(huang_resnet_constant(rho) / float(exact) - 1) <= tolerances.ROUTES
