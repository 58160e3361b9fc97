"""Smoothness on the circle: known transforms, and the orderings the papers claim."""

from itertools import product

import mpmath
import numpy as np
import pytest

import rescntk as rk
from circle import target
from rescntk import literature
from rescntk.theory import smoothness
from rescntk.theory.smoothness import measures
from rescntk.theory.smoothness.measures import _gaussian_coefficients as coefficients
from tests import tolerances

mp = mpmath.mp.clone()
mp.dps = 50
EPS = tolerances.EPS["float64"]
FOURIER = tolerances.FOURIER


def kernel(network, kind="ntk"):
    return rk.Kernel(network, kind, "trace")


def shape(kernel, n=4096):
    """Return a kernel against the angle between its arguments, on `smoothness.grid`."""
    return kernel(smoothness.circle([0.0]), smoothness.circle(smoothness.grid(n)))[0]


def magnitudes(values):
    return np.abs(np.fft.rfft(values, norm="forward"))


@pytest.mark.parametrize("n", [1, 4, 5])
def test_grids_begin_at_minus_pi_and_go_once_around(n):
    expected = -np.pi + 2 * np.pi * np.arange(n) / n
    assert np.abs(smoothness.grid(n) - expected).max() <= 4 * EPS


def test_norms_up_to_frequency_0_and_up_to_the_last_one():
    """1 has the norm 1/√c_0, and √2 cos kθ the norm 1/√c_k more; 16 samples have k up to 7."""
    grid = smoothness.grid(16)
    f = 1 + np.sqrt(2) * np.cos(7 * grid)
    c = [float(mp.besseli(k, 1) / mp.e) for k in (0, 7)]
    found, expected = (
        smoothness.gaussian_rkhs_norm(f, [0, 7]),
        np.sqrt([1 / c[0], sum(1 / np.array(c))]),
    )
    assert np.abs(found / expected - 1).max() <= FOURIER


@pytest.mark.parametrize(("n", "last"), [(16, 7), (17, 8), (400, 140)])
def test_frequencies_from_half_the_samples_on_are_refused(n, last):
    """And those above 140, whose coefficients of the Gaussian leave float64."""
    assert smoothness.gaussian_rkhs_norm(np.ones(n), last) > 0
    with pytest.raises(ValueError, match=f"cutoff is {last + 1}, .* from 0 to {last}"):
        smoothness.gaussian_rkhs_norm(np.ones(n), last + 1)


@pytest.mark.parametrize("n", [16, 17])
def test_curvature_is_the_formula_of_the_slides(n, rng):
    f = rng.standard_normal(n)
    F = np.fft.fft(f / np.sqrt((f**2).mean()))
    expected = np.sqrt((np.fft.fftfreq(n, 1 / n) ** 4 * np.abs(F) ** 2).sum() / n**2)
    both = smoothness.curvature([f, 1e200 * f])
    assert np.abs(both / expected - 1).max() <= FOURIER


def test_gaussian_on_the_circle():
    """exp(−½‖x−z‖²) = e^(cos Δ − 1), with coefficients e⁻¹ I_k(1): an FFT loses them from 15 on."""
    wave = shape(smoothness.gaussian_kernel)
    assert np.abs(wave - np.exp(np.cos(smoothness.grid()) - 1)).max() <= 4 * EPS
    exact = np.array([float(mp.besseli(k, 1) / mp.e) for k in range(141)])
    # Each beside itself: thirty roundings for each of 140 frequencies.
    bar = 30 * 140 * EPS
    assert np.abs(coefficients(140) / exact - 1).max() <= bar
    assert np.flatnonzero(exact >= EPS * exact[0]).max() == measures.CUTOFF
    error = np.abs(magnitudes(wave)[:40] - exact[:40])
    assert error.max() <= EPS * exact[0]  # good to 0.4 of itself at 14,
    assert (error[17:] >= 0.99 * exact[17:40]).all()  # all wrong from 17 on


def test_gaussian_of_points_far_apart_is_0():
    """Also where the squared distance leaves float64."""
    K = smoothness.gaussian_kernel(np.array([0.0, 1e3, 1e200])[:, None, None])
    assert (K == np.eye(3)).all()


@pytest.mark.parametrize("count", [2, 15])
def test_norm_of_the_gaussian_interpolant(rng, count):
    """(yᵀ K⁻¹ y)^½ in 50 digits."""
    equal = 2 * np.pi * np.arange(count) / count
    for angles in (equal, rng.uniform(-np.pi, np.pi, count)):
        y = target(angles)
        K = mp.matrix([[mp.exp(mp.cos(mp.mpf(a) - mp.mpf(b)) - 1) for b in angles] for a in angles])
        exact = mp.sqrt((mp.matrix(y).T * mp.lu_solve(K, mp.matrix(y)))[0])
        bar = tolerances.solution(count, float(mp.sqrt(mp.cond(K))))
        assert bar < 0.1
        found = measures._gaussian_interpolant_norm(angles, y)
        assert abs(found / float(exact) - 1) <= bar


def test_ratio_of_the_gaussian_itself_is_1_and_of_others_less(rng):
    """The Gaussian's interpolant has the least norm of all, (yᵀ K⁻¹ y)^½."""
    angles, k = smoothness.grid(7), np.arange(1, 11)[:, None]
    for _ in range(8):
        a, b = rng.standard_normal((2, 10)) / (1 + k[:, 0]) ** 4
        f = a @ np.cos(k * smoothness.grid(512)) + b @ np.sin(k * smoothness.grid(512))
        y = a @ np.cos(k * angles) + b @ np.sin(k * angles)
        ratio = smoothness.gaussian_rkhs_ratio(f, angles, y)
        assert 0 < ratio < 1
        own = smoothness.interpolation(smoothness.gaussian_kernel, angles, y, 512)
        assert abs(smoothness.gaussian_rkhs_ratio(own, angles, y) - 1) <= 1e4 * EPS
        # Scaling, and turning the circle, change nothing, also where squares leave float64.
        moved = angles + 10 * np.pi / 512
        for scale in (-3, 1e200, 1e-300):
            turned = smoothness.gaussian_rkhs_ratio(scale * np.roll(f, 5), moved, scale * y)
            assert abs(turned / ratio - 1) <= 1e4 * EPS


ORDERS = {"ntk": (2, 2, 0.1), "gpk": (4, 1, 1e-3)}
"""Exponent of the decay, growth of the curvature with four times the samples, and its bar."""
CUTOFFS = np.arange(6, 31)  # below 6, μ sees too little of sin 4β and its aliases


@pytest.fixture(scope="module")
def experiments():
    """Figures 2 and 4, 6 and 10 samples, L = 5 and 15: μ at all CUTOFFS, and the curvature."""
    found = {}
    for kind, depth, count in product(("ntk", "gpk"), (5, 15), (6, 10)):
        angles = smoothness.grid(count)
        y = target(angles)
        resnets = [literature.tirer_resnet(depth, alpha) for alpha in (1.0, 0.1)]
        networks = literature.tirer_mlp(depth), *resnets
        drawn = [smoothness.interpolation(kernel(net, kind), angles, y) for net in networks]
        found[kind, depth, count] = [
            (smoothness.gaussian_rkhs_ratio(f, angles, y, CUTOFFS), smoothness.curvature(f))
            for f in drawn
        ]
    return found


def test_smaller_alpha_is_smoother_whatever_the_cutoff(experiments):
    """MLP < α = 1 < α = 0.1 by curvature, and by μ at every cut-off from 6 on."""
    for mlp, one, tenth in experiments.values():
        for smoother, rougher in ((one, mlp), (tenth, one)):
            assert (smoother[0] > 1.005 * rougher[0]).all()
            assert (smoother[0] > 1.05 * rougher[0])[CUTOFFS >= 12].all()
            assert smoother[1] < rougher[1]


def test_gpk_and_ntk_differ_in_smoothness(experiments):
    """The slides' open question: two orders of smoothness, so no constant could tell."""
    K, angles = np.arange(32, 257), smoothness.grid(10)
    networks = literature.tirer_mlp(5), literature.tirer_resnet(5, 0.1)
    for network, kind in product(networks, ORDERS):
        own, (exponent, growth, bar) = kernel(network, kind), ORDERS[kind]
        size = magnitudes(shape(own))
        k = K[size[K] > 1e3 * EPS * size.max()]  # some have no odd or no even frequencies
        slope = np.polyfit(np.log(k), np.log(size[k]), 1)[0]
        assert abs(slope + exponent) <= 0.02
        y = target(angles)
        coarse, fine = (smoothness.interpolation(own, angles, y, n) for n in (1024, 4096))
        grown = smoothness.curvature(fine) / smoothness.curvature(coarse)
        assert abs(grown - growth) <= bar
    for setting in product((5, 15), (6, 10)):
        for gpk, ntk in zip(*(experiments[kind, *setting] for kind in ("gpk", "ntk")), strict=True):
            assert gpk[1] < ntk[1] and (gpk[0] > ntk[0]).all()


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
    threshold, depths = smoothness.alpha_threshold, np.arange(1, 301)
    found = np.array([threshold(int(depth)) for depth in depths])
    assert np.abs(found - (3 ** (1 - 1 / depths) - 1) / 9).max() <= 8 * EPS
    # The paper: α = 0.1 implies B_ResNet ≤ B_MLP for any L ≥ 3; it does from there on only.
    assert found[1] < 0.1 < found[2]
    cases = (2, 1, 1), (300, 1, 1), (2, 0.5, 1.3), (7, 2.0, 0.9)
    for (depth, v, w), activation in product(cases, ("relu", "erf")):
        at = threshold(depth, sigma_v=v, sigma_w=w, activation=activation)
        network = literature.tirer_resnet(depth, at, v, w).replace(activation=activation)
        assert at > 0 and abs(ratio(network) - 1) <= 20 * depth * EPS
    # Beyond float64 it is infinite; 3^(1−1/L)/(9 σ_v) for σ_w → ∞ is not.
    for v, w, sign in ((1e-320, 1.0, 1), (1.0, 1e-320, -1), (1e-320, 1e-320, -1)):
        assert threshold(5, sigma_v=v, sigma_w=w) == sign * np.inf
    assert abs(threshold(5, sigma_w=1e308) / (3**0.8 / 9) - 1) <= 8 * EPS
    ratio_of_sizes = threshold(5, sigma_v=2.0**1000, sigma_w=2.0**-1070) / 2.0**70
    assert abs(ratio_of_sizes * 9 + 1) <= 8 * EPS
    assert smoothness.jacobian_bound(literature.tirer_resnet(10**6, 1.0), 10, 2) == np.inf
    # No α: the ResNet's bound is larger already without branches.
    assert threshold(5, sigma_w=0.3) < 0
    assert ratio(literature.tirer_resnet(5, 0.0, 1.0, 0.3)) > 1
