"""The tables of one side's signals, in the layouts of the compiled loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from ...arrays import Array, SignalList, channels_and_length
from ...validation import check_free_memory
from ..geometry import first_places, numbered, on_ring
from ..kept import once, with_object
from ..masses import Mass, mass_layers, read_exactly
from ..ordered import OrderedSignals
from ..protocol import Request, blocks
from ..scaling import Scaling
from ..signal_tables import TOGETHER, SignalTables, number_of_tables, signal_tables
from .arguments import LEFT_CASE, PADDING, ROW_PLACE, FlatTables, RowPlaces
from .plan import Plan
from .sums import filter_sum
from .vectors import LINE_BYTES

Layout = Callable[[np.ndarray], list[np.ndarray]]
"""Returns arrays that follow one another on the last axis."""


class NumbaSignals(OrderedSignals):
    """The signals of X or of Z; `whole` is the block of all, where their tables are kept."""

    whole: SignalBlock | None = None

    def keep_tables(self, request: Request) -> None:
        """Make the tables of all signals, which calls then share."""
        plan = Plan(request, self.n_channels, self.closed, self.lengths, self.lengths)
        lengths, counts = np.unique(self.lengths, return_counts=True)
        each = [plan.scaling(d).bytes_per_case(self.n_channels) for d in lengths.tolist()]
        needed = 3 * int(counts @ each)  # tables, and 2 times their numbers for the loops
        text = f"the tables of {len(self.order)} signals"
        check_free_memory(needed, text, "prepare fewer signals at a time")
        whole = SignalBlock(plan, self, slice(0, len(self.order)))
        whole.packed("right", plan)
        self.whole = whole

    def block(self, plan: Plan, cases: slice) -> SignalBlock:
        """Return a block of the signals, with the tables that are kept."""
        return SignalBlock(plan, self, cases, whole=self.whole)

    @property
    def closed(self) -> bool:
        """True if the signals are an array, of one length."""
        return not isinstance(self.batch, SignalList)

    @property
    def n_channels(self) -> int:
        return channels_and_length(self.batch)[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the signals and of the tables that are kept."""
        return self.batch.nbytes + (0 if self.whole is None else self.whole.nbytes)


class SignalBlock:
    """Consecutive signals with their tables, which are made when they are first asked for.

    `cases` are the places of the block among all `signals` of the side. `tables` of each length
    may be known. A part has the tables of the block `whole`, where its cases are `here`. `places`
    are those in the batch, and `offsets` the rows of pairs with each case on the right.
    """

    def __init__(
        self,
        plan: Plan,
        signals: NumbaSignals,
        cases: slice,
        tables: list[SignalTables] | None = None,
        whole: SignalBlock | None = None,
    ) -> None:
        self.cases, self._plan, self._signals, self._lock = cases, plan, signals, RLock()
        self.lengths, self.places = signals.lengths[cases], signals.order[cases]
        self.offsets = plan.offsets(self.lengths)
        self._tables, self._packed = tables, dict[Hashable, FlatTables]()
        self._flat: list[np.ndarray] = []  # `SignalTables.layers` as the left side of closed rows
        self._around = whole
        first = self._whole.cases.start
        self.here = slice(cases.start - first, cases.stop - first)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def _whole(self) -> SignalBlock:
        """The block that has the tables. A block does not hold itself: tables end with it."""
        return self if self._around is None else self._around

    def contains(self, cases: slice) -> bool:
        return self.cases.start <= cases.start and cases.stop <= self.cases.stop

    def part(self, cases: slice) -> SignalBlock:
        """Return some of the cases, by their places among all signals of the side.

        Cases of one length take a part of known tables, or make their own. Others share the
        block's tables.
        """
        if cases == self.cases:
            return self
        if not self._plan.closed or self._whole is not self:
            return SignalBlock(self._plan, self._signals, cases, whole=self._whole)
        some = slice(cases.start - self.cases.start, cases.stop - self.cases.start)
        known = self._tables and [self._tables[0].selected(some, some)]
        return SignalBlock(self._plan, self._signals, cases, known)

    def made(self) -> SignalBlock:
        """Return the block after its tables are made, of which parts then take theirs."""
        _ = self._whole.tables
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of the tables made so far."""
        groups = [*(self._tables or []), *self._packed.values()]
        tables = (table for group in groups for table in group if table is not None)
        owners = (table if table.base is None else table.base for table in tables)
        return sum({id(owner): owner.nbytes for owner in owners}.values())

    @once
    def _sorted(self) -> np.ndarray:
        """(cases,), the cases as tables have them: the longest first."""
        return np.argsort(-self.lengths, kind="stable")

    @once
    def _place(self) -> np.ndarray:
        """(cases,), the place of each case in the tables."""
        return np.argsort(self._sorted)

    @once
    def each_length(self) -> list[tuple[Scaling, Array]]:
        return self._signals.of_each_length(self.cases, self._plan.scaling)

    @property
    def tables(self) -> list[SignalTables]:
        """The tables of each length, without unit vectors of windows that are not read."""
        with self._lock:
            if self._tables is None:
                windows = self._plan.window == 0
                made = [
                    signal_tables(scaling, signals, windows, self._room(scaling, len(signals)))
                    for scaling, signals in self.each_length
                ]
                scale = np.concatenate([each.scale for each in made])
                self._signals.scale[self.places[self._sorted]] = scale
                self._tables = made
            return self._tables

    def _room(self, scaling: Scaling, n: int) -> np.ndarray:
        """Return room for `SignalTables.layers` of `n` cases, with `PADDING` around each table."""
        shape = number_of_tables(scaling), n, scaling.depth + 1, scaling.d
        room = np.zeros((shape[0], math.prod(shape[1:]) + 2 * PADDING), scaling.dtype)
        self._flat = list(room[:, PADDING:])
        return np.moveaxis(room[:, PADDING:-PADDING].reshape(shape), 1, -1)

    def of_signals(self, name: str) -> Array:
        """Return a table of signals (`SignalTables`), whose last axis is (cases,)."""
        if self._whole is not self:
            return self._whole.of_signals(name)[..., self.here]

        def joined() -> Array:
            tables = [getattr(each, name) for each in self.tables]
            return np.concatenate(tables, axis=-1)[..., self._place]

        return with_object(self, name, joined)

    @once
    def means_or_parts(self) -> Array:
        """The means; for shares (channels, cases, d) `SignalTables.mean_parts`, then 0."""
        if not self._plan.request.shares:
            return self.of_signals("means")
        if self._whole is not self:
            return self._whole.means_or_parts[:, self.here]
        parts = np.zeros((len(self.tables[0].mean_parts), len(self), self.lengths[0]))
        start = 0
        for each in self.tables:
            _, d, cases = each.mean_parts.shape
            parts[:, start : start + cases, :d] = each.mean_parts.swapaxes(1, 2)
            start += cases
        return parts

    def left_cases(self, segment: slice, plan: Plan) -> np.ndarray:
        """Return `LEFT_CASE` of the cases that have a segment of a plan.

        Lengths are numbered from the longest. With biases each case has a number: sums of signals
        that are small beside biases are small too, and have grids of their own.
        """
        lengths = self._whole.lengths
        margins = 2 * plan.margin
        of_case = lengths + margins * -(-lengths // plan.segment)
        first = first_places(of_case) + segment.start + margins * (segment.start // plan.segment)
        pixels = np.minimum(lengths, segment.stop) - segment.start + margins
        length = np.arange(len(self)) if plan.biased else np.zeros(len(self), np.int64)
        if not plan.biased:
            np.cumsum(self.lengths[1:] != self.lengths[:-1], out=length[1:])
        long = np.count_nonzero(self.lengths > segment.start)
        return _records(LEFT_CASE, first[self.here][:long], pixels[self.here][:long], length[:long])

    def rows(
        self, cases: np.ndarray, counts: np.ndarray, group_rows: int, start: int,
        right: bool = True, plan: Plan | None = None, some: Any = slice(None),
    ) -> RowPlaces:  # fmt: skip
        """Return rows of some cases, `counts` for each, in the right tables or in tables of masses.

        Rows begin at the pixel `start`, and those on the left side have the offset 0. Of all rows,
        only `some` are returned.
        """
        row_case, offset = (each[some] for each in numbered(counts))
        number = len(row_case)
        filled = np.minimum(np.arange(-(-number // group_rows) * group_rows), number - 1)
        row_case, offset = row_case[filled], offset[filled] * right
        whole, width = self._whole, self._plan.width
        places = whole._place[self.here.start + cases[row_case]]
        lines, line = whole.lengths[whole._sorted] // width, width
        if self._plan.all_offsets:  # pixels follow once more
            line = 2 * width - 1
            begins, stride = first_places((2 * lines - 1) * line), 1
        else:  # cases lie side by side
            begins, stride = np.arange(len(whole)), len(whole)
        periods = lines[places]
        first = (start + offset // width - (plan or self._plan).margin) % periods
        each = _records(ROW_PLACE, row_case, begins[places], first, offset % width, periods)
        return RowPlaces(number, each, line, stride)

    def packed(self, layout: str, plan: Plan | None = None) -> FlatTables:
        """Return tables, which the first thread to ask makes: "left", "right" or masses.

        "masses" and "split masses" are for the recursion of deficits, and laid out like "right".
        """
        whole, plan = self._whole, plan or self._plan
        key = (layout, plan.margin, plan.segment) if layout == "left" else layout
        with whole._lock:
            if key not in whole._packed:
                whole._packed[key] = whole._pack(layout, plan)
            return whole._packed[key]

    def _pack(self, layout: str, plan: Plan) -> FlatTables:
        if layout.endswith("masses"):
            units, half_root, inverse, *masses = (
                self._join(self.right_layout, parts) for parts in self._masses(layout != "masses")
            )
            return FlatTables(units, half_root, inverse, np.empty(0, self._plan.dtype), *masses)
        if layout == "right":
            return self._flat_tables(self.right_layout)
        known = self._flat if plan.closed_rows else []
        return self._flat_tables(partial(self._left_layout, plan), known)

    def _unit_vectors(self) -> list[Array]:
        """Return û; or pixels' vectors, whose half squared distances are summed over a window."""
        if not self._plan.window:
            return [tables.unit_vectors for tables in self.tables]
        vectors_of_lengths: list[Array] = []
        for (scaling, signals), tables in zip(self.each_length, self.tables, strict=True):
            factor = np.sqrt(0.5 * scaling.input_scale / self._plan.taps)
            scale = np.asarray(tables.scale)
            divisors = np.where((scale > 0) & np.isfinite(scale), scale, np.inf)
            vectors = np.asarray(signals, np.float64).transpose(1, 2, 0) / divisors
            vectors_of_lengths.append(np.asarray(vectors * factor))
        return vectors_of_lengths

    def _left_layout(self, plan: Plan, table: np.ndarray) -> list[np.ndarray]:
        by_case, d = table.transpose(2, 0, 1), table.shape[1]
        if plan.closed_rows:
            return [by_case[None]]
        parts = [
            by_case[..., np.arange(part.start - plan.margin, part.stop + plan.margin) % d]
            for part in plan.segments(d)
        ]
        return [part.reshape(1, len(part), -1) for part in parts]

    def right_layout(self, table: np.ndarray) -> list[np.ndarray]:
        """Return parts whose last axes, joined, are (table, pixel, case) as in `FlatTables`."""
        if not self._plan.all_offsets:
            _, d, n = table.shape
            together = max(LINE_BYTES // table.itemsize, TOGETHER // d)  # stay in the cache
            return [table[..., cases] for cases in blocks(0, n, together)]
        if self._plan.width == 1:
            by_case = table.swapaxes(1, 2)
            return [by_case, by_case[..., :-1]]
        width, d = self._plan.width, table.shape[1]
        lines = np.arange(2 * (d // width) - 1) * width % d
        pixels = np.add.outer(lines, np.arange(2 * width - 1) % width).ravel()
        return [table[:, pixels].swapaxes(1, 2)]

    def _masses(self, split: bool) -> Iterator[tuple[Array, ...]]:
        """Return û, √(Σ/2), 1/√Σ, √(F/2), √(m/2) of inner and outer pieces and of biases.

        Tables of each length follow one another.
        """
        parts: list[tuple[Array, ...]] = []
        dtype = self._plan.dtype

        def numbers(mass: Mass) -> Sequence[Array]:
            return mass.root(dtype) if split else [mass.rounded_root]

        for scaling, signals in self.each_length:
            pixels, d = read_exactly(scaling, signals), scaling.d
            windows, features = zip(*mass_layers(scaling, pixels), strict=True)
            inner = [
                piece
                for number, before in enumerate(features[1:-1], start=2)
                for piece in pieces(before, *on_ring(scaling.inner_filter(number), d))
            ]
            outer = [
                piece
                for number, window in enumerate(windows[1:], start=1)
                for piece in pieces(window, *on_ring(scaling.outer_filter(number), d))
            ]
            biases = [
                pixels.bias.times(layer[name])
                for layer in (scaling.biases[1:] if scaling.network.bias else ())
                for name in ("bias_window", "bias_branch")
            ]
            shape = -1, d, len(signals)
            half_root, *roots = (
                np.array([part for mass in of for part in numbers(mass)]).reshape(shape)
                for of in (windows, features, inner, outer, biases)
            )
            inverse = np.array([window.inverse_root for window in windows])
            units = pixels.unit_vectors
            if split:
                high = units.astype(dtype)
                units = np.concatenate([high, units - high])
            parts.append((units, half_root, inverse, *roots))
        return zip(*parts, strict=True)

    def _flat_tables(self, layout: Layout, layers: Sequence[Array] = ()) -> FlatTables:
        """Return tables (table, pixel, case) of each length as flat arrays; `layers` if known."""
        join, none = partial(self._join, layout), np.empty(0, self._plan.dtype)
        layers = layers or [
            join(parts) for parts in zip(*(each.layers for each in self.tables), strict=True)
        ]
        half_root, inverse, lost = [*layers, none][:3]
        return FlatTables(join(self._unit_vectors()), half_root, inverse, lost)

    def _join(self, layout: Layout, parts: Sequence[Array]) -> np.ndarray:
        """Return tables of each length as one flat array, with `PADDING` around it."""
        each = [layout(np.asarray(part, self._plan.dtype)) for part in parts]
        if len(each) > 1:
            flat = [np.concatenate(some, axis=-1) for some in each]
            each = [[some.reshape(len(some), math.prod(some.shape[1:])) for some in flat]]
        (arrays,) = each
        shape = *arrays[0].shape[:-1], sum(array.shape[-1] for array in arrays)
        size = math.prod(shape)
        joined = np.zeros(size + 2 * PADDING, self._plan.dtype)[PADDING:]
        np.concatenate(arrays, axis=-1, out=joined[:size].reshape(shape))
        return joined


def _records(kind: np.dtype, *fields: np.ndarray) -> np.ndarray:
    """Return the records of whole numbers that have these fields."""
    records = np.empty(len(fields[0]), kind)
    for name, values in zip(kind.names or (), fields, strict=True):
        records[name] = values
    return records


def pieces(mass: Mass, size: int, step: int = 1, width: int = 1) -> list[Mass]:
    """Return the sums of masses, (d, cases), over the pieces of a filter (`sums.filter_sum`).

    Taps are `step` pixels apart. Each piece lies at its first pixel, and sums along the lines of
    images, which have `width` pixels, at the middle one.
    """
    window = filter_sum(size, 1 if width == 1 else 2)
    sums = [mass]
    for number, taps in enumerate(window.steps[: window.pieces].tolist()):
        along = number < window.line_steps
        single = 0 if along else window.line_steps  # the place of single taps, or of whole lines
        places = (number, 0), (taps[0] or single, taps[1]), (taps[2] or single, taps[3])
        last, second, third = (
            sums[place].shifted(tap * step * (1 if along else width), width if along else None)
            for place, tap in places
        )
        sums.append(last + (second + third))
    return sums[1:]
