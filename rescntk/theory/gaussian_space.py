"""The reproducing kernel Hilbert space of the Gaussian kernel, on the circle.

The measure μ of Tirer et al. 2022, eq. 22-23. ``docs/theory/smoothness.md`` derives the formulas,
and says why the norm of a network's interpolant needs a cut-off.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from ..validation import check_match, check_signals
from .arguments import check_cutoff, check_points, check_samples

CUTOFF = 14
"""Default cut-off: the last frequency at which the Gaussian's Fourier coefficient is above eps
times the first. A higher cut-off makes μ of rough functions smaller."""

_LAST = 140
"""Highest cut-off. The Gaussian's coefficients e⁻¹ I_k(1) ≈ e⁻¹/(2ᵏ k!) are 2e-284 there, and soon
underflow in float64."""


def gaussian_kernel(X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    r"""Return the Gaussian kernel :math:`\exp(-\frac12\|x - z\|^2)`, the paper's reference.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    Z : ndarray, (m_cases, n_channels, n_timepoints), optional
        The default is `X`.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> X = smoothness.circle([0.0, 3.141592653589793])
    >>> smoothness.gaussian_kernel(X).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """
    X = check_signals(X, "X")
    Z = X if Z is None else check_signals(Z, "Z")
    check_match(X, Z)
    rows = (((Z - x) ** 2).sum(axis=(1, 2)) for x in X)
    return np.exp(-0.5 * np.stack(list(rows)))


def gaussian_rkhs_norm(values: ArrayLike, cutoff: ArrayLike = CUTOFF) -> float | np.ndarray:
    r"""Return the norm in the Gaussian's RKHS of a function's part up to a frequency.

    The square root of eq. 23 of Tirer et al. 2022 on the circle, with the modified Bessel
    functions I:

    .. math:: \|f\|^2 = \sum_{|k| \le \mathrm{cutoff}} \frac{|\hat f_k|^2}{e^{-1} I_k(1)} .

    *For the interpolant of a ReLU or erf network the norm without a cut-off is infinite.*

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.
    cutoff : int or array_like of int, default 14
        The last frequency of the sum. Samples in float64 have errors eps·max|f|, which dominate
        the sum for smooth functions beyond frequency 24. The result has the axes
        ``(..., *cutoff.shape)``.

    Raises
    ------
    ValueError
        For a cut-off that is not below half the samples, or beyond 140, near where float64 ends.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> wave = smoothness.kernel_shape(smoothness.gaussian_kernel)
    >>> round(smoothness.gaussian_rkhs_norm(wave), 9)
    1.0
    """
    power, scale = power_spectrum(values)
    n_samples = np.shape(values)[-1]
    limit = min((n_samples - 1) // 2, _LAST)
    last = check_cutoff(cutoff, limit, n_samples)
    norms = np.sqrt(np.cumsum(power[..., : limit + 1] / _gaussian_coefficients(limit), axis=-1))
    with np.errstate(over="ignore"):
        norms *= scale[..., None]
    return scalar(norms[..., last])


def gaussian_interpolant_norm(angles: ArrayLike, targets: ArrayLike) -> float:
    r"""Return the RKHS norm of the Gaussian kernel's interpolant of given points.

    :math:`(y^\top K^{-1} y)^{1/2}`, the least norm of all interpolants. Computed from the QR
    factors of the kernel's Fourier features, which see the square root of K's condition number.

    Parameters
    ----------
    angles, targets : array_like, (n,)
        The given points of the circle, and the values there.

    Raises
    ------
    ValueError
        If two points agree, or are too close or too many for float64.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.gaussian_interpolant_norm([0.5], [2.0])
    2.0
    """
    angles, targets = check_points(angles, targets)
    k = np.arange(1, _LAST + 1)[:, None]
    roots = np.sqrt(_gaussian_coefficients(_LAST))
    waves = np.sqrt(2.0) * roots[1:, None]
    # Rows fall with the frequency: Householder QR keeps their relative accuracy.
    pairs = np.stack([waves * np.cos(k * angles), waves * np.sin(k * angles)], axis=1)
    features = np.vstack([np.full((1, len(angles)), roots[0]), pairs.reshape(-1, len(angles))])
    r = np.linalg.qr(features, mode="r")
    singular = scipy.linalg.svdvals(r)
    n = len(angles)
    if len(singular) < n or singular[-1] <= n * np.finfo(np.float64).eps * singular[0]:
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
    RKHS; larger is smoother, and the Gaussian's own interpolant has 1. The denominator ends at
    `cutoff` (see `gaussian_rkhs_norm`): compare only the order of different functions.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        The interpolants: samples on `grid` of any functions.
    angles, targets : array_like, (n,)
        The given points of the circle, and the values there.
    cutoff : int or array_like of int, default 14
        As for `gaussian_rkhs_norm`.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> angles = [0.0, 1.0, 2.5]
    >>> y = smoothness.target(angles)
    >>> f = smoothness.interpolation(smoothness.gaussian_kernel, angles, y).values
    >>> round(smoothness.gaussian_rkhs_ratio(f, angles, y), 9)
    1.0
    """
    norm = np.asarray(gaussian_rkhs_norm(values, cutoff))
    if not np.all(norm > 0):
        raise ValueError("values is zero up to the cut-off, expected a function of some norm")
    return scalar(gaussian_interpolant_norm(angles, targets) / norm)


def _gaussian_coefficients(last: int) -> np.ndarray:
    """Return the Fourier coefficients e⁻¹ I_k(1) of the Gaussian on the circle, k = 0 … last."""
    return scipy.special.ive(np.arange(last + 1), 1.0)


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
