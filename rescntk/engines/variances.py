"""The recursion at x = z, j = j': variances and kernels of each pixel with itself, layer by layer.

It is linear for ReLU. It gives the tables of signals, and bounds on all kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Array, array_module
from .boxes import circular_sum

if TYPE_CHECKING:
    from .scaling import Scaling

RESCALE_BITS = 32
"""Bits by which values may grow or shrink before a power of two is taken out of them.

More bits bring values nearer to the ends of the range of float32, 2^±126; fewer bits rescale
more often. Rescaling is exact. Chosen by reasoning: 2^±32 leaves 94 bits on either side.
"""

_MOST_AMPLIFICATION = 2.0**200
"""The largest amplification of errors that is told apart from larger ones.

A larger number comes nearer to the end of the range, 2^1023; a smaller one must stay above
1/eps. Chosen by reasoning.
"""


class Variances(NamedTuple):
    """The recursion at x = z, j = j' after one layer: arrays (d, cases)."""

    window: Array  # Σ / unit; F⁰ for layer 0.
    features: Array  # F.
    tangent: Array  # A.
    branches: Array  # F without the part of F⁰.
    tangent_branches: Array  # A without the part of F⁰.
    tangent_exponent: Array  # (cases,), the e of each case: tables of A are divided by 4^e.
    amplification: Array  # the factor on an error of the distance D (errors.py).


def variances(
    scaling: Scaling, variance: Array, *, with_tangent: bool, bias: Array | None = None
) -> Iterator[Variances]:
    """Yield the recursion for layers 0 … L, from F⁰ = `variance`, (d, cases).

    `bias`, (cases,), is the square of each signal's bias. A, and F without F⁰, are right only
    if `with_tangent` is true. Their cost is the cost of Σ and F together.
    """
    xp, net = array_module(variance), scaling.network
    parts = net.parts
    features, tangent = variance, parts.initial * variance
    branches = tangent_branches = xp.zeros_like(variance)
    amplification = xp.ones_like(variance)
    exponent = xp.zeros(variance.shape[1], dtype=np.int64)
    scale: Array | float = 1.0
    grows = with_tangent and not net.homogeneous

    def add_bias(pixels: Array, layer: int, name: str, times: float = 1.0) -> Array:
        return pixels if bias is None else pixels + times * scaling.biases[layer][name] * bias

    yield Variances(
        features, features, tangent, branches, tangent_branches, exponent, amplification
    )
    for layer in range(1, scaling.depth + 1):
        inner, outer = scaling.inner_filter(layer), scaling.outer_filter(layer)
        window = add_bias(circular_sum(features, *inner), layer, "bias_window")
        K, K_dot = scaling.activation.diagonal(
            xp, window, scaling.unit(layer), scaling.factor(layer)
        )
        skip_scale = scaling.step(layer) * net.skip
        branch = add_bias(circular_sum(K, *outer), layer, "bias_branch")
        features = skip_scale * features + branch
        if with_tangent:
            branches = skip_scale * branches + branch
            share = parts.inner_minus_readout * scale
            tangent_g = share * window + circular_sum(tangent, *inner)
            tangent_g = add_bias(tangent_g, layer, "bias_window", parts.readout)
            both = parts.outer_plus_readout
            branch = circular_sum(both * scale * K + K_dot * tangent_g, *outer)
            branch = add_bias(branch, layer, "bias_branch", both)
            tangent = skip_scale * tangent + branch
            tangent_branches = skip_scale * tangent_branches + branch
        if grows:
            moved = circular_sum(K_dot * circular_sum(amplification, *inner), *outer)
            amplification = xp.minimum(net.skip * amplification + moved, _MOST_AMPLIFICATION)
            # 4^−shift keeps the largest A of each case below 2^RESCALE_BITS.
            bits = xp.maximum(xp.frexp(tangent.max(axis=0))[1], 0)
            shift = xp.floor_divide(bits, RESCALE_BITS) * (RESCALE_BITS // 2)
            exponent = exponent + shift
            tangent = xp.ldexp(tangent, -2 * shift)
            tangent_branches = xp.ldexp(tangent_branches, -2 * shift)
            scale = xp.ldexp(xp.ones(exponent.shape), -2 * exponent)
        yield Variances(
            window, features, tangent, branches, tangent_branches, exponent, amplification
        )
