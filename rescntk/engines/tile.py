"""A tile of the reference engine: the kernels of some left with some right cases.

A tile's rows go through all layers block by block (recursion.py), and heads are taken of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product

import numpy as np

from ..arrays import Array, array_module
from ..validation import KINDS
from . import exact_sum
from .deficits import DeficitRecursion
from .errors import ErrorRecursion, may_be_unresolved
from .geometry import Rows, first_places
from .masses import ExactInput
from .protocol import Request, blocks
from .recursion import Axes, Recursion, Side
from .scaling import Scaling
from .signal_tables import SignalTables


class Tile:
    """The kernels of left cases of one length with right cases of any lengths.

    `scaling` has the constants for the length of the left signals. Tables are joined, and `rows`
    are all rows of the right cases, of which `block` go through the layers together if they are
    closed. If `paired`, each left case meets only the right case of its number.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        left: SignalTables,
        right: SignalTables,
        rows: Rows,
        block: int,
        paired: bool,
    ) -> None:
        self.request, self.scaling, self.xp = request, scaling, array_module(left.scale)
        self.left, self.right, self.rows, self.paired = left, right, rows, paired
        self._pixel_pairs = self.xp.asarray(rows.pixel_pairs)
        size = block if rows.closed else len(rows.case)
        self.blocks = list(blocks(0, len(rows.case), size))

    def compute(
        self, out: dict[str, Array], inputs: tuple[list[ExactInput], list[ExactInput]] | None = None
    ) -> Array:
        """Compute the kernels of the tile.

        `out` has the axes (depth, left case, right case), and (j,) for shares; there is one left
        case if the tile is `paired`. With `inputs` of both sides, of each length, kernels are
        computed in deficits. Returns True where the distance form has lost digits, (left case,
        right case).
        """
        xp, depths, head = self.xp, self.request.depths, self.request.head
        if self.request.shares:  # longer left signals have more
            out = {kind: value[..., : self.rows.left] for kind, value in out.items()}
        sides = self.sides(self.rows)
        means: dict[tuple[str, int], _Mean] = {}
        if head in ("trace", "gap"):
            left, right = (side.cases(side.tables.bounds) for side in sides)
            bounds = left * right
            for kind, t in product(self.request.kinds, range(len(depths))):
                bound, to = bounds[KINDS.index(kind), t], out[kind][t]
                means[kind, t] = _Mean(bound, self.rows, to, self.request.shares)
        doubt = xp.zeros((1 if self.paired else len(self.left.scale), len(self.rows.rights)))
        in_distances = ErrorRecursion if may_be_unresolved(self.scaling) else Recursion
        for block in self.blocks:
            rows = self.rows if len(self.blocks) == 1 else self.rows.some(block)
            arguments = self.request, self.scaling, *self.sides(rows), rows
            if inputs is not None:
                recursion: Recursion = DeficitRecursion(*arguments, inputs=inputs)
            else:
                recursion = in_distances(*arguments)
            for depth, kernels in recursion.kernels():
                t = depths.index(depth)
                for kind, kernel in kernels.items():
                    if means:
                        means[kind, t].add(rows, kernel)
                    elif head == "pixels":
                        self._scatter(kernel, rows, out[kind][t])
                    else:
                        out[kind][t][:, xp.asarray(rows.case)] = kernel[0, :, :, 0]
            doubt = doubt + recursion.doubt
        for mean in means.values():
            mean.write()
        if self.scaling.adds_mean:
            self._add_mean(out, sides)
        cancelled = xp.minimum(*(side.cases(side.tables.cancelled) for side in sides))
        doubtful: Array = doubt > self.scaling.allowed_doubt(self._pixel_pairs, cancelled)
        return doubtful

    def sides(self, rows: Rows) -> tuple[Side, Side]:
        """Return both sides of a block of rows."""

        def gathered(pixels: Callable[[], Array]) -> Axes:
            return lambda table: table[..., pixels()][..., None, :, None]

        def apart(table: Array) -> Array:
            pixels: Array = table.reshape(*table.shape[:-1], -1, rows.left).swapaxes(-1, -2)
            return pixels[..., None, None]

        pixels = cache(partial(rows.pixels, self.xp))  # of all rows they may be many, and unused
        right = Side(self.right, gathered(pixels), lambda table: table[..., None, :])
        if not self.paired:
            return Side(self.left, apart, lambda table: table[..., None]), right
        first = self.xp.asarray(rows.case) * rows.left
        left_pixels = cache(lambda: first + self.xp.arange(rows.left)[:, None])
        return Side(self.left, gathered(left_pixels), right.cases), right

    def _add_mean(self, out: dict[str, Array], sides: tuple[Side, Side]) -> None:
        """Add the means of F⁰, x̄ · z̄, to kernels of which only the branches were averaged.

        Shares get each pixel's part of x̄ · z̄.
        """
        left, right = ([side.cases(mean) for mean in side.tables.means] for side in sides)
        shares = self.request.shares
        if shares:  # a row of each pair has its left pixels
            side = self.sides(Rows.of(self.rows.left, self.rows.rights, all_offsets=False))[0]
            left = [side.axes(part)[..., 0] for part in side.tables.mean_parts]
        linear = exact_sum.pairwise(a * b for a, b in zip(left, right, strict=True))
        if shares:
            linear = self.xp.moveaxis(linear, 0, -1)
        self.scaling.add_mean(out, linear)

    def _scatter(self, kernel: Array, rows: Rows, out: Array) -> None:
        """Write rows (j, left, row, 1) to pixel pairs (left, right, j, j')."""
        xp, case = self.xp, self.xp.asarray(rows.case)
        right_pixel = rows.pixels(xp) - xp.asarray(first_places(rows.rights)[rows.case])
        pixel = xp.arange(rows.left)[:, None]
        out[:, case, pixel, right_pixel] = kernel[..., 0].transpose(1, 0, 2)


class _Mean:
    """Means over pixel pairs of kernels (left, right case), in any order of the terms.

    `bound` is a bound on the terms, of all `rows`. The means are written to `out`. Of `shares`,
    only the sums over rows are taken: `out` has one more axis (j,).
    """

    def __init__(self, bound: Array, rows: Rows, out: Array, shares: bool) -> None:
        xp, pixel_pairs = array_module(out), rows.pixel_pairs
        self._out = xp.moveaxis(out, -1, 0) if shares else out
        grids = exact_sum.grids(xp, bound, pixel_pairs // rows.left if shares else pixel_pairs)
        self._grids = [xp.broadcast_to(grid, self._out.shape[-2:]) for grid in grids]
        self._totals = [xp.zeros(self._out.shape) for _ in grids]
        self._pixel_pairs, self._shares = xp.asarray(pixel_pairs), shares

    def add(self, rows: Rows, terms: Array) -> None:
        """Add the sums of `terms`, (j, left case, row, 1), exactly."""
        shape, ones = terms.shape, array_module(terms).ones(len(terms))
        grids = [rows.spread(grid) for grid in self._grids]
        parts = exact_sum.split(terms.astype(np.float64), grids)
        for total, part in zip(self._totals, parts, strict=True):
            if not self._shares:
                part = (ones @ part.reshape(shape[0], -1)).reshape(shape[1:])
            total += rows.total(part)

    def write(self) -> None:
        self._out[...] = exact_sum.total(self._totals) / self._pixel_pairs
