r"""Rates and limits of deep kernels in closed form.

`asymptotic_complement` is the law of deep Gaussian process kernels. The other functions are about
the fully connected networks of Huang, Wang, Tao, Zhao 2020, ``literature.huang_ffnet`` and
``literature.huang_resnet``, of which only the hidden layers are trained. Their kernels
:math:`\bar\Omega_L` are normalized; ρ is the correlation of a pair of inputs, the argument `rho`.
``docs/theory/depth_limits.md`` and ``docs/theory/depth_rates.md`` derive all formulas.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...network import Network, check_network
from ...network_parameters import RELU_FIELDS
from ...validation import (
    check_depths,
    check_nonnegative,
    check_positive,
    check_real,
    check_rectangular,
)
from ..argument_checks import check_branch, check_dot_products
from ..complements import arc_cosines


def asymptotic_complement(network: Network, *, n_pixels: float = 1.0) -> float:
    r"""Return the asymptote of 1 − (normalized GPK) at great depth.

    :math:`\delta_L/m` with :math:`\delta_L = \frac{9\pi^2}{2 p^2 L^2}` at depth L, for ReLU without
    biases. p is ``Network.branch_weight``, 1 without skip connections, and m are the `n_pixels`.
    Closer signals follow the law from greater depths on. Not in the papers;
    docs/theory/depth_limits.md derives it, with its conditions on signals.

    Parameters
    ----------
    network : Network
        Of ReLU without biases. With skip connections `alpha` is positive.
    n_pixels : float, default 1.0
        Pixels m that the head averages: of "gap" the signals' length, of two lengths their harmonic
        mean; of a head of m pixels m, of images m²; else 1.

    Returns
    -------
    float
        NaN before the onset, :math:`pL < 3\pi/\sqrt2`, where :math:`\delta_L` exceeds 1, the
        complement of uncorrelated pixels.

    Raises
    ------
    ValueError
        If the network has another activation, biases, or no branch.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import depth, multisphere
    >>> network = rk.Network(10_000)
    >>> deep = multisphere.normalized_gpk(network, [1.0], complement=True)[0]
    >>> print(f"{deep / depth.asymptotic_complement(network):.3f}")
    0.995
    """
    check_network(network, RELU_FIELDS, ": the law is about ReLU")
    layers = check_nonnegative(network.depth, "depth")
    check_branch(network)
    inverse = network.growth / network.branch_gain if network.skip else 1.0  # 1/p, all digits
    delta = 4.5 * math.pi**2 * (inverse / layers) * (inverse / layers)
    return (delta if delta <= 1.0 else math.nan) / check_positive(n_pixels, "n_pixels")


def huang_ffnet_limit(rho: ArrayLike) -> np.ndarray:
    """Return the kernel of Huang's FFNet at infinite depth (theorem 6): ¼, and 1 where ρ = 1.

    Parameters
    ----------
    rho : array_like
        Correlations, in [-1, 1].

    Returns
    -------
    ndarray, in the shape of rho

    Raises
    ------
    ValueError
        If a correlation is out of range.

    Examples
    --------
    >>> from rescntk.theory import depth
    >>> depth.huang_ffnet_limit([-0.5, 1.0])
    array([0.25, 1.  ])
    """
    return np.where(_correlations(rho) == 1.0, 1.0, 0.25)


def huang_ffnet_distance(depth: ArrayLike) -> np.ndarray:
    r"""Return the leading term of the distance of Huang's FFNet from its limit.

    :math:`\frac38\log(L)/L`, for every correlation below 1.

    Parameters
    ----------
    depth : int or array_like of int
        L, at least 1.

    Returns
    -------
    ndarray, in the shape of depth

    Raises
    ------
    ValueError
        If a depth is not a positive integer.

    Examples
    --------
    >>> from rescntk.theory import depth
    >>> float(depth.huang_ffnet_distance(1000).round(6))
    0.00259
    """
    numbers = check_rectangular(depth, "depth", "integers")
    depths = check_depths(numbers.ravel().tolist(), "depth")
    layers = np.reshape([check_nonnegative(n, "depth") for n in depths], numbers.shape)
    return np.asarray(0.375 * np.log(layers) / layers)


def huang_resnet_limit(rho: ArrayLike) -> np.ndarray:
    r"""Return the limit of the kernel of Huang's ResNet, one layer's.

    It is :math:`\bar\Omega_1 = \frac12(\kappa_1(\rho) + \rho \kappa_0(\rho))`. Theorem 7 has
    :math:`\alpha = 1/L`; this is the limit for :math:`\alpha = L^{-\gamma}` with any
    :math:`\gamma > \frac12` (docs/theory/depth_limits.md).

    Parameters
    ----------
    rho : array_like
        Correlations, in [-1, 1].

    Returns
    -------
    ndarray, in the shape of rho

    Raises
    ------
    ValueError
        If a correlation is out of range.

    Examples
    --------
    >>> from rescntk.theory import depth
    >>> depth.huang_resnet_limit([-1.0, 0.0, 1.0]).round(4)
    array([0.    , 0.1592, 1.    ])
    """
    rho = _correlations(rho)
    k0, k1 = arc_cosines(rho)
    return 0.5 * (k1 + rho * k0)


def huang_resnet_constant(rho: ArrayLike) -> np.ndarray:
    r"""Return the constant R of the distance of Huang's ResNet from its limit.

    :math:`\bar\Omega_L - \bar\Omega_1 = R(\rho)(L-1)\alpha^2 + O((L\alpha^2)^2)`, for a fixed ρ
    above −1 and :math:`\gamma > \frac12`.

    Parameters
    ----------
    rho : array_like
        Correlations, in (-1, 1]. Towards −1, R has no bound.

    Returns
    -------
    ndarray, in the shape of rho

    Raises
    ------
    ValueError
        If a correlation is out of range.

    Examples
    --------
    >>> from rescntk.theory import depth
    >>> depth.huang_resnet_constant([0.0, 1.0]).round(4)
    array([0.0398, 0.    ])
    """
    rho = _correlations(rho)
    if (rho == -1.0).any():
        raise ValueError("rho has the value -1, expected more: the rate has no bound there")
    k0, k1 = arc_cosines(rho)
    sine = np.sqrt((1.0 - rho) * (1.0 + rho))
    slope = np.divide(rho, math.pi * sine, out=np.zeros_like(rho), where=sine > 0)
    return 0.25 * ((k1 + rho * k0) * (k0 - 1.0) + (k1 - rho) * (2.0 * k0 + slope))


def _correlations(rho: ArrayLike) -> np.ndarray:
    values = check_real(rho, "rho", "in [-1, 1]")
    return np.asarray(1.0 - check_dot_products(values, False, "rho"))
