r"""What infinite depth leaves of the tangent kernels of feedforward networks and of ResNets.

Huang, Wang, Tao, Zhao 2020, fully connected, only the hidden layers trained. Divided by its value
at equal arguments (:math:`L`, and :math:`2L\alpha^2(1+\alpha^2)^{L-1}`), the kernel of the
feedforward network (FFNet) tends to ¼ for all pairs that differ, whatever they are; that of the
ResNet with :math:`\alpha = L^{-\gamma}` to the kernel of one layer. Regression with the first
learns nothing: `degenerate_regression`.

Functions of a pair take its correlation :math:`t = \langle x, z\rangle / (\|x\| \|z\|)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..activations import angle_and_kappa1_excess
from ..kernels import gram
from ..literature import huang_ffnet, huang_resnet
from ..validation import check_constant, check_depths, check_real, check_signals


class KernelsOverDepth(NamedTuple):
    """Normalized tangent kernels over depth, (n_depths, n_cases, m_cases) each."""

    depths: np.ndarray
    ffnet: np.ndarray
    resnet: np.ndarray


def kernels_over_depth(
    X: np.ndarray,
    Z: np.ndarray | None = None,
    depths: Iterable[int] = (1, 5, 20, 100, 1000),
    gamma: float = 1.0,
    *,
    engine: str = "auto",
) -> KernelsOverDepth:
    r"""Return the normalized tangent kernels of Huang's FFNet and ResNet over depth.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, 1)
        Vectors, of any length but 0.
    Z : ndarray, (m_cases, n_channels, 1), optional
        The default is `X`.
    depths : iterable of int
    gamma : float, default 1.0
        The ResNet of depth L has :math:`\alpha = L^{-\gamma}`: another network for each depth.
    engine : str, default "auto"
        As for `Kernel`; for hundreds of pairs of vectors "reference" is the faster one.

    Returns
    -------
    KernelsOverDepth

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import degeneracy
    >>> X = np.eye(2)[:, :, None]
    >>> found = degeneracy.kernels_over_depth(X, depths=(1, 1000))
    >>> found.ffnet[:, 0, 1].round(3), found.resnet[:, 0, 1].round(3)
    (array([0.   , 0.253]), array([0.159, 0.159]))
    """
    depths = check_depths(depths)
    X = check_signals(X, "X")
    if X.shape[2] != 1:
        raise ValueError(f"X has shape {X.shape}, expected vectors: (n_cases, n_channels, 1)")
    options: dict[str, Any] = {
        "head": "trace",
        "kinds": ("ntk",),
        "normalized": True,
        "engine": engine,
    }
    ffnet = gram(huang_ffnet(1), X, Z, depths=depths, **options)[0]
    resnet = [gram(huang_resnet(depth, gamma), X, Z, **options)[0] for depth in depths]
    return KernelsOverDepth(np.array(depths), ffnet, np.stack(resnet))


def ffnet_limit(t: Any) -> np.ndarray:
    r"""Return the FFNet's normalized tangent kernel at infinite depth: ¼, and 1 where t = 1.

    Theorem 6 of Huang et al. 2020, with an error of :math:`O(\mathrm{polylog}(L)/L)`; sharper,
    and not in the paper, :math:`\bar\Omega_L - \frac14 = \frac38 \frac{\log L}{L} + O(1/L)`,
    from any t < 1 (`ffnet_rate`).

    Parameters
    ----------
    t : array_like
        Correlations in [-1, 1].

    Returns
    -------
    ndarray of the shape of `t`

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> degeneracy.ffnet_limit([-1.0, 0.5, 1.0])
    array([0.25, 0.25, 1.  ])
    """
    return np.where(_correlations(t) == 1.0, 1.0, 0.25)


def ffnet_rate(depth: Any) -> Any:
    r"""Return the leading term of the FFNet's distance from its limit, :math:`\frac38\log(L)/L`.

    Correlations approach 1 like :math:`\delta_l = 1/u_l^2` with :math:`u_l = \frac c2(l + \frac32
    \log l + O(1))`, :math:`c = 2\sqrt2/(3\pi)`. So :math:`\kappa_0 = 1 - 3/(l + \frac32\log l +
    \dots)`, products of it from layer l to L are :math:`(l/L)^3 (1 + \frac92(\frac{\log l}l -
    \frac{\log L}L) + \dots)`, and their mean over l is :math:`\frac14 + (\frac32 - \frac98)
    \frac{\log L}L + O(1/L)`.

    Parameters
    ----------
    depth : int or array_like of int

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> round(degeneracy.ffnet_rate(1000), 6)
    0.00259
    """
    layers = check_real(depth, "depth", "that are integers of at least 1")
    if layers.size == 0 or not ((layers >= 1) & (layers == np.floor(layers))).all():
        raise ValueError(f"depth is {depth!r}, expected integers of at least 1")
    rate = 0.375 * np.log(layers) / layers
    return float(rate) if rate.ndim == 0 else rate


def resnet_limit(t: Any) -> np.ndarray:
    r"""Return the ResNet's normalized tangent kernel at infinite depth, one layer's.

    :math:`\bar\Omega_1 = \frac12(\kappa_1(t) + t \kappa_0(t))`: theorem 7 of Huang et al. 2020,
    for :math:`\alpha = L^{-\gamma}`, :math:`\gamma > \frac12`.

    Parameters
    ----------
    t : array_like
        Correlations in [-1, 1].

    Returns
    -------
    ndarray of the shape of `t`

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> degeneracy.resnet_limit([-1.0, 0.0, 1.0]).round(6)
    array([0.      , 0.159155, 1.      ])
    """
    t = _correlations(t)
    k0, k1 = _arc_cosines(t)
    return 0.5 * (k1 + t * k0)


def resnet_rate(t: Any) -> np.ndarray:
    r"""Return c(t) in :math:`\bar\Omega_L - \bar\Omega_1 = c(t) L\alpha^2 + O((L\alpha^2)^2)`.

    Theorem 7 of Huang et al. 2020 says :math:`O(1/L)` for :math:`\alpha = 1/L`. Expanding their
    recursion to first order in :math:`\alpha^2`, which is not in the paper,

    .. math:: c = \tfrac14 \left[ (\kappa_1 + t\kappa_0)(\kappa_0 - 1) + (\kappa_1 - t)
        \left(2\kappa_0 + \frac{t}{\pi\sqrt{1-t^2}}\right) \right],

    0 at t = 1 and, since :math:`\kappa_0` has a square root there, without bound towards
    t = −1: for opposite vectors the distance is of order :math:`L^{-1/2}` instead, about
    :math:`-\frac{\sqrt2}{3\pi} \sqrt{L\alpha^2}`.

    Parameters
    ----------
    t : array_like
        Correlations in (-1, 1].

    Returns
    -------
    ndarray of the shape of `t`

    Examples
    --------
    >>> from rescntk.theory import degeneracy
    >>> degeneracy.resnet_rate([0.0, 1.0]).round(6)
    array([0.039789, 0.      ])
    """
    t = _correlations(t)
    if (t == -1.0).any():
        raise ValueError("t has the value -1, expected more: the rate has no bound there")
    k0, k1 = _arc_cosines(t)
    sine = np.sqrt((1.0 - t) * (1.0 + t))
    slope = np.divide(t, math.pi * sine, out=np.zeros_like(t), where=sine > 0)
    return 0.25 * ((k1 + t * k0) * (k0 - 1.0) + (k1 - t) * (2.0 * k0 + slope))


class Regression(NamedTuple):
    """Ridge regression with the FFNet's limiting kernel; from `degenerate_regression`."""

    coefficients: np.ndarray
    """(n,) or (n, n_targets)"""
    at_points: np.ndarray
    """Predictions at the given points, of the same shape; 3y/(4λ+3) if y sums to 0."""
    elsewhere: np.ndarray
    """The prediction at every other point, () or (n_targets,); 0 if y sums to 0."""


def degenerate_regression(y: np.ndarray, ridge: float = 0.0) -> Regression:
    r"""Return ridge regression with the limiting kernel of infinitely deep FFNets.

    Huang et al. 2020: with :math:`\bar\Omega = \frac34 I + \frac14 J`,
    :math:`\beta = \frac{1}{\lambda + 3/4} (I - \frac{1}{n + 4\lambda + 3} J) y`. If the values
    sum to 0, :math:`f(x_j) = 3y_j/(4\lambda+3)` and :math:`f(x^*) = 0`: it remembers and does
    not learn.

    Parameters
    ----------
    y : ndarray, (n,) or (n, n_targets)
        Values at n different points; whichever points.
    ridge : float, default 0.0
        λ.

    Returns
    -------
    Regression

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import degeneracy
    >>> fit = degeneracy.degenerate_regression(np.array([1.0, -1.0]), ridge=0.75)
    >>> fit.at_points, fit.elsewhere
    (array([ 0.5, -0.5]), array(0.))
    """
    ridge = check_constant(ridge, "ridge")
    values = check_real(y, "y", "(n,) or (n, n_targets)")
    if values.ndim not in (1, 2) or values.size == 0:
        raise ValueError(f"y has shape {values.shape}, expected (n,) or (n, n_targets)")
    total = values.sum(axis=0)
    rest = len(values) + 4.0 * ridge + 3.0
    coefficients = (values - total / rest) / (ridge + 0.75)
    elsewhere = np.asarray(total / rest)  # a quarter of the sum of the coefficients
    return Regression(coefficients, 0.75 * coefficients + elsewhere, elsewhere)


def _correlations(t: Any) -> np.ndarray:
    values = check_real(t, "t", "in [-1, 1]")
    if values.size == 0 or not (np.abs(values) <= 1.0).all():
        raise ValueError(f"t is {t!r}, expected correlations in [-1, 1]")
    return values


def _arc_cosines(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return κ0(t) and κ1(t)."""
    flat = t.reshape(-1)
    angle, gap = angle_and_kappa1_excess(np, 1.0 - flat, 1.0 + flat)
    return (1.0 - angle / math.pi).reshape(t.shape), (flat + gap).reshape(t.shape)
