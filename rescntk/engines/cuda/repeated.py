"""Rounding errors that all layers repeat: they are taken out of results, or made to vary.

Errors of one sign add up like the depth, and errors that vary add up like its root.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ...network import Network

DITHER = Fraction(3, 2)
"""The factor by which a layer without skip connections multiplies kernels besides; results lose it.

Without the factor a critical network repeats the same numbers in all layers, and the same rounding
errors: up to 66 rounding units at depth 50, and 34 with it (climbing, GAP, filters of 3 to 7). 3/2
is exact, and its powers have all mantissas equally often.
"""


def undithered(dither: Fraction, depth: int) -> tuple[float, int]:
    """Return `dither` to the power of −depth as m · 2^−e, with m between ½ and 2, and e."""
    over, under = (part**depth for part in dither.as_integer_ratio())
    exponent = over.bit_length() - under.bit_length()
    return (under << exponent) / over, exponent


def growth_error(
    network: Network, gain: Fraction, first: Fraction, later: Fraction, depth: int
) -> float:
    """Return the growth of variances over all layers, divided by the growth with rounded constants.

    A homogeneous network raises rounded constants such as 1/3 to the power of its depth: 50 layers
    cost 5e-15.

    Parameters
    ----------
    network : Network
    gain : Fraction
        2 E[σ(u)²]/q of the activation, with the dither.
    first, later : Fraction
        The rounded α² c_v c_w times the gain, of layer 1 and of all later layers.
    depth : int
    """
    exact = Fraction(network.alpha) ** 2 * Fraction(network.c_v) * Fraction(network.c_w) * gain

    def error(rounded: Fraction) -> float:
        growth = network.skip + rounded / 2
        return float((exact - rounded) / 2 / growth) if growth else 0.0

    return math.exp(math.log1p(error(first)) + (depth - 1) * math.log1p(error(later)))
