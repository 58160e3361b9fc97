r"""Depth as a sum over layers: constants of each layer, and normalized features, have one law.

A ReLU layer without biases takes the complement δ of a pixel pair to δ − p h(δ). p is the branch's
part of the variance, and δ − h(δ) the complement behind a layer of a CNN. To first order δ^-1/2
grows by √2/(3π) times the sum of p over layers, whatever α the layers have, and with normalization
(docs/theory/effective_depth.md derives it).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...checks.values import check_positive
from ...network import PER_LAYER_FIELDS, Network, check_network
from ...network.parameters import RELU_FIELDS
from ..tools.argument_checks import (
    check_branch_of_layers,
    check_depths_of_layers,
    check_dot_products,
)

_UPPER = math.sqrt(2.0) / (3.0 * math.pi)
"""The least h(δ) / (2 δ^3/2), at δ = 0."""

_LOWER = 1.0 / (4.0 * math.sqrt(2.0))
"""The greatest h(δ) / (2 δ^3/2), at δ = 2."""


class ComplementBounds(NamedTuple):
    """Bounds on 1 − ρ behind layers, (depths, …)."""

    lower: np.ndarray
    upper: np.ndarray


def effective_depth(
    network: Network, depths: Iterable[int] | None = None, *, input_variance: float = 1.0
) -> np.ndarray:
    r"""Return the effective depth: the sum of all branches' parts of the variance behind them.

    :math:`s_L = \sum_l p_l`, :math:`p_l = \beta_l/e_l` with :math:`e_l = [\mathrm{skip}_l]\,e_{l-1}
    + \beta_l` in networks with normalized features, and :math:`p_l = \beta_l/([\mathrm{skip}_l] +
    \beta_l)` in others; :math:`\beta_l = \alpha_l^2 c_{v,l} c_{w,l}/2`. Of like layers with skip
    connections it grows like L, with normalization like log L. Limits at infinite depth are
    degenerate (the normalized GPK of all signals of one pixel tends to 1) if and only if it is
    infinite there (docs/theory/effective_depth.md).

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with layers of their own and normalized features as well.
    depths : iterable of int, optional
        Strictly increasing, by default the network's depth.
    input_variance : float, default 1.0
        :math:`e_0`, the variance of the input's features at each pixel of all signals:
        ``input_scale``, by default 1/channels, times the squared norm of a pixel, which is not 0.
        It counts in networks with normalized features alone.

    Returns
    -------
    ndarray, (n_depths,)

    Raises
    ------
    ValueError
        If the network has another activation, biases, no branch in a layer up to the last depth,
        or fewer layers.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import depth
    >>> depth.effective_depth(rk.Network(1), (10, 100, 1000))
    array([  5.,  50., 500.])
    >>> depth.effective_depth(rk.Network(1, norm=True), (10, 100, 1000)).round(2)
    array([2.02, 4.2 , 6.49])
    """
    asked, gains, before = _variances(network, depths, input_variance)
    return np.cumsum(_parts(network, gains, before))[asked - 1]


def complement_bounds(
    network: Network,
    complements: ArrayLike,
    depths: Iterable[int] | None = None,
    *,
    input_variance: float = 1.0,
) -> ComplementBounds:
    r"""Return bounds on 1 − (normalized GPK) behind each layer of a ResNet.

    .. math::
        \Bigl(\delta_0^{-1/2} + \tfrac{1}{4\sqrt2} \sum_l a_l\Bigr)^{-2} \le \delta_L \le
        \Bigl(\delta_0^{-1/2} + \tfrac{\sqrt2}{3\pi}\, s_L\Bigr)^{-2}

    with :math:`s_L` of `effective_depth` and :math:`a_l = \beta_l`, or :math:`\beta_l/e_{l-1}` in
    networks with normalized features. They hold at each depth, for signals of one pixel, with
    normalized features of one energy. A row is the pixel pairs of one offset, of signals of several
    pixels of one energy. The upper bound holds for the mean of 1 − ρ over a row, from its mean δ_0.
    Each pixel pair is within the bounds of the row's least and greatest δ_0
    (docs/theory/effective_depth.md).

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with skip connections in all layers.
    complements : array_like
        :math:`\delta_0 = 1 - \rho` of the input, in [0, 2].
    depths, input_variance
        As for `effective_depth`.

    Returns
    -------
    ComplementBounds
        Two arrays, (n_depths, …).

    Raises
    ------
    ValueError
        For a network as for `effective_depth`, or one with an ordinary layer, and complements
        that are out of range.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import depth, multisphere
    >>> low, high = depth.complement_bounds(rk.Network(1), [0.7], (10, 1000))
    >>> exact = multisphere.normalized_gpk(rk.Network(10), [0.7], complement=True)
    >>> print(low[0].round(3), exact.round(3), high[0].round(3))
    [0.114] [0.244] [0.264]
    """
    asked, gains, before = _variances(network, depths, input_variance)
    if not all(network.values_of("skip")):
        raise ValueError(
            f"network has skip {network.skip!r}, expected skip connections in all layers: an "
            f"ordinary layer has no bound from below"
        )
    u = check_dot_products(np.asarray(complements, dtype=np.float64), complement=True)
    with np.errstate(divide="ignore"):
        start = 1.0 / np.sqrt(u)
    with np.errstate(over="ignore"):  # the lower bound is 0 then
        terms = gains / before, _parts(network, gains, before)
        sums = [np.cumsum(of_layers)[asked - 1] for of_layers in terms]
    bounds = (
        (start + factor * of.reshape(-1, *[1] * u.ndim)) ** -2.0
        for factor, of in zip((_LOWER, _UPPER), sums, strict=True)
    )
    return ComplementBounds(*bounds)


def without_normalization(network: Network, *, input_variance: float = 1.0) -> Network:
    r"""Return the network of layers of their own that equals one with normalized features.

    Where all pixels of all signals have one variance e₀ > 0, normalization is the same as
    :math:`\alpha_l^2/e_{l-1}` in place of :math:`\alpha_l^2`, :math:`e_l = e_{l-1} + \beta_l`
    (docs/theory/effective_depth.md). The kernels are equal, not only their limits.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with normalized features and skip connections in all layers.
    input_variance : float, default 1.0
        e₀, the variance of the input's features at each pixel.

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        For another network.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 2, 4, 0)  # of variance 1 at each pixel
    >>> norm = rk.Network(3, norm=True)
    >>> like = rk.theory.depth.without_normalization(norm)
    >>> bool(abs(rk.gram(norm, X).ntk - rk.gram(like, X).ntk).max() < 1e-13)
    True
    """
    _, gains, before = _variances(network, None, input_variance)
    layers = [network.layer(k) for k in range(1, len(gains) + 1)]
    alphas, own = np.array([(layer.alpha, layer.branch_gain) for layer in layers]).T
    if not network.norm or not all(network.values_of("skip")):
        raise ValueError(
            f"network has norm {network.norm} and skip {network.skip!r}, expected normalized "
            f"features and skip connections in all layers"
        )
    return network.replace(norm=False, alpha=alphas * np.sqrt(gains / before / own))


def _variances(
    network: Network, depths: Iterable[int] | None, input_variance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the depths asked for; β, and the variance before, of layers up to the deepest.

    Without normalization a layer is divided by its variance, which is 1 before the next one. With
    normalization they have a unit in which sums of large numbers stay in float64.
    """
    known = RELU_FIELDS | {"norm"}
    check_network(network, known, ": the law is about ReLU", per_layer=PER_LAYER_FIELDS)
    asked = check_depths_of_layers(network, depths)
    start = check_positive(input_variance, "input_variance")
    layers = [network.layer(k) for k in range(1, (1 if network.is_uniform else max(asked)) + 1)]
    check_branch_of_layers(layers)
    numbers = [(layer.skip, layer.branch_gain) for layer in layers] * (max(asked) // len(layers))
    gains = np.array([gain for _, gain in numbers])
    if not network.norm:
        return np.array(asked), gains, np.ones(len(gains))

    unit = 2.0**32 if max(start, gains.max()) > 2.0**960 else 1.0  # 10^8 layers, as checked

    def behind(before: float, layer: tuple[bool, float]) -> float:
        skip, gain = layer
        return skip * before + gain / unit

    before = np.array([*accumulate(numbers[:-1], behind, initial=start / unit)])
    return np.array(asked), gains / unit, before


def _parts(network: Network, gains: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return p of layers, of their β and the variance before them."""
    skips = network.values_of("skip")
    return gains / (np.resize(skips, len(gains)) * before + gains)
