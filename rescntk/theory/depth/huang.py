r"""Limits and rates of the deep kernels of Huang, Wang, Tao, Zhao 2020: theorems 6 and 7.

Of the fully connected ``literature.huang_ffnet`` and ``literature.huang_resnet`` only the hidden
layers are trained. Their kernels :math:`\bar\Omega_L` are normalized; ρ is the correlation of a
pair of inputs, the argument `rho`. ``docs/theory/depth_rates.md`` derives the rates.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...checks.values import check_depths, check_nonnegative, check_real, check_rectangular
from ...network.activations import angle_and_kappa1_excess
from ..tools.argument_checks import check_dot_products
from ..tools.complements import arc_cosines


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
    # 1 − κ0 and κ1 − ρ have all their digits, also where ρ is near 1.
    angle, excess = angle_and_kappa1_excess(np, (1.0 - rho).ravel(), (1.0 + rho).ravel())
    below_1, excess = angle.reshape(rho.shape) / math.pi, excess.reshape(rho.shape)
    sine = np.sqrt((1.0 - rho) * (1.0 + rho))
    slope = np.divide(rho, math.pi * sine, out=np.zeros_like(rho), where=sine > 0)
    limit = 2.0 * rho + excess - rho * below_1  # κ1 + ρ κ0
    return 0.25 * (excess * (2.0 - 2.0 * below_1 + slope) - limit * below_1)


def _correlations(rho: ArrayLike) -> np.ndarray:
    values = check_real(rho, "rho", "in [-1, 1]")
    return np.asarray(1.0 - check_dot_products(values, False, "rho"))
