r"""Smoothness of the functions that fully connected networks interpolate with.

Tirer, Bruna, Giryes 2022 compare multi-layer perceptrons with ResNets in three ways:

- bounds on the network's Jacobian (`jacobian`);
- an interpolant's norm in the reproducing kernel Hilbert space of a Gaussian kernel, their μ of
  eq. 22-23 (`gaussian_space`);
- an interpolant's curvature, in their slides.

``docs/theory/smoothness.md`` derives the measures.

An array of samples at equally spaced angles, `grid`, stands for a function on the circle. Points of
the circle are signals of two channels and length 1, from `circle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..regression import interpolate
from ..validation import check_points
from .circle import (
    SAMPLES,
    circle,
    fit_power_law,
    grid,
    kernel_shape,
    magnitudes,
    power_spectrum,
    relative_spectrum,
    scalar,
    target,
)
from .gaussian_space import (
    CUTOFF,
    gaussian_interpolant_norm,
    gaussian_kernel,
    gaussian_rkhs_norm,
    gaussian_rkhs_ratio,
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


def curvature(values: ArrayLike) -> float | np.ndarray:
    r"""Return the curvature of functions on the circle, :math:`\|f''\|/\|f\|` in :math:`L^2`.

    The measure of the authors' slides: :math:`(\frac1{N^2} \sum_k |k|^4 |F(k)|^2)^{1/2}` with
    the FFT F of the function normalized in :math:`L^2`. Smaller is smoother; :math:`\cos m\beta`
    has :math:`m^2`.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.

    Returns
    -------
    float or ndarray, (...)
        The second derivative of a function with kinks is not in :math:`L^2`: its curvature
        grows like :math:`\sqrt{n\_samples}`, and compares functions at equal sampling only. A
        tangent kernel of a ReLU network interpolates with kinks.

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
    """A kernel's interpolant on the circle, and its smoothness; from `interpolation`."""

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

    Returns
    -------
    Interpolation

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
    >>> smooth.curvature < rough.curvature
    True
    >>> mu = [smoothness.gaussian_rkhs_ratio(f.values, angles, y) for f in (smooth, rough)]
    >>> mu[0] > mu[1]
    True
    """
    angles, targets = check_points(angles, targets)
    values = interpolate(kernel, circle(angles), targets, circle(grid(n_samples)))
    return Interpolation(values, float(curvature(values)), angles, targets)
