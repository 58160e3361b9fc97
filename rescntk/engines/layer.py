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

On the way back each step has its adjoint: Ā is the derivative of the result with respect to A.
With F = (q1 + q2)/2 − D in the place of D, sin θ = √(1 − ρ²) and β = box(Ā), φ = box(F̄), it is ::

    Ā_g = K̇ ⊙ β,  K̄ = (o + r) β + φ                       times_slope_of, tangent_branch_adjoint
    κ̄ = c A_g β / (2π g sin θ)                             times_slope_adjoint
    Σ̄ = K̇ ⊙ φ + (o + i) Ā_g + κ̄                           tangent_g_adjoint
    q̄1, q̄2 at fixed D                                      correlate_adjoint
    Ā ← Ā + box(Ā_g),  F̄ ← F̄ + box(Σ̄)                     add, its own adjoint

docs/theory/gradients.md derives the formulas. Where windows are nearly equal, κ̄ grows like 1/θ. It
multiplies differences of the two signals, which fall like θ: no digits are lost.
"""

from __future__ import annotations

from typing import Any

from ..arrays import rounded_product, where_less, within

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


# -- the way back


def lost_slope(k0: Any, w: Any, v: Any, layer: Any, share: Any = 0.0) -> Any:
    """Return K̇ at correlation 1, minus K̇: c (1 − κ0)/2, exact also where κ0 is near 1.

    `share` is the linear network's share λ.
    """
    part = layer.half_factor * k0
    return where_less(w, v, part, layer.half_factor * (1.0 - share) - part)


def times_slope_adjoint(tangent_g: Any, inverse: Any, cosecant: Any, curvature: Any) -> Any:
    """Return κ̄/β, the derivative of K̇ ⊙ A_g by Σ; `curvature` is (1 − λ)/π times c/2.

    `inverse` is 1/g. `cosecant` is 1/sin θ, and 0 at the kink of K̇: where windows are proportional.
    """
    return curvature * tangent_g * inverse * cosecant


def times_slope_of(lost: Any, adjoint: Any, layer: Any) -> Any:
    """Return K̇ ⊙ `adjoint`, from the `lost_slope`."""
    return layer.half_factor * adjoint - lost * adjoint


def tangent_branch_adjoint(tangent: Any, features: Any, layer: Any) -> Any:
    """Return K̄ = (o + r) β + φ, of the adjoints β of the branch of A and φ of the branch of F."""
    return layer.outer_plus_readout * tangent + features


def tangent_g_adjoint(turned: Any, layer: Any) -> Any:
    """Return (o + i) Ā_g, the adjoint of Σ through A_g and through (o + r) K in the branch of A."""
    return (layer.outer_plus_readout + 0.5 * layer.twice_inner_minus_readout) * turned


def correlate_adjoint(
    slope: Any, along: Any, kappa: Any, difference: Any, other_root: Any, inverse: Any
) -> Any:
    """Return 2 q̄ of one side at fixed D, (q1 + q2)/2 − D being Σ.

    `slope` is (o + i) Ā_g − c (1 − κ0)/2 ⊙ φ and `kappa` κ̄. `along` is K̄ ∂K/∂g + w κ̄, with
    ∂K/∂g = c sin θ/(2π). `difference` is √q − √q', `other_root` √q' and `inverse` 1/√q, with q' of
    the other side. ::

        2 q̄ = slope + (√q' along + (√q − √q') κ̄) / √q
    """
    return slope + inverse * (other_root * along + difference * kappa)


def input_adjoint(
    features: Any, kappa: Any, w: Any, v: Any, roots: tuple[Any, Any, Any]
) -> tuple[Any, Any, Any, Any]:
    """Return a, b, a', b': the input's derivatives at fixed variances, by unit vectors û and v̂.

    They are −(a δ + b û) by x and a' δ + b' û by z, with δ = û − v̂; or û + v̂ where v̂ is nearer to
    −û, v < w. `features` is F̄⁰ without `kappa`, the κ̄ of layer 1, which reads the pixels
    themselves: it turns their unit vectors. `roots` are |x|, |z| and |x| − |z|. No term grows like
    1/θ.
    """
    root, other_root, difference = roots
    turn, other_turn = kappa * other_root, kappa * root
    along, across = features * difference, features * other_root
    opposite = along + 2.0 * across  # v̂ = δ − û
    a, other_a = across + turn, across + other_turn * (1.0 - w)
    b = where_less(w, v, along - turn * w, opposite + turn * v)
    other_b = where_less(w, v, along + other_turn * w, opposite + other_turn * v)
    return where_less(w, v, a, 0.0 - a), b, where_less(w, v, other_a, 0.0 - other_a), other_b
