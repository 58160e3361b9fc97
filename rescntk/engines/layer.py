"""The four steps of a layer of a ReLU network, written once for all engines.

NumPy and CuPy call the functions with arrays of pixel pairs. The engine "numba" compiles them for
vectors (cpu/layers.py). The text of the engine "cuda" has the same steps by the same names.

With variances q1, q2 of the pre-activations at a pixel pair, a layer is ::

    w = 1 − ρ = (box(D) − z) / g                             correlate
    K, K̇, D_K = c κ1(ρ), c κ0(ρ), c (z + g (1 − κ1(ρ)))      dual, times_slope (activations.py)
    A_g = (i − r) Σ + box(A)                                 tangent_g
    A ← A + box(K̇ ⊙ A_g + (o + r) K)                         tangent_branch, add
    D ← D + box(D_K),  F ← F + box(K)                        add

Here t, i, o, r say whether input, inner, outer and readout weights are trained (1) or frozen (0).
In deficits (deficits.py) u takes the place of D, and z = 0.

Sums over a filter's window stand for box averages. The constants of a layer
(`Scaling.constants`) contain the sizes of both filters, and the power of two that rescales the
layer.
"""

from __future__ import annotations

from typing import Any

from ..arrays import rounded_product, within

NEARLY_OPPOSITE = 1.99
"""The w = 1 − ρ above which v = 1 + ρ of the input comes from sums of unit vectors.

Below, v = 2 − w has lost at most a factor 200 in relative accuracy, 8 of 53 bits. A larger
number saves the second sum for more tiles and loses more digits of v. Chosen by reasoning.
"""


def correlate(deficit: Any, inverse: Any) -> Any:
    """Return w = U/g, within [0, 2]. U is box(D) − z or the merged deficit, `inverse` is 1/g."""
    return within(deficit * inverse, 0.0, 2.0)


def merge_biases(deficit: Any, opposite: Any, a: Any, A: Any, bias: Any, layer: Any) -> Any:
    """Return U and U⁺ of layer 1, whose windows are the input's pixels and the biases.

    Deficits merge as in deficits.py; D − z would cancel. ::

        U = u + N,   U⁺ = u⁺ + 2 b β β' + N,   N = b (a β' − a' β)² / (A A' + a a' + b β β'/2)

    `a` are √(q/2) of the features F⁰ of both sides, `A` √(q/2) of Σ¹, and `bias` β. The b is
    `bias_window`.
    """
    difference = rounded_product(a[0], bias[1]) - rounded_product(a[1], bias[0])
    both = layer.bias_window * (bias[0] * bias[1])
    total = A[0] * A[1] + (a[0] * a[1] + 0.5 * both) + layer.tiny
    N = layer.bias_window * difference * (difference / total)
    return deficit + N, opposite + (2.0 * both + N)


def tangent_g(tangent: Any, half_g: Any, rho: Any, layer: Any) -> Any:
    """Return A_g = (i − r) Σ + box(A), the tangent kernel of the pre-activations."""
    if layer.twice_inner_minus_readout != 0.0:
        return tangent + layer.twice_inner_minus_readout * (half_g * rho)
    return tangent


def tangent_branch(turned: Any, K: Any, layer: Any) -> Any:
    """Return K̇ ⊙ A_g + (o + r) K, the tangent kernel of the branch; `turned` is K̇ ⊙ A_g."""
    return layer.outer_plus_readout * K + turned


def branch_distance(square: Any, deficit: Any, layer: Any) -> Any:
    """Return D_K = c (z + g (1 − κ1)); `square` is z, `deficit` the second term."""
    return layer.half_factor * square + deficit


def add(state: Any, branch: Any, scale: Any) -> Any:
    """Return a state after the skip connection: `scale` (`skip_scale`) times it, plus the box."""
    return scale * state + branch
