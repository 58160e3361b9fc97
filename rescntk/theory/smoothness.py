r"""How smooth are the functions that fully connected networks interpolate with?

Tirer, Bruna, Giryes 2022 compare multi-layer perceptrons with ResNets in three ways: by bounds
on the network's Jacobian (`jacobian`), by the norm of an interpolant in the reproducing kernel
Hilbert space of a Gaussian kernel (their μ, eq. 22-23), and in their slides by its second
derivative.

Functions live on the circle: an array of samples at equally spaced angles, `grid`, stands for
one. Points of the circle are signals of two channels and length 1, from `circle`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.special

from ..regression import interpolate
from ..validation import (
    check_depth,
    check_integer,
    check_kernel,
    check_match,
    check_real,
    check_signals,
)
from .jacobian import alpha_threshold as alpha_threshold
from .jacobian import jacobian_bound as jacobian_bound
from .jacobian import jacobian_bound_ratio as jacobian_bound_ratio

SAMPLES = 4096
"""How many samples of the circle stand for a function (figure 7 of the paper)."""

CUTOFF = 14
"""The last frequency at which the Gaussian's transform is above eps times its peak: beyond it
an FFT of the Gaussian in float64 holds rounding errors."""

# The Gaussian's coefficients e⁻¹ I_k(1) ≈ e⁻¹/(2ᵏ k!) are 2e-284 here; soon after they underflow.
_LAST = 140


def grid(n_samples: int = SAMPLES) -> np.ndarray:
    """Return equally spaced angles from -π on, (n_samples,).

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.grid(4).round(4)
    array([-3.1416, -1.5708,  0.    ,  1.5708])
    """
    n = check_depth(n_samples, "n_samples")
    return 2.0 * math.pi * (np.arange(n) - n / 2) / n


def circle(angles: Any) -> np.ndarray:
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
    angles = _vector(angles, "angles")
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]


def target(angles: Any) -> np.ndarray:
    r"""Return the function that the paper samples, :math:`\frac12\cos\beta + \sin 4\beta` (C.1).

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> float(smoothness.target([0.0])[0])
    0.5
    """
    angles = _vector(angles, "angles")
    return 0.5 * np.cos(angles) + np.sin(4.0 * angles)


def gaussian_kernel(X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    r"""Return :math:`\exp(-\frac12\|x - z\|^2)`, the kernel of the paper's reference.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    Z : ndarray, (m_cases, n_channels, n_timepoints), optional
        The default is `X`.

    Returns
    -------
    ndarray, (n_cases, m_cases)

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


def kernel_shape(kernel: Callable[..., np.ndarray], n_samples: int = SAMPLES) -> np.ndarray:
    """Return a kernel against the angle between its arguments, on `grid`: figures 2a and 5a.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or anything else that gives a matrix ``kernel(X, Z)`` of signals.
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
        :math:`|F_k|/N` of the FFT for frequencies 0 to N/2: those of a cosine are ½.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> smoothness.magnitudes(np.cos(smoothness.grid(8))).round(12)
    array([0. , 0.5, 0. , 0. , 0. ])
    """
    values = _samples(values)
    return np.abs(np.fft.rfft(values, norm="forward"))


def decay(values: np.ndarray, first: int, last: int) -> float:
    """Return the exponent p of a spectrum that falls like frequency^-p.

    Parameters
    ----------
    values : ndarray, (n_samples,)
        Samples on `grid`.
    first, last : int
        The frequencies to which a line is fitted, log against log, both included.

    Returns
    -------
    float
        Tangent kernels of ReLU networks have 2 on the circle, Gaussian process kernels 4
        (Bietti and Bach 2021; section 5 of Barzilai et al. 2022).

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> round(smoothness.decay(np.abs(smoothness.grid()), 1, 101), 2)
    2.0
    """
    spectrum = magnitudes(values)
    first, last = check_depth(first, "first"), check_integer(last, "last")
    if spectrum.ndim != 1 or not first < last < len(spectrum):
        raise ValueError(
            f"first and last are {first} and {last}, expected first < last below half the samples "
            f"of one function; values has shape {np.shape(values)}"
        )
    k = np.arange(first, last + 1)
    # Some kernels have no odd or no even frequencies at all.
    kept = spectrum[k] > 1e3 * np.finfo(np.float64).eps * spectrum.max()
    if kept.sum() < 2:
        raise ValueError(
            f"values has no spectrum above rounding errors from frequency {first} to {last}"
        )
    return -float(np.polyfit(np.log(k[kept]), np.log(spectrum[k][kept]), 1)[0])


def curvature(values: np.ndarray) -> Any:
    r"""Return the curvature of functions on the circle, :math:`\|f''\|/\|f\|` in :math:`L^2`.

    The measure of the authors' slides: :math:`(\frac1{N^2} \sum_k |k|^4 |F(k)|^2)^{1/2}` for the
    function normalized in :math:`L^2`, F its FFT. Smaller is smoother; :math:`\cos m\beta` has
    :math:`m^2`.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.

    Returns
    -------
    float or ndarray, (...)
        For a function with kinks, such as what a tangent kernel of a ReLU network interpolates,
        the second derivative is not in :math:`L^2`: the number grows like
        :math:`\sqrt{n\_samples}` and compares functions at equal sampling only.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import smoothness
    >>> round(smoothness.curvature(np.cos(3 * smoothness.grid())), 9)
    9.0
    """
    power, scale = _power(values)
    if not np.all(scale > 0):
        raise ValueError("values is zero everywhere, expected a function that can be normalized")
    k = np.arange(power.shape[-1], dtype=np.float64)
    return _scalar(np.sqrt((k**4 * power).sum(axis=-1) / power.sum(axis=-1)))


def gaussian_rkhs_norm(values: np.ndarray, cutoff: Any = CUTOFF) -> Any:
    r"""Return the norm in the Gaussian's RKHS of a function's part up to a frequency.

    Eq. 23 of Tirer et al. 2022 (whose right-hand side is the square of the norm) on the circle,
    where :math:`\exp(-\frac12\|x-z\|^2) = e^{\cos\Delta - 1} = \sum_k e^{-1} I_k(1)\,
    e^{ik\Delta}`, with the modified Bessel functions I:

    .. math:: \|f\|^2 = \sum_{|k| \le \mathrm{cutoff}} \frac{|\hat f_k|^2}{e^{-1} I_k(1)} .

    The Gaussian's coefficients fall faster than any exponential, like :math:`1/(2^k k!)`. The
    sum therefore converges for very few functions: *for the interpolant of a ReLU or erf network
    the norm without a cut-off is infinite*, and its value is a statement about the frequencies
    up to the cut-off.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `grid`.
    cutoff : int or array_like of int, default 14
        The last frequency. The default is the last where the Gaussian's coefficient is above
        eps times the first, as far as an FFT of the Gaussian would know it. The coefficients
        used here are exact; with samples in float64, errors eps·max|f| of f̂ make the sum
        meaningless for smooth functions beyond frequency 24, where the Gaussian has eps².

    Returns
    -------
    float or ndarray, (...) or (..., *cutoff.shape)

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
    power, scale = _power(values)
    n_samples = np.shape(values)[-1]
    limit = min((n_samples - 1) // 2, _LAST)
    last = np.asarray(cutoff)
    if last.dtype.kind not in "iu" or last.size == 0 or last.min() < 0 or last.max() > limit:
        raise ValueError(
            f"cutoff is {cutoff!r}, expected integers from 0 to {limit} for values of "
            f"{n_samples} samples"
        )
    norms = np.sqrt(np.cumsum(power[..., : limit + 1] / _gaussian_coefficients(limit), axis=-1))
    with np.errstate(over="ignore"):
        norms *= scale[..., None]
    return _scalar(norms[..., last])


def gaussian_interpolant_norm(angles: np.ndarray, targets: np.ndarray) -> float:
    r"""Return the RKHS norm of the Gaussian kernel's interpolant of given points.

    :math:`(y^\top K^{-1} y)^{1/2}`, the least norm of all interpolants. Computed from the QR
    factors of the kernel's Fourier features, which see the square root of K's condition number.

    Parameters
    ----------
    angles, targets : array_like, (n,)
        The given points of the circle, and the values there.

    Returns
    -------
    float

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
    angles, targets = _given(angles, targets)
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
    values: np.ndarray, angles: np.ndarray, targets: np.ndarray, cutoff: Any = CUTOFF
) -> Any:
    r"""Return how smooth an interpolant is against the Gaussian kernel's: the paper's μ.

    Eq. 22 of Tirer et al. 2022: :math:`\mu(f) = \|f_\mathrm{Gauss}\|/\|f\|` in the Gaussian's
    RKHS; larger is smoother. The numerator is exact, the denominator ends at `cutoff`, and that
    cannot be done away with: for ReLU and erf networks :math:`\|f\| = \infty`, and μ of the
    definition is 0 (see `gaussian_rkhs_norm`). So values belong to their cut-off, and the one
    thing to compare is their order for different functions. 1 is the Gaussian's own interpolant;
    low cut-offs, that see a part of f only, may give more.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        The interpolants: samples on `grid` of any functions.
    angles, targets : array_like, (n,)
        The given points of the circle, and the values there.
    cutoff : int or array_like of int, default 14
        As for `gaussian_rkhs_norm`.

    Returns
    -------
    float or ndarray, (...) or (..., *cutoff.shape)

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
    return _scalar(gaussian_interpolant_norm(angles, targets) / norm)


class Interpolation(NamedTuple):
    """A kernel's interpolant on the circle, and how smooth it is; from `interpolation`."""

    values: np.ndarray
    """(n_samples,), on `grid`"""
    curvature: float
    """The slides' measure (smaller is smoother)."""


def interpolation(
    kernel: Callable[..., np.ndarray],
    angles: np.ndarray,
    targets: np.ndarray,
    n_samples: int = SAMPLES,
) -> Interpolation:
    """Return what a kernel makes of given points of the circle, with its curvature.

    Eq. 4 and figures 2, 4, 5 and 6 of Tirer et al. 2022; their μ is `gaussian_rkhs_ratio` of
    the values.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or anything else that gives matrices ``kernel(X)`` and ``kernel(Z, X)``.
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
    angles, targets = _given(angles, targets)
    values = interpolate(kernel, circle(angles), targets, circle(grid(n_samples)))
    return Interpolation(values, curvature(values))


def _gaussian_coefficients(last: int) -> np.ndarray:
    """Return the Fourier coefficients e⁻¹ I_k(1) of the Gaussian on the circle, k = 0 … last."""
    return scipy.special.ive(np.arange(last + 1), 1.0)


def _power(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return |f̂_k|² of k and −k together of functions scaled to 1, and their largest values.

    (..., n_samples // 2 + 1), of sum mean (f/scale)²; (...). Unscaled squares might overflow.
    """
    values = _samples(values)
    scale = np.abs(values).max(axis=-1)
    scaled = values / np.where(scale > 0, scale, 1.0)[..., None]
    power = np.abs(np.fft.rfft(scaled, norm="forward")) ** 2
    both = slice(1, (values.shape[-1] + 1) // 2)  # 0, and N/2 of an even N, have no partner
    power[..., both] *= 2.0
    return power, scale


def _samples(values: Any) -> np.ndarray:
    array = check_real(values, "values", "(..., n_samples)")
    if array.ndim == 0 or array.size == 0 or array.shape[-1] < 2:
        raise ValueError(f"values has shape {array.shape}, expected (..., n_samples)")
    return array


def _vector(values: Any, name: str) -> np.ndarray:
    array = check_real(values, name, "(n,)")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}, expected (n,)")
    return array


def _given(angles: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    angles, targets = _vector(angles, "angles"), _vector(targets, "targets")
    if angles.shape != targets.shape:
        raise ValueError(f"targets has shape {targets.shape}, expected {angles.shape}")
    return angles, targets


def _scalar(values: np.ndarray) -> Any:
    return float(values) if np.ndim(values) == 0 else values
