"""The named arguments of the compiled loops.

numba compiles a NamedTuple of arrays and numbers as an argument, at no cost within the loops.

*Places* are indices into `memory`, the array that holds all quantities of a group of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compilation import compiled
from .vectors import Numbers, numbers_of


class FlatTables(NamedTuple):
    """Tables of some signals, each array flat, in the working precision.

    `LeftCases` and `RowPlaces` tell where a case or a row begins. Axes are (case, table, pixel)
    on the left side of `rows.compute`, and (table, case, pixel) on the right side. In
    `deficits.compute_in_deficits` they are (table, case, pixel) on both sides for heads of all
    offsets, else (table, pixel, case): rows of neighbouring cases are then copied together.

    Where rows have offsets, a case of d' pixels has its first d' − 1 pixels once more behind them.
    Within the loops, addresses take the place of arrays.
    """

    units: np.ndarray
    """û, the unit vectors of the input's pixels; a table is a channel. Or the pixels' vectors
    times a factor, such that sums of half their squares over a window are F⁰
    (`RunNumbers.window`)."""

    half_root: np.ndarray
    """√(q/2) of each pixel's variance q; a table is a layer, 0 … L."""

    inverse: np.ndarray
    """1/√q, or 0 where q is 0; a table is a layer, 0 … L."""

    features: np.ndarray
    """√(F/2) at x = z, j = j'; a table is a layer, 0 … L. For deficits alone."""

    inner_pieces: np.ndarray
    """√(m/2) of the pieces of the inner filters' windows (`tables.pieces`), layer after layer:
    m is a sum of F. For deficits alone."""

    outer_pieces: np.ndarray
    """The same for the outer filters: m is a sum of Σ, in the unit of `half_root`."""


@compiled
def addresses(tables: FlatTables) -> FlatTables:
    """Return tables as addresses of their numbers."""
    return FlatTables(
        numbers_of(tables.units), numbers_of(tables.half_root), numbers_of(tables.inverse),
        numbers_of(tables.features), numbers_of(tables.inner_pieces),
        numbers_of(tables.outer_pieces),
    )  # fmt: skip


class RunNumbers(NamedTuple):
    """Numbers of a network, of its rows, and of the results that a request asks for."""

    initial: float
    """t + r: the tangent kernel starts as this multiple of F⁰."""

    nearly_opposite: float
    """Above this w = 1 − ρ, 1 + ρ is computed by itself (`scaling.NEARLY_OPPOSITE`)."""

    inner_size: int
    outer_size: int
    """Taps of the inner and of the outer filter."""

    window: int
    """Pixels of the input's window, if pixels' distances are summed over it; else 0, and windows
    are channels (`layers.first_layer`)."""

    skip: bool
    """Whether there are skip connections."""

    linear_apart: bool
    """Whether F and A are carried without the part of F⁰ (`Scaling.linear_apart`)."""

    closed: bool
    """Whether rows close in themselves: signals of equal length, or one row of each pair."""

    halo: int
    """Pixels that rings repeat at each end. 0 for open rows."""

    margin: int
    """Pixels by which an open row begins before its first pixel and ends after its last one: the
    reach of all layers together. 0 for closed rows."""

    head: int
    """One of `heads.PIXEL_1`, `heads.MEAN`, `heads.PIXELS`."""

    gpk: bool
    ntk: bool
    """Whether the kernel of this kind is asked for."""

    summed: bool
    """Whether of F only the sum over pixels is asked for (`Request.summed`). An outer filter
    multiplies the sum by its size alone, so that K is summed without moving sums."""


class RunConstants(NamedTuple):
    """Constants of a network and of a request."""

    layers: np.ndarray
    """(L + 1,), the constants of each layer (`layer.constants_dtype`), and three numbers more.
    `slot` is where the layer's kernels stand among the depths asked for, or −1. `inner_step` and
    `outer_step` are the pixels from one tap of a filter to the next."""

    p: np.ndarray
    r: np.ndarray
    """Coefficients of the polynomials p(a) and r(a) (polynomials.py)."""

    numbers: RunNumbers


class LeftCases(NamedTuple):
    """The places of the left cases in the left tables: arrays (cases,), int."""

    first: np.ndarray
    """Pixels of all earlier cases."""

    pixels: np.ndarray
    """Pixels of a row. An open row has the margin at both ends besides."""

    length: np.ndarray
    """Index of the case's length d among the left lengths (`Results.grids`)."""


class RowPlaces(NamedTuple):
    """The places of rows in flat tables: arrays (rows,), int.

    Pixel j is at `begin` + ((`offset` + j) mod `period`) `stride`. The last row is repeated until
    groups are full. Within the loops, addresses take the place of arrays.
    """

    number: int
    """Rows before the last one is repeated."""

    case: np.ndarray
    """The right case of a row."""

    begin: np.ndarray
    """Where the case of the row begins in a table."""

    offset: np.ndarray
    """The first pixel of the row: its offset δ, or 0 in tables of left cases. Open rows begin
    with their margin."""

    period: np.ndarray
    """The length of the signal."""

    stride: int
    """The distance of neighbouring pixels in a table."""


class Results(NamedTuple):
    """Arrays that the loops write to, and how they sum."""

    sums: np.ndarray
    """(grid, kind, depth, left case, right case), float64: the parts of sums over pixels on each
    grid (exact_sum.py). For the head "equivariant" the first part is the kernel. It starts as
    zeros."""

    pixels: np.ndarray
    """(kind, depth, left case, right case, j, j'), float64: the kernels of all signals at all
    pixel pairs, for the head "pixels"."""

    first_left: int
    first_right: int
    """Where the first left and the first right case stand in `pixels`."""

    doubt: np.ndarray
    """(left case, right case), float64: weighted sums of the E of doubtful pixel pairs. It starts
    as zeros."""

    grids: np.ndarray
    """(grid, 2, depth, left length, right case), float64: the grids of each sum, first of F, then
    of A (`exact_sum.grids`)."""

    weights: np.ndarray
    """(d,) or longer, float64: weights of pixels in `doubt` (`Scaling.doubt_weights`)."""

    most_doubt: np.ndarray
    """(left length, right case), float64: pairs with more doubt are computed again. The rest of
    their rows may be left out."""


class RowGroup(NamedTuple):
    """Shape of a group of rows, and of the arrays that hold one number for each pixel pair."""

    d: int
    """Pixels of a row."""

    rows: int
    """Rows side by side."""

    halo: int
    """Pixels that rings repeat at each end."""

    start: int
    """The place of the first pixel in a ring: halo · rows, or more where an open row has become
    shorter (`sums.shortened`)."""

    size: int
    """d · rows, rounded up to whole vectors of any kind: the numbers that loops pass."""

    closed: bool
    """Whether rows close in themselves."""


class GroupRows(NamedTuple):
    """The rows of a group. Those after the number `used` repeat the last row of all."""

    used: int

    case: Numbers
    offset: Numbers
    """Addresses of each row's right case and of its offset δ."""

    grids: np.ndarray
    """(grid, 2, depth, rows and some more), float64: the grids of each row's sums with the left
    case."""

    sums: np.ndarray
    """(grid, rows and some more), float64: scratch space."""


class Places(NamedTuple):
    """Places of the quantities that any recursion has for a group of rows."""

    distance: int
    tangent: int
    features: int
    """Rings of D (or u), A and F, which all layers carry."""

    branch_distance: int
    K: int
    tangent_branch: int
    """Rings of the residual branch, before its filter: its distance, K, and
    K̇ ⊙ T_g + (o + r) K."""

    linear: int
    linear_box: int
    """Ring of (t + r) F⁰, and its sums over the inner filter's windows; for `linear_apart`."""

    doubt: int
    """Sums of E over the layers."""

    room1: int
    room2: int
    """Scratch space of two filters, `rooms` quantities each."""

    squares: int
    """Rings of the squared distances of the input's pixels for `SEVERAL` left cases."""

    left_units: int
    right_units: int
    """û of each channel of the left and of the right case."""

    tables: int
    """The place behind: tables of pixels that a recursion reads."""

    length: int
    """Distance from one quantity's place to the next."""

    channels: int
    """Number of channels."""


SEVERAL = 4
"""Left cases whose pixels' distances are computed together.

More cases read the right cases' channels less often. Four cases of vectors of four registers take
16 of 32 registers.
"""


class LeftPixels(NamedTuple):
    """The left case's tables as the loops read them: one number for a pixel, or for each row."""

    units: Numbers
    roots: Numbers
    inverses: Numbers
    """Addresses of the tables of û, √(q/2) and 1/√q, or of `memory`."""

    unit: int
    unit_step: int
    """Place of û of the first channel, and the distance to the next channel."""

    input: int
    input_inverse: int
    root: int
    inverse: int
    """Places of √(q/2) and 1/√q of the input, and of the layer."""

    single: bool
    """Whether there is one number for a pixel. Vectors then do not reach across pixels."""


class Taps(NamedTuple):
    """Three places whose sum is a moving sum; only the first where `single`."""

    first: int
    second: int
    third: int
    single: bool
