"""Functions that compiled code calls in the place of functions of arrays.

The steps of a layer are written once, for arrays (engines/layer.py, activations.py, masses.py).
numba compiles them for vectors, with the functions below in the place of NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import arrays
from ...activations import (
    _add_linear_part,
    _add_linear_slope,
    _kappas,
    _scaled_dual,
    arc,
)
from .. import polynomials
from ..layer import (
    add,
    branch_distance,
    correlate,
    dual,
    merge_biases,
    tangent_branch,
    tangent_g,
    tangent_g_adjoint,
    times_slope,
)
from ..masses import _rest, cross
from . import vectors
from .compilation import inlined_by_llvm, standing_in
from .vectors import load_like


def has_biases(layer: Any) -> bool:
    """Return whether layers have biases. The loops leave out what networks do not have."""
    raise NotImplementedError


def add_to_sum(total: Any, state: Any, layer: Any) -> Any:
    """Return `total` plus `sum_scale` times a state; loops leave out a scale that is 1."""
    raise NotImplementedError


def add_bias_distance(distance: Any, group: Any, at: Any, layer: Any) -> Any:
    """Add the biases' part to a vector of box(D), at the pixel pairs `at`."""
    raise NotImplementedError


def add_bias_tangent(tangent: Any, group: Any, at: Any, layer: Any) -> Any:
    """Add the biases' part to a vector of A_g, at the pixel pairs `at`."""
    raise NotImplementedError


def correlate_with_biases(
    w: Any, v: Any, group: Any, at: Any, a: Any, A: Any, inverse: Any, layer: Any
) -> Any:
    """Return w and v of layer 1, from w and v of the input's pixels (`merge_biases`)."""
    raise NotImplementedError


_polynomial = inlined_by_llvm(polynomials.polynomial)
for _function in (
    dual, _kappas, _scaled_dual, times_slope, correlate, tangent_branch,
    branch_distance, add, merge_biases, cross, _rest,
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


@standing_in(_add_linear_part)
def _choose_linear_part(parts: Any, w: Any, v: Any, layer: Any) -> Any:
    return _add_linear_part if "linear_share" in layer.fields else lambda parts, w, v, layer: parts


@standing_in(_add_linear_slope)
def _choose_linear_slope(part: Any, whole: Any, layer: Any) -> Any:
    return _add_linear_slope if "linear_share" in layer.fields else lambda part, whole, layer: part


@standing_in(tangent_g)
def _choose_tangent_g(tangent: Any, half_g: Any, rho: Any, layer: Any) -> Any:
    if "twice_inner_minus_readout" in layer.fields:
        return tangent_g
    return lambda tangent, half_g, rho, layer: tangent


@standing_in(tangent_g_adjoint)
def _choose_tangent_g_adjoint(turned: Any, layer: Any) -> Any:
    if "twice_inner_minus_readout" in layer.fields:
        return tangent_g_adjoint
    return lambda turned, layer: layer.outer_plus_readout * turned


@standing_in(has_biases)
def _choose_has_biases(layer: Any) -> Any:
    return (lambda layer: True) if "bias_window" in layer.fields else (lambda layer: False)


@standing_in(add_to_sum)
def _choose_sum(total: Any, state: Any, layer: Any) -> Any:
    if "sum_scale" in layer.fields:
        return lambda total, state, layer: layer.sum_scale * state + total
    return lambda total, state, layer: state + total


@standing_in(add_bias_distance)
def _choose_bias_distance(distance: Any, group: Any, at: Any, layer: Any) -> Any:
    def add_bias_distance(distance: Any, group: Any, at: Any, layer: Any) -> Any:
        place = group.places.biases + group.length + at
        return distance + layer.bias_distance * load_like(group.memory, place, distance)

    if "bias_window" in layer.fields:
        return add_bias_distance
    return lambda distance, group, at, layer: distance


@standing_in(correlate_with_biases)
def _choose_biased_correlations(
    w: Any, v: Any, group: Any, at: Any, a: Any, A: Any, inverse: Any, layer: Any
) -> Any:
    def correlate_with_biases(
        w: Any, v: Any, group: Any, at: Any, a: Any, A: Any, inverse: Any, layer: Any
    ) -> Any:
        g, place = 2.0 * (a[0] * a[1]), group.places.biases + 2 * group.length + at
        left = load_like(group.memory, place, w)
        bias = left, load_like(group.memory, place + group.length, w)
        U, opposite = merge_biases(g * w, g * v, a, A, bias, layer)
        return correlate(U, inverse), correlate(opposite, inverse)

    if "bias_window" in layer.fields:
        return correlate_with_biases
    return lambda w, v, group, at, a, A, inverse, layer: (w, v)


@standing_in(add_bias_tangent)
def _choose_bias_tangent(tangent: Any, group: Any, at: Any, layer: Any) -> Any:
    def add_bias_tangent(tangent: Any, group: Any, at: Any, layer: Any) -> Any:
        product = load_like(group.memory, group.places.biases + at, tangent)
        return tangent + layer.bias_tangent * product

    if "bias_window" in layer.fields:
        return add_bias_tangent
    return lambda tangent, group, at, layer: tangent


@standing_in(arc)
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
