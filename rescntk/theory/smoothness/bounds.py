r"""Bounds on Jacobians of fully connected networks: eq. 18, 20 and 21 of Tirer et al. 2022.

``docs/theory/smoothness.md`` has the formulas.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ... import literature
from ...checks.messages import shown
from ...checks.values import check_choice, check_nonnegative, check_positive, check_positive_integer
from ...network import Network, check_network
from ...network.activations import ACTIVATIONS, activation_of
from ...network.parameters import BASIC_FIELDS


def jacobian_bound(network: Network, width: int, n_channels: int) -> float:
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
    n_channels : int
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
    >>> rk.theory.smoothness.jacobian_bound(rk.literature.tirer_mlp(depth=3), width=8, n_channels=2)
    90.0
    """
    check_network(network, BASIC_FIELDS, activations=None)
    sizes = (
        (check_positive_integer(width, "width"), "width"),
        (check_positive_integer(n_channels, "n_channels"), "n_channels"),
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
    v, w = (
        Fraction(check_positive(value, name))
        for value, name in ((sigma_v, "sigma_v"), (sigma_w, "sigma_w"))
    )
    power = 3.0 ** (1 - 1 / check_positive_integer(depth, "depth"))
    alpha = (Fraction(power) - 1 / (Fraction(slope) * w)) / (9 * v)
    try:
        return float(alpha)
    except OverflowError:
        return math.inf if alpha > 0 else -math.inf
