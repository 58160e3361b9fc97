"""The Gaussian kernel's space on the circle: known transforms, high precision."""

import mpmath
import numpy as np
import pytest

from rescntk.theory import smoothness
from rescntk.theory.smoothness import _gaussian_coefficients as coefficients
from tests import tolerances

mp = mpmath.mp.clone()
mp.dps = 50
EPS = tolerances.EPS["float64"]
FOURIER = tolerances.FOURIER


def test_gaussian_on_the_circle():
    """exp(−½‖x−z‖²) = e^(cos Δ − 1), with coefficients e⁻¹ I_k(1)."""
    wave = smoothness.kernel_shape(smoothness.gaussian_kernel)
    assert np.abs(wave - np.exp(np.cos(smoothness.grid()) - 1)).max() <= 4 * EPS
    exact = np.array([float(mp.besseli(k, 1) / mp.e) for k in range(141)])
    assert np.abs(coefficients(140) / exact - 1).max() <= 1e-12
    spectrum = smoothness.magnitudes(wave)
    assert np.abs(spectrum[:60] - exact[:60]).max() <= FOURIER * exact[0]


def test_the_cutoff_is_where_an_fft_loses_the_gaussian():
    relative = [mp.besseli(k, 1) / mp.besseli(0, 1) for k in range(40)]
    assert max(k for k in range(40) if relative[k] >= EPS) == smoothness.CUTOFF
    assert max(k for k in range(40) if relative[k] >= EPS**2) == 24
    spectrum = smoothness.magnitudes(smoothness.kernel_shape(smoothness.gaussian_kernel))
    exact = np.array([float(r) for r in relative]) * float(mp.besseli(0, 1) / mp.e)
    assert np.abs(spectrum[:40] - exact).max() <= EPS * exact[0]  # good to 0.4 of itself at 14,
    assert (np.abs(spectrum[:40] - exact)[17:] >= 0.99 * exact[17:]).all()  # all wrong from 17 on


@pytest.mark.parametrize("count", [1, 5])
def test_norm_of_known_transforms(rng, count):
    """Σ c_i K(·, x_i) has norm² cᵀKc; no cut-off from 14 to 22 changes it."""
    angles, c = rng.uniform(-np.pi, np.pi, count), rng.uniform(0.5, 1, count)
    points = smoothness.circle(angles)
    f = smoothness.gaussian_kernel(smoothness.circle(smoothness.grid(256)), points) @ c
    expected = np.sqrt(c @ smoothness.gaussian_kernel(points) @ c)
    norms = smoothness.gaussian_rkhs_norm(f, np.arange(14, 23))
    # The samples' errors, eps each, squared and weighted by the Gaussian's reciprocal.
    noise = (EPS * c.sum()) ** 2 / coefficients(22)[14:] / expected**2
    assert (np.abs(norms / expected - 1) <= FOURIER + noise).all()
    assert noise[-1] < 2e-3
    assert smoothness.gaussian_rkhs_norm(f) == norms[0]
    assert (np.diff(smoothness.gaussian_rkhs_norm(f, np.arange(20))) >= 0).all()


@pytest.mark.parametrize("count", [2, 15])
def test_norm_of_the_gaussian_interpolant(rng, count):
    """(yᵀ K⁻¹ y)^½ in 50 digits."""
    equal = 2 * np.pi * np.arange(count) / count
    for angles in (equal, rng.uniform(-np.pi, np.pi, count)):
        y = smoothness.target(angles)
        K = mp.matrix([[mp.exp(mp.cos(mp.mpf(a) - mp.mpf(b)) - 1) for b in angles] for a in angles])
        exact = mp.sqrt((mp.matrix(y).T * mp.lu_solve(K, mp.matrix(y)))[0])
        bar = tolerances.solution(count, float(mp.sqrt(mp.cond(K))))
        assert bar < 0.1
        found = smoothness.gaussian_interpolant_norm(angles, y)
        assert abs(found / float(exact) - 1) <= bar


def test_ratio_of_the_gaussian_itself_is_1_and_of_others_less(rng):
    """The Gaussian's interpolant has the least norm of all."""
    angles = smoothness.grid(7)
    for _ in range(20):
        k = np.arange(1, 11)[:, None]
        a, b = rng.standard_normal((2, 10)) / (1 + k[:, 0]) ** 4
        f = a @ np.cos(k * smoothness.grid(512)) + b @ np.sin(k * smoothness.grid(512))
        y = a @ np.cos(k * angles) + b @ np.sin(k * angles)
        ratio = smoothness.gaussian_rkhs_ratio(f, angles, y)
        assert 0 < ratio < 1
        own = smoothness.interpolation(smoothness.gaussian_kernel, angles, y, 512).values
        assert abs(smoothness.gaussian_rkhs_ratio(own, angles, y) - 1) <= 1e4 * EPS
        # Scaling, and turning the circle, change nothing.
        turned = smoothness.gaussian_rkhs_ratio(
            -3 * np.roll(f, 5), angles + 10 * np.pi / 512, -3 * y
        )
        assert abs(turned / ratio - 1) <= 1e4 * EPS
