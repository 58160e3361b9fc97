"""Functions on the circle: samples at equally spaced angles, and their Fourier coefficients.

``smoothness`` imports all public names from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..validation import (
    check_depth,
    check_fit_range,
    check_kernel,
    check_samples,
    check_vector,
)

SAMPLES = 4096
"""Samples of the circle that stand for a function. More samples resolve higher frequencies, and
raise the curvature of functions with kinks. Source: figure 7 of Tirer et al. 2022."""

_RESOLVED = 1e3 * float(np.finfo(np.float64).eps)
"""Least Fourier coefficient, relative to the largest, that enters a fit. Raising it leaves fewer
frequencies. An FFT of 4096 samples errs by about 12 eps; 1e3 eps keeps the error of a logarithm
near a percent."""


def grid(n_samples: int = SAMPLES) -> np.ndarray:
    """Return equally spaced angles from -π on, (n_samples,).

    Parameters
    ----------
    n_samples : int, default 4096
        Number of angles.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.grid(4).round(4)
    array([-3.1416, -1.5708,  0.    ,  1.5708])
    """
    n = check_depth(n_samples, "n_samples")
    return 2.0 * math.pi * (np.arange(n) - n / 2) / n


def circle(angles: ArrayLike) -> np.ndarray:
    """Return points of the unit circle as signals.

    Parameters
    ----------
    angles : array_like, (n,)

    Returns
    -------
    ndarray, (n, 2, 1)

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.circle([0.0])
    array([[[1.],
            [0.]]])
    """
    angles = check_vector(angles, "angles")
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]


def target(angles: ArrayLike) -> np.ndarray:
    r"""Return the function that the paper samples, :math:`\frac12\cos\beta + \sin 4\beta` (C.1).

    Parameters
    ----------
    angles : array_like
        Angles β on the circle, in radians.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> float(smoothness.target([0.0])[0])
    0.5
    """
    angles = check_vector(angles, "angles")
    return 0.5 * np.cos(angles) + np.sin(4.0 * angles)


def kernel_shape(kernel: Callable[..., np.ndarray], n_samples: int = SAMPLES) -> np.ndarray:
    """Return a kernel against the angle between its arguments, on `grid`: figures 2a and 5a.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function that returns the matrix ``kernel(X, Z)`` of signals.
    n_samples : int, default 4096

    Returns
    -------
    ndarray, (n_samples,)

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.kernel_shape(smoothness.gaussian_kernel, 4).round(4)
    array([0.1353, 0.3679, 1.    , 0.3679])
    """
    check_kernel(kernel)
    return kernel(circle([0.0]), circle(grid(n_samples)))[0]


def magnitudes(values: np.ndarray) -> np.ndarray:
    r"""Return the absolute values of the Fourier coefficients of functions on the circle.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.

    Returns
    -------
    ndarray, (..., n_samples // 2 + 1)
        :math:`|F_k|/N` of the FFT for frequencies 0 to N/2. A cosine has ½.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> smoothness.magnitudes(np.cos(smoothness.grid(8))).round(12)
    array([0. , 0.5, 0. , 0. , 0. ])
    """
    values = check_samples(values)
    return np.abs(np.fft.rfft(values, norm="forward"))


class RelativeSpectrum(NamedTuple):
    """Fourier coefficients relative to the largest; from `relative_spectrum`."""

    frequencies: np.ndarray
    """Frequencies from 1 on whose coefficients are above rounding errors."""
    magnitudes: np.ndarray
    """Absolute values of the coefficients over the largest, in the same shape."""


def relative_spectrum(values: np.ndarray, last: int) -> RelativeSpectrum:
    """Return the Fourier coefficients of a function on the circle, relative to the largest.

    Coefficients below eps of the largest are rounding errors, and left out.

    Parameters
    ----------
    values : ndarray, (n_samples,)
        Samples on `grid`.
    last : int
        The last frequency, at most half the samples.

    Returns
    -------
    RelativeSpectrum

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> wave = 1 + 2 * np.cos(3 * smoothness.grid(16))
    >>> smoothness.relative_spectrum(wave, 5).frequencies
    array([3])
    """
    spectrum = magnitudes(values)
    k = np.arange(1, last + 1)
    heights = spectrum[k] / spectrum.max()
    kept = heights > np.finfo(np.float64).eps
    return RelativeSpectrum(k[kept], heights[kept])


def fit_power_law(values: np.ndarray, first: int, last: int) -> float:
    """Return the exponent p of a spectrum that falls like frequency^-p.

    Parameters
    ----------
    values : ndarray, (n_samples,)
        Samples on `grid`.
    first, last : int
        First and last frequency of the fit of a line to the logarithms, both included.

    Returns
    -------
    float
        Tangent kernels of ReLU networks have 2 on the circle, Gaussian process kernels 4
        (Bietti and Bach 2021; section 5 of Barzilai et al. 2022).

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> round(smoothness.fit_power_law(np.abs(smoothness.grid()), 1, 101), 2)
    2.0
    """
    spectrum = magnitudes(values)
    first, last = check_fit_range(first, last, values)
    k = np.arange(first, last + 1)
    # Some kernels have no odd or no even frequencies at all.
    kept = spectrum[k] > _RESOLVED * spectrum.max()
    if kept.sum() < 2:
        raise ValueError(
            f"values has no spectrum above rounding errors from frequency {first} to {last}"
        )
    return -float(np.polyfit(np.log(k[kept]), np.log(spectrum[k][kept]), 1)[0])


def power_spectrum(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return |f̂_k|² + |f̂_−k|² of functions divided by their largest value, and that value.

    The powers (..., n_samples // 2 + 1) sum to the mean of (f/scale)²; the scales are (...).
    Squares of the function itself might overflow.
    """
    values = check_samples(values)
    scale = np.abs(values).max(axis=-1)
    scaled = values / np.where(scale > 0, scale, 1.0)[..., None]
    power = np.abs(np.fft.rfft(scaled, norm="forward")) ** 2
    both = slice(1, (values.shape[-1] + 1) // 2)  # 0, and N/2 of an even N, have no partner
    power[..., both] *= 2.0
    return power, scale


def scalar(values: np.ndarray) -> float | np.ndarray:
    """Return an array without axes as a float, others unchanged."""
    return float(values) if np.ndim(values) == 0 else values
