"""The recursion at x = z, j = j': variances and kernels of each pixel with itself, layer by layer.

It is linear for ReLU. It gives the tables of signals, and bounds on all kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...arrays import Array, array_module
from ..boxes import circular_sum

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
    xp, parts = array_module(variance), scaling.network.parts
    both = parts.outer_plus_readout
    kinds = 1 + with_tangent  # F, and A beside it: one call sums both over windows

    def beside(features: Array, factor: float) -> Array:
        return xp.stack([features, factor * features][:kinds], axis=-2)

    state = beside(variance, parts.initial)
    branches = xp.zeros_like(state)
    yield Variances(variance, state[:, 0], state[:, -1], branches[:, 0], branches[:, -1])
    for layer in range(1, scaling.depth + 1):
        sums = circular_sum(state, *scaling.inner_filter(layer))
        if bias is not None:
            sums = sums + scaling.biases[layer]["bias_window"] * beside(bias, parts.readout)
        window = sums[:, 0]
        K, K_dot = scaling.activation.diagonal(
            xp, window, scaling.unit(layer), scaling.factor(layer)
        )
        branch = K[:, None]
        if with_tangent:
            tangent_g = parts.inner_minus_readout * window + sums[:, 1]
            branch = xp.stack([K, both * K + K_dot * tangent_g], axis=1)
        branch = circular_sum(branch, *scaling.outer_filter(layer))
        if bias is not None:
            branch = branch + scaling.biases[layer]["bias_branch"] * beside(bias, both)
        skip_scale = scaling.step(layer) * scaling.network.skip
        state = skip_scale * state + branch
        if with_tangent:
            branches = skip_scale * branches + branch
        yield Variances(window, state[:, 0], state[:, -1], branches[:, 0], branches[:, -1])
