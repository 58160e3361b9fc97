"""Bounds on the Jacobian of wide multi-layer perceptrons (MLP) and ResNets (Tirer et al. 2022)."""

from __future__ import annotations

import math

from .. import literature
from ..network import BASIC_FIELDS, Network, check_network
from ..validation import ACTIVATIONS, check_choice, check_depth, check_positive

_LARGEST_SLOPE = {"relu": 1.0, "erf": 2.0 / math.sqrt(math.pi)}
"""C_φ, the largest slope |φ'| of an activation. Then also |φ(z)| ≤ C_φ |z|."""


def jacobian_bound(network: Network, width: int, n_inputs: int) -> float:
    r"""Return the bound B on :math:`\|\partial f/\partial x\|` of a wide network, or inf.

    Eq. 18 and 20 of Tirer et al. 2022, with :math:`\|W\| \le 3\sqrt n` for all hidden weights
    (docs/theory/smoothness.md). They hold with high probability at initialization and, in the
    tangent-kernel regime, during training.

    Parameters
    ----------
    network : Network
        ``literature.tirer_resnet(...)`` or ``literature.tirer_mlp(...)``, with either activation.
    width, n_inputs : int
        n, the number of units in each hidden layer, and d, the number of channels of the input.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.jacobian.jacobian_bound(rk.literature.tirer_mlp(depth=3), width=8, n_inputs=2)
    90.0
    """
    scale, layer, layers = _bound(network)
    n, d = check_depth(width, "width"), check_depth(n_inputs, "n_inputs")
    try:
        return 2.0 * scale * (1.0 + 2.0 * math.sqrt(n / d)) * layer**layers
    except OverflowError:
        return math.inf


def alpha_threshold(
    depth: int, *, sigma_v: float = 1.0, sigma_w: float = 1.0, activation: str = "relu"
) -> float:
    r"""Return the largest α for which B_ResNet ≤ B_MLP; negative where there is none.

    :math:`\alpha = (3^{1-1/L} C_\phi \sigma_w - 1) / (9 C_\phi \sigma_v \sigma_w)`: eq. 21 of Tirer
    et al. 2022, solved for α. Infinite, of either sign, where it is beyond float64.

    Parameters
    ----------
    depth : int
    sigma_v, sigma_w : float, default 1.0
        Standard deviations of the weights, positive. σ_w is common to both networks.
    activation : {"relu", "erf"}, default "relu"

    Examples
    --------
    >>> from rescntk.theory import jacobian
    >>> round(jacobian.alpha_threshold(5), 6)
    0.156469
    """
    slope = _LARGEST_SLOPE[check_choice(activation, "activation", ACTIVATIONS)]
    v, w = check_positive(sigma_v, "sigma_v"), check_positive(sigma_w, "sigma_w")
    largest = (1 - 1 / check_depth(depth)) * math.log(3.0)
    exponent = largest + math.log(slope) + math.log(w)
    # 3^(1−1/L) − 1/(C_φ σ_w), without cancellation, and without overflow for large σ_w.
    if exponent > 0:
        return -math.expm1(-exponent) * math.exp(largest) / 9.0 / v
    return math.expm1(exponent) / slope / w / 9.0 / v


def _bound(network: Network) -> tuple[float, float, int]:
    """Return factor, growth and count of a bound 2·factor·(1 + 2√(n/d))·growth^count."""
    check_network(network, BASIC_FIELDS)
    slope, alpha = _LARGEST_SLOPE[network.activation], network.alpha
    sigma_v, sigma_w = math.sqrt(network.c_v), math.sqrt(network.c_w)
    constants = {"activation": network.activation, "c_w": network.c_w, "readout_scale": network.c_w}
    resnet = literature.tirer_resnet(network.depth, alpha).replace(c_v=network.c_v, **constants)
    if network == resnet:
        return sigma_w, 1.0 + 9.0 * alpha * slope * sigma_v * sigma_w, network.depth
    if network == literature.tirer_mlp(network.depth).replace(**constants):
        return slope * network.c_w, 3.0 * slope * sigma_w, network.depth - 1
    raise ValueError(
        f"network is {network!r}, expected literature.tirer_resnet(...) or "
        f"literature.tirer_mlp(...): the bounds are about their weights"
    )
