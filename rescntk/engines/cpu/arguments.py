"""The named arguments of the compiled loops.

numba takes a NamedTuple of arrays and numbers as an argument. Within the loops, addresses take the
place of arrays, and a reference the place of a tuple (references.py).

*Places* are indices into `memory`, a single array of all quantities of a group of rows. A *ring*
has a number for each pixel pair, and a halo.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .vectors import Numbers

PADDING = 16
"""Numbers before and behind a flat table, of which vectors read some beyond its ends.

At least the numbers of `LINE_BYTES`, and the pixels of a vector of `LeftPixels`.
"""


class FlatTables(NamedTuple):
    """Tables of some signals, each array flat, in the working precision, with `PADDING` around it.

    Axes are (case, segment, table, pixel) on the left side of `rows.compute`; open rows have the
    margin's pixels too. Otherwise they are (table, case, pixel) for heads of all offsets. The first
    d' − 1 pixels of a case then follow once more after its d' pixels, in images on both axes. For
    other heads they are (table, pixel, case): rows of neighbouring cases are copied together.
    """

    units: np.ndarray
    """û, the unit vectors of the input's pixels; a table is a channel. Or the pixels' vectors
    times a factor, such that sums of half their squares over `Constants.window` are F⁰."""

    half_root: np.ndarray  # √(q/2) of each pixel's variance q; a table is a layer, 0 … L.
    inverse: np.ndarray  # 1/√q, or 0 where q is 0; a table is a layer, 0 … L.
    lost: np.ndarray  # what rounding took from `half_root`; no numbers in float64
    # For the recursion of deficits alone. A root mass, also in `half_root`, has one table, or two
    # tables where it is a `masses.Split`.
    features: np.ndarray | None = None  # √(F/2) at x = z, j = j'.
    inner_pieces: np.ndarray | None = None  # √(m/2), m the sums of F over `FilterSum.pieces`.
    outer_pieces: np.ndarray | None = None  # of Σ, in the unit of `half_root`; layer after layer.
    biases: np.ndarray | None = None  # of the biases of Σ, then of F, layer after layer; or none.


class FilterSum(NamedTuple):
    """The additions that sum a filter's taps, in steps (`sums.filter_sum`)."""

    size: int  # taps of the filter on an axis.
    n_taps: int  # all taps.
    line_steps: int  # the first steps, which sum along the lines of images; 0 for signals.
    pieces: int  # sums of fewer taps than the filter has: of all steps but the last.

    steps: np.ndarray
    """(pieces + 1, 5): a step adds two pieces to the sum so far. Of each, the number (0: single
    taps, or whole lines of taps; else the step that made it) and its first tap; then the taps read
    beyond the last pixel."""


class Constants(NamedTuple):
    """Constants of a network and of a request."""

    layers: np.ndarray
    """(L + 1,), the constants of each layer (`Scaling.constants`), and three numbers more.
    `slot` is where the layer's kernels stand among the depths asked for, or −1. `inner_step` and
    `outer_step` are the pixels from one tap of a filter to the next."""

    p: np.ndarray
    r: np.ndarray  # coefficients of the polynomials p(a) and r(a) (`substitutes.coefficients_in`)
    inner: FilterSum
    outer: FilterSum
    window: FilterSum  # over which pixels' distances are summed; of size 1 if it is channels.
    initial: float  # t + r: the tangent kernel starts as this multiple of F⁰.
    nearly_opposite: float  # above this w = 1 − ρ, 1 + ρ is computed by itself (layer.py).
    skip: bool  # whether there are skip connections: F and A are then carried without F⁰.
    adds_mean: bool  # whether results get the mean of F⁰, and pixel pairs do not get F⁰.
    margin: int  # pixels of open rows beyond either end, the reach of all layers; else 0.
    head: int  # one of `heads.PIXEL_1`, `heads.MEAN`, `heads.PIXELS`, `heads.SHARES`.
    gpk: bool
    ntk: bool  # whether the kernel of a kind is asked for

    summed: bool
    """Whether of F only the sum over pixels is computed (`Request.summed`). An outer filter
    multiplies the sum by its size alone, so that K is summed without moving sums."""

    swept: bool  # whether A, too, is summed without its filter: by the sweep (sweep.py)
    stop: np.ndarray  # one number, which another thread sets to 1 to end the loops


LEFT_CASE = np.dtype([
    ("first", np.int64),  # pixels of all earlier cases and segments.
    ("pixels", np.int64),  # pixels of a row; an open row has the margin at both ends besides.
    ("length", np.int64),  # index of the case's length d among the left lengths (`Results.grids`).
])  # fmt: skip
"""The place of a segment of a left case in the left tables."""

ROW_PLACE = np.dtype([
    ("case", np.int64),  # the right case of the row.
    ("begin", np.int64),  # where the case of the row begins in a table.
    ("offset", np.int64),  # the first line: the offset δ (0 on the left side) minus the margin.
    ("across", np.int64),  # the first pixel of a line, δ_x.
    ("period", np.int64),  # the lines of the signal or image.
])  # fmt: skip
"""The place of a row in flat tables.

Pixel x of line y is at `begin` + (((`offset` + y) mod `period`) · `RowPlaces.line` + `across` + x)
· `RowPlaces.stride`. The lines of signals are pixels, and x is 0.
"""


class RowPlaces(NamedTuple):
    """The places of rows in flat tables. The last row fills groups."""

    number: int  # rows before the last one is repeated.
    each: np.ndarray  # (rows,) of `ROW_PLACE`.
    line: int  # pixels of a line in a table, with those that follow once more.
    stride: int  # the distance of neighbouring pixels in a table.


class Results(NamedTuple):
    """Arrays that the loops write to, and how they sum; float64 but for `values`."""

    sums: np.ndarray
    """(level, grid, kind, depth, left case, right case): sums over pixels on each grid
    (exact_sum.py), 0 at first. For the head "equivariant" the first grid has the kernel."""

    shares: np.ndarray
    """(kind, depth, left case, right case, j, grid): sums over rows at each pixel, 0 at first."""

    values: np.ndarray
    """(kind, depth, left case, right case, j, j'), of all signals, in the working precision: the
    kernels at all pixel pairs, for the head "pixels". The axis j' is 1 for shares of cases that
    have one row each, which are no sums."""

    first_left: int  # where the first left case stands in `values`.
    first_right: int  # where the first right case stands in `values`.
    first_pixel: int  # where the first pixel of a row stands in `shares` and `values`.

    doubt: np.ndarray
    """(level, left case, right case): weighted sums of E² over doubtful pixel pairs."""

    levels: np.ndarray  # (left case, row): the row's level of doubt (`doubt.LARGE_DOUBTS`).

    grids: np.ndarray  # (grid, 2, depth, left length, right case), of F and A (`exact_sum.grids`).
    weights: np.ndarray  # weights of the E of a row's pixels (`doubt.pixel_weights`), or more.
    most_doubt: np.ndarray  # (left case, right case). Pairs with more are computed again.
    leaving_doubt: np.ndarray  # the same shape. Pairs with more are left before their last row.
    left_bias: np.ndarray
    right_bias: np.ndarray  # β of the left and of the right cases, or of the signals of each pair.
    row_grids: np.ndarray  # (2, depth, grid, rows and more): the grids of each row of a group.
    row_sums: np.ndarray  # the same shape: the sums of each row of a group.
    row_doubts: np.ndarray
    row_places: np.ndarray  # (rows and more,): the doubt of each row; where `sums` has its pair.


class Places(NamedTuple):
    """Places in `memory` where the quantities of a group of rows begin, in order.

    Deficits read no tables. There the quantities before `tangent` have copies, from `left_layer`
    on: their root masses and u⁺ (`deficit_rows.side_of`).
    """

    distance: int
    other_distance: int  # rings of D; or of u, before and after a layer
    branch_distance: int
    K: int
    distance_scratch: int  # of a filter's sums of D or u; of biases, behind these
    tangent: int
    features: int  # rings of A and F
    tangent_branch: int  # rings of the branch before its filter: D, K and K̇ ⊙ T_g + (o + r) K
    linear: int
    linear_box: int  # ring of F⁰, and its sums over the inner filter's windows.
    doubt: int  # sums of E over the layers.
    tangent_scratch: int  # of a filter's sums of A.
    squares: int  # rings of the squared distances of the input's pixels, of `left_cases` cases.
    biases: int  # β_x β_z of each row, (β_x − β_z)²/2, β_x, β_z; none in networks without biases.
    left_units: int
    right_units: int  # û of each channel of the left and of the right case
    left_layer: int
    left_input: int  # tables of the left case, for all rows: √(q/2), 1/√q and lost parts.
    right_layers: int  # the same three tables of the right cases, in layers 0 … L.
    channels: int  # number of channels.
    left_cases: int  # left cases whose pixels' distances are computed together, or 0.


class RowGroup(NamedTuple):
    """A group of rows, and the shape of its quantities: one number for each pixel pair."""

    memory: Numbers
    places: Places  # where the quantities begin in `memory`.
    length: int  # distance from one quantity's place to the next.
    d: int  # pixels of a row.
    rows: int  # rows side by side.
    halo: int  # pixels that rings repeat at each end.
    start: int  # place of the first pixel in a ring: halo · rows, or more in `shortened` rows.
    size: int  # d · rows, rounded up to whole vectors: the numbers that loops pass.
    closed: bool  # whether rows close in themselves: all signals have one length, and none is cut.
    width: int  # pixels of a line of images; 1 for signals.


class LeftPixels(NamedTuple):
    """The left case's tables as the loops read them: one number for a pixel, or for each row."""

    units: Numbers
    roots: Numbers
    inverses: Numbers
    lost: Numbers  # addresses of the tables of û, √(q/2), 1/√q, roots' errors; or of `memory`
    unit: int
    unit_step: int  # place of û of the first channel, and the distance to the next channel.
    input: int  # place of √(q/2) of the input.
    root: int  # place of √(q/2) of the layer.
    step: int  # 1/√q is a step behind √(q/2), and the root's lost part two steps.
    pixels: int  # pixels of a vector, with one number each; 0 where tables have one for each row.


class SideTables(NamedTuple):
    """Tables of one side as a sweep reads them, and the places of their first pixel."""

    units: Numbers
    roots: Numbers
    inverses: Numbers
    lost: Numbers  # addresses of the tables of û, √(q/2), 1/√q, roots' errors; or of `memory`
    unit: int
    unit_step: int  # place of û of the first channel, and the distance to the next channel
    root: int
    inverse: int
    lost_root: int  # places of the tables of the input
    step: int  # the distance to the tables of the next layer
    pixel: int  # the distance to the next pixel


class Taps(NamedTuple):
    """Three places whose sum is a moving sum; only the first where `single`."""

    first: int
    second: int
    third: int
    single: bool
