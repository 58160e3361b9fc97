"""A tile of the reference engine: the kernels of some left with some right cases.

A tile's rows go through all layers block by block (recursion.py), and heads are taken of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Array, array_module
from . import exact_sum
from .deficits import DeficitRecursion, RootMasses
from .errors import ErrorRecursion, ErrorSums, OddRecursion, may_be_unresolved, tangent_scale
from .geometry import Rows, first_places
from .protocol import Request, blocks
from .recursion import Recursion, Side
from .scaling import Scaling
from .signal_tables import SignalTables, map_pixels

Axes: TypeAlias = Callable[[Array], Array]
"""Gives tables of one side's pixels the axes of a block of rows, (…, pixel j, left, row, 1)."""

Masses: TypeAlias = Callable[[Axes], RootMasses]
"""Gives the root masses of one side, with the axes of a block of rows."""


class Tile:
    """The kernels of left cases of one length with right cases of any lengths.

    Parameters
    ----------
    request : Request
        The kernels wanted.
    scaling : Scaling
        The constants of the layers, for the length of the left signals.
    left, right : SignalTables
        Tables of either side. The pixels of the right signals follow one another. So do the
        pixels of the left signals if the tile is `paired`; else left tables are (…, d, cases).
    rows : Rows
        All rows of the right cases.
    block : int
        Number of rows that go through the layers together, if rows are closed.
    paired : bool
        Whether each left case meets the right case of the same number alone.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        left: SignalTables,
        right: SignalTables,
        rows: Rows,
        block: int,
        paired: bool = False,
    ) -> None:
        self.request, self.scaling, self.xp = request, scaling, array_module(left.scale)
        self.left, self.right, self.rows, self.paired = left, right, rows, paired
        self._pixel_pairs = self.xp.asarray(rows.pixel_pairs)
        size = block if rows.closed else len(rows.case)
        self._blocks = list(blocks(0, len(rows.case), size))

    def compute(self, out: dict[str, Array], masses: tuple[Masses, Masses] | None = None) -> Array:
        """Compute the kernels of the tile.

        `out` has the axes (depth, left case, right case); there is one left case if the tile is
        `paired`. With the root masses of both sides, `masses`, kernels are computed in deficits.

        Returns
        -------
        array of bool, (left case, right case)
            True where the distance form has lost digits.
        """
        depths, head = self.request.depths, self.request.head
        means = self._means(out) if head in ("trace", "gap") else None
        left_cases = 1 if self.paired else len(self.left.scale)
        doubt: Array = self.xp.zeros((left_cases, len(self.rows.rights)))
        errors = None
        if may_be_unresolved(self.scaling, self.left, self.right):
            errors = ErrorSums(self.scaling, self._pixel_pairs)
        for block in self._blocks:
            rows = self.rows if len(self._blocks) == 1 else self.rows.some(block)
            recursion = self._recursion(rows, errors, masses)
            for depth, kernels in recursion.kernels():
                t = depths.index(depth)
                for kind, kernel in kernels.items():
                    if means is not None:
                        means[kind, t].add(rows, kernel)
                    elif head == "pixels":
                        self._scatter(kernel, rows, out[kind][t])
                    else:
                        out[kind][t][:, self.xp.asarray(rows.case)] = kernel[0, :, :, 0]
            doubt = doubt + recursion.doubt
        if errors is not None:
            errors.check(self.left, self.right, self.paired)
        for mean in (means or {}).values():
            mean.write()
        if self.scaling.linear_apart:
            self._add_linear_part(out)
        return doubt > self.scaling.allowed_doubt(self._pixel_pairs)

    def _recursion(
        self, rows: Rows, errors: ErrorSums | None, masses: tuple[Masses, Masses] | None
    ) -> Recursion:
        """Return the recursion of a block of rows."""
        left_axes, right_axes = self._left_axes(rows), _axes(rows.pixels(self.xp))
        left = self._side(self.left, left_axes, self._across)
        right = self._side(self.right, right_axes, lambda table: table[None])
        left, right = (
            side._replace(tangent_exponents=self._of_rows(side.tangent_exponents, rows))
            for side in (left, right)
        )
        request, scaling = self.request, self.scaling
        if errors is not None:
            return ErrorRecursion(request, scaling, left, right, errors, rows)
        if masses is not None:
            own, other = masses[0](left_axes), masses[1](right_axes)
            return DeficitRecursion(request, scaling, (left, right), (own, other), rows)
        kind = Recursion if scaling.activation.homogeneous else OddRecursion
        return kind(request, scaling, left, right, rows)

    def _left_axes(self, rows: Rows) -> Axes:
        if not self.paired:
            return lambda table: table[..., None, None]
        return _axes(self.xp.asarray(rows.case) * rows.left + self.xp.arange(rows.left)[:, None])

    def _side(self, tables: SignalTables, axes: Axes, cases: Axes) -> Side:
        vectors = None if tables.vectors is None else _Mapped(tables.vectors, axes)
        layers = _Mapped(tables.layers, lambda pixels: map_pixels(pixels, axes))
        exponents = [cases(table) for table in tables.tangent_exponents] or None
        return Side(_Mapped(tables.unit_vectors, axes), layers, exponents, vectors)

    def _across(self, table: Array) -> Array:
        """Return numbers of the left cases, (…, cases), to be combined with the right cases."""
        return table[..., None, :] if self.paired else table[..., None]

    def _of_rows(self, tables: list[Array] | None, rows: Rows) -> list[Array] | None:
        """Return numbers of pairs, (left case, right case), for each row."""
        if tables is None:
            return None
        pairs = (self.xp.broadcast_to(table, (len(table), len(rows.rights))) for table in tables)
        return [rows.spread(table) for table in pairs]

    def _means(self, out: dict[str, Array]) -> dict[tuple[str, int], _Mean]:
        """Return the means over pixel pairs of all kernels, which have begun."""
        means = {}
        for kind in self.request.kinds:
            for t, depth in enumerate(self.request.depths):
                bound, other = self.left.bounds[kind, depth], self.right.bounds[kind, depth]
                if not isinstance(bound, float):
                    bound = self._across(bound)
                means[kind, t] = _Mean(bound * other, self.rows.pixel_pairs, out[kind][t])
        return means

    def _add_linear_part(self, out: dict[str, Array]) -> None:
        """Add the means of F⁰, x̄ · z̄, to kernels whose branches alone were averaged."""
        channels = zip(self._across(self.left.means), self.right.means, strict=True)
        linear = exact_sum.pairwise(left * right for left, right in channels)
        exponents = [self._across(table) for table in self.left.tangent_exponents] or None
        sides = exponents, self.right.tangent_exponents or None
        for t, depth in enumerate(self.request.depths):
            scale = 2.0 ** -self.scaling.exponents[depth]
            tangent = scale * self.request.network.parts.initial
            for kind, value in out.items():
                factor = scale if kind == "gpk" else tangent * tangent_scale(self.xp, sides, depth)
                value[t] += factor * linear

    def _scatter(self, kernel: Array, rows: Rows, out: Array) -> None:
        """Write rows (j, left, row, 1) to pixel pairs (left, right, j, j')."""
        xp, case = self.xp, self.xp.asarray(rows.case)
        other = rows.pixels(xp) - xp.asarray(first_places(rows.rights)[rows.case])
        pixel = xp.arange(rows.left)[:, None]
        out[:, case, pixel, other] = kernel[..., 0].transpose(1, 0, 2)


def _axes(pixels: Array) -> Axes:
    """Return the map of tables whose signals' pixels follow one another to `pixels`, (d, rows)."""
    return lambda table: table[..., pixels][..., None, :, None]


class _Mapped(Sequence[Any]):
    """Tables with the axes of a block of rows, each made when it is asked for."""

    def __init__(self, tables: Any, function: Callable[[Any], Any]) -> None:
        self._tables, self._function = tables, function
        self._last: tuple[int, Any] | None = None

    def __len__(self) -> int:
        return len(self._tables)

    def __getitem__(self, place: Any) -> Any:
        if self._last is None or self._last[0] != place:
            self._last = place, self._function(self._tables[place])
        return self._last[1]


class _Mean:
    """Means over pixel pairs of kernels (left, right case), in any order of the terms.

    Parameters
    ----------
    bound : array or float
        A bound on the terms.
    pixel_pairs : NumPy array, (right cases,)
        The number of terms.
    out : array, (left, right case)
        Where the means are written.
    """

    def __init__(self, bound: Array | float, pixel_pairs: np.ndarray, out: Array) -> None:
        xp = array_module(out)
        grids = exact_sum.grids(xp, bound, pixel_pairs)
        self._grids = [xp.broadcast_to(grid, out.shape) for grid in grids]
        self._totals = [xp.zeros_like(out) for _ in grids]
        self._pixel_pairs, self._out = xp.asarray(pixel_pairs), out

    def add(self, rows: Rows, terms: Array) -> None:
        """Add the sum of `terms`, (j, left case, row, 1), over j and rows, exactly."""
        shape, ones = terms.shape, array_module(terms).ones(len(terms))
        grids = [rows.spread(grid) for grid in self._grids]
        parts = exact_sum.split(terms.astype(np.float64), grids)
        for total, part in zip(self._totals, parts, strict=True):
            over_pixels = ones @ part.reshape(shape[0], -1)
            total += rows.total(over_pixels.reshape(shape[1:]))

    def write(self) -> None:
        self._out[...] = exact_sum.total(self._totals) / self._pixel_pairs
