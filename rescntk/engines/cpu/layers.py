"""The way of a group of rows through one layer: from pixel pairs to what the branch brings.

The symbols of a pixel pair, with variances q1 and q2 of the pre-activations:

- g = √(q1 q2), z = (√q1 − √q2)²/2, w = 1 − ρ = (D − z)/g, v = 1 + ρ.
- `root1` = √(q1/2), `root2` = √(q2/2): g/2 = root1 · root2, z = (root1 − root2)².

Sums over a filter's window stand for box averages; `layer.factor` contains both filters' sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from .. import polynomials
from .compilation import compiled
from .records import Group, NetworkConstants, Places, Taps
from .sums import box
from .vectors import (
    VECTOR_BYTES,
    Vector,
    any_less,
    fabs,
    load,
    sqrt,
    store,
    where_less,
)

_p32, _p64 = map(register_jitable, (polynomials.p32, polynomials.p64))
_r32, _r64 = map(register_jitable, (polynomials.r32, polynomials.r64))


def p_poly(a: Vector, p: np.ndarray) -> Vector:
    """Return p(a) of a vector, in its precision; `p` are the coefficients (polynomials.py)."""


def r_poly(a: Vector, r: np.ndarray) -> Vector:
    """Return r(a) of a vector, in its precision; `r` are the coefficients (polynomials.py)."""


@overload(p_poly, strict=False)
def _choose_p(a: Any, p: Any) -> Any:
    if a.scalar == types.float32:
        return lambda a, p: _p32(a, p)
    return lambda a, p: _p64(a, p)


@overload(r_poly, strict=False)
def _choose_r(a: Any, r: Any) -> Any:
    if a.scalar == types.float32:
        return lambda a, r: _r32(a, r)
    return lambda a, r: _r64(a, r)


def coefficients(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of the polynomials p(a) and r(a) in one precision."""
    bits = np.dtype(dtype).itemsize * 8
    names = f"P{bits}", f"R{bits}"
    p, r = (np.array(getattr(polynomials, name), dtype) for name in names)
    return p, r


@compiled
def relu(
    root1: Vector, root2: Vector, w: Vector, v: Vector, layer: Any, p: np.ndarray, r: np.ndarray
) -> tuple[Vector, Vector, Vector]:
    """Return the distance, K and K̇ behind a ReLU, times α² c_v/q of the layer (theory: 4b).

    With a = min(w, v): k0 = √a p(a), k1 = √a a r(a). For w < v, κ0 = 1 − k0 and
    1 − κ1 = w − k1; otherwise κ0 = k0 and 1 − κ1 = 1 − k1.
    """
    a = where_less(w, v, w, v)
    root = sqrt(a)
    k0 = root * p_poly(a, p)
    k1 = root * a * r_poly(a, r)
    kappa0 = where_less(w, v, 1.0 - k0, k0)
    one_minus_kappa1 = where_less(w, v, w, 1.0) - k1
    h = root1 - root2
    g = layer.factor * (root1 * root2)
    distance = g * one_minus_kappa1  # of the features' directions alone
    return layer.half_factor * (h * h) + distance, g - distance, layer.half_factor * kappa0


@compiled
def complement(
    root1: Vector, root2: Vector, inverse: Vector, distance: Vector, layer: Any
) -> Vector:
    """Return w = (D − z)/g of the pre-activations, in [0, 2]; `inverse` is 1/g.

    A D − z within its rounding error is a tie and counts as 0 (`signal_tables.TIE_UNITS`). No
    D − z above `layer.tie_bound` is a tie.
    """
    h = root1 - root2
    excess = distance - h * h
    if any_less(excess, layer.tie_bound):
        tie = layer.tie_scale * fabs(h) * (root1 + root2)
        excess = where_less(tie, excess, excess, 0.0)
    w = excess * inverse
    return where_less(w, 2.0, w, 2.0)


@compiled
def half_square(memory: np.ndarray, places: Places, sign: float, at: int) -> Vector:
    """Return |û + sign · v̂|²/2 of the unit vectors û, v̂ of the input's pixels."""
    left, right, length = places.left_units + at, places.right_units + at, places.length
    term = load(memory, left) + sign * load(memory, right)
    total = term * term
    for channel in range(length, places.channels * length, length):
        term = load(memory, left + channel) + sign * load(memory, right + channel)
        total = total + term * term
    return 0.5 * total


@compiled
def first_layer(
    memory: np.ndarray, places: Places, group: Group, K: int, constants: NetworkConstants,
    features_scale: float, careful: bool,
) -> bool:  # fmt: skip
    """Compute D, A and F of the features that enter, and the branch of layer 1.

    w of the input's pixels is half the squared distance of their unit vectors. v is 2 − w; if
    `careful`, v is computed from the unit vectors too where w exceeds NEARLY_OPPOSITE. F is
    stored times `features_scale`.

    Returns
    -------
    bool
        Whether some w exceeds NEARLY_OPPOSITE.
    """
    layer, p, r = constants.layers[1], constants.p, constants.r
    initial, opposite = constants.initial, constants.nearly_opposite
    start, right_root = group.start, places.right_layers
    right_root1 = right_root + 2 * places.length
    largest = 0.0 * load(memory, places.left_input)
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        w = half_square(memory, places, -1.0, at)
        v = 2.0 - w
        largest = where_less(largest, w, w, largest)
        if careful:
            v = where_less(opposite, w, half_square(memory, places, 1.0, at), v)
        root1, root2 = load(memory, places.left_input + at), load(memory, right_root + at)
        h = root1 - root2
        g = 2.0 * (root1 * root2)
        gw = g * w
        features = features_scale * (g - gw)
        tangent = initial * (g - gw)
        store(memory, places.distance + start + at, h * h + gw)
        store(memory, places.features + start + at, features)
        store(memory, places.tangent + start + at, tangent)
        root1, root2 = load(memory, places.left_root + at), load(memory, right_root1 + at)
        branch_distance, covariance, slope = relu(root1, root2, w, v, layer, p, r)
        store(memory, places.branch_distance + start + at, branch_distance)
        store(memory, K + at, layer.sum_scale * features + covariance)
        tangent = tangent + layer.twice_inner_minus_readout * ((root1 * root2) * (layer.one - w))
        branch = slope * tangent + layer.outer_plus_readout * covariance
        store(memory, places.tangent_branch + start + at, branch)
    return any_less(opposite, largest)


@compiled
def inner_layer(
    memory: np.ndarray, places: Places, group: Group, K: int, right_root: int,
    distances: Taps, tangents: Taps, with_ntk: bool, layer: Any, p: np.ndarray, r: np.ndarray,
) -> None:  # fmt: skip
    """Compute the branch of layer 2, 3, …, before its outer filter.

    `distances` and `tangents` are the taps of box D and box A; `right_root` is the place of the
    right cases' √(q/2). The branch has three parts: its distance; K, to which the place `K` is
    set after it was multiplied by `sum_scale`; and K̇ ⊙ ((i − r) Σ + box A) + (o + r) K.
    """
    start, right_inverse = group.start, right_root + places.length
    for at in range(0, group.size, VECTOR_BYTES // memory.itemsize):
        root1, root2 = load(memory, places.left_root + at), load(memory, right_root + at)
        inverse = load(memory, places.left_inverse + at) * load(memory, right_inverse + at)
        w = complement(root1, root2, inverse, box(memory, distances, at), layer)
        branch_distance, covariance, slope = relu(root1, root2, w, 2.0 - w, layer, p, r)
        store(memory, places.branch_distance + start + at, branch_distance)
        store(memory, K + at, layer.sum_scale * load(memory, K + at) + covariance)
        if with_ntk:
            tangent = box(memory, tangents, at)
            tangent = tangent + layer.twice_inner_minus_readout * ((root1 * root2) * (1.0 - w))
            branch = slope * tangent + layer.outer_plus_readout * covariance
            store(memory, places.tangent_branch + start + at, branch)
