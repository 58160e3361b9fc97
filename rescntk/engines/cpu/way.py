"""The records of the compiled way through the layers and back (derive.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..layer import (
    correlate_adjoint,
    input_adjoint,
    lost_slope,
    tangent_branch_adjoint,
    tangent_g_adjoint,
    times_slope_adjoint,
    times_slope_of,
)
from .arguments import FilterSum
from .compilation import inlined_by_llvm, standing_in
from .vectors import (
    Numbers,
    Vector,
    any_negative,
    inverse_root,
    load_like,
    store,
    where_less,
)

KEPT = 4
"""Quantities that are kept of each layer: w = 1 − ρ, or where it is smaller −v = −1 − ρ; the lost
slope, 1/sin θ (0 where it is unknown) and A_g. Of the input w and v = 1 + ρ are kept, in the places
of w and A_g of layer 1.
"""

W, LOST, COSECANT, TANGENT = range(KEPT)

for _function in (
    lost_slope,
    times_slope_adjoint,
    times_slope_of,
    tangent_branch_adjoint,
    tangent_g_adjoint,
    correlate_adjoint,
    input_adjoint,
):
    standing_in(_function)(lambda *args, _function=_function: _function)


class Way(NamedTuple):
    """Places of the way back in `memory`, and its constants."""

    features: int
    tangent: int  # rings of F̄ and Ā
    Sigma: int
    turned: int  # rings of Σ̄ and Ā_g of a layer
    pixels: int  # ring: 1 at the pixels whose sum is the result, if these are not `everywhere`.
    left_weights: int
    right_weights: int  # the weights of each row.
    right: int  # sums over left cases for the L + 1 + channels right tables, at each pixel pair.
    right_pixels: int  # two numbers for each channel: the right cases' vectors.
    kappa: int  # κ̄ of layer 1.
    numbers: int
    biases: int  # derivatives by log α² and log β at fixed variances, sums over each row's pixels.
    kept: int  # the `KEPT` quantities of layer 1, 2, ….
    room: int  # scratch of two moving sums over the input filter, and of `pixels`.
    single: FilterSum  # of one tap.
    input: FilterSum  # of the input filter.
    ntk: bool
    everywhere: bool  # whether the result is the sum over all pixels of rows that close.
    one_pixel: bool  # whether it is pixel 1; else the sum over the pixels without margins.
    readout: float  # whether the readout is trained (`Network.parts`).
    every: bool  # whether kernels of all pairs are computed; else of pairs with weights.
    turns: bool  # whether the input's vectors are unit vectors of pixels (`input_adjoint`).
    share: float  # of the linear network, λ.
    noise: float  # rounding units that the w of proportional windows may be.
    near: float  # pairs with windows of smaller min(w, v), that is not 0, are doubtful.
    most_doubt: float  # the E of these.


@inlined_by_llvm
def keep_branch(
    memory: Numbers, here: int, length: int, w: Vector, v: Vector, k0: Vector, half_g: Vector,
    A_g: Vector, total: Vector, known: bool, layer: Any, way: Way,
) -> None:  # fmt: skip
    """Keep what the way back needs of a layer, `here` and in the places `length` apart.

    Below a `noise` of `total`, the size of D's terms, windows count as proportional; w and v that
    are `known` have no noise.
    """
    store(memory, here + W * length, where_less(w, v, w, 0.0 - (v + layer.tiny)))
    lost = lost_slope(k0, w, v, layer, way.share)
    # Windows without variance have ρ = 0, the mean over all ρ.
    lost = where_less(0.0, half_g, lost, 0.5 * layer.half_factor * (1.0 - way.share))
    store(memory, here + LOST * length, lost)
    size, least = 2.0 * half_g * where_less(w, v, w, v), way.noise * total
    if known:
        size, least = w * v, 0.0 * w
    cosecant = where_less(least, size, inverse_root(w * v), 0.0)
    store(memory, here + COSECANT * length, cosecant)
    store(memory, here + TANGENT * length, A_g)


@inlined_by_llvm
def doubt_near(memory: Numbers, place: int, w: Vector, v: Vector, way: Way) -> bool:
    """Add E where κ̄ is large, as √q1 − √q2 has rounding errors; return whether there is any."""
    near, doubtful = where_less(w, v, w, v), False
    if any_negative(near - way.near):
        more = where_less(near, way.near, way.most_doubt, 0.0)
        more = where_less(0.0, near, more, 0.0)
        doubtful = any_negative(0.0 - more)
        store(memory, place, load_like(memory, place, more) + more)
    return doubtful


class RowGradients(NamedTuple):
    """Weights of pairs, and arrays that derivatives are added to, in float64; C-ordered."""

    left_weights: np.ndarray
    right_weights: np.ndarray  # (left case, right case)
    left: np.ndarray  # (L + 1 + channels, pixel of all left cases)
    right: np.ndarray  # (L + 1 + channels, right table)
    by_numbers: np.ndarray  # (2, left case, right case), by log α² and by log β

    left_pixels: np.ndarray
    """(channel, 2, pixel of all left cases), in the working precision: vectors as sums of two
    numbers, of unit length if `Way.turns`. `right_pixels` are (channel, 2, right table)."""

    right_pixels: np.ndarray
    begins: np.ndarray  # (left case,): the place of its first pixel.
    n_channels: int
    n_left: int  # pixels of all left cases
    n_right: int  # numbers of a right table
    first_right: int  # where the first right case begins in `FlatTables`, where these have more.
