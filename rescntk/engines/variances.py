"""The recursion at x = z, j = j': variances and kernels of each pixel with itself, layer by layer.

It is linear for ReLU. It gives the tables of signals, and bounds on all kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..arrays import Array, array_module
from .boxes import circular_sum

if TYPE_CHECKING:
    from .scaling import Scaling

RESCALE_BITS = 32
"""Bits by which values may grow or shrink before a power of two is taken out of them.

More bits bring values nearer to the ends of the range of float32, 2^±126; fewer bits rescale
more often. Rescaling is exact. Chosen by reasoning: 2^±32 leaves 94 bits on either side.
"""


class Variances(NamedTuple):
    """The recursion at x = z, j = j' after one layer: arrays (d, cases)."""

    window: Array  # Σ / unit; F⁰ for layer 0.
    features: Array  # F.
    tangent: Array  # A.
    branches: Array  # F without the part of F⁰.
    tangent_branches: Array  # A without the part of F⁰.


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

    def add_bias(pixels: Array, layer: int, name: str, times: float = 1.0) -> Array:
        return pixels if bias is None else pixels + times * scaling.biases[layer][name] * bias

    yield Variances(features, features, tangent, branches, tangent_branches)
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
            tangent_g = parts.inner_minus_readout * window + circular_sum(tangent, *inner)
            tangent_g = add_bias(tangent_g, layer, "bias_window", parts.readout)
            both = parts.outer_plus_readout
            branch = circular_sum(both * K + K_dot * tangent_g, *outer)
            branch = add_bias(branch, layer, "bias_branch", both)
            tangent = skip_scale * tangent + branch
            tangent_branches = skip_scale * tangent_branches + branch
        yield Variances(window, features, tangent, branches, tangent_branches)
