"""The records of the compiled way through the layers and back (adjoint.py)."""

from __future__ import annotations

from typing import NamedTuple

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
from .arguments import (
    FilterSum,
)
from .compilation import standing_in

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
    left: int  # the derivative by a left pixel at each pixel pair, weighted
    left_weights: int
    right_weights: int  # the weights of each row.
    right: int  # sums over left cases for the L + 1 + channels right tables, at each pixel pair.
    right_pixels: int  # two numbers for each channel: the right cases' vectors.
    kappa: int  # κ̄ of layer 1.
    sign: int  # −1 where δ is a sum (`input_adjoint`).
    numbers: int
    biases: int  # derivatives by log α² and log β at fixed variances, sums over each row's pixels.
    kept: int  # the `KEPT` quantities of layer 1, 2, ….
    room: int  # scratch of moving sums over the input filter, and of `pixels`.
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
    n_left: int  # pixels of all left cases
    n_right: int  # numbers of a right table
    first_right: int  # where the first right case begins in `FlatTables`, where these have more.
