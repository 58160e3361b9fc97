"""The tape: what the way back needs of the way through the layers (back.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..layer import lost_slope
from .arguments import Constants, FilterSum, FlatTables, RowGroup
from .compilation import compiled, inlined_by_llvm
from .groups import keeps_root_errors
from .sums import around
from .vectors import (
    Numbers,
    Vector,
    align_stack,
    any_negative,
    floor,
    inverse_root,
    load_like,
    load_line,
    repeat_like,
    sqrt,
    store,
    sum_numbers,
    where_less,
)

KEPT = 4
"""Quantities that are kept of each layer: w = 1 − ρ, or where it is smaller −v = −1 − ρ; the lost
slope, 1/sin θ (0 where it is unknown) and A_g. Of the input w and v = 1 + ρ are kept, in the places
of w and A_g of layer 1.
"""

W, LOST, COSECANT, TANGENT = range(KEPT)

ROOTS = 3
"""Quantities that deficits keep besides, where tables lose digits: √(q1/2), √(q2/2) and their
difference."""

BY_INPUT = 4
"""Factors of the input's vectors in derivatives (`layer.input_adjoint`), a, b, a' and b', times the
weights of their rows: sums over kinds of kernels."""


EXACT = 2.0**-6
"""The w below which differences of the input's vectors have twice the digits. Above, rounded unit
vectors lose less than 6 rounding units. A larger number reads more vectors a second time."""


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
    left: int  # the same for left tables, where each row has its own pair.
    right_pixels: int  # two numbers for each channel: the right cases' vectors.
    left_pixels: int  # the left cases' vectors, where each row has its own pair.
    kappa: int  # κ̄ of layer 1.
    numbers: int
    biases: int  # derivatives by log α² and log β at fixed variances, sums over each row's pixels.
    input_roots: int  # the `ROOTS` of the input, if they are kept.
    kept: int  # of layer 1, 2, …: its `KEPT` quantities, then its `ROOTS` if they are kept.
    by_input: int  # the `BY_INPUT` factors.
    room: int  # scratch of two moving sums over the input filter, and of `pixels`.
    per_layer: int  # quantities that are kept of a layer.
    single: FilterSum  # of one tap.
    input: FilterSum  # of the input filter.
    everywhere: bool  # whether the result is the sum over all pixels of rows that close.
    one_pixel: bool  # whether it is pixel 1; else the sum over the pixels without margins.
    readout: float  # whether the readout is trained (`Network.parts`).
    turns: bool  # whether the input's vectors are unit vectors of pixels (`input_adjoint`).
    share: float  # of the linear network, λ.
    noise: float  # rounding units that the w of proportional windows may be.
    near: float  # pairs with windows of smaller min(w, v), that is not 0, are doubtful.
    near_first: float  # the same of layer 1, whose windows have the w of rounded vectors.
    soft: float  # in float32, E² of these is this over √min(w, v).
    most_doubt: float  # the E of these.


@inlined_by_llvm
def keep_roots(
    memory: Numbers, place: int, length: int, root1: Vector, root2: Vector, difference: Vector
) -> None:  # fmt: skip
    """Keep the `ROOTS` of windows."""
    store(memory, place, root1)
    store(memory, place + length, root2)
    store(memory, place + 2 * length, difference)


@inlined_by_llvm
def doubt_near(
    group: RowGroup, out: int, w: Vector, v: Vector, half_g: Vector, least: float, tape: Tape
) -> bool:  # fmt: skip
    """Add E where κ̄ is large, min(w, v) below `least`; return whether there is any.

    Windows of min(w, v) = 0 agree. In float32 they may differ in digits that are lost.
    """
    memory, place = group.memory, group.places.doubt + out
    doubtful, near = False, where_less(w, v, w, v)
    if any_negative(near - least):
        E, known = repeat_like(tape.most_doubt, near), near
        if keeps_root_errors(memory):
            E, known = floor(sqrt(tape.soft / sqrt(near))), half_g
            E = where_less(E, tape.most_doubt, E, tape.most_doubt)
        E = where_less(near, least, where_less(0.0, known, E, 0.0), 0.0)
        doubtful = any_negative(0.0 - E)
        store(memory, place, load_like(memory, place, E) + E)
    return doubtful


@inlined_by_llvm
def keep_branch(
    memory: Numbers, kept_at: int, length: int, w: Vector, v: Vector, k0: Vector, half_g: Vector,
    A_g: Vector, terms: Vector, layer: Any, tape: Tape,
) -> None:  # fmt: skip
    """Keep what the way back needs of a layer, at `kept_at` and in the places `length` apart.

    `terms` are the size of the terms of which D − z is the difference, 0 if w is without them; or
    g, in deficits. Where g w is below their `noise`, windows count as proportional.
    """
    store(memory, kept_at + W * length, where_less(w, v, w, 0.0 - (v + layer.tiny)))
    lost = lost_slope(k0, w, v, layer, tape.share)
    # Windows without variance have ρ = 0, the mean over all ρ.
    lost = where_less(0.0, half_g, lost, 0.5 * layer.half_factor * (1.0 - tape.share))
    store(memory, kept_at + LOST * length, lost)
    size = 2.0 * half_g * where_less(w, v, w, v)
    cosecant = where_less(tape.noise * terms, size, inverse_root(w * v), 0.0)
    store(memory, kept_at + COSECANT * length, cosecant)
    store(memory, kept_at + TANGENT * length, A_g)


class RowGradients(NamedTuple):
    """Weights of pairs, and arrays that derivatives are added to, in float64; C-ordered."""

    left_weights: np.ndarray
    right_weights: np.ndarray  # (kind, left case, right case)
    ntk: np.ndarray  # (kind,), whether it is the NTK
    left: np.ndarray  # (L + 1 + channels, pixel of all left cases)
    right: np.ndarray  # (L + 1 + channels, right table)
    by_numbers: np.ndarray  # (kind, 2, left case, right case), by log α² and by log β

    left_pixels: np.ndarray
    """(channel, 2, pixel of all left cases), in the working precision: vectors as sums of two
    numbers, of unit length if `Tape.turns`. `right_pixels` are (channel, 2, right table)."""

    right_pixels: np.ndarray
    begins: np.ndarray  # (left case,): the place of its first pixel.
    first_left: int  # as `first_right`, where left arrays are laid out as right ones.
    n_channels: int
    n_left: int  # pixels of all left cases
    n_right: int  # numbers of a right table
    first_right: int  # where the first right case begins in `FlatTables`, where these have more.


@inlined_by_llvm
def half_square_line(
    group: RowGroup, at: int, first: int, sign: float, exact: bool, tape: Tape, out: RowGradients
) -> Vector:  # fmt: skip
    """Return |û − sign · v̂|²/2 of the input's pixels; if `exact`, with twice the digits."""
    memory, length, n_left = group.memory, group.length, out.n_left
    total = repeat_like(0.0, load_line(memory, at))
    for channel in range(out.n_channels):
        x, z = first + 2 * channel * n_left, tape.right_pixels + 2 * channel * length + at
        term = repeat_like(out.left_pixels[x], total) - sign * load_line(memory, z)
        if exact:
            left_lost = repeat_like(out.left_pixels[x + n_left], total)
            term = term + (left_lost - sign * load_line(memory, z + length))
        total = total + term * term
    return 0.5 * total


@compiled
def keep_correlations(
    group: RowGroup, case: int, constants: Constants, tape: Tape, out: RowGradients
) -> None:
    """Keep w and v = 1 + ρ of the input's pixels; small ones have twice the digits."""
    align_stack()
    memory, length, margin = group.memory, group.length, constants.margin
    for j in range(group.d):
        first = out.begins[case] + around(j - margin, group.d - 2 * margin)
        for at in range(j * group.rows, (j + 1) * group.rows, memory.per_line):
            w = half_square_line(group, at, first, 1.0, False, tape, out=out)
            if any_negative(w - EXACT):
                w = half_square_line(group, at, first, 1.0, True, tape, out=out)
            v = 2.0 - w
            if any_negative(constants.nearly_opposite - w):
                opposite = half_square_line(group, at, first, -1.0, True, tape, out=out)
                v = where_less(constants.nearly_opposite, w, opposite, v)
            store(memory, tape.kept + W * length + at, w)
            store(memory, tape.kept + TANGENT * length + at, v)


@inlined_by_llvm
def add_line(memory: Numbers, at: int, term: Vector) -> None:
    """Add a short vector."""
    store(memory, at, load_line(memory, at) + term)


@compiled
def back_vectors(
    group: RowGroup, left: FlatTables | None, tables: int, first: int, margin: int, tape: Tape,
    out: Any,
) -> None:  # fmt: skip
    """Add the derivatives by pixels at fixed variances, and make the `BY_INPUT` factors 0.

    They are −(a δ + b û) by the left and a' δ + b' û by the right pixels (`layer.input_adjoint`).
    Without `left` tables, each row has its own pair: the left vectors are in the tape too.
    """
    align_stack()
    memory, rows, length, n_left = group.memory, group.rows, group.length, out.n_left
    for j in range(group.d):
        x, begin = first + around(j - margin, group.d - 2 * margin), j * rows
        along, exact = repeat_like(0.0, load_line(memory, tape.numbers)), False
        for at in range(begin, begin + rows, memory.per_line):
            along = along + load_line(memory, tape.by_input + length + at)
            exact |= any_negative(load_line(memory, tape.kept + W * length + at) - EXACT)
        place, shift, turned = tables * n_left + x, 0, sum_numbers(along)
        for _ in range(out.n_channels):
            total = 0.0 * along
            if left is not None:
                unit = repeat_like(out.left_pixels[x], along)
                lost = repeat_like(out.left_pixels[x + n_left], along)
            for at in range(begin, begin + rows, memory.per_line):
                factors, z = tape.by_input + at, tape.right_pixels + 2 * shift + at
                if left is None:
                    left_at = tape.left_pixels + 2 * shift + at
                    unit, lost = load_line(memory, left_at), load_line(memory, left_at + length)
                delta = unit - load_line(memory, z)
                if exact:
                    kept = load_line(memory, tape.kept + W * length + at)
                    sign = 1.0 + 0.0 * kept
                    if tape.turns:
                        sign = where_less(kept, 0.0, -1.0, sign)
                    delta = unit - sign * load_line(memory, z)
                    delta = delta + (lost - sign * load_line(memory, z + length))
                by_left = load_line(memory, factors) * delta
                if left is None:
                    by_left = by_left + load_line(memory, factors + length) * unit
                    add_line(memory, tape.left + tables * length + shift + at, 0.0 - by_left)
                total = total + by_left
                more = load_line(memory, factors + 2 * length) * delta
                more = more + load_line(memory, factors + 3 * length) * unit
                add_line(memory, tape.right + tables * length + shift + at, more)
            if left is not None:
                out.left[place] -= sum_numbers(total) + out.left_pixels[x] * turned
            x, shift, place = x + 2 * n_left, shift + length, place + n_left
    for at in range(0, BY_INPUT * length, memory.per_line):
        store(memory, tape.by_input + at, 0.0 * load_line(memory, tape.by_input + at))
