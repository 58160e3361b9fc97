"""A tile of the reference engine: the kernels of some left with some right cases.

A tile's rows go through all layers block by block (recursion.py), and heads are taken of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from ..activations import Pixels
from ..arrays import Array, array_module
from . import exact_sum
from .deficits import DeficitRecursion, Masses
from .errors import ErrorRecursion, ErrorSums, OddRecursion, may_be_unresolved, tangent_scale
from .geometry import OFFSETS, RowAxis
from .protocol import Request
from .recursion import Recursion, Side
from .scaling import Scaling
from .signal_tables import SignalTables, map_pixels

Axes: TypeAlias = Callable[[Array], Array]
"""Gives the tables of one side's pixels, (…, pixel, case), the axes of a block of rows."""


class RowBlock(NamedTuple):
    """Rows of a tile that go through the layers together.

    Blocks have the axes (pixel j, left case, row, right case).
    """

    left: Axes
    right: Axes
    offsets: slice = slice(0)
    """The offsets δ of the rows, where all right cases have the same."""


class TilePlan(NamedTuple):
    """The blocks of rows of a tile."""

    blocks: Iterable[RowBlock]
    pixel_pairs: int | Array
    """Number of pixel pairs of a left with a right case: for all, or (right cases,)."""

    rows: RowAxis = OFFSETS
    paired: bool = False
    """Whether each left case meets the right case of the same number alone."""


class Tile:
    """A tile on its way through the layers.

    Parameters
    ----------
    request : Request
        The kernels wanted.
    scaling : Scaling
        The constants of the layers, for the length of the left signals.
    left, right : SignalTables
        Tables of either side; the plan's blocks know the axes of their pixels.
    plan : TilePlan
        The rows.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        left: SignalTables,
        right: SignalTables,
        plan: TilePlan,
    ) -> None:
        self.request, self.scaling, self.xp = request, scaling, array_module(left.scale)
        self.left, self.right, self.plan = left, right, plan

    def compute(
        self,
        out: dict[str, Array],
        masses: tuple[Callable[[Axes], Masses], Callable[[Axes], Masses]] | None = None,
    ) -> Array:
        """Compute the kernels of the tile.

        `out` has the axes (depth, left case, right case); there is one left case if the plan is
        `paired`. With the root masses of both sides, `masses`, kernels are computed in deficits.

        Returns
        -------
        array of bool, (left case, right case)
            True where the distance form has lost digits.
        """
        depths, head, plan = self.request.depths, self.request.head, self.plan
        means = self._means(out) if head in ("trace", "gap") else None
        doubt: Array = self.xp.zeros((1, 1))
        errors = None
        if may_be_unresolved(self.scaling, self.left, self.right):
            errors = ErrorSums(self.scaling, plan.pixel_pairs)
        for block in plan.blocks:
            recursion = self._recursion(block, errors, masses)
            for depth, kernels in recursion.kernels():
                t = depths.index(depth)
                for kind, kernel in kernels.items():
                    if means is not None:
                        means.add(kind, t, kernel)
                    elif head == "pixels":
                        self._scatter(kernel, block.offsets, out[kind][t])
                    else:
                        out[kind][t] = kernel[0, :, 0, :]
            doubt = doubt + recursion.doubt
        if errors is not None:
            errors.check(self.left, self.right, plan.paired)
        if means is not None:
            means.write()
        if self.scaling.linear_apart:
            self._add_linear_part(out)
        return doubt > self.scaling.allowed_doubt(plan.pixel_pairs)

    def _recursion(
        self,
        block: RowBlock,
        errors: ErrorSums | None,
        masses: tuple[Callable[[Axes], Masses], Callable[[Axes], Masses]] | None,
    ) -> Recursion:
        """Return the recursion of a block of rows."""
        rows = self.plan.rows
        own = [block.left(table[None])[0] for table in self.left.tangent_exponents] or None
        other = [self._of_rows(table) for table in self.right.tangent_exponents] or None
        left = self._side(self.left, block.left, own)
        right = self._side(self.right, block.right, other)
        request, scaling = self.request, self.scaling
        if errors is not None:
            return ErrorRecursion(request, scaling, left, right, errors, rows)
        if masses is None:
            kind = Recursion if scaling.activation.homogeneous else OddRecursion
            return kind(request, scaling, left, right, rows)
        one, two = masses[0](block.left), masses[1](block.right)
        return DeficitRecursion(request, scaling, (left, right), (one, two), rows)

    def _side(self, tables: SignalTables, axes: Axes, exponents: list[Array] | None) -> Side:
        vectors = None if tables.vectors is None else _Channels(tables.vectors, axes)
        units = _Channels(tables.unit_vectors, axes)
        return Side(units, _Layers(tables.layers, axes), exponents, vectors)

    def _of_rows(self, table: Array) -> Array:
        """Return numbers of the right cases, (right cases,), for each row."""
        return self.plan.rows.spread(table.reshape(1, 1, -1))

    def _across(self, table: Array) -> Array:
        """Return numbers of the left cases, (…, cases), to be combined with the right cases."""
        return table[..., None, None, :] if self.plan.paired else table[..., None, None]

    def _means(self, out: dict[str, Array]) -> PixelMeans:
        """Return the means of all kernels, which have begun."""
        means = PixelMeans(self.xp, self.scaling.d, self.plan)
        for kind in self.request.kinds:
            for t, depth in enumerate(self.request.depths):
                bound, other = self.left.bounds[kind, depth], self.right.bounds[kind, depth]
                if not isinstance(bound, float):
                    bound = self._across(bound)
                if not isinstance(other, float):
                    other = other.reshape(1, 1, -1)
                means.start(kind, t, bound * other, out[kind][t])
        return means

    def _add_linear_part(self, out: dict[str, Array]) -> None:
        """Add the means of F⁰, x̄ · z̄, to kernels whose branches alone were averaged."""
        left = self._across(self.left.means)  # (channel, left case, 1, 1), or right case last
        channels = zip(left, self.right.means, strict=True)
        linear = exact_sum.pairwise(one[..., 0, :] * other for one, other in channels)
        own = [self._across(table) for table in self.left.tangent_exponents] or None
        exponents = own, self.right.tangent_exponents or None
        for t, depth in enumerate(self.request.depths):
            scale = 2.0 ** -self.scaling.exponents[depth]
            initial = self.request.network.parts.initial
            tangent = (scale * initial) * tangent_scale(self.xp, exponents, depth)
            for kind, value in out.items():
                value[t] += (scale if kind == "gpk" else tangent[..., 0, :]) * linear

    def _scatter(self, kernel: Array, offsets: slice, out: Array) -> None:
        """Write rows (j, left, δ, right) to pixel pairs (left, right, j, j + δ)."""
        d = self.scaling.d
        pixel = self.xp.arange(d)[:, None]
        other = (pixel + self.xp.arange(offsets.start, offsets.stop)) % d
        out[:, :, pixel, other] = kernel.transpose(1, 3, 0, 2)


class _Layers(Sequence[Pixels]):
    """Tables of all layers with the axes of a block of rows, made when a layer asks for them."""

    def __init__(self, layers: list[Pixels], axes: Axes) -> None:
        self._layers, self._axes = layers, axes
        self._last: tuple[int, Pixels] | None = None

    def __len__(self) -> int:
        return len(self._layers)

    @overload
    def __getitem__(self, layer: int) -> Pixels: ...
    @overload
    def __getitem__(self, layer: slice) -> Sequence[Pixels]: ...
    def __getitem__(self, layer: Any) -> Any:
        if self._last is None or self._last[0] != layer:
            self._last = layer, map_pixels(self._layers[layer], self._axes)
        return self._last[1]


class _Channels(Sequence[Any]):
    """Tables of all channels with the axes of a block of rows, made one by one."""

    def __init__(self, channels: Array, axes: Axes) -> None:
        self._channels, self._axes = channels, axes

    def __len__(self) -> int:
        return len(self._channels)

    @overload
    def __getitem__(self, channel: int) -> Any: ...
    @overload
    def __getitem__(self, channel: slice) -> Sequence[Any]: ...
    def __getitem__(self, channel: Any) -> Any:
        return self._axes(self._channels[channel])


class PixelMeans:
    """Means of a tile's kernels over all pixel pairs, whatever the order of the terms."""

    def __init__(self, xp: ModuleType, d: int, plan: TilePlan) -> None:
        self._xp, self._plan, self._ones = xp, plan, xp.ones(d)
        self._sums: dict[tuple[str, int], _Sum] = {}

    def start(self, kind: str, t: int, bound: Array | float, out: Array) -> None:
        """Start a mean of numbers of at most `bound`, to be written to `out`."""
        grids = exact_sum.grids(self._xp, bound, self._plan.pixel_pairs)
        zeros = [self._xp.zeros_like(out) for _ in grids]
        self._sums[kind, t] = _Sum([self._plan.rows.spread(grid) for grid in grids], zeros, out)

    def add(self, kind: str, t: int, terms: Array) -> None:
        """Add the sum of `terms`, (j, left case, row, right case), over j and rows, exactly."""
        sums, shape = self._sums[kind, t], terms.shape
        parts = exact_sum.split(terms.astype(np.float64), sums.grids)
        for total, part in zip(sums.totals, parts, strict=True):
            over_pixels = self._ones @ part.reshape(shape[0], -1)
            total += self._plan.rows.total(over_pixels.reshape(shape[1:]))

    def write(self) -> None:
        """Write all means."""
        for sums in self._sums.values():
            sums.out[...] = exact_sum.total(sums.totals) / self._plan.pixel_pairs


class _Sum(NamedTuple):
    """A sum in parts, rounded to the `grids` of exact_sum.py."""

    grids: list[Array]
    totals: list[Array]
    out: Array
