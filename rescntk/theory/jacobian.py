r"""Bounds on the Jacobian of wide fully connected networks (Tirer et al. 2022).

How fast f(x) can change: for multi-layer perceptrons (MLP) the bound grows like :math:`3^L`, for
ResNets like :math:`(1 + 9\alpha)^L`. `smoothness` measures the functions themselves.
"""

from __future__ import annotations

import math

from ..network import Network
from ..validation import check_depth, check_network

# |φ'| ≤ C_φ; with it also |φ(z)| ≤ C_φ |z|.
_SLOPES = {"relu": 1.0, "erf": 2.0 / math.sqrt(math.pi)}


def jacobian_bound(network: Network, width: int, n_inputs: int) -> float:
    r"""Return the bound on :math:`\|\partial f/\partial x\|` of a trained network of this width.

    Eq. 18 and 20 of Tirer et al. 2022, with :math:`\|W\| \le 3\sqrt n` for all hidden weights:

    .. math::
        B_\mathrm{ResNet} &= 2\sigma_w (1 + 2\sqrt{n/d}) (1 + 9\alpha C_\phi\sigma_v\sigma_w)^L,\\
        B_\mathrm{MLP} &= 2 C_\phi \sigma_w^2 (1 + 2\sqrt{n/d}) (3 C_\phi \sigma_w)^{L-1},

    where :math:`|\phi'| \le C_\phi`: 1 for ReLU, :math:`2/\sqrt\pi` for erf. They hold, with high
    probability, at initialization and in the tangent-kernel regime during training.

    Parameters
    ----------
    network : Network
        ``literature.tirer_resnet(...)`` or ``literature.tirer_mlp(...)``, with either activation:
        the paper's constants are read off it. Other networks have other weights, and are refused.
    width : int
        n, units in each hidden layer.
    n_inputs : int
        d, channels of the input.

    Returns
    -------
    float
        inf beyond float64; `jacobian_bound_ratio` gets further.

    Raises
    ------
    ValueError
        If the network is not one of these two.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import jacobian
    >>> jacobian.jacobian_bound(literature.tirer_mlp(depth=3), width=8, n_inputs=2)
    90.0
    """
    scale, layer, layers = _bound(network)
    n, d = check_depth(width, "width"), check_depth(n_inputs, "n_inputs")
    try:
        return 2.0 * scale * (1.0 + 2.0 * math.sqrt(n / d)) * layer**layers
    except OverflowError:
        return math.inf


def jacobian_bound_ratio(network: Network) -> float:
    r"""Return the ResNet's Jacobian bound over the MLP's, of equal depth, width and σ_w.

    Eq. 21 of Tirer et al. 2022: :math:`(1 + 9\alpha C_\phi\sigma_v\sigma_w)^L /
    (3^{L-1} (C_\phi\sigma_w)^L)`, whatever the width.

    Parameters
    ----------
    network : Network
        ``literature.tirer_resnet(...)``, with either activation.

    Returns
    -------
    float

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import jacobian
    >>> round(jacobian.jacobian_bound_ratio(literature.tirer_resnet(15, alpha=0.1)), 6)
    0.003174
    """
    sigma_w, layer, layers = _bound(network)
    if not network.skip or sigma_w == 0:
        raise ValueError(
            f"network is {network!r}, expected literature.tirer_resnet(...) with positive sigma_w"
        )
    try:
        return 3.0 * (layer / (3.0 * _SLOPES[network.activation] * sigma_w)) ** layers
    except OverflowError:
        return math.inf


def alpha_threshold(depth: int) -> float:
    r"""Return the α up to which the ResNet's Jacobian bound is at most the MLP's.

    Eq. 21 of Tirer et al. 2022, ReLU and :math:`\sigma_v = \sigma_w = 1`:
    :math:`(3^{1-1/L} - 1)/9`; 0 at depth 1, above 0.1 from depth 3, 2/9 in the limit.

    Parameters
    ----------
    depth : int

    Returns
    -------
    float

    Examples
    --------
    >>> from rescntk.theory import jacobian
    >>> round(jacobian.alpha_threshold(5), 6)
    0.156469
    """
    return math.expm1((1.0 - 1.0 / check_depth(depth)) * math.log(3.0)) / 9.0


def _bound(network: Network) -> tuple[float, float, int]:
    """Return the bound's constant, what a layer multiplies it by, and how many layers do."""
    check_network(network)
    n, slope = network, _SLOPES[network.activation]
    sigma_v, sigma_w = math.sqrt(n.c_v), math.sqrt(n.c_w)
    vectors = (n.filter_size, n.outer_filter_size, n.input_filter_size) == (1, 1, 1)
    if vectors and n.input_scale is None and n.readout_scale == n.c_w:
        if n.skip and n.trained == ("input", "inner", "outer", "readout"):
            return sigma_w, 1.0 + 9.0 * n.alpha * slope * sigma_v * sigma_w, n.depth
        if not n.skip and n.trained == ("inner", "readout") and n.c_v == 1.0:
            return slope * n.c_w, 3.0 * slope * sigma_w, n.depth - 1
    raise ValueError(
        f"network is {network!r}, expected literature.tirer_resnet(...) or "
        f"literature.tirer_mlp(...): the bounds are about their weights"
    )
