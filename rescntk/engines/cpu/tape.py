"""The tape: what the way back needs of the way through the layers (back.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..layer import lost_slope
from .arguments import Constants, FilterSum, RowGroup
from .compilation import compiled, inlined_by_llvm
from .sums import around
from .vectors import (
    Numbers,
    Vector,
    align_stack,
    any_negative,
    inverse_root,
    load_line,
    repeat_like,
    store,
    where_less,
)

KEPT = 4
"""Quantities that are kept of each layer: w = 1 − ρ, or where it is smaller −v = −1 − ρ; the lost
slope, 1/sin θ (0 where it is unknown) and A_g. Of the input w and v = 1 + ρ are kept, in the places
of w and A_g of layer 1.
"""

W, LOST, COSECANT, TANGENT = range(KEPT)


class Tape(NamedTuple):
    """Places of the tape and of adjoints in `memory`, and constants of the way back."""

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
    turns: bool  # whether the input's vectors are unit vectors of pixels (`input_adjoint`).
    share: float  # of the linear network, λ.
    noise: float  # rounding units that the w of proportional windows may be.
    near: float  # pairs with windows of smaller min(w, v), that is not 0, are doubtful.
    most_doubt: float  # the E of these.


@inlined_by_llvm
def keep_branch(
    memory: Numbers, here: int, length: int, w: Vector, v: Vector, k0: Vector, half_g: Vector,
    A_g: Vector, terms: Vector, layer: Any, tape: Tape,
) -> None:  # fmt: skip
    """Keep what the way back needs of a layer, `here` and in the places `length` apart.

    `terms` are the size of the terms of which D − z is the difference, 0 if w is without them.
    Where w is below their `noise`, windows count as proportional.
    """
    store(memory, here + W * length, where_less(w, v, w, 0.0 - (v + layer.tiny)))
    lost = lost_slope(k0, w, v, layer, tape.share)
    # Windows without variance have ρ = 0, the mean over all ρ.
    lost = where_less(0.0, half_g, lost, 0.5 * layer.half_factor * (1.0 - tape.share))
    store(memory, here + LOST * length, lost)
    size = 2.0 * half_g * where_less(w, v, w, v)
    cosecant = where_less(tape.noise * terms, size, inverse_root(w * v), 0.0)
    store(memory, here + COSECANT * length, cosecant)
    store(memory, here + TANGENT * length, A_g)


class RowGradients(NamedTuple):
    """Weights of pairs, and arrays that derivatives are added to, in float64; C-ordered."""

    left_weights: np.ndarray
    right_weights: np.ndarray  # (left case, right case)
    left: np.ndarray  # (L + 1 + channels, pixel of all left cases)
    right: np.ndarray  # (L + 1 + channels, right table)
    by_numbers: np.ndarray  # (2, left case, right case), by log α² and by log β

    left_pixels: np.ndarray
    """(channel, 2, pixel of all left cases), in the working precision: vectors as sums of two
    numbers, of unit length if `Tape.turns`. `right_pixels` are (channel, 2, right table)."""

    right_pixels: np.ndarray
    begins: np.ndarray  # (left case,): the place of its first pixel.
    n_channels: int
    n_left: int  # pixels of all left cases
    n_right: int  # numbers of a right table
    first_right: int  # where the first right case begins in `FlatTables`, where these have more.


@compiled
def keep_correlations(
    group: RowGroup, case: int, constants: Constants, tape: Tape, out: RowGradients
) -> None:
    """Keep w and v = 1 + ρ of the input's pixels, from unit vectors with twice the digits."""
    align_stack()
    memory, length, line, n_left = group.memory, group.length, group.memory.per_line, out.n_left
    opposite, margin, channels = constants.nearly_opposite, constants.margin, out.n_channels
    for j in range(group.d):
        first = out.begins[case] + around(j - margin, group.d - 2 * margin)
        for at in range(j * group.rows, (j + 1) * group.rows, line):
            w = repeat_like(0.0, load_line(memory, at))
            for channel in range(channels):
                x = first + 2 * channel * n_left
                z = tape.right_pixels + 2 * channel * length + at
                term = repeat_like(out.left_pixels[x], w) - load_line(memory, z)
                rest = repeat_like(out.left_pixels[x + n_left], w) - load_line(memory, z + length)
                w = w + (term + rest) * (term + rest)
            w = 0.5 * w
            v = 2.0 - w
            if any_negative(opposite - w):
                other = 0.0 * w
                for channel in range(channels):
                    x = first + 2 * channel * n_left
                    z = tape.right_pixels + 2 * channel * length + at
                    rest = repeat_like(out.left_pixels[x + n_left], w)
                    term = repeat_like(out.left_pixels[x], w) + load_line(memory, z)
                    rest = rest + load_line(memory, z + length)
                    other = other + (term + rest) * (term + rest)
                v = where_less(opposite, w, 0.5 * other, v)
            store(memory, tape.kept + W * length + at, w)
            store(memory, tape.kept + TANGENT * length + at, v)
