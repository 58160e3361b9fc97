"""Tangent kernels of infinitely deep feedforward networks and ResNets, fully connected.

Huang, Wang, Tao, Zhao 2020; only the hidden layers are trained. Kernels are normalized. Functions
of a pair take its correlation t. Derivations are in docs/theory/depth_limits.md, section 3. As a
script it prints distances from the limit of the ResNet beside their first term.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rescntk import gram
from rescntk.literature import huang_ffnet, huang_resnet
from rescntk.theory import smoothness
from rescntk.theory.complements import arc_cosines
from rescntk.validation import check_depths, check_real, check_signals

FFNET_LIMIT = 0.25
"""Limit of the FFNet's normalized tangent kernel off the diagonal (Huang et al., theorem 6)."""

LOG_RATE = 3.0 / 8.0
"""Factor of log(L)/L in the FFNet's distance from its limit (docs/theory/depth_limits.md)."""


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
    X, Z : ndarray, (n_cases, n_channels, 1)
        Vectors, not zero. The default of `Z` is `X`.
    depths : iterable of int
    gamma : float, default 1.0
        The ResNet of depth L has :math:`\alpha = L^{-\gamma}`: another network for each depth.
    engine : str, default "auto"
        As for `Kernel`. "auto" is the fastest.
    """
    depths = check_depths(depths)
    X = check_signals(X, "X")
    if X.shape[2] != 1:
        raise ValueError(f"X has shape {X.shape}, expected vectors: (n_cases, n_channels, 1)")
    ntk = partial(gram, X=X, Z=Z, head="trace", kinds=("ntk",), normalized=True, engine=engine)
    ffnet = ntk(huang_ffnet(1), depths=depths)[0]
    resnet = [ntk(huang_resnet(depth, gamma))[0] for depth in depths]
    return KernelsOverDepth(np.array(depths), ffnet, np.stack(resnet))


def ffnet_limit(t: ArrayLike) -> np.ndarray:
    """Return the FFNet's normalized tangent kernel at infinite depth: ¼, and 1 where t = 1.

    Theorem 6 of Huang et al. 2020. The error from any t < 1 is `ffnet_rate` + O(1/L).

    Parameters
    ----------
    t : array_like
        Correlations in [-1, 1].
    """
    return np.where(_check_correlations(t) == 1.0, 1.0, FFNET_LIMIT)


def _check_correlations(t: ArrayLike) -> np.ndarray:
    values = check_real(t, "t", "in [-1, 1]")
    if values.size == 0 or not (np.abs(values) <= 1.0).all():
        raise ValueError(f"t is {t!r}, expected correlations in [-1, 1]")
    return values


def ffnet_rate(depth: ArrayLike) -> float | np.ndarray:
    r"""Return the leading term of the FFNet's distance from its limit, :math:`\frac38\log(L)/L`.

    Not in the paper, which says :math:`O(\mathrm{polylog}(L)/L)`.

    Parameters
    ----------
    depth : int or array_like of int
    """
    layers = check_real(depth, "depth", "integers")
    rate = LOG_RATE * np.log(layers) / layers
    return float(rate) if rate.ndim == 0 else rate


def resnet_limit(t: ArrayLike) -> np.ndarray:
    r"""Return the ResNet's normalized tangent kernel at infinite depth: the kernel of one layer.

    :math:`\bar\Omega_1 = \frac12(\kappa_1(t) + t \kappa_0(t))`: theorem 7 of Huang et al. 2020,
    for :math:`\alpha = L^{-\gamma}`, :math:`\gamma > \frac12`.

    Parameters
    ----------
    t : array_like
        Correlations in [-1, 1].
    """
    t = _check_correlations(t)
    k0, k1 = arc_cosines(t)
    return 0.5 * (k1 + t * k0)


def resnet_rate(t: ArrayLike) -> np.ndarray:
    r"""Return c(t) in :math:`\bar\Omega_L - \bar\Omega_1 = c(t) L\alpha^2 + O((L\alpha^2)^2)`.

    The first order of the recursion of Huang et al. 2020, whose theorem 7 says :math:`O(1/L)` for
    :math:`\alpha = 1/L` (docs/theory/depth_limits.md, section 3). It has no bound towards t = −1.

    Parameters
    ----------
    t : array_like
        Correlations in (-1, 1].
    """
    t = _check_correlations(t)
    if (t == -1.0).any():
        raise ValueError("t has the value -1, expected more: the rate has no bound there")
    k0, k1 = arc_cosines(t)
    sine = np.sqrt((1.0 - t) * (1.0 + t))
    slope = np.divide(t, math.pi * sine, out=np.zeros_like(t), where=sine > 0)
    return 0.25 * ((k1 + t * k0) * (k0 - 1.0) + (k1 - t) * (2.0 * k0 + slope))


def main() -> None:
    """Print distances of Huang's ResNet from its limit, times L or √L, and their first term."""
    for t in (0.5, -0.5, -1.0):
        X, Z = smoothness.circle([np.arccos(t)]), smoothness.circle([0.0])
        kernels = kernels_over_depth(X, Z, (50, 200), engine="reference")
        distance = kernels.resnet[:, 0, 0] - resnet_limit(t)
        power = 0.5 if t == -1 else 1.0
        first = -np.sqrt(2) / (3 * np.pi) if t == -1 else resnet_rate(t)
        shown = " ".join(f"{value:8.4f}" for value in distance * kernels.depths**power)
        print(f"t = {t:4}: {shown}   limit {first:8.4f}")


if __name__ == "__main__":
    main()
