"""Functions that compiled code calls in the place of functions of arrays.

The steps of a layer are written once, for arrays (engines/layer.py, activations.py, masses.py).
numba compiles them for vectors, with the functions below in the place of NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import activations, arrays
from .. import layer as steps
from .. import masses, polynomials
from . import vectors
from .compilation import inlined_by_llvm, standing_in
from .vectors import load_like

_polynomial = inlined_by_llvm(polynomials.polynomial)
for _function in (
    activations._kappas, activations._scaled_dual, activations.dual, activations.times_slope,
    masses.cross, masses._rest, steps.correlate, steps.tangent_branch, steps.branch_distance,
    steps.add, steps.merge_biases,
):  # fmt: skip
    standing_in(_function)(lambda *args, _function=_function: _function)


standing_in(arrays.sqrt)(lambda x: lambda x: vectors.sqrt(x))
standing_in(arrays.smaller)(lambda a, b: lambda a, b: vectors.where_less(a, b, a, b))
standing_in(arrays.where_less)(lambda a, b, x, y: lambda a, b, x, y: vectors.where_less(a, b, x, y))
standing_in(arrays.rounded_product)(lambda a, b: lambda a, b: vectors.rounded_product(a, b))


@standing_in(arrays.within)
def _choose_within(x: Any, least: Any, most: Any) -> Any:
    def within(x: Any, least: Any, most: Any) -> Any:
        x = vectors.where_less(least, x, x, least)
        return vectors.where_less(x, most, x, most)

    return within


# -- what loops leave out, where networks do not have it


def only_with(field: str, function: Any, otherwise: Any) -> None:
    """Let compiled code call `function` where layers have a field, and `otherwise` elsewhere."""

    def choose(*kinds: Any, **named: Any) -> Any:
        every = *kinds, *named.values()
        return function if any(field in getattr(k, "fields", ()) for k in every) else otherwise

    standing_in(function)(choose)


def has_biases(layer: Any) -> bool:
    """Return whether layers have biases."""
    return True


def add_to_sum(total: Any, state: Any, layer: Any) -> Any:
    """Return `total` plus `sum_scale` times a state; loops leave out a scale that is 1."""
    return layer.sum_scale * state + total


def add_bias_distance(distance: Any, group: Any, at: Any, layer: Any) -> Any:
    """Add the biases' part to a vector of box(D), at the pixel pairs `at`."""
    place = group.places.biases + group.length + at
    return distance + layer.bias_distance * load_like(group.memory, place, distance)


def add_bias_tangent(tangent: Any, group: Any, at: Any, layer: Any) -> Any:
    """Add the biases' part to a vector of A_g, at the pixel pairs `at`."""
    product = load_like(group.memory, group.places.biases + at, tangent)
    return tangent + layer.bias_tangent * product


def correlate_with_biases(
    angles: Any, group: Any, at: Any, roots: Any, inverse: Any, layer: Any
) -> Any:
    """Return w and v of layer 1, from w and v of the input's pixels (`merge_biases`).

    `roots` are √(q/2) of both sides' pixels, and of the layer's windows.
    """
    (w, v), (a, A) = angles, roots
    g, place = 2.0 * (a[0] * a[1]), group.places.biases + 2 * group.length + at
    left = load_like(group.memory, place, w)
    bias = left, load_like(group.memory, place + group.length, w)
    U, opposite = steps.merge_biases(g * w, g * v, a, A, bias, layer)
    return steps.correlate(U, inverse), steps.correlate(opposite, inverse)


only_with("linear_share", activations._add_linear_part, lambda parts, w, v, layer: parts)
only_with("linear_share", activations._add_linear_slope, lambda part, whole, layer: part)
only_with("twice_inner_minus_readout", steps.tangent_g, lambda tangent, g, rho, layer: tangent)
only_with("sum_scale", add_to_sum, lambda total, state, layer: state + total)
only_with("bias_window", has_biases, lambda layer: False)
only_with("bias_window", add_bias_distance, lambda distance, group, at, layer: distance)
only_with("bias_window", add_bias_tangent, lambda tangent, group, at, layer: tangent)
only_with(
    "bias_window", correlate_with_biases, lambda angles, group, at, roots, inverse, layer: angles
)  # fmt: skip


@standing_in(activations.arc)
def _choose_arc(a: Any, root: Any, coefficients: Any) -> Any:
    """Return √a p(a) and √a a r(a), in the precision of `a` (polynomials.py)."""
    p, r = (len(c) - 1 for c in coefficients_in(a.scalar.name))
    return lambda a, root, coefficients: (
        root * _polynomial(a, coefficients[0], p),
        root * a * _polynomial(a, coefficients[1], r),
    )


def coefficients_in(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of the polynomials p(a) and r(a) in one precision."""
    bits = dtype.removeprefix("float")
    p, r = (np.array(getattr(polynomials, name + bits), dtype) for name in "PR")
    return p, r
