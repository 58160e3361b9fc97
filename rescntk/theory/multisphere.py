r"""Signals on the multi-sphere, where every pixel has the same norm.

For :math:`x \in MS(C_0, d)`, i.e. :math:`\|x_j\| = \sqrt{C_0}` at every pixel j, kernels of
ReLU networks depend on the dot products :math:`t_j = \langle x_j, z_j\rangle / C_0` alone
(Barzilai et al. 2022, section 3.2 and theorem 4.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from opt_einsum import contract

from ..activations import one_minus_kappa1
from ..engines.rings import circular_sum
from ..network import (
    check_constant,
    check_depth,
    check_filter_size,
    check_flag,
    check_integer,
)
from ..signals import check_signals

# How far from √C0 a pixel's norm may be, relatively: what float32 data has after projection.
_NORM_TOLERANCE = 1e-6


def project(X: np.ndarray) -> np.ndarray:
    """Return the signals with each pixel scaled to norm √n_channels.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)

    Returns
    -------
    ndarray of the same shape, float64

    Raises
    ------
    ValueError
        If a pixel is zero: it has no direction.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import multisphere
    >>> multisphere.project(np.array([[[3.0], [4.0]]])).ravel().round(4)
    array([0.8485, 1.1314])
    """
    X = check_signals(X, "X")
    largest = np.abs(X).max(axis=1, keepdims=True)
    if not largest.all():
        case, _, pixel = np.argwhere(largest == 0)[0]
        raise ValueError(
            f"X of shape {X.shape} is zero at all channels of case {case}, timepoint {pixel}: "
            f"expected pixels that have a direction"
        )
    X = X / largest  # squares neither overflow nor vanish
    return X * np.sqrt(X.shape[1] / (X * X).sum(axis=1, keepdims=True))


def sample(
    n_cases: int, n_channels: int, n_timepoints: int, rng: np.random.Generator | int | None = None
) -> np.ndarray:
    """Return signals drawn uniformly from the multi-sphere.

    Parameters
    ----------
    n_cases, n_channels, n_timepoints : int
        Shape of the result, each at least 1.
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints)

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(5, 3, 8, rng=0)
    >>> (X**2).sum(axis=1).round(12)[0]
    array([3., 3., 3., 3., 3., 3., 3., 3.])
    """
    shape = tuple(
        check_depth(number, name)
        for number, name in (
            (n_cases, "n_cases"),
            (n_channels, "n_channels"),
            (n_timepoints, "n_timepoints"),
        )
    )
    return project(np.random.default_rng(rng).standard_normal(shape))


def dot_products(
    X: np.ndarray, Z: np.ndarray | None = None, offset: int = 0, complement: bool = False
) -> np.ndarray:
    """Return the dot products t of the pixels of signals on the multi-sphere.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    Z : ndarray, (m_cases, n_channels, n_timepoints), optional
        The default is `X`.
    offset : int, default 0
        Pixel j of X meets pixel j + offset of Z (circularly).
    complement : bool, default False
        Return 1 − t, from differences: exact for signals that nearly agree.

    Returns
    -------
    ndarray, (n_cases, m_cases, n_timepoints)
        In [-1, 1], or [0, 2].

    Raises
    ------
    ValueError
        If a pixel's norm is not √n_channels (`project` makes it so).

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(5, 3, 8, rng=0)
    >>> multisphere.dot_products(X)[0, 0].round(12)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    X = _on_multisphere(X, "X")
    Z = X if Z is None else _on_multisphere(Z, "Z")
    if X.shape[1:] != Z.shape[1:]:
        raise ValueError(f"Z has shape {Z.shape}, expected (m_cases, {X.shape[1]}, {X.shape[2]})")
    Z = np.roll(Z, -check_integer(offset, "offset"), axis=2)
    if not check_flag(complement, "complement"):
        return np.clip(contract("icj,kcj->ikj", X, Z) / X.shape[1], -1.0, 1.0)
    gaps = np.zeros((len(X), len(Z), X.shape[2]))
    for x, z in zip(X.transpose(1, 0, 2), Z.transpose(1, 0, 2), strict=True):
        gaps += (x[:, None] - z[None]) ** 2
    return np.minimum(gaps / (2 * X.shape[1]), 2.0)


def normalized_gpk(
    t: Any,
    depth: int,
    filter_size: int = 3,
    alpha: float = 1.0,
    skip: bool = True,
    complement: bool = False,
) -> np.ndarray:
    r"""Return the normalized equivariant ResCGPK, or CGPK, as a function of dot products.

    Theorem 4.1 of Barzilai et al. 2022 (c_v = 2, c_w = 1):

    .. math::
        \bar K^1 = \frac{t + \alpha^2\,\mathrm{box}\,\kappa_1(t)}{1 + \alpha^2}, \qquad
        \bar K^l = \frac{\bar K^{l-1} + \alpha^2\,\mathrm{box}\,
        \kappa_1(\mathrm{box}\,\bar K^{l-1})}{1 + \alpha^2},

    and without skip connections :math:`\bar K^1 = \mathrm{box}\,\kappa_1(t)`,
    :math:`\bar K^l = \mathrm{box}\,\kappa_1(\mathrm{box}\,\bar K^{l-1})`. The recursion runs
    on the complements :math:`1 - \bar K`, whose digits survive at any depth.

    Parameters
    ----------
    t : array_like, (..., n_timepoints)
        Dot products in [-1, 1] along a row of pixels, from `dot_products`.
    depth, filter_size, alpha, skip
        As for `Network`.
    complement : bool, default False
        Take and return 1 − (·) instead: with full relative accuracy.

    Returns
    -------
    ndarray, (..., n_timepoints)
        The kernel with the equivariant head at each pixel. Its mean over the last axis is
        the trace kernel at offset 0; averaged over all offsets too, GAP (not normalized).

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> multisphere.normalized_gpk([1.0, 0.0, -1.0], depth=2).round(4)
    array([0.5778, 0.3278, 0.0778])
    """
    depth = check_depth(depth)
    size = check_filter_size(filter_size, "filter_size")
    alpha = check_constant(alpha, "alpha")
    share = alpha / (alpha + 1.0 / alpha) if alpha > 0 else 0.0  # α²/(1 + α²), at any size
    skip, complement = check_flag(skip, "skip"), check_flag(complement, "complement")
    values = np.asarray(t, dtype=np.float64)
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"t has shape {values.shape}, expected (..., n_timepoints)")
    gap = np.moveaxis(check_dot_products(values, complement), -1, 0)
    for layer in range(1, depth + 1):
        inner = gap if layer == 1 else circular_sum(np, gap, size) / size
        branch = circular_sum(np, one_minus_kappa1(np.minimum(inner, 2.0)), size) / size
        gap = (1.0 - share) * gap + share * branch if skip else branch
    gap = np.moveaxis(gap, 0, -1)
    return gap if complement else 1.0 - gap


def check_dot_products(t: np.ndarray, complement: bool) -> np.ndarray:
    """Return 1 − t (t itself if `complement`), in [0, 2], or say what is wrong with it."""
    complement = check_flag(complement, "complement")
    low, high = (0.0, 2.0) if complement else (-1.0, 1.0)
    slack = 8 * np.finfo(np.float64).eps
    if not bool(((t >= low - slack) & (t <= high + slack)).all()):
        raise ValueError(
            f"t has values from {t.min()} to {t.max()}, "
            f"expected {'complements of ' if complement else ''}dot products in [{low}, {high}]"
        )
    t = np.clip(t, low, high)
    return t if complement else 1.0 - t


def _on_multisphere(X: np.ndarray, name: str) -> np.ndarray:
    X = check_signals(X, name)
    squares = (X * X).mean(axis=1)
    worst = float(np.abs(squares - 1.0).max())
    if worst > 2 * _NORM_TOLERANCE:
        raise ValueError(
            f"{name} of shape {X.shape} is not on the multi-sphere: a pixel's squared norm is off "
            f"by {worst:.2g} of n_channels, expected none (multisphere.project makes it so)"
        )
    return X
