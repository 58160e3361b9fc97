"""Records: the named arguments of the compiled loops.

numba compiles a NamedTuple of arrays and numbers as an argument, at no cost within the loops. A
NumPy array of a structured dtype gives the constants of a layer their names.

*Places* are indices into `memory`, the array that holds all quantities of a group of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class PackedTables(NamedTuple):
    """Tables of some signals, in contiguous arrays of the working precision.

    The pixel is the last axis. Left tables have the axes (case, table, d). Right tables are
    flat; their axes are (table, case, d), or (table, case, 2d − 1) for heads of all offsets.

    Attributes
    ----------
    units : array
        û, the unit vectors of the input's pixels; a table is a channel.
    half_root : array
        √(q/2) of each pixel's variance q; a table is a layer, 0 … L.
    inverse : array
        1/√q, or 0 where q is 0; a table is a layer, 0 … L.
    peaks : array, (L + 1,), float64
        The largest q of each layer.
    """

    units: np.ndarray
    half_root: np.ndarray
    inverse: np.ndarray
    peaks: np.ndarray


def layer_constants(dtype: str) -> np.dtype:
    """Return the dtype of one layer's constants, which multiply vectors of precision `dtype`.

    Fields
    ------
    factor : α² c_v c_w / (q_outer q), times the power of two that rescales the layer.
        From sums over both filters' windows to E[σσ] of the branch.
    half_factor : half of `factor`.
    skip_scale : the power of two that rescales the layer, or 0 without skip connections.
        What the skip connection multiplies D, A and F by.
    sum_scale : `skip_scale` where K is summed over the layers without its filter, else 0.
    twice_inner_minus_readout : 2 (i − r).
    outer_plus_readout : o + r.
    tie_scale : D − z counts as 0 up to this multiple of |q1 − q2| / 2.
    tie_bound : no D − z above it counts as 0, whatever the pixels' variances.
    one : 1. A literal 1 would make LLVM round another product of the first layer.
    """
    names = (
        "factor", "half_factor", "skip_scale", "sum_scale", "twice_inner_minus_readout",
        "outer_plus_readout", "tie_scale", "tie_bound", "one",
    )  # fmt: skip
    return np.dtype([(name, dtype) for name in names])


class NetworkConstants(NamedTuple):
    """Constants of a network.

    Attributes
    ----------
    layers : array, (L + 1,), of `layer_constants`
        Constants of each layer.
    slots : array, (L + 1,), int
        Where a layer's kernels stand among the depths asked for, or −1.
    p, r : array
        Coefficients of the polynomials p(a) and r(a) (polynomials.py).
    initial : float
        t + r: the tangent kernel starts as this multiple of F⁰.
    nearly_opposite : float
        Above this w = 1 − ρ, 1 + ρ is computed by itself (`signal_tables.NEARLY_OPPOSITE`).
    inner_size, outer_size : int
        Pixels of the inner and of the outer filter.
    skip : bool
        Whether there are skip connections.
    """

    layers: np.ndarray
    slots: np.ndarray
    p: np.ndarray
    r: np.ndarray
    initial: float
    nearly_opposite: float
    inner_size: int
    outer_size: int
    skip: bool


class Wanted(NamedTuple):
    """The results that a request asks for.

    Attributes
    ----------
    head : int
        One of `heads.PIXEL_1`, `heads.MEAN`, `heads.PIXELS`.
    gpk, ntk : bool
        Whether the kernel of this kind is asked for.
    summed : bool
        Whether of F only the sum over pixels is asked for (`Request.summed`). An outer filter
        multiplies the sum by its size alone, so that K is summed without moving sums.
    """

    head: int
    gpk: bool
    ntk: bool
    summed: bool


class Block(NamedTuple):
    """The part of the results to compute: some left cases with some right cases.

    Attributes
    ----------
    first_left, first_right : int
        Where the first left and the first right case stand in the results.
    diagonal_shift : int
        Left case i with right case k is needed where i ≤ k + diagonal_shift. The number of left
        cases makes all pairs needed.
    offsets : int
        Number of offsets δ that the head needs, 1 or d.
    rows : int
        Number of rows in a group.
    halo : int
        Pixels that rings repeat at each end.
    """

    first_left: int
    first_right: int
    diagonal_shift: int
    offsets: int
    rows: int
    halo: int


class Results(NamedTuple):
    """Arrays that the loops write to.

    Attributes
    ----------
    high, low : array, (kind, depth, left case, right case), float64
        Kernels; for heads that are means, the two parts of sums over pixels (exact_sum.py).
    pixels : array, (kind, depth, left case, right case, j, j'), float64
        Kernels of all pixel pairs, for the head "pixels".
    coarse, fine : array, (2, depth), float64
        The two grids of each sum, first of F, then of A (`exact_sum.grids`); read only.
    """

    high: np.ndarray
    low: np.ndarray
    pixels: np.ndarray
    coarse: np.ndarray
    fine: np.ndarray


class Group(NamedTuple):
    """Shape of a group of rows, and of the arrays that hold one number for each pixel pair.

    Attributes
    ----------
    d : int
        Pixels of a row.
    rows : int
        Rows side by side.
    halo : int
        Pixels that rings repeat at each end.
    start : int
        halo · rows, the place of the first pixel in a ring.
    size : int
        d · rows, rounded up to whole vectors of any kind: the numbers that loops pass.
    """

    d: int
    rows: int
    halo: int
    start: int
    size: int


class Places(NamedTuple):
    """Places of all quantities of a group of rows.

    Attributes
    ----------
    distance, tangent, features : int
        Rings of D, A and F, which all layers carry.
    branch_distance, K, tangent_branch : int
        Rings of the residual branch, before its filter: its distance, K, and
        K̇ ⊙ T_g + (o + r) K.
    room1, room2 : (int, int, int)
        Scratch space of two filters.
    left_input, left_root, left_inverse, left_units : int
        The left case's tables: √(q/2) of layer 0; √(q/2), 1/√q of a layer; û of each channel.
    right_units, right_layers : int
        The right cases' tables: û of each channel; √(q/2), 1/√q of layer 0, of layer 1, ….
    length : int
        Distance from one quantity's place to the next.
    channels : int
        Number of channels.
    """

    distance: int
    tangent: int
    features: int
    branch_distance: int
    K: int
    tangent_branch: int
    room1: tuple[int, int, int]
    room2: tuple[int, int, int]
    left_input: int
    left_root: int
    left_inverse: int
    left_units: int
    right_units: int
    right_layers: int
    length: int
    channels: int


class Taps(NamedTuple):
    """Three places whose sum is a moving sum; only the first where `single`."""

    first: int
    second: int
    third: int
    single: bool


class GroupRows(NamedTuple):
    """The rows of a group: arrays with a number for each row, and the number of rows in use.

    Attributes
    ----------
    right_case, offset : array, (rows,), int
        The right case and the offset δ of a row.
    begin : array, (rows,), int
        Where the row's pixels begin in a right table.
    used : int
        The rows after this number repeat the last one.
    """

    right_case: np.ndarray
    offset: np.ndarray
    begin: np.ndarray
    used: int
