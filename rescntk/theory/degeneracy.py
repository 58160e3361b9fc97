r"""Tangent kernels of infinitely deep feedforward networks and ResNets, fully connected.

Huang, Wang, Tao, Zhao 2020: ``literature.huang_ffnet`` and ``literature.huang_resnet``, of which
only the hidden layers are trained. Kernels :math:`\bar\Omega_L` are normalized; t is the
correlation of a pair of inputs. Derivations are in docs/theory/depth_limits.md, section 3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ..validation import check_real
from .complements import arc_cosines

__all__ = ["ffnet_limit", "ffnet_rate", "resnet_limit", "resnet_rate"]


def ffnet_limit(t: ArrayLike) -> np.ndarray:
    """Return the FFNet's normalized tangent kernel at infinite depth: ¼, and 1 where t = 1.

    Theorem 6 of Huang et al. 2020. The error from any t < 1 is `ffnet_rate` + O(1/L).

    Parameters
    ----------
    t : array_like
        Correlations in [-1, 1].

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> degeneracy.ffnet_limit([-0.5, 1.0])
    array([0.25, 1.  ])
    """
    return np.where(_check_correlations(t) == 1.0, 1.0, 0.25)


def ffnet_rate(depth: ArrayLike) -> float | np.ndarray:
    r"""Return the leading term of the FFNet's distance from its limit, :math:`\frac38\log(L)/L`.

    Not in the paper, which says :math:`O(\mathrm{polylog}(L)/L)`.

    Parameters
    ----------
    depth : int or array_like of int

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> round(degeneracy.ffnet_rate(1000), 6)
    0.00259
    """
    layers = check_real(depth, "depth", "integers of at least 1")
    if not ((layers >= 1) & (layers % 1 == 0)).all():
        raise ValueError(f"depth is {depth!r}, expected integers of at least 1")
    rate = 0.375 * np.log(layers) / layers
    return float(rate) if rate.ndim == 0 else rate


def resnet_limit(t: ArrayLike) -> np.ndarray:
    r"""Return the ResNet's normalized tangent kernel at infinite depth: the kernel of one layer.

    :math:`\bar\Omega_1 = \frac12(\kappa_1(t) + t \kappa_0(t))`: theorem 7 of Huang et al. 2020,
    for :math:`\alpha = L^{-\gamma}`, :math:`\gamma > \frac12`. At :math:`\gamma = \frac12` the
    limit is that of ``flow.kernel``.

    Parameters
    ----------
    t : array_like
        Correlations in [-1, 1].

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> degeneracy.resnet_limit([-1.0, 0.0, 1.0]).round(4)
    array([0.    , 0.1592, 1.    ])
    """
    t = _check_correlations(t)
    k0, k1 = arc_cosines(t)
    return 0.5 * (k1 + t * k0)


def resnet_rate(t: ArrayLike) -> np.ndarray:
    r"""Return c(t) in :math:`\bar\Omega_L - \bar\Omega_1 = c(t) L\alpha^2 + O((L\alpha^2)^2)`.

    The first order of the recursion of Huang et al. 2020, whose theorem 7 says :math:`O(1/L)` for
    :math:`\alpha = 1/L`. It has no bound towards t = −1: there the distance is
    :math:`-\frac{\sqrt2}{3\pi} L^{-1/2}`.

    Parameters
    ----------
    t : array_like
        Correlations in (-1, 1].

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> degeneracy.resnet_rate([0.0, 1.0]).round(4)
    array([0.0398, 0.    ])
    """
    t = _check_correlations(t)
    if (t == -1.0).any():
        raise ValueError("t has the value -1, expected more: the rate has no bound there")
    k0, k1 = arc_cosines(t)
    sine = np.sqrt((1.0 - t) * (1.0 + t))
    slope = np.divide(t, math.pi * sine, out=np.zeros_like(t), where=sine > 0)
    return 0.25 * ((k1 + t * k0) * (k0 - 1.0) + (k1 - t) * (2.0 * k0 + slope))


def _check_correlations(t: ArrayLike) -> np.ndarray:
    values = check_real(t, "t", "in [-1, 1]")
    if values.size == 0 or not (np.abs(values) <= 1.0).all():
        raise ValueError(f"t is {t!r}, expected correlations in [-1, 1]")
    return values
