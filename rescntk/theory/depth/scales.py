r"""Depth scales of Fourier modes: the layers in which pixels become alike.

``docs/theory/depth_scales.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ...checks.values import check_nonnegative, check_positive_integer
from ...network.network import Network, check_like_layers
from ...network.parameters import RELU_FIELDS
from ...network.parts import Filter
from ..tools.argument_checks import check_branch, check_length
from ..tools.report_table import ReportTable


class ScaleRow(NamedTuple):
    """A row of `DepthScales`, which documents the columns."""

    mode: int
    multiplier: float
    scale: float
    with_products: float
    at_layer: float


@dataclass(frozen=True)
class DepthScales(ReportTable[ScaleRow]):
    """The depth scales of a network; iterating gives a row for each Fourier mode.

    - ``mode``: μ, the waves along the ring of d pixels, from 0 to d/2.
    - ``multiplier``: what a deep layer multiplies the mode by, to first order; 1 for modes that no
      filter changes.
    - ``scale``: ξ, −1 over the log of the multiplier's size: the layers to 37 % of a mode. Infinite
      where the multiplier is exactly 1. A finite ``scale`` has all its digits where the multiplier
      is 1 but for rounding.
    - ``with_products``: the multiplier at great depth, where products of slower modes lead. It is
      at least the multiplier's size.
    - ``at_layer``: the ``multiplier`` with the correction at a given layer; NaN without one.
    """


def mode_scales(network: Network, n_timepoints: int, *, layer: int | None = None) -> DepthScales:
    r"""Return how fast layers even out the Fourier modes of pixel pairs, for each mode.

    For Gaussian process kernels of ReLU on the multi-sphere, at great depth. *Only the slowest mode
    is linear*: products of slower modes lead others in the end (``with_products``).

    A layer multiplies mode μ of the complements :math:`1 - \bar K_{j,j+\Delta}` along the pixels j
    by :math:`1 - p\,(1 - w_\mathrm{i}(\mu)\, w_\mathrm{o}(\mu))`, with the factors of the inner and
    outer filter. p is ``Network.branch_share``, 1 without skip connections. A filter of q taps
    with the dilation r has :math:`w(\mu) = \frac1q \sum_k \cos(2\pi \mu k r/d)`. Without biases the
    pixels' energies, in units of their mean, have these multipliers exactly, in every layer from 2
    on, on and off the multi-sphere.

    Parameters
    ----------
    network : Network
        Of ReLU, with one dilation for all layers. Its depth does not matter. With biases and
        without skip connections the multipliers are :math:`\chi w_\mathrm{i} w_\mathrm{o}`
        where :math:`\chi = c_v c_w/2 < 1`; at :math:`\chi = 1` signals need one mean energy.
    n_timepoints : int
        Number d of pixels, at most 4096.
    layer : int, optional
        l: adds multipliers that are smaller by :math:`\frac3l w_\mathrm{i} w_\mathrm{o}`, because
        :math:`\kappa_0 = 1 - \frac3{pl}`. At :math:`\chi = 1` with biases 3 is 5/2, below it 0.
        Mode 0 has the multiplier of a change of the mean; the mean itself falls like
        :math:`l^{-2}`, where not exponentially.

    Returns
    -------
    `DepthScales`
        A row for each mode from 0 to d/2.

    Raises
    ------
    ValueError
        If the network is another one or has no branch, or an argument is out of range.

    Examples
    --------
    >>> import rescntk as rk
    >>> print(rk.theory.depth.mode_scales(rk.Network(1), 8, layer=130))
    mode  multiplier  scale  with_products  at_layer
    ------------------------------------------------
       0           1    inf              1    0.9769
       1      0.8238  5.159         0.8238    0.8089
       2      0.5556  1.701         0.6786     0.553
       3      0.5095  1.483         0.5591    0.5091
       4      0.5556  1.701         0.5556     0.553
    """
    check_like_layers(network, RELU_FIELDS | {"bias"})
    check_branch(network)
    d = check_length(n_timepoints, 4096, "the products of modes take minutes")
    gain, modes = network.layer(2).exact_branch_gain, np.arange(d)
    inner, outer = (
        _lost(each, modes) for each in (network.inner_filter(2), network.outer_filter(2))
    )
    lost = inner + outer - inner * outer  # 1 − w_i w_o
    # Biases keep variances where the network alone would let them fall, by the factor χ.
    falls = network.has_bias and not network.skip and gain < 1
    chi = gain if falls else Fraction(1)
    weight, seen = network.branch_share, 1.0 - lost
    rest = float(1 / (1 + gain)) if network.skip else 0.0  # 1 − weight
    less = float(1 - chi) + float(chi) * weight * lost  # 1 − multiplier
    multipliers = float(chi) * (rest + weight * seen)
    products = _with_products(np.abs(multipliers))
    # κ0 = 1 − 3/(pl). At χ = 1 with biases it is 1 − 3/(2l), and variances grow like l.
    is_critical = network.has_bias and not network.skip and gain == 1
    slope = 0.0 if falls else 2.5 if is_critical else 3.0
    lessened = np.full(d, math.nan)
    if layer is not None:
        at = check_nonnegative(check_positive_integer(layer, "layer"), "layer")
        lessened = multipliers - slope * seen / at
    half = range(d // 2 + 1)
    columns = (column.tolist() for column in (multipliers, less, products, lessened))
    rows = zip(half, *columns, strict=False)
    return DepthScales(tuple(ScaleRow(m, x, _scale(x, w), y, z) for m, x, w, y, z in rows))


def _lost(window: Filter, modes: np.ndarray) -> np.ndarray:
    """Return 1 less the means over a filter's taps of waves of all modes, at the middle tap."""
    d = len(modes)
    half_waves = np.sin(math.pi / d * np.minimum(modes, d - modes))  # digits near multiples of d
    taps = [tap * modes % d for tap in window.offsets]
    return np.mean([2.0 * half_waves[places] ** 2 for places in taps], axis=0)


def _with_products(multipliers: np.ndarray) -> np.ndarray:
    """Return the multipliers where products of modes lead, whose modes add up modulo d."""
    common, d = multipliers[0], len(multipliers)
    linear = multipliers / common
    best, reached = linear.copy(), 1
    best[0] = 0.0
    while reached < d:  # products of 2, 4, 8, … modes
        doubled = [(best * best[(m - np.arange(d)) % d]).max() for m in range(d)]
        best, reached = np.maximum(best, doubled), 2 * reached
        best[0] = 0.0
    # A product of k modes has the factor δ^(3/2 − k), of all modes' mean δ, which falls itself.
    return common * np.maximum(linear, math.sqrt(common) * best)


def _scale(multiplier: float, less: float) -> float:
    """Return ξ of a multiplier, which is 1 − `less`."""
    if less == 0.0 or multiplier == 0.0:
        return math.inf if multiplier else 0.0
    return -1.0 / (math.log1p(-less) if less < 0.5 else math.log(abs(multiplier)))
