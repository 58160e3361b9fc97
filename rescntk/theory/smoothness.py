r"""Smoothness of the functions that fully connected networks interpolate with.

Tirer, Bruna, Giryes 2022: an interpolant's norm in the Gaussian kernel's reproducing kernel
Hilbert space (RKHS), and its curvature. An array of samples on `grid` stands for a function on the
circle. ``docs/theory/smoothness.md`` derives the measures.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from .. import literature
from ..activations import ACTIVATIONS, activation_of
from ..messages import shown
from ..network import Network, check_network
from ..network_parameters import BASIC_FIELDS
from ..validation import (
    check_choice,
    check_nonnegative,
    check_positive,
    check_positive_integer,
    check_rectangular,
    check_shape,
)
from .argument_checks import check_points
from .circle import circle, gaussian_kernel, grid, interpolation

__all__ = [
    "alpha_threshold",
    "circle",
    "curvature",
    "gaussian_kernel",
    "gaussian_rkhs_norm",
    "gaussian_rkhs_ratio",
    "grid",
    "interpolation",
    "jacobian_bound",
]

CUTOFF = 14
"""Default cut-off: the last frequency at which the Gaussian's coefficient is above eps times the
first."""

_LAST = 140
"""Highest cut-off. The Gaussian's coefficients e⁻¹ I_k(1) are 2e-284 there, and soon underflow."""


def curvature(values: ArrayLike) -> float | np.ndarray:
    r"""Return the curvature of functions on the circle, :math:`\|f''\|/\|f\|` in :math:`L^2`.

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


def jacobian_bound(network: Network, width: int, n_inputs: int) -> float:
    r"""Return the bound B on :math:`\|\partial f/\partial x\|` of a wide network.

    The last lines of eq. 18 and 20 of Tirer et al. 2022, with norms of at most :math:`3\sqrt n` of
    all hidden weights (docs/theory/smoothness.md). They hold with high probability at
    initialization and, in the tangent-kernel regime, during training.

    Parameters
    ----------
    network : Network
        ``literature.tirer_resnet(...)`` or ``literature.tirer_mlp(...)``, with any activation.
    width : int
        n, the number of units in each hidden layer.
    n_inputs : int
        C0, the number of channels of the input.

    Returns
    -------
    float
        Infinity where B is beyond float64.

    Raises
    ------
    ValueError
        If the network is another one.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.smoothness.jacobian_bound(rk.literature.tirer_mlp(depth=3), width=8, n_inputs=2)
    90.0
    """
    check_network(network, BASIC_FIELDS, activations=None)
    sizes = (
        (check_positive_integer(width, "width"), "width"),
        (check_positive_integer(n_inputs, "n_inputs"), "n_inputs"),
    )
    slope, first = activation_of(network).largest_slope, network.layer(1)
    alpha, sigma_v, sigma_w = first.alpha, math.sqrt(first.c_v), math.sqrt(first.c_w)
    constants = {"activation": network.activation, "c_w": first.c_w, "readout_scale": first.c_w}
    resnet = literature.tirer_resnet(network.depth, alpha).replace(c_v=first.c_v, **constants)
    if network == resnet:
        scale, layer, layers = sigma_w, 1 + 9 * alpha * slope * sigma_v * sigma_w, network.depth
    elif network == literature.tirer_mlp(network.depth).replace(**constants):
        scale, layer, layers = slope * first.c_w, 3 * slope * sigma_w, network.depth - 1
    else:
        raise ValueError(
            f"network is {shown(network)}, expected literature.tirer_resnet(...) or "
            f"literature.tirer_mlp(...): the bounds are about their weights"
        )
    n, d = (check_nonnegative(n, name) for n, name in sizes)
    with np.errstate(over="ignore"):
        return float(2.0 * scale * (1.0 + 2.0 * math.sqrt(n / d)) * np.float64(layer) ** layers)


def alpha_threshold(
    depth: int, *, sigma_v: float = 1.0, sigma_w: float = 1.0, activation: str = "relu"
) -> float:
    r"""Return the largest α for which B_ResNet ≤ B_MLP.

    :math:`\alpha = (3^{1-1/L} C_\varphi \sigma_w - 1) / (9 C_\varphi \sigma_v \sigma_w)`: eq. 21 of
    Tirer et al. 2022, solved for α.

    Parameters
    ----------
    depth : int
        Number of layers L of both networks.
    sigma_v : float, default 1.0
        Standard deviation σ_v of the ResNet's outer weights, positive.
    sigma_w : float, default 1.0
        Standard deviation σ_w of the other weights of both networks, positive.
    activation : {"relu", "erf", "gelu"}, default "relu"

    Returns
    -------
    float
        Negative where there is no such α; infinite, of either sign, where it is beyond float64.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> round(smoothness.alpha_threshold(5), 6)
    0.156469
    """
    name = check_choice(activation, "activation", tuple(ACTIVATIONS))
    slope = activation_of(Network(1, activation=name)).largest_slope
    v, w = check_positive(sigma_v, "sigma_v"), check_positive(sigma_w, "sigma_w")
    return (3.0 ** (1 - 1 / check_positive_integer(depth, "depth")) - 1.0 / slope / w) / 9.0 / v


def _gaussian_coefficients(last: int) -> np.ndarray:
    """Return the Fourier coefficients e⁻¹ I_k(1) of the Gaussian on the circle, k = 0 … last."""
    return scipy.special.ive(np.arange(last + 1), 1.0)


def _power_spectrum(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return |f̂_k|² + |f̂_−k|² of functions of largest value 1, and their own largest values."""
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
