r"""Measures of smoothness: an interpolant's norm in the Gaussian kernel's RKHS, and its curvature.

An array of samples on `grid` stands for a function on the circle. ``docs/theory/smoothness.md``
derives the measures.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from ...checks.messages import shown
from ...checks.values import check_rectangular, check_shape
from ..tools.argument_checks import check_points

CUTOFF = 14
"""Default cut-off: the last frequency at which the Gaussian's coefficient is above eps times the
first."""

_LAST = 140
"""Highest cut-off. The Gaussian's coefficients e⁻¹ I_k(1) are 2e-284 there, and soon underflow."""


def curvature(values: ArrayLike) -> float | np.ndarray:
    r"""Return the curvature of functions on the circle, :math:`\|f''\|_2/\|f\|_2`.

    Smaller is smoother. Interpolants of tangent kernels of ReLU networks have kinks where a trained
    part lies below an activation: their curvature grows like the root of the number of samples.
    Compare at equal numbers only.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.

    Returns
    -------
    float or ndarray, (...)

    Raises
    ------
    ValueError
        If a function is 0 everywhere.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> round(smoothness.curvature([1.0, 0.0, -1.0, 0.0]), 9)
    1.0
    """
    power, scale = _power_spectrum(values)
    if not np.all(scale > 0):
        raise ValueError("values is zero everywhere, expected a function that can be normalized")
    k = np.arange(power.shape[-1], dtype=np.float64)
    return _scalar(np.sqrt((k**4 * power).sum(axis=-1) / power.sum(axis=-1)))


def gaussian_rkhs_norm(values: ArrayLike, cutoff: ArrayLike = CUTOFF) -> float | np.ndarray:
    """Return the norm in the Gaussian's RKHS of a function's part up to a frequency.

    Eq. 23 of Tirer et al. 2022 on the circle (docs/theory/smoothness.md). *For the interpolant of
    a ReLU or erf network the norm without a cut-off is infinite.*

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.
    cutoff : int or array_like of int, default 14
        The last frequency, below half the samples and at most 140; beyond 24 rounding errors
        dominate for smooth functions.

    Returns
    -------
    float or ndarray
        With the axes ``(..., *cutoff.shape)``.

    Raises
    ------
    ValueError
        If a cut-off is out of range.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> origin, points = smoothness.circle([0.0]), smoothness.circle(smoothness.grid())
    >>> wave = smoothness.gaussian_kernel(origin, points)[0]
    >>> round(smoothness.gaussian_rkhs_norm(wave), 9)
    1.0
    """
    power, scale = _power_spectrum(values)
    limit = min((np.shape(values)[-1] - 1) // 2, _LAST)
    last = check_rectangular(cutoff, "cutoff", f"integers from 0 to {limit}")
    if last.dtype.kind not in "iu" or last.size == 0 or last.min() < 0 or last.max() > limit:
        raise ValueError(
            f"cutoff is {shown(cutoff)}, expected integers from 0 to {limit} for values of "
            f"{np.shape(values)[-1]} samples"
        )
    norms = np.sqrt(np.cumsum(power[..., : limit + 1] / _gaussian_coefficients(limit), axis=-1))
    with np.errstate(over="ignore"):
        norms *= scale[..., None]
    return _scalar(norms[..., last])


def _gaussian_interpolant_norm(angles: ArrayLike, targets: ArrayLike) -> float:
    """Return the RKHS norm of the Gaussian kernel's interpolant, (yᵀ K⁻¹ y)^½: the least of all."""
    angles, targets = check_points(angles, targets)
    n = len(angles)
    # QR factors of the kernel's Fourier features see the square root of K's condition number.
    k = np.arange(1, _LAST + 1)[:, None]
    roots = np.sqrt(_gaussian_coefficients(_LAST))
    waves = np.sqrt(2.0) * roots[1:, None]
    # Rows fall with the frequency: Householder QR keeps their relative accuracy.
    pairs = np.stack([waves * np.cos(k * angles), waves * np.sin(k * angles)], axis=1)
    features = np.vstack([np.full((1, n), roots[0]), pairs.reshape(-1, n)])
    r = np.linalg.qr(features, mode="r")
    singular = scipy.linalg.svdvals(r)
    if singular[-1] <= n * np.finfo(np.float64).eps * singular[0]:
        raise ValueError(
            f"angles of shape {angles.shape} are too close for the Gaussian kernel: the smallest "
            f"eigenvalue of its matrix is {singular[-1] ** 2:.3g}, expected points further apart"
        )
    # SciPy's norm, unlike NumPy's, does not overflow where its result does not.
    return float(scipy.linalg.norm(scipy.linalg.solve_triangular(r, targets, trans="T")))


def gaussian_rkhs_ratio(
    values: ArrayLike, angles: ArrayLike, targets: ArrayLike, cutoff: ArrayLike = CUTOFF
) -> float | np.ndarray:
    r"""Return μ, the Gaussian interpolant's RKHS norm over the norm of another interpolant.

    Eq. 22 of Tirer et al. 2022: :math:`\mu(f) = \|f_\mathrm{Gauss}\|/\|f\|` in the Gaussian's
    RKHS up to `cutoff`; larger is smoother. Compare only the order of different functions.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.
    angles : array_like, (n,)
        The given points of the circle in radians, far enough apart for float64.
    targets : array_like, (n,)
        The values there.
    cutoff : int or array_like of int, default 14
        The last frequency, as for `gaussian_rkhs_norm`.

    Returns
    -------
    float or ndarray
        With the axes ``(..., *cutoff.shape)``.

    Raises
    ------
    ValueError
        If a function is 0 up to a cut-off, or points are too close.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> f = smoothness.interpolation(smoothness.gaussian_kernel, [0.0, 1.0], [2.0, 3.0])
    >>> round(smoothness.gaussian_rkhs_ratio(f, [0.0, 1.0], [2.0, 3.0]), 9)
    1.0
    """
    norm = np.asarray(gaussian_rkhs_norm(values, cutoff))
    if not np.all(norm > 0):
        raise ValueError("values is zero up to the cut-off, expected a function of some norm")
    return _scalar(_gaussian_interpolant_norm(angles, targets) / norm)


def _gaussian_coefficients(last: int) -> np.ndarray:
    """Return the Fourier coefficients e⁻¹ I_k(1) of the Gaussian on the circle, k = 0 … last."""
    return scipy.special.ive(np.arange(last + 1), 1.0)


def _power_spectrum(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return |f_k|² + |f_−k|² of functions of largest value 1, and their own largest values."""
    samples = check_shape(values, "values", "(..., n_samples)", lambda s: len(s) > 0 and s[-1] > 1)
    scale = np.abs(samples).max(axis=-1)
    scaled = samples / np.where(scale > 0, scale, 1.0)[..., None]
    power = np.abs(np.fft.rfft(scaled, norm="forward")) ** 2
    both = slice(1, (samples.shape[-1] + 1) // 2)  # 0, and N/2 of an even N, have no partner
    power[..., both] *= 2.0
    return power, scale


def _scalar(values: np.ndarray) -> float | np.ndarray:
    """Return an array without axes as a float, others unchanged."""
    return float(values) if np.ndim(values) == 0 else values
