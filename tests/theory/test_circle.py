"""Functions on the circle: Fourier coefficients of known functions."""

import numpy as np

from rescntk.theory import smoothness
from tests import tolerances

FOURIER = tolerances.FOURIER


def test_magnitudes_and_power_laws():
    angles = smoothness.grid()
    spectrum = smoothness.magnitudes(3 * np.cos(5 * angles))
    assert abs(spectrum[5] - 1.5) <= FOURIER
    assert np.delete(spectrum, 5).max() <= FOURIER
    # |β| has 2/(π k²) at odd k, and aliases of relative size (k/N)²·π²/3.
    exact = smoothness.magnitudes(np.abs(angles))[1:40:2]
    k = np.arange(1, 40, 2)
    assert np.abs(exact * np.pi * k**2 / 2 - 1).max() <= 4 * (40 / 4096) ** 2
    assert abs(smoothness.fit_power_law(np.abs(angles), 1, 99) - 2) <= 1e-3
    assert (
        abs(smoothness.fit_power_law(np.abs(angles) ** 3 - 1.5 * np.pi * angles**2, 2, 98) - 4)
        <= 2e-3
    )


def test_relative_spectrum():
    """Coefficients of the constant and below eps are left out."""
    angles = smoothness.grid(64)
    wave = 3 + 4 * np.cos(2 * angles) + np.sin(5 * angles)
    found = smoothness.relative_spectrum(wave, 32)
    assert found.frequencies.tolist() == [2, 5]
    assert np.abs(found.magnitudes - [2 / 3, 1 / 6]).max() <= FOURIER
    assert smoothness.relative_spectrum(wave, 4).frequencies.tolist() == [2]
