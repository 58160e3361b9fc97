r"""Smoothness of the functions that fully connected networks interpolate with.

Tirer, Bruna, Giryes 2022 compare multi-layer perceptrons with ResNets in three ways:

- bounds on the network's Jacobian (`jacobian`);
- an interpolant's norm in the reproducing kernel Hilbert space of a Gaussian kernel, their μ of
  eq. 22-23 (`gaussian_space`);
- an interpolant's curvature, in their slides.

``docs/theory/smoothness.md`` derives the measures. An array of samples at equally spaced angles,
`grid`, stands for a function on the circle. Points of the circle are signals of two channels and
length 1, from `circle`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..regression import interpolate
from ..validation import check_depth, check_kernel
from .arguments import check_fit_range, check_points, check_samples, check_vector
from .gaussian_space import (
    CUTOFF,
    gaussian_interpolant_norm,
    gaussian_kernel,
    gaussian_rkhs_norm,
    gaussian_rkhs_ratio,
    power_spectrum,
    scalar,
)
from .jacobian import alpha_threshold, jacobian_bound, jacobian_bound_ratio

__all__ = [
    "CUTOFF",
    "SAMPLES",
    "Interpolation",
    "alpha_threshold",
    "circle",
    "curvature",
    "fit_power_law",
    "gaussian_interpolant_norm",
    "gaussian_kernel",
    "gaussian_rkhs_norm",
    "gaussian_rkhs_ratio",
    "grid",
    "interpolation",
    "jacobian_bound",
    "jacobian_bound_ratio",
    "kernel_shape",
    "magnitudes",
    "relative_spectrum",
    "target",
]

SAMPLES = 4096
"""Samples of the circle that stand for a function. More samples resolve higher frequencies, and
raise the curvature of functions with kinks. Source: figure 7 of Tirer et al. 2022."""

_RESOLVED = 1e3 * float(np.finfo(np.float64).eps)
"""Least Fourier coefficient, relative to the largest, that enters a fit. An FFT of 4096 samples
errs by about 12 eps: logarithms err by a percent."""


def grid(n_samples: int = SAMPLES) -> np.ndarray:
    """Return equally spaced angles from -π on, (n_samples,).

    Parameters
    ----------
    n_samples : int, default 4096

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.grid(4).round(4)
    array([-3.1416, -1.5708,  0.    ,  1.5708])
    """
    n = check_depth(n_samples, "n_samples")
    return 2.0 * math.pi * (np.arange(n) - n / 2) / n


def circle(angles: ArrayLike) -> np.ndarray:
    """Return points of the unit circle as signals, (n, 2, 1).

    Parameters
    ----------
    angles : array_like, (n,)

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
        β, in radians.

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

    :math:`|F_k|/N` of the FFT for frequencies 0 to N/2, (..., n_samples // 2 + 1). A cosine has ½.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.

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
    """Fourier coefficients relative to the largest."""

    frequencies: np.ndarray
    """Frequencies from 1 on whose coefficients are above rounding errors."""
    magnitudes: np.ndarray
    """Absolute values of the coefficients over the largest, in the same shape."""


def relative_spectrum(values: np.ndarray, last: int) -> RelativeSpectrum:
    """Return a function's Fourier coefficients relative to the largest, from eps of it on.

    Parameters
    ----------
    values : ndarray, (n_samples,)
        Samples on `grid`.
    last : int
        The last frequency, at most half the samples.

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

    Tangent kernels of ReLU networks have 2 on the circle, Gaussian process kernels 4 (Bietti and
    Bach 2021; section 5 of Barzilai et al. 2022).

    Parameters
    ----------
    values : ndarray, (n_samples,)
        Samples on `grid`.
    first, last : int
        First and last frequency of the fit of a line to the logarithms, both included.

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


def curvature(values: ArrayLike) -> float | np.ndarray:
    r"""Return the curvature of functions on the circle, :math:`\|f''\|/\|f\|` in :math:`L^2`.

    The measure of the authors' slides: :math:`(\frac1{N^2} \sum_k |k|^4 |F(k)|^2)^{1/2}` with
    the FFT F of the function normalized in :math:`L^2`. Smaller is smoother; :math:`\cos m\beta`
    has :math:`m^2`. The curvature of a function with kinks, such as the interpolant of a ReLU
    network's tangent kernel, grows like :math:`\sqrt{n\_samples}`: compare it at equal sampling.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> round(smoothness.curvature(np.cos(3 * smoothness.grid())), 9)
    9.0
    """
    power, scale = power_spectrum(values)
    if not np.all(scale > 0):
        raise ValueError("values is zero everywhere, expected a function that can be normalized")
    k = np.arange(power.shape[-1], dtype=np.float64)
    return scalar(np.sqrt((k**4 * power).sum(axis=-1) / power.sum(axis=-1)))


class Interpolation(NamedTuple):
    """A kernel's interpolant on the circle, and its smoothness."""

    values: np.ndarray
    """(n_samples,), on `grid`"""
    curvature: float
    """The slides' measure (smaller is smoother)."""
    angles: np.ndarray
    """The given points, (n,) …"""
    targets: np.ndarray
    """… and the values there."""

    def gaussian_ratio(self, cutoff: ArrayLike = CUTOFF) -> float | np.ndarray:
        """Return μ, `gaussian_rkhs_ratio` of the interpolant up to a frequency."""
        return gaussian_rkhs_ratio(self.values, self.angles, self.targets, cutoff)


def interpolation(
    kernel: Callable[..., np.ndarray],
    angles: ArrayLike,
    targets: ArrayLike,
    n_samples: int = SAMPLES,
) -> Interpolation:
    """Return a kernel's interpolant of given points of the circle, with its curvature.

    Eq. 4 and figures 2, 4, 5 and 6 of Tirer et al. 2022; their μ is `gaussian_rkhs_ratio` of
    the values.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function that returns matrices ``kernel(X)``, ``kernel(Z, X)``.
    angles, targets : array_like, (n,)
        The given points of the circle, and the values there.
    n_samples : int, default 4096

    Raises
    ------
    ValueError
        If the kernel matrix is numerically singular. Networks of erf are odd functions: no two
        points may be opposite.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import smoothness
    >>> angles = smoothness.grid(6)
    >>> y = smoothness.target(angles)
    >>> smooth, rough = (
    ...     smoothness.interpolation(rk.Kernel(network, "ntk", "trace"), angles, y)
    ...     for network in (rk.literature.tirer_resnet(5, 0.1), rk.literature.tirer_mlp(5))
    ... )
    >>> smooth.curvature < rough.curvature, smooth.gaussian_ratio() > rough.gaussian_ratio()
    (True, True)
    """
    angles, targets = check_points(angles, targets)
    values = interpolate(kernel, circle(angles), targets, circle(grid(n_samples)))
    return Interpolation(values, float(curvature(values)), angles, targets)
