"""The law of deep Gaussian process kernels in closed form (``docs/theory/depth_limits.md``)."""

from __future__ import annotations

import math

from ...checks.values import check_nonnegative, check_positive
from ...network import Network, check_network
from ...network.parameters import RELU_FIELDS
from ..tools.argument_checks import check_branch


def asymptotic_complement(network: Network, *, n_pixels: float = 1.0) -> float:
    r"""Return the asymptote of 1 − (normalized GPK) at great depth.

    :math:`\delta_L/m` with :math:`\delta_L = \frac{9\pi^2}{2 p^2 L^2}` at depth L, for ReLU without
    biases. p is ``Network.branch_share``, 1 without skip connections, and m are the `n_pixels`.
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
