"""Records: the named arguments of the compiled loops.

numba compiles a NamedTuple of arrays and numbers as an argument, at no cost within the loops. A
NumPy array of a structured dtype gives the constants of a layer their names.

*Places* are indices into `memory`, the array that holds all quantities of a group of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .vectors import Numbers


class PackedTables(NamedTuple):
    """Tables of some signals, each array flat, in the working precision.

    Left tables have the axes (case, table, pixel): `LeftCases` tells where a case begins. Right
    tables have the axes (table, case, pixel): `RowPixels` tells where a row begins. Right pixels
    are repeated for all offsets: a case of d' pixels has d' − 1 more if the head needs d' offsets.
    Within the loops, addresses take the place of arrays.

    Attributes
    ----------
    units : array
        û, the unit vectors of the input's pixels; a table is a channel. Or the pixels' vectors
        times a factor, such that sums of half their squares over a window are F⁰
        (`NetworkNumbers.window`).
    half_root : array
        √(q/2) of each pixel's variance q; a table is a layer, 0 … L.
    inverse : array
        1/√q, or 0 where q is 0; a table is a layer, 0 … L.
    """

    units: np.ndarray
    half_root: np.ndarray
    inverse: np.ndarray


class MassTables(NamedTuple):
    """Flat tables of some signals for the recursion of deficits (deficits.py).

    The axes are (table, case, pixel) for heads of all offsets, else (table, pixel, case): rows
    of neighbouring cases are then copied together. `RowPixels` tells where a row begins.

    Attributes
    ----------
    units, half_root, inverse : array
        As in `PackedTables`.
    features : array
        √(F/2) at x = z, j = j'; a table is a layer, 0 … L.
    inner_pieces, outer_pieces : array
        √(m/2) of the pieces of windows (`piece_sizes`) of the inner and of the outer filter,
        where m is a sum of F, and of Σ in the unit of `half_root`. Layer follows layer.
    """

    units: np.ndarray
    half_root: np.ndarray
    inverse: np.ndarray
    features: np.ndarray
    inner_pieces: np.ndarray
    outer_pieces: np.ndarray


class NetworkNumbers(NamedTuple):
    """Numbers of a network.

    Attributes
    ----------
    initial : float
        t + r: the tangent kernel starts as this multiple of F⁰.
    nearly_opposite : float
        Above this w = 1 − ρ, 1 + ρ is computed by itself (`scaling.NEARLY_OPPOSITE`).
    inner_size, outer_size : int
        Taps of the inner and of the outer filter.
    window : int
        Pixels of the input's window, if pixels' distances are summed over it; else 0, and
        windows are channels (`layers.first_layer`).
    skip : bool
        Whether there are skip connections.
    linear_apart : bool
        Whether F and A are carried without the part of F⁰ (`Scaling.linear_apart`).
    """

    initial: float
    nearly_opposite: float
    inner_size: int
    outer_size: int
    window: int
    skip: bool
    linear_apart: bool


class NetworkConstants(NamedTuple):
    """Constants of a network.

    Attributes
    ----------
    layers : array, (L + 1,), of `layer.constants_dtype`
        Constants of each layer.
    slots : array, (L + 1,), int
        Where a layer's kernels stand among the depths asked for, or −1.
    steps : array, (L + 1, 2), int
        Pixels from one tap to the next, of each layer's inner and outer filter.
    p, r : array
        Coefficients of the polynomials p(a) and r(a) (polynomials.py).
    numbers : NetworkNumbers
    """

    layers: np.ndarray
    slots: np.ndarray
    steps: np.ndarray
    p: np.ndarray
    r: np.ndarray
    numbers: NetworkNumbers


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


class LeftCases(NamedTuple):
    """The places of the left cases in the left tables: arrays (cases,), int.

    Attributes
    ----------
    first : array
        Pixels of all earlier cases.
    pixels : array
        Pixels of a row. An open row has the margin at both ends besides.
    length : array
        Index of the case's length d among the left lengths (`Results.grids`).
    """

    first: np.ndarray
    pixels: np.ndarray
    length: np.ndarray


class RowPixels(NamedTuple):
    """The places of rows in flat tables.

    Pixel j is at `begin` + ((`offset` + j) mod `period`) `stride`.

    Attributes
    ----------
    begin : array, (rows,), int
        Where the case of the row begins in a table.
    offset : array, (rows,), int
        The offset δ of the row; 0 in tables of left cases.
    period : array, (rows,), int
        The length of the signal.
    stride : int
        The distance of neighbouring pixels in a table.
    """

    begin: np.ndarray
    offset: np.ndarray
    period: np.ndarray
    stride: int


class Rows(NamedTuple):
    """The rows of right cases.

    Attributes
    ----------
    case : array, (rows,), int
        The right case of a row.
    pixels : RowPixels
        Where the row lies in the right tables.
    """

    case: np.ndarray
    pixels: RowPixels


class Block(NamedTuple):
    """The part of the results to compute: some left cases with some right cases.

    Attributes
    ----------
    first_left, first_right : int
        Where the first left and the first right case stand in `Results.pixels`.
    diagonal_shift : int
        Left case i with right case k is needed where i ≤ k + diagonal_shift. The number of left
        cases makes all pairs needed.
    only_diagonal : bool
        Whether each left case is needed with itself alone, the right case of the same number.
    rows : int
        Number of rows in a group.
    halo : int
        Pixels that rings repeat at each end.
    closed : bool
        Whether rows close in themselves: signals of equal length, or one row of each pair.
    margin : int
        Pixels by which an open row begins before its first pixel and ends after its last one:
        the reach of all layers together. 0 for closed rows.
    """

    first_left: int
    first_right: int
    diagonal_shift: int
    only_diagonal: bool
    rows: int
    halo: int
    closed: bool
    margin: int


class Results(NamedTuple):
    """Arrays that the loops write to, and how they sum.

    Attributes
    ----------
    sums : array, (grid, kind, depth, left case, right case), float64
        Of one block: the parts of sums over pixels on each grid (exact_sum.py). For the head
        "equivariant" the first part is the kernel. It starts as zeros.
    pixels : array, (kind, depth, left case, right case, j, j'), float64
        Kernels of all pixel pairs, for the head "pixels".
    doubt : array, (left case, right case), float64
        Of one block: weighted sums of the E of doubtful pixel pairs. It starts as zeros.
    grids : array, (grid, 2, depth, left length, right case), float64
        The grids of each sum, first of F, then of A (`exact_sum.grids`); read only.
    weights : array, (d,) or longer, float64
        Weights of pixels in `doubt` (`Scaling.doubt_weights`); read only.
    most_doubt : array, (left length, right case), float64
        Pairs with more doubt are computed again: the rest of their rows may be left out.
    """

    sums: np.ndarray
    pixels: np.ndarray
    doubt: np.ndarray
    grids: np.ndarray
    weights: np.ndarray
    most_doubt: np.ndarray


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
        The place of the first pixel in a ring: halo · rows, or more where an open row has become
        shorter (`sums.shortened`).
    size : int
        d · rows, rounded up to whole vectors of any kind: the numbers that loops pass.
    closed : bool
        Whether rows close in themselves.
    """

    d: int
    rows: int
    halo: int
    start: int
    size: int
    closed: bool


class Places(NamedTuple):
    """Places of the quantities that any recursion has for a group of rows.

    Attributes
    ----------
    distance, tangent, features : int
        Rings of D (or u), A and F, which all layers carry.
    branch_distance, K, tangent_branch : int
        Rings of the residual branch, before its filter: its distance, K, and
        K̇ ⊙ T_g + (o + r) K.
    linear, linear_box : int
        Ring of (t + r) F⁰, and its sums over the inner filter's windows; for `linear_apart`.
    doubt : int
        Sums of E over the layers.
    room1, room2 : int
        Scratch space of two filters, `rooms` quantities each.
    squares : int
        Rings of the squared distances of the input's pixels for `SEVERAL` left cases.
    left_units, right_units : int
        û of each channel of the left and of the right case.
    tables : int
        The place behind: tables of pixels that a recursion reads.
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
    linear: int
    linear_box: int
    doubt: int
    room1: int
    room2: int
    squares: int
    left_units: int
    right_units: int
    tables: int
    length: int
    channels: int


SEVERAL = 4
"""Left cases whose pixels' distances are computed together.

More cases read the right cases' channels less often. Four cases of vectors of four registers take
16 of 32 registers.
"""


class LeftPixels(NamedTuple):
    """The left case's tables as the loops read them: one number for a pixel, or for each row.

    Attributes
    ----------
    units, roots, inverses : Numbers
        Addresses of the tables of û, √(q/2) and 1/√q, or of `memory`.
    unit, unit_step : int
        Place of û of the first channel, and the distance to the next channel.
    input, input_inverse, root, inverse : int
        Places of √(q/2) and 1/√q of the input, and of the layer.
    single : bool
        Whether there is one number for a pixel. Vectors then do not reach across pixels.
    """

    units: Numbers
    roots: Numbers
    inverses: Numbers
    unit: int
    unit_step: int
    input: int
    input_inverse: int
    root: int
    inverse: int
    single: bool


class Taps(NamedTuple):
    """Three places whose sum is a moving sum; only the first where `single`."""

    first: int
    second: int
    third: int
    single: bool


class GroupRows(NamedTuple):
    """The rows of a group, with a number for each row, and the number of rows in use.

    Attributes
    ----------
    case : array, (rows,), int
        The right case of a row.
    pixels : RowPixels
        Where the rows lie in the right tables.
    grids : array, (grid, 2, depth, rows and some more), float64
        The grids of the sums of each row, with the left case.
    used : int
        The rows after this number repeat the last one.
    """

    case: np.ndarray
    pixels: RowPixels
    grids: np.ndarray
    used: int
